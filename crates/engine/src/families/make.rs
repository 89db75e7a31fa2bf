//! Objects that plans ask for. Their names are derived: a request that is sent twice makes one object.

use serde_json::{Map, Value, json};
use trellis_model::canonical;

use super::object::Object;
use super::reading::Reading;
use super::table::{FINALIZER, Family, Resource, TRELLIS, keys};

/// The longest name of a machine: it is also a label value, a host name and the name of a Service.
const MAX_NAME: usize = 63;
/// How many characters of a hash stand for what was cut off.
const HASH_LENGTH: usize = 10;

/// A machine that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewMachine<'a> {
    /// Its number in the pool.
    pub ordinal: u32,
    /// Its zone.
    pub zone: Option<&'a str>,
}

/// The name of a machine of a set or pool: what is asked for twice has it twice.
///
/// `owner` is the set, or the MachinePool of our own family, whose machines are named after cluster, pool and revision.
pub fn machine_name(family: &Family, owner: &Object, reading: &Reading, ordinal: u32) -> String {
    if *family == TRELLIS {
        // A dash inside the cluster's name is doubled: the first single dash ends it, and no two pools of two
        // clusters in one namespace have machines of one name.
        let cluster = reading.cluster.name.as_str().replace('-', "--");
        let head = format!("{cluster}-{}", reading.pool.name);
        return bounded(&head, &format!("-{}-{ordinal}", reading.revision));
    }
    bounded(owner.metadata.name(), &format!("-{ordinal}"))
}

/// A new Machine of a set, or of a MachinePool. Our finalizer is on it from the beginning: that saves a request, and
/// there is no moment without it.
pub fn machine(family: &Family, owner: &Object, reading: &Reading, new: NewMachine<'_>) -> Value {
    let name = machine_name(family, owner, reading, new.ordinal);
    let (kind, mut metadata, spec) = if *family == TRELLIS {
        let (metadata, spec) = own_machine(reading, new);
        (family.pool, metadata, spec)
    } else {
        let (metadata, spec) = machine_of_template(owner, new);
        (family.set, metadata, spec)
    };
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), owner.metadata.namespace().into());
    metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
    metadata.insert("ownerReferences".to_owned(), json!([owner_reference(kind, owner)]));
    json!({
        "apiVersion": family.machine.api_version,
        "kind": family.machine.kind,
        "metadata": metadata,
        "spec": spec,
    })
}

fn own_machine(reading: &Reading, new: NewMachine<'_>) -> (Map<String, Value>, Value) {
    let pool = &reading.pool;
    let mut labels: Map<String, Value> = pool
        .spec
        .machine_labels
        .iter()
        .map(|(key, value)| (key.to_string(), value.as_str().into()))
        .collect();
    let ours = [
        (keys::CLUSTER, reading.cluster.name.as_str()),
        (keys::POOL, pool.name.as_str()),
        (keys::ROLE, pool.spec.role.as_str()),
        (keys::REVISION, reading.revision.as_str()),
    ];
    labels.extend(ours.map(|(key, value)| (key.to_owned(), value.into())));
    let annotations: Map<String, Value> = pool
        .spec
        .machine_annotations
        .iter()
        .map(|(key, value)| (key.to_string(), value.as_str().into()))
        .collect();
    let mut spec = json!({
        "cluster": reading.cluster.name,
        "pool": pool.name,
        "revision": reading.revision.as_str(),
        "ordinal": new.ordinal,
    });
    if let Some(zone) = new.zone {
        spec["zone"] = zone.into();
    }
    (metadata_with(labels, annotations), spec)
}

fn machine_of_template(set: &Object, new: NewMachine<'_>) -> (Map<String, Value>, Value) {
    let mut template = set.spec_json().remove("template").unwrap_or_default();
    let mut take = |path: &str| match template.pointer_mut(path).map(Value::take) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let labels = take("/metadata/labels");
    let mut annotations = take("/metadata/annotations");
    annotations.insert(keys::ORDINAL.to_owned(), new.ordinal.to_string().into());
    if let Some(zone) = new.zone {
        annotations.insert(keys::ZONE.to_owned(), zone.into());
    }
    (metadata_with(labels, annotations), Value::Object(take("/spec")))
}

fn metadata_with(labels: Map<String, Value>, annotations: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    for (key, pairs) in [("labels", labels), ("annotations", annotations)] {
        if !pairs.is_empty() {
            metadata.insert(key.to_owned(), Value::Object(pairs));
        }
    }
    metadata
}

/// What a new set is told about its pool's update.
#[derive(Debug, Clone, Copy)]
pub struct NewSet {
    /// Its place in the history.
    pub number: u64,
    /// How many machines it has at first.
    pub replicas: u32,
    /// How many machines its pool is to have.
    pub desired: u32,
    /// How many machines its pool may have meanwhile.
    pub most: u32,
}

/// The name of the set of a revision.
pub fn set_name(pool: &Object, revision: &str) -> String {
    bounded(pool.metadata.name(), &format!("-{revision}"))
}

/// A new MachineSet of a MachineDeployment, for its present template. Nothing where the family has no sets.
pub fn set(family: &Family, pool: &Object, reading: &Reading, new: NewSet) -> Option<Value> {
    let (resource, hash) = (family.set?, family.hash_label?);
    let revision = reading.revision.as_str();
    let mut spec = pool.spec_json();
    let mut template = spec.remove("template").unwrap_or_default();
    let mut selector = spec.remove("selector").unwrap_or_default();
    mark(&mut template, &["metadata", "labels"], hash, revision);
    mark(&mut selector, &["matchLabels"], hash, revision);
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let mut set_spec = json!({ "replicas": new.replicas, "selector": selector, "template": template });
    if let Some(seconds) = spec.remove("minReadySeconds") {
        set_spec["minReadySeconds"] = seconds;
    }
    Some(json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": set_name(pool, revision),
            "namespace": pool.metadata.namespace(),
            "labels": labels,
            "annotations": set_annotations(family, pool, new),
            "ownerReferences": [owner_reference(family.pool, pool)],
        },
        "spec": set_spec,
    }))
}

/// The annotations of a set: those of its pool, and where it stands in the pool's history.
fn set_annotations(family: &Family, pool: &Object, new: NewSet) -> Map<String, Value> {
    let mut out: Map<String, Value> =
        pool.metadata.annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    for (key, value) in numbers(family, new) {
        out.insert(key.to_owned(), value.unwrap_or_default().into());
    }
    out
}

/// The annotations that say where a set stands, for [`super::annotate`]; on the pool itself, only the first is.
pub fn numbers(family: &Family, new: NewSet) -> Vec<(&'static str, Option<String>)> {
    let all = [
        (family.revision_number, new.number.to_string()),
        (family.desired_replicas, new.desired.to_string()),
        (family.max_replicas, new.most.to_string()),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key?, Some(value)))).collect()
}

/// The history of a MachinePool: a ControllerRevision with the cluster and the pool as they are, for machines of
/// this revision need both when the present ones have changed.
pub fn history(pool: &Object, reading: &Reading, number: i64) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": set_name(pool, reading.revision.as_str()),
            "namespace": pool.metadata.namespace(),
            "labels": {
                keys::CLUSTER: reading.cluster.name,
                keys::POOL: reading.pool.name,
                keys::REVISION: reading.revision.as_str(),
            },
            "ownerReferences": [owner_reference(TRELLIS.pool, pool)],
        },
        "revision": number,
        "data": { "cluster": reading.cluster.spec, "pool": reading.pool.spec },
    })
}

fn owner_reference(kind: Option<Resource>, owner: &Object) -> Value {
    json!({
        "apiVersion": kind.map(|kind| kind.api_version),
        "kind": kind.map(|kind| kind.kind),
        "name": owner.metadata.name(),
        "uid": &*owner.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Puts a label at a place, which is made if it is not there.
fn mark(value: &mut Value, path: &[&str], key: &str, text: &str) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { return };
    match path {
        [] => drop(map.insert(key.to_owned(), text.into())),
        [first, rest @ ..] => mark(map.entry(*first).or_insert(Value::Null), rest, key, text),
    }
}

/// Head and tail, or if that is too long the beginning of the head, a hash of all of it, and the tail.
fn bounded(head: &str, tail: &str) -> String {
    let whole = format!("{head}{tail}");
    if whole.len() <= MAX_NAME {
        return whole;
    }
    let mut hash = canonical::hash(&whole);
    hash.truncate(HASH_LENGTH);
    let keep = MAX_NAME.saturating_sub(HASH_LENGTH + 1 + tail.len());
    let beginning = head.get(..keep).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{beginning}-{hash}{tail}")
}
