//! What a pool's plans look at; plain data.

use jiff::{SignedDuration, Timestamp};
use trellis_model::pool::{DeletePolicy, UpdatePolicy, UpdateStrategy};

/// What a pool is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWish {
    /// How many machines.
    pub replicas: u32,
    /// How an update goes.
    pub update: UpdatePolicy,
    /// Which machines go first.
    pub delete_policy: DeletePolicy,
    /// The revision machines are to have.
    pub revision: String,
    /// The zones machines are spread over; empty for none.
    pub zones: Vec<String>,
    /// Whether it is a control plane: one at a time, and the quorum of etcd is kept.
    pub control_plane: bool,
}

impl PoolWish {
    /// Whether an update replaces the machines of a revision now.
    pub fn replaces(&self, revision: &str) -> bool {
        let rolls = self.update.strategy == UpdateStrategy::RollingUpdate && !self.update.paused;
        rolls && revision != self.revision
    }
}

/// Machines of one revision of a pool: a MachineSet where the family has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSeen {
    /// Its name, unique in the pool. Several sets may have one revision: adopted ones whose templates differ in
    /// spelling only.
    pub name: String,
    /// The revision: the model's canonical hash, so that equal meaning is equal text.
    pub revision: String,
    /// Its place in the history: higher is newer.
    pub number: u64,
    /// How many machines it was told to have. Those not made yet count as machines. Where a family stores no such
    /// number it is the number of machines that stay.
    pub wished: u32,
    /// Its machines, those that are going included.
    pub members: Vec<Member>,
}

/// A machine, as far as its pool looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// Its zone.
    pub zone: Option<String>,
    /// Its number in the pool, where the family numbers machines.
    pub ordinal: Option<u32>,
    /// Where it is.
    pub state: MachineState,
    /// It goes first, as soon as one may go.
    pub delete_first: bool,
    /// It is kept although it failed, and does not count as a machine of the pool.
    pub preserved: bool,
}

impl Member {
    /// Whether it is a machine the pool counts on: not kept for debugging, and not on its way out.
    pub fn stays(&self) -> bool {
        !self.preserved && self.state != MachineState::Going
    }

    /// Whether it is on its way out and still takes room.
    pub fn goes(&self) -> bool {
        !self.preserved && self.state == MachineState::Going
    }

    /// Since when it counts as available, or from when on it will: its Node was ready for long enough.
    pub fn available_from(&self, min_ready_seconds: u32) -> Option<Timestamp> {
        match self.state {
            MachineState::Ready(since) if !self.preserved => Some(
                since
                    .checked_add(SignedDuration::from_secs(min_ready_seconds.into()))
                    .unwrap_or(Timestamp::MAX),
            ),
            _ => None,
        }
    }

    /// Whether its Node has been ready for long enough.
    pub fn is_available(&self, min_ready_seconds: u32, now: Timestamp) -> bool {
        self.available_from(min_ready_seconds).is_some_and(|from| from <= now)
    }
}

/// Where a machine is, as far as its pool looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineState {
    /// It is being made.
    Coming,
    /// Its Node has been ready since then.
    Ready(Timestamp),
    /// It had a ready Node and has none now.
    Unready,
    /// It failed.
    Failed,
    /// It is being removed.
    Going,
}
