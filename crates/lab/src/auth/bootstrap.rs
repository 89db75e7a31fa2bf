//! The roles and bindings every cluster starts with.

use jiff::Timestamp;
use serde_json::Value;

use super::rbac::aggregate;
use crate::clock;

/// The roles and bindings of the real server, one per line. Roles that gather others are without their rules.
const DATA: &str = include_str!("../../data/rbac.json");

/// The objects every cluster starts with, as created now. Roles that gather others have their rules already, so
/// that they mean something from the first moment.
pub fn bootstrap_objects(now: Timestamp) -> Vec<Value> {
    let mut objects = stored();
    let created = clock::seconds(now);
    for object in &mut objects {
        object["metadata"]["creationTimestamp"] = created.clone().into();
    }
    // `admin` gathers `edit`, which gathers `view`: whoever gathers from others is looked at again.
    while gather(&mut objects) {}
    objects
}

/// Fills the roles that gather others once, and says whether anything changed.
fn gather(objects: &mut [Value]) -> bool {
    let mut changed = false;
    for place in 0..objects.len() {
        if let Some(rules) = aggregate(&objects[place], objects.iter()).map(Value::from)
            && objects[place]["rules"] != rules
        {
            objects[place]["rules"] = rules;
            changed = true;
        }
    }
    changed
}

/// One of the cluster roles, by name.
pub(super) fn cluster_role(name: &str) -> Option<Value> {
    stored().into_iter().find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name)
}

fn stored() -> Vec<Value> {
    serde_json::from_str(DATA).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_bindings_are_there_and_gathering_roles_are_filled() {
        let objects = bootstrap_objects("2026-11-16T05:49:04Z".parse().unwrap());
        let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!([count("ClusterRole"), count("ClusterRoleBinding")], [73, 54]);
        assert_eq!([count("Role"), count("RoleBinding")], [7, 7]);
        // As many rules as the controller of the real server gathers.
        let rules = |name: &str| {
            let role = objects.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name);
            role.unwrap()["rules"].as_array().unwrap().len()
        };
        assert_eq!([rules("admin"), rules("edit"), rules("view")], [29, 27, 12]);
        assert!(objects.iter().all(|o| o["metadata"]["creationTimestamp"] == "2026-11-16T05:49:04Z"));
        assert!(cluster_role("system:node").is_some_and(|role| role["rules"].as_array().unwrap().len() > 10));
    }
}
