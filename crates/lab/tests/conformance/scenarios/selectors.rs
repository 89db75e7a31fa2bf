//! Label and field selectors.

use serde_json::{Map, Value, json};

use crate::context::{Cx, config_map, pod};
use crate::crds::{DEFINITIONS, definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, names};

scenarios![
    label_operators,
    label_texts,
    bad_labels,
    names_and_namespaces,
    unknown_fields,
    bad_fields,
    pods,
    secrets_by_type,
    events_by_object,
    namespaces_by_phase,
    nodes_by_schedulability,
    selectable_fields_of_custom_resources,
    selectable_fields_that_come_later,
    selectable_fields_of_several_versions,
];

/// The names of what a selector selects among labelled ConfigMaps.
async fn select(cx: &Cx, collection: &str, query: &[(&str, &str)]) -> Result<Vec<String>> {
    let encoded: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
    let list = cx.read(format!("{collection}?{}", encoded.join("&"))).await?;
    Ok(names(&list).into_iter().map(str::to_owned).collect())
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

async fn label_operators(cx: Cx) -> Result {
    for (name, labels) in [
        ("a", json!({"color": "red", "size": "1"})),
        ("b", json!({"color": "blue", "size": "5"})),
        ("c", json!({"color": "", "size": "10"})),
        ("d", json!({"other": "x"})),
    ] {
        let mut object = config_map(name, "1");
        object["metadata"]["labels"] = labels;
        object["metadata"]["labels"]["ours"] = "yes".into();
        cx.create(cx.core("configmaps"), &object).await?;
    }
    for (selector, expected) in [
        ("color=red", "a"),
        ("color==red", "a"),
        ("color!=red", "b c d"),
        ("color in (red, blue)", "a b"),
        ("color in (red,)", "a c"),
        ("color notin (red,blue)", "c d"),
        ("color", "a b c"),
        ("!color", "d"),
        ("color=", "c"),
        ("color,size=5", "b"),
        ("size>4", "b c"),
        ("size<5", "a"),
        ("size>4,color=blue", "b"),
        ("color=red,color=blue", ""),
        ("other>1", ""),
    ] {
        let found =
            select(&cx, &cx.core("configmaps"), &[("labelSelector", &format!("ours,{selector}"))]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    Ok(())
}

async fn label_texts(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["labels"] = json!({"example.com/in": "x.y_Z-1", "notin": "exists"});
    cx.create(cx.core("configmaps"), &object).await?;
    for (selector, expected) in [
        (" example.com/in = x.y_Z-1 ", "a"),
        ("example.com/in in (x.y_Z-1)", "a"),
        ("notin in ( exists , x )", "a"),
        ("notin", "a"),
        ("notin notin (x)", "a kube-root-ca.crt"),
    ] {
        cx.until(cx.core("configmaps/kube-root-ca.crt"), "the other one is there", |status, _| status == 200)
            .await?;
        let found = select(&cx, &cx.core("configmaps"), &[("labelSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    Ok(())
}

async fn bad_labels(cx: Cx) -> Result {
    for (selector, message) in [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a in b", "found 'b' expected: '('"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a/b/c=d", "a valid label key must consist of alphanumeric characters"),
        ("a>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=-x", "a valid label must be an empty string or consist of alphanumeric characters"),
    ] {
        let answer = cx.admin.get(cx.core(&format!("configmaps?labelSelector={}", encode(selector)))).await?;
        let status = answer.fails(400, "BadRequest");
        let said = status["message"].as_str().unwrap_or_default();
        assert!(said.contains(message), "{selector}: {said}");
    }
    Ok(())
}

async fn names_and_namespaces(cx: Cx) -> Result {
    for name in ["a", "b"] {
        cx.config_map(name, "1").await?;
    }
    cx.until(cx.core("configmaps/kube-root-ca.crt"), "the other one is there", |status, _| status == 200)
        .await?;
    for (selector, expected) in [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "b kube-root-ca.crt"),
        ("metadata.name=a,metadata.name=b", ""),
        (&format!("metadata.namespace={}", cx.ns), "a b kube-root-ca.crt"),
        ("metadata.namespace=other", ""),
        (&format!("metadata.name=b,metadata.namespace={}", cx.ns), "b"),
    ] {
        let found = select(&cx, &cx.core("configmaps"), &[("fieldSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    let everywhere = format!("metadata.name=a,metadata.namespace={}", cx.ns);
    assert_eq!(select(&cx, "/api/v1/configmaps", &[("fieldSelector", &everywhere)]).await?, ["a"]);
    Ok(())
}

async fn unknown_fields(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("configmaps?fieldSelector=data.key%3D1")).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "\"data.key\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
    let answer = cx.admin.get(cx.core("pods?fieldSelector=spec.nothing%3D1")).await?;
    answer.fails_with(400, "BadRequest", "field label not supported: spec.nothing");
    let answer =
        cx.admin.get(cx.apis("apps/v1", "deployments?watch=1&fieldSelector=spec.replicas%3D1")).await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn bad_fields(cx: Cx) -> Result {
    for selector in ["metadata.name", "metadata.name>a", "a in (b)"] {
        let answer = cx.admin.get(cx.core(&format!("configmaps?fieldSelector={}", encode(selector)))).await?;
        let status = answer.fails(400, "BadRequest");
        assert!(status["message"].as_str().unwrap_or_default().contains("invalid selector"), "{status}");
    }
    Ok(())
}

async fn pods(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "")] {
        let mut object = pod(name);
        if !node.is_empty() {
            object["spec"]["nodeName"] = node.into();
        }
        object["spec"]["restartPolicy"] = if name == "a" { "Never".into() } else { "Always".into() };
        cx.create(cx.core("pods"), &object).await?;
    }
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}});
    cx.admin.merge_patch(cx.core("pods/a/status"), &status).await?.ok(200);
    for (selector, expected) in [
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName!=n1", "b c"),
        ("spec.nodeName=", "c"),
        ("status.phase=Pending", "b c"),
        ("status.phase!=Pending,spec.nodeName=n1", "a"),
        ("spec.restartPolicy=Never", "a"),
        ("status.podIP=10.1.2.3", "a"),
        ("spec.serviceAccountName=default", "a b c"),
        ("spec.schedulerName=default-scheduler,metadata.name=b", "b"),
        ("spec.hostNetwork=false", "a b c"),
    ] {
        let found = select(&cx, &cx.core("pods"), &[("fieldSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    Ok(())
}

async fn secrets_by_type(cx: Cx) -> Result {
    for (name, kind) in [("a", "Opaque"), ("b", "example.com/x")] {
        cx.create(cx.core("secrets"), &json!({"metadata": {"name": name}, "type": kind})).await?;
    }
    assert_eq!(select(&cx, &cx.core("secrets"), &[("fieldSelector", "type=example.com/x")]).await?, ["b"]);
    assert_eq!(select(&cx, &cx.core("secrets"), &[("fieldSelector", "type!=example.com/x")]).await?, ["a"]);
    Ok(())
}

async fn events_by_object(cx: Cx) -> Result {
    for (name, object, reason) in [("a", "x", "Started"), ("b", "y", "Stopped")] {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
            "reason": reason, "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": cx.ns, "name": object,
            "uid": format!("uid-{object}")}});
        cx.create(cx.core("events"), &event).await?;
    }
    for (selector, expected) in [
        ("involvedObject.name=x", "a"),
        ("involvedObject.uid=uid-y,involvedObject.kind=Pod", "b"),
        ("reason=Started,type=Normal", "a"),
        ("involvedObject.namespace=none", ""),
    ] {
        let found = select(&cx, &cx.core("events"), &[("fieldSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    let found =
        select(&cx, &cx.apis("events.k8s.io/v1", "events"), &[("fieldSelector", "regarding.name=y")]).await?;
    assert_eq!(found, ["b"]);
    // Without a source, an event comes from who reports it.
    for (name, more) in [
        ("c", json!({"source": {"component": "old"}, "reportingComponent": "new", "reportingInstance": "i"})),
        ("d", json!({"reportingComponent": "new", "reportingInstance": "i"})),
    ] {
        let mut event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
            "reason": "Tried", "type": "Normal", "action": "Try", "eventTime": "2026-01-01T00:00:00.000000Z",
            "involvedObject": {"kind": "Pod", "namespace": cx.ns, "name": "z"}});
        for (field, value) in more.as_object().into_iter().flatten() {
            event[field] = value.clone();
        }
        // The newer rules forbid a source, the older ones do not ask who reports.
        if name == "c" {
            event.as_object_mut().into_iter().for_each(|event| drop(event.remove("eventTime")));
        }
        cx.create(cx.core("events"), &event).await?;
    }
    for (selector, expected) in [("source=old", "c"), ("source=new", "d"), ("reportingComponent=new", "c d")]
    {
        let found = select(&cx, &cx.core("events"), &[("fieldSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    Ok(())
}

async fn namespaces_by_phase(cx: Cx) -> Result {
    let selector = format!("status.phase=Active,metadata.name={}", cx.ns);
    assert_eq!(
        select(&cx, "/api/v1/namespaces", &[("fieldSelector", &selector)]).await?,
        std::slice::from_ref(&cx.ns)
    );
    let selector = format!("status.phase=Terminating,metadata.name={}", cx.ns);
    assert_eq!(
        select(&cx, "/api/v1/namespaces", &[("fieldSelector", &selector)]).await?,
        Vec::<String>::new()
    );
    Ok(())
}

async fn nodes_by_schedulability(cx: Cx) -> Result {
    let labelled = |name: &str, unschedulable: bool| -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("{}-{name}", cx.unique),
            "labels": {"scenario": cx.unique}}, "spec": {"unschedulable": unschedulable}})
    };
    cx.create("/api/v1/nodes", &labelled("a", false)).await?;
    cx.create("/api/v1/nodes", &labelled("b", true)).await?;
    let label = format!("scenario={}", cx.unique);
    for (selector, expected) in [("spec.unschedulable=true", "b"), ("spec.unschedulable=false", "a")] {
        let found =
            select(&cx, "/api/v1/nodes", &[("fieldSelector", selector), ("labelSelector", &label)]).await?;
        assert_eq!(found, [format!("{}-{expected}", cx.unique)]);
    }
    Ok(())
}

async fn selectable_fields_of_custom_resources(cx: Cx) -> Result {
    let schema = with_spec(&json!({"type": "object", "properties": {
        "color": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
    }}));
    let mut crd = definition(&cx, &schema);
    crd["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.count"}, {"jsonPath": ".spec.on"}]);
    establish(&cx, &crd).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"color": "red", "count": 1, "on": true}))).await?;
    cx.create(cx.widgets(), &cx.widget("b", &json!({"color": "blue", "count": 2}))).await?;
    for (selector, expected) in [
        ("spec.color=red", "a"),
        ("spec.color!=red", "b"),
        ("spec.count=2", "b"),
        ("spec.on=true", "a"),
        ("spec.on=false", ""),
        ("spec.on=", "b"),
        ("metadata.name=b,spec.color=blue", "b"),
    ] {
        let found = select(&cx, &cx.widgets(), &[("fieldSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    let answer = cx.admin.get(format!("{}?fieldSelector=spec.size%3D1", cx.widgets())).await?;
    let status = answer.fails(400, "BadRequest");
    let said = status["message"].as_str().unwrap_or_default();
    assert!(said.ends_with("field label not supported: spec.size"), "{said}");
    let mut watch =
        cx.admin.watch(format!("{}?watch=1&fieldSelector=spec.color%3Dgreen", cx.widgets())).await?;
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"color": "green"}})).await?.ok(200);
    watch.expect_about("ADDED", "a").await?;
    Ok(())
}

async fn selectable_fields_that_come_later(cx: Cx) -> Result {
    let mut spec = json!({"type": "object", "properties": {
        "color": {"type": "string"}, "size": {"type": "string"},
    }});
    establish(&cx, &definition(&cx, &with_spec(&spec))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"color": "red"}))).await?;
    cx.create(cx.widgets(), &cx.widget("b", &json!({"color": "blue", "size": "s"}))).await?;
    spec["properties"]["size"]["default"] = "m".into();
    let mut later = definition(&cx, &with_spec(&spec));
    later["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    let path = format!("{DEFINITIONS}/widgets.{}", cx.group);
    cx.admin.merge_patch(path, &json!({"spec": {"versions": later["spec"]["versions"]}})).await?.ok(200);
    let known = format!("{}?fieldSelector=spec.color%3Dred", cx.widgets());
    cx.until(known, "the field can be selected by", |status, _| status == 200).await?;
    for (selector, expected) in [
        ("spec.color=red", "a"),
        ("spec.color!=red", "b"),
        ("spec.color=", ""),
        ("spec.size=m", "a"),
        ("spec.size=s,spec.color=blue", "b"),
    ] {
        let found = select(&cx, &cx.widgets(), &[("fieldSelector", selector)]).await?;
        assert_eq!(found.join(" "), expected, "{selector}");
    }
    // What was stored before is known to those who watch, too.
    let mut watch =
        cx.admin.watch(format!("{}?watch=1&fieldSelector=spec.color%3Dred", cx.widgets())).await?;
    watch.expect_about("ADDED", "a").await?;
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"color": "green"}})).await?.ok(200);
    watch.expect_about("DELETED", "a").await?;
    Ok(())
}

async fn selectable_fields_of_several_versions(cx: Cx) -> Result {
    let schema = |fields: &[&str]| {
        let fields: Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        json!({"openAPIV3Schema": with_spec(&json!({"type": "object", "properties": fields}))})
    };
    let version = |name: &str, schema: &Value, field: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": schema,
            "selectableFields": [{"jsonPath": field}]})
    };
    let (few, more) = (schema(&["color", "size"]), schema(&["color", "size", "weight"]));
    let mut crd = definition(&cx, &json!({}));
    // What all versions have in common is looked at apart from the rest.
    crd["spec"]["versions"] = json!([version("v1", &few, ".spec.color"), version("v2", &few, ".spec.size")]);
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    let why = "Invalid value: \"\": may only be set when `version.schema.openAPIV3Schema` is not included";
    has(
        &status["details"]["causes"],
        &json!([{"field": "spec.versions[0].selectableFields", "message": why},
            {"field": "spec.versions[1].selectableFields", "message": why}]),
    );
    crd["spec"]["versions"] =
        json!([version("v1", &few, ".spec.color"), version("v2", &more, ".spec.color")]);
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    let why = "Invalid value: \"\": may only be set when validations.schema is included";
    has(&status["details"]["causes"], &json!([{"field": "spec.selectableFields", "message": why}]));
    crd["spec"]["versions"] = json!([version("v1", &few, ".spec.color"), version("v2", &more, ".spec.size")]);
    establish(&cx, &crd).await?;
    let newer = cx.widgets().replace("/v1/", "/v2/");
    cx.create(cx.widgets(), &cx.widget("a", &json!({"color": "red", "size": "m"}))).await?;
    let mut b = cx.widget("b", &json!({"color": "red", "size": "m"}));
    b["apiVersion"] = format!("{}/v2", cx.group).into();
    cx.create(newer.as_str(), &b).await?;
    assert_eq!(select(&cx, &cx.widgets(), &[("fieldSelector", "spec.color=red")]).await?, ["a", "b"]);
    assert_eq!(select(&cx, &newer, &[("fieldSelector", "spec.size=m")]).await?, ["a", "b"]);
    cx.admin.get(format!("{newer}?fieldSelector=spec.color%3Dred")).await?.fails(400, "BadRequest");
    Ok(())
}
