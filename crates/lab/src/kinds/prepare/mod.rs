//! What the server does to an object before it checks it: fields that are not the client's to write are set or
//! kept, fields of features that are off are dropped.

mod pod;
mod resources;
mod service;
mod settings;

use serde_json::{Value, json};

use super::facts::{Generation, Status, facts};
use super::view::{Edit, Look, same};
use super::{WriteContext, convert};
use crate::names::Gvk;

pub(crate) use pod::quality_of_service;
pub(crate) use resources::{pod_limits, pod_requests};
pub(crate) use service::{needs_cluster_ip, needs_health_check_port};

/// Prepares an object that is being made. Its name, uid and creation time are already there.
pub fn prepare_create(context: &WriteContext<'_>, object: &mut Value) {
    let Some(facts) = facts(context.kind) else { return };
    // A node says how it is when it registers.
    if facts.status != Status::No && facts.kind != "Node" {
        object.put("status", json!({}));
    }
    if !matches!(facts.generation, Generation::No | Generation::SpecFromNone) {
        object.object("metadata").put("generation", 1);
    }
    match (facts.group, facts.kind) {
        ("", "Pod") => pod::create(context, object),
        ("", "Service") => {}
        _ => settings::create(context, facts.group, facts.kind, object),
    }
    if let Some(template) = template_of(context.kind, object) {
        pod::drop_disabled_template(template);
    }
}

/// Prepares an object that is being changed, by way of its main resource or of a subresource.
pub fn prepare_update(context: &WriteContext<'_>, old: &Value, new: &mut Value) {
    let Some(facts) = facts(context.kind) else { return };
    keep(old.at("metadata"), new.object("metadata"), "generation");
    match (facts.group, facts.kind, context.subresource) {
        ("", "Pod", subresource) => pod::update(subresource, old, new),
        ("", "Namespace", "finalize") => keep(old, new, "status"),
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
            settings::approve_certificate(context, old, new);
        }
        (_, _, "status") if facts.status != Status::No => {
            keep(old, new, "spec");
            match facts.status {
                Status::SpecAndMetadata => keep_metadata(old.at("metadata"), new.object("metadata")),
                Status::SpecAndLabels => keep(old.at("metadata"), new.object("metadata"), "labels"),
                Status::Spec | Status::No => {}
            }
            settings::status(context, facts.kind, old, new);
        }
        (group, kind, "") => {
            if facts.status != Status::No {
                keep(old, new, "status");
            }
            match (group, kind) {
                ("", "Service") => service::update(old, new),
                _ => settings::update(context, group, kind, old, new),
            }
        }
        _ => {}
    }
    if context.subresource != "status" {
        if let Some(template) = template_of(context.kind, new) {
            pod::drop_disabled_template(template);
        }
        if generation_changes(context.kind, old, new) {
            let generation = old.at("metadata").int("generation").unwrap_or_default();
            new.object("metadata").put("generation", generation.saturating_add(1));
        }
    }
}

/// True when what changed between two forms of an object makes a new generation of it.
///
/// Kinds that are not built in have one for every change outside of metadata and status.
pub fn generation_changes(kind: &Gvk, old: &Value, new: &Value) -> bool {
    let differs = |field: &str| !same(old.at(field), new.at(field));
    let differs_in_metadata = |field: &str| !same(old.at("metadata").at(field), new.at("metadata").at(field));
    let others = |apart_from: &[&str]| {
        let names = |object: &Value| {
            object.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
        };
        let (left, right): (Vec<String>, Vec<String>) = (names(old), names(new));
        left.iter().chain(&right).any(|field| !apart_from.contains(&field.as_str()) && differs(field))
    };
    let Some(facts) = facts(kind) else { return others(&["metadata", "status", "apiVersion", "kind"]) };
    if (facts.group, kind.version.as_str()) == ("autoscaling", "v1") {
        // A part of what it wants is in annotations.
        let wanted =
            |object: &Value| convert::autoscaler_to_v2(object.clone()).cut("spec").unwrap_or_default();
        return !same(&wanted(old), &wanted(new));
    }
    match facts.generation {
        Generation::No | Generation::One => false,
        Generation::Spec | Generation::SpecFromNone => differs("spec"),
        Generation::SpecAndAnnotations => differs("spec") || differs_in_metadata("annotations"),
        Generation::Field(field) => differs(field),
        Generation::AllAndLabels => {
            others(&["metadata", "apiVersion", "kind"]) || differs_in_metadata("labels")
        }
    }
}

/// The template of pods inside of an object.
pub(crate) fn template_of<'a>(kind: &Gvk, object: &'a mut Value) -> Option<&'a mut Value> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "PodTemplate") => object.child("template"),
        ("", "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => object.child("spec")?.child("template"),
        ("batch", "CronJob") => object.child("spec")?.child("jobTemplate")?.child("spec")?.child("template"),
        _ => None,
    }
}

/// Takes a field over from the old object.
fn keep(old: &Value, new: &mut Value, field: &str) {
    match old.get(field) {
        Some(value) => new.put(field, value.clone()),
        None => {
            new.cut(field);
        }
    }
}

/// What writes to the status cannot change in the metadata.
pub(crate) fn keep_metadata(old: &Value, new: &mut Value) {
    for field in [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        keep(old, new, field);
    }
}
