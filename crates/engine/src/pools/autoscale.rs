//! What is said to the cluster autoscaler, and what it is told by people: annotations, as it reads them.
//!
//! The autoscaler of each family looks for the bounds under the family's own group. To scale from nothing it must know
//! what a machine would have before there is one; that is written beside.

use std::collections::BTreeMap;

use trellis_model::pool::{Autoscaling, PoolSpec};
use trellis_model::quantity::{Bytes, MilliCpu};
use trellis_platform::Capacity;

/// A family of machine objects, as far as the autoscaler tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `cluster.k8s.io`.
    Kkp,
    /// `machine.openshift.io`.
    OpenShift,
    /// `trellis.dev`.
    Trellis,
}

impl Family {
    fn group(self) -> &'static str {
        match self {
            Self::Kkp => "cluster.k8s.io",
            Self::OpenShift => "machine.openshift.io",
            Self::Trellis => "trellis.dev",
        }
    }

    /// The annotation with the lower bound.
    pub fn min_key(self) -> String {
        format!("{}/cluster-api-autoscaler-node-group-min-size", self.group())
    }

    /// The annotation with the upper bound.
    pub fn max_key(self) -> String {
        format!("{}/cluster-api-autoscaler-node-group-max-size", self.group())
    }
}

/// Annotations that say what a machine would have.
mod keys {
    pub(super) const CPU: &str = "capacity.cluster-autoscaler.kubernetes.io/cpu";
    pub(super) const MEMORY: &str = "capacity.cluster-autoscaler.kubernetes.io/memory";
    pub(super) const DISK: &str = "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk";
    pub(super) const LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
    pub(super) const TAINTS: &str = "capacity.cluster-autoscaler.kubernetes.io/taints";
    pub(super) const OPENSHIFT_CPU: &str = "machine.openshift.io/vCPU";
    pub(super) const OPENSHIFT_MEMORY: &str = "machine.openshift.io/memoryMb";
}

/// The annotations we write on the objects of a family: what is here and not in [`annotations`] is taken away.
pub fn owned(family: Family) -> Vec<String> {
    let hints: &[&str] = match family {
        Family::OpenShift => {
            &[keys::OPENSHIFT_CPU, keys::OPENSHIFT_MEMORY, keys::DISK, keys::LABELS, keys::TAINTS]
        }
        Family::Kkp | Family::Trellis => &[keys::CPU, keys::MEMORY, keys::DISK, keys::LABELS, keys::TAINTS],
    };
    let bounds = [family.min_key(), family.max_key()];
    bounds.into_iter().chain(hints.iter().map(|hint| (*hint).to_owned())).collect()
}

/// What is written on a pool's object: its bounds, and what a machine of it has as far as that is known. Nothing for a
/// pool that is not scaled automatically.
pub fn annotations(family: Family, pool: &PoolSpec, capacity: Option<Capacity>) -> BTreeMap<String, String> {
    let Some(bounds) = pool.autoscaling else { return BTreeMap::new() };
    let mut all = BTreeMap::from([
        (family.min_key(), bounds.min.to_string()),
        (family.max_key(), bounds.max.to_string()),
    ]);
    let mut put = |key: &str, value: String| all.insert(key.to_owned(), value);
    if let Some(capacity) = capacity {
        let (cpu, memory) = (MilliCpu::new(capacity.milli_cpus), capacity.memory_bytes);
        match family {
            // Whole processors and mebibytes, rounded down: better a machine too many than a pod without a place.
            Family::OpenShift => {
                put(keys::OPENSHIFT_CPU, (cpu.get() / 1000).to_string());
                put(keys::OPENSHIFT_MEMORY, (memory >> 20).to_string());
            }
            Family::Kkp | Family::Trellis => {
                put(keys::CPU, cpu.to_string());
                put(keys::MEMORY, Bytes::new(memory).to_string());
            }
        }
    }
    put(keys::DISK, pool.template.root_disk.size.to_string());
    // The kubelet writes its own label for the architecture; the autoscaler would guess it.
    let architecture = format!("kubernetes.io/arch={}", pool.template.architecture.as_str());
    let labels = pool.node_labels.iter().map(|(key, value)| format!("{key}={value}"));
    put(keys::LABELS, labels.chain([architecture]).collect::<Vec<_>>().join(","));
    if !pool.node_taints.is_empty() {
        put(keys::TAINTS, taints(pool));
    }
    all
}

fn taints(pool: &PoolSpec) -> String {
    let taint = |taint: &trellis_model::network::NodeTaint| {
        let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        format!("{}{value}:{}", taint.key, taint.effect.as_str())
    };
    pool.node_taints.iter().map(taint).collect::<Vec<_>>().join(",")
}

/// Bounds that cannot be used; the pool is then not scaled automatically.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// One bound is there and the other is not.
    #[error("annotation {0} is missing: an autoscaled pool has both bounds")]
    Missing(String),
    /// It is no number.
    #[error("annotation {0} is {1:?}, not a whole number from 0")]
    NotANumber(String, String),
    /// They contradict each other.
    #[error("the lower bound {min} is above the upper bound {max}")]
    Crossed {
        /// The lower bound.
        min: u32,
        /// The upper bound.
        max: u32,
    },
}

/// The bounds that stand on an object of a family.
pub fn bounds(
    family: Family,
    annotations: &BTreeMap<String, String>,
) -> Result<Option<Autoscaling>, BoundsError> {
    let read = |key: String| match annotations.get(&key) {
        None => Ok(None),
        Some(text) => match text.trim().parse::<u32>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(BoundsError::NotANumber(key, text.clone())),
        },
    };
    match (read(family.min_key())?, read(family.max_key())?) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(BoundsError::Missing(family.min_key())),
        (Some(_), None) => Err(BoundsError::Missing(family.max_key())),
        (Some(min), Some(max)) if min > max => Err(BoundsError::Crossed { min, max }),
        (Some(min), Some(max)) => Ok(Some(Autoscaling { min, max })),
    }
}

/// A number of machines, kept within bounds. The autoscaler itself never brings a pool into its bounds.
pub fn within(bounds: Autoscaling, replicas: u32) -> u32 {
    replicas.min(bounds.max).max(bounds.min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> PoolSpec {
        serde_json::from_value(serde_json::json!({
            "cluster": "c",
            "autoscaling": { "min": 0, "max": 5 },
            "nodeLabels": { "tier": "gpu", "a.example/b": "" },
            "nodeTaints": [
                { "key": "dedicated", "value": "gpu", "effect": "NoSchedule" },
                { "key": "alone", "effect": "NoExecute" },
            ],
            "template": {
                "shape": { "custom": { "cpu": { "request": "2" }, "memory": { "guest": "4Gi" } } },
                "image": { "os": "ubuntu" },
                "rootDisk": { "size": "20Gi" },
            },
        }))
        .unwrap()
    }

    const CAPACITY: Capacity = Capacity { milli_cpus: 3500, memory_bytes: 8 << 30 };

    fn text(all: &BTreeMap<String, String>) -> Vec<String> {
        all.iter().map(|(key, value)| format!("{key}: {value}")).collect()
    }

    #[test]
    fn an_autoscaler_can_start_from_nothing() {
        let all = annotations(Family::Kkp, &pool(), Some(CAPACITY));
        assert_eq!(
            text(&all),
            [
                "capacity.cluster-autoscaler.kubernetes.io/cpu: 3500m",
                "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk: 20Gi",
                "capacity.cluster-autoscaler.kubernetes.io/labels: a.example/b=,tier=gpu,kubernetes.io/arch=amd64",
                "capacity.cluster-autoscaler.kubernetes.io/memory: 8Gi",
                "capacity.cluster-autoscaler.kubernetes.io/taints: alone:NoExecute,dedicated=gpu:NoSchedule",
                "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size: 5",
                "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size: 0",
            ]
        );
        let openshift = annotations(Family::OpenShift, &pool(), Some(CAPACITY));
        assert_eq!(openshift["machine.openshift.io/vCPU"], "3");
        assert_eq!(openshift["machine.openshift.io/memoryMb"], "8192");
        assert!(!openshift.contains_key("capacity.cluster-autoscaler.kubernetes.io/cpu"));
        for family in [Family::Kkp, Family::OpenShift, Family::Trellis] {
            let all = annotations(family, &pool(), Some(CAPACITY));
            let mut owned = owned(family);
            owned.sort();
            assert_eq!(
                all.keys().cloned().collect::<Vec<_>>(),
                owned,
                "all that is written can be taken away"
            );
            assert_eq!(bounds(family, &all), Ok(Some(Autoscaling { min: 0, max: 5 })));
        }
        let fixed = PoolSpec { autoscaling: None, ..pool() };
        assert!(annotations(Family::Trellis, &fixed, Some(CAPACITY)).is_empty());
    }

    #[test]
    fn bounds_are_read_with_care() {
        let read = |min: &str, max: &str| {
            let entry = |key: String, text: &str| (text != "-").then(|| (key, text.to_owned()));
            let family = Family::Kkp;
            let all = [entry(family.min_key(), min), entry(family.max_key(), max)];
            bounds(family, &all.into_iter().flatten().collect()).map_err(|error| error.to_string())
        };
        assert_eq!(read("-", "-"), Ok(None));
        assert_eq!(read("1", "3"), Ok(Some(Autoscaling { min: 1, max: 3 })));
        assert!(read("1", "-").unwrap_err().contains("max-size is missing"));
        assert!(read("-", "1").unwrap_err().contains("min-size is missing"));
        assert!(read("-1", "1").unwrap_err().contains("not a whole number"));
        assert_eq!(read("3", "1").unwrap_err(), "the lower bound 3 is above the upper bound 1");
        let bounds = Autoscaling { min: 2, max: 4 };
        assert_eq!([0, 2, 3, 9].map(|replicas| within(bounds, replicas)), [2, 2, 3, 4]);
    }
}
