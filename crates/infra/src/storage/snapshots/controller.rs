//! The snapshot controller: one for all drivers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rules::{self, content_name};
use super::{AS_SOURCE, BEING_DELETED, BOUND, CLAIM};
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{PV, PVC, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT};
use crate::object::{Key, Object as _};
use crate::storage::told::Told;

/// Pairs snapshots with contents.
#[derive(Debug)]
pub(in crate::storage) struct SnapshotController {
    context: Context,
    client: Client,
    snapshots: Arc<Cache>,
    contents: Arc<Cache>,
    classes: Arc<Cache>,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    told: Told,
}

/// A reason and a message: an event and the error in the status.
type Problem = (&'static str, String);

impl SnapshotController {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(Identity::SNAPSHOTTER);
        Self {
            snapshots: client.cache(&VOLUME_SNAPSHOT),
            contents: client.cache(&VOLUME_SNAPSHOT_CONTENT),
            classes: client.cache(&VOLUME_SNAPSHOT_CLASS),
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            told: Told::new(context.recorder(Identity::SNAPSHOTTER)),
            client,
            context: context.clone(),
        }
    }

    /// A snapshot that is to be there.
    async fn keep(&self, snapshot: &Value) -> Looked {
        let mut snapshot = snapshot.clone();
        if snapshot.add_finalizer(AS_SOURCE) {
            snapshot = self.client.replace(&VOLUME_SNAPSHOT, &snapshot).await?;
        }
        let source = snapshot.text("/spec/source/persistentVolumeClaimName").to_owned();
        let paired = if source.is_empty() {
            self.provided(&snapshot).await?
        } else {
            match self.contents.get(&Key::cluster(&content_name(&snapshot))) {
                Some(content) => Ok(content),
                None => return self.begin(snapshot, &source).await,
            }
        };
        match paired {
            Err(problem) => self.failed(&snapshot, problem).await?,
            Ok(content) => self.follow(&snapshot, &content, &source).await?,
        }
        Ok(Next::Done)
    }

    /// Makes the content of a snapshot of a claim.
    async fn begin(&self, mut snapshot: Value, source: &str) -> Looked {
        let claim = self.claims.get(&Key::new(snapshot.namespace(), source));
        let volume =
            claim.as_ref().and_then(|claim| self.volumes.get(&Key::cluster(claim.text("/spec/volumeName"))));
        if let Some(problem) = rules::source_problem(claim.as_deref(), volume.as_deref()) {
            let message = format!("Failed to create snapshot content with error {problem}");
            self.failed(&snapshot, ("SnapshotContentCreationFailed", message)).await?;
            return Ok(Next::Done);
        }
        let (Some(claim), Some(volume)) = (claim, volume) else { return Ok(Next::Done) };
        let driver = volume.text("/spec/csi/driver");
        if snapshot.text("/spec/volumeSnapshotClassName").is_empty() {
            match rules::default_class(&self.classes.list(""), driver) {
                Ok(class) => {
                    snapshot.set("/spec/volumeSnapshotClassName", class.name().into());
                    snapshot = self.client.replace(&VOLUME_SNAPSHOT, &snapshot).await?;
                }
                Err(problem) => {
                    let message = format!("Failed to set default snapshot class with error {problem}");
                    self.failed(&snapshot, ("SetDefaultSnapshotClassFailed", message)).await?;
                    return Ok(Next::Done);
                }
            }
        }
        let name = snapshot.text("/spec/volumeSnapshotClassName");
        let class = self.classes.get(&Key::cluster(name));
        let problem = match &class {
            None => Some(format!(
                "failed to get input parameters to create snapshot {}: \"failed to retrieve snapshot class {name} from \
                 the informer: \\\"volumesnapshotclass.snapshot.storage.k8s.io \\\\\\\"{name}\\\\\\\" not found\\\"\"",
                snapshot.name()
            )),
            Some(class) if class.text("/driver") != driver => Some(format!(
                "the driver of the snapshot class {name} ({}) does not match the driver of the volume {} ({driver})",
                class.text("/driver"),
                volume.name()
            )),
            Some(_) => None,
        };
        if let Some(problem) = problem {
            let message = format!("Failed to create snapshot content with error {problem}");
            self.failed(&snapshot, ("SnapshotContentCreationFailed", message)).await?;
            return Ok(Next::Done);
        }
        let Some(class) = class else { return Ok(Next::Done) };
        let mut kept = (*claim).clone();
        if kept.add_finalizer(CLAIM) {
            self.client.replace(&PVC, &kept).await?;
        }
        self.client
            .create_if_absent(&VOLUME_SNAPSHOT_CONTENT, rules::content(&snapshot, &class, &volume))
            .await?;
        let message =
            format!("Waiting for a snapshot {} to be created by the CSI driver.", Key::of(&snapshot));
        self.told.normal(&VOLUME_SNAPSHOT, &snapshot, "CreatingSnapshot", &message).await;
        Ok(Next::Done)
    }

    /// The content of a snapshot that was taken by somebody else.
    async fn provided(&self, snapshot: &Value) -> Result<std::result::Result<Arc<Value>, Problem>> {
        let Some(content) = self.contents.get(&Key::cluster(&content_name(snapshot))) else {
            return Ok(Err(("SnapshotContentMissing", "VolumeSnapshotContent is missing".to_owned())));
        };
        if !rules::is_for(&content, snapshot) {
            let message =
                format!("VolumeSnapshotContent [{}] is bound to a different snapshot", content.name());
            return Ok(Err(("SnapshotContentMisbound", message)));
        }
        if content.text("/spec/volumeSnapshotRef/uid").is_empty() {
            let patch = json!({"spec": {"volumeSnapshotRef": {"uid": snapshot.uid()}}});
            let content = self.client.merge(&VOLUME_SNAPSHOT_CONTENT, &Key::of(&content), &patch).await?;
            return Ok(Ok(Arc::new(content)));
        }
        Ok(Ok(content))
    }

    /// Writes down what the content tells.
    async fn follow(&self, snapshot: &Value, content: &Value, source: &str) -> Result {
        let mut snapshot = snapshot.clone();
        let status = rules::status(content);
        if snapshot["status"] != status {
            let before = snapshot["status"].take();
            snapshot["status"] = status;
            snapshot = self.client.replace_status(&VOLUME_SNAPSHOT, &snapshot).await?;
            let (key, is_new) = (Key::of(&snapshot), |name: &str| {
                before[name] != snapshot["status"][name] && snapshot["status"][name] != false
            });
            if is_new("creationTime") {
                let message = format!("Snapshot {key} was successfully created by the CSI driver.");
                self.told.normal(&VOLUME_SNAPSHOT, &snapshot, "SnapshotCreated", &message).await;
            }
            if is_new("readyToUse") {
                let message = format!("Snapshot {key} is ready to use.");
                self.told.normal(&VOLUME_SNAPSHOT, &snapshot, "SnapshotReady", &message).await;
            }
        }
        if snapshot.add_finalizer(BOUND) {
            self.client.replace(&VOLUME_SNAPSHOT, &snapshot).await?;
        }
        if !source.is_empty() {
            self.free_claim(snapshot.namespace(), source).await?;
        }
        Ok(())
    }

    /// Lets a claim go that no snapshot is taken of any more.
    async fn free_claim(&self, namespace: &str, source: &str) -> Result {
        let Some(claim) = self.claims.get(&Key::new(namespace, source)) else { return Ok(()) };
        let needed = self.snapshots.list(namespace).iter().any(|other| rules::needs_claim(other, source));
        let mut free = (*claim).clone();
        if !needed && free.remove_finalizer(CLAIM) {
            self.client.replace(&PVC, &free).await?;
        }
        Ok(())
    }

    async fn failed(&self, snapshot: &Value, (reason, message): Problem) -> Result {
        if snapshot.text("/status/error/message") != message {
            let mut failed = snapshot.clone();
            failed.set("/status/readyToUse", false.into());
            failed.set("/status/error", json!({"message": message, "time": self.context.clock.seconds()}));
            self.client.replace_status(&VOLUME_SNAPSHOT, &failed).await?;
            self.told.warning(&VOLUME_SNAPSHOT, snapshot, reason, &message).await;
        }
        Ok(())
    }

    /// A snapshot that is to go.
    async fn delete(&self, snapshot: &Value) -> Looked {
        let claims = self.claims.list(snapshot.namespace());
        if claims.iter().any(|claim| rules::is_restoring(claim, snapshot.name())) {
            let message = "Snapshot is being used to restore a PVC";
            self.told.warning(&VOLUME_SNAPSHOT, snapshot, "SnapshotDeletePending", message).await;
            return Ok(Next::Done);
        }
        let content = self
            .contents
            .get(&Key::cluster(&content_name(snapshot)))
            .filter(|content| content.text("/spec/volumeSnapshotRef/uid") == snapshot.uid());
        if let Some(content) = content {
            let key = Key::of(&content);
            if content.annotation(BEING_DELETED) != "yes" {
                let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}});
                self.client.merge(&VOLUME_SNAPSHOT_CONTENT, &key, &patch).await?;
            }
            if content.text("/spec/deletionPolicy") == "Delete" {
                if !content.is_deleting() {
                    self.client.delete(&VOLUME_SNAPSHOT_CONTENT, &key, content.uid()).await?;
                }
                // The driver comes first.
                if self.contents.get(&key).is_some() {
                    return Ok(Next::Done);
                }
            }
        }
        let mut free = snapshot.clone();
        let (source, bound) = (free.remove_finalizer(AS_SOURCE), free.remove_finalizer(BOUND));
        if source || bound {
            self.client.replace(&VOLUME_SNAPSHOT, &free).await?;
        }
        self.told.forget(snapshot.uid());
        let source = snapshot.text("/spec/source/persistentVolumeClaimName");
        self.free_claim(snapshot.namespace(), source).await?;
        Ok(Next::Done)
    }
}

impl Controller for SnapshotController {
    const NAME: &'static str = "snapshot-controller";

    fn watches(&self) -> Vec<Watch> {
        let (of_claims, of_classes) = (Arc::clone(&self.snapshots), Arc::clone(&self.snapshots));
        vec![
            Watch::each(&self.snapshots),
            Watch::mapped(&self.contents, |change| {
                let meant = change.object().at("/spec/volumeSnapshotRef");
                vec![Key::new(meant.text("/namespace"), meant.text("/name"))]
            }),
            Watch::mapped(&self.claims, move |change| {
                let claim = change.object();
                let all = of_claims.list(claim.namespace());
                let concerned = all.iter().filter(|snapshot| {
                    snapshot.text("/spec/source/persistentVolumeClaimName") == claim.name()
                        || snapshot.name() == claim.text("/spec/dataSource/name")
                });
                concerned.map(|snapshot| Key::of(snapshot)).collect()
            }),
            Watch::mapped(&self.classes, move |_| {
                let all = of_classes.list("");
                let open = all.iter().filter(|snapshot| !snapshot.flag("/status/readyToUse"));
                open.map(|snapshot| Key::of(snapshot)).collect()
            }),
            Watch::known(&self.volumes),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(snapshot) = self.snapshots.get(key) else { return Ok(Next::Done) };
        if snapshot.is_deleting() { self.delete(&snapshot).await } else { self.keep(&snapshot).await }
    }
}
