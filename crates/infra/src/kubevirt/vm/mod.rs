//! virt-controller's part for `VirtualMachine` objects.

pub mod changes;
pub mod failures;
pub mod make;
pub mod printable;
pub mod status;
pub mod strategy;
mod volumes;

use std::sync::Arc;

use serde_json::{Value, json};

use self::printable::Disk;
use self::status::{Facts, Trouble};
use self::strategy::{Step, Strategy};
use super::instance::{self, claims};
use super::names::{LATEST_API_ANNOTATION, STORAGE_API_ANNOTATION, VM_FINALIZER};
use super::{hotplug, shapes};
use crate::client::{ApiError, Cache, Client, Identity, Result};
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CONTROLLER_REVISION, DATA_SOURCE, DATA_VOLUME, PVC, VM, VMI};
use crate::object::{Key, Object as _, drop_condition, owned_by};

/// Starts the controller of machines.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(Machines::new(context));
}

/// The controller of machines.
struct Machines {
    context: Context,
    client: Client,
    recorder: Recorder,
    vms: Arc<Cache>,
    vmis: Arc<Cache>,
    volumes: Arc<Cache>,
    claims: Arc<Cache>,
    revisions: Arc<Cache>,
    sources: Arc<Cache>,
}

/// What a machine came to in one look.
#[derive(Default)]
struct Looks {
    trouble: Option<Trouble>,
    restart: Option<&'static str>,
    next: Option<Next>,
    /// What the API server did not do, to be tried again after the status says so.
    failure: Option<ApiError>,
}

impl Looks {
    /// Remembers what went wrong.
    fn fail(&mut self, reason: &'static str, failure: ApiError) {
        self.trouble = Some(Trouble { reason, message: failure.message.clone() });
        self.failure = Some(failure);
    }
}

impl Controller for Machines {
    const NAME: &'static str = "virtualmachine";

    fn watches(&self) -> Vec<Watch> {
        let users = |vms: &Arc<Cache>| {
            let vms = Arc::clone(vms);
            move |change: &crate::client::Change| {
                let key = change.key().to_string();
                vms.find("claim", &key).iter().map(|vm| Key::of(vm)).collect()
            }
        };
        vec![
            Watch::each(&self.vms),
            // A machine and its instance have one name.
            Watch::each(&self.vmis),
            Watch::owners(&self.volumes, VM.kind),
            Watch::mapped(&self.volumes, users(&self.vms)),
            Watch::mapped(&self.claims, users(&self.vms)),
            Watch::known(&self.revisions),
            Watch::known(&self.sources),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vm) = self.vms.get(key) else { return Ok(Next::Done) };
        let vm = self.stamp((*vm).clone()).await?;
        let vmi = self.adopt(&vm).await?;
        if vm.is_deleting() {
            return self.finish(vm, vmi).await;
        }
        let vm = self.hold(vm).await?;
        let mut looks = Looks::default();
        let mut wanted = vm.clone();
        let expanded = self.shape(&mut wanted, &mut looks).await;
        self.sync(&mut wanted, expanded.as_ref(), vmi.as_deref(), &mut looks).await?;
        self.tell(wanted, &looks).await?;
        match looks.failure {
            Some(failure) => Err(failure),
            None => Ok(looks.next.unwrap_or(Next::Done)),
        }
    }
}

impl Machines {
    fn new(context: &Context) -> Self {
        let client = context.client(Identity::VIRT_CONTROLLER);
        Self {
            context: context.clone(),
            recorder: Recorder::new(&client, context.clock, "virtualmachine-controller"),
            vms: client.cache(&VM),
            vmis: client.cache(&VMI),
            volumes: client.cache(&DATA_VOLUME),
            claims: client.cache(&PVC),
            revisions: client.cache(&CONTROLLER_REVISION),
            sources: client.cache(&DATA_SOURCE),
            client,
        }
    }

    /// Writes down which versions of the API the controller knows.
    async fn stamp(&self, vm: Value) -> Result<Value> {
        if vm.annotation(LATEST_API_ANNOTATION) == "v1" && vm.annotation(STORAGE_API_ANNOTATION) == "v1" {
            return Ok(vm);
        }
        let mut annotations = json!({});
        annotations[LATEST_API_ANNOTATION] = "v1".into();
        annotations[STORAGE_API_ANNOTATION] = "v1".into();
        self.client.merge(&VM, &Key::of(&vm), &json!({"metadata": {"annotations": annotations}})).await
    }

    /// The instance of a machine. One of its name that nobody controls becomes the machine's.
    async fn adopt(&self, vm: &Value) -> Result<Option<Arc<Value>>> {
        let Some(vmi) = self.vmis.get(&Key::of(vm)) else { return Ok(None) };
        if vmi.is_controlled_by(vm.uid()) {
            return Ok(Some(vmi));
        }
        if vmi.controller().is_some() || vmi.is_deleting() || vm.is_deleting() {
            return Ok(None);
        }
        let patch = json!({"metadata": {"uid": vmi.uid(), "ownerReferences": [owned_by(&VM, vm)]}});
        self.client.merge(&VMI, &Key::of(vm), &patch).await.map(|vmi| Some(Arc::new(vmi)))
    }

    /// Holds the machine until this controller is done with it.
    async fn hold(&self, mut vm: Value) -> Result<Value> {
        if !vm.add_finalizer(VM_FINALIZER) {
            return Ok(vm);
        }
        let patch = json!({"metadata": {
            "finalizers": vm["metadata"]["finalizers"], "resourceVersion": vm["metadata"]["resourceVersion"],
        }});
        self.client.merge(&VM, &Key::of(&vm), &patch).await
    }

    /// The end of a machine: its instance goes first, unless it is to stay.
    async fn finish(&self, vm: Value, vmi: Option<Arc<Value>>) -> Looked {
        let orphans = vm.has_finalizer("orphan");
        match vmi {
            Some(vmi) if !orphans => {
                let mut looks = Looks::default();
                self.stop(&vm, &vmi, &mut looks).await;
                if let Some(failure) = looks.failure {
                    return Err(failure);
                }
                self.tell(vm, &looks).await?;
            }
            _ => self.release(&VM, vm).await?,
        }
        Ok(Next::Done)
    }

    /// Removes the controller's finalizer from a machine or an instance.
    async fn release(&self, kind: &'static crate::kinds::Kind, mut object: Value) -> Result {
        if object.remove_finalizer(VM_FINALIZER) {
            let patch = json!({"metadata": {
                "finalizers": object["metadata"]["finalizers"],
                "resourceVersion": object["metadata"]["resourceVersion"],
            }});
            match self.client.merge(kind, &Key::of(&object), &patch).await {
                Err(failure) if failure.is_not_found() => {}
                written => {
                    written?;
                }
            }
        }
        Ok(())
    }

    /// Finds the shape of a machine, and gives the machine with it applied.
    async fn shape(&self, vm: &mut Value, looks: &mut Looks) -> Option<Value> {
        let shaped = async {
            shapes::ensure_revisions(&self.context, vm).await?;
            // What was just written into the status is the machine's from here on.
            if let Some(now) = self.client.cache(&VM).get(&Key::of(vm)) {
                *vm = (*now).clone();
            }
            shapes::expand(&self.context, vm).await
        };
        match shaped.await {
            Ok(expanded) => Some(expanded),
            Err(problem) => {
                looks.trouble = Some(Trouble { reason: problem.reason, message: problem.message });
                // What is missing may come; nobody tells.
                looks.next = Some(Next::After(SHAPE_AGAIN));
                None
            }
        }
    }

    /// Does the next thing for a machine that is to stay. What goes wrong is remembered for the status.
    async fn sync(
        &self,
        vm: &mut Value,
        expanded: Option<&Value>,
        vmi: Option<&Value>,
        looks: &mut Looks,
    ) -> Result {
        let Some(expanded) = expanded else { return Ok(()) };
        let ready = match self.fill(vm).await {
            Ok(ready) => ready,
            Err((reason, failure)) => {
                looks.fail(reason, failure);
                return Ok(());
            }
        };
        match Strategy::of(vm).step(vm, vmi) {
            Step::Always => {
                let spec = if vm.at("/spec/running").is_null() {
                    json!({"runStrategy": "Always"})
                } else {
                    json!({"running": true})
                };
                let version = &vm["metadata"]["resourceVersion"];
                let patch = json!({"spec": spec, "metadata": {"resourceVersion": version}});
                *vm = self.client.merge(&VM, &Key::of(vm), &patch).await?;
            }
            Step::Stop { and_start } => {
                if and_start {
                    // The wish is on record before what it replaces goes.
                    strategy::add_start_request(vm);
                    *vm = self.client.replace_status(&VM, vm).await?;
                }
                if let Some(vmi) = vmi {
                    self.stop(vm, vmi, looks).await;
                }
            }
            Step::Start { paused } if ready => {
                let left = failures::left(vm, self.context.clock.now());
                if left.is_zero() {
                    self.make(vm, expanded, paused, looks).await;
                    // What the new instance is made of is the machine as it is now.
                    drop_condition(vm, "RestartRequired");
                } else {
                    looks.next = Some(Next::After(left));
                }
            }
            Step::Start { .. } | Step::Nothing => {}
        }
        if let Some(vmi) = vmi
            && !vmi.is_deleting()
            && !instance::is_final(vmi)
        {
            self.follow(vm, expanded, vmi, looks).await;
            self.plug(vm, vmi, looks).await;
        }
        Ok(())
    }

    /// Deletes the instance of a machine.
    async fn stop(&self, vm: &Value, vmi: &Value, looks: &mut Looks) {
        if vmi.is_deleting() {
            return;
        }
        match self.client.delete(&VMI, &Key::of(vmi), vmi.uid()).await {
            Ok(()) => {
                let message = format!(
                    "Stopped the virtual machine by deleting the virtual machine instance {}",
                    vmi.uid()
                );
                self.recorder.normal(&VM, vm, "SuccessfulDelete", &message).await;
            }
            Err(failure) => {
                let message = format!("Error deleting virtual machine instance {}: {failure}", vmi.name());
                self.recorder.warning(&VM, vm, "FailedDelete", &message).await;
                looks.fail("FailedDelete", failure);
            }
        }
    }

    /// Makes the instance of a machine, and remembers what it was made of.
    async fn make(&self, vm: &Value, expanded: &Value, paused: bool, looks: &mut Looks) {
        let made = async {
            self.client.create_if_absent(&CONTROLLER_REVISION, make::revision(vm)).await?;
            self.client.create(&VMI, make::instance(expanded, paused)).await
        };
        match made.await {
            Ok(vmi) => {
                let message = format!(
                    "Started the virtual machine by creating the new virtual machine instance {}",
                    vmi.name()
                );
                self.recorder.normal(&VM, vm, "SuccessfulCreate", &message).await;
                self.forget_revisions(vm).await;
            }
            Err(failure) => {
                let message = format!("Error creating virtual machine instance: {failure}");
                self.recorder.warning(&VM, vm, "FailedCreate", &message).await;
                looks.fail("FailedCreate", failure);
            }
        }
    }

    /// Removes the revisions earlier instances were made of.
    async fn forget_revisions(&self, vm: &Value) {
        let current = make::revision_name(vm);
        let prefix = format!("revision-start-vm-{}-", vm.uid());
        for revision in self.revisions.controlled_by(vm.uid()) {
            if revision.name().starts_with(&prefix) && revision.name() != current {
                // One that stays does no harm.
                let _ = self.client.delete(&CONTROLLER_REVISION, &Key::of(&revision), revision.uid()).await;
            }
        }
    }

    /// Makes a running instance follow its machine, as far as it can.
    async fn follow(&self, vm: &Value, expanded: &Value, vmi: &Value, looks: &mut Looks) {
        if vmi.annotation(super::names::GENERATION_ANNOTATION) == vm.generation().to_string() {
            return;
        }
        let name = vmi.text("/status/virtualMachineRevisionName");
        let Some(revision) = self.revisions.get(&Key::new(vm.namespace(), name)) else { return };
        let mut old = vm.clone();
        old["spec"] = revision["data"]["spec"].clone();
        let Ok(old) = shapes::expand(&self.context, &old).await else { return };
        let (old, new) = (old.at("/spec/template/spec"), expanded.at("/spec/template/spec"));
        looks.restart = changes::restart_reason(old, new, vmi);
        if looks.restart.is_some() {
            return;
        }
        if let Some(patch) = changes::follow(new, vmi, vm.generation())
            && let Err(failure) = self.client.merge(&VMI, &Key::of(vmi), &patch).await
        {
            looks.fail("FailedUpdate", failure);
        }
    }

    /// Passes volumes that come and go on to a running instance.
    async fn plug(&self, vm: &Value, vmi: &Value, looks: &mut Looks) {
        if instance::phase(vmi) != "Running" || looks.failure.is_some() {
            return;
        }
        let Some(new) = hotplug::sync_spec(vm, vmi) else { return };
        match self.client.replace(&VMI, &new).await {
            Ok(_) => {}
            // Whoever wrote in between is no trouble of the machine.
            Err(failure) if failure.is_conflict() => looks.failure = Some(failure),
            Err(failure) => looks.fail("HotPlugVolumeError", failure),
        }
    }

    /// Writes the status of a machine if it changed, and lets go of an instance that has ended.
    async fn tell(&self, mut vm: Value, looks: &Looks) -> Result {
        let vmi = self.vmis.get(&Key::of(&vm)).filter(|vmi| vmi.is_controlled_by(vm.uid()));
        let disks: Vec<Disk> = claims(vm.at("/spec/template/spec"))
            .into_iter()
            .map(|name| {
                let key = Key::new(vm.namespace(), name);
                Disk { volume: self.volumes.get(&key), claim: self.claims.get(&key) }
            })
            .collect();
        let facts = Facts {
            vmi: vmi.as_deref(),
            disks: &disks,
            trouble: looks.trouble.as_ref(),
            restart: looks.restart,
            now: self.context.clock.now(),
        };
        let uid = vm.uid().to_owned();
        status::update(&mut vm, &facts, |count| self.context.stages.chance("vm.backoff", &uid, count));
        let known = self.vms.get(&Key::of(&vm)).filter(|known| known.version() == vm.version());
        if known.is_none_or(|known| known["status"] != vm["status"]) {
            self.client.replace_status(&VM, &vm).await?;
        }
        match vmi {
            // What its end means to the machine is on record now.
            Some(vmi) if vmi.is_deleting() && instance::is_final(&vmi) => {
                self.release(&VMI, (*vmi).clone()).await
            }
            _ => Ok(()),
        }
    }
}

/// How often a shape that is missing is looked for.
const SHAPE_AGAIN: std::time::Duration = std::time::Duration::from_secs(10);
