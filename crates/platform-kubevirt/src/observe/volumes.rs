//! Volumes and where they are in their making.

use trellis_platform::{VolumeSeen, VolumeState};

use super::words::{no_host, shortened};
use crate::seen::{Condition, DataVolume, VolumePhase};

/// Volumes by name.
pub(super) fn volumes(seen: &[&DataVolume]) -> Vec<VolumeSeen> {
    let mut volumes: Vec<VolumeSeen> = seen
        .iter()
        .map(|volume| VolumeSeen {
            name: volume.meta.name.to_string(),
            uid: volume.meta.uid.to_string(),
            state: state(volume),
            deleting: volume.meta.deleting,
        })
        .collect();
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    volumes
}

/// What is wrong with the first volume that something is wrong with.
pub(super) fn first_failure(seen: &[&DataVolume]) -> Option<String> {
    let mut failed = seen.iter().filter_map(|volume| match state(volume) {
        VolumeState::Failed(why) => Some(format!("volume {}: {why}", volume.meta.name)),
        _ => None,
    });
    failed.next()
}

/// Where a volume is in its making.
pub(crate) fn state(volume: &DataVolume) -> VolumeState {
    use VolumePhase as P;
    let worker = volume.not_running.as_deref();
    if let Some(trouble) = worker.filter(|_| volume.phase != P::Succeeded).and_then(worker_trouble) {
        return trouble;
    }
    let filling = |way: &str| VolumeState::Filling { way: way.to_owned(), progress: volume.progress };
    let waiting = |what: &str| VolumeState::Waiting(what.to_owned());
    match volume.phase {
        P::Succeeded => VolumeState::Ready,
        P::Failed => VolumeState::Failed(
            worker.map_or("it could not be filled".to_owned(), |why| shortened(why.text())),
        ),
        P::ImportInProgress => filling("import"),
        P::CloneInProgress => filling("copy"),
        P::SnapshotForSmartCloneInProgress
        | P::CloneFromSnapshotSourceInProgress
        | P::SmartClonePvcInProgress => filling("snapshot"),
        P::CsiCloneInProgress => filling("csi-clone"),
        P::ExpansionInProgress | P::PrepClaimInProgress => filling("expansion"),
        P::NamespaceTransferInProgress | P::RebindInProgress => filling("rebind"),
        P::UploadReady => filling("upload"),
        P::WaitForFirstConsumer | P::PendingPopulation => waiting("for the machine to be placed"),
        P::ImportScheduled => waiting("for the import to begin"),
        P::CloneScheduled => waiting("for its image"),
        P::UploadScheduled => waiting("for the upload to begin"),
        P::Paused => waiting("for the next step of its import"),
        P::PvcBound => waiting("to be filled"),
        P::Pending | P::Unset => {
            let why = volume.not_bound.as_deref().map(Condition::text).filter(|text| !text.is_empty());
            VolumeState::Waiting(why.map_or("for a place in the storage".to_owned(), shortened))
        }
        P::Unknown | P::Other => waiting("for CDI to say how it is"),
    }
}

/// What keeps the pod that fills a volume from doing so. CDI names the pod's own reason.
fn worker_trouble(worker: &Condition) -> Option<VolumeState> {
    match &*worker.reason {
        "Unschedulable" => Some(VolumeState::Waiting(no_host(&worker.message))),
        "Error"
        | "CrashLoopBackOff"
        | "ErrImagePull"
        | "ImagePullBackOff"
        | "OOMKilled"
        | "ImportFailed"
        | "CloneFailed"
        | "CreateContainerConfigError" => Some(VolumeState::Failed(shortened(worker.text()))),
        _ => None,
    }
}
