//! A plan in the making, and the one gate every step passes.

use jiff::Timestamp;
use trellis_platform::Action;

use super::facts::Facts;
use super::input::Remedy;
use super::seen::{Record, SiteHealth};
use super::status::Phase;
use super::step::Step;
use super::{reasons, text};
use crate::{Deadline, Happening};

/// What a part of a life says of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// Where it is.
    pub(super) phase: Phase,
    /// Why, in one word.
    pub(super) reason: &'static str,
    /// Why, for people.
    pub(super) message: String,
    /// Whether it is well; not known when left out.
    pub(super) well: Option<bool>,
}

impl Said {
    pub(super) fn new(phase: Phase, reason: &'static str, message: impl Into<String>) -> Self {
        let well = match phase {
            Phase::Failed => Some(false),
            Phase::Unknown => None,
            _ => Some(true),
        };
        Self { phase, reason, message: message.into(), well }
    }

    /// The same, of a machine that is not well.
    pub(super) fn unwell(self) -> Self {
        Self { well: Some(false), ..self }
    }
}

/// A plan in the making.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The steps so far.
    pub(super) steps: Vec<Step>,
    /// What happened.
    pub(super) happenings: Vec<Happening>,
    /// What is recorded.
    pub(super) record: Record,
    /// When the phase is late.
    pub(super) deadline: Option<Deadline>,
    /// When to look again.
    pub(super) wake: Option<Deadline>,
    /// A step waits for what is recorded to be written.
    pub(super) pressing: bool,
}

impl Draft {
    pub(super) fn new(record: Record) -> Self {
        Self {
            steps: Vec::new(),
            happenings: Vec::new(),
            record,
            deadline: None,
            wake: None,
            pressing: false,
        }
    }

    /// Adds a step if the sites it needs, and those its reason was seen through, can be believed.
    pub(super) fn step(&mut self, facts: &Facts, step: Step) {
        if allowed(facts, &step) {
            self.steps.push(step);
        }
    }

    /// Adds an action on the platform.
    pub(super) fn act(&mut self, facts: &Facts, action: Action) {
        self.step(facts, Step::Platform(action));
    }

    /// Looks again then, if that is still to come.
    pub(super) fn wake(&mut self, facts: &Facts, at: Timestamp, of: &'static str) {
        if at > facts.now {
            self.wake = Deadline::earlier(self.wake.take(), Some(Deadline { at, of }));
        }
    }

    /// Something happened.
    pub(super) fn happened(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.happenings.push(Happening { warning, reason, message: message.into() });
    }

    /// Notes the part of a life the machine was observed in. A machine that comes up keeps the furthest part it
    /// reached, so that falling back does not begin its limits anew.
    pub(super) fn observed(&mut self, facts: &Facts, phase: Phase) {
        let keeps = |stage: Phase| stage == phase || (comes_up(phase) && comes_up(stage) && stage > phase);
        match &mut self.record.stage {
            Some((stage, since)) if keeps(*stage) => {
                // What was in doubt could not move on: it gets its time again.
                if facts.was_in_doubt() && comes_up(phase) {
                    *since = facts.now;
                }
            }
            _ => self.record.stage = Some((phase, facts.now)),
        }
    }

    /// What is said when the part of a life the machine is in is late, and what is done about it.
    pub(super) fn judged(&mut self, facts: &Facts, said: Said) -> Said {
        self.observed(facts, said.phase);
        let Some((stage, since)) = self.record.stage else { return said };
        let Some((limit, remedy)) = facts.input.deadlines.of(stage) else { return said };
        if facts.rests() || (stage == Phase::Joining && !facts.tenant_up()) {
            return said;
        }
        let due = text::after(facts.counted_from(since), limit);
        if facts.now < due {
            self.deadline = Some(Deadline { at: due, of: stage.as_str() });
            self.wake(facts, due, stage.as_str());
            return said;
        }
        let message =
            format!("{} should have ended by {}: {}", stage.as_str(), text::clock(due), said.message);
        match remedy {
            Remedy::Replace => self.failed(facts, reasons::LATE, message),
            Remedy::Say => {
                self.happened(true, reasons::LATE, message.clone());
                Said { message, ..said }.unwell()
            }
        }
    }

    /// A health check wants it replaced, and every site can say whether it is right.
    pub(super) fn health_check(&mut self, facts: &Facts) -> Option<Said> {
        if !facts.input.machine.flags.unhealthy || facts.rests() {
            return None;
        }
        Some(self.failed(facts, reasons::HEALTH_CHECK, "a health check wants it replaced"))
    }

    /// It failed: another takes its place if it belongs to a set and the set's budget allows.
    pub(super) fn failed(&mut self, facts: &Facts, reason: &'static str, message: impl Into<String>) -> Said {
        let rights = facts.input.rights;
        let message = message.into();
        let then = if let Some((_, down)) = facts.frozen() {
            format!("nothing is done about it now: {down}")
        } else if facts.input.machine.flags.preserve {
            "it is kept for debugging".to_owned()
        } else if !rights.in_set {
            "it belongs to no set that would replace it".to_owned()
        } else if !rights.may_replace {
            let why = rights.held.map(|why| format!(": {why}")).unwrap_or_default();
            format!("it is replaced as soon as its set may{why}")
        } else {
            self.happened(true, reasons::REPLACED, format!("replaced: {message}"));
            self.step(facts, Step::DeleteMachine);
            "it is replaced".to_owned()
        };
        Said::new(Phase::Failed, reason, format!("{message}; {then}"))
    }
}

/// Whether a phase is one of a machine on its way to its first Node.
fn comes_up(phase: Phase) -> bool {
    phase < Phase::Running && phase > Phase::Pending
}

/// Whether a step may be planned: every site it needs answers, and so does every site its reason was seen through.
fn allowed(facts: &Facts, step: &Step) -> bool {
    if matches!(facts.input.sites.control, SiteHealth::Down(_)) {
        return false;
    }
    match step {
        Step::AddFinalizer | Step::SetProviderId(_) => true,
        Step::Platform(_) => facts.infra_up(),
        Step::UpdateNode { .. } | Step::Cordon { .. } | Step::Evict { .. } | Step::DeletePod { .. } => {
            facts.tenant_up()
        }
        Step::DeleteNode { .. } => facts.tenant_up() && facts.infra_up(),
        Step::DeleteMachine | Step::RemoveFinalizer => facts.frozen().is_none(),
    }
}
