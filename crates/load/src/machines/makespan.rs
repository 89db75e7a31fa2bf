//! How long a rolling update takes in virtual time, against the least time it can take.

use serde_json::{Value, json};
use trellis_engine::pools::PoolWish;
use trellis_model::pool::{DeletePolicy, UpdatePolicy};
use trellis_model::quantity::Count;

use self::world::{Nature, Time, World};

#[expect(dead_code, clippy::unwrap_used, reason = "shared with the tests of the plans, which use more of it")]
#[path = "../../../engine/tests/pools/world.rs"]
mod world;

/// How many more machines than wished there may be, and how many fewer.
const BOUNDS: [(u32, u32); 5] = [(1, 0), (1, 1), (3, 0), (5, 5), (25, 10)];
/// How long a machine takes until it is ready, in milliseconds.
const BOOT: i64 = 90_000;
/// The spread of the logarithm where boots differ.
const SPREAD: f64 = 0.5;

/// Rolls pools of many sizes.
pub(crate) fn measure(quick: bool) -> Value {
    eprintln!("{}: rolling updates", super::NAME);
    let sizes: &[u32] = if quick { &[10, 100] } else { &[3, 10, 33, 100, 251, 500] };
    let (mut updates, mut breaches) = (0, 0);
    let (mut fixed, mut changing): (f64, f64) = (1.0, 1.0);
    for replicas in sizes.iter().copied() {
        for (surge, unavailable) in BOUNDS {
            let together = surge + unavailable;
            if together > replicas || together * 55 < replicas {
                continue;
            }
            let least = i64::from(replicas.div_ceil(together)) * BOOT;
            let update = roll(replicas, (surge, unavailable), &Time::Fixed(BOOT));
            (updates, breaches) = (updates + 1, breaches + update.breaches);
            fixed = fixed.max(ratio(update.took, least));
            // Where each place is used only a few times, the last machine alone decides.
            if replicas / together >= 25 {
                #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds")]
                let update = roll(replicas, (surge, unavailable), &Time::LogNormal(BOOT as f64, SPREAD));
                (updates, breaches) = (updates + 1, breaches + update.breaches);
                changing = changing.max(ratio(update.took * i64::from(together), update.boots));
            }
        }
    }
    let name = "machines: rolling updates in virtual time";
    json!({"name": name, "updates": updates, "breaches": breaches,
        "fixed_of_least": fixed, "log_normal_of_least": changing})
}

/// What an update came to.
struct Update {
    took: i64,
    /// The time of all its machines together.
    boots: i64,
    breaches: usize,
}

fn roll(replicas: u32, (surge, unavailable): (u32, u32), boot: &Time) -> Update {
    let wish = PoolWish {
        replicas,
        update: UpdatePolicy {
            max_surge: Count::Absolute(surge),
            max_unavailable: Count::Absolute(unavailable),
            ..UpdatePolicy::default()
        },
        delete_policy: DeletePolicy::Random,
        revision: "before".to_owned(),
        zones: ["a", "b", "c"].map(str::to_owned).to_vec(),
        control_plane: false,
    };
    let nature =
        Nature { boot: Time::Fixed(1), drain: Time::Fixed(0), never: 0, breaks: 0, kept: 0, delay: None };
    let mut world = World::new(wish, nature, u64::from(replicas));
    world.run_until(i64::MAX);
    let (begin, before) = (world.now, world.boots);
    world.nature.boot = boot.clone();
    "after".clone_into(&mut world.wish.revision);
    world.run_until(i64::MAX);
    world.check_arrived();
    Update { took: world.now - begin, boots: world.boots - before, breaches: world.breaches.len() }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn ratio(one: i64, other: i64) -> f64 {
    one as f64 / other as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_keep_to_their_bounds_and_take_little_longer_than_they_must() {
        let row = measure(true);
        assert_eq!(row["breaches"], 0);
        assert!(row["updates"].as_u64().unwrap() >= 4);
        assert!(row["fixed_of_least"].as_f64().unwrap() <= 1.02, "{row}");
        assert!(row["log_normal_of_least"].as_f64().unwrap() <= 1.10, "{row}");
    }
}
