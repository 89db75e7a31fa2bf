//! How long a machine waits before it is started again after it failed to start.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::strategy::Strategy;
use crate::clock;
use crate::kubevirt::instance::{has_run, is_final};
use crate::object::Object as _;

/// The wait after the first failure, in seconds.
const FIRST: u64 = 10;
/// The longest wait, in seconds.
const LONGEST: u64 = 300;

/// The wait after the `count`-th failure in a row, in seconds: it grows with the square, and chance adds up to half.
pub fn wait(count: u64, chance: u64) -> u64 {
    let wait = FIRST.saturating_mul(count.saturating_mul(count));
    wait.saturating_add(chance % (wait / 2 + 1)).min(LONGEST)
}

/// Counts a failed start in the status of a machine, or forgets about failures. `chance` gives a number for a count.
pub fn count(
    vm: &mut Value,
    vmi: Option<&Value>,
    strategy: Strategy,
    now: Timestamp,
    chance: impl Fn(u64) -> u64,
) {
    if !strategy.counts_failures() || vmi.is_some_and(has_run) {
        vm.unset("/status/startFailure");
        return;
    }
    let Some(vmi) = vmi.filter(|vmi| is_final(vmi)) else { return };
    if vm.text("/status/startFailure/lastFailedVMIUID") == vmi.uid() {
        return;
    }
    let count = vm.number("/status/startFailure/consecutiveFailCount").unwrap_or_default() + 1;
    let number = u64::try_from(count).unwrap_or_default();
    let until = now.checked_add(Duration::from_secs(wait(number, chance(number)))).unwrap_or(now);
    let failure = json!({
        "consecutiveFailCount": count, "lastFailedVMIUID": vmi.uid(),
        "retryAfterTimestamp": clock::seconds(until),
    });
    vm.set("/status/startFailure", failure);
}

/// How long a machine still has to wait before it is started.
pub fn left(vm: &Value, now: Timestamp) -> Duration {
    let until = vm.text("/status/startFailure/retryAfterTimestamp").parse::<Timestamp>();
    until.ok().and_then(|until| Duration::try_from(until.duration_since(now)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_five_minutes() {
        assert_eq!([1, 2, 3, 6].map(|count| wait(count, 0)), [10, 40, 90, 300]);
        assert!((0..1000).all(|chance| (10..=15).contains(&wait(1, chance))));
        assert_eq!(wait(u64::MAX, 7), 300);
    }

    #[test]
    fn each_instance_counts_once_and_success_forgets() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut vm = json!({"spec": {"runStrategy": "Always"}});
        let mut vmi = json!({"metadata": {"uid": "a"}, "status": {"phase": "Failed"}});
        for _ in 0..2 {
            count(&mut vm, Some(&vmi), Strategy::Always, now, |_| 0);
        }
        assert_eq!(vm.number("/status/startFailure/consecutiveFailCount"), Some(1));
        assert_eq!(left(&vm, now), Duration::from_secs(10));
        vmi.set("/metadata/uid", "b".into());
        count(&mut vm, Some(&vmi), Strategy::Always, now, |_| 0);
        assert_eq!(vm.text("/status/startFailure/retryAfterTimestamp"), "2026-01-01T00:00:40Z");
        vmi.set("/status/phase", "Running".into());
        count(&mut vm, Some(&vmi), Strategy::Always, now, |_| 0);
        assert!(vm.at("/status/startFailure").is_null());
    }

    #[test]
    fn what_nobody_tries_again_does_not_count() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let vmi = json!({"metadata": {"uid": "a"}, "status": {"phase": "Failed"}});
        let mut vm = json!({"status": {"startFailure": {"consecutiveFailCount": 3}}});
        count(&mut vm, Some(&vmi), Strategy::Manual, now, |_| 0);
        assert!(vm.at("/status/startFailure").is_null());
    }
}
