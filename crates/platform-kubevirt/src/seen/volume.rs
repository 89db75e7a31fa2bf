//! Volumes that CDI makes.

use serde::Deserialize;

use super::meta::{Condition, MadeBy, Meta, WireCondition, WireMeta, or_default, words};
use super::seen;
use crate::annotations;

/// A volume and its making, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataVolume {
    /// Name, identity and age.
    pub meta: Meta,
    /// The virtual machine it is made for.
    pub owner: Option<MadeBy>,
    /// The uid of the Machine object that one was made for.
    pub machine_uid: Option<Box<str>>,
    /// What it is filled with.
    pub source: VolumeSource,
    /// Where it is in its making.
    pub phase: VolumePhase,
    /// How much of it is filled, in percent.
    pub progress: Option<u8>,
    /// How often the filling had to begin anew.
    pub restarts: u32,
    /// Why nothing fills it.
    pub not_running: Option<Box<Condition>>,
    /// Why it has no place yet.
    pub not_bound: Option<Box<Condition>>,
    /// Since when nothing used it, for golden volumes.
    pub unused_since: Option<jiff::Timestamp>,
}

/// What a volume is filled with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// Another volume: its namespace, where it is written, and its name.
    Clone(Option<Box<str>>, Box<str>),
    /// An image from outside.
    Image,
    /// Something else, or nothing.
    Other,
}

words! {
    /// Where a volume is in its making.
    VolumePhase {
        /// It waits.
        Pending = "Pending",
        /// It has its place.
        PvcBound = "PVCBound",
        /// It waits for its first user.
        WaitForFirstConsumer = "WaitForFirstConsumer",
        /// It waits for its first user, and is filled then.
        PendingPopulation = "PendingPopulation",
        /// An import will begin.
        ImportScheduled = "ImportScheduled",
        /// It is imported.
        ImportInProgress = "ImportInProgress",
        /// A clone will begin.
        CloneScheduled = "CloneScheduled",
        /// It is copied.
        CloneInProgress = "CloneInProgress",
        /// A snapshot is taken to clone from.
        SnapshotForSmartCloneInProgress = "SnapshotForSmartCloneInProgress",
        /// It is made from a snapshot.
        CloneFromSnapshotSourceInProgress = "CloneFromSnapshotSourceInProgress",
        /// It is made from a snapshot, in the way of old.
        SmartClonePvcInProgress = "SmartClonePVCInProgress",
        /// The storage clones it.
        CsiCloneInProgress = "CSICloneInProgress",
        /// It is made larger.
        ExpansionInProgress = "ExpansionInProgress",
        /// It is brought to its namespace.
        NamespaceTransferInProgress = "NamespaceTransferInProgress",
        /// It is made ready for its place.
        PrepClaimInProgress = "PrepClaimInProgress",
        /// It gets its place.
        RebindInProgress = "RebindInProgress",
        /// An upload will begin.
        UploadScheduled = "UploadScheduled",
        /// It waits for somebody to upload.
        UploadReady = "UploadReady",
        /// An import of several steps waits for the next.
        Paused = "Paused",
        /// It can be used.
        Succeeded = "Succeeded",
        /// It failed for good.
        Failed = "Failed",
        /// CDI does not know.
        Unknown = "Unknown",
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
struct Spec {
    #[serde(default, deserialize_with = "or_default")]
    source: Source,
}

#[derive(Deserialize, Default)]
struct Source {
    #[serde(default)]
    pvc: Option<Clone>,
    #[serde(default)]
    http: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    registry: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Clone {
    #[serde(default)]
    namespace: Option<Box<str>>,
    #[serde(default)]
    name: Box<str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    phase: VolumePhase,
    #[serde(default)]
    progress: Option<Box<str>>,
    #[serde(default)]
    restart_count: Option<i64>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<WireCondition>,
}

/// `12.34%` as 12; nothing for `N/A`.
fn percent(text: &str) -> Option<u8> {
    let whole = text.trim().strip_suffix('%')?.split('.').next()?;
    whole.parse::<u8>().ok().map(|percent| percent.min(100))
}

impl DataVolume {
    pub(crate) fn narrowed(wire: Wire) -> Self {
        let Wire { mut metadata, spec, status } = wire;
        let source = match spec.source {
            Source { pvc: Some(Clone { namespace, name }), .. } => VolumeSource::Clone(namespace, name),
            Source { http: Some(_), .. } | Source { registry: Some(_), .. } => VolumeSource::Image,
            _ => VolumeSource::Other,
        };
        let machine_uid = metadata.annotation(annotations::MACHINE_UID);
        let unused_since = metadata.annotation(annotations::UNUSED_SINCE).and_then(|text| text.parse().ok());
        let mut volume = Self {
            owner: metadata.owner("VirtualMachine"),
            meta: metadata.narrowed(),
            source,
            phase: status.phase,
            progress: status.progress.as_deref().and_then(percent),
            restarts: status.restart_count.map_or(0, |count| u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
            not_running: None,
            not_bound: None,
            machine_uid,
            unused_since,
        };
        let finished = volume.phase == VolumePhase::Succeeded;
        for condition in status.conditions.into_iter().filter(|condition| !finished && condition.fails()) {
            match &*condition.kind {
                "Running" => volume.not_running = Some(condition.said().into()),
                "Bound" => volume.not_bound = Some(condition.said().into()),
                _ => {}
            }
        }
        volume
    }
}

seen!(
    DataVolume from Wire, machine(this) { this.meta.machine.as_deref().or_else(|| Some(&this.owner.as_ref()?.name)) },
    "cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes", Cluster
);

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn progress_is_a_whole_percentage_or_unknown() {
        let cases =
            [("N/A", None), ("", None), ("0.00%", Some(0)), ("12.34%", Some(12)), ("100.0%", Some(100))];
        for (text, expected) in cases {
            assert_eq!(percent(text), expected, "{text}");
        }
        assert_eq!(percent("250%"), Some(100));
        assert_eq!(percent("-1%"), None);
    }
}
