//! Who may approve and sign certificates, and which are never signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::super::Authorizer;
use super::super::json::{at, object, text};
use super::super::review::{Operation, Review};
use crate::attributes::{Attributes, User};
use crate::status::Status;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Refuses approvals, signatures and trust bundles of those who may not make them for a signer, and client
/// certificates for masters.
pub(crate) fn validate(review: &Review<'_>, authorizer: &dyn Authorizer) -> Result<(), Status> {
    if review.attributes.group != GROUP {
        return Ok(());
    }
    match (review.attributes.resource.as_str(), review.attributes.subresource.as_str(), review.operation) {
        (REQUESTS, "approval", Operation::Update) => approval(review, authorizer),
        (REQUESTS, "status", Operation::Update) => signing(review, authorizer),
        ("clustertrustbundles", _, Operation::Create | Operation::Update) => attest(review, authorizer),
        (REQUESTS, "", Operation::Create) => subject(review),
        _ => Ok(()),
    }
}

fn approval(review: &Review<'_>, authorizer: &dyn Authorizer) -> Result<(), Status> {
    let signer = review.old.as_ref().map(|old| text(&old["spec"]["signerName"])).unwrap_or_default();
    if may(&review.attributes.user, "approve", signer, authorizer) {
        return Ok(());
    }
    Err(review.forbidden(&format!("user not permitted to approve requests with signerName {signer:?}")))
}

fn signing(review: &Review<'_>, authorizer: &dyn Authorizer) -> Result<(), Status> {
    let (Some(old), Some(new)) = (&review.old, &review.object) else { return Ok(()) };
    let same = |key: &str| old["status"][key] == new["status"][key];
    if same("certificate") && same("conditions") {
        return Ok(());
    }
    let signer = text(&old["spec"]["signerName"]);
    if may(&review.attributes.user, "sign", signer, authorizer) {
        return Ok(());
    }
    Err(review.forbidden(&format!("user not permitted to sign requests with signerName {signer:?}")))
}

fn attest(review: &Review<'_>, authorizer: &dyn Authorizer) -> Result<(), Status> {
    let Some(new) = &review.object else { return Ok(()) };
    let signer = text(&new["spec"]["signerName"]);
    let unchanged = review.old.as_ref().is_some_and(|old| same_but_for_owners(new, old));
    if signer.is_empty() || unchanged || may(&review.attributes.user, "attest", signer, authorizer) {
        return Ok(());
    }
    Err(review.forbidden(&format!("user not permitted to attest for signerName {signer:?}")))
}

/// True if an update only changes what the garbage collector changes.
fn same_but_for_owners(new: &Value, old: &Value) -> bool {
    let mut copy = new.clone();
    for key in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
        let metadata = object(at(&mut copy, "metadata"));
        match old["metadata"].get(key) {
            Some(known) => metadata.insert(key.to_owned(), known.clone()),
            None => metadata.remove(key),
        };
    }
    copy == *old
}

fn subject(review: &Review<'_>) -> Result<(), Status> {
    let Some(request) = &review.object else { return Ok(()) };
    if request["spec"]["signerName"] != CLIENT_SIGNER {
        return Ok(());
    }
    let organizations = organizations(text(&request["spec"]["request"]))
        .map_err(|why| review.forbidden(&format!("failed to parse CSR: {why}")))?;
    if organizations.iter().any(|group| group == "system:masters") {
        return Err(review
            .forbidden(&format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed")));
    }
    Ok(())
}

/// The organizations in a request for a certificate, in base64 of PEM.
fn organizations(request: &str) -> Result<Vec<String>, String> {
    let not_pem = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
    let pem = STANDARD.decode(request).map_err(|_| not_pem())?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).map_err(|_| not_pem())?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(not_pem());
    }
    let (_, parsed) =
        X509CertificationRequest::from_der(&block.contents).map_err(|error| error.to_string())?;
    let subject = &parsed.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect())
}

/// True if somebody may do something for a signer, or for all of its domain.
fn may(user: &User, verb: &str, signer: &str, authorizer: &dyn Authorizer) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    [signer, domain.as_str()].iter().any(|name| {
        let attributes = Attributes {
            user: user.clone(),
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name: (*name).to_owned(),
            ..Attributes::default()
        };
        let decision = authorizer.decide(&attributes);
        decision.allowed && decision.error.is_none()
    })
}
