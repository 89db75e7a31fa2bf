//! How long each phase of machines takes.

use std::time::Duration;

use jiff::Timestamp;
use trellis_runtime::{Cache, Clock, Durations};

use crate::families::{Family, Object, machine_seen};
use crate::machines::Phase;

/// Bounds in seconds: from what passes within a moment to what should have been given up.
const BOUNDS: [f64; 12] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// Counts how long each phase takes from what machines' statuses say: times are those that were recorded, so that a
/// restart or another replica in between changes nothing. Phases that pass within one look are never said and not
/// counted.
pub(crate) fn measure(machines: &Cache<Object>, family: &'static Family, clock: Clock) -> Durations {
    let durations = Durations::new(
        "machine_phase",
        "How long machines were in a phase that they have left",
        "phase",
        Phase::ALL.iter().map(|phase| phase.as_str()),
        &BOUNDS,
    );
    let counted = durations.clone();
    machines.listen(move |change| {
        let Some(old) = &change.old else { return };
        if change.new.as_ref().is_some_and(|new| new.status == old.status) {
            return;
        }
        let stage = |machine: &Object| machine_seen(family, machine).record.stage;
        let new = match &change.new {
            Some(new) => stage(new),
            None => Some((Phase::Gone, clock.now())),
        };
        if let Some((phase, took)) = left(stage(old), new) {
            counted.observe(phase.as_str(), took);
        }
    });
    durations
}

/// The phase that was left, and how long it took.
fn left(old: Option<(Phase, Timestamp)>, new: Option<(Phase, Timestamp)>) -> Option<(Phase, Duration)> {
    let ((phase, since), (next, until)) = (old?, new?);
    let took = Duration::try_from(until.duration_since(since)).unwrap_or_default();
    (phase != next).then_some((phase, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_counts_when_it_is_left() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let creating = Some((Phase::Creating, at(10)));
        assert_eq!(left(creating, Some((Phase::Creating, at(10)))), None);
        let joined = left(creating, Some((Phase::Joining, at(25))));
        assert_eq!(joined, Some((Phase::Creating, Duration::from_secs(15))));
        assert_eq!(left(None, creating), None);
        // A clock that went back makes no negative time.
        assert_eq!(left(creating, Some((Phase::Joining, at(5)))), Some((Phase::Creating, Duration::ZERO)));
    }
}
