//! What is said of a health check, in the form both machine APIs have for it.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::machine_status::merged_conditions;
use super::object::Object;
use super::patch::{status_difference, status_patch};
use crate::Condition;
use crate::pools::remedy::Remedies;

/// The patch that brings the status of a MachineHealthCheck to what is said of it; nothing where it stands there
/// already.
pub fn check_status(check: &Object, said: &Remedies, now: Timestamp) -> Option<Value> {
    let current = check.status_json();
    let mut wished = Map::new();
    wished.insert("observedGeneration".to_owned(), check.metadata.generation.into());
    wished.insert("expectedMachines".to_owned(), said.expected.into());
    wished.insert("currentHealthy".to_owned(), said.healthy.into());
    wished.insert("remediationsAllowed".to_owned(), said.allowed.into());
    wished.insert("conditions".to_owned(), with(&current, &said.condition, now));
    status_patch(check, &status_difference(&current, wished))
}

/// The patch that brings one condition of an object to what is said of it, and leaves the rest.
pub fn condition_status(object: &Object, said: &Condition, now: Timestamp) -> Option<Value> {
    let current = object.status_json();
    let wished = Map::from_iter([("conditions".to_owned(), with(&current, said, now))]);
    status_patch(object, &status_difference(&current, wished))
}

/// The patch that takes one condition off an object, if it is there.
pub fn without_condition(object: &Object, kind: &str) -> Option<Value> {
    let current = object.status_json();
    let mut conditions = current.get("conditions")?.as_array()?.clone();
    conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some(kind));
    let wished = Map::from_iter([("conditions".to_owned(), Value::Array(conditions))]);
    status_patch(object, &status_difference(&current, wished))
}

fn with(current: &Map<String, Value>, said: &Condition, now: Timestamp) -> Value {
    merged_conditions(current, std::slice::from_ref(said), |_| true, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(message: &str) -> Remedies {
        let condition = Condition {
            kind: "RemediationAllowed",
            holds: Some(false),
            reason: "TooManyUnhealthy",
            message: message.to_owned(),
        };
        Remedies {
            verdicts: std::collections::BTreeMap::default(),
            expected: 4,
            healthy: 1,
            allowed: 0,
            condition,
        }
    }

    #[test]
    fn a_status_is_written_when_it_differs_and_only_then() {
        let mut object = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "generation": 3, "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Theirs", "status": "True"}]},
        });
        let read = |object: &Value| Object::from_json(object.clone()).unwrap();
        let now = Timestamp::from_second(100).unwrap();
        let patch = check_status(&read(&object), &said("three"), now).unwrap();
        assert_eq!(patch["status"]["currentHealthy"], 1);
        assert_eq!(patch["status"]["observedGeneration"], 3);
        assert_eq!(patch["status"]["conditions"].as_array().map(Vec::len), Some(2), "{patch}");
        object["status"] = patch["status"].clone();
        let later = Timestamp::from_second(200).unwrap();
        assert_eq!(check_status(&read(&object), &said("three"), later), None);
        let other = check_status(&read(&object), &said("four"), later).unwrap();
        assert_eq!(other["status"].as_object().map(Map::len), Some(1), "{other}");
        assert_eq!(condition_status(&read(&object), &said("three").condition, later), None);
        let gone = without_condition(&read(&object), "RemediationAllowed").unwrap();
        assert_eq!(gone["status"]["conditions"].as_array().map(Vec::len), Some(1), "{gone}");
        assert_eq!(without_condition(&read(&object), "Absent"), None);
    }
}
