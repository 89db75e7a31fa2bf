//! The TLS side of the server: it asks every client for a certificate, but lets the API say what is wrong
//! with it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use x509_parser::prelude::X509Certificate;

use super::pki::{Credential, Pki, PkiError};

/// The configuration of a server with these keys, for HTTP/2 and HTTP/1.1.
///
/// A client without a certificate, or with one of somebody else's authority, still gets a connection: it is
/// answered with 401 or as an anonymous user, as it would be by the real server. The authenticator verifies.
pub fn server_config(pki: &Pki) -> Result<ServerConfig, PkiError> {
    server_config_with(pki, &pki.serving)
}

/// The same for a server that shows a certificate of its own.
pub fn server_config_with(pki: &Pki, serving: &Credential) -> Result<ServerConfig, PkiError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let wrong = |problem: rustls::Error| PkiError::Crypto(problem.to_string());
    let hints = [&pki.cluster, &pki.front_proxy]
        .map(|authority| DistinguishedName::from(authority.subject_der().to_vec()))
        .to_vec();
    let verifier = Arc::new(AnyClient { provider: Arc::clone(&provider), hints });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![serving.certificate_der()?], serving.key_der()?)
        .map_err(wrong)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads a certificate of any version: the library only takes those of version 3, but many tools make older ones.
fn read<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, rustls::Error> {
    let read = x509_parser::parse_x509_certificate(certificate);
    read.map(|(_, certificate)| certificate).map_err(|_| CertificateError::BadEncoding.into())
}

/// Takes any certificate whose key the client has; who it is remains to be seen.
#[derive(Debug)]
struct AnyClient {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let certificate = read(certificate)?;
        let key = &certificate.public_key().subject_public_key.data;
        let known = self.provider.signature_verification_algorithms.mapping.iter();
        let mut algorithms =
            known.filter(|(scheme, _)| *scheme == signature.scheme).flat_map(|(_, all)| *all);
        let fits = algorithms.any(|one| one.verify_signature(key, message, signature.signature()).is_ok());
        if fits {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let certificate = read(certificate)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
