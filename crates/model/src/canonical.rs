//! One hash for one meaning.
//!
//! A model value holds no trace of how it was written: defaults are filled in when it is read,
//! amounts are numbers, unordered lists are sets. Its canonical text is therefore the same for every
//! spelling, and so is the hash. What is hashed to recognise a revision leaves out all that can
//! change without replacing a machine (see [`crate::change`]).

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::change::{Class, POOL_FIELDS};
use crate::cluster::Cluster;
use crate::pool::Pool;
use crate::resolve::resolve;

/// The canonical JSON text of a value: keys sorted, no spaces.
pub fn text(value: &impl Serialize) -> String {
    let mut out = String::new();
    // Model types are made of strings, numbers, lists and string-keyed maps, which always serialise.
    write_canonical(&serde_json::to_value(value).unwrap_or(Value::Null), &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            write_list('{', '}', keys.into_iter(), out, |(key, value), out| {
                write_canonical(&Value::String(key.clone()), out);
                out.push(':');
                write_canonical(value, out);
            });
        }
        Value::Array(list) => write_list('[', ']', list.iter(), out, write_canonical),
        // Writing to a String cannot fail.
        scalar => drop(write!(out, "{scalar}")),
    }
}

fn write_list<T>(
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    out: &mut String,
    mut each: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(close);
}

/// The SHA-256 of a value's canonical text, in hexadecimal.
pub fn hash(value: &impl Serialize) -> String {
    Sha256::digest(text(value).as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// How many characters of the hash name a revision: 40 bits, and a name stays short.
const REVISION_LENGTH: usize = 10;

/// What machines of one making have in common: they need not be replaced for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(String);

impl Revision {
    /// The revision machines of this pool are made from.
    pub fn of(cluster: &Cluster, pool: &Pool) -> Self {
        let resolved = resolve(cluster, pool);
        let mut spec = pool.spec.clone();
        spec.template = resolved.template;
        spec.kubelet_version = resolved.kubelet_version;
        let mut view = serde_json::to_value(&spec).unwrap_or(Value::Null);
        let can_grow = crate::change::grows_in_place(&spec.template);
        for field in POOL_FIELDS.iter().filter(|field| field.class.of(can_grow) != Class::Roll) {
            remove(&mut view, field.path);
        }
        let beside = (resolved.flavor, resolved.networks);
        let mut hash = hash(&(view, beside));
        hash.truncate(REVISION_LENGTH);
        Self(hash)
    }

    /// Its short name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Removes the field at a dotted path, if it is there.
fn remove(value: &mut Value, path: &str) {
    match (path.split_once('.'), value) {
        (Some((first, rest)), Value::Object(map)) => {
            if let Some(inner) = map.get_mut(first) {
                remove(inner, rest);
                // An empty object says the same as no object: both are all defaults.
                if inner.as_object().is_some_and(serde_json::Map::is_empty) {
                    map.remove(first);
                }
            }
        }
        (None, Value::Object(map)) => {
            map.remove(path);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_sorts_keys_at_every_depth() {
        let value = serde_json::json!({ "b": [ { "z": 1, "a": null } ], "a": "x\n" });
        assert_eq!(text(&value), r#"{"a":"x\n","b":[{"a":null,"z":1}]}"#);
    }

    #[test]
    fn removing_the_last_field_removes_its_parent() {
        let mut value = serde_json::json!({ "a": { "b": { "c": 1 } }, "d": 2 });
        remove(&mut value, "a.b.c");
        assert_eq!(value, serde_json::json!({ "d": 2 }));
        remove(&mut value, "d.e");
        assert_eq!(value, serde_json::json!({ "d": 2 }));
    }
}
