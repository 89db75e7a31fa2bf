//! Moments as the API reads and writes them.

use super::words::time_quoted;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads a moment and writes it in UTC with seconds, or with microseconds (`micro`); none for the zero moment.
/// The failure is the message.
pub(super) fn normal(text: &str, micro: bool) -> Result<Option<String>, String> {
    let mut reading = Reading { all: text, rest: text, layout: if micro { MICROS } else { SECONDS } };
    let year = reading.year()?;
    reading.literal("-")?;
    let month = reading.number("01", true, 1..13, "month")?;
    reading.literal("-")?;
    let day = reading.number("02", true, 0..100, "")?;
    reading.literal("T")?;
    let hour = reading.number("15", false, 0..24, "hour")?;
    reading.literal(":")?;
    let minute = reading.number("04", true, 0..60, "minute")?;
    reading.literal(":")?;
    let second = reading.number("05", true, 0..60, "second")?;
    let micros = if micro { reading.six_digits()? } else { reading.any_fraction() };
    let offset = reading.zone()?;
    if !reading.rest.is_empty() {
        return Err(reading.message(&format!(": extra text: {}", time_quoted(reading.rest))));
    }
    if day < 1 || day > days_in(year, month) {
        return Err(reading.message(": day out of range"));
    }
    let seconds =
        days_from_civil(year, month, day) * 86_400 + i64::from(hour * 3600 + minute * 60 + second) - offset;
    Ok(written(seconds, micros, micro))
}

/// The zero moment of Go: the start of the year 1.
const ZERO: i64 = -62_135_596_800;

fn written(seconds: i64, micros: u32, micro: bool) -> Option<String> {
    if seconds == ZERO && (micros == 0 || !micro) {
        return None;
    }
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    Some(if micro { format!("{date}.{micros:06}Z") } else { format!("{date}Z") })
}

struct Reading<'a> {
    all: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Reading<'a> {
    fn message(&self, what: &str) -> String {
        format!("parsing time {}{what}", time_quoted(self.all))
    }

    fn cannot(&self, rest: &str, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            time_quoted(self.all),
            time_quoted(self.layout),
            time_quoted(rest),
            time_quoted(element)
        )
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.cannot(self.rest, text))?;
        Ok(())
    }

    /// The first `count` bytes when they are digits, and what is behind them.
    fn digits(rest: &'a str, count: usize) -> Option<(u32, &'a str)> {
        let digits = rest.get(..count)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some((digits.parse().ok()?, &rest[count..]))
    }

    fn year(&mut self) -> Result<i64, String> {
        let (year, rest) = Self::digits(self.rest, 4).ok_or_else(|| self.cannot(self.rest, "2006"))?;
        self.rest = rest;
        Ok(year.into())
    }

    /// One or two digits; two when `fixed`.
    fn number(
        &mut self,
        element: &str,
        fixed: bool,
        range: std::ops::Range<u32>,
        name: &str,
    ) -> Result<u32, String> {
        let found = Self::digits(self.rest, 2)
            .or_else(|| if fixed { None } else { Self::digits(self.rest, 1) })
            .ok_or_else(|| self.cannot(self.rest, element))?;
        self.rest = found.1;
        if range.contains(&found.0) {
            Ok(found.0)
        } else {
            Err(self.message(&format!(": {name} out of range")))
        }
    }

    /// A fraction nobody asked for is read and forgotten.
    fn any_fraction(&mut self) -> u32 {
        let bytes = self.rest.as_bytes();
        if let [b'.' | b',', digit, ..] = bytes
            && digit.is_ascii_digit()
        {
            let length = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.rest = &self.rest[1 + length..];
        }
        0
    }

    fn six_digits(&mut self) -> Result<u32, String> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| Self::digits(rest, 6));
        let (micros, rest) = digits.ok_or_else(|| self.cannot(self.rest, ".000000"))?;
        self.rest = rest;
        Ok(micros)
    }

    /// The seconds ahead of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let cannot = self.cannot(self.rest, "Z07:00");
        let ahead = match self.rest.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(cannot),
        };
        let (hours, rest) = Self::digits(&self.rest[1..], 2).ok_or_else(|| cannot.clone())?;
        let rest = rest.strip_prefix(':').ok_or_else(|| cannot.clone())?;
        let (minutes, rest) = Self::digits(rest, 2).ok_or(cannot)?;
        if hours > 24 {
            return Err(self.message(": time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.message(": time zone offset minute out of range"));
        }
        self.rest = rest;
        Ok(ahead * i64::from(hours * 3600 + minutes * 60))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. The year starts in March here, so that the odd day is at its end.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        let seconds = |text: &str| normal(text, false).unwrap();
        assert_eq!(seconds("2024-02-29T23:30:00-02:00").as_deref(), Some("2024-03-01T01:30:00Z"));
        assert_eq!(seconds("2024-01-01T1:02:03.999Z").as_deref(), Some("2024-01-01T01:02:03Z"));
        assert_eq!(seconds("1969-12-31T23:59:59Z").as_deref(), Some("1969-12-31T23:59:59Z"));
        assert_eq!(seconds("0001-01-01T00:00:00Z"), None);
        let micros = normal("2024-01-01T00:00:00.123456+01:00", true).unwrap();
        assert_eq!(micros.as_deref(), Some("2023-12-31T23:00:00.123456Z"));
    }

    #[test]
    fn wrong_moments_are_told_in_the_words_of_the_real_server() {
        for (text, micro, expected) in [
            (
                "abc",
                false,
                r#"parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006""#,
            ),
            (
                "2024-01-01",
                false,
                r#"parsing time "2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2024-13-01T00:00:00Z", false, r#"parsing time "2024-13-01T00:00:00Z": month out of range"#),
            ("2023-02-29T00:00:00Z", false, r#"parsing time "2023-02-29T00:00:00Z": day out of range"#),
            ("2023-02-20T00:00:00Zx", false, r#"parsing time "2023-02-20T00:00:00Zx": extra text: "x""#),
            (
                "2024-01-01T00:00:00Z",
                true,
                concat!(
                    r#"parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": "#,
                    r#"cannot parse "Z" as ".000000""#
                ),
            ),
        ] {
            assert_eq!(normal(text, micro), Err(expected.to_owned()), "{text}");
        }
    }
}
