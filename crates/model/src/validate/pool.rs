//! Rules for pools.

use crate::cluster::{Cluster, Platform};
use crate::pool::{Pool, Role, UpdateStrategy};
use crate::problem::Problems;

pub(super) fn check(cluster: Option<&Cluster>, pool: &Pool, problems: &mut Problems<'_>) {
    check_numbers(pool, problems);
    check_versions(cluster, pool, problems);
    check_platform(cluster, pool, problems);
    super::machine::check(cluster, pool, problems);
}

/// The most machines of a pool: Kubernetes itself is tested to half as many nodes.
const MAX_REPLICAS: u32 = 10_000;

fn check_numbers(pool: &Pool, problems: &mut Problems<'_>) {
    let spec = &pool.spec;
    let most = spec.autoscaling.map_or(0, |bounds| bounds.max).max(spec.replicas);
    if most > MAX_REPLICAS {
        problems.error(
            "too-many-machines",
            if spec.replicas > MAX_REPLICAS { "replicas" } else { "autoscaling.max" },
            format!("{most} machines are more than the {MAX_REPLICAS} a pool can have"),
            "make several pools, or correct the number",
        );
    }
    if spec.update.strategy == UpdateStrategy::RollingUpdate
        && spec.update.max_surge.is_zero()
        && spec.update.max_unavailable.is_zero()
    {
        problems.error(
            "surge-and-unavailable-zero",
            "update.maxSurge",
            "with neither a machine more nor a machine fewer, no machine can ever be replaced",
            "set maxSurge or maxUnavailable to at least 1",
        );
    }
    if let Some(bounds) = spec.autoscaling {
        if bounds.min > bounds.max {
            problems.error(
                "autoscaling-bounds",
                "autoscaling.min",
                format!("the lower bound {} is above the upper bound {}", bounds.min, bounds.max),
                "swap them",
            );
        } else if !(bounds.min..=bounds.max).contains(&spec.replicas) {
            problems.warning(
                "replicas-outside-autoscaling",
                "replicas",
                format!("{} replicas lie outside the bounds {} to {}", spec.replicas, bounds.min, bounds.max),
                "the autoscaler will move them to the nearest bound",
            );
        }
        if spec.role == Role::ControlPlane {
            problems.error(
                "autoscaled-control-plane",
                "autoscaling",
                "a control plane is not scaled automatically",
                "remove autoscaling",
            );
        }
    }
    if spec.machine_name.is_some() && spec.replicas != 1 {
        problems.error(
            "named-machine-replicas",
            "replicas",
            format!("a pool with a machine name is one machine, not {}", spec.replicas),
            "set replicas to 1 or remove machineName",
        );
    }
    if spec.role == Role::ControlPlane && spec.replicas == 0 {
        problems.error(
            "no-control-plane",
            "replicas",
            "a control plane needs a machine",
            "set replicas to 1, 3 or 5",
        );
    } else if spec.role == Role::ControlPlane && spec.replicas.is_multiple_of(2) {
        problems.warning(
            "even-control-plane",
            "replicas",
            format!(
                "{} control-plane machines survive no more failures than {}",
                spec.replicas,
                spec.replicas - 1
            ),
            "use an odd number",
        );
    }
}

fn check_versions(cluster: Option<&Cluster>, pool: &Pool, problems: &mut Problems<'_>) {
    let (Some(kubelet), Some(cluster)) = (pool.spec.kubelet_version, cluster.and_then(|c| c.spec.version))
    else {
        return;
    };
    let behind = kubelet.minors_behind(cluster);
    if kubelet.major != cluster.major || behind < 0 {
        problems.error(
            "kubelet-too-new",
            "kubeletVersion",
            format!("kubelet {kubelet} is newer than the control plane's {cluster}"),
            "update the cluster's version first",
        );
    } else if behind > 3 {
        problems.error(
            "kubelet-too-old",
            "kubeletVersion",
            format!("kubelet {kubelet} is {behind} minor versions behind the control plane's {cluster}; three are supported"),
            "update the pool before the cluster",
        );
    }
}

fn check_platform(cluster: Option<&Cluster>, pool: &Pool, problems: &mut Problems<'_>) {
    let on_ovirt = matches!(cluster.map(|c| &c.spec.platform), Some(Platform::Ovirt(_)));
    if pool.spec.template.ovirt.is_some() && cluster.is_some() && !on_ovirt {
        problems.error(
            "ovirt-settings",
            "template.ovirt",
            "the cluster is not on oVirt",
            "remove these settings, or read the pool with its own cluster",
        );
    }
}
