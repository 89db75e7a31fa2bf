//! Pods that want to be near others, or far from them.

use std::collections::BTreeMap;

use super::cluster::{Cluster, Node};
use super::pod::{Pod, Term};
use super::selector::Labels;

/// How many pods are at a place: by topology key and value.
type Counts = BTreeMap<(String, String), i64>;

/// What is known about the neighbours of a pod before any node is looked at.
#[derive(Debug, Default)]
pub(crate) struct Near {
    /// Where pods are that keep this one away.
    keep_away: Counts,
    /// Where pods are that this one has to be near to.
    wanted: Counts,
    /// Where pods are that this one has to be far from.
    unwanted: Counts,
    /// Whether the pod is one of those it has to be near to, so that it may be the first.
    may_be_first: bool,
}

/// The three ways of not fitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// Nobody is there whom the pod has to be near to.
    Affinity,
    /// Somebody is there whom the pod has to be far from.
    AntiAffinity,
    /// Somebody is there who keeps the pod away.
    Existing,
}

/// Looks at all pods that matter.
pub(crate) fn look_around(pod: &Pod, cluster: &Cluster) -> Near {
    let namespace = |name: &str| cluster.namespace_labels(name);
    let mut near = Near::default();
    for other in cluster.with_terms.values().filter(|other| !other.anti_affinity.is_empty()) {
        for term in other.anti_affinity.iter().filter(|term| term.matches(pod, &namespace)) {
            count(&mut near.keep_away, place(cluster, other, &term.topology));
        }
    }
    if !pod.affinity.is_empty() {
        near.may_be_first = pod.affinity.iter().all(|term| term.matches(pod, &namespace));
        for other in of_terms(cluster, &pod.affinity) {
            if pod.affinity.iter().all(|term| term.matches(other, &namespace)) {
                for term in &pod.affinity {
                    count(&mut near.wanted, place(cluster, other, &term.topology));
                }
            }
        }
    }
    for term in &pod.anti_affinity {
        for other in cluster.pods_in(term.namespaces()).filter(|other| term.matches(other, &namespace)) {
            count(&mut near.unwanted, place(cluster, other, &term.topology));
        }
    }
    near
}

/// The pods that can be meant by terms that have to hold together.
fn of_terms<'a>(cluster: &'a Cluster, terms: &'a [Term]) -> impl Iterator<Item = &'a Pod> {
    let namespaces = terms.iter().find_map(Term::namespaces);
    cluster.pods_in(namespaces).map(|pod| &**pod)
}

fn count(counts: &mut Counts, place: Option<(String, String)>) {
    if let Some(place) = place {
        *counts.entry(place).or_default() += 1;
    }
}

/// Where a pod is, in terms of a topology.
fn place(cluster: &Cluster, pod: &Pod, topology: &str) -> Option<(String, String)> {
    at(&cluster.place_of(&pod.uid)?.facts.labels, topology)
}

fn at(labels: &Labels, topology: &str) -> Option<(String, String)> {
    Some((topology.to_owned(), labels.get(topology)?.clone()))
}

impl Near {
    /// Why a pod cannot be on a node, if it cannot.
    pub(crate) fn misfit(&self, pod: &Pod, node: &Node) -> Option<Misfit> {
        let labels = &node.facts.labels;
        if !self.is_near_enough(pod, labels) {
            return Some(Misfit::Affinity);
        }
        let has = |counts: &Counts, topology: &str| {
            !counts.is_empty() && at(labels, topology).is_some_and(|place| counts.contains_key(&place))
        };
        if pod.anti_affinity.iter().any(|term| has(&self.unwanted, &term.topology)) {
            return Some(Misfit::AntiAffinity);
        }
        let kept_away = self.keep_away.keys().any(|(topology, value)| labels.get(topology) == Some(value));
        kept_away.then_some(Misfit::Existing)
    }

    fn is_near_enough(&self, pod: &Pod, labels: &Labels) -> bool {
        let mut all = true;
        for term in &pod.affinity {
            let Some(place) = at(labels, &term.topology) else { return false };
            all &= self.wanted.contains_key(&place);
        }
        all || self.wanted.is_empty() && self.may_be_first
    }
}

/// How much more or less places are liked, for pods that would rather be near or far.
pub(crate) fn likes(pod: &Pod, cluster: &Cluster) -> Counts {
    let namespace = |name: &str| cluster.namespace_labels(name);
    let mut likes = Counts::new();
    let mut like = |weight: i64, place: Option<(String, String)>| {
        if let Some(place) = place {
            *likes.entry(place).or_default() += weight;
        }
    };
    for (weight, term) in &pod.preferred {
        for other in cluster.pods_in(term.namespaces()).filter(|other| term.matches(other, &namespace)) {
            like(*weight, place(cluster, other, &term.topology));
        }
    }
    for other in cluster.with_terms.values() {
        let wanted = other.affinity.iter().map(|term| (1, term));
        let preferred = other.preferred.iter().map(|(weight, term)| (*weight, term));
        for (weight, term) in wanted.chain(preferred).filter(|(_, term)| term.matches(pod, &namespace)) {
            like(weight, place(cluster, other, &term.topology));
        }
    }
    likes
}

/// How much a node is liked.
pub(crate) fn liking(likes: &Counts, node: &Node) -> i64 {
    let here = likes.iter().filter(|((topology, value), _)| node.facts.labels.get(topology) == Some(value));
    here.map(|(_, weight)| weight).sum()
}
