//! Admission policies that change what they see.

use serde_json::{Value, json};

use super::policies::{REGISTRATION, binding, policy, until};
use crate::context::{Cx, config_map, deployment};
use crate::support::Result;
use crate::support::json::has;

scenarios![
    mutation_by_apply_configuration,
    mutation_by_json_patch,
    mutation_with_parameters,
    mutation_before_validation,
];

/// Creates a mutating policy and its binding.
async fn mutate(cx: &Cx, spec: &Value, bound: &Value) -> Result {
    for kind in ["policies", "policybindings"] {
        cx.delete_at_the_end(format!("{REGISTRATION}/mutatingadmission{kind}/{}", cx.unique));
    }
    let mut spec = spec.clone();
    spec["reinvocationPolicy"] = "Never".into();
    cx.create(
        format!("{REGISTRATION}/mutatingadmissionpolicies"),
        &policy(cx, "MutatingAdmissionPolicy", &spec),
    )
    .await?;
    cx.create(
        format!("{REGISTRATION}/mutatingadmissionpolicybindings"),
        &binding(cx, "MutatingAdmissionPolicyBinding", bound),
    )
    .await?;
    Ok(())
}

/// Waits until ConfigMaps are mutated, and gives one.
async fn until_mutated(cx: &Cx, key: &str) -> Result<Value> {
    until(cx, &cx.core("configmaps"), &config_map("probe", "1"), |_, object| !object["data"][key].is_null())
        .await
}

async fn mutation_by_apply_configuration(cx: Cx) -> Result {
    let rules = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
        "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}, data: {'added': object.metadata.name \
            + '!'}}"}}]});
    mutate(&cx, &rules, &json!({})).await?;
    let mutated = until_mutated(&cx, "added").await?;
    has(
        &mutated,
        &json!({"data": {"key": "1", "added": "probe!"}, "metadata": {"labels": {"mutated": "yes"}}}),
    );
    Ok(())
}

async fn mutation_by_json_patch(cx: Cx) -> Result {
    let expression = "[JSONPatch{op: 'test', path: '/data/key', value: '1'},
        JSONPatch{op: 'add', path: '/data/added', value: 'y'},
        JSONPatch{op: 'add', path: '/metadata/annotations', value: {}},
        JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/x'), value: \
        'z'}]";
    let rules = json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]});
    mutate(&cx, &rules, &json!({})).await?;
    let mutated = until_mutated(&cx, "added").await?;
    has(&mutated, &json!({"data": {"added": "y"}, "metadata": {"annotations": {"example.com/x": "z"}}}));
    Ok(())
}

async fn mutation_with_parameters(cx: Cx) -> Result {
    let rules = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "mutations": [{"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{data: {'added': params.data.value}}"}}]});
    cx.create(
        cx.core("secrets"),
        &json!({"metadata": {"name": "p"}, "stringData": {"value": "from the parameter"}}),
    )
    .await?;
    mutate(
        &cx,
        &rules,
        &json!({"paramRef": {"name": "p", "namespace": cx.ns, "parameterNotFoundAction": "Deny"}}),
    )
    .await?;
    let mutated = until_mutated(&cx, "added").await;
    // Bytes are what they are in JSON.
    has(&mutated?, &json!({"data": {"added": "ZnJvbSB0aGUgcGFyYW1ldGVy"}}));
    Ok(())
}

async fn mutation_before_validation(cx: Cx) -> Result {
    let rules = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
        "Object{spec: Object.spec{replicas: 7}}"}}], "matchConstraints": {"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["deployments"]}]}});
    mutate(&cx, &rules, &json!({})).await?;
    let path = cx.apis("apps/v1", "deployments");
    let mutated = until(&cx, &path, &deployment("a"), |_, object| object["spec"]["replicas"] == 7).await?;
    has(&mutated, &json!({"spec": {"replicas": 7, "revisionHistoryLimit": 10}}));
    Ok(())
}
