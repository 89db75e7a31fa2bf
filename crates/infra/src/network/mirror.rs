//! Mirrors the Endpoints somebody keeps by hand for a service without a selector into EndpointSlices, where everybody
//! looks for them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::selector::labels_at;
use super::slices::{HEADLESS, MANAGED_BY, SERVICE_NAME};
use crate::client::{Cache, Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{ENDPOINT_SLICE, ENDPOINTS, SERVICE};
use crate::object::{Key, Object as _, owned_by};

/// Who keeps mirrored slices.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label that keeps Endpoints from being mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotations that stay behind.
const LEFT_BEHIND: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "endpoints.kubernetes.io/over-capacity",
];

/// Mirrors Endpoints.
#[derive(Debug)]
pub struct Mirror {
    client: Client,
    services: Arc<Cache>,
    slices: Arc<Cache>,
    endpoints: Arc<Cache>,
}

impl Mirror {
    /// The controller of a cluster.
    pub fn new(context: &Context) -> Self {
        let client = context.client(Identity::CONTROLLER_MANAGER);
        Self {
            services: client.cache(&SERVICE),
            slices: client.cache(&ENDPOINT_SLICE),
            endpoints: client.cache(&ENDPOINTS),
            client,
        }
    }
}

/// Whether Endpoints are to be mirrored for a service.
fn is_mirrored(service: &Value, endpoints: &Value) -> bool {
    let selects = service.at("/spec/selector").as_object().is_some_and(|selector| !selector.is_empty());
    !selects
        && service.text("/spec/type") != "ExternalName"
        && !endpoints.is_deleting()
        && endpoints.label(SKIP) != "true"
        && endpoints.annotation("control-plane.alpha.kubernetes.io/leader").is_empty()
}

/// The slices Endpoints come to: one for each family and each set of ports.
fn mirrored(service: &Value, endpoints: &Value) -> Vec<Value> {
    let mut groups: BTreeMap<(&str, String), (Value, Vec<Value>)> = BTreeMap::new();
    for subset in endpoints.list("/subsets") {
        let ports: Vec<Value> = subset
            .list("/ports")
            .iter()
            .map(|port| {
                let mut port = port.clone();
                if port["name"].is_null() {
                    port["name"] = "".into();
                }
                port
            })
            .collect();
        let ports = Value::Array(ports);
        for (list, ready) in [("/addresses", true), ("/notReadyAddresses", false)] {
            for address in subset.list(list) {
                let Ok(ip) = address.text("/ip").parse::<IpAddr>() else { continue };
                let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
                let group = groups.entry((family, ports.to_string())).or_default();
                group.0 = ports.clone();
                group.1.push(endpoint(address, ready));
            }
        }
    }
    groups
        .into_iter()
        .map(|((family, _), (ports, list))| {
            let mut slice = json!({
                "metadata": {
                    "namespace": endpoints.namespace(), "generateName": format!("{}-", endpoints.name()),
                    "ownerReferences": [owned_by(&ENDPOINTS, endpoints)],
                },
                "addressType": family, "ports": ports, "endpoints": list,
            });
            dress(&mut slice, service, endpoints);
            slice
        })
        .collect()
}

fn endpoint(address: &Value, ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [address["ip"]], "conditions": {"ready": ready}});
    for name in ["targetRef", "nodeName", "hostname"] {
        if !address[name].is_null() {
            endpoint[name] = address[name].clone();
        }
    }
    endpoint
}

/// Labels and annotations of a mirrored slice: those of the Endpoints, and who keeps it.
fn dress(slice: &mut Value, service: &Value, endpoints: &Value) {
    slice.set("/metadata/labels", json!({}));
    for (name, value) in labels_at(endpoints, "/metadata/labels") {
        slice.set_label(&name, &value);
    }
    slice.set_label(MANAGED_BY, MANAGER);
    slice.set_label(SERVICE_NAME, endpoints.name());
    if service.text("/spec/clusterIP") == "None" {
        slice.set_label(HEADLESS, "");
    }
    slice.unset("/metadata/annotations");
    for (name, value) in labels_at(endpoints, "/metadata/annotations") {
        if !LEFT_BEHIND.contains(&name.as_str()) {
            slice.set_annotation(&name, &value);
        }
    }
}

impl Controller for Mirror {
    const NAME: &'static str = "endpointslicemirroring-controller";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.endpoints),
            Watch::each(&self.services),
            Watch::owners(&self.slices, "Endpoints"),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let mut left = self.slices.find("service", &key.to_string());
        left.retain(|slice| slice.label(MANAGED_BY) == MANAGER && !slice.is_deleting());
        let wanted = match (self.services.get(key), self.endpoints.get(key)) {
            (Some(service), Some(endpoints)) if is_mirrored(&service, &endpoints) => {
                mirrored(&service, &endpoints)
            }
            _ => Vec::new(),
        };
        for slice in wanted {
            let same = |old: &Arc<Value>| {
                old["addressType"] == slice["addressType"] && old["ports"] == slice["ports"]
            };
            let Some(place) = left.iter().position(same) else {
                self.client.create(&ENDPOINT_SLICE, slice).await?;
                continue;
            };
            let old = left.remove(place);
            let mut new = (*old).clone();
            new["endpoints"] = slice["endpoints"].clone();
            new["metadata"]["labels"] = slice["metadata"]["labels"].clone();
            new.unset("/metadata/annotations");
            if slice["metadata"]["annotations"].is_object() {
                new["metadata"]["annotations"] = slice["metadata"]["annotations"].clone();
            }
            if new != *old {
                self.client.replace(&ENDPOINT_SLICE, &new).await?;
            }
        }
        for slice in left {
            self.client.delete(&ENDPOINT_SLICE, &Key::of(&slice), slice.uid()).await?;
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_ports_are_slices_of_their_own() {
        let endpoints = json!({
            "metadata": {"namespace": "n", "name": "s", "uid": "u"},
            "subsets": [{
                "addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}],
                "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80, "protocol": "TCP"}],
            }],
        });
        let slices = mirrored(&json!({}), &endpoints);
        assert_eq!(
            slices.iter().map(|slice| slice.text("/addressType")).collect::<Vec<_>>(),
            ["IPv4", "IPv6"]
        );
        assert_eq!(
            slices[0]["endpoints"][1],
            json!({"addresses": ["192.0.2.2"], "conditions": {"ready": false}})
        );
        assert_eq!(slices[0]["ports"][0]["name"], "");
        assert_eq!(slices[0].label(SERVICE_NAME), "s");
    }

    #[test]
    fn only_what_nobody_else_keeps_is_mirrored() {
        let endpoints = json!({});
        assert!(is_mirrored(&json!({"spec": {}}), &endpoints));
        assert!(!is_mirrored(&json!({"spec": {"selector": {"a": "b"}}}), &endpoints));
        assert!(!is_mirrored(&json!({"spec": {}}), &json!({"metadata": {"labels": {SKIP: "true"}}})));
    }
}
