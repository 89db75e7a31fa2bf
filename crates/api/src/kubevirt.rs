//! `kubevirt.io/v1`: the parts of a `VirtualMachine` that Trellis writes and reads.
//!
//! A typed subset: what is not here is left alone when an object is read, and never written. Choices
//! that KubeVirt spells as text stay text, so that a value added by a newer KubeVirt can still be read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, PodDNSConfig, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::cdi::DataVolumeSpec;
use crate::instancetype::{InstancetypeMatcher, PreferenceMatcher};

/// Whether a field says nothing and is left out.
pub(crate) fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares parts of an object: every field may be absent, and is not written while it says nothing.
/// A switch whose `false` must be written is an `Option<bool>`.
macro_rules! parts {
    ($($(#[$doc:meta])* struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "crate::kubevirt::is_unset")] pub $field: $ty,)*
        }
    )*};
}
pub(crate) use parts;

/// Declares a namespaced object of metadata and spec. It is written with its `apiVersion` and `kind`,
/// and reading another kind fails.
macro_rules! namespaced_object {
    ($(#[$doc:meta])* $name:ident($spec:ty), $group:literal, $version:literal, $plural:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            /// Name, namespace, labels and annotations.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use k8s_openapi::Resource as _;
                use serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct(Self::KIND, 4)?;
                object.serialize_field("apiVersion", Self::API_VERSION)?;
                object.serialize_field("kind", Self::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use k8s_openapi::Resource as _;
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: String,
                    kind: String,
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    spec: $spec,
                }
                let wire = Wire::deserialize(deserializer)?;
                if wire.api_version != Self::API_VERSION || wire.kind != Self::KIND {
                    return Err(serde::de::Error::custom(format!(
                        "expected {} {}, found {} {}",
                        Self::API_VERSION, Self::KIND, wire.api_version, wire.kind
                    )));
                }
                Ok(Self { metadata: wire.metadata, spec: wire.spec })
            }
        }
    };
}
pub(crate) use namespaced_object;

namespaced_object! {
    /// A virtual machine: kept running from a template, together with its volumes.
    VirtualMachine(VirtualMachineSpec), "kubevirt.io", "v1", "virtualmachines"
}

parts! {
    /// What a virtual machine is.
    struct VirtualMachineSpec {
        /// When it runs: `Always`, `RerunOnFailure`, `Manual`, `Halted` or `Once`.
        run_strategy: Option<String>,
        /// The instance type that holds CPU and memory.
        instancetype: Option<InstancetypeMatcher>,
        /// The preference that fills in devices.
        preference: Option<PreferenceMatcher>,
        /// Volumes made with the machine and removed with it.
        data_volume_templates: Vec<DataVolumeTemplate>,
        /// What each start is made from.
        template: VirtualMachineInstanceTemplate,
    }

    /// A volume made with the machine.
    struct DataVolumeTemplate {
        /// Its name, labels and annotations.
        metadata: ObjectMeta,
        /// What it is filled with and where it lies.
        spec: DataVolumeSpec,
    }

    /// What each start of a machine is made from. Only these labels reach the pod, and so Services,
    /// affinities and network policies.
    struct VirtualMachineInstanceTemplate {
        /// Labels and annotations.
        metadata: Option<ObjectMeta>,
        /// The machine itself.
        spec: VirtualMachineInstanceSpec,
    }

    /// A running machine.
    struct VirtualMachineInstanceSpec {
        /// Affinity of the pod.
        affinity: Option<Affinity>,
        /// `amd64`, `arm64` or `s390x`.
        architecture: Option<String>,
        /// Name resolution of the pod.
        dns_config: Option<PodDNSConfig>,
        /// Where name resolution of the pod comes from.
        dns_policy: Option<String>,
        /// The virtual hardware.
        domain: Domain,
        /// What a drain does: `None`, `LiveMigrate`, `LiveMigrateIfPossible` or `External`.
        eviction_strategy: Option<String>,
        /// The guest's host name.
        hostname: Option<String>,
        /// Networks the interfaces are on, by name.
        networks: Vec<Network>,
        /// Labels the host must have.
        node_selector: BTreeMap<String, String>,
        /// Seconds the guest has to shut down.
        termination_grace_period_seconds: Option<i64>,
        /// Taints of hosts that do not matter.
        tolerations: Vec<Toleration>,
        /// How evenly pods are spread.
        topology_spread_constraints: Vec<TopologySpreadConstraint>,
        /// Volumes behind the disks, by name.
        volumes: Vec<Volume>,
    }

    /// Virtual hardware.
    struct Domain {
        /// Processors.
        cpu: Option<Cpu>,
        /// Disks, interfaces and the rest.
        devices: Devices,
        /// Features of the machine.
        features: Option<Features>,
        /// Firmware and identity.
        firmware: Option<Firmware>,
        /// How disks share IO threads: `shared` or `auto`; none without it.
        io_threads_policy: Option<String>,
        /// Memory.
        memory: Option<Memory>,
        /// What the pod asks of its host.
        resources: Resources,
    }

    /// Processors.
    struct Cpu {
        /// Sockets.
        sockets: Option<u32>,
        /// Cores in each socket.
        cores: Option<u32>,
        /// Threads in each core.
        threads: Option<u32>,
        /// The model the guest sees.
        model: Option<String>,
        /// Features of the model.
        features: Vec<CpuFeature>,
        /// A physical CPU for each virtual one.
        dedicated_cpu_placement: Option<bool>,
        /// One more physical CPU for the emulator.
        isolate_emulator_thread: Option<bool>,
        /// What the guest sees of the host's NUMA layout.
        numa: Option<Numa>,
    }

    /// A processor feature.
    struct CpuFeature {
        /// Its name.
        name: String,
        /// `force`, `require`, `optional`, `disable` or `forbid`.
        policy: Option<String>,
    }

    /// What the guest sees of the host's NUMA layout.
    struct Numa {
        /// All of it.
        guest_mapping_passthrough: Option<Empty>,
    }

    /// A choice that has no settings.
    struct Empty {}

    /// Memory.
    struct Memory {
        /// What the guest sees.
        guest: Option<Quantity>,
        /// Pages that back it.
        hugepages: Option<Hugepages>,
    }

    /// Huge pages.
    struct Hugepages {
        /// Their size.
        page_size: String,
    }

    /// What the pod asks of its host.
    struct Resources {
        /// What is set aside.
        requests: BTreeMap<String, Quantity>,
        /// What may not be exceeded.
        limits: BTreeMap<String, Quantity>,
        /// Sets nothing aside for the emulator.
        overcommit_guest_overhead: Option<bool>,
    }

    /// Features of the machine.
    struct Features {
        /// System management mode, which secure boot needs.
        smm: Option<FeatureState>,
    }

    /// A feature that is on or off.
    struct FeatureState {
        /// On, when left out.
        enabled: Option<bool>,
    }

    /// Firmware and identity.
    struct Firmware {
        /// What starts the machine.
        bootloader: Option<Bootloader>,
        /// The machine's identifier, as the guest sees it.
        uuid: Option<String>,
        /// The machine's serial number, as the guest sees it.
        serial: Option<String>,
    }

    /// What starts the machine: one of these.
    struct Bootloader {
        /// BIOS.
        bios: Option<Empty>,
        /// UEFI.
        efi: Option<Efi>,
    }

    /// UEFI.
    struct Efi {
        /// Only signed code is started. On when left out.
        secure_boot: Option<bool>,
    }

    /// Devices.
    struct Devices {
        /// One queue for each CPU on virtio disks.
        block_multi_queue: Option<bool>,
        /// One queue for each CPU on virtio interfaces.
        #[serde(rename = "networkInterfaceMultiqueue")]
        network_interface_multi_queue: Option<bool>,
        /// Disks, each with a volume of its name.
        disks: Vec<Disk>,
        /// Interfaces, each with a network of its name.
        interfaces: Vec<Interface>,
        /// GPUs of the host.
        gpus: Vec<HostDevice>,
        /// Other devices of the host.
        host_devices: Vec<HostDevice>,
        /// A random number generator.
        rng: Option<Empty>,
        /// A TPM.
        tpm: Option<Tpm>,
    }

    /// A disk.
    struct Disk {
        /// Its name and that of its volume.
        name: String,
        /// It is a hard disk.
        disk: Option<DiskTarget>,
        /// Where it stands among the things that are booted from.
        boot_order: Option<u32>,
        /// The host's cache: `none`, `writethrough` or `writeback`.
        cache: Option<String>,
        /// A thread of its own.
        #[serde(rename = "dedicatedIOThread")]
        dedicated_io_thread: Option<bool>,
        /// The serial number the guest sees.
        serial: Option<String>,
    }

    /// How a hard disk is connected.
    struct DiskTarget {
        /// `virtio`, `scsi`, `sata` or `usb`.
        bus: Option<String>,
    }

    /// A network interface, with one binding.
    struct Interface {
        /// Its name and that of its network.
        name: String,
        /// Its hardware address.
        mac_address: Option<String>,
        /// Behind an address translation.
        masquerade: Option<Empty>,
        /// Bridged.
        bridge: Option<Empty>,
        /// A virtual function of a network card.
        sriov: Option<Empty>,
    }

    /// A network: the pod's or one of Multus.
    struct Network {
        /// Its name inside the machine.
        name: String,
        /// The pod network.
        pod: Option<Empty>,
        /// A network attachment definition.
        multus: Option<MultusNetwork>,
    }

    /// A network attachment definition.
    struct MultusNetwork {
        /// `<namespace>/<name>`.
        network_name: String,
        /// Takes the pod network's place.
        default: bool,
    }

    /// A device of the host.
    struct HostDevice {
        /// Its name inside the machine.
        name: String,
        /// The resource hosts offer it as.
        device_name: Option<String>,
    }

    /// A TPM.
    struct Tpm {
        /// Keeps its state over restarts.
        persistent: Option<bool>,
    }

    /// A volume, from one source.
    struct Volume {
        /// Its name inside the machine.
        name: String,
        /// A DataVolume of the namespace.
        data_volume: Option<DataVolumeVolume>,
        /// User data on a config drive.
        cloud_init_config_drive: Option<CloudInitConfigDrive>,
    }

    /// A DataVolume of the namespace.
    struct DataVolumeVolume {
        /// Its name.
        name: String,
    }

    /// User data on a config drive. Keys of the Secrets: `userdata`, `networkdata`.
    struct CloudInitConfigDrive {
        /// The Secret with the user data.
        secret_ref: Option<LocalObjectReference>,
        /// The Secret with the network data.
        network_data_secret_ref: Option<LocalObjectReference>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_with_its_kind_and_read_back_the_same() {
        let mut machine = VirtualMachine::default();
        machine.metadata.name = Some("m".to_owned());
        machine.spec.run_strategy = Some("Always".to_owned());
        let json = serde_json::to_value(&machine).unwrap();
        assert_eq!(json["apiVersion"], "kubevirt.io/v1");
        assert_eq!(json["kind"], "VirtualMachine");
        assert_eq!(serde_json::from_value::<VirtualMachine>(json).unwrap(), machine);
        let other = serde_json::json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {} });
        assert!(serde_json::from_value::<VirtualMachine>(other).is_err());
    }

    #[test]
    fn what_says_nothing_is_not_written_and_an_empty_choice_is() {
        let bootloader = Bootloader { bios: Some(Empty {}), efi: None };
        assert_eq!(serde_json::to_string(&bootloader).unwrap(), r#"{"bios":{}}"#);
        let off = FeatureState { enabled: Some(false) };
        assert_eq!(serde_json::to_string(&off).unwrap(), r#"{"enabled":false}"#);
    }
}
