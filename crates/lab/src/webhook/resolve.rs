//! From the name of a service to an address.

use std::sync::Arc;

use serde_json::Value;

use crate::json::items;
use crate::names::GroupResource;
use crate::reader::Reader;

/// Finds the server behind a service.
pub(crate) trait Resolver: Send + Sync {
    /// A host and a port to dial, such as `127.0.0.1:8443`; or why there is none.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<String, String>;
}

/// Finds servers by the stored services and their endpoint slices, and then their endpoints. A service of type
/// `ExternalName` leads to that name.
pub(crate) struct Endpoints {
    reader: Arc<dyn Reader>,
}

impl Endpoints {
    /// A resolver over the stored objects.
    pub(crate) fn new(reader: Arc<dyn Reader>) -> Self {
        Self { reader }
    }

    fn by_slices(&self, namespace: &str, name: &str, port: &str) -> Option<String> {
        let slices =
            self.reader.list(&GroupResource::new("discovery.k8s.io", "endpointslices"), Some(namespace));
        let mine = slices.iter().filter(|slice| {
            slice.pointer("/metadata/labels/kubernetes.io~1service-name").and_then(Value::as_str)
                == Some(name)
        });
        for slice in mine {
            let number = items(&slice["ports"])
                .filter(|entry| entry["name"].as_str().unwrap_or_default() == port)
                .find_map(|entry| entry["port"].as_u64());
            let ready = items(&slice["endpoints"]).find(|endpoint| endpoint["conditions"]["ready"] != false);
            if let (Some(number), Some(endpoint)) = (number, ready)
                && let Some(address) = endpoint["addresses"][0].as_str()
            {
                return Some(joined(address, number));
            }
        }
        None
    }

    fn by_endpoints(&self, namespace: &str, name: &str, port: &str) -> Option<String> {
        let endpoints = self.reader.get(&GroupResource::new("", "endpoints"), namespace, name)?;
        items(&endpoints["subsets"]).find_map(|subset| {
            let number = items(&subset["ports"])
                .filter(|entry| entry["name"].as_str().unwrap_or_default() == port)
                .find_map(|entry| entry["port"].as_u64())?;
            let address = items(&subset["addresses"]).find_map(|address| address["ip"].as_str())?;
            Some(joined(address, number))
        })
    }
}

impl Resolver for Endpoints {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<String, String> {
        let service = self
            .reader
            .get(&GroupResource::new("", "services"), namespace, name)
            .ok_or_else(|| format!("service {name:?} not found"))?;
        match service["spec"]["type"].as_str().unwrap_or("ClusterIP") {
            "ExternalName" => {
                let external = service["spec"]["externalName"].as_str().unwrap_or_default();
                return Ok(joined(external, u64::from(port)));
            }
            "ClusterIP" | "NodePort" | "LoadBalancer" => {}
            other => return Err(format!("unsupported service type {other:?}")),
        }
        let entry = items(&service["spec"]["ports"])
            .find(|entry| entry["port"].as_u64() == Some(u64::from(port)))
            .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let port = entry["name"].as_str().unwrap_or_default();
        self.by_slices(namespace, name, port)
            .or_else(|| self.by_endpoints(namespace, name, port))
            .ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

fn joined(host: &str, port: u64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
