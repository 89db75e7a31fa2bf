//! The volumes' side of binding.

use std::sync::Arc;

use serde_json::Value;

use super::{BOUND_BY_CONTROLLER, COMPONENT};
use crate::client::{Cache, Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{PV, PVC};
use crate::object::{Key, Object as _};
use crate::storage::matching::mismatch;
use crate::storage::told::Told;

/// Keeps the phases of volumes, and releases those whose claim is gone.
#[derive(Debug)]
pub(in crate::storage) struct VolumeBinder {
    client: Client,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    told: Told,
}

/// What a volume is to do next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Be in this phase.
    Phase(&'static str),
    /// Be released, then whatever its reclaim policy says.
    Release,
    /// Forget its claim, which has another volume.
    Unbind,
    /// Nothing: the claim's side goes on.
    Wait,
    /// Nothing: the claim it names does not fit.
    Mismatch(&'static str),
}

impl VolumeBinder {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(Identity::CONTROLLER_MANAGER);
        Self {
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            told: Told::new(Recorder::new(&client, context.clock, COMPONENT)),
            client,
        }
    }

    async fn phase(&self, volume: &Value, phase: &str, message: &str) -> Looked {
        if volume.text("/status/phase") != phase || volume.text("/status/message") != message {
            let mut changed = volume.clone();
            changed.set("/status/phase", phase.into());
            if message.is_empty() {
                changed.unset("/status/message");
            } else {
                changed.set("/status/message", message.into());
            }
            changed.unset("/status/reason");
            self.client.replace_status(&PV, &changed).await?;
        }
        Ok(Next::Done)
    }

    async fn release(&self, volume: &Value) -> Looked {
        let phase = volume.text("/status/phase");
        if phase != "Released" && phase != "Failed" {
            return self.phase(volume, "Released", "").await;
        }
        let made_by = volume.annotation("pv.kubernetes.io/provisioned-by");
        match volume.text("/spec/persistentVolumeReclaimPolicy") {
            // Whoever made the volume deletes it.
            "Delete" if made_by.is_empty() => {
                let message =
                    "error getting deleter volume plugin for volume: no deletable volume plugin matched";
                self.told.warning(&PV, volume, "VolumeFailedDelete", message).await;
                self.phase(volume, "Failed", message).await
            }
            "Recycle" => {
                let message = "no volume plugin matched";
                self.told.warning(&PV, volume, "VolumeFailedRecycle", message).await;
                self.phase(volume, "Failed", message).await
            }
            _ => Ok(Next::Done),
        }
    }

    async fn unbind(&self, volume: &Value) -> Looked {
        let mut free = volume.clone();
        if free.annotation(BOUND_BY_CONTROLLER).is_empty() {
            free.unset("/spec/claimRef/uid");
        } else {
            free.unset("/spec/claimRef");
            free.unset("/metadata/annotations/pv.kubernetes.io~1bound-by-controller");
        }
        let free = self.client.replace(&PV, &free).await?;
        self.phase(&free, "Available", "").await
    }
}

impl Controller for VolumeBinder {
    const NAME: &'static str = "persistentvolume-binder, volumes";

    fn watches(&self) -> Vec<Watch> {
        let volumes = Arc::clone(&self.volumes);
        vec![
            Watch::each(&self.volumes),
            Watch::mapped(&self.claims, move |change| {
                let found = volumes.find("claim", &change.key().to_string());
                let mut keys: Vec<Key> = found.iter().map(|volume| Key::of(volume)).collect();
                let named = change.object().text("/spec/volumeName");
                if !named.is_empty() {
                    keys.push(Key::cluster(named));
                }
                keys.sort();
                keys.dedup();
                keys
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(volume) = self.volumes.get(key) else { return Ok(Next::Done) };
        let claim = Key::new(volume.text("/spec/claimRef/namespace"), volume.text("/spec/claimRef/name"));
        let mut claim = self.claims.get(&claim);
        let uid = volume.text("/spec/claimRef/uid");
        if !uid.is_empty() && claim.as_ref().is_none_or(|claim| claim.uid() != uid) {
            // The cache may be behind for a claim that was just made; a volume is released only for certain.
            let key = Key::new(volume.text("/spec/claimRef/namespace"), volume.text("/spec/claimRef/name"));
            claim = self.client.get(&PVC, &key).await?.map(Arc::new);
        }
        match step(&volume, claim.as_deref()) {
            Step::Phase(phase) => self.phase(&volume, phase, "").await,
            Step::Release => self.release(&volume).await,
            Step::Unbind => self.unbind(&volume).await,
            Step::Wait => Ok(Next::Done),
            Step::Mismatch(reason) => {
                let message =
                    format!("Cannot bind PersistentVolume to requested PersistentVolumeClaim: {reason}");
                self.told.warning(&PV, &volume, "VolumeMismatch", &message).await;
                Ok(Next::Done)
            }
        }
    }
}

/// What a volume is to do next, given the claim of the name it names.
fn step(volume: &Value, claim: Option<&Value>) -> Step {
    let uid = volume.text("/spec/claimRef/uid");
    if uid.is_empty() {
        // Free, or kept for a claim that has not come yet.
        return match claim.and_then(|claim| mismatch(volume, claim)) {
            Some(reason) if volume.text("/status/phase") == "Available" => Step::Mismatch(reason),
            _ => Step::Phase("Available"),
        };
    }
    let Some(claim) = claim.filter(|claim| claim.uid() == uid) else { return Step::Release };
    let named = claim.text("/spec/volumeName");
    if named == volume.name() {
        return Step::Phase("Bound");
    }
    if named.is_empty() {
        return match mismatch(volume, claim) {
            Some(reason) => Step::Mismatch(reason),
            None => Step::Wait,
        };
    }
    let made = !volume.annotation("pv.kubernetes.io/provisioned-by").is_empty();
    if made && volume.text("/spec/persistentVolumeReclaimPolicy") == "Delete" {
        // Made for a claim that got another one meanwhile.
        return Step::Release;
    }
    Step::Unbind
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(claim: &Value) -> Value {
        json!({
            "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": claim},
        })
    }

    fn claim(named: &str) -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "c", "uid": "u"},
            "spec": {
                "volumeName": named, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    }

    #[test]
    fn a_volume_follows_its_claim() {
        let named = volume(&json!({"namespace": "n", "name": "c", "uid": "u"}));
        let kept = volume(&json!({"namespace": "n", "name": "c"}));
        assert_eq!(step(&volume(&Value::Null), None), Step::Phase("Available"));
        assert_eq!(step(&kept, None), Step::Phase("Available"));
        assert_eq!(step(&named, Some(&claim(""))), Step::Wait);
        assert_eq!(step(&named, Some(&claim("v"))), Step::Phase("Bound"));
        assert_eq!(step(&named, None), Step::Release);
        assert_eq!(step(&named, Some(&claim("other"))), Step::Unbind);
        let mut earlier = claim("");
        earlier["metadata"]["uid"] = "later".into();
        assert_eq!(step(&named, Some(&earlier)), Step::Release);
        let mut made = named.clone();
        made.set_annotation("pv.kubernetes.io/provisioned-by", "d");
        made.set("/spec/persistentVolumeReclaimPolicy", "Delete".into());
        assert_eq!(step(&made, Some(&claim("other"))), Step::Release);
    }
}
