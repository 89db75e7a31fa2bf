//! Making the claim of a DataVolume.

use serde_json::Value;

use super::phase::{self, Step, Told};
use super::{DataVolumes, make};
use crate::cdi::claim::{self, Facts};
use crate::cdi::source::{Origin, Source};
use crate::cdi::{names, token, worker};
use crate::client::Result;
use crate::controller::{Looked, Next};
use crate::kinds::{CSI_DRIVER, DATA_VOLUME, PVC, STORAGE_CLASS, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT};
use crate::object::{Key, Object as _};
use crate::quantity;

/// Where a DataVolume is whose claim cannot be made: a clone that was scheduled stays so, or it would be scheduled
/// again with each look.
fn without_claim(volume: &Value) -> Step {
    let scheduled = volume.text("/status/phase") == "CloneScheduled";
    Step { phase: if scheduled { "CloneScheduled" } else { "Pending" }.to_owned(), ..Step::default() }
}

/// Whether a DataVolume says how large it is.
fn has_size(volume: &Value) -> bool {
    ["/spec/pvc/resources/requests/storage", "/spec/storage/resources/requests/storage"]
        .into_iter()
        .any(|pointer| !volume.at(pointer).is_null())
}

impl DataVolumes {
    /// Does the next thing for a DataVolume without a claim.
    pub(super) async fn begin(&self, volume: &Value, source: &Source) -> Looked {
        if let Source::Clone(origin) = source
            && !self.may_clone(volume, origin).await?
        {
            return Ok(Next::Done);
        }
        let facts = Facts::look(&self.client);
        let size = match source {
            Source::Clone(origin) => self.origin_size(origin),
            _ => None,
        };
        if let Source::Clone(origin) = source
            && origin.snapshot
            && size.is_none()
            && !has_size(volume)
        {
            // How large it has to be is known only once the snapshot is made.
            self.waiting.add(&VOLUME_SNAPSHOT, &origin.key, &Key::of(volume));
            return Ok(Next::After(super::POLL));
        }
        let spec = match claim::render(volume, &facts, size) {
            Ok(spec) => spec,
            Err(failure) => {
                self.waiting.add(&STORAGE_CLASS, &Key::default(), &Key::of(volume));
                self.not_valid(volume, &failure.to_string()).await?;
                return Ok(Next::Done);
            }
        };
        if let Source::Import(_) = source
            && volume.text("/status/phase").is_empty()
        {
            let step = Step { phase: "Pending".to_owned(), ..Step::default() };
            self.write(volume, &step, None, None).await?;
            return Ok(Next::Done);
        }
        let populated = self.uses_populator(volume, &spec, &facts);
        let mut wanted = volume.clone();
        if *source != Source::Outside {
            wanted.set_annotation(names::USE_POPULATOR, if populated { "true" } else { "false" });
        }
        if populated
            && let Source::Clone(origin) = source
            && origin.key.namespace != volume.namespace()
        {
            wanted.add_finalizer(names::CROSS_NAMESPACE_FINALIZER);
        }
        if wanted != *volume {
            self.client.replace(&DATA_VOLUME, &wanted).await?;
            return Ok(Next::Done);
        }
        if populated && !matches!(source, Source::Clone(_)) {
            self.source_object(volume, source).await?;
        }
        let immediate = !self.honours_first_consumer();
        let made = make::claim(volume, spec, source, populated, immediate);
        match self.client.create(&PVC, made).await {
            Ok(_) => Ok(Next::Done),
            Err(failure) if failure.is_already_there() => Ok(Next::Done),
            Err(failure) => {
                let reason = if failure.message.contains("exceeded quota") {
                    "ErrExceededQuota"
                } else {
                    "ErrClaimNotValid"
                };
                self.write(volume, &without_claim(volume), None, Some((reason, &failure.message))).await?;
                self.recorder.warning(&DATA_VOLUME, volume, reason, &failure.message).await;
                Err(failure)
            }
        }
    }

    /// Makes the object the claim refers to.
    pub(super) async fn source_object(&self, volume: &Value, source: &Source) -> Result {
        let Some((kind, key)) = make::source_key(volume, source) else { return Ok(()) };
        if self.client.cache(kind).get(&key).is_some() {
            return Ok(());
        }
        self.client.create_if_absent(kind, make::source_object(volume, source, &key)).await
    }

    async fn not_valid(&self, volume: &Value, message: &str) -> Result {
        let reason = "ErrClaimNotValid";
        let known = volume.condition("Bound").text("/message") == message;
        self.write(volume, &without_claim(volume), None, Some((reason, message))).await?;
        if !known {
            self.recorder.warning(&DATA_VOLUME, volume, reason, message).await;
        }
        Ok(())
    }

    /// Whether the class of a claim is one of a driver that knows populators, unless somebody says otherwise.
    fn uses_populator(&self, volume: &Value, spec: &Value, facts: &Facts) -> bool {
        match volume.annotation(names::USE_POPULATOR) {
            "true" => return true,
            "false" => return false,
            _ => {}
        }
        let class = facts.class(spec["storageClassName"].as_str(), false);
        let driver = class.map_or("", |class| class.text("/provisioner"));
        self.client.cache(&CSI_DRIVER).get(&Key::cluster(driver)).is_some()
    }

    /// Whether what is cloned is there and whoever asked may read it; tells what is missing.
    async fn may_clone(&self, volume: &Value, origin: &Origin) -> Result<bool> {
        let kind = if origin.snapshot { &VOLUME_SNAPSHOT } else { &PVC };
        let scheduled = Step {
            phase: "CloneScheduled".to_owned(),
            event: phase::told_of_clone("CloneScheduled", origin, volume),
            ..Step::default()
        };
        let there = self.client.cache(kind).get(&origin.key);
        if volume.text("/status/phase").is_empty() || volume.text("/status/phase") == "Pending" {
            self.write(volume, &scheduled, None, None).await?;
            return Ok(false);
        }
        let Some(there) = there else {
            self.waiting.add(kind, &origin.key, &Key::of(volume));
            let message = format!("The source {} {} doesn't exist", origin.word(), origin.key.name);
            let event = Told { warning: true, reason: "CloneWithoutSource", message };
            self.tell(volume, &event).await;
            return Ok(false);
        };
        if !origin.snapshot && !self.fits(volume, &there) {
            let message = "The clone doesn't meet the validation requirements".to_owned();
            self.tell(volume, &Told { warning: true, reason: "CloneValidationFailed", message }).await;
            self.waiting.add(kind, &origin.key, &Key::of(volume));
            return Ok(false);
        }
        if origin.key.namespace == volume.namespace() {
            return Ok(true);
        }
        self.extend_token(volume, origin).await
    }

    /// Whether a clone is at least as large as what it is made of, where it has a size of its own.
    fn fits(&self, volume: &Value, there: &Value) -> bool {
        let asked = ["/spec/pvc/resources/requests/storage", "/spec/storage/resources/requests/storage"]
            .into_iter()
            .map(|pointer| volume.at(pointer))
            .find(|asked| !asked.is_null());
        let permissive = volume["metadata"]["annotations"].get(names::PERMISSIVE_CLONE).is_some();
        let Some(asked) = asked.filter(|_| !permissive) else { return true };
        // On file systems the overhead is part of what the source asked for.
        let there_size = self
            .content_size(there)
            .unwrap_or_else(|| quantity::whole(there.at("/spec/resources/requests/storage")));
        quantity::whole(asked) >= there_size
    }

    /// Turns the short-lived token of a clone into one for as long as it takes. True once it is there.
    async fn extend_token(&self, volume: &Value, origin: &Origin) -> Result<bool> {
        if !volume.annotation(names::EXTENDED_CLONE_TOKEN).is_empty() {
            return Ok(true);
        }
        let given = volume.annotation(names::CLONE_TOKEN);
        let extended = match token::check(&self.context, token::CLONE, given).await {
            Ok(mut grant) if grant.namespace == origin.key.namespace && grant.name == origin.key.name => {
                grant.params.insert("uid".to_owned(), volume.uid().to_owned());
                token::issue(&self.context, token::EXTENDED_CLONE, grant).await
            }
            Ok(_) => Err(token::TokenError::Invalid),
            Err(failure) => Err(failure),
        };
        match extended {
            Ok(extended) => {
                let mut wanted = volume.clone();
                wanted.set_annotation(names::EXTENDED_CLONE_TOKEN, &extended);
                self.client.replace(&DATA_VOLUME, &wanted).await?;
                Ok(false)
            }
            Err(failure) => {
                let message = failure.to_string();
                self.tell(volume, &Told { warning: true, reason: "ErrUnableToClone", message }).await;
                Ok(false)
            }
        }
    }

    /// How large what is cloned is, for a clone without a size of its own.
    fn origin_size(&self, origin: &Origin) -> Option<i128> {
        if origin.snapshot {
            let snapshot = self.client.cache(&VOLUME_SNAPSHOT).get(&origin.key)?;
            let content = snapshot.text("/status/boundVolumeSnapshotContentName");
            let content = self.client.cache(&VOLUME_SNAPSHOT_CONTENT).get(&Key::cluster(content));
            let handle = content.as_ref().map_or("", |content| content.text("/status/snapshotHandle"));
            let held = self.context.world.volumes.snapshot_content(handle);
            return held
                .filter(|held| held.content.virtual_size > 0)
                .map(|held| i128::from(held.content.virtual_size))
                .or_else(|| Some(quantity::whole(snapshot.at("/status/restoreSize"))))
                .filter(|size| *size > 0);
        }
        let there = self.client.cache(&PVC).get(&origin.key)?;
        self.content_size(&there)
            .or_else(|| Some(quantity::whole(there.at("/spec/resources/requests/storage"))))
    }

    /// How large the disk in a file system is.
    fn content_size(&self, there: &Value) -> Option<i128> {
        if there["spec"]["volumeMode"] == "Block" {
            return None;
        }
        let target = worker::target(&self.client, &Key::of(there))?;
        let held = self.context.world.volumes.get(&target.handle)?;
        (held.content.virtual_size > 0).then(|| i128::from(held.content.virtual_size))
    }
}
