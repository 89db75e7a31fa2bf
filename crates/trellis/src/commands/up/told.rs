//! How progress is told: a bar on a terminal, lines in a pipe, and words for the process that waits for us.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::Format;
use crate::exit::Failure;
use crate::live::{Bar, Screen};
use crate::output::{Output, remark};

/// A step on the way to a tenant cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The infra cluster is started.
    Infra,
    /// What the controllers read is put onto it.
    Demo,
    /// What the machines need is made.
    Preparing,
    /// The control plane comes up.
    Bootstrapping,
    /// The other machines come up.
    Growing,
    /// All nodes are heard of.
    Nodes,
    /// Everything is there.
    Complete,
}

impl Step {
    /// All of them, in order.
    const ALL: [Self; 7] = [
        Self::Infra,
        Self::Demo,
        Self::Preparing,
        Self::Bootstrapping,
        Self::Growing,
        Self::Nodes,
        Self::Complete,
    ];

    /// The step in which a tenant cluster is that says this reason.
    pub(super) fn of_reason(reason: &str) -> Option<Self> {
        match reason {
            "Preparing" => Some(Self::Preparing),
            "Bootstrapping" => Some(Self::Bootstrapping),
            "Growing" => Some(Self::Growing),
            _ => None,
        }
    }

    fn number(self) -> u32 {
        Self::ALL
            .iter()
            .position(|step| *step == self)
            .and_then(|at| u32::try_from(at).ok())
            .unwrap_or_default()
    }

    fn by_number(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied()
    }
}

/// A word to the process that waits for one in the background, or from it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    /// How far it is.
    Progress(Step, String),
    /// It is there; what there is to know of it.
    Ready(Value),
    /// It has given up.
    Failed(String),
}

impl Word {
    fn line(&self) -> String {
        match self {
            Self::Progress(step, said) => json!({"step": step.number(), "said": said}),
            Self::Ready(ready) => json!({"ready": ready}),
            Self::Failed(why) => json!({"failed": why}),
        }
        .to_string()
    }

    /// What a line says; nothing where it is none of ours.
    pub(super) fn read(line: &str) -> Option<Self> {
        let mut line: Value = serde_json::from_str(line).ok()?;
        if let Some(why) = line["failed"].as_str() {
            return Some(Self::Failed(why.to_owned()));
        }
        if line["ready"].is_object() {
            return Some(Self::Ready(line["ready"].take()));
        }
        let step = line["step"].as_u64().and_then(Step::by_number)?;
        Some(Self::Progress(step, line["said"].as_str()?.to_owned()))
    }
}

/// Whom progress is told.
#[derive(Debug)]
enum To {
    /// Somebody at a terminal.
    Terminal(Screen),
    /// Whoever reads standard error.
    Pipe,
    /// A program that waits for the result.
    Nobody,
    /// The process that waits for us on standard output; and the log.
    Parent,
}

/// Where progress is told.
#[derive(Debug)]
pub(super) struct Told {
    began: Instant,
    to: To,
    last: String,
}

impl Told {
    /// Tells people, if it is people that are to be told.
    pub(super) fn people(output: Output) -> Self {
        let to = match output.format {
            Format::Json => To::Nobody,
            Format::Human if io::stdout().is_terminal() => To::Terminal(Screen::new(output)),
            Format::Human => To::Pipe,
        };
        Self { began: Instant::now(), to, last: String::new() }
    }

    /// Tells the process that waits for us.
    pub(super) fn parent() -> Self {
        Self { began: Instant::now(), to: To::Parent, last: String::new() }
    }

    /// How long it has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Says how far it is, if that is news.
    pub(super) fn say(&mut self, step: Step, said: &str) -> Result<(), Failure> {
        if said == self.last {
            return Ok(());
        }
        said.clone_into(&mut self.last);
        let line = format!("{:6.1} s  {said}", self.elapsed().as_secs_f64());
        match &mut self.to {
            To::Nobody => {}
            To::Pipe => remark(&format!("{line}\n"))?,
            To::Terminal(screen) => {
                screen.say(&line)?;
                let of = Step::Complete.number();
                if step < Step::Complete {
                    let bar = Bar { name: "trellis up", done: step.number(), of, said };
                    screen.progress(&bar, &[])?;
                }
            }
            To::Parent => {
                remark(&format!("{line}\n"))?;
                self.word(&Word::Progress(step, said.to_owned()));
            }
        }
        Ok(())
    }

    /// Says something to the process that waits for us, if one does.
    pub(super) fn word(&self, word: &Word) {
        if matches!(self.to, To::Parent) {
            let mut out = io::stdout().lock();
            // It need not wait any more.
            let _ = writeln!(out, "{}", word.line()).and_then(|()| out.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        for word in [
            Word::Progress(Step::Growing, "4 of 5".to_owned()),
            Word::Ready(json!({"seconds": 1.5})),
            Word::Failed("no".to_owned()),
        ] {
            assert_eq!(Word::read(&word.line()), Some(word));
        }
        assert_eq!(Word::read("something else"), None);
        assert_eq!(Word::read("{\"step\": 99, \"said\": \"\"}"), None);
    }

    #[test]
    fn steps_are_in_their_order() {
        assert!(Step::ALL.is_sorted());
        assert_eq!(Step::of_reason("Growing"), Some(Step::Growing));
        assert_eq!(Step::of_reason("Stuck"), None);
    }
}
