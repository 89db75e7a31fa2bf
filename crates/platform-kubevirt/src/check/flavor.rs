//! What of a flavor an instance type and a preference cannot hold.

use trellis_model::machine::{Compute, Shape};
use trellis_model::problem::Problems;

use crate::flavors;
use crate::machine::PoolOf;

pub(super) fn check(pool: &PoolOf<'_>, problems: &mut Problems<'_>) {
    let template = &pool.resolved.template;
    let (Shape::Flavor(name), Some(flavor)) = (&template.shape, &pool.resolved.flavor) else { return };
    let Compute { cpu, memory } = &flavor.compute;
    let path = "template.shape.flavor";
    if cpu.dedicated.is_none() && cpu.request.is_some() {
        problems.notice(
            "flavor-cpu-request",
            path,
            format!(
                "an instance type cannot say how much CPU time is set aside; KubeVirt's share of each CPU holds for flavor {name}"
            ),
            "the infra cluster's KubeVirt sets that share for all machines (cpuAllocationRatio)",
        );
    }
    for (what, is_limited) in
        [("CPU time", cpu.dedicated.is_none() && cpu.limit.is_some()), ("memory", memory.limit.is_some())]
    {
        if is_limited {
            problems.warning(
                "flavor-limit",
                path,
                format!("an instance type cannot limit {what}; the limit of flavor {name} has no effect"),
                "write CPU and memory out in the pool instead of using a flavor",
            );
        }
    }
    if let (Some(request), Some(guest)) = (memory.request, memory.guest_bytes())
        && request > guest
    {
        problems.warning(
            "flavor-memory-request",
            path,
            format!("an instance type cannot set aside more memory than the guest sees; {request} of flavor {name} become {guest}"),
            "write CPU and memory out in the pool instead of using a flavor",
        );
    }
    let Some(topology) = cpu.topology else { return };
    let sockets_only = topology.sockets.get() == topology.total();
    if !flavors::can_lay_out(topology) {
        problems.warning(
            "flavor-topology",
            path,
            format!(
                "a preference cannot lay out {} threads in each core; the guest sees sockets",
                topology.threads
            ),
            "use one or two threads in each core",
        );
    } else if template.preference.is_some() && !sockets_only {
        problems.warning(
            "flavor-topology",
            "template.preference",
            format!(
                "the preference takes the place of that of flavor {name}, which lays out cores and threads"
            ),
            "remove the preference, or let it lay out CPUs itself",
        );
    }
}
