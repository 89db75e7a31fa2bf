//! Moves of machines from host to host.

use serde::Deserialize;

use super::meta::{Meta, WireMeta, or_default, words};
use super::seen;
use crate::labels;

/// A move, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Name, identity and age.
    pub meta: Meta,
    /// The machine that moves.
    pub instance: Box<str>,
    /// The run it was asked for, on those we asked for.
    pub instance_uid: Option<Box<str>>,
    /// Where it is.
    pub phase: MigrationPhase,
    /// Why it failed, where it says so itself.
    pub failure: Option<Box<str>>,
}

words! {
    /// Where a move is.
    MigrationPhase {
        /// It waits for its turn.
        Pending = "Pending",
        /// A host is looked for.
        Scheduling = "Scheduling",
        /// A host was found.
        Scheduled = "Scheduled",
        /// The other host gets ready.
        PreparingTarget = "PreparingTarget",
        /// The other host is ready.
        TargetReady = "TargetReady",
        /// The two ends look for each other.
        WaitingForSync = "WaitingForSync",
        /// The two ends agree.
        Synchronizing = "Synchronizing",
        /// It goes on.
        Running = "Running",
        /// The machine is on the other host.
        Succeeded = "Succeeded",
        /// The machine is where it was.
        Failed = "Failed",
    }
}

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    vmi_name: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    phase: MigrationPhase,
    #[serde(default, deserialize_with = "or_default")]
    migration_state: State,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct State {
    #[serde(default)]
    failure_reason: Option<Box<str>>,
}

impl Migration {
    pub(crate) fn narrowed(wire: Wire) -> Self {
        let Wire { mut metadata, spec, status } = wire;
        Self {
            instance_uid: metadata.labels.remove(labels::INSTANCE),
            meta: metadata.narrowed(),
            instance: spec.vmi_name.unwrap_or_default(),
            phase: status.phase,
            failure: status.migration_state.failure_reason.filter(|reason| !reason.is_empty()),
        }
    }

    /// Whether we asked for it.
    pub fn is_ours(&self) -> bool {
        self.instance_uid.is_some()
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, MigrationPhase::Succeeded | MigrationPhase::Failed)
    }
}

// Those that a drain of the infra cluster asks for carry no label of ours.
seen!(
    Migration from Wire, machine(this) { Some(&this.instance) },
    "kubevirt.io", "v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations", None
);
