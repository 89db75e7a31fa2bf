//! Whether a pod may be evicted, and what has to be written for it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::disruption;
use super::json::{at, items, list, object, text};
use super::selector::Selector;
use crate::clock::seconds;
use crate::status::{Cause, Status};

/// So many evictions may be on their way at once.
const MOST_PENDING: usize = 2000;
const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// A pod that may be evicted: what to write before it is deleted, and how.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Eviction {
    /// The new status of a budget, to be written only if the budget still has this resource version; otherwise
    /// the decision has to be made again. Not to be written in dry runs.
    pub budget: Option<BudgetUpdate>,
    /// True if the pod may be deleted only as it was when this was decided: unless the request has such a
    /// precondition itself, the resource version of the pod has to be one.
    pub only_as_it_is: bool,
    /// What to answer if the pod changed meanwhile: nothing if the decision has to be made again.
    pub on_conflict: Option<Status>,
}

/// What to write to a budget.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BudgetUpdate {
    /// The name of the budget.
    pub name: String,
    /// The resource version it has.
    pub resource_version: String,
    /// Its new status.
    pub status: Value,
}

/// Decides whether a pod may be evicted, given the budgets of its namespace.
pub(crate) fn evict(pod: &Value, budgets: &[Arc<Value>], now: Timestamp) -> Result<Eviction, Status> {
    let leaves = !pod["metadata"]["deletionTimestamp"].is_null();
    let phase = text(&pod["status"]["phase"]);
    let is_over = leaves || matches!(phase, "Succeeded" | "Failed");
    if is_over || phase == "Pending" {
        return Ok(Eviction { budget: None, only_as_it_is: !is_over, on_conflict: None });
    }
    let mut mine = budgets.iter().filter(|budget| {
        Selector::compile(&budget["spec"]["selector"])
            .is_ok_and(|selector| selector.matches(&pod["metadata"]["labels"]))
    });
    let Some(budget) = mine.next() else {
        return Ok(Eviction { budget: None, only_as_it_is: false, on_conflict: None });
    };
    if mine.next().is_some() {
        return Err(Status::new(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let name = text(&budget["metadata"]["name"]);
    if !is_ready(pod) {
        let number = |key: &str| budget["status"][key].as_i64().unwrap_or_default();
        let enough = number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy");
        if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || enough {
            return Ok(Eviction { budget: None, only_as_it_is: true, on_conflict: Some(busy(name)) });
        }
    }
    let status = decremented(budget, text(&pod["metadata"]["name"]), now)?;
    let resource_version = text(&budget["metadata"]["resourceVersion"]).to_owned();
    Ok(Eviction {
        budget: Some(BudgetUpdate { name: name.to_owned(), resource_version, status }),
        only_as_it_is: false,
        on_conflict: None,
    })
}

/// The pod with the condition that says why it goes.
pub(crate) fn with_condition(pod: &Value, now: Timestamp) -> Value {
    let mut pod = pod.clone();
    let generation = pod["metadata"]["generation"].clone();
    let conditions = list(at(&mut pod, "status"), "conditions");
    let wanted = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": seconds(now),
    });
    match conditions.iter_mut().find(|one| one["type"] == "DisruptionTarget") {
        None => conditions.push(wanted),
        Some(known) => {
            let since =
                if known["status"] == "True" { known["lastTransitionTime"].clone() } else { Value::Null };
            *known = wanted;
            if !since.is_null() {
                known["lastTransitionTime"] = since;
            }
            if known.get("observedGeneration").is_some() {
                known["observedGeneration"] = generation;
            }
        }
    }
    pod
}

/// True if the pod says it is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    items(&pod["status"]["conditions"]).any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The status of a budget with one disruption less to give.
fn decremented(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let name = text(&budget["metadata"]["name"]);
    let status = &budget["status"];
    let number = |key: &str| status[key].as_i64().unwrap_or_default();
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or_default() {
        return Err(busy(name));
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(refused(
            name,
            "pdb disruptions allowed is negative",
            "pdb disruptions allowed is negative",
        ));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_PENDING) {
        return Err(refused(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        let mut refusal = Status::new(429, "TooManyRequests", REFUSAL);
        refusal.details.causes.push(because(exhausted(name, status)));
        return Err(refusal);
    }
    let mut status = status.clone();
    object(&mut status).insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    if allowed == 1 {
        disruption::set_condition(&mut status, now);
    }
    object(at(&mut status, "disruptedPods")).insert(pod.to_owned(), seconds(now).into());
    Ok(status)
}

/// Why a budget has no disruption to give.
fn exhausted(name: &str, status: &Value) -> String {
    let number = |key: &str| status[key].as_i64().unwrap_or_default();
    let condition = items(&status["conditions"]).find(|one| {
        one["type"] == "DisruptionAllowed" && one["status"] == "False" && !text(&one["message"]).is_empty()
    });
    let (current, desired) = (number("currentHealthy"), number("desiredHealthy"));
    match condition {
        Some(condition) if condition["reason"] == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            text(&condition["message"])
        ),
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some(condition) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            text(&condition["reason"]),
            text(&condition["message"])
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn because(message: String) -> Cause {
    Cause { reason: "DisruptionBudget", message, field: String::new() }
}

fn refused(name: &str, why: &str, told: &str) -> Status {
    let mut status = Status::forbidden("policy", "poddisruptionbudget", name, why);
    let told = format!("The disruption budget {name} does not allow evicting pods currently: {told}");
    status.details.causes.push(because(told));
    status
}

/// 429: the budget is not up to date.
fn busy(name: &str) -> Status {
    let mut status = Status::new(429, "TooManyRequests", REFUSAL);
    status.details.retry_after_seconds = Some(10);
    status
        .details
        .causes
        .push(because(format!("The disruption budget {name} is still being processed by the server.")));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: &Value) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": "b1", "generation": 1, "resourceVersion": "5"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": status,
        }))
    }

    fn pod(ready: bool) -> Value {
        json!({
            "metadata": {"name": "p1", "labels": {"app": "x"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready {"True"} else {"False"}}]},
        })
    }

    #[test]
    fn a_spent_budget_refuses_in_the_words_of_the_real_server() {
        let spent = budget(&json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}));
        let refusal = evict(&pod(true), &[Arc::clone(&spent)], Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(
            refusal.to_value(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Cannot evict pod as it would violate the pod's disruption budget.",
                "reason": "TooManyRequests", "code": 429,
                "details": {"causes": [{
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b1 needs 1 healthy pods and has 1 currently",
                }]},
            })
        );
        let two =
            evict(&pod(true), &[Arc::clone(&spent), Arc::clone(&spent)], Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!((two.code, two.reason), (500, ""));
        // A pod that is not ready does not count where enough others are.
        let eviction = evict(&pod(false), &[spent], Timestamp::UNIX_EPOCH).unwrap();
        assert!(eviction.only_as_it_is && eviction.budget.is_none() && eviction.on_conflict.is_some());
    }

    #[test]
    fn an_eviction_is_taken_from_the_budget() {
        let full = budget(&json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2}));
        let update = evict(&pod(true), &[full], Timestamp::UNIX_EPOCH).unwrap().budget.unwrap();
        assert_eq!(update.resource_version, "5");
        assert_eq!(update.status["disruptionsAllowed"], 0);
        assert_eq!(update.status["disruptedPods"], json!({"p1": "1970-01-01T00:00:00Z"}));
        assert_eq!(update.status["conditions"][0]["reason"], "InsufficientPods");
        let stale = budget(&json!({"disruptionsAllowed": 1}));
        assert_eq!(
            evict(&pod(true), &[stale], Timestamp::UNIX_EPOCH).unwrap_err().details.retry_after_seconds,
            Some(10)
        );
    }

    #[test]
    fn pods_that_do_not_run_are_not_protected() {
        let mut pending = pod(true);
        pending["status"]["phase"] = "Pending".into();
        let spent = budget(&json!({"observedGeneration": 1}));
        assert!(evict(&pending, &[spent], Timestamp::UNIX_EPOCH).unwrap().only_as_it_is);
    }
}
