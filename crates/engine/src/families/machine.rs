//! A Machine object as what plans look at.

use std::sync::Arc;

use serde_json::Value;
use trellis_api::trellis::MachineSpec;
use trellis_model::placement::Locality;
use trellis_platform::{MachineIdentity, Owner, Wish};

use super::object::Object;
use super::reading::Reading;
use super::record::{self, condition};
use super::table::{FINALIZER, Family, TRELLIS, keys};
use crate::machines::{Flags, MachineSeen, OwnedNodeMeta, Phase};
use crate::pools::{MachineState, Member};

/// A Machine, as far as the plan of one machine looks at it.
pub fn machine_seen(family: &Family, machine: &Object) -> MachineSeen {
    let meta = &machine.metadata;
    MachineSeen {
        name: meta.name().to_string(),
        namespace: meta.namespace().to_string(),
        uid: meta.uid.to_string(),
        generation: meta.generation,
        created: meta.created,
        deleting: meta.deleting,
        finalizer: machine.has_finalizer(FINALIZER),
        provider_id: machine.provider_id.as_deref().map(str::to_owned),
        flags: flags(family, machine),
        record: record::of(family, machine),
        recorded: true,
        create_trouble: None,
    }
}

/// What people wrote on a Machine to steer it.
pub fn flags(family: &Family, machine: &Object) -> Flags {
    let annotations = &machine.metadata.annotations;
    let any = |keys: &[&str]| keys.iter().any(|key| annotations.is_on(key));
    Flags {
        paused: any(family.paused),
        delete_first: any(family.delete_first),
        skip_drain: any(family.skip_drain),
        preserve: annotations.is_on(keys::PRESERVE),
        unhealthy: annotations.is_on(keys::UNHEALTHY),
    }
}

/// A Machine, as far as its pool looks at it.
pub fn member(family: &Family, machine: &Object) -> Member {
    let flags = flags(family, machine);
    let state = state(family, machine);
    Member {
        name: machine.metadata.name().to_string(),
        created: machine.metadata.created,
        zone: zone(family, machine),
        ordinal: ordinal(family, machine),
        state,
        delete_first: flags.delete_first,
        preserved: flags.preserve && state == MachineState::Failed,
    }
}

fn state(family: &Family, machine: &Object) -> MachineState {
    if machine.metadata.deleting.is_some() {
        return MachineState::Going;
    }
    let status = machine.status_json();
    let record = record::of(family, machine);
    let failed_elsewhere =
        record.phase.is_none() && status.get("phase").and_then(Value::as_str) == Some(Phase::Failed.as_str());
    if failed_elsewhere || record.phase.is_some_and(|(phase, _)| phase == Phase::Failed) {
        return MachineState::Failed;
    }
    match condition(&status, "NodeReady") {
        Some((Some(true), since)) if record.node.is_some() => {
            MachineState::Ready(since.or(record.joined).unwrap_or(machine.metadata.created))
        }
        _ if record.joined.is_some() || record.node.is_some() => MachineState::Unready,
        _ => MachineState::Coming,
    }
}

/// Which machine it is to its platform: what was decided when it was made.
pub fn identity(family: &Family, machine: &Object, reading: &Reading) -> MachineIdentity {
    let zone = zone(family, machine).and_then(|zone| zone.parse().ok()).map(Locality::new);
    let zones = &reading.pool.spec.template.placement.zones;
    MachineIdentity {
        name: machine.metadata.name().to_string(),
        // Machines that others made are not numbered, and nothing was dealt out to them by number.
        ordinal: ordinal(family, machine).unwrap_or_default(),
        revision: reading.revision.clone(),
        // A pool in one zone need not say on each machine that it is there.
        zone: zone.or_else(|| zones.first().filter(|_| zones.len() == 1).cloned()),
    }
}

/// What a machine is to be. It keeps its revision; what changes in place comes from its pool as that is now, as long
/// as the pool still has that revision.
pub fn wish(
    family: &Family,
    machine: &Object,
    own: &Reading,
    pool: Option<&Reading>,
    user_data: Option<Arc<str>>,
) -> Wish {
    let reading = present(own, pool);
    Wish {
        cluster: Arc::clone(&reading.cluster),
        pool: Arc::clone(&reading.pool),
        identity: identity(family, machine, own),
        owner: Some(Owner {
            namespace: machine.metadata.namespace().to_string(),
            uid: machine.metadata.uid.to_string(),
        }),
        user_data,
    }
}

/// What a machine's Node is to carry: what its pool wishes as it is now, and what the tools of its family look for.
pub fn node_wish(family: &Family, machine: &Object, own: &Reading, pool: Option<&Reading>) -> OwnedNodeMeta {
    // Labels, annotations and taints are never a reason to replace a machine: the pool's hold for old ones too.
    let spec = &pool.unwrap_or(own).pool.spec;
    let meta = &machine.metadata;
    let mut wish = OwnedNodeMeta {
        labels: spec.node_labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        annotations: spec
            .node_annotations
            .iter()
            .map(|(key, value)| (key.to_string(), value.clone()))
            .collect(),
        taints: spec.node_taints.iter().cloned().collect(),
    };
    wish.annotations.insert(family.node_machine.to_owned(), format!("{}/{}", meta.namespace(), meta.name()));
    if let Some(label) = family.node_owner {
        wish.labels.insert(label.to_owned(), meta.uid.to_string());
    }
    wish
}

/// Whether what is wished of a machine may be put into effect on it. What was asked for when it was made is no wish of
/// today as long as a pool or a set has it: what changed in place since then is written there and nowhere else.
pub fn is_present(machine: &Object, own: &Reading, pool: Option<&Reading>) -> bool {
    machine.metadata.owner.is_none() || pool.is_some_and(|pool| pool.revision == own.revision)
}

fn present<'a>(own: &'a Reading, pool: Option<&'a Reading>) -> &'a Reading {
    pool.filter(|pool| pool.revision == own.revision).unwrap_or(own)
}

/// The revision a machine says it was made from: what its family writes on it, for finding its set.
pub fn recorded_revision(family: &Family, machine: &Object) -> Option<String> {
    match family.hash_label {
        Some(label) => machine.metadata.labels.get(label).map(str::to_owned),
        None if *family == TRELLIS => own(machine).map(|spec| spec.revision),
        None => machine.metadata.labels.get(keys::REVISION).map(str::to_owned),
    }
}

fn zone(family: &Family, machine: &Object) -> Option<String> {
    if *family == TRELLIS {
        return own(machine)?.zone.map(|zone| zone.as_str().to_owned());
    }
    machine.metadata.annotations.get(keys::ZONE).map(str::to_owned)
}

fn ordinal(family: &Family, machine: &Object) -> Option<u32> {
    if *family == TRELLIS {
        return own(machine).map(|spec| spec.ordinal);
    }
    machine.metadata.annotations.get(keys::ORDINAL)?.parse().ok()
}

/// The spec of a Machine of our own.
fn own(machine: &Object) -> Option<MachineSpec> {
    machine.spec_as()
}
