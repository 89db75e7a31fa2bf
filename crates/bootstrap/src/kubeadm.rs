//! Documents of kubeadm, and the configuration of kubelets.
//!
//! Nothing here waits for `kubeadm init`: certificates and static pods are made beforehand, exactly where kubeadm would
//! have put them, so that its later commands (`upgrade`, `certs`, `init phase addon`) find what they know.

use serde_json::{Value, json};
use trellis_model::Pool;
use trellis_model::names::MachineName;
use trellis_model::pool::Role;

use crate::names::{API_PORT, Names};
use crate::site::{Member, Site};
use crate::static_pods;
use crate::system::System;
use crate::version::Version;

const API: &str = "kubeadm.k8s.io/v1beta4";

/// The taint that keeps tenants' pods off the control plane.
const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";

/// `ClusterConfiguration`.
pub(crate) fn cluster_configuration(site: &Site, version: &Version) -> Value {
    let names = &site.names;
    let joined =
        |ranges: &[ipnet::IpNet]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let addresses = names.api_addresses.iter().map(ToString::to_string);
    let sans: Vec<String> = [names.api.clone(), names.api_int.clone()].into_iter().chain(addresses).collect();
    json!({
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "clusterName": names.cluster,
        "kubernetesVersion": format!("v{}", version.kubernetes),
        "controlPlaneEndpoint": format!("{}:{API_PORT}", names.api_int),
        "imageRepository": site.sources.images,
        "certificatesDir": static_pods::PKI,
        "encryptionAlgorithm": "ECDSA-P256",
        "networking": {
            "dnsDomain": names.cluster_domain,
            "serviceSubnet": joined(&names.services),
            "podSubnet": joined(&names.pods),
        },
        "apiServer": {"certSANs": sans},
        "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": version.etcd}},
    })
}

/// `InitConfiguration`, for the phases that run on a member of the control plane.
pub(crate) fn init_configuration(site: &Site, member: &Member, system: &System, port: u16) -> Value {
    let mut endpoint = json!({"bindPort": port});
    if let Some(address) = static_pods::advertised(site, member) {
        endpoint["advertiseAddress"] = address.to_string().into();
    }
    json!({
        "apiVersion": API,
        "kind": "InitConfiguration",
        "localAPIEndpoint": endpoint,
        "nodeRegistration": registration(&member.name, system, &taints(Role::ControlPlane, None)),
    })
}

/// `JoinConfiguration` of a worker: by the kubeconfig it has.
pub(crate) fn join_configuration(machine: &MachineName, pool: &Pool, system: &System) -> Value {
    json!({
        "apiVersion": API,
        "kind": "JoinConfiguration",
        "caCertPath": format!("{}/ca.crt", static_pods::PKI),
        "discovery": {"file": {"kubeConfigPath": "/etc/kubernetes/kubelet.conf"}},
        "nodeRegistration": registration(machine, system, &taints(pool.spec.role, Some(pool))),
    })
}

fn registration(machine: &MachineName, system: &System, taints: &[Value]) -> Value {
    json!({"name": machine, "criSocket": system.runtime.socket, "taints": taints})
}

/// The taints a node registers with.
fn taints(role: Role, pool: Option<&Pool>) -> Vec<Value> {
    let own =
        (role == Role::ControlPlane).then(|| json!({"key": CONTROL_PLANE_TAINT, "effect": "NoSchedule"}));
    let asked = pool.into_iter().flat_map(|pool| &pool.spec.node_taints).map(|taint| {
        let mut value = json!({"key": taint.key, "effect": taint.effect});
        if let Some(text) = &taint.value {
            value["value"] = text.as_str().into();
        }
        value
    });
    own.into_iter().chain(asked).collect()
}

/// `KubeletConfiguration` of a node.
pub(crate) fn kubelet_configuration(names: &Names, system: &System, pool: &Pool) -> Value {
    let mut config = common(system);
    config["authentication"] = json!({
        "anonymous": {"enabled": false},
        "webhook": {"enabled": true},
        "x509": {"clientCAFile": format!("{}/ca.crt", static_pods::PKI)},
    });
    config["authorization"] = json!({"mode": "Webhook"});
    config["clusterDNS"] = names.dns_addresses().iter().map(ToString::to_string).collect();
    config["clusterDomain"] = names.cluster_domain.as_str().into();
    config["rotateCertificates"] = true.into();
    config["registerWithTaints"] = taints(pool.spec.role, Some(pool)).into();
    config
}

/// `KubeletConfiguration` of the bootstrap machine, whose kubelet belongs to no cluster and serves nobody.
pub(crate) fn standalone_kubelet_configuration(system: &System) -> Value {
    let mut config = common(system);
    config["enableServer"] = false.into();
    config["authentication"] = json!({"anonymous": {"enabled": false}, "webhook": {"enabled": false}});
    config["authorization"] = json!({"mode": "AlwaysAllow"});
    config
}

fn common(system: &System) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        "containerRuntimeEndpoint": system.runtime.socket,
        "resolvConf": system.resolv_conf,
        "staticPodPath": static_pods::FOLDER,
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "10s",
    })
}
