//! A world in virtual time: machines come, get ready, fail, are drained and go, each when chance says; plans are made
//! only when something happened or a deadline that a plan named has come. Each breach of a promise is noted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trellis_engine::pools::{
    Bounds, MachineState, Mark, Member, PoolWish, RolloutPlan, SetSeen, SetWish, Starts, rollout, set,
};
use trellis_model::pool::UpdateStrategy;

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// Chance from a seed.
#[derive(Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn percent(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }

    /// Between zero and one, neither included.
    #[expect(clippy::cast_precision_loss, reason = "chance")]
    pub(crate) fn part(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// How long things take and how often they fail.
#[derive(Debug, Clone)]
pub(crate) struct Nature {
    pub(crate) boot: Time,
    pub(crate) drain: Time,
    /// Hundredths of machines that never come, that lose their Node later, and that are kept when they failed.
    pub(crate) never: i64,
    pub(crate) breaks: i64,
    pub(crate) kept: i64,
    /// The sets act on their own, so long after they were told.
    pub(crate) delay: Option<i64>,
}

/// A time in milliseconds.
#[derive(Debug, Clone)]
pub(crate) enum Time {
    Fixed(i64),
    Below(i64),
    /// With that mean, and the sigma of the logarithm.
    LogNormal(f64, f64),
}

impl Time {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds of a machine's boot")]
    pub(crate) fn draw(&self, chance: &mut Chance) -> i64 {
        match self {
            Self::Fixed(time) => *time,
            Self::Below(end) => 1 + chance.below(*end),
            Self::LogNormal(mean, sigma) => {
                let (one, other) = (chance.part(), chance.part());
                let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
                (mean * (sigma * normal - sigma * sigma / 2.0).exp()) as i64
            }
        }
    }
}

#[derive(Clone)]
struct Machine {
    member: Member,
    /// What happens to it next; nothing as a state means that it is gone.
    next: Option<(i64, Option<MachineState>)>,
}

#[derive(Clone)]
struct Set {
    name: String,
    revision: String,
    number: u64,
    wished: u32,
    machines: Vec<Machine>,
    /// When it acts by itself.
    acts: Option<i64>,
}

/// What the plan is shown instead of the truth; the truth unless a test breaks it.
pub(crate) type Lens = fn(Vec<SetSeen>) -> Vec<SetSeen>;

pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) wish: PoolWish,
    pub(crate) nature: Nature,
    pub(crate) lens: Lens,
    /// Whether sets keep to the limits of the plan.
    pub(crate) limits: bool,
    /// Nothing fails any more.
    pub(crate) calm: bool,
    pub(crate) breaches: Vec<String>,
    /// Machines made and removed by the plans.
    pub(crate) actions: usize,
    /// The drawn times of all machines of the wished revision, boot and drain.
    pub(crate) boots: i64,
    sets: Vec<Set>,
    mark: Option<Mark>,
    deadline: Option<i64>,
    chance: Chance,
    serial: u32,
}

impl World {
    pub(crate) fn new(wish: PoolWish, nature: Nature, seed: u64) -> Self {
        Self {
            now: 1_000_000,
            wish,
            nature,
            lens: |sets| sets,
            limits: true,
            calm: false,
            breaches: Vec::new(),
            actions: 0,
            boots: 0,
            sets: Vec::new(),
            mark: None,
            deadline: None,
            chance: Chance::new(seed),
            serial: 0,
        }
    }

    fn machines(&self) -> impl Iterator<Item = (&Set, &Machine)> {
        self.sets.iter().flat_map(|set| set.machines.iter().map(move |machine| (set, machine)))
    }

    fn existing(&self) -> u32 {
        let counted = self.machines().filter(|(_, machine)| !machine.member.preserved);
        u32::try_from(counted.count()).unwrap()
    }

    fn staying(&self, index: usize) -> u32 {
        let machines = self.sets[index].machines.iter();
        u32::try_from(machines.filter(|machine| machine.member.stays()).count()).unwrap()
    }

    /// Available machines.
    fn available(&self) -> u32 {
        let counted = self.machines().filter(|(_, machine)| self.is_available(&machine.member));
        u32::try_from(counted.count()).unwrap()
    }

    fn is_available(&self, member: &Member) -> bool {
        let settle = i64::from(self.wish.update.min_ready_seconds) * 1000;
        match member.state {
            MachineState::Ready(since) => !member.preserved && since.as_millisecond() + settle <= self.now,
            _ => false,
        }
    }

    fn seen(&self) -> Vec<SetSeen> {
        let direct = self.nature.delay.is_none();
        let sets = self.sets.iter().map(|set| {
            let members: Vec<Member> = set.machines.iter().map(|machine| machine.member.clone()).collect();
            let staying = u32::try_from(members.iter().filter(|member| member.stays()).count()).unwrap();
            SetSeen {
                name: set.name.clone(),
                revision: set.revision.clone(),
                number: set.number,
                wished: if direct { staying } else { set.wished },
                members,
            }
        });
        (self.lens)(sets.collect())
    }

    fn plan(&self) -> RolloutPlan {
        rollout::plan(&self.wish, &self.seen(), self.mark.as_ref(), at(self.now))
    }

    /// Plans the pool and writes what changed; whether anything did.
    fn pool_pass(&mut self) -> bool {
        let plan = self.plan();
        self.mark = Some(plan.mark);
        self.deadline = plan.deadline.map(|deadline| deadline.at.as_millisecond());
        if self.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.breaches.push(format!("a deadline that has passed already at {}", self.now));
        }
        let mut changed = !plan.prune.is_empty();
        self.sets.retain(|set| !plan.prune.contains(&set.name));
        for sizing in plan.sets {
            let index = if let Some(name) = &sizing.name {
                self.sets.iter().position(|set| set.name == *name)
            } else {
                self.serial += 1;
                changed = true;
                self.sets.push(Set {
                    name: format!("set-{}", self.serial),
                    revision: sizing.revision.clone(),
                    number: sizing.number,
                    wished: 0,
                    machines: Vec::new(),
                    acts: None,
                });
                Some(self.sets.len() - 1)
            };
            let Some(index) = index else { continue };
            changed |= self.sets[index].number != sizing.number;
            self.sets[index].number = sizing.number;
            if let Some(delay) = self.nature.delay {
                changed |= self.sets[index].wished != sizing.size;
                self.sets[index].wished = sizing.size;
                let staying =
                    self.sets[index].machines.iter().filter(|machine| machine.member.stays()).count();
                if u32::try_from(staying).unwrap() != sizing.size {
                    let acts = self.now + 1 + self.chance.below(delay + 1);
                    self.sets[index].acts.get_or_insert(acts);
                }
            } else if self.staying(index) != sizing.size {
                changed |= self.set_pass(index, sizing.size, sizing.limit);
            }
        }
        changed
    }

    /// A set acts by itself, some time after it was told.
    fn delayed_set_pass(&mut self, index: usize) -> bool {
        let name = self.sets[index].name.clone();
        let plan = self.plan();
        let Some(sizing) = plan.sets.iter().find(|sizing| sizing.name.as_ref() == Some(&name)) else {
            return false;
        };
        let size = sizing.checked(self.sets[index].wished, self.staying(index));
        self.set_pass(index, size, sizing.limit)
    }

    fn set_pass(&mut self, index: usize, size: u32, limit: u32) -> bool {
        let taken: BTreeSet<u32> =
            self.machines().filter_map(|(_, machine)| machine.member.ordinal).collect();
        let wish = SetWish {
            size,
            limit: self.limits.then_some(limit),
            zones: self.wish.zones.clone(),
            leaving: self.wish.replaces(&self.sets[index].revision),
            delete_policy: self.wish.delete_policy,
            min_ready_seconds: self.wish.update.min_ready_seconds,
            taken,
            starts: Starts::default(),
        };
        let members: Vec<Member> =
            self.sets[index].machines.iter().map(|machine| machine.member.clone()).collect();
        let plan = set::plan(&wish, &members, at(self.now));
        if let Some(deadline) = plan.deadline {
            self.deadline = self.deadline.into_iter().chain([deadline.at.as_millisecond()]).min();
        }
        for new in &plan.make {
            let name = format!("m-{}-{}", new.ordinal, self.serial);
            self.serial += 1;
            let member = Member {
                name,
                created: at(self.now),
                zone: new.zone.clone(),
                ordinal: Some(new.ordinal),
                state: MachineState::Coming,
                delete_first: false,
                preserved: false,
            };
            let mut machine = Machine { member, next: None };
            self.enter(&mut machine, MachineState::Coming);
            self.sets[index].machines.push(machine);
        }
        for name in &plan.delete {
            self.remove(name, true);
        }
        self.check_made(plan.make.len());
        self.actions += plan.make.len() + plan.delete.len();
        !plan.make.is_empty() || !plan.delete.is_empty()
    }

    fn check_made(&mut self, made: usize) {
        if made == 0 {
            return;
        }
        let (existing, most) = (self.existing(), Bounds::of(&self.wish).most());
        if existing > most {
            self.breaches.push(format!("{existing} machines exist at {}, {most} may", self.now));
        }
        let ordinals: Vec<u32> = self.machines().filter_map(|(_, machine)| machine.member.ordinal).collect();
        if ordinals.iter().collect::<BTreeSet<_>>().len() != ordinals.len() {
            self.breaches.push(format!("two machines have one number at {}", self.now));
        }
    }

    /// Removes a machine, by a plan or by somebody.
    fn remove(&mut self, name: &str, by_plan: bool) {
        let Some((set, place)) = self.sets.iter().enumerate().find_map(|(index, set)| {
            let place = set.machines.iter().position(|machine| machine.member.name == name)?;
            Some((index, place))
        }) else {
            return;
        };
        let mut machine = self.sets[set].machines[place].clone();
        let was_available = self.is_available(&machine.member);
        if machine.member.state == MachineState::Going || (by_plan && machine.member.preserved) {
            self.breaches.push(format!("{name} is removed twice, or although it is kept"));
        }
        self.enter(&mut machine, MachineState::Going);
        self.sets[set].machines[place] = machine;
        let (available, least) = (self.available(), Bounds::of(&self.wish).least());
        if by_plan && was_available && available < least {
            self.breaches.push(format!("{available} are available at {}, {least} must be", self.now));
        }
        if by_plan && self.wish.update.paused && self.existing() <= self.wish.replicas {
            self.breaches.push(format!("{name} is removed from a paused pool"));
        }
    }

    /// A machine gets into a state, and chance decides what comes next.
    fn enter(&mut self, machine: &mut Machine, state: MachineState) {
        machine.member.state = state;
        let chance = &mut self.chance;
        let now = self.now;
        machine.next = match state {
            MachineState::Coming if !self.calm && chance.percent(self.nature.never) => {
                Some((now + 60_000, Some(MachineState::Failed)))
            }
            MachineState::Coming => {
                let boot = self.nature.boot.draw(chance);
                self.boots += boot;
                Some((now + boot, Some(MachineState::Ready(at(now + boot)))))
            }
            MachineState::Ready(_) if !self.calm && chance.percent(self.nature.breaks) => {
                Some((now + 1 + chance.below(200_000), Some(MachineState::Unready)))
            }
            MachineState::Ready(_) => None,
            MachineState::Unready if chance.percent(60) => {
                let back = now + 1 + chance.below(50_000);
                Some((back, Some(MachineState::Ready(at(back)))))
            }
            MachineState::Unready => Some((now + 1 + chance.below(50_000), Some(MachineState::Failed))),
            MachineState::Failed if chance.percent(self.nature.kept) => {
                machine.member.preserved = true;
                None
            }
            // What looks after the health of machines removes it.
            MachineState::Failed => Some((now + 1 + chance.below(30_000), Some(MachineState::Going))),
            MachineState::Going => {
                let drain = self.nature.drain.draw(chance);
                self.boots += drain;
                Some((now + drain, None))
            }
        };
    }

    /// Somebody removes a machine.
    pub(crate) fn somebody_removes(&mut self, which: usize) {
        if let Some(name) = self.pick(which) {
            self.remove(&name, false);
        }
    }

    /// Somebody marks a machine to go first.
    pub(crate) fn somebody_marks(&mut self, which: usize) {
        let Some(name) = self.pick(which) else { return };
        for machine in self.sets.iter_mut().flat_map(|set| &mut set.machines) {
            machine.member.delete_first |= machine.member.name == name;
        }
    }

    fn pick(&self, which: usize) -> Option<String> {
        let staying: Vec<String> = self
            .machines()
            .filter(|(_, machine)| machine.member.stays())
            .map(|(_, machine)| machine.member.name.clone())
            .collect();
        staying.get(which % staying.len().max(1)).cloned()
    }

    /// All that happens at this instant, and what the plans make of it.
    fn happen(&mut self) {
        for _ in 0..200 {
            self.machines_move();
            let mut changed = self.pool_pass();
            for index in 0..self.sets.len() {
                if self.sets[index].acts.is_some_and(|acts| acts <= self.now) {
                    self.sets[index].acts = None;
                    changed |= self.delayed_set_pass(index);
                }
            }
            if !changed {
                return;
            }
        }
        self.breaches.push(format!("plans find no end at {}", self.now));
    }

    fn machines_move(&mut self) {
        let now = self.now;
        for index in 0..self.sets.len() {
            let mut machines = std::mem::take(&mut self.sets[index].machines);
            machines
                .retain(|machine| !machine.next.is_some_and(|(when, state)| when <= now && state.is_none()));
            for machine in &mut machines {
                if let Some((_, Some(state))) = machine.next.filter(|(when, _)| *when <= now) {
                    self.enter(machine, state);
                }
            }
            self.sets[index].machines = machines;
        }
    }

    /// When something happens next.
    fn next(&self) -> Option<i64> {
        let machines = self.machines().filter_map(|(_, machine)| machine.next.map(|(when, _)| when));
        let acts = self.sets.iter().filter_map(|set| set.acts);
        machines.chain(acts).chain(self.deadline).filter(|when| *when > self.now).min()
    }

    /// Runs until that time, or until nothing happens any more.
    pub(crate) fn run_until(&mut self, end: i64) {
        self.happen();
        let mut moments = 0;
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.now = next;
            self.happen();
            moments += 1;
            if moments > 20_000 {
                self.breaches.push("it never ends".to_owned());
            }
            if !self.breaches.is_empty() {
                return;
            }
        }
        if end < i64::MAX {
            self.now = self.now.max(end);
        }
    }

    /// Whether the pool is exactly as wished, and the plan says so.
    pub(crate) fn check_arrived(&mut self) {
        let updated = self.machines().filter(|(set, machine)| {
            set.revision == self.wish.revision
                && !machine.member.preserved
                && matches!(machine.member.state, MachineState::Ready(_))
        });
        let (updated, existing) = (u32::try_from(updated.count()).unwrap(), self.existing());
        if (updated, existing) != (self.wish.replicas, self.wish.replicas) {
            let wished = self.wish.replicas;
            self.breaches.push(format!("{updated} of {existing} machines are updated, {wished} are wished"));
        }
        let plan = self.plan();
        if plan.progress.is_err() || plan.deadline.is_some() || !plan.prune.is_empty() {
            self.breaches.push(format!("not at its end: {plan:?}"));
        }
        let rolling = self.wish.update.strategy == UpdateStrategy::RollingUpdate;
        let newest = self.sets.iter().max_by_key(|set| set.number).map(|set| set.revision.clone());
        if rolling && newest.as_ref() != Some(&self.wish.revision) {
            self.breaches.push(format!("the newest revision is {newest:?}"));
        }
    }

    /// Whether nothing is done when nothing happens.
    pub(crate) fn check_quiet(&mut self) {
        let before = (self.actions, self.sets.len());
        for _ in 0..10 {
            self.now += 3_600_000;
            if self.pool_pass() || before != (self.actions, self.sets.len()) {
                self.breaches.push(format!("not quiet at {}", self.now));
            }
        }
    }

    /// How many machines each zone has.
    pub(crate) fn zones(&self) -> Vec<usize> {
        let count = |zone: &String| {
            self.machines().filter(|(_, machine)| machine.member.zone.as_ref() == Some(zone)).count()
        };
        self.wish.zones.iter().map(count).collect()
    }
}
