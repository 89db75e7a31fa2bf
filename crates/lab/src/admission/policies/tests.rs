use serde_json::{Value, json};

use super::super::testing::{admission, attributes, creation, shop};
use crate::names::{GroupResource, Gvk};
use crate::reader::Fixture;

fn of(resource: &str) -> GroupResource {
    GroupResource::new("admissionregistration.k8s.io", resource)
}

/// A validating policy about config maps with more in its spec, and a binding with more in its own.
fn validating(spec: &Value, binding: &Value) -> Fixture {
    let mut policy = json!({
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [
            {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
        ]}},
    });
    json_patch::merge(&mut policy["spec"], spec);
    let mut bound =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    json_patch::merge(&mut bound["spec"], binding);
    shop()
        .with(of("validatingadmissionpolicies"), policy)
        .with(of("validatingadmissionpolicybindings"), bound)
}

fn map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1", "namespace": "shop"},
           "data": {"a": "1", "b": "2"}})
}

async fn validated(objects: Fixture) -> Result<Vec<String>, Value> {
    let attributes = attributes("", "v1", "configmaps");
    let kind = Gvk::new("", "v1", "ConfigMap");
    admission(objects)
        .validate(&creation(&attributes, &kind, map()))
        .await
        .map_err(|status| status.to_value())
}

async fn mutated(mutation: &Value) -> Result<Value, Value> {
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
            ]},
            "mutations": [mutation],
        },
    });
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
    let objects = shop()
        .with(of("mutatingadmissionpolicies"), policy)
        .with(of("mutatingadmissionpolicybindings"), binding);
    let attributes = attributes("", "v1", "configmaps");
    let kind = Gvk::new("", "v1", "ConfigMap");
    let mut review = creation(&attributes, &kind, map());
    admission(objects).mutate(&mut review).await.map_err(|status| status.to_value())?;
    Ok(review.object.unwrap())
}

fn applying(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patching(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

#[tokio::test]
async fn a_denial_is_that_of_the_real_server() {
    let spec = json!({"validations": [{"expression": "object.metadata.name == 'x'"}]});
    let told = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: \
                object.metadata.name == 'x'";
    assert_eq!(
        validated(validating(&spec, &json!({}))).await.unwrap_err(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422,
            "message": format!("configmaps \"c1\" is forbidden: {told}"),
            "details": {"name": "c1", "kind": "configmaps", "causes": [{"message": told}]},
        })
    );
    let spec = json!({"validations": [
        {"expression": "true"},
        {"expression": "object.metadata.name == 'x'", "message": " hello ", "reason": "Forbidden"},
        {"expression": "false"},
    ]});
    let refusal = validated(validating(&spec, &json!({}))).await.unwrap_err();
    assert_eq!((&refusal["code"], &refusal["reason"]), (&json!(403), &json!("Forbidden")));
    assert!(refusal["message"].as_str().unwrap().ends_with("denied request: hello"));
}

#[tokio::test]
async fn warnings_are_made_of_what_expressions_say() {
    let spec = json!({"validations": [{"expression": "false", "messageExpression": "'name ' + object.metadata.name"}]});
    let warnings =
        validated(validating(&spec, &json!({"validationActions": ["Warn", "Audit"]}))).await.unwrap();
    assert_eq!(warnings, ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': name c1"]);
}

#[tokio::test]
async fn failures_of_expressions_are_told_like_by_the_real_server() {
    for (spec, why) in [
        (
            json!({"validations": [{"expression": "object.nope.foo == 'x'"}]}),
            "expression 'object.nope.foo == 'x'' resulted in error: no such key: nope",
        ),
        (
            json!({
                "variables": [{"name": "foo", "expression": "object.nope.foo"}],
                "validations": [{"expression": "variables.foo == 'x'"}],
            }),
            "expression 'variables.foo == 'x'' resulted in error: composited variable \"foo\" fails to evaluate: no \
             such key: nope",
        ),
        (
            json!({
                "matchConditions": [{"name": "a", "expression": "object.nope.x == 'y'"}],
                "validations": [{"expression": "false"}],
            }),
            "expression 'object.nope.x == 'y'' resulted in error: no such key: nope",
        ),
        (
            json!({"validations": [{"expression": "request.subResource == ''"}]}),
            "expression 'request.subResource == ''' resulted in error: no such key: subResource",
        ),
        (
            json!({"validations": [{"expression": "object.metadata.name > 1"}]}),
            "expression 'object.metadata.name > 1' resulted in error: no such overload",
        ),
    ] {
        let refusal = validated(validating(&spec, &json!({}))).await.unwrap_err();
        let message = refusal["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("denied request: {why}")), "{message}");
        let mut open = spec.clone();
        open["failurePolicy"] = "Ignore".into();
        assert!(validated(validating(&open, &json!({}))).await.is_ok(), "{why}");
    }
}

#[tokio::test]
async fn expressions_know_the_request_its_namespace_and_who_may_do_what() {
    for expression in [
        "request.operation == 'CREATE' && request.userInfo.username == 'alice' && 'devs' in request.userInfo.groups",
        "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap' && !request.dryRun",
        "!has(request.subResource) && has(request.namespace) && request.options.kind == 'CreateOptions'",
        "namespaceObject.metadata.name == 'shop' && oldObject == null",
        "authorizer.group('').resource('pods').namespace('x').check('get').allowed()",
        "authorizer.requestResource.check('delete').allowed() && authorizer.path('/healthz').check('get').allowed()",
        "!authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get').errored()",
        "object.metadata.?labels.?x.orValue('zz') == 'zz'",
        "object.data.all(k, v, v == '1' || k == 'b')",
        "has(variables.big) && variables.big && variables.all.size() == 2",
    ] {
        let spec = json!({
            "variables": [
                {"name": "all", "expression": "object.data.map(key, object.data[key])"},
                {"name": "big", "expression": "variables.all.size() > 1"},
            ],
            "validations": [{"expression": expression}],
        });
        assert_eq!(validated(validating(&spec, &json!({}))).await, Ok(Vec::new()), "{expression}");
    }
}

#[tokio::test]
async fn parameters_are_found_or_missed() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.data.most >= '1'"}],
    });
    let binding = json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    let refusal = validated(validating(&spec, &binding)).await.unwrap_err();
    assert!(refusal["message"].as_str().unwrap().ends_with(
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params found \
         for policy binding with `Deny` parameterNotFoundAction"
    ));
    let limits =
        |most: &str| json!({"metadata": {"name": "limits", "namespace": "shop"}, "data": {"most": most}});
    let with =
        |most: &str| validating(&spec, &binding).with(GroupResource::new("", "configmaps"), limits(most));
    assert!(validated(with("2")).await.is_ok());
    assert!(validated(with("0")).await.is_err());
    let unknown = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Nope"}, "validations": [{"expression": "params.x == 1"}],
    });
    let refusal = validated(validating(&unknown, &binding)).await.unwrap_err();
    assert!(refusal["message"].as_str().unwrap().ends_with(
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced \
         by paramKind: '/v1, Kind=Nope'"
    ));
}

#[tokio::test]
async fn objects_are_applied() {
    let made = mutated(&applying(
        "Object{metadata: Object.metadata{labels: Object.metadata.labels{x: 'y'}, ?annotations: optional.none()}, \
         data: {'c': string(object.data.size())}}",
    ))
    .await
    .unwrap();
    assert_eq!(made["metadata"], json!({"name": "c1", "namespace": "shop", "labels": {"x": "y"}}));
    assert_eq!(made["data"], json!({"a": "1", "b": "2", "c": "2"}));
    let refusal = mutated(&applying("Object{data: Object.metadata{c: '3'}}")).await.unwrap_err();
    let told = "policy 'p' with binding 'b' denied request: type mismatch: unexpected type name \"Object.metadata\", \
                expected \"Object.data\", which matches field name path from root Object type";
    assert_eq!(
        refusal,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 403,
            "message": told, "details": {"name": "c1", "kind": "configmaps", "causes": [{"message": told}]},
        })
    );
}

#[tokio::test]
async fn patches_are_made() {
    let made = mutated(&patching(
        "[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{a: 'b'}}, \
          JSONPatch{op: 'copy', from: '/data/a', path: '/data/' + jsonpatch.escapeKey('x/y')}]",
    ))
    .await
    .unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(made["data"]["x/y"], "1");
    let test =
        "[JSONPatch{op: 'test', path: '/data/a', value: '9'}, JSONPatch{op: 'remove', path: '/data/a'}]";
    assert_eq!(mutated(&patching(test)).await.unwrap(), map());
    let refusal = mutated(&patching("[JSONPatch{op: 'remove', path: '/data/zz'}]")).await.unwrap_err();
    assert_eq!(
        refusal["message"],
        "policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/data/zz': Unable to \
         remove nonexistent key: zz: missing value"
    );
}
