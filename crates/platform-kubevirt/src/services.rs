//! Names and addresses of a cluster and its machines on the pod network.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_model::network::Publish;
use trellis_model::pool::Role;
use trellis_model::{Cluster, Pool};

use crate::labels::{self, Labels, metadata};
use crate::machine::{Machine, PoolOf};
use crate::names;

/// The port of the Kubernetes API.
pub(crate) const API_PORT: i32 = 6443;
/// The port machines fetch their configuration from.
pub(crate) const MACHINE_CONFIG_PORT: i32 = 22623;

/// The Services of a cluster: its API for everyone, and the API for its own machines. Without the pod network
/// there is nothing they could point to, and without machines of the control plane the API is somewhere else.
pub(crate) fn services(cluster: &Cluster, pools: &[PoolOf<'_>]) -> Vec<Service> {
    let has_control_plane = pools.iter().any(|pool| pool.pool.spec.role == Role::ControlPlane);
    if !has_control_plane || !cluster.spec.network.uses_pod_network() {
        return Vec::new();
    }
    let kind = match cluster.spec.network.publish {
        Publish::External => "LoadBalancer",
        Publish::Internal => "ClusterIP",
    };
    let ports = [("api", API_PORT), ("machine-config", MACHINE_CONFIG_PORT)];
    vec![endpoint(cluster, "api", kind, &ports[..1]), endpoint(cluster, "api-int", "ClusterIP", &ports)]
}

/// Whether machines of a pool have names of their own: Services can point to them, and the cluster has a domain, or they
/// are of its control plane. Members of etcd find each other by name, whatever the domain is.
pub(crate) fn names_machines(cluster: &Cluster, pool: &Pool) -> bool {
    let is_named = cluster.spec.base_domain.is_some() || pool.spec.role == Role::ControlPlane;
    is_named && cluster.spec.network.uses_pod_network()
}

fn endpoint(cluster: &Cluster, name: &str, kind: &str, ports: &[(&str, i32)]) -> Service {
    let port = |(name, port): &(&str, i32)| ServicePort {
        name: Some((*name).to_owned()),
        port: *port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(*port)),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        type_: Some(kind.to_owned()),
        ports: Some(ports.iter().map(port).collect()),
        ..selecting(labels::select_control_plane(cluster))
    };
    Service {
        metadata: metadata(cluster, names::endpoint(cluster, name), labels::of_cluster(cluster)),
        spec: Some(spec),
        status: None,
    }
}

/// A name that follows the machine from address to address. It must resolve before the machine is
/// ready: members of a control plane find each other by it while they start.
pub(crate) fn machine_service(machine: &Machine<'_>) -> Service {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        publish_not_ready_addresses: Some(true),
        ..selecting(labels::owned([
            (labels::CLUSTER, machine.cluster.name.as_str()),
            (labels::MACHINE, machine.name()),
        ]))
    };
    Service {
        metadata: metadata(machine.cluster, machine.name().to_owned(), labels::of_machine(machine)),
        spec: Some(spec),
        status: None,
    }
}

fn selecting(labels: Labels) -> ServiceSpec {
    ServiceSpec { selector: Some(labels), ..ServiceSpec::default() }
}
