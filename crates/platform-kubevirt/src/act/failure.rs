//! What an error of the API means for the action that met it.

use trellis_platform::Failure;

use crate::call::{Call, Verb};
use crate::observe::shortened;

/// An error as the API tells it, without the request it answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiError {
    /// The HTTP status; zero where there was no answer.
    pub code: u16,
    /// The reason in one word.
    pub reason: String,
    /// The message. It may repeat what was sent, which for Secrets must not be shown.
    pub message: String,
}

/// Whether an error says that what was asked for is so already.
pub fn is_done(call: &Call, error: &ApiError) -> bool {
    call.verb == Verb::Delete && error.code == 404
}

/// What an error means for what was asked.
pub fn failure(call: &Call, error: &ApiError) -> Failure {
    let told = told(call, error);
    let says = |text: &str| error.message.contains(text);
    match error.code {
        403 if says("exceeded quota") => Failure::NoRoom(told),
        // A namespace that is being removed takes nothing new, however often it is asked.
        403 if says("being terminated") => Failure::Refused(told),
        401 | 403 => Failure::Forbidden(told),
        // What is to be changed is gone; what is to be made has no namespace.
        404 if matches!(call.verb, Verb::Apply | Verb::Create) => Failure::Refused(told),
        404 | 409 | 410 | 412 => Failure::Outdated(told),
        // KubeVirt lets a machine make one move at a time.
        400 if says("in-flight migration") => Failure::Outdated(told),
        // A patch tests that it meets what it was made for, and the server does not say which test failed.
        422 if call.verb == Verb::JsonPatch && is_failed_test(&error.message) => Failure::Outdated(told),
        507 => Failure::NoRoom(told),
        408 | 429 | 500.. | 0 => Failure::Unclear(told),
        _ => Failure::Refused(told),
    }
}

fn is_failed_test(message: &str) -> bool {
    let known = ["rejected our request due to an error in our request", "testing value", "test operation"];
    known.iter().any(|text| message.contains(text))
}

/// The error in words: what it was about, and what was said. Of a Secret only the reason.
fn told(call: &Call, error: &ApiError) -> String {
    let said =
        if call.plural == "secrets" || error.message.is_empty() { &error.reason } else { &error.message };
    let what = call.plural.strip_suffix('s').unwrap_or(call.plural);
    if said.is_empty() {
        format!("{what} {}: no answer", call.name)
    } else {
        format!("{what} {}: {}", call.name, shortened(said))
    }
}
