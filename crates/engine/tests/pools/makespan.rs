//! How long an update takes, against the least time it can take.

use trellis_engine::pools::PoolWish;
use trellis_model::pool::{DeletePolicy, UpdatePolicy};
use trellis_model::quantity::Count;

use crate::world::{Nature, Time, World};

const BOUNDS: [(u32, u32); 7] = [(1, 0), (0, 1), (1, 1), (3, 0), (0, 4), (5, 5), (25, 10)];
const SIZES: [u32; 6] = [3, 10, 33, 100, 251, 500];

/// Rolls a pool from one revision to another; returns how long it took and all the time its machines took.
fn roll(replicas: u32, (surge, unavailable): (u32, u32), boot: Time, drain: Time, seed: u64) -> (i64, i64) {
    let wish = PoolWish {
        replicas,
        update: UpdatePolicy {
            max_surge: Count::Absolute(surge),
            max_unavailable: Count::Absolute(unavailable),
            ..UpdatePolicy::default()
        },
        delete_policy: DeletePolicy::Random,
        revision: "r0".to_owned(),
        zones: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        control_plane: false,
    };
    let nature = Nature { boot: Time::Fixed(1), drain, never: 0, breaks: 0, kept: 0, delay: None };
    let mut world = World::new(wish, nature, seed);
    world.run_until(i64::MAX);
    let (begin, before) = (world.now, world.boots);
    world.nature.boot = boot;
    "r1".clone_into(&mut world.wish.revision);
    world.run_until(i64::MAX);
    world.check_arrived();
    let zones = world.zones();
    assert!(zones.iter().max().unwrap() - zones.iter().min().unwrap() <= 1, "unequal: {zones:?}");
    assert_eq!(world.breaches, [""; 0]);
    (world.now - begin, world.boots - before)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn ratio(one: i64, other: i64) -> f64 {
    one as f64 / other as f64
}

#[test]
fn with_fixed_times_an_update_takes_no_longer_than_it_must() {
    for replicas in SIZES {
        // More than fifty steps show nothing new.
        let fits = |(surge, unavailable): &(u32, u32)| {
            surge + unavailable <= replicas && (surge + unavailable) * 55 >= replicas
        };
        for bounds in BOUNDS.into_iter().filter(fits) {
            let steps = i64::from(replicas.div_ceil(bounds.0 + bounds.1));
            for (boot, drain) in [(90_000, 0), (90_000, 30_000)] {
                let (took, _) = roll(replicas, bounds, Time::Fixed(boot), Time::Fixed(drain), 1);
                let ratio = ratio(took, steps * (boot + drain));
                assert!(ratio <= 1.02, "{replicas} machines, {bounds:?}: {ratio:.3} of the least time");
            }
        }
    }
}

#[test]
fn with_changing_times_an_update_takes_little_longer_than_it_must() {
    let mut worst: f64 = 0.0;
    for replicas in [50, 100, 251, 500] {
        // Where each place is used only a few times, the last machine alone decides.
        let fits = |(surge, unavailable): &(u32, u32)| {
            let steps = replicas / (surge + unavailable);
            (25..=70).contains(&steps)
        };
        for bounds in BOUNDS.into_iter().filter(fits) {
            let boot = Time::LogNormal(90_000.0, 0.5);
            let (took, all) = roll(replicas, bounds, boot, Time::Fixed(0), u64::from(replicas));
            let ratio = ratio(took * i64::from(bounds.0 + bounds.1), all);
            worst = worst.max(ratio);
            assert!(ratio <= 1.10, "{replicas} machines, {bounds:?}: {ratio:.3} of the least time");
        }
    }
    assert!(worst >= 1.0, "the bound is a bound: {worst}");
}
