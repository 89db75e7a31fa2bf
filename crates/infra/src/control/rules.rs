//! Rules of the table of stages.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::stages::Rule;

/// The longest delay, in seconds: nobody waits for a year.
const LONGEST: f64 = 365.0 * 24.0 * 3600.0;

pub(super) fn told(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    let stages = &context.stages;
    match (method, steps) {
        (&Method::GET, []) => {
            Ok(json!({"kind": "RuleList", "apiVersion": super::GROUP_VERSION, "items": stages.added()}))
        }
        (&Method::POST, []) => {
            let rule: Rule = serde_json::from_value(body.clone()).map_err(bad)?;
            if rule.name.is_empty() {
                return Err(bad("a rule needs a name, so that it can be taken away again"));
            }
            if !stages.knows(&rule.stage) {
                return Err(bad(format!(
                    "there is no stage {:?}; the stages are: {}",
                    rule.stage,
                    stages.names().join(", ")
                )));
            }
            if rule.weight != 1 {
                return Err(bad(
                    "only built-in rules have a weight: of the added ones the newest that matches decides",
                ));
            }
            if [rule.delay.min, rule.delay.max].iter().any(|seconds| !(0.0..=LONGEST).contains(seconds)) {
                return Err(bad(format!("a delay is between 0 and {LONGEST} seconds, which is a year")));
            }
            if rule.delay.max < rule.delay.min {
                let (min, max) = (rule.delay.min, rule.delay.max);
                return Err(bad(format!("the delay runs backwards: {min}..{max}")));
            }
            if body.get("delay").is_none() && body.get("effect").is_none() {
                return Err(bad("a rule without a delay, a failure or a hang changes nothing"));
            }
            if stages.added().iter().any(|other| other.name == rule.name) {
                let message = format!("there is a rule {:?} already; take it away first", rule.name);
                return Err((StatusCode::CONFLICT, message));
            }
            let shown = json!(rule);
            stages.add(rule);
            Ok(shown)
        }
        (&Method::DELETE, [name]) => match stages.remove(name) {
            0 => Err((StatusCode::NOT_FOUND, format!("there is no rule {name:?}"))),
            removed => Ok(
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "message": format!("{removed} removed")}),
            ),
        },
        _ => Err(nothing_here()),
    }
}
