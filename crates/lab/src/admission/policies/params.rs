//! The objects that give policies their parameters.

use std::sync::Arc;

use serde_json::Value;

use super::super::Kinds;
use super::super::json::text;
use super::super::review::Review;
use super::super::selector::Selector;
use super::{kind_of, shown};
use crate::names::GroupResource;
use crate::reader::Reader;

/// Where the parameters of a policy are, if it has any.
pub(super) fn source(policy: &Value, kinds: &dyn Kinds) -> Result<Option<(GroupResource, bool)>, String> {
    let reference = &policy["spec"]["paramKind"];
    if !reference.is_object() {
        return Ok(None);
    }
    let kind = kind_of(reference);
    match kinds.resource_of(&kind) {
        Some(found) => Ok(Some(found)),
        None => Err(format!("failed to find resource referenced by paramKind: '{}'", shown(&kind))),
    }
}

/// The parameters a binding selects for a request: `None` once where there are none to select.
pub(super) fn collect(
    policy: &Value,
    source: Option<&(GroupResource, bool)>,
    binding: &Value,
    review: &Review<'_>,
    reader: &dyn Reader,
    kinds: &dyn Kinds,
) -> Result<Vec<Option<Arc<Value>>>, String> {
    let reference = &binding["spec"]["paramRef"];
    let Some((resource, is_namespaced)) = source.filter(|_| reference.is_object()) else {
        return Ok(vec![None]);
    };
    let given = text(&reference["namespace"]);
    let namespace = match (is_namespaced, given) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") if review.namespace().is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => review.namespace(),
        (true, given) => given,
    };
    let name = text(&reference["name"]);
    let selector = &reference["selector"];
    let found: Vec<Arc<Value>> = match (name, selector.is_object()) {
        ("", false) => return Err("one of name or selector must be provided".to_owned()),
        ("", true) => {
            let selector = Selector::compile(selector)?;
            let mut all = reader.list(resource, Some(namespace));
            all.retain(|object| selector.matches(&object["metadata"]["labels"]));
            all
        }
        (_, true) => return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned()),
        (name, false) => reader.get(resource, namespace, name).into_iter().collect(),
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let kind = kind_of(&policy["spec"]["paramKind"]);
    found
        .into_iter()
        .map(|object| {
            if object["apiVersion"] == kind.api_version() {
                return Ok(Some(object));
            }
            kinds
                .convert(&object, &kind)
                .map(|object| Some(Arc::new(object)))
                .map_err(|status| status.message)
        })
        .collect()
}
