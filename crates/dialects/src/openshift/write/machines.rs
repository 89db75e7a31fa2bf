//! MachineSet and Machine.

use serde_json::Value;
use trellis_api::common::{Metadata, ServerWritten, Text};
use trellis_api::machine_api::{LabelSelector, Taint};
use trellis_api::openshift::pools::AutoPinning;
use trellis_api::openshift::provider::{
    KubevirtProviderSpec, NetworkInterface, OsDisk, OvirtProviderSpec, SecretRef,
};
use trellis_api::openshift::{
    API_VERSION, Machine, MachineSet, MachineSetSpec, MachineSpec, MachineTemplate,
};
use trellis_model::cluster::Platform;
use trellis_model::image::ImageSource;
use trellis_model::machine::{Compute, Topology};
use trellis_model::network::NicNetwork;
use trellis_model::pool::Role;
use trellis_model::volume::{AccessMode, Storage};
use trellis_model::{Cluster, Pool};

use super::super::{
    AUTOSCALER_MAX, AUTOSCALER_MIN, CLUSTER_LABEL, KUBEVIRT_SPEC, MASTER, OVIRT_SPEC, ROLE_LABEL, SET_LABEL,
    TYPE_LABEL, WORKER,
};
use super::install::only_network;
use super::sizes;
use crate::shared::{texts, to_json};

/// The pool as a Machine or MachineSet.
pub(super) fn document(cluster: Option<&Cluster>, pool: &Pool) -> Value {
    let spec = &pool.spec;
    let on_ovirt = match cluster {
        Some(cluster) => matches!(cluster.spec.platform, Platform::Ovirt(_)),
        None => spec.template.ovirt.is_some(),
    };
    let provider = if on_ovirt { to_json(&ovirt(cluster, pool)) } else { to_json(&kubevirt(cluster, pool)) };
    let namespace = pool.namespace.as_ref().map(ToString::to_string);
    let (mut value, pointer) = if let Some(name) = &spec.machine_name {
        let machine = Machine {
            api_version: API_VERSION.to_owned(),
            kind: "Machine".to_owned(),
            metadata: Metadata { name: Some(name.to_string()), namespace, ..machine_metadata(pool) },
            spec: machine_spec(pool),
            ..Machine::default()
        };
        (to_json(&machine), "/spec/providerSpec")
    } else {
        (to_json(&set(pool, namespace)), "/spec/template/spec/providerSpec")
    };
    if let Some(Value::Object(spec)) = value.pointer_mut(pointer) {
        spec.insert("value".to_owned(), provider);
    }
    value
}

fn set(pool: &Pool, namespace: Option<String>) -> MachineSet {
    let spec = &pool.spec;
    let mut metadata = Metadata { name: Some(pool.name.to_string()), namespace, ..Metadata::default() };
    if let Some(bounds) = spec.autoscaling {
        metadata.annotations.insert(AUTOSCALER_MIN.to_owned(), bounds.min.to_string());
        metadata.annotations.insert(AUTOSCALER_MAX.to_owned(), bounds.max.to_string());
    }
    let mut template = MachineTemplate { metadata: machine_metadata(pool), spec: machine_spec(pool) };
    let selected = (SET_LABEL.to_owned(), pool.name.to_string());
    template.metadata.labels.extend([selected.clone()]);
    MachineSet {
        api_version: API_VERSION.to_owned(),
        kind: "MachineSet".to_owned(),
        metadata,
        spec: MachineSetSpec {
            replicas: Some(spec.replicas),
            min_ready_seconds: Some(spec.update.min_ready_seconds).filter(|seconds| *seconds > 0),
            delete_policy: Some(spec.delete_policy),
            selector: LabelSelector { match_labels: [selected].into(), ..LabelSelector::default() },
            template,
            ..MachineSetSpec::default()
        },
        ..MachineSet::default()
    }
}

fn machine_metadata(pool: &Pool) -> Metadata {
    let spec = &pool.spec;
    let role = match spec.role {
        Role::ControlPlane => MASTER,
        Role::Worker => WORKER,
    };
    let mut labels = texts(&spec.machine_labels);
    labels.insert(CLUSTER_LABEL.to_owned(), spec.cluster.to_string());
    labels.insert(ROLE_LABEL.to_owned(), role.to_owned());
    labels.entry(TYPE_LABEL.to_owned()).or_insert_with(|| role.to_owned());
    Metadata { labels, annotations: texts(&spec.machine_annotations), ..Metadata::default() }
}

fn machine_spec(pool: &Pool) -> MachineSpec {
    let spec = &pool.spec;
    let taint = |taint: &trellis_model::network::NodeTaint| Taint {
        key: taint.key.to_string(),
        value: taint.value.as_ref().map(ToString::to_string),
        effect: taint.effect,
        time_added: ServerWritten,
    };
    MachineSpec {
        metadata: Metadata {
            labels: texts(&spec.node_labels),
            annotations: texts(&spec.node_annotations),
            ..Metadata::default()
        },
        taints: spec.node_taints.iter().map(taint).collect(),
        ..MachineSpec::default()
    }
}

fn kubevirt(cluster: Option<&Cluster>, pool: &Pool) -> KubevirtProviderSpec {
    let template = &pool.spec.template;
    let compute = sizes::compute(cluster, pool);
    let storage = storage(cluster, &template.root_disk.storage);
    let network = network(cluster, pool);
    KubevirtProviderSpec {
        api_version: KUBEVIRT_SPEC.0.to_owned(),
        kind: KUBEVIRT_SPEC.1.to_owned(),
        source_pvc_name: match &template.image.source {
            Some(ImageSource::Pvc(volume)) if volume.namespace.is_none() => Some(volume.name.to_string()),
            _ => None,
        },
        ignition_secret_name: template.user_data.secret.as_ref().map(ToString::to_string),
        requested_memory: compute.as_ref().and_then(sizes::requested_memory).as_ref().map(Text::from),
        requested_cpu: compute
            .as_ref()
            .filter(|compute| !asks_for_nothing(compute))
            .and_then(sizes::requested_cpus),
        requested_storage: Some(Text::from(&template.root_disk.size)),
        storage_class_name: storage.class.as_ref().map(ToString::to_string),
        persistent_volume_access_mode: Some(storage.access_mode.unwrap_or(AccessMode::ReadWriteMany)),
        interface_binding_method: network.as_ref().map(|(_, binding)| (*binding).into()),
        network_name: network.map(|(name, _)| name),
        ..KubevirtProviderSpec::default()
    }
}

/// One CPU of which nothing is set aside: what a machine has that names no CPUs.
fn asks_for_nothing(compute: &Compute) -> bool {
    compute.cpu.request.is_none()
        && compute.cpu.topology == Some(Topology::sockets(std::num::NonZeroU32::MIN))
}

/// The storage of a disk, with what the cluster says filled in.
fn storage(cluster: Option<&Cluster>, own: &Storage) -> Storage {
    let mut storage = own.clone();
    if let Some(Platform::Kubevirt(platform)) = cluster.map(|cluster| &cluster.spec.platform) {
        storage.class = storage.class.or_else(|| platform.storage.class.clone());
        storage.access_mode = storage.access_mode.or(platform.storage.access_mode);
    }
    storage
}

/// The network attachment definition the machines are on, if they are on nothing else.
fn network(cluster: Option<&Cluster>, pool: &Pool) -> Option<(String, trellis_model::network::Binding)> {
    match pool.spec.template.nics.as_slice() {
        [] => {
            let (network, name) = only_network(&cluster?.spec.network)?;
            Some((name, network.binding))
        }
        [nic] => match &nic.network {
            NicNetwork::Shared(shared) => Some((shared.name.to_string(), nic.binding)),
            _ => None,
        },
        _ => None,
    }
}

fn ovirt(cluster: Option<&Cluster>, pool: &Pool) -> OvirtProviderSpec {
    let template = &pool.spec.template;
    let compute = sizes::compute(cluster, pool).unwrap_or_default();
    let machine = template.ovirt.clone().unwrap_or_default();
    let typed = machine.instance_type_id.is_some();
    let platform_id = match cluster.map(|cluster| &cluster.spec.platform) {
        Some(Platform::Ovirt(platform)) => Some(platform.cluster_id.clone()),
        _ => None,
    };
    let secret = |name: &trellis_model::names::ObjectName| SecretRef { name: name.to_string() };
    OvirtProviderSpec {
        api_version: OVIRT_SPEC.0.to_owned(),
        kind: OVIRT_SPEC.1.to_owned(),
        user_data_secret: template.user_data.secret.as_ref().map(secret),
        credentials_secret: machine.credentials.as_ref().map(secret),
        template_name: match &template.image.source {
            Some(ImageSource::OvirtTemplate(name)) => Some(name.clone()),
            _ => None,
        },
        cluster_id: machine.cluster_id.or(platform_id).map(|id| id.to_string()),
        cpu: sizes::ovirt_cpu(&compute).filter(|_| !typed),
        memory_mb: compute.memory.guest_bytes().and_then(sizes::mebibytes).filter(|_| !typed),
        instance_type_id: machine.instance_type_id.map(|id| id.to_string()),
        guaranteed_memory_mb: machine.guaranteed_memory.and_then(sizes::mebibytes),
        os_disk: Some(OsDisk { size_gb: sizes::gibibytes(template.root_disk.size) }),
        vm_type: Some(machine.vm_type),
        network_interfaces: template
            .nics
            .iter()
            .filter_map(|nic| match &nic.network {
                NicNetwork::OvirtProfile(profile) => {
                    Some(NetworkInterface { vnic_profile_id: profile.to_string() })
                }
                _ => None,
            })
            .collect(),
        affinity_groups_names: machine.affinity_groups,
        auto_pinning_policy: machine.resize_and_pin.then_some(AutoPinning::ResizeAndPin),
        hugepages: sizes::hugepages(&compute),
        clone: machine.clone_disks,
        sparse: machine.sparse,
        format: machine.format,
        storage_domain_id: machine.storage_domain_id.map(|id| id.to_string()),
        ..OvirtProviderSpec::default()
    }
}
