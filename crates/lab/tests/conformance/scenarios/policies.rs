//! Admission policies: CEL instead of webhooks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::{Cx, config_map};
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    denial,
    messages_and_reasons,
    what_expressions_see,
    variables,
    parameters,
    parameters_of_a_custom_kind,
    missing_parameters,
    parameters_by_selector,
    warning_instead_of_denial,
    match_conditions,
    bindings_choose_namespaces,
    excluded_resources,
    rights_in_expressions,
    failing_expressions,
    broken_policies,
    type_checking,
    no_binding_no_effect,
    custom_resources,
    deletions,
];

pub(super) const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy about creating and changing ConfigMaps.
pub(super) fn policy(cx: &Cx, kind: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": cx.unique},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"]},
        ]}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    // What is wrong with a policy itself is everybody's trouble whom it matches, whatever it is bound to.
    if object["spec"]["matchConstraints"]["namespaceSelector"].is_null() {
        object["spec"]["matchConstraints"]["namespaceSelector"] =
            json!({"matchLabels": {"kubernetes.io/metadata.name": cx.ns}});
    }
    object
}

/// A binding of the scenario's policy to its namespace.
pub(super) fn binding(cx: &Cx, kind: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": cx.unique},
        "spec": {"policyName": cx.unique, "matchResources": {"namespaceSelector":
            {"matchLabels": {"kubernetes.io/metadata.name": cx.ns}}}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// Creates a validating policy and its binding.
async fn validate(cx: &Cx, spec: &Value, bound: &Value) -> Result {
    cx.create(
        format!("{REGISTRATION}/validatingadmissionpolicies"),
        &policy(cx, "ValidatingAdmissionPolicy", spec),
    )
    .await?;
    for kind in ["policies", "policybindings"] {
        cx.delete_at_the_end(format!("{REGISTRATION}/validatingadmission{kind}/{}", cx.unique));
    }
    let mut bound = bound.clone();
    if bound["validationActions"].is_null() {
        bound["validationActions"] = json!(["Deny"]);
    }
    cx.create(
        format!("{REGISTRATION}/validatingadmissionpolicybindings"),
        &binding(cx, "ValidatingAdmissionPolicyBinding", &bound),
    )
    .await?;
    Ok(())
}

/// Tries to create an object until the answer is as it has to be.
pub(super) async fn until(
    cx: &Cx,
    collection: &str,
    object: &Value,
    holds: impl Fn(u16, &Value) -> bool,
) -> Result<Value> {
    let mut last = Value::Null;
    for _ in 0..400 {
        let answer = cx.admin.post(format!("{collection}?dryRun=All"), object).await?;
        last = answer.json();
        if holds(answer.status, &last) {
            return Ok(last);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("the policy never has its effect: {last}").into())
}

/// Waits until ConfigMaps with this value are refused.
async fn until_refused(cx: &Cx, value: &str) -> Result<Value> {
    until(cx, &cx.core("configmaps"), &config_map("probe", value), |status, _| status >= 400).await
}

async fn denial(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "object.data.key != 'bad'"}]});
    validate(&cx, &rules, &json!({})).await?;
    let status = until_refused(&cx, "bad").await?;
    has(
        &status,
        &json!({"code": 422, "reason": "Invalid", "message": format!(
        "configmaps \"probe\" is forbidden: ValidatingAdmissionPolicy '{0}' with binding '{0}' denied \
            request: \
         failed expression: object.data.key != 'bad'", cx.unique),
        "details": {"name": "probe", "kind": "configmaps", "causes": [{"message": format!(
            "ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: failed expression: \
                object.data.key != 'bad'", cx.unique)}]}}),
    );
    cx.config_map("a", "good").await?;
    cx.admin
        .merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "bad"}}))
        .await?
        .fails(422, "Invalid");
    Ok(())
}

async fn messages_and_reasons(cx: Cx) -> Result {
    let rules = json!({"validations": [
        {"expression": "object.data.key != 'one'", "message": "never one", "reason": "Forbidden"},
        {"expression": "object.data.key != 'two'", "messageExpression": "'not ' + object.data.key + ' in ' \
            + object.metadata.namespace"},
        {"expression": "object.data.key != 'three'", "reason": "RequestEntityTooLarge"},
    ]});
    validate(&cx, &rules, &json!({})).await?;
    let status = until_refused(&cx, "one").await?;
    has(&status, &json!({"code": 403, "reason": "Forbidden"}));
    assert!(text(&status, "/message").ends_with("denied request: never one"), "{status}");
    let status = until_refused(&cx, "two").await?;
    assert!(
        text(&status, "/message").ends_with(&format!("denied request: not two in {}", cx.ns)),
        "{status}"
    );
    has(&until_refused(&cx, "three").await?, &json!({"code": 413, "reason": "RequestEntityTooLarge"}));
    Ok(())
}

async fn what_expressions_see(cx: Cx) -> Result {
    let expressions = [
        "request.operation in ['CREATE', 'UPDATE'] && request.kind.kind == 'ConfigMap'".to_owned(),
        format!("request.namespace == '{0}' && namespaceObject.metadata.name == '{0}'", cx.ns),
        "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups".to_owned(),
        "(request.operation == 'CREATE') == (oldObject == null)".to_owned(),
        "request.resource.resource == 'configmaps' && object.metadata.name == request.name".to_owned(),
        "oldObject == null || object.data.key != oldObject.data.key || object.data.key == 'same'".to_owned(),
    ];
    let mut validations: Vec<Value> = expressions.iter().map(|rule| json!({"expression": rule})).collect();
    validations.push(json!({"expression": "object.data.key != 'bad'"}));
    validate(&cx, &json!({"validations": validations}), &json!({})).await?;
    until_refused(&cx, "bad").await?;
    cx.config_map("a", "1").await?;
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "2"}})).await?.ok(200);
    let answer = cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": {"other": "2"}})).await?;
    answer.fails(422, "Invalid");
    Ok(())
}

async fn variables(cx: Cx) -> Result {
    let rules = json!({
        "variables": [{"name": "value", "expression": "'key' in object.data ? object.data.key : 'none'"},
            {"name": "long", "expression": "size(variables.value) > 3"}],
        "validations": [{"expression": "!variables.long", "messageExpression": "variables.value + ' is too \
            long'"}],
    });
    validate(&cx, &rules, &json!({})).await?;
    let status = until_refused(&cx, "abcdef").await?;
    assert!(text(&status, "/message").ends_with("denied request: abcdef is too long"), "{status}");
    Ok(())
}

async fn parameters(cx: Cx) -> Result {
    let rules = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.metadata.name == params.metadata.name || object.data.key != \
            params.data.forbidden"}]});
    let mut parameter = config_map("parameter", "x");
    parameter["data"]["forbidden"] = "bad".into();
    cx.create(cx.core("configmaps"), &parameter).await?;
    validate(
        &cx,
        &rules,
        &json!({"paramRef": {"name": "parameter", "namespace": cx.ns, "parameterNotFoundAction": "Deny"}}),
    )
    .await?;
    until_refused(&cx, "bad").await?;
    cx.config_map("a", "good").await?;
    // The parameter can change at any time.
    cx.admin
        .merge_patch(cx.core("configmaps/parameter"), &json!({"data": {"forbidden": "good"}}))
        .await?
        .ok(200);
    until_refused(&cx, "good").await?;
    Ok(())
}

async fn parameters_of_a_custom_kind(cx: Cx) -> Result {
    establish(
        &cx,
        &definition(&cx, &with_spec(&json!({"type": "object", "properties": {"max": {"type": "integer"}}}))),
    )
    .await?;
    cx.create(cx.widgets(), &cx.widget("limits", &json!({"max": 3}))).await?;
    let rules = json!({"paramKind": {"apiVersion": format!("{}/v1", cx.group), "kind": "Widget"},
        "validations": [{"expression": "size(object.data.key) <= params.spec.max",
        "messageExpression": "'at most ' + string(params.spec.max)"}]});
    validate(
        &cx,
        &rules,
        &json!({"paramRef": {"name": "limits", "namespace": cx.ns, "parameterNotFoundAction": "Deny"}}),
    )
    .await?;
    let status = until(&cx, &cx.core("configmaps"), &config_map("probe", "abcdef"), |_, status| {
        text(status, "/message").ends_with("denied request: at most 3")
    })
    .await?;
    has(&status, &json!({"reason": "Invalid"}));
    cx.config_map("a", "abc").await?;
    Ok(())
}

async fn missing_parameters(cx: Cx) -> Result {
    let rules =
        json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "validations": [{"expression": "true"}]});
    validate(
        &cx,
        &rules,
        &json!({"paramRef": {"name": "none", "namespace": cx.ns, "parameterNotFoundAction": "Deny"}}),
    )
    .await?;
    let status = until_refused(&cx, "any").await?;
    assert!(
        text(&status, "/message")
            .contains("no params found for policy binding with `Deny` parameterNotFoundAction"),
        "{status}"
    );
    Ok(())
}

async fn parameters_by_selector(cx: Cx) -> Result {
    for (name, forbidden) in [("one", "bad"), ("two", "worse")] {
        let secret = json!({"metadata": {"name": name, "labels": {"limits": "yes"},
            "annotations": {"forbidden": forbidden}}});
        cx.create(cx.core("secrets"), &secret).await?;
    }
    // Every selected parameter has its say.
    let rules = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "object.data.key != params.metadata.annotations.forbidden"}]});
    let bound = json!({"paramRef": {"selector": {"matchLabels": {"limits": "yes"}},
        "parameterNotFoundAction": "Allow"}});
    validate(&cx, &rules, &bound).await?;
    until_refused(&cx, "bad").await?;
    until_refused(&cx, "worse").await?;
    cx.config_map("a", "good").await?;
    Ok(())
}

async fn warning_instead_of_denial(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "object.data.key != 'bad'", "message": "not nice"}]});
    validate(&cx, &rules, &json!({"validationActions": ["Warn", "Audit"]})).await?;
    for attempt in 0.. {
        let answer = cx.admin.post(cx.core("configmaps?dryRun=All"), &config_map("probe", "bad")).await?;
        answer.ok(201);
        let warnings = answer.warnings();
        if !warnings.is_empty() {
            assert_eq!(
                warnings,
                [format!(
                    "Validation failed for ValidatingAdmissionPolicy '{0}' with binding '{0}': not nice",
                    cx.unique
                )]
            );
            break;
        }
        assert!(attempt < 400, "no warning ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn match_conditions(cx: Cx) -> Result {
    let rules = json!({"matchConditions": [{"name": "ours",
        "expression": "object.metadata.name.startsWith('probe')"}],
        "validations": [{"expression": "false", "message": "never"}]});
    validate(&cx, &rules, &json!({})).await?;
    until_refused(&cx, "any").await?;
    cx.config_map("other", "1").await?;
    Ok(())
}

async fn bindings_choose_namespaces(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "false", "message": "never"}]});
    validate(&cx, &rules, &json!({})).await?;
    until_refused(&cx, "any").await?;
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{}-other",
        cx.unique)}});
    cx.create("/api/v1/namespaces", &other).await?;
    cx.create(format!("/api/v1/namespaces/{}-other/configmaps", cx.unique), &config_map("a", "1")).await?;
    Ok(())
}

async fn excluded_resources(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "false", "message": "never"}], "matchConstraints": {
        "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": ["configmaps", "secrets"]}],
        "excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["secrets"]}],
        "objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}}});
    validate(&cx, &rules, &json!({})).await?;
    until_refused(&cx, "any").await?;
    cx.create(cx.core("secrets"), &json!({"metadata": {"name": "a"}})).await?;
    let mut object = config_map("a", "1");
    object["metadata"]["labels"] = json!({"free": "yes"});
    cx.create(cx.core("configmaps"), &object).await?;
    Ok(())
}

async fn rights_in_expressions(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression":
        "authorizer.group('').resource('secrets').namespace(request.namespace).check('list').allowed() && \
            object.data.key != 'bad'",
        "message": "no"}]});
    validate(&cx, &rules, &json!({})).await?;
    until_refused(&cx, "bad").await?;
    cx.config_map("a", "1").await?;
    Ok(())
}

async fn failing_expressions(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "object.data.missing == 'x'"}]});
    validate(&cx, &rules, &json!({})).await?;
    let status = until_refused(&cx, "any").await?;
    assert!(text(&status, "/message").contains("resulted in error: no such key: missing"), "{status}");
    has(&status, &json!({"reason": "Invalid"}));
    let path = format!("{REGISTRATION}/validatingadmissionpolicies/{}", cx.unique);
    cx.admin.merge_patch(path, &json!({"spec": {"failurePolicy": "Ignore"}})).await?.ok(200);
    until(&cx, &cx.core("configmaps"), &config_map("probe", "any"), |status, _| status == 201).await?;
    Ok(())
}

async fn broken_policies(cx: Cx) -> Result {
    for (spec, field) in [
        (json!({"validations": [{"expression": "object.x ="}]}), "spec.validations[0].expression"),
        (json!({"validations": [{"expression": "1 + 1"}]}), "spec.validations[0].expression"),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "1"}]}),
            "spec.validations[0].messageExpression",
        ),
        (json!({"validations": [{"expression": "params.x == 1"}]}), "spec.validations[0].expression"),
        (
            json!({"variables": [{"name": "a", "expression": "variables.b"}],
                "validations": [{"expression": "true"}]}),
            "spec.variables[0].expression",
        ),
    ] {
        let path = format!("{REGISTRATION}/validatingadmissionpolicies?dryRun=All");
        let status = cx
            .admin
            .post(path, &policy(&cx, "ValidatingAdmissionPolicy", &spec))
            .await?
            .fails(422, "Invalid");
        has(&status, &json!({"details": {"causes": [{"field": field}]}}));
    }
    let path = format!("{REGISTRATION}/validatingadmissionpolicies?dryRun=All");
    let status = cx
        .admin
        .post(path, &policy(&cx, "ValidatingAdmissionPolicy", &json!({})))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.validations"}, {"field": "spec.auditAnnotations"}]}}),
    );
    let path = format!("{REGISTRATION}/validatingadmissionpolicybindings?dryRun=All");
    let bound =
        binding(&cx, "ValidatingAdmissionPolicyBinding", &json!({"validationActions": ["Deny", "Warn"]}));
    cx.admin.post(path, &bound).await?.fails(422, "Invalid");
    Ok(())
}

async fn type_checking(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "object.spec.replicas > 'text'"}],
        "matchConstraints": {"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["deployments"]}]}});
    let path = format!("{REGISTRATION}/validatingadmissionpolicies");
    cx.create(path.as_str(), &policy(&cx, "ValidatingAdmissionPolicy", &rules)).await?;
    let checked = cx
        .until(format!("{path}/{}", cx.unique), "the types are checked", |_, policy| {
            policy["status"]["observedGeneration"] == 1
        })
        .await?;
    has(
        &checked["status"]["typeChecking"],
        &json!({"expressionWarnings": [{"fieldRef": "spec.validations[0].expression"}]}),
    );
    let warning = text(&checked["status"], "/typeChecking/expressionWarnings/0/warning");
    assert!(
        warning.starts_with(
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_'"
        ),
        "{warning}"
    );
    Ok(())
}

async fn no_binding_no_effect(cx: Cx) -> Result {
    let path = format!("{REGISTRATION}/validatingadmissionpolicies");
    let rules = json!({"validations": [{"expression": "false"}]});
    cx.create(path, &policy(&cx, "ValidatingAdmissionPolicy", &rules)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cx.config_map("a", "1").await?;
    Ok(())
}

async fn custom_resources(cx: Cx) -> Result {
    establish(
        &cx,
        &definition(&cx, &with_spec(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}))),
    )
    .await?;
    let rules = json!({"validations": [{"expression": "object.spec.n < 5"}],
        "matchConstraints": {"resourceRules": [
        {"apiGroups": [cx.group], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}});
    validate(&cx, &rules, &json!({})).await?;
    until(&cx, &cx.widgets(), &cx.widget("probe", &json!({"n": 7})), |status, _| status == 422).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 3}))).await?;
    Ok(())
}

async fn deletions(cx: Cx) -> Result {
    let rules = json!({"validations": [{"expression": "object == null && oldObject.data.key != 'keep'",
        "message": "keep it"}],
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["DELETE"], "resources": ["configmaps"]}]}});
    cx.config_map("a", "keep").await?;
    cx.config_map("b", "1").await?;
    validate(&cx, &rules, &json!({})).await?;
    for attempt in 0.. {
        if cx.admin.delete(cx.core("configmaps/a?dryRun=All")).await?.status == 422 {
            break;
        }
        assert!(attempt < 400, "the policy never has its effect");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cx.admin.delete(cx.core("configmaps/b")).await?.ok(200);
    Ok(())
}
