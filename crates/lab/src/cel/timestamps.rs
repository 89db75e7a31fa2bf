//! Moments and lengths of time in expressions.

use crate::gotime::{self, Civil, Layout, Moment};

use super::value::{Failure, Result, Timestamp, Val};

/// The first and the last second there is: years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

pub(crate) fn second_in_range(second: i64) -> bool {
    SECONDS.contains(&second)
}

pub(crate) fn in_range(moment: &Moment) -> bool {
    second_in_range(moment.seconds)
}

fn overflow() -> Failure {
    Failure::new("timestamp overflow")
}

/// The moment so many nanoseconds later.
pub(crate) fn after<'a>(at: Timestamp, nanos: i128) -> Result<'a, Timestamp> {
    let moment = Moment::from_nanos(at.moment.total_nanos() + nanos).filter(in_range).ok_or_else(overflow)?;
    Ok(Timestamp { moment, offset: at.offset })
}

pub(crate) fn of_second<'a>(second: i64) -> Result<'a> {
    if !second_in_range(second) {
        return Err(overflow());
    }
    Ok(Val::Timestamp(Timestamp { moment: Moment { seconds: second, nanos: 0 }, offset: 0 }))
}

/// Reads a moment; none when the text is none.
pub(crate) fn of_text<'a>(text: &str) -> Option<Result<'a>> {
    let (moment, offset) = gotime::parse_zoned(text, Layout::Rfc3339).ok()?;
    Some(if in_range(&moment) { Ok(Val::Timestamp(Timestamp { moment, offset })) } else { Err(overflow()) })
}

/// A length of time in seconds, such as `1.5s`.
#[expect(clippy::cast_precision_loss, reason = "that is how it is written")]
pub(crate) fn seconds_text(nanos: i64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    format!("{}s", whole as f64 + rest as f64 / 1e9)
}

/// One part of a moment, on the clock of a zone if one is given.
pub(crate) fn part<'a>(function: &str, at: Timestamp, zone: Option<&str>) -> Result<'a> {
    let offset = match zone {
        Some(zone) => zone_offset(zone, at.moment)?,
        None => at.offset,
    };
    let Civil { year, month, day, year_day, weekday, hour, minute, second } = at.moment.civil(offset);
    Ok(Val::Int(match function {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDayOfYear" => year_day - 1,
        "getDate" => day,
        "getDayOfMonth" => day - 1,
        "getDayOfWeek" => weekday,
        "getHours" => hour,
        "getMinutes" => minute,
        "getSeconds" => second,
        "getMilliseconds" => i64::from(at.moment.nanos / 1_000_000),
        _ => return Err(Failure::no_overload()),
    }))
}

/// One part of a length of time.
pub(crate) fn duration_part<'a>(function: &str, nanos: i64) -> Result<'a> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return Err(Failure::no_overload()),
    };
    Ok(Val::Int(nanos / unit))
}

/// How far east of Greenwich a zone is at some moment.
fn zone_offset<'a>(zone: &str, at: Moment) -> Result<'a, i64> {
    let Some((hours, minutes)) = zone.split_once(':') else { return named_offset(zone, at) };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    Ok(hours.saturating_mul(60).saturating_add(minutes).saturating_mul(60))
}

fn number<'a>(text: &str) -> Result<'a, i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let problem =
        |why: &str| Failure::new(format!("strconv.Atoi: parsing {}: {why}", crate::gotext::quote(text)));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(problem("invalid syntax"));
    }
    text.parse().map_err(|_| problem("value out of range"))
}

fn named_offset<'a>(zone: &str, at: Moment) -> Result<'a, i64> {
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) || zone.contains('\\') {
        return Err(Failure::new("time: invalid location name"));
    }
    let unknown = || Failure::new(format!("unknown time zone {zone}"));
    let found = jiff::tz::TimeZone::get(zone).map_err(|_| unknown())?;
    let moment = jiff::Timestamp::from_second(at.seconds).map_err(|_| unknown())?;
    Ok(i64::from(found.to_offset(moment).seconds()))
}
