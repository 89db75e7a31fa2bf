//! Pods that are on a node grow only as far as the node goes.

use super::super::json::text;
use super::super::review::{Operation, Review};
use super::resources::{amount_of, amounts, of_pod};
use crate::names::GroupResource;
use crate::quantity::Quantity;
use crate::reader::Reader;
use crate::status::{Cause, Status};

/// Refuses a resize beyond what the node has.
pub(crate) fn validate(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    let resizes = review.operation == Operation::Update
        && review.is_resource("", "pods")
        && review.attributes.subresource == "resize";
    let (Some(pod), Some(old)) = (&review.object, &review.old) else { return Ok(()) };
    let name = text(&pod["spec"]["nodeName"]);
    let unchanged = pod["metadata"]["generation"] == old["metadata"]["generation"];
    if !resizes || name.is_empty() || unchanged {
        return Ok(());
    }
    let Some(node) = reader.get(&GroupResource::new("", "nodes"), "", name) else {
        return Err(review.forbidden(&format!("node {name:?} not found")));
    };
    let refused = |why: &str, reason: &'static str| {
        let mut status = review.forbidden(why);
        status.details.causes.push(Cause { reason, message: String::new(), field: String::new() });
        status
    };
    if let Some(os) = node["metadata"]["labels"]["kubernetes.io/os"].as_str().filter(|os| *os != "linux") {
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {os:?}");
        return Err(refused(&why, "UnsupportedPlatform"));
    }
    let requests = of_pod(&pod["spec"], "requests", true);
    let allocatable = amounts(&node["status"]["allocatable"]);
    let mut problems = Vec::new();
    for resource in ["cpu", "memory"] {
        let (asked, there) = (amount_of(&requests, resource), amount_of(&allocatable, resource));
        if asked > there {
            let shown =
                |amount: &Quantity| if resource == "cpu" { amount.milli_value() } else { amount.value() };
            let (asked, there) = (shown(&asked), shown(&there));
            problems.push(format!("{resource}, requested: {asked}, allocatable: {there}"));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", problems.join("; "));
    Err(refused(&why, "NodeCapacity"))
}
