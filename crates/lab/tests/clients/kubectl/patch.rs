//! Changing parts of objects: `patch` in every form, `label`, `annotate`, `set`, `replace`.

use serde_json::json;

use super::Kubectl;
use crate::context::{config_map, deployment};
use crate::support::Result;
use crate::support::json::has;

super::scenarios![
    strategic,
    merge,
    json_patches,
    custom_resources,
    status,
    nothing_to_change,
    bad_patches,
    label,
    annotate,
    set,
    replace,
    replace_by_force,
    replace_raw,
];

async fn strategic(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "env": [{"name": "A", "value": "1"}]}, {"name": "side", "image": "example.com/side"},
    ]}}}});
    assert_eq!(k.ok(&format!("patch deploy d -p '{patch}'")).await?, "deployment.apps/d patched\n");
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "env": [{"name": "B", "value": "2"}]}, {"name": "side", "$patch": "delete"},
    ]}}}});
    k.ok(&format!("patch deploy d --type=strategic -p '{patch}'")).await?;
    let stored = k.json("get deploy d").await?;
    let containers = stored["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    assert_eq!(containers.len(), 1, "{stored}");
    assert_eq!(containers[0]["env"], json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]));
    let file = k.file("patch.yaml", "spec:\n  replicas: 4\n")?;
    k.ok(&format!("patch deploy d --patch-file={file}")).await?;
    assert_eq!(k.ok("get deploy d -o jsonpath={.spec.replicas}").await?, "4");
    Ok(())
}

async fn merge(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    k.ok("patch deploy d --type=merge -p '{\"spec\":{\"replicas\":3,\"minReadySeconds\":5}}'").await?;
    k.ok("patch deploy d --type=merge -p '{\"spec\":{\"minReadySeconds\":null}}'").await?;
    let stored = k.json("get deploy d").await?;
    assert_eq!(stored["spec"]["replicas"], 3);
    assert!(stored["spec"].get("minReadySeconds").is_none());
    let replaced = json!({"spec": {"template": {"spec": {"containers": [{"name": "only", "image": "example.com/only"}]}}}});
    k.ok(&format!("patch deploy d --type=merge -p '{replaced}'")).await?;
    assert_eq!(k.ok("get deploy d -o jsonpath={.spec.template.spec.containers[*].name}").await?, "only");
    Ok(())
}

async fn json_patches(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let patch = json!([
        {"op": "test", "path": "/data/key", "value": "1"},
        {"op": "add", "path": "/data/new", "value": "2"},
        {"op": "copy", "from": "/data/key", "path": "/data/copied"},
        {"op": "move", "from": "/data/key", "path": "/data/moved"},
        {"op": "add", "path": "/metadata/labels", "value": {"a~b": "x"}},
    ]);
    let complaint = k.fails(&format!("patch cm a --type=json -p '{patch}'")).await?;
    assert!(complaint.contains("metadata.labels: Invalid value: \"a~b\""), "{complaint}");
    let mut patch = patch;
    patch[4]["value"] = json!({"a": "x"});
    k.ok(&format!("patch cm a --type=json -p '{patch}'")).await?;
    let stored = k.json("get cm a").await?;
    assert_eq!(stored["data"], json!({"new": "2", "copied": "1", "moved": "1"}));
    let complaint = k
        .fails("patch cm a --type=json -p '[{\"op\":\"test\",\"path\":\"/data/new\",\"value\":\"3\"}]'")
        .await?;
    assert!(
        complaint.contains("the server rejected our request due to an error in our request")
            || complaint.contains("testing value /data/new failed"),
        "{complaint}"
    );
    Ok(())
}

async fn custom_resources(k: Kubectl) -> Result {
    let group = &k.cx.group;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("boxes.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "boxes", "singular": "box", "kind": "Box"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"count": {"type": "integer"}, "label": {"type": "string", "nullable": true}}},
                    "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
                }}}}]},
    });
    k.ok_with("create -f -", &definition.to_string()).await?;
    k.ok(&format!("wait --for=condition=established crd/boxes.{group} --timeout=60s")).await?;
    let made = json!({"apiVersion": format!("{group}/v1"), "kind": "Box", "metadata": {"name": "b"}, "spec": {"count": 1}});
    k.ok_with("create -f -", &made.to_string()).await?;
    k.ok(&format!("patch boxes.{group} b --type=merge -p '{{\"spec\":{{\"label\":\"x\"}}}}'")).await?;
    k.ok(&format!(
        "patch boxes.{group} b --type=json -p '[{{\"op\":\"replace\",\"path\":\"/spec/count\",\"value\":2}}]'"
    ))
    .await?;
    let complaint =
        k.fails(&format!("patch boxes.{group} b --type=strategic -p '{{\"spec\":{{}}}}'")).await?;
    assert!(complaint.contains("application/strategic-merge-patch+json is not supported by")
        || complaint.contains("the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"), "{complaint}");
    let said = k.ok(&format!("patch boxes.{group} b --subresource=status --type=merge -p '{{\"status\":{{\"count\":5}},\"spec\":{{\"count\":9}}}}'")).await?;
    assert_eq!(said, format!("box.{group}/b patched\n"));
    has(
        &k.json(&format!("get boxes.{group} b")).await?,
        &json!({"spec": {"count": 2, "label": "x"}, "status": {"count": 5}}),
    );
    assert_eq!(
        k.ok(&format!("scale boxes.{group} b --replicas=7")).await?,
        format!("box.{group}/b scaled\n")
    );
    let scale = k.json(&format!("get boxes.{group} b --subresource=scale")).await?;
    has(&scale, &json!({"kind": "Scale", "spec": {"replicas": 7}, "status": {"replicas": 5}}));
    k.ok(&format!("delete crd boxes.{group}")).await?;
    Ok(())
}

async fn status(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let patch = json!({"status": {"replicas": 1, "conditions": [{"type": "Odd", "status": "True"}]}, "spec": {"replicas": 9}});
    k.ok(&format!("patch deploy d --subresource=status -p '{patch}'")).await?;
    let stored = k.json("get deploy d --subresource=status").await?;
    has(&stored, &json!({"spec": {"replicas": 1}, "status": {"replicas": 1}}));
    // Through the object itself the status stays as it is.
    k.ok("patch deploy d -p '{\"status\":{\"replicas\":5}}'").await?;
    assert_eq!(k.ok("get deploy d -o jsonpath={.status.replicas}").await?, "1");
    Ok(())
}

async fn nothing_to_change(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let before = k.ok("get cm a -o jsonpath={.metadata.resourceVersion}").await?;
    assert_eq!(
        k.ok("patch cm a -p '{\"data\":{\"key\":\"1\"}}'").await?,
        "configmap/a patched (no change)\n"
    );
    assert_eq!(k.ok("get cm a -o jsonpath={.metadata.resourceVersion}").await?, before);
    Ok(())
}

async fn bad_patches(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let complaint = k.fails("patch cm a -p '{\"data\":'").await?;
    assert!(!complaint.is_empty());
    let complaint = k.fails("patch cm a --type=merge -p '{\"data\":{\"key\":5}}'").await?;
    assert!(
        complaint.contains("cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        "{complaint}"
    );
    let complaint = k.fails("patch cm ghost -p '{}'").await?;
    assert_eq!(complaint, "Error from server (NotFound): configmaps \"ghost\" not found\n");
    let complaint = k.fails("patch cm a --type=merge -p '{\"metadata\":{\"uid\":\"x\"}}'").await?;
    assert!(complaint.contains("metadata.uid: Invalid value: \"x\": field is immutable"), "{complaint}");
    let complaint =
        k.fails("patch cm a --type=merge -p '{\"metadata\":{\"resourceVersion\":\"1\"}}'").await?;
    assert_eq!(
        complaint,
        "Error from server (Conflict): Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again\n"
    );
    let complaint = k.fails("patch cm a --type=nonsense -p '{}'").await?;
    assert!(complaint.contains("--type must be one of"), "{complaint}");
    Ok(())
}

async fn label(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    assert_eq!(k.ok("label cm a one=1 two=2").await?, "configmap/a labeled\n");
    let complaint = k.fails("label cm a one=2").await?;
    assert!(complaint.contains("'one' already has a value (1), and --overwrite is false"), "{complaint}");
    assert_eq!(k.ok("label cm a one=2 two- --overwrite").await?, "configmap/a modified\n");
    assert_eq!(k.ok("label cm a --list").await?, "one=2\n");
    assert_eq!(k.ok("label cm -l one=2 three=3").await?, "configmap/a labeled\n");
    assert_eq!(k.ok("label cm a three-").await?, "configmap/a unlabeled\n");
    let complaint = k.fails("label cm a bad='not valid'").await?;
    assert!(complaint.contains("invalid label value"), "{complaint}");
    let complaint = k.fails("label cm a one=5 --overwrite --resource-version=1").await?;
    assert!(complaint.contains("the object has been modified"), "{complaint}");
    Ok(())
}

async fn annotate(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    assert_eq!(k.ok("annotate cm a note='some words'").await?, "configmap/a annotated\n");
    assert_eq!(k.ok("get cm a -o jsonpath={.metadata.annotations.note}").await?, "some words");
    assert_eq!(
        k.ok("annotate cm --all other=1 note-")
            .await?
            .lines()
            .filter(|line| *line == "configmap/a annotated")
            .count(),
        1
    );
    assert_eq!(k.ok("annotate cm a --list").await?, "other=1\n");
    assert_eq!(
        k.ok("annotate cm a other=2 --overwrite --dry-run=server").await?,
        "configmap/a annotated (server dry run)\n"
    );
    assert_eq!(k.ok("annotate cm a --list").await?, "other=1\n");
    Ok(())
}

async fn set(k: Kubectl) -> Result {
    k.ok("create deployment d --image=example.com/a:1").await?;
    assert_eq!(k.ok("set image deploy/d a=example.com/a:2").await?, "deployment.apps/d image updated\n");
    assert_eq!(
        k.ok("get deploy d -o jsonpath={.spec.template.spec.containers[0].image}").await?,
        "example.com/a:2"
    );
    let complaint = k.fails("set image deploy/d nobody=example.com/a:3").await?;
    assert!(complaint.contains("unable to find container named \"nobody\""), "{complaint}");
    assert_eq!(k.ok("set env deploy/d COLOUR=red").await?, "deployment.apps/d env updated\n");
    assert!(k.ok("set env deploy/d --list").await?.contains("COLOUR=red"));
    assert_eq!(
        k.ok("set resources deploy d --limits=cpu=200m,memory=512Mi --requests=cpu=100m").await?,
        "deployment.apps/d resource requirements updated\n"
    );
    let resources =
        k.json("get deploy d").await?["spec"]["template"]["spec"]["containers"][0]["resources"].clone();
    assert_eq!(resources, json!({"limits": {"cpu": "200m", "memory": "512Mi"}, "requests": {"cpu": "100m"}}));
    k.ok("create sa robot").await?;
    assert_eq!(
        k.ok("set serviceaccount deploy d robot").await?,
        "deployment.apps/d serviceaccount updated\n"
    );
    k.ok("create service clusterip s --tcp=80").await?;
    assert_eq!(k.ok("set selector svc s role=web").await?, "service/s selector updated\n");
    k.ok("create role r --verb=get --resource=pods").await?;
    k.ok("create rolebinding rb --role=r --user=one").await?;
    assert_eq!(
        k.ok("set subject rolebinding rb --user=two").await?,
        "rolebinding.rbac.authorization.k8s.io/rb subjects updated\n"
    );
    assert_eq!(k.ok("get rolebinding rb -o jsonpath={.subjects[*].name}").await?, "one two");
    assert_eq!(k.ok("get deploy d -o jsonpath={.metadata.generation}").await?, "5");
    Ok(())
}

async fn replace(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    k.ok("label cm a kept=no").await?;
    let said = k.ok_with("replace -f -", &config_map("a", "2").to_string()).await?;
    assert_eq!(said, "configmap/a replaced\n");
    let stored = k.json("get cm a").await?;
    assert_eq!(stored["data"]["key"], "2");
    assert!(stored["metadata"].get("labels").is_none());
    let mut stale = config_map("a", "3");
    stale["metadata"]["resourceVersion"] = json!("1");
    let complaint = k.feed("replace -f -", &stale.to_string()).await?.fails();
    assert!(complaint.contains("Error from server (Conflict): error when replacing \"STDIN\": Operation cannot be fulfilled on configmaps \"a\": the object has been modified"), "{complaint}");
    let complaint = k.feed("replace -f -", &config_map("ghost", "2").to_string()).await?.fails();
    assert_eq!(
        complaint,
        "Error from server (NotFound): error when replacing \"STDIN\": configmaps \"ghost\" not found\n"
    );
    Ok(())
}

async fn replace_by_force(k: Kubectl) -> Result {
    let created = k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let said = k.ok_with("replace --force -f -", &config_map("a", "2").to_string()).await?;
    assert!(said.ends_with("configmap/a replaced\n"), "{said}");
    assert_ne!(k.json("get cm a").await?["metadata"]["uid"], created["metadata"]["uid"]);
    Ok(())
}

async fn replace_raw(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let path = k.cx.core("configmaps/a");
    let said = k.ok_with(&format!("replace --raw {path} -f -"), &config_map("a", "9").to_string()).await?;
    assert!(said.contains("\"key\":\"9\""), "{said}");
    let path = k.cx.core("configmaps");
    let said = k.ok_with(&format!("create --raw {path} -f -"), &config_map("b", "9").to_string()).await?;
    assert!(said.contains("\"uid\":"), "{said}");
    Ok(())
}
