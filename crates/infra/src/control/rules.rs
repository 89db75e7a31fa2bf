//! Rules of the table of stages.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::stages::Rule;

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
            let shown = json!(rule);
            stages.remove(&rule.name);
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
