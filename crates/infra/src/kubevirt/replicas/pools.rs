//! Pools of machines.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Step, note, selector, step, wanted};
use crate::client::{ApiError, Cache, Client, Identity};
use crate::clock::Clock;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CONTROLLER_REVISION, POOL, VM, VMI};
use crate::object::{Key, Object as _, owned_by};
use crate::stages::Stages;

/// Holds a machine until its pool lets it go, and a pool until its machines are let go.
const FINALIZER: &str = "pool.kubevirt.io/finalizer";
/// Which state of the pool a machine, or an instance, was made of.
const REVISION_LABEL: &str = "kubevirt.io/vm-pool-revision-name";

/// Keeps as many machines as a pool wants, as the pool wants them.
#[derive(Debug)]
pub struct Pools {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    stages: Stages,
    known: Arc<Cache>,
    machines: Arc<Cache>,
    instances: Arc<Cache>,
    revisions: Arc<Cache>,
}

/// A step that failed: the reason of the condition, and what the server said.
type Failed = (&'static str, ApiError);

impl Pools {
    /// The controller of a cluster.
    pub fn new(context: &Context) -> Self {
        let client = context.client(Identity::VIRT_CONTROLLER);
        Self {
            clock: context.clock,
            recorder: Recorder::new(&client, context.clock, "virtualmachinepool-controller"),
            stages: context.stages.clone(),
            known: client.cache(&POOL),
            machines: client.cache(&VM),
            instances: client.cache(&VMI),
            revisions: client.cache(&CONTROLLER_REVISION),
            client,
        }
    }

    async fn scale(&self, pool: &Value, machines: &[Arc<Value>]) -> Result<bool, Failed> {
        match step(machines.len(), wanted(pool)) {
            Step::Rest => {
                for machine in machines.iter().filter(|one| one.is_deleting()) {
                    self.release(machine).await.map_err(|failure| ("FailedScaleIn", failure))?;
                }
                Ok(true)
            }
            Step::Make(count) => {
                let made = self.scale_out(pool, count).await;
                made.map(|()| false).map_err(|failure| ("FailedScaleOut", failure))
            }
            Step::Take(count) => {
                let taken = self.scale_in(pool, machines, count).await;
                taken.map(|()| false).map_err(|failure| ("FailedScaleIn", failure))
            }
        }
    }

    async fn scale_out(&self, pool: &Value, count: usize) -> Result<(), ApiError> {
        let revision = self.remember(pool).await?;
        for index in free_places(count, |index| {
            self.machines.get(&Key::new(pool.namespace(), &format!("{}-{index}", pool.name()))).is_some()
        }) {
            match self.client.create(&VM, machine(pool, index, &revision)).await {
                Ok(made) => {
                    let message = format!("Created VM {}/{}", made.namespace(), made.name());
                    self.recorder.normal(&POOL, pool, "SuccessfulCreate", &message).await;
                }
                Err(failure) => {
                    let message = format!("Error creating VM: {failure}");
                    self.recorder.warning(&POOL, pool, "FailedCreate", &message).await;
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    async fn scale_in(&self, pool: &Value, machines: &[Arc<Value>], count: usize) -> Result<(), ApiError> {
        let staying: Vec<&Arc<Value>> = machines.iter().filter(|one| !one.is_deleting()).collect();
        let count = count.saturating_sub(machines.len() - staying.len());
        for leaving in self.leaving(pool, staying).into_iter().take(count) {
            self.release(leaving).await?;
            let (namespace, name, uid) = (leaving.namespace(), leaving.name(), leaving.uid());
            if let Err(failure) = self.client.delete(&VM, &Key::of(leaving), uid).await {
                let message = format!("Error deleting virtual machine {namespace}/{name}: {failure}");
                self.recorder.warning(&POOL, pool, "FailedDelete", &message).await;
                return Err(failure);
            }
            let message = format!("Deleted VM {namespace}/{name} with uid {uid} from pool");
            self.recorder.normal(&POOL, pool, "SuccessfulDelete", &message).await;
        }
        // Those that go anyway are let go too.
        for machine in machines.iter().filter(|one| one.is_deleting()) {
            self.release(machine).await?;
        }
        Ok(())
    }

    /// In which order machines leave: as the pool's policy says, by chance where it says nothing.
    fn leaving<'v>(&self, pool: &Value, mut machines: Vec<&'v Arc<Value>>) -> Vec<&'v Arc<Value>> {
        let policy = pool.text("/spec/scaleInStrategy/proactive/selectionPolicy/sortPolicy");
        let place = |machine: &Value| place_of(machine.name()).unwrap_or_default();
        match policy {
            "DescendingOrder" => machines.sort_by_key(|machine| std::cmp::Reverse(place(machine))),
            "AscendingOrder" => machines.sort_by_key(|machine| place(machine)),
            "Newest" => machines.sort_by_key(|machine| {
                std::cmp::Reverse((machine.text("/metadata/creationTimestamp").to_owned(), place(machine)))
            }),
            "Oldest" => {
                machines.sort_by_key(|machine| {
                    (machine.text("/metadata/creationTimestamp").to_owned(), place(machine))
                });
            }
            _ => machines.sort_by_key(|machine| self.stages.chance("pool.scale-in", machine.uid(), 0)),
        }
        machines
    }

    async fn release(&self, machine: &Value) -> Result<(), ApiError> {
        if !machine.has_finalizer(FINALIZER) {
            return Ok(());
        }
        let left: Vec<&Value> =
            machine.list("/metadata/finalizers").iter().filter(|name| **name != FINALIZER).collect();
        let patch = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": machine["metadata"]["finalizers"]},
            {"op": "replace", "path": "/metadata/finalizers", "value": left},
        ]);
        match self.client.json_patch(&VM, &Key::of(machine), &patch).await {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Keeps what the pool wants now under a name of its own.
    async fn remember(&self, pool: &Value) -> Result<String, ApiError> {
        let name = format!("{}-{}", pool.name(), pool.generation());
        if self.revisions.get(&Key::new(pool.namespace(), &name)).is_none() {
            let revision = json!({
                "metadata": {
                    "namespace": pool.namespace(), "name": name, "ownerReferences": [owned_by(&POOL, pool)],
                },
                "data": pool["spec"], "revision": pool.generation(),
            });
            self.client.create_if_absent(&CONTROLLER_REVISION, revision).await?;
        }
        Ok(name)
    }

    /// Brings machines up to date, then their instances. True if the machines are.
    async fn update(&self, pool: &Value, machines: &[Arc<Value>]) -> Result<bool, Failed> {
        if pool.at("/spec/updateStrategy/unmanaged").is_object() {
            return Ok(true);
        }
        let (old, new): (Vec<_>, Vec<_>) = machines.iter().partition(|one| self.is_outdated(pool, one));
        for machine in &old {
            self.rewrite(pool, machine).await.map_err(|failure| ("FailedUpdate", failure))?;
        }
        if !pool.at("/spec/updateStrategy/opportunistic").is_object() {
            self.renew(pool, &new).await.map_err(|failure| ("FailedUpdate", failure))?;
        }
        Ok(old.is_empty())
    }

    fn template_of(&self, namespace: &str, revision: &str) -> Option<Value> {
        let revision = self.revisions.get(&Key::new(namespace, revision))?;
        Some(revision.at("/data/virtualMachineTemplate").clone())
    }

    fn is_outdated(&self, pool: &Value, machine: &Value) -> bool {
        let known = self.template_of(pool.namespace(), machine.label(REVISION_LABEL));
        known.is_none_or(|known| known != *pool.at("/spec/virtualMachineTemplate"))
    }

    async fn rewrite(&self, pool: &Value, machine: &Value) -> Result<(), ApiError> {
        let Some(index) = place_of(machine.name()) else { return Ok(()) };
        let revision = self.remember(pool).await?;
        let wanted = self::machine(pool, index, &revision);
        let mut written = machine.clone();
        for name in ["labels", "annotations"] {
            match wanted["metadata"].get(name) {
                Some(value) => written["metadata"][name] = value.clone(),
                None => written.unset(&format!("/metadata/{name}")),
            }
        }
        written["spec"] = wanted["spec"].clone();
        keep_identity(machine, &mut written);
        let (namespace, name) = (machine.namespace(), machine.name());
        match self.client.replace(&VM, &written).await {
            Ok(_) => {
                let message = format!("Updated VM {namespace}/{name}");
                self.recorder.normal(&POOL, pool, "SuccessfulUpdate", &message).await;
                Ok(())
            }
            Err(failure) => {
                let message = format!("Error updating virtual machine {name}/{namespace}: {failure}");
                self.recorder.warning(&POOL, pool, "FailedUpdate", &message).await;
                Err(failure)
            }
        }
    }

    /// Makes instances of machines that changed anew, as many at once as may be missing.
    async fn renew(&self, pool: &Value, machines: &[&Arc<Value>]) -> Result<(), ApiError> {
        let instance_of = |machine: &Value| self.instances.get(&Key::of(machine));
        let missing = machines
            .iter()
            .filter(|one| {
                !instance_of(one).is_some_and(|vmi| vmi.condition_holds("Ready") && !vmi.is_deleting())
            })
            .count();
        let mut allowed = max_unavailable(pool).saturating_sub(missing);
        for machine in machines {
            let Some(instance) = instance_of(machine).filter(|vmi| !vmi.is_deleting()) else { continue };
            let (now, then) = (machine.label(REVISION_LABEL), instance.label(REVISION_LABEL));
            if now == then || now.is_empty() {
                continue;
            }
            let (wanted, made) =
                (self.template_of(pool.namespace(), now), self.template_of(pool.namespace(), then));
            let Some(wanted) = wanted else { continue };
            let template = |one: &Value| one.at("/spec/template").clone();
            if made.as_ref().is_some_and(|made| template(made) == template(&wanted)) {
                let patch = json!({"metadata": {"labels": {REVISION_LABEL: now}}});
                self.client.merge(&VMI, &Key::of(&instance), &patch).await?;
                continue;
            }
            if allowed == 0 && instance.condition_holds("Ready") {
                continue;
            }
            allowed = allowed.saturating_sub(1);
            let volumes = |one: &Value| one.at("/spec/dataVolumeTemplates").clone();
            if made.is_some_and(|made| volumes(&made) != volumes(&wanted)) {
                self.release(machine).await?;
                self.client.delete(&VM, &Key::of(machine), machine.uid()).await?;
            } else {
                self.client.delete(&VMI, &Key::of(&instance), instance.uid()).await?;
            }
            let message = format!("Successfully updated resource {}/{}", machine.namespace(), machine.name());
            self.recorder.normal(&POOL, pool, "SuccessfulDelete", &message).await;
        }
        Ok(())
    }

    /// Forgets states of the pool that no machine and no instance was made of.
    async fn forget(&self, pool: &Value, machines: &[Arc<Value>]) -> Result<(), Failed> {
        for revision in self.revisions.controlled_by(pool.uid()) {
            let used = machines.iter().any(|machine| {
                let instance = self.instances.get(&Key::of(machine));
                machine.label(REVISION_LABEL) == revision.name()
                    || instance.is_some_and(|instance| instance.label(REVISION_LABEL) == revision.name())
            });
            if !used {
                let gone =
                    self.client.delete(&CONTROLLER_REVISION, &Key::of(&revision), revision.uid()).await;
                gone.map_err(|failure| ("FailedRevisionPruning", failure))?;
            }
        }
        Ok(())
    }

    async fn sync(&self, pool: &Value, machines: &[Arc<Value>]) -> Result<(), Failed> {
        if self.scale(pool, machines).await? && self.update(pool, machines).await? {
            self.forget(pool, machines).await?;
        }
        Ok(())
    }

    /// Lets everything go; what belongs to the pool is collected after it.
    async fn end(&self, pool: &Value, machines: &[Arc<Value>]) -> Result<(), ApiError> {
        for machine in machines {
            self.release(machine).await?;
        }
        let mut written = pool.clone();
        if written.remove_finalizer(FINALIZER) {
            self.client.replace(&POOL, &written).await?;
        }
        Ok(())
    }
}

/// The first places that are free.
fn free_places(count: usize, is_taken: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..).filter(|index| !is_taken(*index)).take(count).collect()
}

/// The place of a machine in its pool.
fn place_of(name: &str) -> Option<usize> {
    name.rsplit('-').next()?.parse().ok()
}

/// How many machines of a pool may be missing at once: one at least.
fn max_unavailable(pool: &Value) -> usize {
    let value = pool.at("/spec/maxUnavailable");
    let count = match value {
        Value::String(text) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(100);
            wanted(pool) * percent / 100
        }
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(1),
        _ => wanted(pool),
    };
    count.max(1)
}

/// A machine as a pool describes it, at its place.
fn machine(pool: &Value, index: usize, revision: &str) -> Value {
    let template = pool.at("/spec/virtualMachineTemplate");
    let mut metadata = json!({
        "namespace": pool.namespace(), "name": format!("{}-{index}", pool.name()),
        "ownerReferences": [owned_by(&POOL, pool)], "finalizers": [FINALIZER],
    });
    for name in ["labels", "annotations"] {
        if template["metadata"][name].is_object() {
            metadata[name] = template["metadata"][name].clone();
        }
    }
    let mut machine = json!({"metadata": metadata, "spec": placed(pool, index)});
    machine.set_label(REVISION_LABEL, revision);
    machine["spec"]["template"].set_label(REVISION_LABEL, revision);
    machine
}

/// The spec of the machine at a place: its volumes are its own.
fn placed(pool: &Value, index: usize) -> Value {
    let mut spec = pool.at("/spec/virtualMachineTemplate/spec").clone();
    let mut own: Vec<String> = Vec::new();
    if let Some(templates) = spec.pointer_mut("/dataVolumeTemplates").and_then(Value::as_array_mut) {
        for template in templates {
            own.push(template.name().to_owned());
            let name = format!("{}-{index}", template.name());
            template.set("/metadata/name", name.into());
        }
    }
    let option = |name: &str| pool.flag(&format!("/spec/nameGeneration/{name}"));
    let (maps, secrets) = (option("appendIndexToConfigMapRefs"), option("appendIndexToSecretRefs"));
    let is_own = |name: &str| own.iter().any(|known| known == name);
    if let Some(volumes) = spec.pointer_mut("/template/spec/volumes").and_then(Value::as_array_mut) {
        for volume in volumes {
            for (pointer, numbered) in [
                ("/persistentVolumeClaim/claimName", None),
                ("/dataVolume/name", None),
                ("/configMap/name", Some(maps)),
                ("/secret/secretName", Some(secrets)),
            ] {
                let name = volume.text(pointer).to_owned();
                if !name.is_empty() && numbered.unwrap_or_else(|| is_own(&name)) {
                    volume.set(pointer, format!("{name}-{index}").into());
                }
            }
        }
    }
    spec
}

/// What a machine was given when it was made stays: the firmware's names, and what the template leaves open.
fn keep_identity(machine: &Value, written: &mut Value) {
    for name in ["uuid", "serial"] {
        let pointer = format!("/spec/template/spec/domain/firmware/{name}");
        let known = machine.text(&pointer);
        if !known.is_empty() && written.text(&pointer).is_empty() {
            written.set(&pointer, known.into());
        }
    }
}

impl Controller for Pools {
    const NAME: &'static str = "vm-pools";

    fn watches(&self) -> Vec<Watch> {
        let machines = Arc::clone(&self.machines);
        vec![
            Watch::each(&self.known),
            Watch::owners(&self.machines, "VirtualMachinePool"),
            Watch::owners(&self.revisions, "VirtualMachinePool"),
            Watch::mapped(&self.instances, move |change| {
                let Some(machine) = machines.get(&change.key()) else { return Vec::new() };
                let owner = machine.controller().filter(|owner| owner["kind"] == "VirtualMachinePool");
                owner.map(|owner| Key::new(machine.namespace(), owner.text("/name"))).into_iter().collect()
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(pool) = self.known.get(key) else { return Ok(Next::Done) };
        let labels = pool.at("/spec/virtualMachineTemplate/metadata/labels");
        if !selector::matches(pool.at("/spec/selector"), labels) {
            return Ok(Next::Done);
        }
        let machines = self.machines.controlled_by(pool.uid());
        if pool.is_deleting() {
            self.end(&pool, &machines).await?;
            return Ok(Next::Done);
        }
        if !pool.has_finalizer(FINALIZER) {
            let mut held = (*pool).clone();
            held.add_finalizer(FINALIZER);
            self.client.replace(&POOL, &held).await?;
            return Ok(Next::Done);
        }
        let synced = if pool.flag("/spec/paused") { Ok(()) } else { self.sync(&pool, &machines).await };
        let told = synced.as_ref().err().map(|(reason, failure)| (*reason, failure.message.clone()));
        let failure = told.as_ref().map(|(reason, message)| (*reason, message.as_str()));
        let ready = machines.iter().filter(|one| one.condition_holds("Ready")).count();
        let mut noted = (*pool).clone();
        let paused = ("SuccessfulPaused", "Pool controller is paused");
        note(&mut noted, machines.len(), ready, failure, paused, &self.clock.seconds());
        if noted["status"] != pool["status"] {
            self.client.replace_status(&POOL, &noted).await?;
            match (pool.condition_holds("ReplicaPaused"), noted.condition_holds("ReplicaPaused")) {
                (false, true) => {
                    self.recorder.normal(&POOL, &pool, "SuccessfulPaused", "Pool is paused").await;
                }
                (true, false) => {
                    self.recorder.normal(&POOL, &pool, "SuccessfulResume", "Pool is unpaused").await;
                }
                _ => {}
            }
        }
        synced.map(|()| Next::Done).map_err(|(_, failure)| failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "pool", "uid": "u", "generation": 2},
            "spec": {
                "replicas": 4,
                "nameGeneration": {"appendIndexToSecretRefs": true},
                "virtualMachineTemplate": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "dataVolumeTemplates": [{"metadata": {"name": "root"}, "spec": {}}],
                        "template": {"spec": {"volumes": [
                            {"name": "root", "dataVolume": {"name": "root"}},
                            {"name": "other", "persistentVolumeClaim": {"claimName": "shared"}},
                            {"name": "map", "configMap": {"name": "m"}},
                            {"name": "secret", "secret": {"secretName": "s"}},
                        ]}},
                    },
                },
            },
        })
    }

    #[test]
    fn machines_have_volumes_of_their_own() {
        let made = machine(&pool(), 3, "pool-2");
        assert_eq!(made.name(), "pool-3");
        assert_eq!((made.label(REVISION_LABEL), made.label("a")), ("pool-2", "b"));
        assert!(made.has_finalizer(FINALIZER) && made.is_controlled_by("u"));
        assert_eq!(made.text("/spec/dataVolumeTemplates/0/metadata/name"), "root-3");
        let volumes = made.list("/spec/template/spec/volumes");
        assert_eq!(volumes[0].text("/dataVolume/name"), "root-3");
        assert_eq!(volumes[1].text("/persistentVolumeClaim/claimName"), "shared");
        assert_eq!(volumes[2].text("/configMap/name"), "m");
        assert_eq!(volumes[3].text("/secret/secretName"), "s-3");
    }

    #[test]
    fn places_are_filled_from_the_first() {
        assert_eq!(free_places(3, |index| index == 1), [0, 2, 3]);
        assert_eq!((place_of("pool-a-12"), place_of("pool")), (Some(12), None));
    }

    #[test]
    fn at_least_one_may_be_missing() {
        let mut pool = pool();
        assert_eq!(max_unavailable(&pool), 4);
        for (value, count) in [(json!("50%"), 2), (json!("10%"), 1), (json!(3), 3)] {
            pool["spec"]["maxUnavailable"] = value;
            assert_eq!(max_unavailable(&pool), count);
        }
    }
}
