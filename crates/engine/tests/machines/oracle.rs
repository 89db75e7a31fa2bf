//! What must hold for every plan, said independently of how plans are made.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trellis_engine::machines::{MachinePlan, NodeReady, PodSeen, SiteHealth, Step};
use trellis_platform::{Action, HostState, Instance, InstanceState};

use crate::testing::{CLUSTER, Scene};

/// Checks one plan against what it was made from. `made` are the VMs that steps of this machine made.
pub(crate) fn check(
    scene: &Scene,
    plan: &MachinePlan,
    now: Timestamp,
    made: &BTreeSet<String>,
) -> Result<(), String> {
    let steps = &plan.steps;
    rule(plan.wake.as_ref().is_none_or(|wake| wake.at > now), "a wake in the past")?;
    rule(!scene.machine.flags.paused || steps.is_empty(), "a paused machine is touched")?;
    for (at, step) in steps.iter().enumerate() {
        sites(scene, step)?;
        one(scene, step, &steps[..at], now, made)?;
    }
    Ok(())
}

fn rule(holds: bool, broken: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(broken.to_owned()) }
}

/// No step needs a site that is down, and none is taken for reasons seen through one.
fn sites(scene: &Scene, step: &Step) -> Result<(), String> {
    let infra = scene.sites.infra == SiteHealth::Up;
    let tenant = scene.sites.tenant == SiteHealth::Up;
    match step {
        Step::Platform(_) => rule(infra, "something is done on an infra that is down"),
        Step::DeleteNode { .. } => rule(infra && tenant, "a Node is removed although a site is down"),
        Step::DeleteMachine => rule(infra && tenant, "a machine is replaced although a site is down"),
        Step::RemoveFinalizer => rule(infra && tenant, "a machine is let go although a site is down"),
        Step::Cordon { .. } | Step::UpdateNode { .. } | Step::Evict { .. } | Step::DeletePod { .. } => {
            rule(tenant, "something is done on a tenant that is down")
        }
        Step::AddFinalizer | Step::SetProviderId(_) => Ok(()),
    }
}

fn one(
    scene: &Scene,
    step: &Step,
    before: &[Step],
    now: Timestamp,
    made: &BTreeSet<String>,
) -> Result<(), String> {
    let did = |what: fn(&Step) -> bool| before.iter().any(what);
    let seen = &scene.platform;
    let run = seen.vm.as_ref().and_then(|vm| vm.instance.as_ref()).or(seen.leftover.as_ref());
    match step {
        Step::Platform(Action::StoreUserData(_)) => rule(
            scene.machine.finalizer || did(|step| matches!(step, Step::AddFinalizer)),
            "a Secret before the finalizer",
        ),
        Step::Platform(Action::Create(_)) => {
            let stored = |step: &Step| matches!(step, Step::Platform(Action::StoreUserData(_)));
            rule(
                scene.machine.finalizer || did(|step| matches!(step, Step::AddFinalizer)),
                "a VM before the finalizer",
            )?;
            rule(seen.user_data_stored || before.iter().any(stored), "a VM before its Secret")?;
            rule(seen.vm.is_none() && seen.leftover.is_none(), "a second VM")?;
            rule(scene.machine.record.vm_uid.is_none(), "another VM for a machine that had one")?;
            rule(scene.machine.deleting.is_none(), "a VM for a machine that goes")
        }
        Step::Platform(Action::Delete { uid, .. }) => {
            rule(seen.vm.as_ref().is_some_and(|vm| vm.uid == *uid), "a VM is removed that was not seen")?;
            rule(made.contains(uid), "a VM of somebody else is removed")?;
            rule(scene.machine.deleting.is_some(), "the VM of a machine that stays is removed")?;
            rule(drained(scene, run, now), "a VM is removed before its Node is drained")
        }
        Step::Platform(Action::StopInstance { instance_uid, force, .. }) => {
            rule(run.is_some_and(|run| run.uid == *instance_uid), "a run is stopped that was not seen")?;
            let dead = run
                .and_then(|run| run.host.as_ref())
                .is_some_and(|host| matches!(host.state, HostState::Gone | HostState::OutOfService));
            rule(!force || dead, "a run is fenced without proof")
        }
        Step::Platform(Action::DeleteVolume { uid, .. }) => {
            rule(
                seen.volumes.iter().any(|volume| volume.uid == *uid),
                "a volume is removed that was not seen",
            )?;
            rule(seen.vm.is_none() && seen.leftover.is_none(), "a volume is removed under a machine")?;
            rule(scene.machine.deleting.is_some(), "a volume of a machine that stays is removed")
        }
        Step::DeleteNode { uid, .. } => {
            let node = scene.node.as_ref().filter(|node| node.uid == *uid);
            let node = node.ok_or("a Node is removed that was not seen")?;
            let own = made.iter().any(|vm| node.system_uuid == format!("uuid-of-{vm}"));
            rule(own, "the Node of another machine is removed")?;
            let gone = seen.vm.as_ref().is_none_or(|vm| vm.cluster != CLUSTER) && seen.leftover.is_none();
            rule(gone, "a Node is removed before its VM")?;
            let explained = scene.machine.record.vm_removal_seen || !matches!(node.ready, NodeReady::Yes(_));
            rule(explained, "a ready Node is removed on a riddle")
        }
        Step::RemoveFinalizer => {
            let foreign = seen.vm.as_ref().is_some_and(|vm| !made.contains(&vm.uid));
            let erased = |step: &Step| matches!(step, Step::Platform(Action::EraseUserData { .. }));
            rule(
                foreign || (seen.vm.is_none() && seen.volumes.is_empty()),
                "let go before everything is gone",
            )?;
            rule(foreign || !seen.user_data_stored || before.iter().any(erased), "let go with its Secret")
        }
        Step::DeletePod { force: true, .. } => {
            let gone = seen.vm.as_ref().is_none_or(|vm| !made.contains(&vm.uid)) && seen.leftover.is_none();
            let dead = run
                .and_then(|run| run.host.as_ref())
                .is_some_and(|host| matches!(host.state, HostState::Gone | HostState::OutOfService));
            rule(gone || dead, "a pod is buried alive")
        }
        _ => Ok(()),
    }
}

/// Whether nothing has to be waited for on the Node any more.
fn drained(scene: &Scene, run: Option<&Instance>, now: Timestamp) -> bool {
    let runs = run.is_some_and(|run| {
        let host = run.host.as_ref().map(|host| host.state);
        run.state == InstanceState::Running
            && !matches!(host, Some(HostState::Gone | HostState::OutOfService))
    });
    if scene.machine.flags.skip_drain || !runs {
        return true;
    }
    if scene.sites.tenant != SiteHealth::Up {
        return false;
    }
    let Some(node) = &scene.node else { return true };
    let limits = &scene.deadlines;
    let end = scene.machine.record.drain_started.map(|started| started + limits.drain + limits.force);
    let silent = matches!(node.ready, NodeReady::Silent(since) if now >= since + limits.silent);
    let done = |pod: &PodSeen| pod.daemon || (silent && pod.deleting.is_some());
    let empty = scene.pods.as_ref().is_some_and(|pods| pods.iter().all(done));
    empty || end.is_some_and(|end| now >= end)
}
