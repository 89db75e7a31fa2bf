//! Default classes of claims and ingresses.

use std::sync::Arc;

use serde_json::Value;

use super::super::json::{at, object, text};
use super::super::review::{Operation, Review};
use crate::names::GroupResource;
use crate::reader::Reader;

/// Gives claims without a class the default one.
pub(crate) fn storage(review: &mut Review<'_>, reader: &dyn Reader) {
    if review.operation != Operation::Create || !review.is("", "persistentvolumeclaims") {
        return;
    }
    let Some(claim) = review.object.as_mut() else { return };
    let by_annotation = "volume.beta.kubernetes.io/storage-class";
    if claim["metadata"]["annotations"][by_annotation].is_string()
        || claim["spec"]["storageClassName"].is_string()
    {
        return;
    }
    let marks =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    if let Some(class) = newest(reader, &GroupResource::new("storage.k8s.io", "storageclasses"), &marks) {
        object(at(claim, "spec"))
            .insert("storageClassName".to_owned(), text(&class["metadata"]["name"]).into());
    }
}

/// Gives ingresses without a class the default one.
pub(crate) fn ingress(review: &mut Review<'_>, reader: &dyn Reader) {
    if review.operation != Operation::Create || !review.is("networking.k8s.io", "ingresses") {
        return;
    }
    let Some(ingress) = review.object.as_mut() else { return };
    let by_annotation = "kubernetes.io/ingress.class";
    if ingress["metadata"]["annotations"][by_annotation].is_string()
        || ingress["spec"]["ingressClassName"].is_string()
    {
        return;
    }
    let marks = ["ingressclass.kubernetes.io/is-default-class"];
    if let Some(class) = newest(reader, &GroupResource::new("networking.k8s.io", "ingressclasses"), &marks) {
        object(at(ingress, "spec"))
            .insert("ingressClassName".to_owned(), text(&class["metadata"]["name"]).into());
    }
}

/// The newest class that is marked as the default one; of those made in the same second the first by name.
fn newest(reader: &dyn Reader, of: &GroupResource, marks: &[&str]) -> Option<Arc<Value>> {
    let marked = |class: &Value| marks.iter().any(|mark| class["metadata"]["annotations"][*mark] == "true");
    let age = |class: &Value| text(&class["metadata"]["creationTimestamp"]).to_owned();
    let name = |class: &Value| std::cmp::Reverse(text(&class["metadata"]["name"]).to_owned());
    reader
        .list(of, None)
        .into_iter()
        .filter(|class| marked(class))
        .max_by_key(|class| (age(class), name(class)))
}
