//! Which of the nodes that fit is the best.

use super::affinity;
use super::cluster::{Cluster, Node};
use super::pod::Pod;
use super::resources::Resources;
use super::spread;
use crate::hosts::tolerates;
use crate::object::Object as _;

/// The best a node can be in one respect.
const MOST: i64 = 100;

/// How good each node is, in the order given.
pub(crate) fn scores(pod: &Pod, cluster: &Cluster, nodes: &[&Node]) -> Vec<i64> {
    let taints = nodes.iter().map(|node| bad_taints(pod, node)).collect();
    let preferred = nodes.iter().map(|node| preference(pod, node)).collect();
    let likes = affinity::likes(pod, cluster);
    let near = nodes.iter().map(|node| affinity::liking(&likes, node)).collect();
    let plan = spread::count(pod, cluster, false);
    let crowds: Vec<i64> = nodes.iter().map(|node| plan.crowd(pod, node)).collect();
    let crowds = if plan.is_empty() { vec![0; nodes.len()] } else { less_is_better(crowds) };
    let (taints, preferred, near) = (less_is_better(taints), share_of_most(preferred), between(near));
    nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            3 * taints[index]
                + 2 * preferred[index]
                + 2 * near[index]
                + 2 * crowds[index]
                + least_used(pod, node)
                + balance(pod, node)
        })
        .collect()
}

/// How many taints would rather keep the pod off.
fn bad_taints(pod: &Pod, node: &Node) -> i64 {
    let bad = node.facts.taints.iter().filter(|taint| {
        taint.text("/effect") == "PreferNoSchedule"
            && !pod.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    });
    i64::try_from(bad.count()).unwrap_or(i64::MAX)
}

/// The weights of the preferences a node meets.
fn preference(pod: &Pod, node: &Node) -> i64 {
    let met =
        pod.preferred_nodes.iter().filter(|(_, term)| term.matches(&node.facts.name, &node.facts.labels));
    met.map(|(weight, _)| weight).sum()
}

/// The largest becomes 0, nothing becomes the most.
fn less_is_better(values: Vec<i64>) -> Vec<i64> {
    let largest = values.iter().copied().max().unwrap_or_default();
    values.into_iter().map(|value| if largest == 0 { MOST } else { MOST - MOST * value / largest }).collect()
}

/// The largest becomes the most.
fn share_of_most(values: Vec<i64>) -> Vec<i64> {
    let largest = values.iter().copied().max().unwrap_or_default();
    values.into_iter().map(|value| if largest == 0 { 0 } else { MOST * value / largest }).collect()
}

/// The smallest becomes 0, the largest becomes the most.
fn between(values: Vec<i64>) -> Vec<i64> {
    let largest = values.iter().copied().max().unwrap_or_default();
    let smallest = values.iter().copied().min().unwrap_or_default();
    let range = largest - smallest;
    values.into_iter().map(|value| if range == 0 { 0 } else { MOST * (value - smallest) / range }).collect()
}

/// The resources by which nodes are compared.
const COMPARED: [&str; 2] = ["cpu", "memory"];

/// How much of a node would be free, in per cent.
fn least_used(pod: &Pod, node: &Node) -> i64 {
    let shares = COMPARED.map(|name| {
        let has = node.facts.allocatable.get(name);
        let used = used_with(&node.likely, &pod.likely, name);
        if has <= 0 || used > has { 0 } else { per(MOST, has - used, has) }
    });
    shares.iter().sum::<i64>() / 2
}

/// How equally the resources of a node would be used.
fn balance(pod: &Pod, node: &Node) -> i64 {
    let [cpu, memory] = COMPARED.map(|name| {
        let has = node.facts.allocatable.get(name).max(1);
        per(1000, used_with(&node.wanted, &pod.wanted, name), has)
    });
    MOST - (cpu - memory).abs() * MOST / 2000
}

/// A share of a whole, in parts of `all` and never more than that.
fn per(all: i64, part: i128, whole: i128) -> i64 {
    i64::try_from(part.max(0) * i128::from(all) / whole).unwrap_or(all).min(all)
}

fn used_with(used: &Resources, wanted: &Resources, name: &str) -> i128 {
    used.get(name) + wanted.get(name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::cluster::NodeFacts;
    use super::*;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["a", "b"] {
            cluster.put_node(NodeFacts::read(&json!({
                "metadata": {"name": name, "labels": {"zone": name}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
            })));
        }
        cluster
    }

    fn pod(uid: &str, spec: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "n", "labels": {"app": "x"}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]},
        });
        json_patch::merge(&mut pod["spec"], spec);
        Pod::read(&pod)
    }

    fn best(pod: &Pod, cluster: &Cluster) -> &'static str {
        let nodes: Vec<&Node> = cluster.nodes().collect();
        let scores = scores(pod, cluster, &nodes);
        match scores[0].cmp(&scores[1]) {
            std::cmp::Ordering::Greater => "a",
            std::cmp::Ordering::Less => "b",
            std::cmp::Ordering::Equal => "either",
        }
    }

    #[test]
    fn the_emptier_node_is_better() {
        let mut cluster = cluster();
        assert_eq!(best(&pod("1", &json!({})), &cluster), "either");
        cluster.put_pod("a", pod("1", &json!({})));
        assert_eq!(best(&pod("2", &json!({})), &cluster), "b");
    }

    #[test]
    fn preferences_outweigh_emptiness() {
        let mut cluster = cluster();
        cluster.put_pod("a", pod("1", &json!({})));
        let prefers = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}},
        ]}}});
        assert_eq!(best(&pod("2", &prefers), &cluster), "a");
        let term = json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"});
        let near = json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "podAffinityTerm": term},
        ]}}});
        assert_eq!(best(&pod("2", &near), &cluster), "a");
        let far = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "podAffinityTerm": term},
        ]}}});
        assert_eq!(best(&pod("2", &far), &cluster), "b");
    }

    #[test]
    fn loose_spread_and_taints_count() {
        let mut cluster = cluster();
        cluster.put_pod("a", pod("1", &json!({})));
        let heavy = json!({"containers": [{"resources": {"requests": {"cpu": "3", "memory": "6Gi"}}}]});
        let mut other = (*pod("2", &heavy)).clone();
        other.labels.clear();
        cluster.put_pod("b", Arc::new(other));
        let spread = json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }]});
        assert_eq!(best(&pod("3", &json!({})), &cluster), "a");
        assert_eq!(best(&pod("3", &spread), &cluster), "b");
    }
}
