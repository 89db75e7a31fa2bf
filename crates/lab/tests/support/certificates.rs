//! Fresh keys and certificates for the servers and clients of a test.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

use super::Result;

/// A certificate authority that lives as long as a test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) certificate: String,
}

/// A certificate and its key, both as PEM.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// Makes an authority called `name`.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// A certificate for a server on this machine, that is also known by `names`.
    pub(crate) fn server(&self, name: &str, names: &[&str]) -> Result<Identity> {
        let mut alternatives: Vec<SanType> = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::DnsName("localhost".try_into()?),
        ];
        for name in names {
            alternatives.push(SanType::DnsName((*name).try_into()?));
        }
        self.issue(name, &[], alternatives, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client: a user and its groups.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        self.issue(user, groups, Vec::new(), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The authority's own certificate and key.
    pub(crate) fn identity(&self) -> Identity {
        Identity { certificate: self.certificate.clone(), key: self.issuer.key().serialize_pem() }
    }

    fn issue(
        &self,
        name: &str,
        groups: &[&str],
        alternatives: Vec<SanType>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, groups);
        params.subject_alt_names = alternatives;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

impl Identity {
    /// Writes `<stem>.crt` and `<stem>.key`.
    pub(crate) fn write(&self, directory: &Path, stem: &str) -> Result {
        std::fs::write(directory.join(format!("{stem}.crt")), &self.certificate)?;
        std::fs::write(directory.join(format!("{stem}.key")), &self.key)?;
        Ok(())
    }
}

/// A name as certificates carry it: the user, and the groups as organizations.
pub(crate) fn subject(name: &str, groups: &[&str]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    for group in groups {
        subject.push(DnType::OrganizationName, *group);
    }
    subject.push(DnType::CommonName, name);
    subject
}
