//! Machines that others made: taken over with no rollout, and handed back.
//!
//! A machine is taken over by one patch that puts our finalizer on it and theirs off. Nothing else of it changes: its
//! revision is computed from its own spec, and equals that of its set's template, whatever either was named after.
//! Handing it back is the reverse. The other controller must not run meanwhile, which is for people to see to.

use serde_json::{Map, Value, json};

use super::object::Object;
use super::patch::finalizers;
use super::record::{OURS, PROVIDER_STATUS};
use super::table::{FINALIZER, Family, KKP, keys};

/// What is on the infra cluster of a machine that others made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Its VM.
    pub vm: String,
    /// The volumes it owns.
    pub volumes: Vec<String>,
    /// The Secret with its user data.
    pub user_data: SecretName,
}

/// The name of a Secret, as far as it can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretName {
    /// That name.
    Exactly(String),
    /// That beginning, with a time behind it.
    Beginning(String),
}

impl SecretName {
    /// Whether a Secret of that name is meant.
    pub fn is(&self, name: &str) -> bool {
        match self {
            Self::Exactly(meant) => meant == name,
            // Another machine's name may begin like this one's: only digits may follow.
            Self::Beginning(begin) => name
                .strip_prefix(begin.as_str())
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|digit| digit.is_ascii_digit())),
        }
    }
}

/// What others made for a machine, if they made it: it carries their finalizers, or was taken over before.
pub fn made_by_others(family: &Family, machine: &Object) -> Option<Adopted> {
    let theirs =
        has_theirs(family, machine) || machine.metadata.annotations.get(keys::ADOPTED_FROM).is_some();
    if !theirs || family.foreign_finalizers.is_empty() {
        return None;
    }
    let vm = machine.metadata.name().to_string();
    Some(if *family == KKP {
        Adopted { volumes: vec![vm.clone()], user_data: SecretName::Beginning(format!("userdata-{vm}-")), vm }
    } else {
        Adopted {
            volumes: vec![format!("{vm}-bootvolume")],
            user_data: SecretName::Exactly(format!("{vm}-ignition")),
            vm,
        }
    })
}

fn has_theirs(family: &Family, machine: &Object) -> bool {
    family.foreign_finalizers.iter().any(|finalizer| machine.has_finalizer(finalizer))
}

/// Whether a machine is to be left to, or given back to, the controller of its family: people say so on it, on its
/// set or on its pool.
pub fn is_handed_back<'a>(objects: impl IntoIterator<Item = &'a Object>) -> bool {
    objects.into_iter().any(|object| object.metadata.annotations.is_on(keys::HAND_BACK))
}

/// The patch that takes a machine over: their finalizers off, ours on, and a note of whose it was. Nothing where it is
/// not theirs.
pub fn take_over(family: &Family, machine: &Object) -> Option<Value> {
    if !has_theirs(family, machine) {
        return None;
    }
    let mut patch = finalizers(machine, &[FINALIZER], family.foreign_finalizers)?;
    patch["metadata"]["annotations"] = json!({ keys::ADOPTED_FROM: family.foreign_controller });
    Some(patch)
}

/// The patch that hands a machine back: our finalizer off, theirs on, our notes gone. Nothing where it is not ours, or
/// where there is nobody to hand it back to.
pub fn hand_back(family: &Family, machine: &Object) -> Option<Value> {
    if family.foreign_finalizers.is_empty() || !machine.has_finalizer(FINALIZER) {
        return None;
    }
    let mut patch = finalizers(machine, family.foreign_finalizers, &[FINALIZER])?;
    let notes: Map<String, Value> = [keys::ADOPTED_FROM, keys::ORDINAL, keys::ZONE]
        .into_iter()
        .filter(|key| machine.metadata.annotations.get(key).is_some())
        .map(|key| (key.to_owned(), Value::Null))
        .collect();
    if !notes.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(notes);
    }
    Some(patch)
}

/// The status patch that takes our record out of a machine that is handed back; nothing where there is none.
pub fn forget(machine: &Object) -> Option<Value> {
    let status = machine.status_json();
    status.get(PROVIDER_STATUS)?.get(OURS)?;
    Some(json!({
        "metadata": { "uid": &*machine.metadata.uid },
        "status": { PROVIDER_STATUS: { OURS: null } },
    }))
}
