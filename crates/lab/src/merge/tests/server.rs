//! What the rest of the server does to objects around a merge, as far as the recordings need it.

use serde_json::{Map, Value};

use super::super::Reset;
use crate::schema::{Omit, Shape, TypeRef};

/// Fills in the defaults of a custom resource, and drops what it does not know.
pub(super) fn fill(of: TypeRef<'_>, value: &mut Value) {
    match (of.shape(), value) {
        (Shape::Object { fields, preserve_unknown, .. }, Value::Object(object)) => {
            object.retain(|name, _| *preserve_unknown || of.field(name).is_some());
            for field in fields {
                if let Some(default) = field.default.as_ref().filter(|_| !object.contains_key(&field.name)) {
                    object.insert(field.name.clone(), default.clone());
                }
                if let Some(value) = object.get_mut(&field.name) {
                    fill(of.at(field.of), value);
                }
            }
        }
        (Shape::List { items, .. }, Value::Array(list)) => {
            for item in list {
                fill(of.at(*items), item);
            }
        }
        (Shape::Map { values, .. }, Value::Object(object)) => {
            for value in object.values_mut() {
                fill(of.at(*values), value);
            }
        }
        _ => {}
    }
}

/// A built-in object without what a typed server leaves out.
pub(super) fn tidy(of: TypeRef<'_>, value: &Value) -> Value {
    match (of.shape(), value) {
        (Shape::Object { fields, .. }, Value::Object(object)) => {
            let mut out = Map::new();
            for field in fields {
                let Some(value) = object.get(&field.name) else { continue };
                let value = tidy(of.at(field.of), value);
                let zero = match &value {
                    Value::Null => true,
                    Value::Bool(yes) => !yes,
                    Value::Number(number) => number.as_f64() == Some(0.0),
                    Value::String(text) => text.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    Value::Object(fields) => {
                        fields.is_empty() && !matches!(of.at(field.of).shape(), Shape::Object { .. })
                    }
                };
                let omit = match field.omit {
                    Omit::Zero => zero,
                    Omit::Never | Omit::Null | Omit::Missing => value.is_null(),
                };
                if !omit {
                    out.insert(field.name.clone(), value);
                }
            }
            Value::Object(out)
        }
        (Shape::List { items, .. }, Value::Array(list)) => {
            list.iter().map(|item| tidy(of.at(*items), item)).collect()
        }
        (Shape::Map { values, .. }, Value::Object(object)) => {
            object.iter().map(|(name, value)| (name.clone(), tidy(of.at(*values), value))).collect()
        }
        (Shape::String, Value::Null) => "".into(),
        (Shape::Quantity, Value::Null) => "0".into(),
        _ => value.clone(),
    }
}

/// Fields that defaults, allocation and strategies add or change after the merge.
pub(super) const SERVER_SIDE: &[&str] = &[
    "apiVersion",
    "clusterIP",
    "clusterIPs",
    "creationTimestamp",
    "defaultMode",
    "dnsPolicy",
    "externalTrafficPolicy",
    "failureThreshold",
    "generation",
    "imagePullPolicy",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "managedFields",
    "maxSurge",
    "maxUnavailable",
    "nodePort",
    "periodSeconds",
    "progressDeadlineSeconds",
    "protocol",
    "replicas",
    "requests",
    "resourceVersion",
    "resources",
    "restartPolicy",
    "revisionHistoryLimit",
    "rollingUpdate",
    "scheme",
    "schedulerName",
    "securityContext",
    "sessionAffinity",
    "sessionAffinityConfig",
    "clientIP",
    "path",
    "status",
    "strategy",
    "successThreshold",
    "targetPort",
    "terminationGracePeriodSeconds",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "timeoutSeconds",
    "type",
    "uid",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Numbers without a fraction are whole numbers once they went through the JSON of Go.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|number| number.fract() == 0.0) {
                #[expect(clippy::cast_possible_truncation, reason = "recordings have small numbers")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Puts back what a write cannot change; gives what it had there.
pub(super) fn put_back_reset(object: &mut Value, result: &Value, reset: Reset) -> Vec<(&'static str, Value)> {
    let mut before = Vec::new();
    if let Reset::Fields(fields) = reset {
        for name in fields.iter().filter(|path| path.len() == 1).map(|path| path[0]) {
            before.push((name, object[name].clone()));
            put_back(object, result, name);
        }
    }
    before
}

pub(super) fn put_back(object: &mut Value, old: &Value, name: &str) {
    object.as_object_mut().unwrap().remove(name);
    if let Some(value) = old.get(name) {
        object[name] = value.clone();
    }
}

/// Takes out what is allocated after the fields were tracked.
pub(super) fn unallocate(object: &mut Value, body: &Value) {
    for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if body["spec"].get(name).is_none() {
            object["spec"].as_object_mut().unwrap().remove(name);
        }
    }
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        port.as_object_mut().unwrap().remove("nodePort");
    }
}
