//! Moments and durations between their text and their numbers.

use jiff::Timestamp;

/// A moment of whole seconds as RFC 3339.
pub(super) fn second_text(seconds: i64) -> Option<String> {
    Timestamp::from_second(seconds).ok().map(crate::clock::seconds)
}

/// A moment with microseconds as RFC 3339.
pub(super) fn micro_text(seconds: i64, nanos: i32) -> Option<String> {
    let at = Timestamp::from_second(seconds).ok()?;
    let at = at.checked_add(jiff::SignedDuration::from_nanos(i64::from(nanos - nanos % 1000))).ok()?;
    Some(crate::clock::micros(at))
}

/// Seconds since 1970 and the microseconds in nanoseconds.
pub(super) fn seconds_and_nanos(text: &str) -> Option<(i64, i32)> {
    let at: Timestamp = text.parse().ok()?;
    let mut seconds = at.as_second();
    let mut nanos = at.subsec_nanosecond();
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    Some((seconds, nanos - nanos % 1000))
}

/// A duration as Go writes it: `1h0m0s`, `1.5s`, `20ms`.
pub(super) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    if total < 1_000_000_000 {
        return match total {
            0 => "0s".to_owned(),
            1..1_000 => format!("{sign}{total}ns"),
            1_000..1_000_000 => format!("{sign}{}µs", decimal(total, 1_000)),
            _ => format!("{sign}{}ms", decimal(total, 1_000_000)),
        };
    }
    let minutes = total / 60_000_000_000;
    let seconds = decimal(total % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// A quotient by a power of ten without trailing zeros.
fn decimal(value: u64, by: u64) -> String {
    let whole = value / by;
    let rest = value % by;
    if rest == 0 {
        return whole.to_string();
    }
    let digits = by.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

/// The nanoseconds of a duration in the notation of Go.
pub(super) fn duration_nanos(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || number.len() > 24 {
            return None;
        }
        let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
        let fraction_digits = u32::try_from(fraction.len()).ok()?;
        total = total.checked_add(digits(whole)?.checked_mul(scale)?)?;
        total = total
            .checked_add(digits(fraction)?.checked_mul(scale)? / 10_i128.checked_pow(fraction_digits)?)?;
        rest = tail;
    }
    if text.is_empty() {
        return None;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (1_500_000_000, "1.5s"),
            (61_000_000_000, "1m1s"),
            (3_600_000_000_000, "1h0m0s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MAX, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(duration_text(nanos), text);
            assert_eq!(duration_nanos(text), Some(nanos));
        }
        for bad in ["", "1", "1x", ".s", "--1s", "99999999999999999999h"] {
            assert_eq!(duration_nanos(bad), None, "{bad}");
        }
    }

    #[test]
    fn moments_before_1970_count_forward() {
        assert_eq!(seconds_and_nanos("1969-12-31T23:59:59.500000Z"), Some((-1, 500_000_000)));
        assert_eq!(micro_text(-1, 500_000_999).as_deref(), Some("1969-12-31T23:59:59.500000Z"));
        assert_eq!(second_text(i64::MAX), None);
    }
}
