//! What a platform is asked to do.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Observation, Wish};

/// One thing to do on a platform: one request on those that have an API for it.
///
/// Whatever removes something names what it means by uid, so that a decision made on old knowledge cannot hit the
/// next machine of the same name.
#[derive(Debug, Clone)]
pub enum Action {
    /// Store what the guest reads at first boot; before the machine exists, and again whenever it must be anew.
    StoreUserData(Arc<Wish>),
    /// Make the machine.
    Create(Arc<Wish>),
    /// Bring what can change in place up to date.
    Update(Arc<Wish>),
    /// Move it to another host while it runs.
    Migrate {
        /// The machine's name.
        machine: String,
        /// The run that is to move.
        instance_uid: String,
    },
    /// Take back our wish to move it.
    CancelMigration {
        /// The move's name.
        migration: String,
    },
    /// Stop the present run; the machine starts again by itself if it is to run.
    StopInstance {
        /// The machine's name.
        machine: String,
        /// The run that is meant.
        instance_uid: String,
        /// Without waiting for the guest: only for a run that is proven dead.
        force: bool,
    },
    /// Remove the machine.
    Delete {
        /// Its name.
        machine: String,
        /// The machine that is meant.
        uid: String,
    },
    /// Remove a volume that is left of it.
    DeleteVolume {
        /// Its name.
        volume: String,
        /// The volume that is meant.
        uid: String,
    },
    /// Remove everything secret that was stored for it: after it joined, and after it is gone.
    EraseUserData {
        /// The machine's name.
        machine: String,
    },
}

/// What an action came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The uid of what was made, where something was.
    pub uid: Option<String>,
}

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It will not work however often it is tried, until somebody changes something.
    #[error("{0}")]
    Refused(String),
    /// There is no room for it now: a quota, a full storage.
    #[error("{0}")]
    NoRoom(String),
    /// Something else changed what it was about; look again and decide anew.
    #[error("{0}")]
    Outdated(String),
    /// It may work the next time. Whether it took effect is not known.
    #[error("{0}")]
    Unclear(String),
    /// We may not.
    #[error("{0}")]
    Forbidden(String),
}

/// Where machines run.
pub trait Platform: Send + Sync {
    /// What is seen of a machine, from what was watched: no request is made. Differences are told against the wish.
    fn observe(&self, machine: &str, wish: Option<&Wish>) -> Observation;

    /// Does one thing.
    fn act(&self, action: Action) -> BoxFuture<'_, Result<Receipt, Failure>>;
}
