//! Whether a pod can be on a node, and why not: in the words and the order of the real scheduler.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::affinity::{self, Near};
use super::cluster::{Cluster, Node};
use super::pod::Pod;
use super::resources::Resources;
use super::spread::{self, Plan};
use super::volumes::Needs;
use crate::hosts::tolerates;
use crate::object::Object as _;

/// What has to change before another look is worth while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// A node.
    Nodes,
    /// A pod that leaves.
    Pods,
    /// A pod that comes.
    Neighbours,
    /// The storage.
    Volumes,
}

impl Cause {
    /// Any of them.
    pub(crate) fn all() -> BTreeSet<Self> {
        BTreeSet::from([Self::Nodes, Self::Pods, Self::Neighbours, Self::Volumes])
    }
}

/// Why a pod cannot be on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reasons: Vec<String>,
    /// Whether it could help to remove pods.
    pub(crate) preemption_helps: bool,
    pub(crate) causes: Vec<Cause>,
}

impl Rejection {
    fn fixed(reason: &str, cause: Cause) -> Self {
        Self { reasons: vec![reason.to_owned()], preemption_helps: false, causes: vec![cause] }
    }

    fn crowded(reason: &str) -> Self {
        let causes = vec![Cause::Pods, Cause::Nodes];
        Self { reasons: vec![reason.to_owned()], preemption_helps: true, causes }
    }

    /// Something another pod could change by coming as well as by leaving.
    fn lonely(reason: &str, preemption_helps: bool) -> Self {
        let causes = vec![Cause::Pods, Cause::Nodes, Cause::Neighbours];
        Self { reasons: vec![reason.to_owned()], preemption_helps, causes }
    }
}

/// What is known about a pod before any node is looked at.
#[derive(Debug, Default)]
pub(crate) struct Before<'a> {
    named: Option<BTreeSet<&'a str>>,
    volumes: Needs,
    near: Near,
    spread: Plan,
}

impl<'a> Before<'a> {
    /// Looks at everything around a pod.
    pub(crate) fn of(pod: &'a Pod, cluster: &Cluster, volumes: Needs) -> Self {
        Self {
            named: pod.named_nodes(),
            volumes,
            near: affinity::look_around(pod, cluster),
            spread: spread::count(pod, cluster, true),
        }
    }

    /// Where its volumes can be used.
    pub(crate) fn volumes(&self) -> &Needs {
        &self.volumes
    }

    /// Why the pod cannot be on a node, if it cannot. `nominated` are pods that are expected there.
    pub(crate) fn check(&self, pod: &Pod, node: &Node, nominated: &[Arc<Pod>]) -> Option<Rejection> {
        let facts = &node.facts;
        if self.named.as_ref().is_some_and(|names| !names.contains(facts.name.as_str())) {
            return Some(Rejection::fixed("node(s) didn't satisfy plugin(s) [NodeAffinity]", Cause::Nodes));
        }
        if facts.unschedulable && !tolerates_cordon(pod) {
            return Some(Rejection::fixed("node(s) were unschedulable", Cause::Nodes));
        }
        if untolerated(pod, node).is_some() {
            return Some(Rejection::fixed("node(s) had untolerated taint(s)", Cause::Nodes));
        }
        if !pod.selects(&facts.name, &facts.labels) {
            return Some(Rejection::fixed("node(s) didn't match Pod's node affinity/selector", Cause::Nodes));
        }
        if !pod.ports.is_empty() && ports_collide(pod, node) {
            return Some(Rejection::crowded("node(s) didn't have free ports for the requested pod ports"));
        }
        if let Some(rejection) = short_of(pod, node, nominated) {
            return Some(rejection);
        }
        if self.volumes.taken {
            return Some(Rejection::crowded(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            ));
        }
        if let Some(reason) = self.volumes.misfit(&facts.name, &facts.labels) {
            let causes = vec![Cause::Nodes, Cause::Volumes];
            return Some(Rejection { reasons: vec![reason.to_owned()], preemption_helps: false, causes });
        }
        match self.spread.misfit(pod, node) {
            Some(spread::Misfit::NoLabel) => {
                return Some(Rejection::fixed(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                    Cause::Nodes,
                ));
            }
            Some(spread::Misfit::TooMany) => {
                return Some(Rejection::lonely("node(s) didn't match pod topology spread constraints", true));
            }
            None => {}
        }
        Some(match self.near.misfit(pod, node)? {
            affinity::Misfit::Affinity => Rejection::lonely("node(s) didn't match pod affinity rules", false),
            affinity::Misfit::AntiAffinity => {
                Rejection::crowded("node(s) didn't match pod anti-affinity rules")
            }
            affinity::Misfit::Existing => {
                Rejection::crowded("node(s) didn't satisfy existing pods anti-affinity rules")
            }
        })
    }
}

/// The first taint that keeps a pod off a node.
pub(crate) fn untolerated<'a>(pod: &Pod, node: &'a Node) -> Option<&'a Value> {
    node.facts.taints.iter().find(|taint| {
        matches!(taint.text("/effect"), "NoSchedule" | "NoExecute")
            && !pod.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

fn tolerates_cordon(pod: &Pod) -> bool {
    let taint = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    pod.tolerations.iter().any(|toleration| tolerates(toleration, &taint))
}

fn ports_collide(pod: &Pod, node: &Node) -> bool {
    let used = node.pods.values().flat_map(|other| &other.ports);
    used.into_iter().any(|used| pod.ports.iter().any(|wanted| wanted.collides(used)))
}

/// What a node has too little of.
fn short_of(pod: &Pod, node: &Node, nominated: &[Arc<Pod>]) -> Option<Rejection> {
    let mut reasons = Vec::new();
    let has = &node.facts.allocatable;
    let there = i128::try_from(node.pods.len() + nominated.len()).unwrap_or(i128::from(i64::MAX));
    if there + 1 > has.get("pods") {
        reasons.push("Too many pods".to_owned());
    }
    let mut hopeless = false;
    let used = |name: &str| {
        node.wanted.get(name) + nominated.iter().map(|other| other.wanted.get(name)).sum::<i128>()
    };
    for (name, wanted) in in_order(&pod.wanted) {
        if wanted > 0 && wanted > has.get(name) - used(name) {
            reasons.push(format!("Insufficient {name}"));
            hopeless |= wanted > has.get(name);
        }
    }
    if reasons.is_empty() {
        return None;
    }
    Some(Rejection { reasons, preemption_helps: !hopeless, causes: vec![Cause::Pods, Cause::Nodes] })
}

/// The resources in the order they are looked at; the number of pods is not one of them.
fn in_order(wanted: &Resources) -> impl Iterator<Item = (&str, i128)> {
    wanted.iter().filter(|(name, _)| *name != "pods")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cluster::NodeFacts;
    use super::*;

    fn node(name: &str, more: &Value) -> Value {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "2", "example.com/gpu": "1"}},
        });
        json_patch::merge(&mut node, more);
        node
    }

    fn pod(uid: &str, spec: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "a", "labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c"}]},
        });
        json_patch::merge(&mut pod["spec"], spec);
        Pod::read(&pod)
    }

    fn cluster(nodes: &[Value]) -> Cluster {
        let mut cluster = Cluster::default();
        for node in nodes {
            cluster.put_node(NodeFacts::read(node));
        }
        cluster
    }

    fn reasons(pod: &Pod, cluster: &Cluster, node: &str) -> Vec<String> {
        let before = Before::of(pod, cluster, Needs::default());
        let rejection = before.check(pod, cluster.node(node).unwrap(), &[]);
        rejection.map(|rejection| rejection.reasons).unwrap_or_default()
    }

    #[test]
    fn resources_are_named_one_by_one() {
        let mut cluster = cluster(&[node("n", &json!({}))]);
        let wants = |cpu: &str, memory: &str| json!({"containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory, "example.com/gpu": "1"}}}]});
        assert!(reasons(&pod("1", &wants("4", "8Gi")), &cluster, "n").is_empty());
        cluster.put_pod("n", pod("1", &wants("3", "1Gi")));
        let two = pod("2", &wants("2", "8Gi"));
        assert_eq!(
            reasons(&two, &cluster, "n"),
            ["Insufficient cpu", "Insufficient example.com/gpu", "Insufficient memory"]
        );
        cluster.put_pod("n", pod("3", &json!({})));
        assert_eq!(reasons(&pod("4", &json!({})), &cluster, "n"), ["Too many pods"]);
    }

    #[test]
    fn what_exceeds_a_node_is_not_helped_by_preemption() {
        let cluster = cluster(&[node("n", &json!({}))]);
        let wants = json!({"containers": [{"resources": {"requests": {"cpu": "64"}}}]});
        let pod = pod("1", &wants);
        let rejection = Before::of(&pod, &cluster, Needs::default())
            .check(&pod, cluster.node("n").unwrap(), &[])
            .unwrap();
        assert!(!rejection.preemption_helps);
    }

    #[test]
    fn nodes_keep_pods_off() {
        let cluster = cluster(&[
            node("cordoned", &json!({"spec": {"unschedulable": true}})),
            node(
                "tainted",
                &json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}),
            ),
        ]);
        let plain = pod("1", &json!({}));
        assert_eq!(reasons(&plain, &cluster, "cordoned"), ["node(s) were unschedulable"]);
        assert_eq!(reasons(&plain, &cluster, "tainted"), ["node(s) had untolerated taint(s)"]);
        let tolerant = pod("1", &json!({"tolerations": [{"key": "a", "operator": "Exists"}]}));
        assert!(reasons(&tolerant, &cluster, "tainted").is_empty());
        let choosy = pod("1", &json!({"nodeSelector": {"zone": "tainted"}}));
        assert_eq!(reasons(&choosy, &cluster, "cordoned"), ["node(s) were unschedulable"]);
    }

    #[test]
    fn selectors_and_ports() {
        let mut cluster = cluster(&[node("n", &json!({})), node("m", &json!({}))]);
        let choosy = pod("1", &json!({"nodeSelector": {"zone": "m"}}));
        assert_eq!(reasons(&choosy, &cluster, "n"), ["node(s) didn't match Pod's node affinity/selector"]);
        let by_name = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}],
        }}}});
        let by_name = pod("2", &by_name);
        assert_eq!(reasons(&by_name, &cluster, "n"), ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]);
        assert!(reasons(&by_name, &cluster, "m").is_empty());
        let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
        cluster.put_pod("n", pod("3", &port));
        assert_eq!(
            reasons(&pod("4", &port), &cluster, "n"),
            ["node(s) didn't have free ports for the requested pod ports"]
        );
        assert!(reasons(&pod("4", &port), &cluster, "m").is_empty());
    }

    fn anti(topology: &str) -> Value {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": topology},
        ]}}})
    }

    #[test]
    fn anti_affinity_works_both_ways() {
        let mut cluster = cluster(&[node("n", &json!({})), node("m", &json!({}))]);
        cluster.put_pod("n", pod("1", &json!({})));
        let shy = pod("2", &anti("zone"));
        assert_eq!(reasons(&shy, &cluster, "n"), ["node(s) didn't match pod anti-affinity rules"]);
        assert!(reasons(&shy, &cluster, "m").is_empty());
        cluster.put_pod("m", shy);
        assert_eq!(
            reasons(&pod("3", &json!({})), &cluster, "m"),
            ["node(s) didn't satisfy existing pods anti-affinity rules"]
        );
    }

    #[test]
    fn affinity_lets_the_first_in() {
        let mut cluster = cluster(&[node("n", &json!({})), node("m", &json!({}))]);
        let near = |app: &str| {
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"},
            ]}}})
        };
        assert!(reasons(&pod("1", &near("x")), &cluster, "n").is_empty());
        assert_eq!(
            reasons(&pod("1", &near("other")), &cluster, "n"),
            ["node(s) didn't match pod affinity rules"]
        );
        cluster.put_pod("n", pod("1", &near("x")));
        assert_eq!(
            reasons(&pod("2", &near("x")), &cluster, "m"),
            ["node(s) didn't match pod affinity rules"]
        );
        assert!(reasons(&pod("2", &near("x")), &cluster, "n").is_empty());
    }

    #[test]
    fn spread_is_even() {
        let mut cluster = cluster(&[node("n", &json!({})), node("m", &json!({})), node("o", &json!({}))]);
        cluster.put_node(NodeFacts::read(&node("o", &json!({"metadata": {"labels": {"zone": null}}}))));
        let spread = |domains: i64| {
            json!({"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": domains,
                "labelSelector": {"matchLabels": {"app": "x"}},
            }]})
        };
        cluster.put_pod("n", pod("1", &json!({})));
        let even = pod("2", &spread(1));
        assert_eq!(reasons(&even, &cluster, "n"), ["node(s) didn't match pod topology spread constraints"]);
        assert!(reasons(&even, &cluster, "m").is_empty());
        assert_eq!(
            reasons(&even, &cluster, "o"),
            ["node(s) didn't match pod topology spread constraints (missing required label)"]
        );
        cluster.put_pod("m", pod("2", &json!({})));
        assert!(reasons(&pod("3", &spread(1)), &cluster, "n").is_empty());
        assert!(!reasons(&pod("3", &spread(3)), &cluster, "n").is_empty(), "too few places");
    }
}
