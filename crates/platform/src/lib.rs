//! The seam between the engine and the platforms machines run on.
//!
//! The engine decides from an [`Observation`] and asks for [`Action`]s; a [`Platform`] sees and does. Nothing here
//! names a platform: what KubeVirt calls a VMI and oVirt a running VM is an *instance* here.

mod action;
mod identity;
mod observation;

pub use action::{Action, Failure, Platform, Receipt};
pub use identity::{MachineIdentity, Owner, Wish};
pub use observation::{
    Address, AddressKind, Capacity, Drift, Evacuation, HostSeen, HostState, ImageSeen, ImageState, Instance,
    InstanceState, MigrationSeen, MigrationState, Observation, VmSeen, VolumeSeen, VolumeState,
};
