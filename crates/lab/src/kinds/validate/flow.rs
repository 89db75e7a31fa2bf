//! Who may ask how much of the server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Check, own_metadata};
use crate::kinds::view::{Look, Path, Problems, same};
use crate::kinds::{format, shown};

const SPEC: Path<'static> = Path::root("spec");

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    if old.is_some() && check.context.subresource == "status" {
        conditions(object.at("status").list("conditions"), problems);
        return;
    }
    own_metadata(check, object, problems);
    let (spec, name) = (object.at("spec"), object.at("metadata").text("name"));
    if check.facts.kind == "FlowSchema" {
        schema(spec, name, problems);
    } else {
        if object.at("metadata").at("annotations").has(KEEPS_ZERO) {
            let metadata = Path::root("metadata");
            problems
                .forbidden(&metadata.child("annotations"), format!("annotation '{KEEPS_ZERO}' is forbidden"));
        }
        level(spec, name, problems);
    }
    conditions(object.at("status").list("conditions"), problems);
}

const KEEPS_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

fn conditions(conditions: &[Value], problems: &mut Problems) {
    let status = Path::root("status");
    let list = status.child("conditions");
    let mut types = BTreeSet::new();
    for (place, condition) in conditions.iter().enumerate() {
        let at = list.index(place);
        if !types.insert(condition.text("type")) {
            problems.duplicate(&at.child("type"), condition.text("type"));
        }
        problems.need(&at, condition, "type");
    }
}

/// The schemas that are always there cannot be changed.
fn fixed_schema(name: &str) -> Option<Value> {
    let (precedence, groups) = match name {
        "exempt" => (1, vec!["system:masters"]),
        "catch-all" => (10_000, vec!["system:unauthenticated", "system:authenticated"]),
        _ => return None,
    };
    let subjects: Vec<Value> =
        groups.into_iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": precedence,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if name == "catch-all" {
        spec["distinguisherMethod"] = json!({"type": "ByUser"});
    }
    Some(spec)
}

fn schema(spec: &Value, name: &str, problems: &mut Problems) {
    let (precedence, here) =
        (spec.int("matchingPrecedence").unwrap_or_default(), SPEC.child("matchingPrecedence"));
    if precedence <= 0 {
        problems.invalid(&here, precedence, "must be a positive value");
    } else if precedence > 10_000 {
        problems.invalid(&here, precedence, "must not be greater than 10000");
    } else if precedence == 1 && name != "exempt" {
        problems.invalid(&here, 1, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let method = spec.at("distinguisherMethod");
    if !method.is_null() && !matches!(method.text("type"), "ByNamespace" | "ByUser") {
        let at = SPEC.child("distinguisherMethod");
        let shown = shown::internal("flowcontrol.FlowDistinguisherMethod", method);
        problems.told(
            &at.child("type"),
            "FieldValueNotSupported",
            format!("Unsupported value: {shown}: supported values: \"ByNamespace\", \"ByUser\""),
        );
    }
    let level = SPEC.child("priorityLevelConfiguration");
    match spec.at("priorityLevelConfiguration").text("name") {
        "" => problems.required(&level.child("name"), "must reference a priority level"),
        name => problems.form(&level.child("name"), name, format::dns1123_subdomain),
    }
    let list = SPEC.child("rules");
    for (place, rule) in spec.list("rules").iter().enumerate() {
        schema_rule(rule, &list.index(place), problems);
    }
    if fixed_schema(name).is_some_and(|fixed| !same(&fixed, spec)) {
        let shown = shown::internal("flowcontrol.FlowSchemaSpec", spec);
        problems.invalid_shown(&SPEC, &shown, &format!("spec of '{name}' must equal the fixed value"));
    }
}

fn schema_rule(rule: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (subjects, list) = (rule.list("subjects"), at.child("subjects"));
    if subjects.is_empty() {
        problems.required(&list, "subjects must contain at least one value");
    }
    for (place, subject) in subjects.iter().enumerate() {
        rule_subject(subject, &list.index(place), problems);
    }
    let (resources, others) = (rule.list("resourceRules"), rule.list("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        problems.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let list = at.child("resourceRules");
    for (place, rule) in resources.iter().enumerate() {
        resource_rule(rule, &list.index(place), problems);
    }
    let list = at.child("nonResourceRules");
    for (place, rule) in others.iter().enumerate() {
        let at = list.index(place);
        verbs(rule, &at, problems);
        let urls = at.child("nonResourceURLs");
        let why = "nonResourceURLs must contain at least one value";
        if !alone(rule, "nonResourceURLs", "non-resource URLs", why, &at, problems) {
            for (place, path) in rule.list("nonResourceURLs").iter().enumerate() {
                url_path(path.str(), &urls.index(place), problems);
            }
        }
    }
}

fn rule_subject(subject: &Value, at: &Path<'_>, problems: &mut Problems) {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.text("kind");
    let Some(&(_, own)) = kinds.iter().find(|(name, _)| *name == kind) else {
        problems.unsupported(&at.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
        return;
    };
    let (value, here) = (subject.at(own), at.child(own));
    if value.is_null() {
        problems.required(&here, format!("{own} is required when subject kind is '{kind}'"));
    } else {
        let name = value.text("name");
        problems.need(&here, value, "name");
        if kind == "ServiceAccount" {
            if !name.is_empty() && name != "*" {
                problems.form(&here.child("name"), name, format::dns1123_subdomain);
            }
            match value.text("namespace") {
                "" => {
                    problems.required(&here.child("namespace"), "must specify namespace for service account");
                }
                name => problems.form(&here.child("namespace"), name, format::dns1123_label),
            }
        }
    }
    for (name, field) in kinds {
        if field != own && subject.has(field) {
            let why = format!("{field} is forbidden when subject kind is not '{name}'");
            problems.forbidden(&at.child(field), why);
        }
    }
}

/// Checks a list that may have `*` only alone; true when there is nothing more to look at in it.
fn alone(rule: &Value, field: &str, what: &str, empty: &str, at: &Path<'_>, problems: &mut Problems) -> bool {
    let items = rule.list(field);
    if items.is_empty() {
        problems.required(&at.child(field), empty);
        return true;
    }
    let wild = items.iter().any(|item| item.str() == "*");
    if wild && items.len() > 1 {
        let why = format!("if '*' is present, must not specify other {what}");
        problems.invalid(&at.child(field), rule.at(field).clone(), why);
    }
    wild
}

fn verbs(rule: &Value, at: &Path<'_>, problems: &mut Problems) {
    const KNOWN: [&str; 9] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
    if !alone(rule, "verbs", "verbs", "verbs must contain at least one value", at, problems)
        && !rule.list("verbs").iter().all(|verb| KNOWN.contains(&verb.str()))
    {
        problems.unsupported(&at.child("verbs"), rule.at("verbs").clone(), &KNOWN);
    }
}

fn resource_rule(rule: &Value, at: &Path<'_>, problems: &mut Problems) {
    verbs(rule, at, problems);
    let why = "resource rules must supply at least one api group";
    alone(rule, "apiGroups", "api groups", why, at, problems);
    let why = "resource rules must supply at least one resource";
    alone(rule, "resources", "resources", why, at, problems);
    if rule.list("namespaces").is_empty() && rule.flag("clusterScope") {
        return;
    }
    let why = "resource rules that are not cluster scoped must supply at least one namespace";
    if !alone(rule, "namespaces", "namespaces", why, at, problems) {
        let list = at.child("namespaces");
        for (place, name) in rule.list("namespaces").iter().enumerate() {
            for sentence in format::dns1123_label(name.str()) {
                problems.invalid(
                    &list.index(place),
                    name.str(),
                    format!("each member of this list must be '*' or a DNS-1123 label; {sentence}"),
                );
            }
        }
    }
}

fn url_path(path: &str, at: &Path<'_>, problems: &mut Problems) {
    let wild = path.matches('*').count();
    let why = if path.is_empty() {
        "must not be empty"
    } else if path == "/" {
        return;
    } else if !path.starts_with('/') {
        "must start with slash"
    } else if path.contains(' ') {
        "must not contain white-space"
    } else if path.contains("//") {
        "must not contain double slash"
    } else if wild > 1 || wild == 1 && !path.ends_with("/*") {
        "wildcard can only do suffix matching"
    } else {
        return;
    };
    problems.invalid(at, path, why);
}

/// What a level that is always there has to say; the numbers of the exempt one are free.
fn fixed_level(name: &str, spec: &Value) -> Option<Value> {
    match name {
        "exempt" => Some(json!({"type": "Exempt", "exempt": spec.at("exempt")})),
        "catch-all" => Some(json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
            },
        })),
        _ => None,
    }
}

fn level(spec: &Value, name: &str, problems: &mut Problems) {
    let (kind, here) = (spec.text("type"), SPEC.child("type"));
    if (name == "exempt") != (kind == "Exempt") {
        problems.invalid(&here, kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (SPEC.child("limited"), SPEC.child("exempt"));
    problems.declared(|problems| level_shape(spec, problems));
    match kind {
        "Exempt" => {
            if let Some(shares) =
                spec.at("exempt").int("nominalConcurrencyShares").filter(|&shares| shares < 0)
            {
                let why = "must be a non-negative integer";
                problems.invalid(&exempt.child("nominalConcurrencyShares"), shares, why);
            }
            lendable(spec.at("exempt"), &exempt, problems);
        }
        "Limited" if spec.has("limited") => limits(spec.at("limited"), &limited, problems),
        "" | "Limited" => {}
        other => problems.unsupported(&here, other, &["Exempt", "Limited"]),
    }
    if fixed_level(name, spec).is_some_and(|fixed| !same(&fixed, spec)) {
        let shown = shown::internal("flowcontrol.PriorityLevelConfigurationSpec", spec);
        let apart = if name == "exempt" { " except the 'spec.exempt' field" } else { "" };
        problems.invalid_shown(&SPEC, &shown, &format!("spec of '{name}'{apart} must equal the fixed value"));
    }
}

fn lendable(holder: &Value, at: &Path<'_>, problems: &mut Problems) {
    if let Some(share) = holder.int("lendablePercent").filter(|share| !(0..=100).contains(share)) {
        problems.invalid(&at.child("lendablePercent"), share, "must be between 0 and 100, inclusive");
    }
}

fn limits(limited: &Value, at: &Path<'_>, problems: &mut Problems) {
    if let Some(shares) = limited.int("nominalConcurrencyShares").filter(|&shares| shares < 0) {
        problems.invalid(&at.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
    let (response, here) = (limited.at("limitResponse"), at.child("limitResponse"));
    match response.text("type") {
        "Queue" if response.has("queuing") => {
            queues(response.at("queuing"), &here.child("queuing"), problems);
        }
        "" | "Queue" | "Reject" => {}
        other => problems.unsupported(&here.child("type"), other, &["Queue", "Reject"]),
    }
    lendable(limited, at, problems);
    if let Some(share) = limited.int("borrowingLimitPercent").filter(|&share| share < 0) {
        let why = "if specified, must be a non-negative integer";
        problems.invalid(&at.child("borrowingLimitPercent"), share, why);
    }
}

/// What is there has to fit to the type.
fn level_shape(spec: &Value, problems: &mut Problems) {
    let kind = spec.text("type");
    let (limited, exempt) = (SPEC.child("limited"), SPEC.child("exempt"));
    for (at, field, of) in [(&exempt, "exempt", "Exempt"), (&limited, "limited", "Limited")] {
        if spec.has(field) && kind != of {
            problems.forbidden(at, "");
        }
    }
    if kind.is_empty() {
        problems.required(&SPEC.child("type"), "");
    } else if kind == "Limited" && !spec.has("limited") {
        problems.required(&limited, "");
    }
    if spec.has("limited") {
        response_shape(spec.at("limited").at("limitResponse"), &limited.child("limitResponse"), problems);
    }
}

/// The same for what happens to requests beyond the limit.
fn response_shape(response: &Value, at: &Path<'_>, problems: &mut Problems) {
    let queuing = at.child("queuing");
    let kind = response.text("type");
    match (kind == "Queue", response.has("queuing")) {
        (false, true) => problems.forbidden(&queuing, ""),
        (true, false) => problems.required(&queuing, ""),
        _ => {}
    }
    if kind.is_empty() {
        problems.required(&at.child("type"), "");
    }
}

/// How requests are spread over queues: a hand of cards is dealt by a hash of 60 bits.
fn queues(queuing: &Value, at: &Path<'_>, problems: &mut Problems) {
    const MOST: i64 = 10_000_000;
    const BITS: f64 = 60.0;
    let number = |field: &str| queuing.int(field).unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if length <= 0 {
        problems.invalid(&at.child("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        problems.invalid(&at.child("queues"), queues, "must be positive");
    } else if queues > MOST {
        problems.invalid(&at.child("queues"), queues, format!("must not be greater than {MOST}"));
    }
    let here = at.child("handSize");
    if hand <= 0 {
        problems.invalid(&here, hand, "must be positive");
    } else if hand > queues {
        problems.invalid(&here, hand, format!("should not be greater than queues ({queues})"));
    } else if entropy(queues, hand) > BITS {
        problems.invalid(
            &here,
            hand,
            format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than 60"
            ),
        );
    }
}

fn entropy(queues: i64, hand: i64) -> f64 {
    let float = |number: i64| f64::from(i32::try_from(number).unwrap_or(i32::MAX));
    (float(queues).log2() * float(hand)).ceil()
}
