//! Going back: the revisions a pool has or had, and the patch that makes one of them the wished one again.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::object::{HistoryObject, Object};
use super::pool::number_of;
use super::table::{Family, TRELLIS, keys};

/// Parts of a MachinePool's spec that come back with an old revision; its size and how it updates stay as they are.
const COMES_BACK: [&str; 2] = ["template", "kubeletVersion"];

/// A revision that a pool has or had. What it holds is not shown: user data may be written out in it.
#[derive(Clone, PartialEq)]
pub struct Kept {
    /// Its place in the history: higher is newer.
    pub number: u64,
    /// The object it is kept in.
    pub name: String,
    /// The uid of that object.
    pub uid: String,
    /// What machines made from it have in common; empty where nothing says it.
    pub revision: String,
    /// When it first was the wished one.
    pub created: Timestamp,
    /// The parts of the pool's spec that come back with it.
    spec: Map<String, Value>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("number", &self.number).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Kept {
    /// The paths at which another revision differs from this one. Values are left out: they may be secret.
    pub fn differs_at(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let (one, other) = (Value::Object(self.spec.clone()), Value::Object(other.spec.clone()));
        trellis_model::change::differences("", &one, &other, &mut found);
        found.into_iter().map(|difference| difference.path).collect()
    }
}

/// The revisions a MachineDeployment has or had, from its sets; the oldest first.
pub fn kept_sets<'a>(
    family: &Family,
    pool: &Object,
    sets: impl IntoIterator<Item = &'a Object>,
) -> Vec<Kept> {
    let own =
        |set: &&Object| set.metadata.owner.as_ref().is_some_and(|owner| *owner.uid == *pool.metadata.uid);
    let kept = |set: &Object| {
        let mut template = set.spec_json().remove("template").unwrap_or_default();
        let labels = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
        let revision = family.hash_label.and_then(|label| labels?.remove(label));
        Kept {
            number: number_of(family, set),
            name: set.metadata.name().to_owned(),
            uid: set.metadata.uid.to_string(),
            revision: revision.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
            created: set.metadata.created,
            spec: [("template".to_owned(), template)].into_iter().collect(),
        }
    };
    in_order(sets.into_iter().filter(own).map(kept).collect())
}

/// The revisions a MachinePool has or had, from its ControllerRevisions; the oldest first.
pub fn kept_history<'a>(pool: &Object, history: impl IntoIterator<Item = &'a HistoryObject>) -> Vec<Kept> {
    let own = |entry: &&HistoryObject| {
        entry.metadata.owner.as_ref().is_some_and(|owner| *owner.uid == *pool.metadata.uid)
    };
    let kept = |entry: &HistoryObject| {
        let mut data: Map<String, Value> = serde_json::from_str(&entry.data).unwrap_or_default();
        let mut spec = match data.remove("pool") {
            Some(Value::Object(spec)) => spec,
            _ => Map::new(),
        };
        spec.retain(|key, _| COMES_BACK.contains(&key.as_str()));
        Kept {
            number: entry.number.try_into().unwrap_or_default(),
            name: entry.metadata.name().to_owned(),
            uid: entry.metadata.uid.to_string(),
            revision: entry.metadata.labels.get(keys::REVISION).unwrap_or_default().to_owned(),
            created: entry.metadata.created,
            spec,
        }
    };
    in_order(history.into_iter().filter(own).map(kept).collect())
}

fn in_order(mut kept: Vec<Kept>) -> Vec<Kept> {
    kept.sort_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
    kept
}

/// The JSON patch that makes an old revision the wished one again. It replaces as a whole what comes back: what was
/// added since goes.
pub fn go_back(family: &Family, pool: &Object, to: &Kept) -> Value {
    let mut operations = vec![json!({ "op": "test", "path": "/metadata/uid", "value": &*pool.metadata.uid })];
    let present = pool.spec_json();
    let parts: &[&str] = if *family == TRELLIS { &COMES_BACK } else { &["template"] };
    for part in parts {
        let path = format!("/spec/{part}");
        match to.spec.get(*part) {
            // Adds what is not there and replaces what is.
            Some(value) => operations.push(json!({ "op": "add", "path": path, "value": value })),
            None if present.contains_key(*part) => operations.push(json!({ "op": "remove", "path": path })),
            None => {}
        }
    }
    operations.into()
}

/// The merge patch that stops the updates of a pool, or lets them go on; nothing where the spec says so already.
pub fn pause(family: &Family, pool: &Object, paused: bool) -> Option<Value> {
    let spec = Value::Object(pool.spec_json());
    let own = *family == TRELLIS;
    let place = if own { "/update/paused" } else { "/paused" };
    if spec.pointer(place).and_then(Value::as_bool).unwrap_or_default() == paused {
        return None;
    }
    let change = if own { json!({ "update": { "paused": paused } }) } else { json!({ "paused": paused }) };
    Some(json!({ "metadata": { "uid": &*pool.metadata.uid }, "spec": change }))
}

#[cfg(test)]
mod tests {
    use super::super::table::KKP;
    use super::*;

    fn object(name: &str, owner: &str, annotations: &Value, spec: &Value) -> Object {
        Object::from_json(json!({
            "metadata": {
                "name": name, "namespace": "n", "uid": name, "annotations": annotations,
                "ownerReferences": [{"kind": "X", "name": owner, "uid": owner, "controller": true}],
            },
            "spec": spec,
        }))
        .unwrap()
    }

    fn set(name: &str, owner: &str, number: &str, image: &str) -> Object {
        let spec = json!({"template": {
            "metadata": {"labels": {"pool": "blue", "machine-template-hash": name}}, "spec": {"image": image},
        }});
        object(name, owner, &json!({KKP.revision_number.unwrap(): number}), &spec)
    }

    #[test]
    fn a_deployment_goes_back_to_the_template_of_a_set_without_its_mark() {
        let pool =
            object("blue", "", &json!({}), &json!({"template": {"spec": {"image": "c"}}, "paused": true}));
        let sets =
            [set("blue-2", "blue", "10", "b"), set("blue-1", "blue", "9", "a"), set("x", "other", "3", "x")];
        let kept = kept_sets(&KKP, &pool, &sets);
        assert_eq!(kept.iter().map(|kept| kept.number).collect::<Vec<_>>(), [9, 10]);
        assert_eq!(kept[0].revision, "blue-1");
        assert_eq!(kept[0].differs_at(&kept[1]), ["template.spec.image"]);
        assert_eq!(
            go_back(&KKP, &pool, &kept[0]),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "blue"},
                {"op": "add", "path": "/spec/template",
                    "value": {"metadata": {"labels": {"pool": "blue"}}, "spec": {"image": "a"}}},
            ])
        );
        assert!(!format!("{kept:?}").contains("image"), "what it holds is not shown");
    }

    #[test]
    fn a_pool_of_ours_keeps_its_size_and_loses_what_was_added() {
        let spec =
            json!({"cluster": "demo", "replicas": 5, "kubeletVersion": "1.35.0", "template": {"a": 2}});
        let pool = object("workers", "", &json!({}), &spec);
        let entry: HistoryObject = serde_json::from_value(json!({
            "metadata": {
                "name": "workers-r1", "namespace": "n", "uid": "h", "labels": {keys::REVISION: "r1"},
                "ownerReferences": [{"kind": "MachinePool", "name": "workers", "uid": "workers", "controller": true}],
            },
            "revision": 3,
            "data": {"cluster": {}, "pool": {"cluster": "demo", "replicas": 1, "template": {"a": 1}}},
        }))
        .unwrap();
        let kept = kept_history(&pool, [&entry]);
        assert_eq!((kept[0].number, kept[0].revision.as_str()), (3, "r1"));
        let operations = go_back(&TRELLIS, &pool, &kept[0]);
        let paths: Vec<&str> = operations
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|operation| operation["path"].as_str())
            .collect();
        assert_eq!(paths, ["/metadata/uid", "/spec/template", "/spec/kubeletVersion"]);
        assert_eq!(operations[2]["op"], "remove");
    }

    #[test]
    fn pausing_is_written_once_in_the_words_of_the_family() {
        let pool = object("blue", "", &json!({}), &json!({}));
        assert_eq!(pause(&KKP, &pool, true).unwrap()["spec"], json!({"paused": true}));
        assert_eq!(pause(&TRELLIS, &pool, true).unwrap()["spec"], json!({"update": {"paused": true}}));
        assert_eq!(pause(&KKP, &pool, false), None);
    }
}
