//! The questions webhooks are asked and the answers they give.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::super::Kinds;
use super::super::json::{items, text};
use super::super::matching::Matched;
use super::super::review::Review;
use crate::status::{Cause, Details, Status, interned};

/// Why a webhook gave no permission.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be asked, or its answer made no sense: may be forgiven.
    Call(String),
    /// The request is refused.
    Denied(Status),
}

/// An answer in good form.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) warnings: Vec<String>,
    pub(super) patch: Option<Vec<u8>>,
    pub(super) patch_type: String,
    result: Value,
}

/// The `AdmissionReview` for a webhook.
pub(super) fn question(
    version: &str,
    uid: &str,
    matched: &Matched,
    review: &Review<'_>,
    kinds: &dyn Kinds,
) -> Result<Value, Status> {
    let attributes = review.attributes;
    let as_matched = |object: Option<&Value>| match object {
        None => Ok(Value::Null),
        Some(object) if matched.kind == *review.kind => Ok(object.clone()),
        Some(object) => kinds.convert(object, &matched.kind),
    };
    let mut request = json!({
        "uid": uid,
        "kind": {"group": matched.kind.group, "version": matched.kind.version, "kind": matched.kind.kind},
        "resource": {"group": matched.group, "version": matched.version, "resource": matched.resource},
        "requestKind": {"group": review.kind.group, "version": review.kind.version, "kind": review.kind.kind},
        "requestResource": {
            "group": attributes.group, "version": attributes.version, "resource": attributes.resource,
        },
        "operation": review.operation.as_str(),
        "userInfo": user_info(review),
        "object": as_matched(review.object.as_ref())?,
        "oldObject": as_matched(review.old.as_deref())?,
        "dryRun": review.dry_run,
        "options": review.options,
    });
    let optional = [
        ("subResource", attributes.subresource.as_str()),
        ("requestSubResource", attributes.subresource.as_str()),
        ("name", review.name()),
        ("namespace", review.namespace()),
    ];
    for (key, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
        request[key] = value.into();
    }
    Ok(json!({
        "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request,
    }))
}

/// Who asks, as reviews tell it.
pub(in super::super) fn user_info(review: &Review<'_>) -> Value {
    let user = &review.attributes.user;
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] =
            user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
    }
    info
}

/// Reads an answer as the Go client would, and fails as it would.
pub(super) fn decoded(answer: &http::Response<Bytes>, version: &str) -> Result<Value, String> {
    const HEADER: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    if answer.body().is_empty() {
        let code = answer.status().as_u16();
        let kind =
            answer.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        return Err(format!("0-length response with status code: {code} and content type: {kind}"));
    }
    // What is no JSON is a text in YAML.
    let review: Value =
        serde_json::from_slice(answer.body()).unwrap_or_else(|_| Value::String(String::new()));
    let wrong = match &review {
        Value::Object(_) | Value::Null => None,
        Value::Array(_) => Some("array"),
        Value::String(_) => Some("string"),
        Value::Number(_) => Some("number"),
        Value::Bool(_) => Some("bool"),
    };
    if let Some(kind) = wrong {
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type {HEADER}"
        ));
    }
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
    if !api_version.is_empty() && !kind.is_empty() {
        if kind != "AdmissionReview" || !known.contains(&api_version) {
            return Err(format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            ));
        }
        if api_version != format!("admission.k8s.io/{version}") {
            let other = api_version.rsplit('/').next().unwrap_or_default();
            return Err(format!(
                "converting ({other}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
            ));
        }
    }
    check_types(&review["response"])?;
    Ok(review)
}

/// Tells whether a value has the right type.
type Check = fn(&Value) -> bool;

/// Fields of the wrong type, in the words of Go.
fn check_types(response: &Value) -> Result<(), String> {
    let wrong = |field: &str, value: &Value, expected: &str| {
        let found = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        format!(
            "json: cannot unmarshal {found} into Go struct field AdmissionResponse.response.{field} of type {expected}"
        )
    };
    let fields: [(&str, Check, &str); 6] = [
        ("uid", Value::is_string, "types.UID"),
        ("allowed", Value::is_boolean, "bool"),
        ("patch", Value::is_string, "[]uint8"),
        ("patchType", Value::is_string, "v1.PatchType"),
        ("warnings", Value::is_array, "[]string"),
        ("status", Value::is_object, "v1.Status"),
    ];
    for (field, is_right, expected) in fields {
        let value = &response[field];
        if !value.is_null() && !is_right(value) {
            return Err(wrong(field, value, expected));
        }
    }
    Ok(())
}

impl Answer {
    /// Checks that an answer is one to the question that was asked, and in form.
    pub(super) fn verified(review: &Value, version: &str, uid: &str, mutates: bool) -> Result<Self, String> {
        let response = &review["response"];
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        let patch =
            STANDARD.decode(text(&response["patch"])).map_err(|_| "illegal base64 data".to_owned())?;
        let patch_type = response["patchType"].as_str();
        if version == "v1" {
            let given = text(&response["uid"]);
            if given != uid {
                return Err(format!("expected response.uid={uid:?}, got {given:?}"));
            }
            let (group, version) = text(&review["apiVersion"]).split_once('/').unwrap_or_default();
            let kind = text(&review["kind"]);
            if (group, version, kind) != ("admission.k8s.io", "v1", "AdmissionReview") {
                return Err(format!(
                    "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
                ));
            }
            match (mutates, patch.is_empty(), patch_type) {
                (true, false, None) => {
                    return Err("webhook returned response.patch but not response.patchType".to_owned());
                }
                (true, true, Some(_)) => {
                    return Err("webhook returned response.patchType but not response.patch".to_owned());
                }
                (true, _, Some("")) => {
                    return Err("webhook returned invalid response.patchType of \"\"".to_owned());
                }
                (false, false, _) => {
                    return Err("validating webhook may not return response.patch".to_owned());
                }
                (false, _, Some(_)) => {
                    return Err("validating webhook may not return response.patchType".to_owned());
                }
                _ => {}
            }
        }
        Ok(Self {
            allowed: response["allowed"] == true,
            warnings: items(&response["warnings"]).map(|one| text(one).to_owned()).collect(),
            patch: Some(patch).filter(|patch| mutates && !patch.is_empty()),
            // Version v1beta1 knows one sort of patch only.
            patch_type: if version == "v1" { patch_type.unwrap_or_default() } else { "JSONPatch" }.to_owned(),
            result: response["status"].clone(),
        })
    }

    /// The refusal, if it is one.
    pub(super) fn verdict(&self, webhook: &str) -> Result<(), Failure> {
        if self.allowed { Ok(()) } else { Err(Failure::Denied(denial(webhook, &self.result))) }
    }
}

/// The patch in an answer.
pub(super) fn decode_patch(bytes: &[u8]) -> Result<Value, Failure> {
    let undecodable =
        |why: &str| Failure::Call(format!("received undecodable patch in webhook response: {why}"));
    let patch: Value = serde_json::from_slice(bytes).map_err(|error| undecodable(&error.to_string()))?;
    let found = match &patch {
        Value::Array(_) | Value::Null => return Ok(patch),
        Value::Object(_) => "object",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(undecodable(&format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch")))
}

/// The refusal of a webhook: its own status, with at least a code and a message.
fn denial(webhook: &str, result: &Value) -> Status {
    let start = format!("admission webhook {webhook:?} denied the request");
    let (message, reason) = (text(&result["message"]), text(&result["reason"]));
    let message = match (message, reason) {
        ("", "") => format!("{start} without explanation"),
        ("", why) | (why, _) => format!("{start}: {why}"),
    };
    let code = result["code"].as_u64().filter(|code| *code >= 400).unwrap_or(400).min(999);
    let mut status = Status::new(u16::try_from(code).unwrap_or(400), interned(reason), message);
    let details = &result["details"];
    status.details = Details {
        name: text(&details["name"]).to_owned(),
        group: text(&details["group"]).to_owned(),
        kind: text(&details["kind"]).to_owned(),
        uid: text(&details["uid"]).to_owned(),
        retry_after_seconds: details["retryAfterSeconds"]
            .as_u64()
            .and_then(|seconds| u32::try_from(seconds).ok()),
        causes: items(&details["causes"])
            .map(|cause| Cause {
                reason: interned(text(&cause["reason"])),
                message: text(&cause["message"]).to_owned(),
                field: text(&cause["field"]).to_owned(),
            })
            .collect(),
    };
    status
}
