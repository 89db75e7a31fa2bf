//! Plans of one machine in a small world: whatever happens, the rules hold at every look, and when the faults end the
//! machine runs or is gone, and then nothing more is done.

#[cfg(test)]
#[allow(dead_code, reason = "what the unit tests share with this one")]
#[path = "../../src/machines/testing.rs"]
mod testing;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod world;

use std::sync::{Arc, OnceLock};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use trellis_engine::machines::{
    Input, MachinePlan, Phase, SiteHealth, Sites, Step, conditions, plan, reasons,
};
use trellis_platform::{Action, Wish};

use world::{Event, World};

type Planner = fn(&Input, Timestamp) -> MachinePlan;

/// What happens in a story: something in the world, or a look at the machine.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Happens(Event),
    /// The plan is made and so many steps are done before the program dies; all of them and the status otherwise.
    Looks {
        steps: Option<u8>,
        lags: bool,
    },
}

fn wish() -> Arc<Wish> {
    static WISH: OnceLock<Arc<Wish>> = OnceLock::new();
    WISH.get_or_init(testing::mk_wish).clone()
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..400_u16).prop_map(Event::Passes),
        1 => Just(Event::Passes(8000)),
        16 => (1..8_u8).prop_map(Event::Progress),
        12 => prop::sample::select(vec![
            Event::InfraDown,
            Event::InfraUp,
            Event::TenantDown,
            Event::TenantUp,
            Event::PersonDeletesMachine,
            Event::PersonDeletesVm,
            Event::PersonStripsVm,
            Event::PersonDeletesNode,
            Event::SomebodyTakesTheName,
            Event::RunEnds,
            Event::HostFallsSilent,
            Event::HostComesBack,
            Event::HostIsTakenOut,
            Event::HostIsVouchedDead,
            Event::HostIsDrained,
            Event::HostIsUncordoned,
            Event::CannotMove,
            Event::MovesFail,
            Event::BudgetRefuses,
            Event::BudgetAllows,
            Event::Pause,
            Event::Resume,
            Event::Skip,
            Event::Drift,
        ]),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        event().prop_map(Turn::Happens),
        (prop::option::weighted(0.15, 0..4_u8), prop::bool::weighted(0.2))
            .prop_map(|(steps, lags)| Turn::Looks { steps, lags }),
    ]
}

fn story() -> impl Strategy<Value = (bool, Vec<Turn>)> {
    (any::<bool>(), prop::collection::vec(turn(), 5..80))
}

/// Makes a plan, checks it and does its steps. Tells what was planned; nothing when the machine is gone.
fn look(
    world: &mut World,
    planner: Planner,
    steps: Option<u8>,
    lags: bool,
) -> Result<Option<MachinePlan>, String> {
    let Some(mut scene) = world.look(lags) else { return Ok(None) };
    let now = world.time();
    let made = planner(&scene.input(), now);
    let told = || format!("{:?} at {now}: {:?} {:?}", made.status.phase, made.steps, scene);
    oracle::check(&scene, &made, now, &world.made).map_err(|broken| format!("{broken}: {}", told()))?;
    scene.machine.record = made.status.record.clone();
    let again = planner(&scene.input(), now);
    if again.status != made.status {
        return Err(format!("a status that is not stable: {:?} then {:?}", made.status, again.status));
    }
    // Nothing changes by itself before the moment the plan names; for ever if it names none.
    let long = made.wake.as_ref().map_or(now + SignedDuration::from_hours(100), |wake| {
        now.max(wake.at - SignedDuration::from_secs(1))
    });
    let later = planner(&scene.input(), long);
    let again = planner(&scene.input(), now);
    if later.status != again.status || later.steps.len() != again.steps.len() {
        return Err(format!("changes by itself: {:?} then {:?}", again.status, later.status));
    }
    let count = steps.map_or(usize::MAX, usize::from);
    let _done = made.steps.iter().take(count).take_while(|step| world.apply(step)).count();
    if steps.is_none() {
        world.write_status(&made.status);
    }
    Ok(Some(made))
}

/// Runs a story, then lets all faults end and looks until nothing more happens.
fn run(planner: Planner, in_set: bool, turns: &[Turn]) -> Result<(), String> {
    let mut world = World::new(wish(), in_set);
    for turn in turns {
        match turn {
            Turn::Happens(event) => world.happen(*event),
            Turn::Looks { steps, lags } => {
                look(&mut world, planner, *steps, *lags)?;
            }
        }
    }
    world.heal();
    settle(&mut world, planner)
}

fn settle(world: &mut World, planner: Planner) -> Result<(), String> {
    let mut last: Option<MachinePlan> = None;
    for _ in 0..400 {
        let moved = world.progress();
        let Some(made) = look(world, planner, None, false)? else { return gone(world) };
        let same = last.as_ref().is_some_and(|last| last.status == made.status);
        if !moved && same && made.steps.is_empty() {
            match &made.wake {
                None => return settled(world, &made),
                Some(wake) => world.now += (wake.at - world.time()).get_seconds().max(1),
            }
        } else {
            world.now += 1;
        }
        last = Some(made);
    }
    let told = last.map(|made| (made.status.phase, made.status.message, made.steps));
    Err(format!("does not come to rest: {told:?} {world:?}"))
}

fn gone(world: &mut World) -> Result<(), String> {
    while world.progress() {}
    match world.left() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("gone, but there is still: {left:?}")),
    }
}

fn settled(world: &World, made: &MachinePlan) -> Result<(), String> {
    let status = &made.status;
    let ready = status.conditions.iter().any(|one| one.kind == conditions::READY && one.holds == Some(true));
    let cordoned = world.node.as_ref().is_some_and(|node| node.cordoned);
    match status.phase {
        Phase::Running if cordoned => Err("its Node is left cordoned".to_owned()),
        Phase::Running if ready => Ok(()),
        Phase::Failed if world.lost && status.reason == reasons::VM_GONE => Ok(()),
        Phase::Pending if world.lost && status.reason == reasons::NAME_TAKEN => Ok(()),
        _ => Err(format!("rests as {:?} {}: {}", status.phase, status.reason, status.message)),
    }
}

/// More stories than proptest tells by itself; `PROPTEST_CASES` asks for more still.
fn config() -> Config {
    let asked = Config::default();
    Config { cases: asked.cases.max(1500), failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_rules_hold_and_it_comes_to_rest((in_set, turns) in story()) {
        if let Err(broken) = run(plan, in_set, &turns) {
            return Err(TestCaseError::fail(broken));
        }
    }

    #[test]
    fn undisturbed_it_joins_with_few_requests(in_set: bool, progress in prop::collection::vec(1..4_u8, 0..20)) {
        let mut world = World::new(wish(), in_set);
        let mut requests = 0;
        for times in progress.into_iter().chain([8; 8]) {
            let made = look(&mut world, plan, None, false).map_err(TestCaseError::fail)?;
            requests += made.map_or(0, |made| made.steps.len());
            world.happen(Event::Progress(times));
        }
        // Finalizer and provider id are one request; then Secret, VM, Node and the erasure.
        prop_assert_eq!(requests, 6);
        settle(&mut world, plan).map_err(TestCaseError::fail)?;
    }
}

/// A crash after each of the first steps, at every look of an undisturbed life: it joins all the same.
#[test]
fn a_crash_after_any_step_changes_nothing() {
    for steps in 0..4_u8 {
        let mut world = World::new(wish(), false);
        for _ in 0..30 {
            look(&mut world, plan, Some(steps), false).unwrap();
            look(&mut world, plan, None, true).unwrap();
            world.progress();
        }
        settle(&mut world, plan).unwrap();
        world.happen(Event::PersonDeletesMachine);
        for _ in 0..30 {
            look(&mut world, plan, Some(steps), false).unwrap();
            look(&mut world, plan, None, true).unwrap();
            world.progress();
        }
        settle(&mut world, plan).unwrap();
        assert!(world.machine.is_none());
    }
}

/// Finds a story that a broken planner does not survive.
fn caught(planner: Planner) -> Option<String> {
    let config = Config { cases: 3000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, chance);
    let found =
        runner.run(&story(), |(in_set, turns)| run(planner, in_set, &turns).map_err(TestCaseError::fail));
    match found {
        Err(TestError::Fail(why, _)) => Some(why.message().to_owned()),
        _ => None,
    }
}

fn changed(input: &Input, now: Timestamp, change: fn(&Input, &mut Vec<Step>)) -> MachinePlan {
    let mut made = plan(input, now);
    change(input, &mut made.steps);
    made
}

/// Plans with one thing wrong each, and the words of the rule that finds it.
const BROKEN: [(&str, Planner); 7] = [
    ("a VM before its Secret", |input, now| {
        changed(input, now, |_, steps| {
            steps.retain(|step| !matches!(step, Step::Platform(Action::StoreUserData(_))));
        })
    }),
    ("finalizer", |input, now| {
        changed(input, now, |_, steps| steps.retain(|step| !matches!(step, Step::AddFinalizer)))
    }),
    ("drained", |input, now| {
        let mut machine = input.machine.clone();
        machine.flags.skip_drain = true;
        plan(&Input { machine: &machine, ..*input }, now)
    }),
    ("before its VM", |input, now| {
        changed(input, now, |input, steps| {
            let up = |site| site == SiteHealth::Up;
            let quiet = !input.machine.flags.paused && up(input.sites.infra) && up(input.sites.tenant);
            if let (Some(node), Some(_)) = (input.node.filter(|_| quiet), input.machine.deleting) {
                steps.push(Step::DeleteNode { node: node.name.clone(), uid: node.uid.clone() });
            }
        })
    }),
    ("without proof", |input, now| {
        changed(input, now, |_, steps| {
            for step in steps {
                if let Step::Platform(Action::StopInstance { force, .. }) = step {
                    *force = true;
                }
            }
        })
    }),
    ("is down", |input, now| {
        let up = SiteHealth::Up;
        let sites = Sites { control: up, tenant: up, infra: up };
        plan(&Input { sites, ..*input }, now)
    }),
    ("left cordoned", |input, now| {
        changed(input, now, |_, steps| {
            steps.retain(|step| !matches!(step, Step::Cordon { cordoned: false, .. }));
        })
    }),
];

#[test]
fn broken_plans_are_found_out() {
    for (words, planner) in BROKEN {
        let why = caught(planner).unwrap_or_else(|| panic!("nobody notices: {words}"));
        assert!(why.contains(words), "{words} is found as: {why}");
    }
}
