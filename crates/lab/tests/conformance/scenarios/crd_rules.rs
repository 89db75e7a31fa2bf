//! Rules of custom resources in CEL.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{DEFINITIONS, definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    rule_of_a_value,
    rule_of_an_object,
    message_expressions,
    reasons_and_field_paths,
    transition_rules,
    transition_rules_with_optional_old_self,
    rules_inside_lists,
    standard_library,
    kubernetes_library,
    rules_about_metadata,
    broken_rules_are_refused,
    expensive_rules_are_refused,
    several_rules_fail,
    rules_on_status,
    ratcheting_of_rules,
    immutable_after_set,
    failing_evaluation,
];

async fn with_rules(cx: &Cx, spec: &Value) -> Result {
    let mut crd = definition(cx, &with_spec(spec));
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    establish(cx, &crd).await.map(drop)
}

/// The causes of a refusal.
fn causes(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| format!("{}: {}", text(cause, "/field"), text(cause, "/message"))).collect()
}

async fn rule_of_a_value(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"n": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}]},
        "m": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3"}]}}}),
    )
    .await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 4, "m": 4}))).await?;
    let status = cx.admin.post(cx.widgets(), &cx.widget("b", &json!({"n": 3}))).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({
            "message": format!("Widget.{} \"b\" is invalid: spec.n: Invalid value: 3: must be even",
                cx.group),
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "spec.n",
            "message": "Invalid value: 3: must be even"}]},
        }),
    );
    let status = cx.admin.post(cx.widgets(), &cx.widget("b", &json!({"m": 3}))).await?.fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec.m: Invalid value: 3: failed rule: self > 3"]);
    Ok(())
}

async fn rule_of_an_object(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
            "message": "min must not exceed max"}]}),
    )
    .await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"min": 5}))).await?;
    let status = cx
        .admin
        .post(cx.widgets(), &cx.widget("b", &json!({"min": 5, "max": 1})))
        .await?
        .fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec: Invalid value: min must not exceed max"]);
    Ok(())
}

async fn message_expressions(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"n": {"type": "string", "maxLength": 10,
        "x-kubernetes-validations": [
        {"rule": "self != 'no'", "messageExpression": "'got ' + self + ', wanted something else'",
            "message": "fallback"}]}}}),
    )
    .await?;
    let status =
        cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"n": "no"}))).await?.fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec.n: Invalid value: \"no\": got no, wanted something else"]);
    Ok(())
}

async fn reasons_and_field_paths(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"a": {"type": "string"},
        "b": {"type": "string"}, "c": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "has(self.a)", "message": "say a", "reason": "FieldValueRequired", "fieldPath": ".a"},
            {"rule": "!has(self.b)", "message": "never say b", "reason": "FieldValueForbidden",
            "fieldPath": ".b"},
            {"rule": "!has(self.c) || self.c != 'twice'", "reason": "FieldValueDuplicate", "fieldPath": ".c"},
        ]}),
    )
    .await?;
    let status = cx
        .admin
        .post(cx.widgets(), &cx.widget("a", &json!({"b": "x", "c": "twice"})))
        .await?
        .fails(422, "Invalid");
    has(
        &status["details"],
        &json!({"causes": [
            {"reason": "FieldValueRequired", "field": "spec.a", "message": "Required value: say a"},
            {"reason": "FieldValueForbidden", "field": "spec.b", "message": "Forbidden: never say b"},
            {"reason": "FieldValueDuplicate", "field": "spec.c"},
        ]}),
    );
    Ok(())
}

async fn transition_rules(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {
        "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf",
            "message": "must not shrink"}]},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf",
        "message": "is immutable"}]}}}),
    )
    .await?;
    // There is no old value on creation, so the rules say nothing.
    cx.create(cx.widgets(), &cx.widget("a", &json!({"size": 5, "fixed": "x"}))).await?;
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"size": 6}})).await?.ok(200);
    let status = cx
        .admin
        .merge_patch(cx.a_widget("a"), &json!({"spec": {"size": 3, "fixed": "y"}}))
        .await?
        .fails(422, "Invalid");
    let mut said = causes(&status);
    said.sort();
    assert_eq!(
        said,
        ["spec.fixed: Invalid value: \"y\": is immutable", "spec.size: Invalid value: 3: must not shrink"]
    );
    // Removing the field removes the rule's subject.
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"fixed": null}})).await?.ok(200);
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"fixed": "z"}})).await?.ok(200);
    Ok(())
}

async fn transition_rules_with_optional_old_self(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"phase": {"type": "string",
        "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self == 'New'", "message": "must begin as New",
            "optionalOldSelf": true}]}}}),
    )
    .await?;
    let status =
        cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"phase": "Old"}))).await?.fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec.phase: Invalid value: \"Old\": must begin as New"]);
    cx.create(cx.widgets(), &cx.widget("a", &json!({"phase": "New"}))).await?;
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"phase": "Old"}})).await?.ok(200);
    Ok(())
}

async fn rules_inside_lists(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"items": {"type": "array", "maxItems": 10,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-validations": [{"rule": "self.exists(i, i.main)",
        "message": "one must be the main one"}],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 20},
            "main": {"type": "boolean", "default": false},
            "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf",
            "message": "is fixed"}]},
        }, "x-kubernetes-validations": [{"rule": "self.name != 'forbidden'"}]}}}}),
    )
    .await?;
    let item = |name: &str, size: u32| json!({"name": name, "main": true, "size": size});
    let status = cx
        .admin
        .post(cx.widgets(), &cx.widget("a", &json!({"items": [{"name": "x"}]})))
        .await?
        .fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec.items: Invalid value: one must be the main one"]);
    let status = cx
        .admin
        .post(cx.widgets(), &cx.widget("a", &json!({"items": [item("x", 1), item("forbidden", 1)]})))
        .await?
        .fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec.items[1]: Invalid value: failed rule: self.name != 'forbidden'"]);
    cx.create(cx.widgets(), &cx.widget("a", &json!({"items": [item("x", 1), item("y", 2)]}))).await?;
    // Old and new items belong together by their key, wherever they stand.
    let swapped = json!({"spec": {"items": [item("y", 2), item("x", 1)]}});
    cx.admin.merge_patch(cx.a_widget("a"), &swapped).await?.ok(200);
    let changed = json!({"spec": {"items": [item("y", 3), item("x", 1)]}});
    let status = cx.admin.merge_patch(cx.a_widget("a"), &changed).await?.fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec.items[0].size: Invalid value: 3: is fixed"]);
    Ok(())
}

async fn standard_library(cx: Cx) -> Result {
    let rules = [
        "self.s.startsWith('ab') && self.s.endsWith('yz') && self.s.contains('lm') && \
            self.s.matches('^[a-z]+$')",
        "size(self.s) > 4 && self.list.size() == 3",
        "self.list.all(x, x > 0) && self.list.exists_one(x, x == 2) && self.list.filter(x, x > 1).size() == \
            2",
        "self.list.map(x, x * 2)[2] == 6 && 2 in self.list",
        "has(self.map.k) && 'k' in self.map && self.map['k'] == 'v' && self.map.exists(k, k == 'k')",
        "duration('90s') == duration('1m30s') && timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",
        "int('5') + int(2.9) == 7 && double(1) == 1.0 && string(5) == '5' && type(1) == int",
        "(self.n > 3 ? 'big' : 'small') == 'big'",
        "self.n / 2 == 2 && self.n % 2 == 1 && -self.n < 0",
        "b'abc' != b'abd' && bytes('abc') == b'abc'",
    ];
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    with_rules(
        &cx,
        &json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "s": {"type": "string", "maxLength": 20}, "n": {"type": "integer"},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string",
        "maxLength": 5}}}}),
    )
    .await?;
    cx.create(
        cx.widgets(),
        &cx.widget("a", &json!({"s": "abclmxyz", "n": 5, "list": [1, 2, 3], "map": {"k": "v"}})),
    )
    .await?;
    Ok(())
}

async fn kubernetes_library(cx: Cx) -> Result {
    let rules = [
        "isURL(self.url) && url(self.url).getHost() == 'example.com:80' && url(self.url).getScheme() == \
            'https'",
        "self.s.find('[0-9]+') == '123' && self.s.findAll('[0-9]').size() == 3",
        "self.s.lowerAscii() == 'abc123' && self.s.replace('A', 'x') == 'xbC123' && self.s.split('1')[0] == \
            'AbC'",
        "self.s.substring(0, 3) == 'AbC' && self.s.indexOf('C') == 2 && '  x '.trim() == 'x'",
        "'x'.upperAscii() == 'X' && 'abc'.charAt(1) == 'b'",
        "self.list.isSorted() && self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3",
        "self.list.indexOf(2) == 1 && [1, 1, 2].lastIndexOf(1) == 1",
        "quantity('1Ki').isGreaterThan(quantity('1k')) && isQuantity('5Gi') && \
            quantity('2').add(1).asInteger() == 3",
        "isIP('10.0.0.1') && ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "format.dns1123Label().validate(self.s).hasValue()",
        "sets.contains([1, 2, 3], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1])",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0') && semver('1.2.3').minor() == 2",
        "self.?missing.orValue('none') == 'none' && optional.of(1).hasValue()",
    ];
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    with_rules(
        &cx,
        &json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "url": {"type": "string", "maxLength": 50}, "s": {"type": "string", "maxLength": 20},
        "missing": {"type": "string", "maxLength": 5},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}}}}),
    )
    .await?;
    let spec = json!({"url": "https://example.com:80/x", "s": "AbC123", "list": [1, 2, 3]});
    cx.create(cx.widgets(), &cx.widget("a", &spec)).await?;
    Ok(())
}

async fn rules_about_metadata(cx: Cx) -> Result {
    let mut schema = with_spec(&json!({"type": "object", "properties": {"prefix": {"type": "string"}}}));
    schema["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name.startsWith(self.spec.prefix)", "message": "wrong name"}]);
    establish(&cx, &definition(&cx, &schema)).await?;
    cx.create(cx.widgets(), &cx.widget("abc", &json!({"prefix": "ab"}))).await?;
    let status =
        cx.admin.post(cx.widgets(), &cx.widget("xyz", &json!({"prefix": "ab"}))).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"message": format!("Widget.{} \"xyz\" is invalid: <nil>: Invalid value: wrong name",
            cx.group)}),
    );
    Ok(())
}

async fn broken_rules_are_refused(cx: Cx) -> Result {
    for (rule, words) in [
        ("self.missing == 1", "undefined field 'missing'"),
        ("self.n ==", "Syntax error"),
        ("self.n", "must evaluate to a bool"),
        ("self.n == 'text'", "no matching overload for '_==_'"),
        ("unknown(self.n)", "undeclared reference to 'unknown'"),
    ] {
        let schema = with_spec(&json!({"type": "object", "properties": {"n": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": rule}]}));
        let status = cx.admin.post(DEFINITIONS, &definition(&cx, &schema)).await?.fails(422, "Invalid");
        let message = text(&status, "/message");
        assert!(message.contains(words), "{rule}: {message}");
        assert!(message.contains(".properties[spec].x-kubernetes-validations[0].rule"), "{rule}: {message}");
    }
    Ok(())
}

async fn expensive_rules_are_refused(cx: Cx) -> Result {
    let schema =
        with_spec(&json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "array",
            "items": {"type": "string"}}}},
        "x-kubernetes-validations": [{"rule": "self.a.all(x, x.all(y, self.a.all(z, z.all(w, w != y))))"}]}));
    let status = cx.admin.post(DEFINITIONS, &definition(&cx, &schema)).await?.fails(422, "Invalid");
    assert!(text(&status, "/message").contains("estimated rule cost exceeds budget"), "{status}");
    Ok(())
}

async fn several_rules_fail(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"a": {"type": "integer"},
        "b": {"type": "integer", "maximum": 3}},
        "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "first"}, {"rule": "self.a > 2",
        "message": "second"}]}),
    )
    .await?;
    let status = cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"a": 0}))).await?.fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec: Invalid value: first", "spec: Invalid value: second"]);
    // Rules are asked together with the schema as long as the types are right.
    let status =
        cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"a": 2, "b": 9}))).await?.fails(422, "Invalid");
    assert_eq!(
        causes(&status),
        [
            "spec.b: Invalid value: 9: spec.b in body should be less than or equal to 3",
            "spec: Invalid value: second"
        ]
    );
    Ok(())
}

async fn rules_on_status(cx: Cx) -> Result {
    let mut schema = with_spec(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "false",
            "message": "spec is never fine"}]}));
    schema["properties"]["status"] = json!({"type": "object", "properties": {"n": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 5", "message": "too small"}]}}});
    let mut crd = definition(&cx, &schema);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    establish(&cx, &crd).await?;
    let without_spec =
        json!({"apiVersion": format!("{}/v1", cx.group), "kind": "Widget", "metadata": {"name": "a"}});
    cx.create(cx.widgets(), &without_spec).await?;
    let status = cx
        .admin
        .merge_patch(cx.a_widget("a/status"), &json!({"status": {"n": 3}}))
        .await?
        .fails(422, "Invalid");
    assert_eq!(causes(&status), ["status.n: Invalid value: 3: too small"]);
    cx.admin.merge_patch(cx.a_widget("a/status"), &json!({"status": {"n": 7}})).await?.ok(200);
    Ok(())
}

async fn ratcheting_of_rules(cx: Cx) -> Result {
    let schema = |limit: u32| {
        with_spec(&json!({"type": "object", "properties": {
            "n": {"type": "integer", "x-kubernetes-validations": [{"rule": format!("self < {limit}"),
                "message": "too big"}]},
            "other": {"type": "string"}}}))
    };
    let crd = establish(&cx, &definition(&cx, &schema(100))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 50}))).await?;
    let patch =
        json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema(10)}]);
    cx.admin.json_patch(format!("{DEFINITIONS}/{}", text(&crd, "/metadata/name")), &patch).await?.ok(200);
    for attempt in 0.. {
        let answer =
            cx.admin.post(format!("{}?dryRun=All", cx.widgets()), &cx.widget("b", &json!({"n": 50}))).await?;
        if answer.status == 422 {
            break;
        }
        assert!(attempt < 100, "the rule never changes: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"other": "x"}})).await?.ok(200);
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"n": 49}})).await?.fails(422, "Invalid");
    Ok(())
}

async fn immutable_after_set(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"class": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "!has(oldSelf.class) || has(self.class)",
        "message": "class cannot be unset"}]}),
    )
    .await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"class": "x"}})).await?.ok(200);
    let status = cx
        .admin
        .merge_patch(cx.a_widget("a"), &json!({"spec": {"class": null}}))
        .await?
        .fails(422, "Invalid");
    assert_eq!(causes(&status), ["spec: Invalid value: class cannot be unset"]);
    Ok(())
}

async fn failing_evaluation(cx: Cx) -> Result {
    with_rules(
        &cx,
        &json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a / self.b == 1"}]}),
    )
    .await?;
    let status =
        cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"a": 1, "b": 0}))).await?.fails(422, "Invalid");
    let said = causes(&status);
    assert!(said[0].contains("division by zero evaluating rule: self.a / self.b == 1"), "{said:?}");
    let status = cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"a": 1}))).await?.fails(422, "Invalid");
    let said = causes(&status);
    assert!(said[0].contains("no such key: b evaluating rule"), "{said:?}");
    Ok(())
}
