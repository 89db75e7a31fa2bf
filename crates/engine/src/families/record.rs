//! What is kept of a machine in its status, in the form of its family.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::object::Object;
use super::table::{Family, OPENSHIFT, TRELLIS};
use crate::machines::{Phase, Record};

/// Where the record of a foreign family's Machine is: beside what its own controllers write there.
pub(super) const PROVIDER_STATUS: &str = "providerStatus";
/// The key of ours in it.
pub(super) const OURS: &str = "trellis";
/// The annotation OpenShift's actuator keeps the uid of the VM in.
const VM_ID: &str = "VmId";

/// The record as JSON, without the phase and the Node, which statuses have places of their own for.
pub(super) fn to_json(record: &Record) -> Map<String, Value> {
    // Every field by name: one that is added must be written too.
    let Record {
        phase: _,
        stage,
        infra_namespace,
        vm_uid,
        firmware_uuid,
        vm_removal_seen,
        instance_uid,
        host,
        node: _,
        joined,
        drain_started,
        emptied,
        evacuation_started,
        evacuation_cordoned,
        evacuation_void,
        unready_since,
        create_failures: (failures, failed),
    } = record;
    let mut out = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let time = |time: &Option<Timestamp>| time.map(|time| Value::from(time.to_string()));
    put("stage", stage.map(|(stage, _)| stage.as_str().into()));
    put("stageSince", time(&stage.map(|(_, since)| since)));
    put("infraNamespace", text(infra_namespace));
    put("vmUID", text(vm_uid));
    put("firmwareUUID", text(firmware_uuid));
    put("vmRemovalSeen", vm_removal_seen.then_some(Value::Bool(true)));
    put("instanceUID", text(instance_uid));
    put("host", text(host));
    put("joined", time(joined));
    put("drainStarted", time(drain_started));
    put("emptied", time(emptied));
    put("evacuationStarted", time(evacuation_started));
    put("evacuationCordoned", evacuation_cordoned.then_some(Value::Bool(true)));
    put("evacuationVoid", text(evacuation_void));
    put("unreadySince", time(unready_since));
    put("createFailures", (*failures > 0).then(|| json!(failures)));
    put("createFailed", time(failed));
    out
}

/// The record of a Machine, from its status. Of a machine that others made, what their status tells.
pub(super) fn of(family: &Family, machine: &Object) -> Record {
    let status = machine.status_json();
    let own = *family == TRELLIS;
    let empty = Map::new();
    let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let ours = if own {
        map(status.get("record"))
    } else {
        map(status.get(PROVIDER_STATUS).and_then(|provider| provider.get(OURS)))
    };
    let spoken = if own { &status } else { ours.as_ref().unwrap_or(&empty) };
    let phase = phase(spoken, "phase", "phaseSince");
    let node = status.get("nodeRef").and_then(Value::as_object);
    let node = node.and_then(|node| Some((text(node, "name")?, text(node, "uid").unwrap_or_default())));
    let Some(record) = &ours else { return of_others(family, machine, &status, phase, node) };
    let truth = |key: &str| record.get(key).and_then(Value::as_bool).unwrap_or_default();
    Record {
        phase,
        stage: self::phase(record, "stage", "stageSince"),
        infra_namespace: text(record, "infraNamespace"),
        vm_uid: text(record, "vmUID"),
        firmware_uuid: text(record, "firmwareUUID"),
        vm_removal_seen: truth("vmRemovalSeen"),
        instance_uid: text(record, "instanceUID"),
        host: text(record, "host"),
        node,
        joined: time(record, "joined"),
        drain_started: time(record, "drainStarted"),
        emptied: time(record, "emptied"),
        evacuation_started: time(record, "evacuationStarted"),
        evacuation_cordoned: truth("evacuationCordoned"),
        evacuation_void: text(record, "evacuationVoid"),
        unready_since: time(record, "unreadySince"),
        create_failures: (
            record
                .get("createFailures")
                .and_then(Value::as_u64)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
            time(record, "createFailed"),
        ),
    }
}

/// What the status of a machine that others made tells.
fn of_others(
    family: &Family,
    machine: &Object,
    status: &Map<String, Value>,
    phase: Option<(Phase, Timestamp)>,
    node: Option<(String, String)>,
) -> Record {
    let is_openshift = *family == OPENSHIFT;
    let id = machine.provider_id.as_deref().and_then(|id| id.strip_prefix("kubevirt://"));
    let namespace = id.and_then(|id| id.split_once('/')).map(|(namespace, _)| namespace.to_owned());
    let ready = condition(status, "NodeReady").filter(|(holds, _)| *holds == Some(true));
    Record {
        phase,
        infra_namespace: namespace.filter(|_| is_openshift),
        vm_uid: machine.metadata.annotations.get(VM_ID).filter(|_| is_openshift).map(str::to_owned),
        // A machine that has a Node has joined, if not later than now that it is looked at first.
        joined: node.as_ref().and_then(|_| ready.and_then(|(_, since)| since)),
        node,
        ..Record::default()
    }
}

/// Whether a condition of a status holds, and since when.
pub(super) fn condition(
    status: &Map<String, Value>,
    kind: &str,
) -> Option<(Option<bool>, Option<Timestamp>)> {
    let conditions = status.get("conditions")?.as_array()?;
    let of_kind = |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some(kind);
    let condition = conditions.iter().find(of_kind)?.as_object()?;
    let holds = match condition.get("status").and_then(Value::as_str) {
        Some("True") => Some(true),
        Some("False") => Some(false),
        _ => None,
    };
    Some((holds, time(condition, "lastTransitionTime")))
}

fn phase(map: &Map<String, Value>, key: &str, since: &str) -> Option<(Phase, Timestamp)> {
    text(map, key).and_then(|name| Phase::from_name(&name)).zip(time(map, since))
}

pub(super) fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

pub(super) fn time(map: &Map<String, Value>, key: &str) -> Option<Timestamp> {
    map.get(key).and_then(Value::as_str)?.parse().ok()
}
