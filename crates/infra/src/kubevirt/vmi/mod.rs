//! virt-controller's part for `VirtualMachineInstance` objects: the pods they run in, until their host takes over.

pub mod networks;
pub mod pod;
pub mod resources;
pub mod status;
pub mod volumes;

use std::sync::Arc;

use serde_json::{Value, json};

use self::status::Facts;
use self::volumes::Readiness;
use super::instance::{self, is_provisioning, is_unprocessed};
use super::names::{NODE_NAME_LABEL, UNPAUSED_GATE};
use super::vm::status::Trouble;
use crate::client::{ApiError, Cache, Client, Identity, Result};
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CDI_CONFIG, DATA_VOLUME, POD, PVC, VM, VMI};
use crate::object::{Key, Object as _};

/// Starts the controller of instances.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(Instances::new(context));
}

/// Makes a pod of an instance; the function says which claims are block devices.
type Template = fn(&Value, &dyn Fn(&str) -> bool) -> Value;

/// The controller of instances.
struct Instances {
    context: Context,
    client: Client,
    recorder: Recorder,
    vms: Arc<Cache>,
    vmis: Arc<Cache>,
    pods: Arc<Cache>,
    volumes: Arc<Cache>,
    claims: Arc<Cache>,
    config: Arc<Cache>,
}

impl Controller for Instances {
    const NAME: &'static str = "virtualmachineinstance";

    fn watches(&self) -> Vec<Watch> {
        let users = |vmis: &Arc<Cache>| {
            let vmis = Arc::clone(vmis);
            move |change: &crate::client::Change| {
                let key = change.key().to_string();
                vmis.find("claim", &key).iter().map(|vmi| Key::of(vmi)).collect()
            }
        };
        // What only the end of a machine changes for its instance: who removes the finalizers.
        let gone = |change: &crate::client::Change| match change.after {
            Some(_) => Vec::new(),
            None => vec![change.key()],
        };
        vec![
            Watch::each(&self.vmis),
            Watch::owners(&self.pods, VMI.kind),
            Watch::mapped(&self.volumes, users(&self.vmis)),
            Watch::mapped(&self.claims, users(&self.vmis)),
            Watch::mapped(&self.vms, gone),
            Watch::known(&self.config),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vmi) = self.vmis.get(key) else { return Ok(Next::Done) };
        let pods = instance::pods(&self.pods, &vmi);
        let readiness = self.readiness(&vmi);
        let synced = self.sync(&vmi, &pods, &readiness).await;
        let trouble = match &synced {
            Ok(trouble) => trouble.clone(),
            Err((reason, failure)) => Some(Trouble { reason, message: failure.message.clone() }),
        };
        // Pods that were made just now count from the next look on: each step is seen by itself.
        let pods: Vec<Arc<Value>> = pods.iter().filter_map(|pod| self.pods.get(&Key::of(pod))).collect();
        self.tell(&vmi, &pods, &readiness, trouble.as_ref()).await?;
        self.open_gates(&vmi, &pods).await?;
        self.label(&vmi, &pods).await?;
        synced.map(|_| Next::Done).map_err(|(_, failure)| failure)
    }
}

impl Instances {
    fn new(context: &Context) -> Self {
        let client = context.client(Identity::VIRT_CONTROLLER);
        Self {
            context: context.clone(),
            recorder: Recorder::new(&client, context.clock, "virtualmachine-controller"),
            vms: client.cache(&VM),
            vmis: client.cache(&VMI),
            pods: client.cache(&POD),
            volumes: client.cache(&DATA_VOLUME),
            claims: client.cache(&PVC),
            config: client.cache(&CDI_CONFIG),
            client,
        }
    }

    fn readiness(&self, vmi: &Value) -> Readiness {
        let key = |name: &str| Key::new(vmi.namespace(), name);
        volumes::readiness(vmi, &|name| self.volumes.get(&key(name)), &|name| self.claims.get(&key(name)))
    }

    /// Makes or deletes the pods of an instance, as it is due. What the instance has to wait for is told.
    async fn sync(
        &self,
        vmi: &Value,
        pods: &[Arc<Value>],
        readiness: &Readiness,
    ) -> Result<Option<Trouble>, (&'static str, ApiError)> {
        if vmi.is_deleting() {
            // At once, in every phase: what runs has the time that the pod gives it.
            self.delete(vmi, pods).await.map_err(|failure| ("FailedDelete", failure))?;
            return Ok(None);
        }
        if !is_unprocessed(vmi) {
            return Ok(None);
        }
        let (provisioners, launchers): (Vec<_>, Vec<_>) =
            pods.iter().cloned().partition(|pod| is_provisioning(pod));
        if !launchers.is_empty() {
            return Ok(None);
        }
        match readiness {
            Readiness::Missing(claim) => {
                let message =
                    format!("PVC {}/{claim} does not exist, waiting for it to appear", vmi.namespace());
                let trouble = Trouble { reason: status::NO_CLAIM, message };
                // Told once: every look at an instance that goes on waiting would count it up.
                if vmi.condition("Synchronized")["message"] != trouble.message.as_str() {
                    self.recorder.normal(&VMI, vmi, trouble.reason, &trouble.message).await;
                }
                return Ok(Some(trouble));
            }
            // One that came to nothing ends the instance, and is not made again.
            Readiness::WaitForConsumer if provisioners.is_empty() => self.make(vmi, pod::provisioner).await?,
            Readiness::Ready => {
                self.delete(vmi, &provisioners).await.map_err(|failure| ("FailedDelete", failure))?;
                self.make(vmi, pod::launcher).await?;
            }
            Readiness::WaitForConsumer | Readiness::Waiting | Readiness::Failed => {}
        }
        Ok(None)
    }

    async fn make(&self, vmi: &Value, template: Template) -> Result<(), (&'static str, ApiError)> {
        let pod = template(vmi, &|claim| {
            let claim = self.claims.get(&Key::new(vmi.namespace(), claim));
            claim.is_some_and(|claim| claim.text("/spec/volumeMode") == "Block")
        });
        match self.client.create(&POD, pod).await {
            Ok(pod) => {
                let message = format!("Created virtual machine pod {}", pod.name());
                self.recorder.normal(&VMI, vmi, "SuccessfulCreate", &message).await;
                Ok(())
            }
            Err(failure) => {
                let message = format!("Error creating pod: {failure}");
                self.recorder.warning(&VMI, vmi, "FailedCreate", &message).await;
                Err(("FailedCreate", failure))
            }
        }
    }

    async fn delete(&self, vmi: &Value, pods: &[Arc<Value>]) -> Result {
        for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            self.client.delete(&POD, &Key::of(pod), pod.uid()).await?;
            let message = format!("Deleted virtual machine pod {}", pod.name());
            self.recorder.normal(&VMI, vmi, "SuccessfulDelete", &message).await;
        }
        Ok(())
    }

    /// Writes what there is to say of an instance, if it changed.
    async fn tell(
        &self,
        vmi: &Value,
        pods: &[Arc<Value>],
        readiness: &Readiness,
        trouble: Option<&Trouble>,
    ) -> Result {
        let pod = instance::current_pod(pods, vmi);
        let owner = vmi.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or_default();
        let facts = Facts {
            pod: pod.as_deref(),
            pods,
            readiness,
            trouble,
            has_machine: self.vms.get(&Key::of(vmi)).is_some_and(|vm| vm.uid() == owner),
            claim: &|name| self.claims.get(&Key::new(vmi.namespace(), name)),
            config: &self.config.get(&Key::cluster("config")).unwrap_or_default(),
            now: &self.context.clock.seconds(),
        };
        let mut wanted = vmi.clone();
        status::update(&mut wanted, &facts);
        if wanted != *vmi {
            self.client.replace(&VMI, &wanted).await?;
        }
        Ok(())
    }

    /// Labels the pod that runs an instance with the host, as the instance is.
    async fn label(&self, vmi: &Value, pods: &[Arc<Value>]) -> Result {
        let node = vmi.label(NODE_NAME_LABEL);
        let Some(pod) = instance::current_pod(pods, vmi) else { return Ok(()) };
        let told = node.is_empty() || pod.label(NODE_NAME_LABEL) == node;
        if told || instance::is_down(&pod) || pod.is_deleting() {
            return Ok(());
        }
        let patch = json!({"metadata": {"labels": {NODE_NAME_LABEL: node}}});
        match self.client.merge(&POD, &Key::of(&pod), &patch).await {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Tells each pod of an instance whether its machine is held: a pod of a machine that is held is not ready.
    async fn open_gates(&self, vmi: &Value, pods: &[Arc<Value>]) -> Result {
        let held = vmi.condition_holds("Paused");
        for pod in pods {
            // Only what has a host has conditions that are nobody's alone.
            let conditions = pod.list("/status/conditions");
            if instance::is_down(pod) || pod.text("/spec/nodeName").is_empty() || conditions.is_empty() {
                continue;
            }
            let status = if held { "False" } else { "True" };
            let at = conditions.iter().position(|one| one["type"] == UNPAUSED_GATE);
            if at.is_some_and(|at| conditions[at]["status"] == status) {
                continue;
            }
            let (reason, message) = if held {
                ("Paused", "the virtual machine is paused")
            } else {
                ("NotPaused", "the virtual machine is not paused")
            };
            let now = self.context.clock.seconds();
            let condition = json!({
                "type": UNPAUSED_GATE, "status": status, "reason": reason, "message": message,
                "lastProbeTime": now, "lastTransitionTime": now,
            });
            let patch = match at {
                None => json!([{"op": "add", "path": "/status/conditions/-", "value": condition}]),
                Some(at) => json!([
                    {"op": "test", "path": format!("/status/conditions/{at}/type"), "value": UNPAUSED_GATE},
                    {"op": "replace", "path": format!("/status/conditions/{at}"), "value": condition},
                ]),
            };
            match self.client.json_patch_status(&POD, &Key::of(pod), &patch).await {
                Err(failure) if failure.is_not_found() => {}
                written => {
                    written?;
                }
            }
        }
        Ok(())
    }
}
