//! What the network learns from the API: pods and their labels, services and where they lead, policies.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;

use super::ends::{Member, Protocol};
use super::{policy, services};
use crate::client::{Cache, Identity};
use crate::context::Context;
use crate::kinds;
use crate::object::{Key, Object as _};
use crate::stages::Stages;

/// What the API says about the network.
#[derive(Debug)]
pub struct Directory {
    pods: Arc<Cache>,
    namespaces: Arc<Cache>,
    services: Arc<Cache>,
    slices: Arc<Cache>,
    policies: Arc<Cache>,
    nodes: Arc<Cache>,
    networks: Arc<Cache>,
    stages: Stages,
    /// The networks of the cluster.
    inside: Vec<IpNet>,
    /// The domain of the cluster's names.
    pub(super) domain: String,
    /// Whether real sockets of this machine may be used.
    pub(super) sockets: bool,
}

impl Directory {
    /// The directory of a cluster.
    pub fn new(context: &Context) -> Self {
        let client = context.client(Identity::KUBELET);
        let settings = &context.settings;
        Self {
            pods: client.cache(&kinds::POD),
            namespaces: client.cache(&kinds::NAMESPACE),
            services: client.cache(&kinds::SERVICE),
            slices: client.cache(&kinds::ENDPOINT_SLICE),
            policies: client.cache(&kinds::NETWORK_POLICY),
            nodes: client.cache(&kinds::NODE),
            networks: client.cache(&kinds::NETWORK_ATTACHMENT),
            stages: context.stages.clone(),
            inside: settings
                .pod_networks
                .iter()
                .chain([&settings.host_network, &settings.load_balancers])
                .copied()
                .collect(),
            domain: settings.cluster_domain.clone(),
            sockets: settings.sockets,
        }
    }

    /// A pod by uid, with the addresses it is plugged in with.
    pub(super) fn member(&self, uid: &str, addresses: Vec<IpAddr>) -> Option<Member> {
        let pod = self.pods.find("uid", uid).into_iter().next()?;
        let namespace = self.namespaces.get(&Key::cluster(pod.namespace()));
        Some(policy::member(&pod, namespace.as_deref(), addresses))
    }

    /// A pod by uid.
    pub(super) fn pod(&self, uid: &str) -> Option<Arc<Value>> {
        self.pods.find("uid", uid).into_iter().next()
    }

    /// The policies of some namespaces.
    pub(super) fn policies(&self, namespaces: &[&str]) -> Vec<Arc<Value>> {
        namespaces.iter().flat_map(|namespace| self.policies.list(namespace)).collect()
    }

    /// A namespace's labels are needed for what stands in for a pod, too.
    pub(super) fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        self.namespaces.get(&Key::cluster(name))
    }

    /// The service that has an address, of the cluster or of a load balancer; where several share it, the one with
    /// the port.
    pub(super) fn service_at(&self, address: IpAddr, port: u16, protocol: Protocol) -> Option<Arc<Value>> {
        let found = self.services.find("address", &address.to_string());
        let fitting = found.iter().find(|service| services::port_of(service, port, protocol).is_some());
        fitting.or(found.first()).cloned()
    }

    /// Whether an address belongs to the cluster or to a private network: nothing answers for it where nobody has it.
    pub(super) fn is_inside(&self, address: IpAddr) -> bool {
        let private = match address {
            IpAddr::V4(four) => four.is_private() || four.is_link_local(),
            IpAddr::V6(six) => six.is_unique_local() || six.is_unicast_link_local(),
        };
        private || self.inside.iter().any(|net| net.contains(&address))
    }

    /// The services that use a node port.
    pub(super) fn services_on(&self, port: u16) -> Vec<Arc<Value>> {
        self.services.find("nodePort", &port.to_string())
    }

    /// A service by its place.
    pub(super) fn service(&self, key: &Key) -> Option<Arc<Value>> {
        self.services.get(key)
    }

    /// The slices of a service.
    pub(super) fn slices(&self, service: &Key) -> Vec<Arc<Value>> {
        self.slices.find("service", &service.to_string())
    }

    /// The host that has an address.
    pub(super) fn node_at(&self, address: IpAddr) -> Option<Arc<Value>> {
        self.nodes.find("address", &address.to_string()).into_iter().next()
    }

    /// A host by name.
    pub(super) fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.nodes.get(&Key::cluster(name))
    }

    /// The configuration of a network attachment by its key as text.
    pub(super) fn network(&self, key: &str) -> Option<Arc<Value>> {
        let (namespace, name) = key.split_once('/')?;
        self.networks.get(&Key::new(namespace, name))
    }

    /// How long it takes until silence is given up, for a connection that is made or for one that stands.
    pub(super) fn patience(&self, stage: &str) -> Duration {
        self.stages.outcome(stage, &Value::Null, 0).after
    }

    /// A number that depends on the seed alone.
    pub(super) fn chance(&self, what: &str) -> u64 {
        self.stages.chance("fabric.turn", what, 0)
    }

    /// A directory of given objects.
    #[cfg(test)]
    pub(super) fn of(objects: &[Value]) -> Self {
        let cache = |kind: &'static crate::kinds::Kind| {
            let cache = Cache::new(kind);
            let own = objects.iter().filter(|object| object["kind"] == kind.kind);
            for object in own {
                let mut object = object.clone();
                object.set("/metadata/resourceVersion", "1".into());
                cache.learn(object);
            }
            Arc::new(cache)
        };
        Self {
            pods: cache(&kinds::POD),
            namespaces: cache(&kinds::NAMESPACE),
            services: cache(&kinds::SERVICE),
            slices: cache(&kinds::ENDPOINT_SLICE),
            policies: cache(&kinds::NETWORK_POLICY),
            nodes: cache(&kinds::NODE),
            networks: cache(&kinds::NETWORK_ATTACHMENT),
            stages: Stages::new(crate::stages::Profile::Realistic, 1),
            inside: Vec::new(),
            domain: "cluster.local".to_owned(),
            sockets: false,
        }
    }
}
