//! What proves to etcd who asks, and to whoever asks that it is etcd.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{Error, Result};

/// A client certificate for etcd, and etcd's authority; all as PEM. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    authority: String,
    certificate: String,
    key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// From the keys of a Secret: `ca.crt`, `tls.crt`, `tls.key`.
    pub fn of_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self> {
        let missing = ["ca.crt", "tls.crt", "tls.key"]
            .into_iter()
            .filter(|key| data.get(*key).is_none_or(Vec::is_empty))
            .collect::<Vec<_>>();
        if !missing.is_empty() {
            return Err(Error::Credentials(format!("the Secret has nothing under {}", missing.join(", "))));
        }
        let text = |key: &str| String::from_utf8_lossy(data.get(key).map_or(&[], Vec::as_slice)).into_owned();
        Ok(Self { authority: text("ca.crt"), certificate: text("tls.crt"), key: text("tls.key") })
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        let bad = |what: &str, why: &dyn fmt::Display| Error::Credentials(format!("{what}: {why}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            let certificate = certificate.map_err(|error| bad("ca.crt", &error))?;
            roots.add(certificate).map_err(|error| bad("ca.crt", &error))?;
        }
        if roots.is_empty() {
            return Err(bad("ca.crt", &"there is no certificate"));
        }
        let chain: Vec<_> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| bad("tls.crt", &error))?;
        // The reason is left out: it could quote the key.
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|_| bad("tls.key", &"it is no private key"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad("TLS", &error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| bad("tls.crt", &error))?;
        Ok(Arc::new(config))
    }
}
