//! Imports: from a claim that says where its content is to the pod that brings it.

pub(super) mod checksum;
mod fetch;
pub(super) mod format;
mod job;
mod md5;
mod trust;

use serde_json::{Value, json};

pub(super) use job::{Failure, Job, SCRATCH_NEEDED};

use super::worker::pod::{self, Blueprint, Role};
use super::worker::said;
use super::{claim, names};
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CDI_CONFIG, POD, PVC};
use crate::object::{Key, Object as _, owned_by};

/// Makes importer pods, and tells claims how they are.
#[derive(Debug)]
pub(super) struct Imports {
    client: Client,
    recorder: Recorder,
}

impl Imports {
    /// The controller of imports.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            client: context.client(Identity::CDI_CONTROLLER),
            recorder: context.recorder(Identity::CDI_CONTROLLER),
        }
    }
}

impl Controller for Imports {
    const NAME: &'static str = "cdi-import";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::mapped(&self.client.cache(&PVC), |change| {
                let ours = !change.object().annotation(names::SOURCE).is_empty();
                if ours { vec![change.key()] } else { Vec::new() }
            }),
            Watch::owners(&self.client.cache(&POD), "PersistentVolumeClaim"),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(claim) = self.client.cache(&PVC).get(key) else { return Ok(Next::Done) };
        if claim.annotation(names::SOURCE).is_empty() {
            return Ok(Next::Done);
        }
        let pod = self.client.cache(&POD).get(&Key::new(&key.namespace, &pod_name(&claim)));
        match pod {
            // A claim that is used is not removed: the worker has to go first.
            pod if claim.is_deleting() => said::dismiss(&self.client, &claim, pod.as_deref()).await?,
            Some(pod) if pod.is_controlled_by(claim.uid()) => self.follow(&claim, &pod).await?,
            Some(_) => {}
            None => self.begin(&claim).await?,
        }
        Ok(Next::Done)
    }
}

/// The name of the pod that fills a claim.
fn pod_name(claim: &Value) -> String {
    let named = claim.annotation(names::IMPORT_POD);
    if named.is_empty() { names::name(&format!("importer-{}", claim.name())) } else { named.to_owned() }
}

/// Whether a claim may be worked on: a volume is there, or the worker is who it is made for.
pub(in crate::cdi) fn is_ready(claim: &Value) -> bool {
    claim.text("/status/phase") == "Bound" || claim::is_immediate(claim)
}

/// Whether the importer of a claim has scratch space from the start or was found to need it.
fn needs_scratch(claim: &Value) -> bool {
    let from_registry =
        claim.annotation(names::SOURCE) == "registry" && claim.annotation(names::REGISTRY_METHOD) != "node";
    from_registry || claim.annotation(names::REQUIRES_SCRATCH) == "true"
}

fn scratch_name(claim: &Value) -> String {
    names::name(&format!("{}-scratch", claim.name()))
}

impl Imports {
    async fn begin(&self, claim: &Value) -> Result {
        let over = claim.annotation(names::POD_PHASE) == "Succeeded";
        if over || !claim.annotation(names::FATAL_ERROR).is_empty() || !is_ready(claim) {
            return Ok(());
        }
        let name = pod_name(claim);
        let mut named = claim.clone();
        named.set_annotation(names::IMPORT_POD, &name);
        if needs_scratch(claim) {
            named.set_annotation(names::REQUIRES_SCRATCH, "true");
        }
        if named != *claim {
            self.client.replace(&PVC, &named).await?;
        }
        let config = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config"));
        let scratch = if needs_scratch(claim) { scratch_name(claim) } else { String::new() };
        let mut pod = pod::build(&Blueprint {
            role: Role::Importer,
            name: &name,
            claim,
            owned: true,
            scratch: &scratch,
            priority: claim.annotation(names::PRIORITY_CLASS),
            node: "",
            config: config.as_deref().unwrap_or(&Value::Null),
        });
        pod["spec"]["containers"][0]["env"] = json!([
            {"name": "IMPORTER_SOURCE", "value": claim.annotation(names::SOURCE)},
            {"name": "IMPORTER_ENDPOINT", "value": claim.annotation(names::ENDPOINT)},
            {"name": "IMPORTER_CONTENTTYPE", "value": claim.annotation(names::CONTENT_TYPE)},
            {"name": "OWNER_UID", "value": claim.uid()},
        ]);
        match self.client.create(&POD, pod).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_already_there() => Ok(()),
            Err(failure) => {
                self.refused(claim, &name, &failure).await;
                Err(failure)
            }
        }
    }

    async fn refused(&self, claim: &Value, name: &str, failure: &crate::client::ApiError) {
        let (reason, message) = if failure.message.contains("exceeded quota") {
            ("ErrExceededQuota", failure.message.clone())
        } else {
            let advice = "For more information, request access to cdi-deploy logs from your sysadmin";
            ("ErrStartingPod", format!("Error starting pod '{name}': {advice}"))
        };
        self.recorder.warning(&PVC, claim, reason, &message).await;
    }

    async fn follow(&self, claim: &Value, pod: &Value) -> Result {
        if pod::has_scratch(pod) && !pod.is_deleting() {
            self.scratch(claim, pod).await?;
        }
        let mut wanted = claim.clone();
        // What a worker that is dismissed after that says of its own end would hide why it was.
        if claim.annotation(names::FATAL_ERROR).is_empty() {
            said::put(&mut wanted, pod);
        }
        let failed = said::last_failure(pod);
        let wants_scratch = failed.is_some_and(|failed| failed["exitCode"] == SCRATCH_NEEDED);
        let fatal = failed.map(|failed| failed.text("/message")).filter(|message| job::is_fatal(message));
        if wants_scratch {
            wanted.set_annotation(names::REQUIRES_SCRATCH, "true");
        }
        if let Some(message) = fatal {
            wanted.set_annotation(names::FATAL_ERROR, message);
            wanted.set_annotation(names::POD_PHASE, "Failed");
        }
        if wanted != *claim {
            self.client.replace(&PVC, &wanted).await?;
        }
        let done = pod.text("/status/phase") == "Succeeded" && claim.annotation(names::POD_RETAIN) != "true";
        if (done || wants_scratch || fatal.is_some()) && !pod.is_deleting() {
            self.client.delete(&POD, &Key::of(pod), pod.uid()).await?;
        }
        Ok(())
    }

    /// Makes the scratch space of a pod.
    async fn scratch(&self, claim: &Value, pod: &Value) -> Result {
        let key = Key::new(claim.namespace(), &scratch_name(claim));
        if self.client.cache(&PVC).get(&key).is_some() {
            return Ok(());
        }
        let config = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config"));
        let class = config.as_ref().map_or("", |config| config.text("/status/scratchSpaceStorageClass"));
        let class = if class.is_empty() { claim.text("/spec/storageClassName") } else { class };
        let mut scratch = json!({
            "metadata": {
                "namespace": key.namespace, "name": key.name,
                "labels": {names::APP: names::APP_VALUE},
                "ownerReferences": [owned_by(&POD, pod)],
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": claim.at("/spec/resources")},
        });
        if !class.is_empty() {
            scratch["spec"]["storageClassName"] = class.into();
        }
        self.client.create_if_absent(&PVC, scratch).await
    }
}
