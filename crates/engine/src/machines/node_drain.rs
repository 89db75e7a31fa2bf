//! Emptying a Node that somebody points at, machine or not: the drain of a machine's removal, without the machine.

use jiff::Timestamp;
use trellis_platform::Observation;

use super::draft::Draft;
use super::drain::{self, Drain};
use super::facts::{Facts, Vm};
use super::input::{Blocked, Deadlines, Input, ProviderIdForm, Rights};
use super::seen::{Flags, MachineSeen, NodeSeen, OwnedNodeMeta, PodSeen, Record, SiteHealth, Sites};
use super::step::Step;
use crate::Deadline;

/// When a drain began and when it had only volumes left to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainMark {
    /// When it began.
    pub started: Timestamp,
    /// When the last pod that is waited for had gone.
    pub emptied: Option<Timestamp>,
}

/// What is to be done to empty a Node, and what is said of it.
#[derive(Debug, Clone)]
pub struct NodeDrainPlan {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Why it is not empty yet: in one word, and for people. Nothing when it is.
    pub waits: Option<(&'static str, String)>,
    /// The mark for the next plan.
    pub mark: DrainMark,
    /// When to look again although nothing changed.
    pub wake: Option<Deadline>,
}

/// Decides what is to be done now to empty a Node.
pub fn drain_node(
    node: &NodeSeen,
    pods: Option<&[PodSeen]>,
    deadlines: &Deadlines,
    mark: DrainMark,
    now: Timestamp,
) -> NodeDrainPlan {
    // To the drain it is a machine of which nothing is known but its Node.
    let machine = MachineSeen {
        name: node.name.clone(),
        namespace: String::new(),
        uid: String::new(),
        generation: 0,
        created: node.created,
        deleting: None,
        finalizer: false,
        provider_id: None,
        flags: Flags::default(),
        record: Record { drain_started: Some(mark.started), emptied: mark.emptied, ..Record::default() },
        recorded: true,
        create_trouble: None,
    };
    let nothing = Blocked::Frozen(String::new());
    let (node_wish, platform) = (OwnedNodeMeta::default(), Observation::default());
    let input = Input {
        machine: &machine,
        wish: Err(&nothing),
        node_wish: &node_wish,
        platform: &platform,
        node: Some(node),
        pods,
        sites: Sites { control: SiteHealth::Up, tenant: SiteHealth::Up, infra: SiteHealth::Up },
        calm_since: None,
        deadlines,
        provider_id: ProviderIdForm::Name,
        cluster: "",
        infra_namespace: "",
        rights: Rights::default(),
        held: None,
    };
    let facts = Facts { input: &input, now, vm: Vm::None, node: Some(node), stranger: None };
    let mut draft = Draft::new(machine.record.clone());
    let waits = match drain::plan(&facts, &mut draft) {
        Drain::Done => None,
        Drain::Going(said) => Some((said.reason, said.message)),
    };
    let mark = DrainMark { started: mark.started, emptied: draft.record.emptied };
    NodeDrainPlan { steps: draft.steps, waits, mark, wake: draft.wake }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::testing::{Scene, at, mk_pod};
    use super::*;

    fn plan(
        pods: Option<&[PodSeen]>,
        cordoned: bool,
        limits: &Deadlines,
        now: i64,
    ) -> (Vec<&'static str>, NodeDrainPlan) {
        let mut node = Scene::going().node.unwrap();
        node.cordoned = cordoned;
        let mark = DrainMark { started: at(100), emptied: None };
        let plan = drain_node(&node, pods, limits, mark, at(now));
        let word = |step: &Step| match step {
            Step::Cordon { .. } => "cordon",
            Step::Evict { .. } => "evict",
            Step::DeletePod { .. } => "delete",
            _ => "other",
        };
        (plan.steps.iter().map(word).collect(), plan)
    }

    #[test]
    fn a_node_without_a_machine_is_cordoned_emptied_and_done() {
        let limits = Deadlines::default();
        let (steps, waiting) = plan(None, false, &limits, 100);
        assert_eq!(steps, ["cordon"]);
        assert!(waiting.waits.is_some(), "pods that were not looked at are not taken for none");
        let pods = [mk_pod("web"), PodSeen { daemon: true, ..mk_pod("agent") }];
        let (steps, going) = plan(Some(&pods), true, &limits, 100);
        assert_eq!(steps, ["evict"]);
        assert!(going.waits.unwrap().1.contains("web"));
        let (steps, done) = plan(Some(&pods[1..]), true, &limits, 101);
        assert_eq!((steps.len(), done.waits), (0, None));
    }

    #[test]
    fn a_drain_that_is_not_to_ask_deletes_at_once() {
        let limits = Deadlines {
            drain: SignedDuration::ZERO,
            force: SignedDuration::from_hours(1),
            ..Deadlines::default()
        };
        let (steps, going) = plan(Some(&[mk_pod("web")]), true, &limits, 100);
        assert_eq!(steps, ["delete"]);
        assert!(going.waits.is_some());
    }
}
