//! Writing clusters as Shoots, each with a CloudProfile and a SecretBinding of its own.
//!
//! What Gardener has no words for is left out, never bent: the caller reads back what was written and reports the
//! difference. Left out are above all control-plane pools (Gardener hosts the control plane), the infra namespace
//! (it is in the kubeconfig, which the model does not hold), and everything that only Trellis knows of.

mod catalogue;
mod config;

use serde_json::{Map, Value};
use trellis_api::common::{Metadata, Text};
use trellis_api::gardener::binding::{BindingProvider, SecretReference};
use trellis_api::gardener::shoot::{
    AutoUpdate, KubeControllerManager, Provider, ShootKubernetes, ShootMaintenance, ShootNetworking,
    ShootSpec, TimeWindow,
};
use trellis_api::gardener::worker::{Machine, MachineImage, Taint, Volume, Worker, WorkerKubernetes};
use trellis_api::gardener::{CORE, SecretBinding, Shoot};
use trellis_model::cluster::{Credentials, CredentialsKind, KubevirtPlatform, Maintenance, Platform};
use trellis_model::machine::{Architecture, MachineTemplate, Shape};
use trellis_model::network::Networking;
use trellis_model::pool::{Role, UpdatePolicy};
use trellis_model::quantity::{Bytes, Count};
use trellis_model::volume::Storage;
use trellis_model::{Cluster, Estate, Pool};

use self::catalogue::Catalogue;
use super::disks::DEFAULT_CLASS;
use super::network::PLUGINS;
use crate::shared::{texts, to_json};

/// Writes an estate in Gardener's language, as far as it has words for it.
pub fn write(estate: &Estate) -> Vec<Value> {
    let mut documents = Vec::new();
    for cluster in &estate.clusters {
        let Platform::Kubevirt(platform) = &cluster.spec.platform else { continue };
        let pools = expressible(cluster, &estate.pools);
        let catalogue = Catalogue::of(cluster, &pools);
        let profile = catalogue.document(cluster.name.as_str());
        let binding = secret_binding(cluster, platform);
        let shoot = shoot(cluster, &pools, &catalogue, profile.is_some(), binding.is_some());
        documents.extend(profile);
        documents.extend(binding.as_ref().map(to_json));
        documents.push(shoot);
    }
    documents
}

/// Puts a value into the object at a JSON pointer.
fn insert(document: &mut Value, pointer: &str, key: &str, inner: Option<Value>) {
    let object: Option<&mut Map<String, Value>> =
        document.pointer_mut(pointer).and_then(Value::as_object_mut);
    if let (Some(object), Some(inner)) = (object, inner) {
        object.insert(key.to_owned(), inner);
    }
}

/// The pools of a cluster that a Shoot can hold: workers, all in one region.
fn expressible<'a>(cluster: &Cluster, pools: &'a [Pool]) -> Vec<&'a Pool> {
    let workers =
        pools.iter().filter(|pool| pool.spec.cluster == cluster.name && pool.spec.role == Role::Worker);
    let mut workers: Vec<&Pool> = workers.collect();
    if let Some(region) = workers.first().map(|pool| pool.spec.template.placement.region.clone()) {
        workers.retain(|pool| pool.spec.template.placement.region == region);
    }
    workers
}

fn metadata(cluster: &Cluster) -> Metadata {
    Metadata {
        name: Some(cluster.name.to_string()),
        namespace: cluster.namespace.as_ref().map(ToString::to_string),
        ..Metadata::default()
    }
}

fn secret_binding(cluster: &Cluster, platform: &KubevirtPlatform) -> Option<SecretBinding> {
    let credentials = platform.credentials.as_ref()?;
    if credentials.kind != CredentialsKind::Secret || credentials.key != Credentials::DEFAULT_KEY {
        return None;
    }
    Some(SecretBinding {
        api_version: CORE.to_owned(),
        kind: "SecretBinding".to_owned(),
        metadata: metadata(cluster),
        provider: Some(BindingProvider { type_: "kubevirt".to_owned() }),
        secret_ref: Some(SecretReference {
            name: Some(credentials.name.to_string()),
            namespace: credentials.namespace.as_ref().map(ToString::to_string),
        }),
        ..SecretBinding::default()
    })
}

fn shoot(cluster: &Cluster, pools: &[&Pool], catalogue: &Catalogue, profile: bool, binding: bool) -> Value {
    let spec = &cluster.spec;
    let name = || Some(cluster.name.to_string());
    let region = pools.first().and_then(|pool| pool.spec.template.placement.region.as_ref());
    let shoot = Shoot {
        api_version: CORE.to_owned(),
        kind: "Shoot".to_owned(),
        metadata: metadata(cluster),
        spec: ShootSpec {
            cloud_profile_name: name().filter(|_| profile),
            secret_binding_name: name().filter(|_| binding),
            region: region.map(|region| region.as_str().to_owned()),
            provider: Provider {
                type_: Some("kubevirt".to_owned()),
                workers: pools.iter().map(|pool| worker(pool, catalogue)).collect(),
                ..Provider::default()
            },
            networking: Some(networking(&spec.network)),
            kubernetes: kubernetes(cluster),
            maintenance: Some(maintenance(&spec.maintenance)),
            ..ShootSpec::default()
        },
        ..Shoot::default()
    };
    let mut shoot = to_json(&shoot);
    let provider = "/spec/provider";
    insert(&mut shoot, provider, "infrastructureConfig", config::infrastructure(&spec.network));
    insert(&mut shoot, provider, "controlPlaneConfig", config::control_plane(&spec.cloud_controller));
    for (index, pool) in pools.iter().enumerate() {
        let pointer = format!("{provider}/workers/{index}");
        insert(&mut shoot, &pointer, "providerConfig", config::worker(cluster, pool));
    }
    shoot
}

fn networking(network: &Networking) -> ShootNetworking {
    let plugin = PLUGINS.iter().find(|(_, plugin)| Some(*plugin) == network.plugin);
    ShootNetworking {
        type_: plugin.map(|(name, _)| (*name).to_owned()),
        pods: network.pods.first().map(|range| range.cidr.to_string()),
        nodes: network.nodes.first().map(ToString::to_string),
        services: network.services.first().map(ToString::to_string),
        ..ShootNetworking::default()
    }
}

fn kubernetes(cluster: &Cluster) -> Option<ShootKubernetes> {
    let node_prefix = cluster.spec.network.pods.first().and_then(|range| range.node_prefix);
    let manager = node_prefix.map(|prefix| KubeControllerManager {
        node_cidr_mask_size: Some(prefix),
        ..KubeControllerManager::default()
    });
    let kubernetes = ShootKubernetes {
        version: cluster.spec.version.as_ref().map(Text::from),
        kube_controller_manager: manager,
        ..ShootKubernetes::default()
    };
    (kubernetes != ShootKubernetes::default()).then_some(kubernetes)
}

fn maintenance(maintenance: &Maintenance) -> ShootMaintenance {
    let window = maintenance.window.as_ref();
    // Both are written out: where one is left out, Gardener takes it for true.
    let auto_update = AutoUpdate {
        kubernetes_version: Some(maintenance.update_kubernetes),
        machine_image_version: Some(maintenance.update_images),
    };
    ShootMaintenance {
        auto_update: Some(auto_update),
        time_window: window.map(|window| TimeWindow {
            begin: Some(Text(window.begin.clone())),
            end: Some(Text(window.end.clone())),
        }),
        ..ShootMaintenance::default()
    }
}

fn worker(pool: &Pool, catalogue: &Catalogue) -> Worker {
    let spec = &pool.spec;
    let template = &spec.template;
    let update = UpdatePolicy::default();
    let (minimum, maximum) =
        spec.autoscaling.map_or((spec.replicas, spec.replicas), |bounds| (bounds.min, bounds.max));
    let changed = |count: Count, default: Count| (count != default).then(|| count.into());
    Worker {
        name: Some(pool.name.to_string()),
        machine: Some(machine(pool, catalogue)),
        minimum: Some(minimum),
        maximum: Some(maximum),
        max_surge: changed(spec.update.max_surge, update.max_surge),
        max_unavailable: changed(spec.update.max_unavailable, update.max_unavailable),
        volume: Some(volume(None, template.root_disk.size, &template.root_disk.storage)),
        data_volumes: template
            .data_disks
            .iter()
            .map(|disk| volume(Some(disk.name.as_str()), disk.size, &disk.storage))
            .collect(),
        zones: template.placement.zones.iter().map(|zone| zone.as_str().to_owned()).collect(),
        labels: texts(&spec.node_labels),
        annotations: texts(&spec.node_annotations),
        taints: spec
            .node_taints
            .iter()
            .map(|taint| Taint {
                key: Some(taint.key.to_string()),
                value: taint.value.as_ref().map(Text::from),
                effect: Some(taint.effect.as_str().to_owned()),
                ..Taint::default()
            })
            .collect(),
        kubernetes: spec
            .kubelet_version
            .as_ref()
            .map(|version| WorkerKubernetes { version: Some(version.into()), ..WorkerKubernetes::default() }),
        ..Worker::default()
    }
}

fn machine(pool: &Pool, catalogue: &Catalogue) -> Machine {
    let template: &MachineTemplate = &pool.spec.template;
    let type_ = match (catalogue.machine_type(pool), &template.shape) {
        (Some(name), _) => Some(name.to_owned()),
        (None, Shape::Flavor(name)) => Some(name.to_string()),
        // An instance type of the infra cluster is none of Gardener's machine types.
        (None, _) => None,
    };
    let architecture = template.architecture;
    Machine {
        type_,
        image: Some(MachineImage {
            name: Some(template.image.os.as_str().to_owned()),
            version: template.image.version.as_ref().map(Text::from),
            ..MachineImage::default()
        }),
        architecture: (architecture != Architecture::default()).then(|| architecture.as_str().to_owned()),
    }
}

fn volume(name: Option<&str>, size: Bytes, storage: &Storage) -> Volume {
    Volume {
        name: name.map(str::to_owned),
        type_: Some(storage.class.as_ref().map_or(DEFAULT_CLASS, |class| class.as_str()).to_owned()),
        size: Some(Text(size.to_string())),
        encrypted: None,
    }
}
