//! What runs beside a driver and has it take and delete snapshots.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{BEING_CREATED, BEING_DELETED, CONTENT};
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{PV, VOLUME_SNAPSHOT_CONTENT};
use crate::object::{Key, Object as _};
use crate::storage::classes::driver;
use crate::waits::{Waited, Waits};

/// Who takes the snapshots of a driver.
const SNAPSHOTTER: Identity =
    Identity { program: "csi-snapshotter", user: "system:serviceaccount:kube-system:csi" };

/// Takes and deletes snapshots.
#[derive(Debug)]
pub(in crate::storage) struct Snapshotter {
    context: Context,
    client: Client,
    contents: Arc<Cache>,
    volumes: Arc<Cache>,
    recorder: Recorder,
    waits: Waits,
}

impl Snapshotter {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(SNAPSHOTTER);
        Self {
            contents: client.cache(&VOLUME_SNAPSHOT_CONTENT),
            volumes: client.cache(&PV),
            recorder: context.recorder(SNAPSHOTTER),
            waits: Waits::new(&context.stages),
            client,
            context: context.clone(),
        }
    }

    /// The content as rules see it: with the class of the volume it is taken of.
    fn subject(&self, content: &Value) -> Value {
        let volumes = self.volumes.find("handle", content.text("/spec/source/volumeHandle"));
        let mut subject = content.clone();
        if let Some(volume) = volumes.first() {
            subject.set("/spec/storageClassName", volume.at("/spec/storageClassName").clone());
        }
        subject
    }

    /// Has a snapshot taken.
    async fn take(&self, content: &Value, source: &str) -> Looked {
        let key = Key::of(content);
        let mut content = content.clone();
        if content.annotation(BEING_CREATED) != "yes" {
            content.set_annotation(BEING_CREATED, "yes");
            content = self.client.replace(&VOLUME_SNAPSHOT_CONTENT, &content).await?;
        }
        match self.waits.ask(content.uid(), "snapshot.create", &self.subject(&content)) {
            Waited::NotYet(left) => return Ok(Next::After(left)),
            Waited::Failed(words) => return self.failed(&content, "SnapshotCreationFailed", &words).await,
            Waited::Passed => {}
        }
        let handle = format!("snap-{}", content.text("/spec/volumeSnapshotRef/uid"));
        if !driver(content.text("/spec/driver")).is_some_and(|driver| driver.snapshots) {
            let words = "rpc error: code = Unimplemented desc = unknown method CreateSnapshot";
            return self.failed(&content, "SnapshotCreationFailed", words).await;
        }
        if !self.context.world.volumes.snapshot(source, &handle) {
            let words = format!("rpc error: code = NotFound desc = volume {source} not found");
            return self.failed(&content, "SnapshotCreationFailed", &words).await;
        }
        self.tell(&content, &handle).await?;
        let patch = json!({"metadata": {"annotations": {BEING_CREATED: null}}});
        self.client.merge(&VOLUME_SNAPSHOT_CONTENT, &key, &patch).await?;
        self.waits.forget(content.uid());
        Ok(Next::Done)
    }

    /// Writes down how a snapshot is that the driver has; nothing changes where it is known.
    async fn tell(&self, content: &Value, handle: &str) -> Looked {
        let Some(taken) = self.context.world.volumes.snapshot_content(handle) else {
            let words = format!("rpc error: code = NotFound desc = snapshot {handle} not found");
            return self.failed(content, "SnapshotContentCheckandUpdateFailed", &words).await;
        };
        let upload = format!("upload/{}", content.uid());
        let (ready, next) = match self.waits.ask(&upload, "snapshot.upload", &self.subject(content)) {
            Waited::NotYet(left) => (false, Next::After(left)),
            Waited::Failed(words) => {
                return self.failed(content, "SnapshotContentCheckandUpdateFailed", &words).await;
            }
            Waited::Passed => (true, Next::Done),
        };
        let now = i64::try_from(self.context.clock.now().as_nanosecond()).unwrap_or_default();
        let status = json!({
            "snapshotHandle": handle,
            "creationTime": content.number("/status/creationTime").unwrap_or(now),
            "restoreSize": taken.capacity,
            "readyToUse": ready,
        });
        if content["status"] != status {
            let mut told = content.clone();
            told["status"] = status;
            self.client.replace_status(&VOLUME_SNAPSHOT_CONTENT, &told).await?;
        }
        if ready {
            self.waits.forget(&upload);
        }
        Ok(next)
    }

    async fn failed(&self, content: &Value, reason: &str, words: &str) -> Looked {
        let message = match reason {
            "SnapshotCreationFailed" => format!("Failed to create snapshot: {words}"),
            _ => format!("Failed to check and update snapshot content: {words}"),
        };
        if content.text("/status/error/message") != message {
            let mut failed = content.clone();
            let error = json!({"message": message, "time": self.context.clock.seconds()});
            failed.set("/status/readyToUse", false.into());
            failed.set("/status/error", error);
            self.client.replace_status(&VOLUME_SNAPSHOT_CONTENT, &failed).await?;
        }
        self.recorder.warning(&VOLUME_SNAPSHOT_CONTENT, content, reason, &message).await;
        Ok(Next::After(self.waits.fail(content.uid())))
    }

    /// Has what is behind a content deleted, where its policy says so.
    async fn delete(&self, content: &Value) -> Looked {
        if !content.has_finalizer(CONTENT) {
            return Ok(Next::Done);
        }
        if content.text("/spec/deletionPolicy") == "Delete" {
            let named = !content.text("/spec/volumeSnapshotRef/uid").is_empty();
            if named && content.annotation(BEING_DELETED) != "yes" {
                // The snapshot goes first.
                return Ok(Next::Done);
            }
            match self.waits.ask(content.uid(), "snapshot.delete", &self.subject(content)) {
                Waited::NotYet(left) => return Ok(Next::After(left)),
                Waited::Failed(words) => {
                    let message = format!("Failed to delete snapshot: {words}");
                    self.recorder
                        .warning(&VOLUME_SNAPSHOT_CONTENT, content, "SnapshotDeleteError", &message)
                        .await;
                    return Ok(Next::After(self.waits.resting(content.uid()).unwrap_or_default()));
                }
                Waited::Passed => {}
            }
            self.context.world.volumes.remove_snapshot(content.text("/status/snapshotHandle"));
        }
        self.waits.forget(content.uid());
        let mut free = content.clone();
        free.remove_finalizer(CONTENT);
        self.client.replace(&VOLUME_SNAPSHOT_CONTENT, &free).await?;
        Ok(Next::Done)
    }

    async fn keep(&self, content: &Value) -> Result<Value> {
        let mut kept = content.clone();
        if kept.add_finalizer(CONTENT) {
            return self.client.replace(&VOLUME_SNAPSHOT_CONTENT, &kept).await;
        }
        Ok(kept)
    }
}

impl Controller for Snapshotter {
    const NAME: &'static str = "csi-snapshotter";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::each(&self.contents), Watch::known(&self.volumes)]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(content) = self.contents.get(key) else { return Ok(Next::Done) };
        if driver(content.text("/spec/driver")).is_none() {
            return Ok(Next::Done);
        }
        if content.is_deleting() {
            return self.delete(&content).await;
        }
        if content.flag("/status/readyToUse") {
            return Ok(Next::Done);
        }
        let content = self.keep(&content).await?;
        if let Some(left) = self.waits.resting(content.uid()) {
            return Ok(Next::After(left));
        }
        let (taken, given) =
            (content.text("/status/snapshotHandle"), content.text("/spec/source/snapshotHandle"));
        if !taken.is_empty() {
            return self.tell(&content, taken).await;
        }
        if !given.is_empty() {
            return self.tell(&content, given).await;
        }
        self.take(&content, content.text("/spec/source/volumeHandle")).await
    }
}
