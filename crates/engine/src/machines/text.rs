//! Words for people that stay the same while nothing happens: moments instead of what is left, steps instead of
//! every percent. A status that changed with every look would be a write with every look.

use jiff::{SignedDuration, Timestamp};

/// A moment, to the minute.
pub(super) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M UTC").to_string()
}

/// How far something is, in steps of five percent.
pub(super) fn progress(percent: Option<u8>) -> String {
    percent.map(|percent| format!(", {} %", percent.min(100) / 5 * 5)).unwrap_or_default()
}

/// A moment so much later; the end of time when that is beyond it.
pub(super) fn after(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// The first few of some names, and how many more there are.
pub(super) fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text = format!("{text} and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_moves_in_steps_of_five() {
        assert_eq!(progress(Some(43)), ", 40 %");
        assert_eq!(progress(Some(44)), progress(Some(40)));
        assert_eq!(progress(Some(255)), ", 100 %");
        assert_eq!(progress(None), "");
    }

    #[test]
    fn the_end_of_time_is_no_failure() {
        assert_eq!(after(Timestamp::MAX, SignedDuration::from_secs(5)), Timestamp::MAX);
    }

    #[test]
    fn long_lists_are_cut() {
        let names = ["a", "b", "c", "d", "e"].map(String::from);
        assert_eq!(some_of(&names[..2]), "a, b");
        assert_eq!(some_of(&names), "a, b, c and 2 more");
    }
}
