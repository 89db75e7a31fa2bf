//! Persistent volumes and claims of the core group.

use std::net::IpAddr;

use serde_json::Value;

use super::Check;
use super::pod::resources::{amount, is_native};
use super::pod::volumes::{iscsi, no_backsteps, shared_source};
use super::pod::{changes_words, scheduling};
use crate::kinds::format;
use crate::kinds::meta;
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Edit, Look, Path, Problems, same};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The sources a persistent volume may have, in the order they are looked at.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// The name of a storage driver.
pub(super) fn csi_driver_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if name.is_empty() {
        problems.required(at, "");
        return;
    }
    if name.len() > 63 {
        problems.too_long(at, 63);
    }
    problems.invalid_each(at, name, format::dns1123_subdomain(&name.to_lowercase()));
}

fn access_modes(spec: &Value, why_required: &str, at: &Path<'_>, problems: &mut Problems) {
    let (modes, here) = (spec.list("accessModes"), at.child("accessModes"));
    if modes.is_empty() {
        problems.required(&here, why_required);
    }
    for mode in modes {
        problems.one_of(&here, mode.str(), &MODES);
    }
    let alone = modes.iter().any(|mode| mode.str() == "ReadWriteOncePod");
    let others = modes.iter().any(|mode| mode.str() != "ReadWriteOncePod" && MODES.contains(&mode.str()));
    if alone && others {
        problems.forbidden(&here, "may not use ReadWriteOncePod with other access modes");
    }
}

fn class_name(spec: &Value, field: &str, at: &Path<'_>, problems: &mut Problems) {
    if !spec.text(field).is_empty() {
        problems.form(&at.child(field), spec.text(field), format::dns1123_subdomain);
    }
}

/// A persistent volume; `inline` inside of an attachment.
pub(super) fn volume_spec(spec: &Value, name: &str, inline: bool, at: &Path<'_>, problems: &mut Problems) {
    const INLINE: &str = "may not be specified in the context of inline volumes";
    if inline {
        for field in ["claimRef", "capacity"] {
            if spec.has(field) {
                problems.forbidden(&at.child(field), INLINE);
            }
        }
        if !spec.has("csi") {
            problems.required(&at.child("csi"), "has to be specified in the context of inline volumes");
        }
    }
    access_modes(spec, "", at, problems);
    if !inline {
        capacity(spec, at, problems);
    }
    let policy = spec.text("persistentVolumeReclaimPolicy");
    let policy_at = at.child("persistentVolumeReclaimPolicy");
    if inline {
        if !policy.is_empty() && policy != "Retain" {
            problems.forbidden(&policy_at, "may only be Retain in the context of inline volumes");
        }
    } else if !policy.is_empty() {
        problems.one_of(&policy_at, policy, &["Delete", "Recycle", "Retain"]);
    }
    if spec.has("nodeAffinity") {
        let here = at.child("nodeAffinity");
        if inline {
            problems.forbidden(&here, INLINE);
        } else if spec.at("nodeAffinity").has("required") {
            scheduling::node_selector(
                spec.at("nodeAffinity").at("required"),
                &here.child("required"),
                problems,
            );
        } else {
            problems.required(&here.child("required"), "must specify required node constraints");
        }
    }
    sources(spec, name, at, problems);
    let path = spec.at("hostPath").text("path");
    if !path.is_empty() && path.split('/').all(|part| part.is_empty() || part == ".") && policy == "Recycle" {
        problems.forbidden(&policy_at, "may not be 'recycle' for a hostPath mount of '/'");
    }
    if inline && !spec.text("storageClassName").is_empty() {
        problems.forbidden(&at.child("storageClassName"), INLINE);
    } else {
        class_name(spec, "storageClassName", at, problems);
    }
    if spec.has("volumeMode") {
        let (mode, here) = (spec.text("volumeMode"), at.child("volumeMode"));
        if !inline {
            problems.one_of(&here, mode, &["Block", "Filesystem"]);
        } else if mode != "Filesystem" {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            problems.forbidden(&here, why);
        }
    }
    if spec.has("volumeAttributesClassName") {
        if spec.text("volumeAttributesClassName").is_empty() {
            problems.required(&at.child("volumeAttributesClassName"), "an empty string is disallowed");
        }
        class_name(spec, "volumeAttributesClassName", at, problems);
        if !spec.has("csi") {
            problems.required(&at.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let here = at.child("capacity");
    let amounts = spec.fields("capacity").cloned().unwrap_or_default();
    if amounts.is_empty() {
        problems.required(&here, "");
    }
    if !amounts.contains_key("storage") || amounts.len() > 1 {
        let value = if amounts.is_empty() { Value::Null } else { amounts.clone().into() };
        problems.unsupported(&here, value, &["storage"]);
    }
    for (name, value) in &amounts {
        let quantity = Quantity::or_zero(value);
        if quantity.is_negative() {
            problems.invalid(&here.key(name), quantity.value(), "must be a valid resource quantity");
        }
        if !quantity.is_positive() {
            problems.invalid(&here.key(name), quantity.to_string(), "must be greater than zero");
        }
    }
}

fn sources(spec: &Value, name: &str, at: &Path<'_>, problems: &mut Problems) {
    let mut seen = false;
    for kind in SOURCES {
        if !spec.has(kind) {
            continue;
        }
        if seen && kind != "flexVolume" {
            let told = if kind == "cephfs" { "cephFS" } else { kind };
            problems.forbidden(&at.child(told), "may not specify more than 1 volume type");
            continue;
        }
        seen = true;
        let source = spec.at(kind);
        let here = at.child(if kind == "gcePersistentDisk" { "persistentDisk" } else { kind });
        persistent_source(kind, source, name, &here, problems);
        if kind == "local" && !spec.has("nodeAffinity") {
            problems.required(&at.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !seen {
        problems.required(at, "must specify a volume type");
    }
}

fn persistent_source(kind: &str, source: &Value, name: &str, at: &Path<'_>, problems: &mut Problems) {
    match kind {
        "csi" => {
            csi_driver_name(source.text("driver"), &at.child("driver"), problems);
            problems.need(at, source, "volumeHandle");
            for field in [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ] {
                if source.has(field) {
                    secret_reference(source.at(field), &at.child(field), problems);
                }
            }
        }
        "local" => {
            problems.need(at, source, "path");
            no_backsteps(source.text("path"), &at.child("path"), problems);
        }
        "iscsi" => {
            iscsi(source, "must be valid format", at, problems);
            if source.has("initiatorName") && name.len() + 1 + source.text("targetPortal").len() > 64 {
                problems.invalid(
                    &at.child("targetportal"),
                    source.text("targetPortal"),
                    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
                );
            }
            if source.has("secretRef") {
                problems.need(&at.child("secretRef"), source.at("secretRef"), "name");
            }
        }
        other => {
            shared_source(other, source, at, problems);
            if matches!(other, "cinder" | "storageos") && source.has("secretRef") {
                problems.need(&at.child("secretRef"), source.at("secretRef"), "namespace");
            }
            if other == "azureFile" && source.has("secretNamespace") {
                problems.need(at, source, "secretNamespace");
            }
            if other == "glusterfs" && source.has("endpointsNamespace") {
                let (namespace, here) = (source.text("endpointsNamespace"), at.child("endpointsNamespace"));
                if namespace.is_empty() {
                    let why = "if the endpointnamespace is set, it must be a valid namespace name";
                    problems.invalid(&here, namespace, why);
                } else {
                    problems.form(&here, namespace, format::dns1123_label);
                }
            }
        }
    }
}

fn secret_reference(reference: &Value, at: &Path<'_>, problems: &mut Problems) {
    for (field, form) in
        [("name", format::dns1123_subdomain as fn(&str) -> Vec<String>), ("namespace", format::dns1123_label)]
    {
        match reference.text(field) {
            "" => problems.required(&at.child(field), ""),
            text => problems.form(&at.child(field), text, form),
        }
    }
}

pub(super) fn volume(volume: &Value, problems: &mut Problems) {
    const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
    volume_spec(volume.at("spec"), volume.at("metadata").text("name"), false, &Path::root("spec"), problems);
    let supported = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let metadata = Path::root("metadata");
    if volume.at("metadata").at("annotations").has(MOUNT_OPTIONS)
        && !supported.iter().any(|kind| volume.at("spec").has(kind))
    {
        problems.forbidden(
            &metadata.child("annotations").child(MOUNT_OPTIONS),
            "may not specify mount options for this volume type",
        );
    }
}

pub(super) fn volume_update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    const CLASS: &str = "volumeAttributesClassName";
    const EXPAND: &str = "controllerExpandSecretRef";
    if check.context.subresource == "status" {
        return;
    }
    volume(new, problems);
    let (before, after) = (old.at("spec"), new.at("spec"));
    let spec = Path::root("spec");
    let source_of = |spec: &Value| {
        let mut source = Value::Object(serde_json::Map::new());
        for kind in SOURCES {
            if spec.has(kind) {
                source.put(kind, spec.at(kind).clone());
            }
        }
        source
    };
    let (source, mut wanted) = (source_of(before), source_of(after));
    if source.has("csi") && wanted.has("csi") && !source.at("csi").has(EXPAND) {
        wanted.object("csi").cut(EXPAND);
    }
    if !same(&source, &wanted) {
        let words = changes_words("PersistentVolumeSource", &source, &wanted);
        problems.forbidden(
            &spec.child("persistentvolumesource"),
            format!("spec.persistentvolumesource is immutable after creation\n{words}"),
        );
    }
    problems.immutable(&Path::root("volumeMode"), after.at("volumeMode"), before.at("volumeMode"));
    if before.has("nodeAffinity")
        && !same(&modern(before.at("nodeAffinity")), &modern(after.at("nodeAffinity")))
    {
        let shown = crate::kinds::shown::internal("*core.VolumeNodeAffinity", after.at("nodeAffinity"));
        problems.invalid_shown(
            &Path::root("nodeAffinity"),
            &shown,
            "field is immutable, except for updating from beta label to GA",
        );
    }
    if before.has(CLASS) && !after.has(CLASS) {
        problems.forbidden(&spec.child(CLASS), "update from non-nil value to nil is forbidden");
    }
}

/// Labels that have newer names, by those names.
fn modern(affinity: &Value) -> Value {
    let mut affinity = affinity.clone();
    let Some(required) = affinity.child("required") else { return affinity };
    for requirement in
        required.items("nodeSelectorTerms").iter_mut().flat_map(|term| term.items("matchExpressions"))
    {
        let key = match requirement.text("key") {
            "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
            "beta.kubernetes.io/os" => "kubernetes.io/os",
            "beta.kubernetes.io/arch" => "kubernetes.io/arch",
            "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
            _ => continue,
        };
        requirement.put("key", key);
    }
    affinity
}

/// What a claim asks for.
pub(super) fn claim_spec(spec: &Value, any_group: bool, at: &Path<'_>, problems: &mut Problems) {
    if spec.has("selector") {
        meta::label_selector(spec.at("selector"), &at.child("selector"), problems);
    }
    access_modes(spec, "at least 1 access mode is required", at, problems);
    let resources = at.child("resources");
    let here = resources.key("storage");
    match Quantity::of(spec.at("resources").at("requests").at("storage")) {
        None => problems.required(&here, ""),
        Some(quantity) if !quantity.is_positive() => {
            problems.invalid(&here, quantity.to_string(), "must be greater than zero");
        }
        Some(_) => {}
    }
    class_name(spec, "storageClassName", at, problems);
    if spec.has("volumeMode") {
        problems.one_of(&at.child("volumeMode"), spec.text("volumeMode"), &["Block", "Filesystem"]);
    }
    for field in ["dataSource", "dataSourceRef"] {
        if spec.has(field) {
            data_source(spec.at(field), any_group, &at.child(field), problems);
        }
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    // The value the real server shows is the path itself, an object without visible fields.
    if !reference.text("namespace").is_empty() {
        problems.form(
            &at.child("dataSourceRef").child("namespace"),
            reference.text("namespace"),
            format::dns1123_label,
        );
        if !source.is_null() {
            problems.invalid_shown(
                at,
                "{}",
                "may not be specified when dataSourceRef.namespace is specified",
            );
        }
    } else if !source.is_null() && !reference.is_null() {
        let equal = ["apiGroup", "kind", "name"].iter().all(|field| source.at(field) == reference.at(field));
        if !equal {
            problems.invalid_shown(at, "{}", "must match dataSourceRef");
        }
    }
    class_name(spec, "volumeAttributesClassName", at, problems);
}

fn data_source(source: &Value, any_group: bool, at: &Path<'_>, problems: &mut Problems) {
    problems.need(at, source, "name");
    problems.need(at, source, "kind");
    let (group, kind) = (source.text("apiGroup"), source.text("kind"));
    if group.is_empty() {
        if kind != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            problems.invalid(at, kind, why);
        }
    } else if !any_group {
        problems.form(&at.child("apiGroup"), group, format::dns1123_subdomain);
    }
}

pub(super) fn claim_update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    const ATTRIBUTES: &str = "volumeAttributesClassName";
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let at = Path::root("spec");
    if check.context.subresource == "status" {
        claim_status(new, problems);
        return;
    }
    let has_group = |field: &str| old.at("spec").at(field).has("apiGroup");
    let any_group = has_group("dataSource") || has_group("dataSourceRef");
    claim_spec(new.at("spec"), any_group, &at, problems);
    let (mut before, mut after) = (old.at("spec").clone(), new.at("spec").clone());
    let annotation =
        |claim: &Value| claim.at("metadata").at("annotations").get(CLASS).map(|name| name.str().to_owned());
    let (old_annotation, new_annotation) = (annotation(old), annotation(new));
    if before.text("volumeName").is_empty() && after.has("volumeName") {
        before.put("volumeName", after.at("volumeName").clone());
    }
    let wanted = after.at("storageClassName").as_str().map(ToOwned::to_owned);
    let from_annotation = old_annotation.is_some()
        && !before.has("storageClassName")
        && wanted.is_some()
        && wanted == old_annotation
        && (new_annotation.is_none() || new_annotation == old_annotation);
    if from_annotation {
        after.cut("storageClassName");
    } else {
        if old_annotation.clone().unwrap_or_default() != new_annotation.clone().unwrap_or_default() {
            let metadata = Path::root("metadata");
            problems.invalid(
                &metadata.child("annotations").child(CLASS),
                new_annotation.unwrap_or_default(),
                "field is immutable",
            );
        }
        let upgraded = wanted.is_some()
            && !before.has("storageClassName")
            && (old_annotation.is_none() || old_annotation == wanted);
        if upgraded {
            after.cut("storageClassName");
        }
    }
    let keep = |from: &Value, to: &mut Value, field: &str| match from.get(field) {
        Some(value) => to.put(field, value.clone()),
        None => {
            to.cut(field);
        }
    };
    if new.at("status").text("phase") == "Bound" {
        if after.at("resources").has("requests") {
            let size = before.at("resources").at("requests").clone();
            keep(&size, after.object("resources").object("requests"), "storage");
        }
        keep(&before, &mut after, "volumeAttributesClassName");
    }
    if !same(&before, &after) {
        let words = changes_words("PersistentVolumeClaimSpec", &before, &after);
        problems.forbidden(
            &at,
            format!("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{words}"),
        );
    }
    let size =
        |claim: &Value| Quantity::or_zero(claim.at("spec").at("resources").at("requests").at("storage"));
    let actual = Quantity::or_zero(old.at("status").at("capacity").at("storage"));
    if size(new) < size(old) && size(new) <= actual {
        let resources = at.child("resources");
        let requests = resources.child("requests");
        problems.forbidden(&requests.child("storage"), "field can not be less than status.capacity");
    }
    problems.immutable(
        &Path::root("volumeMode"),
        new.at("spec").at("volumeMode"),
        old.at("spec").at("volumeMode"),
    );
    let (was, is) = (old.at("spec").at(ATTRIBUTES), new.at("spec").at(ATTRIBUTES));
    if was != is && old.at("status").has("currentVolumeAttributesClassName") {
        let what = if is.is_null() { "nil" } else { "empty string" };
        if is.str().is_empty() {
            let why = format!(
                "update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
            );
            problems.forbidden(&at.child(ATTRIBUTES), why);
        }
    }
}

fn claim_status(claim: &Value, problems: &mut Problems) {
    let at = Path::root("status");
    if claim.at("spec").list("accessModes").is_empty() {
        problems.required(&Path::root("Spec").child("accessModes"), "");
    }
    let status = claim.at("status");
    let capacity = at.child("capacity");
    for (name, value) in status.fields("capacity").into_iter().flatten() {
        basic(value, &capacity.key(name), problems);
    }
    let key = |name: &str, here: &Path<'_>, problems: &mut Problems| {
        let wrong = format::qualified_name(name);
        let mut good = wrong.is_empty();
        problems.invalid_each(here, name, wrong);
        if good && is_native(name) && name != "storage" {
            good = false;
            problems.unsupported(here, name, &["storage"]);
        }
        good
    };
    let here = at.child("allocatedResourceStatuses");
    let known = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    for (name, value) in status.fields("allocatedResourceStatuses").into_iter().flatten() {
        key(name, &here, problems);
        if !known.contains(&value.str()) {
            problems.unsupported(&here, name.as_str(), &known);
        }
    }
    let here = at.child("allocatedResources");
    for (name, value) in status.fields("allocatedResources").into_iter().flatten() {
        if key(name, &here, problems) && basic(value, &here.key(name), problems) {
            amount("storage", value, &here.key(name), problems);
        }
    }
}

fn basic(value: &Value, at: &Path<'_>, problems: &mut Problems) -> bool {
    let quantity = Quantity::or_zero(value);
    if quantity.is_negative() {
        problems.invalid(at, quantity.value(), "must be a valid resource quantity");
    }
    !quantity.is_negative()
}

/// True when all are addresses, of both families and no more than one of each.
pub(super) fn one_of_each_family(addresses: &[IpAddr]) -> bool {
    addresses.len() <= 2 && addresses.iter().any(IpAddr::is_ipv4) && addresses.iter().any(IpAddr::is_ipv6)
}
