//! The pods machines run in.

use serde::Deserialize;

use super::meta::{Condition, MadeBy, Meta, WireCondition, WireMeta, or_default};
use super::seen;

/// A pod of a machine: only why it has no place is looked at.
///
/// Runs repeat that themselves, but not for the pod that is placed ahead of them where storage waits for its first
/// user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherPod {
    /// Name, identity and age.
    pub meta: Meta,
    /// The run it belongs to.
    pub owner: Option<MadeBy>,
    /// Why no host was found.
    pub unschedulable: Option<Box<Condition>>,
}

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<WireCondition>,
}

impl LauncherPod {
    pub(crate) fn narrowed(wire: Wire) -> Self {
        let Wire { mut metadata, status } = wire;
        let mut conditions = status.conditions.into_iter();
        let unscheduled =
            conditions.find(|condition| &*condition.kind == "PodScheduled" && condition.fails());
        Self {
            owner: metadata.owner("VirtualMachineInstance"),
            meta: metadata.narrowed(),
            unschedulable: unscheduled.map(|condition| condition.said().into()),
        }
    }
}

seen!(
    LauncherPod from Wire, machine(this) { this.meta.machine.as_deref().or_else(|| Some(&this.owner.as_ref()?.name)) },
    "", "v1", "Pod", "pods", Launchers
);
