//! Control planes under changing wishes and failing members: the quorum of etcd is never lost by us.

use jiff::Timestamp;
use proptest::prelude::*;
use trellis_engine::pools::control_plane::{self, ControlPlaneMachine, EtcdMember, EtcdSeen, Step};
use trellis_engine::pools::{MachineState, Member, PoolWish};
use trellis_model::pool::{DeletePolicy, UpdatePolicy};
use trellis_model::quantity::Count;

use crate::world::{Chance, at};

/// Something that changes from outside.
#[derive(Debug, Clone)]
enum Change {
    Scale(u32),
    Revision(u8),
    Remove(usize),
    Surge(u32),
}

#[derive(Debug, Clone)]
struct Story {
    replicas: u32,
    surge: u32,
    /// Hundredths of moments at which a member falls silent.
    trouble: i64,
    changes: Vec<(u32, Change)>,
    seed: u64,
}

fn stories() -> impl Strategy<Value = Story> {
    let sizes = || prop_oneof![Just(1_u32), Just(3), Just(5), Just(4)];
    let change = prop_oneof![
        sizes().prop_map(Change::Scale),
        (0..3_u8).prop_map(Change::Revision),
        any::<usize>().prop_map(Change::Remove),
        (0..4_u32).prop_map(Change::Surge),
    ];
    let changes = proptest::collection::vec((0..60_u32, change), 0..8);
    (sizes(), 0..4_u32, 0..5_i64, changes, any::<u64>()).prop_map(
        |(replicas, surge, trouble, changes, seed)| Story { replicas, surge, trouble, changes, seed },
    )
}

/// A plan, so that a broken one can be put in its place.
type Plan = fn(&PoolWish, &[ControlPlaneMachine], &EtcdSeen, Timestamp) -> control_plane::ControlPlanePlan;

struct World {
    wish: PoolWish,
    machines: Vec<ControlPlaneMachine>,
    etcd: Vec<EtcdMember>,
    chance: Chance,
    trouble: i64,
    plan: Plan,
    tick: i64,
    serial: u32,
    steps: usize,
    breaches: Vec<String>,
}

impl World {
    fn quorum(&self) -> bool {
        let voting = self.etcd.iter().filter(|member| member.voting);
        let healthy = voting.clone().filter(|member| member.healthy).count();
        healthy > voting.count() / 2
    }

    fn joined(&self, name: &str) -> bool {
        self.etcd.iter().any(|member| member.machine == name)
    }

    fn votes(&self, name: &str) -> bool {
        self.etcd.iter().any(|member| member.machine == name && member.voting)
    }

    /// What happens by itself in one moment.
    fn nature(&mut self) {
        for machine in &mut self.machines {
            let name = machine.member.name.clone();
            let joined = self.etcd.iter().any(|member| member.machine == name);
            match machine.member.state {
                MachineState::Coming if self.chance.percent(self.trouble) => {
                    machine.member.state = MachineState::Failed;
                }
                MachineState::Coming if self.chance.percent(30) => {
                    machine.member.state = MachineState::Ready(at(self.tick * 1000));
                }
                MachineState::Ready(_) if !joined && !machine.left && self.chance.percent(30) => {
                    self.etcd.push(EtcdMember {
                        machine: name,
                        healthy: false,
                        voting: false,
                        elsewhere: false,
                    });
                }
                _ => {}
            }
        }
        let mut silenced = self.etcd.iter().filter(|member| member.voting && !member.healthy).count();
        let voting = self.etcd.iter().filter(|member| member.voting).count();
        for member in &mut self.etcd {
            let machine = self.machines.iter_mut().find(|machine| machine.member.name == member.machine);
            let failed = machine.as_ref().is_none_or(|machine| machine.member.state == MachineState::Failed);
            if !member.healthy && !failed && self.chance.percent(40) {
                member.healthy = true;
            } else if member.voting && member.healthy && self.chance.percent(self.trouble) {
                // Nature itself leaves the quorum.
                if voting - silenced - 1 > voting / 2 {
                    silenced += 1;
                    member.healthy = false;
                    if let Some(machine) = machine.filter(|machine| machine.member.stays())
                        && self.chance.percent(50)
                    {
                        machine.member.state = MachineState::Failed;
                    }
                }
            }
        }
    }

    fn act(&mut self) {
        let etcd = if self.etcd.is_empty() { EtcdSeen::Absent } else { EtcdSeen::Members(self.etcd.clone()) };
        let plan = (self.plan)(&self.wish, &self.machines, &etcd, at(self.tick * 1000));
        for name in &plan.may_go {
            if self.chance.percent(30) {
                if self.joined(name) {
                    self.breaches.push(format!("{name} goes and is still a member"));
                }
                self.machines.retain(|machine| machine.member.name != *name);
            }
        }
        let Some(step) = plan.step else { return };
        self.steps += 1;
        let had_quorum = self.etcd.is_empty() || self.quorum();
        let all_healthy = |world: &Self| world.etcd.iter().all(|member| member.healthy || !member.voting);
        match &step {
            Step::Make(count) => self.make(*count),
            Step::Promote(name) => {
                let learner = self.etcd.iter_mut().find(|member| member.machine == *name);
                learner.unwrap().voting = true;
            }
            Step::RemoveMember(name) => {
                let leaving = self.etcd.iter().find(|member| member.machine == *name).unwrap().clone();
                if leaving.voting && leaving.healthy && !all_healthy(self) {
                    self.breaches.push(format!("{name} leaves while another member is silent"));
                }
                self.etcd.retain(|member| member.machine != *name);
                let machine = self.machines.iter_mut().find(|machine| machine.member.name == *name);
                if let Some(machine) = machine {
                    machine.left = true;
                }
                let voting = self.etcd.iter().filter(|member| member.voting).count();
                if leaving.voting && leaving.healthy && voting + 1 < self.wish.replicas as usize {
                    self.breaches.push(format!("{voting} members vote after {name} left"));
                }
            }
            Step::Delete(name) => {
                if self.joined(name) {
                    self.breaches.push(format!("{name} is deleted and still a member"));
                }
                if self
                    .machines
                    .iter()
                    .any(|machine| machine.member.goes() && !self.joined(&machine.member.name))
                {
                    self.breaches.push(format!("{name} is deleted while another goes"));
                }
                let machine = self.machines.iter_mut().find(|machine| machine.member.name == *name);
                machine.unwrap().member.state = MachineState::Going;
            }
        }
        if !had_quorum || (!self.etcd.is_empty() && !self.quorum()) {
            self.breaches.push(format!("{step:?} without a quorum: {:?}", self.etcd));
        }
    }

    fn make(&mut self, count: u32) {
        for _ in 0..count {
            self.serial += 1;
            self.machines.push(ControlPlaneMachine {
                member: Member {
                    name: format!("m{}", self.serial),
                    created: at(self.tick * 1000),
                    zone: None,
                    ordinal: None,
                    state: MachineState::Coming,
                    delete_first: false,
                    preserved: false,
                },
                revision: self.wish.revision.clone(),
                left: false,
            });
        }
        let coming = self.machines.iter().filter(|machine| {
            machine.member.stays()
                && !self.votes(&machine.member.name)
                && machine.revision == self.wish.revision
        });
        let (coming, existing) = (coming.count(), self.machines.len());
        let most = self.wish.replicas as usize + 1;
        if !self.etcd.is_empty() && (coming > 1 || existing > most.max(2)) {
            self.breaches.push(format!("{coming} machines come at once, {existing} exist"));
        }
    }
}

fn live(story: &Story, plan: Plan) -> World {
    let mut world = World {
        wish: PoolWish {
            replicas: story.replicas,
            update: UpdatePolicy {
                max_surge: Count::Absolute(story.surge),
                max_unavailable: Count::Absolute(2),
                ..UpdatePolicy::default()
            },
            delete_policy: DeletePolicy::Random,
            revision: "r0".to_owned(),
            zones: Vec::new(),
            control_plane: true,
        },
        machines: Vec::new(),
        etcd: Vec::new(),
        chance: Chance::new(story.seed),
        trouble: 0,
        plan,
        tick: 0,
        serial: 0,
        steps: 0,
        breaches: Vec::new(),
    };
    // The first members vote from the start.
    world.act();
    for machine in &mut world.machines {
        machine.member.state = MachineState::Ready(at(0));
        let machine = machine.member.name.clone();
        world.etcd.push(EtcdMember { machine, healthy: true, voting: true, elsewhere: false });
    }
    world.trouble = story.trouble;
    let run = |world: &mut World, ticks: u32| {
        for _ in 0..ticks {
            world.tick += 1;
            world.nature();
            world.act();
        }
    };
    for (after, change) in &story.changes {
        run(&mut world, *after);
        match change {
            Change::Scale(replicas) => world.wish.replicas = *replicas,
            Change::Revision(revision) => world.wish.revision = format!("r{revision}"),
            Change::Surge(surge) => world.wish.update.max_surge = Count::Absolute(*surge),
            Change::Remove(which) => {
                let count = world.machines.len().max(1);
                if let Some(machine) = world.machines.get_mut(which % count) {
                    machine.member.state = MachineState::Going;
                }
            }
        }
    }
    world.trouble = 0;
    run(&mut world, 600);
    let arrived = world.machines.len() == world.wish.replicas as usize
        && world.etcd.len() == world.machines.len()
        && world
            .machines
            .iter()
            .all(|machine| machine.revision == world.wish.revision && world.votes(&machine.member.name));
    if !arrived {
        world.breaches.push(format!("not as wished: {:?} {:?}", world.machines, world.etcd));
    }
    let steps = world.steps;
    run(&mut world, 50);
    if world.steps != steps {
        world.breaches.push("not quiet".to_owned());
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_quorum_holds_at_each_instant_and_every_wish_is_reached(story in stories()) {
        let world = live(&story, control_plane::plan);
        prop_assert!(world.breaches.is_empty(), "{:#?}", world.breaches);
    }
}

/// Whether some of many stories finds a breach in a broken plan.
fn noticed(plan: Plan) -> bool {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..300).any(|_| {
        let story = stories().new_tree(&mut runner).unwrap().current();
        !live(&story, plan).breaches.is_empty()
    })
}

#[test]
fn broken_plans_are_noticed() {
    let blind: Plan = |wish, machines, etcd, now| {
        let mut etcd = etcd.clone();
        if let EtcdSeen::Members(members) = &mut etcd {
            for member in members {
                member.healthy = true;
            }
        }
        control_plane::plan(wish, machines, &etcd, now)
    };
    assert!(noticed(blind), "not to look at health");
    let hasty: Plan = |wish, machines, etcd, now| {
        let mut plan = control_plane::plan(wish, machines, etcd, now);
        plan.may_go = machines
            .iter()
            .filter(|machine| machine.member.goes())
            .map(|machine| machine.member.name.clone())
            .collect();
        plan
    };
    assert!(noticed(hasty), "to let machines go before their member left");
    let impatient: Plan = |wish, machines, etcd, now| {
        let machines: Vec<_> =
            machines.iter().filter(|machine| machine.member.state != MachineState::Coming).cloned().collect();
        control_plane::plan(wish, &machines, etcd, now)
    };
    assert!(noticed(impatient), "not to wait for machines that come");
}
