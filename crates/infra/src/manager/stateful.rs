//! StatefulSets: pods with names of their own and claims that outlive them, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::{self, Available, BURST, Hand, count};
use super::revisions;
use crate::client::Result;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CONTROLLER_REVISION, POD, PVC, STATEFUL_SET};
use crate::object::{Key, Object as _};

/// Keeps the pods of StatefulSets.
#[derive(Debug)]
pub(super) struct Stateful {
    hand: Hand,
}

/// What a look does next.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// The ordinals that lack a pod, each with whether it gets the old template.
    make: Vec<(i64, bool)>,
    /// The pods that have to go, each with whether it is because it has ended.
    take: Vec<(Arc<Value>, bool)>,
    /// When a pod becomes available.
    again: Option<Duration>,
}

/// The set as a plan sees it.
struct Seen<'a> {
    set: &'a Value,
    pods: BTreeMap<i64, Arc<Value>>,
    /// The name of the revision pods should have in the end.
    update: &'a str,
    /// The name of the revision they had before.
    current: &'a str,
    now: Timestamp,
}

impl Seen<'_> {
    fn ordinals(&self) -> std::ops::Range<i64> {
        let start = self.set.number("/spec/ordinals/start").unwrap_or_default();
        start..start + self.set.number("/spec/replicas").unwrap_or(1)
    }

    fn partition(&self) -> i64 {
        self.set.number("/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default()
    }

    /// Whether a pod made now has the old template: it is kept back, or its turn has not come.
    fn is_old(&self, ordinal: i64) -> bool {
        let place = ordinal - self.ordinals().start;
        let current = self.set.number("/status/currentReplicas").unwrap_or_default();
        let rolls = self.set["spec"]["updateStrategy"]["type"] != "OnDelete";
        self.current != self.update
            && rolls
            && (place < self.partition() || self.partition() == 0 && place < current)
    }

    fn availability(&self, pod: &Value) -> Available {
        let min_ready = self.set.number("/spec/minReadySeconds").unwrap_or_default();
        if pod["status"]["phase"] != "Running" || pod.is_deleting() {
            return Available::No;
        }
        pods::available(pod, min_ready, self.now)
    }

    /// The next step.
    fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        let patient = self.set["spec"]["podManagementPolicy"] != "Parallel";
        for ordinal in self.ordinals() {
            let Some(pod) = self.pods.get(&ordinal) else {
                plan.make.push((ordinal, self.is_old(ordinal)));
                if patient {
                    return plan;
                }
                if plan.make.len() == BURST {
                    break;
                }
                continue;
            };
            if pod.is_over() && !pod.is_deleting() {
                plan.take.push((Arc::clone(pod), true));
                return plan;
            }
            if self.waits_for(pod, &mut plan) && patient {
                return plan;
            }
        }
        let ordinals = self.ordinals();
        for (_, pod) in self.pods.iter().rev().filter(|(ordinal, _)| !ordinals.contains(ordinal)) {
            if !pod.is_deleting() {
                plan.take.push((Arc::clone(pod), false));
            }
            if patient {
                return plan;
            }
        }
        if self.set["spec"]["updateStrategy"]["type"] != "OnDelete"
            && plan.make.is_empty()
            && plan.take.is_empty()
        {
            self.roll(&mut plan);
        }
        plan
    }

    /// Whether a pod is not available yet.
    fn waits_for(&self, pod: &Value, plan: &mut Plan) -> bool {
        match self.availability(pod) {
            Available::Now => false,
            Available::In(left) => {
                plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
                true
            }
            Available::No => true,
        }
    }

    /// Takes away the highest pod of an old template, if all above it are well.
    fn roll(&self, plan: &mut Plan) {
        let lowest = self.ordinals().start + self.partition();
        for ordinal in self.ordinals().rev().filter(|ordinal| *ordinal >= lowest) {
            let Some(pod) = self.pods.get(&ordinal) else { return };
            if pod.label(revisions::HASH) != self.update && !pod.is_deleting() {
                plan.take.push((Arc::clone(pod), false));
                return;
            }
            if self.waits_for(pod, plan) {
                return;
            }
        }
    }

    fn status(&self) -> Value {
        let ordinals = self.ordinals();
        let live = || self.pods.values().filter(|pod| !pod.text("/metadata/creationTimestamp").is_empty());
        let number = |test: &dyn Fn(&Value) -> bool| count(live().filter(|pod| test(pod)).count());
        let ready = number(&|pod| pod["status"]["phase"] == "Running" && pod.condition_holds("Ready"));
        let going = |pod: &Value| pod.is_deleting();
        let updated = number(&|pod| pod.label(revisions::HASH) == self.update && !going(pod));
        let current = number(&|pod| pod.label(revisions::HASH) == self.current && !going(pod));
        let replicas = count(live().count());
        let mut status = json!({
            "observedGeneration": self.set.generation(), "replicas": replicas,
            "availableReplicas": number(&|pod| self.availability(pod) == Available::Now),
            "currentRevision": self.current, "updateRevision": self.update,
            "collisionCount": self.set.number("/status/collisionCount").unwrap_or_default(),
        });
        let wanted = ordinals.end - ordinals.start;
        let mut current = current;
        if self.current != self.update && updated == replicas && ready == replicas && replicas == wanted {
            // The change is over: the new template is the one there is.
            status["currentRevision"] = self.update.into();
            current = updated;
        }
        for (name, number) in
            [("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)]
        {
            if number > 0 {
                status[name] = number.into();
            }
        }
        status
    }
}

/// The ordinal of a pod of a set.
fn ordinal_of(set: &Value, pod: &Value) -> Option<i64> {
    let tail = pod.name().strip_prefix(set.name())?.strip_prefix('-')?;
    tail.parse().ok().filter(|ordinal| *ordinal >= 0)
}

/// The claims of a pod, each with the name of its template.
fn claims_of(set: &Value, ordinal: i64) -> Vec<(String, Value)> {
    let claims = set.list("/spec/volumeClaimTemplates").iter().map(|template| {
        let name = template.name().to_owned();
        let mut labels = template.at("/metadata/labels").clone();
        for (label, value) in crate::network::selector::labels_at(set, "/spec/selector/matchLabels") {
            labels[label.as_str()] = value.into();
        }
        let mut claim = json!({
            "metadata": {
                "namespace": set.namespace(), "name": format!("{name}-{}-{ordinal}", set.name()), "labels": labels,
            },
            "spec": template["spec"],
        });
        if template["metadata"]["annotations"].is_object() {
            claim["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
        }
        (name, claim)
    });
    claims.collect()
}

/// A pod of a set with a template and the name of its revision.
fn pod_of(set: &Value, ordinal: i64, template: &Value, revision: &str) -> Value {
    let mut pod = pods::from_template(&STATEFUL_SET, set, template);
    let name = format!("{}-{ordinal}", set.name());
    pod.unset("/metadata/generateName");
    pod.set("/metadata/name", name.as_str().into());
    pod.set_label("statefulset.kubernetes.io/pod-name", &name);
    pod.set_label("apps.kubernetes.io/pod-index", &ordinal.to_string());
    pod.set_label(revisions::HASH, revision);
    pod.set("/spec/hostname", name.as_str().into());
    if !set.text("/spec/serviceName").is_empty() {
        pod.set("/spec/subdomain", set["spec"]["serviceName"].clone());
    }
    let claims = claims_of(set, ordinal);
    if !claims.is_empty() {
        let mut volumes = pod.list("/spec/volumes").to_vec();
        volumes.retain(|volume| !claims.iter().any(|(name, _)| volume["name"] == *name));
        for (name, claim) in &claims {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": claim.name()}}));
        }
        pod.set("/spec/volumes", volumes.into());
    }
    pod
}

impl Stateful {
    pub(super) fn new(context: &Context) -> Self {
        Self { hand: Hand::new(context, &STATEFUL_SET, "statefulset-controller") }
    }

    /// Makes a pod, and the claims it lacks before.
    async fn make(&self, set: &Value, ordinal: i64, template: &Value, revision: &str) -> Result {
        let (pod, hand) = (pod_of(set, ordinal, template, revision), &self.hand);
        let name = pod.name().to_owned();
        for (_, claim) in claims_of(set, ordinal) {
            if hand.client.cache(&PVC).get(&Key::of(&claim)).is_some() {
                continue;
            }
            let claim_name = claim.name().to_owned();
            match hand.client.create(&PVC, claim).await {
                Err(failure) if failure.is_already_there() => {}
                Err(failure) => {
                    let message = format!(
                        "Create Claim {claim_name} for Pod {name} in StatefulSet {} failed error: {failure}",
                        set.name()
                    );
                    hand.recorder.warning(&STATEFUL_SET, set, "FailedCreate", &message).await;
                    return Err(failure);
                }
                Ok(_) => {
                    let message =
                        format!("Create Claim {claim_name} Pod {name} in StatefulSet {} success", set.name());
                    hand.recorder.normal(&STATEFUL_SET, set, "SuccessfulCreate", &message).await;
                }
            }
        }
        let made = hand.client.create(&POD, pod).await;
        self.tell(set, &name, "Create", made).await
    }

    async fn take(&self, set: &Value, pod: &Value, ended: bool) -> Result {
        let (client, name) = (&self.hand.client, pod.name());
        if ended {
            let (reason, word) = if pod["status"]["phase"] == "Failed" {
                ("Failed", "failed")
            } else {
                ("Terminated", "terminated")
            };
            let message = format!("StatefulSet {} is recreating {word} Pod {name}", Key::of(set));
            let reason = format!("Recreating{reason}Pod");
            self.hand.recorder.warning(&STATEFUL_SET, set, &reason, &message).await;
        }
        let taken = client.delete(&POD, &Key::of(pod), pod.uid()).await;
        self.tell(set, name, "Delete", taken).await
    }

    async fn tell<T>(&self, set: &Value, pod: &str, verb: &str, done: Result<T>) -> Result {
        let words = format!("{verb} Pod {pod} in StatefulSet {}", set.name());
        match done {
            Ok(_) => {
                let message = format!("{words} successful");
                self.hand.recorder.normal(&STATEFUL_SET, set, &format!("Successful{verb}"), &message).await;
                Ok(())
            }
            // One of that name is on its way out, or somebody else's.
            Err(failure) => {
                let message = format!("{words} failed error: {failure}");
                self.hand.recorder.warning(&STATEFUL_SET, set, &format!("Failed{verb}"), &message).await;
                Err(failure)
            }
        }
    }

    /// The revision pods have before a change: the one the status names, if it is still there.
    fn before(&self, set: &Value, update: &Arc<Value>) -> Arc<Value> {
        let named = set.text("/status/currentRevision");
        let known = revisions::of(&self.hand, set).into_iter().find(|revision| revision.name() == named);
        known.unwrap_or_else(|| Arc::clone(update))
    }
}

impl Controller for Stateful {
    const NAME: &'static str = "statefulset-controller";

    fn watches(&self) -> Vec<Watch> {
        let mut watches = self.hand.watches(&POD);
        watches.push(Watch::known(&self.hand.client.cache(&PVC)));
        watches.push(Watch::known(&self.hand.client.cache(&CONTROLLER_REVISION)));
        watches
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(set) = self.hand.client.cache(&STATEFUL_SET).get(key) else { return Ok(Next::Done) };
        if set.is_deleting() {
            return Ok(Next::Done);
        }
        let members = self.hand.claim(&POD, &set).await?;
        let update = revisions::current(&self.hand, &set).await?;
        let current = self.before(&set, &update);
        let pods = members.into_iter().filter_map(|pod| Some((ordinal_of(&set, &pod)?, pod))).collect();
        let seen = Seen {
            set: &set,
            pods,
            update: update.name(),
            current: current.name(),
            now: self.hand.clock.now(),
        };
        let plan = seen.plan();
        let mut new = (*set).clone();
        new["status"] = seen.status();
        if new["status"] != set["status"] {
            self.hand.client.replace_status(&STATEFUL_SET, &new).await?;
        }
        for (ordinal, old) in plan.make {
            let revision = if old { &current } else { &update };
            let template = revisions::template(revision);
            self.make(&set, ordinal, &template, revision.name()).await?;
        }
        for (pod, ended) in plan.take {
            self.take(&set, &pod, ended).await?;
        }
        let mut used: Vec<&str> = seen.pods.values().map(|pod| pod.label(revisions::HASH)).collect();
        used.extend([update.name(), current.name()]);
        revisions::clean(&self.hand, &set, &used).await?;
        Ok(plan.again.map_or(Next::Done, Next::After))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: i64) -> Value {
        json!({"metadata": {"name": "db", "namespace": "n", "uid": "u"}, "spec": {
            "replicas": replicas, "serviceName": "db", "template": {"spec": {"containers": []}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        }, "status": {}})
    }

    fn pod(ordinal: i64, ready: bool, revision: &str) -> (i64, Arc<Value>) {
        let status = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": format!("db-{ordinal}"), "labels": {revisions::HASH: revision}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
        });
        (ordinal, Arc::new(pod))
    }

    fn plan(set: &Value, pods: Vec<(i64, Arc<Value>)>, current: &str, update: &str) -> Plan {
        let pods = pods.into_iter().collect();
        Seen { set, pods, update, current, now: Timestamp::UNIX_EPOCH }.plan()
    }

    #[test]
    fn pods_come_and_go_in_order() {
        assert_eq!(plan(&set(3), vec![], "a", "a").make, [(0, false)]);
        assert_eq!(plan(&set(3), vec![pod(0, false, "a")], "a", "a"), Plan::default());
        assert_eq!(plan(&set(3), vec![pod(0, true, "a")], "a", "a").make, [(1, false)]);
        let down = plan(&set(1), vec![pod(0, true, "a"), pod(1, true, "a"), pod(2, true, "a")], "a", "a");
        assert_eq!(down.take.iter().map(|(pod, _)| pod.name()).collect::<Vec<_>>(), ["db-2"]);
        let mut parallel = set(2);
        parallel["spec"]["podManagementPolicy"] = "Parallel".into();
        assert_eq!(plan(&parallel, vec![], "a", "a").make.len(), 2);
        parallel["spec"]["replicas"] = i32::MAX.into();
        assert_eq!(plan(&parallel, vec![], "a", "a").make.len(), BURST);
    }

    #[test]
    fn a_change_goes_from_the_last_to_the_first() {
        let all = |last: bool| vec![pod(0, true, "a"), pod(1, true, "a"), pod(2, last, "b")];
        let step = plan(&set(3), all(true), "a", "b");
        assert_eq!(step.take.iter().map(|(pod, _)| pod.name()).collect::<Vec<_>>(), ["db-1"]);
        assert!(plan(&set(3), all(false), "a", "b").take.is_empty(), "the last is not well yet");
        let mut kept = set(3);
        kept.set("/spec/updateStrategy/rollingUpdate/partition", 2.into());
        assert!(plan(&kept, all(true), "a", "b").take.is_empty());
        assert_eq!(plan(&kept, vec![pod(0, true, "a")], "a", "b").make, [(1, true)]);
    }

    #[test]
    fn pods_have_stable_names_and_claims() {
        let made = pod_of(&set(1), 4, &set(1)["spec"]["template"], "db-r");
        assert_eq!(
            (made.name(), made.text("/spec/hostname"), made.text("/spec/subdomain")),
            ("db-4", "db-4", "db")
        );
        assert_eq!(made.text("/spec/volumes/0/persistentVolumeClaim/claimName"), "data-db-4");
        assert_eq!(ordinal_of(&set(1), &made), Some(4));
        assert_eq!(ordinal_of(&set(1), &json!({"metadata": {"name": "db-x"}})), None);
    }
}
