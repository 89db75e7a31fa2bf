//! From what expressions make to what is applied: `Object{...}` and `JSONPatch{...}`.

use serde_json::{Map, Value};

use crate::cel::{Key, Val};

/// The configuration an `Object` is.
pub(super) fn apply_configuration(value: &Val<'_>) -> Result<Value, String> {
    let Val::Record(name, _) = value else {
        return Err(format!(
            "unsupported return type from ApplyConfiguration expression: {}",
            value.type_name()
        ));
    };
    check_names(value, name)?;
    to_json(value)
}

/// The operations a list of `JSONPatch` is.
pub(super) fn json_patch(value: &Val<'_>) -> Result<Value, String> {
    let Val::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut operations: Vec<Value> = Vec::new();
    for place in 0..list.len() {
        let item = list.get(place).transpose().map_err(|failure| failure.to_string())?;
        let Some(Val::Record(_, fields)) = item else {
            let found = item.map(|item| item.type_name().to_owned()).unwrap_or_default();
            return Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {found}"
            ));
        };
        let mut operation = Map::new();
        for (key, field) in &*fields {
            if let Val::Record(name, _) = field {
                check_names(field, name).map_err(|why| format!("type mismatch: {why}"))?;
            }
            let converted = to_json(field).map_err(|why| {
                format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
            })?;
            operation.insert(key.to_string(), converted);
        }
        for key in ["op", "path"] {
            operation.entry(key).or_insert_with(|| "".into());
        }
        operations.push(operation.into());
    }
    Ok(operations.into())
}

/// Objects are called by where they are: `Object.spec` is what `spec` of an `Object` has to be.
fn check_names(value: &Val<'_>, path: &str) -> Result<(), String> {
    let mut problems = Vec::new();
    collect_names(value, path, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", problems.join("\n"))) }
}

fn collect_names(value: &Val<'_>, path: &str, problems: &mut Vec<String>) {
    match value {
        Val::Record(name, fields) => {
            if **name != *path {
                problems.push(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                    &**name
                ));
            }
            for (key, field) in &**fields {
                collect_names(field, &format!("{path}.{key}"), problems);
            }
        }
        Val::List(list) => {
            for item in (0..list.len()).filter_map(|place| list.get(place)?.ok()) {
                collect_names(&item, path, problems);
            }
        }
        Val::Map(map) => {
            for item in map.keys().iter().filter_map(|key| map.find(key)?.ok()) {
                collect_names(&item, path, problems);
            }
        }
        _ => {}
    }
}

/// A value as JSON.
pub(super) fn to_json(value: &Val<'_>) -> Result<Value, String> {
    Ok(match value {
        Val::Null | Val::Optional(None) => Value::Null,
        Val::Bool(flag) => (*flag).into(),
        Val::Int(number) => (*number).into(),
        Val::Uint(number) => (*number).into(),
        Val::Double(number) => (*number).into(),
        Val::Text(text) => (**text).into(),
        Val::Preserved(json) => (*json).clone(),
        Val::Optional(Some(inner)) => to_json(inner)?,
        Val::List(list) => {
            let mut items = Vec::new();
            for place in 0..list.len() {
                let item = list.get(place).transpose().map_err(|failure| failure.to_string())?;
                items.push(item.as_ref().map_or(Ok(Value::Null), to_json)?);
            }
            items.into()
        }
        Val::Map(map) => {
            let mut fields = Map::new();
            for key in map.keys() {
                let Some(Key::Text(name)) = key.key() else {
                    return Err(format!("map key {key} is of type {}, not string", key.type_name()));
                };
                let item = map.find(&key).transpose().map_err(|failure| failure.to_string())?;
                fields.insert(name.to_string(), item.as_ref().map_or(Ok(Value::Null), to_json)?);
            }
            fields.into()
        }
        Val::Record(_, fields) => {
            let mut object = Map::new();
            for (key, field) in &**fields {
                object.insert(key.to_string(), to_json(field)?);
            }
            object.into()
        }
        other => return Err(format!("unsupported type {}", other.type_name())),
    })
}
