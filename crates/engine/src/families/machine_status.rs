//! What is said of a machine, in the form of its family.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use serde_json::{Map, Value, json};
use trellis_platform::{Address, AddressKind};

use super::object::Object;
use super::patch::{status_difference, status_patch};
use super::record::{self, OURS, PROVIDER_STATUS};
use super::table::{Family, OPENSHIFT, TRELLIS};
use crate::Condition;
use crate::machines::{MachineStatus, Phase, conditions, reasons};

/// Conditions of machines that are ours in a status that others write too: those we no longer speak of go.
const OUR_CONDITIONS: &[&str] = &[
    conditions::PROVISIONED,
    conditions::NODE_READY,
    conditions::HEALTHY,
    conditions::UP_TO_DATE,
    conditions::DRAINED,
    conditions::EVACUATING,
    conditions::DELETING,
    conditions::FROZEN,
    conditions::PAUSED,
    conditions::READY,
    RECONCILING,
    STALLED,
];

/// It is on its way; only while it is. Flux, Argo and `kubectl wait` look at these two.
const RECONCILING: &str = "Reconciling";
/// It will get no further without somebody; only while it is so.
const STALLED: &str = "Stalled";

/// The patch that brings the status of a Machine to what is said of it; nothing where it stands there already.
///
/// It goes to the status subresource, or to the object where the family has none ([`super::Resource::status_apart`]).
pub fn machine_status(
    family: &Family,
    machine: &Object,
    said: &MachineStatus,
    now: Timestamp,
) -> Option<Value> {
    let current = machine.status_json();
    let own = *family == TRELLIS;
    let others = |kind: &str| !own && !OUR_CONDITIONS.contains(&kind);
    let mut wished = Map::new();
    let mut put = |key: &str, value: Value| drop(wished.insert(key.to_owned(), value));
    let mut all = said.conditions.clone();
    all.extend(progress(said));
    put("conditions", merged_conditions(&current, &all, others, now));
    put("addresses", said.addresses.iter().map(address).collect());
    put("nodeRef", node(own, said));
    if own {
        put("observedGeneration", machine.metadata.generation.into());
        put("phase", said.phase.as_str().into());
        put("phaseSince", said.since.to_string().into());
        put("reason", said.reason.into());
        put("message", said.message.as_str().into());
        put("deadline", deadline(said));
        put("kubeletVersion", said.kubelet_version.clone().map_or(Value::Null, Value::String));
        put("record", Value::Object(record::to_json(&said.record)));
    } else {
        put("phase", foreign_phase(family, machine, said).into());
        let (reason, message) = error(said)
            .map_or((Value::Null, Value::Null), |reason| (reason.into(), said.message.as_str().into()));
        put("errorReason", reason);
        put("errorMessage", message);
        if *family != OPENSHIFT {
            let versions = said.kubelet_version.as_ref().map(|version| json!({ "kubelet": version }));
            put("versions", versions.unwrap_or_default());
        }
        put(PROVIDER_STATUS, json!({ OURS: ours(said) }));
    }
    let mut changes = status_difference(&current, wished);
    if !own && !changes.is_empty() {
        changes.insert("lastUpdated".to_owned(), whole_seconds(now).into());
    }
    status_patch(machine, &changes)
}

/// What tools look at beside `Ready`: a machine that is not ready is on its way, unless it has failed.
fn progress(said: &MachineStatus) -> Option<Condition> {
    let is_ready =
        |condition: &Condition| condition.kind == conditions::READY && condition.holds == Some(true);
    let kind = match said.phase {
        Phase::Failed => STALLED,
        _ if said.conditions.iter().any(is_ready) => return None,
        _ => RECONCILING,
    };
    Some(Condition { kind, holds: Some(true), reason: said.reason, message: said.message.clone() })
}

/// What of ours stands beside what a foreign family knows.
fn ours(said: &MachineStatus) -> Value {
    let mut ours = record::to_json(&said.record);
    let mut put = |key: &str, value: Value| drop(ours.insert(key.to_owned(), value));
    put("phase", said.phase.as_str().into());
    put("phaseSince", said.since.to_string().into());
    put("reason", said.reason.into());
    put("message", said.message.as_str().into());
    if said.deadline.is_some() {
        put("deadline", deadline(said));
    }
    Value::Object(ours)
}

fn deadline(said: &MachineStatus) -> Value {
    let deadline = said.deadline.as_ref();
    deadline.map_or(Value::Null, |deadline| json!({ "at": deadline.at.to_string(), "of": deadline.of }))
}

fn node(own: bool, said: &MachineStatus) -> Value {
    let Some((name, uid)) = &said.record.node else { return Value::Null };
    if own {
        return json!({ "name": name, "uid": uid });
    }
    json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid })
}

fn address(address: &Address) -> Value {
    let kind = match address.kind {
        AddressKind::InternalIp => "InternalIP",
        AddressKind::InternalDns => "InternalDNS",
        AddressKind::Hostname => "Hostname",
    };
    json!({ "type": kind, "address": address.address })
}

/// The phase in the family's words: OpenShift knows five.
fn foreign_phase(family: &Family, machine: &Object, said: &MachineStatus) -> &'static str {
    if *family != OPENSHIFT {
        return said.phase.as_str();
    }
    match said.phase {
        Phase::Running => "Running",
        // A machine that is emptied for another host is still one that runs.
        Phase::Draining if machine.metadata.deleting.is_none() => "Running",
        Phase::Unknown if said.record.node.is_some() => "Running",
        Phase::Starting | Phase::Joining => "Provisioned",
        Phase::Unknown if said.record.vm_uid.is_some() => "Provisioned",
        Phase::Draining | Phase::Stopping | Phase::Deleting | Phase::Gone => "Deleting",
        Phase::Failed => "Failed",
        Phase::Pending | Phase::ImageImporting | Phase::Creating | Phase::Scheduling | Phase::Unknown => {
            "Provisioning"
        }
    }
}

/// Why a machine failed, in the words both foreign families have for it.
fn error(said: &MachineStatus) -> Option<&'static str> {
    if said.phase != Phase::Failed {
        return None;
    }
    let stage = said.record.stage.map(|(stage, _)| stage);
    Some(match said.reason {
        reasons::BAD_SPEC | reasons::NAME_TAKEN | reasons::NODE_NAME_TAKEN => "InvalidConfiguration",
        reasons::UNSCHEDULABLE => "InsufficientResources",
        // What was late is where it stood still.
        _ if stage == Some(Phase::Scheduling) => "InsufficientResources",
        _ if matches!(stage, Some(Phase::Starting | Phase::Joining)) => "JoinClusterTimeoutError",
        _ if stage > Some(Phase::Running) => "DeleteError",
        _ if stage == Some(Phase::Running) => "UpdateError",
        _ => "CreateError",
    })
}

/// The conditions of a status with ours brought up to date: one that says the same stays as it is, with its time,
/// and those of others stay.
pub(super) fn merged_conditions(
    current: &Map<String, Value>,
    said: &[Condition],
    others: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Value {
    let empty = Vec::new();
    let current = current.get("conditions").and_then(Value::as_array).unwrap_or(&empty);
    let kind =
        |condition: &Value| condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut out = Vec::new();
    // In the order they stand there, so that nothing is written for a different order.
    for condition in current {
        match said.iter().find(|said| said.kind == kind(condition)) {
            Some(said) => out.push(updated(Some(condition), said, now)),
            None if others(&kind(condition)) => out.push(condition.clone()),
            None => {}
        }
    }
    let is_new = |said: &&Condition| !current.iter().any(|condition| kind(condition) == said.kind);
    out.extend(said.iter().filter(is_new).map(|said| updated(None, said, now)));
    Value::Array(out)
}

fn updated(current: Option<&Value>, said: &Condition, now: Timestamp) -> Value {
    let status = match said.holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let text = |key: &str| current.and_then(|condition| condition.get(key)).and_then(Value::as_str);
    if text("status") == Some(status)
        && text("reason") == Some(said.reason)
        && text("message") == Some(&said.message)
    {
        return current.cloned().unwrap_or_default();
    }
    let since = text("lastTransitionTime").filter(|_| text("status") == Some(status));
    let since = since.map_or_else(|| whole_seconds(now), str::to_owned);
    json!({
        "type": said.kind,
        "status": status,
        "reason": said.reason,
        "message": said.message,
        "lastTransitionTime": since,
    })
}

/// A moment as Kubernetes writes it.
pub(super) fn whole_seconds(moment: Timestamp) -> String {
    let second = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
    moment.round(second).unwrap_or(moment).to_string()
}
