//! TLS: whom to believe, and how to say that one does not.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::Trust;
use super::failure::CallError;

/// Where systems keep the certificates they trust.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificate a client shows.
pub(super) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub(super) fn from_pem(certificates: &str, key: &str) -> Result<Self, CallError> {
        let bad = |error: rustls::pki_types::pem::Error| CallError::Other(error.to_string());
        let chain = CertificateDer::pem_slice_iter(certificates.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(bad)?;
        Ok(Self { chain, key: PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(bad)? })
    }
}

/// The settings of a connection.
pub(super) fn configuration(trust: &Trust, identity: Option<&Identity>) -> Result<ClientConfig, CallError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let other = |error: rustls::Error| CallError::Other(format!("tls: {error}"));
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anything => Arc::new(Believing { provider: Arc::clone(&provider) }),
        Trust::Bundle(pem) => {
            let certificates = certificates(pem);
            if certificates.is_empty() {
                return Err(CallError::Other(
                    "unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
                ));
            }
            Arc::new(Anchored::new(certificates, Arc::clone(&provider))?)
        }
        Trust::System => Arc::new(Anchored::new(system(), Arc::clone(&provider))?),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        Some(identity) => {
            builder.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key()).map_err(other)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn system() -> Vec<CertificateDer<'static>> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let paths = named.as_deref().into_iter().chain(SYSTEM_BUNDLES);
    paths.filter_map(|path| std::fs::read(path).ok()).map(|pem| certificates(&pem)).next().unwrap_or_default()
}

/// Believes in what leads to given certificates.
#[derive(Debug)]
struct Anchored {
    /// Absent where nothing is trusted at all.
    chain: Option<Arc<WebPkiServerVerifier>>,
    anchors: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Anchored {
    fn new(anchors: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, CallError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(anchors.iter().cloned());
        let chain = if roots.is_empty() {
            None
        } else {
            let built =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
            Some(built.map_err(|error| CallError::Other(format!("tls: {error}")))?)
        };
        Ok(Self { chain, anchors, provider })
    }

    /// A certificate that is itself in the bundle is good for its names while it is valid, even where it says it
    /// is one of an authority: self-signed certificates of webhooks often do.
    fn is_anchor(&self, leaf: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> bool {
        if !self.anchors.iter().any(|anchor| anchor.as_ref() == leaf.as_ref()) {
            return false;
        }
        let Ok((_, parsed)) = x509_parser::parse_x509_certificate(leaf) else { return false };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        validity.not_before.timestamp() <= now
            && now <= validity.not_after.timestamp()
            && rustls::server::ParsedCertificate::try_from(leaf)
                .is_ok_and(|leaf| rustls::client::verify_server_name(&leaf, name).is_ok())
    }
}

impl ServerCertVerifier for Anchored {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = match &self.chain {
            Some(chain) => chain.verify_server_cert(leaf, between, name, stapled, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        match verdict {
            Err(_) if self.is_anchor(leaf, name, now) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Believes anybody, for servers whose owner said so.
#[derive(Debug)]
struct Believing {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A failed handshake in the words of Go.
pub(super) fn told(error: &std::io::Error, name: &str) -> CallError {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        let eof = error.kind() == std::io::ErrorKind::UnexpectedEof;
        return CallError::Other(if eof { "EOF".to_owned() } else { error.to_string() });
    };
    let rustls::Error::InvalidCertificate(why) = tls else {
        return match tls {
            rustls::Error::InvalidMessage(_) => {
                CallError::Other("tls: first record does not look like a TLS handshake".to_owned())
            }
            _ => CallError::Other(format!("remote error: tls: {tls}")),
        };
    };
    let why = match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForName => {
            format!("certificate is not valid for any names, but wanted to match {name}")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().map(|name| plain(name)).collect();
            if names.is_empty() {
                format!("certificate is not valid for any names, but wanted to match {name}")
            } else {
                format!("certificate is valid for {}, not {name}", names.join(", "))
            }
        }
        CertificateError::ExpiredContext { time, not_after } => {
            format!(
                "certificate has expired or is not yet valid: current time {} is after {}",
                moment(*time),
                moment(*not_after)
            )
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!(
                "certificate has expired or is not yet valid: current time {} is before {}",
                moment(*time),
                moment(*not_before)
            )
        }
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => format!("{other:?}"),
    };
    CallError::Other(format!("tls: failed to verify certificate: x509: {why}"))
}

fn moment(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map(crate::clock::seconds).unwrap_or_default()
}

/// `DnsName("a.b")` as rustls shows it, without the wrapping.
fn plain(name: &str) -> String {
    name.split('"')
        .nth(1)
        .map_or_else(|| name.trim_start_matches("IpAddress(").trim_end_matches(')').to_owned(), str::to_owned)
}
