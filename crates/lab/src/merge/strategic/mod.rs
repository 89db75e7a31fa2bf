//! Strategic merge patches: JSON merge patches that know how lists are merged.

mod lists;
mod order;

use serde_json::{Map, Value};

use super::go;
use super::json::json_kind;
use crate::schema::{Patch, Shape, TypeRef};
use crate::status::Status;

/// The field that says what to do with the object it is in.
const DIRECTIVE: &str = "$patch";
/// The field that names the fields to keep.
const RETAIN_KEYS: &str = "$retainKeys";
/// The start of the fields that name items to delete from lists of scalars.
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// The start of the fields that say in which order items come.
const ORDER: &str = "$setElementOrder";

/// Why a patch cannot be applied.
#[derive(Debug)]
enum Failure {
    /// The patch has the wrong form.
    Malformed(&'static str),
    /// The patch asks for something that does not exist.
    Unsupported,
    /// Something does not fit; the real server has not foreseen it and answers as if it were at fault.
    Other(String),
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Malformed(why) => Status::bad_request(why),
            Failure::Unsupported => {
                Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
                    .with_empty_details()
            }
            Failure::Other(why) => Status::new(500, "", why),
        }
    }
}

type Object = Map<String, Value>;

/// The object with a strategic merge patch applied.
#[cfg(test)]
pub(crate) fn strategic_merge(of: TypeRef<'_>, object: &Value, patch: &Value) -> Result<Value, Status> {
    strategic_merge_with(of, object, &mut patch.clone())
}

/// The object with a strategic merge patch applied. The real server uses up some of the patch as it goes: what is
/// left of it is what it shows when it does not like the outcome.
pub(crate) fn strategic_merge_with(
    of: TypeRef<'_>,
    object: &Value,
    patch: &mut Value,
) -> Result<Value, Status> {
    if patch.is_null() {
        *patch = Value::Object(Map::new());
    }
    let Value::Object(patch) = patch else {
        return Err(Status::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(patch)
        )));
    };
    let object = object.as_object().cloned().unwrap_or_default();
    Ok(Value::Object(merge_map(object, patch, of)?))
}

/// What is known about a field of a type.
fn lookup<'a>(of: TypeRef<'a>, name: &str) -> Result<(TypeRef<'a>, &'a Patch), Failure> {
    match of.shape() {
        Shape::Object { .. } => {
            if let Some((field, inner)) = of.field(name) {
                return Ok((inner, &field.patch));
            }
        }
        Shape::Any(_) | Shape::SchemaOr { .. } => {}
        Shape::Map { .. } => return Err(not_a_structure("map")),
        Shape::List { .. } | Shape::Bytes => return Err(not_a_structure("slice")),
        Shape::Boolean => return Err(not_a_structure("bool")),
        Shape::Number => return Err(not_a_structure("float64")),
        Shape::Integer(_) => return Err(not_a_structure("int32")),
        _ => return Err(not_a_structure("string")),
    }
    let structure = of.node().name.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
    Err(Failure::Other(format!(
        "unable to find api field in struct {structure} for the json field {}",
        go::quote(name)
    )))
}

fn not_a_structure(kind: &str) -> Failure {
    Failure::Other(format!("merging an object in json but data type is not struct, instead is: {kind}"))
}

/// What is known about the items of a list field.
fn lookup_list<'a>(of: TypeRef<'a>, name: &str) -> Result<(TypeRef<'a>, &'a Patch), Failure> {
    let (list, patch) = lookup(of, name)?;
    match list.shape() {
        Shape::List { items, .. } => {
            let items = list.at(*items);
            if matches!(items.shape(), Shape::List { .. } | Shape::Bytes) {
                return Err(Failure::Other("unexpected slice of slice".to_owned()));
            }
            Ok((items, patch))
        }
        _ => Err(Failure::Other("expected slice or array type, but got: struct".to_owned())),
    }
}

fn merge_map(mut original: Object, patch: &mut Object, of: TypeRef<'_>) -> Result<Object, Failure> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch.clone())
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    order::merge_ordered_lists(&mut original, patch, of)?;
    // The real server takes the fields in no particular order. Here deletions come last, and so win.
    let (deletions, others): (Vec<_>, Vec<_>) =
        patch.iter_mut().partition(|(name, _)| name.starts_with(DELETE_FROM));
    for (name, value) in others.into_iter().chain(deletions) {
        let deletion = if name.starts_with(DELETE_FROM) {
            let malformed = Failure::Malformed("invalid patch format of primitive list");
            Some(list_of(name, DELETE_FROM).ok_or(malformed)?)
        } else {
            None
        };
        let field = deletion.unwrap_or(name);
        if value.is_null() {
            original.remove(field);
            continue;
        }
        let merged = match (original.remove(field), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => {
                let (of, strategy) = lookup(of, field)?;
                Some(Value::Object(if strategy.replace {
                    value.clone()
                } else {
                    merge_map(inner, value, of)?
                }))
            }
            (Some(Value::Array(inner)), Value::Array(value)) => {
                let (of, strategy) = lookup_list(of, field)?;
                Some(Value::Array(if strategy.merge || deletion.is_some() {
                    lists::merge(inner, value, of, strategy.merge_key.as_deref(), deletion.is_some())?
                } else {
                    value.clone()
                }))
            }
            (before, _) if deletion.is_some() => before,
            (Some(before), value) if lists::go_type(&before) == lists::go_type(value) => {
                without_directives(value)
            }
            (_, value) => {
                drop_nulls(value);
                without_directives(value)
            }
        };
        if let Some(merged) = merged {
            original.insert(field.to_owned(), merged);
        }
    }
    Ok(original)
}

/// The field a directive of this prefix is about.
fn list_of<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.split_once('/').filter(|(start, _)| *start == prefix).map(|(_, field)| field)
}

fn unknown_directive(directive: &Value, patch: &Object) -> Failure {
    let shown = match directive {
        Value::String(text) => text.clone(),
        Value::Null => go::type_text(directive).to_owned(),
        other => format!("%!s({}={})", go::type_name(other), go::verb(other)),
    };
    Failure::Other(format!("unknown patch type: {shown} in map: {}", go::verb(&Value::Object(patch.clone()))))
}

/// Removes the fields that are not in the list of those to keep, which must have all fields of the patch.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Failure> {
    const MALFORMED: Failure = Failure::Malformed("invalid patch format of retainKeys");
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(MALFORMED) };
    let kept = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    for (name, value) in patch.iter() {
        let counts = !value.is_null() && !name.starts_with(DELETE_FROM) && !name.starts_with(ORDER);
        if counts && !kept(name) {
            return Err(MALFORMED);
        }
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// A value without objects that are only directives; none when it is one itself. The fields of the value lose
/// theirs, too.
fn without_directives(value: &mut Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            fields.retain(|_, field| match without_directives(field) {
                Some(kept) => {
                    *field = kept;
                    true
                }
                None => false,
            });
            Some(Value::Object(fields.clone()))
        }
        Value::Array(items) => Some(Value::Array(items.iter_mut().filter_map(without_directives).collect())),
        scalar => Some(scalar.clone()),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn no_merge_key(item: &Object, key: &str) -> Failure {
    let item = go::verb(&Value::Object(item.clone()));
    Failure::Other(format!("map: {item} does not contain declared merge key: {key}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::Gvk;
    use crate::schema::builtin;

    fn template() -> TypeRef<'static> {
        builtin::kind_of(&Gvk::new("", "v1", "PodTemplate")).unwrap()
    }

    fn object() -> Value {
        json!({"apiVersion": "v1", "kind": "PodTemplate",
            "metadata": {"name": "p", "finalizers": ["example.com/f1", "example.com/f2"], "labels": {"a": "1", "b": "2"}},
            "template": {"spec": {"restartPolicy": "Always",
                "containers": [{"name": "a", "image": "x", "args": ["1"], "env": [{"name": "A", "value": "1"}]},
                    {"name": "b", "image": "y"}],
                "volumes": [{"name": "v", "emptyDir": {}}]}}})
    }

    fn patched(patch: &Value) -> Result<Value, Status> {
        strategic_merge(template(), &object(), patch)
    }

    #[test]
    fn lists_are_merged_by_key_and_ordered() {
        let after = patched(&json!({
            "metadata": {"labels": {"a": null, "c": "3"}, "$deleteFromPrimitiveList/finalizers": ["example.com/f1"]},
            "template": {"spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
                "containers": [
                    {"name": "c", "image": "z"},
                    {"name": "a", "args": ["2"], "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "2"}]},
                ],
                "volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "m"}}],
            }},
        }))
        .unwrap();
        assert_eq!(after["metadata"]["labels"], json!({"b": "2", "c": "3"}));
        assert_eq!(after["metadata"]["finalizers"], json!(["example.com/f2"]));
        assert_eq!(
            after["template"]["spec"]["containers"],
            json!([
                {"name": "c", "image": "z"},
                {"name": "b", "image": "y"},
                {"name": "a", "image": "x", "args": ["2"], "env": [{"name": "B", "value": "2"}]},
            ])
        );
        assert_eq!(after["template"]["spec"]["volumes"], json!([{"name": "v", "configMap": {"name": "m"}}]));
    }

    #[test]
    fn directives_replace_and_delete() {
        let after = patched(&json!({"template": {"spec": {
            "containers": [{"$patch": "replace"}, {"name": "z", "image": "z"}],
            "securityContext": {"$patch": "delete"},
        }}}))
        .unwrap();
        assert_eq!(after["template"]["spec"]["containers"], json!([{"name": "z", "image": "z"}]));
        assert!(after["template"]["spec"].get("securityContext").is_none());
        assert_eq!(patched(&json!({"metadata": {"$patch": "delete"}})).unwrap()["metadata"], json!({}));
        let replaced = patched(&json!({"metadata": {"$patch": "replace", "name": "q"}})).unwrap();
        assert_eq!(replaced["metadata"], json!({"name": "q"}));
        assert_eq!(patched(&Value::Null).unwrap(), object());
    }

    #[test]
    fn items_that_are_deleted_make_room_for_new_ones() {
        // The order comes from the memory of the live list, in which the new item took the place at the end.
        let after = patched(&json!({"template": {"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "z"}, {"name": "a", "$patch": "delete"}],
        }}}))
        .unwrap();
        let names: Vec<&Value> = after["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["name"])
            .collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_the_real_server() {
        let spec = |spec: Value| json!({"template": {"spec": spec}});
        for (patch, code, message) in [
            (
                spec(json!({"containers": [{"image": "y"}]})),
                500,
                "map: map[image:y] does not contain declared merge key: name",
            ),
            (
                spec(json!({"containers": [{"name": "a", "$patch": "zap"}]})),
                500,
                "unknown patch type: zap in map: map[$patch:zap name:a]",
            ),
            (
                spec(json!({"containers": [{"name": "a", "$patch": "merge"}]})),
                500,
                "merging lists cannot yet be specified in the patch",
            ),
            (
                spec(json!({"volumes": ["x"]})),
                500,
                "list element types are not identical: [[map[emptyDir:map[] name:v]] [x]]",
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList": ["x"]}}),
                400,
                "invalid patch format of primitive list",
            ),
            (
                spec(
                    json!({"$setElementOrder/containers": [{"name": "z"}], "containers": [{"name": "a", "image": "u"}]}),
                ),
                500,
                "The order in patch list:\n[map[image:u name:a]]\n doesn't match $setElementOrder list:\n[map[name:z]]\n",
            ),
            (
                spec(json!({"$setElementOrder/containers": "x"})),
                500,
                "expected a []interface {}, but received a string",
            ),
            (spec(json!({"$setElementOrder": []})), 400, "invalid patch format of setElementOrder list"),
            (spec(json!({"$retainKeys": "x"})), 400, "invalid patch format of retainKeys"),
            (
                spec(json!({"$retainKeys": ["a"], "restartPolicy": "Always"})),
                400,
                "invalid patch format of retainKeys",
            ),
            (json!([]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ] {
            let status = patched(&patch).unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }
}
