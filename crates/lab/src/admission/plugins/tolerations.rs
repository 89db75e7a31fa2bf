//! Tolerations: the default ones, and merging.

use serde_json::{Value, json};

use super::super::json::{at, items, list, text};
use super::super::review::{Operation, Review};

/// Pods stay five minutes on nodes that are not ready or out of reach, unless they say otherwise.
pub(crate) fn set_defaults(review: &mut Review<'_>) {
    if !review.is("", "pods") || !matches!(review.operation, Operation::Create | Operation::Update) {
        return;
    }
    let Some(pod) = review.object.as_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(&pod["spec"]["tolerations"]).any(|toleration| {
            let (by_key, by_effect) = (text(&toleration["key"]), text(&toleration["effect"]));
            (by_key.is_empty() || by_key == key) && (by_effect.is_empty() || by_effect == "NoExecute")
        });
        if !tolerated {
            list(at(pod, "spec"), "tolerations").push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

/// Two lists as one, without those that others make redundant.
pub(crate) fn merged(first: &Value, second: &Value) -> Vec<Value> {
    let all: Vec<&Value> = items(first).chain(items(second)).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let covered = kept.iter().any(|other| is_superset(other, one))
            || all.iter().skip(index + 1).any(|other| other != one && is_superset(other, one));
        if !covered {
            kept.push((*one).clone());
        }
    }
    kept
}

/// True if whatever `small` tolerates, `big` tolerates too.
fn is_superset(big: &Value, small: &Value) -> bool {
    if big == small {
        return true;
    }
    let field = |toleration: &'_ Value, key: &str| text(&toleration[key]).to_owned();
    let exists = big["operator"] == "Exists";
    if field(big, "key") != field(small, "key") && !(field(big, "key").is_empty() && exists) {
        return false;
    }
    let effect = field(big, "effect");
    if !effect.is_empty() && effect != field(small, "effect") {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = big["tolerationSeconds"].as_i64()
        && small["tolerationSeconds"].as_i64().is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match big["operator"].as_str().unwrap_or_default() {
        "" | "Equal" => small["operator"] == "Equal" && field(big, "value") == field(small, "value"),
        "Exists" => true,
        _ => false,
    }
}
