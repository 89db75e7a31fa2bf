//! Why a request is refused, as virt-api tells it.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::client::ApiError;
use crate::service::{Body, answer};

/// The group the objects belong to.
const GROUP: &str = "kubevirt.io";

/// A request that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    code: StatusCode,
    reason: String,
    message: String,
    details: Value,
}

impl Refusal {
    fn about(code: StatusCode, reason: &str, kind: &str, name: &str, message: String) -> Self {
        let details = json!({"name": name, "group": GROUP, "kind": kind});
        Self { code, reason: reason.to_owned(), message, details }
    }

    /// There is no such object.
    pub(super) fn not_found(kind: &str, name: &str) -> Self {
        let message = format!("{kind}.{GROUP} \"{name}\" not found");
        Self::about(StatusCode::NOT_FOUND, "NotFound", kind, name, message)
    }

    /// The object is not in a state for this.
    pub(super) fn conflict(kind: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {kind}.{GROUP} \"{name}\": {why}");
        Self::about(StatusCode::CONFLICT, "Conflict", kind, name, message)
    }

    /// This is not done to such an object.
    pub(super) fn forbidden(kind: &str, name: &str, why: &str) -> Self {
        let message = format!("{kind}.{GROUP} \"{name}\" is forbidden: {why}");
        Self::about(StatusCode::FORBIDDEN, "Forbidden", kind, name, message)
    }

    /// The request makes no sense.
    pub(super) fn bad(message: &str) -> Self {
        let reason = "BadRequest".to_owned();
        Self { code: StatusCode::BAD_REQUEST, reason, message: message.to_owned(), details: Value::Null }
    }

    /// Something went wrong on the way.
    pub(super) fn internal(why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            code: StatusCode::INTERNAL_SERVER_ERROR,
            reason: "InternalError".to_owned(),
            message: format!("Internal error occurred: {why}"),
            details: json!({"causes": [{"message": why}]}),
        }
    }

    /// The API server did not do what virt-api asked of it.
    pub(super) fn of_api(failure: ApiError) -> Self {
        Self::internal(failure.message)
    }

    /// The API server refused it.
    pub(super) fn passed_on(failure: &ApiError) -> Self {
        Self {
            code: StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            details: Value::Null,
        }
    }

    /// The answer.
    pub(super) fn response(&self) -> Response<Body> {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        answer(self.code, &status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_clients_know() {
        let conflict = Refusal::conflict("virtualmachine", "m", "VM is not running");
        assert_eq!(
            conflict.to_string(),
            "Operation cannot be fulfilled on virtualmachine.kubevirt.io \"m\": VM is not running"
        );
        assert_eq!(conflict.response().status(), 409);
        assert_eq!(
            Refusal::not_found("virtualmachine", "m").to_string(),
            "virtualmachine.kubevirt.io \"m\" not found"
        );
        assert_eq!(Refusal::internal("x").to_string(), "Internal error occurred: x");
    }
}
