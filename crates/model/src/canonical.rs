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

use crate::change::{Class, FieldRule, INHERITED_FIELDS, POOL_FIELDS, grows_in_place, rule_for};
use crate::cluster::Cluster;
use crate::pool::Pool;
use crate::resolve::MachineView;

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
        let view = MachineView::of(Some(cluster), pool);
        let can_grow = grows_in_place(&pool.spec.template);
        let rolling = |value: Value, rules| rolling_part(value, "", &[rules], can_grow);
        let parts = (rolling(view.spec, POOL_FIELDS), rolling(view.inherited, INHERITED_FIELDS));
        let mut hash = hash(&parts);
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

/// What of a value replaces machines when it changes.
///
/// An object whose own class is to replace machines stays even when nothing in it does: whether it is
/// there at all makes a difference.
fn rolling_part(value: Value, path: &str, rules: &[&[FieldRule]], can_grow: bool) -> Option<Value> {
    let rolls = rule_for(rules, path).is_some_and(|rule| rule.class.of(can_grow) == Class::Roll);
    match value {
        Value::Object(map) => {
            let field = |(key, value): (String, Value)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                Some((key, rolling_part(value, &path, rules, can_grow)?))
            };
            let rest: serde_json::Map<String, Value> = map.into_iter().filter_map(field).collect();
            (rolls || !rest.is_empty()).then_some(Value::Object(rest))
        }
        leaf => rolls.then_some(leaf),
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
    fn what_changes_in_place_is_no_part_of_a_revision() {
        let view = serde_json::json!({
            "replicas": 3,
            "template": { "placement": { "region": "a", "zones": ["b"] }, "eviction": "None", "nics": [1] },
        });
        let part = rolling_part(view, "", &[POOL_FIELDS], true);
        assert_eq!(
            part,
            Some(serde_json::json!({ "template": { "placement": { "region": "a" }, "nics": [1] } }))
        );
    }
}
