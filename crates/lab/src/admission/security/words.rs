//! Putting violations into the words of the real server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::json::{items, text};

/// Something a level does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl Violation {
    pub(super) fn new(reason: &str, detail: String) -> Self {
        Self { reason: reason.to_owned(), detail }
    }
}

/// All containers of a pod, in the order the real server looks at them.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let spec = &pod["spec"];
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|key| items(&spec[key]))
}

/// The names of the containers that fail a test.
pub(super) fn failing<'a>(pod: &'a Value, fails: impl Fn(&'a Value) -> bool) -> Vec<&'a str> {
    containers(pod).filter(|container| fails(container)).map(|container| text(&container["name"])).collect()
}

/// One word or the other.
pub(super) fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `"a", "b"`, without escaping.
pub(super) fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let parts: Vec<String> = names.into_iter().map(|name| format!("\"{}\"", name.as_ref())).collect();
    parts.join(", ")
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn named(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Who does something wrong: the pod, its containers, or both; nothing if nobody does.
pub(super) fn setters(pod_is_bad: bool, containers: &[&str]) -> Option<String> {
    match (pod_is_bad, containers) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(named(names)),
        (true, names) => Some(format!("pod and {}", named(names))),
    }
}

/// Values in order and without repetitions.
pub(super) fn distinct<'a>(values: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    values.into_iter().collect()
}

/// True if the pod runs in a user namespace, where more is harmless.
pub(super) fn has_own_users(pod: &Value) -> bool {
    pod["spec"]["hostUsers"] == false
}
