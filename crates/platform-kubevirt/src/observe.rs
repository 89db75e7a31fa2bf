//! From what is seen of a machine's objects to what is so.

mod drift;
mod instance;
mod volumes;
mod words;

pub(crate) use drift::Differences;
pub(crate) use volumes::state as volume_state;
pub(crate) use words::shortened;

use trellis_model::change::grows_in_place;
use trellis_platform::{ImageSeen, Observation, VmSeen, VolumeState, Wish};

use crate::golden::{golden_name, image_state};
use crate::machine::PoolOf;
use crate::seen::{
    DataVolume, Host, LauncherPod, Migration, PrintableStatus, Stored, StoredService, VirtualMachine,
    VirtualMachineInstance,
};

/// All that is seen of one machine.
#[derive(Debug, Clone, Default)]
pub struct MachineObjects<'a> {
    /// The Secret with its user data.
    pub secret: Option<&'a Stored>,
    /// The Service that gives it a name, in clusters whose machines have one.
    pub service: Option<&'a StoredService>,
    /// The virtual machine.
    pub vm: Option<&'a VirtualMachine>,
    /// Its run.
    pub instance: Option<&'a VirtualMachineInstance>,
    /// Its volumes, also those that are left of it.
    pub volumes: Vec<&'a DataVolume>,
    /// Its moves.
    pub migrations: Vec<&'a Migration>,
    /// The pods it runs in.
    pub pods: Vec<&'a LauncherPod>,
    /// Those hosts that its run names and that exist; nothing where we may not look.
    pub hosts: Option<Vec<&'a Host>>,
    /// Those hosts that its run names and that the server, asked for them, did not have.
    pub gone_hosts: Vec<&'a str>,
    /// The golden volume that [`golden_name`] says it is cloned from.
    pub golden: Option<&'a DataVolume>,
}

/// What is so of a machine. Nothing is asked, and what was last attempted plays no part.
///
/// Machines that others made (by KKP's machine-controller, OpenShift's actuator) are seen like ours, but nothing of
/// them differs from what is wished: they stay as they are until they are taken over.
pub fn observe(seen: &MachineObjects<'_>, wish: Option<&Wish>) -> Observation {
    let erased = seen.secret.is_some_and(|secret| secret.erased);
    let volumes = volumes::volumes(&seen.volumes);
    // An image matters until the machine has all of its disks.
    let needs_image = seen.vm.is_none() || volumes.iter().any(|volume| volume.state != VolumeState::Ready);
    let image = wish.filter(|_| needs_image).and_then(|wish| {
        let name = golden_name(&wish.cluster, &wish.pool)?;
        let golden = seen.golden.filter(|golden| *golden.meta.name == *name);
        Some(ImageSeen { name, state: image_state(golden) })
    });
    let instance = seen.instance;
    let leftover = instance.filter(|run| seen.vm.is_none_or(|vm| !is_of(run, vm)));
    Observation {
        user_data_stored: seen.secret.is_some() && !erased,
        user_data_erased: erased,
        vm: seen.vm.map(|vm| vm_seen(vm, instance.filter(|run| is_of(run, vm)), seen, wish)),
        leftover: leftover.map(|run| instance::instance(run, seen, wish)),
        volumes,
        image,
    }
}

/// Whether a run is this machine's, and not left of an earlier one of the same name.
fn is_of(instance: &VirtualMachineInstance, vm: &VirtualMachine) -> bool {
    instance.owner.as_ref().is_none_or(|owner| owner.uid == vm.meta.uid)
}

fn vm_seen(
    vm: &VirtualMachine,
    instance: Option<&VirtualMachineInstance>,
    seen: &MachineObjects<'_>,
    wish: Option<&Wish>,
) -> VmSeen {
    let shown = instance.map(|instance| instance::instance(instance, seen, wish));
    let uuid = vm.firmware_uuid.as_ref().or_else(|| instance?.firmware_uuid.as_ref());
    VmSeen {
        uid: vm.meta.uid.to_string(),
        firmware_uuid: uuid.map(ToString::to_string),
        created: vm.meta.created,
        deleting: vm.meta.deleting,
        cluster: vm.meta.cluster.as_deref().unwrap_or_default().to_owned(),
        machine_uid: vm.machine_uid.as_deref().map(str::to_owned),
        trouble: trouble(vm, instance, &seen.volumes),
        instance: shown,
        crash_loop: vm
            .start_failure
            .filter(|failure| failure.count > 0)
            .map(|failure| (failure.count, failure.retry_after)),
        drift: wish.map(|wish| drift::drift(vm, wish)).unwrap_or_default(),
        restart_required: vm.restart_required,
    }
}

/// Whether memory and sockets of a machine may be changed while it exists.
pub(crate) fn grows(pool: &PoolOf<'_>) -> bool {
    grows_in_place(&pool.resolved.template)
}

/// Why nothing runs, from the most telling to the least.
///
/// KubeVirt leaves conditions of an earlier run on a machine that has none, so that only what belongs to its one-word
/// status counts.
fn trouble(
    vm: &VirtualMachine,
    instance: Option<&VirtualMachineInstance>,
    volumes: &[&DataVolume],
) -> Option<String> {
    let said = |condition: Option<&str>, otherwise: &str| {
        Some(shortened(condition.filter(|text| !text.is_empty()).unwrap_or(otherwise)))
    };
    let synchronized = instance
        .and_then(|instance| instance.not_synchronized.as_ref())
        .or(vm.not_synchronized.as_ref())
        .map(|condition| condition.text());
    let failure = vm.failure.as_ref().map(|condition| condition.text());
    match vm.status {
        PrintableStatus::Running
        | PrintableStatus::Migrating
        | PrintableStatus::Paused
        | PrintableStatus::Terminating
        | PrintableStatus::Stopping => None,
        PrintableStatus::ErrorPvcNotFound => said(synchronized, "a volume it refers to is not there"),
        PrintableStatus::DataVolumeError => {
            let why = volumes::first_failure(volumes);
            said(why.as_deref().or(failure), "a volume could not be made")
        }
        PrintableStatus::ErrorUnschedulable => {
            let condition =
                instance.and_then(|instance| instance.unschedulable.as_ref()).or(vm.unschedulable.as_ref());
            Some(words::no_host(condition.map_or("", |condition| condition.text())))
        }
        PrintableStatus::ErrImagePull | PrintableStatus::ImagePullBackOff => {
            said(synchronized.or(failure), "an image of the machine's pod cannot be pulled")
        }
        PrintableStatus::CrashLoopBackOff => {
            let count = vm.start_failure.map_or(0, |failure| failure.count);
            Some(match failure.or(synchronized) {
                Some(why) => format!("it failed to start {count} times in a row: {}", shortened(why)),
                None => format!("it failed to start {count} times in a row"),
            })
        }
        _ if failure.is_some() => failure.map(shortened),
        _ if vm.manual_recovery.is_some() => {
            said(vm.manual_recovery.as_ref().map(|condition| condition.text()), "it needs somebody's hand")
        }
        PrintableStatus::Stopped if is_kept_stopped(vm) => {
            let strategy = vm.run_strategy.as_deref().unwrap_or("unset");
            Some(format!("it is stopped, and its run strategy is {strategy}"))
        }
        PrintableStatus::WaitingForVolumeBinding => {
            Some("a volume waits for a place in the storage".to_owned())
        }
        PrintableStatus::WaitingForReceiver => Some("it waits for a machine that moves in".to_owned()),
        _ => {
            let unsynchronized = instance.and_then(|instance| instance.not_synchronized.as_ref());
            let why = unsynchronized.map(|condition| shortened(condition.text()));
            why.or_else(|| volumes::first_failure(volumes).map(|why| shortened(&why)))
        }
    }
}

/// Whether a stopped machine will stay so.
fn is_kept_stopped(vm: &VirtualMachine) -> bool {
    !matches!(vm.run_strategy.as_deref(), Some("Always" | "RerunOnFailure"))
}
