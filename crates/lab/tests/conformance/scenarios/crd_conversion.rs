//! Custom resources whose versions a webhook converts.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{definition, establish, with_spec};
use crate::hooks::{Reply, Server};
use crate::support::Result;
use crate::support::json::{has, managed};

scenarios![
    applies_conflict_across_versions,
    applies_release_across_versions,
    updates_take_across_versions,
    owners_need_a_conversion,
    owners_need_versions_that_fit,
    defaults_of_the_stored_version,
    dry_runs_go_through_the_stored_version,
    answers_that_change_the_object,
    answers_that_fail,
    answers_that_are_deep,
];

/// What the webhook makes of its response before it sends it.
type Twist = fn(&mut Value);

/// A widget whose `spec.a` of `v1`, which is stored, is `spec.b` of `v2`, and the webhook that knows it.
async fn serve_two(cx: &Cx) -> Result<(Server, Arc<Mutex<Twist>>)> {
    let nothing: Twist = |_| {};
    let twist = Arc::new(Mutex::new(nothing));
    let twisted = Arc::clone(&twist);
    let hook = Server::start(&[], move |seen| {
        let request = &seen.body["request"];
        let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
        let (old, new) = if to.ends_with("/v1") { ("b", "a") } else { ("a", "b") };
        let objects: Vec<Value> = request["objects"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|object| {
                let mut object = object.clone();
                object["apiVersion"] = to.into();
                if let Some(spec) = object["spec"].as_object_mut()
                    && let Some(value) = spec.remove(old)
                {
                    spec.insert(new.to_owned(), value);
                }
                object
            })
            .collect();
        let mut answer = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}});
        let twist = *twisted.lock();
        twist(&mut answer["response"]);
        Reply::ok(answer)
    })
    .await?;
    let spec = |properties: Value| with_spec(&json!({"type": "object", "properties": properties}));
    let mut crd = definition(
        cx,
        &spec(json!({"a": {"type": "string"}, "e": {"type": "string", "default": "ee"},
            "d": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})),
    );
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"] =
        spec(json!({"b": {"type": "string"}, "d": {"type": "string", "default": "dd"},
            "e": {"type": "string"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}));
    crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], second]);
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": hook.client_config()}});
    establish(cx, &crd).await?;
    Ok((hook, twist))
}

fn in_version(cx: &Cx, version: &str, path: &str) -> String {
    cx.apis(&format!("{}/{version}", cx.group), path)
}

fn second(cx: &Cx, name: &str, spec: &Value) -> Value {
    let mut widget = cx.widget(name, spec);
    widget["apiVersion"] = format!("{}/v2", cx.group).into();
    widget
}

fn one(cx: &Cx, manager: &str) -> String {
    in_version(cx, "v1", &format!("widgets/a?fieldManager={manager}"))
}

fn two(cx: &Cx, manager: &str) -> String {
    in_version(cx, "v2", &format!("widgets/a?fieldManager={manager}"))
}

async fn applies_conflict_across_versions(cx: Cx) -> Result {
    let _hook = serve_two(&cx).await?;
    cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({"b": "x"}))).await?.ok(201);
    let other = cx.widget("a", &json!({"a": "y"}));
    let message = "Apply failed with 1 conflict: conflict with \"m1\": .spec.b";
    cx.admin.apply(one(&cx, "m2"), &other).await?.fails_with(409, "Conflict", message);
    let forced = cx.admin.apply(one(&cx, "m2&force=true"), &other).await?.ok(200);
    assert_eq!(forced["spec"]["a"], "y");
    assert_eq!(managed(&forced, "m1", "Apply"), None);
    // The same value is no conflict.
    let shared = cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({"b": "y"}))).await?.ok(200);
    let owned =
        |object: &Value, manager: &str| managed(object, manager, "Apply").cloned().unwrap_or_default();
    assert_eq!(owned(&shared, "m1")["fieldsV1"], json!({"f:spec": {"f:b": {}}}));
    assert_eq!(owned(&shared, "m2")["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
    Ok(())
}

async fn applies_release_across_versions(cx: Cx) -> Result {
    let _hook = serve_two(&cx).await?;
    cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({"b": "x"}))).await?.ok(201);
    cx.admin.apply(one(&cx, "m2"), &cx.widget("a", &json!({"a": "x"}))).await?.ok(200);
    // What somebody else owns in another version stays.
    let left = cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({}))).await?.ok(200);
    assert_eq!(left["spec"]["b"], "x");
    // Whoever applied last in another version lets go of what that was.
    let gone = cx.admin.apply(two(&cx, "m2"), &second(&cx, "a", &json!({}))).await?.ok(200);
    assert_eq!(gone["spec"]["b"], Value::Null);
    Ok(())
}

async fn updates_take_across_versions(cx: Cx) -> Result {
    let _hook = serve_two(&cx).await?;
    cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({"b": "x"}))).await?.ok(201);
    let patched = cx.admin.merge_patch(one(&cx, "m2"), &json!({"spec": {"a": "y"}})).await?.ok(200);
    assert_eq!(managed(&patched, "m1", "Apply"), None);
    let taken = managed(&patched, "m2", "Update").cloned().unwrap_or_default();
    assert_eq!(taken["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
    Ok(())
}

async fn owners_need_a_conversion(cx: Cx) -> Result {
    let (_hook, twist) = serve_two(&cx).await?;
    let applied = cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({"b": "x"}))).await?.ok(201);
    *twist.lock() = |response| {
        *response = json!({"uid": response["uid"], "result": {"status": "Failure", "message": "no"}});
    };
    let message = format!("conversion webhook for {}/v1, Kind=Widget failed: no", cx.group);
    let other = cx.widget("a", &json!({"a": "y"}));
    cx.admin.apply(one(&cx, "m2"), &other).await?.fails_with(500, "", &message);
    // Any other write goes on, and the owners stay those that are known.
    let patched = cx.admin.merge_patch(one(&cx, "m2"), &json!({"spec": {"a": "y"}})).await?.ok(200);
    assert_eq!(patched["spec"]["a"], "y");
    assert_eq!(patched["metadata"]["managedFields"], applied["metadata"]["managedFields"]);
    Ok(())
}

async fn owners_need_versions_that_fit(cx: Cx) -> Result {
    let spec = |properties: Value| with_spec(&json!({"type": "object", "properties": properties}));
    let mut crd = definition(&cx, &spec(json!({"x": {"type": "string"}, "y": {"type": "string"}})));
    let mut other = crd["spec"]["versions"][0].clone();
    other["name"] = "v2".into();
    other["storage"] = false.into();
    other["schema"]["openAPIV3Schema"] = spec(json!({"x": {"type": "string"}}));
    crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], other]);
    establish(&cx, &crd).await?;
    let applied = cx.admin.apply(two(&cx, "m1"), &second(&cx, "a", &json!({"x": "1"}))).await?.ok(201);
    let answer = cx.admin.apply(one(&cx, "m2"), &cx.widget("a", &json!({"y": "1"}))).await?;
    answer.fails_with(500, "", "failed to convert new object: .spec.y: field not declared in schema");
    let patched = cx.admin.merge_patch(one(&cx, "m2"), &json!({"spec": {"y": "1"}})).await?.ok(200);
    assert_eq!(patched["metadata"]["managedFields"], applied["metadata"]["managedFields"]);
    // Now what is there cannot be had in the version of the first one either.
    let answer = cx.admin.apply(one(&cx, "m2"), &cx.widget("a", &json!({"x": "1"}))).await?;
    answer.fails_with(500, "", ".spec.y: field not declared in schema");
    Ok(())
}

async fn defaults_of_the_stored_version(cx: Cx) -> Result {
    let _hook = serve_two(&cx).await?;
    let mut watch = cx.admin.watch(format!("{}?watch=1", in_version(&cx, "v2", "widgets"))).await?;
    cx.create(in_version(&cx, "v1", "widgets"), &cx.widget("a", &json!({"a": "x"}))).await?;
    let seen = json!({"b": "x", "e": "ee"});
    assert_eq!(watch.expect_about("ADDED", "a").await?["spec"], seen);
    assert_eq!(cx.read(in_version(&cx, "v2", "widgets/a")).await?["spec"], seen);
    let list = cx.read(in_version(&cx, "v2", "widgets")).await?;
    assert_eq!(list["items"][0]["spec"], seen);
    // What is written in a version gets its defaults.
    let created = cx.create(in_version(&cx, "v2", "widgets"), &second(&cx, "c", &json!({"b": "x"}))).await?;
    assert_eq!(created["spec"], json!({"b": "x", "d": "dd", "e": "ee"}));
    let patched =
        cx.admin.merge_patch(two(&cx, "m"), &json!({"metadata": {"labels": {"l": "1"}}})).await?.ok(200);
    assert_eq!(patched["spec"], json!({"b": "x", "d": "dd", "e": "ee"}));
    Ok(())
}

async fn dry_runs_go_through_the_stored_version(cx: Cx) -> Result {
    let _hook = serve_two(&cx).await?;
    let object = second(&cx, "a", &json!({"b": "x"}));
    let shown = cx.create(in_version(&cx, "v2", "widgets?dryRun=All"), &object).await?;
    assert_eq!(shown["spec"], json!({"b": "x", "d": "dd", "e": "ee"}));
    cx.create(in_version(&cx, "v2", "widgets"), &object).await?;
    let patch = json!({"spec": {"b": "y"}});
    let shown = cx.admin.merge_patch(two(&cx, "m&dryRun=All"), &patch).await?.ok(200);
    assert_eq!(shown["spec"], json!({"b": "y", "d": "dd", "e": "ee"}));
    Ok(())
}

async fn answers_that_change_the_object(cx: Cx) -> Result {
    let (_hook, twist) = serve_two(&cx).await?;
    cx.create(in_version(&cx, "v1", "widgets"), &cx.widget("a", &json!({"a": "x"}))).await?;
    let twists: [(Twist, &str); 6] = [
        (
            |response| response["convertedObjects"][0]["metadata"]["name"] = "other".into(),
            "returned invalid object: must have the same name: a != other",
        ),
        (
            |response| response["convertedObjects"][0]["metadata"]["namespace"] = Value::Null,
            "returned invalid object: must have the same namespace: NAMESPACE != ",
        ),
        (
            |response| response["convertedObjects"][0]["apiVersion"] = "example.com/v9".into(),
            "returned invalid object at index 0: invalid groupVersion (expected GROUP/v2, received example.com/v9)",
        ),
        (
            |response| response["convertedObjects"][0]["kind"] = "Gadget".into(),
            "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)",
        ),
        (
            |response| response["convertedObjects"][0]["metadata"]["annotations"] = json!({"a b": "c"}),
            "returned invalid metadata: metadata.annotation: Invalid value: \"a b\": name part must consist of \
             alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (|response| response["convertedObjects"] = json!([]), "returned 0 objects, expected 1"),
    ];
    for (how, why) in twists {
        *twist.lock() = how;
        let why = why.replace("GROUP", &cx.group).replace("NAMESPACE", &cx.ns);
        let status = cx.admin.get(in_version(&cx, "v2", "widgets/a")).await?.fails(500, "InternalError");
        let message = status["message"].as_str().unwrap_or_default();
        let end = format!(": conversion webhook for {}/v1, Kind=Widget {why}", cx.group);
        assert!(
            message.starts_with("Internal error occurred: StorageError: corrupt object, Code: 7, "),
            "{message}"
        );
        assert!(message.ends_with(&end), "{message} should end with {end}");
    }
    // Labels are the webhook's to change, other metadata is not.
    *twist.lock() = |response| {
        let metadata = &mut response["convertedObjects"][0]["metadata"];
        metadata["labels"] = json!({"converted": "yes"});
        metadata["finalizers"] = json!(["example.com/other"]);
    };
    let read = cx.read(in_version(&cx, "v2", "widgets/a")).await?;
    has(&read, &json!({"metadata": {"labels": {"converted": "yes"}}}));
    assert_eq!(read["metadata"]["finalizers"], Value::Null);
    Ok(())
}

async fn answers_that_fail(cx: Cx) -> Result {
    let (_hook, twist) = serve_two(&cx).await?;
    let object = second(&cx, "a", &json!({"b": "x"}));
    let start = format!("conversion webhook for {}/v2, Kind=Widget failed: ", cx.group);
    let twists: [(Twist, &str); 3] = [
        (|response| response["result"] = json!({"status": "Failure", "message": "no way"}), "no way"),
        (|response| response["result"] = json!({}), "response.result.status was '', not 'Success'"),
        (|response| *response = Value::Null, "no response provided"),
    ];
    for (how, why) in twists {
        *twist.lock() = how;
        let answer = cx.admin.post(in_version(&cx, "v2", "widgets"), &object).await?;
        answer.fails_with(500, "", &format!("{start}{why}"));
    }
    Ok(())
}

async fn answers_that_are_deep(cx: Cx) -> Result {
    let (_hook, twist) = serve_two(&cx).await?;
    cx.create(in_version(&cx, "v1", "widgets"), &cx.widget("a", &json!({"a": "x"}))).await?;
    *twist.lock() = |response| {
        let deep = (0..200).fold(json!({}), |inner, _| json!({"x": inner}));
        response["convertedObjects"][0]["spec"]["free"] = deep;
    };
    let answer = cx.admin.get(in_version(&cx, "v2", "widgets/a")).await?;
    assert_eq!((answer.status, answer.text().matches("{\"x\":").count()), (200, 200));
    Ok(())
}
