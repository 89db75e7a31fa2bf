//! The plan of one set: which machines are made, in which zone and with which number, and which go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use trellis_model::pool::DeletePolicy;

use super::seen::{MachineState, Member};
use crate::Deadline;

/// How many machines a single pass makes at most, and how many it removes: a pass is short, and the next sees what
/// this one did.
pub const BATCH: u32 = 100;

/// The first wait after a machine could not be made; each further failure in a row doubles it.
pub const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(5);

/// The longest wait after machines could not be made.
pub const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// While making machines fails, at most this many hundredths of the set are tried at once.
pub const STARTS_PERCENT: u32 = 10;

/// What a set is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetWish {
    /// How many machines stay.
    pub size: u32,
    /// How many machines may exist in the set at once, those that are going included; from
    /// [`Sizing::limit`](super::Sizing::limit). A family whose sets know no surge has no limit.
    pub limit: Option<u32>,
    /// The zones machines are spread over; empty for none.
    pub zones: Vec<String>,
    /// An update replaces all of its machines.
    pub leaving: bool,
    /// Which machines go first.
    pub delete_policy: DeletePolicy,
    /// Seconds a node must be ready before it counts as available.
    pub min_ready_seconds: u32,
    /// Numbers that machines of the pool outside this set have.
    pub taken: BTreeSet<u32>,
    /// How making machines went lately.
    pub starts: Starts,
}

/// How making machines of a set went lately; the caller keeps it, from [`Starts::failed`] and [`Starts::made`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Starts {
    /// How many failed in a row.
    pub failures: u32,
    /// When the last one failed.
    pub last_failure: Option<Timestamp>,
    /// How many went well since.
    pub since: u32,
}

impl Starts {
    /// One more could not be made.
    #[must_use]
    pub fn failed(self, now: Timestamp) -> Self {
        Self { failures: self.failures.saturating_add(1), last_failure: Some(now), since: 0 }
    }

    /// So many more were made. When a whole batch went well nothing is remembered of failures.
    #[must_use]
    pub fn made(self, count: u32) -> Self {
        let since = self.since.saturating_add(count);
        if self.failures == 0 || since >= BATCH { Self::default() } else { Self { since, ..self } }
    }

    /// When the next may be tried.
    pub fn next(&self) -> Option<Timestamp> {
        let doublings = self.failures.checked_sub(1)?.min(16);
        let wait = FIRST_WAIT.checked_mul(1 << doublings).map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT));
        // Once something went well again only the size of the steps is held back, not their pace.
        if self.since > 0 { None } else { self.last_failure?.checked_add(wait).ok() }
    }

    /// How many may be tried at once now, of a set of that size: everything while nothing failed, else 1, 2, 4 … as
    /// long as it goes well, and never more than a part of the set.
    fn allowance(&self, size: u32, now: Timestamp) -> u32 {
        if self.failures == 0 {
            return BATCH;
        }
        if self.next().is_some_and(|next| next > now) {
            return 0;
        }
        let part = u64::from(size) * u64::from(STARTS_PERCENT) / 100;
        let part = u32::try_from(part).unwrap_or(u32::MAX).max(1);
        self.since.saturating_add(1).min(part).min(BATCH)
    }
}

/// What is done to bring a set to its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetPlan {
    /// Machines to make.
    pub make: Vec<NewMember>,
    /// Names of machines to remove.
    pub delete: Vec<String>,
    /// How many machines cannot be made yet because others have not gone yet.
    pub held_back: u32,
    /// When machines may be made again after making them failed.
    pub deadline: Option<Deadline>,
}

/// A machine to be made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewMember {
    /// Its zone.
    pub zone: Option<String>,
    /// Its number: the smallest that no machine of the pool has.
    pub ordinal: u32,
}

/// Plans one set.
pub fn plan(wish: &SetWish, members: &[Member], now: Timestamp) -> SetPlan {
    let staying = count(members.iter().filter(|member| member.stays()));
    if staying > wish.size {
        let surplus = (staying - wish.size).min(BATCH) as usize;
        let of = Ordering { leaving: wish.leaving, policy: wish.delete_policy };
        let order = order(members, &wish.zones, of, wish.min_ready_seconds, now);
        let delete = order.iter().take(surplus).map(|(member, _)| member.name.clone()).collect();
        return SetPlan { delete, ..SetPlan::default() };
    }
    let missing = wish.size - staying;
    let existing = staying + count(members.iter().filter(|member| member.goes()));
    let room = wish.limit.map_or(missing, |limit| limit.saturating_sub(existing).min(missing));
    let makes = room.min(wish.starts.allowance(wish.size, now)).min(BATCH);
    let waits = room > makes && wish.starts.failures > 0;
    let deadline = wish.starts.next().filter(|at| waits && *at > now);
    SetPlan {
        make: newcomers(wish, members, makes),
        delete: Vec::new(),
        held_back: missing - room,
        deadline: deadline.map(|at| Deadline { at, of: "CreationBackOff" }),
    }
}

/// Plans one set where some numbers give names that machines of others have. A name does not become free by being asked
/// for again: whoever insisted on it would never have as many machines as wished.
pub fn plan_around(
    mut wish: SetWish,
    members: &[Member],
    is_named: impl Fn(u32) -> bool,
    now: Timestamp,
) -> SetPlan {
    loop {
        let planned = plan(&wish, members, now);
        let others: Vec<u32> =
            planned.make.iter().map(|new| new.ordinal).filter(|ordinal| is_named(*ordinal)).collect();
        if others.is_empty() {
            return planned;
        }
        wish.taken.extend(others);
    }
}

/// Places and numbers for that many new machines.
fn newcomers(wish: &SetWish, members: &[Member], makes: u32) -> Vec<NewMember> {
    let mut taken = wish.taken.clone();
    taken.extend(members.iter().filter_map(|member| member.ordinal));
    let mut free = (0..=u32::MAX).filter(|ordinal| !taken.contains(ordinal));
    let mut filled: BTreeMap<&str, u32> = wish.zones.iter().map(|zone| (zone.as_str(), 0)).collect();
    for member in members.iter().filter(|member| member.stays()) {
        if let Some(count) = member.zone.as_deref().and_then(|zone| filled.get_mut(zone)) {
            *count += 1;
        }
    }
    let mut makes_one = || {
        // Of equally filled zones the one that was written first.
        let zone = wish.zones.iter().min_by_key(|zone| filled.get(zone.as_str()).copied().unwrap_or(0));
        if let Some(count) = zone.and_then(|zone| filled.get_mut(zone.as_str())) {
            *count += 1;
        }
        Some(NewMember { zone: zone.cloned(), ordinal: free.next()? })
    };
    (0..makes).map_while(|_| makes_one()).collect()
}

/// How little a machine is missed: the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Somebody marked it.
    Marked,
    /// It failed.
    Failed,
    /// Its Node was ready and is not.
    Unready,
    /// It is being made.
    Coming,
    /// Its Node is ready, but not for long enough yet.
    Settling,
    /// Somebody marked it, it is available, and an update replaces all machines of its set: a mark says which of them is
    /// the first, and is no reason to let those wait that nobody would miss.
    Released,
    /// It is available.
    Available,
}

/// What decides which machines of a set go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordering {
    /// An update replaces all of them.
    pub leaving: bool,
    /// What decides between machines that are missed equally.
    pub policy: DeletePolicy,
}

impl Rank {
    fn of(member: &Member, leaving: bool, min_ready_seconds: u32, now: Timestamp) -> Self {
        match member.state {
            _ if member.delete_first && !leaving => Self::Marked,
            MachineState::Ready(_) if member.delete_first && member.is_available(min_ready_seconds, now) => {
                Self::Released
            }
            MachineState::Failed | MachineState::Going => Self::Failed,
            MachineState::Unready => Self::Unready,
            MachineState::Coming => Self::Coming,
            MachineState::Ready(_) if member.is_available(min_ready_seconds, now) => Self::Available,
            MachineState::Ready(_) => Self::Settling,
        }
    }
}

/// The machines that stay by [`Rank`] alone: what [`order`] gives to those who do not ask which machine of a rank it is.
pub(super) fn ranked(
    members: &[Member],
    leaving: bool,
    min_ready_seconds: u32,
    now: Timestamp,
) -> Vec<(&Member, Rank)> {
    let staying = members.iter().filter(|member| member.stays());
    let rank = |member| Rank::of(member, leaving, min_ready_seconds, now);
    let mut all: Vec<_> = staying.map(|member| (member, rank(member))).collect();
    all.sort_by_key(|(_, rank)| *rank);
    all
}

/// The machines that stay, in the order in which they would go: by [`Rank`], then from the fullest zone (a zone that
/// is no longer wished counts as fullest), then by the policy. `Random` is a hash of the name: without any order that
/// people could rely on, and yet the same in each pass, so that two passes never remove two different machines.
pub fn order<'a>(
    members: &'a [Member],
    zones: &[String],
    of: Ordering,
    min_ready_seconds: u32,
    now: Timestamp,
) -> Vec<(&'a Member, Rank)> {
    let mut ranks: BTreeMap<Rank, BTreeMap<Option<&str>, Vec<Place<'_>>>> = BTreeMap::new();
    let mut filled: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for member in members.iter().filter(|member| member.stays()) {
        let zone = member.zone.as_deref();
        let rank = Rank::of(member, of.leaving, min_ready_seconds, now);
        let place = (precedence(of.policy, member), member);
        ranks.entry(rank).or_default().entry(zone).or_default().push(place);
        *filled.entry(zone).or_default() += 1;
    }
    let wished = |zone: Option<&str>| {
        zones.is_empty() || zone.is_some_and(|zone| zones.iter().any(|wish| wish == zone))
    };
    let mut all = Vec::with_capacity(members.len());
    for (rank, mut by_zone) in ranks {
        for queue in by_zone.values_mut() {
            // The last of the queue goes first.
            queue.sort_unstable_by(|one, other| other.0.cmp(&one.0));
        }
        loop {
            let fullest = by_zone
                .iter()
                .filter(|(_, queue)| !queue.is_empty())
                .min_by_key(|(zone, queue)| {
                    let next = queue.last().map(|(precedence, _)| *precedence);
                    (wished(**zone), Reverse(filled.get(*zone).copied().unwrap_or(0)), next)
                })
                .map(|(zone, _)| *zone);
            let Some(zone) = fullest else { break };
            let Some((_, member)) = by_zone.get_mut(&zone).and_then(Vec::pop) else { break };
            if let Some(count) = filled.get_mut(&zone) {
                *count = count.saturating_sub(1);
            }
            all.push((member, rank));
        }
    }
    all
}

/// What decides between machines that are missed equally; the smallest goes first.
type Precedence<'a> = (i128, u64, &'a str);

/// A machine with its place among those that are missed equally.
type Place<'a> = (Precedence<'a>, &'a Member);

fn precedence(policy: DeletePolicy, member: &Member) -> Precedence<'_> {
    let (age, chance) = match policy {
        DeletePolicy::Random => (0, hash(&member.name)),
        DeletePolicy::Oldest => (member.created.as_nanosecond(), 0),
        DeletePolicy::Newest => (-member.created.as_nanosecond(), 0),
    };
    (age, chance, &member.name)
}

/// FNV-1a, then mixed so that names that differ in their last digit only are far apart: short, the same everywhere and
/// for ever.
fn hash(text: &str) -> u64 {
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

pub(super) fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
