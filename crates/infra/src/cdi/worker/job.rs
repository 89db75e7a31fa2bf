//! The work itself.

use std::time::Duration;

use serde_json::Value;

use super::super::import::{self, Failure};
use super::super::names;
use super::container::{self, Exit};
use super::pod::{self, Role};
use super::volume::{self, Target};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::kinds::POD;
use crate::object::{Key, Object as _};
use crate::stages::Effect;

/// How often progress is told, at most.
const TICK: Duration = Duration::from_secs(1);
/// What the rates of the stages are per.
const GIB: f64 = 1_073_741_824.0;

/// Does the work of a pod to its end.
pub(super) async fn run(context: &Context, role: Role, pod: &Value) -> Exit {
    let client = context.client(Identity::CDI_CONTROLLER);
    if role == Role::Preparer {
        return Exit::done("");
    }
    let key = Key::new(pod.namespace(), pod::claim_of(pod));
    let Some(target) = volume::target(&client, &key) else {
        return Exit::failed(format!("no volume behind claim {key}"));
    };
    match role {
        Role::Importer => importer(context, &client, pod, &target).await,
        Role::Uploader => uploader(context, pod, &target).await,
        Role::Cloner => cloner(context, &client, pod, &target).await,
        Role::Preparer => Exit::done(""),
    }
}

async fn importer(context: &Context, client: &Client, pod: &Value, target: &Target) -> Exit {
    context.world.transfers.set_progress(pod.uid(), 0.0);
    let job = import::Job { context, client, pod, claim: &target.claim, room: target.room };
    let outcome = job.run().await;
    super::reach(context, pod.text("/spec/nodeName")).await;
    match outcome {
        Ok(content) if context.world.volumes.write(&target.handle, content.clone()) => {
            context.world.transfers.set_progress(pod.uid(), 100.0);
            Exit::done("Import Complete")
        }
        Ok(_) => Exit::failed("Unable to process data: the volume is gone"),
        Err(Failure::ScratchNeeded) => {
            Exit { code: import::SCRATCH_NEEDED, message: Failure::ScratchNeeded.to_string() }
        }
        Err(failure) => Exit::failed(failure.to_string()),
    }
}

async fn uploader(context: &Context, pod: &Value, target: &Target) -> Exit {
    let arrival = context.world.transfers.listen(pod.uid()).await;
    super::reach(context, pod.text("/spec/nodeName")).await;
    match arrival {
        Ok(Ok(content)) if context.world.volumes.write(&target.handle, content.clone()) => {
            Exit::done("Upload Complete")
        }
        Ok(Ok(_)) => Exit::failed("Saving stream failed: the volume is gone"),
        Ok(Err(message)) => Exit::failed(message),
        Err(_) => Exit::failed("the server was stopped"),
    }
}

/// Sends the content of a claim to the uploader of another.
async fn cloner(context: &Context, client: &Client, pod: &Value, source: &Target) -> Exit {
    let (namespace, name) = pod.annotation(names::OWNER_REF).split_once('/').unwrap_or_default();
    let upload = client.cache(&POD).get(&Key::new(namespace, &super::super::upload::pod_name(name)));
    let Some(upload) = upload else { return Exit::failed("the target is not there") };
    let content = context.world.volumes.get(&source.handle).map(|volume| volume.content).unwrap_or_default();
    let size = if content.virtual_size == 0 { source.room } else { content.virtual_size };
    if let Err(message) = pace(context, pod, &source.claim, "clone.copy", size).await {
        return Exit::failed(message);
    }
    super::reach(context, pod.text("/spec/nodeName")).await;
    super::reach(context, upload.text("/spec/nodeName")).await;
    if context.world.transfers.deliver(upload.uid(), Ok(content)) {
        Exit::done("Clone Complete")
    } else {
        Exit::failed("the target does not take the content")
    }
}

/// Takes as long as moving some bytes takes, and tells how far it is. The stage says how long a GiB takes.
pub(in crate::cdi) async fn pace(
    context: &Context,
    pod: &Value,
    about: &Value,
    stage: &str,
    bytes: u64,
) -> Result<(), String> {
    let attempt = u64::try_from(container::restarts(pod)).unwrap_or_default();
    let outcome = context.stages.settled(stage, about, attempt).await;
    #[expect(clippy::cast_precision_loss, reason = "a share of a delay needs no more")]
    let total = outcome.after.mul_f64(bytes as f64 / GIB);
    let mut passed = Duration::ZERO;
    while passed < total {
        let step = TICK.min(total.saturating_sub(passed));
        tokio::time::sleep(step).await;
        passed += step;
        context.world.transfers.set_progress(pod.uid(), 100.0 * passed.as_secs_f64() / total.as_secs_f64());
    }
    match outcome.effect {
        Effect::Fail(message) => Err(message),
        Effect::Pass | Effect::Hang => Ok(()),
    }
}
