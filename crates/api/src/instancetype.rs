//! `instancetype.kubevirt.io/v1beta1`: machine shapes and device defaults as objects of the infra cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use crate::kubevirt::{CpuFeature, Hugepages, Numa, namespaced_object, parts};

namespaced_object! {
    /// CPU and memory of machines, fixed: a machine that refers to it may not set them itself.
    VirtualMachineInstancetype(InstancetypeSpec),
    "instancetype.kubevirt.io", "v1beta1", "virtualmachineinstancetypes"
}

namespaced_object! {
    /// Defaults for what a machine does not set itself.
    VirtualMachinePreference(PreferenceSpec),
    "instancetype.kubevirt.io", "v1beta1", "virtualmachinepreferences"
}

parts! {
    /// Refers to an instance type.
    struct InstancetypeMatcher {
        /// `VirtualMachineInstancetype` or `VirtualMachineClusterInstancetype`.
        kind: Option<String>,
        /// Its name.
        name: String,
    }

    /// Refers to a preference.
    struct PreferenceMatcher {
        /// `VirtualMachinePreference` or `VirtualMachineClusterPreference`.
        kind: Option<String>,
        /// Its name.
        name: String,
    }

    /// CPU and memory.
    struct InstancetypeSpec {
        /// Processors.
        cpu: InstancetypeCpu,
        /// Memory.
        memory: InstancetypeMemory,
        /// How disks share IO threads; a machine with a policy of its own conflicts with it.
        io_threads_policy: Option<String>,
        /// Labels the host must have.
        node_selector: BTreeMap<String, String>,
    }

    /// Processors.
    struct InstancetypeCpu {
        /// How many the guest sees.
        guest: u32,
        /// The model the guest sees.
        model: Option<String>,
        /// A physical CPU for each virtual one.
        #[serde(rename = "dedicatedCPUPlacement")]
        dedicated_cpu_placement: Option<bool>,
        /// One more physical CPU for the emulator.
        isolate_emulator_thread: Option<bool>,
        /// What the guest sees of the host's NUMA layout.
        numa: Option<Numa>,
    }

    /// Memory.
    struct InstancetypeMemory {
        /// What the guest sees.
        guest: Quantity,
        /// Pages that back it.
        hugepages: Option<Hugepages>,
        /// The share of the guest's memory, in hundredths, that the host does not set aside.
        overcommit_percent: Option<u32>,
    }

    /// Defaults for a machine.
    struct PreferenceSpec {
        /// Of its processors.
        cpu: Option<CpuPreferences>,
        /// Of its devices.
        devices: Option<DevicePreferences>,
    }

    /// Defaults for processors.
    struct CpuPreferences {
        /// Where the CPUs of an instance type go: `sockets`, `cores`, `threads`, `spread` or `any`.
        #[serde(rename = "preferredCPUTopology")]
        preferred_cpu_topology: Option<String>,
        /// How `spread` shares them out.
        spread_options: Option<SpreadOptions>,
        /// Features of the model.
        #[serde(rename = "preferredCPUFeatures")]
        preferred_cpu_features: Vec<CpuFeature>,
    }

    /// How CPUs are shared out over sockets, cores and threads.
    struct SpreadOptions {
        /// `SocketsCores`, `CoresThreads` or `SocketsCoresThreads`.
        across: Option<String>,
        /// Cores in each socket; with `CoresThreads` threads in each core, which must be two.
        ratio: Option<u32>,
    }

    /// Defaults for devices.
    struct DevicePreferences {
        /// The host's cache for disks.
        preferred_disk_cache: Option<String>,
        /// A thread for each virtio disk.
        preferred_disk_dedicated_io_thread: Option<bool>,
        /// One queue for each CPU on virtio disks.
        preferred_block_multi_queue: Option<bool>,
        /// One queue for each CPU on virtio interfaces.
        preferred_network_interface_multi_queue: Option<bool>,
    }
}
