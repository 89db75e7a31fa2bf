//! The claims' side of binding.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, COMPONENT};
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{POD, PV, PVC, STORAGE_CLASS};
use crate::object::{Key, Object as _};
use crate::storage::classes::{class_of, waits_for_consumer};
use crate::storage::matching::{best, is_for, mismatch};
use crate::storage::told::Told;

/// Where the scheduler says which node a claim's volume is for.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Where the binder says who has to make the volume: today's name and the older one.
const PROVISIONERS: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Finds volumes for claims, or somebody to make them.
#[derive(Debug)]
pub(in crate::storage) struct ClaimBinder {
    client: Client,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    classes: Arc<Cache>,
    pods: Arc<Cache>,
    told: Told,
}

impl ClaimBinder {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(Identity::CONTROLLER_MANAGER);
        Self {
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            classes: client.cache(&STORAGE_CLASS),
            pods: client.cache(&POD),
            told: Told::new(Recorder::new(&client, context.clock, COMPONENT)),
            client,
        }
    }

    /// A claim that has never been bound.
    async fn unbound(&self, claim: &Value) -> Looked {
        let named = claim.text("/spec/volumeName");
        if !named.is_empty() {
            return self.named(claim, named).await;
        }
        let class = self.classes.get(&Key::cluster(class_of(claim)));
        let waits =
            class.as_deref().is_some_and(waits_for_consumer) && claim.annotation(SELECTED_NODE).is_empty();
        let mut volumes = self.volumes.find("claim", &Key::of(claim).to_string());
        volumes.extend(self.volumes.find("claim", "/"));
        if let Some(volume) = best(&volumes, claim, waits) {
            return self.bind(claim, volume).await;
        }
        if claim.at("/spec/storageClassName").is_null()
            && class_of(claim).is_empty()
            && let Some(default) = newest_default(&self.classes.list(""))
        {
            // The default may have come after the claim.
            let patch = json!({"spec": {"storageClassName": default.name()}});
            self.client.merge(&PVC, &Key::of(claim), &patch).await?;
            return Ok(Next::Done);
        }
        if waits {
            let (reason, message) = self.waits_for(claim);
            self.told.normal(&PVC, claim, reason, &message).await;
        } else if class_of(claim).is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.told.normal(&PVC, claim, "FailedBinding", message).await;
        } else {
            self.provision(claim, class.as_deref()).await?;
        }
        Ok(Next::Done)
    }

    /// What a claim waits for that waits for a pod.
    fn waits_for(&self, claim: &Value) -> (&'static str, String) {
        let pods = self.pods.find("claim", &Key::of(claim).to_string());
        let waiting: Vec<&str> =
            pods.iter().filter(|pod| pod.text("/spec/nodeName").is_empty()).map(|pod| pod.name()).collect();
        match waiting.as_slice() {
            [] => {
                ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned())
            }
            [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
        }
    }

    /// Asks the provisioner of the class for a volume.
    async fn provision(&self, claim: &Value, class: Option<&Value>) -> Result {
        let Some(class) = class else {
            let message = format!("storageclass.storage.k8s.io \"{}\" not found", class_of(claim));
            self.told.warning(&PVC, claim, "ProvisioningFailed", &message).await;
            return Ok(());
        };
        let provisioner = class.text("/provisioner");
        if provisioner == "kubernetes.io/no-provisioner" {
            let message = "no volume plugin matched name: kubernetes.io/no-provisioner";
            self.told.warning(&PVC, claim, "ProvisioningFailed", message).await;
            return Ok(());
        }
        if PROVISIONERS.iter().any(|name| claim.annotation(name) != provisioner) {
            let mut asked = claim.clone();
            for name in PROVISIONERS {
                asked.set_annotation(name, provisioner);
            }
            self.client.replace(&PVC, &asked).await?;
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
             the system administrator. If volume creation is delayed, please verify that the provisioner is running \
             and correctly registered."
        );
        self.told.normal(&PVC, claim, "ExternalProvisioning", &message).await;
        Ok(())
    }

    /// A claim that names a volume but was never bound.
    async fn named(&self, claim: &Value, name: &str) -> Looked {
        let Some(volume) = self.volumes.get(&Key::cluster(name)) else { return Ok(Next::Done) };
        if volume.at("/spec/claimRef").is_null() {
            if let Some(reason) = mismatch(&volume, claim) {
                let message = format!("Cannot bind to requested volume \"{name}\": {reason}");
                self.told.warning(&PVC, claim, "VolumeMismatch", &message).await;
                return Ok(Next::Done);
            }
        } else if !is_for(&volume, claim) {
            let message = format!("volume \"{name}\" already bound to a different claim.");
            self.told.warning(&PVC, claim, "FailedBinding", &message).await;
            return Ok(Next::Done);
        }
        self.bind(claim, &volume).await
    }

    /// A claim that was bound once.
    async fn bound(&self, claim: &Value) -> Looked {
        let name = claim.text("/spec/volumeName");
        let volume = self.volumes.get(&Key::cluster(name)).filter(|_| !name.is_empty());
        let Some(volume) = volume else {
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            return self.lost(claim, "ClaimLost", message).await;
        };
        if volume.at("/spec/claimRef").is_null() || is_for(&volume, claim) {
            return self.bind(claim, &volume).await;
        }
        let message = "Two claims are bound to the same volume, this one is bound incorrectly";
        self.lost(claim, "ClaimMisbound", message).await
    }

    async fn lost(&self, claim: &Value, reason: &str, message: &str) -> Looked {
        if claim.text("/status/phase") != "Lost" {
            let mut lost = claim.clone();
            lost.set("/status/phase", "Lost".into());
            for gone in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
                lost.unset(&format!("/status/{gone}"));
            }
            self.client.replace_status(&PVC, &lost).await?;
            self.told.warning(&PVC, claim, reason, message).await;
        }
        Ok(Next::Done)
    }

    /// Binds a claim and a volume, as far as they are not bound: the volume names the claim and is `Bound`, the claim
    /// names the volume and is `Bound`.
    async fn bind(&self, claim: &Value, volume: &Value) -> Looked {
        let mut volume = volume.clone();
        if name_claim(&mut volume, claim) {
            volume = self.client.replace(&PV, &volume).await?;
        }
        if volume.text("/status/phase") != "Bound" {
            volume.set("/status/phase", "Bound".into());
            for stale in ["reason", "message"] {
                volume.unset(&format!("/status/{stale}"));
            }
            volume = self.client.replace_status(&PV, &volume).await?;
        }
        let mut claim = claim.clone();
        if name_volume(&mut claim, &volume) {
            claim = self.client.replace(&PVC, &claim).await?;
        }
        if fill_status(&mut claim, &volume) {
            self.client.replace_status(&PVC, &claim).await?;
        }
        self.told.forget(claim.uid());
        Ok(Next::Done)
    }

    /// The claims a volume may concern: the one it names, or all that look for one of its class.
    fn concerned(claims: &Cache, volume: &Value) -> Vec<Key> {
        if !volume.at("/spec/claimRef").is_null() {
            return vec![Key::new(
                volume.text("/spec/claimRef/namespace"),
                volume.text("/spec/claimRef/name"),
            )];
        }
        let all = claims.list("");
        let looking = all.iter().filter(|claim| {
            let named = claim.text("/spec/volumeName");
            named == volume.name()
                || named.is_empty() && class_of(claim) == volume.text("/spec/storageClassName")
        });
        looking.map(|claim| Key::of(claim)).collect()
    }
}

impl Controller for ClaimBinder {
    const NAME: &'static str = "persistentvolume-binder, claims";

    fn watches(&self) -> Vec<Watch> {
        let (of_volumes, of_classes) = (Arc::clone(&self.claims), Arc::clone(&self.claims));
        vec![
            Watch::each(&self.claims),
            Watch::mapped(&self.volumes, move |change| {
                let mut keys: Vec<Key> =
                    change.before.iter().flat_map(|volume| Self::concerned(&of_volumes, volume)).collect();
                keys.extend(change.after.iter().flat_map(|volume| Self::concerned(&of_volumes, volume)));
                keys.dedup();
                keys
            }),
            Watch::mapped(&self.classes, move |_| {
                let all = of_classes.list("");
                all.iter()
                    .filter(|claim| claim.text("/spec/volumeName").is_empty())
                    .map(|claim| Key::of(claim))
                    .collect()
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(claim) = self.claims.get(key) else { return Ok(Next::Done) };
        if !claim.annotation(BIND_COMPLETED).is_empty() {
            self.bound(&claim).await
        } else if claim.is_deleting() {
            self.told.forget(claim.uid());
            Ok(Next::Done)
        } else {
            self.unbound(&claim).await
        }
    }
}

/// Lets a volume name a claim; true if that changes it.
fn name_claim(volume: &mut Value, claim: &Value) -> bool {
    if !volume.at("/spec/claimRef").is_null() && volume.text("/spec/claimRef/uid") == claim.uid() {
        return false;
    }
    if volume.at("/spec/claimRef").is_null() {
        volume.set_annotation(BOUND_BY_CONTROLLER, "yes");
    }
    let meant = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(),
        "uid": claim.uid(), "resourceVersion": claim["metadata"]["resourceVersion"],
    });
    volume.set("/spec/claimRef", meant);
    true
}

/// Lets a claim name a volume; true if that changes it.
fn name_volume(claim: &mut Value, volume: &Value) -> bool {
    let mut changes = false;
    if claim.text("/spec/volumeName") != volume.name() {
        claim.set("/spec/volumeName", volume.name().into());
        claim.set_annotation(BOUND_BY_CONTROLLER, "yes");
        changes = true;
    }
    if claim.annotation(BIND_COMPLETED).is_empty() {
        claim.set_annotation(BIND_COMPLETED, "yes");
        changes = true;
    }
    changes
}

/// Fills in what a bound claim is given; true if that changes it. The size and the class of attributes
/// are left to whoever changes them later.
fn fill_status(claim: &mut Value, volume: &Value) -> bool {
    let before = claim["status"].clone();
    let attributes = volume.at("/spec/volumeAttributesClassName");
    if claim.text("/status/phase") == "Pending" && !attributes.is_null() {
        claim.set("/status/currentVolumeAttributesClassName", attributes.clone());
    }
    if claim.text("/status/phase") != "Bound" {
        claim.set("/status/phase", "Bound".into());
        claim.set("/status/capacity", volume.at("/spec/capacity").clone());
    }
    claim.set("/status/accessModes", volume.at("/spec/accessModes").clone());
    claim["status"] != before
}

/// The newest class that says it is the default.
fn newest_default(classes: &[Arc<Value>]) -> Option<&Arc<Value>> {
    classes
        .iter()
        .filter(|class| class.annotation("storageclass.kubernetes.io/is-default-class") == "true")
        .max_by_key(|class| {
            (class.text("/metadata/creationTimestamp").to_owned(), std::cmp::Reverse(class.name().to_owned()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_the_attributes_of_its_volume_once_it_is_bound() {
        let mut volume =
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "gold"}});
        let mut claim = json!({"status": {"phase": "Pending"}});
        assert!(fill_status(&mut claim, &volume));
        assert_eq!(claim["status"]["currentVolumeAttributesClassName"], "gold");
        // From then on it is the driver that says what the volume has.
        volume["spec"]["volumeAttributesClassName"] = "silver".into();
        assert!(!fill_status(&mut claim, &volume));
    }
}
