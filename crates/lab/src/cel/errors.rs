//! What is wrong with an expression, shown with the line it is in.

use std::fmt::Write as _;

/// A complaint about one place of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The character it is about; none when it is about the whole.
    pub(crate) at: Option<u32>,
    pub(crate) message: String,
}

/// All complaints about an expression.
#[derive(Debug, Default)]
pub(crate) struct Complaints(pub(crate) Vec<Complaint>);

/// More complaints are counted, not shown.
const SHOWN: usize = 100;

impl Complaints {
    pub(crate) fn add(&mut self, at: u32, message: impl Into<String>) {
        self.0.push(Complaint { at: Some(at), message: message.into() });
    }

    pub(crate) fn about_whole(&mut self, message: impl Into<String>) {
        self.0.push(Complaint { at: None, message: message.into() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The complaints in the order of their places, each with its line and a mark below.
    pub(crate) fn show(mut self, source: &[char]) -> String {
        self.0.sort_by_key(|complaint| complaint.at);
        let more = self.0.len().saturating_sub(SHOWN);
        let mut shown: Vec<String> =
            self.0.iter().take(SHOWN).map(|complaint| complaint.show(source)).collect();
        if more > 0 {
            shown.push(format!("{more} more errors were truncated"));
        }
        shown.join("\n")
    }
}

impl Complaint {
    fn show(&self, source: &[char]) -> String {
        let message = &self.message;
        let Some(at) = self.at else { return format!("ERROR: <input>:-1:0: {message}") };
        let at = (at as usize).min(source.len());
        let line_number = source[..at].iter().filter(|one| **one == '\n').count() + 1;
        let start = source[..at].iter().rposition(|one| *one == '\n').map_or(0, |place| place + 1);
        let end =
            source[start..].iter().position(|one| *one == '\n').map_or(source.len(), |length| start + length);
        let column = at - start;
        let mut out = format!("ERROR: <input>:{line_number}:{}: {message}", column + 1);
        let line: String =
            source[start..end].iter().map(|one| if *one == '\t' { ' ' } else { *one }).collect();
        if line.len() <= 16_384 && !source.is_empty() {
            let mark = |one: Option<&char>, narrow: char, wide: char| match one {
                Some(one) if one.len_utf8() > 1 => wide,
                _ => narrow,
            };
            let dots: String = source[start..at].iter().map(|one| mark(Some(one), '.', '\u{ff0e}')).collect();
            let _ = write!(
                out,
                "\n | {line}\n | {dots}{}",
                mark(source.get(at).filter(|one| **one != '\n'), '^', '\u{ff3e}')
            );
        }
        out
    }
}
