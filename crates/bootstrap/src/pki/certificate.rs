//! Authorities, and the certificates they sign.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand::CryptoRng;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use serde::{Deserialize, Serialize};

use super::{PkiError, key};
use crate::secret::Secret;

/// How long before now a certificate is valid, for machines whose clocks are behind.
const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
/// How long an authority is valid.
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 3650);
/// How long what it signs is valid.
pub(super) const LEAF_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
/// How long before its end a certificate is due for renewal.
pub(super) const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 60);

/// A certificate, its key, and when it is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credential {
    /// The certificate as PEM.
    pub certificate: String,
    /// The private key, PKCS 8 as PEM.
    pub key: Secret,
    /// The beginning of its validity.
    pub not_before: Timestamp,
    /// The end of its validity.
    pub not_after: Timestamp,
}

/// What a certificate says of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// The owner's name.
    pub common_name: String,
    /// The groups of a client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organizations: Vec<String>,
    /// The names under which a server is reached.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
    /// The addresses under which a server is reached.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
    /// Whether the owner serves.
    #[serde(default)]
    pub server: bool,
    /// Whether the owner is a client.
    #[serde(default)]
    pub client: bool,
}

impl Subject {
    /// A client with groups.
    pub fn client(common_name: impl Into<String>, organizations: &[&str]) -> Self {
        Self {
            common_name: common_name.into(),
            organizations: organizations.iter().map(|&name| name.to_owned()).collect(),
            client: true,
            ..Self::default()
        }
    }

    /// A server under these names and addresses.
    pub fn server(common_name: impl Into<String>, names: &[&str], addresses: &[IpAddr]) -> Self {
        Self {
            common_name: common_name.into(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            addresses: addresses.iter().copied().collect(),
            server: true,
            ..Self::default()
        }
    }

    /// The same, also as a client: members of etcd are both to each other.
    #[must_use]
    pub fn and_client(mut self) -> Self {
        self.client = true;
        self
    }

    fn parameters(&self) -> Result<CertificateParams, PkiError> {
        let mut parameters = CertificateParams::default();
        let mut name = DistinguishedName::new();
        for organization in &self.organizations {
            name.push(DnType::OrganizationName, organization.as_str());
        }
        name.push(DnType::CommonName, self.common_name.as_str());
        parameters.distinguished_name = name;
        for name in &self.names {
            let name = name.as_str().try_into().map_err(|_| PkiError::Name(name.clone()))?;
            parameters.subject_alt_names.push(SanType::DnsName(name));
        }
        parameters
            .subject_alt_names
            .extend(self.addresses.iter().map(|address| SanType::IpAddress(*address)));
        let usages = [
            (self.server, ExtendedKeyUsagePurpose::ServerAuth),
            (self.client, ExtendedKeyUsagePurpose::ClientAuth),
        ];
        parameters.extended_key_usages =
            usages.into_iter().filter(|(used, _)| *used).map(|(_, usage)| usage).collect();
        Ok(parameters)
    }
}

/// Makes an authority.
pub(super) fn authority(
    common_name: &str,
    rng: &mut dyn CryptoRng,
    now: Timestamp,
) -> Result<Credential, PkiError> {
    let key = key::generate(rng)?;
    let mut parameters =
        Subject { common_name: common_name.to_owned(), ..Subject::default() }.parameters()?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    let (not_before, not_after) = validity(&mut parameters, now, AUTHORITY_LIFETIME, rng);
    let certificate = parameters.self_signed(&key).map_err(crypto)?;
    Ok(Credential { certificate: certificate.pem(), key: key::private_pem(&key), not_before, not_after })
}

/// Signs a new key of a subject.
pub(super) fn issue(
    authority: &Credential,
    subject: &Subject,
    rng: &mut dyn CryptoRng,
    now: Timestamp,
) -> Result<Credential, PkiError> {
    // The reasons are left out: they could quote the key.
    let signing = KeyPair::from_pem(authority.key.expose())
        .map_err(|_| PkiError::Corrupt("the key of an authority"))?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signing)
        .map_err(|_| PkiError::Corrupt("the certificate of an authority"))?;
    let key = key::generate(rng)?;
    let mut parameters = subject.parameters()?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    parameters.use_authority_key_identifier_extension = true;
    // A certificate that outlives its authority is worth nothing.
    let lifetime = authority.not_after.duration_since(now).min(LEAF_LIFETIME);
    let (not_before, not_after) = validity(&mut parameters, now, lifetime, rng);
    let certificate = parameters.signed_by(&key, &issuer).map_err(crypto)?;
    Ok(Credential { certificate: certificate.pem(), key: key::private_pem(&key), not_before, not_after })
}

/// Writes validity and number into a certificate.
fn validity(
    parameters: &mut CertificateParams,
    now: Timestamp,
    lifetime: SignedDuration,
    rng: &mut dyn CryptoRng,
) -> (Timestamp, Timestamp) {
    // Certificates count whole seconds.
    let whole = |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
    let not_before = whole(now.checked_sub(BACKDATE).unwrap_or(now));
    let not_after = whole(now.checked_add(lifetime).unwrap_or(now));
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    parameters.not_before = at(not_before);
    parameters.not_after = at(not_after);
    let mut serial = [0; 16];
    rng.fill_bytes(&mut serial);
    // No reader may take the number for a negative one, or for one with zeros in front.
    if let Some(first) = serial.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    (not_before, not_after)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn crypto(error: rcgen::Error) -> PkiError {
    PkiError::Crypto(error.to_string())
}
