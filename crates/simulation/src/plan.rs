//! What goes wrong in a run, on one line: the scenario, the seed, and a perturbation for each point.
//!
//! ```text
//! rolling-update seed=1 crash-before@infra:apply:virtualmachines/blue-workers-6d0-0#1 lost@control:patch:machines/x#2
//! ```

use std::fmt;
use std::str::FromStr;

use crate::point::{NoPoint, Point, Verb};

/// What goes wrong at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Perturbation {
    /// The controller is killed just before the request, and started again.
    CrashBefore,
    /// The controller is killed when the request has taken effect, before it knows, and started again.
    CrashAfter,
    /// The same, and what it is shown when it begins again is from before that request.
    CrashStale,
    /// The request takes effect, and no answer comes.
    Lost,
    /// The request is refused with this code and nothing is done.
    Refused(u16),
    /// A read shows an earlier state; an event and all after it come late.
    Stale,
    /// An event is never told, until the watch has to begin anew.
    Drop,
    /// The watch ends before the event, and cannot go on from where it was.
    Cut,
}

impl Perturbation {
    /// All that can go wrong with a request.
    pub fn of_request(verb: Verb) -> &'static [Self] {
        const WRITE: [Perturbation; 8] = [
            Perturbation::CrashBefore,
            Perturbation::CrashAfter,
            Perturbation::CrashStale,
            Perturbation::Lost,
            Perturbation::Refused(409),
            Perturbation::Refused(429),
            Perturbation::Refused(500),
            Perturbation::Refused(503),
        ];
        // A read is never in conflict with anything, and changes nothing that a server could have lost.
        const READ: [Perturbation; 7] = [
            Perturbation::CrashBefore,
            Perturbation::CrashAfter,
            Perturbation::Lost,
            Perturbation::Refused(429),
            Perturbation::Refused(500),
            Perturbation::Refused(503),
            Perturbation::Stale,
        ];
        if verb.writes() { &WRITE } else { &READ }
    }

    /// All that can go wrong with an event.
    pub const OF_EVENT: [Self; 3] = [Self::Stale, Self::Drop, Self::Cut];

    /// Whether the controller does not survive it.
    pub fn kills(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::CrashStale)
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBefore => formatter.write_str("crash-before"),
            Self::CrashAfter => formatter.write_str("crash-after"),
            Self::CrashStale => formatter.write_str("crash-stale"),
            Self::Lost => formatter.write_str("lost"),
            Self::Refused(code) => write!(formatter, "{code}"),
            Self::Stale => formatter.write_str("stale"),
            Self::Drop => formatter.write_str("drop"),
            Self::Cut => formatter.write_str("cut"),
        }
    }
}

impl FromStr for Perturbation {
    type Err = NoPlan;

    fn from_str(text: &str) -> Result<Self, NoPlan> {
        Ok(match text {
            "crash-before" => Self::CrashBefore,
            "crash-after" => Self::CrashAfter,
            "crash-stale" => Self::CrashStale,
            "lost" => Self::Lost,
            "stale" => Self::Stale,
            "drop" => Self::Drop,
            "cut" => Self::Cut,
            "409" | "429" | "500" | "503" => Self::Refused(text.parse().unwrap_or(500)),
            _ => return Err(NoPlan::Perturbation(text.to_owned())),
        })
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault {
    /// What.
    pub what: Perturbation,
    /// When.
    pub at: Point,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.what, self.at)
    }
}

/// A run that can be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The scenario.
    pub scenario: String,
    /// What all chance comes from.
    pub seed: u64,
    /// What goes wrong at points.
    pub faults: Vec<Fault>,
    /// What goes wrong around the controllers.
    pub troubles: Vec<String>,
}

impl Plan {
    /// A run in which nothing goes wrong.
    pub fn undisturbed(scenario: &str, seed: u64) -> Self {
        Self { scenario: scenario.to_owned(), seed, faults: Vec::new(), troubles: Vec::new() }
    }

    /// The same with one more fault.
    #[must_use]
    pub fn with(&self, what: Perturbation, at: &Point) -> Self {
        let mut plan = self.clone();
        plan.faults.push(Fault { what, at: at.clone() });
        plan
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} seed={}", self.scenario, self.seed)?;
        for trouble in &self.troubles {
            write!(formatter, " with={trouble}")?;
        }
        self.faults.iter().try_for_each(|fault| write!(formatter, " {fault}"))
    }
}

/// Why a line is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// There is nothing on it.
    #[error("the line names no scenario")]
    Empty,
    /// A word is neither a seed nor a fault.
    #[error("`{0}` is neither `seed=NUMBER` nor `with=TROUBLE` nor `PERTURBATION@POINT`")]
    Word(String),
    /// There is no such perturbation.
    #[error(
        "`{0}` is no perturbation: crash-before, crash-after, crash-stale, lost, 409, 429, 500, 503, stale, drop and cut are"
    )]
    Perturbation(String),
    /// A point cannot be read.
    #[error(transparent)]
    Point(#[from] NoPoint),
}

impl FromStr for Plan {
    type Err = NoPlan;

    fn from_str(line: &str) -> Result<Self, NoPlan> {
        let mut words = line.split_whitespace();
        let mut plan = Self::undisturbed(words.next().ok_or(NoPlan::Empty)?, 1);
        for word in words {
            if let Some(seed) = word.strip_prefix("seed=") {
                plan.seed = seed.parse().map_err(|_| NoPlan::Word(word.to_owned()))?;
            } else if let Some(trouble) = word.strip_prefix("with=") {
                plan.troubles.push(trouble.to_owned());
            } else {
                let (what, at) = word.split_once('@').ok_or_else(|| NoPlan::Word(word.to_owned()))?;
                plan.faults.push(Fault { what: what.parse()?, at: at.parse()? });
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_one_line_and_read_as_it_is_written() {
        let mut plan = Plan::undisturbed("rolling-update", 7);
        plan.troubles.push("skew".to_owned());
        let point: Point = "infra:apply:secrets/a#1".parse().unwrap();
        let all = Perturbation::of_request(Verb::Apply).iter().chain(Perturbation::of_request(Verb::Get));
        for what in all.chain(&Perturbation::OF_EVENT) {
            plan = plan.with(*what, &point);
        }
        let line = plan.to_string();
        assert!(line.starts_with("rolling-update seed=7 with=skew crash-before@infra:apply:secrets/a#1 "));
        assert_eq!(line.parse::<Plan>().unwrap(), plan);
    }

    #[test]
    fn what_is_no_plan_says_why() {
        assert_eq!("".parse::<Plan>(), Err(NoPlan::Empty));
        for line in ["x seed=y", "x what", "x boom@a:b#1", "x lost@nowhere"] {
            assert!(line.parse::<Plan>().is_err(), "{line}");
        }
    }
}
