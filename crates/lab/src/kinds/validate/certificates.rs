//! Requests for certificates, and bundles of those that are trusted.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::prelude::FromDer as _;

use super::pod::fields::{domain_prefixed_key, is_kubernetes_signer, signer_name, trust_bundle_name};
use super::{Check, finalizer_names, own_metadata};
use crate::kinds::view::{Look, Path, Problems, same};
use crate::kinds::{format, meta, pem, shown};

const SPEC: Path<'static> = Path::root("spec");
const STATUS: Path<'static> = Path::root("status");
const OMITTED: &str = "<value omitted>";

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    match check.facts.kind {
        "ClusterTrustBundle" => bundle(object, old, problems),
        "PodCertificateRequest" => {
            own_metadata(check, object, problems);
            match old {
                None => pod_request(object.at("spec"), problems),
                Some(old) if check.context.subresource == "status" => {
                    pod_request_status(object, old, problems);
                }
                Some(old) => {
                    let of = "certificates.PodCertificateRequestSpec";
                    problems.immutable_of(&SPEC, of, object.at("spec"), old.at("spec"));
                }
            }
        }
        _ => {
            own_metadata(check, object, problems);
            signing_request(object, old, problems);
            if let Some(old) = old {
                signing_request_change(check.context.subresource, object, old, problems);
            }
        }
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(value.str()).unwrap_or_default()
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn signing_request(object: &Value, old: Option<&Value>, problems: &mut Problems) {
    let spec = object.at("spec");
    if let Err(why) = pem_request(&bytes_of(spec.at("request"))) {
        let shown = if spec.has("request") { spec.at("request").clone() } else { Value::Null };
        problems.invalid(&SPEC.child("request"), shown, why);
    }
    let (usages, list) = (spec.list("usages"), SPEC.child("usages"));
    if usages.is_empty() {
        problems.required(&list, "");
    }
    let mut seen = BTreeSet::new();
    for (place, usage) in usages.iter().map(Look::str).enumerate() {
        problems.one_of(&list.index(place), usage, &USAGES);
        if !seen.insert(usage) {
            problems.duplicate(&list.index(place), usage);
        }
    }
    let (signer, here) = (spec.text("signerName"), SPEC.child("signerName"));
    if signer == "kubernetes.io/legacy-unknown"
        && old.is_none_or(|old| old.at("spec").text("signerName") != signer)
    {
        problems.invalid(&here, signer, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(signer, &here, problems);
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|&seconds| seconds < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        problems.invalid(&SPEC.child("expirationSeconds"), seconds, why);
    }
    let status = object.at("status");
    request_conditions(status.list("conditions"), problems);
    let certificate = status.at("certificate");
    let untouched = old.is_some_and(|old| same(old.at("status").at("certificate"), certificate));
    if !untouched && let Err(why) = chain(&bytes_of(certificate)) {
        problems.invalid(&STATUS.child("certificate"), "<certificate data>", why);
    }
}

fn request_conditions(conditions: &[Value], problems: &mut Problems) {
    let list = STATUS.child("conditions");
    let mut types = BTreeSet::new();
    for (place, condition) in conditions.iter().enumerate() {
        let at = list.index(place);
        let (kind, status) = (condition.text("type"), condition.text("status"));
        problems.need(&at, condition, "type");
        let choices: &[&str] = if matches!(kind, "Approved" | "Denied" | "Failed") {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if status.is_empty() {
            problems.required(&at.child("status"), "");
        } else {
            problems.one_of(&at.child("status"), status, choices);
        }
        if !types.insert(kind) {
            problems.duplicate(&at.child("type"), kind);
        }
    }
    if types.contains("Approved") && types.contains("Denied") {
        let item = |kind: &str| format!("conditions[{{\"type\": \"{kind}\"}}]");
        let (approved, denied) = (item("Approved"), item("Denied"));
        problems.declared(|problems| {
            problems.invalid(
                &list,
                format!("{{{approved}, {denied}}}"),
                format!("must specify at most one of: `{approved}`, `{denied}`"),
            );
        });
    }
}

fn signing_request_change(subresource: &str, new: &Value, old: &Value, problems: &mut Problems) {
    let list = STATUS.child("conditions");
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        let conditions = object.at("status").list("conditions");
        conditions.iter().filter(|condition| condition.text("type") == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            problems.forbidden(&list, format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    if subresource != "approval" {
        for kind in ["Approved", "Denied"] {
            let (before, after) = (of(old, kind), of(new, kind));
            if after.len() > before.len() {
                problems.forbidden(&list, format!("updates may not add a condition of type {kind:?}"));
            } else if after.len() == before.len() && !same(&before.clone().into(), &after.clone().into()) {
                let what = "[]certificates.CertificateSigningRequestCondition";
                let difference = shown::difference(what, &before.into(), &after.into());
                problems.forbidden(
                    &list,
                    format!("updates may not modify a condition of type {kind:?}\n{difference}"),
                );
            }
        }
    }
    let (before, after) = (old.at("status").text("certificate"), new.at("status").text("certificate"));
    if before != after {
        let here = STATUS.child("certificate");
        if subresource != "status" {
            problems.forbidden(&here, "updates may not set certificate content");
        } else if !before.is_empty() {
            problems.forbidden(&here, "updates may not modify existing certificate content");
        }
    }
}

fn pem_request(text: &[u8]) -> Result<(), String> {
    match pem::blocks(text).into_iter().next() {
        Some(block) if block.label == "CERTIFICATE REQUEST" => request(&block.bytes).map(|_| ()),
        _ => Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    }
}

const EC_KEY: &str = "1.2.840.10045.2.1";

/// A request that is signed with its own key.
fn request(bytes: &[u8]) -> Result<X509CertificationRequest<'_>, String> {
    let (rest, request) = X509CertificationRequest::from_der(bytes)
        .map_err(|_| "asn1: structure error: tags don't match".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    if matches!(request.verify_signature(), Err(X509Error::SignatureVerificationError)) {
        let key = request.certification_request_info.subject_pki.algorithm.algorithm.to_id_string();
        return Err(match key.as_str() {
            EC_KEY => "x509: ECDSA verification failure".to_owned(),
            "1.3.101.112" => "x509: Ed25519 verification failure".to_owned(),
            _ => "crypto/rsa: verification error".to_owned(),
        });
    }
    Ok(request)
}

/// Nothing, or certificates and nothing else.
fn chain(text: &[u8]) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let blocks = pem::blocks(text);
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        if x509_parser::parse_x509_certificate(&block.bytes).is_err() {
            return Err("x509: malformed certificate".to_owned());
        }
    }
    Ok(())
}

fn bundle(object: &Value, old: Option<&Value>, problems: &mut Problems) {
    let (metadata, spec) = (object.at("metadata"), object.at("spec"));
    let signer = spec.text("signerName");
    let name = |name: &str, prefix: bool| trust_bundle_name(signer, name, prefix);
    meta::validate_into(metadata, false, &name, &Path::root("metadata"), problems);
    finalizer_names(metadata, problems);
    let here = SPEC.child("signerName");
    if !signer.is_empty() {
        signer_name(signer, &here, problems);
    }
    let text = spec.text("trustBundle");
    if old.is_none_or(|old| old.at("spec").text("trustBundle") != text) {
        anchors(text, &SPEC.child("trustBundle"), problems);
    }
    if let Some(old) = old {
        problems.immutable(&here, &signer.into(), &old.at("spec").text("signerName").into());
    }
}

fn anchors(text: &str, at: &Path<'_>, problems: &mut Problems) {
    const LONGEST: usize = 1 << 20;
    if text.len() > LONGEST {
        problems.too_long(at, LONGEST as u64);
        return;
    }
    let mut places: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    let before = problems.len();
    for (place, block) in pem::blocks(text.as_bytes()).into_iter().enumerate() {
        let authority = |bytes: &[u8]| {
            let (_, certificate) = x509_parser::parse_x509_certificate(bytes).ok()?;
            Some(certificate.is_ca())
        };
        let why = if block.label != "CERTIFICATE" {
            format!("entry {place} has bad block type: {}", block.label)
        } else if block.headers {
            format!("entry {place} has PEM block headers")
        } else {
            match authority(&block.bytes) {
                None => format!("entry {place} does not parse as X.509"),
                Some(false) => format!("entry {place} does not have the CA bit set"),
                Some(true) => {
                    places.entry(block.bytes).or_default().push(place);
                    continue;
                }
            }
        };
        problems.invalid(at, OMITTED, why);
    }
    if problems.len() > before {
        return;
    }
    if places.is_empty() {
        problems.invalid(at, OMITTED, "at least one trust anchor must be provided");
    }
    for same in places.into_values().filter(|places| places.len() > 1) {
        let list: Vec<String> = same.iter().map(ToString::to_string).collect();
        problems.invalid(at, OMITTED, format!("duplicate trust anchor (indices [{}])", list.join(" ")));
    }
}

fn pod_request(spec: &Value, problems: &mut Problems) {
    signer_name(spec.text("signerName"), &SPEC.child("signerName"), problems);
    let here = SPEC.child("unverifiedUserAnnotations");
    for (key, _) in spec.fields("unverifiedUserAnnotations").into_iter().flatten() {
        domain_prefixed_key(&key.to_lowercase(), &here, problems);
    }
    for (name, uid) in
        [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
    {
        problems.form(&SPEC.child(name), spec.text(name), format::dns1123_subdomain);
        match spec.text(uid).len() {
            0 => problems.invalid(&SPEC.child(uid), "", "must not be empty"),
            length if length > 128 => problems.too_long(&SPEC.child(uid), 128),
            _ => {}
        }
    }
    let here = SPEC.child("maxExpirationSeconds");
    let Some(seconds) = spec.int("maxExpirationSeconds") else {
        problems.required(&here, "must be set");
        return;
    };
    let most = if is_kubernetes_signer(spec.text("signerName")) { 86_400 } else { 91 * 86_400 };
    if !(3600..=most).contains(&seconds) {
        problems.invalid(&here, seconds, format!("must be in the range [3600, {most}]"));
    }
    let [stub, key, proof] =
        ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|field| bytes_of(spec.at(field)));
    match (stub.is_empty(), key.is_empty(), proof.is_empty()) {
        (false, true, true) => stub_request(&stub, problems),
        (true, false, false) => {
            for (bytes, field) in [(key, "pkixPublicKey"), (proof, "proofOfPossession")] {
                if bytes.len() > 10 * 1024 {
                    problems.too_long(&SPEC.child(field), 10 * 1024);
                    return;
                }
            }
        }
        _ => problems.invalid_unshown(
            &SPEC,
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        ),
    }
}

fn stub_request(bytes: &[u8], problems: &mut Problems) {
    let here = SPEC.child("stubPKCS10Request");
    if bytes.len() > 10 * 1024 {
        problems.too_long(&here, 10 * 1024);
        return;
    }
    match request(bytes) {
        Ok(_) => {}
        Err(why) if why.starts_with("asn1") => {
            problems.invalid_unshown(&here, "must be a valid PKCS#10 CSR");
        }
        Err(_) => problems.invalid_unshown(&here, "invalid signature"),
    }
}

fn is_true(object: &Value, kinds: &[&str]) -> bool {
    let conditions = object.at("status").list("conditions");
    conditions.iter().any(|one| kinds.contains(&one.text("type")) && one.text("status") == "True")
}

fn pod_request_status(new: &Value, old: &Value, problems: &mut Problems) {
    let conditions = new.at("status").list("conditions");
    let list = STATUS.child("conditions");
    let before = problems.len();
    let mut known = 0;
    for (place, condition) in conditions.iter().enumerate() {
        // The real server takes the place for the name of a field.
        let name = format!("[{place}]");
        let at = list.child(&name);
        let (kind, status) = (condition.text("type"), condition.text("status"));
        let kinds = ["Issued", "Denied", "Failed"];
        if !kinds.contains(&kind) {
            problems.unsupported(&at.child("type"), kind, &kinds);
            continue;
        }
        known += 1;
        if known > 1 {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            problems.invalid(&at.child("type"), kind, why);
        }
        problems.one_of(&at.child("status"), status, &["True"]);
    }
    meta::conditions(conditions, &list, problems);
    if problems.len() > before {
        return;
    }
    if is_true(old, &["Issued", "Denied", "Failed"]) {
        if !same(old.at("status"), new.at("status")) {
            let why = "immutable after PodCertificateRequest is issued, denied, or failed";
            problems.invalid_unshown(&STATUS, why);
        }
    } else if is_true(new, &["Denied", "Failed"]) {
        let others = ["certificateChain", "notBefore", "beginRefreshAt", "notAfter"];
        if others.iter().any(|field| new.at("status").has(field)) {
            problems.invalid_unshown(
                &STATUS,
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest",
            );
        }
    } else if is_true(new, &["Issued"]) {
        issued(new.at("status"), problems);
    }
}

fn issued(status: &Value, problems: &mut Problems) {
    let (text, here) = (status.text("certificateChain"), STATUS.child("certificateChain"));
    if text.len() > 100 * 1024 {
        problems.too_long(&here, 100 * 1024);
        return;
    }
    let why = match pem::blocks(text.as_bytes()).first() {
        None => Some("issued certificate chain must contain at least one certificate"),
        Some(leaf) if leaf.label != "CERTIFICATE" => {
            Some("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
        }
        Some(leaf) if x509_parser::parse_x509_certificate(&leaf.bytes).is_err() => {
            Some("leaf certificate does not parse as valid X.509")
        }
        Some(_) => None,
    };
    if let Some(why) = why {
        problems.invalid(&here, text, why);
        return;
    }
    for field in ["notBefore", "notAfter"] {
        if !status.has(field) {
            let why = "must be present and consistent with the issued certificate";
            problems.required(&STATUS.child(field), why);
        }
    }
    if !status.has("beginRefreshAt") {
        let why = "must be present and in the range [notbefore+10min, notafter-10min]";
        problems.required(&STATUS.child("beginRefreshAt"), why);
    }
}
