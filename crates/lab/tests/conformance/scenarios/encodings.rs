//! The forms bodies come and go in: YAML, protobuf, compressed, pretty.

use std::io::Read as _;

use flate2::read::GzDecoder;
use http::Method;
use serde_json::{Value, json};

use crate::context::{Cx, config_map};
use crate::crds::{definition, establish};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    yaml_requests,
    yaml_of_the_older_kind,
    yaml_answers,
    protobuf_create,
    protobuf_update_and_delete,
    protobuf_answers,
    protobuf_of_a_review,
    broken_protobuf,
    custom_resources_know_no_protobuf,
    large_answers_are_compressed,
    small_answers_are_not,
    pretty,
    older_protocol,
    accept_lists,
    parameters_of_content_types,
    unicode_and_big_numbers,
];

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A length-delimited field of a protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![(number << 3) | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap_or_default());
    field.extend_from_slice(bytes);
    field
}

/// The frame around every message: a magic number, the type, and the message itself.
fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let kind = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, message)].concat()
}

/// A ConfigMap with one entry as a protobuf body.
fn proto_config_map(name: &str, key: &str, value: &str) -> Vec<u8> {
    let metadata = field(1, name.as_bytes());
    let entry = [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    envelope("v1", "ConfigMap", &[field(1, &metadata), field(2, &entry)].concat())
}

async fn yaml_requests(cx: Cx) -> Result {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {x: \"y\"}\ndata:\n  text: \
        |\n    one\n    two\n";
    let created =
        cx.admin.request(Method::POST, cx.core("configmaps")).body("application/yaml", body).await?.ok(201);
    has(&created, &json!({"metadata": {"labels": {"x": "y"}}, "data": {"text": "one\ntwo\n"}}));
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {text: 'three'}\n";
    let replaced =
        cx.admin.request(Method::PUT, cx.core("configmaps/a")).body("application/yaml", body).await?.ok(200);
    has(&replaced, &json!({"data": {"text": "three"}}));
    let answer =
        cx.admin.request(Method::POST, cx.core("configmaps")).body("application/yaml", "a: [b").await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn yaml_of_the_older_kind(cx: Cx) -> Result {
    // Keys and values are read as YAML 1.1 has them, where `y` is a truth.
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  y: \"1\"\n  \"n\": \"2\"\n";
    let created =
        cx.admin.request(Method::POST, cx.core("configmaps")).body("application/yaml", body).await?.ok(201);
    assert_eq!(created["data"], json!({"true": "1", "n": "2"}));
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  x: yes\n";
    let answer = cx.admin.request(Method::POST, cx.core("configmaps")).body("application/yaml", body).await?;
    let status = answer.fails(400, "BadRequest");
    assert!(
        text(&status, "/message")
            .contains("cannot unmarshal bool into Go struct field ConfigMap.data of type string"),
        "{status}"
    );
    Ok(())
}

async fn yaml_answers(cx: Cx) -> Result {
    cx.config_map("a", "some: \"text\"").await?;
    let answer = cx.admin.get(cx.core("configmaps/a")).accept("application/yaml").await?;
    answer.ok(200);
    assert_eq!(answer.header("content-type"), "application/yaml");
    let text = answer.text();
    // How texts are quoted is the writer's choice.
    assert!(text.starts_with("apiVersion: v1\ndata:\n  key: "), "{text}");
    assert!(text.contains("\nkind: ConfigMap\nmetadata:\n"), "{text}");
    let answer = cx.admin.get(cx.core("configmaps/none")).accept("application/yaml").await?;
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("\nreason: NotFound\n"), "{answer}");
    Ok(())
}

async fn protobuf_create(cx: Cx) -> Result {
    let answer = cx
        .admin
        .request(Method::POST, cx.core("configmaps?fieldManager=proto"))
        .body(PROTOBUF, proto_config_map("a", "key", "value"))
        .await?;
    let created = answer.ok(201);
    has(
        &created,
        &json!({"kind": "ConfigMap", "data": {"key": "value"},
            "metadata": {"managedFields": [{"manager": "proto"}]}}),
    );
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, created);
    // As generated clients send it: they would like the answer in the same form, but take any.
    let lease_spec = [field(1, b"holder"), vec![2 << 3, 15]].concat();
    let lease = [field(1, &field(1, b"leader")), field(2, &lease_spec)].concat();
    let answer = cx
        .admin
        .request(Method::POST, cx.apis("coordination.k8s.io/v1", "leases"))
        .body(PROTOBUF, envelope("coordination.k8s.io/v1", "Lease", &lease))
        .accept("application/vnd.kubernetes.protobuf,application/json")
        .await?;
    assert_eq!(answer.status, 201, "{answer}");
    let lease = cx.read(cx.apis("coordination.k8s.io/v1", "leases/leader")).await?;
    assert_eq!(lease["spec"], json!({"holderIdentity": "holder", "leaseDurationSeconds": 15}));
    Ok(())
}

async fn protobuf_update_and_delete(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let replaced = cx
        .admin
        .request(Method::PUT, cx.core("configmaps/a"))
        .body(PROTOBUF, proto_config_map("a", "new", "2"))
        .await?
        .ok(200);
    assert_eq!(replaced["data"], json!({"new": "2"}));
    // DeleteOptions with a precondition that does not hold, and then with one that does.
    let uid = text(&replaced, "/metadata/uid");
    let options = |uid: &str| envelope("v1", "DeleteOptions", &field(2, &field(1, uid.as_bytes())));
    let answer = cx.admin.delete(cx.core("configmaps/a")).body(PROTOBUF, options("other")).await?;
    answer.fails(409, "Conflict");
    cx.admin.delete(cx.core("configmaps/a")).body(PROTOBUF, options(uid)).await?.ok(200);
    Ok(())
}

async fn protobuf_answers(cx: Cx) -> Result {
    cx.config_map("a", "some value").await?;
    let answer = cx
        .admin
        .get(cx.core("configmaps/a"))
        .accept("application/vnd.kubernetes.protobuf,application/json")
        .await?;
    assert_eq!(answer.status, 200);
    // Both are fine for a client that takes both, but the header has to tell which it is.
    if answer.header("content-type") == PROTOBUF {
        assert_eq!(&answer.body[..4], b"k8s\0");
        assert!(answer.body.windows(10).any(|window| window == b"some value"));
    } else {
        assert_eq!(answer.header("content-type"), "application/json");
        has(&answer.json(), &json!({"data": {"key": "some value"}}));
    }
    Ok(())
}

async fn protobuf_of_a_review(cx: Cx) -> Result {
    let attributes = [field(2, b"get"), field(5, b"pods")].concat();
    let review = field(2, &field(1, &attributes));
    let answer = cx
        .alice
        .request(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .body(PROTOBUF, envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", &review))
        .await?;
    has(
        &answer.ok(201),
        &json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": false},
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    );
    Ok(())
}

async fn broken_protobuf(cx: Cx) -> Result {
    for body in
        [b"nonsense".to_vec(), b"k8s\0\xff\xff\xff".to_vec(), envelope("v1", "ConfigMap", b"\x0a\xff")]
    {
        let answer = cx.admin.request(Method::POST, cx.core("configmaps")).body(PROTOBUF, body).await?;
        answer.fails(400, "BadRequest");
    }
    Ok(())
}

async fn custom_resources_know_no_protobuf(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    let answer = cx.admin.get(cx.widgets()).accept(PROTOBUF).await?;
    assert_eq!(answer.status, 406, "{answer}");
    // Both together mean the one that is there.
    let answer =
        cx.admin.get(cx.widgets()).accept("application/vnd.kubernetes.protobuf,application/json").await?;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    Ok(())
}

async fn large_answers_are_compressed(cx: Cx) -> Result {
    cx.config_map("a", &"some text ".repeat(20_000)).await?;
    let answer = cx.admin.get(cx.core("configmaps/a")).header("accept-encoding", "gzip").await?;
    assert_eq!((answer.status, answer.header("content-encoding")), (200, "gzip"));
    assert_eq!(answer.header("vary"), "Accept-Encoding");
    assert!(answer.body.len() < 100_000);
    let mut text = String::new();
    GzDecoder::new(&answer.body[..]).read_to_string(&mut text)?;
    let object: Value = serde_json::from_str(&text)?;
    has(&object, &json!({"metadata": {"name": "a"}}));
    // Who does not ask gets it plain.
    let answer = cx.admin.get(cx.core("configmaps/a")).await?;
    assert_eq!(answer.header("content-encoding"), "");
    has(&answer.ok(200), &json!({"metadata": {"name": "a"}}));
    Ok(())
}

async fn small_answers_are_not(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer = cx.admin.get(cx.core("configmaps/a")).header("accept-encoding", "gzip").await?;
    assert_eq!(answer.header("content-encoding"), "");
    answer.ok(200);
    Ok(())
}

async fn pretty(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer = cx.admin.get(cx.core("configmaps/a?pretty=true")).await?;
    assert!(answer.text().starts_with("{\n  \""), "{answer}");
    let answer = cx.admin.get(cx.core("configmaps/a")).await?;
    assert!(answer.text().starts_with("{\""), "{answer}");
    // People with curl get the pretty form without asking.
    let answer = cx.admin.get(cx.core("configmaps/a")).header("user-agent", "curl/8.0").await?;
    assert!(answer.text().starts_with("{\n  \""), "{answer}");
    let answer = cx.admin.get(cx.core("configmaps/a?pretty=false")).header("user-agent", "curl/8.0").await?;
    assert!(answer.text().starts_with("{\""), "{answer}");
    Ok(())
}

async fn older_protocol(cx: Cx) -> Result {
    let client = cx.admin.http1();
    client.post(cx.core("configmaps"), &config_map("a", "1")).await?.ok(201);
    let read = client.get(cx.core("configmaps/a")).await?.ok(200);
    assert_eq!(read, cx.read(cx.core("configmaps/a")).await?);
    client.delete(cx.core("configmaps/a")).await?.ok(200);
    Ok(())
}

async fn accept_lists(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    for (accept, expected) in [
        ("application/json", "application/json"),
        ("application/json, */*", "application/json"),
        ("*/*", "application/json"),
        ("application/yaml;q=0.5, application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/json;stream=watch, application/json", "application/json"),
    ] {
        let answer = cx.admin.get(cx.core("configmaps/a")).accept(accept).await?;
        assert_eq!((answer.status, answer.header("content-type")), (200, expected), "{accept}");
    }
    Ok(())
}

async fn parameters_of_content_types(cx: Cx) -> Result {
    let body = config_map("a", "1").to_string();
    let answer = cx
        .admin
        .request(Method::POST, cx.core("configmaps"))
        .body("application/json; charset=utf-8", body)
        .await?;
    answer.ok(201);
    let answer = cx
        .admin
        .request(Method::PATCH, cx.core("configmaps/a"))
        .body("application/merge-patch+json; charset=utf-8", "{\"data\":{\"key\":\"2\"}}")
        .await?;
    assert_eq!(answer.status, 200, "{answer}");
    // No type at all is JSON.
    let mut request =
        cx.admin.request(Method::POST, cx.core("configmaps")).body("x/y", config_map("b", "1").to_string());
    request = request.without_content_type();
    request.await?.ok(201);
    Ok(())
}

async fn unicode_and_big_numbers(cx: Cx) -> Result {
    let value = "grüße 🚀 \u{2028} <tag> & \"quotes\" \\ \u{7f}";
    let created = cx.config_map("a", value).await?;
    assert_eq!(created["data"]["key"], value);
    let answer = cx.admin.get(cx.core("configmaps/a")).await?;
    // Angle brackets may be escaped or not; they mean the same.
    assert_eq!(answer.json()["data"]["key"], value);
    assert!(answer.text().contains("grüße 🚀"), "{answer}");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    establish(&cx, &definition(&cx, &schema)).await?;
    let body = format!(
        r#"{{"apiVersion": "{}/v1", "kind": "Widget", "metadata": {{"name": "a"}},
            "big": 9007199254740993, "max": 9223372036854775807, "float": 1.5, "exponent": 1e3, "whole": 2.0}}"#,
        cx.group
    );
    let answer = cx.admin.request(Method::POST, cx.widgets()).body("application/json", body).await?;
    answer.ok(201);
    for part in [
        "\"big\":9007199254740993",
        "\"max\":9223372036854775807",
        "\"float\":1.5",
        "\"exponent\":1000",
        "\"whole\":2",
    ] {
        assert!(answer.text().contains(part), "{part} in {answer}");
    }
    Ok(())
}
