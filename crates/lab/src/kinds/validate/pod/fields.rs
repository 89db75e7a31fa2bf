//! Small rules that several parts of pods share.

use serde_json::Value;

use super::volumes::no_backsteps;
use crate::kinds::format;
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems};

pub(in crate::kinds::validate) fn pull_policy(policy: &str, at: &Path<'_>, problems: &mut Problems) {
    if policy.is_empty() {
        problems.required(at, "");
    } else {
        problems.one_of(at, policy, &["Always", "IfNotPresent", "Never"]);
    }
}

/// A port by number or by name.
pub(in crate::kinds::validate) fn port(port: &Value, at: &Path<'_>, problems: &mut Problems) {
    match port {
        Value::String(name) => problems.form(at, name, format::port_name),
        number => {
            let number = number.as_i64().unwrap_or_default();
            for why in format::port_number(number) {
                problems.invalid(at, number, why);
            }
        }
    }
}

/// A path with a key in brackets: both parts.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (path, key) = path.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A field of the pod, one of those known.
pub(super) fn field_selector(selector: &Value, known: &[&str], at: &Path<'_>, problems: &mut Problems) {
    for field in ["apiVersion", "fieldPath"] {
        if selector.text(field).is_empty() {
            problems.required(&at.child(field), "");
            return;
        }
    }
    let (version, path) = (selector.text("apiVersion"), selector.text("fieldPath"));
    let place = at.child("fieldPath");
    let all = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.host",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ];
    let not_convertible = |problems: &mut Problems, why: String| {
        problems.invalid(&place, path, format!("error converting fieldPath: {why}"));
    };
    if version != "v1" {
        not_convertible(problems, format!("unsupported pod version: {version}"));
        return;
    }
    if let Some((holder, key)) = subscripted(path) {
        match holder {
            "metadata.annotations" => {
                problems.invalid_each(at, &key.to_lowercase(), format::qualified_name(&key.to_lowercase()));
            }
            "metadata.labels" => problems.form(at, key, format::qualified_name),
            _ => not_convertible(problems, format!("field label does not support subscript: {path}")),
        }
        return;
    }
    if !all.contains(&path) {
        not_convertible(problems, format!("field label not supported: {path}"));
        return;
    }
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    problems.one_of(&place, path, known);
}

/// A resource of a container; `volume` when it has to say of which.
pub(super) fn resource_selector(selector: &Value, volume: bool, at: &Path<'_>, problems: &mut Problems) {
    let known = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = selector.text("resource");
    let huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if volume && selector.text("containerName").is_empty() {
        problems.required(&at.child("containerName"), "");
    } else if resource.is_empty() {
        problems.required(&at.child("resource"), "");
    } else if !huge {
        problems.one_of(&at.child("resource"), resource, &known);
    }
    let divisor = Quantity::or_zero(selector.at("divisor"));
    if divisor.is_zero() {
        return;
    }
    let (what, choices): (&str, &[&str]) = match resource {
        "limits.cpu" | "requests.cpu" => ("cpu", &["1m", "1"]),
        "limits.memory" | "requests.memory" => ("memory", &SIZES),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => ("local ephemeral storage", &SIZES),
        _ if huge => ("hugepages", &SIZES),
        _ => return,
    };
    if !choices.contains(&divisor.to_string().as_str()) {
        let list = if what == "cpu" { "1m and 1".to_owned() } else { SIZES.join(", ") };
        problems.invalid(
            &at.child("divisor"),
            resource,
            format!("only divisor's values {list} are supported with the {what} resource"),
        );
    }
}

const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Environment variables.
pub(super) fn env(variables: &[Value], at: &Path<'_>, problems: &mut Problems) {
    for (place, variable) in variables.iter().enumerate() {
        let here = at.index(place);
        let name = variable.text("name");
        if name.is_empty() {
            problems.required(&here.child("name"), "");
        } else {
            problems.form(&here.child("name"), name, format::env_name);
        }
        if variable.has("valueFrom") {
            value_from(variable, &here.child("valueFrom"), problems);
        }
    }
}

fn value_from(variable: &Value, at: &Path<'_>, problems: &mut Problems) {
    let from = variable.at("valueFrom");
    let mut count = 0;
    if from.has("fieldRef") {
        count += 1;
        let known = [
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.nodeName",
            "spec.serviceAccountName",
            "status.hostIP",
            "status.hostIPs",
            "status.podIP",
            "status.podIPs",
        ];
        field_selector(from.at("fieldRef"), &known, &at.child("fieldRef"), problems);
    }
    if from.has("resourceFieldRef") {
        count += 1;
        resource_selector(from.at("resourceFieldRef"), false, &at.child("resourceFieldRef"), problems);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if from.has(kind) {
            count += 1;
            let (reference, here) = (from.at(kind), at.child(kind));
            problems.form(&here.child("name"), reference.text("name"), format::dns1123_subdomain);
            key(reference, &here, problems);
        }
    }
    if from.has("fileKeyRef") {
        count += 1;
        let (reference, here) = (from.at("fileKeyRef"), at.child("fileKeyRef"));
        match reference.text("key") {
            "" => problems.required(&here.child("key"), ""),
            key => problems.form(&here.child("key"), key, format::env_name),
        }
        match reference.text("volumeName") {
            "" => problems.required(&here.child("volumeName"), ""),
            name => problems.form(&here.child("volumeName"), name, format::dns1123_label),
        }
        match reference.text("path") {
            "" => problems.required(&here.child("path"), ""),
            path => no_backsteps(path, &here.child("path"), problems),
        }
    }
    if count == 0 {
        problems.invalid(
            at,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !variable.text("value").is_empty() {
        problems.invalid(at, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        problems.invalid(at, "", "may not have more than one field specified at a time");
    }
}

fn key(reference: &Value, at: &Path<'_>, problems: &mut Problems) {
    match reference.text("key") {
        "" => problems.required(&at.child("key"), ""),
        key => problems.form(&at.child("key"), key, format::config_key),
    }
}

/// Environment variables from all keys of something.
pub(super) fn env_from(sources: &[Value], at: &Path<'_>, problems: &mut Problems) {
    for (place, source) in sources.iter().enumerate() {
        let here = at.index(place);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            problems.form(&here.child("prefix"), prefix, format::env_name);
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if source.has(kind) {
                count += 1;
                let name = source.at(kind).text("name");
                let place = here.child(kind);
                if name.is_empty() {
                    problems.required(&place.child("name"), "");
                } else {
                    let why = crate::kinds::meta::NameRule::Subdomain.check(name, true);
                    problems.invalid_each(&place.child("name"), name, why);
                }
            }
        }
        if count == 0 {
            problems.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            problems.invalid(at, "", "may not have more than one field specified at a time");
        }
    }
}

/// True for signers the project itself keeps.
pub(in crate::kinds::validate) fn is_kubernetes_signer(name: &str) -> bool {
    let host = name.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// The name of a signer: a domain and a path.
pub(in crate::kinds::validate) fn signer_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if name.is_empty() {
        problems.required(at, "");
        return;
    }
    let (domain, path) = match name.split_once('/') {
        Some((domain, path)) if !path.contains('/') => (domain, path),
        _ => {
            problems.invalid(
                at,
                name,
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            );
            return;
        }
    };
    if domain.len() > 253 {
        problems.too_long(at, 253);
    }
    let parts = |whole: &str, check: fn(&str) -> Vec<String>, problems: &mut Problems| {
        for label in whole.split('.') {
            let wrong = check(label);
            for why in &wrong {
                problems.invalid(at, whole, format!("validating label {label:?}: {why}"));
            }
            if !wrong.is_empty() {
                return;
            }
        }
    };
    parts(domain, format::dns1123_label, problems);
    if !domain.contains('.') {
        problems.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    parts(path, format::dns1123_subdomain, problems);
    if name.len() > 571 {
        problems.too_long(at, 571);
    }
}

/// What is wrong with the name of a bundle of this signer.
pub(in crate::kinds::validate) fn trust_bundle_name(signer: &str, name: &str, prefix: bool) -> Vec<String> {
    let rule = crate::kinds::meta::NameRule::Subdomain;
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return rule.check(name, prefix);
    }
    let start = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&start) {
        Some(rest) => rule.check(rest, prefix),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {start}")],
    }
}

/// A key that has to have its domain.
pub(in crate::kinds::validate) fn domain_prefixed_key(key: &str, at: &Path<'_>, problems: &mut Problems) {
    if key.is_empty() {
        problems.required(at, "");
        return;
    }
    let wrong = format::qualified_name(key);
    if wrong.is_empty() && !key.contains('/') {
        problems.invalid(at, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
    problems.invalid_each(at, key, wrong);
}
