//! Finding a node for a pod, and saying why there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster::{Cluster, Node};
use super::filter::{Before, Cause, Rejection};
use super::pod::Pod;
use super::score;

/// Below so many nodes all are looked at.
const FEW: usize = 100;

/// Pods that are expected on nodes once those who are there have gone, by node.
pub(crate) type Nominated = BTreeMap<String, Vec<Arc<Pod>>>;

/// Why a pod fits nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Misfits {
    /// How many nodes there are.
    pub(crate) total: usize,
    /// What is the matter with the pod itself, wherever it goes.
    pub(crate) everywhere: String,
    /// What is the matter with each node.
    pub(crate) nodes: BTreeMap<String, Rejection>,
}

impl Misfits {
    /// All of it in one sentence, and what preemption comes to in another.
    pub(crate) fn message(&self, afterwards: &str) -> String {
        if self.total == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let reasons = if self.everywhere.is_empty() {
            counted(self.nodes.values().flat_map(|rejection| rejection.reasons.iter().map(String::as_str)))
        } else {
            self.everywhere.clone()
        };
        let message = format!("0/{} nodes are available: {reasons}.", self.total);
        if afterwards.is_empty() { message } else { format!("{message} {afterwards}") }
    }

    /// What has to change before another look is worth while.
    pub(crate) fn causes(&self) -> BTreeSet<Cause> {
        if self.total == 0 {
            return BTreeSet::from([Cause::Nodes]);
        }
        if !self.everywhere.is_empty() {
            return BTreeSet::from([Cause::Volumes]);
        }
        self.nodes.values().flat_map(|rejection| rejection.causes.iter().copied()).collect()
    }
}

/// Reasons with how often each was given, sorted as texts.
pub(crate) fn counted<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut words: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    words.sort();
    words.join(", ")
}

/// How many fitting nodes are enough, of so many.
fn enough(nodes: usize) -> usize {
    if nodes < FEW {
        return nodes;
    }
    let share = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * share / 100).max(FEW)
}

/// The pods that are expected on a node and matter for a pod: those of at least its priority.
pub(crate) fn expected(nominated: &Nominated, node: &str, pod: &Pod) -> Vec<Arc<Pod>> {
    let there = nominated.get(node).into_iter().flatten();
    there.filter(|other| other.uid != pod.uid && other.priority >= pod.priority).cloned().collect()
}

/// The best node for a pod. The search begins at `start`, which moves on; `chance` decides between equals.
pub(crate) fn pick(
    pod: &Pod,
    cluster: &Cluster,
    before: &Before<'_>,
    nominated: &Nominated,
    start: &mut usize,
    chance: u64,
) -> Result<String, Misfits> {
    let names = cluster.names();
    // Where a pod was promised a node, that comes first.
    let promised = nominated.iter().find(|(_, pods)| pods.iter().any(|other| other.uid == pod.uid));
    if let Some((name, _)) = promised
        && let Some(node) = cluster.node(name)
        && before.check(pod, node, &expected(nominated, name, pod)).is_none()
    {
        return Ok(name.clone());
    }
    let mut misfits = Misfits { total: names.len(), ..Misfits::default() };
    let mut fitting: Vec<&Node> = Vec::new();
    let enough = enough(names.len());
    let mut looked_at = 0;
    while looked_at < names.len() && fitting.len() < enough {
        let name = &names[(*start + looked_at) % names.len()];
        looked_at += 1;
        let Some(node) = cluster.node(name) else { continue };
        match before.check(pod, node, &expected(nominated, name, pod)) {
            None => fitting.push(node),
            Some(rejection) => {
                misfits.nodes.insert(name.clone(), rejection);
            }
        }
    }
    if !names.is_empty() {
        *start = (*start + looked_at) % names.len();
    }
    best(pod, cluster, &fitting, chance).ok_or(misfits)
}

fn best(pod: &Pod, cluster: &Cluster, fitting: &[&Node], chance: u64) -> Option<String> {
    if let [only] = fitting {
        return Some(only.facts.name.clone());
    }
    let scores = score::scores(pod, cluster, fitting);
    let highest = scores.iter().copied().max()?;
    let mut equals: Vec<&str> = fitting
        .iter()
        .zip(&scores)
        .filter(|(_, score)| **score == highest)
        .map(|(node, _)| node.facts.name.as_str())
        .collect();
    equals.sort_unstable();
    let index = usize::try_from(chance % u64::try_from(equals.len()).ok()?).ok()?;
    equals.get(index).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cluster::NodeFacts;
    use super::super::volumes::Needs;
    use super::*;

    fn cluster(nodes: usize) -> Cluster {
        let mut cluster = Cluster::default();
        for index in 0..nodes {
            cluster.put_node(NodeFacts::read(&json!({
                "metadata": {"name": format!("n{index:05}")},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
            })));
        }
        cluster
    }

    fn pod(uid: &str, cpu: &str) -> Arc<Pod> {
        Pod::read(&json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "a"},
            "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        }))
    }

    #[test]
    fn the_words_are_those_of_the_real_one() {
        let mut cluster = cluster(3);
        cluster.put_node(NodeFacts {
            name: "n00000".to_owned(),
            unschedulable: true,
            ..NodeFacts::default()
        });
        let pod = pod("1", "5");
        let before = Before::of(&pod, &cluster, Needs::default());
        let misfits = pick(&pod, &cluster, &before, &Nominated::new(), &mut 0, 0).unwrap_err();
        assert_eq!(
            misfits.message("preemption: none."),
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: none."
        );
        assert_eq!(misfits.causes(), BTreeSet::from([Cause::Nodes, Cause::Pods]));
        let everywhere = Misfits { total: 3, everywhere: "pod has x".to_owned(), ..Misfits::default() };
        assert_eq!(everywhere.message(""), "0/3 nodes are available: pod has x.");
        assert_eq!(Misfits::default().message(""), "no nodes available to schedule pods");
    }

    #[test]
    fn many_nodes_are_sampled_in_turn() {
        assert_eq!((enough(3), enough(100), enough(8000)), (3, 100, 400));
        let cluster = cluster(200);
        let pod = pod("1", "1");
        let before = Before::of(&pod, &cluster, Needs::default());
        let mut start = 0;
        let first = pick(&pod, &cluster, &before, &Nominated::new(), &mut start, 0).unwrap();
        assert_eq!((first.as_str(), start), ("n00000", 100));
        let second = pick(&pod, &cluster, &before, &Nominated::new(), &mut start, 0).unwrap();
        assert_eq!((second.as_str(), start), ("n00100", 0));
    }

    #[test]
    fn what_was_promised_is_kept_free() {
        let cluster = cluster(1);
        let (mine, other) = (pod("1", "3"), pod("2", "3"));
        let nominated = Nominated::from([("n00000".to_owned(), vec![Arc::clone(&mine)])]);
        let before = Before::of(&mine, &cluster, Needs::default());
        assert_eq!(pick(&mine, &cluster, &before, &nominated, &mut 0, 0).as_deref(), Ok("n00000"));
        assert!(pick(&other, &cluster, &before, &nominated, &mut 0, 0).is_err());
    }
}
