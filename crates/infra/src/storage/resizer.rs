//! Lets volumes grow: the controller manager's first word, what runs beside the driver, and the node's part.

use std::sync::Arc;

use serde_json::{Value, json};

use super::classes::{driver, volume_mode};
use super::told::Told;
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{POD, PV, PVC};
use crate::object::{Condition, Key, Object as _, drop_condition};
use crate::quantity;
use crate::settings::Manager;
use crate::waits::{Waited, Waits};

/// Who grows volumes beside a driver.
const RESIZER: Identity =
    Identity { program: "external-resizer", user: "system:serviceaccount:kube-system:csi" };

/// Lets volumes grow.
#[derive(Debug)]
pub(super) struct Resizer {
    context: Context,
    client: Client,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    pods: Arc<Cache>,
    manager: Told,
    recorder: Recorder,
    kubelet: Recorder,
    waits: Waits,
}

/// What a claim that may want to grow needs next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing.
    Nothing,
    /// The driver has to make the volume larger.
    Volume,
    /// The volume is larger; the claim does not say so yet.
    Claim,
    /// A node has to make the file system larger.
    FileSystem,
}

impl Resizer {
    pub(super) fn new(context: &Context) -> Self {
        let client = context.client(RESIZER);
        let manager = context.client(Identity::CONTROLLER_MANAGER);
        Self {
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            pods: client.cache(&POD),
            manager: Told::new(Recorder::new(&manager, context.clock, "volume_expand")),
            recorder: context.recorder(RESIZER),
            kubelet: context.recorder(Identity::KUBELET),
            waits: Waits::new(&context.stages),
            client,
            context: context.clone(),
        }
    }

    async fn grow(&self, claim: &Value, volume: &Value) -> Looked {
        if self.context.settings.manager == Manager::Embedded {
            let message = "waiting for an external controller to expand this PVC";
            self.manager.normal(&PVC, claim, "ExternalExpanding", message).await;
        }
        if let Some(left) = self.waits.resting(claim.uid()) {
            return Ok(Next::After(left));
        }
        let mut claim = claim.clone();
        let wanted = claim.at("/spec/resources/requests/storage").clone();
        if mark(
            &mut claim,
            &wanted,
            "ControllerResizeInProgress",
            "Resizing",
            "",
            &self.context.clock.seconds(),
        ) {
            claim = self.client.replace_status(&PVC, &claim).await?;
            let message = format!("External resizer is resizing volume {}", volume.name());
            self.recorder.normal(&PVC, &claim, "Resizing", &message).await;
        }
        match self.waits.ask(claim.uid(), "volume.expand", &claim) {
            Waited::NotYet(left) => return Ok(Next::After(left)),
            Waited::Failed(words) => return self.failed(&claim, volume, &words).await,
            Waited::Passed => {}
        }
        let size = super::provision::size(&claim);
        let (class, handle) = (volume.text("/spec/storageClassName"), volume.text("/spec/csi/volumeHandle"));
        if let Err(full) = self.context.world.volumes.make_in(class, handle, size) {
            let words = format!("rpc error: code = ResourceExhausted desc = {full}");
            return self.failed(&claim, volume, &words).await;
        }
        self.waits.forget(claim.uid());
        let mut larger = volume.clone();
        larger.set("/spec/capacity/storage", quantity::bytes(size.into()).into());
        self.client.replace(&PV, &larger).await?;
        self.say(&claim, &larger).await
    }

    /// Says in the claim that the volume is larger.
    async fn say(&self, claim: &Value, volume: &Value) -> Looked {
        self.manager.forget(claim.uid());
        if volume_mode(claim) == "Block" {
            self.finish(claim, volume).await?;
            self.recorder.normal(&PVC, claim, "VolumeResizeSuccessful", "Resize volume succeeded").await;
            return Ok(Next::Done);
        }
        let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
        let (mut claim, wanted) = (claim.clone(), claim.at("/spec/resources/requests/storage").clone());
        drop_condition(&mut claim, "Resizing");
        let now = self.context.clock.seconds();
        if mark(&mut claim, &wanted, "NodeResizePending", "FileSystemResizePending", message, &now) {
            self.client.replace_status(&PVC, &claim).await?;
            let message = "Require file system resize of volume on node";
            self.recorder.normal(&PVC, &claim, "FileSystemResizeRequired", message).await;
        }
        Ok(Next::Done)
    }

    /// The node's part: a pod that runs has the file system grown.
    async fn on_node(&self, claim: &Value, volume: &Value) -> Looked {
        let pods = self.pods.find("claim", &Key::of(claim).to_string());
        let running = pods.iter().find(|pod| {
            let host = self.context.world.hosts.get(pod.text("/spec/nodeName"));
            pod.text("/status/phase") == "Running" && host.is_none_or(crate::world::hosts::Host::is_heard)
        });
        let Some(pod) = running else { return Ok(Next::Done) };
        self.finish(claim, volume).await?;
        let message = format!("MountVolume.NodeExpandVolume succeeded for volume \"{}\"", volume.name());
        self.kubelet.normal(&PVC, claim, "FileSystemResizeSuccessful", &message).await;
        self.kubelet.normal(&POD, pod, "FileSystemResizeSuccessful", &message).await;
        Ok(Next::Done)
    }

    async fn finish(&self, claim: &Value, volume: &Value) -> Result {
        let mut grown = claim.clone();
        grown.set("/status/capacity/storage", volume.at("/spec/capacity/storage").clone());
        for done in ["allocatedResources", "allocatedResourceStatuses"] {
            grown.unset(&format!("/status/{done}"));
        }
        for done in ["Resizing", "FileSystemResizePending", "ControllerResizeError"] {
            drop_condition(&mut grown, done);
        }
        self.client.replace_status(&PVC, &grown).await?;
        Ok(())
    }

    async fn failed(&self, claim: &Value, volume: &Value, words: &str) -> Looked {
        let resizer = volume.text("/spec/csi/driver");
        let message = format!("resize volume \"{}\" by resizer \"{resizer}\" failed: {words}", volume.name());
        self.recorder.warning(&PVC, claim, "VolumeResizeFailed", &message).await;
        Ok(Next::After(self.waits.fail(claim.uid())))
    }
}

impl Controller for Resizer {
    const NAME: &'static str = "external-resizer";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.claims),
            Watch::mapped(&self.volumes, |change| {
                let claim = change.object().at("/spec/claimRef");
                vec![Key::new(claim.text("/namespace"), claim.text("/name"))]
            }),
            Watch::mapped(&self.pods, |change| {
                let pod = change.object();
                if pod.text("/status/phase") != "Running" {
                    return Vec::new();
                }
                let claims = pod
                    .list("/spec/volumes")
                    .iter()
                    .map(|volume| volume.text("/persistentVolumeClaim/claimName"));
                claims.filter(|name| !name.is_empty()).map(|name| Key::new(pod.namespace(), name)).collect()
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(claim) = self.claims.get(key) else { return Ok(Next::Done) };
        let Some(volume) = self.volumes.get(&Key::cluster(claim.text("/spec/volumeName"))) else {
            return Ok(Next::Done);
        };
        match step(&claim, &volume) {
            Step::Nothing => Ok(Next::Done),
            Step::Volume => self.grow(&claim, &volume).await,
            Step::Claim => self.say(&claim, &volume).await,
            Step::FileSystem => self.on_node(&claim, &volume).await,
        }
    }
}

/// What a claim that may want to grow needs next.
fn step(claim: &Value, volume: &Value) -> Step {
    let grows = driver(volume.text("/spec/csi/driver")).is_some_and(|driver| driver.grows);
    if !grows || claim.text("/status/phase") != "Bound" || claim.is_deleting() {
        return Step::Nothing;
    }
    let wanted = quantity::of(claim.at("/spec/resources/requests/storage"));
    let (has, said) = (
        quantity::of(volume.at("/spec/capacity/storage")),
        quantity::of(claim.at("/status/capacity/storage")),
    );
    if wanted > has {
        Step::Volume
    } else if wanted <= said {
        Step::Nothing
    } else if claim.condition_holds("FileSystemResizePending") {
        Step::FileSystem
    } else {
        Step::Claim
    }
}

/// Writes how far growing is into the status of a claim; true if that changes it.
fn mark(claim: &mut Value, wanted: &Value, state: &str, condition: &str, message: &str, now: &str) -> bool {
    let before = claim["status"].clone();
    claim.set("/status/allocatedResources", json!({"storage": wanted}));
    claim.set("/status/allocatedResourceStatuses", json!({"storage": state}));
    Condition::new(condition, true, "", message).put(claim, now);
    claim["status"] != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_goes_from_the_volume_to_the_claim() {
        let mut volume =
            json!({"spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "rbd.csi.ceph.com"}}});
        let mut claim = json!({
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        });
        assert_eq!(step(&claim, &volume), Step::Nothing);
        claim.set("/spec/resources/requests/storage", "2Gi".into());
        assert_eq!(step(&claim, &volume), Step::Volume);
        volume.set("/spec/capacity/storage", "2Gi".into());
        assert_eq!(step(&claim, &volume), Step::Claim);
        assert!(mark(&mut claim, &json!("2Gi"), "NodeResizePending", "FileSystemResizePending", "", "1"));
        assert!(!mark(&mut claim, &json!("2Gi"), "NodeResizePending", "FileSystemResizePending", "", "2"));
        assert_eq!(step(&claim, &volume), Step::FileSystem);
        volume.set("/spec/csi/driver", "kubevirt.io.hostpath-provisioner".into());
        assert_eq!(step(&claim, &volume), Step::Nothing);
    }
}
