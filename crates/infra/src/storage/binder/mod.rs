//! Binding claims and volumes to each other, as the controller manager's volume controller does.
//!
//! Either side may name the other first; a pair is bound when both do, and each of the four writes on the way is one
//! of the real controller's, so that one that stops in the middle goes on from there.

mod claims;
mod volumes;

pub(super) use claims::ClaimBinder;
pub(super) use volumes::VolumeBinder;

/// Says that both sides were bound once.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Says that the binding was chosen by the controller and can be taken back by it.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// What events come from.
const COMPONENT: &str = "persistentvolume-controller";
