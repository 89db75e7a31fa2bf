//! Moments and durations as Go reads and writes them.

use std::fmt::Write as _;

use crate::gotext::quote;

const SECOND: i128 = 1_000_000_000;

/// A moment: seconds since 1970 and the nanoseconds of the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// A form in which moments are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `2006-01-02T15:04:05Z07:00`, fractions of a second allowed.
    Rfc3339,
    /// `2006-01-02`.
    Date,
    /// `2006-01-02T15:04:05`, without a zone.
    Local,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Rfc3339 => "2006-01-02T15:04:05Z07:00",
            Self::Date => "2006-01-02",
            Self::Local => "2006-01-02T15:04:05",
        }
    }
}

/// Reads a moment; the error is the sentence of `time.Parse`.
pub(crate) fn parse_time(text: &str, layout: Layout) -> Result<Moment, String> {
    parse_zoned(text, layout).map(|(moment, _)| moment)
}

/// Reads a moment and the seconds its zone is east of Greenwich.
pub(crate) fn parse_zoned(text: &str, layout: Layout) -> Result<(Moment, i64), String> {
    let mut reader = Reader { whole: text, rest: text, layout };
    let year = reader.number(4, "2006")?;
    reader.literal("-")?;
    let month = reader.number(2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(reader.out_of_range("month"));
    }
    reader.literal("-")?;
    let day = reader.number(2, "02")?;
    let (mut hour, mut minute, mut second, mut nanos, mut offset) = (0, 0, 0, 0, 0);
    if layout != Layout::Date {
        reader.literal("T")?;
        hour = reader.hour()?;
        if hour > 23 {
            return Err(reader.out_of_range("hour"));
        }
        reader.literal(":")?;
        minute = reader.number(2, "04")?;
        if minute > 59 {
            return Err(reader.out_of_range("minute"));
        }
        reader.literal(":")?;
        second = reader.number(2, "05")?;
        if second > 59 {
            return Err(reader.out_of_range("second"));
        }
        nanos = reader.fraction();
        if layout == Layout::Rfc3339 {
            offset = reader.zone()?;
        }
    }
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(reader.rest)));
    }
    if day < 1 || day > days_in_month(year, month) {
        return Err(reader.out_of_range("day"));
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Ok((Moment { seconds, nanos }, offset))
}

struct Reader<'t> {
    whole: &'t str,
    rest: &'t str,
    layout: Layout,
}

impl Reader<'_> {
    fn cannot(&self, rest: &str, element: &str) -> String {
        let (whole, layout) = (quote(self.whole), self.layout.text());
        format!("parsing time {whole} as \"{layout}\": cannot parse {} as \"{element}\"", quote(rest))
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.whole))
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, String> {
        let there = self.rest.bytes().take(digits).filter(u8::is_ascii_digit).count();
        if there < digits || !self.rest.as_bytes()[..digits].iter().all(u8::is_ascii_digit) {
            return Err(self.cannot(self.rest, element));
        }
        let number = self.rest[..digits].parse().unwrap_or(0);
        self.rest = &self.rest[digits..];
        Ok(number)
    }

    /// Hours may have one digit.
    fn hour(&mut self) -> Result<i64, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.cannot(self.rest, "15"));
        }
        self.number(digits, "15")
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot(self.rest, text)),
        }
    }

    fn fraction(&mut self) -> u32 {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return 0;
        }
        let mut nanos = 0_u32;
        for place in 0..9 {
            nanos =
                nanos * 10 + rest.as_bytes()[..digits].get(place).map_or(0, |digit| u32::from(digit - b'0'));
        }
        self.rest = &rest[digits..];
        nanos
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let start = self.rest;
        let bytes = start.as_bytes();
        let digits = |range: std::ops::Range<usize>| {
            start
                .get(range)
                .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|part| part.parse::<i64>().ok())
        };
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.cannot(start, "Z07:00")),
        };
        let (Some(hours), Some(b':'), Some(minutes)) = (digits(1..3), bytes.get(3), digits(4..6)) else {
            return Err(self.cannot(start, "Z07:00"));
        };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &start[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March, so that the leap day is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date a number of days after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The parts of a moment on the clock of one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// The day of the year, from 1.
    pub year_day: i64,
    /// The day of the week, Sunday is 0.
    pub weekday: i64,
    /// The hour.
    pub hour: i64,
    /// The minute.
    pub minute: i64,
    /// The second.
    pub second: i64,
}

impl Moment {
    /// The parts of this moment, `offset` seconds east of Greenwich.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let local = self.seconds.saturating_add(offset);
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            year_day: days - days_since_epoch(year, 1, 1) + 1,
            weekday: (days + 4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }

    /// RFC 3339 in UTC with as many fractional digits as it needs.
    pub(crate) fn text(self) -> String {
        self.zoned_text(0)
    }

    /// RFC 3339 in the zone `offset` seconds east of Greenwich, with as many fractional digits as it needs.
    pub(crate) fn zoned_text(self, offset: i64) -> String {
        let Civil { year, month, day, hour, minute, second, .. } = self.civil(offset);
        let mut out = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            let _ = write!(out, ".{}", digits.trim_end_matches('0'));
        }
        let minutes = offset / 60;
        if minutes == 0 {
            out.push('Z');
        } else {
            let sign = if minutes < 0 { '-' } else { '+' };
            let _ = write!(out, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60);
        }
        out
    }

    /// RFC 3339 in UTC with whole seconds.
    pub(crate) fn seconds_text(self) -> String {
        let Civil { year, month, day, hour, minute, second, .. } = self.civil(0);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Nanoseconds since 1970.
    pub(crate) fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * SECOND + i128::from(self.nanos)
    }

    /// The moment this many nanoseconds after 1970.
    pub(crate) fn from_nanos(nanos: i128) -> Option<Self> {
        let seconds = i64::try_from(nanos.div_euclid(SECOND)).ok()?;
        Some(Self { seconds, nanos: u32::try_from(nanos.rem_euclid(SECOND)).ok()? })
    }
}

/// Reads a duration such as `1h30m`, in nanoseconds; the error is the sentence of `time.ParseDuration`.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let whole_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole =
            if whole_digits == 0 { 0 } else { rest[..whole_digits].parse::<u64>().map_err(|_| invalid())? };
        rest = &rest[whole_digits..];
        let mut fraction = "";
        let mut dot = false;
        if let Some(after) = rest.strip_prefix('.') {
            dot = true;
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            fraction = &after[..digits];
            rest = &after[digits..];
        }
        if whole_digits == 0 && (!dot || fraction.is_empty()) {
            return Err(invalid());
        }
        let unit_length = rest.find(|one: char| one == '.' || one.is_ascii_digit()).unwrap_or(rest.len());
        let unit = &rest[..unit_length];
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        rest = &rest[unit_length..];
        let nanos: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text))),
        };
        total += u128::from(whole) * nanos + fraction_of(fraction, nanos);
        if total > 1 << 63 {
            return Err(invalid());
        }
    }
    let total = i128::try_from(total).unwrap_or(i128::MAX);
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

fn fraction_of(digits: &str, unit: u128) -> u128 {
    // More digits than a unit has nanoseconds make no difference.
    let used = &digits[..digits.len().min(18)];
    let scale = 10_u128.pow(u32::try_from(used.len()).unwrap_or(0));
    used.parse::<u128>().map_or(0, |value| value * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_written() {
        let read = |text| parse_time(text, Layout::Rfc3339);
        assert_eq!(read("2020-01-01T00:00:00+02:00").unwrap().text(), "2019-12-31T22:00:00Z");
        assert_eq!(read("1969-12-31T23:59:59.5Z").unwrap().text(), "1969-12-31T23:59:59.5Z");
        assert_eq!(read("2024-02-29T1:02:03Z").unwrap().civil(0).year_day, 60);
        assert_eq!(
            read("zz").unwrap_err(),
            "parsing time \"zz\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"zz\" as \"2006\""
        );
        assert_eq!(
            read("2023-02-29T00:00:00Z").unwrap_err(),
            "parsing time \"2023-02-29T00:00:00Z\": day out of range"
        );
        assert!(read("2023-02-2éT00:00:00Z").unwrap_err().contains("cannot parse"));
        assert_eq!(parse_time("2023-02-28", Layout::Date).unwrap().seconds, 1_677_542_400);
    }

    #[test]
    fn durations_are_read() {
        for (text, nanos) in [
            ("1h", 3_600_000_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("1ms2us", 1_002_000),
            ("0", 0),
            ("1m0.5s", 60_500_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos));
        }
        assert_eq!(parse_duration("1"), Err("time: missing unit in duration \"1\"".to_owned()));
        assert_eq!(parse_duration("1y"), Err("time: unknown unit \"y\" in duration \"1y\"".to_owned()));
        assert_eq!(parse_duration(""), Err("time: invalid duration \"\"".to_owned()));
    }
}
