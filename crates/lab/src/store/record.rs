//! One stored version of an object.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::schema::decode;

/// Objects with more levels are deep: whoever walks over them needs more of the stack than usual.
pub(crate) const DEEP: usize = 64;

/// Where an object is inside its resource. The namespace is empty for objects of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// A key by its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One version of an object: the JSON that clients get, and what selectors and the garbage collector look at.
#[derive(Debug)]
pub struct Record {
    /// The resource version.
    pub version: u64,
    /// Where the object is.
    pub key: Key,
    /// The object in its storage version, as JSON: `apiVersion` and `kind` first, then the rest by name.
    pub body: Bytes,
    /// Where the rest begins: lists leave the type out, and other versions have another one.
    rest: usize,
    /// What is looked at without parsing the body.
    pub index: Index,
    /// The object, where somebody wanted it kept.
    parsed: OnceLock<Arc<Value>>,
}

/// What is looked at often enough to be kept beside the body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The uid.
    pub uid: String,
    /// The labels, sorted by key.
    pub labels: Vec<(String, String)>,
    /// The fields a field selector can ask for besides name and namespace.
    pub fields: Vec<(String, String)>,
    /// The owner references.
    pub owners: Vec<Owner>,
    /// The finalizers.
    pub finalizers: Vec<String>,
    /// True once deletion was asked for.
    pub deleting: bool,
    /// True when the metadata has fields that say nothing, which readers of typed metadata never see.
    pub gaps: bool,
    /// Since when there was the schema that shaped the object as it was written; none for what was read from disk.
    pub shaped_at: Option<u64>,
}

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The uid: what really identifies the owner.
    pub uid: String,
    /// `v1` or `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// True when the owner's foreground deletion waits for this object.
    pub blocks: bool,
}

impl Index {
    /// Reads the index off an object; `fields` are the selectable ones its kind defines.
    pub fn of(object: &Value, fields: Vec<(String, String)>) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            uid: text(&metadata["uid"]),
            labels: metadata["labels"]
                .as_object()
                .map(|labels| labels.iter().map(|(key, value)| (key.clone(), text(value))).collect())
                .unwrap_or_default(),
            fields,
            owners: metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|owner| Owner {
                    uid: text(&owner["uid"]),
                    api_version: text(&owner["apiVersion"]),
                    kind: text(&owner["kind"]),
                    name: text(&owner["name"]),
                    blocks: owner["blockOwnerDeletion"].as_bool().unwrap_or(false),
                })
                .collect(),
            finalizers: metadata["finalizers"].as_array().into_iter().flatten().map(text).collect(),
            deleting: metadata["deletionTimestamp"].is_string(),
            gaps: leaves_gaps(metadata),
            shaped_at: None,
        }
    }
}

/// True for metadata with fields that say nothing.
pub(crate) fn leaves_gaps(metadata: &Value) -> bool {
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    metadata.as_object().is_some_and(|fields| fields.values().any(says_nothing))
}

impl Record {
    /// A record read back from disk.
    pub(super) fn stored(version: u64, key: Key, object: &Value, body: Bytes, index: Index) -> Self {
        let rest = type_prefix(&object["apiVersion"], &object["kind"]).len();
        Self { version, key, body, rest, index, parsed: OnceLock::new() }
    }

    /// The object without `apiVersion` and `kind`: what follows an opening brace.
    pub(crate) fn untyped(&self) -> &[u8] {
        self.body.get(self.rest..).unwrap_or_default()
    }

    /// The object under another version of its kind, which differs in nothing else.
    pub(crate) fn retyped(&self, api_version: &str, kind: &str) -> Bytes {
        let mut body = type_prefix(&api_version.into(), &kind.into());
        body.extend_from_slice(self.untyped());
        body.into()
    }

    /// The object under another resource version.
    pub(crate) fn at_version(&self, version: u64) -> Record {
        let object = self.parse();
        let mut record = Draft::new(&object, self.index.fields.clone(), 0).finish(&self.key, version);
        record.index.shaped_at = self.index.shaped_at;
        record
    }

    /// The object, parsed. The body is always what we wrote ourselves, so a failure would be damage on disk.
    pub fn parse(&self) -> Value {
        decode::parse_stored(&self.body).unwrap_or(Value::Null)
    }

    /// The object, parsed once and kept as long as the record: for the few that every request looks at.
    pub(crate) fn kept(&self) -> Arc<Value> {
        Arc::clone(self.parsed.get_or_init(|| Arc::new(self.parse())))
    }
}

/// An object written as JSON but for its resource version, which is known only when the write is ordered.
#[derive(Debug)]
pub(crate) struct Draft {
    before: Vec<u8>,
    after: Vec<u8>,
    rest: usize,
    index: Index,
    /// True when the object is a deep one.
    pub(super) deep: bool,
}

impl Draft {
    /// Writes the object with a hole where `metadata.resourceVersion` goes. `shaped_at` tells the schema it was made by.
    pub(crate) fn new(object: &Value, fields: Vec<(String, String)>, shaped_at: u64) -> Self {
        let index = Index { shaped_at: Some(shaped_at), ..Index::of(object, fields) };
        let mut before = type_prefix(&object["apiVersion"], &object["kind"]);
        let rest = before.len();
        let mut after = Vec::new();
        let empty = Map::new();
        let top = object.as_object().unwrap_or(&empty);
        let fields = top.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"));
        for (place, (key, value)) in fields.enumerate() {
            let out = if after.is_empty() { &mut before } else { &mut after };
            if place > 0 {
                out.push(b',');
            }
            write_key(out, key);
            if key == "metadata" {
                let (mut left, right) = metadata_around_version(value.as_object().unwrap_or(&empty));
                before.append(&mut left);
                after = right;
            } else {
                write_value(out, value);
            }
        }
        let out = if after.is_empty() { &mut before } else { &mut after };
        out.push(b'}');
        Self { before, after, rest, index, deep: decode::is_deeper_than(object, DEEP) }
    }

    /// The finished record.
    pub(crate) fn finish(self, key: &Key, version: u64) -> Record {
        let digits = version.to_string();
        let mut body = Vec::with_capacity(self.before.len() + digits.len() + self.after.len());
        body.extend_from_slice(&self.before);
        if !self.after.is_empty() {
            body.extend_from_slice(digits.as_bytes());
            body.extend_from_slice(&self.after);
        }
        Record {
            version,
            key: key.clone(),
            body: body.into(),
            rest: self.rest,
            index: self.index,
            parsed: OnceLock::new(),
        }
    }
}

/// The metadata as JSON, cut where the digits of the resource version belong.
fn metadata_around_version(metadata: &Map<String, Value>) -> (Vec<u8>, Vec<u8>) {
    let mut left = vec![b'{'];
    let mut right = Vec::new();
    let open = |left: &mut Vec<u8>| {
        if left.len() > 1 {
            left.push(b',');
        }
        write_key(left, "resourceVersion");
        left.push(b'"');
    };
    for (key, value) in metadata {
        if key == "resourceVersion" {
            continue;
        }
        if right.is_empty() && key.as_str() > "resourceVersion" {
            open(&mut left);
            right.push(b'"');
        }
        let first = right.is_empty() && left.len() == 1;
        let out = if right.is_empty() { &mut left } else { &mut right };
        if !first {
            out.push(b',');
        }
        write_key(out, key);
        write_value(out, value);
    }
    if right.is_empty() {
        open(&mut left);
        right.push(b'"');
    }
    right.push(b'}');
    (left, right)
}

/// How every stored object begins.
fn type_prefix(api_version: &Value, kind: &Value) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(1024);
    prefix.extend_from_slice(b"{\"apiVersion\":");
    write_value(&mut prefix, api_version);
    prefix.extend_from_slice(b",\"kind\":");
    write_value(&mut prefix, kind);
    prefix.push(b',');
    prefix
}

fn write_key(out: &mut Vec<u8>, key: &str) {
    write_value(out, &key);
    out.push(b':');
}

/// Writing JSON into memory cannot fail; a map with keys that are no texts is not possible in a `Value`.
fn write_value<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "JSON values always serialise");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round(object: Value) {
        let record = Draft::new(&object, Vec::new(), 0).finish(&Key::new("", "a"), 42);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(record.parse(), expected);
        let untyped = [b"{", record.untyped()].concat();
        let untyped: Value = serde_json::from_slice(&untyped).unwrap();
        assert_eq!(untyped["metadata"], expected["metadata"]);
        assert!(untyped.get("kind").is_none());
        let retyped: Value = serde_json::from_slice(&record.retyped("v2", "Other")).unwrap();
        assert_eq!((retyped["apiVersion"].as_str(), retyped["kind"].as_str()), (Some("v2"), Some("Other")));
    }

    #[test]
    fn the_version_is_written_into_its_place() {
        round(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}, "data": {"x": "\"resourceVersion\""}}),
        );
        round(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}}),
        );
        round(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": "u"}, "zeta": [1, 2]}));
        round(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
    }

    #[test]
    fn the_index_holds_what_selectors_ask_for() {
        let object = json!({"metadata": {"uid": "u", "labels": {"b": "2", "a": "1"}, "finalizers": ["f"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o", "blockOwnerDeletion": true}]}});
        let index = Index::of(&object, vec![("type".to_owned(), "Opaque".to_owned())]);
        assert_eq!(index.labels, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        assert!(index.deleting && index.owners[0].blocks);
        assert_eq!(index.finalizers, ["f"]);
    }
}
