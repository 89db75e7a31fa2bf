//! Leases, classes of priority and classes of runtimes.

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::{Value, json};

use super::pod::resources;
use super::pod::scheduling::tolerations;
use super::{Check, machinery_metadata, own_metadata};
use crate::kinds::view::{Look, Path, Problems};
use crate::kinds::{format, meta, shown};

/// Who holds what.
pub(super) fn lease(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    machinery_metadata(check, object, problems);
    let (spec, at) = (object.at("spec"), Path::root("spec"));
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|&seconds| seconds <= 0) {
        problems.invalid(&at.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    if let Some(count) = spec.int("leaseTransitions") {
        problems.not_negative(&at.child("leaseTransitions"), count);
    }
    let strategy = spec.text("strategy");
    if spec.has("strategy") {
        let outer = at.child("strategy");
        let here = outer.child("strategy");
        if strategy.contains('/') {
            problems.form(&here, strategy, format::qualified_name);
        } else {
            problems.one_of(&here, strategy, &["OldestEmulationVersion"]);
        }
    }
    if !spec.text("preferredHolder").is_empty() && strategy.is_empty() {
        problems.forbidden(&at.child("preferredHolder"), "may only be specified if `strategy` is defined");
    }
}

/// The highest priority users may give.
const HIGHEST: i64 = 1_000_000_000;

/// How important pods are.
pub(super) fn priority_class(
    check: &Check<'_>,
    object: &Value,
    old: Option<&Value>,
    problems: &mut Problems,
) {
    own_metadata(check, object, problems);
    let (value, policy) = (object.int("value").unwrap_or_default(), Path::root("preemptionPolicy"));
    if let Some(old) = old {
        if value != old.int("value").unwrap_or_default() {
            problems.forbidden(&Path::root("value"), "may not be changed in an update.");
        }
        problems.immutable(&policy, object.at("preemptionPolicy"), old.at("preemptionPolicy"));
        return;
    }
    let name = object.at("metadata").text("name");
    if name.starts_with("system-") {
        if let Some(why) = not_of_the_system(name, value, object.flag("globalDefault")) {
            let metadata = Path::root("metadata");
            problems.forbidden(
                &metadata.child("name"),
                format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                ),
            );
        }
    } else if value > HIGHEST {
        problems.forbidden(
            &Path::root("value"),
            format!("maximum allowed value of a user defined priority is {HIGHEST}"),
        );
    }
    if object.has("preemptionPolicy") {
        match object.text("preemptionPolicy") {
            "" => problems.required(&policy, ""),
            text => problems.one_of(&policy, text, &["PreemptLowerPriority", "Never"]),
        }
    }
}

fn not_of_the_system(name: &str, value: i64, default: bool) -> Option<String> {
    let fixed = match name {
        "system-node-critical" => 2 * HIGHEST + 1000,
        "system-cluster-critical" => 2 * HIGHEST,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != fixed {
        Some(format!("value of {name} PriorityClass must be {fixed}"))
    } else if default {
        Some(format!("globalDefault of {name} PriorityClass must be false"))
    } else {
        None
    }
}

/// How containers are run.
pub(super) fn runtime_class(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    machinery_metadata(check, object, problems);
    let (handler, at) = (object.text("handler"), Path::root("handler"));
    let changed = old.is_some_and(|old| old.text("handler") != handler);
    if changed {
        // A change is told by the schema, and then the rest by the older rules.
        problems.form(&at, handler, format::dns1123_label);
    } else {
        problems.declared(|problems| match handler {
            "" => problems.required(&at, ""),
            _ => problems.form(&at, handler, format::short_name),
        });
    }
    let fixed = object.at("overhead").at("podFixed");
    resources::requirements(&json!({"limits": fixed}), &BTreeSet::new(), &Path::root("overhead"), problems);
    let (scheduling, here) = (object.at("scheduling"), Path::root("scheduling"));
    meta::labels(scheduling.at("nodeSelector"), &here.child("nodeSelector"), problems);
    let (list, list_at) = (scheduling.list("tolerations"), here.child("tolerations"));
    tolerations(list, &list_at, problems);
    let mut seen = BTreeSet::new();
    for (place, toleration) in list.iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|field| toleration.text(field))) {
            let shown = shown::internal("Toleration", toleration);
            problems.told(&list_at.index(place), "FieldValueDuplicate", format!("Duplicate value: {shown}"));
        }
    }
    if let Some(old) = old {
        problems.declared(|problems| {
            problems.immutable_unshown(&at, object.at("handler"), old.at("handler"));
        });
    }
}

/// Who serves a group.
pub(super) fn api_service(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    if check.context.subresource == "status" {
        let status = Path::root("status");
        let list = status.child("conditions");
        for (place, condition) in object.at("status").list("conditions").iter().enumerate() {
            let here = list.index(place);
            let statuses = ["True", "False", "Unknown"];
            problems.one_of(&here.child("status"), condition.text("status"), &statuses);
        }
        return;
    }
    let (spec, at) = (object.at("spec"), Path::root("spec"));
    let (group, version) = (spec.text("group"), spec.text("version"));
    let expected = format!("{version}.{group}");
    let name = |name: &str, _: bool| match format::path_segment(name) {
        wrong if !wrong.is_empty() => wrong,
        _ if name != expected => vec![format!("must be `spec.version+\".\"+spec.group`: {expected:?}")],
        _ => Vec::new(),
    };
    meta::validate_into(object.at("metadata"), false, &name, &Path::root("metadata"), problems);
    if !group.is_empty() {
        problems.form(&at.child("group"), group, format::dns1123_subdomain);
    } else if version != "v1" {
        problems.required(&at.child("group"), "only v1 may have an empty group and it better be legacy kube");
    }
    problems.form(&at.child("version"), version, format::dns1035_label);
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec.int(field).unwrap_or_default();
        if !(1..=most).contains(&priority) {
            problems.invalid(&at.child(field), priority, format!("must be positive and less than {most}"));
        }
    }
    let (service, here) = (spec.at("service"), at.child("service"));
    let (bundle, insecure) = (spec.text("caBundle"), spec.flag("insecureSkipTLSVerify"));
    if service.is_null() {
        if !bundle.is_empty() {
            let length =
                base64::engine::general_purpose::STANDARD.decode(bundle).map_or(0, |bytes| bytes.len());
            let why = "local APIServices may not have a caBundle";
            problems.invalid(&at.child("caBundle"), format!("{length} bytes"), why);
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            problems.invalid(&at.child("insecureSkipTLSVerify"), true, why);
        }
        return;
    }
    problems.need(&here, service, "namespace");
    problems.need(&here, service, "name");
    let port = service.int("port").unwrap_or_default();
    let wrong = format::port_number(port);
    if !wrong.is_empty() {
        problems.invalid(&here.child("port"), port, format!("port is not valid: {}", wrong.join(", ")));
    }
    if insecure && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        problems.invalid(&at.child("insecureSkipTLSVerify"), true, why);
    }
}

/// Stored objects that are to be written again.
pub(super) fn storage_migration(
    check: &Check<'_>,
    object: &Value,
    old: Option<&Value>,
    problems: &mut Problems,
) {
    let (spec, at) = (object.at("spec"), Path::root("spec"));
    if let (Some(old), "status") = (old, check.context.subresource) {
        migration_status(object.at("status"), old.at("status"), problems);
        return;
    }
    own_metadata(check, object, problems);
    let (resource, here) = (spec.at("resource"), at.child("resource"));
    let joined = |text: &str, wrong: Vec<String>, field: &str, problems: &mut Problems| {
        if !wrong.is_empty() {
            problems.invalid(&here.child(field), text, wrong.join(","));
        }
    };
    match resource.text("resource") {
        "" => problems.required(&here.child("resource"), "resource is required to be set"),
        name => joined(name, format::dns1035_label(name), "resource", problems),
    }
    let group = resource.text("group");
    if !group.is_empty() {
        joined(group, format::dns1123_subdomain(group), "group", problems);
    }
    if let Some(old) = old {
        let of = "storagemigration.StorageVersionMigrationSpec";
        problems.immutable_of(&at, of, spec, old.at("spec"));
    }
}

fn migration_status(new: &Value, old: &Value, problems: &mut Problems) {
    let at = Path::root("status");
    let (version, before) = (new.text("resourceVersion"), old.text("resourceVersion"));
    let here = at.child("resourceVersion");
    if !version.is_empty() && (version.starts_with('0') || !version.bytes().all(|byte| byte.is_ascii_digit()))
    {
        problems.invalid(&here, version, format!("resource version is not well formed: {version}"));
    }
    let (conditions, list) = (new.list("conditions"), at.child("conditions"));
    meta::conditions(conditions, &list, problems);
    if !before.is_empty() && before != version {
        problems.invalid(&here, version, "field is immutable");
    }
    let has = |status: &Value, kind: &str| {
        let is = |condition: &&Value| condition.text("type") == kind;
        status.list("conditions").iter().find(is).is_some_and(|found| found.text("status") == "True")
    };
    let mut wrong = |why: &str| {
        problems.invalid_shown(&list, &shown::list("meta.Condition", conditions), why);
    };
    if has(new, "Succeeded") && has(new, "Failed") {
        wrong("Both success and failed conditions cannot be true at the same time");
    }
    if has(old, "Succeeded") && !has(new, "Succeeded") {
        wrong("Success condition cannot be set to false once it is true");
    }
    if has(old, "Failed") && !has(new, "Failed") {
        wrong("Failed condition cannot be set to false once it is true");
    }
}
