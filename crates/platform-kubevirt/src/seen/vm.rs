//! Virtual machines.

use jiff::Timestamp;
use serde::Deserialize;
use trellis_model::Cluster;
use trellis_model::quantity::Bytes;

use super::meta::{Condition, Meta, WireCondition, WireMeta, or_default, time, words};
use super::seen;
use crate::annotations;

/// A virtual machine, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualMachine {
    /// Name, identity and age.
    pub meta: Meta,
    /// The uid of the Machine object it was made for.
    pub machine_uid: Option<Box<str>>,
    /// What was last put into effect of what changes in place, by part; nothing on machines that others made.
    pub applied: Option<Box<str>>,
    /// Which labels and annotations were asked for beside ours, so that they can be taken away again.
    pub wished_keys: Option<Box<str>>,
    /// Whether what its runs are made from has annotations: an entry can only be added to a map that is there.
    pub has_template_annotations: bool,
    /// The firmware's identifier.
    pub firmware_uuid: Option<Box<str>>,
    /// When it runs.
    pub run_strategy: Option<Box<str>>,
    /// Processor sockets, where it says so itself.
    pub sockets: Option<u32>,
    /// Memory of the guest in bytes, where it says so itself.
    pub memory: Option<u64>,
    /// The Secret it reads its user data from at each start.
    pub user_data: Option<Box<str>>,
    /// Its volumes, in order.
    pub volumes: Vec<VolumeUse>,
    /// Its disks by name, in order.
    pub disks: Vec<Box<str>>,
    /// The volumes made with it, in order.
    pub made_volumes: Vec<Box<str>>,
    /// What KubeVirt says of it in one word.
    pub status: PrintableStatus,
    /// How often it failed to start.
    pub start_failure: Option<StartFailure>,
    /// Something cannot be done for it.
    pub failure: Option<Box<Condition>>,
    /// What it is to be cannot be had while it runs.
    pub not_synchronized: Option<Box<Condition>>,
    /// No host was found for it.
    pub unschedulable: Option<Box<Condition>>,
    /// A change was made that needs a restart to take effect.
    pub restart_required: bool,
    /// It needs somebody's hand.
    pub manual_recovery: Option<Box<Condition>>,
}

/// A volume as a machine uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeUse {
    /// Its name within the machine.
    pub name: Box<str>,
    /// The DataVolume behind it, if one is.
    pub data_volume: Option<Box<str>>,
}

/// How often a machine failed to start in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartFailure {
    /// How often.
    pub count: u32,
    /// When it is tried again.
    pub retry_after: Option<Timestamp>,
}

words! {
    /// What KubeVirt says of a machine in one word.
    PrintableStatus {
        /// Nothing runs.
        Stopped = "Stopped",
        /// Its volumes are made.
        Provisioning = "Provisioning",
        /// A volume waits for its place.
        WaitingForVolumeBinding = "WaitingForVolumeBinding",
        /// It is being started.
        Starting = "Starting",
        /// It runs.
        Running = "Running",
        /// It is held.
        Paused = "Paused",
        /// It is being stopped.
        Stopping = "Stopping",
        /// It is being removed.
        Terminating = "Terminating",
        /// It moves to another host.
        Migrating = "Migrating",
        /// It ended before it ran, again and again.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// No host fits.
        ErrorUnschedulable = "ErrorUnschedulable",
        /// An image cannot be pulled.
        ErrImagePull = "ErrImagePull",
        /// An image could not be pulled and will be tried again.
        ImagePullBackOff = "ImagePullBackOff",
        /// A volume it refers to is not there.
        ErrorPvcNotFound = "ErrorPvcNotFound",
        /// A volume could not be made.
        DataVolumeError = "DataVolumeError",
        /// It waits for a machine that moves in from elsewhere.
        WaitingForReceiver = "WaitingForReceiver",
        /// KubeVirt does not know.
        Unknown = "Unknown",
    }
}

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    run_strategy: Option<Box<str>>,
    #[serde(default)]
    running: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    data_volume_templates: Vec<Named>,
    #[serde(default, deserialize_with = "or_default")]
    template: Template,
}

#[derive(Deserialize)]
struct Named {
    metadata: WireMeta,
}

#[derive(Deserialize, Default)]
struct Template {
    #[serde(default, deserialize_with = "or_default")]
    metadata: TemplateMetadata,
    #[serde(default, deserialize_with = "or_default")]
    spec: Instance,
}

#[derive(Deserialize, Default)]
struct TemplateMetadata {
    #[serde(default)]
    annotations: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct Instance {
    #[serde(default, deserialize_with = "or_default")]
    domain: Domain,
    #[serde(default, deserialize_with = "or_default")]
    volumes: Vec<WireVolume>,
}

#[derive(Deserialize, Default)]
struct Domain {
    #[serde(default, deserialize_with = "or_default")]
    cpu: Cpu,
    #[serde(default, deserialize_with = "or_default")]
    memory: Memory,
    #[serde(default, deserialize_with = "or_default")]
    firmware: Firmware,
    #[serde(default, deserialize_with = "or_default")]
    devices: Devices,
}

#[derive(Deserialize, Default)]
struct Cpu {
    #[serde(default)]
    sockets: Option<u32>,
}

#[derive(Deserialize, Default)]
struct Memory {
    #[serde(default)]
    guest: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
struct Firmware {
    #[serde(default)]
    uuid: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
struct Devices {
    #[serde(default, deserialize_with = "or_default")]
    disks: Vec<NamedPart>,
}

#[derive(Deserialize)]
struct NamedPart {
    #[serde(default)]
    name: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireVolume {
    #[serde(default)]
    name: Box<str>,
    #[serde(default, rename = "dataVolume")]
    source: Option<NamedPart>,
    #[serde(default)]
    cloud_init_config_drive: Option<CloudInit>,
    #[serde(default)]
    cloud_init_no_cloud: Option<CloudInit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CloudInit {
    #[serde(default)]
    secret_ref: Option<NamedPart>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, rename = "printableStatus")]
    printable: PrintableStatus,
    #[serde(default)]
    start_failure: Option<WireStartFailure>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStartFailure {
    #[serde(default)]
    consecutive_fail_count: Option<i64>,
    #[serde(default, deserialize_with = "time")]
    retry_after_timestamp: Option<Timestamp>,
}

impl VirtualMachine {
    pub(crate) fn narrowed(wire: Wire) -> Self {
        let Wire { mut metadata, spec, status } = wire;
        let Spec { run_strategy, running, data_volume_templates, template } = spec;
        let Instance { domain, volumes } = template.spec;
        let run_strategy =
            run_strategy.or_else(|| running.map(|on| if on { "Always".into() } else { "Halted".into() }));
        let user_data = volumes.iter().find_map(|volume| {
            let source = volume.cloud_init_config_drive.as_ref().or(volume.cloud_init_no_cloud.as_ref())?;
            Some(source.secret_ref.as_ref()?.name.clone())
        });
        let volumes = volumes.into_iter().map(|volume| VolumeUse {
            name: volume.name,
            data_volume: volume.source.map(|volume| volume.name),
        });
        let mut vm = Self {
            machine_uid: metadata.annotation(annotations::MACHINE_UID),
            applied: metadata.annotation(annotations::APPLIED),
            wished_keys: metadata.annotation(annotations::WISHED_KEYS),
            has_template_annotations: template.metadata.annotations.is_some(),
            meta: metadata.narrowed(),
            firmware_uuid: domain.firmware.uuid,
            run_strategy,
            sockets: domain.cpu.sockets,
            memory: domain.memory.guest.and_then(|text| text.parse::<Bytes>().ok()).map(Bytes::get),
            user_data,
            volumes: volumes.collect(),
            disks: domain.devices.disks.into_iter().map(|disk| disk.name).collect(),
            made_volumes: data_volume_templates
                .into_iter()
                .map(|made| made.metadata.narrowed().name)
                .collect(),
            status: status.printable,
            start_failure: status.start_failure.map(|failure| StartFailure {
                count: failure
                    .consecutive_fail_count
                    .map_or(0, |count| u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
                retry_after: failure.retry_after_timestamp,
            }),
            failure: None,
            not_synchronized: None,
            unschedulable: None,
            restart_required: false,
            manual_recovery: None,
        };
        for condition in status.conditions {
            match &*condition.kind {
                "Failure" if condition.holds() => vm.failure = Some(condition.said().into()),
                "Synchronized" if condition.fails() => vm.not_synchronized = Some(condition.said().into()),
                "PodScheduled" if condition.fails() => vm.unschedulable = Some(condition.said().into()),
                "RestartRequired" => vm.restart_required = condition.holds(),
                "ManualRecoveryRequired" if condition.holds() => {
                    vm.manual_recovery = Some(condition.said().into());
                }
                _ => {}
            }
        }
        vm
    }

    /// Whether we made it or took it over for that cluster: it carries our label.
    pub fn is_of(&self, cluster: &Cluster) -> bool {
        self.meta.cluster.as_deref() == Some(cluster.name.as_str())
    }
}

seen!(
    VirtualMachine from Wire, machine(this) { Some(&this.meta.name) },
    "kubevirt.io", "v1", "VirtualMachine", "virtualmachines", Cluster
);
