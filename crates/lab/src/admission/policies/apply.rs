//! Merging what a policy applies into an object.

use serde_json::Value;

use super::super::json::{entries, items};
use crate::merge;
use crate::schema::{ListMerge, Shape, TypeRef};

/// The object with an apply configuration merged into it. The failure is what follows `error applying patch: `.
///
/// Nobody owns what a policy applies, so it may not set what can only be owned as a whole.
pub(crate) fn merged(of: TypeRef<'_>, object: &Value, configuration: &Value) -> Result<Value, String> {
    merge::check(of, configuration, false)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find_atomics(of, configuration, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    merge::check(of, object, true)
        .map_err(|why| format!("failed to convert original object to typed object: {why}"))?;
    Ok(merge::combine(of, object, configuration))
}

/// The places in a value that are owned as a whole.
fn find_atomics(of: TypeRef<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match of.shape() {
        Shape::Object { atomic, .. } if value.is_object() => {
            if *atomic {
                found.push(path.to_owned());
            }
            for (key, inner) in entries(value) {
                if let Some((_, field)) = of.field(key) {
                    find_atomics(field, inner, &format!("{path}.{key}"), found);
                }
            }
        }
        Shape::Map { atomic: true, .. } if value.is_object() => found.push(path.to_owned()),
        Shape::List { items: item, merge } if value.is_array() => {
            if *merge == ListMerge::Atomic {
                found.push(path.to_owned());
            }
            for (index, inner) in items(value).enumerate() {
                find_atomics(of.at(*item), inner, &format!("{path}[{index}]"), found);
            }
        }
        Shape::Any(_) if value.is_array() => found.push(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;
    use serde_json::json;

    #[test]
    fn lists_owned_as_a_whole_are_out_of_reach() {
        let of = builtin::types().named("io.k8s.api.core.v1.Pod").unwrap();
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
        let sidecar = json!({"spec": {"containers": [{"name": "b", "image": "y"}]}});
        assert_eq!(
            merged(of, &pod, &sidecar).unwrap()["spec"]["containers"],
            json!([{"name": "a", "image": "x"}, {"name": "b", "image": "y"}])
        );
        let command = json!({"spec": {"containers": [{"name": "a", "command": ["sh"]}]}});
        assert_eq!(
            merged(of, &pod, &command).unwrap_err(),
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command"
        );
        assert_eq!(
            merged(of, &pod, &json!({"foo": {}})).unwrap_err(),
            "failed to convert patch object to typed object: .foo: field not declared in schema"
        );
    }
}
