//! Which flow schema a request belongs to, and which priority level that leads to.
//!
//! Requests are told apart as the real server does, and clients are told in headers; but nobody waits: the
//! lab has no queues, since it serves as fast as it can.

use std::sync::{Arc, LazyLock};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::RwLock;
use serde_json::Value;

use crate::attributes::{Attributes, User};
use crate::json::items;
use crate::names::GroupResource;
use crate::store::{Query, Store};

/// The schema for what no other schema is for.
const CATCH_ALL: &str = "catch-all";
/// All requests a server serves at a time are shared by the limited levels, by default.
const SEATS: f64 = 600.0;

/// Flow schemas.
pub(crate) fn schemas() -> &'static GroupResource {
    static SCHEMAS: LazyLock<GroupResource> =
        LazyLock::new(|| GroupResource::new("flowcontrol.apiserver.k8s.io", "flowschemas"));
    &SCHEMAS
}

/// Priority levels.
pub(crate) fn levels() -> &'static GroupResource {
    static LEVELS: LazyLock<GroupResource> =
        LazyLock::new(|| GroupResource::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"));
    &LEVELS
}

/// The flow schemas as they are stored, read again when they change.
#[derive(Debug, Default)]
pub(super) struct Flows {
    known: RwLock<Arc<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The revisions of schemas and levels this was read at.
    revisions: Option<(u64, u64)>,
    /// Those whose level is there, first the ones that are asked first.
    schemas: Vec<Schema>,
}

/// What is needed of a flow schema.
#[derive(Debug)]
struct Schema {
    name: String,
    rules: Vec<Value>,
    uid: HeaderValue,
    level_uid: HeaderValue,
}

impl Flows {
    /// Tells in headers what a request was taken for.
    pub(super) fn tell(&self, store: &Store, attributes: &Attributes, headers: &mut HeaderMap) {
        let known = self.known(store);
        let schema = known
            .schemas
            .iter()
            .find(|schema| schema.rules.iter().any(|rule| is_meant(rule, attributes)))
            .or_else(|| known.schemas.iter().find(|schema| schema.name == CATCH_ALL));
        if let Some(schema) = schema {
            let name = HeaderName::from_static;
            headers.insert(name("x-kubernetes-pf-flowschema-uid"), schema.uid.clone());
            headers.insert(name("x-kubernetes-pf-prioritylevel-uid"), schema.level_uid.clone());
        }
    }

    fn known(&self, store: &Store) -> Arc<Known> {
        let revisions = Some((store.revision(schemas()), store.revision(levels())));
        {
            let known = self.known.read();
            if known.revisions == revisions {
                return Arc::clone(&known);
            }
        }
        let known = Arc::new(Known { revisions, schemas: read(store) });
        *self.known.write() = Arc::clone(&known);
        known
    }
}

/// All schemas whose level is there, in the order they are asked.
fn read(store: &Store) -> Vec<Schema> {
    let all = |of: &GroupResource| -> Vec<Value> {
        store.list(of, &Query::default(), |_, _| true).records.iter().map(|record| record.parse()).collect()
    };
    let levels = all(levels());
    let mut found: Vec<(i64, Schema)> = all(schemas())
        .into_iter()
        .filter_map(|schema| {
            let name = schema["metadata"]["name"].as_str()?.to_owned();
            let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
            let level = levels.iter().find(|one| one["metadata"]["name"] == *level)?;
            let precedence = schema["spec"]["matchingPrecedence"].as_i64().unwrap_or_default();
            let schema = Schema {
                name,
                rules: schema["spec"]["rules"].as_array().cloned().unwrap_or_default(),
                uid: schema["metadata"]["uid"].as_str()?.parse().ok()?,
                level_uid: level["metadata"]["uid"].as_str()?.parse().ok()?,
            };
            Some((precedence, schema))
        })
        .collect();
    found.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    found.into_iter().map(|(_, schema)| schema).collect()
}

/// How many requests each limited level may serve at a time, were they counted: by name, in its order.
pub(super) fn seats(store: &Store) -> Vec<(String, u64)> {
    let records = store.list(levels(), &Query::default(), |_, _| true).records;
    let shares: Vec<(String, f64)> = records
        .iter()
        .map(|record| {
            let spec = &record.parse()["spec"];
            let part = if spec["type"] == "Exempt" { "exempt" } else { "limited" };
            let shares = spec[part]["nominalConcurrencyShares"].as_u64().unwrap_or_default();
            (record.key.name.clone(), f64::from(u32::try_from(shares).unwrap_or(u32::MAX)))
        })
        .collect();
    let total: f64 = shares.iter().map(|(_, share)| share).sum::<f64>().max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a small positive number"
    )]
    let seats = |share: f64| (SEATS * share / total).ceil() as u64;
    shares.into_iter().map(|(name, share)| (name, seats(share))).collect()
}

/// True when a rule is about a request.
fn is_meant(rule: &Value, attributes: &Attributes) -> bool {
    if !items(&rule["subjects"]).any(|subject| is_subject(subject, &attributes.user)) {
        return false;
    }
    if attributes.is_resource() {
        items(&rule["resourceRules"]).any(|rule| is_resource(rule, attributes))
    } else {
        items(&rule["nonResourceRules"]).any(|rule| {
            has(&rule["verbs"], &attributes.verb)
                && items(&rule["nonResourceURLs"])
                    .any(|path| is_below(path.as_str().unwrap_or_default(), &attributes.path))
        })
    }
}

fn is_subject(subject: &Value, user: &User) -> bool {
    let name = |part: &str| subject[part]["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => name("user") == "*" || name("user") == user.name,
        Some("Group") => name("group") == "*" || user.groups.iter().any(|group| group == name("group")),
        Some("ServiceAccount") => {
            let namespace = subject["serviceAccount"]["namespace"].as_str().unwrap_or_default();
            let account =
                user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            account.is_some_and(|(found, account)| {
                let wanted = name("serviceAccount");
                found == namespace && (wanted == "*" || wanted == account)
            })
        }
        _ => false,
    }
}

fn is_resource(rule: &Value, attributes: &Attributes) -> bool {
    let fits = has(&rule["verbs"], &attributes.verb)
        && has(&rule["apiGroups"], &attributes.group)
        && if attributes.subresource.is_empty() {
            has(&rule["resources"], &attributes.resource)
        } else {
            has(&rule["resources"], &format!("{}/{}", attributes.resource, attributes.subresource))
        };
    fits && if attributes.namespace.is_empty() {
        rule["clusterScope"] == true
    } else {
        has(&rule["namespaces"], &attributes.namespace)
    }
}

/// True when a path is the one of a rule, or below it.
fn is_below(rule: &str, path: &str) -> bool {
    if rule == "*" || rule == path {
        return true;
    }
    let start = rule.strip_suffix('*').unwrap_or(rule);
    let start = start.strip_suffix('/').unwrap_or(start);
    path.strip_prefix(start).is_some_and(|rest| rest.starts_with('/'))
}

/// True when a list is about everything, or has a word.
fn has(list: &Value, word: &str) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([only]) if only == "*" => true,
        Some(list) => list.iter().any(|one| one == word),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asks(user: &str, groups: &[&str], verb: &str, path: &str) -> Attributes {
        Attributes {
            user: User {
                name: user.to_owned(),
                groups: groups.iter().map(|&group| group.to_owned()).collect(),
                ..User::default()
            },
            verb: verb.to_owned(),
            path: path.to_owned(),
            ..Attributes::default()
        }
    }

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let user = asks("system:serviceaccount:shop:cart", &["g"], "get", "/").user;
        let subject = |kind: &str, part: Value| {
            let key = match kind {
                "User" => "user",
                "Group" => "group",
                _ => "serviceAccount",
            };
            is_subject(&json!({"kind": kind, key: part}), &user)
        };
        assert!(subject("User", json!({"name": "*"})));
        assert!(!subject("User", json!({"name": "other"})));
        assert!(subject("Group", json!({"name": "g"})));
        assert!(subject("ServiceAccount", json!({"namespace": "shop", "name": "*"})));
        assert!(subject("ServiceAccount", json!({"namespace": "shop", "name": "cart"})));
        assert!(!subject("ServiceAccount", json!({"namespace": "shop", "name": "till"})));
        assert!(!subject("ServiceAccount", json!({"namespace": "sho", "name": "*"})));
    }

    #[test]
    fn scope_and_subresource_count() {
        let rule = json!({
            "verbs": ["*"], "apiGroups": [""], "resources": ["pods", "pods/status"], "namespaces": ["shop"],
        });
        let mut asked = asks("u", &[], "get", "");
        asked.resource = "pods".to_owned();
        assert!(!is_resource(&rule, &asked), "it is about no cluster scope");
        asked.namespace = "shop".to_owned();
        assert!(is_resource(&rule, &asked));
        asked.subresource = "log".to_owned();
        assert!(!is_resource(&rule, &asked));
        asked.subresource = "status".to_owned();
        assert!(is_resource(&rule, &asked));
    }

    #[test]
    fn paths_are_met_from_above() {
        assert!(is_below("*", "/x"));
        assert!(is_below("/healthz", "/healthz"));
        assert!(is_below("/apis/*", "/apis/apps"));
        assert!(is_below("/apis", "/apis/apps"));
        assert!(!is_below("/api", "/apis/apps"));
    }
}
