//! What a machine of the machine API is on its platform.

use trellis_api::openshift::provider::{KubevirtProviderSpec, OvirtProviderSpec, SecretRef};
use trellis_model::cluster::Platform;
use trellis_model::image::{Image, ImageDelivery, ImageSource, InfraRef, OperatingSystem};
use trellis_model::machine::{Compute, Cpu, MachineTemplate, Memory, Shape, Topology, UserData};
use trellis_model::names::ClusterName;
use trellis_model::network::{Binding, NetworkSource, Nic, NicNetwork, SharedNetwork};
use trellis_model::ovirt::OvirtMachine;
use trellis_model::quantity::{Bytes, MilliCpu};
use trellis_model::volume::{AccessMode, DiskDevice, RootDisk, Storage};

use super::super::{KUBEVIRT_SPEC, OVIRT_SPEC, STOP_GRACE_SECONDS};
use super::ovirt::{self, Sizes};
use crate::path::FieldPath;
use crate::shared::{At, Reader, template as bare_template};

/// What a machine on KubeVirt is when nothing is said.
const MEMORY: Bytes = Bytes::new(2_048_000_000);
const DISK: Bytes = Bytes::gibi(35);

/// Reads the provider spec, whose kind says for which platform it is.
pub(super) fn template(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    kind: Option<&str>,
    cluster: &ClusterName,
) -> Option<MachineTemplate> {
    if !reader.cx.has(at) {
        let message = "missing field `value`: what the machine is on its platform";
        reader.cx.error("missing-field", at, message, "add `providerSpec.value`");
        return None;
    }
    match kind {
        Some(kind) if kind == KUBEVIRT_SPEC.1 => kubevirt(reader, at, cluster),
        Some(kind) if kind == OVIRT_SPEC.1 => ovirt(reader, at, cluster),
        other => {
            let (message, code) = match other {
                Some(other) => (
                    format!("`{other}` is for a platform that Trellis does not have"),
                    "unsupported-platform",
                ),
                None => {
                    ("missing field `kind`: it says for which platform this is".to_owned(), "missing-field")
                }
            };
            let help = format!("write `kind: {}` or `kind: {}`", KUBEVIRT_SPEC.1, OVIRT_SPEC.1);
            reader.cx.error(code, &at.child("kind"), message, &help);
            None
        }
    }
}

/// Warns about a version nobody knows; the fields have been the same in all that there were.
fn check_version(reader: &mut Reader<'_, '_>, at: &FieldPath, given: &str, known: &str) {
    if given != known {
        let message = format!("the version `{given}` is not known, so this is read as {known}");
        reader.cx.warning("unknown-version", &at.child("apiVersion"), message, &format!("write `{known}`"));
    }
}

fn rhcos(source: Option<ImageSource>) -> Image {
    Image {
        os: OperatingSystem::Rhcos,
        version: None,
        source,
        virtual_size: None,
        delivery: ImageDelivery::default(),
    }
}

fn kubevirt(reader: &mut Reader<'_, '_>, at: &FieldPath, cluster: &ClusterName) -> Option<MachineTemplate> {
    let spec: KubevirtProviderSpec = reader.cx.embedded(at)?;
    check_version(reader, at, &spec.api_version, KUBEVIRT_SPEC.0);
    let field =
        |key: &str, text: Option<&str>| At::new(at.child(key), text.unwrap_or_default().to_owned()).filled();
    if field("credentialsSecretName", spec.credentials_secret_name.as_deref()).is_some() {
        let message = "credentials belong to the cluster, so `credentialsSecretName` is not used";
        reader.cx.warning(
            "not-used",
            &at.child("credentialsSecretName"),
            message,
            "remove `credentialsSecretName`",
        );
    }
    let source = field("sourcePvcName", spec.source_pvc_name.as_deref());
    reader.origin("template.image.source", &at.child("sourcePvcName"));
    let source = reader.parse("template.image.source", source.as_ref());
    let image = rhcos(source.map(|name| ImageSource::Pvc(InfraRef { namespace: None, name })));

    let memory =
        field("requestedMemory", spec.requested_memory.as_ref().map(trellis_api::common::Text::as_str));
    let memory = match &memory {
        Some(text) => reader.parse("template.shape.custom.memory", Some(text))?,
        None => MEMORY,
    };
    reader.origin("template.shape.custom.cpu", &at.child("requestedCPU"));
    let cpu = match spec.requested_cpu.filter(|cpus| *cpus > 0) {
        Some(cpus) => Cpu { request: Some(MilliCpu::whole(cpus)), ..Cpu::default() },
        // KubeVirt shows a guest that asks for nothing one CPU.
        None => Cpu { topology: Some(Topology::sockets(std::num::NonZeroU32::MIN)), ..Cpu::default() },
    };
    let compute = Compute { cpu, memory: Memory { request: Some(memory), ..Memory::default() } };

    let size =
        field("requestedStorage", spec.requested_storage.as_ref().map(trellis_api::common::Text::as_str));
    let size = match &size {
        Some(text) => reader.parse("template.rootDisk.size", Some(text))?,
        None => DISK,
    };
    let class = field("storageClassName", spec.storage_class_name.as_deref());
    let mut storage = Storage {
        class: reader.parse("template.rootDisk.storage.class", class.as_ref()),
        access_mode: Some(spec.persistent_volume_access_mode.unwrap_or(AccessMode::ReadWriteMany)),
        ..Storage::default()
    };
    inherit(reader, cluster, &mut storage);
    let root_disk = RootDisk { size, storage, device: DiskDevice::default() };
    let mut template = bare_template(Shape::Custom(Box::new(compute)), image, root_disk);
    template.stop_grace_seconds = STOP_GRACE_SECONDS;
    let ignition = field("ignitionSecretName", spec.ignition_secret_name.as_deref());
    template.user_data.secret = reader.parse("template.userData.secret", ignition.as_ref());
    template.nics = nics(reader, at, &spec, cluster);
    Some(template)
}

/// Leaves out what the cluster says too.
fn inherit(reader: &mut Reader<'_, '_>, cluster: &ClusterName, storage: &mut Storage) {
    let Some(cluster) = reader.cx.estate().cluster(cluster) else { return };
    let Platform::Kubevirt(platform) = &cluster.spec.platform else { return };
    if storage.class == platform.storage.class {
        storage.class = None;
    }
    if storage.access_mode == platform.storage.access_mode {
        storage.access_mode = None;
    }
}

/// The one interface of a machine, unless the cluster implies it.
fn nics(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    spec: &KubevirtProviderSpec,
    cluster: &ClusterName,
) -> Vec<Nic> {
    let name_at = at.child("networkName");
    let Some(name) = spec.network_name.as_deref().filter(|name| !name.is_empty()) else {
        if spec.interface_binding_method.is_some() {
            let message = "without `networkName` the machine is on the pod network, so `interfaceBindingMethod` is not used";
            reader.cx.warning("not-used", &at.child("interfaceBindingMethod"), message, "add `networkName`");
        }
        return Vec::new();
    };
    let binding = spec.interface_binding_method.map_or(Binding::Bridge, Into::into);
    if let Some(cluster) = reader.cx.estate().cluster(cluster)
        && let [network] = cluster.spec.network.machine_networks.as_slice()
        && !cluster.spec.network.uses_pod_network()
        && network.binding == binding
        && matches!(&network.source, NetworkSource::Shared(shared) if shared.name.as_str() == name)
    {
        return Vec::new();
    }
    reader.origin("template.nics", &name_at);
    let (main, name) = (reader.cx.parse(&name_at, "main"), reader.cx.parse(&name_at, name));
    match (main, name) {
        (Some(main), Some(name)) => {
            vec![Nic::new(main, NicNetwork::Shared(SharedNetwork { namespace: None, name }), binding)]
        }
        _ => Vec::new(),
    }
}

fn ovirt(reader: &mut Reader<'_, '_>, at: &FieldPath, cluster: &ClusterName) -> Option<MachineTemplate> {
    let spec: OvirtProviderSpec = reader.cx.embedded(at)?;
    check_version(reader, at, &spec.api_version, OVIRT_SPEC.0);
    let field = |key: &str, text: &Option<String>| {
        text.clone().and_then(|text| At::new(at.child(key), text).filled())
    };
    for (key, value) in [("id", &spec.id), ("name", &spec.name)] {
        if value.as_deref().is_some_and(|value| !value.is_empty()) {
            let message = format!("Trellis names machines itself, so `{key}` is not used");
            reader.cx.warning("not-used", &at.child(key), message, &format!("remove `{key}`"));
        }
    }
    let number = |key: &str, number: Option<u32>| number.map(|number| At::new(at.child(key), number));
    let instance_type = field("instance_type_id", &spec.instance_type_id);
    let sizes = Sizes {
        cpu: spec.cpu.clone().map(|cpu| At::new(at.child("cpu"), cpu)),
        memory_mb: number("memory_mb", spec.memory_mb.filter(|memory| *memory > 0)),
        hugepages: number("hugepages", spec.hugepages),
    };
    if let Some(instance_type) =
        instance_type.as_ref().filter(|_| sizes.cpu.is_some() || sizes.memory_mb.is_some())
    {
        ovirt::instance_type_conflict(reader, &instance_type.at);
    }
    reader.origin("template.shape", at);
    let compute = ovirt::compute(reader, &sizes);
    let disk_at = at.join("os_disk.size_gb");
    reader.origin("template.rootDisk.size", &disk_at);
    let size = spec.os_disk.as_ref().and_then(|disk| disk.size_gb);
    if size.is_none() {
        let message = "missing field `os_disk.size_gb`: the size of the boot disk in gibibytes";
        reader.cx.error("missing-field", &disk_at, message, "add `os_disk: {size_gb: 120}`");
    }
    let secret = |key: &str, secret: &Option<SecretRef>| {
        secret.clone().and_then(|secret| At::new(at.child(key).child("name"), secret.name).filled())
    };
    let machine = OvirtMachine {
        vm_type: spec.vm_type.unwrap_or_default(),
        guaranteed_memory: spec.guaranteed_memory_mb.filter(|memory| *memory > 0).map(Bytes::mebi),
        affinity_groups: spec.affinity_groups_names.clone(),
        resize_and_pin: spec.auto_pinning_policy.is_some_and(ovirt::pins),
        clone_disks: spec.clone,
        sparse: spec.sparse,
        format: spec.format,
        storage_domain_id: reader.parse(
            "template.ovirt.storageDomainId",
            field("storage_domain_id", &spec.storage_domain_id).as_ref(),
        ),
        instance_type_id: reader.parse("template.ovirt.instanceTypeId", instance_type.as_ref()),
        cluster_id: reader.parse("template.ovirt.clusterId", field("cluster_id", &spec.cluster_id).as_ref()),
        credentials: reader.parse(
            "template.ovirt.credentials",
            secret("credentialsSecret", &spec.credentials_secret).as_ref(),
        ),
    };
    check_guaranteed(reader, at, &spec);
    reader.origin("template.image.source", &at.child("template_name"));
    let image =
        rhcos(spec.template_name.clone().filter(|name| !name.is_empty()).map(ImageSource::OvirtTemplate));
    let root_disk =
        RootDisk { size: Bytes::gibi(size?), storage: Storage::default(), device: DiskDevice::default() };
    let mut template = bare_template(Shape::Custom(Box::new(compute)), image, root_disk);
    template.stop_grace_seconds = STOP_GRACE_SECONDS;
    let user_data = secret("userDataSecret", &spec.user_data_secret);
    template.user_data = UserData {
        secret: reader.parse("template.userData.secret", user_data.as_ref()),
        ..UserData::default()
    };
    template.nics = profiles(reader, at, &spec);
    template.ovirt = Some(without_repeats(reader, cluster, machine));
    Some(template)
}

fn check_guaranteed(reader: &mut Reader<'_, '_>, at: &FieldPath, spec: &OvirtProviderSpec) {
    if let (Some(guaranteed), Some(memory)) = (spec.guaranteed_memory_mb, spec.memory_mb)
        && guaranteed > memory
    {
        let message = format!("{guaranteed} mebibytes cannot be guaranteed of {memory}");
        let help = "guarantee at most `memory_mb`";
        reader.cx.error("invalid-value", &at.child("guaranteed_memory_mb"), message, help);
    }
}

/// Leaves out what the cluster says too.
fn without_repeats(
    reader: &mut Reader<'_, '_>,
    cluster: &ClusterName,
    mut machine: OvirtMachine,
) -> OvirtMachine {
    if let Some(cluster) = reader.cx.estate().cluster(cluster)
        && let Platform::Ovirt(platform) = &cluster.spec.platform
    {
        machine.cluster_id = machine.cluster_id.filter(|id| *id != platform.cluster_id);
        machine.storage_domain_id = machine.storage_domain_id.filter(|id| *id != platform.storage_domain_id);
    }
    machine
}

fn profiles(reader: &mut Reader<'_, '_>, at: &FieldPath, spec: &OvirtProviderSpec) -> Vec<Nic> {
    let at = at.child("network_interfaces");
    let mut out = Vec::new();
    for (number, interface) in (1_usize..).zip(&spec.network_interfaces) {
        let at = at.index(number - 1).child("vnic_profile_id");
        let name = reader.cx.parse(&at, &format!("nic{number}"));
        if let (Some(name), Some(profile)) = (name, reader.cx.parse(&at, &interface.vnic_profile_id)) {
            out.push(Nic::new(name, NicNetwork::OvirtProfile(profile), Binding::Bridge));
        }
    }
    out
}
