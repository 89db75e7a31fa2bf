//! An AdmissionReview and its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Cause, defaults, judged};

/// Where a webhook asks whether an object may be written.
pub const VALIDATE: &str = "/validate";
/// Where a webhook asks what is to be filled in.
pub const MUTATE: &str = "/mutate";

/// How long a warning may be; servers cut them, or drop all.
const LONGEST_WARNING: usize = 250;
/// How many warnings are given.
const MOST_WARNINGS: usize = 8;

/// Answers a review that was sent to a path; nothing where it is no review, or for no such path.
pub fn review(path: &str, asked: &Value) -> Option<Value> {
    let request = asked.get("request").filter(|request| request.get("uid").is_some_and(Value::is_string))?;
    let mut response = match path {
        VALIDATE => validated(request),
        MUTATE => mutated(request),
        _ => return None,
    };
    response["uid"] = request["uid"].clone();
    Some(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// What is to be written, where it is the object itself that is written.
fn written(request: &Value) -> Option<&Value> {
    let writes = matches!(request["operation"].as_str(), Some("CREATE" | "UPDATE"));
    let whole = request["subResource"].as_str().unwrap_or_default().is_empty();
    request.get("object").filter(|object| writes && whole && object.is_object())
}

fn mutated(request: &Value) -> Value {
    let patch = written(request).map(defaults).unwrap_or_default();
    if patch.is_empty() {
        return json!({"allowed": true});
    }
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(Value::Array(patch).to_string())})
}

fn validated(request: &Value) -> Value {
    let Some(object) = written(request) else { return json!({"allowed": true}) };
    let old = request.get("oldObject").filter(|old| old.is_object());
    let (causes, warnings) = judged(object, old);
    let mut response = json!({"allowed": causes.is_empty()});
    if !warnings.is_empty() {
        let short = |text: &String| text.chars().take(LONGEST_WARNING).collect::<String>();
        response["warnings"] = warnings.iter().take(MOST_WARNINGS).map(short).collect();
    }
    if !causes.is_empty() {
        response["status"] = status(object, &causes);
    }
    response
}

/// The refusal, as servers refuse themselves.
fn status(object: &Value, causes: &[Cause]) -> Value {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let group = group.split_once('/').map_or("", |(group, _)| group);
    let said: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let causes: Vec<Value> = causes
        .iter()
        .map(|cause| json!({"reason": cause.why.as_str(), "field": cause.field, "message": cause.message}))
        .collect();
    json!({
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": format!("{kind}.{group} \"{name}\" is invalid: {}", said.join("; ")),
        "details": {"group": group, "kind": kind, "name": name, "causes": causes},
    })
}
