//! The rules every object's metadata follows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::view::{Edit, Look, Path, Problems};
use super::{format, shown};

/// What the name of an object may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A subdomain: what most kinds have.
    Subdomain,
    /// A subdomain, by the newer rules of the schema.
    LongName,
    /// A single label.
    Label,
    /// A label that starts with a letter.
    Label1035,
    /// Anything that can be a part of a path.
    PathSegment,
    /// An address in its canonical form.
    IpAddress,
}

impl NameRule {
    /// What is wrong with a name; `prefix` when something will be appended to it.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked;
        let name = if prefix && self != Self::PathSegment && name.len() > 1 && name.ends_with('-') {
            // What is appended makes up for the dash. The real server cuts off one byte too many, too.
            let mut bytes = name.as_bytes()[..name.len() - 2].to_vec();
            bytes.push(b'a');
            masked = String::from_utf8_lossy(&bytes).into_owned();
            &masked
        } else {
            name
        };
        match self {
            Self::Subdomain => format::dns1123_subdomain(name),
            Self::LongName => format::long_name(name),
            Self::Label => format::dns1123_label(name),
            Self::Label1035 => format::dns1035_label(name),
            Self::PathSegment if prefix => format::path_segment_prefix(name),
            Self::PathSegment => format::path_segment(name),
            Self::IpAddress => format::strict_ip(name),
        }
    }
}

/// The problems of an object's metadata when it is made.
pub fn validate(metadata: &Value, namespaced: bool, rule: NameRule) -> Vec<crate::status::FieldProblem> {
    let mut problems = Problems::default();
    validate_into(
        metadata,
        namespaced,
        &|name, prefix| rule.check(name, prefix),
        &Path::root("metadata"),
        &mut problems,
    );
    problems.0
}

/// The problems of an object's metadata when it is changed.
pub fn validate_update(new: &Value, old: &Value) -> Vec<crate::status::FieldProblem> {
    let mut problems = Problems::default();
    validate_update_into(new, old, &Path::root("metadata"), &mut problems);
    problems.0
}

/// Says what is wrong with a name, or with the start of one.
pub(crate) type NameCheck<'a> = &'a dyn Fn(&str, bool) -> Vec<String>;

pub(crate) fn validate_into(
    metadata: &Value,
    namespaced: bool,
    name_check: NameCheck<'_>,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    let generate = metadata.text("generateName");
    if !generate.is_empty() {
        problems.invalid_each(&at.child("generateName"), generate, name_check(generate, true));
    }
    let name = metadata.text("name");
    if name.is_empty() {
        problems.required(&at.child("name"), "name or generateName is required");
    } else {
        problems.invalid_each(&at.child("name"), name, name_check(name, false));
    }
    validate_common(metadata, namespaced, at, problems);
}

/// Everything but the name.
pub(crate) fn validate_common(metadata: &Value, namespaced: bool, at: &Path<'_>, problems: &mut Problems) {
    let namespace = metadata.text("namespace");
    if namespaced {
        if namespace.is_empty() {
            problems.required(&at.child("namespace"), "");
        } else {
            problems.invalid_each(&at.child("namespace"), namespace, format::dns1123_label(namespace));
        }
    } else if !namespace.is_empty() {
        problems.forbidden(&at.child("namespace"), "not allowed on this type");
    }
    problems.not_negative(&at.child("generation"), metadata.int("generation").unwrap_or_default());
    labels(metadata.at("labels"), &at.child("labels"), problems);
    annotations(metadata.at("annotations"), &at.child("annotations"), problems);
    owners(metadata.list("ownerReferences"), &at.child("ownerReferences"), problems);
    finalizers(metadata, &at.child("finalizers"), problems);
    managed_fields(metadata.list("managedFields"), &at.child("managedFields"), problems);
}

pub(crate) fn validate_update_into(new: &Value, old: &Value, at: &Path<'_>, problems: &mut Problems) {
    if old.has("deletionTimestamp") {
        let before: BTreeSet<&str> = old.list("finalizers").iter().map(Look::str).collect();
        let added: BTreeSet<&str> =
            new.list("finalizers").iter().map(Look::str).filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            let names: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            problems.forbidden(
                &at.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    names.join(", ")
                ),
            );
        }
    }
    if new.text("resourceVersion").is_empty() {
        problems.invalid(&at.child("resourceVersion"), "", "must be specified for an update");
    }
    let generation = new.int("generation").unwrap_or_default();
    problems.not_negative(&at.child("generation"), generation);
    if generation < old.int("generation").unwrap_or_default() {
        problems.invalid(&at.child("generation"), generation, "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        if new.text(field) != old.text(field) {
            problems.invalid(&at.child(field), new.text(field), "field is immutable");
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        problems.immutable(&at.child(field), new.at(field), old.at(field));
    }
    labels(new.at("labels"), &at.child("labels"), problems);
    annotations(new.at("annotations"), &at.child("annotations"), problems);
    owners(new.list("ownerReferences"), &at.child("ownerReferences"), problems);
    managed_fields(new.list("managedFields"), &at.child("managedFields"), problems);
}

pub(crate) fn labels(labels: &Value, at: &Path<'_>, problems: &mut Problems) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        problems.invalid_each(at, key, format::qualified_name(key));
        problems.invalid_each(at, value.str(), format::label_value(value.str()));
    }
}

pub(crate) fn annotations(annotations: &Value, at: &Path<'_>, problems: &mut Problems) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        problems.invalid_each(at, key, format::qualified_name(&key.to_lowercase()));
        size += key.len() + value.str().len();
    }
    if size > 256 * 1024 {
        problems.too_long(at, 256 * 1024);
    }
}

fn owners(owners: &[Value], at: &Path<'_>, problems: &mut Problems) {
    let mut controller: Option<String> = None;
    for (place, owner) in owners.iter().enumerate() {
        let here = at.index(place);
        let version = owner.text("apiVersion");
        let parts = version.split('/').count();
        if version.is_empty() {
            problems.required(&here.child("apiVersion"), "must not be empty");
        } else if parts > 2 || version.ends_with('/') {
            problems.invalid(&here.child("apiVersion"), version, "must be <group>/<version> or <version>");
        }
        for field in ["kind", "name", "uid"] {
            if owner.text(field).is_empty() {
                problems.required(&here.child(field), "must not be empty");
            }
        }
        if version == "v1" && owner.text("kind") == "Event" {
            let shown = shown::internal("meta.OwnerReference", owner);
            problems.invalid_shown(&here, &shown, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.flag("controller") {
            let name = format!("{}/{}", owner.text("kind"), owner.text("name"));
            match &controller {
                Some(first) => problems.invalid_shown(
                    at,
                    &shown::list("meta.OwnerReference", owners),
                    &format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"),
                ),
                None => controller = Some(name),
            }
        }
    }
}

fn finalizers(metadata: &Value, at: &Path<'_>, problems: &mut Problems) {
    let names = metadata.list("finalizers");
    for name in names.iter().map(Look::str) {
        problems.invalid_each(at, name, format::qualified_name(name));
    }
    let has = |wanted: &str| names.iter().any(|name| name.str() == wanted);
    if has("orphan") && has("foregroundDeletion") {
        problems.invalid(at, names.to_vec(), "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn managed_fields(entries: &[Value], at: &Path<'_>, problems: &mut Problems) {
    for (place, entry) in entries.iter().enumerate() {
        let here = at.index(place);
        match entry.text("operation") {
            "" => problems.required(&here.child("operation"), "must not be empty"),
            operation => problems.one_of(&here.child("operation"), operation, &["Apply", "Update"]),
        }
        let form = entry.text("fieldsType");
        if !form.is_empty() && form != "FieldsV1" {
            problems.invalid(&here.child("fieldsType"), form, "must be `FieldsV1`");
        }
        field_manager(entry.text("manager"), &here.child("manager"), problems);
        if entry.text("subresource").len() > 256 {
            problems.too_long(&here.child("subresource"), 256);
        }
    }
}

/// The problems of the name a client gives itself for its fields (also a parameter of requests).
pub(crate) fn field_manager(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if name.len() > 128 {
        problems.too_long(at, 128);
    }
    for (place, character) in name.char_indices() {
        if character.is_control() || (character.is_whitespace() && character != ' ') {
            let shown = format!("U+{:04X}", u32::from(character));
            problems.invalid(at, name, format!("invalid character {shown} (at position {place})"));
        }
    }
}

/// The problems of a label selector.
pub(crate) fn label_selector(selector: &Value, at: &Path<'_>, problems: &mut Problems) {
    label_selector_with(selector, at, problems, false);
}

/// The same; `any_value` accepts values no label can have, for selectors that had them before.
pub(crate) fn label_selector_with(selector: &Value, at: &Path<'_>, problems: &mut Problems, any_value: bool) {
    labels(selector.at("matchLabels"), &at.child("matchLabels"), problems);
    let expressions = at.child("matchExpressions");
    for (place, expression) in selector.list("matchExpressions").iter().enumerate() {
        let here = expressions.index(place);
        let values = expression.list("values");
        match expression.text("operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    problems.required(
                        &here.child("values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    problems.forbidden(
                        &here.child("values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    );
                }
            }
            other => problems.invalid(&here.child("operator"), other, "not a valid selector operator"),
        }
        let key = expression.text("key");
        problems.invalid_each(&here.child("key"), key, format::qualified_name(key));
        if !any_value {
            let list = here.child("values");
            for (place, value) in values.iter().enumerate() {
                problems.invalid_each(&list.index(place), value.str(), format::label_value(value.str()));
            }
        }
    }
}

/// Whether a selector selects these labels; none when the selector makes no sense. No selector selects nothing.
pub(crate) fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let mut problems = Problems::default();
    label_selector(selector, &Path::root(""), &mut problems);
    if !problems.is_empty() {
        return None;
    }
    let all =
        selector.fields("matchLabels").into_iter().flatten().all(|(key, value)| labels.at(key) == value);
    let each = selector.list("matchExpressions").iter().all(|expression| {
        let (value, values) = (labels.get(expression.text("key")), expression.list("values"));
        match expression.text("operator") {
            "In" => value.is_some_and(|value| values.contains(value)),
            "NotIn" => value.is_none_or(|value| !values.contains(value)),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    });
    Some(all && each)
}

/// The problems of conditions in their common form.
pub(crate) fn conditions(conditions: &[Value], at: &Path<'_>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (place, condition) in conditions.iter().enumerate() {
        let here = at.index(place);
        let kind = condition.text("type");
        if !seen.insert(kind) {
            problems.duplicate(&here, kind);
        }
        if kind.is_empty() {
            problems.required(&here.child("type"), "is required");
        } else {
            problems.invalid_each(&here.child("type"), kind, format::qualified_name(kind));
        }
        match condition.text("status") {
            "" => problems.required(&here.child("status"), ""),
            status => problems.one_of(&here.child("status"), status, &["False", "True", "Unknown"]),
        }
        let generation = condition.int("observedGeneration").unwrap_or_default();
        if generation < 0 {
            problems.invalid(
                &here.child("observedGeneration"),
                generation,
                "must be greater than or equal to zero",
            );
        }
        if condition.text("lastTransitionTime").is_empty() {
            problems.required(&here.child("lastTransitionTime"), "");
        }
        let reason = condition.text("reason");
        if reason.is_empty() {
            problems.required(&here.child("reason"), "");
        } else {
            problems.invalid_each(&here.child("reason"), reason, format::condition_reason(reason));
            if reason.len() > 1024 {
                problems.too_long(&here.child("reason"), 1024);
            }
        }
        if condition.text("message").len() > 32 * 1024 {
            problems.too_long(&here.child("message"), 32 * 1024);
        }
    }
}

/// What only the server may set in an object that is being made is taken out.
pub fn wipe_system_fields(metadata: &mut Value) {
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.cut(field);
    }
}

/// An update cannot change what only the server sets, nor when the object ends.
pub fn keep_system_fields(old: &Value, new: &mut Value) {
    let keep = |new: &mut Value, field: &str| match old.get(field) {
        Some(value) => new.put(field, value.clone()),
        None => {
            new.cut(field);
        }
    };
    if new.text("uid").is_empty() && old.has("uid") {
        keep(new, "uid");
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if old.has(field) {
            keep(new, field);
        }
    }
    if old.has("deletionGracePeriodSeconds") && !new.has("deletionGracePeriodSeconds") {
        keep(new, "deletionGracePeriodSeconds");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(problems: Vec<crate::status::FieldProblem>) -> Vec<String> {
        problems
            .into_iter()
            .map(crate::status::FieldProblem::cause)
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn bad_names_are_told_like_the_real_server_tells_them() {
        let metadata = json!({"name": "A", "namespace": "ns"});
        assert_eq!(
            told(validate(&metadata, true, NameRule::Subdomain)),
            [
                "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(NameRule::Subdomain.check("é-", true).len(), 1);
        assert_eq!(NameRule::Subdomain.check("web-", true).len(), 0);
    }

    #[test]
    fn what_is_being_deleted_gets_no_new_finalizers() {
        let old = json!({"name": "a", "resourceVersion": "1", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.b/c"]});
        let mut new = old.clone();
        new["finalizers"] = json!(["a.b/c", "x.y/z"]);
        assert_eq!(
            told(validate_update(&new, &old)),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.y/z\"}"
            ]
        );
    }
}
