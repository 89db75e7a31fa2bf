//! What the masters of a cluster serve from together: one Secret of their own cluster.
//!
//! It holds what is known of the cluster now, and the one ledger that all of them write. Whoever writes says which
//! version it has seen, so that of two that were shown the same token only one can accept it. Keys are not in it: each
//! master has its own.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use trellis_model::names::MachineName;

use super::folder;
use super::source::{Ledger, Pending, Source};
use crate::pki::Bundle;
use crate::site::Site;
use crate::tokens::{Redeemed, Refusal};

/// The namespace of the Secret.
pub const NAMESPACE: &str = "kube-system";
/// Its name.
pub const NAME: &str = "trellis-machine-config";
/// Its key with what is known of the cluster.
pub const SITE: &str = folder::SITE;
/// Its key with the ledger.
pub const LEDGER: &str = folder::LEDGER;

/// How often a server tries that others are always quicker than.
const TRIES: usize = 20;

/// The Secret, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelved {
    /// The text under [`SITE`].
    pub site: String,
    /// The text under [`LEDGER`].
    pub ledger: String,
    /// Its version.
    pub version: String,
}

/// How the Secret is reached. Errors are for the log, and hold no secret.
pub trait Shelf: Send + Sync {
    /// Reads it; nothing where it is not there yet.
    fn read(&self) -> Pending<'_, Result<Option<Shelved>, String>>;

    /// Writes the ledger, if nobody has changed the Secret since it had that version; whether nobody had.
    fn write<'s>(&'s self, ledger: String, version: &'s str) -> Pending<'s, Result<bool, String>>;
}

/// The same server on several machines: keys from the disk of each, everything else from the Secret.
pub struct Shared<K> {
    keys: K,
    shelf: Arc<dyn Shelf>,
}

impl<K> std::fmt::Debug for Shared<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<K: Source> Shared<K> {
    /// A server with these keys beside others that use the same Secret.
    pub fn new(keys: K, shelf: Arc<dyn Shelf>) -> Self {
        Self { keys, shelf }
    }

    async fn shelved(&self) -> Result<Shelved, String> {
        let shelved = self.shelf.read().await?;
        shelved.ok_or_else(|| format!("the Secret {NAMESPACE}/{NAME} is not there yet"))
    }
}

impl<K: Source> Source for Shared<K> {
    fn bundle(&self) -> Result<Bundle, String> {
        self.keys.bundle()
    }

    fn site(&self) -> Pending<'_, Result<Site, String>> {
        Box::pin(async move { read(SITE, &self.shelved().await?.site) })
    }
}

impl<K: Source> Ledger for Shared<K> {
    fn redeem<'l>(
        &'l self,
        machine: &'l MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Pending<'l, Result<(), Refusal>> {
        Box::pin(async move {
            for _ in 0..TRIES {
                let shelved = self.shelved().await.map_err(Refusal::OutOfOrder)?;
                let mut ledger: Redeemed = read(LEDGER, &shelved.ledger).map_err(Refusal::OutOfOrder)?;
                ledger.redeem(machine, issued, now)?;
                let text = json!(ledger).to_string();
                if self.shelf.write(text, &shelved.version).await.map_err(Refusal::OutOfOrder)? {
                    return Ok(());
                }
            }
            Err(Refusal::OutOfOrder(format!("others changed the Secret {NAMESPACE}/{NAME} all the time")))
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(key: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        format!(
            "{key} of the Secret {NAMESPACE}/{NAME}: not understood at line {}, column {}",
            error.line(),
            error.column()
        )
    })
}
