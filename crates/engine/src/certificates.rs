//! Serving certificates of kubelets: which requests are approved.
//!
//! Whoever holds the serving certificate of a kubelet can stand in for its node towards the API server. A request is
//! therefore approved only if it comes from the node itself and names nothing but what the infra side knows to be that
//! machine's own; what cannot be proven is left to people, and what is plainly somebody else's is denied.

use std::collections::BTreeSet;
use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

/// Who signs serving certificates of kubelets.
pub const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// What the users of nodes begin with.
const NODE_USER: &str = "system:node:";
/// The group of nodes, and the only organization in their certificates.
const NODES: &str = "system:nodes";
/// What kubelets use the certificate for; the second one only with RSA keys.
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
/// More names than any machine has.
const MOST_NAMES: usize = 64;

/// A request, as the server vouches for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Who asks; the server found out.
    pub username: &'a str,
    /// The groups of who asks.
    pub groups: &'a [String],
    /// What the certificate is to be used for.
    pub usages: &'a [String],
    /// The request itself, PEM.
    pub request: &'a [u8],
}

impl<'a> Asked<'a> {
    /// The node that asks; nothing where somebody else does.
    pub fn node(&self) -> Option<&'a str> {
        let name = self.username.strip_prefix(NODE_USER).filter(|name| !name.is_empty());
        name.filter(|_| self.groups.iter().any(|group| group == NODES))
    }
}

/// What the infra side knows to be a machine's own, and others'.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Names of the machine.
    pub names: BTreeSet<String>,
    /// Addresses of the machine.
    pub addresses: BTreeSet<IpAddr>,
    /// Names of other machines.
    pub other_names: BTreeSet<String>,
    /// Addresses of other machines. One that two machines claim proves nothing for either.
    pub other_addresses: BTreeSet<IpAddr>,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is proven.
    Approve,
    /// It is not proven; it may be later, or by somebody else.
    Leave(String),
    /// It is forged.
    Deny(String),
}

/// What a request asks for.
#[derive(Debug, Default)]
struct Wanted {
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

/// Decides about a request. `identity` says what is known of the machine whose node asks, or why nothing is.
pub fn decide(asked: &Asked<'_>, identity: impl FnOnce(&str) -> Result<Identity, String>) -> Decision {
    let Some(node) = asked.node() else {
        return Decision::Leave("it does not come from a node".to_owned());
    };
    let wanted = match read(asked) {
        Ok(wanted) => wanted,
        Err(decision) => return decision,
    };
    let identity = match identity(node) {
        Ok(identity) => identity,
        Err(why) => return Decision::Leave(why),
    };
    let names = wanted.names.iter().map(|name| {
        let own = identity.names.contains(name) && !identity.other_names.contains(name);
        (name.clone(), own, identity.other_names.contains(name))
    });
    let addresses = wanted.addresses.iter().map(|address| {
        let others = identity.other_addresses.contains(address);
        let claimed = identity.addresses.contains(address);
        // What both show is nobody's for certain, and no forgery for certain either.
        (address.to_string(), claimed && !others, others && !claimed)
    });
    let mut left = None;
    for (what, own, others) in names.chain(addresses) {
        match (own, others) {
            (true, _) => {}
            (false, true) => {
                return Decision::Deny(format!("it asks for {what}, which is another machine's"));
            }
            (false, false) => left = Some(format!("{what} is not known to be the machine's own")),
        }
    }
    left.map_or(Decision::Approve, Decision::Leave)
}

/// Reads a request and holds it against the rules that need no knowledge of machines.
fn read(asked: &Asked<'_>) -> Result<Wanted, Decision> {
    let leave = |why: &str| Decision::Leave(why.to_owned());
    let deny = |why: &str| Decision::Deny(why.to_owned());
    let (rest, pem) = parse_x509_pem(asked.request).map_err(|_| leave("it is not PEM"))?;
    if pem.label != "CERTIFICATE REQUEST" || !rest.trim_ascii().is_empty() {
        return Err(leave("it is not one request for a certificate"));
    }
    let (rest, request) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| leave("it cannot be read"))?;
    if !rest.is_empty() {
        return Err(leave("there is something after the request"));
    }
    request.verify_signature().map_err(|_| deny("it is not signed with its own key"))?;
    subject(&request.certification_request_info.subject, asked.username).map_err(deny)?;
    let known = asked.usages.iter().all(|usage| USAGES.contains(&usage.as_str()));
    if !known || !asked.usages.iter().any(|usage| usage == "server auth") {
        return Err(deny("it is to be used for something else than serving"));
    }
    let mut wanted = Wanted::default();
    for extension in request.requested_extensions().into_iter().flatten() {
        match extension {
            ParsedExtension::SubjectAlternativeName(all) => {
                for name in &all.general_names {
                    wanted.add(name).map_err(deny)?;
                }
            }
            ParsedExtension::BasicConstraints(basic) if !basic.ca => {}
            ParsedExtension::KeyUsage(_) | ParsedExtension::ExtendedKeyUsage(_) => {}
            _ => return Err(deny("it asks for more than names")),
        }
    }
    match wanted.names.len() + wanted.addresses.len() {
        0 => Err(leave("it names nothing")),
        1..=MOST_NAMES => Ok(wanted),
        _ => Err(deny("it names more than a machine can have")),
    }
}

/// A node asks for its own name in the organization of nodes, and for nothing else.
fn subject(subject: &X509Name<'_>, username: &str) -> Result<(), &'static str> {
    let mut names = subject.iter_common_name();
    let name = names.next().and_then(|name| name.as_str().ok());
    if name != Some(username) || names.next().is_some() {
        return Err("its subject is not the node that asks");
    }
    let mut organizations = subject.iter_organization();
    let organization = organizations.next().and_then(|name| name.as_str().ok());
    if organization != Some(NODES) || organizations.next().is_some() {
        return Err("its organization is not that of nodes");
    }
    if subject.iter_attributes().count() != 2 {
        return Err("its subject says more than a node's does");
    }
    Ok(())
}

impl Wanted {
    fn add(&mut self, name: &GeneralName<'_>) -> Result<(), &'static str> {
        match name {
            GeneralName::DNSName(name) => self.names.push(name.to_ascii_lowercase()),
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let address = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                self.addresses.push(address.map_err(|_| "it names an address that is none")?);
            }
            _ => return Err("it names something else than hosts and addresses"),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
