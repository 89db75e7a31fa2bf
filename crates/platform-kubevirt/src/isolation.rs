//! What machines of a cluster may talk to, and who may talk to them: nothing, with exceptions.
//!
//! Everything selects by the cluster's label, because a namespace may hold several tenants. CDI's
//! importer and cloner pods, which fill volumes in the same namespace, carry no such label and are
//! left alone.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_model::Cluster;
use trellis_model::network::Publish;

use crate::labels::{self, Labels, metadata};
use crate::machine::PoolOf;
use crate::names;
use crate::services::{API_PORT, MACHINE_CONFIG_PORT};

/// Where name servers of the infra cluster answer. Policies see the pod's port, and OpenShift's name
/// servers have another one than their Service.
const DNS_PORTS: [i32; 2] = [53, 5353];

/// Where the members of etcd answer.
const ETCD_PORT: i32 = 2379;
/// How KubeVirt labels the pods that port forwarding comes from.
const VIRT_API: (&str, &str) = ("kubevirt.io", "virt-api");

/// Where a DNS cache on the host answers, if the infra cluster has one.
const NODE_LOCAL_DNS: &str = "169.254.20.10/32";

/// Ranges that are not the internet but the infra cluster, its hosts and other tenants.
const PRIVATE_V4: &[&str] =
    &["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];
const PRIVATE_V6: &[&str] = &["fc00::/7", "fe80::/10"];

/// The network policies of a cluster.
pub(crate) fn policies(cluster: &Cluster, pools: &[PoolOf<'_>]) -> Vec<NetworkPolicy> {
    vec![
        policy(cluster, "default-deny", labels::select_cluster(cluster), Some(Vec::new()), Some(Vec::new())),
        within(cluster),
        name_resolution(cluster, pools),
        internet(cluster),
        api(cluster),
        port_forwarding(cluster),
    ]
}

fn policy(
    cluster: &Cluster,
    name: &str,
    machines: Labels,
    ingress: Option<Vec<NetworkPolicyIngressRule>>,
    egress: Option<Vec<NetworkPolicyEgressRule>>,
) -> NetworkPolicy {
    let directions = [("Ingress", ingress.is_some()), ("Egress", egress.is_some())];
    let types = directions.into_iter().filter(|(_, governed)| *governed).map(|(name, _)| name.to_owned());
    NetworkPolicy {
        metadata: metadata(cluster, names::of_cluster(cluster, name), labels::of_cluster(cluster)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labels::selector(machines)),
            policy_types: Some(types.collect()),
            // An empty list allows nothing, just as an absent one does; only `policyTypes` counts.
            ingress: ingress.filter(|rules| !rules.is_empty()),
            egress: egress.filter(|rules| !rules.is_empty()),
        }),
    }
}

/// Machines of one cluster may talk to each other; so they reach the machine config server, which
/// nobody else does.
fn within(cluster: &Cluster) -> NetworkPolicy {
    let peers = || {
        let selector = labels::selector(labels::select_cluster(cluster));
        Some(vec![NetworkPolicyPeer { pod_selector: Some(selector), ..NetworkPolicyPeer::default() }])
    };
    policy(
        cluster,
        "allow-cluster",
        labels::select_cluster(cluster),
        Some(vec![NetworkPolicyIngressRule { from: peers(), ports: None }]),
        Some(vec![NetworkPolicyEgressRule { to: peers(), ports: None }]),
    )
}

/// Name servers: those of the infra cluster, and those that pools name.
fn name_resolution(cluster: &Cluster, pools: &[PoolOf<'_>]) -> NetworkPolicy {
    let ports = DNS_PORTS.into_iter().flat_map(|number| [port("UDP", number), port("TCP", number)]).collect();
    let templates = pools.iter().map(|pool| &pool.resolved.template);
    let named: BTreeSet<IpAddr> = templates
        .flat_map(|template| {
            let fixed = template.nics.iter().filter_map(|nic| nic.addresses.as_ref());
            template.dns.nameservers.iter().chain(fixed.flat_map(|addresses| &addresses.nameservers))
        })
        .map(|server| server.0)
        .collect();
    let mut to = vec![any_pod(), block(NODE_LOCAL_DNS, &[])];
    to.extend(
        named
            .iter()
            .map(|server| block(&format!("{server}/{}", if server.is_ipv4() { 32 } else { 128 }), &[])),
    );
    let rule = NetworkPolicyEgressRule { to: Some(to), ports: Some(ports) };
    policy(cluster, "allow-dns", labels::select_cluster(cluster), None, Some(vec![rule]))
}

fn internet(cluster: &Cluster) -> NetworkPolicy {
    let mut peers = vec![block("0.0.0.0/0", PRIVATE_V4), block("::/0", PRIVATE_V6)];
    peers.extend(cluster.spec.network.allowed_egress.iter().map(|range| block(&range.to_string(), &[])));
    let rule = NetworkPolicyEgressRule { to: Some(peers), ports: None };
    policy(cluster, "allow-internet", labels::select_cluster(cluster), None, Some(vec![rule]))
}

/// The API is for everyone, or for pods of the infra cluster alone.
fn api(cluster: &Cluster) -> NetworkPolicy {
    let from = match cluster.spec.network.publish {
        Publish::External => None,
        Publish::Internal => Some(vec![any_pod()]),
    };
    let rule = NetworkPolicyIngressRule { from, ports: Some(vec![port("TCP", API_PORT)]) };
    policy(cluster, "allow-api", labels::select_control_plane(cluster), Some(vec![rule]), None)
}

/// Whoever looks after the cluster asks the members of etcd, and whoever serves configurations, through KubeVirt's port
/// forwarding. That comes from pods of KubeVirt, in a namespace that is not called the same everywhere.
fn port_forwarding(cluster: &Cluster) -> NetworkPolicy {
    let kubevirt =
        NetworkPolicyPeer { pod_selector: Some(labels::selector(labels::owned([VIRT_API]))), ..any_pod() };
    let ports = [ETCD_PORT, MACHINE_CONFIG_PORT].map(|number| port("TCP", number));
    let rule = NetworkPolicyIngressRule { from: Some(vec![kubevirt]), ports: Some(ports.into()) };
    policy(cluster, "allow-port-forwarding", labels::select_control_plane(cluster), Some(vec![rule]), None)
}

fn any_pod() -> NetworkPolicyPeer {
    NetworkPolicyPeer { namespace_selector: Some(LabelSelector::default()), ..NetworkPolicyPeer::default() }
}

fn port(protocol: &str, number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        end_port: None,
    }
}

fn block(range: &str, except: &[&str]) -> NetworkPolicyPeer {
    let except: Vec<String> = except.iter().map(|range| (*range).to_owned()).collect();
    let ip_block = IPBlock { cidr: range.to_owned(), except: (!except.is_empty()).then_some(except) };
    NetworkPolicyPeer { ip_block: Some(ip_block), ..NetworkPolicyPeer::default() }
}
