//! A folder the machine config server works from: what is known of the cluster, its certificates, and the ledger.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use trellis_model::names::MachineName;

use super::source::{Ledger, Pending, Source};
use crate::pki::Bundle;
use crate::secret::Secret;
use crate::site::Site;
use crate::tokens::{Redeemed, Refusal};

/// What is known of the cluster.
pub const SITE: &str = "site.json";
/// Its keys and certificates.
pub const BUNDLE: &str = "bundle.json";
/// The ledger: who was served.
pub const LEDGER: &str = "ledger.json";

/// The files of a folder of a server that has all of it for itself, by name.
pub fn files(site: &Site, bundle: &Bundle, ledger: &Redeemed) -> [(&'static str, Secret); 3] {
    let text = |value: serde_json::Value| Secret::new(value.to_string());
    [(SITE, text(json!(site))), keys(bundle), (LEDGER, text(json!(ledger)))]
}

/// The one file of a server that shares the rest with others.
pub fn keys(bundle: &Bundle) -> (&'static str, Secret) {
    (BUNDLE, Secret::new(json!(bundle).to_string()))
}

/// A folder on this machine. It is read anew for every machine that asks, so that changes count at once.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// One at a time reads and writes the ledger.
    turn: Mutex<()>,
}

impl Folder {
    /// The folder at a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), turn: Mutex::new(()) }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let path = self.path.join(name);
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            // What is wrong is told by its place: the text around it may be a key.
            format!("{}: not understood at line {}, column {}", path.display(), error.line(), error.column())
        })
    }

    /// Accepts a token only when the ledger with it is safe on disk.
    fn redeem_now(&self, machine: &MachineName, issued: Timestamp, now: Timestamp) -> Result<(), Refusal> {
        let _turn = self.turn.lock();
        let mut ledger: Redeemed = self.read(LEDGER).map_err(Refusal::OutOfOrder)?;
        ledger.redeem(machine, issued, now)?;
        let text = json!(ledger).to_string();
        replace(&self.path.join(LEDGER), &text).map_err(|error| Refusal::OutOfOrder(error.to_string()))
    }
}

impl Source for Folder {
    fn bundle(&self) -> Result<Bundle, String> {
        self.read(BUNDLE)
    }

    fn site(&self) -> Pending<'_, Result<Site, String>> {
        // A small file, seldom: not worth another thread. The same goes for the ledger.
        Box::pin(std::future::ready(self.read(SITE)))
    }
}

impl Ledger for Folder {
    fn redeem<'l>(
        &'l self,
        machine: &'l MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Pending<'l, Result<(), Refusal>> {
        Box::pin(std::future::ready(self.redeem_now(machine, issued, now)))
    }
}

/// Puts a new file in the place of an old one, whole or not at all.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("new");
    // Only for its owner, from the first moment on.
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)
}
