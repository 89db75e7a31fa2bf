//! `lab.trellis.dev`: the lab's own API, for what no real cluster lets anybody do from outside.
//!
//! Hosts lose their power, rules make things slow or fail, guests panic, links are cut, and anybody can ask who
//! reaches whom. It is an aggregated API, so the API server authenticates who asks and RBAC says who may.

mod hosts;
mod machines;
mod network;
mod rules;
mod storage;

use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};

use crate::context::Context;
use crate::service::{Body, Call, answer, failure};

/// The group and version.
pub const GROUP_VERSION: &str = "lab.trellis.dev/v1";
/// The longest body that is read.
const LONGEST: usize = 1 << 20;

/// What a request comes to: an answer or why there is none.
type Told = Result<Value, (StatusCode, String)>;

/// Answers a request.
pub async fn serve(context: &Context, call: Call) -> Response<Body> {
    let (parts, body) = call.request.into_parts();
    let path = parts.uri.path().trim_start_matches("/apis/").to_owned();
    let body = match Limited::new(body, LONGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return failure(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string()),
    };
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        match serde_json::from_slice(&body) {
            Ok(body) => body,
            Err(error) => {
                let message = format!("the body is no JSON: {error}");
                return failure(StatusCode::BAD_REQUEST, "BadRequest", &message);
            }
        }
    };
    let steps: Vec<&str> =
        path.trim_start_matches(GROUP_VERSION).split('/').filter(|step| !step.is_empty()).collect();
    match told(context, &parts.method, &steps, &body) {
        Ok(value) => answer(StatusCode::OK, &value),
        Err((code, message)) => {
            let reason = match code {
                StatusCode::NOT_FOUND => "NotFound",
                StatusCode::CONFLICT => "AlreadyExists",
                _ => "BadRequest",
            };
            failure(code, reason, &message)
        }
    }
}

fn told(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    match steps {
        [] => Ok(resources()),
        ["hosts", rest @ ..] => hosts::told(context, method, rest, body),
        ["rules", rest @ ..] => rules::told(context, method, rest, body),
        ["storageclasses", rest @ ..] => storage::told(context, method, rest, body),
        ["cuts", rest @ ..] => network::cuts(context, method, rest, body),
        ["reach", rest @ ..] => network::reach(context, method, rest, body),
        ["machines", rest @ ..] => machines::told(context, method, rest, body),
        _ => Err(nothing_here()),
    }
}

/// What there is, for discovery.
fn resources() -> Value {
    let resource = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": verbs});
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION,
        "resources": [
            resource("hosts", "Host", &["get", "list", "update"]),
            resource("rules", "Rule", &["create", "delete", "list"]),
            resource("storageclasses", "StorageClassCapacity", &["get", "update"]),
            resource("cuts", "Cut", &["create", "delete", "list"]),
            resource("reach", "Verdict", &["create"]),
            resource("machines", "Machine", &["create"]),
        ],
    })
}

fn nothing_here() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "the server could not find the requested resource".to_owned())
}

/// A body that is not what was expected.
fn bad(why: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, why.to_string())
}
