//! From pools to documents, in today's generation. What it has no words for is left out.

mod cloud;

use serde_json::Value;
use trellis_api::common::Metadata;
use trellis_api::kkp::{
    API_VERSION, Machine, MachineDeployment, MachineDeploymentSpec, MachineSet, MachineSetSpec, MachineSpec,
    MachineTemplate, Network, NetworkDns, OperatingSystemSpec, ProviderConfig, ProviderSpec, RollingUpdate,
    Strategy, StrategyKind, Versions,
};
use trellis_api::machine_api::{LabelSelector, Taint};
use trellis_model::cluster::Platform;
use trellis_model::network::{Binding, Nic, NicNetwork, StaticAddresses};
use trellis_model::pool::{PoolSpec, Role, UpdatePolicy, UpdateStrategy};
use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Estate, Pool};

use super::{AUTOSCALER_MAX, AUTOSCALER_MIN};
use crate::shared::{POOL_LABEL, texts, to_json};

/// Writes the workers on KubeVirt. This API knows no control planes and no clusters.
pub fn write(estate: &Estate) -> Vec<Value> {
    let mut documents = Vec::new();
    for pool in estate.pools.iter().filter(|pool| pool.spec.role == Role::Worker) {
        let cluster = estate.cluster(&pool.spec.cluster);
        if cluster.is_none_or(|cluster| matches!(cluster.spec.platform, Platform::Kubevirt(_))) {
            documents.push(document(cluster, &with_cluster(cluster, pool)));
        }
    }
    documents
}

/// The pool with what its cluster says for it: there is no other place to say it here.
fn with_cluster(cluster: Option<&Cluster>, pool: &Pool) -> Pool {
    let mut pool = pool.clone();
    if let Some(cluster) = cluster {
        let resolved = resolve(cluster, &pool);
        pool.spec.template = resolved.template;
        pool.spec.kubelet_version = resolved.kubelet_version;
    }
    pool
}

fn document(cluster: Option<&Cluster>, pool: &Pool) -> Value {
    let spec = &pool.spec;
    let cloud = to_json(&cloud::cloud_provider_spec(cluster, pool));
    let (mut value, pointer) = if let Some(name) = &spec.machine_name {
        let mut machine = Machine {
            api_version: API_VERSION.to_owned(),
            kind: "Machine".to_owned(),
            metadata: machine_metadata(spec),
            spec: machine_spec(spec),
            ..Machine::default()
        };
        machine.metadata.name = Some(name.to_string());
        machine.metadata.namespace = pool.namespace.as_ref().map(ToString::to_string);
        (to_json(&machine), "/spec/providerSpec/value")
    } else if spec.update.strategy == UpdateStrategy::OnDelete {
        (to_json(&set(pool)), "/spec/template/spec/providerSpec/value")
    } else {
        (to_json(&deployment(pool)), "/spec/template/spec/providerSpec/value")
    };
    if let Some(Value::Object(config)) = value.pointer_mut(pointer) {
        config.insert("cloudProviderSpec".to_owned(), cloud);
    }
    value
}

fn deployment(pool: &Pool) -> MachineDeployment {
    let spec = &pool.spec;
    let mut metadata = object_metadata(pool);
    if let Some(bounds) = spec.autoscaling {
        metadata.annotations.insert(AUTOSCALER_MIN.to_owned(), bounds.min.to_string());
        metadata.annotations.insert(AUTOSCALER_MAX.to_owned(), bounds.max.to_string());
    }
    let (update, defaults) = (&spec.update, UpdatePolicy::default());
    MachineDeployment {
        api_version: API_VERSION.to_owned(),
        kind: "MachineDeployment".to_owned(),
        metadata,
        spec: MachineDeploymentSpec {
            replicas: Some(spec.replicas),
            selector: selector(pool),
            template: template(pool),
            strategy: Some(Strategy {
                kind: Some(StrategyKind::RollingUpdate),
                rolling_update: Some(RollingUpdate {
                    max_surge: Some(update.max_surge.into()),
                    max_unavailable: Some(update.max_unavailable.into()),
                }),
            }),
            min_ready_seconds: unless(update.min_ready_seconds, defaults.min_ready_seconds),
            revision_history_limit: unless(update.history_limit, defaults.history_limit),
            paused: unless(update.paused, false),
            progress_deadline_seconds: unless(
                update.progress_deadline_seconds,
                defaults.progress_deadline_seconds,
            ),
        },
        ..MachineDeployment::default()
    }
}

fn set(pool: &Pool) -> MachineSet {
    let spec = &pool.spec;
    MachineSet {
        api_version: API_VERSION.to_owned(),
        kind: "MachineSet".to_owned(),
        metadata: object_metadata(pool),
        spec: MachineSetSpec {
            replicas: Some(spec.replicas),
            min_ready_seconds: unless(spec.update.min_ready_seconds, 0),
            delete_policy: Some(spec.delete_policy),
            selector: selector(pool),
            template: template(pool),
        },
        ..MachineSet::default()
    }
}

fn unless<T: PartialEq + Copy>(value: T, default: T) -> Option<T> {
    (value != default).then_some(value)
}

fn object_metadata(pool: &Pool) -> Metadata {
    Metadata {
        name: Some(pool.name.to_string()),
        namespace: pool.namespace.as_ref().map(ToString::to_string),
        ..Metadata::default()
    }
}

fn machine_metadata(spec: &PoolSpec) -> Metadata {
    Metadata {
        labels: texts(&spec.machine_labels),
        annotations: texts(&spec.machine_annotations),
        ..Metadata::default()
    }
}

fn selector(pool: &Pool) -> LabelSelector {
    let match_labels = [(POOL_LABEL.to_owned(), pool.name.to_string())].into();
    LabelSelector { match_labels, ..LabelSelector::default() }
}

fn template(pool: &Pool) -> MachineTemplate {
    let mut metadata = machine_metadata(&pool.spec);
    metadata.labels.insert(POOL_LABEL.to_owned(), pool.name.to_string());
    MachineTemplate { metadata, spec: machine_spec(&pool.spec) }
}

fn machine_spec(spec: &PoolSpec) -> MachineSpec {
    let template = &spec.template;
    let upgrade = template.user_data.upgrade_packages;
    let config = ProviderConfig {
        ssh_public_keys: template.ssh_keys.iter().map(ToString::to_string).collect(),
        cloud_provider: Some("kubevirt".to_owned()),
        operating_system: Some(template.image.os),
        operating_system_spec: Some(OperatingSystemSpec {
            dist_upgrade_on_boot: unless(upgrade, false),
            ..OperatingSystemSpec::default()
        }),
        network: static_addresses(&template.nics).map(network),
        overwrite_cloud_config: template.user_data.inline.clone(),
        ..ProviderConfig::default()
    };
    MachineSpec {
        metadata: Metadata {
            labels: texts(&spec.node_labels),
            annotations: texts(&spec.node_annotations),
            ..Metadata::default()
        },
        taints: spec.node_taints.iter().map(taint).collect(),
        provider_spec: ProviderSpec { value: Some(Box::new(config)), ..ProviderSpec::default() },
        versions: spec
            .kubelet_version
            .map(|version| Versions { kubelet: Some(version.to_string()), control_plane: None }),
        ..MachineSpec::default()
    }
}

fn taint(taint: &trellis_model::network::NodeTaint) -> Taint {
    Taint {
        key: taint.key.to_string(),
        value: taint.value.as_ref().map(ToString::to_string),
        effect: taint.effect,
        time_added: trellis_api::common::ServerWritten,
    }
}

/// The addresses of the one interface this API can describe: a bridge to the pod network.
fn static_addresses(nics: &[Nic]) -> Option<&StaticAddresses> {
    match nics {
        [nic] if matches!(nic.network, NicNetwork::Pod(_)) && nic.binding == Binding::Bridge => {
            nic.addresses.as_ref()
        }
        _ => None,
    }
}

fn network(addresses: &StaticAddresses) -> Network {
    Network {
        cidr: Some(addresses.first.0.to_string()),
        gateway: addresses.gateway.map(|gateway| gateway.to_string()),
        dns: (!addresses.nameservers.is_empty())
            .then(|| NetworkDns { servers: addresses.nameservers.iter().map(ToString::to_string).collect() }),
        ip_family: None,
    }
}
