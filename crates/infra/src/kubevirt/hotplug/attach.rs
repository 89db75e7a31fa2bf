//! virt-controller's part: pods that hold what an instance wants, and what is said of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{claim_of, pods, set_phase, status_of, statuses, wanted, with_statuses};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CDI_CONFIG, DATA_VOLUME, POD, PVC, STORAGE_CLASS, VMI};
use crate::kubevirt::names::{COMPONENT_LABEL, CREATED_BY_LABEL};
use crate::kubevirt::vmi::volumes::{claim_info, overhead};
use crate::object::{Key, Object as _};

/// A volume an instance wants, and what there is of it.
#[derive(Debug, Clone)]
struct Wish {
    volume: Value,
    /// The claim, if it is there.
    claim: Option<Arc<Value>>,
    /// The share of a file system of its class that is not there for files.
    overhead: String,
    /// Whether the data volume behind it, if there is one, has its data.
    filled: bool,
    /// Whether the claim is only bound once somebody uses it.
    waits_for_consumer: bool,
}

impl Wish {
    fn name(&self) -> &str {
        self.volume.text("/name")
    }

    fn is_bound(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.text("/status/phase") == "Bound")
    }

    fn is_ready(&self) -> bool {
        self.is_bound() && self.filled
    }

    fn is_block(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.text("/spec/volumeMode") == "Block")
    }

    /// The phase of a volume no pod holds yet, with reason and message.
    fn phase(&self) -> (&'static str, &'static str, String) {
        let name = claim_of(&self.volume);
        match &self.claim {
            None => ("Pending", "PVCNotReady", format!("PVC {name} not found")),
            Some(claim) if self.is_bound() => {
                ("Bound", "PVCNotReady", format!("PVC is in phase {}", claim.text("/status/phase")))
            }
            Some(claim) => {
                let phase = claim.text("/status/phase");
                let phase = if phase.is_empty() { "Pending" } else { phase };
                ("Pending", "PVCNotReady", format!("PVC is in phase {phase}"))
            }
        }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// The statuses are to be these, and those of these names are to go.
    Say(Vec<Value>, Vec<String>),
    /// A pod for these volumes.
    Hold(BTreeSet<String>),
    /// A pod that makes this volume be bound.
    Bind(String),
    /// These pods are of no use any more.
    Retire(Vec<Key>),
    Nothing,
}

/// The pod that holds a volume: the newest of those that are to stay, else the newest.
fn holder<'p>(pods: &'p [Arc<Value>], name: &str) -> Option<&'p Arc<Value>> {
    let holds = |pod: &&Arc<Value>| pods::is_attachment(pod) && pods::held(pod).contains(name);
    pods.iter().filter(holds).max_by_key(|pod| {
        (!pod.is_deleting(), pod.text("/metadata/creationTimestamp").to_owned(), pod.version())
    })
}

/// What is to be said of a volume an instance wants.
fn status_of_wish(vmi: &Value, wish: &Wish, pods: &[Arc<Value>]) -> Value {
    let name = wish.name();
    let mut status = status_of(vmi, name).clone();
    if status.is_null() {
        status = json!({"name": name, "target": ""});
    }
    if !status["hotplugVolume"].is_object() {
        status["hotplugVolume"] = json!({});
    }
    if let Some(claim) = &wish.claim {
        status["persistentVolumeClaimInfo"] = claim_info(claim.name(), claim, &wish.overhead);
    }
    // Neither at the host nor in the machine, so far or again.
    let is_outside = matches!(status.text("/phase"), "" | "Pending" | "Bound" | "UnMountedFromPod");
    match holder(pods, name).filter(|pod| !pod.is_deleting()) {
        Some(pod) => {
            status["hotplugVolume"]["attachPodName"] = pod.name().into();
            if pods::is_ready(pod) {
                status["hotplugVolume"]["attachPodUID"] = pod.uid().into();
            } else {
                status.unset("/hotplugVolume/attachPodUID");
            }
            if is_outside {
                let message = format!("Created hotplug attachment pod {}, for volume {name}", pod.name());
                set_phase(&mut status, "AttachedToNode", "SuccessfulCreate", &message);
            }
        }
        None if is_outside => {
            let (phase, reason, message) = wish.phase();
            set_phase(&mut status, phase, reason, &message);
        }
        None => {}
    }
    status
}

/// What is to be said of a volume an instance does not want any more; nothing once no pod holds it.
fn status_of_leaving(old: &Value, pods: &[Arc<Value>]) -> Option<Value> {
    let name = old.text("/name");
    let pod = holder(pods, name)?;
    let mut status = old.clone();
    status["hotplugVolume"] = json!({"attachPodName": pod.name(), "attachPodUID": pod.uid()});
    if !matches!(old.text("/phase"), "Detaching" | "UnMountedFromPod") {
        status["phase"] = "Detaching".into();
    }
    if pod.is_deleting() {
        status["message"] =
            format!("Deleted hotplug attachment pod {}, for volume {name}", pod.name()).into();
        status["reason"] = "SuccessfulDelete".into();
    }
    Some(status)
}

/// What comes next for an instance.
fn next(vmi: &Value, wishes: &[Wish], pods: &[Arc<Value>]) -> Step {
    let mut new: Vec<Value> = wishes.iter().map(|wish| status_of_wish(vmi, wish, pods)).collect();
    let mut gone = Vec::new();
    for old in statuses(vmi).filter(|old| !wishes.iter().any(|wish| old["name"] == wish.name())) {
        match status_of_leaving(old, pods) {
            Some(status) => new.push(status),
            None => gone.push(old.text("/name").to_owned()),
        }
    }
    new.retain(|status| status_of(vmi, status.text("/name")) != status);
    if !new.is_empty() || !gone.is_empty() {
        return Step::Say(new, gone);
    }
    if let Some(wish) = wishes.iter().find(|wish| {
        wish.waits_for_consumer
            && wish.claim.is_some()
            && !wish.is_bound()
            && !pods.iter().any(|pod| pods::is_trigger(pod) && pods::held(pod).contains(wish.name()))
    }) {
        return Step::Bind(wish.name().to_owned());
    }
    let ready: BTreeSet<String> =
        wishes.iter().filter(|wish| wish.is_ready()).map(|wish| wish.name().to_owned()).collect();
    let living: Vec<&Arc<Value>> =
        pods.iter().filter(|pod| pods::is_attachment(pod) && !pod.is_deleting()).collect();
    let current = living.iter().rev().find(|pod| pods::held(pod) == ready);
    if !ready.is_empty() && current.is_none() {
        return Step::Hold(ready);
    }
    let retired = retired(vmi, wishes, pods, current.map(|pod| pod.uid()), ready.is_empty());
    if retired.is_empty() { Step::Nothing } else { Step::Retire(retired) }
}

/// The pods that are of no use any more: what they held is held by the current one or has been given back.
fn retired(
    vmi: &Value,
    wishes: &[Wish],
    pods: &[Arc<Value>],
    current: Option<&str>,
    nothing_wanted: bool,
) -> Vec<Key> {
    let runs = pods.iter().any(|pod| Some(pod.uid()) == current && pods::is_ready(pod));
    let given_back = |name: &String| {
        wishes.iter().any(|wish| wish.name() == name)
            || matches!(status_of(vmi, name).text("/phase"), "" | "UnMountedFromPod" | "Pending" | "Bound")
    };
    let is_retired = |pod: &&Arc<Value>| {
        if pod.is_deleting() || Some(pod.uid()) == current {
            return false;
        }
        if pods::is_trigger(pod) {
            return pods::held(pod)
                .iter()
                .all(|name| !wishes.iter().any(|wish| wish.name() == name && !wish.is_bound()));
        }
        (runs || nothing_wanted) && pods::held(pod).iter().all(given_back)
    };
    pods.iter().filter(is_retired).map(|pod| Key::of(pod)).collect()
}

/// The launcher that runs an instance now.
fn launcher(pods: &[Arc<Value>], vmi: &Value) -> Option<Arc<Value>> {
    let runs = |pod: &&Arc<Value>| {
        pod.label(COMPONENT_LABEL) == "virt-launcher"
            && pod.label(CREATED_BY_LABEL) == vmi.uid()
            && pod.text("/spec/nodeName") == vmi.text("/status/nodeName")
            && pod.text("/status/phase") == "Running"
            && !pod.is_deleting()
    };
    pods.iter().filter(runs).max_by_key(|pod| pod.version()).cloned()
}

/// The launchers of an instance beside which nothing is to be held any more: those that have ended, and all once the
/// instance has. A migration leaves such a launcher behind, and so does a host that came back.
fn abandoned<'p>(vmi: &Value, launchers: &'p [Arc<Value>]) -> impl Iterator<Item = &'p Arc<Value>> {
    let over = vmi.is_over();
    launchers.iter().filter(move |launcher| over || launcher.is_over())
}

/// Makes pods for volumes.
#[derive(Debug)]
pub(super) struct Attach {
    client: Client,
    recorder: Recorder,
}

impl Attach {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            client: context.client(Identity::VIRT_CONTROLLER),
            recorder: context.recorder(Identity::VIRT_CONTROLLER),
        }
    }

    fn wish(&self, vmi: &Value, volume: &Value) -> Wish {
        let key = Key::new(vmi.namespace(), claim_of(volume));
        let claim = self.client.cache(&PVC).get(&key);
        let data = self.client.cache(&DATA_VOLUME).get(&key);
        let filled = data.as_ref().is_none_or(|data| data.text("/status/phase") == "Succeeded");
        let class = claim.as_ref().map(|claim| claim.text("/spec/storageClassName")).unwrap_or_default();
        let class = self.client.cache(&STORAGE_CLASS).get(&Key::cluster(class));
        let waits_for_consumer =
            class.is_some_and(|class| class.text("/volumeBindingMode") == "WaitForFirstConsumer");
        let config = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config")).unwrap_or_default();
        let overhead = overhead(&config, claim.as_deref().unwrap_or(&Value::Null)).to_owned();
        Wish { volume: volume.clone(), claim, overhead, filled, waits_for_consumer }
    }

    async fn take(&self, vmi: &Value, launcher: &Value, wishes: &[Wish], step: Step) -> Looked {
        let wish = |name: &str| wishes.iter().find(|wish| wish.name() == name);
        match step {
            Step::Nothing => {}
            Step::Say(new, gone) => {
                let told: Vec<Value> = new
                    .iter()
                    .filter(|status| status["reason"] != status_of(vmi, status.text("/name"))["reason"])
                    .filter(|status| {
                        matches!(status.text("/reason"), "SuccessfulCreate" | "SuccessfulDelete")
                    })
                    .cloned()
                    .collect();
                let vmi = self.client.replace(&VMI, &with_statuses(vmi, new, &gone)).await?;
                for status in told {
                    self.recorder.normal(&VMI, &vmi, status.text("/reason"), status.text("/message")).await;
                }
            }
            Step::Hold(names) => {
                let volumes: Vec<(&Value, bool)> = names
                    .iter()
                    .filter_map(|name| wish(name))
                    .map(|wish| (&wish.volume, wish.is_block()))
                    .collect();
                self.make(vmi, pods::attachment(vmi, launcher, &volumes)).await?;
            }
            Step::Bind(name) => {
                if let Some(wish) = wish(&name) {
                    self.make(vmi, pods::trigger(vmi, launcher, &wish.volume, wish.is_block())).await?;
                }
            }
            Step::Retire(keys) => {
                for key in keys {
                    self.client.delete(&POD, &key, "").await?;
                }
            }
        }
        Ok(Next::Done)
    }

    async fn make(&self, vmi: &Value, pod: Value) -> Result<(), crate::client::ApiError> {
        match self.client.create(&POD, pod).await {
            Ok(_) => Ok(()),
            Err(failure) => {
                let message = format!("Error creating hotplug attachment pod: {failure}");
                self.recorder.warning(&VMI, vmi, "FailedCreate", &message).await;
                Err(failure)
            }
        }
    }
}

impl Controller for Attach {
    const NAME: &'static str = "hotplug-attach";

    fn watches(&self) -> Vec<Watch> {
        let instances = self.client.cache(&VMI);
        let users = move |change: &crate::client::Change| {
            let claim = change.key();
            let uses = |vmi: &&Arc<Value>| wanted(vmi).any(|volume| claim_of(volume) == claim.name);
            instances.list(&claim.namespace).iter().filter(uses).map(|vmi| Key::of(vmi)).collect()
        };
        vec![
            Watch::each(&self.client.cache(&VMI)),
            Watch::mapped(&self.client.cache(&POD), |change| {
                let pod = change.object();
                let name = match pod.annotation(pods::OWNER_NAME) {
                    "" => pod.annotation(crate::kubevirt::names::DOMAIN_ANNOTATION),
                    name => name,
                };
                if name.is_empty() { Vec::new() } else { vec![Key::new(pod.namespace(), name)] }
            }),
            Watch::mapped(&self.client.cache(&PVC), users.clone()),
            Watch::mapped(&self.client.cache(&DATA_VOLUME), users),
            Watch::known(&self.client.cache(&STORAGE_CLASS)),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vmi) = self.client.cache(&VMI).get(key) else { return Ok(Next::Done) };
        let cache = self.client.cache(&POD);
        let launchers = cache.controlled_by(vmi.uid());
        for launcher in abandoned(&vmi, &launchers) {
            let pods = cache.controlled_by(launcher.uid());
            for pod in
                pods.iter().filter(|pod| pod.label(COMPONENT_LABEL) == pods::HOTPLUG && !pod.is_deleting())
            {
                self.client.delete(&POD, &Key::of(pod), pod.uid()).await?;
            }
        }
        if vmi.text("/status/phase") != "Running" || vmi.is_deleting() {
            return Ok(Next::Done);
        }
        if wanted(&vmi).next().is_none() && statuses(&vmi).next().is_none() {
            return Ok(Next::Done);
        }
        let Some(launcher) = launcher(&launchers, &vmi) else { return Ok(Next::Done) };
        let mut pods = cache.controlled_by(launcher.uid());
        pods.sort_by_key(|pod| (pod.text("/metadata/creationTimestamp").to_owned(), pod.version()));
        let wishes: Vec<Wish> = wanted(&vmi).map(|volume| self.wish(&vmi, volume)).collect();
        let step = next(&vmi, &wishes, &pods);
        self.take(&vmi, &launcher, &wishes, step).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi(names: &[&str], statuses: &Value) -> Value {
        let volumes: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": true}}))
            .collect();
        json!({"metadata": {"name": "m", "uid": "u"}, "spec": {"volumes": volumes}, "status": {"volumeStatus": statuses}})
    }

    fn wishes(vmi: &Value, phase: &str) -> Vec<Wish> {
        let claim = json!({"metadata": {"name": "c"}, "spec": {}, "status": {"phase": phase}});
        wanted(vmi)
            .map(|volume| Wish {
                overhead: "0.06".to_owned(),
                volume: volume.clone(),
                claim: (!phase.is_empty()).then(|| Arc::new(claim.clone())),
                filled: true,
                waits_for_consumer: false,
            })
            .collect()
    }

    fn pod(name: &str, held: &[&str], ready: bool) -> Arc<Value> {
        let volumes: Vec<Value> =
            held.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {}})).collect();
        Arc::new(json!({
            "metadata": {"name": name, "uid": name, "labels": {"kubevirt.io": "hotplug-disk"}},
            "spec": {"volumes": volumes},
            "status": {"phase": if ready { "Running" } else { "Pending" }, "containerStatuses": [{"ready": ready}]},
        }))
    }

    /// The instance after what was said.
    fn said(vmi: &Value, step: Step) -> Value {
        match step {
            Step::Say(new, gone) => with_statuses(vmi, new, &gone),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_volume_is_held_once_its_claim_is_bound() {
        let start = vmi(&["a"], &json!([]));
        let missing = said(&start, next(&start, &wishes(&start, ""), &[]));
        assert_eq!(status_of(&missing, "a")["message"], "PVC a not found");
        assert_eq!(next(&missing, &wishes(&missing, ""), &[]), Step::Nothing);
        let pending = said(&missing, next(&missing, &wishes(&start, "Pending"), &[]));
        assert_eq!(status_of(&pending, "a")["phase"], "Pending");
        let bound = said(&pending, next(&pending, &wishes(&start, "Bound"), &[]));
        assert_eq!(status_of(&bound, "a")["phase"], "Bound");
        let hold = next(&bound, &wishes(&start, "Bound"), &[]);
        assert_eq!(hold, Step::Hold(BTreeSet::from(["a".to_owned()])));
        let attached = said(&bound, next(&bound, &wishes(&start, "Bound"), &[pod("p", &["a"], false)]));
        assert_eq!(status_of(&attached, "a")["phase"], "AttachedToNode");
        assert!(status_of(&attached, "a")["hotplugVolume"]["attachPodUID"].is_null());
        let ready = said(&attached, next(&attached, &wishes(&start, "Bound"), &[pod("p", &["a"], true)]));
        assert_eq!(status_of(&ready, "a")["hotplugVolume"]["attachPodUID"], "p");
    }

    #[test]
    fn a_data_volume_without_its_data_is_waited_for() {
        let start = vmi(&["a"], &json!([]));
        let mut empty = wishes(&start, "Bound");
        empty[0].filled = false;
        let bound = said(&start, next(&start, &empty, &[]));
        assert_eq!(next(&bound, &empty, &[]), Step::Nothing);
    }

    #[test]
    fn each_change_of_the_set_makes_a_new_pod_and_retires_the_old_one() {
        let ready = |name: &str, pod: &str| json!({"name": name, "phase": "Ready", "hotplugVolume": {"attachPodName": pod, "attachPodUID": pod}});
        let one = pod("one", &["a"], true);
        let start = vmi(&["a", "b"], &json!([ready("a", "one")]));
        let bound = said(&start, next(&start, &wishes(&start, "Bound"), &[Arc::clone(&one)]));
        let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(next(&bound, &wishes(&start, "Bound"), &[Arc::clone(&one)]), Step::Hold(both));
        let two = [Arc::clone(&one), pod("two", &["a", "b"], false)];
        let attached = said(&bound, next(&bound, &wishes(&start, "Bound"), &two));
        assert_eq!(next(&attached, &wishes(&start, "Bound"), &two), Step::Nothing);
        let two = [one, pod("two", &["a", "b"], true)];
        let moved = said(&attached, next(&attached, &wishes(&start, "Bound"), &two));
        let retired = next(&moved, &wishes(&start, "Bound"), &two);
        assert_eq!(retired, Step::Retire(vec![Key::cluster("one")]));
    }

    #[test]
    fn nothing_is_held_beside_a_launcher_that_has_ended() {
        let launcher = |name: &str, phase: &str| {
            Arc::new(json!({"metadata": {"name": name}, "status": {"phase": phase}}))
        };
        let launchers = [launcher("source", "Succeeded"), launcher("target", "Running")];
        let names = |phase: &str| -> Vec<String> {
            let vmi = json!({"status": {"phase": phase}});
            abandoned(&vmi, &launchers).map(|pod| pod.name().to_owned()).collect()
        };
        assert_eq!(names("Running"), ["source"]);
        assert_eq!(names("Failed"), ["source", "target"]);
    }

    #[test]
    fn a_volume_leaves_in_steps() {
        let held = [pod("p", &["a"], true)];
        let start = vmi(&[], &json!([{"name": "a", "phase": "Ready", "target": "sda", "hotplugVolume": {}}]));
        let leaving = said(&start, next(&start, &[], &held));
        assert_eq!(status_of(&leaving, "a")["phase"], "Detaching");
        // Not before virt-handler has unmounted it.
        assert_eq!(next(&leaving, &[], &held), Step::Nothing);
        let mut unmounted = leaving;
        unmounted["status"]["volumeStatus"][0]["phase"] = "UnMountedFromPod".into();
        assert_eq!(next(&unmounted, &[], &held), Step::Retire(vec![Key::cluster("p")]));
        assert_eq!(next(&unmounted, &[], &[]), Step::Say(Vec::new(), vec!["a".to_owned()]));
    }
}
