//! TLS of the programs of a control plane, from the files on their disk and by the clock of their guest.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use trellis_infra::clock::Clock;

/// Certificates are valid or not by the time of the guest.
#[derive(Debug)]
struct GuestTime(Clock);

impl TimeProvider for GuestTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// A certificate, the key that belongs to it, and whom its owner believes; all as PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) authority: String,
}

impl Identity {
    /// What a server shows and whom it lets in: those with a certificate of the authority, or everybody.
    pub(crate) fn server(&self, clock: Clock, asks_clients: bool) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(GuestTime(clock)))
            .with_safe_default_protocol_versions()
            .map_err(told)?;
        let builder = if asks_clients {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), provider)
                .build()
                .map_err(|error| error.to_string())?;
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        Ok(Arc::new(builder.with_single_cert(self.chain()?, self.private()?).map_err(told)?))
    }

    /// What a client shows and whom it believes.
    pub(crate) fn client(&self, clock: Clock) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(GuestTime(clock)))
            .with_safe_default_protocol_versions()
            .map_err(told)?
            .with_root_certificates(self.roots()?);
        Ok(Arc::new(builder.with_client_auth_cert(self.chain()?, self.private()?).map_err(told)?))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            let certificate = certificate.map_err(|error| format!("the authority: {error}"))?;
            roots.add(certificate).map_err(|error| format!("the authority: {error}"))?;
        }
        if roots.is_empty() { Err("the authority: there is no certificate".to_owned()) } else { Ok(roots) }
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        match chain.map_err(|error| format!("the certificate: {error}"))? {
            chain if chain.is_empty() => Err("the certificate: there is none".to_owned()),
            chain => Ok(chain),
        }
    }

    fn private(&self) -> Result<PrivateKeyDer<'static>, String> {
        // The reason is left out: it could quote the key.
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| "the key: it is none".to_owned())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn told(error: rustls::Error) -> String {
    error.to_string()
}
