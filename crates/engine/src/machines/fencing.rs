//! What counts as proof that a machine is dead, and what is done with proof and without.
//!
//! A machine that does not answer may still run and write to its volumes: a host that is cut off looks like one that
//! is switched off. So a machine counts as dead only if
//!
//! - its run has ended for good, as its host said itself, or nothing runs of it any more;
//! - the object of its host is gone: somebody took the host out of the infra cluster. That it is not among the known
//!   ones is not enough, because a watch may lag or be cut: the server is asked for it. Nor is it as long as the Node
//!   says that it is ready: an object can be removed while its host runs on;
//! - its host carries the out-of-service taint: somebody vouches that it is switched off;
//! - its VM, which was seen before in the same namespace, is gone together with its run, and either its removal was
//!   seen or its Node does not say that it is ready.
//!
//! With proof the run is ended by force, so that its volumes can be used elsewhere. Without proof nothing is ended,
//! removed or replaced, and the status says what would prove it.

use trellis_platform::{Action, HostState, Instance, InstanceState};

use super::draft::{Draft, Said};
use super::facts::{Facts, Vm};
use super::seen::NodeReady;
use super::status::Phase;
use super::{reasons, text};

/// Whether a machine is alive, as far as can be proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing speaks against it.
    Alive,
    /// It is dead, and this proves it.
    Dead(Proof),
    /// It may be dead or alive, and why that is not known.
    InDoubt(String),
}

/// What proves that a machine is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// Its run has ended.
    InstanceFinal,
    /// Nothing runs of it.
    NothingRuns,
    /// Its host's object is gone.
    HostGone,
    /// Its host is vouched to be switched off.
    OutOfService,
}

impl Proof {
    /// For people.
    fn as_str(self) -> &'static str {
        match self {
            Self::InstanceFinal => "its run has ended",
            Self::NothingRuns => "nothing runs of it",
            Self::HostGone => "its host was taken out of the infra cluster",
            Self::OutOfService => "its host is out of service",
        }
    }
}

/// Whether a machine is alive, with what its tenant says, too: an object that is gone says that somebody took the host out
/// of the infra cluster, and not that it was switched off before. While the machine's own Node reports, it was not.
pub(super) fn verdict_of(facts: &Facts, instance: Option<&Instance>) -> Verdict {
    let found = verdict(instance);
    let reports = facts.tenant_up() && facts.node.is_some_and(|node| matches!(node.ready, NodeReady::Yes(_)));
    match found {
        Verdict::Dead(Proof::HostGone) if reports => {
            Verdict::InDoubt("its host was taken out of the infra cluster while its Node reports".to_owned())
        }
        found => found,
    }
}

/// Whether a machine with this run is alive, as far as the infra cluster says.
fn verdict(instance: Option<&Instance>) -> Verdict {
    let Some(instance) = instance else { return Verdict::Dead(Proof::NothingRuns) };
    if instance.state.is_final() {
        return Verdict::Dead(Proof::InstanceFinal);
    }
    let Some(host) = &instance.host else {
        return match instance.state {
            InstanceState::Unknown => Verdict::InDoubt("its host is not known".to_owned()),
            _ => Verdict::Alive,
        };
    };
    let name = &host.name;
    match (host.state, &instance.state) {
        (HostState::Gone, _) => Verdict::Dead(Proof::HostGone),
        (HostState::OutOfService, _) => Verdict::Dead(Proof::OutOfService),
        (HostState::Silent(since), _) => {
            Verdict::InDoubt(format!("its host {name} has not answered since {}", text::clock(since)))
        }
        (HostState::NotAllowedToLook, InstanceState::Unknown) => {
            Verdict::InDoubt(format!("its host {name} does not answer, and we may not look at hosts"))
        }
        (HostState::Ready, InstanceState::Unknown) => {
            Verdict::InDoubt(format!("its host {name} does not report it"))
        }
        (HostState::NotSeen, InstanceState::Unknown) => {
            Verdict::InDoubt(format!("nothing is known of its host {name}"))
        }
        (HostState::Ready | HostState::NotAllowedToLook | HostState::NotSeen, _) => Verdict::Alive,
    }
}

/// Ends the run of a machine that is proven dead and whose run does not end by itself; tells people so.
pub(super) fn fence(facts: &Facts, draft: &mut Draft, instance: &Instance, proof: Proof) -> Option<String> {
    if !matches!(proof, Proof::HostGone | Proof::OutOfService) {
        return None;
    }
    let message = format!("{}: its run is ended so that its volumes are free", proof.as_str());
    draft.happened(true, reasons::FENCED, message.clone());
    let machine = facts.input.machine.name.clone();
    draft.act(facts, Action::StopInstance { machine, instance_uid: instance.uid.clone(), force: true });
    Some(message)
}

/// What is said without proof.
pub(super) fn no_proof(doubt: &str) -> Said {
    let message = format!(
        "{doubt}, and nothing proves that it is dead: \
         its end, the out-of-service taint on its host or the removal of the host would"
    );
    Said::new(Phase::Unknown, reasons::NO_PROOF, message)
}

/// Whether the VM that was recorded is gone for certain, or why that is not certain.
pub(super) fn vm_is_gone(facts: &Facts) -> Result<(), String> {
    let record = &facts.input.machine.record;
    if !facts.infra_up() {
        return Err("the infra site does not answer".to_owned());
    }
    let elsewhere = record.infra_namespace.as_deref().filter(|before| *before != facts.input.infra_namespace);
    if let Some(before) = elsewhere {
        let now = facts.input.infra_namespace;
        return Err(format!("it was made in the infra namespace {before}, and we look at {now}"));
    }
    if let Vm::Ours(_) = facts.vm {
        return Err("its VM exists".to_owned());
    }
    if facts.instance().is_some() {
        return Err("its VM is gone, but its run is not".to_owned());
    }
    let ready = facts.node.is_some_and(|node| matches!(node.ready, NodeReady::Yes(_)));
    if ready && facts.tenant_up() && !record.vm_removal_seen {
        return Err("its VM is not there, but its Node says that it is ready".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn what_counts_as_proof() {
        let silent = HostState::Silent(at(0));
        let failed = InstanceState::Failed("host lost".to_owned());
        let dead = |proof| Some(Verdict::Dead(proof));
        let cases = [
            (InstanceState::Running, HostState::Ready, Some(Verdict::Alive)),
            (InstanceState::Starting, HostState::NotAllowedToLook, Some(Verdict::Alive)),
            (InstanceState::Running, HostState::Gone, dead(Proof::HostGone)),
            (InstanceState::Running, HostState::NotSeen, Some(Verdict::Alive)),
            (InstanceState::Unknown, HostState::NotSeen, None),
            (InstanceState::Unknown, HostState::OutOfService, dead(Proof::OutOfService)),
            (InstanceState::Succeeded, silent, dead(Proof::InstanceFinal)),
            (failed, HostState::Gone, dead(Proof::InstanceFinal)),
            (InstanceState::Running, silent, None),
            (InstanceState::Unknown, HostState::Ready, None),
            (InstanceState::Unknown, HostState::NotAllowedToLook, None),
        ];
        for (state, host, expected) in cases {
            let mut run = mk_instance(state.clone());
            run.host.as_mut().unwrap().state = host;
            let found = verdict(Some(&run));
            match expected {
                Some(expected) => assert_eq!(found, expected, "{state:?} {host:?}"),
                None => assert!(matches!(found, Verdict::InDoubt(_)), "{state:?} {host:?}"),
            }
        }
        assert_eq!(verdict(None), Verdict::Dead(Proof::NothingRuns));
    }

    #[test]
    fn only_with_proof_is_a_run_ended_by_force() {
        use super::super::NodeReady;
        for (host, steps, phase) in [
            (HostState::Gone, vec!["fence"], Phase::Running),
            (HostState::OutOfService, vec!["fence"], Phase::Running),
            (HostState::Silent(at(90)), vec![], Phase::Unknown),
        ] {
            let mut scene = Scene::joined();
            scene.node_is(NodeReady::Silent(at(100)));
            scene.host(host);
            let plan = scene.plan(110);
            assert_eq!((words(&plan), plan.status.phase), (steps, phase), "{host:?}");
        }
    }

    #[test]
    fn a_host_whose_object_is_gone_is_not_dead_while_the_node_reports() {
        use super::super::NodeReady;
        for deleting in [false, true] {
            let mut scene = if deleting { Scene::going() } else { Scene::joined() };
            if deleting {
                scene.platform.vm.as_mut().unwrap().deleting = Some(at(100));
            }
            scene.host(HostState::Gone);
            let plan = scene.remember(110);
            assert!(plan.steps.is_empty(), "its kubelet and its disks are at work: {:?}", plan.steps);
            assert!(plan.status.message.contains("while its Node reports"), "{}", plan.status.message);
            scene.node_is(NodeReady::Silent(at(150)));
            assert_eq!(words(&scene.plan(150)), ["fence"]);
        }
    }

    #[test]
    fn a_machine_that_was_in_doubt_gets_its_time_again() {
        use super::super::NodeReady;
        let mut scene = Scene::joined();
        scene.node_is(NodeReady::Silent(at(100)));
        scene.host(HostState::Silent(at(90)));
        scene.remember(110);
        scene.host(HostState::Ready);
        let plan = scene.remember(9000);
        assert_eq!(
            (words(&plan).len(), plan.status.phase),
            (0, Phase::Running),
            "its kubelet needs a moment"
        );
        assert_eq!(plan.wake.map(|wake| wake.at), Some(at(9600)));
        assert_eq!(words(&scene.plan(9600)), ["replace"]);
    }

    #[test]
    fn a_machine_that_comes_up_gets_its_time_again_too() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.remember(40);
        scene.host(HostState::Silent(at(90)));
        assert_eq!(scene.remember(110).status.phase, Phase::Unknown);
        scene.host(HostState::Ready);
        let plan = scene.remember(9000);
        assert_eq!((words(&plan).len(), plan.status.phase), (0, Phase::Joining));
        assert_eq!(plan.wake.map(|wake| wake.at), Some(at(9000 + 20 * 60)));
    }

    #[test]
    fn without_proof_it_stops_and_says_so_however_long_it_takes() {
        use super::super::NodeReady;
        let mut scene = Scene::joined();
        scene.node_is(NodeReady::Silent(at(100)));
        scene.host(HostState::Silent(at(90)));
        let plan = scene.remember(110);
        assert_eq!(plan.status.reason, reasons::NO_PROOF);
        assert!(plan.status.message.contains("host-1") && plan.status.message.contains("out-of-service"));
        let later = scene.plan(90_000);
        assert!(later.steps.is_empty());
        assert_eq!(later.status, plan.status);
    }
}
