//! What every emulated component is given.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::client::{Client, Identity};
use crate::clock::Clock;
use crate::controller::{self, Controller};
use crate::events::Recorder;
use crate::guests::Programs;
use crate::settings::Settings;
use crate::stages::Stages;
use crate::world::World;

/// What every emulated component is given. Clones share everything.
#[derive(Debug, Clone)]
pub struct Context {
    /// The client of whoever installs the cluster; components take it in their own name.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// How long things take and how they end.
    pub stages: Stages,
    /// What is below the API.
    pub world: World,
    /// What the cluster is made of.
    pub settings: Arc<Settings>,
    /// What guests can run.
    pub programs: Arc<Programs>,
}

impl Context {
    /// The client in the name of a component.
    pub fn client(&self, identity: Identity) -> Client {
        self.client.acting_as(identity)
    }

    /// A recorder of events in the name of a component.
    pub fn recorder(&self, identity: Identity) -> Recorder {
        Recorder::new(&self.client(identity), self.clock, identity.program)
    }
}

/// The running tasks of a cluster; they end when this is dropped.
#[derive(Debug, Default)]
pub struct Tasks(JoinSet<()>);

impl Tasks {
    /// Runs a controller.
    pub fn control<C: Controller>(&mut self, controller: C) {
        self.0.spawn(controller::run(Arc::new(controller)));
    }

    /// Runs anything else.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}
