//! The rest of the core, and the kinds the server itself works with.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text::{labels, or, quantity, selector_structure, strings};
use super::{Object, human};

/// The cells of a kind, if it is one of these.
pub(super) fn cells(kind: &str, of: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Node" => node(of),
        "Event" => event(of),
        "Namespace" => vec![of.name(), of.text("/status/phase").into(), of.age()],
        "Secret" => vec![of.name(), of.text("/type").into(), of.count("/data").into(), of.age()],
        "ConfigMap" => vec![of.name(), (of.count("/data") + of.count("/binaryData")).into(), of.age()],
        "ServiceAccount" => vec![of.name(), of.age()],
        "ComponentStatus" => component(of),
        "ResourceQuota" => quota(of),
        "Status" => super::status_row(of.object),
        "RoleBinding" | "ClusterRoleBinding" => binding(of),
        "CertificateSigningRequest" => signing_request(of),
        "ClusterTrustBundle" => vec![of.name(), of.text_or("/spec/signerName", "<none>").into()],
        "PodCertificateRequest" => pod_certificate(of),
        "Lease" => vec![of.name(), of.text("/spec/holderIdentity").into(), of.age()],
        "PriorityClass" => vec![
            of.name(),
            of.number("/value").into(),
            of.flag("/globalDefault").into(),
            of.age(),
            of.text("/preemptionPolicy").into(),
        ],
        "RuntimeClass" => vec![of.name(), of.text("/handler").into(), of.age()],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![of.name(), of.count("/webhooks").into(), of.age()]
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let rules = if kind.starts_with('V') { "/spec/validations" } else { "/spec/mutations" };
            let parameter = match of.at("/spec/paramKind") {
                Value::Null => "<unset>".to_owned(),
                _ => format!("{}/{}", of.text("/spec/paramKind/apiVersion"), of.text("/spec/paramKind/kind")),
            };
            vec![of.name(), of.count(rules).into(), parameter.into(), of.age()]
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            vec![of.name(), of.text("/spec/policyName").into(), parameter(of).into(), of.age()]
        }
        "FlowSchema" => {
            let dangling = of.condition("Dangling").and_then(|condition| condition["status"].as_str());
            vec![
                of.name(),
                of.text("/spec/priorityLevelConfiguration/name").into(),
                of.number("/spec/matchingPrecedence").into(),
                of.text_or("/spec/distinguisherMethod/type", "<none>").into(),
                of.age(),
                dangling.unwrap_or("?").into(),
            ]
        }
        "PriorityLevelConfiguration" => priority_level(of),
        "CustomResourceDefinition" => definition(of),
        "APIService" => api_service(of),
        "StorageVersionMigration" => migration(of),
        _ => return None,
    })
}

fn node(of: Object<'_>) -> Vec<Value> {
    // The last condition of a type counts.
    let ready = of.list("/status/conditions").iter().rev().find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if of.flag("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let roles: BTreeSet<&str> = of
        .at("/metadata/labels")
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let role = key.strip_prefix("node-role.kubernetes.io/");
            role.or_else(|| value.as_str().filter(|_| key == "kubernetes.io/role"))
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");
    let address = |kind: &str| {
        let addresses = of.list("/status/addresses");
        let found = addresses.iter().find(|address| address["type"] == kind);
        found.and_then(|address| address["address"].as_str()).unwrap_or("<none>").into()
    };
    let info = |key: &str| of.text_or(&format!("/status/nodeInfo/{key}"), "<unknown>").to_owned();
    let mut kernel = info("kernelVersion");
    if let architecture @ [_, ..] = of.text("/status/nodeInfo/architecture").as_bytes() {
        kernel = format!("{kernel} ({})", String::from_utf8_lossy(architecture));
    }
    vec![
        of.name(),
        status.into(),
        or(&roles, "<none>").into(),
        of.age(),
        of.text("/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// Events have other names for their fields in the newer group.
fn event(of: Object<'_>) -> Vec<Value> {
    let either = |old: &str, new: &str| match of.at(old) {
        Value::Null => of.at(new),
        value => value,
    };
    let text = |old: &str, new: &str| either(old, new).as_str().unwrap_or_default();
    let since = |moment: &str| human::since(moment, of.now);
    let first = match text("/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => of.since("/eventTime"),
        moment => since(moment),
    };
    let mut last = match text("/lastTimestamp", "/deprecatedLastTimestamp") {
        "" => first.clone(),
        moment => since(moment),
    };
    let mut count = either("/count", "/deprecatedCount").as_i64().unwrap_or_default();
    if !of.at("/series").is_null() {
        last = of.since("/series/lastObservedTime");
        count = of.number("/series/count");
    } else if count == 0 {
        count = 1;
    }
    let involved = either("/involvedObject", "/regarding");
    let of_object = |key: &str| involved[key].as_str().unwrap_or_default();
    let kind = of_object("kind").to_lowercase();
    let target = if of_object("name").is_empty() { kind } else { format!("{kind}/{}", of_object("name")) };
    let reporter = text("/reportingComponent", "/reportingController");
    let component = or(text("/source/component", "/deprecatedSource/component"), reporter);
    let instance = or(text("/source/host", "/deprecatedSource/host"), of.text("/reportingInstance"));
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        last.into(),
        of.text("/type").into(),
        of.text("/reason").into(),
        target.into(),
        of_object("fieldPath").into(),
        source.into(),
        text("/message", "/note").trim().into(),
        first.into(),
        count.into(),
        of.name(),
    ]
}

fn component(of: Object<'_>) -> Vec<Value> {
    let healthy = of.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
    let (status, message, error) = match healthy {
        None => ("Unknown", "", ""),
        Some(condition) => {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            let status = if condition["status"] == "True" { "Healthy" } else { "Unhealthy" };
            (status, text("message"), text("error"))
        }
    };
    vec![of.name(), status.into(), message.into(), error.into()]
}

fn quota(of: Object<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in of.at("/status/hard").as_object().into_iter().flatten() {
        let used = quantity(&of.at("/status/used")[resource.as_str()]);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    vec![of.name(), requests.join(", ").into(), limits.join(", ").into(), of.age()]
}

fn binding(of: Object<'_>) -> Vec<Value> {
    let role = format!("{}/{}", of.text("/roleRef/kind"), of.text("/roleRef/name"));
    let mut cells = vec![of.name(), role.into(), of.age()];
    for kind in ["User", "Group", "ServiceAccount"] {
        let subjects = of.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names: Vec<String> = subjects
            .map(|subject| {
                let text = |key: &str| subject[key].as_str().unwrap_or_default();
                match kind {
                    "ServiceAccount" => format!("{}/{}", text("namespace"), text("name")),
                    _ => text("name").to_owned(),
                }
            })
            .collect();
        cells.push(names.join(", ").into());
    }
    cells
}

fn signing_request(of: Object<'_>) -> Vec<Value> {
    let mut status = if of.condition("Denied").is_some() {
        "Denied"
    } else if of.condition("Approved").is_some() {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if of.condition("Failed").is_some() {
        status.push_str(",Failed");
    }
    if !of.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = of.at("/spec/expirationSeconds").as_i64().map_or_else(
        || "<none>".to_owned(),
        |seconds| human::human_duration(jiff::SignedDuration::from_secs(seconds)),
    );
    vec![
        of.name(),
        of.age(),
        of.text_or("/spec/signerName", "<none>").into(),
        of.text("/spec/username").into(),
        duration.into(),
        status.into(),
    ]
}

fn pod_certificate(of: Object<'_>) -> Vec<Value> {
    let ends = ["Issued", "Denied", "Failed"];
    let conditions = of.list("/status/conditions").iter().rev();
    let state =
        conditions.filter_map(|condition| condition["type"].as_str()).find(|kind| ends.contains(kind));
    vec![
        of.name(),
        of.text("/spec/podName").into(),
        of.text("/spec/serviceAccountName").into(),
        of.text("/spec/nodeName").into(),
        of.text("/spec/signerName").into(),
        state.unwrap_or("Pending").into(),
        labels(of.at("/spec/unverifiedUserAnnotations")).into(),
    ]
}

/// What a policy is given to work with.
fn parameter(of: Object<'_>) -> String {
    let (namespace, name) = (of.text("/spec/paramRef/namespace"), of.text("/spec/paramRef/name"));
    if !name.is_empty() {
        return format!("{}/{name}", or(namespace, "*"));
    }
    match of.at("/spec/paramRef/selector") {
        Value::Null => "<unset>".to_owned(),
        selector => selector_structure(selector),
    }
}

fn priority_level(of: Object<'_>) -> Vec<Value> {
    let figure = |around: &str, key: &str| match of.at(around) {
        Value::Null => "<none>".into(),
        told => told[key].as_i64().unwrap_or_default().into(),
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    vec![
        of.name(),
        of.text("/spec/type").into(),
        figure("/spec/limited", "nominalConcurrencyShares"),
        figure(queuing, "queues"),
        figure(queuing, "handSize"),
        figure(queuing, "queueLengthLimit"),
        of.age(),
    ]
}

fn definition(of: Object<'_>) -> Vec<Value> {
    let mut versions: Vec<String> = of
        .list("/spec/versions")
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| {
            let stored = if version["storage"] == true { "(storage)" } else { "" };
            format!("{}{stored}", version["name"].as_str().unwrap_or_default())
        })
        .collect();
    versions.sort_unstable();
    let established = of.condition("Established").is_some_and(|condition| condition["status"] == "True");
    vec![
        of.name(),
        of.text("/spec/scope").into(),
        versions.join(",").into(),
        of.created_at(),
        of.text("/spec/group").into(),
        of.text("/spec/names/kind").into(),
        strings(of.at("/spec/names/shortNames")).join(",").into(),
        established.into(),
    ]
}

fn api_service(of: Object<'_>) -> Vec<Value> {
    let service = match of.at("/spec/service") {
        Value::Null => "Local".to_owned(),
        _ => format!("{}/{}", of.text("/spec/service/namespace"), of.text("/spec/service/name")),
    };
    let available = match of.condition("Available") {
        None => "Unknown".to_owned(),
        Some(condition) => {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            match (text("status"), text("reason")) {
                (status @ "True", _) | (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            }
        }
    };
    vec![of.name(), service.into(), available.into(), of.age()]
}

fn migration(of: Object<'_>) -> Vec<Value> {
    let resource =
        crate::status::qualified(of.text("/spec/resource/group"), of.text("/spec/resource/resource"));
    let done = ["Running", "Failed", "Succeeded"];
    let conditions = of.list("/status/conditions").iter().rev();
    let state = conditions
        .filter(|condition| condition["status"] == "True")
        .filter_map(|condition| condition["type"].as_str())
        .find(|kind| done.contains(kind));
    vec![of.name(), resource.into(), state.unwrap_or("Unknown").into()]
}
