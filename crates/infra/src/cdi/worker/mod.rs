//! What goes on inside CDI's worker pods.
//!
//! The pods are ordinary: they are scheduled and started like all others. Once the container of one runs, its work
//! begins here; when it is over, the container ends with an exit code and a message.

pub(super) mod container;
mod job;
pub(super) mod pod;
pub(super) mod said;
mod volume;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

pub(in crate::cdi) use job::pace;
pub(crate) use pod::Role;
pub(super) use volume::target;

use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::POD;
use crate::object::{Key, Object as _};

/// How long to wait when what became of a container cannot be said.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the work of the worker pods.
#[derive(Debug)]
pub(super) struct Workers {
    context: Context,
    client: Client,
    running: Mutex<HashMap<Key, Running>>,
}

/// Work that goes on. It ends when this is dropped.
#[derive(Debug)]
struct Running {
    uid: String,
    restart: i64,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Workers {
    /// The work of all worker pods.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::KUBELET),
            running: Mutex::default(),
        }
    }
}

impl Controller for Workers {
    const NAME: &'static str = "cdi-workers";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::mapped(&self.client.cache(&POD), |change| {
            if Role::of(change.object()).is_some() { vec![change.key()] } else { Vec::new() }
        })]
    }

    async fn look(&self, key: &Key) -> Looked {
        let pod = self.client.cache(&POD).get(key).filter(|pod| !pod.is_deleting());
        let Some(pod) = pod else {
            let ended = self.running.lock().remove(key);
            if let Some(ended) = ended {
                self.context.world.transfers.forget(&ended.uid);
            }
            return Ok(Next::Done);
        };
        let Some(role) = Role::of(&pod) else { return Ok(Next::Done) };
        if !container::is_running(&pod) {
            return Ok(Next::Done);
        }
        let restart = container::restarts(&pod);
        let mut running = self.running.lock();
        if running.get(key).is_some_and(|one| one.uid == pod.uid() && one.restart == restart) {
            return Ok(Next::Done);
        }
        let task = tokio::spawn(work(self.context.clone(), self.client.clone(), role, Arc::clone(&pod)));
        running.insert(key.clone(), Running { uid: pod.uid().to_owned(), restart, task });
        Ok(Next::Done)
    }
}

/// Does the work of a pod once, and says what came of it. It ends without a word when its host loses power: its kubelet
/// tells what became of the container.
async fn work(context: Context, client: Client, role: Role, pod: Arc<Value>) {
    let done = async {
        let exit = job::run(&context, role, &pod).await;
        tell(&context, &client, &pod, |pod, now| container::ended(pod, &exit, now)).await;
    };
    tokio::select! {
        biased;
        () = power_loss(&context, pod.text("/spec/nodeName")) => {}
        () = done => {}
    }
    // The next attempt begins with the look that sees the container run again.
}

/// Waits until a host is switched off, or was for a moment.
async fn power_loss(context: &Context, node: &str) {
    let hosts = &context.world.hosts;
    let mut changes = hosts.changes();
    let boots = hosts.boots(node);
    while hosts.get(node).is_none_or(|host| host.powered) && hosts.boots(node) == boots {
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Waits until a host can be reached: volumes and other workers are at the other end of its cable.
pub(super) async fn reach(context: &Context, node: &str) {
    let hosts = &context.world.hosts;
    let mut changes = hosts.changes();
    while hosts.get(node).is_some_and(|host| !host.is_heard()) {
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Says something about a pod as soon as its host is heard, unless the pod is gone or on its way, or its container is
/// another one already.
async fn tell(context: &Context, client: &Client, pod: &Value, change: impl Fn(&Value, &str) -> Value) {
    let key = Key::of(pod);
    loop {
        let now = client.cache(&POD).get(&key);
        let Some(now) = now.filter(|now| now.uid() == pod.uid() && !now.is_deleting()) else { return };
        let is_another = container::restarts(&now) != container::restarts(pod);
        if is_another || now.is_over() {
            return;
        }
        let host = context.world.hosts.get(now.text("/spec/nodeName"));
        if host.is_none_or(crate::world::hosts::Host::is_heard) {
            let changed = change(&now, &context.clock.seconds());
            match client.replace_status(&POD, &changed).await {
                Ok(_) => return,
                Err(failure) if failure.is_not_found() => return,
                Err(failure) => tracing::debug!(%key, %failure, "a worker is not heard yet"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
