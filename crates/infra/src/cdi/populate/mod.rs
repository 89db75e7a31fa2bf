//! Populators: the content of a claim is made on a claim beside it, the prime, whose volume is then handed over.
//!
//! The claim itself refers to what it is filled from, which keeps everybody else from making a volume for it.

mod prime;
mod rebind;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub(super) use prime::prime_name;
pub(super) use rebind::rebind;

use super::claim::{self, Facts};
use super::names;
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{DATA_VOLUME, Kind, POD, PVC, VOLUME_IMPORT_SOURCE, VOLUME_UPLOAD_SOURCE};
use crate::object::{Key, Object as _, escaped};

/// How often progress is asked for.
const POLL: Duration = Duration::from_secs(2);

/// What the prime is told by its worker and the claim is told by the prime.
const COPIED: &[&str] = &[
    names::POD_PHASE,
    names::POD_READY,
    names::POD_RESTARTS,
    names::POD_SCHEDULABLE,
    names::RUNNING,
    names::RUNNING_MESSAGE,
    names::RUNNING_REASON,
    names::BOUND,
    names::BOUND_MESSAGE,
    names::BOUND_REASON,
    names::PREALLOCATION,
    names::FATAL_ERROR,
];

/// Fills claims that refer to an import or an upload.
#[derive(Debug)]
pub(super) struct Populators {
    context: Context,
    client: Client,
    recorder: Recorder,
}

impl Populators {
    /// The populators for imports and uploads.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::CDI_CONTROLLER),
            recorder: context.recorder(Identity::CDI_CONTROLLER),
        }
    }
}

/// The kind of source a claim refers to, if it is one of CDI's.
pub(super) fn source_kind(claim: &Value) -> &str {
    let reference = claim.at("/spec/dataSourceRef");
    if reference["apiGroup"] == names::GROUP { reference.text("/kind") } else { "" }
}

fn kind_of(word: &str) -> Option<&'static Kind> {
    [&VOLUME_IMPORT_SOURCE, &VOLUME_UPLOAD_SOURCE].into_iter().find(|kind| kind.kind == word)
}

/// Whether a claim waits for somebody to use it.
pub(super) fn waits(facts: &Facts, claim: &Value) -> bool {
    claim::waits_for_consumer(facts, claim)
        && claim.annotation(names::SELECTED_NODE).is_empty()
        && !claim::is_immediate(claim)
}

/// The claims of a namespace that refer to a source.
pub(in crate::cdi) fn referring(claims: &Cache, source: &Value) -> Vec<Key> {
    // What a DataVolume made is for the claim of its name: no need to look through all claims.
    let owner = source.controller().filter(|owner| owner["kind"] == DATA_VOLUME.kind);
    if let Some(name) = owner.and_then(|owner| owner["name"].as_str()) {
        return vec![Key::new(source.namespace(), name)];
    }
    let all = claims.list(source.namespace()).into_iter();
    all.filter(|claim| claim["spec"]["dataSourceRef"]["name"] == source["metadata"]["name"])
        .map(|claim| Key::of(&claim))
        .collect()
}

impl Controller for Populators {
    const NAME: &'static str = "cdi-populator";

    fn watches(&self) -> Vec<Watch> {
        let claims = self.client.cache(&PVC);
        let of_source = |kind: &'static Kind| {
            let claims = Arc::clone(&claims);
            Watch::mapped(&self.client.cache(kind), move |change| referring(&claims, change.object()))
        };
        vec![
            Watch::mapped(&claims, |change| {
                let claim = change.object();
                if kind_of(source_kind(claim)).is_some() {
                    return vec![change.key()];
                }
                if claim.annotation(names::POPULATOR_KIND).is_empty() {
                    return Vec::new();
                }
                let owner = claim.controller().and_then(|owner| owner["name"].as_str());
                owner.map(|owner| Key::new(claim.namespace(), owner)).into_iter().collect()
            }),
            of_source(&VOLUME_IMPORT_SOURCE),
            of_source(&VOLUME_UPLOAD_SOURCE),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let claim = self.client.cache(&PVC).get(key).filter(|claim| !claim.is_deleting());
        let Some(claim) = claim else { return Ok(Next::Done) };
        let Some(kind) = kind_of(source_kind(&claim)) else { return Ok(Next::Done) };
        let prime = self.client.cache(&PVC).get(&Key::new(&key.namespace, &prime_name(&claim)));
        if claim.text("/status/phase") == "Bound" {
            if let Some(prime) = prime.filter(|prime| !prime.is_deleting()) {
                self.finish(kind, &claim, &prime).await?;
            }
            return Ok(Next::Done);
        }
        match prime {
            Some(prime) if prime.is_controlled_by(claim.uid()) => self.follow(&claim, &prime).await,
            Some(_) => Ok(Next::Done),
            None => {
                self.begin(kind, &claim).await?;
                Ok(Next::Done)
            }
        }
    }
}

impl Populators {
    async fn begin(&self, kind: &'static Kind, claim: &Value) -> Result {
        let facts = Facts::look(&self.client);
        if waits(&facts, claim) {
            return Ok(());
        }
        let key = Key::new(claim.namespace(), claim.text("/spec/dataSourceRef/name"));
        let Some(source) = self.client.cache(kind).get(&key) else { return Ok(()) };
        let meant = source.text("/spec/targetClaim");
        if !meant.is_empty() && meant != claim.name() {
            return Ok(());
        }
        self.client.create_if_absent(&PVC, prime::build(kind, claim, &source)).await
    }

    async fn follow(&self, claim: &Value, prime: &Value) -> Looked {
        let mut wanted = claim.clone();
        wanted.set_annotation(names::PRIME_NAME, prime.name());
        for name in COPIED {
            match prime.annotation(name) {
                "" if prime["metadata"]["annotations"].get(*name).is_none() => {
                    if *name == names::POD_SCHEDULABLE {
                        wanted.unset(&format!("/metadata/annotations/{}", escaped(name)));
                    }
                }
                text => wanted.set_annotation(name, text),
            }
        }
        let phase = prime.annotation(names::POD_PHASE);
        if let Some(progress) = self.progress(claim, prime, phase) {
            wanted.set_annotation(names::PROGRESS, &progress);
        }
        let written = if wanted == *claim { wanted } else { self.client.replace(&PVC, &wanted).await? };
        match phase {
            "Succeeded" => {
                rebind(&self.client, prime, &written).await?;
                Ok(Next::Done)
            }
            "Running" => Ok(Next::After(POLL)),
            _ => Ok(Next::Done),
        }
    }

    /// How far the work on a claim is, in words.
    fn progress(&self, claim: &Value, prime: &Value, phase: &str) -> Option<String> {
        if phase == "Succeeded" {
            return Some("100.0%".to_owned());
        }
        let pod = prime.annotation(names::IMPORT_POD);
        if pod.is_empty() {
            return None;
        }
        let percent = self
            .client
            .cache(&POD)
            .get(&Key::new(prime.namespace(), pod))
            .and_then(|pod| self.context.world.transfers.progress(pod.uid()));
        match percent {
            // The last percent is told when everything is in its place.
            Some(percent) if phase == "Running" && percent < 100.0 => Some(format!("{percent:.2}%")),
            _ if claim.annotation(names::PROGRESS).is_empty() => Some("N/A".to_owned()),
            _ => None,
        }
    }

    /// Tidies up after the volume was handed over.
    async fn finish(&self, kind: &Kind, claim: &Value, prime: &Value) -> Result {
        let (reason, message) = if *kind == VOLUME_IMPORT_SOURCE {
            ("importSucceeded", format!("Successfully imported into {}", claim.name()))
        } else {
            ("uploadSucceeded", format!("Successfully uploaded into {}", claim.name()))
        };
        self.recorder.normal(&PVC, claim, reason, &message).await;
        self.client.delete(&PVC, &Key::of(prime), prime.uid()).await
    }
}
