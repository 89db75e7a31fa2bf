//! DaemonSets: a pod on every node that takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use serde_json::{Value, json};

use super::pods::{self, Available, Hand, share};
use super::revisions::{self, HASH};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use crate::object::{Key, Object as _};

/// Keeps a pod of each DaemonSet on each node.
#[derive(Debug)]
pub(super) struct Daemons {
    hand: Hand,
}

impl Daemons {
    pub(super) fn new(context: &Context) -> Self {
        Self { hand: Hand::new(context, &DAEMON_SET, "daemonset-controller") }
    }
}

impl Controller for Daemons {
    const NAME: &'static str = "daemonset-controller";

    fn watches(&self) -> Vec<Watch> {
        let (every, nodes) = (self.hand.client.cache(&DAEMON_SET), self.hand.client.cache(&NODE));
        let mut watches = self.hand.watches(&POD);
        watches.extend([
            Watch::known(&self.hand.client.cache(&CONTROLLER_REVISION)),
            Watch::mapped(&nodes, move |change| {
                // Heartbeats change nothing here.
                let fits = |node: &Option<Arc<Value>>| {
                    node.as_ref().map(|node| (node["spec"].clone(), node["metadata"]["labels"].clone()))
                };
                if fits(&change.before) == fits(&change.after) {
                    return Vec::new();
                }
                every.list("").iter().map(|set| Key::of(set)).collect()
            }),
        ]);
        watches
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(set) = self.hand.client.cache(&DAEMON_SET).get(key) else { return Ok(Next::Done) };
        if set.is_deleting() {
            return Ok(Next::Done);
        }
        let members = self.hand.claim(&POD, &set).await?;
        let nodes = self.hand.client.cache(&NODE).list("");
        let revision = revisions::current(&self.hand, &set).await?;
        let hash = revision.label(HASH);
        let now = self.hand.clock.now();
        let plan = plan(&set, &nodes, &members, hash, now);
        for pod in &plan.failed {
            let message = format!(
                "Found failed daemon pod {} on node {}, will try to kill it",
                Key::of(pod),
                target_of(pod)
            );
            self.hand.recorder.warning(&DAEMON_SET, &set, "FailedDaemonPod", &message).await;
        }
        for pod in plan.delete.iter().chain(&plan.failed) {
            self.hand.take(&set, pod).await?;
        }
        for node in &plan.create {
            self.hand.make(&set, pod_of(&set, node, hash)).await?;
        }
        let mut wanted = (*set).clone();
        wanted["status"] = status(&set, &plan, &members, hash, now);
        if wanted["status"] != set["status"] {
            self.hand.client.replace_status(&DAEMON_SET, &wanted).await?;
        }
        let old: Vec<_> = revisions::of(&self.hand, &set);
        let used: Vec<&str> = old
            .iter()
            .filter(|one| {
                one.name() == revision.name() || members.iter().any(|pod| pod.label(HASH) == one.label(HASH))
            })
            .map(|one| one.name())
            .collect();
        revisions::clean(&self.hand, &set, &used).await?;
        Ok(plan.again.map_or(Next::Done, Next::After))
    }
}

/// What is to be done for a DaemonSet.
#[derive(Debug, Default)]
struct Plan {
    /// The nodes that should have a pod.
    wanted: BTreeSet<String>,
    /// The nodes that lack one.
    create: BTreeSet<String>,
    /// The pods that should not be.
    delete: Vec<Arc<Value>>,
    /// The pods that have ended, which they should not.
    failed: Vec<Arc<Value>>,
    /// When a pod becomes available.
    again: Option<Duration>,
}

fn plan(set: &Value, nodes: &[Arc<Value>], pods: &[Arc<Value>], hash: &str, now: Timestamp) -> Plan {
    let mut on_node: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in pods {
        on_node.entry(target_of(pod)).or_default().push(pod);
    }
    let mut plan = Plan::default();
    let (mut old, mut missing) = (Vec::new(), 0);
    for node in nodes {
        let there = on_node.remove(node.name()).unwrap_or_default();
        if !takes(set, node) {
            plan.delete.extend(there.into_iter().filter(|pod| !pod.is_deleting()).cloned());
            continue;
        }
        plan.wanted.insert(node.name().to_owned());
        if there.is_empty() {
            plan.create.insert(node.name().to_owned());
        }
        let mut serves = false;
        for pod in there {
            let state = availability(set, pod, now);
            serves |= state == Available::Now && !pod.is_deleting();
            if let Available::In(left) = state {
                plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
            }
            if pod.is_deleting() {
                continue;
            }
            if pod.is_over() {
                plan.failed.push(Arc::clone(pod));
            } else if pod.label(HASH) != hash {
                old.push((state == Available::Now, Arc::clone(pod)));
            }
        }
        missing += i64::from(!serves);
    }
    plan.delete.extend(on_node.into_values().flatten().filter(|pod| !pod.is_deleting()).cloned());
    if set.text("/spec/updateStrategy/type") != "OnDelete" {
        plan.delete.extend(replaced(set, old, missing, super::pods::count(plan.wanted.len())));
    }
    plan
}

/// The pods of an old template that may go now: those that serve nobody, and of the others as many as may be missing.
fn replaced(set: &Value, old: Vec<(bool, Arc<Value>)>, missing: i64, wanted: i64) -> Vec<Arc<Value>> {
    let most = match set.at("/spec/updateStrategy/rollingUpdate/maxUnavailable") {
        Value::Null => 1,
        given => share(given, wanted, true).max(1),
    };
    let mut room = most - missing;
    let may_go = |(serves, _): &(bool, Arc<Value>)| {
        room -= i64::from(*serves);
        !serves || room >= 0
    };
    old.into_iter().filter(may_go).map(|(_, pod)| pod).collect()
}

fn availability(set: &Value, pod: &Value, now: Timestamp) -> Available {
    pods::available(pod, set.number("/spec/minReadySeconds").unwrap_or_default(), now)
}

/// The node a pod is meant for, before and after it is bound.
fn target_of(pod: &Value) -> &str {
    let bound = pod.text("/spec/nodeName");
    if bound.is_empty() {
        pod.text("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0")
    } else {
        bound
    }
}

/// Whether a node takes a pod of the set. Pods of DaemonSets tolerate what is wrong with a node.
fn takes(set: &Value, node: &Value) -> bool {
    let template = &set["spec"]["template"]["spec"];
    let selected = template["nodeSelector"].as_object().is_none_or(|selector| {
        selector.iter().all(|(name, value)| node.label(name) == value.as_str().unwrap_or_default())
    });
    let tolerations = template["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tolerated = |taint: &Value| {
        taint.text("/key").starts_with("node.kubernetes.io/")
            || taint["effect"] == "PreferNoSchedule"
            || tolerations.iter().any(|toleration| {
                let key = toleration.text("/key");
                let effect = toleration.text("/effect");
                (key.is_empty() || key == taint.text("/key"))
                    && (effect.is_empty() || effect == taint.text("/effect"))
                    && (toleration["operator"] == "Exists" || toleration["value"] == taint["value"])
            })
    };
    selected && node.list("/spec/taints").iter().all(tolerated)
}

fn pod_of(set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = pods::from_template(&DAEMON_SET, set, &set["spec"]["template"]);
    pod.set_label(HASH, hash);
    pod.set_label("pod-template-generation", set.annotation("deprecated.daemonset.template.generation"));
    if pod.label("pod-template-generation").is_empty() {
        pod.unset("/metadata/labels/pod-template-generation");
    }
    let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    pod.set(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        terms,
    );
    let mut tolerations = pod.list("/spec/tolerations").to_vec();
    for (key, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("not-ready", "NoSchedule"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ] {
        tolerations.push(
            json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect}),
        );
    }
    pod.set("/spec/tolerations", tolerations.into());
    pod
}

fn status(set: &Value, plan: &Plan, pods: &[Arc<Value>], hash: &str, now: Timestamp) -> Value {
    let wanted = plan.wanted.len();
    let mut on_node: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in pods {
        on_node.entry(target_of(pod)).or_default().push(pod);
    }
    let right: Vec<_> = on_node.iter().filter(|(node, _)| plan.wanted.contains(**node)).collect();
    let number = |test: &dyn Fn(&Value) -> bool| {
        right.iter().filter(|(_, pods)| pods.iter().any(|pod| !pod.is_deleting() && test(pod))).count()
    };
    let available = number(&|pod| availability(set, pod, now) == Available::Now);
    let mut status = json!({
        "currentNumberScheduled": right.len(), "numberMisscheduled": on_node.len() - right.len(),
        "desiredNumberScheduled": wanted, "numberReady": number(&|pod| pod.condition_holds("Ready")),
        "observedGeneration": set.generation(),
    });
    for (name, number) in [
        ("updatedNumberScheduled", number(&|pod| pod.label(HASH) == hash)),
        ("numberAvailable", available),
        ("numberUnavailable", wanted.saturating_sub(available)),
    ] {
        if number > 0 {
            status[name] = number.into();
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, taint: &str) -> Arc<Value> {
        let taints =
            if taint.is_empty() { json!([]) } else { json!([{"key": taint, "effect": "NoSchedule"}]) };
        Arc::new(json!({"metadata": {"name": name}, "spec": {"taints": taints}}))
    }

    fn set() -> Value {
        json!({"metadata": {"name": "cni", "namespace": "kube-system", "uid": "u"}, "spec": {"template": {"spec": {}}}})
    }

    fn running(node: &str, hash: &str) -> Arc<Value> {
        let mut pod = pod_of(&set(), node, hash);
        pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        Arc::new(pod)
    }

    #[test]
    fn every_node_that_takes_one_gets_one() {
        let nodes = [node("a", ""), node("b", "node.kubernetes.io/not-ready"), node("c", "mine")];
        let now = Timestamp::UNIX_EPOCH;
        let planned = plan(&set(), &nodes, &[], "h", now);
        assert_eq!(planned.create.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        let pods = [running("a", "h"), running("c", "h")];
        let there = plan(&set(), &nodes, &pods, "h", now);
        assert_eq!((there.create.len(), there.delete.len()), (1, 1));
        let status = status(&set(), &there, &pods, "h", now);
        assert_eq!((&status["numberReady"], &status["numberMisscheduled"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn pods_are_replaced_one_by_one() {
        let nodes = [node("a", ""), node("b", "")];
        let now = Timestamp::UNIX_EPOCH;
        let old = plan(&set(), &nodes, &[running("a", "1"), running("b", "1")], "2", now);
        assert_eq!(old.delete.len(), 1);
        let next = plan(&set(), &nodes, &[running("b", "1")], "2", now);
        assert!(next.delete.is_empty(), "one is missing already");
    }
}
