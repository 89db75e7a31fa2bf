//! A server under test, as its clients see it.

use std::any::Any;
use std::path::PathBuf;

use super::Result;
use super::client::{Client, Credentials};

/// The bearer token of the user `alice` of the group `devs`, who has no rights of her own.
pub(crate) const ALICE_TOKEN: &str = "alice-token";

/// A running server and the ways into it.
pub(crate) struct Target {
    /// What the trials are named after.
    pub(crate) name: &'static str,
    /// `https://host:port`.
    pub(crate) base: String,
    /// The certificate of the authority that vouches for the server, as PEM.
    pub(crate) authority: String,
    /// A member of `system:masters`.
    pub(crate) admin: Credentials,
    /// The user `alice` of the group `devs`, uid `alice-uid`.
    pub(crate) alice: Credentials,
    /// A kubeconfig of the administrator.
    pub(crate) kubeconfig: PathBuf,
    /// What keeps the server running.
    pub(crate) _running: Box<dyn Any + Send + Sync>,
}

impl Target {
    /// A client with the given credentials.
    pub(crate) fn client(&self, credentials: &Credentials) -> Result<Client> {
        Client::new(&self.base, &self.authority, credentials)
    }
}
