//! The plan of a control-plane pool. Its machines carry the members of etcd, so they change one at a time whatever the
//! wish says about surge, and each change keeps the quorum: a member leaves etcd before its machine goes, and a new one
//! learns before it votes.
//!
//! Each plan is at most one step; what it says is derived from the members seen, so it does not matter how often or by
//! whom it is asked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trellis_model::pool::UpdateStrategy;

use super::rollout::Bounds;
use super::seen::{MachineState, Member, PoolWish};
use super::set::{self, count};

/// A machine of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlaneMachine {
    /// What its pool sees of it.
    pub member: Member,
    /// Its revision.
    pub revision: String,
    /// Its member was taken out of etcd, from the record that [`Step::RemoveMember`] asks for: it never comes back,
    /// whatever is wished by now.
    pub left: bool,
}

/// What is seen of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdSeen {
    /// There is none yet: the cluster was never started.
    Absent,
    /// It cannot be asked.
    Unknown,
    /// Its members.
    Members(Vec<EtcdMember>),
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// The machine it runs on.
    pub machine: String,
    /// It answers; a learner: it has all that the others have.
    pub healthy: bool,
    /// It votes; else it is a learner.
    pub voting: bool,
    /// Its machine is none of these, and yet it is there: somebody else's Machine, or a run, has that name. It is not
    /// ours to give up.
    pub elsewhere: bool,
}

/// One step of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make so many machines of the wished revision.
    Make(u32),
    /// Let the learner on that machine vote.
    Promote(String),
    /// Record at that machine that its member leaves, then take it out of etcd; the machine goes after that.
    RemoveMember(String),
    /// Remove that machine, which carries no member any more.
    Delete(String),
}

/// Why a control plane does not move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Waits {
    /// Without a quorum each change could lose what etcd holds: people must decide.
    #[error(
        "etcd has lost its quorum: {healthy} of {voting} members answer, {needed} must; nothing is changed"
    )]
    QuorumLost {
        /// Members that vote and answer.
        healthy: u32,
        /// Members that vote.
        voting: u32,
        /// Members that must answer.
        needed: u32,
    },
    /// Nothing is known of etcd, so nothing is removed.
    #[error("the members of etcd cannot be seen; nothing is changed")]
    EtcdUnknown,
    /// A member does not answer; with one more out etcd might stop.
    #[error("the member of etcd on {machine} does not answer; nothing else is changed meanwhile")]
    MemberUnhealthy {
        /// Its machine.
        machine: String,
    },
    /// Another change is not finished.
    #[error("one at a time: {machine} is still {doing}")]
    Changing {
        /// The machine.
        machine: String,
        /// What is happening to it.
        doing: &'static str,
    },
    /// Too few members would be left.
    #[error("{machine} must stay until another member votes: {voting} members vote, {least} must be left")]
    TooFewVoting {
        /// The machine.
        machine: String,
        /// Members that vote.
        voting: u32,
        /// Members that must be left.
        least: u32,
    },
}

/// What a control plane does next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlPlanePlan {
    /// The step, if one can be taken.
    pub step: Option<Step>,
    /// Why none can be taken although the control plane is not as wished.
    pub waits: Option<Waits>,
    /// Machines on their way out that may be shut down now: they carry no member any more. All others must be held.
    pub may_go: Vec<String>,
}

/// Plans a control plane.
pub fn plan(
    wish: &PoolWish,
    machines: &[ControlPlaneMachine],
    etcd: &EtcdSeen,
    now: Timestamp,
) -> ControlPlanePlan {
    let members = match etcd {
        EtcdSeen::Absent => return first(wish, machines),
        EtcdSeen::Unknown => {
            return ControlPlanePlan { waits: Some(Waits::EtcdUnknown), ..ControlPlanePlan::default() };
        }
        EtcdSeen::Members(members) => members,
    };
    let view = View::of(wish, machines, members);
    let may_go =
        view.going().filter(|member| !view.carries(member)).map(|member| member.name.clone()).collect();
    match view.decide(now) {
        Ok(step) => ControlPlanePlan { step, waits: None, may_go },
        // Without a quorum not even a machine without a member goes: it may be what is needed to get it back.
        Err(waits @ Waits::QuorumLost { .. }) => {
            ControlPlanePlan { waits: Some(waits), ..ControlPlanePlan::default() }
        }
        Err(waits) => ControlPlanePlan { step: None, waits: Some(waits), may_go },
    }
}

/// Before etcd exists there is no quorum to keep: all machines come at once, and what is going goes.
fn first(wish: &PoolWish, machines: &[ControlPlaneMachine]) -> ControlPlanePlan {
    let existing = count(machines.iter().filter(|machine| !machine.member.preserved));
    let missing = wish.replicas.saturating_sub(existing);
    let going = machines.iter().filter(|machine| machine.member.goes());
    ControlPlanePlan {
        step: (missing > 0).then_some(Step::Make(missing)),
        waits: None,
        may_go: going.map(|machine| machine.member.name.clone()).collect(),
    }
}

struct View<'a> {
    wish: &'a PoolWish,
    machines: &'a [ControlPlaneMachine],
    etcd: BTreeMap<&'a str, &'a EtcdMember>,
    voting: u32,
    healthy: u32,
    /// A machine more than wished may exist, and comes before another goes.
    surge: bool,
}

impl<'a> View<'a> {
    fn of(wish: &'a PoolWish, machines: &'a [ControlPlaneMachine], members: &'a [EtcdMember]) -> Self {
        let voting = members.iter().filter(|member| member.voting);
        Self {
            wish,
            machines,
            etcd: members.iter().map(|member| (member.machine.as_str(), member)).collect(),
            voting: count(voting.clone()),
            healthy: count(voting.filter(|member| member.healthy)),
            // The only member can only be replaced by adding one before.
            surge: Bounds::of(wish).surge > 0 || wish.replicas <= 1,
        }
    }

    fn carries(&self, member: &Member) -> bool {
        self.etcd.contains_key(member.name.as_str())
    }

    fn staying(&self) -> impl Iterator<Item = &'a ControlPlaneMachine> + use<'a> {
        self.machines.iter().filter(|machine| machine.member.stays())
    }

    fn going(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.machines.iter().map(|machine| &machine.member).filter(|member| member.goes())
    }

    /// Whether a machine is to be replaced: it failed and its member answers all the same, or because of its revision,
    /// then not while updating is paused, and not when it is for people to delete machines.
    fn outdated(&self, machine: &ControlPlaneMachine) -> bool {
        if machine.member.state == MachineState::Failed && self.carries(&machine.member) {
            return true;
        }
        let update = &self.wish.update;
        let replaces = !update.paused && update.strategy == UpdateStrategy::RollingUpdate;
        replaces && machine.revision != self.wish.revision
    }

    /// The next step; nothing if all is as wished.
    fn decide(&self, now: Timestamp) -> Result<Option<Step>, Waits> {
        self.quorum()?;
        if let Some(step) = self.broken() {
            return Ok(Some(step));
        }
        self.all_answer()?;
        if let Some(step) = self.learner() {
            return Ok(Some(step));
        }
        self.nobody_comes()?;
        let staying = count(self.staying());
        let outdated = self.staying().any(|machine| self.outdated(machine));
        // What has left etcd makes room before anything else moves.
        let left = self.staying().find(|machine| self.has_left(machine)).filter(|_| self.nobody_goes());
        if let Some(machine) = left {
            return Ok(Some(Step::Delete(machine.member.name.clone())));
        }
        if let Some(gone) = self.going().find(|member| !self.carries(member)) {
            return Err(Waits::Changing { machine: gone.name.clone(), doing: "being removed" });
        }
        if let Some(leaving) = self.going().find(|member| self.carries(member)) {
            return self.leave(leaving);
        }
        if staying < self.wish.replicas {
            return Ok(Some(Step::Make(1)));
        }
        if staying > self.wish.replicas || (outdated && !self.surge) {
            return self.victim(now).map_or(Ok(None), |victim| self.leave(victim));
        }
        Ok((outdated && self.surge).then_some(Step::Make(1)))
    }

    fn quorum(&self) -> Result<(), Waits> {
        let needed = self.voting / 2 + 1;
        if self.healthy >= needed {
            return Ok(());
        }
        Err(Waits::QuorumLost { healthy: self.healthy, voting: self.voting, needed })
    }

    /// What is broken for good leaves first: while it is counted it weakens the others.
    fn broken(&self) -> Option<Step> {
        let by_name: BTreeMap<&str, &ControlPlaneMachine> =
            self.machines.iter().map(|machine| (machine.member.name.as_str(), machine)).collect();
        let lost = self.etcd.values().find(|member| {
            let machine = by_name.get(member.machine.as_str()).map(|machine| &machine.member);
            let hopeless = machine.map_or(!member.elsewhere, |machine| {
                machine.preserved || matches!(machine.state, MachineState::Failed | MachineState::Going)
            });
            !member.healthy && hopeless
        });
        if let Some(member) = lost {
            return Some(Step::RemoveMember(member.machine.clone()));
        }
        let empty = self
            .staying()
            .find(|machine| machine.member.state == MachineState::Failed && !self.carries(&machine.member));
        empty.filter(|_| self.nobody_goes()).map(|machine| Step::Delete(machine.member.name.clone()))
    }

    /// Machines go one after the other; one that is held back because it carries a member may wait for just the one
    /// that is asked about.
    fn nobody_goes(&self) -> bool {
        self.going().all(|member| self.carries(member))
    }

    fn all_answer(&self) -> Result<(), Waits> {
        let silent = self.etcd.values().find(|member| member.voting && !member.healthy);
        silent.map_or(Ok(()), |member| Err(Waits::MemberUnhealthy { machine: member.machine.clone() }))
    }

    /// A learner that knows all may vote, unless its machine is going: then it leaves.
    fn learner(&self) -> Option<Step> {
        let mut learners = self.etcd.values().filter(|member| !member.voting);
        learners.find_map(|learner| {
            let machine = self.machines.iter().find(|machine| machine.member.name == learner.machine)?;
            if machine.member.goes() {
                return Some(Step::RemoveMember(learner.machine.clone()));
            }
            (learner.healthy && machine.member.stays()).then(|| Step::Promote(learner.machine.clone()))
        })
    }

    /// A machine that has not become a voting member yet is a change that is not finished, unless it is one that goes
    /// anyway: it was a member, it is outdated, or it is one too many.
    fn nobody_comes(&self) -> Result<(), Waits> {
        let coming = self.staying().find(|machine| {
            let votes = self.etcd.get(machine.member.name.as_str()).is_some_and(|member| member.voting);
            !votes && (self.carries(&machine.member) || !self.has_left(machine))
        });
        coming.map_or(Ok(()), |machine| {
            Err(Waits::Changing { machine: machine.member.name.clone(), doing: "joining" })
        })
    }

    fn has_left(&self, machine: &ControlPlaneMachine) -> bool {
        // A new machine is no surplus as long as it is to replace an old one.
        let surplus = count(self.staying()) > self.wish.replicas
            && !self.staying().any(|machine| self.outdated(machine));
        !self.carries(&machine.member)
            && (machine.left || self.outdated(machine) || (surplus && self.settled(machine)))
    }

    /// All but this machine suffice and vote.
    fn settled(&self, machine: &ControlPlaneMachine) -> bool {
        let others = self.staying().filter(|other| other.member.name != machine.member.name);
        let vote = others.filter(|other| {
            self.etcd.get(other.member.name.as_str()).is_some_and(|member| member.voting && member.healthy)
        });
        count(vote) >= self.wish.replicas
    }

    /// The machine that leaves next: outdated ones first, then as in any set.
    fn victim(&self, now: Timestamp) -> Option<&'a Member> {
        let pick = |machines: Vec<&'a ControlPlaneMachine>| {
            let members: Vec<Member> = machines.iter().map(|machine| machine.member.clone()).collect();
            let of = set::Ordering { leaving: false, policy: self.wish.delete_policy };
            let order = set::order(&members, &self.wish.zones, of, self.wish.update.min_ready_seconds, now);
            let name = order.first().map(|(member, _)| member.name.clone())?;
            machines.into_iter().map(|machine| &machine.member).find(|member| member.name == name)
        };
        let outdated = self.staying().filter(|machine| self.outdated(machine)).collect();
        pick(outdated).or_else(|| pick(self.staying().collect()))
    }

    /// The next step on the way out of a machine: its member leaves if enough others vote, then it goes.
    fn leave(&self, member: &Member) -> Result<Option<Step>, Waits> {
        if !self.carries(member) {
            return Ok(Some(Step::Delete(member.name.clone())));
        }
        let least = self.wish.replicas.saturating_sub(u32::from(!self.surge)).max(1);
        if self.voting > least {
            return Ok(Some(Step::RemoveMember(member.name.clone())));
        }
        let existing = count(self.machines.iter().filter(|machine| !machine.member.preserved));
        let most = self.wish.replicas + u32::from(self.surge);
        let staying = count(self.staying());
        if existing < most && staying < self.wish.replicas {
            return Ok(Some(Step::Make(1)));
        }
        Err(Waits::TooFewVoting { machine: member.name.clone(), voting: self.voting, least })
    }
}

#[cfg(test)]
#[path = "control_plane_tests.rs"]
mod tests;
