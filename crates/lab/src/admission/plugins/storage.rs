//! Storage in use is protected, and only some of it can grow.

use serde_json::Value;

use super::super::json::{at, items, list, text};
use super::super::review::{Operation, Review};
use super::resources::{amount, count};
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::Status;

/// Adds the finalizers that keep claims, volumes and classes while they are used.
pub(crate) fn protect(review: &mut Review<'_>) {
    if review.operation != Operation::Create || !review.attributes.subresource.is_empty() {
        return;
    }
    let finalizer = match (review.attributes.group.as_str(), review.attributes.resource.as_str()) {
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return,
    };
    let Some(subject) = review.object.as_mut() else { return };
    if items(&subject["metadata"]["finalizers"]).all(|known| known != finalizer) {
        list(at(subject, "metadata"), "finalizers").push(finalizer.into());
    }
}

/// Refuses to grow claims that cannot.
pub(crate) fn validate_growth(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    if review.operation != Operation::Update || !review.is("", "persistentvolumeclaims") {
        return Ok(());
    }
    let (Some(claim), Some(old)) = (&review.object, &review.old) else { return Ok(()) };
    let size = |claim: &Value| {
        amount(&claim["spec"]["resources"]["requests"]["storage"]).unwrap_or_else(|| count(0))
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(review.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let class = class_of(claim);
    let can_grow = !class.is_empty()
        && class == class_of(old)
        && reader
            .get(&GroupResource::new("storage.k8s.io", "storageclasses"), "", class)
            .is_some_and(|class| class["allowVolumeExpansion"] == true);
    if can_grow {
        return Ok(());
    }
    Err(review.forbidden(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
         support resize",
    ))
}

fn class_of(claim: &Value) -> &str {
    let annotated = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    annotated.as_str().unwrap_or_else(|| text(&claim["spec"]["storageClassName"]))
}
