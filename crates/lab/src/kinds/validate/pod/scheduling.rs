//! Where pods may run.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kinds::view::{Look, Path, Problems};
use crate::kinds::{format, meta};

/// Tolerations of taints.
pub(in crate::kinds::validate) fn tolerations(tolerations: &[Value], at: &Path<'_>, problems: &mut Problems) {
    for (place, toleration) in tolerations.iter().enumerate() {
        let here = at.index(place);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let (value, effect) = (toleration.text("value"), toleration.text("effect"));
        let operator_at = here.child("operator");
        if key.is_empty() {
            if operator != "Exists" {
                problems.invalid(
                    &operator_at,
                    operator,
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                );
            }
        } else {
            problems.form(&here.child("key"), key, format::qualified_name);
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            problems.invalid(
                &here.child("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                let wrong = format::label_value(value);
                if !wrong.is_empty() {
                    problems.invalid(&operator_at, value, wrong.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    problems.invalid(&operator_at, value, "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" => problems.unsupported(&operator_at, operator, &["Equal", "Exists", "Lt", "Gt"]),
            other => problems.unsupported(&operator_at, other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(effect, &here.child("effect"), problems);
        }
    }
}

pub(in crate::kinds::validate) fn taint_effect(effect: &str, at: &Path<'_>, problems: &mut Problems) {
    problems.one_of(at, effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

/// Node and pod affinity.
pub(super) fn affinity(affinity: &Value, at: &Path<'_>, problems: &mut Problems) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let nodes = affinity.at("nodeAffinity");
    let here = at.child("nodeAffinity");
    if nodes.has(REQUIRED) {
        node_selector(nodes.at(REQUIRED), &here.child(REQUIRED), problems);
    }
    let preferred = here.child(PREFERRED);
    for (place, term) in nodes.list(PREFERRED).iter().enumerate() {
        let here = preferred.index(place);
        weight(term, &here, problems);
        node_term(term.at("preference"), true, &here.child("preference"), problems);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, here) = (affinity.at(kind), at.child(kind));
        let required = here.child(REQUIRED);
        for (place, term) in pods.list(REQUIRED).iter().enumerate() {
            pod_term(term, &required.index(place), problems);
        }
        let preferred = here.child(PREFERRED);
        for (place, term) in pods.list(PREFERRED).iter().enumerate() {
            let here = preferred.index(place);
            weight(term, &here, problems);
            pod_term(term.at("podAffinityTerm"), &here.child("podAffinityTerm"), problems);
        }
    }
}

fn weight(term: &Value, at: &Path<'_>, problems: &mut Problems) {
    let weight = term.int("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        problems.invalid(&at.child("weight"), weight, "must be in the range 1-100");
    }
}

/// A selector of nodes.
pub(in crate::kinds::validate) fn node_selector(selector: &Value, at: &Path<'_>, problems: &mut Problems) {
    let here = at.child("nodeSelectorTerms");
    let terms = selector.list("nodeSelectorTerms");
    if terms.is_empty() {
        problems.required(&here, "must have at least one node selector term");
    }
    for (place, term) in terms.iter().enumerate() {
        node_term(term, false, &here.index(place), problems);
    }
}

fn node_term(term: &Value, any_value: bool, at: &Path<'_>, problems: &mut Problems) {
    let expressions = at.child("matchExpressions");
    for (place, requirement) in term.list("matchExpressions").iter().enumerate() {
        let here = expressions.index(place);
        let values = requirement.list("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.is_empty() => {
                problems
                    .required(&here.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => problems.forbidden(
                &here.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "Gt" | "Lt" if values.len() != 1 => problems.required(
                &here.child("values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => problems.invalid(&here.child("operator"), other, "not a valid selector operator"),
        }
        problems.form(&here.child("key"), requirement.text("key"), format::qualified_name);
        if !any_value {
            let list = here.child("values");
            for (place, value) in values.iter().enumerate() {
                problems.form(&list.index(place), value.str(), format::label_value);
            }
        }
    }
    let fields = at.child("matchFields");
    for (place, requirement) in term.list("matchFields").iter().enumerate() {
        let here = fields.index(place);
        let values = requirement.list("values");
        match requirement.text("operator") {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    problems.required(
                        &here.child("values"),
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                    );
                }
            }
            other => problems.invalid(&here.child("operator"), other, "not a valid selector operator"),
        }
        let key = requirement.text("key");
        if key == "metadata.name" {
            let list = here.child("values");
            for (place, value) in values.iter().enumerate() {
                problems.form(&list.index(place), value.str(), format::dns1123_subdomain);
            }
        } else {
            problems.invalid(&here.child("key"), key, "not a valid field selector key");
        }
    }
}

fn pod_term(term: &Value, at: &Path<'_>, problems: &mut Problems) {
    for selector in ["labelSelector", "namespaceSelector"] {
        meta::label_selector(term.at(selector), &at.child(selector), problems);
    }
    for name in term.list("namespaces") {
        problems.form(&at.child("namespace"), name.str(), format::dns1123_label);
    }
    label_keys(term, at, problems);
    let key = term.text("topologyKey");
    if key.is_empty() {
        problems.required(&at.child("topologyKey"), "can not be empty");
    }
    problems.form(&at.child("topologyKey"), key, format::qualified_name);
}

/// Keys whose values are those of the pod itself.
fn label_keys(holder: &Value, at: &Path<'_>, problems: &mut Problems) {
    let selector = holder.at("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (keys, here) = (holder.list(field), at.child(field));
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            problems.forbidden(&here, "must not be specified when labelSelector is not set");
            continue;
        }
        for (place, key) in keys.iter().enumerate() {
            problems.form(&here.index(place), key.str(), format::qualified_name);
        }
    }
    let keys: Vec<&str> = holder.list("matchLabelKeys").iter().map(Look::str).collect();
    let mut known: BTreeSet<&str> =
        selector.fields("matchLabels").into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for expression in selector.list("matchExpressions") {
        let key = expression.text("key");
        if let Some(place) = keys.iter().rposition(|one| *one == key)
            && known.contains(key)
        {
            problems.invalid(&at.index(place), key, "exists in both matchLabelKeys and labelSelector");
        }
        known.insert(key);
    }
    let other: BTreeSet<&str> = holder.list("mismatchLabelKeys").iter().map(Look::str).collect();
    let here = at.child("matchLabelKeys");
    for (place, key) in keys.iter().enumerate() {
        if other.contains(key) {
            problems.invalid(&here.index(place), *key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// How pods are spread.
pub(super) fn spread(constraints: &[Value], at: &Path<'_>, problems: &mut Problems) {
    for (place, constraint) in constraints.iter().enumerate() {
        let here = at.index(place);
        let skew = constraint.int("maxSkew").unwrap_or_default();
        if skew <= 0 {
            problems.invalid(&here.child("maxSkew"), skew, "must be greater than zero");
        }
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if key.is_empty() {
            problems.required(&here.child("topologyKey"), "can not be empty");
        }
        problems.one_of(&here.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        let same =
            |other: &Value| other.text("topologyKey") == key && other.text("whenUnsatisfiable") == action;
        if constraints[place + 1..].iter().any(same) {
            let both = format!("{{{key}, {action}}}");
            problems.duplicate(&here.child("{topologyKey, whenUnsatisfiable}"), both);
        }
        if let Some(domains) = constraint.int("minDomains") {
            let place = here.child("minDomains");
            if domains <= 0 {
                problems.invalid(&place, domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                problems.invalid(&place, domains, why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if constraint.has(field) {
                problems.one_of(&here.child(field), constraint.text(field), &["Honor", "Ignore"]);
            }
        }
        label_keys(constraint, &here, problems);
        meta::label_selector(constraint.at("labelSelector"), &here.child("labelSelector"), problems);
    }
}
