//! What is said of a machine.

use jiff::{SignedDuration, Timestamp};
use trellis_platform::Address;

use super::draft::{Draft, Said};
use super::facts::Facts;
use super::reasons;
use super::seen::{NodeReady, Record};
use crate::{Condition, Deadline};

/// Where a machine is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It waits for something before anything can be made.
    Pending,
    /// The image it is cloned from is brought in.
    ImageImporting,
    /// Its Secret, its volumes and its VM are made.
    Creating,
    /// A host is looked for.
    Scheduling,
    /// It is started on its host.
    Starting,
    /// It runs, and its Node is waited for.
    Joining,
    /// Its Node is there.
    Running,
    /// Its Node is emptied.
    Draining,
    /// Its VM is being shut down.
    Stopping,
    /// What is left of it is removed.
    Deleting,
    /// Nothing is left of it.
    Gone,
    /// It will not work, and is not tried again.
    Failed,
    /// Not enough can be seen to say.
    Unknown,
}

impl Phase {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 13] = [
        Self::Pending,
        Self::ImageImporting,
        Self::Creating,
        Self::Scheduling,
        Self::Starting,
        Self::Joining,
        Self::Running,
        Self::Draining,
        Self::Stopping,
        Self::Deleting,
        Self::Gone,
        Self::Failed,
        Self::Unknown,
    ];

    /// As statuses spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::ImageImporting => "ImageImporting",
            Self::Creating => "Creating",
            Self::Scheduling => "Scheduling",
            Self::Starting => "Starting",
            Self::Joining => "Joining",
            Self::Running => "Running",
            Self::Draining => "Draining",
            Self::Stopping => "Stopping",
            Self::Deleting => "Deleting",
            Self::Gone => "Gone",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    /// The phase a status spells.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }
}

/// What is said of a machine: derived from what was observed, never from what was last attempted. Written to the
/// Machine's status in the form of its family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineStatus {
    /// Where it is in its life.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// One word in `CamelCase`: why it is there and not further.
    pub reason: &'static str,
    /// The same for people: "importing the image, 43 %".
    pub message: String,
    /// When it is late, and what is late then.
    pub deadline: Option<Deadline>,
    /// What holds for it.
    pub conditions: Vec<Condition>,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// What is kept for later decisions.
    pub record: Record,
    /// The version of its kubelet, once it has one.
    pub kubelet_version: Option<String>,
}

/// What conditions speak of.
pub mod conditions {
    /// Its VM runs.
    pub const PROVISIONED: &str = "Provisioned";
    /// Its Node is ready.
    pub const NODE_READY: &str = "NodeReady";
    /// Nothing is wrong with it.
    pub const HEALTHY: &str = "Healthy";
    /// It is what is wished, as far as that can change in place.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Nothing is left on its Node; only while it is drained.
    pub const DRAINED: &str = "Drained";
    /// It is to leave its host; only while it is.
    pub const EVACUATING: &str = "Evacuating";
    /// It is being removed; only while it is.
    pub const DELETING: &str = "Deleting";
    /// Nothing is decided because a site does not answer; only while it is so.
    pub const FROZEN: &str = "Frozen";
    /// It is not touched; only while it is so.
    pub const PAUSED: &str = "Paused";
    /// It does what it is for.
    pub const READY: &str = "Ready";
}

/// What passes within this is written with what comes next.
const MOMENT: SignedDuration = SignedDuration::from_secs(1);

/// How long a status may wait to be written.
///
/// A machine on its way, up or away, passes through phases that may be over in a moment. What others decide from, and
/// what must be known after a restart although it can no longer be seen, is written at once: whether it is ready, that
/// it failed, and how far its removal is.
pub(super) fn patience(before: &Record, said: &MachineStatus, pressing: bool) -> SignedDuration {
    let (was, is) = (before.phase.map(|(phase, _)| phase), said.phase);
    let comes = |phase: Phase| phase < Phase::Running;
    let goes = |phase: Phase| phase > Phase::Running && phase < Phase::Failed;
    let passes =
        was.map_or(comes(is), |was| was == is || (comes(was) && comes(is)) || (goes(was) && goes(is)));
    let kept = |record: &Record| {
        let Record { drain_started, emptied, evacuation_started, vm_removal_seen, .. } = record;
        let ready = (record.joined.is_some(), record.unready_since.is_some());
        (ready, *drain_started, *emptied, *evacuation_started, *vm_removal_seen)
    };
    let waits = passes && !pressing && kept(before) == kept(&said.record);
    if waits { MOMENT } else { SignedDuration::ZERO }
}

/// Puts together what is said of a machine.
pub(super) fn compose(facts: &Facts, draft: &mut Draft, said: Said) -> MachineStatus {
    let since = match draft.record.phase {
        Some((phase, since)) if phase == said.phase => since,
        _ => facts.now,
    };
    draft.record.phase = Some((said.phase, since));
    let mut conditions = vec![provisioned(facts, &said), node_ready(facts)];
    conditions.push(condition(conditions::HEALTHY, said.well, said.reason, &said.message));
    conditions.extend(up_to_date(facts));
    conditions.extend(passing(facts, draft, &said));
    conditions.push(ready(&conditions, &said));
    let addresses = facts.instance().map(|instance| instance.addresses.clone()).unwrap_or_default();
    MachineStatus {
        phase: said.phase,
        since,
        reason: said.reason,
        message: said.message,
        deadline: draft.deadline.clone(),
        conditions,
        addresses,
        record: draft.record.clone(),
        kubelet_version: facts.node.map(|node| node.kubelet_version.clone()),
    }
}

fn condition(kind: &'static str, holds: Option<bool>, reason: &'static str, message: &str) -> Condition {
    Condition { kind, holds, reason, message: message.to_owned() }
}

fn provisioned(facts: &Facts, said: &Said) -> Condition {
    let kind = conditions::PROVISIONED;
    if !facts.infra_up() {
        return condition(kind, None, reasons::INFRA_UNREACHABLE, "the infra site does not answer");
    }
    if facts.own_vm().is_some() && facts.runs() {
        return condition(kind, Some(true), reasons::WELL, "its VM runs");
    }
    condition(kind, Some(false), said.reason, &said.message)
}

fn node_ready(facts: &Facts) -> Condition {
    let kind = conditions::NODE_READY;
    if facts.tenant_absent() {
        return condition(kind, Some(false), reasons::WAITING_FOR_NODE, "there is no tenant yet");
    }
    if !facts.tenant_up() {
        return condition(kind, None, reasons::TENANT_UNREACHABLE, "the tenant does not answer");
    }
    let Some(node) = facts.node else {
        return condition(kind, Some(false), reasons::NODE_MISSING, "it has no Node");
    };
    match node.ready {
        NodeReady::Yes(_) => condition(kind, Some(true), reasons::NODE_READY, "its Node is ready"),
        NodeReady::No(_) => condition(kind, Some(false), reasons::NODE_NOT_READY, "its Node is not ready"),
        NodeReady::Silent(_) => condition(kind, None, reasons::NODE_NOT_READY, "its kubelet is silent"),
        NodeReady::Never => {
            condition(kind, Some(false), reasons::NODE_NOT_READY, "its kubelet has not reported yet")
        }
    }
}

fn up_to_date(facts: &Facts) -> Option<Condition> {
    let kind = conditions::UP_TO_DATE;
    let vm = facts.own_vm()?;
    if !vm.drift.is_empty() && !facts.input.rights.may_change {
        let message = "it stays as it is: its pool is of another revision by now";
        return Some(condition(kind, Some(true), reasons::UP_TO_DATE, message));
    }
    if !vm.drift.is_empty() {
        let what: Vec<&str> = vm.drift.iter().map(|drift| drift.what.as_str()).collect();
        let message = format!("to be changed in place: {}", what.join(", "));
        return Some(condition(kind, Some(false), reasons::UPDATING, &message));
    }
    if vm.restart_required {
        let message = "a change takes effect at the next restart";
        return Some(condition(kind, Some(false), reasons::RESTART_REQUIRED, message));
    }
    Some(condition(kind, Some(true), reasons::UP_TO_DATE, "it is as wished"))
}

/// The conditions that are there only while they hold.
fn passing(facts: &Facts, draft: &Draft, said: &Said) -> Vec<Condition> {
    let machine = facts.input.machine;
    let mut found = Vec::new();
    if said.phase == Phase::Draining {
        found.push(condition(conditions::DRAINED, Some(false), said.reason, &said.message));
    } else if draft.record.emptied.is_some() {
        found.push(condition(conditions::DRAINED, Some(true), reasons::DRAINED, "its Node is empty"));
    }
    if draft.record.evacuation_started.is_some() {
        found.push(condition(conditions::EVACUATING, Some(true), said.reason, &said.message));
    }
    if machine.deleting.is_some() {
        found.push(condition(conditions::DELETING, Some(true), reasons::DELETION_ASKED, &said.message));
    }
    if let Some((reason, message)) = facts.frozen() {
        found.push(condition(conditions::FROZEN, Some(true), reason, &message));
    }
    if machine.flags.paused {
        found.push(condition(conditions::PAUSED, Some(true), reasons::PAUSED, "it is not touched"));
    }
    found
}

/// Whether it does what it is for: it runs, nobody takes it away, and its Node is ready.
fn ready(others: &[Condition], said: &Said) -> Condition {
    let node = others.iter().find(|condition| condition.kind == conditions::NODE_READY);
    let holds = match (said.phase, node.and_then(|node| node.holds)) {
        (Phase::Running, holds) => holds,
        (Phase::Unknown, _) => None,
        _ => Some(false),
    };
    condition(conditions::READY, holds, said.reason, &said.message)
}

#[cfg(test)]
mod tests {
    use super::super::SiteHealth;
    use super::super::testing::*;
    use super::*;
    use trellis_platform::InstanceState;

    #[test]
    fn phases_are_read_as_they_are_written() {
        for phase in Phase::ALL {
            assert_eq!(Phase::from_name(phase.as_str()), Some(phase));
        }
        assert_eq!(Phase::from_name("Provisioning"), None);
    }

    fn holds(scene: &Scene, kind: &str) -> Option<bool> {
        let conditions = scene.plan(110).status.conditions;
        conditions.iter().find(|one| one.kind == kind).and_then(|one| one.holds)
    }

    #[test]
    fn what_cannot_be_seen_is_not_known() {
        let mut scene = Scene::joined();
        assert_eq!(holds(&scene, conditions::READY), Some(true));
        scene.sites.tenant = SiteHealth::Down(at(100));
        assert_eq!(holds(&scene, conditions::READY), None);
        assert_eq!(holds(&scene, conditions::NODE_READY), None);
        assert_eq!(holds(&scene, conditions::PROVISIONED), Some(true));
        assert_eq!(holds(&scene, conditions::FROZEN), Some(true));
        scene.sites.tenant = SiteHealth::Up;
        scene.sites.infra = SiteHealth::Down(at(100));
        assert_eq!(holds(&scene, conditions::READY), Some(true), "the tenant says that the Node is ready");
        assert_eq!(holds(&scene, conditions::PROVISIONED), None);
    }

    #[test]
    fn a_machine_that_goes_is_not_ready() {
        let scene = Scene::going();
        assert_eq!(holds(&scene, conditions::READY), Some(false));
        assert_eq!(holds(&scene, conditions::DELETING), Some(true));
        assert_eq!(holds(&scene, conditions::DRAINED), Some(false));
    }

    #[test]
    fn since_when_is_kept_as_long_as_the_phase() {
        let mut scene = Scene::joined();
        let first = scene.remember(70);
        assert!(first.entered.is_some_and(|one| one.message.starts_with("Running: ")));
        let second = scene.remember(80);
        assert_eq!((first.status.since, second.status.since), (at(70), at(70)));
        assert!(second.happenings.is_empty() && second.entered.is_none());
    }

    #[test]
    fn what_passes_may_wait_and_what_others_decide_from_may_not() {
        let mut scene = Scene::new(mk_wish());
        assert_eq!(scene.remember(0).patience, MOMENT, "nothing of it exists yet");
        let mut scene = Scene::made(None);
        scene.remember(10);
        scene.platform.vm = Some(mk_vm(Some(mk_instance(InstanceState::Running))));
        assert_eq!(scene.remember(11).patience, MOMENT, "it is on its way");
        scene.node = Some(mk_node(&scene.node_wish));
        assert!(scene.remember(12).patience.is_zero(), "it is ready");
        assert_eq!(scene.remember(13).patience, MOMENT);
        scene.node_is(NodeReady::No(at(14)));
        assert!(scene.remember(14).patience.is_zero(), "it is not ready any more");
        scene.machine.deleting = Some(at(15));
        assert!(scene.remember(15).patience.is_zero(), "its removal has begun");
        scene.machine.deleting = None;
        scene.machine.flags.unhealthy = true;
        assert!(scene.remember(16).patience.is_zero(), "it failed");
    }

    #[test]
    fn nothing_that_was_known_is_forgotten() {
        let mut scene = Scene::joined();
        let before = scene.remember(70).status.record;
        scene.platform = trellis_platform::Observation::default();
        scene.node = None;
        let after = scene.plan(80).status.record;
        assert_eq!(after.vm_uid, before.vm_uid);
        assert_eq!(after.firmware_uuid, before.firmware_uuid);
        assert_eq!((after.node, after.joined), (before.node, before.joined));
        assert_eq!((after.host, after.instance_uid), (before.host, before.instance_uid));
        assert_eq!(after.infra_namespace, before.infra_namespace);
    }
}
