//! The status of pod disruption budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::eviction::is_ready;
use super::json::{entries, items, list, object, text};
use super::selector::Selector;
use crate::clock::seconds;

/// An eviction counts for so long, even if the pod is still there.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const CONDITION: &str = "DisruptionAllowed";

/// How many pods the controller of a pod wants: its uid and its scale. An error says why that is not known.
pub(crate) type Scale = Result<Option<(String, i64)>, String>;

/// What a budget's status has to become.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Computed {
    /// The new status; nothing if it has that already.
    pub status: Option<Value>,
    /// When to look again even if nothing happens.
    pub recheck_at: Option<Timestamp>,
}

/// Computes the status of a budget from the pods of its namespace.
///
/// `scale` tells, for the controller reference of a pod, which controller stands behind it in the end (the
/// deployment of a replica set) and how many pods that wants.
pub(crate) fn compute(
    budget: &Value,
    pods: &[Arc<Value>],
    scale: &dyn Fn(&Value) -> Scale,
    now: Timestamp,
) -> Computed {
    let selected: Vec<&Arc<Value>> = match Selector::compile(&budget["spec"]["selector"]) {
        Ok(selector) => pods.iter().filter(|pod| selector.matches(&pod["metadata"]["labels"])).collect(),
        Err(why) => return failed(budget, &why, now),
    };
    let (expected, desired) = match expected(budget, &selected, scale) {
        Ok(both) => both,
        Err(why) => return failed(budget, &why, now),
    };
    let mut disrupted = Map::new();
    let mut recheck_at = None;
    for pod in selected.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
        let name = text(&pod["metadata"]["name"]);
        let Some(since) = budget["status"]["disruptedPods"].get(name) else { continue };
        let end = text(since).parse::<Timestamp>().ok().and_then(|at| at.checked_add(DELETION_TIMEOUT).ok());
        if let Some(end) = end.filter(|end| *end >= now) {
            disrupted.insert(name.to_owned(), since.clone());
            recheck_at = Some(recheck_at.map_or(end, |known: Timestamp| known.min(end)));
        }
    }
    let healthy = selected.iter().filter(|pod| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && !disrupted.contains_key(text(&pod["metadata"]["name"]))
            && is_ready(pod)
    });
    let current = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
    let allowed = if expected <= 0 { 0 } else { (current - desired).max(0) };
    let mut status = json!({
        "currentHealthy": current,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"]["generation"],
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = disrupted.into();
    }
    if budget["status"]["conditions"].is_array() {
        status["conditions"] = budget["status"]["conditions"].clone();
    }
    set_condition(&mut status, now);
    Computed { status: Some(status).filter(|status| *status != budget["status"]), recheck_at }
}

/// The pods that are expected, and how many have to be healthy.
fn expected(
    budget: &Value,
    pods: &[&Arc<Value>],
    scale: &dyn Fn(&Value) -> Scale,
) -> Result<(i64, i64), String> {
    let spec = &budget["spec"];
    if !spec["maxUnavailable"].is_null() {
        let expected = expected_scale(pods, scale)?;
        return Ok((expected, (expected - scaled(&spec["maxUnavailable"], expected)?).max(0)));
    }
    if let Some(count) = spec["minAvailable"].as_i64() {
        return Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), count));
    }
    if spec["minAvailable"].is_string() {
        let expected = expected_scale(pods, scale)?;
        return Ok((expected, scaled(&spec["minAvailable"], expected)?));
    }
    Ok((0, 0))
}

/// The sum of what the controllers of the pods want. Pods without one do not count.
fn expected_scale(pods: &[&Arc<Value>], scale: &dyn Fn(&Value) -> Scale) -> Result<i64, String> {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let mut owners = items(&pod["metadata"]["ownerReferences"]);
        let Some(controller) = owners.find(|owner| owner["controller"] == true) else { continue };
        if scales.contains_key(text(&controller["uid"])) {
            continue;
        }
        let Some((uid, count)) = scale(controller)? else {
            return Err(format!("found no controllers for pod {:?}", text(&pod["metadata"]["name"])));
        };
        scales.insert(uid, count);
    }
    Ok(scales.values().fold(0, |sum, count| sum.saturating_add(*count)))
}

/// A number, or a percentage of a total, rounded up.
fn scaled(value: &Value, total: i64) -> Result<i64, String> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    let written = text(value);
    let Some(digits) = written.strip_suffix('%') else {
        return Err("invalid value for IntOrString: invalid type: string is not a percentage".to_owned());
    };
    let percent: i64 = digits.parse().map_err(|_| {
        format!(
            "invalid value for IntOrString: invalid value {written:?}: strconv.Atoi: parsing {digits:?}: invalid syntax"
        )
    })?;
    let hundredths = i128::from(percent) * i128::from(total);
    i64::try_from((hundredths + 99).div_euclid(100)).map_err(|error| error.to_string())
}

/// The status after a failure: no disruptions.
fn failed(budget: &Value, why: &str, now: Timestamp) -> Computed {
    let mut status = if budget["status"].is_object() { budget["status"].clone() } else { json!({}) };
    let generation = status["observedGeneration"].clone();
    for key in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        object(&mut status).entry(key).or_insert(0.into());
    }
    status["disruptionsAllowed"] = 0.into();
    put_condition(&mut status, ("False", "SyncFailed", why), &generation, now);
    Computed { status: Some(status).filter(|status| *status != budget["status"]), recheck_at: None }
}

/// Sets the condition that says whether disruptions are allowed.
pub(super) fn set_condition(status: &mut Value, now: Timestamp) {
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or_default() > 0;
    let generation = status["observedGeneration"].clone();
    let wanted = if allowed { ("True", "SufficientPods", "") } else { ("False", "InsufficientPods", "") };
    put_condition(status, wanted, &generation, now);
}

fn put_condition(status: &mut Value, wanted: (&str, &str, &str), generation: &Value, now: Timestamp) {
    let (state, reason, message) = wanted;
    let mut condition = json!({
        "type": CONDITION, "status": state, "reason": reason, "message": message,
        "lastTransitionTime": seconds(now),
    });
    if generation.as_i64().unwrap_or_default() != 0 {
        condition["observedGeneration"] = generation.clone();
    }
    let conditions = list(status, "conditions");
    match conditions.iter_mut().find(|one| one["type"] == CONDITION) {
        None => conditions.push(condition),
        Some(known) => {
            if known["status"] == state {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            // Whatever else is there stays.
            for (key, value) in entries(&condition) {
                known[key.as_str()] = value.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, owner: Option<&str>, ready: bool) -> Arc<Value> {
        let owners: Vec<Value> = owner.iter().map(|uid| json!({"uid": uid, "controller": true})).collect();
        Arc::new(json!({
            "metadata": {"name": name, "labels": {"app": "x"}, "ownerReferences": owners},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }))
    }

    fn budget(spec: &Value) -> Value {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": "x"}});
        json!({"metadata": {"generation": 1}, "spec": spec})
    }

    #[test]
    fn percentages_count_from_what_the_controllers_want() {
        let pods = [pod("a", Some("rs"), true), pod("b", Some("rs"), true), pod("c", Some("rs"), false)];
        let scale = |owner: &Value| Ok(Some((text(&owner["uid"]).to_owned(), 5)));
        let computed =
            compute(&budget(&json!({"maxUnavailable": "50%"})), &pods, &scale, Timestamp::UNIX_EPOCH);
        let status = computed.status.unwrap();
        assert_eq!(
            (&status["expectedPods"], &status["desiredHealthy"], &status["currentHealthy"]),
            (&json!(5), &json!(2), &json!(2))
        );
        assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
    }

    #[test]
    fn a_status_that_is_right_is_left_alone_and_evictions_count() {
        let pods = [pod("a", None, true), pod("b", None, true)];
        let none = |_: &Value| Ok(None);
        let mut budget = budget(&json!({"minAvailable": 1}));
        let now = Timestamp::UNIX_EPOCH;
        budget["status"] = compute(&budget, &pods, &none, now).status.unwrap();
        assert_eq!(budget["status"]["disruptionsAllowed"], 1);
        assert_eq!(compute(&budget, &pods, &none, now).status, None);
        budget["status"]["disruptedPods"] = json!({"a": "1970-01-01T00:00:00Z"});
        let later = compute(&budget, &pods, &none, now);
        assert_eq!(later.status.unwrap()["disruptionsAllowed"], 0);
        assert_eq!(later.recheck_at, Some(Timestamp::from_second(120).unwrap()));
    }

    #[test]
    fn what_cannot_be_computed_allows_nothing() {
        let pods = [pod("a", Some("x"), true)];
        let none = |_: &Value| Ok(None);
        let status = compute(&budget(&json!({"maxUnavailable": 1})), &pods, &none, Timestamp::UNIX_EPOCH)
            .status
            .unwrap();
        assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
        assert_eq!(status["conditions"][0]["message"], "found no controllers for pod \"a\"");
    }
}
