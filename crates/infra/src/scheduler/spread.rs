//! Pods that are to be spread evenly over places.

use std::collections::BTreeMap;

use super::cluster::{Cluster, Node};
use super::filter::untolerated;
use super::pod::{Pod, Spread};

/// How many pods there are at each place of one constraint.
#[derive(Debug)]
struct Domains {
    counts: BTreeMap<String, i64>,
    least: i64,
    /// Whether the pod itself counts.
    counts_itself: bool,
}

/// How pods are spread now, per constraint of a pod.
#[derive(Debug, Default)]
pub(crate) struct Plan(Vec<Domains>);

/// The two ways of not fitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// The node has no such place.
    NoLabel,
    /// There are too many already.
    TooMany,
}

/// Counts the pods at each place, for the strict constraints of a pod or for the others.
pub(crate) fn count(pod: &Pod, cluster: &Cluster, strict: bool) -> Plan {
    let constraints: Vec<&Spread> = pod.spread.iter().filter(|spread| spread.strict == strict).collect();
    Plan(constraints.iter().map(|spread| domains(pod, cluster, spread, &constraints)).collect())
}

fn domains(pod: &Pod, cluster: &Cluster, spread: &Spread, all: &[&Spread]) -> Domains {
    let eligible = cluster.remembered(&question(pod, spread, all), || eligible(pod, cluster, spread, all));
    let mut counts: BTreeMap<String, i64> = eligible.values().map(|value| (value.clone(), 0)).collect();
    let matches = |other: &Pod| spread.selector.as_ref().is_some_and(|one| one.matches(&other.labels));
    for other in cluster.pods_of(&pod.key.namespace).filter(|other| !other.is_deleting && matches(other)) {
        let node = cluster.place_of(&other.uid).map(|node| node.facts.name.as_str()).unwrap_or_default();
        if let Some(count) = eligible.get(node).and_then(|value| counts.get_mut(value)) {
            *count += 1;
        }
    }
    let few = i64::try_from(counts.len()).unwrap_or(i64::MAX) < spread.min_domains;
    let least = if few { 0 } else { counts.values().copied().min().unwrap_or_default() };
    Domains { counts, least, counts_itself: matches(pod) }
}

/// The nodes that count for a constraint, and which place each is at.
fn eligible(pod: &Pod, cluster: &Cluster, spread: &Spread, all: &[&Spread]) -> BTreeMap<String, String> {
    let counts_node = |node: &&Node| {
        all.iter().all(|spread| node.facts.labels.contains_key(&spread.topology))
            && (spread.any_node || pod.selects(&node.facts.name, &node.facts.labels))
            && (spread.any_taint || untolerated(pod, node).is_none())
    };
    cluster
        .nodes()
        .filter(counts_node)
        .filter_map(|node| Some((node.facts.name.clone(), node.facts.labels.get(&spread.topology)?.clone())))
        .collect()
}

/// Everything the answer to [`eligible`] depends on besides the nodes.
fn question(pod: &Pod, spread: &Spread, all: &[&Spread]) -> String {
    let topologies: Vec<&str> = all.iter().map(|spread| spread.topology.as_str()).collect();
    let nodes = (!spread.any_node).then_some((&pod.node_labels, &pod.node_affinity));
    let taints = (!spread.any_taint).then_some(&pod.tolerations);
    format!("{} {topologies:?} {nodes:?} {taints:?}", spread.topology)
}

impl Plan {
    /// Why a pod cannot be on a node, if it cannot.
    pub(crate) fn misfit(&self, pod: &Pod, node: &Node) -> Option<Misfit> {
        for (spread, domains) in pod.spread.iter().filter(|spread| spread.strict).zip(&self.0) {
            let Some(value) = node.facts.labels.get(&spread.topology) else { return Some(Misfit::NoLabel) };
            let there = domains.counts.get(value).copied().unwrap_or_default();
            if there + i64::from(domains.counts_itself) - domains.least > spread.skew {
                return Some(Misfit::TooMany);
            }
        }
        None
    }

    /// How crowded the places of a node are; less is better.
    pub(crate) fn crowd(&self, pod: &Pod, node: &Node) -> i64 {
        let constraints = pod.spread.iter().filter(|spread| !spread.strict).zip(&self.0);
        constraints
            .map(|(spread, domains)| {
                let value = node.facts.labels.get(&spread.topology);
                value.and_then(|value| domains.counts.get(value)).copied().unwrap_or_default()
            })
            .sum()
    }

    /// Whether there is nothing to spread.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
