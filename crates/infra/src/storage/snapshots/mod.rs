//! Snapshots: the controller that pairs them with their contents, and what runs beside each driver and takes them.

mod controller;
mod driver;
mod rules;

pub(super) use controller::SnapshotController;
pub(super) use driver::Snapshotter;

/// Keeps a snapshot while volumes may be made from it.
const AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a snapshot that is bound to a content.
const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a content until its driver has deleted what is behind it.
const CONTENT: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Keeps a claim while a snapshot of it is taken.
const CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Says that the snapshot of a content is being deleted.
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Says that a driver is taking a snapshot and may have left a half one.
const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
