//! The other kinds of the core group.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::service::endpoint_ip;
use super::{Check, own_metadata, pod};
use crate::kinds::convert;
use crate::kinds::format;
use crate::kinds::view::{Look, Path, Problems, same};

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
