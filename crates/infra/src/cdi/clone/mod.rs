//! Clones: the populator that fills a claim from another claim or from a snapshot.
//!
//! What a clone goes through depends on how it is made; each step is finished before the next begins, and where it is
//! can be read from the claim.

mod copy;
mod steps;
mod strategy;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

pub(super) use copy::Copies;
use steps::{Made, Target};
use strategy::{Question, Strategy};

use super::claim::Facts;
use super::{names, populate, token};
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{
    CDI, DATA_VOLUME, POD, PVC, STORAGE_PROFILE, VOLUME_CLONE_SOURCE, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
};
use crate::object::{Key, Object as _};

/// How often what is missing is looked for.
const AGAIN: Duration = Duration::from_secs(5);

/// Fills claims that refer to a clone.
#[derive(Debug)]
pub(super) struct Clones {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// Which claim is behind a uid: what is made for a claim carries only that.
    targets: Arc<Mutex<HashMap<String, Key>>>,
}

impl Clones {
    /// The populator for clones.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::CDI_CONTROLLER),
            recorder: context.recorder(Identity::CDI_CONTROLLER),
            targets: Arc::default(),
        }
    }
}

impl Controller for Clones {
    const NAME: &'static str = "cdi-clone-populator";

    fn watches(&self) -> Vec<Watch> {
        let made = |kind: &'static crate::kinds::Kind| {
            let targets = Arc::clone(&self.targets);
            Watch::mapped(&self.client.cache(kind), move |change| {
                let owner = change.object().label(names::OWNED_BY_UID);
                targets.lock().get(owner).cloned().into_iter().collect()
            })
        };
        let claims = self.client.cache(&PVC);
        let all = Arc::clone(&claims);
        vec![
            Watch::mapped(&claims, |change| {
                let ours = populate::source_kind(change.object()) == VOLUME_CLONE_SOURCE.kind;
                if ours { vec![change.key()] } else { Vec::new() }
            }),
            made(&PVC),
            made(&POD),
            made(&VOLUME_SNAPSHOT),
            Watch::mapped(&self.client.cache(&VOLUME_CLONE_SOURCE), move |change| {
                let source = change.object();
                let elsewhere = source.annotation(names::OWNED_BY_DATA_VOLUME).split_once('/');
                if let Some((namespace, name)) = elsewhere {
                    return vec![Key::new(namespace, name)];
                }
                populate::referring(&all, source)
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(claim) = self.client.cache(&PVC).get(key) else {
            self.targets.lock().retain(|_, target| target != key);
            return Ok(Next::Done);
        };
        if populate::source_kind(&claim) != VOLUME_CLONE_SOURCE.kind {
            return Ok(Next::Done);
        }
        let bound = claim.text("/status/phase") == "Bound";
        if bound && !claim.has_finalizer(names::CLONE_FINALIZER) {
            // Nothing is made for it any more.
            self.targets.lock().remove(claim.uid());
            return Ok(Next::Done);
        }
        self.targets.lock().insert(claim.uid().to_owned(), key.clone());
        if !bound && !claim.is_deleting() {
            return self.pending(&claim).await;
        }
        if claim.has_finalizer(names::CLONE_FINALIZER) {
            if bound && !claim.is_deleting() && claim.annotation(names::CLONE_PHASE) != "Succeeded" {
                self.at(&claim, "Succeeded", Some("100.0%")).await?;
                return Ok(Next::Done);
            }
            self.tidy(&claim).await?;
        }
        Ok(Next::Done)
    }
}

/// What keeps a clone from going on.
#[derive(Debug, thiserror::Error)]
enum CloneError {
    /// Whoever asked may not read the source.
    #[error("{0}")]
    Token(#[from] token::TokenError),
    /// The token is for something else.
    #[error("invalid token")]
    OtherToken,
    /// There is no such class.
    #[error("target storage class not found")]
    NoClass,
}

impl Clones {
    async fn pending(&self, claim: &Value) -> Looked {
        let facts = Facts::look(&self.client);
        let reference = claim.text("/spec/dataSourceRef/name");
        let elsewhere = claim.annotation(names::DATA_SOURCE_NAMESPACE);
        let namespace = if elsewhere.is_empty() { claim.namespace() } else { elsewhere };
        let from = self.client.cache(&VOLUME_CLONE_SOURCE).get(&Key::new(namespace, reference));
        let Some(from) = from.filter(|_| !populate::waits(&facts, claim)) else {
            self.at(claim, "Pending", None).await?;
            return Ok(Next::Done);
        };
        if let Err(failure) = self.may_read(claim, &from).await {
            self.fail(claim, &failure).await?;
            return Ok(Next::After(AGAIN));
        }
        let Some(strategy) = Strategy::of(claim.annotation(names::CLONE_TYPE)) else {
            return match self.choose(claim, &from, &facts).await? {
                Ok(true) => Ok(Next::Done),
                Ok(false) => {
                    self.at(claim, "Pending", None).await?;
                    Ok(Next::After(AGAIN))
                }
                Err(failure) => {
                    self.fail(claim, &failure).await?;
                    Ok(Next::After(AGAIN))
                }
            };
        };
        let target = Target { claim, from: &from, facts: &facts, strategy };
        match self.go_on(&target).await? {
            Made::Done => Ok(Next::Done),
            Made::Waits { phase, progress, after } => {
                self.at(claim, phase, progress.as_deref()).await?;
                Ok(after.map_or(Next::Done, Next::After))
            }
        }
    }

    /// Whether a clone into another namespace was allowed.
    async fn may_read(&self, claim: &Value, from: &Value) -> std::result::Result<(), CloneError> {
        if from.namespace() == claim.namespace() {
            return Ok(());
        }
        let given = claim.annotation(names::EXTENDED_CLONE_TOKEN);
        let grant = token::check(&self.context, token::EXTENDED_CLONE, given).await?;
        let meant = grant.namespace == from.namespace() && grant.name == from.text("/spec/source/name");
        if meant { Ok(()) } else { Err(CloneError::OtherToken) }
    }

    /// Decides how the clone is made, and writes it down. False while the source is not there.
    async fn choose(
        &self,
        claim: &Value,
        from: &Value,
        facts: &Facts,
    ) -> Result<std::result::Result<bool, CloneError>> {
        let Some(class) = facts.class(claim.at("/spec/storageClassName").as_str(), false) else {
            return Ok(Err(CloneError::NoClass));
        };
        let is_snapshot = from.text("/spec/source/kind") == "VolumeSnapshot";
        let key = Key::new(from.namespace(), from.text("/spec/source/name"));
        let (kind, word) = if is_snapshot { (&VOLUME_SNAPSHOT, "snapshot") } else { (&PVC, "pvc") };
        let Some(source) = self.client.cache(kind).get(&key) else {
            let message = format!("The source {word} {} doesn't exist", key.name);
            self.recorder.warning(&PVC, claim, "CloneWithoutSource", &message).await;
            return Ok(Ok(false));
        };
        let driver = is_snapshot.then(|| {
            let content = source.text("/status/boundVolumeSnapshotContentName");
            let content = self.client.cache(&VOLUME_SNAPSHOT_CONTENT).get(&Key::cluster(content));
            content.map(|content| content.text("/spec/driver").to_owned()).unwrap_or_default()
        });
        if driver.as_deref() == Some("") {
            return Ok(Ok(false));
        }
        let profile = self.client.cache(&STORAGE_PROFILE).get(&Key::cluster(class.name()));
        let installation = self.client.cache(&CDI).get(&Key::cluster("cdi"));
        let source_class = facts.class(source.at("/spec/storageClassName").as_str(), false);
        let source_class = source_class.map_or(&Value::Null, |class| &**class);
        let snapshot_classes = self.client.cache(&VOLUME_SNAPSHOT_CLASS).list("");
        let (strategy, fallback) = strategy::choose(&Question {
            wanted: installation.as_ref().map_or("", |cdi| cdi.text("/spec/cloneStrategyOverride")),
            profile: profile.as_ref().map_or("", |profile| profile.text("/status/cloneStrategy")),
            source: &source,
            source_class,
            snapshot_driver: driver.as_deref(),
            target: claim,
            class,
            has_snapshot_class: snapshot_classes
                .iter()
                .any(|one| one["driver"] == source_class["provisioner"]),
        });
        let mut wanted = claim.clone();
        wanted.set_annotation(names::CLONE_TYPE, strategy.word());
        wanted.set_annotation(names::CLONE_PHASE, "Pending");
        wanted.add_finalizer(names::CLONE_FINALIZER);
        if let Some(fallback) = fallback {
            let message = fallback.to_string();
            self.recorder.warning(&PVC, claim, fallback.reason(), &message).await;
            wanted.set_annotation(names::CLONE_FALLBACK, &message);
        }
        self.client.replace(&PVC, &wanted).await?;
        Ok(Ok(true))
    }

    /// Writes down where a clone is.
    async fn at(&self, claim: &Value, phase: &str, progress: Option<&str>) -> Result {
        let mut wanted = claim.clone();
        wanted.unset(&format!("/metadata/annotations/{}", crate::object::escaped(names::CLONE_ERROR)));
        wanted.set_annotation(names::CLONE_PHASE, phase);
        if let Some(progress) = progress {
            wanted.set_annotation(names::PROGRESS, progress);
        }
        let said = match phase {
            "Succeeded" => ("false", "Clone Complete", "Completed"),
            "Pending" => ("false", "Clone Pending", "Pending"),
            _ => ("true", "", "Populator is running"),
        };
        say(&mut wanted, said);
        self.put(claim, &wanted).await
    }

    async fn fail(&self, claim: &Value, failure: &CloneError) -> Result {
        let message = failure.to_string();
        let mut wanted = claim.clone();
        wanted.set_annotation(names::CLONE_PHASE, "Error");
        wanted.set_annotation(names::CLONE_ERROR, &message);
        say(&mut wanted, ("false", &message, "Error"));
        self.put(claim, &wanted).await
    }

    async fn put(&self, claim: &Value, wanted: &Value) -> Result {
        if wanted != claim {
            self.client.replace(&PVC, wanted).await?;
        }
        Ok(())
    }

    /// Removes everything that was made for a claim.
    async fn tidy(&self, claim: &Value) -> Result {
        let elsewhere = claim.annotation(names::DATA_SOURCE_NAMESPACE);
        let namespaces = [claim.namespace(), elsewhere];
        for namespace in namespaces.into_iter().filter(|namespace| !namespace.is_empty()) {
            for (kind, name) in steps::made_for(claim.uid()) {
                let key = Key::new(namespace, &name);
                let made = self.client.cache(kind).get(&key);
                let made = made.filter(|made| made.label(names::OWNED_BY_UID) == claim.uid());
                if let Some(made) = made.filter(|made| !made.is_deleting()) {
                    self.client.delete(kind, &key, made.uid()).await?;
                }
            }
        }
        let mut wanted = claim.clone();
        wanted.remove_finalizer(names::CLONE_FINALIZER);
        self.targets.lock().remove(claim.uid());
        self.put(claim, &wanted).await
    }
}

/// Tells the owner of a claim whether somebody works on it.
fn say(claim: &mut Value, (running, message, reason): (&str, &str, &str)) {
    if claim.controller().is_none_or(|owner| owner["kind"] != DATA_VOLUME.kind) {
        return;
    }
    claim.set_annotation(names::RUNNING, running);
    claim.set_annotation(names::RUNNING_MESSAGE, message);
    claim.set_annotation(names::RUNNING_REASON, reason);
}
