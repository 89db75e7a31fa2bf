//! Decides which volume is attached where, from where pods are.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::rules::{self, Detach, attachment_name, claims_of, needs_volumes};
use crate::client::{Cache, Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CSI_DRIVER, NODE, POD, PV, PVC, VOLUME_ATTACHMENT};
use crate::object::{Key, Object as _};
use crate::storage::told::Told;

/// How long a node that does not let go of a volume is waited for.
const FORCE_AFTER: Duration = Duration::from_mins(6);

/// What is known of who needs what where.
#[derive(Debug, Clone)]
struct Known {
    pods: Arc<Cache>,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    attachments: Arc<Cache>,
    nodes: Arc<Cache>,
    drivers: Arc<Cache>,
}

/// Attaches volumes where pods need them and detaches them where none does. A key is a node (as the namespace) and a
/// volume.
#[derive(Debug)]
pub(in crate::storage) struct AttachDetach {
    client: Client,
    known: Known,
    told: Told,
    /// Since when a node is asked to let go of a volume.
    letting_go: Mutex<HashMap<Key, Instant>>,
}

impl AttachDetach {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(Identity::CONTROLLER_MANAGER);
        let known = Known {
            pods: client.cache(&POD),
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            attachments: client.cache(&VOLUME_ATTACHMENT),
            nodes: client.cache(&NODE),
            drivers: client.cache(&CSI_DRIVER),
        };
        let told = Told::new(Recorder::new(&client, context.clock, "attachdetach-controller"));
        Self { client, known, told, letting_go: Mutex::default() }
    }

    async fn attach(&self, volume: &Value, node: &str, pods: &[Arc<Value>]) -> Looked {
        let name = attachment_name(volume, node);
        if let Some(attachment) = self.known.attachments.get(&Key::cluster(&name)) {
            self.report(volume, &attachment, pods).await;
            return Ok(Next::Done);
        }
        if rules::is_exclusive(volume) {
            let elsewhere = !self.known.attachments.find("volume", volume.name()).is_empty();
            if elsewhere {
                let all = self.known.users(volume);
                let others: Vec<&str> = all
                    .iter()
                    .filter(|pod| pod.text("/spec/nodeName") != node)
                    .map(|pod| pod.name())
                    .collect();
                let message = rules::multi_attach(volume, &others);
                for pod in pods {
                    self.told.warning(&POD, pod, "FailedAttachVolume", &message).await;
                }
                return Ok(Next::Done);
            }
        }
        self.client.create_if_absent(&VOLUME_ATTACHMENT, rules::attachment(volume, node)).await?;
        Ok(Next::Done)
    }

    /// Tells the pods how it went.
    async fn report(&self, volume: &Value, attachment: &Value, pods: &[Arc<Value>]) {
        let failure = attachment.text("/status/attachError/message");
        for pod in pods {
            if attachment.flag("/status/attached") {
                let message = format!("AttachVolume.Attach succeeded for volume \"{}\" ", volume.name());
                self.told.normal(&POD, pod, "SuccessfulAttachVolume", &message).await;
            } else if !failure.is_empty() {
                let message =
                    format!("AttachVolume.Attach failed for volume \"{}\" : {failure}", volume.name());
                self.told.warning(&POD, pod, "FailedAttachVolume", &message).await;
            }
        }
    }

    async fn detach(&self, key: &Key, volume: &Value, attachment: &Value) -> Looked {
        if attachment.is_deleting() {
            return Ok(Next::Done);
        }
        let node = self.known.nodes.get(&Key::cluster(&key.namespace));
        if rules::detach(volume, node.as_deref()) == Detach::ByForce {
            let since = *self.letting_go.lock().entry(key.clone()).or_insert_with(Instant::now);
            let left = FORCE_AFTER.saturating_sub(since.elapsed());
            if !left.is_zero() {
                return Ok(Next::After(left));
            }
        }
        self.letting_go.lock().remove(key);
        self.client.delete(&VOLUME_ATTACHMENT, &Key::of(attachment), attachment.uid()).await?;
        Ok(Next::Done)
    }
}

impl Known {
    /// The pods that need a volume, wherever they are.
    fn users(&self, volume: &Value) -> Vec<Arc<Value>> {
        let claim = volume.at("/spec/claimRef");
        let key = Key::new(claim.text("/namespace"), claim.text("/name"));
        let bound =
            self.claims.get(&key).is_some_and(|claim| claim.text("/spec/volumeName") == volume.name());
        if !bound {
            return Vec::new();
        }
        let mut pods = self.pods.find("claim", &key.to_string());
        pods.retain(|pod| needs_volumes(pod));
        pods
    }

    /// The places a pod's volumes concern.
    fn places(&self, pod: &Value) -> Vec<Key> {
        let node = pod.text("/spec/nodeName");
        if node.is_empty() {
            return Vec::new();
        }
        let claims = claims_of(pod).into_iter().filter_map(|key| self.claims.get(&key));
        claims
            .map(|claim| Key::new(node, claim.text("/spec/volumeName")))
            .filter(|key| !key.name.is_empty())
            .collect()
    }

    /// The places of what is attached to a node.
    fn attached(&self, node: &Value) -> Vec<Key> {
        let here = self.attachments.find("node", node.name());
        here.iter().map(|one| Key::new(node.name(), one.text("/spec/source/persistentVolumeName"))).collect()
    }

    /// All places a volume should be at.
    fn places_of(&self, volume: &str) -> Vec<Key> {
        let Some(object) = self.volumes.get(&Key::cluster(volume)) else { return Vec::new() };
        self.users(&object).iter().map(|pod| Key::new(pod.text("/spec/nodeName"), volume)).collect()
    }
}

impl Controller for AttachDetach {
    const NAME: &'static str = "attachdetach-controller";

    fn watches(&self) -> Vec<Watch> {
        let [by_pod, by_claim, by_attachment, by_node, by_volume] =
            std::array::from_fn(|_| self.known.clone());
        vec![
            Watch::mapped(&self.known.pods, move |change| {
                let pods = change.before.iter().chain(&change.after);
                let places: BTreeSet<Key> = pods.flat_map(|pod| by_pod.places(pod)).collect();
                places.into_iter().collect()
            }),
            Watch::mapped(&self.known.claims, move |change| {
                by_claim.places_of(change.object().text("/spec/volumeName"))
            }),
            Watch::mapped(&self.known.attachments, move |change| {
                let attachment = change.object();
                let volume = attachment.text("/spec/source/persistentVolumeName");
                let mut places = by_attachment.places_of(volume);
                places.push(Key::new(attachment.text("/spec/nodeName"), volume));
                places
            }),
            Watch::mapped(&self.known.nodes, move |change| {
                let (Some(before), Some(after)) = (&change.before, &change.after) else {
                    return by_node.attached(change.object());
                };
                if rules::is_news(before, after) { by_node.attached(after) } else { Vec::new() }
            }),
            // The claim of a volume may be gone before its pod is seen to be.
            Watch::mapped(&self.known.volumes, move |change| {
                let volume = change.object().name();
                let here = by_volume.attachments.find("volume", volume);
                here.iter().map(|one| Key::new(one.text("/spec/nodeName"), volume)).collect()
            }),
            Watch::known(&self.known.drivers),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(volume) = self.known.volumes.get(&Key::cluster(&key.name)) else { return Ok(Next::Done) };
        if !rules::is_attachable(&volume, &self.known.drivers) {
            return Ok(Next::Done);
        }
        let mut pods = self.known.users(&volume);
        pods.retain(|pod| pod.text("/spec/nodeName") == key.namespace);
        if !pods.is_empty() {
            self.letting_go.lock().remove(key);
            return self.attach(&volume, &key.namespace, &pods).await;
        }
        let name = attachment_name(&volume, &key.namespace);
        match self.known.attachments.get(&Key::cluster(&name)) {
            Some(attachment) => self.detach(key, &volume, &attachment).await,
            None => Ok(Next::Done),
        }
    }
}
