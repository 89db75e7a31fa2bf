//! CPU and memory that are written out, as a domain takes them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use trellis_api::kubevirt::{Cpu, CpuFeature, Empty, Hugepages, Memory, Numa, Resources};
use trellis_model::machine::{self, Compute, CpuFeaturePolicy, DedicatedCpus};
use trellis_model::quantity::Bytes;

/// The label of hosts that merge equal memory pages.
pub(crate) const PAGE_MERGING_HOSTS: (&str, &str) = ("kubevirt.io/ksm-enabled", "true");

/// An amount of bytes as Kubernetes takes it.
pub(crate) fn quantity(amount: Bytes) -> Quantity {
    Quantity(amount.to_string())
}

/// Processors as the guest sees them.
pub(crate) fn cpu(cpu: &machine::Cpu) -> Cpu {
    // Sockets, because only they can be added to a machine that runs.
    let (sockets, cores, threads) = match &cpu.topology {
        Some(topology) => (topology.sockets.get(), topology.cores.get(), topology.threads.get()),
        None => (cpu.guest_cpus().unwrap_or(1).max(1), 1, 1),
    };
    Cpu {
        sockets: Some(sockets),
        cores: Some(cores),
        threads: Some(threads),
        model: cpu.model.clone(),
        features: features(cpu),
        dedicated_cpu_placement: cpu.dedicated.map(|_| true),
        isolate_emulator_thread: isolates_emulator(cpu.dedicated),
        numa: cpu.dedicated.and_then(numa),
    }
}

/// Processor features, by name.
pub(crate) fn features(cpu: &machine::Cpu) -> Vec<CpuFeature> {
    let feature = |(name, policy): (&String, &CpuFeaturePolicy)| CpuFeature {
        name: name.clone(),
        policy: Some(policy_name(*policy).to_owned()),
    };
    cpu.features.iter().map(feature).collect()
}

fn policy_name(policy: CpuFeaturePolicy) -> &'static str {
    match policy {
        CpuFeaturePolicy::Force => "force",
        CpuFeaturePolicy::Require => "require",
        CpuFeaturePolicy::Optional => "optional",
        CpuFeaturePolicy::Disable => "disable",
        CpuFeaturePolicy::Forbid => "forbid",
    }
}

/// Whether the emulator gets a CPU of its own; unset when it does not.
pub(crate) fn isolates_emulator(dedicated: Option<DedicatedCpus>) -> Option<bool> {
    dedicated.filter(|dedicated| dedicated.isolate_emulator_thread).map(|_| true)
}

/// What the guest sees of the host's NUMA layout.
pub(crate) fn numa(dedicated: DedicatedCpus) -> Option<Numa> {
    dedicated.numa_passthrough.then_some(Numa { guest_mapping_passthrough: Some(Empty {}) })
}

/// Memory as the guest sees it, always written out: KubeVirt would guess it from requests and limits.
pub(crate) fn memory(memory: &machine::Memory) -> Memory {
    Memory { guest: memory.guest_bytes().map(quantity), hugepages: hugepages(memory) }
}

/// The pages behind the memory.
pub(crate) fn hugepages(memory: &machine::Memory) -> Option<Hugepages> {
    memory.hugepages.map(|size| Hugepages { page_size: size.bytes().to_string() })
}

/// What the pod asks of its host.
pub(crate) fn resources(compute: &Compute) -> Resources {
    let Compute { cpu, memory } = compute;
    let pinned = cpu.dedicated.is_some();
    // Pinned CPUs are counted by KubeVirt itself from the topology; it refuses any other number.
    let cpu_request = cpu.request.filter(|_| !pinned);
    let cpu_limit = cpu.limit.filter(|_| !pinned);
    // A pinned machine must be of the Guaranteed class, for which KubeVirt wants memory asked for.
    let memory_request =
        memory.request.or_else(|| memory.guest_bytes().filter(|_| pinned && memory.limit.is_none()));
    Resources {
        requests: amounts(cpu_request.map(|cpu| cpu.to_string()), memory_request),
        limits: amounts(cpu_limit.map(|cpu| cpu.to_string()), memory.limit),
        overcommit_guest_overhead: overcommits_overhead(memory),
    }
}

/// Whether nothing is set aside for the emulator; unset when it is.
pub(crate) fn overcommits_overhead(memory: &machine::Memory) -> Option<bool> {
    memory.overcommit_guest_overhead.then_some(true)
}

fn amounts(cpu: Option<String>, memory: Option<Bytes>) -> BTreeMap<String, Quantity> {
    let cpu = cpu.map(|cpu| ("cpu".to_owned(), Quantity(cpu)));
    cpu.into_iter().chain(memory.map(|memory| ("memory".to_owned(), quantity(memory)))).collect()
}
