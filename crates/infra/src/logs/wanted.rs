//! Which part of a log somebody wants.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use super::lines::Line;

/// What cannot be asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum WantedError {
    /// A number was expected.
    #[error("{name}: {value:?} is no number")]
    Number {
        /// The parameter.
        name: String,
        /// What it is.
        value: String,
    },
    /// A time was expected.
    #[error("sinceTime: {0:?} is no time")]
    Time(String),
}

/// Which part of a log somebody wants, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    /// Also what is still to come.
    pub(super) follow: bool,
    /// That of the run before.
    pub(super) previous: bool,
    /// Each line with its time.
    pub(super) timestamps: bool,
    /// Only the last lines.
    pub(super) tail: Option<usize>,
    /// Only so many bytes.
    pub(super) limit: Option<usize>,
    /// Only what is not older.
    pub(super) since: Option<Timestamp>,
}

impl Wanted {
    /// Reads the query of a request.
    pub(super) fn read(query: &str, now: Timestamp) -> Result<Self, WantedError> {
        let mut wanted = Self::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let number = || {
                let parsed = value.parse::<u32>().ok();
                parsed.ok_or_else(|| WantedError::Number { name: name.to_owned(), value: value.to_owned() })
            };
            match name {
                "follow" => wanted.follow = value == "true",
                "previous" => wanted.previous = value == "true",
                "timestamps" => wanted.timestamps = value == "true",
                "tailLines" => wanted.tail = usize::try_from(number()?).ok(),
                "limitBytes" => wanted.limit = usize::try_from(number()?).ok(),
                "sinceSeconds" => {
                    let ago = SignedDuration::from_secs(i64::from(number()?));
                    wanted.since = now.checked_sub(ago).ok();
                }
                "sinceTime" => {
                    let time = value.replace("%3A", ":").replace("%2B", "+");
                    wanted.since = Some(time.parse().map_err(|_| WantedError::Time(time))?);
                }
                _ => {}
            }
        }
        Ok(wanted)
    }

    /// Lines as they are sent.
    pub(super) fn written(&self, lines: &[Line]) -> String {
        lines.iter().fold(String::new(), |mut text, line| {
            if self.timestamps {
                // Writing to a string does not fail.
                let _ = write!(text, "{:.9} ", line.at);
            }
            text.push_str(&line.text);
            text.push('\n');
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_what_is_wanted() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let wanted = Wanted::read("follow=true&tailLines=2&sinceSeconds=60&timestamps=true", now).unwrap();
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(
            wanted,
            Wanted { follow: true, timestamps: true, tail: Some(2), since: Some(since), ..Wanted::default() }
        );
        let line = Line { at: since, text: "begins".to_owned() };
        assert_eq!(wanted.written(&[line]), "2026-01-01T00:00:00.000000000Z begins\n");
        assert!(Wanted::read("tailLines=x", now).is_err() && Wanted::read("sinceTime=x", now).is_err());
        let at = Wanted::read("sinceTime=2026-01-01T00%3A00%3A00Z", now).unwrap();
        assert_eq!(at.since, Some(since));
    }
}
