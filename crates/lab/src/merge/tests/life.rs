//! Turns in the life of managed fields, as the real server takes them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::*;
use super::{add_schema, builtin_type, field, widget_types};
use crate::schema::{Node, Shape, TypeId, TypeRef, Types};

/// Writes at some second, in any number of versions.
struct Writer<'a> {
    types: &'a dyn Versions<'a>,
    api_version: &'a str,
    kind: &'a str,
    custom: bool,
}

impl<'a> Writer<'a> {
    fn context(&self, manager: &'a str, second: i64) -> Context<'a> {
        Context {
            manager,
            api_version: self.api_version,
            kind: self.kind,
            subresource: "",
            custom: self.custom,
            now: Timestamp::from_second(second).unwrap(),
            versions: self.types,
            reset: Reset::Nothing,
        }
    }

    fn update(&self, manager: &'a str, second: i64, old: Option<&Value>, new: Value) -> Value {
        let mut new = new;
        update(&self.context(manager, second), old, &mut new);
        new
    }

    fn apply(&self, manager: &'a str, second: i64, live: Option<&Value>, config: &Value) -> Value {
        apply(&self.context(manager, second), true, live, config).unwrap()
    }
}

fn configs(api_version: &str) -> Option<TypeRef<'static>> {
    builtin_type(api_version, "ConfigMap")
}

fn config_map(data: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}});
    object["data"] = data;
    object
}

const CONFIGS: Writer<'static> =
    Writer { types: &configs, api_version: "v1", kind: "ConfigMap", custom: false };

/// Who owns what, without times.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries
        .into_iter()
        .map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"].clone()))
        .collect()
}

/// The types of a kind that can be owned in pieces, or not.
fn flips(atomic: bool) -> (Types, TypeId) {
    let kind = if atomic { json!("atomic") } else { Value::Null };
    let spec = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "string"},
            "x-kubernetes-list-type": if atomic { "atomic" } else { "set" }},
        "m": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": kind},
        "o": {"type": "object", "x-kubernetes-map-type": kind, "properties": {"a": {"type": "string"},
            "b": {"type": "object", "properties": {"c": {"type": "string"}}}}},
        "t": {"type": "string"},
    }});
    let mut types = Types::default();
    let text = types.add(Node { name: None, shape: Shape::String });
    let metadata =
        add_schema(&mut types, &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let spec = add_schema(&mut types, &spec);
    let fields = vec![
        field("apiVersion", text, None),
        field("kind", text, None),
        field("metadata", metadata, None),
        field("spec", spec, None),
    ];
    let root = types.add(Node {
        name: Some("Flip".to_owned()),
        shape: Shape::Object { fields, atomic: false, preserve_unknown: false },
    });
    (types, root)
}

#[test]
fn what_becomes_a_whole_is_owned_as_a_whole() {
    let ((pieces, id), (whole, whole_id)) = (flips(false), flips(true));
    let before = |_: &str| Some(TypeRef { types: &pieces, id });
    let after = |_: &str| Some(TypeRef { types: &whole, id: whole_id });
    let before = Writer { types: &before, api_version: "example.com/v1", kind: "Flip", custom: true };
    let after = Writer { types: &after, ..before };
    let config = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Flip", "metadata": {"name": "f"}, "spec": spec});
    let one = config(json!({"l": ["a", "b"], "m": {"x": "1"}, "o": {"a": "1", "b": {"c": "2"}}, "t": "1"}));
    let object = before.apply("one", 1, None, &one);
    let two = config(json!({"l": ["c"], "m": {"y": "1"}, "o": {"b": {"c": "2"}}}));
    let object = before.apply("two", 2, Some(&object), &two);
    assert_eq!(object["spec"]["l"], json!(["a", "b", "c"]));
    // Nothing is changed but the schema.
    let object = after.update("four", 3, Some(&object), object.clone());
    let pieces = |names: &[&str]| {
        let fields: serde_json::Map<String, Value> =
            names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        json!({"f:spec": fields})
    };
    assert_eq!(
        owners(&object),
        [("one".to_owned(), pieces(&["l", "m", "o", "t"])), ("two".to_owned(), pieces(&["l", "m", "o"]))]
    );
    let list = config(json!({"l": ["c"]}));
    let conflict = apply(&after.context("two", 4), false, Some(&object), &list).unwrap_err();
    assert_eq!(conflict.message, "Apply failed with 1 conflict: conflict with \"one\": .spec.l");
    let object = after.apply("two", 5, Some(&object), &list);
    assert_eq!(
        owners(&object),
        [("one".to_owned(), pieces(&["m", "o", "t"])), ("two".to_owned(), pieces(&["l"]))]
    );
    assert_eq!(object["spec"]["m"], json!({"x": "1", "y": "1"}));
}

#[test]
fn too_many_updates_become_one_entry() {
    let mut object = CONFIGS.update("m00", 1, None, config_map(json!({"x": "1"})));
    let managers = ["m01", "m02", "m03", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12"];
    for (number, manager) in managers.into_iter().enumerate() {
        let mut new = object.clone();
        new["data"][format!("k{number}")] = "v".into();
        object = CONFIGS.update(manager, i64::try_from(number).unwrap() + 2, Some(&object), new);
    }
    let owners = owners(&object);
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0].0, "ancient-changes");
    assert_eq!(owners[0].1, json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:x": {}}}));
    assert_eq!(object["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:04Z");
}

#[test]
fn managed_fields_can_be_forgotten_and_start_again_with_the_first_apply() {
    let object = CONFIGS.update("one", 1, None, config_map(json!({"x": "1"})));
    for forget in [json!([]), json!([{}])] {
        let mut new = object.clone();
        new["metadata"]["managedFields"] = forget;
        let new = CONFIGS.update("one", 2, Some(&object), new);
        assert!(new["metadata"].get("managedFields").is_none());
        // Nobody is tracked until somebody applies.
        let mut changed = new.clone();
        changed["data"]["y"] = "2".into();
        let changed = CONFIGS.update("two", 3, Some(&new), changed);
        assert!(changed["metadata"].get("managedFields").is_none());
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "1"}});
        let applied = CONFIGS.apply("three", 4, Some(&changed), &config);
        assert_eq!(
            owners(&applied),
            [
                ("three".to_owned(), json!({"f:data": {"f:x": {}}})),
                ("before-first-apply".to_owned(), json!({"f:data": {".": {}, "f:x": {}, "f:y": {}}})),
            ]
        );
    }
    // Entries that make no sense are as good as none.
    let mut new = object.clone();
    new["metadata"]["managedFields"] = json!([{"operation": "nope"}]);
    assert_eq!(CONFIGS.update("one", 2, Some(&object), new), object);
}

#[test]
fn versions_that_are_gone_end_differently_for_built_in_and_custom_kinds() {
    let gone = json!({"manager": "x", "operation": "Update", "apiVersion": "gone/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}}});
    let object = CONFIGS.update("one", 1, None, config_map(json!({"x": "1"})));
    let mut new = object.clone();
    new["metadata"]["managedFields"].as_array_mut().unwrap().push(gone.clone());
    assert_eq!(CONFIGS.update("one", 2, Some(&object), new), object);

    let (types, id) = widget_types();
    let versions =
        |version: &str| (version == "merge.example.com/v1").then_some(TypeRef { types: &types, id });
    let widgets =
        Writer { types: &versions, api_version: "merge.example.com/v1", kind: "Widget", custom: true };
    let widget = json!({"apiVersion": "merge.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let object = widgets.apply("one", 1, None, &widget);
    let mut new = object.clone();
    new["metadata"]["managedFields"] = json!([gone]);
    let failed = apply(&widgets.context("two", 2), true, Some(&new), &widget).unwrap_err();
    assert_eq!((failed.code, failed.reason), (500, ""));
    assert_eq!(failed.message, "request to convert CR to an invalid group/version: gone/v1");
    // Nothing is tracked at all.
    new["spec"] = json!({"text": "x"});
    let new = widgets.update("two", 2, Some(&object), new);
    assert_eq!(new["metadata"].get("managedFields"), object["metadata"].get("managedFields"));
}

#[test]
fn a_write_that_only_changes_times_is_none() {
    let object = CONFIGS.update("one", 1, None, config_map(json!({"x": "1"})));
    let mut same = object.clone();
    same["metadata"]["managedFields"][0]["time"] = "2030-01-01T00:00:00Z".into();
    let mut new = same.clone();
    ignore_times(&object, &mut new);
    assert_eq!(new, object);
    let mut other = same.clone();
    other["data"]["x"] = "2".into();
    let before = other.clone();
    ignore_times(&object, &mut other);
    assert_eq!(other, before);
}

#[test]
fn what_does_not_fit_is_refused_in_the_words_of_the_real_server() {
    let deployments = |api_version: &str| builtin_type(api_version, "Deployment");
    let writer = Writer { types: &deployments, api_version: "apps/v1", kind: "Deployment", custom: false };
    let refused = |body: Value| apply(&writer.context("m", 1), false, None, &body).unwrap_err();
    let config = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec});
    let start = "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): ";
    for (spec, why) in [
        (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
        (
            json!({"replicas": "x", "paused": 3}),
            "errors:\n  .spec.paused: expected boolean, got &{3}\n  \
             .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            json!({"template": {"spec": {"containers": [{"name": "c"}, {"name": "c", "image": 5}], "volumes": "x"}}}),
            "errors:\n  .spec.template.spec.containers: duplicate entries for key [name=\"c\"]\n  \
             .spec.template.spec.containers[name=\"c\"].image: expected string, got \
             &value.valueUnstructured{Value:5}\n  .spec.template.spec.volumes: expected list, got &{x}",
        ),
    ] {
        let status = refused(config(spec));
        assert_eq!((status.code, status.message), (500, format!("{start}{why}")));
    }
    assert_eq!(refused(json!({})).message, "invalid object type: /, Kind=");
    let mut entries = config(json!({}));
    entries["metadata"]["managedFields"] = json!([]);
    assert_eq!(refused(entries).message, "metadata.managedFields must be nil");
    assert!(
        check_entries(&json!([{"operation": "Zap"}])).is_err_and(|why| why.contains("`Apply` or `Update`"))
    );
}

#[test]
fn nobody_comes_to_own_what_a_write_cannot_change() {
    let pods = |api_version: &str| builtin_type(api_version, "Pod");
    let resource = crate::schema::builtin::resource("", "v1", "pods").unwrap();
    let old = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "managedFields": [
            {"manager": "k", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:nodeName": {}}}}]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {}}]}, "status": {}});
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = "j".into();
    new["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    new["status"] = json!({"phase": "Running"});
    let owned = |subresource: &str| {
        let reset = Reset::builtin(resource, subresource);
        let writer = Writer { types: &pods, api_version: "v1", kind: "Pod", custom: false };
        let context = Context { subresource, reset, ..writer.context("w", 1) };
        let mut new = new.clone();
        update(&context, Some(&old), &mut new);
        owners(&new).into_iter().find(|(name, _)| name == "w").map(|(_, fields)| fields)
    };
    let container = "k:{\"name\":\"c\"}";
    let limits = json!({"f:limits": {".": {}, "f:cpu": {}}});
    assert_eq!(owned("status"), Some(json!({"f:status": {"f:phase": {}}})));
    assert_eq!(
        owned("resize"),
        Some(json!({"f:spec": {"f:containers": {container: {"f:resources": limits}}}}))
    );
    assert_eq!(owned("ephemeralcontainers"), None);
    assert_eq!(
        owned(""),
        Some(json!({"f:spec": {"f:containers": {container: {"f:image": {}, "f:resources": limits}}}}))
    );
}
