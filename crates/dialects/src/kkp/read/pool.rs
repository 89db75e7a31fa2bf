//! The three kinds of documents, each of which is a pool.

use std::collections::BTreeMap;

use trellis_api::common::Metadata;
use trellis_api::kkp::cloud::{CloudProviderSpec, EvictionStrategy};
use trellis_api::kkp::{Machine, MachineDeployment, MachineSet, MachineSpec, Strategy};
use trellis_model::machine::{Devices, Eviction, MachineTemplate};
use trellis_model::names::LabelKey;
use trellis_model::network::Dns;
use trellis_model::pool::{PoolSpec, UpdatePolicy, UpdateStrategy};
use trellis_model::{Pool, Subject};

use super::super::{AUTOSCALER_MAX, AUTOSCALER_MIN, OVN_SUBNET};
use super::generations::{Generation, Settings};
use super::{cluster, envelope, generations, image, kubeconfig, placement, shape};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::{
    DNS_POLICIES, Reader, annotations, autoscaling, check_selector, choose, count, dns, labels, object_name,
    object_namespace, ssh_keys, taint, template as bare_template, warn_of_template_names,
};

/// The machines of a document.
struct Source<'a> {
    metadata: &'a Metadata,
    /// Labels and annotations of the machines, and where they stand.
    machine: (FieldPath, &'a Metadata),
    /// What each machine is, and where it stands.
    spec: (FieldPath, &'a MachineSpec),
}

/// Reads a MachineDeployment.
pub(super) fn deployment(cx: &mut Cx<'_>, deployment: &MachineDeployment) {
    let (root, spec) = (FieldPath::root(), &deployment.spec);
    let at = root.child("spec");
    check_selector(cx, &spec.selector, &spec.template.metadata.labels);
    let template = at.child("template");
    let source = Source {
        metadata: &deployment.metadata,
        machine: (template.child("metadata"), &spec.template.metadata),
        spec: (template.child("spec"), &spec.template.spec),
    };
    let Some(mut pool) = pool(cx, &source) else { return };
    pool.spec.replicas = spec.replicas.unwrap_or(1);
    pool.spec.autoscaling = autoscaling(cx, &deployment.metadata, AUTOSCALER_MIN, AUTOSCALER_MAX);
    let defaults = UpdatePolicy::default();
    let (max_surge, max_unavailable) = rolling(cx, spec.strategy.as_ref());
    pool.spec.update = UpdatePolicy {
        strategy: UpdateStrategy::RollingUpdate,
        max_surge: max_surge.unwrap_or(defaults.max_surge),
        max_unavailable: max_unavailable.unwrap_or(defaults.max_unavailable),
        min_ready_seconds: spec.min_ready_seconds.unwrap_or(defaults.min_ready_seconds),
        progress_deadline_seconds: spec
            .progress_deadline_seconds
            .unwrap_or(defaults.progress_deadline_seconds),
        history_limit: spec.revision_history_limit.unwrap_or(defaults.history_limit),
        paused: spec.paused.unwrap_or_default(),
    };
    let subject = Subject::Pool(pool.spec.cluster.clone(), pool.name.clone());
    let rolling = at.join("strategy.rollingUpdate");
    for (path, at) in [
        ("replicas", at.child("replicas")),
        ("autoscaling", root.join("metadata.annotations")),
        ("update", at.child("strategy")),
        ("update.maxSurge", rolling.child("maxSurge")),
        ("update.maxUnavailable", rolling.child("maxUnavailable")),
    ] {
        cx.origin(&subject, path, &at);
    }
    cx.estate().pools.push(pool);
}

/// Reads a MachineSet.
pub(super) fn set(cx: &mut Cx<'_>, set: &MachineSet) {
    let (at, spec) = (FieldPath::root().child("spec"), &set.spec);
    check_selector(cx, &spec.selector, &spec.template.metadata.labels);
    let template = at.child("template");
    let source = Source {
        metadata: &set.metadata,
        machine: (template.child("metadata"), &spec.template.metadata),
        spec: (template.child("spec"), &spec.template.spec),
    };
    let Some(mut pool) = pool(cx, &source) else { return };
    pool.spec.replicas = spec.replicas.unwrap_or(1);
    pool.spec.delete_policy = spec.delete_policy.unwrap_or_default();
    pool.spec.update.strategy = UpdateStrategy::OnDelete;
    pool.spec.update.min_ready_seconds = spec.min_ready_seconds.unwrap_or_default();
    let subject = Subject::Pool(pool.spec.cluster.clone(), pool.name.clone());
    cx.origin(&subject, "replicas", &at.child("replicas"));
    cx.estate().pools.push(pool);
}

/// Reads a Machine.
pub(super) fn machine(cx: &mut Cx<'_>, machine: &Machine) {
    let root = FieldPath::root();
    let source = Source {
        metadata: &machine.metadata,
        machine: (root.child("metadata"), &machine.metadata),
        spec: (root.child("spec"), &machine.spec),
    };
    let Some(mut pool) = pool(cx, &source) else { return };
    pool.spec.update.strategy = UpdateStrategy::OnDelete;
    pool.spec.machine_name = cx.parse(&root.join("metadata.name"), pool.name.as_str());
    cx.estate().pools.push(pool);
}

/// Reads what all three kinds have in common.
fn pool(cx: &mut Cx<'_>, source: &Source<'_>) -> Option<Pool> {
    let (spec_at, spec) = &source.spec;
    refuse(cx, spec_at, spec);
    let name = object_name(cx, source.metadata);
    let namespace = object_namespace(cx, source.metadata);
    let at = spec_at.join("providerSpec.value");
    let Some(config) = &spec.provider_spec.value else {
        let message = "missing field `value`: what the machine is on its platform";
        cx.error("missing-field", &at, message, "add `providerSpec.value`");
        return None;
    };
    if !envelope::is_kubevirt(cx, &at, config) {
        return None;
    }
    let cloud_at = at.child("cloudProviderSpec");
    if !cx.has(&cloud_at) {
        let message = "missing field `cloudProviderSpec`: what the machine is on KubeVirt";
        cx.error("missing-field", &cloud_at, message, "add `cloudProviderSpec`");
        return None;
    }
    let cloud: CloudProviderSpec = cx.embedded(&cloud_at)?;
    let settings = generations::settings(cx, &cloud_at, &cloud)?;
    let node_at = spec_at.child("metadata");
    let labelled = [
        (FieldPath::root().child("metadata"), source.metadata),
        source.machine.clone(),
        (node_at.clone(), &spec.metadata),
    ];
    let cluster = cluster::name(cx, &settings, source.metadata, &labelled)?;
    let name = name.and_then(|name| cx.parse(&name.at, &name.value))?;

    let access = kubeconfig::access(cx, settings.kubeconfig.as_ref());
    let infra = settings.namespace.as_ref();
    let infra = infra
        .and_then(|text| Some(crate::shared::At::new(text.at.clone(), cx.parse(&text.at, &text.value)?)));
    cluster::join(cx, &cluster, infra.or(access.namespace), access.credentials);

    let mut reader = Reader { subject: Subject::Pool(cluster.clone(), Clone::clone(&name)), cx };
    reader.origin("", &FieldPath::root());
    let template = template(&mut reader, &at, config, &settings)?;
    let mut pool = PoolSpec::new(cluster, 1, template);
    let (machine_at, machine) = &source.machine;
    if *machine_at != FieldPath::root().child("metadata") {
        warn_of_template_names(reader.cx, machine_at, machine);
    }
    warn_of_template_names(reader.cx, &node_at, &spec.metadata);
    pool.machine_labels = labels(reader.cx, &machine_at.child("labels"), &machine.labels);
    pool.machine_annotations = annotations(reader.cx, &machine_at.child("annotations"), &machine.annotations);
    subnet(&mut reader, &settings, &mut pool.machine_annotations);
    pool.node_labels = labels(reader.cx, &node_at.child("labels"), &spec.metadata.labels);
    pool.node_annotations = annotations(reader.cx, &node_at.child("annotations"), &spec.metadata.annotations);
    for (index, item) in spec.taints.iter().enumerate() {
        let at = spec_at.child("taints").index(index);
        pool.node_taints.extend(taint(reader.cx, &at, &item.key, item.value.as_deref(), item.effect));
    }
    versions(&mut reader, spec_at, spec, &mut pool);
    for (path, at) in [
        ("machineLabels", machine_at.child("labels")),
        ("machineAnnotations", machine_at.child("annotations")),
        ("nodeLabels", node_at.child("labels")),
        ("nodeAnnotations", node_at.child("annotations")),
        ("nodeTaints", spec_at.child("taints")),
    ] {
        reader.origin(path, &at);
    }
    Some(Pool { name, namespace, spec: pool })
}

fn template(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    config: &trellis_api::kkp::ProviderConfig,
    settings: &Settings,
) -> Option<MachineTemplate> {
    let os = envelope::operating_system(reader.cx, at, config);
    let shape = shape::shape(reader, settings);
    let preference = shape::preference(reader, settings);
    let root_disk = image::root_disk(reader, settings);
    let data_disks = image::data_disks(reader, settings);
    let nics = envelope::nics(reader, at, config);
    let placement = placement::placement(reader, settings);
    let devices = devices(reader, settings);
    let dns = name_resolution(reader, settings);
    let user_data = envelope::user_data(reader, at, config);
    let keys_at = at.child("sshPublicKeys");
    let ssh_keys = ssh_keys(reader.cx, &keys_at, &config.ssh_public_keys);
    reader.origin("template.sshKeys", &keys_at);
    reader.origin("template.image", &at.child("operatingSystem"));
    let image = image::image(reader, settings, os?);
    if let Some(eviction) = &settings.eviction {
        reader.origin("template.eviction", &eviction.at);
    }
    let mut template = bare_template(shape, image, root_disk?);
    template.preference = preference;
    template.data_disks = data_disks;
    template.nics = nics;
    template.placement = placement;
    template.devices = devices;
    template.dns = dns;
    template.eviction = match settings.eviction.as_ref().map(|eviction| eviction.value) {
        Some(EvictionStrategy::LiveMigrate) => Eviction::LiveMigrate,
        Some(EvictionStrategy::External) | None => Eviction::External,
    };
    template.user_data = user_data;
    template.ssh_keys = ssh_keys;
    Some(template)
}

fn devices(reader: &mut Reader<'_, '_>, settings: &Settings) -> Devices {
    let network_multi_queue = match &settings.multi_queue {
        Some(text) => crate::shared::truth(reader.cx, &text.at, &text.value).unwrap_or_default(),
        None => settings.generation == Generation::Nested,
    };
    Devices { network_multi_queue, ..Devices::default() }
}

fn name_resolution(reader: &mut Reader<'_, '_>, settings: &Settings) -> Dns {
    let policy = settings.dns_policy.as_ref();
    let policy = policy.and_then(|word| {
        reader.origin("template.dns.policy", &word.at);
        choose(reader.cx, &word.at, &word.value, DNS_POLICIES)
    });
    let policy = policy.unwrap_or_default();
    let Some(config) = &settings.dns_config else { return Dns { policy, ..Dns::default() } };
    for key in ["nameservers", "searches", "options"] {
        reader.origin(&format!("template.dns.{key}"), &config.at.child(key));
    }
    let options = config.value.options.iter();
    let options =
        options.map(|option| (option.name.clone(), option.value.as_ref().map(|value| value.0.clone())));
    dns(reader.cx, policy, &config.at, &config.value.nameservers, &config.value.searches, options)
}

fn subnet(reader: &mut Reader<'_, '_>, settings: &Settings, annotations: &mut BTreeMap<LabelKey, String>) {
    let Some(subnet) = &settings.subnet else { return };
    let Some(key) = reader.cx.parse(&subnet.at, OVN_SUBNET) else { return };
    annotations.insert(key, subnet.value.clone());
    let message =
        format!("the subnet becomes the annotation {OVN_SUBNET} of the machines, which Kube-OVN reads");
    reader.cx.notice("kube-ovn-subnet", &subnet.at, message, "");
}

fn versions(reader: &mut Reader<'_, '_>, at: &FieldPath, spec: &MachineSpec, pool: &mut PoolSpec) {
    let Some(versions) = &spec.versions else { return };
    let at = at.child("versions");
    if versions.control_plane.as_deref().is_some_and(|version| !version.is_empty()) {
        let message = "machines of this API are workers and have no control plane, so this is not used";
        reader.cx.warning("not-used", &at.child("controlPlane"), message, "remove `controlPlane`");
    }
    reader.origin("kubeletVersion", &at.child("kubelet"));
    pool.kubelet_version = reader.cx.parse_opt(&at.child("kubelet"), versions.kubelet.as_deref());
}

/// Complains about what no machine can have.
fn refuse(cx: &mut Cx<'_>, at: &FieldPath, spec: &MachineSpec) {
    if cx.has(&at.child("configSource")) {
        let message = "dynamic configuration of kubelets was removed from Kubernetes";
        cx.error("unsupported", &at.child("configSource"), message, "remove `configSource`");
    }
    if cx.has(&at.join("providerSpec.valueFrom")) {
        let message = "machine classes were never read by the machine-controller, nor are they here";
        cx.error("unsupported", &at.join("providerSpec.valueFrom"), message, "write it out in `value`");
    }
    if spec.provider_id.as_deref().is_some_and(|id| !id.is_empty()) {
        let message = "Trellis names machines on the platform itself";
        cx.error("unsupported", &at.child("providerID"), message, "remove `providerID`");
    }
}

fn rolling(
    cx: &mut Cx<'_>,
    strategy: Option<&Strategy>,
) -> (Option<trellis_model::quantity::Count>, Option<trellis_model::quantity::Count>) {
    let at = FieldPath::root().join("spec.strategy.rollingUpdate");
    let Some(rolling) = strategy.and_then(|strategy| strategy.rolling_update.as_ref()) else {
        return (None, None);
    };
    let surge = rolling.max_surge.as_ref().and_then(|value| count(cx, &at.child("maxSurge"), value));
    let unavailable =
        rolling.max_unavailable.as_ref().and_then(|value| count(cx, &at.child("maxUnavailable"), value));
    (surge, unavailable)
}
