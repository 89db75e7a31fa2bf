//! ReplicationControllers: what kept equal pods before there were ReplicaSets, and is still part of the core API.

use super::replicas::Keeper;
use crate::context::Context;
use crate::controller::{Controller, Looked, Watch};
use crate::kinds::{POD, REPLICATION_CONTROLLER};
use crate::object::Key;

/// Keeps as many pods as a ReplicationController wants.
#[derive(Debug)]
pub(super) struct Replication {
    keeper: Keeper,
}

impl Replication {
    pub(super) fn new(context: &Context) -> Self {
        Self { keeper: Keeper::new(context, &REPLICATION_CONTROLLER, Self::NAME) }
    }
}

impl Controller for Replication {
    const NAME: &'static str = "replication-controller";

    fn watches(&self) -> Vec<Watch> {
        self.keeper.hand.watches(&POD)
    }

    async fn look(&self, key: &Key) -> Looked {
        self.keeper.look(key).await
    }
}
