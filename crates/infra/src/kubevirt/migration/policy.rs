//! How a migration is to be done: the cluster's defaults, and what a policy says about an instance.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{PER_CLUSTER, PER_NODE};
use crate::kubevirt::eviction::DRAIN_TAINT;
use crate::kubevirt::instance::guest_memory;
use crate::object::Object as _;

/// What the time for a copy is counted by.
const GIB: i128 = 1 << 30;

/// The fields a policy may set.
const FIELDS: &[&str] = &[
    "allowAutoConverge",
    "bandwidthPerMigration",
    "completionTimeoutPerGiB",
    "allowPostCopy",
    "allowWorkloadDisruption",
];

/// What applies where nothing else is said.
pub(super) fn defaults() -> Value {
    json!({
        "nodeDrainTaintKey": DRAIN_TAINT, "parallelOutboundMigrationsPerNode": PER_NODE,
        "parallelMigrationsPerCluster": PER_CLUSTER, "allowAutoConverge": false,
        "bandwidthPerMigration": "0", "completionTimeoutPerGiB": 150, "progressTimeout": 150,
        "unsafeMigrationOverride": false, "allowPostCopy": false, "allowWorkloadDisruption": false,
        "disableTLS": false, "matchSELinuxLevelOnMigration": true,
    })
}

/// Why a copy that goes on is given up, where it is: it took longer than memory of its size may, or nothing moves any
/// more. What would become of it by post-copy or by a pause is left to the stage.
pub(super) fn timed_out(vmi: &Value, is_stuck: bool, now: Timestamp) -> Option<String> {
    let state = vmi.at("/status/migrationState");
    let configuration = state.at("/migrationConfiguration");
    let started: Timestamp = state.text("/startTimestamp").parse().ok()?;
    let passed = now.duration_since(started).as_secs();
    let limit = |name: &str| configuration.number(name).filter(|limit| *limit > 0);
    if let Some(limit) = limit("/progressTimeout").filter(|limit| is_stuck && passed >= *limit) {
        return Some(format!("Live migration stuck for {limit} seconds and has been aborted"));
    }
    if configuration.flag("/allowPostCopy") || configuration.flag("/allowWorkloadDisruption") {
        return None;
    }
    let gibs = i64::try_from((guest_memory(vmi.at("/spec")) + GIB - 1) / GIB).unwrap_or(i64::MAX).max(1);
    let limit = limit("/completionTimeoutPerGiB")?.saturating_mul(gibs);
    (passed >= limit)
        .then(|| format!("Live migration is not completed after {limit} seconds and has been aborted"))
}

/// How many labels two selectors match together; nothing where one does not match.
fn matched(policy: &Value, vmi: &Value, namespace: &Value) -> Option<usize> {
    let mut count = 0;
    for (selector, object) in [("virtualMachineInstanceSelector", vmi), ("namespaceSelector", namespace)] {
        let wanted = policy.at(&format!("/spec/selectors/{selector}")).as_object();
        for (name, value) in wanted.into_iter().flatten() {
            if value.as_str() != Some(object.label(name)) {
                return None;
            }
            count += 1;
        }
    }
    (count > 0).then_some(count)
}

/// The configuration for an instance, and the name of the policy it comes from: the one that matches most labels, the
/// first by name where several do.
pub(super) fn configuration(policies: &[Value], vmi: &Value, namespace: &Value) -> (Value, String) {
    let mut configuration = defaults();
    let mut best: Option<(usize, &Value)> = None;
    for policy in policies {
        if let Some(count) = matched(policy, vmi, namespace)
            && best
                .is_none_or(|(most, other)| count > most || (count == most && policy.name() < other.name()))
        {
            best = Some((count, policy));
        }
    }
    let Some((_, policy)) = best else { return (configuration, String::new()) };
    for field in FIELDS {
        if !policy["spec"][*field].is_null() {
            configuration[*field] = policy["spec"][*field].clone();
        }
    }
    (configuration, policy.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_given_up_when_they_take_too_long() {
        let mut vmi = json!({
            "spec": {"domain": {"memory": {"guest": "1536Mi"}}},
            "status": {"migrationState": {
                "startTimestamp": "2026-01-01T00:00:00Z", "migrationConfiguration": defaults(),
            }},
        });
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(timed_out(&vmi, false, at("2026-01-01T00:04:59Z")), None);
        let late = timed_out(&vmi, false, at("2026-01-01T00:05:00Z")).unwrap();
        assert!(late.contains("not completed after 300 seconds"), "{late}");
        let stuck = timed_out(&vmi, true, at("2026-01-01T00:02:30Z")).unwrap();
        assert!(stuck.contains("stuck for 150 seconds"), "{stuck}");
        vmi.set("/status/migrationState/migrationConfiguration/allowPostCopy", true.into());
        assert_eq!(timed_out(&vmi, false, at("2026-01-01T01:00:00Z")), None);
    }

    #[test]
    fn the_closest_policy_counts() {
        let policy = |name: &str, vmi: Value, namespace: Value| {
            json!({
                "metadata": {"name": name},
                "spec": {
                    "allowPostCopy": true,
                    "selectors": {"virtualMachineInstanceSelector": vmi, "namespaceSelector": namespace},
                },
            })
        };
        let vmi = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        let namespace = json!({"metadata": {"labels": {"team": "x"}}});
        let policies = [
            policy("one", json!({"a": "1"}), Value::Null),
            policy("two", json!({"a": "1"}), json!({"team": "x"})),
            policy("other", json!({"a": "9"}), Value::Null),
        ];
        let (found, name) = configuration(&policies, &vmi, &namespace);
        assert_eq!((name.as_str(), &found["allowPostCopy"]), ("two", &json!(true)));
        let (found, name) = configuration(&policies[2..], &vmi, &namespace);
        assert_eq!((name.as_str(), found), ("", defaults()));
    }
}
