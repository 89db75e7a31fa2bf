//! Limits and quotas of a namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Check;
use super::pod::resources::{amount, container_resource, is_quota_resource, may_overcommit, resource_name};
use crate::kinds::format;
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems};

/// An amount of a limit, and what it is called.
type Named<'a> = (&'a str, Option<&'a Quantity>);

pub(super) fn limit_range(object: &Value, problems: &mut Problems) {
    let spec = Path::root("spec");
    let list = spec.child("limits");
    let mut kinds = BTreeSet::new();
    for (place, limit) in object.at("spec").list("limits").iter().enumerate() {
        let here = list.index(place);
        let kind = limit.text("type");
        let wrong = format::qualified_name(kind);
        if wrong.is_empty()
            && !kind.contains('/')
            && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
        {
            problems.invalid(&here.child("type"), kind, "must be a standard limit type or fully qualified");
        }
        problems.invalid_each(&here.child("type"), kind, wrong);
        if !kinds.insert(kind) {
            problems.duplicate(&here.child("type"), kind);
        }
        limit_item(limit, kind, &here, problems);
    }
}

fn limit_item(limit: &Value, kind: &str, at: &Path<'_>, problems: &mut Problems) {
    let mut amounts: BTreeMap<&str, BTreeMap<&str, Quantity>> = BTreeMap::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let here = at.child(field);
        let entries = limit.fields(field).filter(|entries| !entries.is_empty());
        if kind == "Pod" && field.starts_with("default") {
            if entries.is_some() {
                problems.forbidden(&here, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, value) in entries.into_iter().flatten() {
            if matches!(kind, "Pod" | "Container") {
                container_resource(name, &here.key(name), problems);
            } else {
                resource_name(name, &here.key(name), problems);
            }
            amounts.entry(name).or_default().insert(field, Quantity::or_zero(value));
        }
    }
    if kind == "PersistentVolumeClaim" && !limit.at("min").has("storage") && !limit.at("max").has("storage") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        problems.required(&at.child("limits"), why);
    }
    for (name, of) in amounts {
        let get = |field: &str| of.get(field);
        let (min, max) = (get("min"), get("max"));
        let (usual, request) = (get("default"), get("defaultRequest"));
        let mut more = |field: &str, shown: Option<&Quantity>, a: Named<'_>, b: Named<'_>| {
            if let (Some(left), Some(right), Some(shown)) = (a.1, b.1, shown)
                && left > right
            {
                let why = format!("{} value {left} is greater than {} value {right}", a.0, b.0);
                problems.invalid(&at.child(field).key(name), shown.to_string(), why);
            }
        };
        more("min", min, ("min", min), ("max", max));
        more("defaultRequest", request, ("min", min), ("default request", request));
        more("defaultRequest", request, ("default request", request), ("max", max));
        more("defaultRequest", request, ("default request", request), ("default limit", usual));
        more("default", min, ("min", min), ("default", usual));
        more("default", max, ("default", usual), ("max", max));
        if let Some(ratio) = get("maxLimitRequestRatio") {
            let here = at.child("maxLimitRequestRatio");
            if *ratio < Quantity::whole(1) {
                problems.invalid(&here.key(name), ratio.to_string(), format!("ratio {ratio} is less than 1"));
            }
            if let (Some(min), Some(max)) = (min, max) {
                #[expect(clippy::cast_precision_loss, reason = "the sentence shows six digits")]
                let limit = max.milli_value() as f64 / min.milli_value() as f64;
                #[expect(clippy::cast_precision_loss, reason = "ratios are small")]
                let own = ratio.milli_value() as f64 / 1000.0;
                if own > limit {
                    let why = format!("ratio {ratio} is greater than max/min = {limit:.6}");
                    problems.invalid(&here.key(name), ratio.to_string(), why);
                }
            }
        }
        if let (false, Some(usual), Some(request)) = (may_overcommit(name), usual, request)
            && usual != request
        {
            let why = format!("default value {usual} must equal to defaultRequest value {request} in {name}");
            problems.invalid(&at.child("defaultRequest").key(name), request.to_string(), why);
        }
    }
}

pub(super) fn resource_quota(object: &Value, problems: &mut Problems) {
    let at = Path::root("spec");
    let spec = object.at("spec");
    quota_amounts(spec, "hard", &at, problems);
    let hard: BTreeSet<&str> =
        spec.fields("hard").into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let scopes: Vec<&str> = spec.list("scopes").iter().map(Look::str).collect();
    let here = at.child("scopes");
    for scope in &scopes {
        if !is_scope(scope) {
            problems.invalid(&here, spec.at("scopes").clone(), "unsupported scope");
        }
        for _ in hard.iter().filter(|name| is_quota_resource(name) && !scope_applies(scope, name)) {
            problems.invalid(&here, spec.at("scopes").clone(), "unsupported scope applied to resource");
        }
    }
    let conflict = |names: &[&str]| {
        (names.contains(&"BestEffort") && names.contains(&"NotBestEffort"))
            || (names.contains(&"Terminating") && names.contains(&"NotTerminating"))
    };
    if conflict(&scopes) {
        problems.invalid(&here, spec.at("scopes").clone(), "conflicting scopes");
    }
    if !spec.has("scopeSelector") {
        return;
    }
    let selector = at.child("scopeSelector");
    let here = selector.child("matchExpressions");
    let expressions = spec.at("scopeSelector").list("matchExpressions");
    for expression in expressions {
        let (scope, operator) = (expression.text("scopeName"), expression.text("operator"));
        if !is_scope(scope) {
            problems.invalid(&here.child("scopeName"), scope, "unsupported scope");
        }
        for _ in hard.iter().filter(|name| is_quota_resource(name) && !scope_applies(scope, name)) {
            let shown = crate::kinds::shown::internal("ScopeSelector", spec.at("scopeSelector"));
            problems.invalid_shown(&here, &shown, "unsupported scope applied to resource");
        }
        let only_exists = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        if only_exists && operator != "Exists" {
            problems.invalid(
                &here.child("operator"),
                operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        let values = expression.list("values");
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let why =
                        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                    problems.required(&here.child("values"), why);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let why =
                        "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                    problems.invalid(&here.child("values"), values.to_vec(), why);
                }
            }
            other => problems.invalid(&here.child("operator"), other, "not a valid selector operator"),
        }
    }
    let names: Vec<&str> = expressions.iter().map(|one| one.text("scopeName")).collect();
    if conflict(&names) {
        problems.invalid(&here, spec.at("scopes").clone(), "conflicting scopes");
    }
}

fn quota_amounts(holder: &Value, field: &str, at: &Path<'_>, problems: &mut Problems) {
    let here = at.child(field);
    for (name, value) in holder.fields(field).into_iter().flatten() {
        let place = here.key(name);
        resource_name(name, &place, problems);
        if !name.contains('/') && !is_quota_resource(name) {
            problems.invalid(&place, name.as_str(), "must be a standard resource for quota");
        }
        amount(name, value, &place, problems);
    }
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

fn scope_applies(scope: &str, resource: &str) -> bool {
    let compute = matches!(
        resource,
        "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
    );
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || compute,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

pub(super) fn resource_quota_update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    if check.context.subresource == "status" {
        let at = Path::root("status");
        for field in ["hard", "used"] {
            quota_amounts(new.at("status"), field, &at, problems);
        }
        return;
    }
    resource_quota(new, problems);
    let scopes = |quota: &Value| -> BTreeSet<String> {
        quota.at("spec").list("scopes").iter().map(|scope| scope.str().to_owned()).collect()
    };
    if scopes(old) != scopes(new) {
        let at = Path::root("spec");
        problems.invalid(&at.child("scopes"), new.at("spec").at("scopes").clone(), "field is immutable");
    }
}
