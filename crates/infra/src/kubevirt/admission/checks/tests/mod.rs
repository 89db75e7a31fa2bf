//! One row per rule: what is changed in a spec that is fine, and the cause that is told.

mod machine;
mod network;
mod rest;
mod storage;

use serde_json::{Value, json};

use super::*;

/// A spec with all usual values in which nothing is wrong.
fn fine() -> Value {
    let mut spec = json!({
        "domain": {"devices": {}, "memory": {"guest": "1Gi"}},
        "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "c"}}],
    });
    super::super::defaults::spec(&Config::default(), &mut spec);
    spec
}

fn judged(spec: &Value) -> Vec<Cause> {
    let field = Field::new("spec");
    let mut causes = super::spec(&field, spec, &Config::default());
    causes.extend(complete(&field, spec));
    causes
}

/// What is set where, the field of the only cause, and how its message begins.
type Row = (Vec<(&'static str, Value)>, &'static str, &'static str);

fn check(rows: Vec<Row>) {
    for (changes, field, message) in rows {
        let mut spec = fine();
        for (pointer, value) in &changes {
            if value.is_null() {
                spec.unset(pointer);
            } else {
                spec.set(pointer, value.clone());
            }
        }
        let causes = judged(&spec);
        assert_eq!(causes.len(), 1, "{changes:?} comes to {causes:?}");
        assert_eq!(causes[0].field, field, "{changes:?}");
        assert!(causes[0].message.starts_with(message), "{changes:?}: {}", causes[0].message);
    }
}

#[test]
fn a_usual_spec_is_fine() {
    assert_eq!(judged(&fine()), []);
}
