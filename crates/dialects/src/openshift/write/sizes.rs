//! CPU and memory of a machine, as far as OpenShift's manifests can say.

use trellis_api::openshift::pools::OvirtCpu;
use trellis_model::machine::{Compute, HugepageSize, Shape};
use trellis_model::quantity::Bytes;
use trellis_model::{Cluster, Pool};

/// CPU and memory, unless an instance type of the infra cluster holds them.
pub(super) fn compute(cluster: Option<&Cluster>, pool: &Pool) -> Option<Compute> {
    match &pool.spec.template.shape {
        Shape::Custom(compute) => Some(compute.as_ref().clone()),
        Shape::Flavor(name) => match cluster {
            Some(cluster) => cluster.flavor(name).map(|flavor| flavor.compute),
            None => trellis_model::flavor::catalogue().remove(name).map(|flavor| flavor.compute),
        },
        Shape::Instancetype(_) => None,
    }
}

/// CPUs set aside, or else those the guest sees.
pub(super) fn requested_cpus(compute: &Compute) -> Option<u32> {
    compute.cpu.request.map(trellis_model::quantity::MilliCpu::ceil).or(compute.cpu.guest_cpus())
}

/// Memory set aside, or else what the guest sees.
pub(super) fn requested_memory(compute: &Compute) -> Option<Bytes> {
    compute.memory.request.or(compute.memory.guest_bytes())
}

/// Processors as oVirt knows them.
pub(super) fn ovirt_cpu(compute: &Compute) -> Option<OvirtCpu> {
    let (sockets, cores, threads) = match &compute.cpu.topology {
        Some(topology) => (topology.sockets.get(), topology.cores.get(), topology.threads.get()),
        None => (compute.cpu.guest_cpus()?, 1, 1),
    };
    Some(OvirtCpu { sockets: Some(sockets), cores: Some(cores), threads: Some(threads) })
}

/// Whole mebibytes, rounded up.
pub(super) fn mebibytes(bytes: Bytes) -> Option<u32> {
    u32::try_from(bytes.get().div_ceil(Bytes::mebi(1).get())).ok()
}

/// Whole gibibytes, rounded up.
pub(super) fn gibibytes(bytes: Bytes) -> Option<u32> {
    u32::try_from(bytes.get().div_ceil(Bytes::gibi(1).get())).ok()
}

/// Huge pages in kibibytes.
pub(super) fn hugepages(compute: &Compute) -> Option<u32> {
    compute.memory.hugepages.map(|size| match size {
        HugepageSize::Mebi2 => 2048,
        HugepageSize::Gibi1 => 1_048_576,
    })
}
