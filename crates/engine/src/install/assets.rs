//! What an installation leaves in its folder, as texts: what the cluster is known by, and the variables of Terraform.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use trellis_model::image::ImageSource;
use trellis_model::network::NetworkSource;
use trellis_model::pool::Role;
use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Pool};
use trellis_platform_kubevirt::{CLUSTER_LABEL, capacity, golden_name};

/// By what a cluster is found again when nothing but the folder is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name of the cluster.
    pub cluster_name: String,
    /// What tells it from all clusters that ever had its name: the uid of its record.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// What everything of it is labelled with.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// Where it is.
    pub kubevirt: Place,
}

/// Where a cluster is on KubeVirt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The namespace of the infra cluster.
    pub namespace: String,
    /// The labels of everything of it.
    pub labels: BTreeMap<String, String>,
}

impl Metadata {
    /// The metadata of a cluster whose record has this uid.
    pub fn of(cluster: &Cluster, uid: &str) -> Self {
        let name = cluster.name.to_string();
        Self {
            cluster_name: name.clone(),
            cluster_id: uid.to_owned(),
            infra_id: name.clone(),
            kubevirt: Place {
                namespace: cluster.infra_namespace().to_owned(),
                labels: BTreeMap::from([(CLUSTER_LABEL.to_owned(), name)]),
            },
        }
    }
}

/// The variables of Terraform that every platform has: `terraform.tfvars.json`.
pub fn terraform(cluster: &Cluster, pools: &[&Pool]) -> Value {
    let spec = &cluster.spec;
    let domain = spec.base_domain.as_ref().map(ToString::to_string).unwrap_or_default();
    let count = |role: Role| -> u32 {
        pools.iter().filter(|pool| pool.spec.role == role).map(|pool| pool.spec.replicas).sum()
    };
    let full =
        if domain.is_empty() { cluster.name.to_string() } else { format!("{}.{domain}", cluster.name) };
    let nodes: Vec<String> = spec.network.nodes.iter().map(ToString::to_string).collect();
    let (v6, v4): (Vec<String>, Vec<String>) = nodes.into_iter().partition(|cidr| cidr.contains(':'));
    json!({
        "cluster_id": cluster.name,
        "base_domain": domain,
        "cluster_domain": full,
        "master_count": count(Role::ControlPlane),
        "worker_count": count(Role::Worker),
        "machine_v4_cidrs": v4,
        "machine_v6_cidrs": v6,
        "use_ipv4": v6.is_empty() || !v4.is_empty(),
        "use_ipv6": !v6.is_empty(),
    })
}

/// The variables of Terraform that only KubeVirt has: `terraform.kubevirt.auto.tfvars.json`. They are those of the
/// machines of the control plane; what is left to a default is left out.
pub fn terraform_kubevirt(cluster: &Cluster, pools: &[&Pool]) -> Value {
    let mut all = Map::new();
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            all.insert(format!("kubevirt_{key}"), value);
        }
    };
    set("namespace", cluster.infra_namespace().into());
    set("labels", json!({CLUSTER_LABEL: cluster.name}));
    if let Some(network) = cluster.spec.network.default_network() {
        let name = match &network.source {
            NetworkSource::Shared(shared) => shared.name.to_string(),
            NetworkSource::Tenant(_) => network.name.to_string(),
        };
        set("network_name", name.into());
        set("interface_binding_method", json!(network.binding));
    }
    if let Some(pool) = pools.iter().find(|pool| pool.spec.role == Role::ControlPlane) {
        if let Some(capacity) = capacity(cluster, pool) {
            set("master_cpu", (capacity.milli_cpus / 1000).to_string().into());
            set("master_memory", format!("{}Mi", capacity.memory_bytes >> 20).into());
        }
        set("source_pvc_name", json!(golden_name(cluster, pool)));
        let resolved = resolve(cluster, pool);
        let disk = &resolved.template.root_disk;
        set("master_storage", json!(disk.size));
        set("storage_class", json!(disk.storage.class));
        set("pv_access_mode", json!(disk.storage.access_mode));
        set("image_url", pool.spec.template.image.source.as_ref().map_or(Value::Null, address));
    }
    all.into()
}

/// Where an image is, if that is an address.
fn address(source: &ImageSource) -> Value {
    match source {
        ImageSource::Http(image) => image.url.clone().into(),
        ImageSource::Registry(image) => image.url.clone().into(),
        _ => Value::Null,
    }
}
