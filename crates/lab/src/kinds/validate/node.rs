//! Nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Check;
use super::pod::resources::amount;
use super::pod::scheduling::taint_effect;
use super::service::one_network_of_each_family;
use crate::kinds::format;
use crate::kinds::view::{Look, Path, Problems};

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
