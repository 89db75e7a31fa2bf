//! Schedules in the notation of cron.

/// What is wrong with a schedule, in the words of the real server.
///
/// # Errors
///
/// The first thing that is wrong.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (zone, after) = schedule
            .split_once(' ')
            .ok_or_else(|| "invalid schedule format: runtime error: slice bounds out of range".to_owned())?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !is_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let bounds: [(u64, u64, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
    for (field, (low, high, names)) in fields.iter().zip(bounds) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, low, high, names)?;
        }
    }
    Ok(())
}

/// True for a time zone that is known here.
pub(super) fn is_zone(name: &str) -> bool {
    name.is_empty() || name == "UTC" || name == "Local" || jiff::tz::TimeZone::get(name).is_ok()
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match text.strip_prefix("@every ") {
            Some(duration) => duration_error(duration)
                .map_or(Ok(()), |error| Err(format!("failed to parse duration {text}: {error}"))),
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

/// What is wrong with a duration in the notation of Go.
fn duration_error(text: &str) -> Option<String> {
    let invalid = || Some(format!("time: invalid duration {text:?}"));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) || number.matches('.').count() > 1 {
            return invalid();
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        if unit.is_empty() {
            return Some(format!("time: missing unit in duration {text:?}"));
        }
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return Some(format!("time: unknown unit {unit:?} in duration {text:?}"));
        }
        rest = next;
    }
    None
}

fn number(text: &str, first: u64, names: &[&str]) -> Result<u64, String> {
    let small = text.to_lowercase();
    if let Some(place) = names.iter().position(|name| *name == small) {
        return Ok(first + place as u64);
    }
    integer(text)
}

fn integer(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => {
            u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
        }
        Err(error) => {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let why = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
        }
    }
}

fn range(part: &str, low: u64, high: u64, names: &[&str]) -> Result<(), String> {
    let steps: Vec<&str> = part.split('/').collect();
    let ends: Vec<&str> = steps[0].split('-').collect();
    let (mut start, mut end) = (low, high);
    if ends[0] != "*" && ends[0] != "?" {
        start = number(ends[0], low, names)?;
        end = match ends.as_slice() {
            [_] => start,
            [_, last] => number(last, low, names)?,
            _ => return Err(format!("too many hyphens: {part}")),
        };
    }
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = integer(step)?;
            if ends.len() == 1 {
                end = high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {part}")),
    };
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_refused_in_the_words_of_the_real_server() {
        for good in ["* * * * *", "*/5 0-4,8 1 jan,FEB mon-fri", "@hourly", "@every 1h30m", "?/2 * * * 0"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@foo", "unrecognized descriptor: @foo"),
        ] {
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
