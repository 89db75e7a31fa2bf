//! Webhooks and policies of admission. Their expressions are compiled elsewhere; what surrounds them is here.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Check, machinery_metadata};
use crate::cel;
use crate::crd;
use crate::kinds::view::{Look, Path, Problems, same};
use crate::kinds::{format, meta, shown};

const SPEC: Path<'static> = Path::root("spec");
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// What is deleted cannot be changed on the way.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    let (kind, spec) = (check.facts.kind, object.at("spec"));
    if kind == "ValidatingAdmissionPolicy" && old.is_some() && check.context.subresource == "status" {
        policy_status(object.at("status"), problems);
        return;
    }
    machinery_metadata(check, object, problems);
    match kind {
        "ValidatingAdmissionPolicy" => {
            policy(spec, old.map(|old| old.at("spec")), problems);
            validations(spec, object.at("metadata").text("name"), problems);
        }
        "MutatingAdmissionPolicy" => {
            policy(spec, old.map(|old| old.at("spec")), problems);
            mutations(spec, problems);
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            binding(spec, kind.starts_with("Mutating"), problems);
        }
        _ => webhooks(object, old, kind.starts_with("Mutating"), problems),
    }
    let name = object.at("metadata").text("name");
    if old.is_none() && name.ends_with(".static.k8s.io") {
        let metadata = Path::root("metadata");
        problems.invalid(
            &metadata.child("name"),
            name,
            "names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API",
        );
    }
}

fn webhooks(object: &Value, old: Option<&Value>, mutating: bool, problems: &mut Problems) {
    let (hooks, list) = (object.list("webhooks"), Path::root("webhooks"));
    let conditions_as_before = old.is_some_and(|old| {
        let before = old.list("webhooks");
        before.len() == hooks.len()
            && before.iter().zip(hooks).all(|(a, b)| same(a.at("matchConditions"), b.at("matchConditions")))
    });
    let mut names = BTreeSet::new();
    for (place, hook) in hooks.iter().enumerate() {
        let at = list.index(place);
        webhook(hook, mutating, conditions_as_before, &at, problems);
        review_versions(hook, &at.child("admissionReviewVersions"), problems);
        let name = hook.text("name");
        if !name.is_empty() && !names.insert(name) {
            problems.duplicate(&at.child("name"), name);
        }
    }
}

fn webhook(hook: &Value, mutating: bool, conditions_as_before: bool, at: &Path<'_>, problems: &mut Problems) {
    qualified_name(hook.text("name"), &at.child("name"), problems);
    let list = at.child("rules");
    for (place, rule) in hook.list("rules").iter().enumerate() {
        rule_with_operations(rule, &list.index(place), problems);
    }
    let mut choice = |field: &str, choices: &[&str]| {
        if hook.has(field) {
            problems.one_of(&at.child(field), hook.text(field), choices);
        }
    };
    choice("failurePolicy", &["Fail", "Ignore"]);
    choice("matchPolicy", &["Equivalent", "Exact"]);
    choice("sideEffects", &["None", "NoneOnDryRun"]);
    if mutating {
        choice("reinvocationPolicy", &["IfNeeded", "Never"]);
    }
    if !hook.has("sideEffects") {
        problems.required(&at.child("sideEffects"), "must specify one of None, NoneOnDryRun");
    }
    if let Some(seconds) = hook.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        problems.invalid(&at.child("timeoutSeconds"), seconds, why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        meta::label_selector(hook.at(field), &at.child(field), problems);
    }
    let nothing = Map::new();
    let config = hook.fields("clientConfig").unwrap_or(&nothing);
    let place = at.child("clientConfig").to_string();
    crd::definition::webhook::check(config, &crd::path::Path::At(&place), true, &mut problems.0);
    if !conditions_as_before {
        match_conditions(hook.list("matchConditions"), &at.child("matchConditions"), problems);
    }
}

/// A name of at least three parts.
fn qualified_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    let wrong = format::dns1123_subdomain(name);
    if name.is_empty() {
        problems.required(at, "");
    } else if !wrong.is_empty() {
        problems.invalid(at, name, wrong.join(","));
    } else if name.split('.').count() < 3 {
        problems.invalid(at, name, "should be a domain with at least three segments separated by dots");
    }
}

fn review_versions(hook: &Value, at: &Path<'_>, problems: &mut Problems) {
    let versions = hook.list("admissionReviewVersions");
    if versions.is_empty() {
        problems.required(at, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for (place, version) in versions.iter().map(Look::str).enumerate() {
        if seen.insert(version) {
            problems.form(&at.index(place), version, format::dns1035_label);
        } else {
            problems.invalid(&at.index(place), version, "duplicate version");
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let why = "must include at least one of v1, v1beta1";
        problems.invalid(at, hook.at("admissionReviewVersions").clone(), why);
    }
}

fn rule_with_operations(rule: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (operations, list) = (rule.list("operations"), at.child("operations"));
    alone(rule, "operations", "operations", at, problems);
    for (place, operation) in operations.iter().enumerate() {
        problems.one_of(&list.index(place), operation.str(), &OPERATIONS);
    }
    alone(rule, "apiGroups", "API groups", at, problems);
    alone(rule, "apiVersions", "API versions", at, problems);
    let versions = at.child("apiVersions");
    for (place, version) in rule.list("apiVersions").iter().enumerate() {
        if version.str().is_empty() {
            problems.required(&versions.index(place), "");
        }
    }
    resources(rule, &at.child("resources"), problems);
    if rule.has("scope") {
        problems.one_of(&at.child("scope"), rule.text("scope"), &["*", "Cluster", "Namespaced"]);
    }
}

/// A list that needs something, and has `*` only alone.
fn alone(rule: &Value, field: &str, what: &str, at: &Path<'_>, problems: &mut Problems) {
    let items = rule.list(field);
    if items.is_empty() {
        problems.required(&at.child(field), "");
    }
    if items.len() > 1 && items.iter().any(|item| item.str() == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        problems.invalid(&at.child(field), rule.at(field).clone(), why);
    }
}

fn resources(rule: &Value, at: &Path<'_>, problems: &mut Problems) {
    let resources = rule.list("resources");
    if resources.is_empty() {
        problems.required(at, "");
    }
    let (mut all_of_resource, mut in_all_resources) = (BTreeSet::new(), BTreeSet::new());
    let mut plain = false;
    for (place, both) in resources.iter().map(Look::str).enumerate() {
        let here = at.index(place);
        if both.is_empty() {
            problems.required(&here, "");
            continue;
        }
        let Some((resource, part)) = both.split_once('/') else {
            // The last one counts.
            plain = both != "*";
            continue;
        };
        if all_of_resource.contains(resource) {
            problems.invalid(&here, both, format!("if '{resource}/*' is present, must not specify {both}"));
        }
        if in_all_resources.contains(part) {
            problems.invalid(&here, both, format!("if '*/{part}' is present, must not specify {both}"));
        }
        if part == "*" {
            all_of_resource.insert(resource);
        }
        if resource == "*" {
            in_all_resources.insert(part);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource.str() == wanted);
    if resources.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        problems.invalid(at, rule.at("resources").clone(), why);
    }
    if has("*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        problems.invalid(at, rule.at("resources").clone(), why);
    }
}

fn match_conditions(conditions: &[Value], at: &Path<'_>, problems: &mut Problems) {
    if conditions.len() > 64 {
        problems.too_many(at, conditions.len(), 64);
    }
    let mut names = BTreeSet::new();
    for (place, condition) in conditions.iter().enumerate() {
        let here = at.index(place);
        if condition.text("expression").trim().is_empty() {
            problems.required(&here.child("expression"), "");
        }
        match condition.text("name") {
            "" => problems.required(&here.child("name"), ""),
            name => {
                problems.form(&here.child("name"), name, format::qualified_name);
                if !names.insert(name) {
                    problems.duplicate(&here.child("name"), name);
                }
            }
        }
    }
}

/// What policies of both sorts have.
fn policy(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    if spec.has("failurePolicy") {
        problems.one_of(&SPEC.child("failurePolicy"), spec.text("failurePolicy"), &["Fail", "Ignore"]);
    } else {
        problems.required(&SPEC.child("failurePolicy"), "");
    }
    if spec.has("paramKind") {
        param_kind(spec.at("paramKind"), &SPEC.child("paramKind"), problems);
    }
    let at = SPEC.child("matchConstraints");
    if spec.has("matchConstraints") {
        let constraints = spec.at("matchConstraints");
        match_resources(constraints, &at, problems);
        if constraints.list("resourceRules").is_empty() {
            problems.required(&at.child("resourceRules"), "");
        }
    } else {
        problems.required(&at, "");
    }
    let as_before = |old: &Value| {
        ["paramKind", "matchConditions"].iter().all(|field| same(old.at(field), spec.at(field)))
    };
    if !old.is_some_and(as_before) {
        match_conditions(spec.list("matchConditions"), &SPEC.child("matchConditions"), problems);
    }
    let list = SPEC.child("variables");
    for (place, variable) in spec.list("variables").iter().enumerate() {
        let here = list.index(place);
        let name = variable.text("name");
        if name.trim().is_empty() {
            problems.required(&here.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            problems.invalid(&here.child("name"), name, "must be a valid CEL identifier");
        }
        if variable.text("expression").trim().is_empty() {
            problems.required(&here.child("expression"), "expression is not specified");
        }
    }
}

fn is_identifier(name: &str) -> bool {
    format::c_identifier(name).is_empty() && !cel::is_reserved(name)
}

fn param_kind(kind: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (version, here) = (kind.text("apiVersion"), at.child("apiVersion"));
    if version.is_empty() {
        problems.required(&here, "");
    } else if version != "/" && version.matches('/').count() > 1 {
        problems.invalid(&here, version, format!("unexpected GroupVersion string: {version}"));
    } else {
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let mut joined = |text: &str, wrong: Vec<String>| {
            if !wrong.is_empty() {
                problems.invalid(&here, text, wrong.join(","));
            }
        };
        if !group.is_empty() {
            joined(group, format::dns1123_subdomain(group));
        }
        if number.is_empty() {
            joined(version, vec!["version must be specified".to_owned()]);
        } else {
            joined(number, format::dns1035_label(number));
        }
    }
    match kind.text("kind") {
        "" => problems.required(&at.child("kind"), ""),
        name => {
            let wrong = format::dns1035_label(&name.to_lowercase());
            if !wrong.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                problems.invalid(&at.child("kind"), name, why);
            }
        }
    }
}

fn match_resources(resources: &Value, at: &Path<'_>, problems: &mut Problems) {
    if resources.has("matchPolicy") {
        problems.one_of(&at.child("matchPolicy"), resources.text("matchPolicy"), &["Equivalent", "Exact"]);
    } else {
        problems.required(&at.child("matchPolicy"), "");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if resources.has(field) {
            meta::label_selector(resources.at(field), &at.child(field), problems);
        } else {
            problems.required(&at.child(field), "");
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = at.child(field);
        for (place, rule) in resources.list(field).iter().enumerate() {
            let here = list.index(place);
            let names = here.child("resourceNames");
            let mut seen = BTreeSet::new();
            for (place, name) in rule.list("resourceNames").iter().map(Look::str).enumerate() {
                problems.form(&names.index(place), name, format::path_segment);
                if !seen.insert(name) {
                    problems.duplicate(&names.index(place), name);
                }
            }
            rule_with_operations(rule, &here, problems);
        }
    }
}

fn validations(spec: &Value, policy: &str, problems: &mut Problems) {
    let (list, annotations) = (SPEC.child("validations"), SPEC.child("auditAnnotations"));
    if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
        for at in [list, annotations] {
            problems.required(&at, "validations or auditAnnotations must contain at least one item");
        }
        return;
    }
    for (place, validation) in spec.list("validations").iter().enumerate() {
        let at = list.index(place);
        if validation.text("expression").trim().is_empty() {
            problems.required(&at.child("expression"), "expression is not specified");
        }
        for field in ["messageExpression", "message"] {
            let text = validation.text(field);
            if !text.is_empty() && text.trim().is_empty() {
                problems.invalid(&at.child(field), text, "must be non-empty if specified");
            }
        }
        let message = validation.text("message");
        if message.trim().contains(['\n', '\r']) {
            problems.invalid(&at.child("message"), message, "must not contain line breaks");
        }
        if validation.has("reason") {
            let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
            problems.one_of(&at.child("reason"), validation.text("reason"), &reasons);
        }
    }
    audit_annotations(spec.list("auditAnnotations"), policy, &annotations, problems);
}

fn audit_annotations(annotations: &[Value], policy: &str, at: &Path<'_>, problems: &mut Problems) {
    if annotations.len() > 20 {
        let shown = shown::list("admissionregistration.AuditAnnotation", annotations);
        problems.invalid_shown(at, &shown, "must not have more than 20 auditAnnotations");
    }
    let mut keys = BTreeSet::new();
    for (place, annotation) in annotations.iter().enumerate() {
        let here = at.index(place);
        let key = annotation.text("key");
        if policy.is_empty() {
            problems.invalid(&here.child("key"), key, "requires metadata.name be non-empty");
        } else {
            problems.form(&here.child("key"), &format!("{policy}/{key}"), format::qualified_name);
        }
        let value = here.child("valueExpression");
        match annotation.text("valueExpression").trim().len() {
            0 => problems.required(&value, "valueExpression is not specified"),
            length if length > 5 * 1024 => problems.required(&value, "must not exceed 5120 bytes in length"),
            _ => {}
        }
        if !keys.insert(key) {
            problems.duplicate(&here.child("key"), key);
        }
    }
}

fn mutations(spec: &Value, problems: &mut Problems) {
    mutable_operations(spec, "matchConstraints", problems);
    let (items, list) = (spec.list("mutations"), SPEC.child("mutations"));
    if items.is_empty() {
        problems.required(&list, "mutations must contain at least one item");
    }
    for (place, mutation) in items.iter().enumerate() {
        let at = list.index(place);
        let kind = mutation.text("patchType");
        let (own, other) = match kind {
            "JSONPatch" => ("jsonPatch", "applyConfiguration"),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
            "" => {
                problems.required(&at.child("patchType"), "");
                continue;
            }
            _ => {
                problems.unsupported(&at.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        let here = at.child(own);
        if !mutation.has(own) {
            problems.required(&here, format!("must be specified when patchType is {kind}"));
        } else if mutation.at(own).text("expression").trim().is_empty() {
            problems.required(&here.child("expression"), "");
        }
        if mutation.has(other) {
            let why = format!("must not be specified when patchType is {kind}");
            problems.invalid(&at.child(other), format!("{{{other}}}"), why);
        }
    }
    let at = SPEC.child("reinvocationPolicy");
    match spec.text("reinvocationPolicy") {
        "" => problems.required(&at, ""),
        policy => problems.one_of(&at, policy, &["IfNeeded", "Never"]),
    }
}

fn mutable_operations(spec: &Value, field: &str, problems: &mut Problems) {
    let at = SPEC.child(field);
    let rules = at.child("resourceRules");
    for rule in spec.at(field).list("resourceRules") {
        for operation in rule.list("operations") {
            problems.one_of(&rules.child("operations"), operation.str(), &MUTATING_OPERATIONS);
        }
    }
}

fn binding(spec: &Value, mutating: bool, problems: &mut Problems) {
    match spec.text("policyName") {
        "" if mutating => problems.required(&SPEC.child("policyName"), ""),
        "" => problems.declared(|problems| problems.required(&SPEC.child("policyName"), "")),
        name => problems.form(&SPEC.child("policyName"), name, format::dns1123_subdomain),
    }
    if spec.has("paramRef") {
        params(spec.at("paramRef"), &SPEC.child("paramRef"), problems);
    }
    if spec.has("matchResources") {
        match_resources(spec.at("matchResources"), &SPEC.child("matchResources"), problems);
    }
    if mutating {
        mutable_operations(spec, "matchResources", problems);
        return;
    }
    let at = SPEC.child("validationActions");
    let mut seen = BTreeSet::new();
    for (place, action) in spec.list("validationActions").iter().map(Look::str).enumerate() {
        problems.one_of(&at.index(place), action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action) {
            problems.duplicate(&at.index(place), action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        problems.invalid(
            &at,
            spec.at("validationActions").clone(),
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if seen.is_empty() {
        problems.declared(|problems| problems.required(&at, ""));
    }
}

fn params(reference: &Value, at: &Path<'_>, problems: &mut Problems) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let (name, selector) = (reference.text("name"), reference.at("selector"));
    if !name.is_empty() {
        problems.form(&at.child("name"), name, format::path_segment);
        if !selector.is_null() {
            problems.forbidden(&at.child("name"), BOTH);
        }
    }
    meta::label_selector(selector, &at.child("selector"), problems);
    if !name.is_empty() && !selector.is_null() {
        problems.forbidden(&at.child("selector"), BOTH);
    }
    if name.is_empty() && selector.is_null() {
        problems.required(at, "one of name or selector must be specified");
    }
    let here = at.child("parameterNotFoundAction");
    match reference.text("parameterNotFoundAction") {
        "" => problems.required(&here, ""),
        action => problems.one_of(&here, action, &["Deny", "Allow"]),
    }
}

fn policy_status(status: &Value, problems: &mut Problems) {
    let at = Path::root("status");
    let checking = at.child("typeChecking");
    let list = checking.child("expressionWarnings");
    for (place, warning) in status.at("typeChecking").list("expressionWarnings").iter().enumerate() {
        let here = list.index(place);
        problems.need(&here, warning, "warning");
        if warning.text("fieldRef").trim().is_empty() {
            problems.required(&here.child("fieldRef"), "");
        }
    }
    meta::conditions(status.list("conditions"), &at.child("conditions"), problems);
}
