//! The keys and certificates of a cluster.
//!
//! Two authorities and the key that signs service-account tokens make up a cluster's identity; only these are
//! kept. Everything else (the serving certificate, the administrator's) is issued anew at every start, which
//! takes well under a millisecond and always fits the names and the time of that start.

mod certificate;
mod der;
mod files;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

pub use certificate::{AltName, Subject};
pub(in crate::auth) use certificate::{CLIENT_AUTH, Facts, SERVER_AUTH, Template, read, usage};
pub use files::{create_private_folder, open_private_file, write_secret_file};

use super::secret::Secret;

/// How long before now a certificate is valid, for peers whose clocks are behind.
const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
/// How long authorities and what is issued at the start are valid.
const TEN_YEARS: SignedDuration = SignedDuration::from_hours(24 * 3652);

/// Why keys or certificates could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A file is there but does not hold what it should.
    #[error(
        "{}: {problem}. Restore it from a copy, or remove the whole folder to have everything made anew",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate of an authority is not valid at this time.
    #[error(
        "{}: valid from {not_before} to {not_after}, but now it is {now}",
        path.display()
    )]
    OutOfTime {
        /// The file.
        path: PathBuf,
        /// The start of its validity.
        not_before: Timestamp,
        /// The end of its validity.
        not_after: Timestamp,
        /// The time of the clock.
        now: Timestamp,
    },
    /// A key or certificate could not be made or used.
    #[error("{0}")]
    Crypto(String),
}

/// A certificate and its private key, both as PEM.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS 8.
    pub key: Secret,
}

impl Credential {
    /// The certificate in DER.
    pub fn certificate_der(&self) -> Result<CertificateDer<'static>, PkiError> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|problem| PkiError::Crypto(format!("not a certificate: {problem}")))
    }

    /// Whether the certificate is the one of the key.
    fn check(&self) -> Result<(), PkiError> {
        let key = KeyPair::from_pem(self.key.expose())
            .map_err(|_| PkiError::Crypto("not a private key".to_owned()))?;
        let facts = read(&self.certificate_der()?).map_err(PkiError::Crypto)?;
        if facts.subject_public_key_info != key.subject_public_key_info() {
            return Err(PkiError::Crypto("the certificate is not the one of the key".to_owned()));
        }
        Ok(())
    }

    /// The private key in DER.
    pub fn key_der(&self) -> Result<PrivateKeyDer<'static>, PkiError> {
        // The reason is left out: it could quote the key.
        PrivateKeyDer::from_pem_slice(self.key.expose().as_bytes())
            .map_err(|_| PkiError::Crypto("not a private key".to_owned()))
    }
}

/// An authority: a certificate that signs others, and its key.
pub struct Authority {
    certificate: CertificateDer<'static>,
    facts: Facts,
    key: KeyPair,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Authority").field(&self.facts.subject.common_name()).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority.
    pub fn generate(common_name: &str, now: Timestamp) -> Result<Self, PkiError> {
        Self::with_key(common_name, new_key()?, now)
    }

    /// An authority with this key and a new certificate.
    fn with_key(common_name: &str, key: KeyPair, now: Timestamp) -> Result<Self, PkiError> {
        let template = Template {
            subject: Subject::new(common_name, &[]),
            not_before: before(now),
            not_after: after(now, TEN_YEARS),
            authority: true,
            key_usages: usage::DIGITAL_SIGNATURE
                | usage::KEY_ENCIPHERMENT
                | usage::CERTIFICATE_SIGN
                | usage::CRL_SIGN,
            extended_key_usages: Vec::new(),
            names: Vec::new(),
        };
        let public = key.subject_public_key_info();
        let issuer =
            certificate::Issuer { key: &key, subject: template.subject_der(), key_identifier: Vec::new() };
        let certificate = template.sign(&public, rand::random(), &issuer)?;
        Self::new(certificate, key).map_err(PkiError::Crypto)
    }

    /// The authority of a certificate and a key, both as PEM.
    pub fn from_pem(certificate: &str, key: &Secret) -> Result<Self, PkiError> {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|problem| PkiError::Crypto(format!("not a certificate: {problem}")))?;
        let key =
            KeyPair::from_pem(key.expose()).map_err(|_| PkiError::Crypto("not a private key".to_owned()))?;
        Self::new(certificate, key).map_err(PkiError::Crypto)
    }

    fn new(certificate: CertificateDer<'static>, key: KeyPair) -> Result<Self, String> {
        let facts = read(&certificate)?;
        if !facts.authority {
            return Err("the certificate is not the one of an authority".to_owned());
        }
        if facts.subject_public_key_info != key.subject_public_key_info() {
            return Err("the certificate is not the one of the key".to_owned());
        }
        Ok(Self { certificate, facts, key })
    }

    /// The certificate in DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The certificate as PEM, for clients that are to trust it.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The subject in DER, as clients are told it.
    pub(in crate::auth) fn subject_der(&self) -> &[u8] {
        &self.facts.subject_der
    }

    /// The end of the authority's validity.
    pub fn not_after(&self) -> Timestamp {
        self.facts.not_after
    }

    fn key_pem(&self) -> Secret {
        Secret::new(self.key.serialize_pem())
    }

    /// Signs a certificate for a public key that somebody else has the private half of.
    pub(in crate::auth) fn sign(
        &self,
        template: &Template,
        subject_public_key_info: &[u8],
    ) -> Result<String, PkiError> {
        let issuer = certificate::Issuer {
            key: &self.key,
            subject: self.facts.subject_der.clone(),
            key_identifier: self.facts.key_identifier.clone(),
        };
        // The highest bit is cleared so that no reader takes the number for a negative one.
        let mut serial: [u8; 16] = rand::random();
        serial[0] &= 0x7f;
        Ok(pem("CERTIFICATE", &template.sign(subject_public_key_info, serial, &issuer)?))
    }

    /// A new key and a certificate for it.
    fn issue(&self, template: &Template) -> Result<Credential, PkiError> {
        let key = new_key()?;
        let certificate = self.sign(template, &key.subject_public_key_info())?;
        Ok(Credential { certificate, key: Secret::new(key.serialize_pem()) })
    }

    /// A certificate for a client: the user and its groups.
    pub fn client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<Credential, PkiError> {
        self.issue(&Template {
            subject: Subject::new(user, groups),
            not_before: before(now),
            not_after: after(now, TEN_YEARS).min(self.not_after()),
            authority: false,
            key_usages: usage::DIGITAL_SIGNATURE | usage::KEY_ENCIPHERMENT,
            extended_key_usages: vec![CLIENT_AUTH],
            names: Vec::new(),
        })
    }

    /// A certificate for a server under all these names.
    pub fn server(
        &self,
        common_name: &str,
        names: &[AltName],
        now: Timestamp,
    ) -> Result<Credential, PkiError> {
        self.issue(&Template {
            subject: Subject::new(common_name, &[]),
            not_before: before(now),
            not_after: after(now, TEN_YEARS).min(self.not_after()),
            authority: false,
            key_usages: usage::DIGITAL_SIGNATURE | usage::KEY_ENCIPHERMENT,
            extended_key_usages: vec![SERVER_AUTH],
            names: names.to_vec(),
        })
    }
}

/// The keys and certificates of a cluster that somebody else made, all as PEM.
#[derive(Debug, Clone)]
pub struct Given {
    /// The authority of the server and its clients.
    pub cluster: Credential,
    /// The authority of proxies that speak for others.
    pub front_proxy: Credential,
    /// The certificate the server shows.
    pub serving: Credential,
    /// What the server shows to aggregated API servers.
    pub front_proxy_client: Credential,
    /// What the server shows to kubelets.
    pub kubelet_client: Credential,
    /// The key that signs service-account tokens: PKCS 8, on the curve P-256.
    pub service_accounts: Secret,
}

/// All keys and certificates of a cluster.
#[derive(Debug)]
pub struct Pki {
    /// The authority of the server and its clients.
    pub cluster: Authority,
    /// The authority of proxies that speak for others.
    pub front_proxy: Authority,
    /// The certificate the server shows.
    pub serving: Credential,
    /// What the server shows to aggregated API servers it passes requests on to.
    pub front_proxy_client: Credential,
    /// What the server shows to kubelets.
    pub kubelet_client: Credential,
    /// The key that signs service-account tokens, PKCS 8 as PEM.
    pub service_accounts: Secret,
}

impl Pki {
    /// Everything new, in memory only. `extra` are names and addresses of the server beyond the usual ones.
    pub fn generate(now: Timestamp, extra: &[AltName]) -> Result<Self, PkiError> {
        let cluster = Authority::generate("kubernetes", now)?;
        let front_proxy = Authority::generate("front-proxy-ca", now)?;
        Self::issue(cluster, front_proxy, Secret::new(new_key()?.serialize_pem()), now, extra)
    }

    /// Those that somebody else made. A certificate that is not the one of its key is refused here and not when the
    /// first client comes.
    pub fn given(given: Given) -> Result<Self, PkiError> {
        for credential in [&given.serving, &given.front_proxy_client, &given.kubelet_client] {
            credential.check()?;
        }
        Ok(Self {
            cluster: Authority::from_pem(&given.cluster.certificate, &given.cluster.key)?,
            front_proxy: Authority::from_pem(&given.front_proxy.certificate, &given.front_proxy.key)?,
            serving: given.serving,
            front_proxy_client: given.front_proxy_client,
            kubelet_client: given.kubelet_client,
            service_accounts: given.service_accounts,
        })
    }

    /// Issues what is not kept.
    fn issue(
        cluster: Authority,
        front_proxy: Authority,
        service_accounts: Secret,
        now: Timestamp,
        extra: &[AltName],
    ) -> Result<Self, PkiError> {
        let mut names = usual_names();
        names.extend(extra.iter().filter(|name| !usual_names().contains(name)).cloned());
        Ok(Self {
            serving: cluster.server("kube-apiserver", &names, now)?,
            kubelet_client: cluster.client("kube-apiserver-kubelet-client", &["system:masters"], now)?,
            front_proxy_client: front_proxy.client("front-proxy-client", &[], now)?,
            cluster,
            front_proxy,
            service_accounts,
        })
    }

    /// The credential of an administrator.
    pub fn administrator(&self, now: Timestamp) -> Result<Credential, PkiError> {
        self.cluster.client("kubernetes-admin", &["system:masters"], now)
    }
}

/// The names under which every API server is reached.
fn usual_names() -> Vec<AltName> {
    let dns = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names: Vec<AltName> = dns.into_iter().map(|name| AltName::Dns(name.to_owned())).collect();
    names.extend(
        [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            // The first address of the service range, which the service "kubernetes" gets.
            IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
        ]
        .map(AltName::Ip),
    );
    names
}

fn new_key() -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|problem| PkiError::Crypto(problem.to_string()))
}

fn before(now: Timestamp) -> Timestamp {
    now.checked_sub(BACKDATE).unwrap_or(now)
}

fn after(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// DER as PEM.
pub(in crate::auth) fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, every index is between two characters.
        let (line, more) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests;
