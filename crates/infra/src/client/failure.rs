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
        // The causes say what the error itself often does not: where to, and why not.
        let mut message = source.to_string();
        let mut cause = source.source();
        while let Some(error) = cause {
            let words = error.to_string();
            if !message.contains(&words) {
                message = format!("{message}: {words}");
            }
            cause = error.source();
        }
        Self { code: 0, reason: String::new(), message }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_failure_tells_its_causes() {
        let cause = std::io::Error::other("dial tcp 10.0.0.1:6443: connect: connection refused");
        let failure = ApiError::other(&Outer(cause));
        assert_eq!(
            failure.message,
            "client error (Connect): dial tcp 10.0.0.1:6443: connect: connection refused"
        );
    }
}
