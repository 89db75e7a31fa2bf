//! The plan of a pool: how many machines each of its revisions is to have.
//!
//! Two bounds hold at each instant. Not more than `replicas + surge` machines exist: those that are going still take
//! room, and those that a set was told to have but has not made yet take it already. And nothing that is done here
//! leaves fewer than `replicas - unavailable` machines available.
//!
//! The plan does in one step all that the bounds permit, so each replacement begins at the first moment it may. Room
//! that a step sets free is given away only by the next plan, when the step is seen to have been taken.

use jiff::Timestamp;
use trellis_model::pool::UpdateStrategy;

use super::report::{self, Counts, Mark, NotYet, Patience};
use super::seen::{MachineState, Member, PoolWish, SetSeen};
use super::set::{self, Rank, count};
use crate::{Condition, Deadline};

/// Between which numbers a pool may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many machines are wished.
    pub replicas: u32,
    /// How many more may exist.
    pub surge: u32,
    /// How many fewer may be available.
    pub unavailable: u32,
}

impl Bounds {
    /// The bounds of a wish. If both round to nothing, one machine may be unavailable, or an update could never move.
    /// A control plane changes one machine at a time whatever is wished.
    pub fn of(wish: &PoolWish) -> Self {
        let replicas = wish.replicas;
        let surge = wish.update.max_surge.of(replicas, true);
        let unavailable = wish.update.max_unavailable.of(replicas, false);
        let (surge, unavailable) = match (surge, unavailable) {
            (0, 0) => (0, 1),
            (0, _) if wish.control_plane => (0, 1),
            _ if wish.control_plane => (1, 0),
            both => both,
        };
        Self { replicas, surge, unavailable }
    }

    /// How many machines may exist at most.
    pub fn most(&self) -> u32 {
        self.replicas.saturating_add(self.surge)
    }

    /// How many machines are to be available at least.
    pub fn least(&self) -> u32 {
        self.replicas.saturating_sub(self.unavailable)
    }
}

/// What a pool's sets are to be, and what is to be told about the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPlan {
    /// What each set is to be; one that does not exist yet has no name.
    pub sets: Vec<Sizing>,
    /// Names of sets that are no longer kept: empty ones beyond the history limit.
    pub prune: Vec<String>,
    /// The machines in numbers.
    pub counts: Counts,
    /// What is missing, if anything is.
    pub progress: Result<(), NotYet>,
    /// How far it has come; to be kept and handed to the next plan.
    pub mark: Mark,
    /// What holds for the pool.
    pub conditions: Vec<Condition>,
    /// When it is to be looked at again although nothing happened.
    pub deadline: Option<Deadline>,
}

/// What a set is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizing {
    /// Its name; none for one to be made.
    pub name: Option<String>,
    /// Its revision.
    pub revision: String,
    /// Its place in the history. The wished revision always has the highest: a revision gone back to gets a new one.
    pub number: u64,
    /// How many machines stay.
    pub size: u32,
    /// How many of its machines may exist at once, those that are going included. The limits of a pool's sets
    /// together keep to the pool's bound.
    pub limit: u32,
}

impl Sizing {
    /// The size to plan a set with that was told a size before, in a step of its own, and has so many machines that
    /// stay: what it was told to lose it keeps if by now that would be missed.
    pub fn checked(&self, told: u32, staying: u32) -> u32 {
        if told < staying { told.max(self.size.min(staying)) } else { told }
    }
}

/// The number a new revision gets.
pub fn next_number(sets: &[SetSeen]) -> u64 {
    sets.iter().map(|set| set.number).max().unwrap_or(0).saturating_add(1)
}

/// Plans a pool, from its wish, all its sets, and how far it had come.
pub fn plan(wish: &PoolWish, sets: &[SetSeen], last: Option<&Mark>, now: Timestamp) -> RolloutPlan {
    let counts = Counts::of(wish, sets, now);
    let progress = NotYet::of(wish, &counts);
    let mark = Mark::moved(last, wish, &counts, progress.is_ok(), now);
    let patience = Patience::of(wish, &progress, &mark, now);
    let mut plan = Sizes::of(wish, sets, now);
    plan.decide(wish);
    let sizings = plan.sizings(wish, sets);
    RolloutPlan {
        prune: if progress.is_ok() { prune(wish, sets) } else { Vec::new() },
        conditions: report::all_conditions(wish, &counts, &progress, &mark, patience.over),
        deadline: Deadline::earlier(patience.deadline, next_available(wish, sets, now)),
        sets: sizings,
        counts,
        progress,
        mark,
    }
}

/// When the next machine counts as available.
fn next_available(wish: &PoolWish, sets: &[SetSeen], now: Timestamp) -> Option<Deadline> {
    sets.iter()
        .flat_map(|set| &set.members)
        .filter_map(|member| member.available_from(wish.update.min_ready_seconds))
        .filter(|from| *from > now)
        .min()
        .map(|at| Deadline { at, of: "Available" })
}

/// Names of the sets that are no longer kept: of the old and empty ones the oldest.
fn prune(wish: &PoolWish, sets: &[SetSeen]) -> Vec<String> {
    let mut old: Vec<&SetSeen> = sets.iter().filter(|set| set.revision != wish.revision).collect();
    old.sort_by_key(|set| set.number);
    let surplus = old.len().saturating_sub(wish.update.history_limit as usize);
    old.iter()
        .filter(|set| set.wished == 0 && set.members.is_empty())
        .take(surplus)
        .map(|set| set.name.clone())
        .collect()
}

/// A set while its size is decided.
struct Size<'a> {
    set: &'a SetSeen,
    /// It has the wished revision.
    current: bool,
    target: u32,
    staying: u32,
    going: u32,
    /// Its staying machines in the order in which they would go.
    order: Vec<Loss>,
}

/// What a set would lose next.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Loss {
    /// A machine of that kind, or one that was not made yet.
    rank: Option<Rank>,
    /// It counts among the available machines.
    available: bool,
    /// It counts among those that are available or may be so again without a new machine.
    recoverable: bool,
}

impl Loss {
    /// A machine that was not made yet.
    const UNMADE: Self = Self { rank: None, available: false, recoverable: false };

    /// A mark says which machine goes first, and not when: pods run on it like on any other.
    fn of(member: &Member, rank: Rank, wish: &PoolWish, now: Timestamp) -> Self {
        Self {
            rank: Some(rank),
            available: member.is_available(wish.update.min_ready_seconds, now),
            recoverable: matches!(member.state, MachineState::Ready(_) | MachineState::Unready),
        }
    }
}

impl Size<'_> {
    /// The last machine it was told to lose.
    fn last_told(&self) -> Option<Loss> {
        let told = self.staying.checked_sub(self.target)?.checked_sub(1)?;
        self.order.get(told as usize).copied()
    }

    fn next_loss(&self) -> Option<Loss> {
        match self.target {
            0 => None,
            target if target > self.staying => Some(Loss::UNMADE),
            target => self.order.get((self.staying - target) as usize).copied(),
        }
    }
}

/// How many machines may still be lost.
struct Budget {
    /// Available ones.
    available: i64,
    /// Available ones and those that may be so again without a new machine.
    recoverable: i64,
}

impl Budget {
    /// Takes a loss out of the budget, if it is in it.
    fn spend(&mut self, loss: Loss) -> bool {
        // What costs nothing may go even when there is too little already.
        let granted = (!loss.available || self.available > 0) && (!loss.recoverable || self.recoverable > 0);
        if granted {
            self.available -= i64::from(loss.available);
            self.recoverable -= i64::from(loss.recoverable);
        }
        granted
    }
}

/// The sizes of all sets while they are decided, oldest first.
struct Sizes<'a> {
    all: Vec<Size<'a>>,
    bounds: Bounds,
    budget: Budget,
    /// What a set of the wished revision that does not exist yet is to have.
    newborn: u32,
}

impl<'a> Sizes<'a> {
    fn of(wish: &PoolWish, sets: &'a [SetSeen], now: Timestamp) -> Self {
        let bounds = Bounds::of(wish);
        let least = i64::from(bounds.least());
        let mut budget = Budget { available: -least, recoverable: -least };
        let mut all: Vec<Size<'a>> = sets.iter().map(|set| Size::of(wish, set, now)).collect();
        all.sort_by_key(|size| size.set.number);
        for size in &all {
            // What the set was already told to lose is as good as lost.
            let told = size.staying.saturating_sub(size.target) as usize;
            for loss in size.order.iter().skip(told) {
                budget.available += i64::from(loss.available);
                budget.recoverable += i64::from(loss.recoverable);
            }
        }
        Self { all, bounds, budget, newborn: 0 }
    }

    /// How many machines the sets were told to have.
    fn told(&self) -> u32 {
        self.all.iter().map(|size| size.target).sum()
    }

    /// How much room is taken: by machines that exist and by those that sets were told to make.
    fn taken(&self) -> u32 {
        self.all.iter().map(|size| size.target.max(size.staying) + size.going).sum()
    }

    /// Takes back what a set was told to lose and has not lost yet, when by now it would be missed.
    fn take_back(&mut self) {
        for size in self.all.iter_mut().rev() {
            while self.budget.available < 0
                && size.target < size.staying
                && size.last_told().is_some_and(|loss| loss.available)
            {
                size.target += 1;
                self.budget.available += 1;
                self.budget.recoverable += 1;
            }
        }
    }

    fn decide(&mut self, wish: &PoolWish) {
        self.take_back();
        let room = self.bounds.most().saturating_sub(self.taken());
        let active = self.all.iter().filter(|size| size.target > 0).count();
        let old = self.all.iter().any(|size| !size.current && size.target > 0);
        let everything = match (wish.update.paused, wish.update.strategy) {
            _ if self.bounds.replicas == 0 => 0,
            (true, _) if active > 1 => self.bounds.most(),
            (false, UpdateStrategy::RollingUpdate) if old => self.bounds.most(),
            _ => self.bounds.replicas,
        };
        let surplus = self.told().saturating_sub(everything);
        if wish.update.paused {
            self.shrink(surplus);
            self.grow_all(room);
            return;
        }
        let rolling = wish.update.strategy == UpdateStrategy::RollingUpdate;
        self.forget_unmade_old();
        let surplus = self.told().saturating_sub(everything).min(surplus);
        self.shrink(surplus);
        if rolling {
            self.shrink_current();
            self.replace_old();
        }
        self.grow_current(room, rolling);
    }

    /// Old machines that were not made yet never are.
    fn forget_unmade_old(&mut self) {
        for size in self.all.iter_mut().filter(|size| !size.current) {
            size.target = size.target.min(size.staying);
        }
    }

    /// Takes so many machines out: failed ones first, then from all sets in proportion, so that a bad revision does
    /// not take the place of a good one and the other way round; and where one set has nothing that can be missed,
    /// from the others.
    fn shrink(&mut self, surplus: u32) {
        let mut left = surplus;
        left -= self.lose(left, |_, loss| matches!(loss.rank, Some(Rank::Failed | Rank::Marked)));
        let shares = shares(left, &self.all.iter().map(|size| size.target).collect::<Vec<_>>());
        for (index, share) in shares.into_iter().enumerate() {
            left -= self.lose_from(index, share, |_| true);
        }
        self.lose(left, |_, _| true);
    }

    /// The wished revision never has more machines than wished.
    fn shrink_current(&mut self) {
        let current: u32 = self.all.iter().filter(|size| size.current).map(|size| size.target).sum();
        self.lose(current.saturating_sub(self.bounds.replicas), |current, _| current);
    }

    /// Takes out as many old machines as can be missed, those that do not work first.
    fn replace_old(&mut self) {
        self.lose(u32::MAX, |current, loss| !current && !loss.available);
        self.lose(u32::MAX, |current, _| !current);
    }

    /// Takes out up to so many machines that are fit for it, from the oldest set on.
    fn lose(&mut self, most: u32, fit: impl Fn(bool, Loss) -> bool) -> u32 {
        let mut lost = 0;
        for index in 0..self.all.len() {
            let current = self.all.get(index).is_some_and(|size| size.current);
            lost += self.lose_from(index, most - lost, |loss| fit(current, loss));
        }
        lost
    }

    fn lose_from(&mut self, index: usize, most: u32, fit: impl Fn(Loss) -> bool) -> u32 {
        let Some(size) = self.all.get_mut(index) else { return 0 };
        let before = size.target;
        while before - size.target < most {
            match size.next_loss() {
                Some(loss) if fit(loss) && self.budget.spend(loss) => size.target -= 1,
                _ => break,
            }
        }
        before - size.target
    }

    /// The wished revision grows as far as there is room.
    fn grow_current(&mut self, room: u32, rolling: bool) {
        let counted: u32 =
            self.all.iter().filter(|size| size.current || !rolling).map(|size| size.target).sum();
        let growth = self.bounds.replicas.saturating_sub(counted).min(room);
        match self.all.iter_mut().rev().find(|size| size.current) {
            Some(size) => size.target += growth,
            None => self.newborn = growth,
        }
    }

    /// All sets grow in proportion; without any, the wished revision does.
    fn grow_all(&mut self, room: u32) {
        let growth = self.bounds.replicas.saturating_sub(self.told()).min(room);
        if self.told() == 0 {
            match self.all.last_mut() {
                Some(newest) => newest.target = growth,
                None => self.newborn = growth,
            }
            return;
        }
        let shares = shares(growth, &self.all.iter().map(|size| size.target).collect::<Vec<_>>());
        for (size, share) in self.all.iter_mut().zip(shares) {
            size.target += share;
        }
    }

    /// What each set is to be. Room for machines that exist is given out newest revision first.
    fn sizings(&self, wish: &PoolWish, sets: &[SetSeen]) -> Vec<Sizing> {
        let existing: u32 = self.all.iter().map(|size| size.staying + size.going).sum();
        let mut room = self.bounds.most().saturating_sub(existing);
        let highest = sets.iter().map(|set| set.number).max().unwrap_or(0);
        let mut all = Vec::with_capacity(self.all.len() + 1);
        let has_current = self.all.iter().any(|size| size.current);
        if !has_current && (!wish.update.paused || self.newborn > 0) {
            room = room.saturating_sub(self.newborn);
            all.push(Sizing {
                name: None,
                revision: wish.revision.clone(),
                number: next_number(sets),
                size: self.newborn,
                limit: self.newborn,
            });
        }
        let mut first = !wish.update.paused;
        for size in self.all.iter().rev().filter(|size| size.current).chain(self.old()) {
            let makes = size.target.saturating_sub(size.staying).min(room);
            room -= makes;
            let renumber = size.current && std::mem::take(&mut first) && size.set.number < highest;
            all.push(Sizing {
                name: Some(size.set.name.clone()),
                revision: size.set.revision.clone(),
                number: if renumber { next_number(sets) } else { size.set.number },
                size: size.target,
                limit: size.staying + size.going + makes,
            });
        }
        all
    }

    fn old(&self) -> impl Iterator<Item = &Size<'a>> {
        self.all.iter().rev().filter(|size| !size.current)
    }
}

impl<'a> Size<'a> {
    fn of(wish: &PoolWish, set: &'a SetSeen, now: Timestamp) -> Self {
        let current = set.revision == wish.revision;
        let staying = count(set.members.iter().filter(|member| member.stays()));
        let leaving = wish.replaces(&set.revision);
        let marked = set.members.iter().any(|member| member.stays() && member.delete_first);
        let min_ready = wish.update.min_ready_seconds;
        let order = if marked && !leaving {
            let of = set::Ordering { leaving, policy: wish.delete_policy };
            set::order(&set.members, &wish.zones, of, min_ready, now)
        } else {
            // Without marks that go before all else a loss is as its rank says: which machine of a rank goes makes no difference here.
            set::ranked(&set.members, leaving, min_ready, now)
        };
        Self {
            set,
            current,
            target: set.wished,
            staying,
            going: count(set.members.iter().filter(|member| member.goes())),
            order: order.into_iter().map(|(member, rank)| Loss::of(member, rank, wish, now)).collect(),
        }
    }
}

/// Shares a number out in proportion to weights; what is left by rounding goes to the largest remainders, the first
/// of equals. No share is larger than the number.
fn shares(number: u32, weights: &[u32]) -> Vec<u32> {
    let whole: u64 = weights.iter().copied().map(u64::from).sum();
    if whole == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: u32| u64::from(number) * u64::from(weight);
    let mut shares: Vec<u64> = weights.iter().map(|weight| exact(*weight) / whole).collect();
    let given: u64 = shares.iter().sum();
    let mut by_rest: Vec<usize> = (0..weights.len()).collect();
    by_rest.sort_by_key(|index| {
        std::cmp::Reverse(weights.get(*index).map_or(0, |weight| exact(*weight) % whole))
    });
    for index in by_rest.into_iter().take(usize::try_from(u64::from(number) - given).unwrap_or(0)) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares.into_iter().map(|share| u32::try_from(share).unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
