//! The arithmetic of a rollout, as pure functions on the numbers of ReplicaSets.

use serde_json::Value;

use super::super::pods::share;
use crate::object::Object as _;

/// How many ReplicaSet pods of which age are wanted, in the order the sets were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    /// How many pods the set should have.
    pub(super) wanted: i64,
    /// How many of them are available.
    pub(super) available: i64,
}

/// What a deployment allows while it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// How many pods it wants.
    pub(super) replicas: i64,
    /// How many there may be beyond.
    pub(super) surge: i64,
    /// How many may be missing.
    pub(super) unavailable: i64,
}

impl Room {
    /// What a deployment allows.
    pub(super) fn of(deployment: &Value) -> Self {
        let replicas = deployment.number("/spec/replicas").unwrap_or(1);
        if deployment["spec"]["strategy"]["type"] == "Recreate" {
            return Self { replicas, surge: 0, unavailable: 0 };
        }
        let rolling = deployment.at("/spec/strategy/rollingUpdate");
        let surge = share(&rolling["maxSurge"], replicas, true);
        let mut unavailable = share(&rolling["maxUnavailable"], replicas, false);
        if surge == 0 && unavailable == 0 {
            // Otherwise nothing could ever change.
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas) }
    }

    /// The most pods there may be.
    pub(super) fn most(self) -> i64 {
        if self.replicas > 0 { self.replicas + self.surge } else { 0 }
    }
}

/// How many pods the new set should have, given all sets together want `all`.
pub(super) fn grown(room: Room, new: i64, all: i64) -> i64 {
    if new >= room.replicas {
        return room.replicas;
    }
    let space = (room.replicas + room.surge - all).max(0);
    new + space.min(room.replicas - new)
}

/// How many pods the old sets should have, oldest first: first those are given up that are not available anyway.
pub(super) fn shrunk(room: Room, new: Numbers, old: &[Numbers]) -> Vec<i64> {
    let mut wanted: Vec<i64> = old.iter().map(|set| set.wanted).collect();
    let least = room.replicas - room.unavailable;
    let all = wanted.iter().sum::<i64>() + new.wanted;
    let mut spare = all - least - (new.wanted - new.available);
    if spare <= 0 {
        return wanted;
    }
    for (number, set) in wanted.iter_mut().zip(old) {
        let sick = (*number - set.available).clamp(0, spare.max(0));
        *number -= sick;
        spare -= sick;
    }
    let available = new.available + old.iter().map(|set| set.available).sum::<i64>();
    let mut spare = available - least;
    for number in &mut wanted {
        let step = (*number).min(spare.max(0));
        *number -= step;
        spare -= step;
    }
    wanted
}

/// How the sets of a deployment that is scaled in the middle of a change share the difference: in proportion to what
/// they have. Each set comes with what it wants and with what was the most when it was last scaled; the biggest come
/// first.
pub(super) fn proportional(room: Room, sets: &[(i64, i64)]) -> Vec<i64> {
    let all: i64 = sets.iter().map(|(wanted, _)| wanted).sum();
    let change = room.most() - all;
    let mut left = change;
    let mut sizes: Vec<i64> = sets.iter().map(|(wanted, _)| *wanted).collect();
    for (size, (wanted, most)) in sizes.iter_mut().zip(sets) {
        if left == 0 || *wanted == 0 {
            continue;
        }
        let most = if *most > 0 { *most } else { all.max(1) };
        // Rounded to the nearest.
        let fair = (wanted * room.most() * 2 + most) / (most * 2) - wanted;
        let part = if change > 0 { fair.clamp(0, left.max(0)) } else { fair.clamp(left.min(0), 0) };
        *size += part;
        left -= part;
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + left).max(0);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn room(replicas: i64, surge: i64, unavailable: i64) -> Room {
        Room { replicas, surge, unavailable }
    }

    #[test]
    fn a_rollout_never_leaves_its_bounds_and_ends() {
        for (replicas, surge, unavailable) in [(3, 1, 0), (4, 0, 1), (10, 3, 2), (1, 1, 0), (5, 5, 5)] {
            let room = room(replicas, surge, unavailable);
            let (mut new, mut old) = (0, replicas);
            for _ in 0..100 {
                new = grown(room, new, new + old);
                assert!(new + old <= replicas + surge, "too many");
                // What is new becomes available between two looks.
                let numbers = Numbers { wanted: new, available: new };
                old = shrunk(room, numbers, &[Numbers { wanted: old, available: old }])[0];
                assert!(new + old >= replicas - unavailable, "too few");
            }
            assert_eq!((new, old), (replicas, 0));
        }
    }

    #[test]
    fn old_pods_stay_while_new_ones_are_not_available() {
        let stuck = Numbers { wanted: 1, available: 0 };
        assert_eq!(shrunk(room(3, 1, 0), stuck, &[Numbers { wanted: 3, available: 3 }]), [3]);
        // Those that are of no use go first.
        let old = [Numbers { wanted: 2, available: 2 }, Numbers { wanted: 2, available: 0 }];
        assert_eq!(shrunk(room(3, 1, 1), Numbers { wanted: 0, available: 0 }, &old), [2, 0]);
    }

    #[test]
    fn a_change_is_shared_in_proportion() {
        assert_eq!(proportional(room(10, 0, 0), &[(3, 5), (2, 5)]), [6, 4]);
        assert_eq!(proportional(room(0, 2, 0), &[(3, 5), (2, 5)]), [0, 0]);
    }

    #[test]
    fn something_may_always_change() {
        let zero = json!({"spec": {"replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}});
        assert_eq!(Room::of(&zero), room(2, 0, 1));
    }
}
