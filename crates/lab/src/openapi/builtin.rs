//! What the documents say of the built-in types.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::operations::TypeNames;
use super::schemas::{self, Form};
use crate::discovery::Entry;
use crate::names::Gvk;
use crate::schema::builtin;

/// The built-in groups and versions.
pub(super) static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(Entry::builtin);

/// The kind that each named type is the form of.
static KINDS: LazyLock<HashMap<&'static str, &'static Gvk>> = LazyLock::new(|| {
    builtin::kinds().filter_map(|(kind, of)| Some((of.node().name.as_deref()?, kind))).collect()
});

/// The built-in types by their kinds.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuiltinNames;

impl TypeNames for BuiltinNames {
    fn of(&self, group: &str, version: &str, kind: &str) -> String {
        builtin::kind_of(&Gvk::new(group, version, kind))
            .and_then(|of| of.node().name.clone())
            .unwrap_or_else(|| super::custom::model_name(group, version, kind))
    }
}

/// The groups and versions whose documents a schema that every one has (`DeleteOptions`, `WatchEvent`) tells.
#[derive(Debug, Clone, Copy)]
pub(super) enum Everywhere<'a> {
    /// The core and one more.
    One(&'a str, &'a str),
    /// All of them.
    All,
}

/// Adds the schemas of these names and of everything they refer to.
pub(super) fn add_schemas(
    mut wanted: BTreeSet<String>,
    form: Form,
    everywhere: Everywhere<'_>,
    into: &mut Map<String, Value>,
) {
    while let Some(name) = wanted.pop_first() {
        if into.contains_key(&name) {
            continue;
        }
        let schema = match (builtin::types().named(&name), schemas::simple(&name, form)) {
            (_, Some(simple)) => simple,
            (Some(of), None) => {
                let mut schema = schemas::object(of, form, &mut wanted);
                let kinds = kinds_of(&name, everywhere);
                if !kinds.is_empty() {
                    schema["x-kubernetes-group-version-kind"] = kinds.into();
                }
                schema
            }
            (None, None) => continue,
        };
        into.insert(name, schema);
    }
}

fn kinds_of(name: &str, everywhere: Everywhere<'_>) -> Vec<Value> {
    let told =
        |group: &str, version: &str, kind: &str| json!({"group": group, "kind": kind, "version": version});
    if let Some(kind) = KINDS.get(name) {
        return vec![told(&kind.group, &kind.version, &kind.kind)];
    }
    let Some(kind @ ("DeleteOptions" | "WatchEvent")) = name.rsplit('.').next() else { return Vec::new() };
    let mut versions: Vec<(&str, &str)> = match everywhere {
        Everywhere::One("", version) => vec![("", version)],
        Everywhere::One(group, version) => vec![("", "v1"), (group, version)],
        Everywhere::All => {
            ENTRIES.iter().map(|entry| (entry.group.as_str(), entry.version.as_str())).collect()
        }
    };
    versions.sort_unstable();
    versions.into_iter().map(|(group, version)| told(group, version, kind)).collect()
}
