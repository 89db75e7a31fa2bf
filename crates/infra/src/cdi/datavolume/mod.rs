//! DataVolumes: from what somebody wants on a volume to a claim that has it.

mod begin;
mod conditions;
mod make;
mod phase;
mod waiting;

use std::time::Duration;

use serde_json::Value;

use phase::{Step, Told, View};
use waiting::Waiting;

use super::claim::Facts;
use super::source::{self, Source};
use super::{names, populate};
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{
    CSI_DRIVER, DATA_SOURCE, DATA_VOLUME, POD, PVC, STORAGE_CLASS, STORAGE_PROFILE, VOLUME_SNAPSHOT,
};
use crate::object::{Key, Object as _, owned_by};

/// How often progress is asked for.
const POLL: Duration = Duration::from_secs(2);

/// Makes DataVolumes into claims, and tells how they are.
#[derive(Debug)]
pub(super) struct DataVolumes {
    context: Context,
    client: Client,
    recorder: Recorder,
    waiting: std::sync::Arc<Waiting>,
}

impl DataVolumes {
    /// The controller of DataVolumes.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::CDI_CONTROLLER),
            recorder: context.recorder(Identity::CDI_CONTROLLER),
            waiting: std::sync::Arc::default(),
        }
    }
}

/// The claim a DataVolume has or will have.
fn claim_name(volume: &Value) -> &str {
    let there = volume.annotation(names::PRE_POPULATED);
    if there.is_empty() || there == "true" { volume.name() } else { there }
}

/// Whether the content of a DataVolume is there already, as somebody says.
fn is_pre_populated(volume: &Value) -> bool {
    !volume.annotation(names::PRE_POPULATED).is_empty()
}

/// Whether a claim is filled by a populator.
fn is_populated(volume: &Value, claim: &Value) -> bool {
    match volume.annotation(names::USE_POPULATOR) {
        "" => !populate::source_kind(claim).is_empty(),
        text => text == "true",
    }
}

impl Controller for DataVolumes {
    const NAME: &'static str = "cdi-datavolume";

    fn watches(&self) -> Vec<Watch> {
        let client = &self.client;
        // What is waited for by name, and what all wait for whose claim could not be made.
        let named = |kind: &'static crate::kinds::Kind| {
            let waiting = std::sync::Arc::clone(&self.waiting);
            Watch::mapped(&client.cache(kind), move |change| waiting.take(kind, &change.key()))
        };
        let any = |kind: &'static crate::kinds::Kind| {
            let waiting = std::sync::Arc::clone(&self.waiting);
            Watch::mapped(&client.cache(kind), move |_| waiting.take(&STORAGE_CLASS, &Key::default()))
        };
        vec![
            Watch::each(&client.cache(&DATA_VOLUME)),
            Watch::owners(&client.cache(&PVC), "DataVolume"),
            named(&PVC),
            named(&VOLUME_SNAPSHOT),
            named(&DATA_SOURCE),
            any(&STORAGE_CLASS),
            any(&STORAGE_PROFILE),
            any(&CSI_DRIVER),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(volume) = self.client.cache(&DATA_VOLUME).get(key) else { return Ok(Next::Done) };
        let source = source::of(&self.client, &volume);
        if volume.is_deleting() {
            self.tidy_elsewhere(&volume, source.as_ref()).await?;
            return Ok(Next::Done);
        }
        let claim_key = Key::new(&key.namespace, claim_name(&volume));
        let claim = self.client.cache(&PVC).get(&claim_key);
        let Some(source) = source else {
            return self.without_source(&volume).await;
        };
        match claim {
            Some(claim) if claim.is_controlled_by(volume.uid()) => {
                self.follow(&volume, &claim, &source).await
            }
            Some(claim) => self.other(&volume, &claim, &source).await,
            None if is_pre_populated(&volume) => {
                self.write(&volume, &Step { phase: "Pending".to_owned(), ..Step::default() }, None, None)
                    .await?;
                self.waiting.add(&PVC, &claim_key, key);
                Ok(Next::Done)
            }
            None => self.begin(&volume, &source).await,
        }
    }
}

impl DataVolumes {
    /// Waits for the DataSource a DataVolume refers to.
    async fn without_source(&self, volume: &Value) -> Looked {
        let reference = volume.at("/spec/sourceRef");
        let namespace = reference.text("/namespace");
        let namespace = if namespace.is_empty() { volume.namespace() } else { namespace };
        self.waiting.add(&DATA_SOURCE, &Key::new(namespace, reference.text("/name")), &Key::of(volume));
        let phase = volume.text("/status/phase");
        let step =
            Step { phase: if phase.is_empty() { "Pending" } else { phase }.to_owned(), ..Step::default() };
        self.write(volume, &step, None, None).await?;
        Ok(Next::Done)
    }

    /// Deals with a claim of the right name that somebody else made.
    async fn other(&self, volume: &Value, claim: &Value, source: &Source) -> Looked {
        let adopts = [volume, claim].iter().any(|one| one.annotation(names::CLAIM_ADOPTION) == "true");
        let free = claim.controller().is_none();
        let meant = claim.annotation(names::POPULATED_FOR) == volume.name();
        if free && (adopts || meant || is_pre_populated(volume)) {
            let mut wanted = claim.clone();
            let owners = wanted.list("/metadata/ownerReferences").to_vec();
            let owners = owners.into_iter().chain([owned_by(&DATA_VOLUME, volume)]).collect();
            wanted.set("/metadata/ownerReferences", Value::Array(owners));
            wanted.set_annotation(names::POPULATED_FOR, volume.name());
            let written = self.client.replace(&PVC, &wanted).await?;
            return self.follow(volume, &written, source).await;
        }
        let message =
            format!("Resource \"{}\" already exists and is not managed by DataVolume", claim.name());
        self.recorder.warning(&DATA_VOLUME, volume, "ErrResourceExists", &message).await;
        self.waiting.add(&PVC, &Key::of(claim), &Key::of(volume));
        Ok(Next::Done)
    }

    /// Tells how a DataVolume is that has its claim.
    async fn follow(&self, volume: &Value, claim: &Value, source: &Source) -> Looked {
        let populated = is_populated(volume, claim);
        if matches!(source, Source::Clone(_)) && populated && volume.text("/status/phase") != "Succeeded" {
            self.source_object(volume, source).await?;
        }
        let facts = Facts::look(&self.client);
        let percent = self.percent(claim);
        let waits = populate::waits(&facts, claim) && self.honours_first_consumer();
        let step = phase::step(&View { volume, claim, source, populated, waits, percent });
        let written = self.write(volume, &step, Some(claim), None).await?;
        if step.phase == "Succeeded" {
            self.tidy(&written, claim, source).await?;
        }
        if populated && claim.annotation(names::CLONE_TYPE) != written.annotation(names::CLONE_TYPE) {
            let mut wanted = written.clone();
            wanted.set_annotation(names::CLONE_TYPE, claim.annotation(names::CLONE_TYPE));
            self.client.replace(&DATA_VOLUME, &wanted).await?;
        }
        let in_progress = matches!(step.phase.as_str(), "ImportInProgress" | "CloneInProgress");
        Ok(if in_progress && !populated { Next::After(POLL) } else { Next::Done })
    }

    fn honours_first_consumer(&self) -> bool {
        let config = self.client.cache(&crate::kinds::CDI_CONFIG).get(&Key::cluster("config"));
        config.is_none_or(|config| {
            config.list("/spec/featureGates").iter().any(|gate| gate == "HonorWaitForFirstConsumer")
        })
    }

    /// How far the worker on a claim itself is.
    fn percent(&self, claim: &Value) -> Option<f64> {
        let pod = claim.annotation(names::IMPORT_POD);
        let pod = self.client.cache(&POD).get(&Key::new(claim.namespace(), pod))?;
        self.context.world.transfers.progress(pod.uid())
    }

    /// Writes where a DataVolume is, if that has changed, and tells of it.
    async fn write(
        &self,
        volume: &Value,
        step: &Step,
        claim: Option<&Value>,
        said: Option<(&str, &str)>,
    ) -> Result<Value> {
        let mut wanted = volume.clone();
        wanted.set("/status/phase", step.phase.as_str().into());
        let claim_is = claim.map_or(volume.name(), crate::object::Object::name);
        wanted.set("/status/claimName", claim_is.into());
        match &step.progress {
            Some(progress) => wanted.set("/status/progress", progress.as_str().into()),
            None if volume.text("/status/progress").is_empty() => {
                wanted.set("/status/progress", "N/A".into());
            }
            None => {}
        }
        let restarts = claim.and_then(|claim| claim.annotation(names::POD_RESTARTS).parse::<i64>().ok());
        if let Some(restarts) = restarts.filter(|restarts| *restarts > 0) {
            wanted.set("/status/restartCount", restarts.into());
        }
        conditions::put(&mut wanted, claim, said, &self.context.clock.seconds());
        if wanted == *volume {
            return Ok(wanted);
        }
        let written = self.client.replace_status(&DATA_VOLUME, &wanted).await?;
        if let Some(event) = &step.event
            && volume.text("/status/phase") != step.phase
        {
            self.tell(&written, event).await;
        }
        for (warning, reason, message) in conditions::told(volume, &written) {
            if warning {
                self.recorder.warning(&DATA_VOLUME, &written, &reason, &message).await;
            } else {
                self.recorder.normal(&DATA_VOLUME, &written, &reason, &message).await;
            }
        }
        Ok(written)
    }

    async fn tell(&self, volume: &Value, event: &Told) {
        if event.warning {
            self.recorder.warning(&DATA_VOLUME, volume, event.reason, &event.message).await;
        } else {
            self.recorder.normal(&DATA_VOLUME, volume, event.reason, &event.message).await;
        }
    }

    /// Removes what is not needed any more once everything is in its place.
    async fn tidy(&self, volume: &Value, claim: &Value, source: &Source) -> Result {
        if claim.annotation(names::POPULATED_FOR) != volume.name() {
            let mut wanted = claim.clone();
            wanted.set_annotation(names::POPULATED_FOR, volume.name());
            self.client.replace(&PVC, &wanted).await?;
        }
        self.tidy_elsewhere(volume, Some(source)).await
    }

    /// Removes what a DataVolume refers to, which its owner reference does not always do.
    async fn tidy_elsewhere(&self, volume: &Value, source: Option<&Source>) -> Result {
        if let Some((kind, key)) = source.and_then(|source| make::source_key(volume, source))
            && let Some(object) = self.client.cache(kind).get(&key)
            && !object.is_deleting()
        {
            self.client.delete(kind, &key, object.uid()).await?;
        }
        let mut wanted = volume.clone();
        if wanted.remove_finalizer(names::CROSS_NAMESPACE_FINALIZER) {
            self.client.replace(&DATA_VOLUME, &wanted).await?;
        }
        Ok(())
    }
}
