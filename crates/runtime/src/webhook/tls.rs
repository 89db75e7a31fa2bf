//! The certificate a webhook shows, which may change while it serves.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::Instant;

use super::WebhookError;

/// How often files are looked at, at most; nobody looks while nobody asks.
const LOOK: Duration = Duration::from_secs(1);

/// A certificate with its key, and the authority's certificate where it is known; all as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain, the certificate itself first.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// Who vouches for it.
    pub authority: Option<String>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an identity")
    }
}

impl Identity {
    /// Reads `tls.crt`, `tls.key` and, if it is there, `ca.crt` of a folder, as Secrets are mounted.
    pub fn of_folder(folder: &Path) -> Result<Self, WebhookError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path)
                .map_err(|error| WebhookError::File { path, reason: error.to_string() })
        };
        Ok(Self { certificate: read("tls.crt")?, key: read("tls.key")?, authority: read("ca.crt").ok() })
    }

    fn certified(&self, place: &str) -> Result<CertifiedKey, WebhookError> {
        let wrong = || WebhookError::Certificate(place.to_owned());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| wrong())?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| wrong())?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        if chain.is_empty() {
            return Err(wrong());
        }
        CertifiedKey::from_der(chain, key, &provider).map_err(|_| wrong())
    }
}

/// The keys a webhook has now.
pub struct Keys {
    shown: RwLock<Arc<CertifiedKey>>,
    folder: Option<PathBuf>,
    seen: Mutex<(Identity, Instant)>,
    authority: watch::Sender<Option<String>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keys").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Keys {
    /// Keys from a folder, which is looked at again when somebody asks.
    pub fn of_folder(folder: &Path) -> Result<Self, WebhookError> {
        Self::with(Identity::of_folder(folder)?, Some(folder.to_owned()))
    }

    /// Keys that only [`Keys::show`] changes.
    pub fn new(identity: Identity) -> Result<Self, WebhookError> {
        Self::with(identity, None)
    }

    fn with(identity: Identity, folder: Option<PathBuf>) -> Result<Self, WebhookError> {
        let place = folder.as_ref().map_or("the identity".to_owned(), |folder| folder.display().to_string());
        let shown = RwLock::new(Arc::new(identity.certified(&place)?));
        let authority = watch::Sender::new(identity.authority.clone());
        Ok(Self { shown, folder, seen: Mutex::new((identity, Instant::now())), authority })
    }

    /// Who vouches for what is shown, as PEM, now and whenever it changes.
    pub fn authority(&self) -> watch::Receiver<Option<String>> {
        self.authority.subscribe()
    }

    /// Shows other keys from now on.
    pub fn show(&self, identity: Identity) -> Result<(), WebhookError> {
        *self.shown.write() = Arc::new(identity.certified("the identity")?);
        self.authority.send_replace(identity.authority.clone());
        self.seen.lock().0 = identity;
        Ok(())
    }

    /// Takes in what has changed in the folder. What cannot be used yet, or no longer, changes nothing.
    pub(super) fn look_again(&self) {
        let Some(folder) = &self.folder else { return };
        let mut seen = self.seen.lock();
        if seen.1.elapsed() < LOOK {
            return;
        }
        seen.1 = Instant::now();
        let Ok(identity) = Identity::of_folder(folder) else { return };
        if identity == seen.0 {
            return;
        }
        match identity.certified(&folder.display().to_string()) {
            Ok(certified) => {
                tracing::info!(folder = %folder.display(), "the webhook has another certificate");
                *self.shown.write() = Arc::new(certified);
                self.authority.send_replace(identity.authority.clone());
                seen.0 = identity;
            }
            Err(error) => tracing::warn!(%error, "the webhook keeps its certificate"),
        }
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read()))
    }
}

/// How connections are greeted.
pub(super) fn server_config(keys: Arc<Keys>) -> Result<Arc<rustls::ServerConfig>, WebhookError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| WebhookError::Make)?
        .with_no_client_auth()
        .with_cert_resolver(keys);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
