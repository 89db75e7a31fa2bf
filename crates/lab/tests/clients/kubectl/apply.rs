//! `kubectl apply`, from the client's and from the server's side, `diff` and kustomizations.

use serde_json::{Value, json};

use super::Kubectl;
use crate::context::{config_map, deployment};
use crate::support::Result;
use crate::support::json::has;

super::scenarios![
    creates_configures_and_leaves_alone,
    removes_what_was_applied_before,
    keeps_what_others_added,
    many_at_once,
    three_way_merge_of_lists,
    dry_runs,
    last_applied,
    prune,
    server_side,
    server_side_conflicts,
    server_side_takes_over_from_the_client_side,
    unknown_fields,
    what_cannot_be_changed,
    diff,
    diff_server_side,
    kustomize,
    custom_resources_are_merged,
    bad_input,
];

async fn creates_configures_and_leaves_alone(k: Kubectl) -> Result {
    let first = config_map("a", "1").to_string();
    assert_eq!(k.ok_with("apply -f -", &first).await?, "configmap/a created\n");
    assert_eq!(k.ok_with("apply -f -", &first).await?, "configmap/a unchanged\n");
    let second = config_map("a", "2").to_string();
    assert_eq!(k.ok_with("apply -f -", &second).await?, "configmap/a configured\n");
    let map = k.json("get cm a --show-managed-fields").await?;
    assert_eq!(map["data"]["key"], "2");
    assert_eq!(map["metadata"]["managedFields"][0]["manager"], "kubectl-client-side-apply");
    Ok(())
}

async fn removes_what_was_applied_before(k: Kubectl) -> Result {
    let mut map = config_map("a", "1");
    map["data"]["more"] = json!("x");
    map["metadata"]["labels"] = json!({"one": "1", "two": "2"});
    k.ok_with("apply -f -", &map.to_string()).await?;
    map["data"] = json!({"key": "1"});
    map["metadata"]["labels"] = json!({"one": "1"});
    k.ok_with("apply -f -", &map.to_string()).await?;
    let stored = k.json("get cm a").await?;
    assert_eq!(stored["data"], json!({"key": "1"}));
    assert_eq!(stored["metadata"]["labels"], json!({"one": "1"}));
    Ok(())
}

async fn keeps_what_others_added(k: Kubectl) -> Result {
    k.ok_with("apply -f -", &config_map("a", "1").to_string()).await?;
    k.ok("label cm a added=yes").await?;
    k.ok("patch cm a --type=merge -p '{\"data\":{\"other\":\"o\"}}'").await?;
    k.ok_with("apply -f -", &config_map("a", "2").to_string()).await?;
    let stored = k.json("get cm a").await?;
    has(&stored, &json!({"data": {"key": "2", "other": "o"}, "metadata": {"labels": {"added": "yes"}}}));
    Ok(())
}

async fn many_at_once(k: Kubectl) -> Result {
    let text = format!("{}\n---\n{}\n---\n{}", config_map("a", "1"), config_map("b", "1"), deployment("d"));
    let said = k.ok_with("apply -f -", &text).await?;
    assert_eq!(said, "configmap/a created\nconfigmap/b created\ndeployment.apps/d created\n");
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [config_map("c", "1"), config_map("a", "2")]});
    let said = k.ok_with("apply -f -", &list.to_string()).await?;
    assert_eq!(said, "configmap/c created\nconfigmap/a configured\n");
    k.file("folder/one.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: one}\n")?;
    k.file(
        "folder/two.json",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "two"}}).to_string(),
    )?;
    assert_eq!(k.ok("apply -f folder").await?, "secret/one created\nsecret/two created\n");
    assert_eq!(k.ok("delete -f folder").await?.lines().count(), 2);
    Ok(())
}

async fn three_way_merge_of_lists(k: Kubectl) -> Result {
    let mut wanted = deployment("d");
    let containers = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"name": name, "image": format!("example.com/{name}:1")})).collect()
    };
    wanted["spec"]["template"]["spec"]["containers"] = containers(&["one", "two"]);
    k.ok_with("apply -f -", &wanted.to_string()).await?;
    // A sidecar somebody else puts in is kept, the container that is no longer applied goes.
    let sidecar = json!({"spec": {"template": {"spec": {"containers": containers(&["sidecar"])}}}});
    k.ok(&format!("patch deploy d -p '{sidecar}'")).await?;
    wanted["spec"]["template"]["spec"]["containers"] = containers(&["two", "three"]);
    k.ok_with("apply -f -", &wanted.to_string()).await?;
    let names = k.ok("get deploy d -o jsonpath={.spec.template.spec.containers[*].name}").await?;
    let mut names: Vec<_> = names.split(' ').collect();
    names.sort_unstable();
    assert_eq!(names, ["sidecar", "three", "two"]);
    Ok(())
}

async fn dry_runs(k: Kubectl) -> Result {
    let map = config_map("a", "1").to_string();
    assert_eq!(
        k.ok_with("apply --dry-run=server -f -", &map).await?,
        "configmap/a created (server dry run)\n"
    );
    assert_eq!(k.ok_with("apply --dry-run=client -f -", &map).await?, "configmap/a created (dry run)\n");
    k.fails("get cm a").await?;
    let shown = k.ok_with("apply --dry-run=server -o yaml -f -", &map).await?;
    assert!(shown.contains("uid: "), "{shown}");
    k.ok_with("apply -f -", &map).await?;
    let said = k.ok_with("apply --dry-run=server -f -", &config_map("a", "2").to_string()).await?;
    assert_eq!(said, "configmap/a configured (server dry run)\n");
    assert_eq!(k.ok("get cm a -o jsonpath={.data.key}").await?, "1");
    Ok(())
}

async fn last_applied(k: Kubectl) -> Result {
    let map = config_map("a", "1").to_string();
    k.ok_with("apply -f -", &map).await?;
    let seen: Value = serde_json::from_str(&k.ok("apply view-last-applied cm a -o json").await?)?;
    has(&seen, &json!({"kind": "ConfigMap", "data": {"key": "1"}}));
    let file = k.file("map.json", &config_map("a", "3").to_string())?;
    assert_eq!(k.ok(&format!("apply set-last-applied -f {file}")).await?, "configmap/a configured\n");
    let seen = k.ok("apply view-last-applied cm/a").await?;
    assert!(seen.contains("key: \"3\""), "{seen}");
    let said = k.ok_with("create -f -", &config_map("b", "1").to_string()).await?;
    assert_eq!(said, "configmap/b created\n");
    let said = k.feed("apply -f -", &config_map("b", "2").to_string()).await?;
    assert!(
        said.stderr.contains("is missing the kubectl.kubernetes.io/last-applied-configuration"),
        "{said:?}"
    );
    assert_eq!(said.ok(), "configmap/b configured\n");
    Ok(())
}

async fn prune(k: Kubectl) -> Result {
    let labelled = |name: &str| {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"] = json!({"set": "mine"});
        map
    };
    k.ok_with("apply -f -", &format!("{}\n---\n{}", labelled("a"), labelled("b"))).await?;
    k.ok_with("create -f -", &labelled("by-hand").to_string()).await?;
    let line = "apply --prune -l set=mine --prune-allowlist=core/v1/ConfigMap -f -";
    let said = k.ok_with(line, &labelled("a").to_string()).await?;
    assert_eq!(said, "configmap/a unchanged\nconfigmap/b pruned\n");
    assert_eq!(k.ok("get cm -l set -o name").await?, "configmap/a\nconfigmap/by-hand\n");
    Ok(())
}

async fn server_side(k: Kubectl) -> Result {
    let map = config_map("a", "1").to_string();
    assert_eq!(k.ok_with("apply --server-side -f -", &map).await?, "configmap/a serverside-applied\n");
    assert_eq!(k.ok_with("apply --server-side -f -", &map).await?, "configmap/a serverside-applied\n");
    let stored = k.json("get cm a --show-managed-fields").await?;
    has(&stored["metadata"]["managedFields"][0], &json!({"manager": "kubectl", "operation": "Apply"}));
    assert!(stored["metadata"].get("annotations").is_none(), "{stored}");
    let said = k.ok_with("apply --server-side --field-manager=other -f -", &{
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"other": "1"}})
    }.to_string()).await?;
    assert_eq!(said, "configmap/a serverside-applied\n");
    let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    k.ok_with("apply --server-side -f -", &empty.to_string()).await?;
    assert_eq!(k.json("get cm a").await?["data"], json!({"other": "1"}));
    let said =
        k.ok_with("apply --server-side --dry-run=server -f -", &config_map("new", "1").to_string()).await?;
    assert_eq!(said, "configmap/new serverside-applied (server dry run)\n");
    k.fails("get cm new").await?;
    Ok(())
}

async fn server_side_conflicts(k: Kubectl) -> Result {
    k.ok_with("apply --server-side --field-manager=one -f -", &config_map("a", "1").to_string()).await?;
    let other = config_map("a", "2").to_string();
    let complaint = k.feed("apply --server-side --field-manager=two -f -", &other).await?.fails();
    assert!(
        complaint.starts_with("error: Apply failed with 1 conflict: conflict with \"one\": .data.key\n"),
        "{complaint}"
    );
    assert!(complaint.contains("--force-conflicts"), "{complaint}");
    let said = k.ok_with("apply --server-side --field-manager=two --force-conflicts -f -", &other).await?;
    assert_eq!(said, "configmap/a serverside-applied\n");
    assert_eq!(k.ok("get cm a -o jsonpath={.data.key}").await?, "2");
    let complaint = k.feed("apply --force-conflicts -f -", &other).await?.fails();
    assert!(complaint.contains("--force-conflicts only works with --server-side"), "{complaint}");
    Ok(())
}

async fn server_side_takes_over_from_the_client_side(k: Kubectl) -> Result {
    let mut map = config_map("a", "1");
    map["data"]["gone"] = json!("soon");
    k.ok_with("apply -f -", &map.to_string()).await?;
    k.ok_with("apply --server-side -f -", &config_map("a", "1").to_string()).await?;
    let stored = k.json("get cm a --show-managed-fields").await?;
    assert_eq!(stored["data"], json!({"key": "1"}));
    let entries = stored["metadata"]["managedFields"].as_array().ok_or("there are no managed fields")?;
    let managers: Vec<_> = entries.iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(managers, ["kubectl-last-applied", "kubectl"], "{stored}");
    Ok(())
}

async fn unknown_fields(k: Kubectl) -> Result {
    let mut map = deployment("d");
    map["spec"]["replicaz"] = json!(2);
    let complaint = k.feed("apply -f -", &map.to_string()).await?.fails();
    assert!(complaint.contains("strict decoding error: unknown field \"spec.replicaz\""), "{complaint}");
    let said = k.feed("apply --validate=warn -f -", &map.to_string()).await?;
    assert_eq!(said.stderr, "Warning: unknown field \"spec.replicaz\"\n");
    assert_eq!(said.ok(), "deployment.apps/d created\n");
    let said = k.feed("apply --validate=ignore -f -", &map.to_string()).await?;
    assert_eq!(said.stderr, "");
    let complaint = k.feed("apply --server-side -f -", &map.to_string()).await?.fails();
    assert!(complaint.contains(".spec.replicaz: field not declared in schema"), "{complaint}");
    Ok(())
}

async fn what_cannot_be_changed(k: Kubectl) -> Result {
    k.ok_with("apply -f -", &deployment("d").to_string()).await?;
    let mut other = deployment("d");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let complaint = k.feed("apply -f -", &other.to_string()).await?.fails();
    assert!(
        complaint.starts_with("The Deployment \"d\" is invalid: spec.selector: Invalid value: ")
            && complaint.trim_end().ends_with("field is immutable"),
        "{complaint}"
    );
    let said = k.ok_with("apply --force -f -", &other.to_string()).await?;
    assert_eq!(said, "deployment.apps/d configured\n");
    assert_eq!(k.ok("get deploy d -o jsonpath={.spec.selector.matchLabels.app}").await?, "other");
    Ok(())
}

async fn diff(k: Kubectl) -> Result {
    let map = config_map("a", "1").to_string();
    let said = k.feed("diff -f -", &map).await?;
    assert!(!said.success && said.stdout.contains("+  key: \"1\""), "{said:?}");
    k.ok_with("apply -f -", &map).await?;
    assert_eq!(k.ok_with("diff -f -", &map).await?, "");
    let said = k.feed("diff -f -", &config_map("a", "2").to_string()).await?;
    assert!(!said.success && said.stdout.contains("-  key: \"1\"\n+  key: \"2\"\n"), "{said:?}");
    k.ok_with("apply -f -", &deployment("d").to_string()).await?;
    // Defaults and what the server keeps by itself are no difference.
    assert_eq!(k.ok_with("diff -f -", &deployment("d").to_string()).await?, "");
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": value}});
    k.ok_with("apply -f -", &secret("one").to_string()).await?;
    let said = k.feed("diff -f -", &secret("two").to_string()).await?;
    assert!(said.stdout.contains("+  a: '*** (after)'"), "{said:?}");
    Ok(())
}

async fn diff_server_side(k: Kubectl) -> Result {
    k.ok_with("apply --server-side -f -", &config_map("a", "1").to_string()).await?;
    assert_eq!(k.ok_with("diff --server-side -f -", &config_map("a", "1").to_string()).await?, "");
    let said = k.feed("diff --server-side -f -", &config_map("a", "2").to_string()).await?;
    assert!(!said.success && said.stdout.contains("+  key: \"2\""), "{said:?}");
    let complaint = k
        .feed("diff --server-side --field-manager=two -f -", &config_map("a", "2").to_string())
        .await?
        .fails();
    assert!(complaint.contains("conflict with \"kubectl\": .data.key"), "{complaint}");
    Ok(())
}

async fn kustomize(k: Kubectl) -> Result {
    k.file("base/kustomization.yaml", "resources: [deployment.yaml]\nnamePrefix: my-\nlabels:\n- pairs: {team: blue}\n  includeSelectors: false\nconfigMapGenerator:\n- name: settings\n  literals: [colour=red]\nimages:\n- name: example.com/image\n  newTag: '7'\n")?;
    k.file("base/deployment.yaml", &deployment("d").to_string())?;
    let said = k.ok("apply -k base").await?;
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("configmap/my-settings-") && lines[0].ends_with(" created"), "{said}");
    assert_eq!(lines[1], "deployment.apps/my-d created");
    assert_eq!(
        k.ok("get deploy my-d -o jsonpath={.spec.template.spec.containers[0].image}").await?,
        "example.com/image:7"
    );
    assert_eq!(k.ok("diff -k base").await?, "");
    assert_eq!(k.ok("get -k base -o name").await?.lines().count(), 2);
    k.ok("delete -k base").await?;
    k.fails("get deploy my-d").await?;
    Ok(())
}

async fn custom_resources_are_merged(k: Kubectl) -> Result {
    let group = &k.cx.group;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("racks.{group}")},
        "spec": {
            "group": group, "scope": "Cluster", "names": {"plural": "racks", "kind": "Rack"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {
                    "type": "object", "required": ["rows"],
                    "properties": {
                        "rows": {"type": "integer", "minimum": 1},
                        "tags": {"type": "array", "items": {"type": "string"}},
                        "colour": {"type": "string", "default": "grey"},
                    },
                }},
            }}}],
        },
    });
    k.ok_with("apply -f -", &definition.to_string()).await?;
    assert_eq!(
        k.ok_with("apply -f -", &definition.to_string()).await?,
        format!("customresourcedefinition.apiextensions.k8s.io/racks.{group} unchanged\n")
    );
    k.ok(&format!("wait --for=condition=established crd/racks.{group} --timeout=60s")).await?;
    let rack = |spec: Value| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "Rack", "metadata": {"name": k.cx.unique}, "spec": spec}).to_string()
    };
    let name = format!("rack.{group}/{}", k.cx.unique);
    let first = rack(json!({"rows": 2, "tags": ["a", "b"]}));
    assert_eq!(k.ok_with("apply -f -", &first).await?, format!("{name} created\n"));
    assert_eq!(k.ok_with("apply -f -", &first).await?, format!("{name} unchanged\n"));
    assert_eq!(
        k.ok_with("apply -f -", &rack(json!({"rows": 2, "tags": ["c"]}))).await?,
        format!("{name} configured\n")
    );
    let stored = k.json(&format!("get {name}")).await?;
    assert_eq!(stored["spec"], json!({"rows": 2, "tags": ["c"], "colour": "grey"}));
    let complaint = k.feed("apply -f -", &rack(json!({"rows": 0, "tags": "x"}))).await?.fails();
    assert!(complaint.contains(&format!("The Rack \"{}\" is invalid", k.cx.unique)), "{complaint}");
    assert!(
        complaint
            .contains("spec.rows: Invalid value: 0: spec.rows in body should be greater than or equal to 1"),
        "{complaint}"
    );
    let complaint = k.feed("apply -f -", &rack(json!({"rows": 1, "rowz": 1}))).await?.fails();
    assert!(complaint.contains("strict decoding error: unknown field \"spec.rowz\""), "{complaint}");
    k.ok(&format!("delete crd racks.{group}")).await?;
    Ok(())
}

async fn bad_input(k: Kubectl) -> Result {
    let complaint = k.feed("apply -f -", "not: [an object").await?.fails();
    assert!(complaint.contains("error"), "{complaint}");
    let complaint =
        k.feed("apply -f -", "apiVersion: v1\nkind: Nonsense\nmetadata: {name: a}\n").await?.fails();
    assert!(complaint.contains("no matches for kind \"Nonsense\" in version \"v1\""), "{complaint}");
    let complaint = k
        .feed("apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n")
        .await?
        .fails();
    assert!(complaint.contains("The ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\": a lowercase RFC 1123 subdomain"), "{complaint}");
    let complaint = k.feed("apply -f -", "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n").await?.fails();
    assert!(complaint.contains("resource name may not be empty"), "{complaint}");
    let complaint = k
        .feed("apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: elsewhere}\n")
        .await?
        .fails();
    assert!(
        complaint
            .contains("the namespace from the provided object \"elsewhere\" does not match the namespace"),
        "{complaint}"
    );
    let complaint = k
        .feed("apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n")
        .await?
        .fails();
    assert!(
        complaint.contains("cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        "{complaint}"
    );
    Ok(())
}
