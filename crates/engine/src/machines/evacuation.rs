//! A host is to be emptied, and a machine is on it.
//!
//! It moves while it runs if it can, within a deadline. If it cannot or did not, its Node is drained as for a removal,
//! as soon as the tenant's disruption budget allows, and then another machine takes its place; one that belongs to no
//! set is started anew on another host instead. When the host takes work again, everything is taken back.
//!
//! Whoever evicts a single machine from a host that takes work all the time is heard, too: only a host that refused work
//! and then takes it again calls an eviction off, and that one stays void for this run.

use jiff::Timestamp;
use trellis_platform::{Action, Evacuation, Instance, MigrationSeen, MigrationState, VmSeen};

use super::draft::{Draft, Said};
use super::drain::{self, Drain};
use super::facts::Facts;
use super::seen::NodeSeen;
use super::status::Phase;
use super::step::Step;
use super::{reasons, text};
use crate::Deadline;

/// What an evacuation asks for; nothing when there is none.
pub(super) fn plan(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Option<Said> {
    if !facts.infra_up() || facts.input.machine.flags.paused {
        return None;
    }
    let instance = vm.instance.as_ref();
    if instance.is_none_or(|instance| instance.evacuation.is_none()) {
        (draft.record.evacuation_cordoned, draft.record.evacuation_void) = (false, None);
    }
    let wanted = instance.filter(|_| facts.runs()).and_then(|instance| {
        let evacuation = instance.evacuation.as_ref().filter(|one| is_wanted(draft, instance, one))?;
        Some((instance, evacuation))
    });
    let Some((instance, evacuation)) = wanted else {
        take_back(facts, draft, instance);
        return None;
    };
    if draft.record.evacuation_started.is_none() {
        draft.happened(false, reasons::EVACUATING, format!("it is to leave host {}", evacuation.host));
    }
    let started = *draft.record.evacuation_started.get_or_insert(facts.now);
    Some(leave(facts, draft, instance, evacuation, started))
}

/// Whether an eviction stands. What is seen of its host is recorded, so that it can be called off later.
fn is_wanted(draft: &mut Draft, instance: &Instance, evacuation: &Evacuation) -> bool {
    let record = &mut draft.record;
    if evacuation.host_cordoned {
        (record.evacuation_cordoned, record.evacuation_void) = (true, None);
        return true;
    }
    if std::mem::take(&mut record.evacuation_cordoned) {
        record.evacuation_void = Some(instance.uid.clone());
    }
    record.evacuation_void.as_ref() != Some(&instance.uid)
}

/// Moves it, or drains it and lets another take its place.
fn leave(
    facts: &Facts,
    draft: &mut Draft,
    instance: &Instance,
    evacuation: &Evacuation,
    started: Timestamp,
) -> Said {
    let host = &evacuation.host;
    let phase = if draft.record.joined.is_some() { Phase::Running } else { Phase::Joining };
    draft.observed(facts, phase);
    if let Some((reason, message)) = facts.frozen() {
        return Said::new(phase, reason, format!("it is to leave host {host}, but {message}"));
    }
    if draft.record.drain_started.is_none() {
        let why = match moving(facts, draft, instance, started) {
            Ok(message) => {
                return Said::new(phase, reasons::MIGRATING, format!("leaving host {host}: {message}"));
            }
            Err(why) => why,
        };
        if !facts.input.rights.may_disrupt {
            let message =
                format!("it is to leave host {host}, but {why}, and the disruption budget is used up");
            return Said::new(phase, reasons::DISRUPTION_BUDGET, message);
        }
    }
    match drain::plan(facts, draft) {
        Drain::Going(said) => Said { message: format!("leaving host {host}: {}", said.message), ..said },
        Drain::Done => give_up_place(facts, draft, instance, host),
    }
}

/// Moves it while it runs: how that goes, or why it does not.
fn moving(
    facts: &Facts,
    draft: &mut Draft,
    instance: &Instance,
    started: Timestamp,
) -> Result<String, String> {
    if let Some(Err(why)) = &instance.migratable {
        return Err(format!("it cannot move while it runs ({why})"));
    }
    let due = text::after(facts.counted_from(started), facts.input.deadlines.migration);
    let migration = instance.migration.as_ref();
    if facts.now >= due {
        cancel(facts, draft, instance);
        return Err(format!("it had not moved by {}", text::clock(due)));
    }
    let latest = migration.filter(|migration| {
        migration.created >= started || matches!(migration.state, MigrationState::Going(_))
    });
    let said = match latest.map(|migration| &migration.state) {
        Some(MigrationState::Failed(why)) => return Err(format!("its move failed ({why})")),
        Some(MigrationState::Going(word)) => format!("it moves ({word})"),
        Some(MigrationState::Succeeded) => "it has moved".to_owned(),
        // A run that has just begun is not judged yet: that is no reason to drain its Node.
        None if instance.migratable.is_none() => "it is not known yet whether it can move".to_owned(),
        None => {
            let machine = facts.input.machine.name.clone();
            draft.act(facts, Action::Migrate { machine, instance_uid: instance.uid.clone() });
            "it is asked to move".to_owned()
        }
    };
    draft.deadline = Some(Deadline { at: due, of: "Migration" });
    draft.wake(facts, due, "Migration");
    Ok(format!("{said}, until {}", text::clock(due)))
}

/// Takes back a move that we asked for and that goes on.
fn cancel(facts: &Facts, draft: &mut Draft, instance: &Instance) {
    let going = |migration: &&MigrationSeen| matches!(migration.state, MigrationState::Going(_));
    if let Some(migration) = instance.migration.as_ref().filter(|migration| migration.ours).filter(going) {
        draft.act(facts, Action::CancelMigration { migration: migration.name.clone() });
    }
}

/// The Node is empty: another machine takes its place, or it starts anew elsewhere.
fn give_up_place(facts: &Facts, draft: &mut Draft, instance: &Instance, host: &str) -> Said {
    let replaceable = facts.input.rights.in_set && !facts.input.machine.flags.preserve;
    if replaceable {
        draft.happened(false, reasons::REPLACED, format!("replaced: it is to leave host {host}"));
        draft.step(facts, Step::DeleteMachine);
        let message = format!("it is to leave host {host}: its Node is empty, and another takes its place");
        return Said::new(Phase::Draining, reasons::EVACUATING, message);
    }
    let machine = facts.input.machine.name.clone();
    draft.act(facts, Action::StopInstance { machine, instance_uid: instance.uid.clone(), force: false });
    let message = format!("it is to leave host {host}: its Node is empty, and it starts anew elsewhere");
    Said::new(Phase::Draining, reasons::EVACUATING, message)
}

/// Takes back what an evacuation that is over has done: the move we asked for, and the cordon of the Node. What was
/// recorded of it stays until the Node is seen to take pods again.
fn take_back(facts: &Facts, draft: &mut Draft, instance: Option<&Instance>) {
    if draft.record.evacuation_started.is_none() {
        return;
    }
    if let Some(instance) = instance {
        cancel(facts, draft, instance);
    }
    let drained = draft.record.drain_started.is_some();
    let vm_uid = &draft.record.vm_uid;
    let is_ours =
        |node: &&NodeSeen| node.cordoned && node.cordoned_for.is_some() && node.cordoned_for == *vm_uid;
    if let Some(node) = facts.node.filter(|node| drained && node.deleting.is_none()).filter(is_ours) {
        let (node, uid) = (node.name.clone(), node.uid.clone());
        draft.step(facts, Step::Cordon { node, uid, cordoned: false, vm_uid: None });
        return;
    }
    if drained && !facts.tenant_up() && !facts.tenant_absent() {
        return;
    }
    draft.record.evacuation_started = None;
    draft.record.drain_started = None;
    draft.record.emptied = None;
    draft.happened(false, reasons::EVACUATION_OVER, "it need not leave its host any more");
}

#[cfg(test)]
mod tests {
    use super::super::SiteHealth;
    use super::super::testing::*;
    use super::*;

    fn wanted(cordoned: bool) -> Evacuation {
        Evacuation { host: "host-1".to_owned(), host_cordoned: cordoned }
    }

    /// A machine that is to leave its host, seen so first at 100 s.
    fn leaving() -> Scene {
        let mut scene = Scene::joined();
        scene.instance().evacuation = Some(wanted(true));
        scene.pods = Some(vec![mk_pod("web")]);
        scene
    }

    fn migration(state: MigrationState) -> MigrationSeen {
        MigrationSeen { name: "move-1".to_owned(), ours: true, state, created: at(101) }
    }

    fn going() -> MigrationState {
        MigrationState::Going("Running".to_owned())
    }

    #[test]
    fn it_moves_while_it_runs_if_it_can() {
        let mut scene = leaving();
        let plan = scene.remember(100);
        assert_eq!(words(&plan), ["migrate"]);
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Running, reasons::MIGRATING));
        assert_eq!(plan.wake.as_ref().map(|wake| wake.at), Some(at(700)));
        scene.instance().migration = Some(migration(going()));
        let plan = scene.remember(110);
        assert!(plan.steps.is_empty());
        assert!(plan.status.message.contains("it moves (Running)"), "{}", plan.status.message);
        scene.instance().migration = Some(migration(MigrationState::Succeeded));
        scene.instance().evacuation = None;
        let plan = scene.plan(120);
        assert!(plan.steps.is_empty());
        assert_eq!((plan.status.reason, plan.status.record.evacuation_started), (reasons::NODE_READY, None));
    }

    #[test]
    fn what_cannot_move_or_did_not_is_drained_and_replaced() {
        type Change = fn(&mut Scene);
        let cases: [(&str, Change, i64); 3] = [
            ("it cannot", |scene| scene.instance().migratable = Some(Err("host disk".to_owned())), 101),
            (
                "its move failed",
                |scene| scene.instance().migration = Some(migration(MigrationState::Failed("x".to_owned()))),
                110,
            ),
            ("it is late", |_| {}, 700),
        ];
        for (what, change, when) in cases {
            let mut scene = leaving();
            scene.remember(100);
            change(&mut scene);
            let first = scene.remember(when);
            assert_eq!(first.status.phase, Phase::Draining, "{what}");
            assert_eq!(words(&scene.remember(when)), ["cordon", "evict"], "{what}");
            scene.node.as_mut().unwrap().cordoned = true;
            scene.pods = Some(Vec::new());
            assert_eq!(words(&scene.plan(when + 10)), ["replace"], "{what}");
        }
    }

    #[test]
    fn what_is_not_known_to_move_yet_is_waited_for_within_the_deadline() {
        let mut scene = leaving();
        scene.instance().migratable = None;
        let plan = scene.remember(100);
        assert!(plan.steps.is_empty(), "that it was not judged yet is no reason to drain it");
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Running, reasons::MIGRATING));
        assert_eq!(plan.wake.map(|wake| wake.at), Some(at(700)));
        scene.instance().migratable = Some(Ok(()));
        assert_eq!(words(&scene.plan(110)), ["migrate"]);
        scene.instance().migratable = None;
        assert_eq!(scene.plan(700).status.phase, Phase::Draining);
    }

    #[test]
    fn a_move_that_is_late_is_taken_back_before_the_drain() {
        let mut scene = leaving();
        scene.remember(100);
        scene.instance().migration = Some(migration(going()));
        assert_eq!(words(&scene.plan(700)), ["cancel-migration"]);
    }

    #[test]
    fn it_is_not_disrupted_beyond_the_budget_but_a_drain_that_began_goes_on() {
        let mut scene = leaving();
        scene.instance().migratable = Some(Err("host disk".to_owned()));
        scene.rights.may_disrupt = false;
        let plan = scene.remember(100);
        assert!(plan.steps.is_empty());
        assert_eq!((plan.status.phase, plan.status.reason), (Phase::Running, reasons::DISRUPTION_BUDGET));
        scene.rights.may_disrupt = true;
        scene.remember(101);
        scene.rights.may_disrupt = false;
        assert_eq!(words(&scene.plan(102)), ["cordon", "evict"]);
    }

    #[test]
    fn everything_is_taken_back_when_the_host_takes_work_again() {
        let mut scene = leaving();
        scene.remember(100);
        scene.instance().migration = Some(migration(going()));
        scene.instance().evacuation = Some(wanted(false));
        assert_eq!(words(&scene.plan(110)), ["cancel-migration"]);
        let mut scene = leaving();
        scene.instance().migratable = Some(Err("host disk".to_owned()));
        scene.remember(100);
        let node = scene.node.as_mut().unwrap();
        (node.cordoned, node.cordoned_for) = (true, Some("vm-1".to_owned()));
        scene.instance().evacuation = Some(wanted(false));
        let plan = scene.remember(110);
        assert_eq!(words(&plan), ["uncordon"]);
        assert!(plan.status.record.drain_started.is_some(), "until the Node is seen to take pods again");
        scene.node.as_mut().unwrap().cordoned = false;
        let plan = scene.plan(111);
        assert!(plan.steps.is_empty());
        assert_eq!((plan.status.record.drain_started, plan.status.record.evacuation_started), (None, None));
    }

    #[test]
    fn an_eviction_alone_is_heard_and_one_that_was_called_off_is_not() {
        let mut scene = leaving();
        scene.instance().evacuation = Some(wanted(false));
        assert_eq!(words(&scene.plan(100)), ["migrate"], "nobody cordoned the host");
        let mut scene = leaving();
        scene.remember(100);
        scene.instance().evacuation = Some(wanted(false));
        scene.remember(101);
        let plan = scene.plan(102);
        assert!(plan.steps.is_empty() && plan.status.record.evacuation_started.is_none());
        // The host is cordoned once more.
        scene.instance().evacuation = Some(wanted(true));
        assert_eq!(words(&scene.plan(103)), ["migrate"]);
        // Another run is another matter.
        scene.instance().evacuation = Some(wanted(false));
        scene.remember(104);
        scene.instance().uid = "run-2".to_owned();
        assert_eq!(words(&scene.plan(105)), ["migrate"]);
        // So is another eviction of the same run.
        let mut scene = leaving();
        scene.remember(100);
        scene.instance().evacuation = None;
        scene.remember(101);
        scene.instance().evacuation = Some(wanted(false));
        assert_eq!(words(&scene.plan(102)), ["migrate"]);
    }

    #[test]
    fn a_node_that_people_cordoned_stays_so() {
        let mut scene = leaving();
        scene.node.as_mut().unwrap().cordoned = true;
        scene.remember(100);
        scene.instance().evacuation = None;
        assert!(scene.plan(110).steps.is_empty());

        // Also where a drain had begun.
        let mut scene = leaving();
        scene.instance().migratable = Some(Err("host disk".to_owned()));
        scene.node.as_mut().unwrap().cordoned = true;
        scene.remember(100);
        assert_eq!(words(&scene.plan(101)), ["evict"]);
        scene.instance().evacuation = Some(wanted(false));
        let plan = scene.plan(110);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.status.record.drain_started, None);
    }

    #[test]
    fn one_without_a_set_starts_anew_elsewhere() {
        let mut scene = leaving();
        scene.rights.in_set = false;
        scene.instance().migratable = Some(Err("host disk".to_owned()));
        scene.remember(100);
        scene.node.as_mut().unwrap().cordoned = true;
        scene.pods = Some(Vec::new());
        assert_eq!(words(&scene.plan(110)), ["stop"]);
    }

    #[test]
    fn nothing_is_drained_while_a_site_is_down() {
        for (infra, tenant) in
            [(SiteHealth::Down(at(99)), SiteHealth::Up), (SiteHealth::Up, SiteHealth::Down(at(99)))]
        {
            let mut scene = leaving();
            scene.instance().migratable = Some(Err("host disk".to_owned()));
            (scene.sites.infra, scene.sites.tenant) = (infra, tenant);
            assert!(scene.plan(9000).steps.is_empty());
        }
    }
}
