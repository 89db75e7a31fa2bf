//! Strategic patches: merging lists by key, and the directives that say otherwise.

use serde_json::json;

use crate::context::{Cx, config_map, deployment};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    strategic_merges_lists_by_key,
    strategic_deletes_items,
    strategic_replaces_with_directives,
    strategic_orders_elements,
    strategic_retains_keys,
    strategic_deletes_from_primitive_lists,
    strategic_sets_of_finalizers,
    strategic_merges_ports_by_port,
    strategic_bad_directives,
];

async fn strategic_merges_lists_by_key(cx: Cx) -> Result {
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "side:1", "env": [{"name": "A", "value": "1"}]},
        {"name": "main", "image": "main:2"},
    ]}}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    has(
        &patched["spec"]["template"]["spec"],
        &json!({"containers": [
            {"name": "side", "image": "side:1"}, {"name": "main", "image": "main:2",
                "terminationMessagePolicy": "File"},
        ]}),
    );
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]},
    ]}}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    has(
        &patched["spec"]["template"]["spec"],
        &json!({"containers": [
            {"name": "side", "image": "side:1", "env": [{"name": "B", "value": "2"}, {"name": "A",
                "value": "3"}]},
            {"name": "main"},
        ]}),
    );
    Ok(())
}

async fn strategic_deletes_items(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}, {"name": "c", "image": "i"}]);
    cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    has(&patched["spec"]["template"]["spec"], &json!({"containers": [{"name": "a"}, {"name": "c"}]}));
    let patch = json!({"spec": {"strategy": {"rollingUpdate": null, "type": "Recreate"}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    Ok(())
}

async fn strategic_replaces_with_directives(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "a", "image": "i", "args": ["x"]}, {"name": "b", "image": "i"}]);
    object["metadata"]["labels"] = json!({"one": "1", "two": "2"});
    cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    // A map is replaced as a whole, and so is a list that has the directive as an item.
    let patch = json!({
        "metadata": {"labels": {"$patch": "replace", "three": "3"}},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"$patch": "replace"}]}}},
    });
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    assert_eq!(patched["metadata"]["labels"], json!({"three": "3"}));
    has(&patched["spec"]["template"]["spec"], &json!({"containers": [{"name": "c"}]}));
    // An item is replaced as a whole too.
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "j", "$patch": "replace"}, {"name": "d", "image": "k"},
    ]}}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?;
    assert_eq!(patched.status, 200, "{patched}");
    let patch = json!({"metadata": {"labels": {"$patch": "delete"}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    has(&patched, &json!({"metadata": {"labels": null}}));
    Ok(())
}

async fn strategic_orders_elements(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}, {"name": "c", "image": "i"}]);
    cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "d"}, {"name": "a"}],
        "containers": [{"name": "d", "image": "new"}, {"name": "a", "image": "j"}],
    }}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    let containers =
        patched["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = containers.iter().map(|entry| text(entry, "/name")).collect();
    assert_eq!(names, ["b", "c", "d", "a"]);
    has(&containers[3], &json!({"image": "j"}));
    Ok(())
}

async fn strategic_retains_keys(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    let patch = json!({"spec": {"template": {"spec": {"volumes": [
        {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}},
    ]}}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    assert_eq!(
        patched["spec"]["template"]["spec"]["volumes"],
        json!([{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}])
    );
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    Ok(())
}

async fn strategic_deletes_from_primitive_lists(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b", "example.com/c"]);
    cx.create(cx.core("configmaps"), &object).await?;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}});
    let patched = cx.admin.strategic_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    assert_eq!(patched["metadata"]["finalizers"], json!(["example.com/a", "example.com/c"]));
    Ok(())
}

async fn strategic_sets_of_finalizers(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    cx.create(cx.core("configmaps"), &object).await?;
    let patch = json!({"metadata": {"finalizers": ["example.com/b", "example.com/a"]}});
    let patched = cx.admin.strategic_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    let mut finalizers = patched["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.sort_by_key(ToString::to_string);
    assert_eq!(finalizers, ["example.com/a", "example.com/b"]);
    // A list that is not merged is replaced.
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    for arguments in [json!(["a", "b"]), json!(["c"])] {
        let patch =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "args": arguments}]}}}});
        let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
        assert_eq!(patched["spec"]["template"]["spec"]["containers"][0]["args"], arguments);
    }
    Ok(())
}

async fn strategic_merges_ports_by_port(cx: Cx) -> Result {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}]}});
    cx.create(cx.core("services"), &service).await?;
    let patch =
        json!({"spec": {"ports": [{"name": "https", "port": 443}, {"port": 80, "targetPort": 8080}]}});
    let patched = cx.admin.strategic_patch(cx.core("services/a"), &patch).await?.ok(200);
    has(
        &patched["spec"],
        &json!({"ports": [
            {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443},
            {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080},
        ]}),
    );
    Ok(())
}

async fn strategic_bad_directives(cx: Cx) -> Result {
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let path = cx.apis("apps/v1", "deployments/a");
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "without a name"}]}}}});
    let answer = cx.admin.strategic_patch(path.as_str(), &patch).await?;
    let status = answer.fails(500, "");
    assert!(text(&status, "/message").contains("does not contain declared merge key: name"), "{status}");
    let patch = json!({"spec": {"$patch": "explode"}});
    let answer = cx.admin.strategic_patch(path.as_str(), &patch).await?;
    answer.fails(500, "");
    Ok(())
}
