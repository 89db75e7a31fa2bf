//! Words for times and numbers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How long ago something was, as short as in other tools: `40s`, `5m`, `3h`, `2d`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// What is left until a deadline: `2 min left`, or `3 min late`.
pub(crate) fn left(deadline: Timestamp, now: Timestamp) -> String {
    let left = deadline.duration_since(now);
    let word = if left.is_negative() { "late" } else { "left" };
    format!("{} {word}", span(left.abs()))
}

/// A stretch of time, roughly: `40 s`, `2 min`, `3 h`.
pub(crate) fn span(span: SignedDuration) -> String {
    match span.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", (seconds + 30) / 60),
        seconds @ 6000..180_000 => format!("{} h", (seconds + 1800) / 3600),
        seconds => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

/// A stretch of time as people write it on the command line: `90s`, `10m`, `1h`, or seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write it like 90s, 10m or 1h30m");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest.get(..end).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        let after = rest.get(end..).unwrap_or_default();
        let unit = after.chars().next().ok_or_else(wrong)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let more = number.checked_mul(seconds).ok_or_else(wrong)?;
        total = total.checked_add(more).ok_or_else(wrong)?;
        rest = after.get(unit.len_utf8()..).unwrap_or_default();
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs(total)) }
}

/// The names closest to one that is not there: ` did you mean …?`, or nothing.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut close: Vec<(f64, &str)> = names
        .into_iter()
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    close.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.cmp(b)));
    let close: Vec<String> = close.into_iter().take(3).map(|(_, name)| name.to_owned()).collect();
    if close.is_empty() { String::new() } else { format!("; did you mean {}?", close.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn ages_are_short() {
        for (seconds, text) in
            [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (200_000, "2d")]
        {
            assert_eq!(age(at(0), at(seconds)), text);
        }
        assert_eq!(age(at(5), at(0)), "0s", "clocks differ");
    }

    #[test]
    fn what_is_left_is_said_roughly_and_lateness_is_said() {
        for (seconds, text) in [
            (40, "40 s left"),
            (125, "2 min left"),
            (0, "0 s left"),
            (-200, "3 min late"),
            (7200, "2 h left"),
            (400_000, "5 d left"),
        ] {
            assert_eq!(left(at(seconds), at(0)), text);
        }
    }

    #[test]
    fn durations_are_read() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "m", "-5s", "10x", "1h30", "99999999999999999999s", "1.5h", "5mé", "18446744073709551615d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn close_names_are_offered() {
        let names = ["workers", "masters", "workers-b"];
        assert_eq!(did_you_mean("worker", names), "; did you mean workers or workers-b?");
        assert_eq!(did_you_mean("zzz", names), "");
    }
}
