//! Answers of the real server, asked again here.

use serde_json::{Value, json};

use super::{CustomKind, definition};
use crate::status::{FieldProblem, Status};

/// Causes as lines, sorted: their order is not always the same.
fn lines(problems: Vec<FieldProblem>) -> Vec<String> {
    if problems.is_empty() {
        return Vec::new();
    }
    let status = Status::invalid("lab.example.com", "Values", "x", problems).to_value();
    let mut all: Vec<String> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            let word = |key: &str| cause[key].as_str().unwrap_or("");
            format!("{} | {} | {}", word("field"), word("reason"), word("message"))
        })
        .collect();
    all.sort();
    all
}

fn expected(case: &Value) -> Vec<String> {
    let mut all: Vec<String> = case["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| {
            cause
                .as_array()
                .unwrap()
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect::<Vec<_>>()
                .join(" | ")
        })
        .collect();
    all.sort();
    all
}

#[test]
fn definitions_are_judged_like_the_server_does() {
    let fixture: Value = serde_json::from_str(include_str!("testdata/definitions.json")).unwrap();
    for case in fixture["cases"].as_array().unwrap() {
        let mut crd = case["definition"].clone();
        crd["apiVersion"] = "apiextensions.k8s.io/v1".into();
        crd["kind"] = "CustomResourceDefinition".into();
        definition::default_definition(&mut crd);
        definition::prepare_create(&mut crd);
        let problems = definition::validate_create(&crd);
        let accepted = problems.is_empty();
        assert_eq!(lines(problems), expected(case), "{}", case["name"]);
        if accepted {
            let warnings: Vec<String> =
                definition::warnings(&crd, None).iter().map(|one| format!("299 - {one:?}")).collect();
            let theirs = case.get("warnings").cloned().unwrap_or_else(|| json!([]));
            assert_eq!(json!(warnings), theirs, "{}", case["name"]);
        }
    }
}

#[test]
fn objects_are_judged_like_the_server_does() {
    let fixture: Value = serde_json::from_str(include_str!("testdata/objects.json")).unwrap();
    let mut crd = fixture["definition"].clone();
    definition::default_definition(&mut crd);
    assert_eq!(definition::validate_create(&crd), []);
    let kind = CustomKind::compile(&crd).unwrap();
    let version = &kind.versions[0];
    for case in fixture["cases"].as_array().unwrap() {
        let name = case["object"].to_string();
        let mut object =
            json!({"apiVersion": "lab.example.com/v1", "kind": "Values", "metadata": {"name": "x"}});
        for (key, value) in case["object"].as_object().unwrap() {
            object[key] = value.clone();
        }
        let unknown = match version.decode(&mut object, true) {
            Err(status) => {
                assert_eq!(status.message, case["message"].as_str().unwrap_or("accepted"), "{name}");
                continue;
            }
            Ok(unknown) => unknown,
        };
        let strict =
            if unknown.is_empty() { Value::Null } else { version.strict_failure(&unknown).message.into() };
        assert_eq!(strict, case["strict"], "{name}");
        version.default(&mut object);
        version.prepare_create(&mut object);
        let checked = version.validate_create(&object, Vec::new());
        let accepted = checked.problems.is_empty();
        assert_eq!(lines(checked.problems), expected(case), "{name}");
        if accepted {
            super::shape::canonical_numbers(&mut object);
            for key in ["kind", "apiVersion", "metadata"] {
                object.as_object_mut().unwrap().remove(key);
            }
            assert_eq!(object, case["result"], "{name}");
        }
    }
}
