//! Rolling updates under changing wishes and failing machines.

use proptest::prelude::*;
use trellis_engine::pools::PoolWish;
use trellis_model::pool::{DeletePolicy, UpdatePolicy, UpdateStrategy};
use trellis_model::quantity::Count;

use crate::world::{Nature, Time, World};

/// Something that changes from outside.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Scale(u32),
    Revision(u8),
    Pause(bool),
    Bounds(Count, Count),
    Strategy(UpdateStrategy),
    Remove(usize),
    Mark(usize),
}

/// A story: a first wish, and what changes after how many milliseconds each.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) wish: PoolWish,
    pub(crate) nature: Nature,
    pub(crate) changes: Vec<(i64, Change)>,
    pub(crate) seed: u64,
}

fn counts() -> impl Strategy<Value = Count> {
    prop_oneof![(0..4_u32).prop_map(Count::Absolute), (0..101_u32).prop_map(Count::Percent)]
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..10_u32).prop_map(Change::Scale),
        3 => (0..3_u8).prop_map(Change::Revision),
        1 => any::<bool>().prop_map(Change::Pause),
        1 => (counts(), counts()).prop_map(|(surge, unavailable)| Change::Bounds(surge, unavailable)),
        1 => prop_oneof![Just(UpdateStrategy::OnDelete), Just(UpdateStrategy::RollingUpdate)].prop_map(Change::Strategy),
        1 => any::<usize>().prop_map(Change::Remove),
        1 => any::<usize>().prop_map(Change::Mark),
    ]
}

fn wishes() -> impl Strategy<Value = PoolWish> {
    let policies =
        prop_oneof![Just(DeletePolicy::Random), Just(DeletePolicy::Newest), Just(DeletePolicy::Oldest)];
    (0..10_u32, counts(), counts(), policies, 0..4_usize, prop_oneof![Just(0_u32), 1..30_u32], 0..3_u32)
        .prop_map(
            |(
                replicas,
                max_surge,
                max_unavailable,
                delete_policy,
                zones,
                min_ready_seconds,
                history_limit,
            )| PoolWish {
                replicas,
                update: UpdatePolicy {
                    max_surge,
                    max_unavailable,
                    min_ready_seconds,
                    history_limit,
                    ..UpdatePolicy::default()
                },
                delete_policy,
                revision: "r0".to_owned(),
                zones: (0..zones).map(|zone| format!("zone-{zone}")).collect(),
                control_plane: false,
            },
        )
}

pub(crate) fn stories() -> impl Strategy<Value = Story> {
    let delays = prop_oneof![Just(None), (0..5_000_i64).prop_map(Some)];
    let nature = (delays, 0..30_i64, 0..30_i64, 0..20_i64).prop_map(|(delay, never, breaks, kept)| Nature {
        boot: Time::Below(40_000),
        drain: Time::Below(40_000),
        never,
        breaks,
        kept,
        delay,
    });
    let changes = proptest::collection::vec((0..120_000_i64, changes()), 0..10);
    (wishes(), nature, changes, any::<u64>()).prop_map(|(wish, nature, changes, seed)| Story {
        wish,
        nature,
        changes,
        seed,
    })
}

/// Lives through a story and returns the world at its end, with what went wrong in it.
pub(crate) fn live(story: &Story, prepare: impl Fn(&mut World)) -> World {
    let mut world = World::new(story.wish.clone(), story.nature.clone(), story.seed);
    prepare(&mut world);
    let mut end = world.now;
    for (after, change) in &story.changes {
        end += after;
        world.run_until(end);
        if !world.breaches.is_empty() {
            return world;
        }
        match change {
            Change::Scale(replicas) => world.wish.replicas = *replicas,
            Change::Revision(revision) => world.wish.revision = format!("r{revision}"),
            Change::Pause(paused) => world.wish.update.paused = *paused,
            Change::Bounds(surge, unavailable) => {
                world.wish.update.max_surge = *surge;
                world.wish.update.max_unavailable = *unavailable;
            }
            Change::Strategy(strategy) => world.wish.update.strategy = *strategy,
            Change::Remove(which) => world.somebody_removes(*which),
            Change::Mark(which) => world.somebody_marks(*which),
        }
    }
    world.calm = true;
    world.wish.update.paused = false;
    world.wish.update.strategy = UpdateStrategy::RollingUpdate;
    world.run_until(i64::MAX);
    if world.breaches.is_empty() {
        world.check_arrived();
        world.check_quiet();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_at_each_instant_and_every_wish_is_reached(story in stories()) {
        let world = live(&story, |_| ());
        prop_assert!(world.breaches.is_empty(), "{:#?}", world.breaches);
    }
}
