//! Who somebody is by the certificate of their connection.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{ASN1Time, X509Version};

use crate::attributes::User;
use crate::auth::pki::{self, Authority, PkiError};

/// Verifies the certificates of clients against one authority.
pub(super) struct Verifier {
    chains: Arc<dyn ClientCertVerifier>,
    authority: CertificateDer<'static>,
}

impl Verifier {
    pub(super) fn new(authority: &Authority) -> Result<Self, PkiError> {
        let wrong = |problem: String| PkiError::Crypto(problem);
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().clone()).map_err(|problem| wrong(problem.to_string()))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chains = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|problem| wrong(problem.to_string()))?;
        Ok(Self { chains, authority: authority.certificate().clone() })
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<(), String> {
        let [client, between @ ..] = chain else { return Err("there is no certificate".to_owned()) };
        if let Some(verified) = self.verify_old(client, now) {
            return verified;
        }
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.chains
            .verify_client_cert(client, between, time)
            .map(|_| ())
            .map_err(|problem| problem.to_string())
    }

    /// Verifies a certificate of version 1, which the library does not know but many tools make. It has nothing but a
    /// name, a time and the signature of its authority; none for a certificate of another version.
    fn verify_old(&self, client: &CertificateDer<'_>, now: Timestamp) -> Option<Result<(), String>> {
        let (_, client) = x509_parser::parse_x509_certificate(client).ok()?;
        if client.version() != X509Version::V1 {
            return None;
        }
        let (_, authority) = x509_parser::parse_x509_certificate(&self.authority).ok()?;
        let known = client.issuer().as_raw() == authority.subject().as_raw()
            && client.verify_signature(Some(authority.public_key())).is_ok();
        let in_time =
            ASN1Time::from_timestamp(now.as_second()).is_ok_and(|now| client.validity().is_valid_at(now));
        Some(match (known, in_time) {
            (false, _) => Err("x509: certificate signed by unknown authority".to_owned()),
            (true, false) => Err("x509: certificate has expired or is not yet valid".to_owned()),
            (true, true) => Ok(()),
        })
    }
}

/// What the certificates of a connection say about the client.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The user, nothing for a certificate without a name, or why it is not believed.
    user: Result<Option<User>, String>,
    /// Whether the client may speak for others, or why its certificate is not believed to be a proxy's.
    proxy: Result<bool, String>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Peer {
    pub(super) fn new(
        chain: &[CertificateDer<'_>],
        clients: &Verifier,
        proxies: &Verifier,
        proxy_names: &[String],
        now: Timestamp,
    ) -> Self {
        let wrong = |problem: String| Self {
            user: Err(problem.clone()),
            proxy: Err(problem),
            not_before: Timestamp::MIN,
            not_after: Timestamp::MAX,
        };
        let Some(certificate) = chain.first() else {
            // Whoever shows nothing claims nothing.
            return Self { user: Ok(None), proxy: Ok(false), ..wrong(String::new()) };
        };
        let facts = match pki::read(certificate) {
            Ok(facts) => facts,
            Err(problem) => return wrong(problem),
        };
        let name = facts.subject.common_name();
        let proxy = proxies.verify(chain, now).and_then(|()| {
            if proxy_names.is_empty() || proxy_names.iter().any(|known| known == name) {
                Ok(true)
            } else {
                Err(format!("x509: subject with cn={name} is not in the allowed list"))
            }
        });
        let user = clients.verify(chain, now).and_then(|()| user(certificate, &facts.subject));
        Self { user, proxy, not_before: facts.not_before, not_after: facts.not_after }
    }

    /// The user of the certificate at this time.
    pub(super) fn user(&self, now: Timestamp) -> Result<Option<User>, String> {
        self.in_time(now)?;
        self.user.clone()
    }

    /// Whether headers may name the user at this time.
    pub(super) fn proxy(&self, now: Timestamp) -> Result<bool, String> {
        self.in_time(now)?;
        self.proxy.clone()
    }

    /// Connections live long, certificates do not always.
    fn in_time(&self, now: Timestamp) -> Result<(), String> {
        if now < self.not_before || now > self.not_after {
            return Err("the certificate has expired or is not yet valid".to_owned());
        }
        Ok(())
    }
}

fn user(certificate: &CertificateDer<'_>, subject: &pki::Subject) -> Result<Option<User>, String> {
    if subject.common_name().is_empty() {
        return Ok(None);
    }
    let uid = match subject.uids().as_slice() {
        [] => String::new(),
        [""] => return Err("UID cannot be an empty string".to_owned()),
        [one] => (*one).to_owned(),
        _ => return Err("expected 1 UID, but found multiple".to_owned()),
    };
    let mut credential = "X509SHA256=".to_owned();
    for byte in Sha256::digest(certificate) {
        // Writing to a text cannot fail.
        let _ = write!(credential, "{byte:02x}");
    }
    Ok(Some(User {
        name: subject.common_name().to_owned(),
        uid,
        groups: subject.organizations(),
        extra: BTreeMap::from([("authentication.kubernetes.io/credential-id".to_owned(), vec![credential])]),
    }))
}
