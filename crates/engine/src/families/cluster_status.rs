//! What is said of a TenantCluster.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::machine_status::merged_conditions;
use super::object::Object;
use super::patch::{status_difference, status_patch};
use crate::Condition;

/// The patch that brings one condition of a TenantCluster up to date and leaves the rest to others; nothing where it
/// says so already.
pub fn cluster_condition(cluster: &Object, said: &Condition, now: Timestamp) -> Option<Value> {
    cluster_status(cluster, std::slice::from_ref(said), Map::new(), now)
}

/// The patch that brings conditions and fields of a TenantCluster's status up to date and leaves the rest to others;
/// nothing where it says so already. A list is replaced as a whole, so that the version it was seen at must still be the
/// present one.
pub fn cluster_status(
    cluster: &Object,
    said: &[Condition],
    fields: Map<String, Value>,
    now: Timestamp,
) -> Option<Value> {
    let current = cluster.status_json();
    let conditions = merged_conditions(&current, said, |_| true, now);
    let wished = fields.into_iter().chain([("conditions".to_owned(), conditions)]).collect();
    let mut patch = status_patch(cluster, &status_difference(&current, wished))?;
    patch["metadata"]["resourceVersion"] = cluster.metadata.resource_version.to_string().into();
    Some(patch)
}

/// Whether a condition of a TenantCluster holds.
pub fn cluster_condition_holds(cluster: &Object, kind: &str) -> bool {
    let status = cluster.status_json();
    let all = status.get("conditions").and_then(Value::as_array);
    all.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_written_once_and_those_of_others_stay() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let said =
            Condition { kind: "Served", holds: Some(true), reason: "Serving", message: "m".to_owned() };
        let other = json!({"type": "Ready", "status": "False", "reason": "R", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z"});
        let cluster = |conditions: Value| {
            let metadata = json!({"namespace": "n", "name": "blue", "uid": "u", "resourceVersion": "7"});
            let object = json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}});
            Object::from_json(object).unwrap()
        };
        let patch = cluster_condition(&cluster(json!([other])), &said, now).unwrap();
        assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
        let written = &patch["status"]["conditions"];
        assert_eq!((written[0].clone(), &written[1]["status"]), (other, &json!("True")));
        assert_eq!(cluster_condition(&cluster(written.clone()), &said, now), None);
    }
}
