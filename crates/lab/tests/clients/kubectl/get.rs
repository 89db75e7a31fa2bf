//! `kubectl get`: every form of output, and what it can be narrowed down by.

use serde_json::{Value, json};

use super::{Kubectl, cells};
use crate::context::{config_map, deployment, pod};
use crate::support::Result;
use crate::support::json::has;

super::scenarios![
    tables,
    wide,
    yaml_and_json,
    names,
    jsonpath,
    custom_columns,
    go_template,
    labels,
    field_selectors,
    all_namespaces,
    chunks,
    sorted,
    many_kinds,
    all_category,
    short_names_and_versions,
    custom_resources,
    raw,
    watch_with_output,
    what_is_not_there,
    bad_input,
];

/// Three ConfigMaps with a label each.
async fn three(k: &Kubectl) -> Result {
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "back")] {
        let mut map = config_map(name, name);
        map["metadata"]["labels"] = json!({"tier": tier, "app": "shop"});
        k.cx.create(k.cx.core("configmaps"), &map).await?;
    }
    Ok(())
}

async fn tables(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    three(&k).await?;
    k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let maps = k.ok("get configmaps a b").await?;
    let rows = cells(&maps);
    assert_eq!(rows[0], ["NAME", "DATA", "AGE"]);
    assert_eq!((rows[1][0], rows[1][1], rows[2][0]), ("a", "1", "b"));
    assert_eq!(cells(&k.ok("get cm a --no-headers").await?)[0][..2], ["a", "1"]);
    let pods = k.ok("get po").await?;
    assert_eq!(cells(&pods)[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(cells(&pods)[1][..4], ["p", "0/1", "Pending", "0"]);
    let deployments = k.ok("get deploy/d").await?;
    assert_eq!(cells(&deployments)[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(cells(&deployments)[1][..4], ["d", "0/1", "0", "0"]);
    let namespaces = k.ok(&format!("get ns {}", k.cx.ns)).await?;
    assert_eq!(cells(&namespaces)[1][..2], [k.cx.ns.as_str(), "Active"]);
    Ok(())
}

async fn wide(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let pods = k.ok("get pods -o wide").await?;
    let header = pods.lines().next().unwrap_or_default();
    assert!(header.ends_with("IP       NODE     NOMINATED NODE   READINESS GATES"), "{header}");
    assert_eq!(cells(&pods)[1][5..], ["<none>", "<none>", "<none>", "<none>"]);
    let deployments = k.ok("get deployments -o wide").await?;
    let rows = cells(&deployments);
    assert_eq!(rows[0][5..], ["CONTAINERS", "IMAGES", "SELECTOR"]);
    assert_eq!(rows[1][5..], ["main", "example.com/image:1", "app=d"]);
    Ok(())
}

async fn yaml_and_json(k: Kubectl) -> Result {
    three(&k).await?;
    let one: Value = serde_json::from_str(&k.ok("get cm a -o json").await?)?;
    has(&one, &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "a"}}));
    assert!(one["metadata"].get("managedFields").is_none(), "kubectl hides managed fields");
    let shown: Value = serde_json::from_str(&k.ok("get cm a -o json --show-managed-fields").await?)?;
    assert_eq!(shown["metadata"]["managedFields"][0]["manager"], "scenario");
    let list: Value = serde_json::from_str(&k.ok("get cm -l tier -o json").await?)?;
    has(&list, &json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}}));
    let items = list["items"].as_array().ok_or("the list has no items")?;
    let names: Vec<_> = items.iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let yaml = k.ok("get cm a -o yaml").await?;
    assert!(yaml.starts_with("apiVersion: v1\ndata:\n  key: a\nkind: ConfigMap\nmetadata:\n"), "{yaml}");
    assert!(yaml.contains(&format!("\n  namespace: {}\n", k.cx.ns)), "{yaml}");
    let kyaml = k.ok("get cm a -o kyaml").await?;
    assert!(kyaml.contains("kind: \"ConfigMap\""), "{kyaml}");
    Ok(())
}

async fn names(k: Kubectl) -> Result {
    three(&k).await?;
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    assert_eq!(k.ok("get cm -l tier=back -o name").await?, "configmap/b\nconfigmap/c\n");
    assert_eq!(k.ok("get deploy/d cm/a -o name").await?, "deployment.apps/d\nconfigmap/a\n");
    Ok(())
}

async fn jsonpath(k: Kubectl) -> Result {
    three(&k).await?;
    assert_eq!(k.ok("get cm a -o jsonpath={.data.key}").await?, "a");
    let line = "get cm -l app=shop -o 'jsonpath={range .items[*]}{.metadata.name}={.data.key}{\"\\n\"}{end}'";
    assert_eq!(k.ok(line).await?, "a=a\nb=b\nc=c\n");
    let line = "get cm -o 'jsonpath={.items[?(@.metadata.labels.tier==\"back\")].metadata.name}'";
    assert_eq!(k.ok(line).await?, "b c");
    assert_eq!(
        k.ok("get cm a -o jsonpath-as-json={.metadata.labels}").await?.trim_start().chars().next(),
        Some('[')
    );
    assert_eq!(k.ok("get cm a -o jsonpath={.data.none}").await?, "");
    Ok(())
}

async fn custom_columns(k: Kubectl) -> Result {
    three(&k).await?;
    let table = k.ok("get cm -l app -o custom-columns=N:.metadata.name,T:.metadata.labels.tier,X:.x").await?;
    assert_eq!(
        cells(&table),
        [["N", "T", "X"], ["a", "front", "<none>"], ["b", "back", "<none>"], ["c", "back", "<none>"]]
    );
    let file = k.file("columns", "NAME          VALUE\nmetadata.name  data.key\n")?;
    let table = k.ok(&format!("get cm a -o custom-columns-file={file}")).await?;
    assert_eq!(cells(&table), [["NAME", "VALUE"], ["a", "a"]]);
    Ok(())
}

async fn go_template(k: Kubectl) -> Result {
    three(&k).await?;
    let line = "get cm -l app -o 'go-template={{range .items}}{{.metadata.name}}:{{.data.key}} {{end}}'";
    assert_eq!(k.ok(line).await?, "a:a b:b c:c ");
    let file = k.file("template", "{{.kind}}/{{.metadata.name}}")?;
    assert_eq!(k.ok(&format!("get cm a -o go-template-file={file}")).await?, "ConfigMap/a");
    Ok(())
}

async fn labels(k: Kubectl) -> Result {
    three(&k).await?;
    for (selector, expected) in [
        ("tier=front", "configmap/a\n"),
        ("tier!=front,app=shop", "configmap/b\nconfigmap/c\n"),
        ("'tier in (front,back),app'", "configmap/a\nconfigmap/b\nconfigmap/c\n"),
        ("'tier notin (back),app'", "configmap/a\n"),
        ("'app,!tier'", ""),
    ] {
        assert_eq!(k.ok(&format!("get cm -o name -l {selector}")).await?, expected, "{selector}");
    }
    let table = k.ok("get cm a --show-labels").await?;
    assert_eq!(cells(&table)[1][3], "app=shop,tier=front");
    let table = k.ok("get cm a -L tier,none").await?;
    assert_eq!(cells(&table)[0][3..], ["TIER", "NONE"]);
    assert_eq!(cells(&table)[1][3..], ["front"]);
    let complaint = k.fails("get cm -l 'tier=('").await?;
    assert!(complaint.contains("unable to parse requirement"), "{complaint}");
    Ok(())
}

async fn field_selectors(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    three(&k).await?;
    k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    assert_eq!(k.ok("get cm --field-selector metadata.name=b -o name").await?, "configmap/b\n");
    assert_eq!(
        k.ok("get po --field-selector status.phase!=Running,spec.nodeName= -o name").await?,
        "pod/p\n"
    );
    assert_eq!(k.ok("get po --field-selector status.phase=Running -o name").await?, "");
    let complaint = k.fails("get cm --field-selector data.key=a").await?;
    assert!(complaint.contains("field selector \"data.key=a\": \"data.key\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""), "{complaint}");
    Ok(())
}

async fn all_namespaces(k: Kubectl) -> Result {
    three(&k).await?;
    let table = k.ok("get cm -A -l app=shop,tier=front").await?;
    let rows = cells(&table);
    assert_eq!(rows[0], ["NAMESPACE", "NAME", "DATA", "AGE"]);
    assert!(rows.iter().any(|row| row[..2] == [k.cx.ns.as_str(), "a"]), "{table}");
    let complaint = k.fails("get cm a -A").await?;
    assert!(
        complaint.contains("a resource cannot be retrieved by name across all namespaces"),
        "{complaint}"
    );
    Ok(())
}

async fn chunks(k: Kubectl) -> Result {
    for number in 0..7 {
        k.cx.create(k.cx.core("secrets"), &json!({"metadata": {"name": format!("s{number}")}})).await?;
    }
    let said = k.run("get secrets --chunk-size=3 -v=6").await?;
    assert_eq!(said.stdout.lines().count(), 8, "{}", said.stdout);
    let pages =
        said.stderr.lines().filter(|line| line.contains("/secrets?") && line.contains("limit=3")).count();
    assert!(pages >= 3, "{}", said.stderr);
    Ok(())
}

async fn sorted(k: Kubectl) -> Result {
    for (name, value) in [("x", "2"), ("y", "3"), ("z", "1")] {
        k.cx.create(k.cx.core("configmaps"), &config_map(name, value)).await?;
    }
    let names = k.ok("get cm x y z --sort-by=.data.key -o name").await?;
    assert_eq!(names, "configmap/z\nconfigmap/x\nconfigmap/y\n");
    k.ok("label cm x y z sorted=yes").await?;
    let table = k.ok("get cm -l sorted --sort-by=.data.key").await?;
    assert_eq!((cells(&table)[1][0], cells(&table)[3][0]), ("z", "y"));
    Ok(())
}

async fn many_kinds(k: Kubectl) -> Result {
    three(&k).await?;
    k.cx.create(k.cx.core("secrets"), &json!({"metadata": {"name": "s"}, "data": {"a": "Yg=="}})).await?;
    let table = k.ok("get secret,cm -l tier=front --ignore-not-found").await?;
    assert!(table.contains("configmap/a"), "{table}");
    let table = k.ok("get secret/s configmap/a").await?;
    let rows = cells(&table);
    assert_eq!(rows[0], ["NAME", "TYPE", "DATA", "AGE"]);
    assert_eq!(rows[1][..3], ["secret/s", "Opaque", "1"]);
    assert_eq!(rows[4][..2], ["configmap/a", "1"]);
    Ok(())
}

async fn all_category(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    k.ok("create service clusterip s --tcp=80").await?;
    k.ok("create cronjob c --image=example.com/i --schedule='0 0 * * *'").await?;
    let names = k.ok("get all -o name").await?;
    for name in ["pod/p", "service/s", "deployment.apps/d", "cronjob.batch/c"] {
        assert!(names.lines().any(|line| line == name), "{name}: {names}");
    }
    Ok(())
}

async fn short_names_and_versions(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    for spelling in
        ["deploy", "deployment", "deployments", "deployments.apps", "deployments.v1.apps", "Deployment"]
    {
        assert_eq!(k.ok(&format!("get {spelling} -o name")).await?, "deployment.apps/d\n", "{spelling}");
    }
    let complaint = k.fails("get deployments.v1beta1.apps").await?;
    assert!(
        complaint.contains("the server doesn't have a resource type \"deployments\"")
            || complaint.contains("no matches for"),
        "{complaint}"
    );
    let complaint = k.fails("get nonsense").await?;
    assert_eq!(complaint, "error: the server doesn't have a resource type \"nonsense\"\n");
    Ok(())
}

async fn custom_resources(k: Kubectl) -> Result {
    let group = &k.cx.group;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget",
                      "shortNames": ["gdg"], "categories": ["gear"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
                    {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer"}, "note": {"type": "string"}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    });
    k.ok_with("apply -f -", &definition.to_string()).await?;
    k.ok(&format!("wait crd/gadgets.{group} --for=condition=Established --timeout=60s")).await?;
    let gadget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "g"},
        "spec": {"size": 3, "note": "small"},
    });
    assert_eq!(k.ok_with("create -f -", &gadget.to_string()).await?, format!("gadget.{group}/g created\n"));
    let table = k.ok(&format!("get gdg.{group}")).await?;
    assert_eq!(cells(&table)[0], ["NAME", "SIZE", "SINCE"]);
    assert_eq!(cells(&table)[1][..2], ["g", "3"]);
    let table = k.ok(&format!("get gadgets.{group} g -o wide")).await?;
    assert_eq!(cells(&table)[0], ["NAME", "SIZE", "NOTE", "SINCE"]);
    assert_eq!(cells(&table)[1][..3], ["g", "3", "small"]);
    let resources = k.ok(&format!("api-resources --api-group={group} -o wide")).await?;
    let row = cells(&resources)[1].join(" ");
    let verbs = "delete,deletecollection,get,list,patch,create,update,watch";
    assert_eq!(row, format!("gadgets gdg {group}/v1 true Gadget {verbs} gear"));
    let explained = k.ok(&format!("explain gadgets.spec --api-version={group}/v1")).await?;
    assert!(explained.contains("size\t<integer>"), "{explained}");
    k.ok(&format!("delete crd gadgets.{group}")).await?;
    let complaint = k.fails(&format!("get gadgets.{group}")).await?;
    assert!(
        complaint.contains("the server doesn't have a resource type")
            || complaint.contains("the server could not find the requested resource")
            || complaint.contains("could not find the requested resource"),
        "{complaint}"
    );
    Ok(())
}

async fn raw(k: Kubectl) -> Result {
    three(&k).await?;
    let map: Value = serde_json::from_str(&k.ok(&format!("get --raw {}", k.cx.core("configmaps/a"))).await?)?;
    assert_eq!(map["data"]["key"], "a");
    assert_eq!(k.ok("get --raw /readyz").await?, "ok");
    assert!(k.ok("get --raw /livez?verbose").await?.ends_with("livez check passed\n"));
    let version: Value = serde_json::from_str(&k.ok("get --raw /version").await?)?;
    assert_eq!(version["minor"], "37");
    let complaint = k.fails("get --raw /nonsense").await?;
    assert_eq!(complaint, "Error from server (NotFound): the server could not find the requested resource\n");
    Ok(())
}

async fn watch_with_output(k: Kubectl) -> Result {
    three(&k).await?;
    let mut watch = k.start("get cm -w -l tier --output-watch-events -o name")?;
    watch.until("configmap/a").await?;
    k.ok("label cm a more=yes").await?;
    let mut table = k.start("get cm -l tier -w --output-watch-events")?;
    let header = table.until("NAME").await?;
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["EVENT", "NAME", "DATA", "AGE"]);
    table.until("ADDED      c").await?;
    k.ok("delete cm b").await?;
    table.until("DELETED    b").await?;
    k.ok("label cm c tier-").await?;
    // What no longer matches is gone for this watcher.
    table.until("DELETED    c").await?;
    k.ok("patch cm a -p '{\"data\":{\"more\":\"1\"}}'").await?;
    let row = table.until("MODIFIED   a").await?;
    assert_eq!(row.split_whitespace().nth(2), Some("2"), "{row}");
    let mut only = k.start("get cm --watch-only -o jsonpath={.metadata.name}{.data.key}{\"\\n\"}")?;
    // Nothing tells when the watch has begun; so there is something to see until it has.
    for round in 0..40 {
        k.ok(&format!("annotate cm a round={round} --overwrite")).await?;
        if tokio::time::timeout(std::time::Duration::from_millis(300), only.until("aa")).await.is_ok() {
            return Ok(());
        }
    }
    Err("nothing was seen".into())
}

async fn what_is_not_there(k: Kubectl) -> Result {
    let said = k.run("get cm -l no=such").await?;
    assert_eq!(said.stderr, format!("No resources found in {} namespace.\n", k.cx.ns));
    assert_eq!(said.ok(), "");
    let complaint = k.fails("get secret ghost").await?;
    assert_eq!(complaint, "Error from server (NotFound): secrets \"ghost\" not found\n");
    assert_eq!(k.ok("get secret ghost --ignore-not-found").await?, "");
    let complaint = k.fails("get deploy/ghost").await?;
    assert_eq!(complaint, "Error from server (NotFound): deployments.apps \"ghost\" not found\n");
    let complaint = k.fails("get namespace ghost-of-nobody").await?;
    assert_eq!(complaint, "Error from server (NotFound): namespaces \"ghost-of-nobody\" not found\n");
    Ok(())
}

async fn bad_input(k: Kubectl) -> Result {
    three(&k).await?;
    let complaint = k.fails("get cm a -o nonsense").await?;
    assert!(complaint.contains("unable to match a printer suitable for the output format \"nonsense\""));
    let complaint = k.fails("get cm a -o jsonpath={.data").await?;
    assert!(complaint.contains("unclosed action"), "{complaint}");
    let complaint = k.fails("get --raw no-slash").await?;
    assert!(!complaint.is_empty());
    Ok(())
}
