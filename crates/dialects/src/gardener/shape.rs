//! CPU and memory of a pool's machines: the machine type, refined by the WorkerConfig.

use std::num::NonZeroU32;

use trellis_api::common::Text;
use trellis_api::gardener::device::{self, CpuFeature};
use trellis_api::gardener::worker::Machine;
use trellis_model::machine::{
    Compute, Cpu, CpuFeaturePolicy, DedicatedCpus, HugepageSize, Memory, Shape, Topology,
};
use trellis_model::names::FlavorName;
use trellis_model::quantity::Bytes;

use super::profile::MachineType;
use super::words::{required, suggest};
use super::worker::Draft;
use crate::path::FieldPath;
use crate::shared::choose;

/// The policies of processor features, as KubeVirt spells them.
pub(super) const FEATURE_POLICIES: &[(&str, CpuFeaturePolicy)] = &[
    ("require", CpuFeaturePolicy::Require),
    ("force", CpuFeaturePolicy::Force),
    ("optional", CpuFeaturePolicy::Optional),
    ("disable", CpuFeaturePolicy::Disable),
    ("forbid", CpuFeaturePolicy::Forbid),
];

const CPU: &str = "template.shape.custom.cpu";
const MEMORY: &str = "template.shape.custom.memory";

impl<'d> Draft<'d, '_> {
    /// Reads the shape of a pool's machines.
    pub(super) fn shape(&mut self, machine: &Machine) -> Option<Shape> {
        let at = self.at.child("machine").child("type");
        self.origin("template.shape", &at);
        let refinement = self.refinement();
        let why = "nothing else says how large the machines are";
        let name = required(self.cx, &at, machine.type_.as_deref(), why)?;
        if let Some(found) = self.machine_type(&at, name) {
            return Some(Shape::Custom(Box::new(self.of_type(found, refinement))));
        }
        if refinement.cpu.topology.is_some() && refinement.memory.guest.is_some() {
            return Some(Shape::Custom(Box::new(refinement)));
        }
        if refinement != Compute::default() {
            let config_at = self.config_at.clone();
            let message = format!(
                "nothing says what machine type {name} is, so cpu and memory of this WorkerConfig have no effect"
            );
            let help =
                "read the CloudProfile together with the Shoot, or give both a CPU topology and memory.guest";
            self.cx.notice("unresolved-machine-type", &config_at, message, help);
        }
        if !is_flavor(name) {
            self.needs.push(format!("what machine type {name} is"));
        }
        flavor_name(name).map(Shape::Flavor).or_else(|| self.cx.parse(&at, name).map(Shape::Flavor))
    }

    /// The machine type of that name in the CloudProfile.
    fn machine_type(&mut self, at: &FieldPath, name: &str) -> Option<&'d MachineType> {
        let profile = self.profile?;
        let found = profile.machine_types.get(name);
        match found {
            None if is_flavor(name) => {}
            None => {
                let names: Vec<&str> = profile.machine_types.keys().map(String::as_str).collect();
                let message = format!("the CloudProfile has no machine type `{name}`");
                self.cx.error("unknown-machine-type", at, message, &suggest(name, &names));
            }
            Some(found) => {
                if !found.usable {
                    let message =
                        format!("machine type {name} is marked as not usable; Gardener would refuse it");
                    self.cx.warning("not-usable", at, message, "choose another machine type");
                }
                if found.has_gpu {
                    let message = format!(
                        "machine type {name} has GPUs, but nothing says which device of the host is meant; machines get none"
                    );
                    self.cx.warning("gpu-not-known", at, message, "");
                }
            }
        }
        found
    }

    /// What a machine type sets aside and allows, with what the WorkerConfig says.
    fn of_type(&mut self, found: &MachineType, compute: Compute) -> Compute {
        let mut compute = compute;
        if let Some(profile) = self.profile {
            let parts = [
                (format!("{CPU}.request"), found.at.child("cpu")),
                (format!("{MEMORY}.request"), found.at.child("memory")),
                (format!("{CPU}.limit"), found.limits.at.child("cpu")),
                (format!("{MEMORY}.limit"), found.limits.at.child("memory")),
            ];
            for (model, at) in parts {
                self.origins.add(model, profile.document, &at);
            }
        }
        compute.cpu.request = found.cpu;
        compute.memory.request = found.memory;
        compute.cpu.limit = found.limits.cpu;
        compute.memory.limit = found.limits.memory;
        if let (Some(guest), Some(request)) = (compute.memory.guest, compute.memory.request)
            && guest < request
        {
            let at = self.config_at.child("memory").child("guest");
            let message =
                format!("the guest sees {guest}, less than the {request} that its machine type sets aside");
            let help = "guest memory should lie between the request and the limit of the machine type";
            self.cx.warning("guest-below-request", &at, message, help);
        }
        compute
    }

    /// CPU and memory as far as the WorkerConfig alone says them.
    pub(super) fn refinement(&mut self) -> Compute {
        let Some(config) = self.config else { return Compute::default() };
        let cpu = config.cpu.as_ref().map(|cpu| self.cpu(cpu)).unwrap_or_default();
        let mut memory = config.memory.as_ref().map(|memory| self.memory(memory)).unwrap_or_default();
        memory.overcommit_guest_overhead = config.overcommit_guest_overhead.unwrap_or_default();
        self.config_origin(format!("{MEMORY}.overcommitGuestOverhead"), "overcommitGuestOverhead");
        Compute { cpu, memory }
    }

    fn cpu(&mut self, text: &device::Cpu) -> Cpu {
        let at = self.config_at.child("cpu");
        let mut cpu = Cpu { model: text.model.clone().filter(|model| !model.is_empty()), ..Cpu::default() };
        // KubeVirt takes zero for "not said".
        let part = |number: Option<u32>| number.and_then(NonZeroU32::new);
        let (sockets, cores, threads) = (part(text.sockets), part(text.cores), part(text.threads));
        if sockets.or(cores).or(threads).is_some() {
            let or_one = |part: Option<NonZeroU32>| part.unwrap_or(NonZeroU32::MIN);
            cpu.topology =
                Some(Topology { sockets: or_one(sockets), cores: or_one(cores), threads: or_one(threads) });
            self.origin(format!("{CPU}.topology"), &at);
        }
        self.origin(format!("{CPU}.model"), &at.child("model"));
        if text.max_sockets.is_some() {
            let message = "`maxSockets` has no effect: the platform decides how far machines can grow";
            self.cx.warning("no-effect", &at.child("maxSockets"), message, "remove it");
        }
        for (index, feature) in text.features.iter().enumerate() {
            let at = at.child("features").index(index);
            let (name, policy) = match feature {
                CpuFeature::Name(name) => (Some(name.as_str()), None),
                CpuFeature::Policy(feature) => (feature.name.as_deref(), feature.policy.as_deref()),
            };
            let Some(name) = required(self.cx, &at.child("name"), name, "a feature has a name") else {
                continue;
            };
            let policy = match policy.filter(|policy| !policy.is_empty()) {
                Some(policy) => choose(self.cx, &at.child("policy"), policy, FEATURE_POLICIES),
                None => Some(CpuFeaturePolicy::default()),
            };
            let Some(policy) = policy else { continue };
            if cpu.features.insert(name.to_owned(), policy).is_some() {
                let message = format!("the feature {name} is listed twice");
                self.cx.error("duplicate-name", &at, message, "list it once");
            }
        }
        cpu.dedicated = self.dedicated(&at, text);
        cpu
    }

    fn dedicated(&mut self, at: &FieldPath, text: &device::Cpu) -> Option<DedicatedCpus> {
        self.origin(format!("{CPU}.dedicated"), &at.child("dedicatedCpuPlacement"));
        self.origin(format!("{CPU}.dedicated.numaPassthrough"), &at.child("numa"));
        if text.realtime.is_some() {
            let message = "real-time scheduling cannot be had";
            self.cx.error("unsupported", &at.child("realtime"), message, "remove `realtime`");
        }
        let isolate_emulator_thread = text.isolate_emulator_thread.unwrap_or_default();
        let numa_passthrough =
            text.numa.as_ref().is_some_and(|numa| numa.guest_mapping_passthrough.is_some());
        if text.dedicated_cpu_placement.unwrap_or_default() {
            return Some(DedicatedCpus { isolate_emulator_thread, numa_passthrough });
        }
        for (field, wanted) in
            [("isolateEmulatorThread", isolate_emulator_thread), ("numa", numa_passthrough)]
        {
            if wanted {
                let message = format!("`{field}` is only possible with CPUs of one's own");
                self.cx.error(
                    "needs-dedicated-cpus",
                    &at.child(field),
                    message,
                    "set dedicatedCpuPlacement to true",
                );
            }
        }
        None
    }

    fn memory(&mut self, text: &device::Memory) -> Memory {
        let at = self.config_at.child("memory");
        self.origin(format!("{MEMORY}.guest"), &at.child("guest"));
        self.origin(format!("{MEMORY}.hugepages"), &at.child("hugepages"));
        if text.max_guest.is_some() {
            let message = "`maxGuest` has no effect: the platform decides how far machines can grow";
            self.cx.warning("no-effect", &at.child("maxGuest"), message, "remove it");
        }
        let hugepages = text.hugepages.as_ref().and_then(|pages| {
            let at = at.child("hugepages").child("pageSize");
            let size = pages.page_size.as_ref().map(Text::as_str);
            let size = required(self.cx, &at, size, "huge pages have a size")?;
            let bytes: Bytes = self.cx.parse(&at, size)?;
            let page =
                [HugepageSize::Mebi2, HugepageSize::Gibi1].into_iter().find(|page| page.bytes() == bytes);
            if page.is_none() {
                self.cx.error(
                    "invalid-value",
                    &at,
                    format!("there are no huge pages of {size}"),
                    "use `2Mi` or `1Gi`",
                );
            }
            page
        });
        let guest = self.cx.parse_opt(&at.child("guest"), text.guest.as_ref().map(Text::as_str));
        Memory { guest, hugepages, ..Memory::default() }
    }
}

/// A flavor's name from a machine type's: flavors have no dots, underscores or capitals.
fn flavor_name(name: &str) -> Option<FlavorName> {
    FlavorName::new(name.to_lowercase().replace(['.', '_'], "-")).ok()
}

/// Whether Trellis's own catalogue has a flavor of that name.
fn is_flavor(name: &str) -> bool {
    flavor_name(name).is_some_and(|name| trellis_model::flavor::catalogue().contains_key(&name))
}
