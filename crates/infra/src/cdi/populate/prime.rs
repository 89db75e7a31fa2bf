//! The claim beside a claim.

use serde_json::{Value, json};

use crate::cdi::{names, source};
use crate::kinds::{Kind, PVC, VOLUME_UPLOAD_SOURCE};
use crate::object::{Object as _, owned_by};

/// What a claim hands on to its prime.
const HANDED_ON: &[&str] = &[
    names::SELECTED_NODE,
    names::PRIORITY_CLASS,
    names::POD_RETAIN,
    "k8s.v1.cni.cncf.io/networks",
    "v1.multus-cni.io/default-network",
];

/// The name of the prime of a claim.
pub(crate) fn prime_name(claim: &Value) -> String {
    format!("prime-{}", claim.uid())
}

/// The prime of a claim that is filled from a source.
pub(super) fn build(kind: &Kind, claim: &Value, source: &Value) -> Value {
    let mut spec = claim["spec"].clone();
    for field in ["dataSource", "dataSourceRef", "volumeName"] {
        spec.unset(&format!("/{field}"));
    }
    let content = source.text("/spec/contentType");
    let content = if content.is_empty() { "kubevirt" } else { content };
    let preallocation = if source.flag("/spec/preallocation") { "true" } else { "false" };
    let mut prime = json!({
        "metadata": {
            "namespace": claim.namespace(), "name": prime_name(claim),
            "labels": {names::APP: names::APP_VALUE},
            "annotations": {
                names::IMMEDIATE_BINDING: "true", names::POPULATOR_KIND: kind.kind,
                names::CONTENT_TYPE: content, names::PREALLOCATION_REQUESTED: preallocation,
                names::POD_RESTARTS: "0",
            },
            "ownerReferences": [owned_by(&PVC, claim)],
        },
        "spec": spec,
    });
    for name in HANDED_ON {
        let text = claim.annotation(name);
        if !text.is_empty() {
            prime.set_annotation(name, text);
        }
    }
    if *kind == VOLUME_UPLOAD_SOURCE {
        prime.set_annotation(names::UPLOAD_TARGET, "");
    } else {
        for (name, text) in source::import_annotations(source.at("/spec/source")) {
            prime.set_annotation(&name, &text);
        }
    }
    prime
}
