//! Replica sets of instances.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Step, note, selector, step, wanted};
use crate::client::{ApiError, Cache, Client, Identity};
use crate::clock::Clock;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{VMI, VMI_REPLICA_SET};
use crate::object::{Key, Object as _, owned_by};

/// Keeps as many instances as a replica set wants.
#[derive(Debug)]
pub struct Sets {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    known: Arc<Cache>,
    instances: Arc<Cache>,
}

impl Sets {
    /// The controller of a cluster.
    pub fn new(context: &Context) -> Self {
        let client = context.client(Identity::VIRT_CONTROLLER);
        Self {
            clock: context.clock,
            recorder: Recorder::new(&client, context.clock, "virtualmachinereplicaset-controller"),
            known: client.cache(&VMI_REPLICA_SET),
            instances: client.cache(&VMI),
            client,
        }
    }

    /// The instances of a set; those that nobody has and that it picks become its own.
    async fn members(&self, set: &Value) -> Result<Vec<Arc<Value>>, ApiError> {
        let mut members = Vec::new();
        for instance in self.instances.list(set.namespace()) {
            if instance.is_controlled_by(set.uid()) {
                members.push(instance);
            } else if instance.controller().is_none()
                && !instance.is_deleting()
                && selector::matches(set.at("/spec/selector"), &instance["metadata"]["labels"])
            {
                let owners = json!({"metadata": {"ownerReferences": [owned_by(&VMI_REPLICA_SET, set)]}});
                members.push(Arc::new(self.client.merge(&VMI, &Key::of(&instance), &owners).await?));
            }
        }
        Ok(members)
    }

    async fn scale(&self, set: &Value, active: &[&Arc<Value>]) -> Result<(), (&'static str, ApiError)> {
        match step(active.len(), wanted(set)) {
            Step::Rest => Ok(()),
            Step::Make(count) => {
                for _ in 0..count {
                    self.make(set).await.map_err(|failure| ("FailedCreate", failure))?;
                }
                Ok(())
            }
            Step::Take(count) => {
                for instance in least_useful(active).into_iter().take(count) {
                    self.take(set, instance).await.map_err(|failure| ("FailedDelete", failure))?;
                }
                Ok(())
            }
        }
    }

    async fn make(&self, set: &Value) -> Result<(), ApiError> {
        match self.client.create(&VMI, instance(set)).await {
            Ok(made) => {
                let message = format!(
                    "Started the virtual machine by creating the new virtual machine instance {}",
                    made.name()
                );
                self.recorder.normal(&VMI_REPLICA_SET, set, "SuccessfulCreate", &message).await;
                Ok(())
            }
            Err(failure) => {
                let message = format!("Error creating virtual machine instance: {failure}");
                self.recorder.warning(&VMI_REPLICA_SET, set, "FailedCreate", &message).await;
                Err(failure)
            }
        }
    }

    async fn take(&self, set: &Value, instance: &Value) -> Result<(), ApiError> {
        let (name, uid) = (instance.name(), instance.uid());
        match self.client.delete(&VMI, &Key::of(instance), uid).await {
            Ok(()) => {
                let message =
                    format!("Stopped the virtual machine by deleting the virtual machine instance {uid}");
                self.recorder.normal(&VMI_REPLICA_SET, set, "SuccessfulDelete", &message).await;
                Ok(())
            }
            Err(failure) => {
                let message = format!("Error deleting virtual machine instance {name}: {failure}");
                self.recorder.warning(&VMI_REPLICA_SET, set, "FailedDelete", &message).await;
                Err(failure)
            }
        }
    }
}

/// Whether an instance counts: neither over, nor going, nor on a host that is lost.
fn is_active(instance: &Value) -> bool {
    let ready = instance.condition("Ready");
    let terminating = ready["status"] == "False" && ready["reason"] == "PodTerminating";
    !instance.is_over() && !instance.is_deleting() && !terminating
}

/// Those that would be missed least first: not ready before ready, younger before older.
fn least_useful<'v>(active: &[&'v Arc<Value>]) -> Vec<&'v Arc<Value>> {
    let mut sorted = active.to_vec();
    sorted.sort_by_key(|instance| {
        let made = instance.text("/metadata/creationTimestamp").to_owned();
        (instance.condition_holds("Ready"), std::cmp::Reverse(made), instance.name().to_owned())
    });
    sorted
}

/// An instance as the template of a set describes it.
fn instance(set: &Value) -> Value {
    let template = set.at("/spec/template");
    let base = [template.name(), template.text("/metadata/generateName"), set.name()]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_default();
    let mut metadata = json!({
        "namespace": set.namespace(), "generateName": base,
        "ownerReferences": [owned_by(&VMI_REPLICA_SET, set)],
    });
    for name in ["labels", "annotations"] {
        if template["metadata"][name].is_object() {
            metadata[name] = template["metadata"][name].clone();
        }
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}

impl Controller for Sets {
    const NAME: &'static str = "vmi-replica-sets";

    fn watches(&self) -> Vec<Watch> {
        let sets = Arc::clone(&self.known);
        vec![
            Watch::each(&self.known),
            Watch::owners(&self.instances, "VirtualMachineInstanceReplicaSet"),
            Watch::mapped(&self.instances, move |change| {
                let instance = change.object();
                if instance.controller().is_some() {
                    return Vec::new();
                }
                let picks = |set: &&Arc<Value>| {
                    selector::matches(set.at("/spec/selector"), &instance["metadata"]["labels"])
                };
                sets.list(instance.namespace()).iter().filter(picks).map(|set| Key::of(set)).collect()
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(set) = self.known.get(key) else { return Ok(Next::Done) };
        if !selector::matches(set.at("/spec/selector"), set.at("/spec/template/metadata/labels")) {
            return Ok(Next::Done);
        }
        let members = if set.is_deleting() {
            self.instances.controlled_by(set.uid())
        } else {
            self.members(&set).await?
        };
        let active: Vec<&Arc<Value>> = members.iter().filter(|one| is_active(one)).collect();
        let mut scaled = Ok(());
        if !set.is_deleting() && !set.flag("/spec/paused") {
            scaled = self.scale(&set, &active).await;
            for over in members.iter().filter(|one| one.is_over() && !one.is_deleting()) {
                self.take(&set, over).await?;
            }
        }
        let ready = active.iter().filter(|one| one.condition_holds("Ready")).count();
        let told = scaled.as_ref().err().map(|(reason, failure)| (*reason, failure.message.clone()));
        let failure = told.as_ref().map(|(reason, message)| (*reason, message.as_str()));
        let mut noted = (*set).clone();
        let paused = ("Paused", "Controller got paused");
        note(&mut noted, active.len(), ready, failure, paused, &self.clock.seconds());
        if noted["status"] != set["status"] {
            let was_paused = set.condition_holds("ReplicaPaused");
            self.client.replace_status(&VMI_REPLICA_SET, &noted).await?;
            match (was_paused, noted.condition_holds("ReplicaPaused")) {
                (false, true) => {
                    self.recorder.normal(&VMI_REPLICA_SET, &set, "SuccessfulPaused", "Paused").await;
                }
                (true, false) => {
                    self.recorder.normal(&VMI_REPLICA_SET, &set, "SuccessfulResumed", "Resumed").await;
                }
                _ => {}
            }
        }
        scaled.map(|()| Next::Done).map_err(|(_, failure)| failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_named_after_their_set() {
        let set = json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"domain": {}}}},
        });
        let made = instance(&set);
        assert_eq!(made["metadata"]["generateName"], "web");
        assert_eq!((made.label("a"), made.is_controlled_by("u")), ("b", true));
    }

    #[test]
    fn the_least_useful_go_first() {
        let vmi = |name: &str, ready: bool, made: &str| {
            Arc::new(json!({
                "metadata": {"name": name, "creationTimestamp": made},
                "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
            }))
        };
        let all = [vmi("old", true, "1"), vmi("new", true, "2"), vmi("broken", false, "1")];
        let active: Vec<&Arc<Value>> = all.iter().collect();
        let names: Vec<&str> = least_useful(&active).iter().map(|one| one.name()).collect();
        assert_eq!(names, ["broken", "new", "old"]);
        assert!(is_active(&all[0]));
        assert!(!is_active(&json!({"status": {"phase": "Failed"}})));
        let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "PodTerminating"}]}});
        assert!(!is_active(&lost));
    }
}
