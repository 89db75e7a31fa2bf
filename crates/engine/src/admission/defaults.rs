//! What is filled in: what the model means by leaving it out, written where other tools look for it.
//!
//! Nothing inside a template is ever filled in: what machines are made from stays as it was written, so that filling
//! in rolls nothing.

use serde_json::{Value, json};
use trellis_model::pool::UpdatePolicy;
use trellis_model::quantity::Count;

use super::{Kind, is_deleting};
use crate::families::{Family, KKP};

/// The JSON patch that fills an object in; empty where there is nothing to fill in.
pub fn defaults(object: &Value) -> Vec<Value> {
    let Some(kind) = Kind::of(object).filter(|_| !is_deleting(object)) else { return Vec::new() };
    if !object.get("spec").is_some_and(Value::is_object) {
        return Vec::new();
    }
    let mut patch = Patch { object, operations: Vec::new() };
    match kind {
        Kind::Cluster => {}
        // Without it the scale subresource answers nothing.
        Kind::Set(_) => patch.fill("/spec/replicas", &json!(1)),
        Kind::Pool(family) => {
            patch.fill("/spec/replicas", &json!(1));
            if *family == KKP {
                patch.deployment();
            }
        }
        Kind::Machine(family) => patch.machine(family),
        Kind::HealthCheck(_) => {
            patch.fill("/spec/maxUnhealthy", &json!("100%"));
            patch.fill("/spec/nodeStartupTimeout", &json!("10m"));
        }
    }
    patch.operations
}

struct Patch<'a> {
    object: &'a Value,
    operations: Vec<Value>,
}

impl Patch<'_> {
    fn fill(&mut self, path: &str, value: &Value) {
        if self.object.pointer(path).is_none_or(Value::is_null) {
            self.operations.push(json!({"op": "add", "path": path, "value": value}));
        }
    }

    fn deployment(&mut self) {
        let policy = UpdatePolicy::default();
        self.fill("/spec/minReadySeconds", &policy.min_ready_seconds.into());
        self.fill("/spec/revisionHistoryLimit", &policy.history_limit.into());
        self.fill("/spec/progressDeadlineSeconds", &policy.progress_deadline_seconds.into());
        let bounds =
            json!({"maxSurge": count(policy.max_surge), "maxUnavailable": count(policy.max_unavailable)});
        let has = |path: &str| self.object.pointer(path).is_some_and(|value| !value.is_null());
        let (strategy, rolling) = (has("/spec/strategy"), has("/spec/strategy/rollingUpdate"));
        if !strategy {
            self.fill("/spec/strategy", &json!({"type": "RollingUpdate", "rollingUpdate": bounds}));
            return;
        }
        self.fill("/spec/strategy/type", &json!("RollingUpdate"));
        if !rolling {
            self.fill("/spec/strategy/rollingUpdate", &bounds);
            return;
        }
        for key in ["maxSurge", "maxUnavailable"] {
            self.fill(&format!("/spec/strategy/rollingUpdate/{key}"), &bounds[key]);
        }
    }

    /// A Machine of Kubermatic's says how its Node is called.
    fn machine(&mut self, family: &Family) {
        let name =
            self.object.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some(name) = name.filter(|_| *family == KKP) else { return };
        if self.object.pointer("/spec/metadata").is_some_and(Value::is_object) {
            self.fill("/spec/metadata/name", &name.into());
        } else {
            self.fill("/spec/metadata", &json!({"name": name}));
        }
    }
}

fn count(count: Count) -> Value {
    serde_json::to_value(count).unwrap_or_default()
}
