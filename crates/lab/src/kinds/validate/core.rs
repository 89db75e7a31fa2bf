//! The other kinds of the core group.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::pod::resources::{amount, container_resource, is_quota_resource, may_overcommit, resource_name};
use super::pod::scheduling::taint_effect;
use super::service::{endpoint_ip, one_network_of_each_family};
use super::{Check, own_metadata, pod};
use crate::kinds::convert;
use crate::kinds::format;
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems, same};

/// An amount of a limit, and what it is called.
type Named<'a> = (&'a str, Option<&'a Quantity>);

/// One mebibyte, which a ConfigMap or Secret may hold.
const MAX_DATA: usize = 1024 * 1024;

fn decoded(value: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(value.str()).unwrap_or_default()
}

pub(super) fn config_map(object: &Value, problems: &mut Problems) {
    let mut size = 0;
    let (data, binary) = (Path::root("data"), Path::root("binaryData"));
    for (key, value) in object.fields("data").into_iter().flatten() {
        problems.form(&data.key(key), key, format::config_key);
        if object.at("binaryData").has(key) {
            problems.invalid(&data.key(key), key.as_str(), "duplicate of key present in binaryData");
        }
        size += value.str().len();
    }
    for (key, value) in object.fields("binaryData").into_iter().flatten() {
        problems.form(&binary.key(key), key, format::config_key);
        size += decoded(value).len();
    }
    if size > MAX_DATA {
        problems.too_long(&Path::root(""), MAX_DATA as u64);
    }
}

/// What may not change once `immutable` is set.
pub(super) fn immutable_data(fields: &[&str], old: &Value, new: &Value, problems: &mut Problems) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        problems.forbidden(&Path::root("immutable"), WHY);
    }
    for field in fields {
        if !same(old.at(field), new.at(field)) {
            problems.forbidden(&Path::root(field), WHY);
        }
    }
}

pub(super) fn secret(object: &Value, problems: &mut Problems) {
    let at = Path::root("data");
    let data = object.at("data");
    let mut size = 0;
    for (key, value) in data.as_object().into_iter().flatten() {
        problems.form(&at.key(key), key, format::config_key);
        size += decoded(value).len();
    }
    if size > MAX_DATA {
        problems.too_long(&at, MAX_DATA as u64);
    }
    let json = |key: &str, problems: &mut Problems| {
        if !data.has(key) {
            problems.required(&at.key(key), "");
        } else if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&decoded(data.at(key))) {
            problems.invalid(
                &at.key(key),
                "<secret contents redacted>",
                go_json_error(&decoded(data.at(key)), &error),
            );
        }
    };
    match object.text("type") {
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            if object.at("metadata").at("annotations").text(NAME).is_empty() {
                let metadata = Path::root("metadata");
                problems.required(&metadata.child("annotations").key(NAME), "");
            }
        }
        "kubernetes.io/dockercfg" => json(".dockercfg", problems),
        "kubernetes.io/dockerconfigjson" => json(".dockerconfigjson", problems),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            problems.required(&at.key("username"), "");
            problems.required(&at.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            problems.required(&at.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.has(key) {
                    problems.required(&at.key(key), "");
                }
            }
        }
        _ => {}
    }
}

/// The sentence Go's decoder has for the commonest faults.
fn go_json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let kind = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(_)) => Some("array"),
        Ok(Value::String(_)) => Some("string"),
        Ok(Value::Number(_)) => Some("number"),
        Ok(Value::Bool(_)) => Some("bool"),
        _ => None,
    };
    if let Some(kind) = kind {
        return format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
    }
    let text = String::from_utf8_lossy(bytes);
    let first = text.trim_start().chars().next().unwrap_or_default();
    format!("invalid character '{first}' looking for beginning of value")
}

pub(super) fn namespace(object: &Value, problems: &mut Problems) {
    let at = Path::root("spec");
    for name in object.at("spec").list("finalizers") {
        finalizer(name.str(), &at.child("finalizers"), problems);
    }
}

fn finalizer(name: &str, at: &Path<'_>, problems: &mut Problems) {
    problems.form(at, name, format::qualified_name);
    super::standard_finalizer(name, at, problems);
}

pub(super) fn namespace_update(check: &Check<'_>, new: &Value, problems: &mut Problems) {
    let spec = Path::root("spec");
    match check.context.subresource {
        "status" => {
            let (phase, ending) =
                (new.at("status").text("phase"), new.at("metadata").has("deletionTimestamp"));
            let at = Path::root("status");
            if !ending && phase != "Active" {
                problems.invalid(
                    &at.child("Phase"),
                    phase,
                    "may only be 'Active' if `deletionTimestamp` is empty",
                );
            } else if ending && phase != "Terminating" {
                let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                problems.invalid(&at.child("Phase"), phase, why);
            }
        }
        "finalize" => {
            let list = spec.child("finalizers");
            for (place, name) in new.at("spec").list("finalizers").iter().enumerate() {
                finalizer(name.str(), &list.index(place), problems);
            }
        }
        _ => namespace(new, problems),
    }
}

pub(super) fn node(object: &Value, problems: &mut Problems) {
    let metadata = Path::root("metadata");
    let spec = Path::root("spec");
    node_annotations(object, problems);
    taints(object.at("spec").list("taints"), &metadata.child("taints"), problems);
    node_resources(object, problems);
    if let Some(capacity) = object.at("status").at("nodeInfo").at("swap").int("capacity")
        && capacity <= 0
    {
        let swap = metadata.child("nodeSwapStatus");
        problems.invalid(&swap.child("capacity"), capacity, "must be greater than zero");
    }
    declared_features(object, problems);
    let networks = object.at("spec").list("podCIDRs");
    let here = spec.child("podCIDRs");
    for (place, network) in networks.iter().enumerate() {
        problems.form(&here.index(place), network.str(), format::legacy_cidr);
    }
    let unreadable =
        networks.iter().map(Look::str).enumerate().find(|(_, text)| format::sloppy_cidr(text).is_none());
    if let (true, Some((place, text))) = (networks.len() > 1, unreadable) {
        problems.told(
            &here,
            "InternalError",
            format!("Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{place}]: <nil> (invalid CIDR address: {text})"),
        );
    }
    if networks.len() > 1 && !one_network_of_each_family(networks) {
        problems.invalid(&here, networks.to_vec(), "may specify no more than one CIDR for each IP family");
    }
}

fn node_annotations(object: &Value, problems: &mut Problems) {
    const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
    let metadata = Path::root("metadata");
    let at = metadata.child("annotations");
    let text = object.at("metadata").at("annotations").text(TAINTS);
    if !text.is_empty() {
        match serde_json::from_str::<Vec<Value>>(text) {
            Ok(list) => taints(&list, &at.child(TAINTS), problems),
            Err(error) => problems.invalid(&at, TAINTS, error.to_string()),
        }
    }
}

fn taints(taints: &[Value], at: &Path<'_>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (place, taint) in taints.iter().enumerate() {
        let here = at.index(place);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        problems.form(&here.child("key"), key, format::qualified_name);
        let wrong = format::label_value(value);
        if !wrong.is_empty() {
            problems.invalid(&here.child("value"), value, wrong.join(";"));
        }
        if effect.is_empty() {
            problems.required(&here.child("effect"), "");
        } else {
            taint_effect(effect, &here.child("effect"), problems);
        }
        if !seen.insert((effect, key)) {
            let added = taint.get("timeAdded").map_or("null".to_owned(), ToString::to_string);
            let text = |field: &str| Value::from(taint.text(field)).to_string();
            problems.told(
                &here,
                "FieldValueDuplicate",
                format!(
                    "Duplicate value: {{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{added}}}: taints must be unique by key and effect pair",
                    text("key"),
                    text("value"),
                    text("effect"),
                ),
            );
        }
    }
}

fn node_resources(object: &Value, problems: &mut Problems) {
    let status = Path::root("status");
    for list in ["capacity", "allocatable"] {
        let here = status.child(list);
        for (name, value) in object.at("status").fields(list).into_iter().flatten() {
            amount(name, value, &here.child(name), problems);
        }
    }
}

fn declared_features(object: &Value, problems: &mut Problems) {
    let status = Path::root("status");
    let here = status.child("declaredFeatures");
    let features: Vec<&str> = object.at("status").list("declaredFeatures").iter().map(Look::str).collect();
    for (place, name) in features.iter().enumerate() {
        let mut parts = name.split('/');
        let word = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let camel = parts
            .next()
            .is_some_and(|first| word(first) && first.starts_with(|c: char| c.is_ascii_uppercase()))
            && parts.all(|part| word(part) && part.starts_with(|c: char| c.is_ascii_alphabetic()));
        let why = match () {
            () if name.len() > 253 => Some("must be no more than 253 characters".to_owned()),
            () if !camel => Some("must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes".to_owned()),
            () => None,
        };
        if let Some(why) = why {
            problems.invalid(&here.index(place), *name, format!("invalid feature name {name:?}: {why}"));
        }
        match features.get(place + 1) {
            Some(next) if next == name => problems.duplicate(&here.index(place + 1), *next),
            Some(next) if next < name => {
                problems.invalid(&here.index(place + 1), *next, "list must be sorted alphabetically");
            }
            _ => {}
        }
    }
}

pub(super) fn node_update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    if check.context.subresource != "status" {
        node(new, problems);
    }
    node_annotations(new, problems);
    node_resources(new, problems);
    declared_features(new, problems);
    let (spec, status) = (Path::root("spec"), Path::root("status"));
    let list = status.child("addresses");
    let mut seen = BTreeSet::new();
    for (place, address) in new.at("status").list("addresses").iter().enumerate() {
        if !seen.insert((address.text("type"), address.text("address"))) {
            let shown = format!("{{\"Type\":{},\"Address\":{}}}", address.at("type"), address.at("address"));
            problems.told(&list.index(place), "FieldValueDuplicate", format!("Duplicate value: {shown}"));
        }
    }
    let (before, after) = (old.at("spec"), new.at("spec"));
    let networks = before.list("podCIDRs");
    if !networks.is_empty() && networks != after.list("podCIDRs") {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        problems.forbidden(&spec.child("podCIDRs"), why);
    }
    let (was, is) = (before.text("providerID"), after.text("providerID"));
    if !was.is_empty() && was != is {
        let why = if is.is_empty() {
            "field cannot be cleared once set"
        } else {
            "field cannot be modified once set"
        };
        problems.invalid(&spec.child("providerID"), Value::Null, why);
    }
    let metadata = Path::root("metadata");
    taints(after.list("taints"), &metadata.child("taints"), problems);
    if before.text("externalID") != after.text("externalID") {
        problems.forbidden(&spec.child("externalID"), "may not be updated");
    }
}

pub(super) fn replication_controller(object: &Value, problems: &mut Problems) {
    let (spec, at) = (object.at("spec"), Path::root("spec"));
    let selector = spec.fields("selector").filter(|selector| !selector.is_empty());
    if selector.is_none() {
        problems.required(&at.child("selector"), "");
    }
    problems.declared(|problems| {
        for field in ["replicas", "minReadySeconds"] {
            problems.not_negative(&at.child(field), spec.int(field).unwrap_or_default());
        }
    });
    let here = at.child("template");
    if !spec.has("template") {
        problems.required(&here, "");
        return;
    }
    let template = spec.at("template");
    let labels = template.at("metadata").at("labels");
    if selector.is_some_and(|selector| selector.iter().any(|(key, value)| labels.at(key) != value)) {
        let metadata = here.child("metadata");
        let shown = if labels.is_null() { Value::Null } else { labels.clone() };
        problems.invalid(&metadata.child("labels"), shown, "`selector` does not match template `labels`");
    }
    pod::template(template, &here, problems);
    let inner = here.child("spec");
    let policy = template.at("spec").text("restartPolicy");
    if policy != "Always" {
        problems.unsupported(&inner.child("restartPolicy"), policy, &["Always"]);
    }
    if template.at("spec").has("activeDeadlineSeconds") {
        problems.forbidden(
            &inner.child("activeDeadlineSeconds"),
            "activeDeadlineSeconds in ReplicationController is not Supported",
        );
    }
}

/// Counts of replicas: none is negative, and those that are ready are not more than there are.
pub(super) fn replica_status(status: &Value, fully_labeled: bool, problems: &mut Problems) {
    let at = Path::root("status");
    let count = |field: &str| status.int(field).unwrap_or_default();
    let mut fields = vec!["replicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    if fully_labeled {
        fields.insert(1, "fullyLabeledReplicas");
    }
    for field in &fields {
        problems.not_negative(&at.child(field), count(field));
    }
    for field in &fields[1..fields.len() - 1] {
        if count(field) > count("replicas") {
            problems.invalid(&at.child(field), count(field), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        problems.invalid(&at.child("availableReplicas"), count("availableReplicas"), why);
    }
}

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

pub(super) fn endpoints(object: &Value, problems: &mut Problems) {
    let list = Path::root("subsets");
    for (place, subset) in object.list("subsets").iter().enumerate() {
        let here = list.index(place);
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            problems.required(&here, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            let list = here.child(field);
            for (place, address) in subset.list(field).iter().enumerate() {
                let here = list.index(place);
                let ip = address.text("ip");
                problems.form(&here.child("ip"), ip, format::legacy_ip);
                if !address.text("hostname").is_empty() {
                    problems.form(&here.child("hostname"), address.text("hostname"), format::dns1123_label);
                }
                if address.has("nodeName") {
                    problems.form(
                        &here.child("nodeName"),
                        address.text("nodeName"),
                        format::dns1123_subdomain,
                    );
                }
                endpoint_ip(ip, &here.child("ip"), problems);
            }
        }
        let ports = subset.list("ports");
        let list = here.child("ports");
        for (place, port) in ports.iter().enumerate() {
            let here = list.index(place);
            let name = port.text("name");
            if !name.is_empty() {
                problems.form(&here.child("name"), name, format::dns1123_label);
            } else if ports.len() > 1 {
                problems.required(&here.child("name"), "");
            }
            let number = port.int("port").unwrap_or_default();
            for why in format::port_number(number) {
                problems.invalid(&here.child("port"), number, why);
            }
            problems.one_of(&here.child("protocol"), port.text("protocol"), &["SCTP", "TCP", "UDP"]);
            if port.has("appProtocol") {
                problems.form(&here.child("appProtocol"), port.text("appProtocol"), format::qualified_name);
            }
        }
    }
}

/// An event of either group, told by the fields of the core group.
pub(super) fn event(check: &Check<'_>, given: &Value, old: Option<&Value>, problems: &mut Problems) {
    let newer = check.context.kind.group == "events.k8s.io";
    let event = convert::event_to_core(given.clone());
    let about = event.at("involvedObject").text("namespace");
    let namespace = event.at("metadata").text("namespace");
    let place = Path::root("involvedObject");
    let place = place.child("namespace");
    let controller = if newer { "reportingController" } else { "reportingComponent" };
    if event.has("eventTime") {
        if about.is_empty() && namespace != "default" && namespace != "kube-system" {
            problems.invalid(&place, about, "does not match event.namespace");
        }
        let at = Path::root(controller);
        let name = event.text("reportingComponent");
        if name.is_empty() {
            problems.required(&at, "");
        }
        problems.form(&at, name, format::qualified_name);
        for field in ["reportingInstance", "action", "reason"] {
            if event.text(field).is_empty() {
                problems.required(&Path::root(field), "");
            }
            if event.text(field).len() > 128 {
                problems.invalid(&Path::root(field), "", "can have at most 128 characters");
            }
        }
        if event.text("message").len() > 1024 {
            problems.invalid(&Path::root("message"), "", "can have at most 1024 characters");
        }
    } else {
        let anywhere = about.is_empty() && (namespace.is_empty() || namespace == "default");
        if !anywhere && about != namespace {
            problems.invalid(&place, about, "does not match event.namespace");
        }
    }
    if !newer {
        return;
    }
    own_metadata(check, given, problems);
    let series = event.at("series");
    let old = old.map(|old| convert::event_to_core(old.clone()));
    if !series.is_null() && old.as_ref().is_none_or(|old| old.at("series") != series) {
        if series.int("count").unwrap_or_default() < 2 {
            problems.invalid(&Path::root("series.count"), "", "should be at least 2");
        }
        if series.text("lastObservedTime").is_empty() {
            problems.required(&Path::root("series.lastObservedTime"), "");
        }
    }
    if let Some(old) = old {
        for field in [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "type",
            "eventTime",
            "action",
            "related",
        ] {
            let (at, before, after) = (Path::root(field), old.at(field), event.at(field));
            match field {
                "involvedObject" => problems.immutable_of(&at, "ObjectReference", after, before),
                "related" => problems.immutable_of(&at, "*core.ObjectReference", after, before),
                "reason" | "message" | "type" | "action" => {
                    problems.immutable(&at, &after.str().into(), &before.str().into());
                }
                _ => problems.immutable(&at, after, before),
            }
        }
        for (field, told) in
            [("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance")]
        {
            if event.text(field) != old.text(field) {
                problems.invalid(&Path::root(told), event.text(field), "field is immutable");
            }
        }
        return;
    }
    if !event.has("eventTime") {
        problems.required(&Path::root("eventTime"), "");
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        problems.invalid(&Path::root("type"), "", format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count"] {
        let zero = event.int(field) == Some(0);
        if event.has(field) && !zero {
            problems.invalid(&Path::root(field), "", "needs to be unset");
        }
    }
    let source = event.at("source");
    if !source.text("component").is_empty() || !source.text("host").is_empty() {
        problems.invalid(&Path::root("source"), "", "needs to be unset");
    }
}
