//! Tables and partial objects: the forms kubectl and caches ask for.

use serde_json::{Value, json};

use crate::context::{Cx, deployment, pod};
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text, version};

scenarios![
    list_of_pods,
    rows_of_pods_that_have_ended,
    one_object,
    objects_in_rows,
    columns_of_built_in_kinds,
    kinds_without_columns,
    custom_columns,
    custom_resources_without_columns,
    pages,
    fallback_to_plain_json,
    older_version,
    partial_list,
    partial_object,
    partial_forms_of_writes,
    tables_of_failures,
];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn table(cx: &Cx, path: impl Into<String>) -> Result<Value> {
    let answer = cx.admin.get(path).accept(TABLE).await?;
    assert_eq!(answer.header("content-type"), "application/json");
    let table = answer.ok(200);
    has(&table, &json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"}));
    Ok(table)
}

/// The names of the columns, with a star for those only shown on request.
fn columns(table: &Value) -> Vec<String> {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    columns
        .map(|column| format!("{}{}", text(column, "/name"), if column["priority"] == 0 { "" } else { "*" }))
        .collect()
}

async fn list_of_pods(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    let table = table(&cx, cx.core("pods")).await?;
    assert_eq!(
        columns(&table),
        ["Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"]
    );
    has(
        &table["columnDefinitions"][0],
        &json!({"name": "Name", "type": "string", "format": "name", "priority": 0}),
    );
    assert!(table["columnDefinitions"][0]["description"].is_string());
    let row = &table["rows"][0];
    let cells = row["cells"].as_array().cloned().unwrap_or_default();
    assert_eq!(&cells[..4], &json!(["a", "0/1", "Pending", "0"]).as_array().cloned().unwrap_or_default()[..]);
    assert_eq!(
        &cells[5..],
        &json!(["<none>", "<none>", "<none>", "<none>"]).as_array().cloned().unwrap_or_default()[..]
    );
    has(
        row,
        &json!({"object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "a", "namespace": cx.ns}, "spec": null}}),
    );
    assert!(version(&table) >= version(&row["object"]));
    Ok(())
}

async fn one_object(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let table = table(&cx, cx.core("configmaps/a")).await?;
    assert_eq!(columns(&table), ["Name", "Data", "Age"]);
    has(&table, &json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}));
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[0], &cells[1]), (&json!("a"), &json!(1)));
    let age = text(cells, "/2");
    assert!(age.ends_with('s'), "{age}");
    Ok(())
}

async fn objects_in_rows(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let none = table(&cx, cx.core("configmaps/a?includeObject=None")).await?;
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let whole = table(&cx, cx.core("configmaps/a?includeObject=Object")).await?;
    assert_eq!(whole["rows"][0]["object"], created);
    let metadata = table(&cx, cx.core("configmaps/a?includeObject=Metadata")).await?;
    has(
        &metadata["rows"][0]["object"],
        &json!({"kind": "PartialObjectMetadata", "metadata": created["metadata"]}),
    );
    let answer = cx.admin.get(cx.core("configmaps/a?includeObject=Some")).accept(TABLE).await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn columns_of_built_in_kinds(cx: Cx) -> Result {
    for (path, expected) in [
        (
            cx.apis("apps/v1", "deployments"),
            "Name Ready Up-to-date Available Age Containers* Images* Selector*",
        ),
        (cx.apis("apps/v1", "replicasets"), "Name Desired Current Ready Age Containers* Images* Selector*"),
        (cx.apis("apps/v1", "statefulsets"), "Name Ready Age Containers* Images*"),
        (cx.core("services"), "Name Type Cluster-IP External-IP Port(s) Age Selector*"),
        (cx.core("secrets"), "Name Type Data Age"),
        (cx.core("serviceaccounts"), "Name Age"),
        (
            cx.core("persistentvolumeclaims"),
            "Name Status Volume Capacity Access Modes StorageClass VolumeAttributesClass Age VolumeMode*",
        ),
        (
            cx.core("events"),
            "Last Seen Type Reason Object Subobject* Source* Message First Seen* Count* Name*",
        ),
        ("/api/v1/namespaces".to_owned(), "Name Status Age"),
        (
            "/api/v1/nodes".to_owned(),
            "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* \
                Container-Runtime*",
        ),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(), "Name Created At"),
        (
            cx.apis("rbac.authorization.k8s.io/v1", "rolebindings"),
            "Name Role Age Users* Groups* ServiceAccounts*",
        ),
        (cx.apis("coordination.k8s.io/v1", "leases"), "Name Holder Age"),
        (
            cx.apis("policy/v1", "poddisruptionbudgets"),
            "Name Min Available Max Unavailable Allowed Disruptions Age",
        ),
        (cx.apis("networking.k8s.io/v1", "ingresses"), "Name Class Hosts Address Ports Age"),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            "Name Scope Versions Created At Group* Kind* ShortNames* Established*",
        ),
        (cx.apis("batch/v1", "jobs"), "Name Status Completions Duration Age Containers* Images* Selector*"),
    ] {
        let table = table(&cx, format!("{path}?limit=1")).await?;
        assert_eq!(columns(&table).join(" "), expected, "{path}");
    }
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let table = table(&cx, cx.apis("apps/v1", "deployments")).await?;
    let cells = table["rows"][0]["cells"].as_array().cloned().unwrap_or_default();
    assert_eq!(cells.first(), created.pointer("/metadata/name"));
    assert_eq!(&cells[1..4], &[json!("0/1"), json!(0), json!(0)]);
    assert_eq!(&cells[5..], &[json!("main"), json!("example.com/image:1"), json!("app=a")]);
    Ok(())
}

async fn kinds_without_columns(cx: Cx) -> Result {
    let table = table(&cx, cx.core("limitranges")).await?;
    assert_eq!(columns(&table), ["Name", "Created At"]);
    has(&table["columnDefinitions"][1], &json!({"type": "date"}));
    Ok(())
}

async fn custom_columns(cx: Cx) -> Result {
    let mut crd =
        definition(&cx, &with_spec(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})));
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How big."},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Share", "type": "number", "jsonPath": ".spec.share"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "All", "type": "string", "jsonPath": ".spec.list[*].name"},
        {"name": "Deep", "type": "string", "jsonPath": ".spec.deep"},
    ]);
    establish(&cx, &crd).await?;
    let mut widget = cx.widget("a", &json!({
        "size": 3, "on": true, "share": 1.5, "list": [{"name": "x"}, {"name": "y"}], "deep": {"a": [1, "b"]},
    }));
    widget["status"] =
        json!({"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]});
    cx.create(cx.widgets(), &widget).await?;
    cx.create(cx.widgets(), &cx.widget("b", &json!({"size": "not a number"}))).await?;
    let table = table(&cx, cx.widgets()).await?;
    assert_eq!(columns(&table), ["Name", "Size", "Ready", "First*", "On", "Share", "Age", "All", "Deep"]);
    has(
        &table["columnDefinitions"][1],
        &json!({"type": "integer", "format": "", "description": "How big.", "priority": 0}),
    );
    let row = |number: usize| table["rows"][number]["cells"].as_array().cloned().unwrap_or_default();
    let first = row(0);
    assert_eq!(&first[..6], &[json!("a"), json!(3), json!("True"), json!("x"), json!(true), json!(1.5)]);
    assert!(first[6].as_str().is_some_and(|age| age.ends_with('s')), "{first:?}");
    assert_eq!(first[7], "x");
    assert_eq!(first[8], "{\"a\":[1,\"b\"]}");
    let second = row(1);
    assert_eq!(&second[..6], &[json!("b"), Value::Null, Value::Null, Value::Null, Value::Null, Value::Null]);
    Ok(())
}

async fn custom_resources_without_columns(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let table = table(&cx, cx.widgets()).await?;
    assert_eq!(columns(&table), ["Name", "Age"]);
    has(&table["rows"], &json!([{"object": {"kind": "PartialObjectMetadata"}}]));
    Ok(())
}

async fn pages(cx: Cx) -> Result {
    for name in ["a", "b", "c"] {
        cx.create(cx.core("secrets"), &json!({"metadata": {"name": name}})).await?;
    }
    let first = table(&cx, cx.core("secrets?limit=2")).await?;
    has(&first, &json!({"metadata": {"remainingItemCount": 1}}));
    let path = cx.core(&format!("secrets?limit=2&continue={}", text(&first, "/metadata/continue")));
    let second = table(&cx, path).await?;
    has(&second["rows"], &json!([{"object": {"metadata": {"name": "c"}}}]));
    Ok(())
}

async fn fallback_to_plain_json(cx: Cx) -> Result {
    // kubectl asks for tables first and takes anything in the end.
    let wanted = "application/json;as=Table;v=v9;g=meta.k8s.io,application/json";
    let list = cx.admin.get(cx.core("configmaps")).accept(wanted).await?.ok(200);
    assert_eq!(list["kind"], "ConfigMapList");
    let answer =
        cx.admin.get(cx.core("configmaps")).accept("application/json;as=Table;v=v9;g=meta.k8s.io").await?;
    answer.fails(406, "NotAcceptable");
    Ok(())
}

async fn older_version(cx: Cx) -> Result {
    let wanted = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let table = cx.admin.get(cx.core("configmaps")).accept(wanted).await?.ok(200);
    has(&table, &json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1beta1"}));
    Ok(())
}

async fn partial_list(cx: Cx) -> Result {
    let created =
        cx.create(cx.core("secrets"), &json!({"metadata": {"name": "a", "labels": {"l": "1"}}})).await?;
    let wanted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = cx.admin.get(cx.core("secrets?labelSelector=l")).accept(wanted).await?.ok(200);
    has(&list, &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}));
    assert_eq!(list["items"][0]["metadata"], created["metadata"]);
    has(&list["items"][0], &json!({"type": null, "data": null}));
    Ok(())
}

async fn partial_object(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let wanted = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let object = cx.admin.get(cx.core("configmaps/a")).accept(wanted).await?.ok(200);
    assert_eq!(
        object,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": created["metadata"]})
    );
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let object = cx.admin.get(cx.a_widget("a")).accept(wanted).await?.ok(200);
    has(&object, &json!({"kind": "PartialObjectMetadata", "metadata": {"name": "a"}}));
    Ok(())
}

async fn partial_forms_of_writes(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let wanted = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let patched = cx
        .admin
        .merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"labels": {"x": "y"}}}))
        .accept(wanted)
        .await?
        .ok(200);
    has(
        &patched,
        &json!({"kind": "PartialObjectMetadata", "metadata": {"labels": {"x": "y"}}, "data": null}),
    );
    Ok(())
}

async fn tables_of_failures(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("configmaps/none")).accept(TABLE).await?;
    answer.fails(404, "NotFound");
    Ok(())
}

async fn rows_of_pods_that_have_ended(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    for (name, phase) in [("a", "Succeeded"), ("b", "Failed"), ("c", "Running")] {
        cx.create(cx.core("pods"), &pod(name)).await?;
        let path = cx.core(&format!("pods/{name}/status"));
        cx.admin.merge_patch(path, &json!({"status": {"phase": phase}})).await?.ok(200);
    }
    let table = table(&cx, cx.core("pods")).await?;
    let condition = |reason: &str, message: &str| json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]);
    assert_eq!(table["rows"][0]["conditions"], condition("Succeeded", "The pod has completed successfully."));
    assert_eq!(table["rows"][1]["conditions"], condition("Failed", "The pod failed."));
    assert!(table["rows"][2].get("conditions").is_none());
    Ok(())
}
