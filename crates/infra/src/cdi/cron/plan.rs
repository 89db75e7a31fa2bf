//! Which imports an import cron makes and which it keeps.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cdi::names;
use crate::object::Object as _;

/// How many imports are kept where nobody says otherwise.
const USUAL: usize = 3;
/// How much of a digest becomes part of a name.
const DIGITS: usize = 12;

/// The name of the import of a digest.
pub(super) fn import_name(source: &str, digest: &str) -> String {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    let digits: String = digits.chars().take(DIGITS).collect();
    names::name(&format!("{source}-{digits}"))
}

/// The import of a digest.
pub(super) fn import(cron: &Value, name: &str, digest: &str, now: &str) -> Value {
    let template = cron.at("/spec/template");
    let mut metadata = json!({
        "namespace": cron.namespace(), "name": name,
        "labels": template.at("/metadata/labels"), "annotations": template.at("/metadata/annotations"),
    });
    for field in ["labels", "annotations"] {
        if !metadata[field].is_object() {
            metadata[field] = json!({});
        }
    }
    let mut import = json!({"metadata": metadata, "spec": template["spec"]});
    import.set_label(names::CRON_LABEL, cron.name());
    import.set_annotation(names::CRON_LAST_USE, now);
    import.set_annotation("cdi.kubevirt.io/storage.import.digest", digest);
    import.set_annotation(names::IMMEDIATE_BINDING, "true");
    import
}

/// Which imports are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keeps {
    count: Option<usize>,
}

impl Keeps {
    pub(super) fn of(cron: &Value) -> Self {
        let count = cron.number("/spec/importsToKeep").and_then(|count| usize::try_from(count).ok());
        let never = cron.text("/spec/garbageCollect") == "Never";
        Self { count: (!never).then(|| count.unwrap_or(USUAL)) }
    }

    /// The names of those that can go: all but the newest, and of the others the youngest.
    pub(super) fn outdated(self, imports: &[Arc<Value>], newest: &str) -> Vec<String> {
        let Some(count) = self.count else { return Vec::new() };
        let mut others: Vec<(&str, &str)> = imports
            .iter()
            .filter(|import| import.name() != newest)
            .map(|import| (import.text("/metadata/creationTimestamp"), import.name()))
            .collect();
        others.sort_unstable();
        others.reverse();
        others.into_iter().skip(count.saturating_sub(1)).map(|(_, name)| name.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_named_after_its_digest() {
        assert_eq!(import_name("fedora", "sha256:0123456789abcdef"), "fedora-0123456789ab");
        assert_eq!(import_name("fedora", "uid:12-34"), "fedora-12-34");
    }

    #[test]
    fn the_youngest_are_kept() {
        let import =
            |name: &str, at: &str| Arc::new(json!({"metadata": {"name": name, "creationTimestamp": at}}));
        let imports = [import("a", "1"), import("b", "2"), import("c", "3"), import("d", "4")];
        let outdated = |spec: Value| Keeps::of(&json!({"spec": spec})).outdated(&imports, "d");
        assert_eq!(outdated(json!({})), ["a"]);
        assert_eq!(outdated(json!({"importsToKeep": 1})), ["c", "b", "a"]);
        assert!(outdated(json!({"garbageCollect": "Never"})).is_empty());
    }
}
