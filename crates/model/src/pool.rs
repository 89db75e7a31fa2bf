//! A pool of equal machines.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::MachineTemplate;
use crate::names::{ClusterName, LabelKey, LabelValue, MachineName, NamespaceName, PoolName};
use crate::network::NodeTaint;
use crate::quantity::Count;
use crate::util::is_default;
use crate::version::KubernetesVersion;

/// A pool of equal machines of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: PoolName,
    /// The namespace of the control site its object lives in.
    pub namespace: Option<NamespaceName>,
    /// What it is.
    pub spec: PoolSpec,
}

/// What a pool is: how many machines, of what kind, and how they change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.cluster == oldSelf.cluster", "message": "a pool cannot move to another cluster" },
    { "rule": "(has(self.role) ? self.role : 'worker') == (has(oldSelf.role) ? oldSelf.role : 'worker')", "message": "workers cannot become a control plane, nor the other way round" },
    { "rule": "!has(self.machineName) || !has(self.replicas) || self.replicas == 1", "message": "a pool with a machineName is exactly one machine" },
    { "rule": "!has(self.autoscaling) || !has(self.role) || self.role != 'control-plane'", "message": "a control plane is not scaled automatically" }
]))]
pub struct PoolSpec {
    /// The cluster it belongs to.
    pub cluster: ClusterName,
    /// What its nodes are for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
    /// How many machines it has.
    #[serde(default = "one_replica", skip_serializing_if = "is_one_replica")]
    pub replicas: u32,
    /// The bounds an autoscaler keeps to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// The pool is exactly one machine, with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_name: Option<MachineName>,
    /// How a changed template reaches the machines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update: UpdatePolicy,
    /// Which machines go first when there are too many.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delete_policy: DeletePolicy,
    /// Labels of the machine objects and of the VMs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_labels: BTreeMap<LabelKey, LabelValue>,
    /// Annotations of the machine objects and of the VMs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_annotations: BTreeMap<LabelKey, String>,
    /// Labels of the tenant's nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<LabelKey, LabelValue>,
    /// Annotations of the tenant's nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_annotations: BTreeMap<LabelKey, String>,
    /// Taints of the tenant's nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub node_taints: BTreeSet<NodeTaint>,
    /// The version of the kubelet; the cluster's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<KubernetesVersion>,
    /// What each machine is.
    pub template: MachineTemplate,
}

fn one_replica() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one_replica(replicas: &u32) -> bool {
    *replicas == 1
}

impl PoolSpec {
    /// A pool of that many workers and nothing else said.
    pub fn new(cluster: ClusterName, replicas: u32, template: MachineTemplate) -> Self {
        Self {
            cluster,
            role: Role::Worker,
            replicas,
            autoscaling: None,
            machine_name: None,
            update: UpdatePolicy::default(),
            delete_policy: DeletePolicy::default(),
            machine_labels: BTreeMap::new(),
            machine_annotations: BTreeMap::new(),
            node_labels: BTreeMap::new(),
            node_annotations: BTreeMap::new(),
            node_taints: BTreeSet::new(),
            kubelet_version: None,
            template,
        }
    }
}

/// What the nodes of a pool are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// They run the cluster itself.
    ControlPlane,
    /// They run what the tenant brings.
    #[default]
    Worker,
}

impl Role {
    /// As labels spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

/// The bounds an autoscaler keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.min <= self.max", "message": "the lower bound must not be above the upper bound" }
]))]
pub struct Autoscaling {
    /// Never fewer machines.
    pub min: u32,
    /// Never more machines.
    pub max: u32,
}

/// How a changed template reaches the machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!(has(self.maxSurge) && (self.maxSurge == 0 || self.maxSurge == '0%') && (!has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'))", "message": "maxSurge and maxUnavailable must not both be zero" }
]))]
pub struct UpdatePolicy {
    /// Whether Trellis replaces machines, or only makes new ones the new way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: UpdateStrategy,
    /// How many machines more than `replicas` may exist meanwhile.
    #[serde(default = "UpdatePolicy::default_surge", skip_serializing_if = "UpdatePolicy::is_default_surge")]
    pub max_surge: Count,
    /// How many machines fewer than `replicas` may be available meanwhile.
    #[serde(
        default = "UpdatePolicy::default_unavailable",
        skip_serializing_if = "UpdatePolicy::is_default_unavailable"
    )]
    pub max_unavailable: Count,
    /// Seconds a node must be ready before it counts as available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_ready_seconds: u32,
    /// Seconds without progress after which an update counts as failed.
    #[serde(
        default = "UpdatePolicy::default_deadline",
        skip_serializing_if = "UpdatePolicy::is_default_deadline"
    )]
    pub progress_deadline_seconds: u32,
    /// How many old revisions are kept to go back to.
    #[serde(
        default = "UpdatePolicy::default_history",
        skip_serializing_if = "UpdatePolicy::is_default_history"
    )]
    pub history_limit: u32,
    /// Stops updating until it is taken away; scaling goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
}

macro_rules! update_defaults {
    ($($default:ident, $is_default:ident: $ty:ty = $value:expr;)*) => {
        impl UpdatePolicy {$(
            fn $default() -> $ty {
                $value
            }
            fn $is_default(value: &$ty) -> bool {
                *value == $value
            }
        )*}
    };
}

update_defaults! {
    default_surge, is_default_surge: Count = Count::Absolute(1);
    default_unavailable, is_default_unavailable: Count = Count::Absolute(0);
    default_deadline, is_default_deadline: u32 = 600;
    default_history, is_default_history: u32 = 1;
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self {
            strategy: UpdateStrategy::default(),
            max_surge: Self::default_surge(),
            max_unavailable: Self::default_unavailable(),
            min_ready_seconds: 0,
            progress_deadline_seconds: Self::default_deadline(),
            history_limit: Self::default_history(),
            paused: false,
        }
    }
}

/// Whether Trellis replaces machines when their template changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategy {
    /// Replaces them step by step.
    #[default]
    RollingUpdate,
    /// Leaves them; only new machines are made the new way.
    OnDelete,
}

/// Which machines go first when there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeletePolicy {
    /// Any.
    #[default]
    Random,
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}
