//! Uploads: tokens for them, and the proxy that takes them.

use http::{Response, StatusCode};

use crate::context::Context;
use crate::service::{Body, Call, failure};

/// Answers a request to `upload.cdi.kubevirt.io`.
pub async fn serve_tokens(_context: &Context, _call: Call) -> Response<Body> {
    failure(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
}

/// Takes an upload.
pub async fn serve_uploads(_context: &Context, _call: Call) -> Response<Body> {
    failure(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
}
