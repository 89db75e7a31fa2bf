//! Deployments: ReplicaSets that follow each other.

mod plan;
mod scale;
mod status;

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods::{Hand, hash_of};
use crate::client::Result;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{DEPLOYMENT, POD, REPLICA_SET};
use crate::object::{Key, Object as _, owned_by};
use plan::Room;

/// The label that tells the pods of one set from those of another.
const HASH: &str = "pod-template-hash";
/// The how-manieth template a set, or a deployment, has.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// How many pods the deployment wanted when a set was last scaled.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many pods the deployment allowed when a set was last scaled.
const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a deployment that its sets do not get.
const OWN: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];

/// Rolls deployments out.
#[derive(Debug)]
pub(super) struct Deployments {
    hand: Hand,
}

/// The sets of a deployment.
#[derive(Debug, Default)]
struct Sets {
    /// That of the template it has now.
    new: Option<Arc<Value>>,
    /// The others, oldest first.
    old: Vec<Arc<Value>>,
}

impl Sets {
    fn all(&self) -> Vec<Arc<Value>> {
        self.old.iter().chain(&self.new).cloned().collect()
    }
}

impl Deployments {
    pub(super) fn new(context: &Context) -> Self {
        Self { hand: Hand::new(context, &DEPLOYMENT, "deployment-controller") }
    }

    /// The sets of a deployment, told apart by their templates.
    async fn sets(&self, deployment: &Value) -> Result<Sets> {
        let mut sets = self.hand.claim(&REPLICA_SET, deployment).await?;
        sets.sort_by_key(|set| (set.text("/metadata/creationTimestamp").to_owned(), set.name().to_owned()));
        let place = sets.iter().position(|set| has_template(set, deployment.at("/spec/template")));
        let new = place.map(|place| sets.remove(place));
        Ok(Sets { new, old: sets })
    }

    /// Gives the new set its revision and annotations, and the deployment the revision; makes the set if asked to.
    async fn keep_new(&self, deployment: &mut Value, sets: &mut Sets, make: bool) -> Result {
        let revision = sets.old.iter().map(|set| revision_of(set)).max().unwrap_or_default() + 1;
        let now = self.hand.clock.seconds();
        let before = deployment.clone();
        let Some(set) = sets.new.take() else {
            if make {
                sets.new = self.make_new(deployment, &sets.old, revision).await?;
                let Some(new) = &sets.new else { return Ok(()) };
                deployment.set_annotation(REVISION, &revision.to_string());
                let message = format!("Created new replica set \"{}\"", new.name());
                status::put(deployment, "Progressing", "True", "NewReplicaSetCreated", &message, &now);
                *deployment = self.hand.client.replace_status(&DEPLOYMENT, deployment).await?;
            }
            return Ok(());
        };
        let revision = revision.max(revision_of(&set));
        let mut wanted = (*set).clone();
        dress(&mut wanted, deployment, revision);
        wanted.set(
            "/spec/minReadySeconds",
            deployment.number("/spec/minReadySeconds").unwrap_or_default().into(),
        );
        if wanted["spec"]["minReadySeconds"] == 0 {
            wanted.unset("/spec/minReadySeconds");
        }
        let set = if wanted == *set {
            set
        } else {
            Arc::new(self.hand.client.replace(&REPLICA_SET, &wanted).await?)
        };
        deployment.set_annotation(REVISION, set.annotation(REVISION));
        if deployment.condition("Progressing").is_null() {
            let message = format!("Found new replica set \"{}\"", set.name());
            status::put(deployment, "Progressing", "True", "FoundNewReplicaSet", &message, &now);
        }
        sets.new = Some(set);
        if *deployment != before {
            *deployment = self.hand.client.replace_status(&DEPLOYMENT, deployment).await?;
        }
        Ok(())
    }

    async fn make_new(
        &self,
        deployment: &mut Value,
        old: &[Arc<Value>],
        revision: i64,
    ) -> Result<Option<Arc<Value>>> {
        let collisions = deployment.number("/status/collisionCount").unwrap_or_default();
        let hash = hash_of(deployment.at("/spec/template"), collisions);
        let all: i64 = old.iter().filter_map(|set| set.number("/spec/replicas")).sum();
        let replicas = plan::grown(Room::of(deployment), 0, all);
        let set = new_set(deployment, &hash, replicas, revision);
        match self.hand.client.create(&REPLICA_SET, set).await {
            Ok(set) => {
                if replicas > 0 {
                    self.tell_scaled(deployment, &set, 0, replicas).await;
                }
                Ok(Some(Arc::new(set)))
            }
            Err(failure) if failure.is_already_there() => {
                // Somebody has that name: the next look takes another one.
                deployment.set("/status/collisionCount", (collisions + 1).into());
                *deployment = self.hand.client.replace_status(&DEPLOYMENT, deployment).await?;
                Ok(None)
            }
            Err(failure) => {
                let now = self.hand.clock.seconds();
                let message =
                    format!("Failed to create new replica set \"{}-{hash}\": {failure}", deployment.name());
                status::put(deployment, "Progressing", "False", "ReplicaSetCreateError", &message, &now);
                self.hand.client.replace_status(&DEPLOYMENT, deployment).await?;
                self.hand.recorder.warning(&DEPLOYMENT, deployment, "ReplicaSetCreateError", &message).await;
                Err(failure)
            }
        }
    }

    async fn tell_scaled(&self, deployment: &Value, set: &Value, from: i64, to: i64) {
        let way = if to > from { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {} from {from} to {to}", set.name());
        self.hand.recorder.normal(&DEPLOYMENT, deployment, "ScalingReplicaSet", &message).await;
    }

    /// Says whether a rollout is held, when that has changed.
    async fn note_pause(&self, deployment: &mut Value) -> Result {
        let reason = deployment.condition("Progressing").text("/reason").to_owned();
        let paused = deployment.flag("/spec/paused");
        if deployment["spec"]["progressDeadlineSeconds"].is_null() || reason == "ProgressDeadlineExceeded" {
            return Ok(());
        }
        let (reason, message) = match (paused, reason == "DeploymentPaused") {
            (true, false) => ("DeploymentPaused", "Deployment is paused"),
            (false, true) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return Ok(()),
        };
        let now = self.hand.clock.seconds();
        status::put(deployment, "Progressing", "Unknown", reason, message, &now);
        *deployment = self.hand.client.replace_status(&DEPLOYMENT, deployment).await?;
        Ok(())
    }

    /// Takes away the pods of all old sets before there are any new ones.
    async fn recreate(&self, deployment: &mut Value, sets: &mut Sets) -> Result {
        self.keep_new(deployment, sets, false).await?;
        if self.scale_old(deployment, sets, |_| 0).await? {
            return Ok(());
        }
        let pods = self.hand.client.cache(&POD);
        let left = |set: &Arc<Value>| pods.controlled_by(set.uid()).iter().any(|pod| !pod.is_over());
        if sets.old.iter().any(left) {
            return Ok(());
        }
        self.keep_new(deployment, sets, true).await?;
        self.scale_new(deployment, sets, Room::of(deployment).replicas).await?;
        Ok(())
    }

    /// Takes away old sets nobody will go back to.
    async fn clean(&self, deployment: &Value, sets: &Sets) -> Result {
        let Some(limit) = deployment.number("/spec/revisionHistoryLimit") else { return Ok(()) };
        let idle = |set: &&Arc<Value>| {
            set.number("/status/replicas").unwrap_or_default() == 0
                && set.number("/spec/replicas") == Some(0)
                && set.generation() <= set.number("/status/observedGeneration").unwrap_or_default()
                && !set.is_deleting()
        };
        let mut idle: Vec<_> = sets.old.iter().filter(idle).collect();
        idle.sort_by_key(|set| revision_of(set));
        let surplus = sets.old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for set in idle.into_iter().take(surplus) {
            self.hand.client.delete(&REPLICA_SET, &Key::of(set), set.uid()).await?;
        }
        Ok(())
    }

    async fn step(&self, deployment: &mut Value, sets: &mut Sets) -> Result {
        let paused = deployment.flag("/spec/paused");
        if paused || is_scaled(deployment, sets) {
            self.keep_new(deployment, sets, false).await?;
            self.scale(deployment, sets).await?;
            return if paused { self.clean(deployment, sets).await } else { Ok(()) };
        }
        if deployment["spec"]["strategy"]["type"] == "Recreate" {
            self.recreate(deployment, sets).await?;
        } else {
            self.keep_new(deployment, sets, true).await?;
            self.roll(deployment, sets).await?;
        }
        if status::is_complete(deployment) {
            self.clean(deployment, sets).await?;
        }
        Ok(())
    }
}

/// Whether a set has a template, its hash aside.
fn has_template(set: &Value, template: &Value) -> bool {
    let mut own = set.at("/spec/template").clone();
    own.unset(&format!("/metadata/labels/{HASH}"));
    own == *template
}

fn revision_of(set: &Value) -> i64 {
    set.annotation(REVISION).parse().unwrap_or_default()
}

/// Whether somebody changed the number of pods since the sets were last scaled.
fn is_scaled(deployment: &Value, sets: &Sets) -> bool {
    let wanted = Room::of(deployment).replicas.to_string();
    sets.all().iter().filter(|set| set.number("/spec/replicas").unwrap_or_default() > 0).any(|set| {
        let desired = set.annotation(DESIRED);
        !desired.is_empty() && desired != wanted
    })
}

/// Gives a set the annotations it has from its deployment.
fn dress(set: &mut Value, deployment: &Value, revision: i64) {
    for (name, value) in crate::network::selector::labels_at(deployment, "/metadata/annotations") {
        if !OWN.contains(&name.as_str()) {
            set.set_annotation(&name, &value);
        }
    }
    if revision > revision_of(set) {
        set.set_annotation(REVISION, &revision.to_string());
    }
}

/// Notes what the deployment wanted and allowed when a set was scaled.
fn note_room(set: &mut Value, room: Room) {
    set.set_annotation(DESIRED, &room.replicas.to_string());
    set.set_annotation(MOST, &(room.replicas + room.surge).to_string());
}

/// A set for the template a deployment has now.
fn new_set(deployment: &Value, hash: &str, replicas: i64, revision: i64) -> Value {
    let mut template = deployment.at("/spec/template").clone();
    template.set_label(HASH, hash);
    let mut selector = deployment.at("/spec/selector").clone();
    selector.set(&format!("/matchLabels/{HASH}"), hash.into());
    let mut set = json!({
        "metadata": {
            "namespace": deployment.namespace(), "name": format!("{}-{hash}", deployment.name()),
            "labels": template["metadata"]["labels"], "ownerReferences": [owned_by(&DEPLOYMENT, deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    if let Some(seconds) = deployment.number("/spec/minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.into();
    }
    dress(&mut set, deployment, revision);
    note_room(&mut set, Room::of(deployment));
    set
}

impl Controller for Deployments {
    const NAME: &'static str = "deployment-controller";

    fn watches(&self) -> Vec<Watch> {
        let mut watches = self.hand.watches(&REPLICA_SET);
        let (sets, pods) = (self.hand.client.cache(&REPLICA_SET), self.hand.client.cache(&POD));
        // Who takes all old pods away first waits for their end.
        watches.push(Watch::mapped(&pods, move |change| {
            let Some(pod) = change.before.as_ref().filter(|_| change.after.is_none()) else {
                return Vec::new();
            };
            let set = pod.controller().filter(|owner| owner["kind"] == "ReplicaSet");
            let set = set.and_then(|owner| sets.get(&Key::new(pod.namespace(), owner.text("/name"))));
            let owner = set.as_ref().and_then(|set| set.controller());
            owner.map(|owner| Key::new(pod.namespace(), owner.text("/name"))).into_iter().collect()
        }));
        watches
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(found) = self.hand.client.cache(&DEPLOYMENT).get(key) else { return Ok(Next::Done) };
        let mut deployment = (*found).clone();
        let mut sets = self.sets(&deployment).await?;
        if !deployment.is_deleting() {
            self.note_pause(&mut deployment).await?;
            self.step(&mut deployment, &mut sets).await?;
        }
        let old = deployment.clone();
        let (now, all) = (self.hand.clock.now(), sets.all());
        let words = crate::clock::seconds(now);
        let new = sets.new.as_deref();
        status::count(&mut deployment, new, &all, &words);
        let again = status::progress(&old, &mut deployment, new, now);
        status::failures(&mut deployment, new, &all, &words);
        if deployment["status"] != old["status"] {
            self.hand.client.replace_status(&DEPLOYMENT, &deployment).await?;
        }
        Ok(again.map_or(Next::Done, Next::After))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_its_template_and_its_revision() {
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "annotations": {"mine": "a", REVISION: "7"}},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            },
        });
        let set = new_set(&deployment, "abc", 1, 8);
        assert_eq!(set.name(), "web-abc");
        assert_eq!(set["spec"]["selector"]["matchLabels"], json!({"app": "web", HASH: "abc"}));
        assert!(has_template(&set, deployment.at("/spec/template")));
        assert_eq!((set.annotation("mine"), set.annotation(REVISION)), ("a", "8"));
        assert_eq!((set.annotation(DESIRED), set.annotation(MOST)), ("3", "4"));
        let sets = Sets { new: Some(Arc::new(set)), old: Vec::new() };
        assert!(!is_scaled(&deployment, &sets));
        let mut more = deployment;
        more["spec"]["replicas"] = 5.into();
        assert!(is_scaled(&more, &sets));
    }
}
