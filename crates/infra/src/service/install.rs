//! Telling an API server of the service: services, webhook configurations and API services.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::admission::{self, Hook};
use super::serve::Listening;
use crate::client::{Client, Result};
use crate::kinds::{API_SERVICE, MUTATING_WEBHOOKS, NAMESPACE, SERVICE, VALIDATING_WEBHOOKS};

/// The services the components are behind: namespace and name.
pub const SERVICES: &[(&str, &str)] = &[
    ("kubevirt", "virt-api"),
    ("cdi", "cdi-api"),
    ("cdi", "cdi-uploadproxy"),
    ("trellis-lab", "lab-api"),
    // Where the lab's server asks for the logs of pods.
    ("trellis-lab", "kubelets"),
];

/// The aggregated APIs: group, version, and the service behind.
const APIS: &[(&str, &str, &str, &str)] = &[
    ("subresources.kubevirt.io", "v1", "kubevirt", "virt-api"),
    ("subresources.kubevirt.io", "v1alpha3", "kubevirt", "virt-api"),
    ("upload.cdi.kubevirt.io", "v1beta1", "cdi", "cdi-api"),
    ("lab.trellis.dev", "v1", "trellis-lab", "lab-api"),
];

/// How an API server reaches the service.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'l> {
    /// The service is mounted in the server.
    Mounted,
    /// The service listens beside the server.
    Beside(&'l Listening),
}

/// The groups of the aggregated APIs, for discovery.
pub(super) fn groups() -> Value {
    let groups: Vec<Value> = ["subresources.kubevirt.io", "upload.cdi.kubevirt.io", "lab.trellis.dev"].iter().map(|group| {
        let versions: Vec<Value> = APIS.iter().filter(|(name, ..)| name == group)
            .map(|(group, version, ..)| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
            .collect();
        json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
    }).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Tells the API server of the service.
pub async fn install(client: &Client, reach: Reach<'_>) -> Result {
    for namespace in ["kubevirt", "cdi", "trellis-lab"] {
        client.create_if_absent(&NAMESPACE, json!({"metadata": {"name": namespace}})).await?;
    }
    for (namespace, name) in SERVICES {
        client.apply(&SERVICE, service(namespace, name, reach)).await?;
    }
    let mut configurations: BTreeMap<(&str, bool), Vec<&Hook>> = BTreeMap::new();
    for hook in admission::hooks() {
        configurations.entry((hook.configuration, hook.mutating)).or_default().push(hook);
    }
    for ((name, mutating), hooks) in configurations {
        let webhooks: Vec<Value> = hooks.iter().map(|hook| webhook(hook, reach)).collect();
        let kind = if mutating { &MUTATING_WEBHOOKS } else { &VALIDATING_WEBHOOKS };
        client.apply(kind, json!({"metadata": {"name": name}, "webhooks": webhooks})).await?;
    }
    for (group, version, namespace, name) in APIS {
        let mut spec = json!({
            "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"namespace": namespace, "name": name, "port": port(reach)},
        });
        match reach {
            Reach::Mounted => spec["insecureSkipTLSVerify"] = true.into(),
            Reach::Beside(listening) => spec["caBundle"] = STANDARD.encode(&listening.authority).into(),
        }
        let object = json!({"metadata": {"name": format!("{version}.{group}")}, "spec": spec});
        client.apply(&API_SERVICE, object).await?;
    }
    Ok(())
}

fn port(reach: Reach<'_>) -> u16 {
    match reach {
        Reach::Mounted => 443,
        Reach::Beside(listening) => listening.address.port(),
    }
}

/// A service; beside a real server it is a name of this machine, since a service cannot lead to loopback.
fn service(namespace: &str, name: &str, reach: Reach<'_>) -> Value {
    let mut service = json!({"metadata": {"namespace": namespace, "name": name}});
    service["spec"] = match reach {
        Reach::Mounted => {
            json!({"ports": [{"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"}]})
        }
        Reach::Beside(listening) => json!({
            "type": "ExternalName", "externalName": "localhost",
            "ports": [{"name": "https", "port": listening.address.port(), "protocol": "TCP"}],
        }),
    };
    service
}

fn webhook(hook: &Hook, reach: Reach<'_>) -> Value {
    let rules: Vec<Value> = hook
        .rules
        .iter()
        .map(|rule| {
            json!({
                "apiGroups": [rule.group], "apiVersions": rule.versions, "resources": rule.resources,
                "operations": rule.operations, "scope": "*",
            })
        })
        .collect();
    let (namespace, name) =
        if hook.configuration.starts_with("cdi") { ("cdi", "cdi-api") } else { ("kubevirt", "virt-api") };
    let config = match reach {
        Reach::Mounted => {
            json!({"service": {"namespace": namespace, "name": name, "path": hook.path, "port": 443}})
        }
        Reach::Beside(listening) => json!({
            "url": format!("https://{}{}", listening.address, hook.path),
            "caBundle": STANDARD.encode(&listening.authority),
        }),
    };
    json!({
        "name": hook.name, "clientConfig": config, "rules": rules, "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 10, "matchPolicy": "Equivalent",
        "failurePolicy": if hook.ignore_failure { "Ignore" } else { "Fail" },
    })
}
