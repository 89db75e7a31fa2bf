//! Why a world cannot be made or does not become as wanted.

use trellis_infra::client::ApiError;

/// What making a world or waiting in it comes to.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a world cannot be made or does not become as wanted.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An API server of the world did not start.
    #[error("an API server does not start: {0}")]
    Lab(String),
    /// The infra cluster did not start.
    #[error(transparent)]
    Infra(#[from] trellis_infra::InfraError),
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Something did not happen in time: what was waited for, and what was there instead.
    #[error("{what}; instead: {instead}")]
    Never {
        /// What was waited for.
        what: String,
        /// What was there instead.
        instead: String,
    },
    /// A client of the world cannot be made.
    #[error("a client cannot be made: {0}")]
    Client(String),
    /// A certificate of the world cannot be read.
    #[error("the authority's certificate cannot be read: {0}")]
    Certificate(String),
}
