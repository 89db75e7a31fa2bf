//! A machine that goes: its Node is emptied, its VM shut down and removed, then the volumes it owns, its Node, what was
//! secret of it, and last our finalizer.
//!
//! Everything here follows from what was recorded and what is seen, never from a wish: a machine whose flavor, image
//! or storage class is gone can be removed like any other. Where a step needs a site that does not answer, removal
//! waits there.

use trellis_platform::{Action, VmSeen};

use super::draft::{Draft, Said};
use super::drain::{self, Drain};
use super::facts::{Facts, Vm};
use super::fencing::{self, Proof, Verdict};
use super::seen::NodeReady;
use super::status::Phase;
use super::step::Step;
use super::{reasons, text};

/// The next steps of a removal.
pub(super) fn plan(facts: &Facts, draft: &mut Draft) -> Said {
    if !facts.input.machine.finalizer {
        return Said::new(Phase::Gone, reasons::GONE, "nothing of it was made");
    }
    if let Some(why) = facts.input.held {
        return Said::new(Phase::Draining, reasons::HELD, why);
    }
    match facts.vm {
        Vm::Ours(vm) if vm.deleting.is_none() => take_leave(facts, draft, vm),
        Vm::Ours(vm) => shut_down(facts, draft, vm),
        Vm::None | Vm::Foreign(_) => clean_up(facts, draft),
    }
}

/// The VM exists: its Node is emptied, and then it is removed, by the uid that was seen.
fn take_leave(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Said {
    let verdict = fencing::verdict_of(facts, vm.instance.as_ref());
    let dead = facts.infra_up() && matches!(verdict, Verdict::Dead(_));
    if dead {
        bury_the_dead(facts, draft, vm);
    } else if let Drain::Going(said) = drain::plan(facts, draft) {
        draft.observed(facts, Phase::Draining);
        return said;
    }
    if let Some((reason, message)) = facts.frozen().filter(|_| !facts.infra_up()) {
        return Said::new(Phase::Draining, reason, format!("its Node is empty, but {message}"));
    }
    let machine = facts.input.machine.name.clone();
    draft.act(facts, Action::Delete { machine, uid: vm.uid.clone() });
    draft.judged(facts, Said::new(Phase::Stopping, reasons::STOPPING, "its VM is to be shut down"))
}

/// A machine whose host is proven dead: its run is ended, and its pods are not waited for.
fn bury_the_dead(facts: &Facts, draft: &mut Draft, vm: &VmSeen) {
    let Verdict::Dead(proof) = fencing::verdict_of(facts, vm.instance.as_ref()) else { return };
    if matches!(proof, Proof::HostGone | Proof::OutOfService) {
        drain::bury(facts, draft);
    }
    if let Some(instance) = &vm.instance {
        fencing::fence(facts, draft, instance, proof);
    }
}

/// The VM is being removed: it is waited for, and ended by force only with proof that it is dead.
fn shut_down(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Said {
    let said = Said::new(Phase::Stopping, reasons::STOPPING, "its VM is being shut down");
    let said = match (fencing::verdict_of(facts, vm.instance.as_ref()), facts.infra_up()) {
        (Verdict::InDoubt(doubt), true) => Said { phase: Phase::Stopping, ..fencing::no_proof(&doubt) },
        (Verdict::Dead(_), true) => {
            bury_the_dead(facts, draft, vm);
            said
        }
        _ => said,
    };
    draft.judged(facts, said)
}

/// The VM is gone, or never was: everything else goes.
fn clean_up(facts: &Facts, draft: &mut Draft) -> Said {
    if let Some(said) = not_gone_yet(facts, draft) {
        return draft.judged(facts, said);
    }
    let foreign = matches!(facts.vm, Vm::Foreign(_));
    // What carries the name of a machine of somebody else may be theirs.
    let volumes = if foreign { &[][..] } else { &facts.input.platform.volumes[..] };
    for volume in volumes.iter().filter(|volume| volume.deleting.is_none()) {
        draft.act(facts, Action::DeleteVolume { volume: volume.name.clone(), uid: volume.uid.clone() });
    }
    if let Some(node) = facts.node.filter(|node| node.deleting.is_none()) {
        drain::bury(facts, draft);
        draft.step(facts, Step::DeleteNode { node: node.name.clone(), uid: node.uid.clone() });
    }
    if let Some((reason, message)) = facts.frozen() {
        return draft.judged(facts, Said::new(Phase::Deleting, reason, message));
    }
    if !volumes.is_empty() {
        let names: Vec<String> = volumes.iter().map(|volume| volume.name.clone()).collect();
        let message = format!("removing its volumes: {}", text::some_of(&names));
        return draft.judged(facts, Said::new(Phase::Deleting, reasons::REMOVING_VOLUMES, message));
    }
    if let Some(node) = facts.node.filter(|_| facts.tenant_up()) {
        let message = format!("removing Node {}", node.name);
        return draft.judged(facts, Said::new(Phase::Deleting, reasons::REMOVING_NODE, message));
    }
    if !foreign && facts.input.platform.user_data_stored {
        draft.act(facts, Action::EraseUserData { machine: facts.input.machine.name.clone() });
    }
    draft.step(facts, Step::RemoveFinalizer);
    draft.observed(facts, Phase::Gone);
    Said::new(Phase::Gone, reasons::GONE, "nothing is left of it")
}

/// Why it is not certain that nothing runs of it any more.
fn not_gone_yet(facts: &Facts, draft: &mut Draft) -> Option<Said> {
    if let Some((reason, message)) = facts.frozen().filter(|_| !facts.infra_up()) {
        return Some(Said::new(Phase::Deleting, reason, message));
    }
    let doubt = fencing::vm_is_gone(facts).err()?;
    if let Some(instance) = facts.instance() {
        return Some(match fencing::verdict_of(facts, Some(instance)) {
            Verdict::InDoubt(doubt) => Said { phase: Phase::Stopping, ..fencing::no_proof(&doubt) },
            Verdict::Dead(proof) => {
                fencing::fence(facts, draft, instance, proof);
                Said::new(Phase::Stopping, reasons::STOPPING, doubt)
            }
            Verdict::Alive => Said::new(Phase::Stopping, reasons::STOPPING, doubt),
        });
    }
    let ready = facts.node.is_some_and(|node| matches!(node.ready, NodeReady::Yes(_)));
    let reason = if ready { reasons::NODE_STILL_READY } else { reasons::VM_NOT_SEEN };
    Some(Said::new(Phase::Deleting, reason, doubt).unwell())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Blocked, SiteHealth};
    use super::*;
    use trellis_platform::{HostState, InstanceState};

    /// A machine that goes, its Node empty and its VM removed.
    fn after_vm() -> Scene {
        let mut scene = Scene::going();
        scene.machine.record.vm_removal_seen = true;
        scene.platform.vm = None;
        scene
    }

    #[test]
    fn a_whole_removal_in_its_order() {
        let mut scene = Scene::going();
        scene.platform.user_data_stored = true;
        scene.wish = Err(Blocked::BadSpec("its flavor is gone".to_owned()));
        scene.pods = Some(Vec::new());
        scene.remember(100);
        assert_eq!(words(&scene.remember(101)), ["cordon", "delete"]);
        scene.platform.vm.as_mut().unwrap().deleting = Some(at(101));
        let plan = scene.remember(102);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.phase, Phase::Stopping);
        scene.platform.vm = None;
        let plan = scene.remember(103);
        assert_eq!(
            words(&plan),
            ["delete-volume", "delete-node"],
            "a removal that was seen explains the ready Node"
        );
        assert_eq!(plan.status.phase, Phase::Deleting);
        scene.platform.volumes[0].deleting = Some(at(103));
        scene.node = None;
        assert!(scene.remember(104).steps.is_empty());
        scene.platform.volumes.clear();
        let plan = scene.remember(105);
        assert_eq!(words(&plan), ["erase", "release"]);
        assert_eq!(plan.status.phase, Phase::Gone);
    }

    #[test]
    fn a_machine_that_is_held_is_not_touched() {
        let mut scene = Scene::going();
        scene.held = Some("its member of etcd has not left");
        let plan = scene.plan(101);
        assert!(plan.steps.is_empty());
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Draining, reasons::HELD));
        assert_eq!(plan.status.message, "its member of etcd has not left");
        scene.held = None;
        scene.pods = Some(Vec::new());
        assert!(words(&scene.remember(102)).is_empty(), "that it is drained is recorded first");
        assert!(words(&scene.remember(103)).contains(&"cordon"));
    }

    #[test]
    fn nothing_to_remove_is_let_go_at_once() {
        let mut scene = Scene::new(mk_wish());
        scene.machine.deleting = Some(at(10));
        assert!(scene.plan(11).steps.is_empty(), "without a finalizer it goes by itself");
        scene.machine.finalizer = true;
        assert_eq!(words(&scene.plan(11)), ["release"]);
    }

    #[test]
    fn a_machine_that_never_ran_needs_no_tenant_to_go() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Scheduling(None))));
        scene.machine.deleting = Some(at(20));
        scene.sites.tenant = SiteHealth::Down(at(0));
        assert_eq!(words(&scene.plan(21)), ["delete"]);
    }

    #[test]
    fn removal_waits_where_it_needs_a_site_that_is_down() {
        let down = SiteHealth::Down(at(90));
        let mut scene = Scene::going();
        scene.pods = Some(vec![mk_pod("web")]);
        scene.machine.record.drain_started = Some(at(100));
        scene.sites.infra = down;
        assert_eq!(words(&scene.plan(101)), ["cordon", "evict"], "the drain needs the tenant alone");
        scene.pods = Some(Vec::new());
        assert_eq!(words(&scene.plan(101)), ["cordon"], "the VM waits");

        let mut scene = after_vm();
        scene.sites.infra = down;
        assert!(scene.plan(101).steps.is_empty(), "that the VM is gone was seen through the infra");
        let mut scene = after_vm();
        scene.sites.tenant = down;
        let plan = scene.plan(101);
        assert_eq!(words(&plan), ["delete-volume"]);
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Deleting, reasons::TENANT_UNREACHABLE));
    }

    #[test]
    fn a_ready_node_without_a_vm_is_a_riddle() {
        let mut scene = after_vm();
        scene.machine.record.vm_removal_seen = false;
        let plan = scene.remember(101);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.reason, reasons::NODE_STILL_READY);
        scene.node_is(NodeReady::Silent(at(140)));
        assert_eq!(words(&scene.plan(150)), ["delete-volume", "delete-node"]);
    }

    #[test]
    fn the_node_of_another_machine_stays() {
        let mut scene = after_vm();
        scene.platform.volumes.clear();
        scene.node.as_mut().unwrap().system_uuid = "uuid-2".to_owned();
        assert_eq!(words(&scene.plan(101)), ["release"]);
    }

    #[test]
    fn what_carries_the_name_of_somebody_elses_machine_stays() {
        let mut scene = after_vm();
        scene.node = None;
        let mut other = mk_vm(None);
        other.uid = "vm-2".to_owned();
        scene.platform.vm = Some(other);
        scene.platform.user_data_stored = true;
        assert_eq!(words(&scene.plan(101)), ["release"]);
    }

    #[test]
    fn a_vm_that_does_not_stop_is_ended_only_with_proof() {
        let mut scene = Scene::going();
        scene.platform.vm.as_mut().unwrap().deleting = Some(at(101));
        scene.host(HostState::Silent(at(95)));
        let plan = scene.remember(102);
        assert!(plan.steps.is_empty());
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Stopping, reasons::NO_PROOF));
        let late = scene.plan(9000);
        assert!(late.steps.is_empty(), "time is no proof");
        scene.host(HostState::Gone);
        assert!(scene.plan(9000).steps.is_empty(), "nor is an object that is gone while the Node reports");
        scene.node_is(NodeReady::Silent(at(8900)));
        assert_eq!(words(&scene.plan(9000)), ["fence"]);
    }

    #[test]
    fn a_run_without_its_vm_keeps_the_volumes() {
        let mut scene = after_vm();
        scene.platform.leftover = Some(mk_instance(InstanceState::Running));
        let plan = scene.plan(101);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.phase, Phase::Stopping);
    }

    #[test]
    fn a_paused_machine_is_not_removed() {
        let mut scene = after_vm();
        scene.machine.flags.paused = true;
        assert!(scene.plan(101).steps.is_empty());
    }
}
