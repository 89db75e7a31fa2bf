//! Emptying the Node of a machine before it goes.
//!
//! Pods are evicted, so that disruption budgets are kept; a refused eviction is asked for again after a pause that
//! doubles. Pods of DaemonSets, mirror pods and pods that have ended are left alone. When the last pod has gone, its
//! volumes are waited for. At the end of the drain's deadline what is left is deleted. A kubelet that has been silent
//! for long confirms nothing: what it was told is not waited for.

use jiff::Timestamp;

use super::draft::{Draft, Said};
use super::facts::Facts;
use super::input::pause;
use super::seen::{NodeReady, NodeSeen, PodSeen};
use super::status::Phase;
use super::step::Step;
use super::{reasons, text};
use crate::Deadline;

/// How a drain stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Drain {
    /// Nothing has to be waited for any more.
    Done,
    /// It goes on.
    Going(Said),
}

/// The next steps of a drain.
pub(super) fn plan(facts: &Facts, draft: &mut Draft) -> Drain {
    if facts.input.machine.flags.skip_drain || facts.tenant_absent() {
        return Drain::Done;
    }
    if !facts.tenant_up() {
        let Some((reason, message)) = facts.frozen().filter(|_| may_have_pods(facts)) else {
            return Drain::Done;
        };
        return Drain::Going(Said::new(Phase::Draining, reason, message));
    }
    let Some(node) = facts.node else { return Drain::Done };
    let started = *draft.record.drain_started.get_or_insert(facts.now);
    if facts.input.machine.record.drain_started.is_none() {
        // Whoever takes a drain back must know of it: it is recorded before anything is done.
        let message = format!("Node {} is to be emptied", node.name);
        return Drain::Going(Said::new(Phase::Draining, reasons::PODS_UNKNOWN, message));
    }
    if !node.cordoned {
        let (node, uid) = (node.name.clone(), node.uid.clone());
        let cordon = draft.record.vm_uid.clone();
        draft.step(facts, Step::Cordon { node, uid, cordoned: true, vm_uid: cordon });
    }
    let Some(pods) = facts.input.pods else {
        let message = format!("Node {} is to be emptied", node.name);
        return Drain::Going(Said::new(Phase::Draining, reasons::PODS_UNKNOWN, message));
    };
    let silent = is_silent(facts, draft, node);
    let left: Vec<&PodSeen> = pods.iter().filter(|pod| counts(pod, silent)).collect();
    if left.is_empty() {
        return detach(facts, draft, node, silent);
    }
    draft.record.emptied = None;
    let limits = facts.input.deadlines;
    let due = text::after(facts.counted_from(started), limits.drain);
    if facts.now >= due {
        return force(facts, draft, &left, due);
    }
    draft.deadline = Some(Deadline { at: due, of: "Drain" });
    draft.wake(facts, due, "Drain");
    evict(facts, draft, &left);
    Drain::Going(going(&left))
}

/// Whether pods may be on a Node that cannot be looked at now.
fn may_have_pods(facts: &Facts) -> bool {
    let record = &facts.input.machine.record;
    let ran = facts.instance().is_some_and(|instance| instance.running_since.is_some());
    ran || record.node.is_some() || record.joined.is_some() || facts.node.is_some()
}

/// Whether its kubelet has been silent so long that it is not waited for.
fn is_silent(facts: &Facts, draft: &mut Draft, node: &NodeSeen) -> bool {
    let NodeReady::Silent(since) = node.ready else { return false };
    let due = text::after(facts.counted_from(since), facts.input.deadlines.silent);
    draft.wake(facts, due, "KubeletSilent");
    facts.now >= due
}

/// Whether a drain waits for a pod.
fn counts(pod: &PodSeen, silent: bool) -> bool {
    let left_alone = pod.daemon || pod.mirror || pod.finished;
    let unheard = silent && pod.deleting.is_some();
    !left_alone && !unheard
}

/// Asks for the eviction of every pod that was not asked yet, and again for those whose pause is over.
fn evict(facts: &Facts, draft: &mut Draft, left: &[&PodSeen]) {
    let limits = facts.input.deadlines;
    let (refused, fresh): (Vec<&PodSeen>, Vec<&PodSeen>) =
        left.iter().copied().filter(|pod| pod.deleting.is_none()).partition(|pod| pod.refused.is_some());
    for pod in fresh {
        draft.step(facts, eviction(pod));
    }
    for pod in refused {
        let Some(refusal) = &pod.refused else { continue };
        let pause = pause(limits.eviction_pause, limits.eviction_pause_most, refusal.times);
        let again = text::after(refusal.at, pause);
        if facts.now >= again {
            draft.step(facts, eviction(pod));
        } else {
            draft.wake(facts, again, "EvictionRetry");
        }
    }
}

fn eviction(pod: &PodSeen) -> Step {
    Step::Evict { namespace: pod.namespace.clone(), pod: pod.name.clone(), uid: pod.uid.clone() }
}

/// Deletes what is left at the end of a drain, and goes on a little later whatever is left then.
fn force(facts: &Facts, draft: &mut Draft, left: &[&PodSeen], due: Timestamp) -> Drain {
    let end = text::after(due, facts.input.deadlines.force);
    if facts.now >= end {
        return Drain::Done;
    }
    for pod in left.iter().filter(|pod| pod.deleting.is_none()) {
        draft.step(facts, deletion(pod, false));
    }
    draft.deadline = Some(Deadline { at: end, of: "ForcedDrain" });
    draft.wake(facts, end, "ForcedDrain");
    let message = format!("the drain should have ended by {}: deleting {}", text::clock(due), named(left));
    draft.happened(true, reasons::DRAIN_FORCED, message.clone());
    Drain::Going(Said::new(Phase::Draining, reasons::DRAIN_FORCED, message).unwell())
}

fn deletion(pod: &PodSeen, force: bool) -> Step {
    Step::DeletePod { namespace: pod.namespace.clone(), pod: pod.name.clone(), uid: pod.uid.clone(), force }
}

/// Takes the pods off a Node whose machine is proven dead: no kubelet will ever say that they have ended.
pub(super) fn bury(facts: &Facts, draft: &mut Draft) {
    for pod in facts.input.pods.unwrap_or_default() {
        if !pod.finished && !pod.mirror && !pod.daemon {
            draft.step(facts, deletion(pod, true));
        }
    }
}

/// Waits for the volumes of an emptied Node.
fn detach(facts: &Facts, draft: &mut Draft, node: &NodeSeen, silent: bool) -> Drain {
    let emptied = *draft.record.emptied.get_or_insert(facts.now);
    let mut held: Vec<String> = node.attached.attached.iter().chain(&node.attached.in_use).cloned().collect();
    held.sort();
    held.dedup();
    let due = text::after(facts.counted_from(emptied), facts.input.deadlines.detach);
    if held.is_empty() || silent || facts.now >= due {
        return Drain::Done;
    }
    draft.deadline = Some(Deadline { at: due, of: "Detach" });
    draft.wake(facts, due, "Detach");
    let message = format!("waiting for volumes to be detached: {}", text::some_of(&held));
    Drain::Going(Said::new(Phase::Draining, reasons::DETACHING, message))
}

/// What is said of pods that are being evicted; a budget that refuses is said first.
fn going(left: &[&PodSeen]) -> Said {
    let refused = left.iter().find_map(|pod| Some((pod, pod.refused.as_ref()?)));
    if let Some((pod, refusal)) = refused {
        let message = format!("pod {}/{} may not be evicted: {}", pod.namespace, pod.name, refusal.why);
        return Said::new(Phase::Draining, reasons::EVICTION_REFUSED, message);
    }
    Said::new(Phase::Draining, reasons::EVICTING, format!("evicting {}", named(left)))
}

/// A few pods by name, many by a rounded number: a status is not written for every pod that goes.
fn named(left: &[&PodSeen]) -> String {
    if left.len() <= 3 {
        let names: Vec<String> = left.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        return text::some_of(&names);
    }
    format!("up to {} pods", left.len().div_ceil(5) * 5)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Attached, Refusal, SiteHealth};
    use super::*;
    use trellis_platform::HostState;

    /// A machine that goes and whose drain was recorded at 100 s.
    fn draining(pods: Vec<PodSeen>) -> Scene {
        let mut scene = Scene::going();
        scene.machine.record.drain_started = Some(at(100));
        scene.node.as_mut().unwrap().cordoned = true;
        scene.pods = Some(pods);
        scene
    }

    fn refused(times: u32) -> PodSeen {
        let refusal = Refusal { why: "needs 2 healthy pods".to_owned(), at: at(200), times };
        PodSeen { refused: Some(refusal), ..mk_pod("web") }
    }

    #[test]
    fn it_is_recorded_then_cordoned_then_emptied() {
        let mut scene = Scene::going();
        let first = scene.remember(100);
        assert!(first.steps.is_empty());
        assert_eq!(first.status.phase, Phase::Draining);
        assert_eq!(first.status.record.drain_started, Some(at(100)));
        assert_eq!(
            words(&scene.plan(101)),
            ["cordon"],
            "pods that were not looked at are not taken for none"
        );
        scene.pods = Some(vec![mk_pod("web"), mk_pod("db")]);
        assert_eq!(words(&scene.plan(101)), ["cordon", "evict", "evict"]);
        scene.node.as_mut().unwrap().cordoned = true;
        scene.pods = Some(Vec::new());
        assert_eq!(words(&scene.plan(101)), ["delete"]);
    }

    #[test]
    fn some_pods_are_left_alone() {
        let cases = [
            PodSeen { daemon: true, ..mk_pod("agent") },
            PodSeen { mirror: true, ..mk_pod("static") },
            PodSeen { finished: true, ..mk_pod("job") },
        ];
        for pod in cases {
            assert_eq!(words(&draining(vec![pod.clone()]).plan(101)), ["delete"], "{pod:?}");
        }
        let going = PodSeen { deleting: Some((at(100), 30)), ..mk_pod("web") };
        let plan = draining(vec![going]).plan(101);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.phase, Phase::Draining);
    }

    #[test]
    fn a_refused_eviction_is_asked_for_again_after_longer_pauses() {
        for (times, pause) in [(1, 5), (2, 10), (3, 20), (9, 60)] {
            let scene = draining(vec![refused(times)]);
            let plan = scene.plan(200 + pause - 1);
            assert!(plan.steps.is_empty(), "{times}");
            assert_eq!(plan.wake.map(|wake| wake.at), Some(at(200 + pause)));
            assert_eq!(plan.status.reason, reasons::EVICTION_REFUSED);
            assert!(plan.status.message.contains("needs 2 healthy pods"));
            assert_eq!(words(&scene.plan(200 + pause)), ["evict"]);
        }
    }

    #[test]
    fn one_budget_does_not_hold_up_the_other_pods() {
        let plan = draining(vec![refused(1), mk_pod("db")]).plan(205);
        let order: Vec<&str> = plan
            .steps
            .iter()
            .map(|step| match step {
                Step::Evict { pod, .. } => pod.as_str(),
                _ => "other",
            })
            .collect();
        assert_eq!(order, ["db", "web"]);
    }

    #[test]
    fn at_the_end_what_is_left_is_deleted_and_then_not_waited_for() {
        let scene = draining(vec![refused(1)]);
        let end = 100 + 2 * 3600;
        assert_eq!(words(&scene.plan(end)), ["delete-pod"]);
        assert_eq!(words(&scene.plan(end + 60)), ["delete"]);
    }

    #[test]
    fn volumes_are_waited_for_but_not_for_ever() {
        let mut scene = draining(Vec::new());
        let held = vec!["pv-1".to_owned()];
        scene.node.as_mut().unwrap().attached = Attached { attached: held.clone(), in_use: held };
        let plan = scene.remember(200);
        assert_eq!((plan.status.reason, plan.wake.map(|wake| wake.at)), (reasons::DETACHING, Some(at(320))));
        assert_eq!(plan.status.message, "waiting for volumes to be detached: pv-1");
        assert_eq!(words(&scene.plan(320)), ["delete"]);
        scene.node.as_mut().unwrap().attached = Attached::default();
        assert_eq!(words(&scene.plan(210)), ["delete"]);
    }

    #[test]
    fn volumes_are_waited_for_from_the_last_pod_that_went() {
        let mut scene = draining(Vec::new());
        scene.node.as_mut().unwrap().attached.attached = vec!["pv-1".to_owned()];
        scene.remember(200);
        scene.pods = Some(vec![mk_pod("late")]);
        assert_eq!(scene.remember(210).status.record.emptied, None);
        scene.pods = Some(Vec::new());
        assert_eq!(scene.remember(300).wake.map(|wake| wake.at), Some(at(420)));
    }

    #[test]
    fn a_kubelet_that_is_silent_for_long_is_not_waited_for() {
        let going = PodSeen { deleting: Some((at(200), 30)), ..mk_pod("web") };
        let mut scene = draining(vec![going]);
        scene.node_is(NodeReady::Silent(at(200)));
        let plan = scene.plan(499);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.wake.map(|wake| wake.at), Some(at(500)));
        assert_eq!(words(&scene.plan(500)), ["delete"]);
        scene.pods = Some(vec![mk_pod("db")]);
        assert_eq!(words(&scene.plan(500)), ["evict"], "it is told all the same");
    }

    #[test]
    fn a_drain_is_left_out_when_people_say_so_or_there_is_no_tenant() {
        let mut scene = draining(vec![mk_pod("web")]);
        scene.machine.flags.skip_drain = true;
        assert_eq!(words(&scene.plan(101)), ["delete"]);
        let mut scene = draining(vec![mk_pod("web")]);
        scene.sites.tenant = SiteHealth::Absent;
        assert_eq!(words(&scene.plan(101)), ["delete"]);
    }

    #[test]
    fn a_drain_waits_for_a_tenant_that_is_down() {
        let mut scene = draining(vec![mk_pod("web")]);
        scene.sites.tenant = SiteHealth::Down(at(90));
        let plan = scene.plan(90_000);
        assert!(plan.steps.is_empty());
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Draining, reasons::TENANT_UNREACHABLE));
    }

    #[test]
    fn a_machine_proven_dead_is_not_drained_but_buried() {
        let mut scene = draining(vec![mk_pod("web"), PodSeen { daemon: true, ..mk_pod("agent") }]);
        scene.host(HostState::OutOfService);
        assert_eq!(words(&scene.plan(101)), ["bury-pod", "fence", "delete"]);
    }

    #[test]
    fn many_pods_are_told_by_a_rounded_number() {
        let many = |count: usize| {
            let pods = (0..count).map(|number| mk_pod(&format!("web-{number}"))).collect();
            draining(pods).plan(101).status.message
        };
        assert_eq!(many(2), "evicting apps/web-0, apps/web-1");
        assert_eq!(many(14), "evicting up to 15 pods");
        assert_eq!(many(11), many(15));
    }
}
