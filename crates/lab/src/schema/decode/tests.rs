//! What the real server made of odd bodies, one per line of a file, against what is made of them here.

use serde_json::Value;

use super::*;
use crate::names::Gvk;

const FACTS: &str = include_str!("../../../tests/facts/decode.jsonl");

fn kind(written: &str) -> Gvk {
    let (version, kind) = written.rsplit_once('/').unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Gvk::new(group, version, kind)
}

/// What differs: defaults, which the real server adds and decoding does not, are never empty.
fn differences(path: &str, ours: &Value, real: &Value, out: &mut Vec<String>) {
    match (ours, real) {
        (Value::Object(ours), Value::Object(real)) => {
            for (key, value) in ours {
                let path = format!("{path}.{key}");
                match real.get(key) {
                    Some(real) => differences(&path, value, real, out),
                    None => out.push(format!("{path}: {value}, which the real server does not have")),
                }
            }
            for (key, value) in real.iter().filter(|(key, _)| !ours.contains_key(*key)) {
                let empty = match value {
                    Value::Null | Value::Bool(false) => true,
                    Value::Object(map) => map.is_empty(),
                    Value::Array(list) => list.is_empty(),
                    Value::String(text) => text.is_empty(),
                    _ => false,
                };
                if empty {
                    out.push(format!("{path}.{key}: {value} is missing"));
                }
            }
        }
        (Value::Array(ours), Value::Array(real)) if ours.len() == real.len() => {
            for (index, (ours, real)) in ours.iter().zip(real).enumerate() {
                differences(&format!("{path}[{index}]"), ours, real, out);
            }
        }
        _ if ours == real => {}
        _ => out.push(format!("{path}: {ours}, not {real}")),
    }
}

#[test]
fn bodies_become_what_the_real_server_makes_of_them() {
    let mut wrong = Vec::new();
    for line in FACTS.lines() {
        let fact: Value = serde_json::from_str(line).unwrap();
        let text = fact["body"].as_str().unwrap();
        let kind = kind(fact["kind"].as_str().unwrap());
        let expected = Expected { kind: &kind, accepts: |_, _| false };
        let validation = match fact["validation"].as_str() {
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            _ => FieldValidation::Warn,
        };
        let media = if fact["media"] == "yaml" { Media::Yaml } else { Media::Json };
        let found = read_builtin(text.as_bytes(), media, expected, validation);
        let mut problems = Vec::new();
        match (&found, &fact["error"]) {
            (Err(found), Value::String(real)) if &found.message == real => {}
            (Err(found), real) => problems.push(format!("{}\n  not {real}", found.message)),
            (Ok(_), Value::String(real)) => problems.push(format!("no failure, not {real}")),
            (Ok(found), _) => {
                let warnings: Vec<&str> =
                    fact["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                if found.warnings() != warnings {
                    problems.push(format!("{:?}\n  not {warnings:?}", found.warnings()));
                }
                if fact["object"].is_object() {
                    let mut value = found.value.clone();
                    if let Some(metadata) = value["metadata"].as_object_mut() {
                        metadata.retain(|key, _| !matches!(key.as_str(), "creationTimestamp" | "namespace"));
                    }
                    if fact["object"].get("status").is_none() {
                        value.as_object_mut().map(|object| object.remove("status"));
                    }
                    differences("", &value, &fact["object"], &mut problems);
                }
            }
        }
        if !problems.is_empty() {
            wrong.push(format!("{text}\n  {}", problems.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn deep_and_long_texts_do_no_harm() {
    let of =
        crate::schema::builtin::kind_of(&Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let of = of.unwrap();
    let deep = format!(
        "{{\"spec\":{{\"versions\":[{{\"schema\":{{\"openAPIV3Schema\":{}{}}}}}]}}}}",
        "{\"items\":".repeat(390),
        "{}".to_owned() + &"}".repeat(390)
    );
    assert!(decode_json(of, deep.as_bytes()).is_ok());
    assert!(decode_json(of, "[".repeat(100_000).as_bytes()).is_err());
    for text in ["{\"a\"", "\"\\", "\u{0}", "{\"spec\":{\"versions\":[", "{\"spec\":\"\\ud800\"}"] {
        let _ = decode_json(of, text.as_bytes());
        let _ = parse_json(text.as_bytes());
        let _ = parse_yaml(text.as_bytes());
    }
    let huge = format!("{{\"spec\":{{\"hard\":{{\"cpu\":\"{}\"}}}}}}", "9".repeat(100_000));
    let quota = crate::schema::builtin::kind_of(&Gvk::new("", "v1", "ResourceQuota")).unwrap();
    let _ = decode_json(quota, huge.as_bytes());
}

#[test]
fn values_are_converted_in_other_words_than_texts() {
    let of = crate::schema::builtin::kind_of(&Gvk::new("apps", "v1", "Deployment")).unwrap();
    let failure = |value: Value| convert(of, value).unwrap_err();
    assert_eq!(failure(serde_json::json!({"spec": {"replicas": "x"}})), "unrecognized type: int32");
    assert_eq!(failure(serde_json::json!({"spec": []})), "cannot restore struct from: slice");
    assert_eq!(failure(serde_json::json!({"metadata": {"name": 1}})), "cannot convert int64 to string");
    assert_eq!(failure(serde_json::json!({"metadata": {"finalizers": {}}})), "cannot restore slice from map");
    let found = convert(of, serde_json::json!({"spec": {"z": 1, "a": 2, "replicas": 3}})).unwrap();
    assert_eq!(found.problems, ["unknown field \"spec.a\"", "unknown field \"spec.z\""]);
    assert_eq!(found.value["spec"]["template"]["spec"]["containers"], Value::Null);
}

#[test]
fn options_are_read_whatever_their_version_and_custom_bodies_need_a_kind() {
    let message = |text: &str| read_delete_options(text.as_bytes(), Media::Json).unwrap_err().message;
    assert_eq!(
        message("{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}"),
        "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
    );
    assert_eq!(
        message("{\"preconditions\":{\"uid\":5}}"),
        "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID"
    );
    let body = "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"nope/v1\",\"foo\":1,\"gracePeriodSeconds\":0}";
    let options = read_delete_options(body.as_bytes(), Media::Json).unwrap();
    assert_eq!((&options["gracePeriodSeconds"], options.get("foo")), (&Value::from(0), None));

    let widget = Gvk::new("schema.example", "v1", "Widget");
    let expected = Expected { kind: &widget, accepts: |_, _| false };
    let message = |text: &str| {
        read_custom(text.as_bytes(), Media::Json, expected, FieldValidation::Warn).unwrap_err().message
    };
    assert_eq!(
        message("{\"metadata\":{}}"),
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in \
         '{\"metadata\":{}}' ({\"metadata\":{}})"
    );
    assert_eq!(
        message("{\"kind\":\"Widget\"}"),
        "the API version in the data () does not match the expected API version (schema.example/v1)"
    );
    assert_eq!(
        message("{\"kind\":\"Widget\",\"apiVersion\":\"schema.example/v1\",\"a\":1e400}"),
        "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number 1e400 into Go value \
         of type float64"
    );
}
