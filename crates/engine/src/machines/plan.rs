//! The plan of one machine.

use jiff::{SignedDuration, Timestamp};

use super::draft::{Draft, Said};
use super::facts::{Facts, Vm};
use super::input::Input;
use super::status::{self, MachineStatus, Phase};
use super::step::Step;
use super::{evacuation, joining, life, reasons, removal, running};
use crate::{Deadline, Happening};

/// What is to be done for a machine, and what is said of it.
#[derive(Debug, Clone)]
pub struct MachinePlan {
    /// The steps, in order; the first that fails ends the pass.
    pub steps: Vec<Step>,
    /// What is said of it.
    pub status: MachineStatus,
    /// What happened to it since the status that was recorded.
    pub happenings: Vec<Happening>,
    /// That it is in another phase than the status that was recorded says. Of phases that pass within a moment only
    /// the last one is told.
    pub entered: Option<Happening>,
    /// How long the status may wait to be written, so that what comes next is written with it.
    pub patience: SignedDuration,
    /// When to look again although nothing changed.
    pub wake: Option<Deadline>,
}

/// Decides what is to be done for a machine now. The same input gives the same plan.
pub fn plan(input: &Input, now: Timestamp) -> MachinePlan {
    let facts = Facts::of(input, now);
    let before = Draft::new(facts.record());
    let mut draft = before.clone();
    let mut said = look(&facts, &mut draft);
    if input.machine.flags.paused {
        draft = before;
        said = paused(input, &said);
    }
    let entered = tell(input, &mut draft, &said);
    let status = status::compose(&facts, &mut draft, said);
    let patience = status::patience(&input.machine.record, &status, draft.pressing);
    MachinePlan {
        steps: draft.steps,
        status,
        happenings: draft.happenings,
        entered,
        patience,
        wake: draft.wake,
    }
}

/// What is said of a machine that is not to be touched. One that goes stays where it was: how far its removal would be
/// is a question of time, and its time stands still.
fn paused(input: &Input, said: &Said) -> Said {
    let before = input.machine.record.phase.filter(|_| input.machine.deleting.is_some());
    let phase = before.map_or(said.phase, |(phase, _)| phase);
    Said { phase, ..Said::new(said.phase, reasons::PAUSED, "it is not touched until it is resumed") }
}

/// The part of a life that is on.
fn look(facts: &Facts, draft: &mut Draft) -> Said {
    if facts.input.machine.deleting.is_some() {
        return removal::plan(facts, draft);
    }
    match facts.vm {
        Vm::Ours(vm) => {
            life::claim(facts, draft);
            if vm.deleting.is_some() {
                return running::taken_away(facts, draft, vm);
            }
            joining::steps(facts, draft, vm);
            if let Some(said) = evacuation::plan(facts, draft, vm) {
                return said;
            }
            if draft.record.joined.is_some() {
                running::plan(facts, draft, vm)
            } else {
                life::coming_up(facts, draft, vm)
            }
        }
        Vm::None | Vm::Foreign(_) if draft.record.vm_uid.is_some() => running::vanished(facts, draft),
        Vm::Foreign(vm) => life::name_taken(facts, vm),
        Vm::None => life::not_made(facts, draft),
    }
}

/// Tells what changed since the status that was recorded; gives the phase apart, if that did.
fn tell(input: &Input, draft: &mut Draft, said: &Said) -> Option<Happening> {
    let record = &input.machine.record;
    if record.joined.is_none() && draft.record.joined.is_some() {
        draft.happened(false, reasons::JOINED, "its Node is ready for the first time");
    }
    (record.phase.map(|(phase, _)| phase) != Some(said.phase)).then(|| Happening {
        warning: matches!(said.phase, Phase::Failed | Phase::Unknown) || said.well == Some(false),
        reason: said.reason,
        message: format!("{}: {}", said.phase.as_str(), said.message),
    })
}
