//! What schemas do to custom resources: validation, defaults and pruning.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{DEFINITIONS, definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    types,
    required_fields,
    numbers,
    strings,
    lists,
    objects,
    enumerations,
    formats,
    combinations,
    nullable,
    integer_or_string,
    several_problems_at_once,
    additional_properties,
    ratcheting,
];

/// The causes of a widget's refusal, as `field: message`.
pub(super) async fn refused(cx: &Cx, spec: &Value) -> Result<Vec<String>> {
    let answer = cx.admin.post(cx.widgets(), &cx.widget("bad", spec)).await?;
    let status = answer.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let mut said: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", text(cause, "/field"), text(cause, "/message")))
        .collect();
    // Problems come in no particular order.
    said.sort();
    Ok(said)
}

pub(super) async fn with_properties(cx: &Cx, properties: &Value) -> Result {
    establish(cx, &definition(cx, &with_spec(&json!({"type": "object", "properties": properties}))))
        .await
        .map(drop)
}

async fn types(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
        "b": {"type": "boolean"}, "o": {"type": "object"}, "l": {"type": "array",
        "items": {"type": "string"}}}),
    )
    .await?;
    for (spec, expected) in [
        (
            json!({"s": 5}),
            "spec.s: Invalid value: \"integer\": spec.s in body must be of type string: \"integer\"",
        ),
        (
            json!({"i": "5"}),
            "spec.i: Invalid value: \"string\": spec.i in body must be of type integer: \"string\"",
        ),
        (
            json!({"n": true}),
            "spec.n: Invalid value: \"boolean\": spec.n in body must be of type number: \"boolean\"",
        ),
        (
            json!({"b": "true"}),
            "spec.b: Invalid value: \"string\": spec.b in body must be of type boolean: \"string\"",
        ),
        (
            json!({"o": []}),
            "spec.o: Invalid value: \"array\": spec.o in body must be of type object: \"array\"",
        ),
        (
            json!({"l": {}}),
            "spec.l: Invalid value: \"object\": spec.l in body must be of type array: \"object\"",
        ),
        (
            json!({"l": [5]}),
            "spec.l[0]: Invalid value: \"integer\": spec.l[0] in body must be of type string: \"integer\"",
        ),
    ] {
        assert_eq!(refused(&cx, &spec).await?, [expected], "{spec}");
    }
    let said = refused(&cx, &json!({"i": 1.5})).await?;
    let expected = "spec.i: Invalid value: \"number\": spec.i in body must be of type integer: \"number\"";
    assert!(said.iter().any(|said| said == expected), "{said:?}");
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 5, "i": 5.0}))).await?;
    has(&created, &json!({"spec": {"n": 5}}));
    let status = cx.admin.post(cx.widgets(), &cx.widget("b", &json!(5))).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"kind": "Widget", "group": cx.group, "causes": [{"field": "spec",
            "reason": "FieldValueTypeInvalid",
        "message": "Invalid value: \"integer\": spec in body must be of type object: \"integer\""}]}}),
    );
    Ok(())
}

async fn required_fields(cx: Cx) -> Result {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object",
        "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "object",
        "required": ["c"],
            "properties": {"c": {"type": "string"}}}}}}});
    establish(&cx, &definition(&cx, &schema)).await?;
    assert_eq!(
        refused(&cx, &json!({"b": {}})).await?,
        ["spec.a: Required value", "spec.b.c: Required value"]
    );
    let nothing =
        json!({"apiVersion": format!("{}/v1", cx.group), "kind": "Widget", "metadata": {"name": "a"}});
    let status = cx.admin.post(cx.widgets(), &nothing).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"message": format!("Widget.{} \"a\" is invalid: spec: Required value", cx.group),
        "details": {"causes": [{"reason": "FieldValueRequired", "field": "spec",
        "message": "Required value"}]}}),
    );
    Ok(())
}

async fn numbers(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({
            "a": {"type": "integer", "minimum": 1, "maximum": 10},
            "b": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1,
            "exclusiveMaximum": true},
            "c": {"type": "integer", "multipleOf": 5},
            "d": {"type": "integer", "format": "int32"},
        }),
    )
    .await?;
    for (spec, expected) in [
        (json!({"a": 0}), "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1"),
        (json!({"a": 11}), "spec.a: Invalid value: 11: spec.a in body should be less than or equal to 10"),
        (json!({"b": 0}), "spec.b: Invalid value: 0: spec.b in body should be greater than 0"),
        (json!({"b": 1.0}), "spec.b: Invalid value: 1: spec.b in body should be less than 1"),
        (json!({"c": 7}), "spec.c: Invalid value: 7: spec.c in body should be a multiple of 5"),
        (
            json!({"d": 3_000_000_000_u64}),
            "spec.d: Invalid value: 3000000000: spec.d in body must be of type int32: \"integer\"",
        ),
    ] {
        let said = refused(&cx, &spec).await?;
        assert!(!said.is_empty(), "{spec}");
        if !spec["d"].is_number() {
            assert_eq!(said, [expected], "{spec}");
        }
    }
    cx.create(cx.widgets(), &cx.widget("a", &json!({"a": 10, "b": 0.5, "c": 15, "d": 5}))).await?;
    Ok(())
}

async fn strings(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"a": {"type": "string", "minLength": 2, "maxLength": 4},
        "b": {"type": "string", "pattern": "^[a-z]+$"}}),
    )
    .await?;
    for (spec, expected) in [
        (json!({"a": "x"}), "spec.a: Invalid value: \"x\": spec.a in body should be at least 2 chars long"),
        (json!({"a": "xxxxx"}), "spec.a: Too long: may not be more than 4 bytes"),
        (json!({"b": "A"}), "spec.b: Invalid value: \"A\": spec.b in body should match '^[a-z]+$'"),
    ] {
        assert_eq!(refused(&cx, &spec).await?, [expected], "{spec}");
    }
    // Characters count, not bytes.
    cx.create(cx.widgets(), &cx.widget("a", &json!({"a": "äöüß", "b": "x"}))).await?;
    Ok(())
}

async fn lists(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"a": {"type": "array", "minItems": 1, "maxItems": 2,
        "items": {"type": "string"}},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}}),
    )
    .await?;
    for (spec, expected) in [
        (json!({"a": []}), "spec.a: Invalid value: 0: spec.a in body should have at least 1 items"),
        (json!({"a": ["x", "y", "z"]}), "spec.a: Too many: 3: must have at most 2 items"),
        (json!({"s": ["x", "x"]}), "spec.s[1]: Duplicate value: \"x\""),
        (json!({"m": [{"k": "x"}, {"k": "x"}]}), "spec.m[1]: Duplicate value: {\"k\":\"x\"}"),
    ] {
        assert_eq!(refused(&cx, &spec).await?, [expected], "{spec}");
    }
    Ok(())
}

async fn objects(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"o": {"type": "object", "minProperties": 1, "maxProperties": 2,
        "additionalProperties": {"type": "string"}}}),
    )
    .await?;
    for (spec, expected) in [
        (json!({"o": {}}), "spec.o: Invalid value: 0: spec.o in body should have at least 1 properties"),
        (json!({"o": {"a": "1", "b": "2", "c": "3"}}), "spec.o: Too many: 3: must have at most 2 items"),
        (
            json!({"o": {"a": 1}}),
            "spec.o.a: Invalid value: \"integer\": spec.o.a in body must be of type string: \"integer\"",
        ),
    ] {
        assert_eq!(refused(&cx, &spec).await?, [expected], "{spec}");
    }
    Ok(())
}

async fn enumerations(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"e": {"type": "string", "enum": ["red", "green"]}, "n": {"type": "integer", "enum": [1, 2]}}),
    )
    .await?;
    assert_eq!(
        refused(&cx, &json!({"e": "blue"})).await?,
        ["spec.e: Unsupported value: \"blue\": supported values: \"red\", \"green\""]
    );
    assert_eq!(
        refused(&cx, &json!({"n": 3})).await?,
        ["spec.n: Unsupported value: 3: supported values: \"1\", \"2\""]
    );
    let status =
        cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"e": "blue"}))).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"reason": "FieldValueNotSupported"}]}}));
    Ok(())
}

async fn formats(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"time": {"type": "string", "format": "date-time"}, "ip": {"type": "string",
        "format": "ipv4"},
        "uuid": {"type": "string", "format": "uuid"}, "bytes": {"type": "string", "format": "byte"},
        "duration": {"type": "string", "format": "duration"}, "unknown": {"type": "string",
        "format": "something"}}),
    )
    .await?;
    for (spec, expected) in [
        (
            json!({"time": "yesterday"}),
            "spec.time: Invalid value: \"yesterday\": spec.time in body must be of type date-time: \
                \"yesterday\"",
        ),
        (
            json!({"ip": "1.2.3"}),
            "spec.ip: Invalid value: \"1.2.3\": spec.ip in body must be of type ipv4: \"1.2.3\"",
        ),
        (
            json!({"uuid": "x"}),
            "spec.uuid: Invalid value: \"x\": spec.uuid in body must be of type uuid: \"x\"",
        ),
        (
            json!({"duration": "long"}),
            "spec.duration: Invalid value: \"long\": spec.duration in body must be of type duration: \
                \"long\"",
        ),
    ] {
        assert_eq!(refused(&cx, &spec).await?, [expected], "{spec}");
    }
    let spec = json!({"time": "2020-01-01T00:00:00Z", "ip": "1.2.3.4",
        "uuid": "123e4567-e89b-12d3-a456-426614174000",
        "bytes": "eA==", "duration": "1h30m", "unknown": "anything"});
    cx.create(cx.widgets(), &cx.widget("a", &spec)).await?;
    Ok(())
}

async fn combinations(cx: Cx) -> Result {
    let schema =
        with_spec(&json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"},
            "n": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "allOf": [{"properties": {"n": {"minimum": 1}}}],
        "not": {"properties": {"n": {"enum": [13]}}, "required": ["n"]}}));
    establish(&cx, &definition(&cx, &schema)).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"a": "x", "n": 2}))).await?;
    let said = refused(&cx, &json!({"a": "x", "b": "y"})).await?;
    assert!(
        said.iter()
            .any(|said| said
                .contains("must validate one and only one schema (oneOf). Found 2 valid alternatives")),
        "{said:?}"
    );
    let said = refused(&cx, &json!({})).await?;
    assert!(
        said.iter()
            .any(|said| said.contains("must validate one and only one schema (oneOf). Found none valid")),
        "{said:?}"
    );
    let said = refused(&cx, &json!({"a": "x", "n": 13})).await?;
    assert!(said.iter().any(|said| said.contains("must not validate the schema (not)")), "{said:?}");
    let said = refused(&cx, &json!({"a": "x", "n": 0})).await?;
    assert!(said.iter().any(|said| said.contains("must validate all the schemas (allOf)")), "{said:?}");
    Ok(())
}

async fn nullable(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"yes": {"type": "string", "nullable": true}, "no": {"type": "string"},
        "default": {"type": "string", "default": "x"}, "list": {"type": "array",
        "items": {"type": "string"}}}),
    )
    .await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"yes": null}))).await?;
    assert_eq!(created["spec"], json!({"yes": null, "default": "x"}));
    // What may not be null is left out, but inside a list there is no leaving out.
    let created = cx.create(cx.widgets(), &cx.widget("c", &json!({"no": null}))).await?;
    assert_eq!(created["spec"], json!({"default": "x"}));
    assert_eq!(
        refused(&cx, &json!({"list": [null]})).await?,
        ["spec.list[0]: Invalid value: \"null\": spec.list[0] in body must be of type string: \"null\""]
    );
    // What may not be null but has a default gets the default.
    let created = cx.create(cx.widgets(), &cx.widget("b", &json!({"default": null}))).await?;
    has(&created, &json!({"spec": {"default": "x"}}));
    Ok(())
}

async fn integer_or_string(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"p": {"x-kubernetes-int-or-string": true}, "q": {"x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}}),
    )
    .await?;
    for (name, value) in [("a", json!(5)), ("b", json!("50%"))] {
        let created = cx.create(cx.widgets(), &cx.widget(name, &json!({"p": value}))).await?;
        assert_eq!(created["spec"]["p"], value);
    }
    let said = refused(&cx, &json!({"p": true})).await?;
    assert_eq!(
        said,
        ["spec.p: Invalid value: \"boolean\": spec.p in body must be of type integer,string: \"boolean\""]
    );
    let said = refused(&cx, &json!({"q": "x"})).await?;
    assert_eq!(said, ["spec.q: Invalid value: \"x\": spec.q in body should match '^[0-9]+%$'"]);
    Ok(())
}

async fn several_problems_at_once(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"a": {"type": "integer", "minimum": 5}, "b": {"type": "string",
        "enum": ["x"]}, "c": {"type": "boolean"}}),
    )
    .await?;
    let status = cx
        .admin
        .post(cx.widgets(), &cx.widget("bad", &json!({"a": 1, "b": "y", "c": 3})))
        .await?
        .fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let mut fields: Vec<&str> = causes.iter().map(|cause| text(cause, "/field")).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["spec.a", "spec.b", "spec.c"], "{status}");
    let message = text(&status, "/message");
    assert!(message.starts_with(&format!("Widget.{} \"bad\" is invalid: [", cx.group)), "{message}");
    Ok(())
}

async fn additional_properties(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "additionalProperties": true}}),
    )
    .await?;
    let created = cx
        .create(cx.widgets(), &cx.widget("a", &json!({"labels": {"x": "y"}, "any": {"q": {"r": 1}}})))
        .await?;
    has(&created, &json!({"spec": {"labels": {"x": "y"}}}));
    let crd = definition(
        &cx,
        &with_spec(&json!({"type": "object", "properties": {"a": {"type": "string"}},
                "additionalProperties": {"type": "string"}})),
    );
    let status = cx.admin.post(format!("{DEFINITIONS}?dryRun=All"), &crd).await?;
    status.fails(422, "Invalid");
    Ok(())
}

async fn ratcheting(cx: Cx) -> Result {
    let schema = |maximum: u32| {
        with_spec(&json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": maximum},
                "other": {"type": "string"}}}))
    };
    let crd = establish(&cx, &definition(&cx, &schema(10))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 9}))).await?;
    let patch =
        json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema(5)}]);
    cx.admin.json_patch(format!("{DEFINITIONS}/{}", text(&crd, "/metadata/name")), &patch).await?.ok(200);
    for attempt in 0.. {
        let answer =
            cx.admin.post(format!("{}?dryRun=All", cx.widgets()), &cx.widget("b", &json!({"n": 9}))).await?;
        if answer.status == 422 {
            break;
        }
        assert!(attempt < 100, "the schema never changes: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    // What was wrong before may stay wrong, as long as it is not touched.
    let patched = cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"other": "x"}})).await?.ok(200);
    has(&patched, &json!({"spec": {"n": 9, "other": "x"}}));
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"n": 8}})).await?.fails(422, "Invalid");
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"n": 4}})).await?.ok(200);
    Ok(())
}
