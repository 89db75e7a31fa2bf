//! Autoscalers and budgets of disruption.

use serde_json::Value;

use super::apps::{at_most_all, int_or_percent};
use super::pod::resources::container_resource;
use super::{Check, own_metadata};
use crate::kinds::convert;
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems};
use crate::kinds::{format, meta, shown};

const SPEC: Path<'static> = Path::root("spec");

pub(super) fn autoscaler(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    let status = Path::root("status");
    if old.is_some() && check.context.subresource == "status" {
        super::finalizer_names(object.at("metadata"), problems);
        let list = status.child("conditions");
        for (place, condition) in object.at("status").list("conditions").iter().enumerate() {
            let generation = condition.int("observedGeneration").unwrap_or_default();
            let here = list.index(place);
            problems.not_negative(&here.child("observedGeneration"), generation);
        }
        for field in ["currentReplicas", "desiredReplicas"] {
            problems.not_negative(&status.child(field), object.at("status").int(field).unwrap_or_default());
        }
        return;
    }
    if old.is_none() {
        own_metadata(check, object, problems);
    } else {
        super::finalizer_names(object.at("metadata"), problems);
    }
    // The older version is checked by what it means in the newer one.
    let newer = |object: &Value| match check.context.kind.version.as_str() {
        "v1" => convert::autoscaler_to_v2(object.clone()),
        _ => object.clone(),
    };
    autoscaler_spec(newer(object).at("spec"), old.map(newer).as_ref().map(|old| old.at("spec")), problems);
}

fn autoscaler_spec(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    let min = spec.int("minReplicas");
    let (max, here) = (spec.int("maxReplicas").unwrap_or_default(), SPEC.child("maxReplicas"));
    problems.declared(|problems| {
        if let Some(min) = min.filter(|&min| min < 0) {
            problems.invalid(&SPEC.child("minReplicas"), min, "must be greater than or equal to 0");
        }
        if max == 0 {
            problems.required(&here, "");
        } else if max < 0 {
            problems.invalid(&here, max, "must be greater than or equal to 1");
        }
    });
    if min.is_some_and(|min| max < min) {
        problems.invalid(&here, max, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.at("scaleTargetRef");
    let unchanged = old.is_some_and(|old| {
        ["apiVersion", "kind"].iter().all(|field| old.at("scaleTargetRef").text(field) == target.text(field))
    });
    let group = if unchanged {
        Group::Any
    } else if target.text("kind") == "ReplicationController" {
        Group::MayBeEmpty
    } else {
        Group::Required
    };
    reference(target, group, &SPEC.child("scaleTargetRef"), problems);
    let list = SPEC.child("metrics");
    for (place, metric) in spec.list("metrics").iter().enumerate() {
        metric_spec(metric, &list.index(place), problems);
    }
    let from_outside = |metric: &Value| matches!(metric.text("type"), "Object" | "External");
    if min == Some(0) && !spec.list("metrics").iter().any(from_outside) {
        problems.forbidden(
            &list,
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
    let at = SPEC.child("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if spec.at("behavior").has(direction) {
            scaling_rules(spec.at("behavior").at(direction), &at.child(direction), problems);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Any,
    MayBeEmpty,
    Required,
}

fn reference(target: &Value, group: Group, at: &Path<'_>, problems: &mut Problems) {
    for field in ["kind", "name"] {
        match target.text(field) {
            "" => problems.required(&at.child(field), ""),
            text => problems.form(&at.child(field), text, format::path_segment),
        }
    }
    let version = target.text("apiVersion");
    let here = at.child("apiVersion");
    if group == Group::Any {
        return;
    }
    if version.matches('/').count() > 1 {
        problems.invalid(&here, version, format!("unexpected GroupVersion string: {version}"));
    } else if group == Group::Required && version.split_once('/').is_none_or(|(group, _)| group.is_empty()) {
        problems.invalid(&here, version, "apiVersion must specify API group");
    }
}

fn scaling_rules(rules: &Value, at: &Path<'_>, problems: &mut Problems) {
    let here = at.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(seconds) if seconds < 0 => {
            problems.invalid(&here, seconds, "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > 3600 => {
            problems.invalid(&here, seconds, "must be less than or equal to 3600");
        }
        _ => {}
    }
    if rules.has("selectPolicy") {
        problems.one_of(&at.child("selectPolicy"), rules.text("selectPolicy"), &["Disabled", "Max", "Min"]);
    }
    let list = at.child("policies");
    if rules.list("policies").is_empty() {
        problems.required(&list, "must specify at least one Policy");
    }
    for (place, policy) in rules.list("policies").iter().enumerate() {
        let here = list.index(place);
        problems.one_of(&here.child("type"), policy.text("type"), &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"] {
            let number = policy.int(field).unwrap_or_default();
            if number <= 0 {
                problems.invalid(&here.child(field), number, "must be greater than zero");
            } else if field == "periodSeconds" && number > 1800 {
                problems.invalid(&here.child(field), number, "must be less than or equal to 1800");
            }
        }
    }
    if let Some(tolerance) = Quantity::of(rules.at("tolerance")).filter(Quantity::is_negative) {
        let why = "must be greater than or equal to 0";
        problems.invalid(&at.child("tolerance"), tolerance.to_string(), why);
    }
}

fn metric_spec(metric: &Value, at: &Path<'_>, problems: &mut Problems) {
    let kind = metric.text("type");
    let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    if kind.is_empty() {
        problems.required(&at.child("type"), "must specify a metric source type");
    }
    problems.one_of(&at.child("type"), kind, &known);
    let sources: Vec<&str> = ["object", "external", "pods", "resource", "containerResource"]
        .into_iter()
        .filter(|source| metric.has(source))
        .collect();
    if let Some(first) = sources.first() {
        metric_source(first, metric.at(first), &at.child(first), problems);
    }
    let expected = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "",
    };
    if !expected.is_empty() && !metric.has(expected) {
        problems.required(&at.child(expected), "must populate information for the given metric source");
    }
    if sources.len() != 1 {
        for source in sources.iter().filter(|source| **source != expected) {
            problems.forbidden(&at.child(source), "must populate the given metric source only");
        }
    }
}

fn metric_source(kind: &str, source: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (target, here) = (source.at("target"), at.child("target"));
    match kind {
        "object" | "external" | "pods" => {
            if kind == "object" {
                let object = source.at("describedObject");
                reference(object, Group::MayBeEmpty, &at.child("describedObject"), problems);
            }
            let identifier = at.child("metric");
            match source.at("metric").text("name") {
                "" => problems.required(&identifier.child("name"), "must specify a metric name"),
                name => problems.form(&identifier.child("name"), name, format::path_segment),
            }
        }
        _ => {
            match source.text("name") {
                "" => problems.required(&at.child("name"), "must specify a resource name"),
                name if kind == "containerResource" => container_resource(name, &at.child("name"), problems),
                _ => {}
            }
            if kind == "containerResource" {
                match source.text("container") {
                    "" => problems.required(&at.child("container"), "must specify a container"),
                    name => problems.form(&at.child("container"), name, format::dns1123_label),
                }
            }
        }
    }
    metric_target(target, &here, problems);
    let (value, average, share) =
        (target.has("value"), target.has("averageValue"), target.has("averageUtilization"));
    match kind {
        "object" if !value && !average => {
            problems.required(&here.child("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !value && !average => problems.required(
            &here.child("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => problems.forbidden(
            &here.child("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            problems.required(&here.child("averageValue"), "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !share && !average => problems.required(
            &here.child("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if share && average => problems.forbidden(
            &here.child("averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn metric_target(target: &Value, at: &Path<'_>, problems: &mut Problems) {
    let kind = target.text("type");
    if kind.is_empty() {
        problems.required(&at.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        problems.invalid(&at.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if let Some(quantity) = Quantity::of(target.at(field)).filter(|quantity| !quantity.is_positive()) {
            problems.invalid(&at.child(field), quantity.to_string(), "must be positive");
        }
    }
    if let Some(share) = target.int("averageUtilization").filter(|&share| share < 1) {
        problems.invalid(&at.child("averageUtilization"), share, "must be greater than 0");
    }
}

/// A budget of disruption; its name is not looked at.
pub(super) fn budget(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    if check.context.subresource == "status" {
        let (status, at) = (object.at("status"), Path::root("status"));
        meta::conditions(status.list("conditions"), &at.child("conditions"), problems);
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            problems.not_negative(&at.child(field), status.int(field).unwrap_or_default());
        }
        return;
    }
    let spec = object.at("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let shown = shown::internal("policy.PodDisruptionBudgetSpec", spec);
        problems.invalid_shown(&SPEC, &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if spec.has(field) {
            int_or_percent(spec.at(field), &SPEC.child(field), problems);
            at_most_all(spec.at(field), &SPEC.child(field), problems);
        }
    }
    meta::label_selector(spec.at("selector"), &SPEC.child("selector"), problems);
    if spec.has("unhealthyPodEvictionPolicy") {
        problems.one_of(
            &SPEC.child("unhealthyPodEvictionPolicy"),
            spec.text("unhealthyPodEvictionPolicy"),
            &["AlwaysAllow", "IfHealthyBudget"],
        );
    }
}
