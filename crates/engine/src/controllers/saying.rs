//! Saying where machines are: what passes within a moment is written with what comes next.
//!
//! A plan says how long what it says may wait. Until it is written, plans are made from the status as it will be, so
//! that times and limits begin when something was seen and not when it was written. All of it can be lost: what a
//! status says is found again by looking.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::control::Thing;
use super::machine::Trouble;
use super::tenant::Tenant;
use crate::Happening;
use crate::families::{self, Object};
use crate::machines::MachinePlan;

/// How often at most it is written how far something is.
const PROGRESS: SignedDuration = SignedDuration::from_secs(5);

/// What happened to a machine and is not yet told.
#[derive(Debug, Clone, Default)]
pub(crate) struct News {
    happenings: Vec<Happening>,
    /// The phase it is in now. Others that it passed through are not worth telling.
    entered: Option<Happening>,
}

impl News {
    /// Adds what a plan tells, each thing once.
    pub(crate) fn add(&mut self, plan: &MachinePlan) {
        self.extend(&plan.happenings, plan.entered.as_ref());
    }

    fn extend(&mut self, happenings: &[Happening], entered: Option<&Happening>) {
        for happening in happenings {
            if !self.happenings.contains(happening) {
                self.happenings.push(happening.clone());
            }
        }
        self.entered = entered.or(self.entered.as_ref()).cloned();
    }
}

/// What is said of a machine and waits to be written.
struct Held {
    uid: Arc<str>,
    /// The status as it was when this was said.
    written: Box<str>,
    /// The status as it will be.
    said: Box<str>,
    /// When it is written at the latest.
    due: Timestamp,
    news: News,
}

/// What is said of machines and waits to be written, by their names.
#[derive(Default)]
pub(crate) struct Sayings {
    held: Mutex<HashMap<String, Held>>,
}

impl Sayings {
    /// A machine as it will be when what is said of it is written; nothing where nothing waits.
    pub(crate) fn with(&self, machine: &Thing) -> Option<Thing> {
        let held = self.held.lock();
        let held = held.get(machine.metadata.name()).filter(|held| held.is_about(machine))?;
        Some(Arc::new(Object { status: held.said.clone(), ..Object::clone(machine) }))
    }

    /// Forgets what waits of a machine.
    pub(crate) fn forget(&self, name: &str) {
        self.held.lock().remove(name);
    }

    /// Takes out what waits of a machine. What was said of another status than the present one is void.
    fn take(&self, machine: &Object) -> Option<Held> {
        self.held.lock().remove(machine.metadata.name()).filter(|held| held.is_about(machine))
    }

    fn put(&self, machine: &Object, held: Held) {
        self.held.lock().insert(machine.metadata.name().to_owned(), held);
    }
}

impl Held {
    fn is_about(&self, machine: &Object) -> bool {
        self.uid == machine.metadata.uid && self.written == machine.status
    }
}

/// Says where a machine is: writes the status and tells what happened, at once or together with what comes next; then
/// it says until when that may wait.
pub(crate) async fn say(
    tenant: &Tenant,
    machine: &Thing,
    plan: &MachinePlan,
    news: &News,
) -> Result<Option<Timestamp>, Trouble> {
    let (control, now) = (&tenant.control, tenant.clock.now());
    let view = tenant.sayings.with(machine).unwrap_or_else(|| Arc::clone(machine));
    let held = tenant.sayings.take(machine);
    let said = match families::machine_status(control.family, &view, &plan.status, now) {
        Some(patch) => Arc::new(families::with_status(&view, &patch)),
        None => view,
    };
    let Some(patch) = families::status_between(machine, &said) else { return Ok(None) };
    let words = families::differs_in_words(machine, &said);
    let mut due = now + if words { PROGRESS } else { plan.patience };
    let mut all = News::default();
    if let Some(held) = held {
        due = due.min(held.due);
        all = held.news;
    }
    all.extend(&news.happenings, news.entered.as_ref());
    if due > now {
        let (uid, written) = (Arc::clone(&machine.metadata.uid), machine.status.clone());
        tenant.sayings.put(machine, Held { uid, written, said: said.status.clone(), due, news: all });
        return Ok(Some(due));
    }
    let key = machine.metadata.key.clone();
    control.patch_status(&control.machines, &key, &patch).await?;
    for happening in all.happenings.iter().chain(&all.entered) {
        tenant.tell(&control.machines.resource, machine, happening);
    }
    Ok(None)
}
