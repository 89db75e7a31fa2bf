//! The Secret that the machine config servers of a cluster share, reached with a kubeconfig.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_bootstrap::server::Pending;
use trellis_bootstrap::server::shared::{self, Shelf, Shelved};
use trellis_runtime::client::{Error, Manners, Site};
use trellis_runtime::credentials::{CredentialsError, Source};
use trellis_runtime::{Key, Resource};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// The Secret of the cluster that a kubeconfig leads to.
#[derive(Debug)]
pub struct SharedSecret {
    kubeconfig: PathBuf,
    site: OnceCell<Site>,
}

impl SharedSecret {
    /// The Secret of the cluster that the kubeconfig at this path leads to.
    pub fn new(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, site: OnceCell::new() }
    }

    fn key() -> Key {
        Key::new(shared::NAMESPACE, shared::NAME)
    }

    async fn site(&self) -> Result<&Site, String> {
        let connect = async || {
            let source = Source::File { path: self.kubeconfig.clone(), context: None };
            let followed = source.connect("tenant", Manners::default()).await?;
            let site = followed.site.clone();
            // Its certificate is renewed one day.
            tokio::spawn(followed.follow());
            Ok(site)
        };
        self.site.get_or_try_init(connect).await.map_err(|error: CredentialsError| error.to_string())
    }
}

impl Shelf for SharedSecret {
    fn read(&self) -> Pending<'_, Result<Option<Shelved>, String>> {
        Box::pin(async move {
            let found = self.site().await?.find::<Value>(&SECRETS, &Self::key()).await;
            let Some(secret) = found.map_err(|error| error.to_string())? else { return Ok(None) };
            let text = |key: &str| {
                let bytes = STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).ok();
                let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                text.ok_or_else(|| format!("{key} of the Secret {} is no text", Self::key()))
            };
            let version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            Ok(Some(Shelved { site: text(shared::SITE)?, ledger: text(shared::LEDGER)?, version }))
        })
    }

    fn write<'s>(&'s self, ledger: String, version: &'s str) -> Pending<'s, Result<bool, String>> {
        Box::pin(async move {
            let patch = json!({
                "metadata": {"resourceVersion": version},
                "data": {shared::LEDGER: STANDARD.encode(ledger)},
            });
            match self.site().await?.merge_patch::<Value>(&SECRETS, &Self::key(), &patch).await {
                Ok(_) => Ok(true),
                Err(Error::Conflict(_)) => Ok(false),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
