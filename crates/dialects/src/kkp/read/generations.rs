//! The three generations of settings, brought into one form.

use trellis_api::common::DnsConfig;
use trellis_api::kkp::cloud::{
    CloudProviderSpec, ConfigVar, EvictionStrategy, Location, Matcher, NodePreset, VirtualMachine,
};

use super::values::{text, text_if_known};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::At;

/// How the settings are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// Side by side, until March 2022.
    Flat,
    /// In `auth`, `virtualMachine` and `affinity`.
    Nested,
}

/// A field of the flat generation and where it moved to; nothing where it has no successor.
const MOVES: &[(&str, Option<&str>)] = &[
    ("kubeconfig", Some("auth.kubeconfig")),
    ("cpus", Some("virtualMachine.template.cpus")),
    ("memory", Some("virtualMachine.template.memory")),
    ("namespace", None),
    ("sourceURL", Some("virtualMachine.template.primaryDisk.osImage")),
    ("pvcSize", Some("virtualMachine.template.primaryDisk.size")),
    ("storageClassName", Some("virtualMachine.template.primaryDisk.storageClassName")),
    ("dnsPolicy", Some("virtualMachine.dnsPolicy")),
    ("dnsConfig", Some("virtualMachine.dnsConfig")),
    ("podAffinityPreset", Some("affinity.podAffinityPreset")),
    ("podAntiAffinityPreset", Some("affinity.podAntiAffinityPreset")),
    ("nodeAffinityPreset", Some("affinity.nodeAffinityPreset")),
    ("nodeAntiAffinityPreset", None),
    ("nodeAntiAffinity", None),
];

/// The fields of the nested generations.
const NESTED: &[&str] =
    &["virtualMachine", "auth", "affinity", "topologySpreadConstraints", "clusterName", "projectID"];

/// The settings of a machine, whichever generation they were written in. Empty texts count as left out,
/// except where they mean something.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) generation: Generation,
    /// Where the settings of the VM stand as a whole.
    pub(super) at: FieldPath,
    pub(super) cluster_name: Option<At<String>>,
    pub(super) kubeconfig: Option<At<ConfigVar>>,
    pub(super) namespace: Option<At<String>>,
    pub(super) flavor: Option<At<String>>,
    pub(super) instancetype: Option<At<Matcher>>,
    pub(super) preference: Option<At<Matcher>>,
    pub(super) cpus: Option<At<String>>,
    pub(super) memory: Option<At<String>>,
    pub(super) cores: Option<At<u32>>,
    pub(super) image: Image,
    pub(super) root: Disk,
    pub(super) further: Vec<Disk>,
    pub(super) dns_policy: Option<At<String>>,
    pub(super) dns_config: Option<At<DnsConfig>>,
    pub(super) location: Option<At<Location>>,
    pub(super) subnet: Option<At<String>>,
    pub(super) multi_queue: Option<At<String>>,
    pub(super) eviction: Option<At<EvictionStrategy>>,
    /// Empty means "not at all".
    pub(super) together: Option<At<String>>,
    /// Empty means "not at all".
    pub(super) apart: Option<At<String>>,
    pub(super) wanted: Option<HostPreset>,
    pub(super) avoided: Option<HostPreset>,
    pub(super) spread: Vec<Spread>,
}

/// Where the image is and how it is fetched.
#[derive(Debug, Default)]
pub(super) struct Image {
    pub(super) address: Option<At<String>>,
    pub(super) source: Option<At<String>>,
    pub(super) pull_method: Option<At<String>>,
    pub(super) secret: Option<At<String>>,
    pub(super) headers: Option<At<Vec<String>>>,
    pub(super) headers_secret: Option<At<String>>,
}

/// A disk.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) at: FieldPath,
    pub(super) size: Option<At<String>>,
    pub(super) class: Option<At<String>>,
    pub(super) access: Option<At<String>>,
    pub(super) target: Option<At<String>>,
}

/// Hosts by a label.
#[derive(Debug)]
pub(super) struct HostPreset {
    pub(super) at: FieldPath,
    pub(super) strength: Option<At<String>>,
    pub(super) key: Option<At<String>>,
    pub(super) values: Vec<At<String>>,
}

/// How evenly machines are spread over the values of a host label.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) at: FieldPath,
    pub(super) max_skew: Option<At<String>>,
    pub(super) key: Option<At<String>>,
    pub(super) when_unsatisfiable: Option<At<String>>,
}

/// Brings the settings into one form. Fields of two generations side by side are an error.
pub(super) fn settings(cx: &mut Cx<'_>, at: &FieldPath, spec: &CloudProviderSpec) -> Option<Settings> {
    let flat = MOVES.iter().find(|(key, _)| cx.has(&at.child(key)));
    let nested = NESTED.iter().find(|key| cx.has(&at.child(key)));
    match (flat, nested) {
        (Some((key, new)), Some(nested)) => {
            let message = format!(
                "`{key}` belongs to the settings before March 2022, `{nested}` to those since; a manifest is of one kind"
            );
            let help = match new {
                Some(new) => format!("move `{key}` to `{new}`, or remove `{nested}` and all that is new"),
                None => format!(
                    "remove `{key}`, which has no successor, or remove `{nested}` and all that is new"
                ),
            };
            cx.error("mixed-generations", &at.child(key), message, &help);
            None
        }
        (Some(_), None) => Some(flat_settings(cx, at, spec)),
        (None, _) => Some(nested_settings(cx, at, spec)),
    }
}

fn filled(cx: &mut Cx<'_>, at: FieldPath, var: Option<&ConfigVar>) -> Option<At<String>> {
    text(cx, at, var).and_then(At::filled)
}

fn at_key<T: Clone>(at: &FieldPath, key: &str, value: Option<&T>) -> Option<At<T>> {
    value.map(|value| At::new(at.child(key), value.clone()))
}

fn flat_settings(cx: &mut Cx<'_>, at: &FieldPath, spec: &CloudProviderSpec) -> Settings {
    let avoided =
        if cx.has(&at.child("nodeAntiAffinity")) { "nodeAntiAffinity" } else { "nodeAntiAffinityPreset" };
    Settings {
        generation: Generation::Flat,
        at: at.clone(),
        cluster_name: None,
        kubeconfig: at_key(at, "kubeconfig", spec.kubeconfig.as_ref()),
        namespace: filled(cx, at.child("namespace"), spec.namespace.as_ref()),
        flavor: None,
        instancetype: None,
        preference: None,
        cpus: filled(cx, at.child("cpus"), spec.cpus.as_ref()),
        memory: filled(cx, at.child("memory"), spec.memory.as_ref()),
        cores: None,
        image: Image {
            address: filled(cx, at.child("sourceURL"), spec.source_url.as_ref()),
            ..Image::default()
        },
        root: Disk {
            at: at.clone(),
            size: filled(cx, at.child("pvcSize"), spec.pvc_size.as_ref()),
            class: filled(cx, at.child("storageClassName"), spec.storage_class_name.as_ref()),
            access: None,
            target: None,
        },
        further: Vec::new(),
        dns_policy: filled(cx, at.child("dnsPolicy"), spec.dns_policy.as_ref()),
        dns_config: at_key(at, "dnsConfig", spec.dns_config.as_ref()),
        location: None,
        subnet: None,
        multi_queue: None,
        eviction: None,
        together: text(cx, at.child("podAffinityPreset"), spec.pod_affinity_preset.as_ref()),
        apart: text(cx, at.child("podAntiAffinityPreset"), spec.pod_anti_affinity_preset.as_ref()),
        wanted: preset(cx, at.child("nodeAffinityPreset"), spec.node_affinity_preset.as_ref()),
        avoided: preset(cx, at.child(avoided), spec.node_anti_affinity_preset.as_ref()),
        spread: Vec::new(),
    }
}

fn nested_settings(cx: &mut Cx<'_>, at: &FieldPath, spec: &CloudProviderSpec) -> Settings {
    let vm_at = at.child("virtualMachine");
    let vm = spec.virtual_machine.as_deref().cloned().unwrap_or_default();
    let template = vm.template.clone().unwrap_or_default();
    let template_at = vm_at.child("template");
    let disk_at = template_at.child("primaryDisk");
    let disk = template.primary_disk.clone().unwrap_or_default();
    let affinity = spec.affinity.clone().unwrap_or_default();
    let affinity_at = at.child("affinity");
    if let Some(project) =
        text_if_known(cx, at.child("projectID"), spec.project_id.as_ref()).and_then(At::filled)
    {
        let message = "Trellis knows no projects, so this is not kept";
        cx.warning("not-used", &project.at, message, "put it in the labels of the template to keep it");
    }
    let headers =
        (!disk.extra_headers.is_empty()).then(|| At::new(disk_at.child("extraHeaders"), disk.extra_headers));
    Settings {
        generation: Generation::Nested,
        at: if spec.virtual_machine.is_some() { vm_at.clone() } else { at.clone() },
        cluster_name: text_if_known(cx, at.child("clusterName"), spec.cluster_name.as_ref())
            .and_then(At::filled),
        kubeconfig: at_key(
            &at.child("auth"),
            "kubeconfig",
            spec.auth.as_ref().and_then(|a| a.kubeconfig.as_ref()),
        ),
        namespace: None,
        flavor: flavor(cx, &vm_at, &vm),
        instancetype: at_key(&vm_at, "instancetype", vm.instancetype.as_ref()),
        preference: at_key(&vm_at, "preference", vm.preference.as_ref()),
        cpus: filled(cx, template_at.child("cpus"), template.cpus.as_ref()),
        memory: filled(cx, template_at.child("memory"), template.memory.as_ref()),
        cores: template
            .vcpus
            .and_then(|vcpus| vcpus.cores)
            .filter(|cores| *cores > 0)
            .map(|cores| At::new(template_at.child("vcpus").child("cores"), cores)),
        image: Image {
            address: filled(cx, disk_at.child("osImage"), disk.os_image.as_ref()),
            source: filled(cx, disk_at.child("source"), disk.source.as_ref()),
            pull_method: filled(cx, disk_at.child("pullMethod"), disk.pull_method.as_ref()),
            secret: filled(cx, disk_at.child("dataVolumeSecretRef"), disk.data_volume_secret_ref.as_ref()),
            headers,
            headers_secret: filled(
                cx,
                disk_at.child("extraHeadersSecretRef"),
                disk.extra_headers_secret_ref.as_ref(),
            ),
        },
        root: Disk {
            size: filled(cx, disk_at.child("size"), disk.size.as_ref()),
            class: filled(cx, disk_at.child("storageClassName"), disk.storage_class_name.as_ref()),
            access: filled(cx, disk_at.child("storageAccessType"), disk.storage_access_type.as_ref()),
            target: filled(cx, disk_at.child("storageTarget"), disk.storage_target.as_ref()),
            at: disk_at,
        },
        further: further_disks(cx, &template_at.child("secondaryDisks"), &template.secondary_disks),
        dns_policy: filled(cx, vm_at.child("dnsPolicy"), vm.dns_policy.as_ref()),
        dns_config: at_key(&vm_at, "dnsConfig", vm.dns_config.as_ref()),
        location: at_key(&vm_at, "location", vm.location.as_ref()),
        subnet: subnet(cx, &vm_at, &vm),
        multi_queue: filled(
            cx,
            vm_at.child("enableNetworkMultiQueue"),
            vm.enable_network_multi_queue.as_ref(),
        ),
        eviction: at_key(&vm_at, "evictionStrategy", vm.eviction_strategy.as_ref()),
        together: text(cx, affinity_at.child("podAffinityPreset"), affinity.pod_affinity_preset.as_ref()),
        apart: text(
            cx,
            affinity_at.child("podAntiAffinityPreset"),
            affinity.pod_anti_affinity_preset.as_ref(),
        ),
        wanted: preset(cx, affinity_at.child("nodeAffinityPreset"), affinity.node_affinity_preset.as_ref()),
        avoided: None,
        spread: spread(cx, &at.child("topologySpreadConstraints"), spec),
    }
}

fn flavor(cx: &mut Cx<'_>, vm_at: &FieldPath, vm: &VirtualMachine) -> Option<At<String>> {
    let at = vm_at.child("flavor");
    let flavor = vm.flavor.as_ref()?;
    if let Some(profile) = filled(cx, at.child("profile"), flavor.profile.as_ref()) {
        cx.warning(
            "not-used",
            &profile.at,
            "flavors have no profiles here, so this is not used",
            "remove `profile`",
        );
    }
    filled(cx, at.child("name"), flavor.name.as_ref())
}

fn subnet(cx: &mut Cx<'_>, vm_at: &FieldPath, vm: &VirtualMachine) -> Option<At<String>> {
    let at = vm_at.child("providerNetwork");
    let network = vm.provider_network.as_ref()?;
    let vpc = network.vpc.as_ref();
    let names = [
        (at.child("name"), network.name.as_ref()),
        (at.join("vpc.name"), vpc.and_then(|vpc| vpc.name.as_ref())),
    ];
    for (at, name) in names {
        if name.is_some_and(|name| !name.is_empty()) {
            let message = "only the subnet matters to Kube-OVN, so this name is not used";
            cx.warning("not-used", &at, message, "keep only `vpc.subnet.name`");
        }
    }
    let name = vpc?.subnet.as_ref()?.name.clone()?;
    At::new(at.join("vpc.subnet.name"), name).filled()
}

fn further_disks(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    disks: &[trellis_api::kkp::cloud::SecondaryDisk],
) -> Vec<Disk> {
    let mut out = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let at = at.index(index);
        out.push(Disk {
            size: filled(cx, at.child("size"), disk.size.as_ref()),
            class: filled(cx, at.child("storageClassName"), disk.storage_class_name.as_ref()),
            access: filled(cx, at.child("storageAccessType"), disk.storage_access_type.as_ref()),
            target: None,
            at,
        });
    }
    out
}

fn preset(cx: &mut Cx<'_>, at: FieldPath, preset: Option<&NodePreset>) -> Option<HostPreset> {
    let preset = preset?;
    let strength = filled(cx, at.child("type"), preset.kind.as_ref());
    let key = filled(cx, at.child("key"), preset.key.as_ref());
    let mut values = Vec::new();
    for (index, value) in preset.values.iter().enumerate() {
        values.extend(filled(cx, at.child("values").index(index), Some(value)));
    }
    Some(HostPreset { at, strength, key, values })
}

fn spread(cx: &mut Cx<'_>, at: &FieldPath, spec: &CloudProviderSpec) -> Vec<Spread> {
    let mut out = Vec::new();
    for (index, constraint) in spec.topology_spread_constraints.iter().enumerate() {
        let at = at.index(index);
        out.push(Spread {
            max_skew: filled(cx, at.child("maxSkew"), constraint.max_skew.as_ref()),
            key: filled(cx, at.child("topologyKey"), constraint.topology_key.as_ref()),
            when_unsatisfiable: filled(
                cx,
                at.child("whenUnsatisfiable"),
                constraint.when_unsatisfiable.as_ref(),
            ),
            at,
        });
    }
    out
}
