//! What clients look for in the documents.

use std::sync::Arc;

use serde_json::{Value, json};

use super::OpenApi;

fn definition() -> Arc<Value> {
    Arc::new(json!({
        "spec": {
            "group": "proto.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "Widgets"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {}},
                 "selectableFields": [{"jsonPath": ".spec.mode"}],
                 "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "A widget.",
                    "properties": {
                        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
                        "spec": {"type": "object", "required": ["when", "port"], "properties": {
                            "when": {"type": "string", "nullable": true, "default": "x"},
                            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"minimum": 3}]},
                            "any": {"x-kubernetes-int-or-string": true},
                            "template": {"type": "object", "x-kubernetes-embedded-resource": true},
                            "list": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
                                     "items": {"type": "string"}},
                        }},
                    }}}},
                {"name": "v2", "served": false, "storage": false},
            ],
        },
        "status": {
            "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "Widgets"},
            "conditions": [{"type": "Established", "status": "True"}],
        },
    }))
}

fn document(api: &OpenApi, name: &str, definitions: &[Arc<Value>]) -> Value {
    serde_json::from_slice(&api.v3(name, definitions).unwrap().body).unwrap()
}

#[test]
fn every_document_of_the_index_is_there_and_refers_only_to_itself() {
    let (api, definitions) = (OpenApi::default(), [definition()]);
    let index = OpenApi::index(&definitions, &[("apis/other/v1".to_owned(), "/elsewhere".to_owned())]);
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths["apis/other/v1"]["serverRelativeURL"], "/elsewhere");
    for (name, place) in paths.iter().filter(|(name, _)| *name != "apis/other/v1") {
        let told = api.v3(name, &definitions).unwrap();
        assert_eq!(place["serverRelativeURL"], format!("/openapi/v3/{name}?hash={}", told.hash));
        let document: Value = serde_json::from_slice(&told.body).unwrap();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let wanted = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][wanted].is_object(), "{name}: {wanted}");
        }
    }
    for gone in ["apis/proto.example.com/v2", "apis/proto.example.com", "api/v2", "apis", "", "x"] {
        assert_eq!(api.v3(gone, &definitions).is_some(), gone == "apis", "{gone}");
    }
}

#[test]
fn patches_say_what_they_take() {
    let api = OpenApi::default();
    let core = document(&api, "api/v1", &[]);
    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchCoreV1NamespacedPod");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "Pod"})
    );
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|each| each["name"] == "fieldValidation" && each["in"] == "query"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let containers = &core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let custom = document(&api, "apis/proto.example.com/v1", &[definition()]);
    let patch = &custom["paths"]["/apis/proto.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchProtoExampleComV1NamespacedWidget");
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
}

#[test]
fn custom_schemas_are_published_with_what_their_extensions_stand_for() {
    let api = OpenApi::default();
    let custom = document(&api, "apis/proto.example.com/v1", &[definition()]);
    let widget = &custom["components"]["schemas"]["com.example.proto.v1.Widget"];
    assert_eq!(widget["description"], "A widget.");
    assert_eq!(widget["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.mode"}]));
    assert_eq!(
        widget["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let spec = &widget["properties"]["spec"]["properties"];
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(spec["any"]["anyOf"], either);
    assert_eq!(spec["port"]["allOf"], json!([{"anyOf": either}]));
    assert_eq!(spec["template"]["required"], json!(["kind", "apiVersion"]));
    assert!(custom["components"]["schemas"]["com.example.proto.v1.Widgets"].is_object());

    let old: Value = serde_json::from_slice(&api.v2(&[definition()]).body).unwrap();
    let spec = &old["definitions"]["com.example.proto.v1.Widget"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["port"]));
    assert_eq!(spec["properties"]["when"], json!({}));
    assert_eq!(spec["properties"]["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(spec["properties"]["list"], json!({"x-kubernetes-preserve-unknown-fields": true}));
}

#[test]
fn documents_are_kept_until_their_definitions_change() {
    let api = OpenApi::default();
    let before = api.v3("apis/proto.example.com/v1", &[definition()]).unwrap();
    let mut changed = (*definition()).clone();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another.".into();
    let after = api.v3("apis/proto.example.com/v1", &[Arc::new(changed.clone())]).unwrap();
    assert_ne!(before.hash, after.hash);
    assert_eq!(api.v3("api/v1", &[definition()]), api.v3("api/v1", &[Arc::new(changed)]));
}

#[test]
fn the_older_document_has_a_form_in_protobuf() {
    let small = json!({
        "swagger": "2.0", "info": {"title": "t", "version": "v"},
        "paths": {"/p": {"get": {"operationId": "g", "responses": {"200": {"description": "OK"}}}}},
        "definitions": {"D": {"type": "object", "x-y": [1], "properties": {"a": {"minimum": 1, "enum": ["b"]}}}},
    });
    let mut expected = b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v".to_vec();
    expected.extend(b"\x42\x1e\x12\x1c\x0a\x02/p\x12\x16\x12\x14\x2a\x01g\x4a\x0f\x0a\x0d\x0a\x03200");
    expected.extend(b"\x12\x06\x0a\x04\x0a\x02OK");
    expected.extend(b"\x4a\x3e\x0a\x3c\x0a\x01D\x12\x37\xb2\x01\x08\x0a\x06object");
    expected
        .extend(b"\xca\x01\x19\x0a\x17\x0a\x01a\x12\x12\x49\0\0\0\0\0\0\xf0\x3f\xa2\x01\x06\x12\x04\"b\"\n");
    expected.extend(b"\xfa\x01\x0d\x0a\x03x-y\x12\x06\x12\x04[1]\n\x6a\0");
    assert_eq!(super::gnostic::encode(&small), expected);
    let api = OpenApi::default();
    assert_eq!(api.v2(&[]).hash, api.v2_protobuf(&[]).hash);
}
