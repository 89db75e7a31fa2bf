//! Sets of paths in the form of managed fields (`FieldsV1`).

use serde_json::{Map, Value};

use super::element::Element;
use super::go;
use super::set::Set;

/// Reads the form of managed fields.
pub(crate) fn decode(fields: &Value) -> Result<Set<'_>, String> {
    level(fields).map(|(set, _)| set)
}

/// The paths of a level, and whether the path that leads here is itself in the set.
fn level(fields: &Value) -> Result<(Set<'_>, bool), String> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok((Set::new(), true)),
        other => return Err(format!("ReadMapCB: expect {{ or n, but found {}", go::verb(other))),
    };
    let mut set = Set::new();
    let mut member = false;
    for (key, value) in fields {
        if key == "." {
            member = true;
        } else if let Some(element) = Element::parse(key)? {
            let (children, is_member) = level(value)?;
            set.push(element, is_member, children);
        }
    }
    let alone = set.is_empty();
    Ok((set, member || alone))
}

/// True when some path of a set is also in the stored form, which is as [`encode`] writes it.
pub(super) fn touches(stored: &Value, set: &Set<'_>) -> bool {
    let Value::Object(stored) = stored else { return false };
    set.nodes().iter().any(|node| {
        stored.get(&node.element.to_key()).is_some_and(|inner| {
            (node.member && is_member(inner)) || (!node.children.is_empty() && touches(inner, &node.children))
        })
    })
}

/// True when all paths of a set are also in the stored form.
pub(super) fn covers(stored: &Value, set: &Set<'_>) -> bool {
    let Value::Object(stored) = stored else { return set.is_empty() };
    set.nodes().iter().all(|node| {
        stored.get(&node.element.to_key()).is_some_and(|inner| {
            (!node.member || is_member(inner)) && (node.children.is_empty() || covers(inner, &node.children))
        })
    })
}

/// True when the path that leads to a stored level is itself in the set.
pub(super) fn is_member(level: &Value) -> bool {
    level.as_object().is_none_or(|fields| fields.is_empty() || fields.contains_key("."))
}

/// The form of managed fields.
pub(crate) fn encode(set: &Set<'_>) -> Value {
    let mut fields = Map::new();
    for node in set.nodes() {
        let mut children = encode(&node.children);
        if let (true, false, Value::Object(inner)) = (node.member, node.children.is_empty(), &mut children) {
            inner.insert(".".to_owned(), Value::Object(Map::new()));
        }
        fields.insert(node.element.to_key(), children);
    }
    Value::Object(fields)
}

/// The text of the form of managed fields, in the order in which the real server writes it.
#[cfg(test)]
pub(crate) fn to_json(set: &Set<'_>) -> String {
    let mut out = String::new();
    push_level(&mut out, set, false);
    out
}

#[cfg(test)]
fn push_level(out: &mut String, set: &Set<'_>, itself: bool) {
    out.push('{');
    if itself {
        out.push_str("\".\":{}");
    }
    for (place, node) in set.nodes().iter().enumerate() {
        if place > 0 || itself {
            out.push(',');
        }
        go::push_json_text(out, &node.element.to_key(), false);
        out.push(':');
        push_level(out, &node.children, node.member && !node.children.is_empty());
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::set::path_text;
    use super::*;

    #[test]
    fn managed_fields_are_read_and_written() {
        let fields = json!({"f:spec": {
            "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}},
            "f:ports": {".": {}, "k:{\"port\":443}": {}, "k:{\"port\":80}": {}},
            "f:set": {"v:\"x\"": {}}, "f:at": {"i:1": {}},
        }});
        let set = decode(&fields).unwrap();
        assert_eq!(encode(&set), fields);
        let paths: Vec<String> = set.paths().iter().map(|path| path_text(path)).collect();
        assert_eq!(paths[..3], [".spec.ports", ".spec.at[1]", r#".spec.containers[name="c"]"#]);
        // Numbers are sorted as numbers, not as texts.
        assert_eq!(
            to_json(set.with_prefix(&Element::Field("spec")).unwrap()),
            concat!(
                r#"{"f:at":{"i:1":{}},"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}},"#,
                r#""f:ports":{".":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{}},"f:set":{"v:\"x\"":{}}}"#
            )
        );
    }

    #[test]
    fn odd_managed_fields_are_read_like_the_real_server_reads_them() {
        assert_eq!(
            encode(&decode(&json!({"f:a": null, "x:y": {}, "f:b": {"x:y": {}}})).unwrap()),
            json!({
                "f:a": {}, "f:b": {},
            })
        );
        for bad in [json!([]), json!({"f:a": 1}), json!({"nope": {}}), json!({"k:1": {}})] {
            assert!(decode(&bad).is_err(), "{bad}");
        }
    }
}
