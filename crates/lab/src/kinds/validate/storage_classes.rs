//! Classes of storage, drivers and what they tell, attachments of volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::storage::{csi_driver_name, volume_spec};
use super::{Check, own_metadata};
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems, same};
use crate::kinds::{format, meta, shown};

const SPEC: Path<'static> = Path::root("spec");

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    own_metadata(check, object, problems);
    let status = check.context.subresource == "status";
    match (check.facts.kind, old) {
        ("StorageClass", _) => {
            class(object, problems);
            if let Some(old) = old {
                for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
                    problems.declared(|problems| {
                        problems.immutable_unshown(&Path::root(field), object.at(field), old.at(field));
                    });
                }
            }
        }
        ("VolumeAttributesClass", _) => {
            if let Some(old) = old {
                for field in ["driverName", "parameters"] {
                    if !same(object.at(field), old.at(field)) {
                        problems.forbidden(&Path::root(field), format!("updates to {field} are forbidden."));
                    }
                }
            }
            let (name, at) = (object.text("driverName"), Path::root("driverName"));
            if name.is_empty() {
                problems.required(&at, "");
            } else {
                provisioner(name, &at, problems);
            }
            parameters(object, false, problems);
        }
        ("VolumeAttachment", _) => {
            let changed = old.is_some_and(|old| !same(old.at("spec"), object.at("spec")));
            attachment(object, changed, problems);
            if let Some(old) = old {
                problems.declared(|problems| {
                    problems.immutable_unshown(&SPEC, object.at("spec"), old.at("spec"));
                });
            }
        }
        ("CSINode", Some(_)) if status => health(object.at("status"), problems),
        ("CSINode", _) => node(object.at("spec"), old.map(|old| old.at("spec")), problems),
        ("CSIDriver", _) => driver(object.at("spec"), old.map(|old| old.at("spec")), problems),
        ("CSIStorageCapacity", _) => capacity(object, old, problems),
        _ => {}
    }
}

fn class(class: &Value, problems: &mut Problems) {
    provisioner(class.text("provisioner"), &Path::root("provisioner"), problems);
    parameters(class, true, problems);
    let policy = class.text("reclaimPolicy");
    if !policy.is_empty() {
        problems.one_of(&Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let at = Path::root("volumeBindingMode");
    if class.has("volumeBindingMode") {
        problems.one_of(&at, class.text("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"]);
    } else {
        problems.required(&at, "");
    }
    topologies(class.list("allowedTopologies"), problems);
}

fn provisioner(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if name.is_empty() {
        problems.declared(|problems| problems.required(at, ""));
    } else {
        problems.form(at, &name.to_lowercase(), format::qualified_name);
    }
}

fn parameters(class: &Value, may_be_empty: bool, problems: &mut Problems) {
    const MOST: usize = 512;
    const LARGEST: usize = 256 << 10;
    let at = Path::root("parameters");
    let Some(parameters) = class.fields("parameters").filter(|parameters| !parameters.is_empty()) else {
        if !may_be_empty {
            problems.required(&at, "must contain at least one key/value pair");
        }
        return;
    };
    if parameters.len() > MOST {
        problems.too_long(&at, MOST as u64);
        return;
    }
    if parameters.contains_key("") {
        problems.invalid(&at, "", "field can not be empty.");
    }
    if parameters.iter().map(|(key, value)| key.len() + value.str().len()).sum::<usize>() > LARGEST {
        problems.too_long(&at, LARGEST as u64);
    }
}

fn topologies(terms: &[Value], problems: &mut Problems) {
    let list = Path::root("allowedTopologies");
    // A term without anything is taken for one that was there before.
    let mut known: Vec<BTreeMap<&str, BTreeSet<&str>>> = vec![BTreeMap::new()];
    for (place, term) in terms.iter().enumerate() {
        let at = list.index(place);
        let expressions = at.child("matchLabelExpressions");
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (place, expression) in term.list("matchLabelExpressions").iter().enumerate() {
            let here = expressions.index(place);
            let (values, list) = (expression.list("values"), here.child("values"));
            if values.is_empty() {
                problems.required(&list, "");
            }
            let mut distinct = BTreeSet::new();
            for (place, value) in values.iter().enumerate() {
                if !distinct.insert(value.str()) {
                    problems.duplicate(&list.index(place), value.str());
                }
            }
            let key = expression.text("key");
            problems.form(&here.child("key"), key, format::qualified_name);
            if wanted.insert(key, distinct).is_some() {
                problems.duplicate(&here.child("key"), key);
            }
        }
        if known.contains(&wanted) {
            problems.duplicate(&expressions, "");
        }
        known.push(wanted);
    }
}

fn attachment(attachment: &Value, changed: bool, problems: &mut Problems) {
    let spec = attachment.at("spec");
    let (attacher, here) = (spec.text("attacher"), SPEC.child("attacher"));
    if changed {
        // A change is told by the schema, and then the rest by the older rules.
        csi_driver_name(attacher, &here, problems);
    } else if attacher.is_empty() {
        problems.declared(|problems| problems.required(&here, ""));
    } else {
        problems.declared(|problems| {
            if attacher.chars().count() > 63 {
                problems.too_long_characters(&here, 63);
            }
            problems.form(&here, attacher, format::long_name_caseless);
        });
    }
    let (source, at) = (spec.at("source"), SPEC.child("source"));
    let name = source.at("persistentVolumeName").as_str();
    let here = at.child("persistentVolumeName");
    match (source.has("inlineVolumeSpec"), name) {
        (false, None) => {
            problems.required(&at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
        }
        (true, Some(_)) => {
            problems.forbidden(&at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
        }
        (false, Some("")) => problems.required(&here, "must specify non empty persistentVolumeName"),
        (false, Some(_)) => {}
        (true, None) => {
            volume_spec(source.at("inlineVolumeSpec"), "", true, &at.child("inlineVolumeSpec"), problems);
        }
    }
    problems.form(&SPEC.child("nodeName"), spec.text("nodeName"), format::dns1123_subdomain);
    attachment_status(attachment.at("status"), problems);
    if let Some(name) = name {
        problems.form(&here, name, format::dns1123_subdomain);
    }
}

fn attachment_status(status: &Value, problems: &mut Problems) {
    let at = Path::root("status");
    let size: usize = status
        .fields("attachmentMetadata")
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.str().len())
        .sum();
    if size > 256 << 10 {
        problems.too_long(&at.child("attachmentMetadata"), 256 << 10);
    }
    for field in ["attachError", "detachError"] {
        let (error, here) = (status.at(field), at.child(field));
        if error.text("message").len() > 1024 {
            problems.too_long(&here.child("message"), 1024);
        }
        if let Some(code) = error.int("errorCode").filter(|&code| code < 0) {
            problems.invalid(&here.child("errorCode"), code, format::between(0, i64::from(i32::MAX)));
        }
    }
}

fn node(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    let list = SPEC.child("drivers");
    let mut names = BTreeSet::new();
    for (place, driver) in spec.list("drivers").iter().enumerate() {
        let at = list.index(place);
        let name = driver.text("name");
        csi_driver_name(name, &at.child("name"), problems);
        let id = driver.text("nodeID");
        problems.need(&at, driver, "nodeID");
        if id.len() > 256 {
            problems.invalid(&at.child("nodeID"), id, "must be 256 characters or less");
        }
        if let Some(count) = driver.at("allocatable").int("count") {
            let here = at.child("allocatable");
            problems.not_negative(&here.child("count"), count);
        }
        if !names.insert(name) {
            problems.duplicate(&at.child("name"), name);
        }
        let mut keys = BTreeSet::new();
        for key in driver.list("topologyKeys").iter().map(Look::str) {
            if key.is_empty() {
                problems.required(&at, "");
            }
            if !keys.insert(key) {
                problems.duplicate(&at, key);
            }
            problems.form(&at, key, format::qualified_name);
        }
    }
    let without_count = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(fields) = driver.as_object_mut() {
            fields.remove("allocatable");
        }
        driver
    };
    for before in old.into_iter().flat_map(|old| old.list("drivers")) {
        for after in spec.list("drivers").iter().filter(|after| after.text("name") == before.text("name")) {
            problems.immutable_of(
                &list,
                "storage.CSINodeDriver",
                &without_count(after),
                &without_count(before),
            );
        }
    }
}

fn health(status: &Value, problems: &mut Problems) {
    let at = Path::root("status");
    let list = at.child("storageHealth");
    let mut names = BTreeSet::new();
    for (place, health) in status.list("storageHealth").iter().enumerate() {
        let at = list.index(place);
        let name = health.text("name");
        if !names.insert(name) {
            problems.duplicate(&at, name);
        }
        if name.is_empty() {
            problems.required(&at.child("name"), "");
        } else {
            csi_driver_name(name, &at.child("name"), problems);
        }
        let (conditions, list) = (health.list("healthConditions"), at.child("healthConditions"));
        if conditions.len() > 16 {
            problems.too_many(&list, conditions.len(), 16);
            continue;
        }
        for (place, condition) in conditions.iter().enumerate() {
            health_condition(condition, &list.index(place), problems);
        }
    }
}

fn health_condition(condition: &Value, at: &Path<'_>, problems: &mut Problems) {
    problems.one_of(
        &at.child("status"),
        condition.text("status"),
        &["StorageDegraded", "StorageUnreachable"],
    );
    match condition.text("reason") {
        "" => problems.required(&at.child("reason"), ""),
        reason => {
            problems.form(&at.child("reason"), reason, format::condition_reason);
            if reason.len() > 256 {
                problems.too_long(&at.child("reason"), 256);
            }
        }
    }
    if condition.text("message").len() > 1024 {
        problems.too_long(&at.child("message"), 1024);
    }
    let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    if condition.has("accessMode") {
        problems.one_of(&at.child("accessMode"), condition.text("accessMode"), &modes);
    }
    if condition.has("volumeMode") {
        problems.one_of(&at.child("volumeMode"), condition.text("volumeMode"), &["Filesystem", "Block"]);
    }
}

fn driver(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    for (field, told) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
        ("seLinuxMount", "seLinuxMount"),
    ] {
        if !spec.has(field) {
            problems.required(&SPEC.child(told), "");
        }
    }
    if spec.has("fsGroupPolicy") {
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        problems.one_of(&SPEC.child("fsGroupPolicy"), spec.text("fsGroupPolicy"), &policies);
    }
    let list = SPEC.child("tokenRequests");
    let mut audiences = BTreeSet::new();
    for (place, request) in spec.list("tokenRequests").iter().enumerate() {
        let at = list.index(place);
        let audience = request.text("audience");
        if !audiences.insert(audience) {
            problems.duplicate(&at.child("audience"), audience);
            continue;
        }
        let here = at.child("expirationSeconds");
        match request.int("expirationSeconds") {
            Some(seconds) if seconds < 600 => {
                problems.invalid(&here, seconds, "may not specify a duration less than 10 minutes");
            }
            Some(seconds) if seconds > 1 << 32 => {
                problems.invalid(&here, seconds, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
    let modes = SPEC.child("volumeLifecycleModes");
    for mode in spec.list("volumeLifecycleModes") {
        problems.one_of(&modes, mode.str(), &["Persistent", "Ephemeral"]);
    }
    if let Some(seconds) = spec.int("nodeAllocatableUpdatePeriodSeconds").filter(|&seconds| seconds < 10) {
        problems.invalid(
            &SPEC.child("nodeAllocatableUpdatePeriodSeconds"),
            seconds,
            "must be greater than or equal to 10 seconds",
        );
    }
    if spec.has("serviceAccountTokenInSecrets") && spec.list("tokenRequests").is_empty() {
        problems.invalid(
            &SPEC.child("serviceAccountTokenInSecrets"),
            spec.flag("serviceAccountTokenInSecrets"),
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
    if let Some(old) = old {
        problems.immutable(
            &SPEC.child("attachedRequired"),
            spec.at("attachRequired"),
            old.at("attachRequired"),
        );
        problems.immutable(&modes, spec.at("volumeLifecycleModes"), old.at("volumeLifecycleModes"));
    }
}

fn capacity(capacity: &Value, old: Option<&Value>, problems: &mut Problems) {
    let topology = Path::root("nodeTopology");
    meta::label_selector(capacity.at("nodeTopology"), &topology, problems);
    let (class, here) = (capacity.text("storageClassName"), Path::root("storageClassName"));
    problems.form(&here, class, format::dns1123_subdomain);
    if let Some(amount) = Quantity::of(capacity.at("capacity")).filter(Quantity::is_negative) {
        problems.invalid(&Path::root("capacity"), amount.to_string(), "must be greater than or equal to 0");
    }
    let Some(old) = old else { return };
    if !same(capacity.at("nodeTopology"), old.at("nodeTopology")) {
        let shown = shown::internal("*meta.LabelSelector", capacity.at("nodeTopology"));
        problems.invalid_shown(&topology, &shown, "field is immutable");
    }
    problems.immutable(&here, capacity.at("storageClassName"), old.at("storageClassName"));
}
