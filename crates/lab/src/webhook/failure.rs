//! Why calls fail, in the words of the Go client.

use bytes::Bytes;
use http::Response;
use serde_json::Value;

/// A call that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CallError {
    /// The call took too long.
    #[error("context deadline exceeded")]
    Deadline,
    /// The server answered, but not with success: the code and what the Go client says of it.
    #[error("{message}")]
    Refused {
        /// The HTTP code.
        code: u16,
        /// What the Go client says.
        message: String,
    },
    /// Anything else: no connection, no trust, no HTTP.
    #[error("{0}")]
    Other(String),
}

impl CallError {
    /// A connection that could not be opened.
    pub(super) fn of_dial(address: &str, error: &std::io::Error) -> Self {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            std::io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
            std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
            std::io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
            _ if error.raw_os_error().is_none() => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                return Self::Other(format!("dial tcp: lookup {host}: no such host"));
            }
            _ => error.to_string(),
        };
        Self::Other(format!("dial tcp {address}: {why}"))
    }

    /// A failure of the HTTP connection.
    pub(super) fn of_hyper(error: &hyper::Error) -> Self {
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            return Self::Other("EOF".to_owned());
        }
        if error.is_parse() {
            return Self::Other(format!("net/http: HTTP/1.x transport connection broken: {error}"));
        }
        Self::Other(error.to_string())
    }

    /// The failure as the Go client tells it of a POST.
    pub(super) fn posting(self, url: &str) -> Self {
        match self {
            Self::Refused { .. } => self,
            other => Self::Other(format!("Post {url:?}: {other}")),
        }
    }
}

/// A success; other codes are failures.
pub(super) fn only_success(answer: Response<Bytes>) -> Result<Response<Bytes>, CallError> {
    let code = answer.status().as_u16();
    if (200..=206).contains(&code) {
        return Ok(answer);
    }
    // A server that answers with a Status is taken at its word.
    if let Ok(status) = serde_json::from_slice::<Value>(answer.body())
        && status["kind"] == "Status"
        && status["status"] != "Success"
        && let Some(message) = status["message"].as_str().filter(|message| !message.is_empty())
    {
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(code);
        return Err(CallError::Refused { code, message: message.to_owned() });
    }
    Err(CallError::Refused { code, message: generic(code, &said(&answer)) })
}

/// What a server said, as far as it is text, or `unknown`.
fn said(answer: &Response<Bytes>) -> String {
    let kind = answer.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/")) {
        return "unknown".to_owned();
    }
    // The Go client reads two kilobytes of such a text at most.
    let bytes = answer.body().get(..2048).unwrap_or(answer.body());
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// What the Go client says of a code that came without a `Status`.
fn generic(code: u16, said: &str) -> String {
    match code {
        409 => "the server reported a conflict".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        406 if said == "unknown" || said.is_empty() => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        403 | 406 | 415 => said.to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing \
                the request"
                .to_owned()
        }
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        500.. => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}
