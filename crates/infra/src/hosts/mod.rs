//! Hosts: nodes with their heartbeats and kubelets, and what becomes of them when they fall silent.

mod eviction;
mod heartbeat;
pub(crate) mod kubelet;
mod lifecycle;
mod node;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;

use crate::client::{Identity, Result};
use crate::context::{Context, Tasks};
use crate::kinds::{NAMESPACE, NODE};
use crate::settings::Manager;
use crate::world::hosts::Host;

pub(crate) use eviction::tolerates;
pub(crate) use lifecycle::GRACE;
pub use node::name_of;

/// How many hosts register at the same time.
const TOGETHER: usize = 32;

/// Makes the hosts of the settings. Those that are there already, from an earlier run, stay as they are.
pub async fn install(context: &Context) -> Result {
    let client = context.client(Identity::KUBELET);
    let namespace = json!({"metadata": {"name": heartbeat::NAMESPACE}});
    client.create_if_absent(&NAMESPACE, namespace).await?;
    stream::iter(0..context.settings.hosts)
        .map(|index| {
            let client = client.clone();
            async move {
                let node = node::of(&context.settings, index, &context.clock.seconds());
                match client.create(&NODE, node).await {
                    Ok(node) => node::tell_ready(context, &node).await,
                    Err(failure) if failure.is_already_there() => {}
                    Err(failure) => return Err(failure),
                }
                context.world.hosts.set(&name_of(index), Host::UP);
                Result::<()>::Ok(())
            }
        })
        .buffered(TOGETHER)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// Starts the kubelets and the node lifecycle.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.spawn(heartbeat::run(context.clone()));
    kubelet::start(context, tasks);
    if context.settings.manager == Manager::Embedded {
        start_lifecycle(context, tasks);
    }
}

/// Starts what watches over nodes, whoever's they are.
pub(crate) fn start_lifecycle(context: &Context, tasks: &mut Tasks) {
    tasks.control(lifecycle::Lifecycle::new(context));
    tasks.control(eviction::Eviction::new(context));
}
