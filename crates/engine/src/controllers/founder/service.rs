//! The Services of a cluster's API, as far as they are looked at.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use trellis_runtime::{Meta, narrow};

/// A Service, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Service {
    metadata: Meta,
    #[serde(default)]
    spec: ServiceSpec,
    #[serde(default)]
    status: ServiceStatus,
}

narrow!(Service);

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    r#type: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    selector: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<Ingress>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Ingress {
    ip: String,
}

impl Service {
    /// The address it has for those outside; for one without a balancer, that inside.
    pub(super) fn address(&self) -> Option<IpAddr> {
        if self.spec.r#type == "LoadBalancer" {
            return self.status.load_balancer.ingress.first().and_then(|ingress| ingress.ip.parse().ok());
        }
        self.internal()
    }

    pub(super) fn internal(&self) -> Option<IpAddr> {
        self.spec.cluster_ip.parse().ok()
    }

    /// Which machines it leads to.
    pub(super) fn selector(&self) -> &BTreeMap<String, String> {
        &self.spec.selector
    }
}
