//! DaemonSets: a pod on every node that takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{DAEMON_SET, NODE, POD};
use crate::object::{Key, Object as _, owned_by};
use crate::stages::Fnv;

/// What a pod tells the version of its template by.
const HASH: &str = "controller-revision-hash";

/// Keeps a pod of each DaemonSet on each node.
#[derive(Debug)]
pub(super) struct Daemons {
    client: Client,
}

impl Daemons {
    pub(super) fn new(context: &Context) -> Self {
        Self { client: context.client(Identity::CONTROLLER_MANAGER) }
    }

    fn all(&self) -> Vec<Key> {
        self.client.cache(&DAEMON_SET).list("").iter().map(|set| Key::of(set)).collect()
    }
}

impl Controller for Daemons {
    const NAME: &'static str = "daemonset-controller";

    fn watches(&self) -> Vec<Watch> {
        let (sets, pods, nodes) =
            (self.client.cache(&DAEMON_SET), self.client.cache(&POD), self.client.cache(&NODE));
        let every = Self { client: self.client.clone() };
        vec![
            Watch::each(&sets),
            Watch::owners(&pods, "DaemonSet"),
            Watch::mapped(&nodes, move |change| {
                // Heartbeats change nothing here.
                let fits = |node: &Option<Arc<Value>>| {
                    node.as_ref().map(|node| (node["spec"].clone(), node["metadata"]["labels"].clone()))
                };
                if fits(&change.before) == fits(&change.after) { Vec::new() } else { every.all() }
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(set) = self.client.cache(&DAEMON_SET).get(key) else { return Ok(Next::Done) };
        if set.is_deleting() {
            return Ok(Next::Done);
        }
        let pods = self.client.cache(&POD).controlled_by(set.uid());
        let nodes = self.client.cache(&NODE).list("");
        let plan = plan(&set, &nodes, &pods);
        for pod in plan.delete {
            self.client.delete(&POD, &Key::of(&pod), pod.uid()).await?;
        }
        for node in &plan.create {
            self.client.create(&POD, pod_of(&set, node)).await?;
        }
        let mut wanted = (*set).clone();
        wanted["status"] = status(&set, plan.wanted, &pods);
        if wanted["status"] != set["status"] {
            self.client.replace_status(&DAEMON_SET, &wanted).await?;
        }
        Ok(Next::Done)
    }
}

/// What is to be done for a DaemonSet.
#[derive(Debug, Default)]
struct Plan {
    /// How many nodes should have a pod.
    wanted: usize,
    /// The nodes that lack one.
    create: BTreeSet<String>,
    /// The pods that should not be.
    delete: Vec<Arc<Value>>,
}

fn plan(set: &Value, nodes: &[Arc<Value>], pods: &[Arc<Value>]) -> Plan {
    let mut on_node: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in pods {
        on_node.entry(target_of(pod)).or_default().push(pod);
    }
    let mut plan = Plan::default();
    for node in nodes {
        let there = on_node.remove(node.name()).unwrap_or_default();
        if !takes(set, node) {
            plan.delete.extend(there.into_iter().filter(|pod| !pod.is_deleting()).cloned());
            continue;
        }
        plan.wanted += 1;
        if there.is_empty() {
            plan.create.insert(node.name().to_owned());
        }
        // One that has ended is replaced; one of an old template too, when nobody said otherwise.
        let rolling = set.text("/spec/updateStrategy/type") != "OnDelete";
        let stale = |pod: &&Arc<Value>| {
            matches!(pod.text("/status/phase"), "Failed" | "Succeeded")
                || rolling && pod.label(HASH) != hash(set)
        };
        plan.delete.extend(there.into_iter().filter(|pod| !pod.is_deleting()).filter(stale).cloned());
    }
    plan.delete.extend(on_node.into_values().flatten().filter(|pod| !pod.is_deleting()).cloned());
    plan
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

/// What tells one template from another.
fn hash(set: &Value) -> String {
    let mut hash = Fnv::new(0);
    hash.write(set["spec"]["template"].to_string().as_bytes());
    format!("{:08x}", hash.finish() >> 32)
}

fn pod_of(set: &Value, node: &str) -> Value {
    let template = &set["spec"]["template"];
    let mut pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    pod.set("/metadata/namespace", set.namespace().into());
    pod.set("/metadata/generateName", format!("{}-", set.name()).into());
    pod.set("/metadata/ownerReferences", json!([owned_by(&DAEMON_SET, set)]));
    pod.set_label(HASH, &hash(set));
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

fn status(set: &Value, wanted: usize, pods: &[Arc<Value>]) -> Value {
    let live: Vec<_> = pods.iter().filter(|pod| !pod.is_deleting()).collect();
    let ready = live.iter().filter(|pod| pod.condition_holds("Ready")).count();
    let updated = live.iter().filter(|pod| pod.label(HASH) == hash(set)).count();
    let mut status = json!({
        "currentNumberScheduled": live.len(), "numberMisscheduled": 0, "desiredNumberScheduled": wanted,
        "numberReady": ready, "updatedNumberScheduled": updated, "numberAvailable": ready,
        "observedGeneration": set.generation(),
    });
    if wanted > ready {
        status["numberUnavailable"] = (wanted - ready).into();
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

    #[test]
    fn every_node_that_takes_one_gets_one() {
        let set = json!({"metadata": {"name": "cni", "namespace": "kube-system", "uid": "u"}, "spec": {"template": {"spec": {}}}});
        let nodes = [node("a", ""), node("b", "node.kubernetes.io/not-ready"), node("c", "mine")];
        let planned = plan(&set, &nodes, &[]);
        assert_eq!(planned.create.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        let mut pod = pod_of(&set, "a");
        let there = plan(&set, &nodes, &[Arc::new(pod.clone())]);
        assert_eq!(there.create.len(), 1);
        pod.set_label(HASH, "old");
        assert_eq!(plan(&set, &nodes, &[Arc::new(pod)]).delete.len(), 1);
    }
}
