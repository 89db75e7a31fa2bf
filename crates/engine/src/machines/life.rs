//! A machine on its way to its first Node.

use trellis_platform::{Action, ImageState, Instance, InstanceState, VmSeen, VolumeSeen, VolumeState};

use super::draft::{Draft, Said};
use super::facts::Facts;
use super::fencing::{self, Verdict};
use super::input::{Blocked, pause};
use super::status::Phase;
use super::step::Step;
use super::{reasons, text};

/// A machine of which nothing exists: what is missing before it can be made, or the steps that make it.
pub(super) fn not_made(facts: &Facts, draft: &mut Draft) -> Said {
    if let Some((reason, message)) = facts.frozen() {
        return Said::new(Phase::Pending, reason, message);
    }
    let wish = match facts.input.wish {
        Ok(wish) => wish,
        Err(blocked) => return blocked_by(facts, draft, blocked),
    };
    if let Some(run) = &facts.input.platform.leftover {
        let message = format!("a run of its name ({}) has no VM any more and has not ended", run.uid);
        return Said::new(Phase::Pending, reasons::NAME_TAKEN, message).unwell();
    }
    if let Some(said) = image(facts) {
        return draft.judged(facts, said);
    }
    if let Some(said) = resting(facts, draft) {
        return said;
    }
    claim(facts, draft);
    if !facts.input.platform.user_data_stored {
        draft.act(facts, Action::StoreUserData(wish.clone()));
    }
    draft.act(facts, Action::Create(wish.clone()));
    Said::new(Phase::Pending, reasons::NOT_MADE_YET, "nothing of it exists yet")
}

/// Makes the Machine say that something of it may exist, before anything does, and what its provider id is.
pub(super) fn claim(facts: &Facts, draft: &mut Draft) {
    let machine = facts.input.machine;
    if !machine.finalizer {
        draft.step(facts, Step::AddFinalizer);
    }
    if machine.provider_id.is_none() {
        let id = facts.input.provider_id.of(facts.input.infra_namespace, &machine.name);
        draft.step(facts, Step::SetProviderId(id));
    }
}

/// A machine whose name is taken by a VM of somebody else.
pub(super) fn name_taken(facts: &Facts, vm: &VmSeen) -> Said {
    let name = &facts.input.machine.name;
    let of =
        if vm.cluster.is_empty() { "somebody else".to_owned() } else { format!("cluster {}", vm.cluster) };
    let message = format!("a VM {name} of {of} exists ({}): it is not touched", vm.uid);
    Said::new(Phase::Pending, reasons::NAME_TAKEN, message).unwell()
}

fn blocked_by(facts: &Facts, draft: &mut Draft, blocked: &Blocked) -> Said {
    if let Blocked::Throttled { until, .. } = blocked {
        draft.wake(facts, *until, "NextTry");
    }
    let phase = if matches!(blocked, Blocked::BadSpec(_)) { Phase::Failed } else { Phase::Pending };
    Said::new(phase, blocked.reason(), blocked.message())
}

/// The image it is cloned from, while that is not ready.
fn image(facts: &Facts) -> Option<Said> {
    let image = facts.input.platform.image.as_ref()?;
    let name = &image.name;
    let (reason, message) = match &image.state {
        ImageState::Ready => return None,
        ImageState::Missing => {
            (reasons::IMAGE_MISSING, format!("the import of the image {name} has not begun"))
        }
        ImageState::Importing(done) => {
            (reasons::IMAGE_IMPORTING, format!("importing the image {name}{}", text::progress(*done)))
        }
        ImageState::Failed(why) => {
            let said = format!("the image {name} cannot be imported: {why}");
            return Some(Said::new(Phase::ImageImporting, reasons::IMAGE_FAILED, said).unwell());
        }
    };
    Some(Said::new(Phase::ImageImporting, reason, message))
}

/// The pause after making it failed.
fn resting(facts: &Facts, draft: &mut Draft) -> Option<Said> {
    let (times, Some(last)) = draft.record.create_failures else { return None };
    let limits = facts.input.deadlines;
    let until = text::after(last, pause(limits.create_pause, limits.create_pause_most, times));
    if times == 0 || facts.now >= until {
        return None;
    }
    draft.wake(facts, until, "NextTry");
    let why = facts.input.machine.create_trouble.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let message =
        format!("making it failed {times} times in a row{why}; tried again at {}", text::clock(until));
    Some(Said::new(Phase::Pending, reasons::CREATE_FAILED, message).unwell())
}

/// A machine that exists and whose Node has never been ready.
pub(super) fn coming_up(facts: &Facts, draft: &mut Draft, vm: &VmSeen) -> Said {
    if let Some(instance) = &vm.instance {
        match fencing::verdict_of(facts, Some(instance)) {
            Verdict::Dead(proof) => {
                if let Some(message) = fencing::fence(facts, draft, instance, proof) {
                    let said = Said::new(Phase::Starting, reasons::FENCED, message).unwell();
                    return draft.judged(facts, said);
                }
            }
            Verdict::InDoubt(doubt) => return fencing::no_proof(&doubt),
            Verdict::Alive => {}
        }
    }
    if let Some(said) = draft.health_check(facts) {
        return said;
    }
    let said = match &vm.instance {
        None => not_started(facts, vm),
        Some(instance) => started(facts, vm, instance),
    };
    draft.judged(facts, said)
}

fn not_started(facts: &Facts, vm: &VmSeen) -> Said {
    if let Some(said) = volumes(&facts.input.platform.volumes) {
        return said;
    }
    if let Some((reason, message)) = crash_loop(vm) {
        return Said::new(Phase::Starting, reason, message).unwell();
    }
    match &vm.trouble {
        Some(why) => Said::new(Phase::Creating, reasons::START_REFUSED, why.clone()).unwell(),
        None => Said::new(Phase::Creating, reasons::NOT_STARTED, "the platform has not started it yet"),
    }
}

/// A machine that ends again and again, for people; the same words for one that had a Node.
pub(super) fn crash_loop(vm: &VmSeen) -> Option<(&'static str, String)> {
    let (times, next) = vm.crash_loop?;
    let next = next.map(|at| format!("; started again at {}", text::clock(at))).unwrap_or_default();
    let why = vm.trouble.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Some((reasons::CRASH_LOOP, format!("it ended {times} times in a row{why}{next}")))
}

/// The volume that is furthest from ready: one that failed, one that waits, one that is filled.
fn volumes(volumes: &[VolumeSeen]) -> Option<Said> {
    let rank = |volume: &&VolumeSeen| match &volume.state {
        VolumeState::Failed(_) => 0,
        VolumeState::Waiting(_) => 1,
        VolumeState::Filling { progress, .. } => 2 + u32::from(progress.unwrap_or(0)),
        VolumeState::Ready => u32::MAX,
    };
    let volume = volumes.iter().min_by_key(rank)?;
    let name = &volume.name;
    let said = |reason, message| Some(Said::new(Phase::Creating, reason, message));
    match &volume.state {
        VolumeState::Ready => None,
        VolumeState::Failed(why) => {
            let message = format!("the volume {name} cannot be filled: {why}");
            Some(Said::new(Phase::Creating, reasons::VOLUME_FAILED, message).unwell())
        }
        VolumeState::Waiting(why) => said(reasons::VOLUME_WAITING, format!("the volume {name} waits: {why}")),
        VolumeState::Filling { way, progress } => {
            let done = text::progress(*progress);
            said(reasons::VOLUME_FILLING, format!("filling the volume {name} by {way}{done}"))
        }
    }
}

fn started(facts: &Facts, vm: &VmSeen, instance: &Instance) -> Said {
    match &instance.state {
        InstanceState::Pending => not_started(facts, vm),
        InstanceState::Scheduling(None) => {
            Said::new(Phase::Scheduling, reasons::LOOKING_FOR_HOST, "looking for a host")
        }
        InstanceState::Scheduling(Some(why)) => {
            Said::new(Phase::Scheduling, reasons::UNSCHEDULABLE, why.clone())
        }
        InstanceState::Starting => {
            Said::new(Phase::Starting, reasons::STARTING, on_host("starting", instance))
        }
        InstanceState::Running => waiting_for_node(facts),
        InstanceState::Paused => {
            Said::new(Phase::Joining, reasons::GUEST_PAUSED, on_host("held", instance)).unwell()
        }
        InstanceState::Succeeded | InstanceState::Failed(_) => {
            let (reason, message) =
                crash_loop(vm).unwrap_or_else(|| (reasons::INSTANCE_ENDED, ended(instance)));
            Said::new(Phase::Starting, reason, message).unwell()
        }
        InstanceState::Unknown => fencing::no_proof("its host does not report it"),
    }
}

/// What became of a run that has ended, for people.
pub(super) fn ended(instance: &Instance) -> String {
    match &instance.state {
        InstanceState::Failed(why) => format!("it ended and is started again: {why}"),
        _ => "it ended and is started again".to_owned(),
    }
}

fn on_host(what: &str, instance: &Instance) -> String {
    match &instance.host {
        Some(host) => format!("{what} on host {}", host.name),
        None => what.to_owned(),
    }
}

fn waiting_for_node(facts: &Facts) -> Said {
    let name = &facts.input.machine.name;
    if facts.tenant_absent() {
        return Said::new(
            Phase::Joining,
            reasons::WAITING_FOR_NODE,
            "waiting for the tenant's control plane",
        );
    }
    if facts.node.is_some() {
        let message = format!("waiting for Node {name} to be ready for the first time");
        return Said::new(Phase::Joining, reasons::NODE_NOT_READY, message);
    }
    if let Some(stranger) = facts.stranger {
        let message =
            format!("Node {name} is another machine's, with the system UUID {}", stranger.system_uuid);
        return Said::new(Phase::Joining, reasons::NODE_NAME_TAKEN, message).unwell();
    }
    Said::new(Phase::Joining, reasons::WAITING_FOR_NODE, "waiting for its first boot: no Node has joined yet")
}

#[cfg(test)]
mod tests {
    use super::super::input::Blocked;
    use super::super::testing::*;
    use super::super::{NodeReady, SiteHealth, conditions};
    use super::*;
    use trellis_platform::{HostState, ImageSeen};

    #[test]
    fn a_machine_is_claimed_then_told_then_made() {
        let mut scene = Scene::new(mk_wish());
        assert_eq!(words(&scene.plan(0)), ["finalizer", "provider-id", "secret", "create"]);
        scene.machine.finalizer = true;
        scene.platform.user_data_stored = true;
        scene.machine.provider_id = Some("kubermatic://other".to_owned());
        assert_eq!(
            words(&scene.plan(0)),
            ["create"],
            "what is there is not done again, nor is a provider id changed"
        );
    }

    #[test]
    fn nothing_is_made_while_something_is_missing() {
        let until = at(30);
        let cases = [
            (Blocked::BadSpec("no such flavor".to_owned()), Phase::Failed, reasons::BAD_SPEC),
            (Blocked::UserDataMissing("no Secret".to_owned()), Phase::Pending, reasons::USER_DATA_MISSING),
            (Blocked::ClusterMissing("no cluster".to_owned()), Phase::Pending, reasons::CLUSTER_MISSING),
            (Blocked::Frozen("too many".to_owned()), Phase::Pending, reasons::FROZEN),
            (Blocked::Throttled { until, why: "quota".to_owned() }, Phase::Pending, reasons::THROTTLED),
        ];
        for (blocked, phase, reason) in cases {
            let mut scene = Scene::new(mk_wish());
            let wakes = matches!(blocked, Blocked::Throttled { .. }).then_some(until);
            scene.wish = Err(blocked);
            let plan = scene.plan(0);
            assert_eq!((plan.status.phase, plan.status.reason), (phase, reason));
            assert!(plan.steps.is_empty(), "{reason}");
            assert_eq!(plan.wake.map(|wake| wake.at), wakes);
        }
    }

    #[test]
    fn nothing_is_made_on_a_site_that_is_down() {
        for (infra, tenant) in
            [(SiteHealth::Down(at(0)), SiteHealth::Up), (SiteHealth::Up, SiteHealth::Down(at(0)))]
        {
            let mut scene = Scene::new(mk_wish());
            (scene.sites.infra, scene.sites.tenant) = (infra, tenant);
            assert!(scene.plan(1).steps.is_empty());
        }
        let mut scene = Scene::new(mk_wish());
        scene.sites.tenant = SiteHealth::Absent;
        assert!(!scene.plan(1).steps.is_empty(), "a control plane is made before there is a tenant");
    }

    #[test]
    fn the_image_is_waited_for_and_its_progress_is_said() {
        let mut scene = Scene::new(mk_wish());
        let image = |state| Some(ImageSeen { name: "ubuntu".to_owned(), state });
        scene.platform.image = image(ImageState::Importing(Some(43)));
        let plan = scene.remember(0);
        assert_eq!(plan.status.phase, Phase::ImageImporting);
        assert_eq!(plan.status.message, "importing the image ubuntu, 40 %");
        assert!(plan.steps.is_empty());
        let late = scene.plan(3600);
        assert_eq!(late.status.phase, Phase::ImageImporting, "another machine would wait for the same image");
        assert!(late.steps.is_empty() && late.status.message.contains("should have ended by"));
        scene.platform.image = image(ImageState::Ready);
        assert!(words(&scene.plan(3600)).contains(&"create"));
    }

    #[test]
    fn failures_to_make_it_are_followed_by_longer_pauses() {
        for (times, pause) in [(1, 5), (2, 10), (4, 40), (30, 300)] {
            let mut scene = Scene::new(mk_wish());
            scene.machine.record.create_failures = (times, Some(at(0)));
            let plan = scene.plan(pause - 1);
            assert!(plan.steps.is_empty(), "{times}");
            assert_eq!(plan.wake.map(|wake| wake.at), Some(at(pause)));
            assert!(words(&scene.plan(pause)).contains(&"create"), "{times}");
        }
    }

    #[test]
    fn the_phase_follows_the_platform() {
        let run = |state| Some(mk_instance(state));
        let none = "3 lack memory".to_owned();
        let cases = [
            (None, Phase::Creating, reasons::NOT_STARTED),
            (run(InstanceState::Pending), Phase::Creating, reasons::NOT_STARTED),
            (run(InstanceState::Scheduling(None)), Phase::Scheduling, reasons::LOOKING_FOR_HOST),
            (run(InstanceState::Scheduling(Some(none))), Phase::Scheduling, reasons::UNSCHEDULABLE),
            (run(InstanceState::Starting), Phase::Starting, reasons::STARTING),
            (run(InstanceState::Running), Phase::Joining, reasons::WAITING_FOR_NODE),
            (run(InstanceState::Paused), Phase::Joining, reasons::GUEST_PAUSED),
            (run(InstanceState::Failed("oom".to_owned())), Phase::Starting, reasons::INSTANCE_ENDED),
            (run(InstanceState::Unknown), Phase::Unknown, reasons::NO_PROOF),
        ];
        for (instance, phase, reason) in cases {
            let told = format!("{instance:?}");
            let plan = Scene::made(instance).plan(40);
            assert_eq!((plan.status.phase, plan.status.reason), (phase, reason), "{told}");
            assert!(plan.steps.is_empty(), "{told}");
        }
    }

    #[test]
    fn the_volume_that_is_furthest_behind_is_said() {
        let filling = |progress| VolumeState::Filling { way: "clone".to_owned(), progress: Some(progress) };
        let cases = [
            (vec![VolumeState::Ready, filling(43)], "filling the volume demo-0-root by clone, 40 %"),
            (
                vec![filling(10), VolumeState::Waiting("quota".to_owned())],
                "the volume demo-0-root waits: quota",
            ),
            (
                vec![filling(10), VolumeState::Failed("404".to_owned())],
                "the volume demo-0-root cannot be filled: 404",
            ),
        ];
        for (states, message) in cases {
            let mut scene = Scene::made(None);
            scene.platform.volumes = states.into_iter().map(mk_volume).collect();
            assert_eq!(scene.plan(20).status.message, message);
        }
    }

    #[test]
    fn a_machine_that_is_late_is_replaced_if_its_set_may() {
        let cases = [
            (true, true, false, vec!["replace"]),
            (true, false, false, vec![]),
            (false, true, false, vec![]),
            (true, true, true, vec![]),
        ];
        for (in_set, may_replace, preserve, steps) in cases {
            let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
            scene.rights.in_set = in_set;
            scene.rights.may_replace = may_replace;
            scene.machine.flags.preserve = preserve;
            let first = scene.remember(40);
            assert_eq!(first.wake.map(|wake| wake.at), Some(at(40 + 20 * 60)));
            let plan = scene.remember(40 + 20 * 60);
            assert_eq!(words(&plan), steps);
            assert_eq!((plan.status.phase, plan.status.reason), (Phase::Failed, reasons::LATE));
            let again = scene.plan(40 + 21 * 60);
            assert_eq!(again.status, plan.status, "it stays failed, in the same words");
        }
    }

    #[test]
    fn one_that_joins_after_all_is_not_failed_any_more() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.rights.in_set = false;
        scene.remember(40);
        assert_eq!(scene.remember(5000).status.phase, Phase::Failed);
        scene.node = Some(mk_node(&scene.node_wish));
        assert_eq!(scene.plan(5001).status.phase, Phase::Running);
    }

    #[test]
    fn one_that_crashes_again_and_again_is_late_all_the_same() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.remember(40);
        for seconds in (100..1200).step_by(100) {
            scene.instance().state = InstanceState::Scheduling(None);
            scene.remember(seconds);
            scene.instance().state = InstanceState::Running;
            scene.remember(seconds + 50);
        }
        assert_eq!(scene.plan(40 + 20 * 60).status.phase, Phase::Failed);
    }

    #[test]
    fn a_health_check_may_give_up_on_a_machine_that_comes_up() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.machine.flags.unhealthy = true;
        assert_eq!(words(&scene.plan(40)), ["replace"]);
        scene.sites.tenant = SiteHealth::Down(at(30));
        assert!(scene.plan(40).steps.is_empty());
    }

    #[test]
    fn an_outage_gives_everything_its_time_again() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.remember(40);
        scene.sites.infra = SiteHealth::Down(at(50));
        let frozen = scene.plan(9000);
        assert!(frozen.steps.is_empty() && frozen.status.phase == Phase::Joining);
        assert!(frozen.status.conditions.iter().any(|one| one.kind == conditions::FROZEN));
        scene.sites.infra = SiteHealth::Up;
        scene.calm_since = Some(at(9000));
        let plan = scene.plan(9001);
        assert_eq!(plan.status.phase, Phase::Joining);
        assert_eq!(plan.wake.map(|wake| wake.at), Some(at(9000 + 20 * 60)));
    }

    #[test]
    fn no_host_for_it_is_said_and_not_answered_with_another_machine() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Scheduling(Some("full".to_owned())))));
        scene.remember(40);
        let plan = scene.plan(40 + 15 * 60);
        assert_eq!(plan.status.phase, Phase::Scheduling);
        assert!(plan.steps.is_empty() && plan.status.message.contains("full"));
    }

    #[test]
    fn the_vm_of_somebody_else_is_not_touched() {
        for (cluster, machine_uid) in
            [("other", None), ("", None), (CLUSTER, Some("machine-0")), ("", Some("x"))]
        {
            let mut scene = Scene::new(mk_wish());
            let mut vm = mk_vm(Some(mk_instance(InstanceState::Running)));
            vm.cluster = cluster.to_owned();
            vm.machine_uid = machine_uid.map(str::to_owned);
            scene.platform.vm = Some(vm);
            let plan = scene.plan(40);
            assert_eq!(
                (plan.status.phase, plan.status.reason),
                (Phase::Pending, reasons::NAME_TAKEN),
                "{cluster}"
            );
            assert!(plan.steps.is_empty());
            assert_eq!(plan.status.record.vm_uid, None);
        }
    }

    #[test]
    fn a_vm_that_others_made_for_this_machine_is_taken_over() {
        let mut scene = Scene::new(mk_wish());
        let mut vm = mk_vm(Some(mk_instance(InstanceState::Running)));
        (vm.cluster, vm.machine_uid) = (String::new(), None);
        scene.platform.vm = Some(vm);
        scene.machine.provider_id = Some(format!("kubevirt://{NAME}"));
        let plan = scene.plan(40);
        assert_eq!(words(&plan), ["finalizer"]);
        assert_eq!(plan.status.record.vm_uid.as_deref(), Some("vm-1"));
    }

    #[test]
    fn a_dead_host_is_fenced_before_the_first_boot_too() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.host(HostState::OutOfService);
        scene.instance().state = InstanceState::Unknown;
        let plan = scene.plan(40);
        assert_eq!((words(&plan), plan.status.reason), (vec!["fence"], reasons::FENCED));
        scene.host(HostState::Silent(at(39)));
        assert!(scene.plan(40).steps.is_empty());
    }

    #[test]
    fn the_first_boot_counts_when_the_node_is_ready() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.node = Some(mk_node(&scene.node_wish));
        scene.node_is(NodeReady::Never);
        assert_eq!(scene.remember(55).status.phase, Phase::Joining);
        scene.node_is(NodeReady::Yes(at(60)));
        let plan = scene.remember(61);
        assert_eq!(plan.status.phase, Phase::Running);
        assert!(plan.steps.is_empty() && plan.patience.is_zero(), "that it has joined is said first");
        assert_eq!(plan.status.record.joined, Some(at(60)));
        assert!(plan.happenings.iter().any(|one| one.reason == reasons::JOINED));
        assert_eq!(words(&scene.plan(61)), ["erase"], "what was secret of the first boot goes");
    }
}
