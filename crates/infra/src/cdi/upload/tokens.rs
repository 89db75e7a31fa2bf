//! The API that gives out tokens for uploads.

use std::collections::BTreeMap;

use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{has, names};
use crate::cdi::{populate, token};
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::PVC;
use crate::object::{Key, Object as _};
use crate::service::{Body, Call, answer, failure};

const GROUP: &str = "upload.cdi.kubevirt.io";
const VERSION: &str = "upload.cdi.kubevirt.io/v1beta1";

/// Answers a request to `upload.cdi.kubevirt.io`.
pub async fn serve_tokens(context: &Context, call: Call) -> Response<Body> {
    let path = call.request.uri().path().trim_matches('/').to_owned();
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    let get = call.request.method() == Method::GET;
    match parts[..] {
        [] if get => {
            let version = json!({"groupVersion": VERSION, "version": "v1beta1"});
            let group = json!({
                "kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version],
                "preferredVersion": version,
            });
            answer(StatusCode::OK, &group)
        }
        ["v1beta1"] if get => {
            let resource = json!({
                "name": "uploadtokenrequests", "singularName": "uploadtokenrequest", "namespaced": true,
                "group": GROUP, "version": "v1beta1", "kind": "UploadTokenRequest", "verbs": ["create"],
                "shortNames": ["utr", "utrs"],
            });
            let list = json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [resource],
            });
            answer(StatusCode::OK, &list)
        }
        ["v1beta1", "namespaces", namespace, "uploadtokenrequests"]
            if call.request.method() == Method::POST =>
        {
            let namespace = namespace.to_owned();
            give(context, &namespace, call).await
        }
        ["v1beta1", "namespaces", _, "uploadtokenrequests"] => failure(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        _ => failure(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource"),
    }
}

async fn give(context: &Context, namespace: &str, call: Call) -> Response<Body> {
    let bad = |message: &str| failure(StatusCode::BAD_REQUEST, "BadRequest", message);
    let Ok(body) = call.request.into_body().collect().await else {
        return bad("the request could not be read");
    };
    let Ok(mut request) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return bad("the request is no UploadTokenRequest");
    };
    let own = request.namespace();
    if !own.is_empty() && own != namespace {
        return bad(&format!("provided namespace {own} does not match {namespace}"));
    }
    let name = request.text("/spec/pvcName").to_owned();
    let key = Key::new(namespace, &name);
    let claim = match context.client(Identity::CDI_API).get(&PVC, &key).await {
        Ok(Some(claim)) => claim,
        Ok(None) => return bad(&format!("persistentvolumeclaims \"{name}\" not found")),
        Err(error) => {
            return failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string());
        }
    };
    if let Err(message) = possible(&claim) {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message);
    }
    let grant = token::Grant {
        operation: "Upload".to_owned(),
        name,
        namespace: namespace.to_owned(),
        resource: token::Resource::claims(),
        params: BTreeMap::new(),
    };
    match token::issue(context, token::UPLOAD, grant).await {
        Ok(token) => {
            request.set("/apiVersion", VERSION.into());
            request.set("/kind", "UploadTokenRequest".into());
            request.set("/metadata/namespace", namespace.into());
            request.set("/status", json!({"token": token}));
            answer(StatusCode::OK, &request)
        }
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string()),
    }
}

/// Why nothing can be uploaded to a claim, if so.
pub(super) fn possible(claim: &Value) -> Result<(), String> {
    let is_target = has(claim, names::UPLOAD_TARGET) || populate::source_kind(claim) == "VolumeUploadSource";
    if is_target { Ok(()) } else { Err(format!("PVC {} is not an upload target", claim.name())) }
}
