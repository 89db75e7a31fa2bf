//! How long ago something was, in as few letters as possible.

use jiff::{SignedDuration, Timestamp};

/// How long ago a moment is; `<unknown>` when there is none.
pub(super) fn since(moment: &str, now: Timestamp) -> String {
    match moment.parse::<Timestamp>() {
        Ok(then) => human_duration(now.duration_since(then)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration with two or three significant figures: `5m3s`, `3h`, `2d4h`; `<invalid>` for negative ones.
pub(crate) fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let with = |large: i64, unit: char, small: i64, sub: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{sub}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}
