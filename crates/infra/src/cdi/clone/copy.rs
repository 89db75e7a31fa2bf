//! Clones by copying: a pod reads the source and sends it to the upload server of the target.

use std::time::Duration;

use serde_json::Value;

use crate::cdi::names;
use crate::cdi::worker::pod::{self, Blueprint, Role};
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CDI_CONFIG, DATA_VOLUME, POD, PVC};
use crate::object::{Key, Object as _};

/// How often a source that is in use is looked at.
const IN_USE: Duration = Duration::from_secs(5);

/// Makes the pods that read for a clone.
#[derive(Debug)]
pub(crate) struct Copies {
    client: Client,
    recorder: Recorder,
}

impl Copies {
    /// The controller of copies.
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            client: context.client(Identity::CDI_CONTROLLER),
            recorder: context.recorder(Identity::CDI_CONTROLLER),
        }
    }
}

/// The claim a claim is to be a copy of.
fn source_of(claim: &Value) -> Option<Key> {
    let (namespace, name) = claim.annotation(names::CLONE_REQUEST).split_once('/')?;
    Some(Key::new(namespace, name))
}

/// The name of the pod that reads for a claim.
pub(super) fn reader_name(claim: &Value) -> String {
    format!("{}-source-pod", claim.uid())
}

impl Controller for Copies {
    const NAME: &'static str = "cdi-clone";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::mapped(&self.client.cache(&PVC), |change| {
                if source_of(change.object()).is_some() { vec![change.key()] } else { Vec::new() }
            }),
            Watch::mapped(&self.client.cache(&POD), |change| {
                let target = change.object().annotation(names::OWNER_REF);
                target
                    .split_once('/')
                    .map(|(namespace, name)| Key::new(namespace, name))
                    .into_iter()
                    .collect()
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(claim) = self.client.cache(&PVC).get(key) else { return Ok(Next::Done) };
        let Some(source) = source_of(&claim) else { return Ok(Next::Done) };
        let reader = Key::new(&source.namespace, &reader_name(&claim));
        let pod = self.client.cache(&POD).get(&reader);
        if claim.is_deleting() || claim.annotation(names::CLONE_OF) == "true" {
            if let Some(pod) = pod.filter(|pod| !pod.is_deleting()) {
                self.client.delete(&POD, &reader, pod.uid()).await?;
            }
            return Ok(Next::Done);
        }
        if claim.annotation(names::POD_PHASE) == "Succeeded" {
            let mut wanted = (*claim).clone();
            wanted.set_annotation(names::CLONE_OF, "true");
            wanted.set_annotation(names::RUNNING_MESSAGE, "Clone Complete");
            self.client.replace(&PVC, &wanted).await?;
            return Ok(Next::Done);
        }
        if pod.is_some() || claim.annotation(names::POD_READY) != "true" {
            return Ok(Next::Done);
        }
        let Some(source) = self.client.cache(&PVC).get(&source) else { return Ok(Next::After(IN_USE)) };
        if self.is_in_use(&claim, &source).await {
            return Ok(Next::After(IN_USE));
        }
        self.begin(&claim, &source, &reader.name).await?;
        Ok(Next::Done)
    }
}

impl Copies {
    async fn begin(&self, claim: &Value, source: &Value, name: &str) -> Result {
        let config = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config"));
        let mut pod = pod::build(&Blueprint {
            role: Role::Cloner,
            name,
            claim: source,
            // The source outlives its reader; who wants the copy removes it.
            owned: false,
            scratch: "",
            priority: claim.annotation(names::PRIORITY_CLASS),
            node: "",
            config: config.as_deref().unwrap_or(&Value::Null),
        });
        pod.set_annotation(names::OWNER_REF, &Key::of(claim).to_string());
        pod.set_label("cdi.kubevirt.io/storage.clone.cloneUniqeId", name);
        let owner = claim.label(names::OWNED_BY_UID);
        if !owner.is_empty() {
            pod.set_label(names::OWNED_BY_UID, owner);
        }
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = true.into();
        self.client.create_if_absent(&POD, pod).await
    }

    /// Whether pods other than readers use the source; tells whoever wants the copy.
    async fn is_in_use(&self, claim: &Value, source: &Value) -> bool {
        let users = users_of(&self.client, source);
        for pod in &users {
            let message = format!(
                "pod {}/{} using PersistentVolumeClaim {}",
                pod.namespace(),
                pod.name(),
                source.name()
            );
            let owner = claim.controller().filter(|owner| owner["kind"] == DATA_VOLUME.kind);
            let volume = owner.and_then(|owner| {
                let name = owner["name"].as_str().unwrap_or_default();
                self.client.cache(&DATA_VOLUME).get(&Key::new(claim.namespace(), name))
            });
            match volume {
                Some(volume) => {
                    self.recorder.warning(&DATA_VOLUME, &volume, "CloneSourceInUse", &message).await;
                }
                None => self.recorder.warning(&PVC, claim, "CloneSourceInUse", &message).await,
            }
        }
        !users.is_empty()
    }
}

/// The pods that may write to a claim now.
pub(super) fn users_of(client: &Client, claim: &Value) -> Vec<std::sync::Arc<Value>> {
    let pods = client.cache(&POD).find("claim", &Key::of(claim).to_string());
    let over = |pod: &Value| pod.is_over();
    pods.into_iter().filter(|pod| !over(pod) && Role::of(pod) != Some(Role::Cloner)).collect()
}
