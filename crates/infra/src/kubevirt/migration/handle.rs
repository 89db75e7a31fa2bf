//! virt-handler's part: the target prepares, the source copies, the machine goes on at the target.

use std::time::Duration;

use serde_json::Value;

use super::{TARGET_LABEL, policy};
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{NODE, POD, VMI};
use crate::kubevirt::handler::plan;
use crate::kubevirt::names::NODE_NAME_LABEL;
use crate::object::{Key, Object as _, drop_condition, escaped};
use crate::waits::{Waited, Waits};
use crate::world::machine::{Command, Interface, Place};

/// How long to wait for a host that is not heard, and how often the hosts of a copy are looked at.
const AGAIN: Duration = Duration::from_secs(1);
/// What a source is told by its libvirt when the target does not answer any more.
const TARGET_LOST: &str = "internal error: client socket is closed";
/// The ports a target listens at.
const PORTS: [u16; 2] = [49152, 49153];

/// What virt-handler does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The target gets ready.
    Prepare,
    /// The source begins.
    Start,
    /// The source copies memory.
    Copy,
    /// The machine runs at the target.
    Arrive,
    /// The source stops copying.
    Abort,
    Nothing,
}

fn next(vmi: &Value) -> Step {
    let state = vmi.at("/status/migrationState");
    if !state.is_object() || state.flag("/completed") || vmi.text("/status/phase") != "Running" {
        return Step::Nothing;
    }
    if state.text("/targetNode").is_empty() || state.text("/targetNode") == vmi.text("/status/nodeName") {
        return Step::Nothing;
    }
    if state.flag("/abortRequested") && !state.flag("/targetNodeDomainDetected") {
        return Step::Abort;
    }
    if state.text("/targetNodeAddress").is_empty() {
        Step::Prepare
    } else if state.text("/startTimestamp").is_empty() {
        Step::Start
    } else if state.flag("/targetNodeDomainDetected") {
        Step::Arrive
    } else {
        Step::Copy
    }
}

/// The interfaces of a machine at another pod, which would give it those in `there`. One on the pod network has other
/// addresses now; one on a network it was on before keeps what the guest knows; others came, or are gone.
fn moved(before: &[Interface], there: Vec<Interface>) -> Vec<Interface> {
    let elsewhere = |interface: Interface| {
        let same = |old: &&Interface| old.name == interface.name && old.network == interface.network;
        match before.iter().find(same) {
            Some(old) if old.network.is_empty() => {
                Interface { addresses: interface.addresses, ..old.clone() }
            }
            Some(old) => old.clone(),
            None => interface,
        }
    };
    there.into_iter().map(elsewhere).collect()
}

/// The instance after its machine has arrived in a pod.
fn arrived(vmi: &Value, pod: &Value, now: &str) -> Value {
    let node = pod.text("/spec/nodeName");
    let mut new = vmi.clone();
    new.set("/status/nodeName", node.into());
    new.set_label(NODE_NAME_LABEL, node);
    new.unset(&format!("/metadata/labels/{}", escaped(TARGET_LABEL)));
    new.unset("/status/evacuationNodeName");
    drop_condition(&mut new, "EvictionRequested");
    let addresses: Vec<Value> = pod.list("/status/podIPs").iter().map(|one| one["ip"].clone()).collect();
    let on_pods: Vec<String> = vmi
        .list("/spec/networks")
        .iter()
        .filter(|network| network["pod"].is_object())
        .map(|network| network.text("/name").to_owned())
        .collect();
    if let Some(interfaces) = new.pointer_mut("/status/interfaces").and_then(Value::as_array_mut) {
        for interface in interfaces.iter_mut().filter(|one| on_pods.iter().any(|name| one["name"] == *name)) {
            interface["ipAddress"] = addresses.first().cloned().unwrap_or_else(|| "".into());
            interface["ipAddresses"] = addresses.clone().into();
        }
    }
    let state = &mut new["status"]["migrationState"];
    state["completed"] = true.into();
    state["endTimestamp"] = now.into();
    new
}

/// The instance after a migration that came to nothing.
pub(super) fn failed(vmi: &Value, reason: &str, now: &str) -> Value {
    let mut new = vmi.clone();
    new.unset(&format!("/metadata/labels/{}", escaped(TARGET_LABEL)));
    let state = &mut new["status"]["migrationState"];
    state["completed"] = true.into();
    state["failed"] = true.into();
    state["failureReason"] = reason.into();
    state["endTimestamp"] = now.into();
    new
}

/// What the migration of an instance is known by; never empty, so that nothing begins with it by accident.
fn migration_of(vmi: &Value) -> &str {
    let uid = vmi.text("/status/migrationState/migrationUid");
    if uid.is_empty() { "none" } else { uid }
}

/// Carries migrations out.
#[derive(Debug)]
pub(super) struct Handle {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// How far the stages are, by migration and stage.
    waits: Waits,
}

impl Handle {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::VIRT_HANDLER),
            recorder: context.recorder(Identity::VIRT_HANDLER),
            waits: Waits::new(&context.stages),
        }
    }

    /// Passes a stage: nothing when it is passed, else how long to wait, or why it failed.
    fn pass(&self, stage: &'static str, vmi: &Value) -> Result<Option<Duration>, String> {
        let mut about = vmi.clone();
        about.set("/metadata/uid", migration_of(vmi).into());
        let id = format!("{}/{stage}", migration_of(vmi));
        match self.waits.pass(&id, stage, &about) {
            Waited::Passed => Ok(None),
            Waited::NotYet(left) => Ok(Some(left)),
            Waited::Failed(message) => {
                self.waits.forget(&id);
                Err(message)
            }
        }
    }

    fn is_heard(&self, node: &str) -> bool {
        self.context.world.hosts.get(node).is_none_or(crate::world::hosts::Host::is_heard)
    }

    fn target_pod(&self, vmi: &Value) -> Option<std::sync::Arc<Value>> {
        let name = vmi.text("/status/migrationState/targetPod");
        self.client.cache(&POD).get(&Key::new(vmi.namespace(), name))
    }

    async fn fail(&self, vmi: &Value, reason: &str) -> Result {
        let written = self.client.replace(&VMI, &failed(vmi, reason, &self.context.clock.seconds())).await?;
        let uid = vmi.text("/status/migrationState/migrationUid");
        let message = format!("VirtualMachineInstance migration uid {uid} failed. reason: {reason}");
        self.recorder.warning(&VMI, &written, "Migrated", &message).await;
        Ok(())
    }

    async fn prepare(&self, vmi: &Value) -> Looked {
        match self.pass("migration.prepare", vmi) {
            Ok(Some(wait)) => return Ok(Next::After(wait)),
            Err(message) => {
                let reason = format!("failed to prepare the migration target: {message}");
                self.fail(vmi, &reason).await?;
                return Ok(Next::Done);
            }
            Ok(None) => {}
        }
        let node = self.client.cache(&NODE).get(&Key::cluster(vmi.text("/status/migrationState/targetNode")));
        let address = node.as_ref().and_then(|node| {
            node.list("/status/addresses").iter().find(|address| address["type"] == "InternalIP")
        });
        let address = address.map_or("127.0.0.1", |address| address.text("/address")).to_owned();
        let mut new = vmi.clone();
        let state = &mut new["status"]["migrationState"];
        state["targetNodeAddress"] = address.as_str().into();
        state["targetDirectMigrationNodePorts"] = PORTS
            .iter()
            .map(|port| (port.to_string(), Value::from(0)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let written = self.client.replace(&VMI, &new).await?;
        let message =
            format!("Migration Target is listening at {address}, on ports: {},{}", PORTS[0], PORTS[1]);
        self.recorder.normal(&VMI, &written, "PreparingTarget", &message).await;
        Ok(Next::Done)
    }

    async fn begin(&self, vmi: &Value) -> Looked {
        let mut new = vmi.clone();
        new["status"]["migrationState"]["startTimestamp"] = self.context.clock.seconds().into();
        new["status"]["migrationState"]["mode"] = "PreCopy".into();
        let written = self.client.replace(&VMI, &new).await?;
        let message = "VirtualMachineInstance is migrating.";
        self.recorder.normal(&VMI, &written, "Migrating", message).await;
        Ok(Next::Done)
    }

    async fn copy(&self, vmi: &Value) -> Looked {
        // Memory goes from host to host: a target without power or cable takes none, whatever the stage says.
        if !self.is_heard(vmi.text("/status/migrationState/targetNode")) {
            self.fail(vmi, TARGET_LOST).await?;
            return Ok(Next::Done);
        }
        match self.pass("migration.copy", vmi) {
            Ok(Some(wait)) => {
                let is_stuck = self.waits.is_hanging(&format!("{}/migration.copy", migration_of(vmi)));
                let Some(reason) = policy::timed_out(vmi, is_stuck, self.context.clock.now()) else {
                    return Ok(Next::After(wait.min(AGAIN)));
                };
                self.fail(vmi, &reason).await?;
                return Ok(Next::Done);
            }
            Err(message) => {
                self.fail(vmi, &message).await?;
                return Ok(Next::Done);
            }
            Ok(None) => {}
        }
        let mut new = vmi.clone();
        let state = &mut new["status"]["migrationState"];
        state["targetNodeDomainDetected"] = true.into();
        state["targetNodeDomainReadyTimestamp"] = self.context.clock.seconds().into();
        self.client.replace(&VMI, &new).await?;
        Ok(Next::Done)
    }

    async fn arrive(&self, vmi: &Value) -> Looked {
        let Some(pod) = self.target_pod(vmi) else {
            self.fail(vmi, "the target pod is gone").await?;
            return Ok(Next::Done);
        };
        // The instance is at its new place before the machine is, so that nobody takes the end of the source's pod
        // for the end of the machine.
        let written = self.client.replace(&VMI, &arrived(vmi, &pod, &self.context.clock.seconds())).await?;
        if let Some(machine) = self.context.world.machines.get(vmi.uid()) {
            let node = pod.text("/spec/nodeName").to_owned();
            let place = Place { pod: Key::of(&pod), pod_uid: pod.uid().to_owned(), node };
            let there = plan::interfaces(vmi, &pod, &self.context.stages);
            machine.command(Command::Move(place, moved(&machine.plan().interfaces, there)));
        }
        let message = format!("The VirtualMachineInstance migrated to node {}.", pod.text("/spec/nodeName"));
        self.recorder.normal(&VMI, &written, "Migrated", &message).await;
        Ok(Next::Done)
    }

    async fn abort(&self, vmi: &Value) -> Looked {
        if vmi.text("/status/migrationState/abortStatus").is_empty() {
            let mut new = vmi.clone();
            new["status"]["migrationState"]["abortStatus"] = "Aborting".into();
            self.client.replace(&VMI, &new).await?;
            return Ok(Next::Done);
        }
        let mut new = failed(vmi, "Live migration aborted", &self.context.clock.seconds());
        new["status"]["migrationState"]["abortStatus"] = "Succeeded".into();
        let written = self.client.replace(&VMI, &new).await?;
        let message = "VirtualMachineInstance migration was aborted.";
        self.recorder.normal(&VMI, &written, "Migrated", message).await;
        Ok(Next::Done)
    }
}

impl Controller for Handle {
    const NAME: &'static str = "migration-handler";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.client.cache(&VMI)),
            Watch::known(&self.client.cache(&POD)),
            Watch::known(&self.client.cache(&NODE)),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vmi) = self.client.cache(&VMI).get(key) else {
            let known = self.client.cache(&VMI).list("");
            let goes_on = |id: &str| known.iter().any(|vmi| id.starts_with(migration_of(vmi)));
            self.waits.keep(goes_on);
            return Ok(Next::Done);
        };
        let step = next(&vmi);
        let at_target = matches!(step, Step::Prepare | Step::Arrive);
        let place = if at_target { "/status/migrationState/targetNode" } else { "/status/nodeName" };
        if step != Step::Nothing && !self.is_heard(vmi.text(place)) {
            return Ok(Next::After(AGAIN));
        }
        match step {
            Step::Nothing => Ok(Next::Done),
            Step::Prepare => self.prepare(&vmi).await,
            Step::Start => self.begin(&vmi).await,
            Step::Copy => self.copy(&vmi).await,
            Step::Arrive => self.arrive(&vmi).await,
            Step::Abort => self.abort(&vmi).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vmi(state: &Value) -> Value {
        json!({
            "metadata": {"labels": {NODE_NAME_LABEL: "a", TARGET_LABEL: "b"}},
            "spec": {"networks": [{"name": "default", "pod": {}}, {"name": "more", "multus": {}}]},
            "status": {
                "phase": "Running", "nodeName": "a", "evacuationNodeName": "a",
                "interfaces": [{"name": "default", "ipAddress": "10.0.0.1"}, {"name": "more", "ipAddress": "10.9.0.1"}],
                "conditions": [{"type": "EvictionRequested"}], "migrationState": state,
            },
        })
    }

    #[test]
    fn each_step_follows_from_what_was_said_before() {
        assert_eq!(next(&vmi(&Value::Null)), Step::Nothing);
        let mut state = json!({"migrationUid": "m", "targetNode": "b"});
        assert_eq!(next(&vmi(&state)), Step::Prepare);
        state["targetNodeAddress"] = "x".into();
        assert_eq!(next(&vmi(&state)), Step::Start);
        state["startTimestamp"] = "t".into();
        assert_eq!(next(&vmi(&state)), Step::Copy);
        let mut aborted = state.clone();
        aborted["abortRequested"] = true.into();
        assert_eq!(next(&vmi(&aborted)), Step::Abort);
        state["targetNodeDomainDetected"] = true.into();
        assert_eq!(next(&vmi(&state)), Step::Arrive);
        state["completed"] = true.into();
        assert_eq!(next(&vmi(&state)), Step::Nothing);
    }

    #[test]
    fn whoever_arrives_is_at_home_there() {
        let pod = json!({"metadata": {"uid": "t"}, "spec": {"nodeName": "b"}, "status": {"podIPs": [{"ip": "10.0.1.1"}]}});
        let new = arrived(&vmi(&json!({"targetNode": "b"})), &pod, "now");
        assert_eq!(
            (new.text("/status/nodeName"), new.label(NODE_NAME_LABEL), new.label(TARGET_LABEL)),
            ("b", "b", "")
        );
        assert_eq!(new["status"]["interfaces"][0]["ipAddress"], "10.0.1.1");
        assert_eq!(new["status"]["interfaces"][1]["ipAddress"], "10.9.0.1");
        assert!(
            new["status"]["evacuationNodeName"].is_null() && new.condition("EvictionRequested").is_null()
        );
        assert!(new.flag("/status/migrationState/completed"));
    }

    #[test]
    fn whoever_fails_stays_where_it_is() {
        let new = failed(&vmi(&json!({"targetNode": "b"})), "lost", "now");
        assert_eq!((new.text("/status/nodeName"), new.label(TARGET_LABEL)), ("a", ""));
        assert_eq!(new.text("/status/migrationState/failureReason"), "lost");
    }

    #[test]
    fn only_the_pod_network_gives_new_addresses() {
        let one = |network: &str| Interface {
            network: network.to_owned(),
            addresses: vec!["10.0.0.1".parse().unwrap()],
            ..Interface::default()
        };
        let new: std::net::IpAddr = "10.0.1.1".parse().unwrap();
        let at = |network: &str| Interface { addresses: vec![new], ..one(network) };
        let after = moved(&[one(""), one("n/more"), one("n/gone")], vec![at(""), at("n/more"), at("n/come")]);
        let is_new: Vec<bool> = after.iter().map(|interface| interface.addresses[0] == new).collect();
        assert_eq!(is_new, [true, false, true]);
    }
}
