//! Uploads: the servers that take them, tokens for them, and the proxy in front.

mod body;
mod proxy;
mod tokens;

use serde_json::{Value, json};

pub use proxy::serve_uploads;
pub use tokens::serve_tokens;

use super::import::is_ready;
use super::names;
use super::worker::pod::{self, Blueprint, Role};
use super::worker::said;
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CDI_CONFIG, POD, PVC, SERVICE};
use crate::object::{Key, Object as _, owned_by};

/// Makes the servers that take uploads, of people and of cloners.
#[derive(Debug)]
pub struct Uploads {
    client: Client,
}

impl Uploads {
    /// The controller of upload servers.
    pub fn new(context: &Context) -> Self {
        Self { client: context.client(Identity::CDI_CONTROLLER) }
    }
}

/// The name of the server of a claim, and of the service before it.
pub fn pod_name(claim: &str) -> String {
    names::service_name(&format!("cdi-upload-{claim}"))
}

/// Whether a claim has an annotation, whatever it says.
fn has(claim: &Value, annotation: &str) -> bool {
    claim["metadata"]["annotations"].get(annotation).is_some()
}

/// Whether something is to be uploaded to a claim.
fn is_target(claim: &Value) -> bool {
    has(claim, names::UPLOAD_TARGET) || has(claim, names::CLONE_REQUEST)
}

impl Controller for Uploads {
    const NAME: &'static str = "cdi-upload";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::mapped(&self.client.cache(&PVC), |change| {
                if is_target(change.object()) { vec![change.key()] } else { Vec::new() }
            }),
            Watch::owners(&self.client.cache(&POD), "PersistentVolumeClaim"),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let claim = self.client.cache(&PVC).get(key).filter(|claim| is_target(claim));
        let Some(claim) = claim else { return Ok(Next::Done) };
        let pod = self.client.cache(&POD).get(&Key::new(&key.namespace, &pod_name(&key.name)));
        match pod {
            pod if claim.is_deleting() => said::dismiss(&self.client, &claim, pod.as_deref()).await?,
            Some(pod) if pod.is_controlled_by(claim.uid()) => self.follow(&claim, &pod).await?,
            Some(_) => {}
            None => self.begin(&claim).await?,
        }
        Ok(Next::Done)
    }
}

impl Uploads {
    async fn begin(&self, claim: &Value) -> Result {
        let over = claim.annotation(names::POD_PHASE) == "Succeeded" || has(claim, names::CLONE_OF);
        if over || !is_ready(claim) {
            return Ok(());
        }
        let name = pod_name(claim.name());
        let config = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config"));
        let mut pod = pod::build(&Blueprint {
            role: Role::Uploader,
            name: &name,
            claim,
            owned: true,
            scratch: "",
            priority: claim.annotation(names::PRIORITY_CLASS),
            node: "",
            config: config.as_deref().unwrap_or(&Value::Null),
        });
        pod.set_label("service", &name);
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8443, "protocol": "TCP"}]);
        self.client.create_if_absent(&POD, pod).await?;
        let service = json!({
            "metadata": {
                "namespace": claim.namespace(), "name": name,
                "labels": {names::APP: names::APP_VALUE, names::COMPONENT: Role::Uploader.label()},
                "ownerReferences": [owned_by(&PVC, claim)],
            },
            "spec": {
                "ports": [{"protocol": "TCP", "port": 443, "targetPort": 8443}],
                "selector": {"service": name},
            },
        });
        self.client.create_if_absent(&SERVICE, service).await
    }

    async fn follow(&self, claim: &Value, pod: &Value) -> Result {
        let mut wanted = claim.clone();
        said::put(&mut wanted, pod);
        let ready = pod.flag("/status/containerStatuses/0/ready");
        wanted.set_annotation(names::POD_READY, if ready { "true" } else { "false" });
        if wanted != *claim {
            self.client.replace(&PVC, &wanted).await?;
        }
        if pod.text("/status/phase") == "Succeeded" && !pod.is_deleting() {
            self.client.delete(&SERVICE, &Key::of(pod), "").await?;
            if claim.annotation(names::POD_RETAIN) != "true" {
                self.client.delete(&POD, &Key::of(pod), pod.uid()).await?;
            }
        }
        Ok(())
    }
}
