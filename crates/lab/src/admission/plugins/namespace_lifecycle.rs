//! Nothing is created in namespaces that are not there or that are going away, and some may never go.

use super::super::review::{Operation, Review};
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::{Cause, Status};

/// Namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses what may not happen in a namespace, or to one.
pub(crate) fn mutate(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    let is_namespace = review.is_kind("", "Namespace");
    if review.operation == Operation::Delete && is_namespace && IMMORTAL.contains(&review.name()) {
        return Err(review.forbidden("this namespace may not be deleted"));
    }
    let namespace = review.namespace();
    let is_access_review = review.is_resource("authorization.k8s.io", "localsubjectaccessreviews");
    if namespace.is_empty() || is_namespace || review.operation != Operation::Create || is_access_review {
        return Ok(());
    }
    let Some(object) = reader.get(&GroupResource::new("", "namespaces"), "", namespace) else {
        return Err(Status::not_found("", "namespaces", namespace));
    };
    if object["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let mut status = review.forbidden(&format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    ));
    status.details.causes.push(Cause {
        reason: "NamespaceTerminating",
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    Err(status)
}
