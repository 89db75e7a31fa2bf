//! The machine pools of an install-config.

use trellis_api::common::Text;
use trellis_api::openshift::install::{InstallConfig, OtherPlatforms};
use trellis_api::openshift::pools::{Hyperthreading, KubevirtPool, MachinePool, OvirtPool};
use trellis_model::cluster::Platform;
use trellis_model::image::{Image, ImageDelivery, OperatingSystem};
use trellis_model::machine::{Architecture, Compute, Cpu, Firmware, MachineTemplate, Memory, Shape};
use trellis_model::ovirt::{OvirtMachine, OvirtVmType};
use trellis_model::pool::{PoolSpec, Role};
use trellis_model::quantity::{Bytes, MilliCpu};
use trellis_model::volume::{DiskDevice, RootDisk, Storage};
use trellis_model::{Cluster, Pool, Subject};

use super::super::{COMPUTE_GROUP, CONTROL_PLANE_GROUP, MASTER, STOP_GRACE_SECONDS, WORKER};
use super::ovirt::{self, Sizes};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::{At, Reader, template};

/// How many machines a pool has that does not say.
const REPLICAS: u32 = 3;

/// What machines on KubeVirt are when nothing is said.
const KUBEVIRT_CPUS: u32 = 4;
const KUBEVIRT_MEMORY: Bytes = Bytes::new(16_000_000_000);
const KUBEVIRT_DISK: Bytes = Bytes::gibi(120);

/// What machines on oVirt are when nothing is said. The installer really means 16348 mebibytes.
const OVIRT_CORES: u32 = 4;
const OVIRT_MEMORY_MB: u32 = 16348;
const OVIRT_DISK_GB: u32 = 120;

/// Reads all pools of a cluster.
pub(super) fn pools(cx: &mut Cx<'_>, config: &InstallConfig, cluster: &Cluster) {
    let root = FieldPath::root();
    let default = MachinePool::default();
    let control = config.control_plane.as_ref().unwrap_or(&default);
    let control_at = root.child("controlPlane");
    if let Some(name) = control.name.as_deref().filter(|name| *name != MASTER && !name.is_empty()) {
        let message = format!("the control plane is called `{MASTER}`, not `{name}`");
        cx.error("invalid-value", &control_at.child("name"), message, &format!("write `name: {MASTER}`"));
    }
    pool(cx, config, cluster, &control_at, control, MASTER, Role::ControlPlane);
    let compute_at = root.child("compute");
    if config.compute.is_empty() {
        pool(cx, config, cluster, &compute_at, &default, WORKER, Role::Worker);
    }
    for (index, compute) in config.compute.iter().enumerate() {
        let name = compute.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(WORKER);
        pool(cx, config, cluster, &compute_at.index(index), compute, name, Role::Worker);
    }
}

fn pool(
    cx: &mut Cx<'_>,
    config: &InstallConfig,
    cluster: &Cluster,
    at: &FieldPath,
    settings: &MachinePool,
    name: &str,
    role: Role,
) {
    if !is_on(cx, at, settings, cluster.spec.platform.name()) {
        return;
    }
    let Some(name) = cx.parse(&at.child("name"), name) else { return };
    let mut reader = Reader { subject: Subject::Pool(cluster.name.clone(), Clone::clone(&name)), cx };
    reader.origin("", at);
    reader.origin("replicas", &at.child("replicas"));
    if settings.hyperthreading == Some(Hyperthreading::Disabled) {
        let message = "virtual processors show what their topology says, so `hyperthreading` is not used";
        reader.cx.warning("not-used", &at.child("hyperthreading"), message, "remove `hyperthreading`");
    }
    let made = match &cluster.spec.platform {
        Platform::Kubevirt(_) => kubevirt(&mut reader, config, at, settings),
        Platform::Ovirt(_) => ovirt_template(&mut reader, config, at, settings, role),
    };
    let Some(mut template) = made else { return };
    if let Some(architecture) = settings.architecture {
        reader.origin("template.architecture", &at.child("architecture"));
        template.architecture = architecture;
        if architecture == Architecture::Arm64 {
            template.firmware = Firmware::Uefi;
        }
    }
    let mut spec = PoolSpec::new(cluster.name.clone(), settings.replicas.unwrap_or(REPLICAS), template);
    spec.role = role;
    reader.cx.estate().pools.push(Pool { name, namespace: cluster.namespace.clone(), spec });
}

/// Whether a pool is on the platform of its cluster.
fn is_on(cx: &mut Cx<'_>, at: &FieldPath, settings: &MachinePool, platform: &str) -> bool {
    let Some(given) = &settings.platform else { return true };
    let at = at.child("platform");
    let mut wrong = OtherPlatforms::NAMES.iter().copied().find(|name| cx.has(&at.child(name)));
    for (name, there) in [("kubevirt", given.kubevirt.is_some()), ("ovirt", given.ovirt.is_some())] {
        if there && name != platform {
            wrong = Some(name);
        }
    }
    if let Some(wrong) = wrong {
        let message = format!("the pool is on `{wrong}`, but the cluster is on `{platform}`");
        let help = format!("write `platform.{platform}` in the pool");
        cx.error("platform-conflict", &at.child(wrong), message, &help);
    }
    wrong.is_none()
}

/// The first of some values that is there, with its place.
fn first<T: Clone, L>(
    layers: &[(FieldPath, Option<&L>)],
    key: &str,
    get: impl Fn(&L) -> Option<&T>,
) -> Option<At<T>> {
    layers.iter().find_map(|(at, layer)| Some(At::new(at.child(key), get(layer.as_ref()?)?.clone())))
}

fn kubevirt(
    reader: &mut Reader<'_, '_>,
    config: &InstallConfig,
    at: &FieldPath,
    settings: &MachinePool,
) -> Option<MachineTemplate> {
    let defaults = config.platform.kubevirt.as_ref().and_then(|p| p.default_machine_platform.as_ref());
    let layers: [(FieldPath, Option<&KubevirtPool>); 2] = [
        (at.join("platform.kubevirt"), settings.platform.as_ref().and_then(|p| p.kubevirt.as_ref())),
        (FieldPath::root().join("platform.kubevirt.defaultMachinePlatform"), defaults),
    ];
    let text = |found: Option<At<Text>>| found.map(|found| At::new(found.at, found.value.0));
    let cpu = first(&layers, "cpu", |pool| pool.cpu.as_ref());
    if let Some(cpu) = &cpu {
        reader.origin("template.shape.custom.cpu", &cpu.at);
    }
    let memory = text(first(&layers, "memory", |pool| pool.memory.as_ref()));
    let size = text(first(&layers, "storageSize", |pool| pool.storage_size.as_ref()));
    let memory = amount(reader, "template.shape.custom.memory", memory.as_ref(), KUBEVIRT_MEMORY);
    let size = amount(reader, "template.rootDisk.size", size.as_ref(), KUBEVIRT_DISK);
    let compute = Compute {
        cpu: Cpu {
            request: Some(MilliCpu::whole(cpu.map_or(KUBEVIRT_CPUS, |cpu| cpu.value))),
            ..Cpu::default()
        },
        memory: Memory { request: Some(memory?), ..Memory::default() },
    };
    let mut made = template(Shape::Custom(Box::new(compute)), rhcos(), root_disk(size?));
    made.stop_grace_seconds = STOP_GRACE_SECONDS;
    Some(made)
}

fn amount(
    reader: &mut Reader<'_, '_>,
    path: &str,
    text: Option<&At<String>>,
    default: Bytes,
) -> Option<Bytes> {
    match text.filter(|text| !text.value.is_empty()) {
        Some(text) => reader.parse(path, Some(text)),
        None => Some(default),
    }
}

/// OpenShift's own image; an install-config cannot say where it is.
fn rhcos() -> Image {
    Image {
        os: OperatingSystem::Rhcos,
        version: None,
        source: None,
        virtual_size: None,
        delivery: ImageDelivery::default(),
    }
}

fn root_disk(size: Bytes) -> RootDisk {
    RootDisk { size, storage: Storage::default(), device: DiskDevice::default() }
}

fn ovirt_template(
    reader: &mut Reader<'_, '_>,
    config: &InstallConfig,
    at: &FieldPath,
    settings: &MachinePool,
    role: Role,
) -> Option<MachineTemplate> {
    let platform = config.platform.ovirt.as_ref()?;
    let layers: [(FieldPath, Option<&OvirtPool>); 2] = [
        (at.join("platform.ovirt"), settings.platform.as_ref().and_then(|p| p.ovirt.as_ref())),
        (
            FieldPath::root().join("platform.ovirt.defaultMachinePlatform"),
            platform.default_machine_platform.as_ref(),
        ),
    ];
    let (compute, instance_type_id) = sizes(reader, &layers);
    let disk = first(&layers, "osDisk", |pool| pool.os_disk.as_ref()?.size_gb.as_ref());
    if let Some(disk) = &disk {
        reader.origin("template.rootDisk.size", &disk.at);
    }
    let disk_gb = disk.map_or(OVIRT_DISK_GB, |disk| disk.value);
    let (vm_type, group) = match role {
        Role::ControlPlane => (OvirtVmType::HighPerformance, CONTROL_PLANE_GROUP.0),
        Role::Worker => (OvirtVmType::Server, COMPUTE_GROUP.0),
    };
    let groups = first(&layers, "affinityGroupsNames", |pool| pool.affinity_groups_names.as_ref());
    let groups = match (groups, &platform.affinity_groups) {
        (Some(groups), known) => {
            let known: Option<Vec<&str>> =
                known.as_ref().map(|known| known.iter().map(|g| g.name.as_str()).collect());
            ovirt::check_groups(
                reader,
                &groups,
                &known.unwrap_or(vec![CONTROL_PLANE_GROUP.0, COMPUTE_GROUP.0]),
            );
            groups.value
        }
        (None, None) => vec![group.to_owned()],
        (None, Some(_)) => Vec::new(),
    };
    let copied =
        |get: fn(&OvirtPool) -> Option<&bool>, key: &str| first(&layers, key, get).map(|found| found.value);
    let machine = OvirtMachine {
        vm_type: first(&layers, "vmType", |pool| pool.vm_type.as_ref()).map_or(vm_type, |found| found.value),
        affinity_groups: groups,
        resize_and_pin: first(&layers, "autoPinningPolicy", |pool| pool.auto_pinning_policy.as_ref())
            .is_some_and(|found| ovirt::pins(found.value)),
        clone_disks: copied(|pool| pool.clone.as_ref(), "clone"),
        sparse: copied(|pool| pool.sparse.as_ref(), "sparse"),
        format: first(&layers, "format", |pool| pool.format.as_ref()).map(|found| found.value),
        instance_type_id,
        ..OvirtMachine::default()
    };
    reader.origin("template.ovirt", &layers[0].0);
    let mut made = template(Shape::Custom(Box::new(compute)), rhcos(), root_disk(Bytes::gibi(disk_gb)));
    made.stop_grace_seconds = STOP_GRACE_SECONDS;
    made.ovirt = Some(machine);
    Some(made)
}

/// CPU and memory, or the instance type that has them. A layer that names an instance type hides those below it.
fn sizes(
    reader: &mut Reader<'_, '_>,
    layers: &[(FieldPath, Option<&OvirtPool>); 2],
) -> (Compute, Option<trellis_model::names::Uuid>) {
    let hugepages = first(layers, "hugepages", |pool| pool.hugepages.as_ref());
    let is_typed = |layer: &(FieldPath, Option<&OvirtPool>)| {
        layer.1.is_some_and(|pool| pool.instance_type_id.as_deref().is_some_and(|id| !id.is_empty()))
    };
    let is_sized = |layer: &(FieldPath, Option<&OvirtPool>)| {
        layer.1.is_some_and(|pool| pool.cpu.is_some() || pool.memory_mb.is_some())
    };
    for layer in layers.iter().filter(|layer| is_typed(layer) && is_sized(layer)) {
        ovirt::instance_type_conflict(reader, &layer.0.child("instanceTypeID"));
    }
    let deciding = layers.iter().find(|layer| is_typed(layer) || is_sized(layer));
    if deciding.is_some_and(is_typed) {
        let id = first(layers, "instanceTypeID", |pool| pool.instance_type_id.as_ref());
        let id = reader.parse("template.ovirt.instanceTypeId", id.as_ref());
        let sizes = Sizes { cpu: None, memory_mb: None, hugepages };
        return (ovirt::compute(reader, &sizes), id);
    }
    let cpu = first(layers, "cpu", |pool| pool.cpu.as_ref());
    let memory = first(layers, "memoryMB", |pool| pool.memory_mb.as_ref());
    let nowhere = &layers[0].0;
    let sizes = Sizes {
        cpu: Some(cpu.unwrap_or_else(|| At::new(nowhere.child("cpu"), ovirt::cores(OVIRT_CORES)))),
        memory_mb: Some(memory.unwrap_or_else(|| At::new(nowhere.child("memoryMB"), OVIRT_MEMORY_MB))),
        hugepages,
    };
    (ovirt::compute(reader, &sizes), None)
}
