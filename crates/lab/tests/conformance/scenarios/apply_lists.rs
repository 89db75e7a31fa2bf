//! Server-side apply of lists: sets, maps and whole ones, in built-in kinds and in custom resources.

use serde_json::{Value, json};

use crate::context::{Cx, deployment};
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{cause_fields, has, managed, text};

scenarios![
    items_by_key,
    items_of_others_stay,
    ports_by_two_keys,
    keys_with_defaults,
    duplicate_keys_are_refused,
    atomic_lists_have_one_owner,
    atomic_maps_have_one_owner,
    sets_merge,
    custom_list_kinds,
    custom_maps,
    custom_lists_are_atomic_without_a_word,
    custom_items_need_their_key,
    conditions_of_several_controllers,
    order_of_items,
];

/// Fields owned by a manager that applies.
fn fields(object: &Value, manager: &str) -> Value {
    managed(object, manager, "Apply").map(|entry| entry["fieldsV1"].clone()).unwrap_or_default()
}

/// The names of a list's items.
fn item_names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|item| text(item, "/name")).collect()
}

/// A deployment that says something about containers only.
fn containers(name: &str, containers: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": containers}}}})
}

async fn items_by_key(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    cx.admin.apply(format!("{path}?fieldManager=one"), &deployment("a")).await?.ok(201);
    let object = containers("a", &json!([{"name": "main", "env": [{"name": "A", "value": "1"}]}]));
    let applied = cx.admin.apply(format!("{path}?fieldManager=two"), &object).await?.ok(200);
    has(
        &applied["spec"]["template"]["spec"],
        &json!({"containers": [
            {"name": "main", "image": "example.com/image:1", "env": [{"name": "A", "value": "1"}]},
        ]}),
    );
    assert_eq!(
        fields(&applied, "two"),
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {
            ".": {}, "f:name": {},
            "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
        }}}}}})
    );
    // Without its item the second manager lets go of all of it, but the first still has the container.
    let applied =
        cx.admin.apply(format!("{path}?fieldManager=two"), &containers("a", &json!([]))).await?.ok(200);
    has(&applied["spec"]["template"]["spec"], &json!({"containers": [{"name": "main", "env": null}]}));
    Ok(())
}

async fn items_of_others_stay(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    cx.admin.apply(format!("{path}?fieldManager=one"), &deployment("a")).await?.ok(201);
    let side = containers("a", &json!([{"name": "side", "image": "side:1"}]));
    let applied = cx.admin.apply(format!("{path}?fieldManager=two"), &side).await?.ok(200);
    assert_eq!(item_names(&applied["spec"]["template"]["spec"]["containers"]), ["main", "side"]);
    let applied = cx.admin.apply(format!("{path}?fieldManager=one"), &deployment("a")).await?.ok(200);
    assert_eq!(item_names(&applied["spec"]["template"]["spec"]["containers"]), ["main", "side"]);
    let applied =
        cx.admin.apply(format!("{path}?fieldManager=two"), &containers("a", &json!([]))).await?.ok(200);
    assert_eq!(item_names(&applied["spec"]["template"]["spec"]["containers"]), ["main"]);
    Ok(())
}

async fn ports_by_two_keys(cx: Cx) -> Result {
    let service = |ports: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": ports}})
    };
    let path = cx.core("services/a?fieldManager=one");
    let ports = json!([
        {"name": "tcp", "port": 53, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"},
    ]);
    let created = cx.admin.apply(path.as_str(), &service(ports)).await?.ok(201);
    let owned = fields(&created, "one")["f:spec"]["f:ports"].clone();
    assert_eq!(
        owned,
        json!({
            "k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
            "k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
        })
    );
    let ports = json!([{"name": "udp", "port": 53, "protocol": "UDP"}]);
    let applied = cx.admin.apply(path, &service(ports)).await?.ok(200);
    assert_eq!(item_names(&applied["spec"]["ports"]), ["udp"]);
    Ok(())
}

async fn keys_with_defaults(cx: Cx) -> Result {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}]}});
    let created = cx.admin.apply(cx.core("services/a?fieldManager=one"), &service).await?.ok(201);
    // The protocol is part of the key although it was not said.
    assert_eq!(
        fields(&created, "one")["f:spec"]["f:ports"],
        json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}})
    );
    let again = cx.admin.apply(cx.core("services/a?fieldManager=one"), &service).await?.ok(200);
    assert_eq!(again, created);
    Ok(())
}

async fn duplicate_keys_are_refused(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=one");
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "x", "image": "1"}, {"name": "x", "image": "2"}]);
    let answer = cx.admin.apply(path.as_str(), &object).await?;
    let status = answer.fails(500, "");
    assert!(text(&status, "/message").contains("duplicate entries for key [name=\"x\"]"), "{status}");
    Ok(())
}

async fn atomic_lists_have_one_owner(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["a", "b"]);
    let created = cx.admin.apply(format!("{path}?fieldManager=one"), &object).await?.ok(201);
    let container =
        &fields(&created, "one")["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"main\"}"];
    assert_eq!(container["f:args"], json!({}));
    let other = containers("a", &json!([{"name": "main", "args": ["a", "b", "c"]}]));
    let status = cx.admin.apply(format!("{path}?fieldManager=two"), &other).await?.fails(409, "Conflict");
    has(
        &status,
        &json!({"details": {"causes": [{
        "field": ".spec.template.spec.containers[name=\"main\"].args", "reason": "FieldManagerConflict"}]}}),
    );
    let forced = cx.admin.apply(format!("{path}?fieldManager=two&force=true"), &other).await?.ok(200);
    assert_eq!(forced["spec"]["template"]["spec"]["containers"][0]["args"], json!(["a", "b", "c"]));
    Ok(())
}

async fn atomic_maps_have_one_owner(cx: Cx) -> Result {
    // The selector of a deployment is one value, whoever writes it.
    let created =
        cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=one"), &deployment("a")).await?.ok(201);
    assert_eq!(fields(&created, "one")["f:spec"]["f:selector"], json!({}));
    let service = |selector: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": selector, "ports": [{"port": 1}]}})
    };
    cx.admin.apply(cx.core("services/a?fieldManager=one"), &service(json!({"x": "1"}))).await?.ok(201);
    let answer = cx.admin.apply(cx.core("services/a?fieldManager=two"), &service(json!({"y": "1"}))).await?;
    has(&answer.fails(409, "Conflict"), &json!({"details": {"causes": [{"field": ".spec.selector"}]}}));
    let path = cx.core("services/a?fieldManager=two&force=true");
    let forced = cx.admin.apply(path, &service(json!({"y": "1"}))).await?.ok(200);
    assert_eq!(forced["spec"]["selector"], json!({"y": "1"}));
    Ok(())
}

async fn sets_merge(cx: Cx) -> Result {
    let object = |finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "finalizers": finalizers}})
    };
    let path = cx.core("configmaps/a");
    cx.admin
        .apply(format!("{path}?fieldManager=one"), &object(json!(["example.com/a", "example.com/b"])))
        .await?
        .ok(201);
    let applied = cx
        .admin
        .apply(format!("{path}?fieldManager=two"), &object(json!(["example.com/b", "example.com/c"])))
        .await?
        .ok(200);
    assert_eq!(applied["metadata"]["finalizers"], json!(["example.com/a", "example.com/b", "example.com/c"]));
    let applied = cx.admin.apply(format!("{path}?fieldManager=one"), &object(json!([]))).await?.ok(200);
    assert_eq!(applied["metadata"]["finalizers"], json!(["example.com/b", "example.com/c"]));
    cx.admin.merge_patch(path, &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    Ok(())
}

/// The schema of a widget with lists and maps of all kinds.
fn schema() -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "zone": {"type": "string", "default": "here"},
            "size": {"type": "integer"},
    }});
    with_spec(&json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "zone"], "items": item},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"], "items": item},
        "whole": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
        "plain": {"type": "array", "items": item},
        "granular": {"type": "object", "additionalProperties": {"type": "string"}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties":
            {"a": {"type": "string"}, "b": {"type": "string"}}},
    }}))
}

async fn custom_list_kinds(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &schema())).await?;
    let path = cx.a_widget("a");
    let one = cx.widget("a", &json!({"set": ["x", "y"], "map": [{"name": "p", "size": 1}], "whole": ["1"]}));
    let created = cx.admin.apply(format!("{path}?fieldManager=one"), &one).await?.ok(201);
    assert_eq!(
        fields(&created, "one"),
        json!({"f:spec": {
            "f:set": {"v:\"x\"": {}, "v:\"y\"": {}},
            "f:map": {"k:{\"name\":\"p\",\"zone\":\"here\"}": {".": {}, "f:name": {}, "f:size": {}}},
            "f:whole": {},
        }})
    );
    let two = cx.widget("a", &json!({"set": ["z", "y"], "map": [{"name": "p", "zone": "there"}]}));
    let applied = cx.admin.apply(format!("{path}?fieldManager=two"), &two).await?.ok(200);
    has(
        &applied["spec"],
        &json!({"map": [
        {"name": "p", "zone": "here", "size": 1}, {"name": "p", "zone": "there"},
    ], "whole": ["1"]}),
    );
    let mut set: Vec<&str> =
        applied["spec"]["set"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    set.sort_unstable();
    assert_eq!(set, ["x", "y", "z"]);
    let three = cx.widget("a", &json!({"whole": ["1", "2"], "map": [{"name": "p", "size": 2}]}));
    let status = cx.admin.apply(format!("{path}?fieldManager=three"), &three).await?.fails(409, "Conflict");
    assert_eq!(cause_fields(&status), [".spec.map[name=\"p\",zone=\"here\"].size", ".spec.whole"]);
    Ok(())
}

async fn custom_maps(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &schema())).await?;
    let path = cx.a_widget("a");
    let one = cx.widget("a", &json!({"granular": {"x": "1"}, "atomic": {"a": "1"}}));
    cx.admin.apply(format!("{path}?fieldManager=one"), &one).await?.ok(201);
    let two = cx.widget("a", &json!({"granular": {"y": "1"}, "atomic": {"b": "1"}}));
    let status = cx.admin.apply(format!("{path}?fieldManager=two"), &two).await?.fails(409, "Conflict");
    has(&status, &json!({"details": {"causes": [{"field": ".spec.atomic"}]}}));
    let forced = cx.admin.apply(format!("{path}?fieldManager=two&force=true"), &two).await?.ok(200);
    assert_eq!(forced["spec"], json!({"granular": {"x": "1", "y": "1"}, "atomic": {"b": "1"}}));
    Ok(())
}

async fn custom_lists_are_atomic_without_a_word(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &schema())).await?;
    let path = cx.a_widget("a");
    let one = cx.widget("a", &json!({"plain": [{"name": "p"}]}));
    let created = cx.admin.apply(format!("{path}?fieldManager=one"), &one).await?.ok(201);
    assert_eq!(fields(&created, "one"), json!({"f:spec": {"f:plain": {}}}));
    let two = cx.widget("a", &json!({"plain": [{"name": "q"}]}));
    cx.admin.apply(format!("{path}?fieldManager=two"), &two).await?.fails(409, "Conflict");
    Ok(())
}

async fn custom_items_need_their_key(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &schema())).await?;
    let path = cx.a_widget("a?fieldManager=one");
    // One of two keys has a default, so that there is a key; but the other is required.
    let answer = cx.admin.apply(path.as_str(), &cx.widget("a", &json!({"map": [{"size": 1}]}))).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [
            {"reason": "FieldValueRequired", "field": "spec.map[0].name", "message": "Required value"},
        ]}}),
    );
    let answer = cx.admin.apply(path.as_str(), &cx.widget("a", &json!({"keyed": [{"size": 1}]}))).await?;
    let status = answer.fails(500, "");
    let words = "element 0: associative list with keys has an element that omits all key fields [\"name\"] \
        (and \
                 doesn't have default values for any key fields)";
    assert!(text(&status, "/message").contains(words), "{status}");
    let answer = cx.admin.apply(path.as_str(), &cx.widget("a", &json!({"set": ["x", "x"]}))).await?;
    let status = answer.fails(500, "");
    assert!(text(&status, "/message").contains("duplicate"), "{status}");
    // Also what is not applied has to have unique items.
    let answer = cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"set": ["x", "x"]}))).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [
            {"reason": "FieldValueDuplicate", "field": "spec.set[1]", "message": "Duplicate value: \"x\""},
        ]}}),
    );
    Ok(())
}

async fn conditions_of_several_controllers(cx: Cx) -> Result {
    cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=one"), &deployment("a")).await?.ok(201);
    let status = |kind: &str, status: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "status": {"conditions": [{"type": kind, "status": status}]}})
    };
    let path = cx.apis("apps/v1", "deployments/a/status?fieldManager=");
    cx.admin.apply(format!("{path}one"), &status("Available", "True")).await?.ok(200);
    let applied = cx.admin.apply(format!("{path}two"), &status("Progressing", "False")).await?.ok(200);
    has(&applied["status"], &json!({"conditions": [{"type": "Available"}, {"type": "Progressing"}]}));
    let answer = cx.admin.apply(format!("{path}two"), &status("Available", "False")).await?;
    has(
        &answer.fails(409, "Conflict"),
        &json!({"details": {"causes": [
            {"field": ".status.conditions[type=\"Available\"].status"},
        ]}}),
    );
    Ok(())
}

async fn order_of_items(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=one");
    let mut object = deployment("a");
    let list = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"name": name, "image": "i"})).collect::<Vec<_>>().into()
    };
    object["spec"]["template"]["spec"]["containers"] = list(&["a", "b", "c"]);
    cx.admin.apply(path.as_str(), &object).await?.ok(201);
    let extra = containers("a", &list(&["x"]));
    cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=two"), &extra).await?.ok(200);
    // The applier's order counts for its own items; those of others keep their place between them.
    object["spec"]["template"]["spec"]["containers"] = list(&["c", "d", "a"]);
    let applied = cx.admin.apply(path, &object).await?.ok(200);
    assert_eq!(item_names(&applied["spec"]["template"]["spec"]["containers"]), ["c", "x", "d", "a"]);
    Ok(())
}
