//! The steps of a clone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::copy::{reader_name, users_of};
use super::strategy::Strategy;
use super::{AGAIN, Clones};
use crate::cdi::claim::{self, Facts};
use crate::cdi::worker::pod::{self, Blueprint, Role};
use crate::cdi::{names, populate};
use crate::client::Result;
use crate::kinds::{CDI_CONFIG, DATA_VOLUME, Kind, POD, PVC, STORAGE_PROFILE, VOLUME_SNAPSHOT};
use crate::object::{Key, Object as _};
use crate::quantity;

/// How often progress is asked for.
const POLL: Duration = Duration::from_secs(2);

/// A clone that is being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The claim to be filled.
    pub(super) claim: &'a Value,
    /// What it refers to.
    pub(super) from: &'a Value,
    /// What is known of the storage.
    pub(super) facts: &'a Facts,
    /// How it is made.
    pub(super) strategy: Strategy,
}

/// How far a step is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// It is finished.
    Done,
    /// It is not.
    Waits {
        /// What the step is called.
        phase: &'static str,
        /// How far it is.
        progress: Option<String>,
        /// When to look again, where nothing that is watched changes.
        after: Option<Duration>,
    },
}

/// A step that goes on with the next change.
fn waits(phase: &'static str) -> Made {
    Made::Waits { phase, progress: None, after: None }
}

/// Goes on only with what is finished.
macro_rules! finished {
    ($step:expr) => {
        match $step {
            Made::Done => {}
            waits => return Ok(waits),
        }
    };
}

/// The claim the content for a claim is made on.
fn beside_name(uid: &str) -> String {
    format!("tmp-pvc-{uid}")
}

/// The snapshot a claim is cloned by.
fn snapshot_name(uid: &str) -> String {
    format!("tmp-snapshot-{uid}")
}

/// The claim a snapshot is read through.
fn read_name(uid: &str) -> String {
    format!("tmp-source-pvc-{uid}")
}

/// The pod that makes a claim ready.
fn preparer_name(uid: &str) -> String {
    format!("prep-{uid}")
}

/// Everything that may be made on the way to a claim.
pub(super) fn made_for(uid: &str) -> [(&'static Kind, String); 4] {
    [
        (&POD, preparer_name(uid)),
        (&PVC, beside_name(uid)),
        (&PVC, read_name(uid)),
        (&VOLUME_SNAPSHOT, snapshot_name(uid)),
    ]
}

impl Target<'_> {
    fn is_of_snapshot(&self) -> bool {
        self.from.text("/spec/source/kind") == "VolumeSnapshot"
    }

    fn source(&self) -> Key {
        Key::new(self.from.namespace(), self.from.text("/spec/source/name"))
    }

    /// The claim the content is made on.
    fn beside(&self, namespace: &str) -> Key {
        Key::new(namespace, &beside_name(self.claim.uid()))
    }

    fn size(&self) -> i128 {
        quantity::whole(self.claim.at("/spec/resources/requests/storage"))
    }

    /// A claim like the target, for making the content on.
    fn claim_beside(&self, key: &Key) -> Value {
        let mut spec = self.claim["spec"].clone();
        for field in ["dataSource", "dataSourceRef", "volumeName"] {
            spec.unset(&format!("/{field}"));
        }
        let content = self.claim.annotation(names::CONTENT_TYPE);
        let mut beside = json!({
            "metadata": {
                "namespace": key.namespace, "name": key.name,
                "labels": {names::APP: names::APP_VALUE, names::OWNED_BY_UID: self.claim.uid()},
                "annotations": {names::CONTENT_TYPE: content, names::POD_RESTARTS: "0"},
            },
            "spec": spec,
        });
        let node = self.claim.annotation(names::SELECTED_NODE);
        if !node.is_empty() {
            beside.set_annotation(names::SELECTED_NODE, node);
        }
        beside
    }
}

impl Clones {
    /// Does the next thing for a clone.
    pub(super) async fn go_on(&self, target: &Target<'_>) -> Result<Made> {
        // What the volume was made on has lost it by then, which must not look like a step back.
        if target.claim.annotation(names::CLONE_PHASE) == "Rebind" {
            return self.hand_over(target).await;
        }
        let source = target.source();
        match (target.is_of_snapshot(), target.strategy) {
            (false, Strategy::Copy) => finished!(self.copy(target, &source).await?),
            (false, Strategy::Csi) => {
                finished!(self.source_ready(&source));
                finished!(self.by_storage(target, &source).await?);
                finished!(self.prepare(target).await?);
            }
            (false, Strategy::Snapshot) => {
                finished!(self.source_ready(&source));
                let snapshot = Key::new(&source.namespace, &snapshot_name(target.claim.uid()));
                finished!(self.snapshot(target, &source, &snapshot).await?);
                finished!(self.restored(target, &snapshot).await?);
                finished!(self.prepare(target).await?);
            }
            (true, Strategy::Copy) => {
                let read = Key::new(&source.namespace, &read_name(target.claim.uid()));
                finished!(self.snapshot_to_read(target, &source, &read).await?);
                finished!(self.copy(target, &read).await?);
            }
            (true, _) => {
                finished!(self.restored(target, &source).await?);
                finished!(self.prepare(target).await?);
            }
        }
        self.hand_over(target).await
    }

    /// Whether the source has its content.
    fn source_ready(&self, source: &Key) -> Made {
        let pending = Made::Waits { phase: "Pending", progress: None, after: Some(AGAIN) };
        let Some(source) = self.client.cache(&PVC).get(source) else { return pending };
        let volume =
            source.controller().filter(|owner| owner["kind"] == DATA_VOLUME.kind).and_then(|owner| {
                let name = owner["name"].as_str().unwrap_or_default();
                self.client.cache(&DATA_VOLUME).get(&Key::new(source.namespace(), name))
            });
        let filled = volume.is_none_or(|volume| volume.text("/status/phase") == "Succeeded");
        let bound = source.text("/status/phase") == "Bound";
        if filled && bound { Made::Done } else { pending }
    }

    async fn copy(&self, target: &Target<'_>, source: &Key) -> Result<Made> {
        let key = target.beside(target.claim.namespace());
        if let Some(beside) = self.client.cache(&PVC).get(&key) {
            if beside.annotation(names::CLONE_OF) == "true" {
                return Ok(Made::Done);
            }
            let reader = Key::new(&source.namespace, &reader_name(&beside));
            let percent = self
                .client
                .cache(&POD)
                .get(&reader)
                .and_then(|pod| self.context.world.transfers.progress(pod.uid()))
                .filter(|percent| *percent < 100.0);
            let progress = percent.map(|percent| format!("{percent:.2}%"));
            return Ok(Made::Waits { phase: "HostClone", progress, after: Some(POLL) });
        }
        finished!(self.source_ready(source));
        if let Some(there) = self.client.cache(&PVC).get(source) {
            let users = users_of(&self.client, &there);
            for pod in &users {
                let (space, name) = (pod.namespace(), pod.name());
                let message = format!("pod {space}/{name} using PersistentVolumeClaim {}", there.name());
                self.recorder.warning(&PVC, target.claim, "CloneSourceInUse", &message).await;
                if let Some(volume) = self.client.cache(&DATA_VOLUME).get(&Key::of(target.claim)) {
                    self.recorder.warning(&DATA_VOLUME, &volume, "CloneSourceInUse", &message).await;
                }
            }
            if !users.is_empty() {
                return Ok(Made::Waits { phase: "Pending", progress: None, after: Some(AGAIN) });
            }
        }
        let mut beside = target.claim_beside(&key);
        beside.set_annotation(names::CLONE_REQUEST, &source.to_string());
        beside.set_annotation(names::IMMEDIATE_BINDING, "true");
        beside.set_annotation(names::PRIORITY_CLASS, target.from.text("/spec/priorityClassName"));
        self.client.create_if_absent(&PVC, beside).await?;
        Ok(Made::Waits { phase: "HostClone", progress: Some("N/A".to_owned()), after: Some(POLL) })
    }

    /// A copy that the storage makes.
    async fn by_storage(&self, target: &Target<'_>, source: &Key) -> Result<Made> {
        let key = target.beside(&source.namespace);
        let there = self.client.cache(&PVC).get(source);
        let size = there.map(|there| there.at("/spec/resources/requests/storage").clone());
        let origin = json!({"kind": "PersistentVolumeClaim", "name": source.name});
        self.made_of(target, &key, &origin, size, "CSIClone").await
    }

    async fn restored(&self, target: &Target<'_>, snapshot: &Key) -> Result<Made> {
        let key = target.beside(&snapshot.namespace);
        let there = self.client.cache(&VOLUME_SNAPSHOT).get(snapshot);
        let size = there.map(|there| there.at("/status/restoreSize").clone()).filter(|size| !size.is_null());
        let origin = json!({
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot.name,
        });
        self.made_of(target, &key, &origin, size, "SnapshotClone").await
    }

    /// A claim of a snapshot that is only read.
    async fn snapshot_to_read(&self, target: &Target<'_>, snapshot: &Key, key: &Key) -> Result<Made> {
        let there = self.client.cache(&VOLUME_SNAPSHOT).get(snapshot);
        let size = there.map(|there| there.at("/status/restoreSize").clone());
        let origin = json!({
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot.name,
        });
        self.made_of(target, key, &origin, size, "SnapshotClone").await
    }

    /// Makes the claim beside out of something, at the size of that.
    async fn made_of(
        &self,
        target: &Target<'_>,
        key: &Key,
        origin: &Value,
        size: Option<Value>,
        phase: &'static str,
    ) -> Result<Made> {
        let Some(there) = self.client.cache(&PVC).get(key) else {
            let mut beside = target.claim_beside(key);
            beside["spec"]["dataSource"] = origin.clone();
            if let Some(size) = size {
                beside["spec"]["resources"]["requests"]["storage"] = size;
            }
            self.client.create_if_absent(&PVC, beside).await?;
            return Ok(waits(phase));
        };
        let bound = there.text("/status/phase") == "Bound";
        let later = claim::waits_for_consumer(target.facts, &there);
        Ok(if bound || later { Made::Done } else { waits(phase) })
    }

    async fn snapshot(&self, target: &Target<'_>, source: &Key, key: &Key) -> Result<Made> {
        // Once the claim beside has its volume, the snapshot is of no more use and may go.
        if self.client.cache(&PVC).get(&target.beside(&source.namespace)).is_some() {
            return Ok(Made::Done);
        }
        let Some(there) = self.client.cache(&VOLUME_SNAPSHOT).get(key) else {
            let class = target.claim.text("/spec/storageClassName");
            let profile = self.client.cache(&STORAGE_PROFILE).get(&Key::cluster(class));
            let class = profile.as_ref().map_or("", |profile| profile.text("/status/snapshotClass"));
            let mut spec = json!({"source": {"persistentVolumeClaimName": source.name}});
            if !class.is_empty() {
                spec["volumeSnapshotClassName"] = class.into();
            }
            let snapshot = json!({
                "metadata": {
                    "namespace": key.namespace, "name": key.name,
                    "labels": {names::APP: names::APP_VALUE, names::OWNED_BY_UID: target.claim.uid()},
                },
                "spec": spec,
            });
            self.client.create_if_absent(&VOLUME_SNAPSHOT, snapshot).await?;
            return Ok(waits("Snapshot"));
        };
        Ok(if there.flag("/status/readyToUse") { Made::Done } else { waits("Snapshot") })
    }

    /// Makes the claim beside as large as it has to be, and gives it a volume if it waits for a consumer.
    async fn prepare(&self, target: &Target<'_>) -> Result<Made> {
        let namespace = target.source().namespace;
        let key = target.beside(&namespace);
        let Some(beside) = self.client.cache(&PVC).get(&key) else { return Ok(waits("PrepClaim")) };
        let asked = quantity::whole(beside.at("/spec/resources/requests/storage"));
        if asked < target.size() && beside.text("/status/phase") == "Bound" {
            let size = target.claim.at("/spec/resources/requests/storage");
            let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
            self.client.merge(&PVC, &key, &patch).await?;
            return Ok(waits("PrepClaim"));
        }
        let has = quantity::whole(beside.at("/status/capacity/storage"));
        let resizing = beside.condition_holds("FileSystemResizePending");
        let bound = beside.text("/status/phase") == "Bound";
        let name = Key::new(&namespace, &preparer_name(target.claim.uid()));
        let pod = self.client.cache(&POD).get(&name);
        if bound && has >= target.size() && !resizing {
            if let Some(pod) = pod.filter(|pod| !pod.is_deleting()) {
                self.client.delete(&POD, &name, pod.uid()).await?;
            }
            return Ok(Made::Done);
        }
        if pod.is_none() && (!bound || resizing) {
            self.preparer(target, &beside, &name).await?;
        }
        Ok(waits("PrepClaim"))
    }

    async fn preparer(&self, target: &Target<'_>, beside: &Arc<Value>, name: &Key) -> Result {
        let config = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config"));
        let mut pod = pod::build(&Blueprint {
            role: Role::Preparer,
            name: &name.name,
            claim: beside,
            owned: false,
            scratch: "",
            priority: target.from.text("/spec/priorityClassName"),
            node: target.claim.annotation(names::SELECTED_NODE),
            config: config.as_deref().unwrap_or(&Value::Null),
        });
        pod.set_label(names::OWNED_BY_UID, target.claim.uid());
        self.client.create_if_absent(&POD, pod).await
    }

    /// Gives the volume to whom it was made for.
    async fn hand_over(&self, target: &Target<'_>) -> Result<Made> {
        let copied = target.strategy == Strategy::Copy;
        let namespace = if copied { target.claim.namespace().to_owned() } else { target.source().namespace };
        let Some(beside) = self.client.cache(&PVC).get(&target.beside(&namespace)) else {
            return Ok(waits("Rebind"));
        };
        if target.claim.annotation(names::CLONE_PHASE) != "Rebind" {
            // Said before it is done, because nothing is left to be seen of it after that.
            return Ok(Made::Waits { phase: "Rebind", progress: None, after: None });
        }
        populate::rebind(&self.client, &beside, target.claim).await?;
        Ok(waits("Rebind"))
    }
}
