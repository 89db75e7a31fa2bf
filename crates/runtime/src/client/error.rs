//! What can go wrong with a request.

use std::error::Error as StdError;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use kube::core::Status;

use crate::Resource;

/// Why a request failed. The texts hold what the server said, never what was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such object, or no such kind.
    #[error("{0}")]
    NotFound(String),
    /// An object of that name is there already.
    #[error("{0}")]
    AlreadyExists(String),
    /// The object is not the one, or not in the version, that the request was made for; or its fields are another's.
    #[error("{0}")]
    Conflict(String),
    /// The version or page asked for is no longer known.
    #[error("{0}")]
    Expired(String),
    /// The user may not do this, or an admission rule is against it.
    #[error("{0}")]
    Forbidden(String),
    /// The server does not know who asks.
    #[error("the server does not accept the credentials")]
    Unauthorized,
    /// What was sent is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The server wants to be asked later.
    #[error("{message}")]
    TooManyRequests {
        /// When to ask again.
        retry_after: Option<Duration>,
        /// What the server said.
        message: String,
    },
    /// A quota is used up.
    #[error("{0}")]
    Quota(String),
    /// The server cannot be reached or is in trouble. Whether the request took effect is not known.
    #[error("the server is not available: {0}")]
    Unavailable(String),
    /// The server answered that it failed over it: it, or whatever it asked first. Whether the request took effect is not
    /// known.
    #[error("the server is not available: {0}")]
    ServerFailed(String),
    /// No answer came in time. Whether the request took effect is not known.
    #[error("no answer in time")]
    Timeout,
    /// The answer is not what was expected of one.
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
    /// Anything else.
    #[error("{message} (code {code})")]
    Other {
        /// The status code.
        code: u16,
        /// What the server said.
        message: String,
    },
}

impl Error {
    /// Whether the same request may succeed later without anybody changing it.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict(_)
            | Self::Expired(_)
            | Self::Unauthorized
            | Self::TooManyRequests { .. }
            | Self::Quota(_)
            | Self::Unavailable(_)
            | Self::ServerFailed(_)
            | Self::Timeout => true,
            Self::NotFound(_)
            | Self::AlreadyExists(_)
            | Self::Forbidden(_)
            | Self::Invalid(_)
            | Self::Malformed(_)
            | Self::Other { .. } => false,
        }
    }

    /// Whether the request may have taken effect although it failed.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::ServerFailed(_) | Self::Timeout | Self::Malformed(_))
    }

    /// When the server wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyRequests { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// One word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not_found",
            Self::AlreadyExists(_) => "already_exists",
            Self::Conflict(_) => "conflict",
            Self::Expired(_) => "expired",
            Self::Forbidden(_) => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::Invalid(_) => "invalid",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::Quota(_) => "quota",
            Self::Unavailable(_) | Self::ServerFailed(_) => "unavailable",
            Self::Timeout => "timeout",
            Self::Malformed(_) => "malformed",
            Self::Other { .. } => "other",
        }
    }

    /// What an answer with a status of failure means.
    pub(crate) fn refused(
        code: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        resource: Option<&Resource>,
    ) -> Self {
        let status = serde_json::from_slice::<Status>(body).ok();
        let retry = header_seconds(headers).or_else(|| status.as_ref().and_then(details_seconds));
        let (reason, message) = match &status {
            Some(status) => (status.reason.as_str(), said(status, resource)),
            None => ("", format!("the server answered with code {}", code.as_u16())),
        };
        Self::classified(code.as_u16(), reason, message, retry)
    }

    /// What the failure that ends a watch means.
    pub(crate) fn told(status: &Status, resource: &Resource) -> Self {
        Self::classified(status.code, &status.reason, said(status, Some(resource)), details_seconds(status))
    }

    fn classified(code: u16, reason: &str, message: String, retry_after: Option<Duration>) -> Self {
        match (code, reason) {
            (404, _) => Self::NotFound(message),
            (409, "AlreadyExists") => Self::AlreadyExists(message),
            (409, _) => Self::Conflict(message),
            (410, _) | (_, "Expired" | "Gone") => Self::Expired(message),
            (401, _) => Self::Unauthorized,
            (403, _) if message.contains("exceeded quota") => Self::Quota(message),
            (403, _) => Self::Forbidden(message),
            (400 | 405 | 413 | 415 | 422, _) => Self::Invalid(message),
            (429, _) => Self::TooManyRequests { retry_after, message },
            (408 | 504, _) => Self::Timeout,
            (500..=599, _) => Self::ServerFailed(message),
            (code, _) => Self::Other { code, message },
        }
    }
}

/// The server's words, unless they may quote a secret.
fn said(status: &Status, resource: Option<&Resource>) -> String {
    let quotes = matches!(status.code, 400 | 422 | 500);
    if !quotes || !resource.is_some_and(Resource::is_secret) {
        return status.message.clone();
    }
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
    format!("the Secret is refused ({}) for its fields [{}]", status.reason, fields.join(", "))
}

fn header_seconds(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn details_seconds(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

impl From<kube::Error> for Error {
    /// What a failure to get any answer means. What could hold credentials (the output of a login helper, the address
    /// of a proxy) is left out.
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::classified(
                status.code,
                &status.reason,
                status.message.clone(),
                details_seconds(&status),
            ),
            kube::Error::HyperError(error) => Self::Unavailable(chain(&error)),
            kube::Error::Service(error) => Self::Unavailable(chain(&*error)),
            kube::Error::ReadEvents(error) => Self::Unavailable(chain(&error)),
            kube::Error::Auth(_) => Self::Unavailable("the credentials for it cannot be got".to_owned()),
            _ => Self::Unavailable("the request cannot be sent".to_owned()),
        }
    }
}

/// The words of an error and of all that caused it.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

    fn refused(code: u16, reason: &str, message: &str) -> Error {
        let body = json!({"kind": "Status", "code": code, "reason": reason, "message": message});
        let code = StatusCode::from_u16(code).unwrap();
        Error::refused(code, &HeaderMap::new(), body.to_string().as_bytes(), None)
    }

    #[test]
    fn each_answer_has_its_meaning() {
        for (code, reason, message, label, retryable) in [
            (404, "NotFound", "", "not_found", false),
            (409, "AlreadyExists", "", "already_exists", false),
            (409, "Conflict", "", "conflict", true),
            (410, "Expired", "", "expired", true),
            (403, "Forbidden", "no", "forbidden", false),
            (403, "Forbidden", "exceeded quota: q, requested: x", "quota", true),
            (401, "Unauthorized", "", "unauthorized", true),
            (422, "Invalid", "", "invalid", false),
            (429, "TooManyRequests", "", "too_many_requests", true),
            (503, "ServiceUnavailable", "", "unavailable", true),
            (500, "InternalError", "", "unavailable", true),
            (504, "Timeout", "", "timeout", true),
            (418, "", "", "other", false),
        ] {
            let error = refused(code, reason, message);
            assert_eq!((error.label(), error.is_retryable()), (label, retryable), "{code} {reason}");
        }
    }

    #[test]
    fn the_server_says_when_to_come_back() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "7".parse().unwrap());
        let error = Error::refused(StatusCode::TOO_MANY_REQUESTS, &headers, b"slow down", None);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        let body = json!({"code": 429, "details": {"retryAfterSeconds": 3}}).to_string();
        let error = Error::refused(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), body.as_bytes(), None);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_complaint_about_a_secret_is_not_repeated() {
        let body = json!({
            "code": 422, "reason": "Invalid", "message": "data: Invalid value: \"hunter2\"",
            "details": {"causes": [{"field": "data[a]", "message": "hunter2", "reason": "x"}]},
        });
        let code = StatusCode::UNPROCESSABLE_ENTITY;
        let error = Error::refused(code, &HeaderMap::new(), body.to_string().as_bytes(), Some(&SECRETS));
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2") && text.contains("data[a]"), "{text}");
    }
}
