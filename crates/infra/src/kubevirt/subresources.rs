//! `subresources.kubevirt.io`: what can be done to a machine.

use http::{Response, StatusCode};

use crate::context::Context;
use crate::service::{Body, Call, failure};

/// Answers a request.
pub async fn serve(_context: &Context, _call: Call) -> Response<Body> {
    failure(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
}
