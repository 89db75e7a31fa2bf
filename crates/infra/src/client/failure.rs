//! What the API server says when it does not do what it was asked.

/// A request that came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP code; 0 when there was no answer.
    pub code: u16,
    /// The reason in one word, such as `Conflict`.
    pub reason: String,
    /// What the server said.
    pub message: String,
}

impl ApiError {
    /// A failure that is not the server's.
    pub(crate) fn other(source: &dyn std::error::Error) -> Self {
        Self { code: 0, reason: String::new(), message: source.to_string() }
    }

    /// The object, or the kind of object, is not there.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// The object has changed since it was read, or something else stands in the way at the moment.
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason != "AlreadyExists"
    }

    /// An object of that name is there.
    pub fn is_already_there(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The request itself is not acceptable: trying again does not help.
    pub fn is_refused(&self) -> bool {
        matches!(self.code, 400 | 403 | 422)
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                Self { code: status.code, reason: status.reason, message: status.message }
            }
            other => Self::other(&other),
        }
    }
}
