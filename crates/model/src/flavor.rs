//! Named machine shapes: Trellis's catalogue, and those a cluster defines itself.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::{Compute, Cpu, DedicatedCpus, HugepageSize, IoThreads, Memory, Topology};
use crate::names::FlavorName;
use crate::quantity::Bytes;
use crate::util::is_default;
use crate::volume::DiskCache;

/// A named machine shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flavor {
    /// What it is for, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// CPU and memory.
    pub compute: Compute,
    /// How disks share their IO threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_threads: Option<IoThreads>,
    /// An IO thread for each disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dedicated_io_threads: bool,
    /// The host's cache for disks that do not say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_cache: Option<DiskCache>,
    /// One queue for each virtual CPU on virtio disks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub block_multi_queue: bool,
    /// One queue for each virtual CPU on virtio network interfaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub network_multi_queue: bool,
}

/// The families of the catalogue. Every family comes in several sizes.
const FAMILIES: &[Family] = &[
    Family {
        name: "standard",
        summary: "shares its host's CPUs and has all of its memory",
        sizes: &[2, 4, 8],
        gibi_per_cpu: 4,
        build: standard,
    },
    Family {
        name: "high-performance",
        summary: "has pinned CPUs, huge pages, IO threads and a CPU for the emulator",
        sizes: &[4, 8, 16],
        gibi_per_cpu: 4,
        build: high_performance,
    },
    Family {
        name: "high-density",
        summary: "shares CPUs and memory with others; many fit on one host",
        sizes: &[1, 2, 4],
        gibi_per_cpu: 2,
        build: high_density,
    },
    Family {
        name: "database",
        summary: "has pinned CPUs, plain pages and an IO thread for each disk",
        sizes: &[4, 8, 16],
        gibi_per_cpu: 8,
        build: database,
    },
];

struct Family {
    name: &'static str,
    summary: &'static str,
    sizes: &'static [u32],
    gibi_per_cpu: u32,
    build: fn(u32, Bytes) -> Flavor,
}

/// Trellis's own flavors by name.
pub fn catalogue() -> BTreeMap<FlavorName, Flavor> {
    let mut flavors = BTreeMap::new();
    for family in FAMILIES {
        for &cpus in family.sizes {
            let memory = Bytes::gibi(cpus * family.gibi_per_cpu);
            let mut flavor = (family.build)(cpus, memory);
            flavor.summary = format!("{cpus} CPUs, {memory}: {}", family.summary);
            if let Ok(name) = FlavorName::new(format!("{}-{cpus}", family.name)) {
                flavors.insert(name, flavor);
            }
        }
    }
    flavors
}

fn sockets(cpus: u32) -> Option<Topology> {
    NonZeroU32::new(cpus).map(Topology::sockets)
}

fn standard(cpus: u32, memory: Bytes) -> Flavor {
    Flavor {
        summary: String::new(),
        compute: Compute {
            cpu: Cpu { topology: sockets(cpus), ..Cpu::default() },
            memory: Memory { guest: Some(memory), ..Memory::default() },
        },
        io_threads: None,
        dedicated_io_threads: false,
        disk_cache: None,
        block_multi_queue: false,
        network_multi_queue: true,
    }
}

fn high_performance(cpus: u32, memory: Bytes) -> Flavor {
    let mut flavor = standard(cpus, memory);
    flavor.compute.cpu.model = Some("host-passthrough".to_owned());
    flavor.compute.cpu.dedicated =
        Some(DedicatedCpus { isolate_emulator_thread: true, numa_passthrough: false });
    flavor.compute.memory.hugepages = Some(HugepageSize::Mebi2);
    flavor.io_threads = Some(IoThreads::Shared);
    flavor.disk_cache = Some(DiskCache::None);
    flavor.block_multi_queue = true;
    flavor
}

fn high_density(cpus: u32, memory: Bytes) -> Flavor {
    let mut flavor = standard(cpus, memory);
    // No CPU request: the platform's own allocation ratio already promises each CPU several times.
    // Half as much again as the host has: pages of equal guests are merged, the rest is hope.
    flavor.compute.memory.request = Some(memory.divided_by_percent(150));
    flavor.compute.memory.overcommit_guest_overhead = true;
    flavor.compute.memory.page_merging = true;
    flavor.network_multi_queue = false;
    flavor
}

fn database(cpus: u32, memory: Bytes) -> Flavor {
    let mut flavor = high_performance(cpus, memory);
    // Databases manage their memory themselves; huge pages behind their back cost more than they give.
    flavor.compute.memory.hugepages = None;
    flavor.io_threads = Some(IoThreads::Auto);
    flavor.dedicated_io_threads = true;
    flavor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_in_the_catalogue_in_every_size() {
        let names: Vec<String> = catalogue().keys().map(ToString::to_string).collect();
        assert_eq!(names.len(), 12);
        for name in ["standard-2", "high-performance-16", "high-density-1", "database-8"] {
            assert!(names.iter().any(|n| n == name), "{name} is missing from {names:?}");
        }
    }

    #[test]
    fn the_families_differ_in_what_makes_them() {
        let all = catalogue();
        let flavor = |name: &str| all[&FlavorName::new(name).unwrap()].clone();
        assert!(flavor("high-performance-4").compute.memory.hugepages.is_some());
        assert!(flavor("database-4").compute.memory.hugepages.is_none());
        assert!(flavor("database-4").dedicated_io_threads);
        let dense = flavor("high-density-4").compute;
        assert!(dense.memory.request < dense.memory.guest && dense.cpu.dedicated.is_none());
    }
}
