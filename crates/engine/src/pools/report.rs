//! What is told about a pool: numbers, progress in words, conditions.

use jiff::{SignedDuration, Timestamp};
use trellis_model::pool::UpdateStrategy;

use super::rollout::Bounds;
use super::seen::{MachineState, Member, PoolWish, SetSeen};
use crate::{Condition, Deadline};

/// The conditions of a pool.
pub mod conditions {
    /// It is as wished: the one to wait for.
    pub const READY: &str = "Ready";
    /// Enough machines are available.
    pub const AVAILABLE: &str = "Available";
    /// It moves towards the wish, or has arrived.
    pub const PROGRESSING: &str = "Progressing";
    /// Machines failed.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Updating was stopped by its owner.
    pub const PAUSED: &str = "Paused";
    /// It is not as wished yet; tools that know this word wait.
    pub const RECONCILING: &str = "Reconciling";
    /// The members of etcd on its machines are as wished, and answer.
    pub const ETCD_READY: &str = "EtcdReady";
    /// It is not as wished and did not move for too long; tools that know this word give up.
    pub const STALLED: &str = "Stalled";
}

/// The machines of a pool in numbers; those kept for debugging are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Machines that stay.
    pub staying: u32,
    /// Of those, with the wished revision.
    pub updated: u32,
    /// Of those that stay, with a ready Node.
    pub ready: u32,
    /// Of those, ready for long enough.
    pub available: u32,
    /// Available ones with the wished revision.
    pub updated_available: u32,
    /// Of those that stay, failed.
    pub failed: u32,
    /// Machines that are going and still exist.
    pub going: u32,
}

impl Counts {
    pub(super) fn of(wish: &PoolWish, sets: &[SetSeen], now: Timestamp) -> Self {
        let mut counts = Self::default();
        for set in sets {
            let updated = set.revision == wish.revision;
            for member in &set.members {
                counts.add(member, updated, wish.update.min_ready_seconds, now);
            }
        }
        counts
    }

    fn add(&mut self, member: &Member, updated: bool, min_ready_seconds: u32, now: Timestamp) {
        self.going += u32::from(member.goes());
        if !member.stays() {
            return;
        }
        let available = member.is_available(min_ready_seconds, now);
        self.staying += 1;
        self.updated += u32::from(updated);
        self.ready += u32::from(matches!(member.state, MachineState::Ready(_)));
        self.available += u32::from(available);
        self.updated_available += u32::from(available && updated);
        self.failed += u32::from(member.state == MachineState::Failed);
    }

    /// Machines that stay and have another revision than the wished one.
    pub fn outdated(&self) -> u32 {
        self.staying - self.updated
    }
}

/// Why a pool is not as wished yet; the words are the same in conditions, events and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotYet {
    /// Its owner stopped the update.
    #[error("the update is paused: {updated} of {replicas} machines have the new revision")]
    Paused {
        /// Machines with the wished revision.
        updated: u32,
        /// Machines wished.
        replicas: u32,
    },
    /// Old machines stay until somebody removes them.
    #[error("{outdated} machines have an old revision until somebody deletes them")]
    WaitsForDeletion {
        /// Machines with another revision.
        outdated: u32,
    },
    /// Not all machines with the new revision exist.
    #[error("{updated} of {replicas} machines have been made with the new revision")]
    Making {
        /// Machines with the wished revision.
        updated: u32,
        /// Machines wished.
        replicas: u32,
    },
    /// New machines exist and are not available.
    #[error("{available} of {replicas} machines of the new revision are available")]
    Starting {
        /// Available machines with the wished revision.
        available: u32,
        /// Machines wished.
        replicas: u32,
    },
    /// Machines that are not wished still stand.
    #[error("{surplus} old machines are still to be removed")]
    Surplus {
        /// How many.
        surplus: u32,
    },
    /// All that is left is on its way out.
    #[error("{going} machines are still being removed")]
    Removing {
        /// How many.
        going: u32,
    },
}

impl NotYet {
    /// One word in `CamelCase` for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "Paused",
            Self::WaitsForDeletion { .. } => "WaitsForDeletion",
            Self::Making { .. } => "MakingMachines",
            Self::Starting { .. } => "StartingMachines",
            Self::Surplus { .. } => "ReplacingMachines",
            Self::Removing { .. } => "RemovingMachines",
        }
    }

    /// What is missing, if anything is.
    pub(super) fn of(wish: &PoolWish, counts: &Counts) -> Result<(), Self> {
        let (replicas, updated) = (wish.replicas, counts.updated);
        let outdated = counts.outdated();
        if outdated > 0 && wish.update.paused {
            return Err(Self::Paused { updated, replicas });
        }
        if outdated > 0 && wish.update.strategy == UpdateStrategy::OnDelete && counts.staying == replicas {
            return Err(Self::WaitsForDeletion { outdated });
        }
        if updated < replicas {
            return Err(Self::Making { updated, replicas });
        }
        if counts.updated_available < replicas {
            return Err(Self::Starting { available: counts.updated_available, replicas });
        }
        if counts.staying > replicas {
            return Err(Self::Surplus { surplus: counts.staying - replicas });
        }
        if counts.going > 0 {
            return Err(Self::Removing { going: counts.going });
        }
        Ok(())
    }

    /// Whether it is for people to go on, so that no time runs.
    fn waits_for_people(&self) -> bool {
        matches!(self, Self::Paused { .. } | Self::WaitsForDeletion { .. })
    }
}

/// How far a pool has come on its way to a wish. The caller keeps what the last plan returned and hands it to the
/// next; losing it only starts the time anew.
///
/// It is a high-water mark: a machine that comes, fails and comes again is no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The wished revision.
    pub revision: String,
    /// The wished number.
    pub replicas: u32,
    /// Most machines of that revision available so far.
    pub available: u32,
    /// Fewest machines that are not wished, those that are going included, so far.
    pub left: u32,
    /// When one of these last moved.
    pub at: Timestamp,
    /// The pool has been as wished: what happens after that is no longer an update.
    pub done: bool,
}

impl Mark {
    /// The mark after having seen these numbers.
    pub(super) fn moved(
        last: Option<&Self>,
        wish: &PoolWish,
        counts: &Counts,
        done: bool,
        now: Timestamp,
    ) -> Self {
        let surplus = counts.updated.saturating_sub(wish.replicas);
        let here = Self {
            revision: wish.revision.clone(),
            replicas: wish.replicas,
            available: counts.updated_available.min(wish.replicas),
            left: counts.outdated() + surplus + counts.going,
            at: now,
            done,
        };
        match last {
            Some(last) if last.revision == here.revision && last.replicas == here.replicas => {
                let further =
                    here.available > last.available || here.left < last.left || (done && !last.done);
                Self {
                    available: here.available.max(last.available),
                    left: here.left.min(last.left),
                    at: if further { now } else { last.at },
                    done: done || last.done,
                    ..here
                }
            }
            _ => here,
        }
    }
}

/// When a pool counts as stuck, and whether it does now.
pub(super) struct Patience {
    pub(super) over: bool,
    pub(super) deadline: Option<Deadline>,
}

impl Patience {
    pub(super) fn of(wish: &PoolWish, progress: &Result<(), NotYet>, mark: &Mark, now: Timestamp) -> Self {
        let none = Self { over: false, deadline: None };
        let waits = progress.as_ref().is_err_and(|not_yet| !not_yet.waits_for_people());
        if !waits || mark.done || wish.update.paused || wish.update.progress_deadline_seconds == 0 {
            return none;
        }
        let patience = SignedDuration::from_secs(wish.update.progress_deadline_seconds.into());
        match mark.at.checked_add(patience) {
            Ok(at) if at <= now => Self { over: true, deadline: None },
            Ok(at) => Self { over: false, deadline: Some(Deadline { at, of: "Progress" }) },
            Err(_) => none,
        }
    }
}

/// The conditions of a pool.
pub(super) fn all_conditions(
    wish: &PoolWish,
    counts: &Counts,
    progress: &Result<(), NotYet>,
    mark: &Mark,
    over: bool,
) -> Vec<Condition> {
    let arrived = progress.is_ok();
    let (reason, message) = match progress {
        Ok(()) => ("AsWished", format!("all {} machines are available and up to date", wish.replicas)),
        Err(not_yet) => (not_yet.reason(), not_yet.to_string()),
    };
    let condition =
        |kind, holds, reason, message: &str| Condition { kind, holds, reason, message: message.to_owned() };
    let stuck = format!("{message}; nothing moved for {} s", wish.update.progress_deadline_seconds);
    let mut all = vec![
        condition(conditions::READY, Some(arrived), reason, &message),
        available(wish, counts),
        match progress {
            Err(NotYet::Paused { .. }) => condition(conditions::PROGRESSING, None, reason, &message),
            _ if over => condition(conditions::PROGRESSING, Some(false), "ProgressDeadlineExceeded", &stuck),
            Err(_) if mark.done => {
                condition(conditions::PROGRESSING, Some(true), "Updated", "the last update is complete")
            }
            _ => condition(conditions::PROGRESSING, Some(true), reason, &message),
        },
        failures(counts),
    ];
    let paused = wish.update.paused;
    let paused_message =
        if paused { "updating is paused; scaling goes on" } else { "updating is not paused" };
    let paused_reason = if paused { "PausedByOwner" } else { "NotPaused" };
    all.push(condition(conditions::PAUSED, Some(paused), paused_reason, paused_message));
    all.push(condition(conditions::RECONCILING, Some(!arrived && !over), reason, &message));
    let stalled_reason = if over { "ProgressDeadlineExceeded" } else { reason };
    all.push(condition(
        conditions::STALLED,
        Some(over),
        stalled_reason,
        if over { &stuck } else { &message },
    ));
    all
}

fn available(wish: &PoolWish, counts: &Counts) -> Condition {
    let least = Bounds::of(wish).least();
    let holds = counts.available >= least;
    Condition {
        kind: conditions::AVAILABLE,
        holds: Some(holds),
        reason: if holds { "EnoughAvailable" } else { "TooFewAvailable" },
        message: format!("{} machines are available, at least {least} are needed", counts.available),
    }
}

fn failures(counts: &Counts) -> Condition {
    let failed = counts.failed;
    Condition {
        kind: conditions::REPLICA_FAILURE,
        holds: Some(failed > 0),
        reason: if failed > 0 { "MachinesFailed" } else { "NoneFailed" },
        message: if failed > 0 {
            format!("{failed} machines failed")
        } else {
            "no machine failed".to_owned()
        },
    }
}
