//! What runs beside a driver and attaches its volumes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::client::{Cache, Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CSI_NODE, PV, VOLUME_ATTACHMENT};
use crate::object::{Key, Object as _};
use crate::storage::classes::driver;
use crate::waits::{Waited, Waits};

/// Who attaches volumes beside a driver.
const ATTACHER: Identity =
    Identity { program: "csi-attacher", user: "system:serviceaccount:kube-system:csi" };

/// What keeps an attachment and a volume while the driver may have something attached.
fn finalizer(driver: &str) -> String {
    let name: String = driver.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("external-attacher/{name}")
}

/// Attaches and detaches.
#[derive(Debug)]
pub(in crate::storage) struct Attacher {
    context: Context,
    client: Client,
    attachments: Arc<Cache>,
    volumes: Arc<Cache>,
    csi_nodes: Arc<Cache>,
    waits: Waits,
}

impl Attacher {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(ATTACHER);
        Self {
            attachments: client.cache(&VOLUME_ATTACHMENT),
            volumes: client.cache(&PV),
            csi_nodes: client.cache(&CSI_NODE),
            waits: Waits::new(&context.stages),
            client,
            context: context.clone(),
        }
    }

    fn volume_of(&self, attachment: &Value) -> Option<Arc<Value>> {
        self.volumes.get(&Key::cluster(attachment.text("/spec/source/persistentVolumeName")))
    }

    async fn attach(&self, attachment: &Value) -> Looked {
        let (name, node) = (attachment.text("/spec/attacher"), attachment.text("/spec/nodeName"));
        let mut attachment = attachment.clone();
        if let Some(left) = self.waits.resting(attachment.uid()) {
            return Ok(Next::After(left));
        }
        let Some(volume) = self.volume_of(&attachment) else {
            let volume = attachment.text("/spec/source/persistentVolumeName");
            let words = format!("failed to attach: PersistentVolume \"{volume}\" not found");
            return self.failed(&attachment, "attachError", &words).await;
        };
        let registered = self
            .csi_nodes
            .get(&Key::cluster(node))
            .is_some_and(|node| node.list("/spec/drivers").iter().any(|known| known.text("/name") == name));
        if !registered {
            let words = format!("CSINode {node} does not contain driver {name}");
            return self.failed(&attachment, "attachError", &words).await;
        }
        let mut kept = (*volume).clone();
        if !kept.is_deleting() && kept.add_finalizer(&finalizer(name)) {
            self.client.replace(&PV, &kept).await?;
        }
        if attachment.add_finalizer(&finalizer(name)) {
            attachment.set_annotation("csi.alpha.kubernetes.io/node-id", node);
            attachment = self.client.replace(&VOLUME_ATTACHMENT, &attachment).await?;
        }
        match self.waits.ask(attachment.uid(), "volume.attach", &stage_subject(&attachment, &volume)) {
            Waited::NotYet(left) => return Ok(Next::After(left)),
            Waited::Failed(words) => return self.failed(&attachment, "attachError", &words).await,
            Waited::Passed => {}
        }
        attachment["status"] = json!({"attached": true});
        self.client.replace_status(&VOLUME_ATTACHMENT, &attachment).await?;
        self.waits.forget(attachment.uid());
        Ok(Next::Done)
    }

    async fn detach(&self, attachment: &Value) -> Looked {
        let finalizer = finalizer(attachment.text("/spec/attacher"));
        if !attachment.has_finalizer(&finalizer) {
            return Ok(Next::Done);
        }
        if let Some(volume) = self.volume_of(attachment) {
            let id = format!("detach/{}", attachment.uid());
            match self.waits.ask(&id, "volume.detach", &stage_subject(attachment, &volume)) {
                Waited::NotYet(left) => return Ok(Next::After(left)),
                Waited::Failed(words) => return self.failed(attachment, "detachError", &words).await,
                Waited::Passed => self.waits.forget(&id),
            }
        }
        let mut free = attachment.clone();
        free.remove_finalizer(&finalizer);
        self.client.replace(&VOLUME_ATTACHMENT, &free).await?;
        Ok(Next::Done)
    }

    async fn failed(&self, attachment: &Value, field: &str, words: &str) -> Looked {
        let mut failed = attachment.clone();
        if failed["status"][field]["message"] != words {
            failed.set(
                &format!("/status/{field}"),
                json!({"message": words, "time": self.context.clock.seconds()}),
            );
            let attached = field == "detachError";
            failed.set("/status/attached", attached.into());
            self.client.replace_status(&VOLUME_ATTACHMENT, &failed).await?;
        }
        Ok(Next::After(self.waits.fail(attachment.uid())))
    }
}

/// The attachment as rules see it: with the class of its volume.
fn stage_subject(attachment: &Value, volume: &Value) -> Value {
    let mut subject = attachment.clone();
    subject.set("/spec/storageClassName", volume.at("/spec/storageClassName").clone());
    subject
}

impl Controller for Attacher {
    const NAME: &'static str = "csi-attacher";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::each(&self.attachments), Watch::known(&self.volumes), Watch::known(&self.csi_nodes)]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(attachment) = self.attachments.get(key) else { return Ok(Next::Done) };
        if driver(attachment.text("/spec/attacher")).is_none() {
            return Ok(Next::Done);
        }
        if attachment.is_deleting() {
            self.detach(&attachment).await
        } else if attachment.flag("/status/attached") {
            Ok(Next::Done)
        } else {
            self.attach(&attachment).await
        }
    }
}

/// Lets volumes go that are attached nowhere.
#[derive(Debug)]
pub(in crate::storage) struct Detacher {
    client: Client,
    volumes: Arc<Cache>,
    attachments: Arc<Cache>,
}

impl Detacher {
    pub(in crate::storage) fn new(context: &Context) -> Self {
        let client = context.client(ATTACHER);
        Self { volumes: client.cache(&PV), attachments: client.cache(&VOLUME_ATTACHMENT), client }
    }
}

impl Controller for Detacher {
    const NAME: &'static str = "csi-attacher, volumes";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.volumes),
            Watch::mapped(&self.attachments, |change| {
                vec![Key::cluster(change.object().text("/spec/source/persistentVolumeName"))]
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(volume) = self.volumes.get(key).filter(|volume| volume.is_deleting()) else {
            return Ok(Next::Done);
        };
        let attached = !self.attachments.find("volume", volume.name()).is_empty();
        let mut free = (*volume).clone();
        if !attached && free.remove_finalizer(&finalizer(volume.text("/spec/csi/driver"))) {
            self.client.replace(&PV, &free).await?;
        }
        Ok(Next::Done)
    }
}
