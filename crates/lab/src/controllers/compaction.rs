//! The past ends some time: pages and exact lists cannot be continued for ever.

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::status::Status;
use crate::store::Change;

/// Ends the past, step by step.
#[derive(Debug)]
pub(super) struct Compaction {
    agent: Agent,
}

impl Controller for Compaction {
    /// The next step.
    type Item = ();

    fn interest(&self) -> Interest {
        Box::new(|_| false)
    }

    fn begin(&mut self, queue: &mut Queue<()>) {
        let Some(server) = self.agent.server() else { return };
        queue.add_after((), server.store().retention().age);
    }

    fn observe(&mut self, _: &Change, _: &mut Queue<()>) {}

    async fn work(&mut self, (): &(), _: &mut Queue<()>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        server.store().compact_past();
        Ok(Next::After(server.store().retention().age))
    }
}

impl Compaction {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }
}
