//! Combinations of CPU and memory that KubeVirt refuses.

use trellis_model::machine::{Architecture, Cpu, Memory, Shape};
use trellis_model::problem::Problems;
use trellis_model::resolve::ResolvedPool;

/// The only processor model KubeVirt has for arm64.
const ARM_MODEL: &str = "host-passthrough";

pub(super) fn check(pool: &ResolvedPool, problems: &mut Problems<'_>) {
    let Some(compute) = pool.compute() else { return };
    let is_arm = pool.template.architecture == Architecture::Arm64;
    check_cpu(&compute.cpu, is_arm, problems);
    if let Shape::Custom(compute) = &pool.template.shape {
        check_memory(&compute.memory, compute.cpu.dedicated.is_some(), problems);
    }
}

fn check_cpu(cpu: &Cpu, is_arm: bool, problems: &mut Problems<'_>) {
    if let Some(model) = cpu.model.as_deref().filter(|model| is_arm && *model != ARM_MODEL) {
        problems.error(
            "cpu-model-on-arm",
            "template.shape",
            format!("arm64 machines see the processor of their host, not a model {model}"),
            "leave the model out",
        );
    }
    let threads = cpu.topology.map_or(1, |topology| topology.threads.get());
    let most = if is_arm { 1 } else { 2 };
    if cpu.dedicated.is_some() && threads > most {
        problems.error(
            "pinned-threads",
            "template.shape",
            format!("{threads} threads in each core are more than the {most} that can be pinned"),
            "use more cores or sockets instead",
        );
    }
}

fn check_memory(memory: &Memory, pinned: bool, problems: &mut Problems<'_>) {
    let path = "template.shape.custom.memory.request";
    if let (Some(page), Some(request)) = (memory.hugepages, memory.request)
        && !request.get().is_multiple_of(page.bytes().get())
    {
        problems.error(
            "hugepages-request",
            path,
            format!("{request} is not a whole number of pages of {}", page.bytes()),
            "leave the request out, or make it a multiple of the page size",
        );
    }
    if let (Some(request), Some(limit)) = (memory.request, memory.limit)
        && pinned
        && request != limit
    {
        problems.error(
            "pinned-memory",
            path,
            format!(
                "with pinned CPUs all memory is set aside; {request} and the limit {limit} must be the same"
            ),
            "leave one of them out",
        );
    }
}
