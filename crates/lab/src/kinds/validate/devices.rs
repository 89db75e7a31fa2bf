//! Devices that pods can claim. Expressions that select devices are not compiled.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::pod::scheduling::node_selector;
use super::pod::volumes::template_metadata;
use super::storage::csi_driver_name;
use super::{Check, own_metadata};
use crate::kinds::view::{Look, Path, Problems, is_nothing, same};
use crate::kinds::{format, meta, shown};

const SPEC: Path<'static> = Path::root("spec");

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    own_metadata(check, object, problems);
    let spec = object.at("spec");
    match (check.facts.kind, old) {
        ("ResourceClaim", None) => claim(spec, &SPEC, problems),
        ("ResourceClaim", Some(old)) if check.context.subresource == "status" => {
            claim_status(object, old, problems);
        }
        ("ResourceClaim", Some(old)) => problems.immutable_unshown(&SPEC, spec, old.at("spec")),
        ("ResourceClaimTemplate", None) => {
            template_metadata(spec.at("metadata"), &SPEC.child("metadata"), problems);
            claim(spec.at("spec"), &SPEC.child("spec"), problems);
        }
        ("ResourceClaimTemplate", Some(old)) => {
            problems.immutable_of(&SPEC, "resource.ResourceClaimTemplateSpec", spec, old.at("spec"));
            if !same(spec, old.at("spec")) {
                claim(spec.at("spec"), &SPEC.child("spec"), problems);
            }
        }
        ("DeviceTaintRule", Some(_)) if check.context.subresource == "status" => {
            let (conditions, at) = (object.at("status").list("conditions"), Path::root("status"));
            meta::conditions(conditions, &at.child("conditions"), problems);
            at_most(conditions, 8, &at.child("conditions"), problems);
        }
        ("DeviceTaintRule", _) => {
            let (selector, at) = (spec.at("deviceSelector"), SPEC.child("deviceSelector"));
            if selector.has("driver") {
                csi_driver_name(selector.text("driver"), &at.child("driver"), problems);
            }
            if selector.has("pool") {
                pool_name(selector.text("pool"), &at.child("pool"), problems);
            }
            if selector.has("device") {
                problems.form(&at.child("device"), selector.text("device"), format::dns1123_label);
            }
            taint(spec.at("taint"), &SPEC.child("taint"), problems);
        }
        ("DeviceClass", _) => class(spec, problems),
        ("ResourceSlice", _) => slice(spec, old.map(|old| old.at("spec")), problems),
        _ => {}
    }
}

/// The requests of a claim, and the parts each of them has.
type Requests<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn requests(spec: &Value) -> Requests<'_> {
    spec.at("devices")
        .list("requests")
        .iter()
        .map(|request| {
            let parts = request.list("firstAvailable").iter().map(|part| part.text("name")).collect();
            (request.text("name"), parts)
        })
        .collect()
}

/// True when the list is short enough to be looked at.
fn at_most(list: &[Value], limit: usize, at: &Path<'_>, problems: &mut Problems) -> bool {
    if list.len() > limit {
        problems.too_many(at, list.len(), limit as u64);
    }
    list.len() <= limit
}

fn unique<'a>(keys: impl Iterator<Item = &'a str>, at: &Path<'_>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (place, key) in keys.enumerate() {
        if !seen.insert(key) {
            problems.duplicate(&at.index(place), key);
        }
    }
}

fn claim(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (devices, at) = (spec.at("devices"), at.child("devices"));
    let names = requests(spec);
    let (list, here) = (devices.list("requests"), at.child("requests"));
    if at_most(list, 32, &here, problems) {
        for (place, one) in list.iter().enumerate() {
            request(one, &here.index(place), problems);
        }
        unique(list.iter().map(|request| request.text("name")), &here, problems);
    }
    let (list, here) = (devices.list("constraints"), at.child("constraints"));
    if at_most(list, 32, &here, problems) {
        for (place, constraint) in list.iter().enumerate() {
            let at = here.index(place);
            request_names(constraint, &names, &at, problems);
            let fields = ["matchAttribute", "distinctAttribute"];
            for field in fields.into_iter().filter(|field| constraint.has(field)) {
                problems.declared(|problems| full_name(constraint.text(field), &at.child(field), problems));
            }
            if !fields.iter().any(|field| constraint.has(field)) {
                problems.required(
                    &at,
                    "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
                );
            }
        }
    }
    let (list, here) = (devices.list("config"), at.child("config"));
    if at_most(list, 32, &here, problems) {
        for (place, config) in list.iter().enumerate() {
            let at = here.index(place);
            request_names(config, &names, &at, problems);
            configuration(config, &at, problems);
        }
    }
}

fn request(request: &Value, at: &Path<'_>, problems: &mut Problems) {
    problems.form(&at.child("name"), request.text("name"), format::dns1123_label);
    let (exactly, parts) = (request.at("exactly"), request.list("firstAvailable"));
    let (here, list) = (at.child("exactly"), at.child("firstAvailable"));
    if exactly.is_null() == parts.is_empty() {
        if exactly.is_null() {
            problems.required(at, "exactly one of `exactly` or `firstAvailable` is required");
        } else {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            problems.invalid(at, Value::Null, why);
        }
    } else if !exactly.is_null() {
        match exactly.text("deviceClassName") {
            "" => problems.required(&here.child("deviceClassName"), ""),
            name => problems.form(&here.child("deviceClassName"), name, format::dns1123_subdomain),
        }
        wanted(exactly, &here, problems);
    }
    // What the schema says holds for both, even when only one may be there.
    if !exactly.is_null() {
        problems.declared(|problems| wanted_shape(exactly, &here, problems));
    }
    if !at_most(parts, 8, &list, problems) {
        return;
    }
    for (place, part) in parts.iter().enumerate() {
        let at = list.index(place);
        problems.declared(|problems| {
            match part.text("deviceClassName") {
                "" => problems.required(&at.child("deviceClassName"), ""),
                name => problems.form(&at.child("deviceClassName"), name, format::long_name),
            }
            wanted_shape(part, &at, problems);
        });
        if exactly.is_null() {
            problems.form(&at.child("name"), part.text("name"), format::dns1123_label);
            wanted(part, &at, problems);
        }
    }
    unique(parts.iter().map(|part| part.text("name")), &list, problems);
}

fn wanted_shape(wanted: &Value, at: &Path<'_>, problems: &mut Problems) {
    problems.one_of(&at.child("allocationMode"), wanted.text("allocationMode"), &["All", "ExactCount"]);
    let list = at.child("tolerations");
    for (place, toleration) in wanted.list("tolerations").iter().enumerate() {
        let here = list.index(place);
        let (key, effect) = (toleration.text("key"), toleration.text("effect"));
        if !key.is_empty() {
            problems.form(&here.child("key"), key, format::qualified_name);
        }
        match toleration.text("operator") {
            "" => problems.required(&here.child("operator"), ""),
            operator => problems.one_of(&here.child("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            problems.one_of(&here.child("effect"), effect, &EFFECTS);
        }
    }
}

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

fn wanted(wanted: &Value, at: &Path<'_>, problems: &mut Problems) {
    selectors(wanted.list("selectors"), &at.child("selectors"), problems);
    let (mode, count) = (wanted.text("allocationMode"), wanted.int("count").unwrap_or_default());
    if mode == "All" && count != 0 {
        problems.invalid(&at.child("count"), count, "must not be specified when allocationMode is 'All'");
    } else if mode == "ExactCount" && count <= 0 {
        problems.invalid(&at.child("count"), count, "must be greater than zero");
    }
    let list = at.child("tolerations");
    for (place, toleration) in wanted.list("tolerations").iter().enumerate() {
        let (value, here) = (toleration.text("value"), list.index(place));
        match toleration.text("operator") {
            "Exists" if !value.is_empty() => {
                problems.invalid(&here.child("value"), value, "must be empty for operator `Exists`");
            }
            "Equal" => problems.form(&here.child("value"), value, format::label_value),
            _ => {}
        }
    }
}

fn taint(taint: &Value, at: &Path<'_>, problems: &mut Problems) {
    problems.form(&at.child("key"), taint.text("key"), format::qualified_name);
    problems.form(&at.child("value"), taint.text("value"), format::label_value);
    problems.declared(|problems| match taint.text("effect") {
        "" => problems.required(&at.child("effect"), ""),
        effect => problems.one_of(&at.child("effect"), effect, &EFFECTS),
    });
}

fn selectors(selectors: &[Value], at: &Path<'_>, problems: &mut Problems) {
    if !at_most(selectors, 32, at, problems) {
        return;
    }
    for (place, selector) in selectors.iter().enumerate() {
        let here = at.index(place);
        let cel = here.child("cel");
        if !selector.has("cel") {
            problems.required(&cel, "");
        } else if selector.at("cel").text("expression").len() > 10 * 1024 {
            problems.too_long(&cel.child("expression"), 10 * 1024);
        }
    }
}

fn request_names(holder: &Value, known: &Requests<'_>, at: &Path<'_>, problems: &mut Problems) {
    let (names, list) = (holder.list("requests"), at.child("requests"));
    if !at_most(names, 32, &list, problems) {
        return;
    }
    for (place, name) in names.iter().enumerate() {
        request_name(name.str(), known, &list.index(place), problems);
    }
    problems.declared(|problems| unique(names.iter().map(Look::str), &list, problems));
}

fn request_name(name: &str, known: &Requests<'_>, at: &Path<'_>, problems: &mut Problems) {
    const WHY: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let (request, part) = match name.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            problems.invalid(at, name, WHY);
            return;
        }
        Some((request, part)) => (request, Some(part)),
        None => (name, None),
    };
    for segment in std::iter::once(request).chain(part) {
        problems.form(at, segment, format::dns1123_label);
    }
    if !known.get(request).is_some_and(|parts| part.is_none_or(|part| parts.contains(part))) {
        problems.invalid(at, name, WHY);
    }
}

/// A name with a domain, as attributes of devices have.
fn full_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    let parts: Vec<&str> = name.split('/').collect();
    let identifier = |text: &str, problems: &mut Problems| {
        if text.len() > 32 {
            problems.too_long(at, 32);
        }
        problems.form(at, text, format::c_identifier);
    };
    match parts.as_slice() {
        [one] => identifier(one, problems),
        [domain, one] => {
            if domain.is_empty() {
                problems.invalid(at, "", "prefix must not be empty");
            } else {
                if domain.len() > 63 {
                    problems.too_long(at, 63);
                }
                for sentence in format::long_name(domain) {
                    problems.invalid(at, *domain, format!("prefix: {sentence}"));
                }
            }
            if one.is_empty() {
                problems.invalid(at, "", "name must not be empty");
            } else {
                identifier(one, problems);
            }
        }
        _ => {}
    }
    if parts.len() == 1 {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        problems.invalid(at, name, why);
    }
}

fn configuration(config: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (opaque, at) = (config.at("opaque"), at.child("opaque"));
    if opaque.is_null() {
        problems.required(&at, "");
        return;
    }
    let (driver, here) = (opaque.text("driver"), at.child("driver"));
    problems.declared(|problems| {
        if driver.is_empty() {
            problems.required(&here, "");
            return;
        }
        if driver.chars().count() > 63 {
            problems.too_long_characters(&here, 63);
        }
        problems.form(&here, driver, format::long_name_caseless);
    });
    raw(opaque.at("parameters"), &at.child("parameters"), problems);
}

fn raw(value: &Value, at: &Path<'_>, problems: &mut Problems) {
    const LONGEST: usize = 10 * 1024;
    if value.is_null() {
        problems.required(at, "");
    } else if value.to_string().len() > LONGEST {
        problems.too_long(at, LONGEST as u64);
    } else if !value.is_object() {
        problems.invalid(at, "<value omitted>", "must be a valid JSON object");
    }
}

fn class(spec: &Value, problems: &mut Problems) {
    selectors(spec.list("selectors"), &SPEC.child("selectors"), problems);
    let (list, here) = (spec.list("config"), SPEC.child("config"));
    if at_most(list, 32, &here, problems) {
        for (place, config) in list.iter().enumerate() {
            configuration(config, &here.index(place), problems);
        }
    }
    if spec.has("extendedResourceName") {
        problems.declared(|problems| extended_resource(spec, problems));
    }
}

fn extended_resource(spec: &Value, problems: &mut Problems) {
    let (name, at) = (spec.text("extendedResourceName"), SPEC.child("extendedResourceName"));
    if !name.contains('/') {
        let why = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        problems.invalid(&at, name, why);
    } else if name.contains("kubernetes.io/") {
        problems.invalid(&at, name, "must not have \"kubernetes.io/\" domain");
    }
    if name.starts_with("requests.") {
        problems.invalid(&at, name, "must not have \"requests.\" prefix");
    }
    problems.invalid_each(&at, name, format::qualified_name(&format!("requests.{name}")));
}

fn pool_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if name.is_empty() {
        problems.required(at, "");
        return;
    }
    if name.len() > 253 {
        problems.too_long(at, 253);
    }
    for part in name.split('/') {
        problems.form(at, part, format::dns1123_subdomain);
    }
}

fn slice(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    csi_driver_name(spec.text("driver"), &SPEC.child("driver"), problems);
    let (pool, at) = (spec.at("pool"), SPEC.child("pool"));
    pool_name(pool.text("name"), &at.child("name"), problems);
    let (slices, generation) =
        (pool.int("resourceSliceCount").unwrap_or_default(), pool.int("generation").unwrap_or_default());
    if slices <= 0 {
        problems.invalid(&at.child("resourceSliceCount"), slices, "must be greater than zero");
    }
    if generation < 0 {
        problems.invalid(&at.child("generation"), generation, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        problems.immutable(&at.child("name"), pool.at("name"), old.at("pool").at("name"));
        problems.immutable(&SPEC.child("driver"), spec.at("driver"), old.at("driver"));
        problems.immutable(&SPEC.child("nodeName"), spec.at("nodeName"), old.at("nodeName"));
    }
    slice_nodes(spec, problems);
    if spec.has("sharedCounters") && spec.has("devices") {
        problems.invalid(&SPEC, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let (devices, here) = (spec.list("devices"), SPEC.child("devices"));
    let advanced = devices.iter().any(|device| {
        let lists = ["bools", "ints", "strings", "versions"];
        let attributes = device.fields("attributes").into_iter().flatten();
        !device.list("taints").is_empty()
            || !device.list("consumesCounters").is_empty()
            || attributes.into_iter().any(|(_, value)| lists.iter().any(|list| value.has(list)))
    });
    if at_most(devices, if advanced { 64 } else { 128 }, &here, problems) {
        for (place, one) in devices.iter().enumerate() {
            device(one, spec.flag("perDeviceNodeSelection"), &here.index(place), problems);
        }
        unique(devices.iter().map(|device| device.text("name")), &here, problems);
    }
    let (sets, here) = (spec.list("sharedCounters"), SPEC.child("sharedCounters"));
    if at_most(sets, 8, &here, problems) {
        for (place, set) in sets.iter().enumerate() {
            counters(set, "name", &here.index(place), problems);
        }
        unique(sets.iter().map(|set| set.text("name")), &here, problems);
    }
}

/// Where the devices of a slice are.
fn slice_nodes(spec: &Value, problems: &mut Problems) {
    const WHY: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut said = Vec::new();
    if spec.has("nodeName") {
        match spec.text("nodeName") {
            "" => {
                let why = "must be either unset or set to a non-empty string";
                problems.invalid(&SPEC.child("nodeName"), "", why);
            }
            name => {
                said.push("`nodeName`");
                problems.form(&SPEC.child("nodeName"), name, format::dns1123_subdomain);
            }
        }
    }
    if spec.has("nodeSelector") {
        said.push("`nodeSelector`");
        let (selector, at) = (spec.at("nodeSelector"), SPEC.child("nodeSelector"));
        node_selector(selector, &at, problems);
        let terms = selector.list("nodeSelectorTerms");
        if terms.len() != 1 {
            let shown = shown::list("NodeSelectorTerm", terms);
            problems.invalid_shown(
                &at.child("nodeSelectorTerms"),
                &shown,
                "must have exactly one node selector term",
            );
        }
    }
    for (field, quoted) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        if spec.flag(field) {
            said.push(quoted);
        } else if spec.has(field) {
            problems.invalid(&SPEC.child(field), false, "must be either unset or set to true");
        }
    }
    match said.len() {
        0 => problems.required(&SPEC, WHY),
        1 => {}
        _ => problems.invalid(
            &SPEC,
            format!("{{{}}}", said.join(", ")),
            format!("{WHY}, but multiple fields are set"),
        ),
    }
}

fn device(device: &Value, own_nodes: bool, at: &Path<'_>, problems: &mut Problems) {
    problems.form(&at.child("name"), device.text("name"), format::dns1123_label);
    let count = |field: &str| device.fields(field).map(serde_json::Map::len).unwrap_or_default();
    let both = count("attributes") + count("capacity");
    if both > 32 {
        problems.invalid(at, both, "the total number of attributes and capacities must not exceed 32");
    }
    for field in ["attributes", "capacity"] {
        let here = at.child(field);
        for (key, value) in device.fields(field).into_iter().flatten() {
            attribute_name(key, &here, problems);
            if field == "attributes" {
                attribute(value, &here.key(key), problems);
            } else {
                let shared = device.flag("allowMultipleAllocations");
                request_policy(value.at("requestPolicy"), shared, &here.key(key), problems);
            }
        }
    }
    let (taints, list) = (device.list("taints"), at.child("taints"));
    if at_most(taints, 16, &list, problems) {
        for (place, taint) in taints.iter().enumerate() {
            self::taint(taint, &list.index(place), problems);
        }
    }
    let (used, list) = (device.list("consumesCounters"), at.child("consumesCounters"));
    if at_most(used, 2, &list, problems) {
        for (place, set) in used.iter().enumerate() {
            counters(set, "counterSet", &list.index(place), problems);
        }
        unique(used.iter().map(|set| set.text("counterSet")), &list, problems);
    }
    device_nodes(device, own_nodes, at, problems);
}

fn device_nodes(device: &Value, own_nodes: bool, at: &Path<'_>, problems: &mut Problems) {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if !own_nodes {
        if fields.iter().any(|field| device.has(field)) {
            problems.invalid(
                at,
                Value::Null,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            );
        }
        return;
    }
    let mut said = Vec::new();
    if device.has("nodeName") {
        match device.text("nodeName") {
            "" => problems.invalid(&at.child("nodeName"), "", "must not be empty"),
            name => {
                said.push("`nodeName`");
                problems.form(&at.child("nodeName"), name, format::dns1123_subdomain);
            }
        }
    }
    if device.has("nodeSelector") {
        said.push("`nodeSelector`");
        node_selector(device.at("nodeSelector"), &at.child("nodeSelector"), problems);
    }
    if device.flag("allNodes") {
        said.push("`allNodes`");
    } else if device.has("allNodes") {
        problems.invalid(&at.child("allNodes"), false, "must be either unset or set to true");
    }
    match said.len() {
        0 => problems.required(at, WHY),
        1 => {}
        _ => problems.invalid(at, format!("{{{}}}", said.join(", ")), WHY),
    }
}

fn attribute_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    let (domain, one) = match name.split_once('/') {
        Some((_, rest)) if rest.contains('/') => return,
        Some((domain, one)) => (Some(domain), one),
        None => (None, name),
    };
    match domain {
        Some("") => problems.invalid(at, "", "the domain must not be empty"),
        Some(domain) => csi_driver_name(domain, at, problems),
        None => {}
    }
    if domain.is_some() && one.is_empty() {
        problems.invalid(at, "", "the name must not be empty");
        return;
    }
    if one.len() > 32 {
        problems.too_long(at, 32);
    }
    problems.form(at, one, format::c_identifier);
}

/// How much of a capacity may be asked for at once.
fn request_policy(policy: &Value, shared: bool, at: &Path<'_>, problems: &mut Problems) {
    let here = at.child("requestPolicy");
    if policy.is_null() {
        return;
    }
    let (values, range) = (!policy.list("validValues").is_empty(), policy.has("validRange"));
    if !shared {
        problems.forbidden(&here, "allowMultipleAllocations must be true");
    } else if values && range {
        let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        problems.forbidden(&here, why);
    } else if (values || range) && !policy.has("default") {
        let which = if values { "validValues" } else { "validRange" };
        problems.required(&here.child("default"), format!("required when {which} is defined"));
    }
}

fn attribute(attribute: &Value, at: &Path<'_>, problems: &mut Problems) {
    let members = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
    let said: Vec<&str> = members.into_iter().filter(|member| attribute.has(member)).collect();
    if said.len() != 1 {
        let all = members.map(|member| format!("`{member}`")).join(", ");
        let shown = if said.is_empty() { String::new() } else { format!("{{{}}}", said.join(", ")) };
        let how_many = if said.is_empty() { "one of" } else { "exactly one of" };
        problems.invalid(at, shown, format!("must specify {how_many}: {all}"));
    }
    for field in ["string", "version"] {
        if attribute.text(field).len() > 64 {
            problems.too_long(&at.child(field), 64);
        }
    }
    if attribute.has("version") && !is_version(attribute.text("version")) {
        problems.invalid(
            &at.child("version"),
            attribute.text("version"),
            "must be a string compatible with semver.org spec 2.0.0",
        );
    }
}

/// A version of three numbers, with identifiers of a prerelease and of a build.
fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, before) = text.split_once('-').map_or((text, None), |(core, before)| (core, Some(before)));
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric());
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let identifier = |part: &str| word(part) && (number(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && before.is_none_or(|before| before.split('.').all(identifier))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn counters(set: &Value, name_field: &str, at: &Path<'_>, problems: &mut Problems) {
    match set.text(name_field) {
        "" => problems.required(&at.child(name_field), ""),
        name => problems.form(&at.child(name_field), name, format::short_name),
    }
    let here = at.child("counters");
    match set.fields("counters").filter(|counters| !counters.is_empty()) {
        None => problems.required(&here, ""),
        Some(counters) if counters.len() > 32 => problems.too_many(&here, counters.len(), 32),
        Some(counters) => {
            for name in counters.keys() {
                problems.form(&here, name, format::short_name);
            }
        }
    }
}

fn claim_status(claim: &Value, old: &Value, problems: &mut Problems) {
    let (status, at) = (claim.at("status"), Path::root("status"));
    let (users, list) = (status.list("reservedFor"), at.child("reservedFor"));
    if at_most(users, 256, &list, problems) {
        for (place, user) in users.iter().enumerate() {
            let here = list.index(place);
            for field in ["resource", "name", "uid"] {
                problems.need(&here, user, field);
            }
        }
        unique(users.iter().map(|user| user.text("uid")), &list, problems);
    }
    let (before, after) = (old.at("status").at("allocation"), status.at("allocation"));
    if !users.is_empty() {
        if after.is_null() {
            problems.forbidden(&list, "may not be specified when `allocated` is not set");
        } else if claim.at("metadata").has("deletionTimestamp") {
            let known = old.at("status").list("reservedFor");
            if users.iter().any(|user| !known.iter().any(|known| same(known, user))) {
                problems.forbidden(
                    &list,
                    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
                );
            }
        }
    }
    let here = at.child("allocation");
    if !before.is_null() && !after.is_null() {
        if !same(before, after) {
            problems.invalid(&here, Value::Null, "field cannot be modified once set");
        }
    } else if !is_nothing(after) {
        allocation(after, &requests(claim.at("spec")), &here, problems);
    }
}

fn allocation(allocation: &Value, known: &Requests<'_>, at: &Path<'_>, problems: &mut Problems) {
    let (devices, here) = (allocation.at("devices"), at.child("devices"));
    let (results, list) = (devices.list("results"), here.child("results"));
    if at_most(results, 32, &list, problems) {
        for (place, result) in results.iter().enumerate() {
            let at = list.index(place);
            request_name(result.text("request"), known, &at.child("request"), problems);
            csi_driver_name(result.text("driver"), &at.child("driver"), problems);
            pool_name(result.text("pool"), &at.child("pool"), problems);
            problems.form(&at.child("device"), result.text("device"), format::dns1123_label);
        }
    }
    if allocation.has("nodeSelector") {
        node_selector(allocation.at("nodeSelector"), &at.child("nodeSelector"), problems);
    }
}
