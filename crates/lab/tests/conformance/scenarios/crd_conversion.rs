//! Custom resources whose versions a webhook converts.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{definition, establish, with_spec};
use crate::hooks::{Reply, Server};
use crate::support::Result;

scenarios![explore, explore_none];

/// What the webhook does to an object it converted.
type Twist = Arc<Mutex<fn(&mut Value)>>;

/// A widget whose `spec.a` of `v1`, which is stored, is `spec.b` of `v2`, and the webhook that knows it.
async fn converted(cx: &Cx) -> Result<(Server, Twist)> {
    let twist: Twist = Arc::new(Mutex::new(|_| {}));
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
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})),
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

async fn explore(cx: Cx) -> Result {
    let (_hook, twist) = converted(&cx).await?;
    macro_rules! say { ($what:expr, $answer:expr) => {{
        let answer = $answer;
        let body = answer.json();
        eprintln!("@@ {} -> {} {} | {} | {}", $what, answer.status, body["spec"], if answer.status < 300 { body["metadata"]["managedFields"].to_string() } else { body.to_string() }, body["metadata"]["resourceVersion"]);
        body
    }}}
    let p2 = |m: &str| in_version(&cx, "v2", &format!("widgets/a?fieldManager={m}"));
    let p1 = |m: &str| in_version(&cx, "v1", &format!("widgets/a?fieldManager={m}"));
    say!("m1 v2 b:x", cx.admin.apply(p2("m1"), &second(&cx, "a", &json!({"b": "x"}))).await?);
    say!("m2 v1 a:y", cx.admin.apply(p1("m2"), &cx.widget("a", &json!({"a": "y"}))).await?);
    say!("m2 v1 a:x", cx.admin.apply(p1("m2"), &cx.widget("a", &json!({"a": "x"}))).await?);
    say!("m1 v2 {}", cx.admin.apply(p2("m1"), &second(&cx, "a", &json!({}))).await?);
    say!("m2 v2 {}", cx.admin.apply(p2("m2"), &second(&cx, "a", &json!({}))).await?);
    say!("m1 v2 b:x", cx.admin.apply(p2("m1"), &second(&cx, "a", &json!({"b": "x"}))).await?);
    say!("m2 v1 force a:y", cx.admin.apply(p1("m2&force=true"), &cx.widget("a", &json!({"a": "y"}))).await?);
    say!("m1 v2 b:y", cx.admin.apply(p2("m1"), &second(&cx, "a", &json!({"b": "y"}))).await?);
    say!("merge v1 a:z", cx.admin.merge_patch(p1("m3"), &json!({"spec": {"a": "z"}})).await?);
    say!("merge v2 b:z", cx.admin.merge_patch(p2("m3"), &json!({"spec": {"b": "z"}})).await?);
    say!("merge v2 b:z", cx.admin.merge_patch(p2("m3"), &json!({"spec": {"b": "z"}})).await?);
    say!("get v2", cx.admin.get(p2("")).await?);
    say!("get v1", cx.admin.get(p1("")).await?);
    cx.create(in_version(&cx, "v1", "widgets"), &cx.widget("c", &json!({"a": "x"}))).await?;
    say!("get c v2", cx.admin.get(in_version(&cx, "v2", "widgets/c")).await?);
    say!("list v2", cx.admin.get(in_version(&cx, "v2", "widgets")).await?);
    let mut d = second(&cx, "d", &json!({"b": "x"}));
    say!("create d v2", cx.admin.post(in_version(&cx, "v2", "widgets"), &d).await?);
    d["spec"] = json!({"b": "x"});
    say!("put d v2", cx.admin.put(in_version(&cx, "v2", "widgets/d"), &d).await?);
    say!("m1 v2 b:w", cx.admin.apply(p2("m1&force=true"), &second(&cx, "a", &json!({"b": "w"}))).await?);
    let twists: [(&str, fn(&mut Value)); 9] = [
        ("name", |r| r["convertedObjects"][0]["metadata"]["name"] = "other".into()),
        ("uid", |r| r["convertedObjects"][0]["metadata"]["uid"] = "other".into()),
        ("version", |r| r["convertedObjects"][0]["apiVersion"] = "x/v9".into()),
        ("kind", |r| r["convertedObjects"][0]["kind"] = "Gadget".into()),
        ("number", |r| r["convertedObjects"] = json!([])),
        ("metadata", |r| { r["convertedObjects"][0].as_object_mut().unwrap().remove("metadata"); }),
        ("labels", |r| r["convertedObjects"][0]["metadata"]["labels"] = json!({"a b": "c d"})),
        ("failed", |r| *r = json!({"uid": r["uid"], "result": {"status": "Failure", "message": "no way"}})),
        ("failed2", |r| *r = json!({"uid": r["uid"], "result": {"status": "Failure"}})),
    ];
    say!("get a", cx.admin.get(in_version(&cx, "v2", "widgets/a")).await?);
    for (what, how) in twists {
        *twist.lock() = how;
        say!(format!("{what} get"), cx.admin.get(in_version(&cx, "v2", "widgets/a")).await?);
        say!(format!("{what} list"), cx.admin.get(in_version(&cx, "v2", "widgets")).await?);
        say!(format!("{what} create"), cx.admin.post(in_version(&cx, "v2", "widgets"), &second(&cx, "f", &json!({"b": "x"}))).await?);
        say!(format!("{what} apply v1"), cx.admin.apply(p1("m2"), &cx.widget("a", &json!({"a": "q"}))).await?);
    }
    say!("merge v1 failing", cx.admin.merge_patch(p1("m3"), &json!({"spec": {"a": "k"}})).await?);
    *twist.lock() = |_| {};
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"x": deep});
    }
    let answer = cx.admin.post(in_version(&cx, "v2", "widgets"), &second(&cx, "deep", &json!({"b": "x", "free": deep}))).await?;
    eprintln!("@@ deep {} {}", answer.status, answer.json()["message"]);
    Ok(())
}

async fn explore_none(cx: Cx) -> Result {
    macro_rules! say { ($what:expr, $answer:expr) => {{
        let answer = $answer;
        let body = answer.json();
        eprintln!("@@ none {} -> {} {} | {} | {}", $what, answer.status, body["spec"], if answer.status < 300 { body["metadata"]["managedFields"].to_string() } else { body.to_string() }, body["metadata"]["resourceVersion"]);
        body
    }}}
    let spec = |properties: Value| with_spec(&json!({"type": "object", "properties": properties}));
    let mut crd = definition(&cx, &spec(json!({"a": {"type": "string"}, "c": {"type": "string"}, "e": {"type": "string", "default": "ee"}})));
    let mut two = crd["spec"]["versions"][0].clone();
    two["name"] = "v2".into();
    two["storage"] = false.into();
    two["schema"]["openAPIV3Schema"] = spec(json!({"a": {"type": "string"}, "b": {"type": "string"}, "d": {"type": "string", "default": "dd"}}));
    crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], two]);
    establish(&cx, &crd).await?;
    let p2 = |m: &str| in_version(&cx, "v2", &format!("widgets/a?fieldManager={m}"));
    let p1 = |m: &str| in_version(&cx, "v1", &format!("widgets/a?fieldManager={m}"));
    say!("m1 v2 a:x", cx.admin.apply(p2("m1"), &second(&cx, "a", &json!({"a": "x"}))).await?);
    say!("get v2", cx.admin.get(p2("")).await?);
    say!("m2 v1 c:x", cx.admin.apply(p1("m2"), &cx.widget("a", &json!({"c": "x"}))).await?);
    say!("m3 v1 merge c:x", cx.admin.merge_patch(p1("m3"), &json!({"spec": {"c": "y"}})).await?);
    say!("m3 v2 merge a:q", cx.admin.merge_patch(p2("m3"), &json!({"spec": {"a": "q"}})).await?);
    say!("get v2", cx.admin.get(p2("")).await?);
    say!("get v1", cx.admin.get(p1("")).await?);
    Ok(())
}
