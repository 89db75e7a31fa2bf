//! Requests for certificates: which are approved without asking, and what becomes of those that are approved.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject};
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

use super::pki::{AltName, Authority, Subject, Template};
use super::rbac::{Authorizer, Target};
use super::reviews::user_in;
use crate::attributes::Attributes;
use crate::clock;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// How long certificates are valid at most.
const A_YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// How long before now they start, for clocks that are behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Certificates that live shorter than this do not end earlier for having started earlier.
const SHORT: SignedDuration = SignedDuration::from_hours(8);

/// Why a certificate was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The signer is not one of this server.
    #[error("unrecognized signerName: {0:?}")]
    NotOurs(String),
    /// The request breaks the rules of its signer, for good: it becomes the condition `Failed`.
    #[error("{0}")]
    Refused(String),
    /// It could not be read or signed.
    #[error("{0}")]
    Failed(String),
}

/// What a request for a certificate asks for.
#[derive(Debug, Clone)]
struct Requested {
    subject: Subject,
    names: Vec<AltName>,
    subject_public_key_info: Vec<u8>,
}

/// Signs a request (PEM) for one of the signers of the server, and returns the certificate (PEM).
pub fn sign(
    authority: &Authority,
    request: &[u8],
    signer: &str,
    usages: &[String],
    expiration_seconds: Option<i64>,
    now: Timestamp,
) -> Result<String, SigningError> {
    if ![CLIENT, KUBELET_CLIENT, KUBELET_SERVING, UNKNOWN].contains(&signer) {
        return Err(SigningError::NotOurs(signer.to_owned()));
    }
    let requested = read(request).map_err(SigningError::Failed)?;
    let refused = match signer {
        CLIENT => client_problem(usages),
        KUBELET_CLIENT => kubelet_client_problem(&requested, usages),
        KUBELET_SERVING => kubelet_serving_problem(&requested, usages),
        // No rules at all, for the sake of old clients.
        _ => None,
    };
    if let Some(problem) = refused {
        return Err(SigningError::Refused(problem));
    }
    let (key_usages, extended_key_usages) = key_usages(usages)?;
    let end_of_signer = authority.not_after();
    if now >= end_of_signer {
        let words = "refusing to sign a certificate that expired in the past";
        return Err(SigningError::Failed(format!("{words}: NotAfter={end_of_signer}")));
    }
    let lifetime = expiration_seconds
        .map_or(A_YEAR, |seconds| SignedDuration::from_secs(seconds).clamp(SHORTEST, A_YEAR));
    let until = if lifetime < SHORT { lifetime } else { lifetime - BACKDATE };
    let template = Template {
        subject: requested.subject,
        not_before: now.checked_sub(BACKDATE).unwrap_or(now),
        not_after: now.checked_add(until).unwrap_or(end_of_signer).min(end_of_signer),
        authority: false,
        key_usages,
        extended_key_usages,
        names: requested.names,
    };
    authority
        .sign(&template, &requested.subject_public_key_info)
        .map_err(|problem| SigningError::Failed(format!("failed to sign certificate: {problem}")))
}

/// What the signer makes of a stored `CertificateSigningRequest`: the object with a certificate, or with the
/// condition `Failed`. Nothing when there is nothing to do: it is not approved, done already, or of a signer
/// elsewhere.
pub fn signed(object: &Value, authority: &Authority, now: Timestamp) -> Option<Value> {
    let has_certificate = object["status"]["certificate"].as_str().is_some_and(|text| !text.is_empty());
    if has_certificate || !has(object, "Approved") || has(object, "Denied") || has(object, "Failed") {
        return None;
    }
    let request = STANDARD.decode(object["spec"]["request"].as_str()?).ok()?;
    let signer = object["spec"]["signerName"].as_str()?;
    let seconds = object["spec"]["expirationSeconds"].as_i64();
    let mut done = object.clone();
    match sign(authority, &request, signer, &usages(object), seconds, now) {
        Ok(certificate) => done["status"]["certificate"] = STANDARD.encode(certificate).into(),
        Err(SigningError::Refused(message)) => {
            add_condition(&mut done, "Failed", "SignerValidationFailure", &message, now);
        }
        Err(SigningError::NotOurs(_) | SigningError::Failed(_)) => return None,
    }
    Some(done)
}

/// The object with the condition `Approved`, when it is a kubelet's request for its own certificate and its user
/// has the right to it. Nothing when somebody else has to decide, or has decided.
pub fn approved(object: &Value, authorizer: &Authorizer, now: Timestamp) -> Option<Value> {
    if has(object, "Approved") || has(object, "Denied") || object["spec"]["signerName"] != KUBELET_CLIENT {
        return None;
    }
    let request = STANDARD.decode(object["spec"]["request"].as_str()?).ok()?;
    let requested = read(&request).ok()?;
    if kubelet_client_problem(&requested, &usages(object)).is_some() {
        return None;
    }
    let user = user_in(&object["spec"], "username");
    let own = user.name == requested.subject.common_name();
    let rights = [
        (own, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
        (true, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
    ];
    let (_, _, message) = rights.into_iter().find(|(applies, subresource, _)| {
        let attributes = Attributes {
            user: user.clone(),
            verb: "create".to_owned(),
            group: "certificates.k8s.io".to_owned(),
            version: "*".to_owned(),
            resource: "certificatesigningrequests".to_owned(),
            subresource: (*subresource).to_owned(),
            ..Attributes::default()
        };
        *applies && authorizer.decide(&attributes, Target::Resource, false).allowed
    })?;
    let mut done = object.clone();
    add_condition(&mut done, "Approved", "AutoApproved", message, now);
    Some(done)
}

fn usages(object: &Value) -> Vec<String> {
    let list = object["spec"]["usages"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(object: &Value, kind: &str) -> bool {
    object["status"]["conditions"].as_array().into_iter().flatten().any(|condition| condition["type"] == kind)
}

fn add_condition(object: &mut Value, kind: &str, reason: &str, message: &str, now: Timestamp) {
    let now = clock::seconds(now);
    let condition = json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    });
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => object["status"]["conditions"] = json!([condition]),
    }
}

/// Reads and verifies a request.
fn read(request: &[u8]) -> Result<Requested, String> {
    let der = CertificateSigningRequestDer::from_pem_slice(request)
        .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
    let unreadable = |problem: String| format!("unable to parse certificate request: {problem}");
    let (rest, parsed) =
        X509CertificationRequest::from_der(&der).map_err(|problem| unreadable(problem.to_string()))?;
    if !rest.is_empty() {
        return Err(unreadable("there is something after the request".to_owned()));
    }
    parsed
        .verify_signature()
        .map_err(|problem| format!("unable to verify certificate request signature: {problem}"))?;
    let mut names = Vec::new();
    for extension in parsed.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(all) = extension {
            names.extend(all.general_names.iter().filter_map(AltName::read));
        }
    }
    let info = &parsed.certification_request_info;
    Ok(Requested {
        subject: Subject::read(&info.subject),
        names,
        subject_public_key_info: info.subject_pki.raw.to_vec(),
    })
}

fn client_problem(usages: &[String]) -> Option<String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Some(format!("invalid usage for client certificate: {other}"));
    }
    if usages.iter().any(|usage| usage == "client auth") {
        return None;
    }
    Some("missing required usage for client certificate: client auth".to_owned())
}

fn kubelet_client_problem(requested: &Requested, usages: &[String]) -> Option<String> {
    let has = |kind: fn(&AltName) -> bool| requested.names.iter().any(kind);
    let words = if requested.subject.organizations() != ["system:nodes"] {
        "subject organization is not system:nodes"
    } else if has(|name| matches!(name, AltName::Dns(_))) {
        "DNS subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AltName::Email(_))) {
        "Email subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AltName::Ip(_))) {
        "IP subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AltName::Uri(_))) {
        "URI subjectAltNames are not allowed"
    } else if !requested.subject.common_name().starts_with("system:node:") {
        "subject common name does not begin with system:node:"
    } else {
        return wrong_usages(usages, "client auth");
    };
    Some(words.to_owned())
}

fn kubelet_serving_problem(requested: &Requested, usages: &[String]) -> Option<String> {
    let has = |kind: fn(&AltName) -> bool| requested.names.iter().any(kind);
    let words = if requested.subject.organizations() != ["system:nodes"] {
        "subject organization is not system:nodes"
    } else if !has(|name| matches!(name, AltName::Dns(_) | AltName::Ip(_))) {
        "DNS or IP subjectAltName is required"
    } else if has(|name| matches!(name, AltName::Email(_))) {
        "Email subjectAltNames are not allowed"
    } else if has(|name| matches!(name, AltName::Uri(_))) {
        "URI subjectAltNames are not allowed"
    } else if let Some(problem) = wrong_usages(usages, "server auth") {
        return Some(problem);
    } else if requested.subject.common_name().starts_with("system:node:") {
        return None;
    } else {
        "subject common name does not begin with system:node:"
    };
    Some(words.to_owned())
}

/// Kubelets ask for exactly these uses, with or without the one that only RSA keys need.
fn wrong_usages(usages: &[String], main: &str) -> Option<String> {
    let mut given: Vec<&str> = usages.iter().map(String::as_str).collect();
    given.sort_unstable();
    given.dedup();
    let with = |more: &[&'static str]| -> Vec<String> {
        let mut all: Vec<String> = more.iter().copied().chain([main]).map(str::to_owned).collect();
        all.sort();
        all
    };
    let full = with(&["digital signature", "key encipherment"]);
    if given == full || given == with(&["digital signature"]) {
        return None;
    }
    Some(format!("usages did not match [{}]", full.join(" ")))
}

/// The uses of a certificate as it states them, from the words of the API.
fn key_usages(usages: &[String]) -> Result<(u16, Vec<&'static [u64]>), SigningError> {
    const PLAIN: [(&str, u16); 10] = [
        ("signing", 1),
        ("digital signature", 1),
        ("content commitment", 1 << 1),
        ("key encipherment", 1 << 2),
        ("data encipherment", 1 << 3),
        ("key agreement", 1 << 4),
        ("cert sign", 1 << 5),
        ("crl sign", 1 << 6),
        ("encipher only", 1 << 7),
        ("decipher only", 1 << 8),
    ];
    // In the order in which they are written.
    const EXTENDED: [(&str, &[u64]); 13] = [
        ("any", &[2, 5, 29, 37, 0]),
        ("server auth", super::pki::SERVER_AUTH),
        ("client auth", super::pki::CLIENT_AUTH),
        ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
        ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
        ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
        ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
        ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
        ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
        ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
        ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
        ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
        ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
    ];
    let known = |usage: &str| {
        PLAIN.iter().any(|(word, _)| *word == usage) || EXTENDED.iter().any(|(word, _)| *word == usage)
    };
    let unknown: Vec<String> = usages.iter().filter(|usage| !known(usage)).cloned().collect();
    if !unknown.is_empty() {
        let words = format!("unrecognized usage values: {}", super::words::quoted_list(&unknown));
        return Err(SigningError::Failed(words));
    }
    let wanted = |word: &str| usages.iter().any(|usage| usage == word);
    let flags = PLAIN.iter().filter(|(word, _)| wanted(word)).fold(0, |all, (_, flag)| all | flag);
    let mut extended: Vec<&'static [u64]> =
        EXTENDED.iter().filter(|(word, _)| wanted(word)).map(|(_, arcs)| *arcs).collect();
    extended.dedup();
    Ok((flags, extended))
}

#[cfg(test)]
mod tests;
