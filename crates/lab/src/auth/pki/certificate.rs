//! Certificates: what is written into one, and what is read from one.

use std::net::IpAddr;

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};

use super::PkiError;
use super::der;

/// The attributes of a name that are carried over, in the order in which they are written.
const NAME_PARTS: [&[u64]; 9] = [
    &[2, 5, 4, 6],
    ORGANIZATION,
    &[2, 5, 4, 11],
    &[2, 5, 4, 7],
    &[2, 5, 4, 8],
    &[2, 5, 4, 9],
    &[2, 5, 4, 17],
    COMMON_NAME,
    &[2, 5, 4, 5],
];
const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// The attribute that holds the uid of a user.
const USER_UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

const SUBJECT_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 14];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const SUBJECT_ALTERNATIVE_NAME: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// The flags of the key usage extension.
pub(in crate::auth) mod usage {
    pub(in crate::auth) const DIGITAL_SIGNATURE: u16 = 1;
    pub(in crate::auth) const KEY_ENCIPHERMENT: u16 = 1 << 2;
    pub(in crate::auth) const CERTIFICATE_SIGN: u16 = 1 << 5;
    pub(in crate::auth) const CRL_SIGN: u16 = 1 << 6;
}

/// The use "TLS server".
pub(in crate::auth) const SERVER_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
/// The use "TLS client".
pub(in crate::auth) const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

/// A name besides the subject that a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AltName {
    /// A DNS name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
    /// A mail address.
    Email(String),
    /// A URI.
    Uri(String),
}

impl AltName {
    /// The name of a host, or its address.
    pub fn of_host(host: &str) -> Self {
        host.parse().map_or_else(|_| Self::Dns(host.to_owned()), Self::Ip)
    }
}

/// Who or what a certificate is about: the attributes of its name, in the order they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject(Vec<(Vec<u64>, String)>);

impl Subject {
    /// A subject with a common name (the user) and organizations (the groups).
    pub fn new(common_name: &str, organizations: &[&str]) -> Self {
        let groups = organizations.iter().map(|group| (ORGANIZATION.to_vec(), (*group).to_owned()));
        Self(groups.chain([(COMMON_NAME.to_vec(), common_name.to_owned())]).collect())
    }

    /// The attributes of a name in a certificate or a request. What is no text is left out.
    pub(in crate::auth) fn read(name: &X509Name<'_>) -> Self {
        let attribute = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            let arcs: Vec<u64> = attribute.attr_type().iter()?.collect();
            Some((arcs, attribute.as_str().ok()?.to_owned()))
        };
        Self(name.iter_attributes().filter_map(attribute).collect())
    }

    /// The name of the user: the last common name, empty for none.
    pub fn common_name(&self) -> &str {
        self.all(COMMON_NAME).last().unwrap_or_default()
    }

    /// The groups of the user.
    pub fn organizations(&self) -> Vec<String> {
        self.all(ORGANIZATION).map(str::to_owned).collect()
    }

    /// The uids of the user; more than one is an error for whoever asks.
    pub(in crate::auth) fn uids(&self) -> Vec<&str> {
        self.all(USER_UID).collect()
    }

    fn all(&self, arcs: &'static [u64]) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(of, _)| of == arcs).map(|(_, value)| value.as_str())
    }

    /// The name in DER: attributes of one type share a set, types that are not well known are left out.
    fn to_der(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        for arcs in NAME_PARTS {
            let values: Vec<Vec<u8>> =
                self.all(arcs).map(|value| der::sequence(&[der::oid(arcs), der::text(value)])).collect();
            if !values.is_empty() {
                parts.push(der::set(values));
            }
        }
        der::sequence(&parts)
    }
}

/// What is written into a certificate.
#[derive(Debug, Clone)]
pub(in crate::auth) struct Template {
    pub(in crate::auth) subject: Subject,
    pub(in crate::auth) not_before: Timestamp,
    pub(in crate::auth) not_after: Timestamp,
    /// True for the certificate of an authority.
    pub(in crate::auth) authority: bool,
    /// Flags of [`usage`].
    pub(in crate::auth) key_usages: u16,
    pub(in crate::auth) extended_key_usages: Vec<&'static [u64]>,
    pub(in crate::auth) names: Vec<AltName>,
}

/// Whoever signs a certificate.
pub(super) struct Issuer<'a> {
    pub(super) key: &'a KeyPair,
    /// The subject of the issuer in DER.
    pub(super) subject: Vec<u8>,
    /// The identifier of the issuer's key.
    pub(super) key_identifier: Vec<u8>,
}

impl Template {
    /// The certificate in DER, for the public key `subject_public_key_info`. Without an issuer it is signed
    /// with the key itself.
    pub(super) fn sign(
        &self,
        subject_public_key_info: &[u8],
        serial: [u8; 16],
        issuer: &Issuer<'_>,
    ) -> Result<CertificateDer<'static>, PkiError> {
        let algorithm = signature_algorithm(issuer.key)?;
        let body = der::sequence(&[
            // Version 3.
            der::constructed(0xa0, &[der::unsigned(&[2])]),
            der::unsigned(&serial),
            algorithm.clone(),
            issuer.subject.clone(),
            der::sequence(&[der::time(self.not_before), der::time(self.not_after)]),
            self.subject.to_der(),
            subject_public_key_info.to_vec(),
            der::constructed(0xa3, &[self.extensions(subject_public_key_info, issuer)]),
        ]);
        let signature = issuer.key.sign(&body).map_err(|problem| PkiError::Crypto(problem.to_string()))?;
        Ok(der::sequence(&[body, algorithm, der::bits(&signature)]).into())
    }

    /// The subject in DER.
    pub(super) fn subject_der(&self) -> Vec<u8> {
        self.subject.to_der()
    }

    fn extensions(&self, subject_public_key_info: &[u8], issuer: &Issuer<'_>) -> Vec<u8> {
        let extension = |arcs: &[u64], critical: bool, content: Vec<u8>| {
            let mut parts = vec![der::oid(arcs)];
            if critical {
                parts.push(der::boolean(true));
            }
            parts.push(der::octets(&content));
            der::sequence(&parts)
        };
        let mut all = Vec::new();
        if self.key_usages != 0 {
            all.push(extension(KEY_USAGE, true, der::named_bits(self.key_usages)));
        }
        if !self.extended_key_usages.is_empty() {
            let uses: Vec<Vec<u8>> = self.extended_key_usages.iter().map(|arcs| der::oid(arcs)).collect();
            all.push(extension(EXTENDED_KEY_USAGE, false, der::sequence(&uses)));
        }
        let constraints = if self.authority { vec![der::boolean(true)] } else { Vec::new() };
        all.push(extension(BASIC_CONSTRAINTS, true, der::sequence(&constraints)));
        if self.authority {
            let own = der::octets(&key_identifier(subject_public_key_info));
            all.push(extension(SUBJECT_KEY_IDENTIFIER, false, own));
        }
        if !issuer.key_identifier.is_empty() {
            let theirs = der::sequence(&[der::tagged(0x80, &issuer.key_identifier)]);
            all.push(extension(AUTHORITY_KEY_IDENTIFIER, false, theirs));
        }
        if !self.names.is_empty() {
            let names: Vec<Vec<u8>> = self.names.iter().map(AltName::to_der).collect();
            // Where there is no subject the names are all there is.
            let critical = self.subject.0.is_empty();
            all.push(extension(SUBJECT_ALTERNATIVE_NAME, critical, der::sequence(&names)));
        }
        der::sequence(&all)
    }
}

impl AltName {
    fn to_der(&self) -> Vec<u8> {
        match self {
            Self::Email(address) => der::tagged(0x81, address.as_bytes()),
            Self::Dns(name) => der::tagged(0x82, name.as_bytes()),
            Self::Uri(uri) => der::tagged(0x86, uri.as_bytes()),
            Self::Ip(IpAddr::V4(address)) => der::tagged(0x87, &address.octets()),
            Self::Ip(IpAddr::V6(address)) => der::tagged(0x87, &address.octets()),
        }
    }

    /// A name of a certificate or a request; kinds nobody uses for servers are nothing.
    pub(in crate::auth) fn read(name: &GeneralName<'_>) -> Option<Self> {
        match name {
            GeneralName::DNSName(name) => Some(Self::Dns((*name).to_owned())),
            GeneralName::RFC822Name(address) => Some(Self::Email((*address).to_owned())),
            GeneralName::URI(uri) => Some(Self::Uri((*uri).to_owned())),
            GeneralName::IPAddress(bytes) => {
                let address = <[u8; 4]>::try_from(*bytes)
                    .map(IpAddr::from)
                    .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                address.ok().map(Self::Ip)
            }
            _ => None,
        }
    }
}

/// The identifier of a public key: the first bytes of its digest.
pub(super) fn key_identifier(subject_public_key_info: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(subject_public_key_info)[..20].to_vec()
}

/// The algorithm a key signs with, as certificates write it.
fn signature_algorithm(key: &KeyPair) -> Result<Vec<u8>, PkiError> {
    let algorithm = PublicKeyData::algorithm(key);
    let plain = |arcs: &[u64]| der::sequence(&[der::oid(arcs)]);
    if *algorithm == rcgen::PKCS_ECDSA_P256_SHA256 {
        Ok(plain(&[1, 2, 840, 10045, 4, 3, 2]))
    } else if *algorithm == rcgen::PKCS_ECDSA_P384_SHA384 {
        Ok(plain(&[1, 2, 840, 10045, 4, 3, 3]))
    } else if *algorithm == rcgen::PKCS_ED25519 {
        Ok(plain(&[1, 3, 101, 112]))
    } else if *algorithm == rcgen::PKCS_RSA_SHA256 {
        // RSA wants its parameters to be there and to be null.
        Ok(der::sequence(&[der::oid(&[1, 2, 840, 113_549, 1, 1, 11]), vec![5, 0]]))
    } else {
        Err(PkiError::Crypto("certificates cannot be signed with a key of this kind".to_owned()))
    }
}

/// What is read from a certificate.
#[derive(Debug, Clone)]
pub(in crate::auth) struct Facts {
    pub(in crate::auth) subject: Subject,
    pub(in crate::auth) not_before: Timestamp,
    pub(in crate::auth) not_after: Timestamp,
    /// The subject as it is in the certificate.
    pub(in crate::auth) subject_der: Vec<u8>,
    /// The public key as it is in the certificate.
    pub(in crate::auth) subject_public_key_info: Vec<u8>,
    /// The identifier of the key, where the certificate names one.
    pub(in crate::auth) key_identifier: Vec<u8>,
    pub(in crate::auth) authority: bool,
}

/// Reads a certificate, or says what is wrong with it.
pub(in crate::auth) fn read(certificate: &[u8]) -> Result<Facts, String> {
    let (rest, parsed) = X509Certificate::from_der(certificate).map_err(|problem| problem.to_string())?;
    if !rest.is_empty() {
        return Err("there is something after the certificate".to_owned());
    }
    let moment =
        |at: x509_parser::time::ASN1Time| Timestamp::from_second(at.timestamp()).map_err(|e| e.to_string());
    let identifier = parsed.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    Ok(Facts {
        subject: Subject::read(parsed.subject()),
        not_before: moment(parsed.validity().not_before)?,
        not_after: moment(parsed.validity().not_after)?,
        subject_der: parsed.subject().as_raw().to_vec(),
        subject_public_key_info: parsed.public_key().raw.to_vec(),
        key_identifier: identifier.unwrap_or_default(),
        authority: parsed.is_ca(),
    })
}
