//! The fields lists and watches can be narrowed by.

use serde_json::Value;

use super::facts::facts;
use super::view::Look;
use crate::names::Gvk;
use crate::status::Status;

/// The fields of a kind besides the metadata, with where their values are.
fn fields(kind: &Gvk) -> &'static [(&'static str, &'static [&'static str])] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[
            ("spec.nodeName", &["spec", "nodeName"]),
            ("spec.restartPolicy", &["spec", "restartPolicy"]),
            ("spec.schedulerName", &["spec", "schedulerName"]),
            ("spec.serviceAccountName", &["spec", "serviceAccountName"]),
            ("spec.hostNetwork", &["spec", "hostNetwork"]),
            ("status.phase", &["status", "phase"]),
            ("status.podIP", &["status", "podIP"]),
            // Known, but never set.
            ("status.podIPs", &["status", "\0"]),
            ("status.nominatedNodeName", &["status", "nominatedNodeName"]),
        ],
        ("", "Node") => &[("spec.unschedulable", &["spec", "unschedulable"])],
        ("", "ReplicationController") => &[("status.replicas", &["status", "replicas"])],
        ("", "Namespace") => &[("status.phase", &["status", "phase"])],
        ("", "Secret") => &[("type", &["type"])],
        ("", "Service") => &[("spec.clusterIP", &["spec", "clusterIP"]), ("spec.type", &["spec", "type"])],
        ("", "Event") => &[
            ("involvedObject.kind", &["involvedObject", "kind"]),
            ("involvedObject.namespace", &["involvedObject", "namespace"]),
            ("involvedObject.name", &["involvedObject", "name"]),
            ("involvedObject.uid", &["involvedObject", "uid"]),
            ("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
            ("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
            ("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
            ("reason", &["reason"]),
            ("reportingComponent", &["reportingComponent"]),
            ("source", &["source", "component"]),
            ("type", &["type"]),
        ],
        ("events.k8s.io", "Event") => &[
            ("regarding.kind", &["regarding", "kind"]),
            ("regarding.namespace", &["regarding", "namespace"]),
            ("regarding.name", &["regarding", "name"]),
            ("regarding.uid", &["regarding", "uid"]),
            ("regarding.apiVersion", &["regarding", "apiVersion"]),
            ("regarding.resourceVersion", &["regarding", "resourceVersion"]),
            ("regarding.fieldPath", &["regarding", "fieldPath"]),
            ("reason", &["reason"]),
            ("reportingController", &["reportingController"]),
            ("type", &["type"]),
        ],
        ("batch", "Job") => &[("status.successful", &["status", "succeeded"])],
        ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle") => {
            &[("spec.signerName", &["spec", "signerName"])]
        }
        ("certificates.k8s.io", "PodCertificateRequest") => &[
            ("spec.signerName", &["spec", "signerName"]),
            ("spec.podName", &["spec", "podName"]),
            ("spec.nodeName", &["spec", "nodeName"]),
        ],
        ("resource.k8s.io", "ResourceSlice") => &[
            ("spec.nodeName", &["spec", "nodeName"]),
            ("spec.driver", &["spec", "driver"]),
            ("spec.pool.name", &["spec", "pool", "name"]),
        ],
        _ => &[],
    }
}

/// True when selectors may name `metadata.namespace`: kinds with rules of their own that have no namespace do not.
fn knows_namespace(kind: &Gvk) -> bool {
    let special = !fields(kind).is_empty();
    !special || (kind.kind != "PodCertificateRequest" && facts(kind).is_some_and(|facts| facts.namespaced))
}

/// The values of an object selectors can ask for, by the names they use for them.
///
/// Kinds that are not built in have the two of the metadata; theirs come from their definitions.
pub fn selectable_fields(kind: &Gvk, object: &Value) -> Vec<(&'static str, String)> {
    let metadata = object.at("metadata");
    let mut all = vec![("metadata.name", metadata.text("name").to_owned())];
    if knows_namespace(kind) {
        all.push(("metadata.namespace", metadata.text("namespace").to_owned()));
    }
    for (name, path) in fields(kind) {
        let value = path.iter().fold(object, |value, field| value.at(field));
        let text = match value {
            Value::String(text) if !text.is_empty() => text.clone(),
            // Newer events have no source, but tell who reports them.
            Value::Null | Value::String(_) if *name == "source" => {
                object.text("reportingComponent").to_owned()
            }
            Value::Null | Value::String(_) => empty(name).to_owned(),
            other => other.to_string(),
        };
        all.push((name, text));
    }
    all
}

/// What a field that is not set says.
fn empty(name: &str) -> &'static str {
    match name {
        "spec.hostNetwork" | "spec.unschedulable" => "false",
        "status.replicas" | "status.successful" => "0",
        _ => "",
    }
}

/// The name a field of a selector goes by for this kind.
///
/// # Errors
///
/// 400 for fields nobody can select by.
pub fn check_field_label(kind: &Gvk, label: &str) -> Result<&'static str, Status> {
    if kind.kind == "Pod" && label == "spec.host" {
        return Ok("spec.nodeName");
    }
    if label == "metadata.name" {
        return Ok("metadata.name");
    }
    if label == "metadata.namespace" && knows_namespace(kind) {
        return Ok("metadata.namespace");
    }
    if let Some((name, _)) = fields(kind).iter().find(|(name, _)| *name == label) {
        return Ok(name);
    }
    Err(Status::bad_request(match (kind.group.as_str(), kind.kind.as_str()) {
        ("batch", "Job") => format!("field label {label:?} not supported for Job"),
        ("resource.k8s.io", "ResourceSlice") => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
        }
        _ if fields(kind).is_empty() => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        _ => format!("field label not supported: {label}"),
    }))
}
