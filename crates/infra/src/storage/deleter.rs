//! Deletes volumes that nobody claims any more, and what is behind them.

use std::sync::Arc;

use serde_json::Value;

use super::classes::driver;
use super::provision::{FINALIZER, PROVISIONED_BY};
use super::told::Told;
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{PV, VOLUME_ATTACHMENT};
use crate::object::{Key, Object as _};
use crate::quantity;
use crate::waits::{Waited, Waits};
use crate::world::World;

/// Deletes volumes.
#[derive(Debug)]
pub(super) struct Deleter {
    client: Client,
    world: World,
    volumes: Arc<Cache>,
    attachments: Arc<Cache>,
    told: Told,
    waits: Waits,
}

impl Deleter {
    pub(super) fn new(context: &Context) -> Self {
        let client = context.client(Identity::PROVISIONER);
        Self {
            volumes: client.cache(&PV),
            attachments: client.cache(&VOLUME_ATTACHMENT),
            told: Told::new(context.recorder(Identity::PROVISIONER)),
            waits: Waits::new(&context.stages),
            world: context.world.clone(),
            client,
        }
    }

    async fn delete(&self, volume: &Value) -> Looked {
        if let Some(left) = self.waits.resting(volume.uid()) {
            return Ok(Next::After(left));
        }
        let attachments = self.attachments.find("volume", volume.name());
        if let Some(attached) = attachments.first() {
            let node = attached.text("/spec/nodeName");
            let message = format!("persistentvolume {} is still attached to node {node}", volume.name());
            return self.failed(volume, &message).await;
        }
        match self.waits.ask(volume.uid(), "volume.delete", volume) {
            Waited::NotYet(left) => return Ok(Next::After(left)),
            Waited::Failed(words) => return self.failed(volume, &words).await,
            Waited::Passed => {}
        }
        self.world.volumes.remove(volume.text("/spec/csi/volumeHandle"));
        self.client.delete(&PV, &Key::of(volume), volume.uid()).await?;
        self.let_go(&Key::of(volume)).await?;
        self.waits.forget(volume.uid());
        self.told.forget(volume.uid());
        Ok(Next::Done)
    }

    async fn failed(&self, volume: &Value, message: &str) -> Looked {
        self.told.warning(&PV, volume, "VolumeFailedDelete", message).await;
        Ok(Next::After(self.waits.fail(volume.uid())))
    }

    /// Takes our finalizer away.
    async fn let_go(&self, key: &Key) -> Result {
        let Some(volume) = self.volumes.get(key) else { return Ok(()) };
        let mut free = (*volume).clone();
        if free.remove_finalizer(FINALIZER) {
            match self.client.replace(&PV, &free).await {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Controller for Deleter {
    const NAME: &'static str = "csi-provisioner, deletion";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.volumes),
            Watch::mapped(&self.attachments, |change| {
                vec![Key::cluster(change.object().text("/spec/source/persistentVolumeName"))]
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(volume) = self.volumes.get(key) else { return Ok(Next::Done) };
        if driver(volume.annotation(PROVISIONED_BY)).is_none() {
            return Ok(Next::Done);
        }
        let handle = volume.text("/spec/csi/volumeHandle");
        if self.world.volumes.get(handle).is_none() && !volume.is_deleting() {
            // From before a restart: the storage outlives whoever looks after it.
            let size =
                u64::try_from(quantity::whole(volume.at("/spec/capacity/storage"))).unwrap_or_default();
            if self.world.volumes.make_in(volume.text("/spec/storageClassName"), handle, size).is_err() {
                self.world.volumes.make(handle, size);
            }
        }
        let kept = volume.text("/spec/persistentVolumeReclaimPolicy") != "Delete";
        if kept && volume.has_finalizer(FINALIZER) {
            self.let_go(key).await?;
        } else if is_to_be_deleted(&volume) {
            return self.delete(&volume).await;
        }
        Ok(Next::Done)
    }
}

/// Whether what is behind a volume has to go.
fn is_to_be_deleted(volume: &Value) -> bool {
    volume.text("/status/phase") == "Released"
        && volume.text("/spec/persistentVolumeReclaimPolicy") == "Delete"
        && (!volume.is_deleting() || volume.has_finalizer(FINALIZER))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_released_goes() {
        let volume = |phase: &str, policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase}});
        assert!(is_to_be_deleted(&volume("Released", "Delete")));
        assert!(!is_to_be_deleted(&volume("Released", "Retain")));
        assert!(!is_to_be_deleted(&volume("Bound", "Delete")));
        let mut going = volume("Released", "Delete");
        going.set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into());
        assert!(!is_to_be_deleted(&going));
        going.add_finalizer(FINALIZER);
        assert!(is_to_be_deleted(&going));
    }
}
