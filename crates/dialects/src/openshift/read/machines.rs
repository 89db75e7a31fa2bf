//! MachineSet and Machine, each of which is a pool.

use trellis_api::common::Metadata;
use trellis_api::openshift::{Machine, MachineSet, MachineSpec};
use trellis_model::cluster::{KubevirtPlatform, Platform};
use trellis_model::names::{ClusterName, PoolName};
use trellis_model::pool::{PoolSpec, Role, UpdateStrategy};
use trellis_model::{Pool, Subject};

use super::super::{
    AUTOSCALER_MAX, AUTOSCALER_MIN, CLUSTER_LABEL, KUBEVIRT_SPEC, MASTER, ROLE_LABEL, SET_LABEL, TYPE_LABEL,
    WORKER,
};
use super::provider;
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId, Reading};
use crate::shared::{
    self, Reader, annotations, autoscaling, check_selector, labels, object_name, object_namespace, taint,
    warn_of_template_names,
};
use crate::tree::Node;

/// The machines of a document.
struct Source<'a> {
    metadata: &'a Metadata,
    machine: (FieldPath, &'a Metadata),
    spec: (FieldPath, &'a MachineSpec),
    provider_kind: Option<String>,
}

/// The kind of provider spec a document holds, which must be known before it is decoded.
fn provider_kind(reading: &Reading, document: DocumentId, spec: &FieldPath) -> Option<String> {
    let at = spec.join("providerSpec.value.kind");
    reading.documents.get(document.0)?.get(&at).and_then(Node::as_text).map(str::to_owned)
}

/// Reads a MachineSet.
pub(super) fn set(reading: &mut Reading, document: DocumentId, set: &MachineSet) {
    let at = FieldPath::root().child("spec");
    let (spec, template) = (&set.spec, at.child("template"));
    let source = Source {
        metadata: &set.metadata,
        machine: (template.child("metadata"), &spec.template.metadata),
        spec: (template.child("spec"), &spec.template.spec),
        provider_kind: provider_kind(reading, document, &template.child("spec")),
    };
    let cx = &mut reading.within(document);
    check_selector(cx, &spec.selector, &spec.template.metadata.labels);
    let Some(mut pool) = pool(cx, &source) else { return };
    pool.spec.replicas = spec.replicas.unwrap_or(1);
    pool.spec.delete_policy = spec.delete_policy.unwrap_or_default();
    pool.spec.update.min_ready_seconds = spec.min_ready_seconds.unwrap_or_default();
    pool.spec.autoscaling = autoscaling(cx, &set.metadata, AUTOSCALER_MIN, AUTOSCALER_MAX);
    let subject = Subject::Pool(pool.spec.cluster.clone(), pool.name.clone());
    cx.origin(&subject, "replicas", &at.child("replicas"));
    cx.origin(&subject, "autoscaling", &FieldPath::root().join("metadata.annotations"));
    cx.estate().pools.push(pool);
}

/// Reads a Machine.
pub(super) fn machine(reading: &mut Reading, document: DocumentId, machine: &Machine) {
    let root = FieldPath::root();
    let source = Source {
        metadata: &machine.metadata,
        machine: (root.child("metadata"), &machine.metadata),
        spec: (root.child("spec"), &machine.spec),
        provider_kind: provider_kind(reading, document, &root.child("spec")),
    };
    let cx = &mut reading.within(document);
    let Some(mut pool) = pool(cx, &source) else { return };
    pool.spec.machine_name = cx.parse(&root.join("metadata.name"), pool.name.as_str());
    cx.estate().pools.push(pool);
}

fn pool(cx: &mut Cx<'_>, source: &Source<'_>) -> Option<Pool> {
    let (spec_at, spec) = &source.spec;
    let name = object_name(cx, source.metadata);
    let namespace = object_namespace(cx, source.metadata);
    if spec.provider_id.as_deref().is_some_and(|id| !id.is_empty()) {
        let message = "Trellis names machines on the platform itself, so `providerID` is not used";
        cx.warning("not-used", &spec_at.child("providerID"), message, "remove `providerID`");
    }
    let cluster = cluster_name(cx, source)?;
    let name: PoolName = name.and_then(|name| cx.parse(&name.at, &name.value))?;
    let role = role(source);
    imply_cluster(cx, source, &cluster);
    let mut reader = Reader { subject: Subject::Pool(cluster.clone(), name.clone()), cx };
    reader.origin("", &FieldPath::root());
    let value_at = spec_at.join("providerSpec.value");
    let template = provider::template(&mut reader, &value_at, source.provider_kind.as_deref(), &cluster)?;
    let mut pool = PoolSpec::new(cluster, 1, template);
    pool.role = role;
    pool.update.strategy = UpdateStrategy::OnDelete;
    let (machine_at, machine) = &source.machine;
    let node_at = spec_at.child("metadata");
    if *machine_at != FieldPath::root().child("metadata") {
        warn_of_template_names(reader.cx, machine_at, machine);
    }
    warn_of_template_names(reader.cx, &node_at, &spec.metadata);
    pool.machine_labels = labels(reader.cx, &machine_at.child("labels"), &machine.labels);
    let word = if role == Role::ControlPlane { MASTER } else { WORKER };
    // Labels that only repeat what is known otherwise; they are written anew.
    let derived = [
        (CLUSTER_LABEL, None),
        (ROLE_LABEL, Some(word)),
        (TYPE_LABEL, Some(word)),
        (SET_LABEL, Some(name.as_str())),
    ];
    pool.machine_labels.retain(|key, value| {
        !derived
            .iter()
            .any(|(label, text)| key.as_str() == *label && text.is_none_or(|text| text == value.as_str()))
    });
    pool.machine_annotations = annotations(reader.cx, &machine_at.child("annotations"), &machine.annotations);
    pool.node_labels = labels(reader.cx, &node_at.child("labels"), &spec.metadata.labels);
    pool.node_annotations = annotations(reader.cx, &node_at.child("annotations"), &spec.metadata.annotations);
    for (index, item) in spec.taints.iter().enumerate() {
        let at = spec_at.child("taints").index(index);
        pool.node_taints.extend(taint(reader.cx, &at, &item.key, item.value.as_deref(), item.effect));
    }
    for (path, at) in [
        ("machineLabels", machine_at.child("labels")),
        ("nodeLabels", node_at.child("labels")),
        ("nodeTaints", spec_at.child("taints")),
    ] {
        reader.origin(path, &at);
    }
    Some(Pool { name, namespace, spec: pool })
}

/// A label of the machines or of the document.
fn label<'a>(source: &'a Source<'_>, key: &str) -> Option<(FieldPath, &'a String)> {
    let (machine_at, machine) = &source.machine;
    let own_at = FieldPath::root().child("metadata");
    [(machine_at.clone(), *machine), (own_at, source.metadata)].into_iter().find_map(|(at, metadata)| {
        let value = metadata.labels.get(key).filter(|value| !value.is_empty())?;
        Some((at.child("labels").child(key), value))
    })
}

fn cluster_name(cx: &mut Cx<'_>, source: &Source<'_>) -> Option<ClusterName> {
    if let Some((at, name)) = label(source, CLUSTER_LABEL) {
        return cx.parse(&at, name);
    }
    let at = source.machine.0.child("labels");
    let message = format!("nothing says which cluster this belongs to: the label {CLUSTER_LABEL} is missing");
    cx.error("missing-field", &at, message, "add the label with the name of the cluster");
    None
}

/// Makes up the cluster of machines on KubeVirt if nothing describes it: a machine set says its name only.
fn imply_cluster(cx: &mut Cx<'_>, source: &Source<'_>, name: &ClusterName) {
    let on_kubevirt = source.provider_kind.as_deref() == Some(KUBEVIRT_SPEC.1);
    if !on_kubevirt || cx.estate().cluster(name).is_some() {
        return;
    }
    let at = label(source, CLUSTER_LABEL).map_or_else(FieldPath::root, |(at, _)| at);
    let message = format!(
        "cluster {name} is not described here; its machines are taken to be in a namespace of that name"
    );
    cx.notice("implied-cluster", &at, message, "read its install-config or TenantCluster together with this");
    let subject = Subject::Cluster(name.clone());
    cx.origin(&subject, "", &at);
    let platform = Platform::Kubevirt(KubevirtPlatform::default());
    cx.estate().clusters.push(shared::cluster(name.clone(), platform));
}

fn role(source: &Source<'_>) -> Role {
    match label(source, ROLE_LABEL) {
        Some((_, role)) if role == MASTER => Role::ControlPlane,
        _ => Role::Worker,
    }
}
