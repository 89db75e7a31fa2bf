//! Making room for a pod that matters more.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::Cluster;
use super::filter::Before;
use super::pick::{Misfits, Nominated, counted, expected};
use super::pod::Pod;
use super::selector::Selector;
use super::volumes::Needs;

/// At most so many nodes are looked at, or a tenth of those that come into question.
const CANDIDATES: usize = 100;

/// A budget of disruptions.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) namespace: String,
    pub(crate) selector: Option<Selector>,
    pub(crate) allowed: i64,
}

/// What preemption comes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Preemption {
    /// These have to go from a node.
    Victims(String, Vec<Arc<Pod>>),
    /// Nothing, and why.
    Nothing(String),
}

/// A node with those who would have to go.
struct Candidate {
    node: String,
    victims: Vec<Arc<Pod>>,
    violations: usize,
}

/// Looks for the pods whose end would make room at the least cost.
pub(crate) fn preempt(
    pod: &Pod,
    cluster: &mut Cluster,
    needs: &Needs,
    nominated: &Nominated,
    misfits: &Misfits,
    budgets: &[Budget],
) -> Preemption {
    let open: Vec<&String> = misfits
        .nodes
        .iter()
        .filter(|(_, rejection)| rejection.preemption_helps)
        .map(|(name, _)| name)
        .collect();
    let mut why: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut candidates = Vec::new();
    let limit = (open.len() / 10).max(CANDIDATES);
    for name in open {
        if candidates.len() >= limit {
            break;
        }
        match on_node(pod, cluster, needs, nominated, name, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(reasons) => {
                why.insert(name, reasons);
            }
        }
    }
    let best = candidates.into_iter().min_by_key(cost);
    if let Some(best) = best {
        return Preemption::Victims(best.node, best.victims);
    }
    let elsewhere = misfits.total.saturating_sub(why.len());
    let reasons = why.values().flatten().map(String::as_str);
    let helpless = std::iter::repeat_n("Preemption is not helpful for scheduling", elsewhere);
    Preemption::Nothing(format!(
        "0/{} nodes are available: {}.",
        misfits.total,
        counted(reasons.chain(helpless))
    ))
}

/// What a choice costs: broken budgets, then how important the victims are, then how many, then who started last.
fn cost(candidate: &Candidate) -> (usize, i64, i64, usize, Reverse<String>, String) {
    let priorities = candidate.victims.iter().map(|victim| victim.priority);
    let highest = priorities.clone().max().unwrap_or(i64::MIN);
    let important = candidate.victims.iter().filter(|victim| victim.priority == highest);
    let earliest = important.map(|victim| victim.start.clone()).min().unwrap_or_default();
    let sum = priorities.sum();
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest), candidate.node.clone())
}

fn on_node(
    pod: &Pod,
    cluster: &mut Cluster,
    needs: &Needs,
    nominated: &Nominated,
    name: &str,
    budgets: &[Budget],
) -> Result<Candidate, Vec<String>> {
    let Some(node) = cluster.node(name) else { return Err(Vec::new()) };
    let mut lesser: Vec<Arc<Pod>> =
        node.pods.values().filter(|other| other.priority < pod.priority).cloned().collect();
    if lesser.is_empty() {
        return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
    }
    for victim in &lesser {
        cluster.remove_pod(&victim.uid);
    }
    let check = |cluster: &Cluster| {
        let node = cluster.node(name)?;
        Before::of(pod, cluster, needs.clone()).check(pod, node, &expected(nominated, name, pod))
    };
    if let Some(rejection) = check(cluster) {
        for victim in lesser {
            cluster.put_pod(name, victim);
        }
        return Err(rejection.reasons);
    }
    // Whoever can stay stays: those a budget protects first, then the most important.
    lesser.sort_by_key(|victim| (Reverse(victim.priority), victim.start.clone(), victim.uid.clone()));
    let violating = violating(&lesser, budgets);
    let (protected, free): (Vec<_>, Vec<_>) =
        lesser.into_iter().partition(|victim| violating.contains(&victim.uid));
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (victim, counts) in
        protected.into_iter().map(|one| (one, 1)).chain(free.into_iter().map(|one| (one, 0)))
    {
        cluster.put_pod(name, Arc::clone(&victim));
        if check(cluster).is_some() {
            cluster.remove_pod(&victim.uid);
            victims.push(victim);
            violations += counts;
        }
    }
    for victim in &victims {
        cluster.put_pod(name, Arc::clone(victim));
    }
    Ok(Candidate { node: name.to_owned(), victims, violations })
}

/// The uids of pods whose end a budget does not allow.
fn violating(pods: &[Arc<Pod>], budgets: &[Budget]) -> Vec<String> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut violating = Vec::new();
    for pod in pods {
        for (budget, left) in budgets.iter().zip(&mut left) {
            let covers = budget.namespace == pod.key.namespace
                && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
            if covers {
                *left -= 1;
                if *left < 0 && !violating.contains(&pod.uid) {
                    violating.push(pod.uid.clone());
                }
            }
        }
    }
    violating
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cluster::NodeFacts;
    use super::super::pick::pick;
    use super::*;

    fn pod(uid: &str, cpu: &str, priority: i64) -> Arc<Pod> {
        Pod::read(&json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "a", "labels": {"app": uid}},
            "spec": {"priority": priority, "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        }))
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["n", "m"] {
            cluster.put_node(NodeFacts::read(&json!({
                "metadata": {"name": name},
                "status": {"allocatable": {"cpu": "4", "pods": "10"}},
            })));
        }
        cluster
    }

    fn run(pod: &Pod, cluster: &mut Cluster, budgets: &[Budget]) -> Preemption {
        let before = Before::of(pod, cluster, Needs::default());
        let misfits = pick(pod, cluster, &before, &Nominated::new(), &mut 0, 0).unwrap_err();
        preempt(pod, cluster, &Needs::default(), &Nominated::new(), &misfits, budgets)
    }

    #[test]
    fn the_least_important_go_and_no_more_than_needed() {
        let mut cluster = cluster();
        cluster.put_pod("n", pod("n1", "2", 5));
        cluster.put_pod("n", pod("n2", "2", 1));
        cluster.put_pod("m", pod("m1", "4", 6));
        let Preemption::Victims(node, victims) = run(&pod("new", "2", 10), &mut cluster, &[]) else {
            panic!("nobody has to go");
        };
        assert_eq!((node.as_str(), victims.len(), victims[0].uid.as_str()), ("n", 1, "n2"));
        assert_eq!(cluster.node("n").unwrap().wanted.get("cpu"), 4000, "nothing has changed yet");
        let budget = Budget {
            namespace: "a".to_owned(),
            selector: Selector::read(&json!({"matchLabels": {"app": "n2"}})),
            allowed: 0,
        };
        let Preemption::Victims(node, victims) = run(&pod("new", "2", 10), &mut cluster, &[budget]) else {
            panic!("nobody has to go");
        };
        assert_eq!((node.as_str(), victims[0].uid.as_str()), ("n", "n1"));
    }

    #[test]
    fn why_it_does_not_help() {
        let mut cluster = cluster();
        cluster.put_pod("n", pod("n1", "4", 0));
        cluster.put_pod("m", pod("m1", "4", 0));
        assert_eq!(
            run(&pod("new", "1", 0), &mut cluster, &[]),
            Preemption::Nothing(
                "0/2 nodes are available: 2 No preemption victims found for incoming pod.".to_owned()
            )
        );
        assert_eq!(
            run(&pod("new", "5", 9), &mut cluster, &[]),
            Preemption::Nothing(
                "0/2 nodes are available: 2 Preemption is not helpful for scheduling.".to_owned()
            )
        );
    }
}
