//! A machine that has had a ready Node, and one whose VM went without being asked to.
//!
//! A restart of a VM is not the loss of a node: the Node stays linked, and only its silence counts, from when it began.

use jiff::Timestamp;
use trellis_platform::{Action, InstanceState, MigrationState, VmSeen};

use super::draft::{Draft, Said};
use super::facts::{Facts, Vm};
use super::fencing::{self, Verdict};
use super::life;
use super::seen::NodeReady;
use super::status::Phase;
use super::step::Step;
use super::{reasons, text};
use crate::Deadline;

/// A machine that has joined.
pub(super) fn plan(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Said {
    draft.observed(facts, Phase::Running);
    tell_restart(facts, draft);
    update(facts, draft, vm);
    match fencing::verdict_of(facts, vm.instance.as_ref()) {
        Verdict::Alive => health(facts, draft, vm),
        Verdict::Dead(proof) => {
            if let Some(instance) = &vm.instance {
                fencing::fence(facts, draft, instance, proof);
            }
            health(facts, draft, vm)
        }
        Verdict::InDoubt(doubt) if !is_ready(facts) => fencing::no_proof(&doubt),
        Verdict::InDoubt(doubt) => {
            let message = format!("its Node is ready, but {doubt}");
            Said { well: None, ..Said::new(Phase::Running, reasons::NODE_READY, message) }
        }
    }
}

/// Whether the tenant says that its Node is ready.
fn is_ready(facts: &Facts) -> bool {
    facts.tenant_up() && facts.node.is_some_and(|node| matches!(node.ready, NodeReady::Yes(_)))
}

/// Tells of a new run of the same machine.
fn tell_restart(facts: &Facts, draft: &mut Draft) {
    let before = facts.input.machine.record.instance_uid.as_ref();
    if before.is_some() && before != draft.record.instance_uid.as_ref() {
        draft.happened(false, reasons::RESTARTED, "its VM runs again; its Node stays the same");
    }
}

/// Brings what can change in place up to date; not while it moves, which the platform would refuse.
pub(super) fn update(facts: &Facts, draft: &mut Draft, vm: &VmSeen) {
    let moving = vm.instance.as_ref().and_then(|instance| instance.migration.as_ref());
    if moving.is_some_and(|migration| matches!(migration.state, MigrationState::Going(_))) {
        return;
    }
    // One that others made gets our labels, and is brought up to date from then on.
    let differs = (!vm.drift.is_empty() && facts.input.rights.may_change) || vm.cluster.is_empty();
    if let (true, Ok(wish)) = (differs, facts.input.wish) {
        draft.act(facts, Action::Update(wish.clone()));
    }
}

/// Whether its Node is well, and what is done when it has not been for too long.
fn health(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Said {
    if let Some(said) = draft.health_check(facts) {
        return said;
    }
    if !facts.tenant_up() {
        let (reason, message) = facts
            .frozen()
            .unwrap_or_else(|| (reasons::TENANT_UNREACHABLE, "there is no tenant to ask".to_owned()));
        return Said { well: None, ..Said::new(Phase::Running, reason, message) };
    }
    let Some(since) = draft.record.unready_since else {
        let message = format!("Node {} is ready", facts.input.machine.name);
        return Said::new(Phase::Running, reasons::NODE_READY, message);
    };
    let (reason, message) = unready(facts, vm, since);
    let said = Said::new(Phase::Running, reason, message).unwell();
    if facts.rests() {
        return said;
    }
    let due = text::after(facts.counted_from(since), facts.input.deadlines.unready);
    if facts.now >= due {
        return draft.failed(facts, reasons::UNHEALTHY, said.message);
    }
    draft.deadline = Some(Deadline { at: due, of: "NodeReady" });
    draft.wake(facts, due, "NodeReady");
    said
}

/// Why its Node is not ready, as far as that is known.
fn unready(facts: &Facts, vm: &VmSeen, since: Timestamp) -> (&'static str, String) {
    let name = &facts.input.machine.name;
    let since = text::clock(since);
    if let Some((reason, message)) = life::crash_loop(vm) {
        return (reason, message);
    }
    match (&vm.instance, &vm.trouble) {
        (None, Some(why)) => return (reasons::START_REFUSED, format!("it does not start: {why}")),
        (None, None) => {
            return (reasons::RESTARTING, format!("it restarts; its Node has been away since {since}"));
        }
        (Some(instance), _) if instance.state.is_final() => {
            return (reasons::INSTANCE_ENDED, life::ended(instance));
        }
        (Some(instance), _) => match &instance.state {
            InstanceState::Running => {}
            InstanceState::Paused => return (reasons::GUEST_PAUSED, "it is held".to_owned()),
            InstanceState::Scheduling(Some(why)) => {
                return (reasons::UNSCHEDULABLE, format!("it restarts: {why}"));
            }
            _ => return (reasons::RESTARTING, format!("it restarts; its Node has been away since {since}")),
        },
    }
    match (facts.node, facts.stranger) {
        (Some(_), _) => (reasons::NODE_NOT_READY, format!("Node {name} has not been ready since {since}")),
        (None, Some(_)) => (reasons::NODE_NAME_TAKEN, format!("Node {name} is another machine's now")),
        (None, None) => (reasons::NODE_MISSING, format!("Node {name} has been gone since {since}")),
    }
}

/// A machine whose VM somebody else removes.
pub(super) fn taken_away(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Said {
    if let (Some(instance), Verdict::Dead(proof)) =
        (&vm.instance, fencing::verdict_of(facts, vm.instance.as_ref()))
    {
        fencing::fence(facts, draft, instance, proof);
    }
    let said = Said::new(Phase::Stopping, reasons::VM_GOING, "somebody removes its VM").unwell();
    draft.judged(facts, said)
}

/// A machine whose VM is gone although nobody asked us to remove it.
pub(super) fn vanished(facts: &Facts, draft: &mut Draft) -> Said {
    if let Err(doubt) = fencing::vm_is_gone(facts) {
        if let (Some(instance), Verdict::Dead(proof)) =
            (facts.instance(), fencing::verdict_of(facts, facts.instance()))
        {
            fencing::fence(facts, draft, instance, proof);
        }
        let message = format!("its VM is not seen, and that is no proof: {doubt}");
        return Said::new(Phase::Unknown, reasons::VM_NOT_SEEN, message);
    }
    let kept = facts.input.machine.flags.preserve;
    if let Some(node) = facts.node.filter(|node| !kept && node.deleting.is_none()) {
        draft.step(facts, Step::DeleteNode { node: node.name.clone(), uid: node.uid.clone() });
    }
    let message = match facts.vm {
        Vm::Foreign(other) => format!("its VM is gone; another of its name ({}) is not touched", other.uid),
        Vm::None | Vm::Ours(_) => "its VM is gone, and nobody asked us to remove it".to_owned(),
    };
    draft.failed(facts, reasons::VM_GONE, message)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{SiteHealth, conditions};
    use super::*;
    use trellis_platform::{Drift, HostState, MigrationSeen};

    fn ready(plan: &super::super::MachinePlan) -> Option<bool> {
        plan.status.conditions.iter().find(|one| one.kind == conditions::READY).and_then(|one| one.holds)
    }

    #[test]
    fn a_machine_that_is_well_needs_nothing() {
        let mut scene = Scene::joined();
        let plan = scene.remember(70);
        assert!(plan.steps.is_empty() && plan.wake.is_none());
        assert_eq!((plan.status.phase, ready(&plan)), (Phase::Running, Some(true)));
        let later = scene.plan(7000);
        assert_eq!(later.status, plan.status);
        assert!(later.happenings.is_empty() && later.entered.is_none());
    }

    #[test]
    fn a_restart_is_not_the_loss_of_a_node() {
        let mut scene = Scene::joined();
        scene.remember(70);
        scene.platform.vm.as_mut().unwrap().instance = None;
        scene.node_is(NodeReady::Silent(at(100)));
        let plan = scene.remember(110);
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Running, reasons::RESTARTING));
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.record.node.as_ref().map(|(_, uid)| uid.as_str()), Some("node-1"));
        let mut run = mk_instance(InstanceState::Running);
        run.uid = "run-2".to_owned();
        scene.platform.vm.as_mut().unwrap().instance = Some(run);
        scene.node_is(NodeReady::Yes(at(150)));
        let plan = scene.plan(160);
        assert_eq!((plan.status.record.unready_since, ready(&plan)), (None, Some(true)));
        assert!(plan.happenings.iter().any(|one| one.reason == reasons::RESTARTED));
    }

    #[test]
    fn a_node_that_stays_away_is_replaced_after_its_time() {
        for ready in [NodeReady::No(at(100)), NodeReady::Silent(at(100))] {
            let mut scene = Scene::joined();
            scene.node_is(ready);
            let plan = scene.remember(110);
            assert_eq!(plan.wake.map(|wake| wake.at), Some(at(700)));
            assert!(plan.steps.is_empty());
            assert_eq!(words(&scene.plan(700)), ["replace"]);
        }
    }

    #[test]
    fn a_node_that_somebody_removed_is_waited_for_and_then_replaced() {
        let mut scene = Scene::joined();
        scene.node = None;
        let plan = scene.remember(100);
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Running, reasons::NODE_MISSING));
        assert_eq!(words(&scene.plan(700)), ["replace"]);
    }

    #[test]
    fn nothing_is_replaced_while_a_site_is_down() {
        let down = SiteHealth::Down(at(90));
        for (infra, tenant) in [(down, SiteHealth::Up), (SiteHealth::Up, down)] {
            let mut scene = Scene::joined();
            scene.node_is(NodeReady::Silent(at(100)));
            scene.remember(110);
            (scene.sites.infra, scene.sites.tenant) = (infra, tenant);
            scene.machine.flags.unhealthy = true;
            let plan = scene.plan(9000);
            assert!(plan.steps.is_empty());
            assert_eq!(plan.status.phase, Phase::Running);
        }
    }

    #[test]
    fn a_health_check_is_obeyed_within_the_budget() {
        let mut scene = Scene::joined();
        scene.machine.flags.unhealthy = true;
        assert_eq!(words(&scene.plan(70)), ["replace"]);
        scene.rights.may_replace = false;
        assert!(scene.plan(70).steps.is_empty());
    }

    #[test]
    fn what_can_change_in_place_is_changed_in_place() {
        let mut scene = Scene::joined();
        scene.platform.vm.as_mut().unwrap().drift = vec![Drift { what: "memory".to_owned() }];
        let plan = scene.plan(70);
        assert_eq!(words(&plan), ["update"]);
        let said = plan.status.conditions.iter().find(|one| one.kind == conditions::UP_TO_DATE).unwrap();
        assert_eq!((said.holds, said.message.as_str()), (Some(false), "to be changed in place: memory"));
        let state = MigrationState::Going("Running".to_owned());
        scene.instance().migration =
            Some(MigrationSeen { name: "move".to_owned(), ours: false, state, created: at(60) });
        assert!(scene.plan(70).steps.is_empty(), "not while it moves");
    }

    #[test]
    fn what_changed_in_place_is_not_taken_back_while_the_pool_is_of_another_revision() {
        let mut scene = Scene::joined();
        scene.platform.vm.as_mut().unwrap().drift = vec![Drift { what: "memory".to_owned() }];
        scene.rights.may_change = false;
        let plan = scene.plan(70);
        assert!(plan.steps.is_empty(), "its wish is older than what it is");
        let said = plan.status.conditions.iter().find(|one| one.kind == conditions::UP_TO_DATE).unwrap();
        assert_eq!((said.holds, said.reason), (Some(true), reasons::UP_TO_DATE));
        // One that others made is taken over all the same: that changes nothing of what it is.
        scene.platform.vm.as_mut().unwrap().cluster = String::new();
        assert_eq!(words(&scene.plan(70)), ["update"]);
    }

    #[test]
    fn a_crash_loop_is_said_with_its_next_try() {
        let mut scene = Scene::joined();
        scene.node_is(NodeReady::Silent(at(100)));
        let vm = scene.platform.vm.as_mut().unwrap();
        vm.instance = None;
        vm.crash_loop = Some((3, Some(at(240))));
        let plan = scene.plan(110);
        assert_eq!(plan.status.reason, reasons::CRASH_LOOP);
        assert_eq!(
            plan.status.message,
            format!("it ended 3 times in a row; started again at {}", text::clock(at(240)))
        );
    }

    #[test]
    fn a_vm_that_vanished_is_believed_only_with_proof() {
        type Change = fn(&mut Scene);
        let silent: Change = |scene| scene.node_is(NodeReady::Silent(at(100)));
        let cases: [(&str, Change, Phase, &[&str]); 6] = [
            ("the Node is silent", silent, Phase::Failed, &["delete-node", "replace"]),
            ("the Node is ready", |_| {}, Phase::Unknown, &[]),
            (
                "its removal was seen",
                |scene| scene.machine.record.vm_removal_seen = true,
                Phase::Failed,
                &["delete-node", "replace"],
            ),
            (
                "another namespace",
                |scene| {
                    scene.node_is(NodeReady::Silent(at(100)));
                    scene.namespace = "elsewhere".to_owned();
                },
                Phase::Unknown,
                &[],
            ),
            (
                "its run is still there",
                |scene| {
                    scene.node_is(NodeReady::Silent(at(100)));
                    scene.platform.leftover = Some(mk_instance(InstanceState::Running));
                },
                Phase::Unknown,
                &[],
            ),
            (
                "infra down",
                |scene| {
                    scene.node_is(NodeReady::Silent(at(100)));
                    scene.sites.infra = SiteHealth::Down(at(90));
                },
                Phase::Unknown,
                &[],
            ),
        ];
        for (what, change, phase, steps) in cases {
            let mut scene = Scene::joined();
            scene.platform.vm = None;
            change(&mut scene);
            let plan = scene.plan(110);
            assert_eq!((plan.status.phase, words(&plan)), (phase, steps.to_vec()), "{what}");
        }
    }

    #[test]
    fn a_preserved_machine_keeps_its_node_although_its_vm_is_gone() {
        let mut scene = Scene::joined();
        scene.platform.vm = None;
        scene.node_is(NodeReady::Silent(at(100)));
        scene.machine.flags.preserve = true;
        let plan = scene.plan(110);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.phase, Phase::Failed);
    }

    #[test]
    fn a_later_vm_of_the_same_name_is_not_taken_for_the_first() {
        let mut scene = Scene::joined();
        scene.platform.vm.as_mut().unwrap().uid = "vm-2".to_owned();
        scene.node_is(NodeReady::Silent(at(100)));
        let plan = scene.plan(110);
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Failed, reasons::VM_GONE));
        assert_eq!(plan.status.record.vm_uid.as_deref(), Some("vm-1"));
    }

    #[test]
    fn a_paused_machine_is_looked_at_and_not_touched() {
        let mut scene = Scene::joined();
        scene.node_is(NodeReady::Silent(at(100)));
        scene.machine.record.unready_since = Some(at(100));
        scene.machine.flags.paused = true;
        let plan = scene.plan(9000);
        assert!(plan.steps.is_empty() && plan.wake.is_none());
        assert_eq!(plan.status.reason, reasons::PAUSED);
    }

    #[test]
    fn a_silent_host_is_no_reason_while_the_node_is_ready() {
        let mut scene = Scene::joined();
        scene.host(HostState::Silent(at(65)));
        let plan = scene.plan(70);
        assert_eq!((plan.status.phase, ready(&plan)), (Phase::Running, Some(true)));
    }
}
