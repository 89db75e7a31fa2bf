//! Where a conversion webhook is.

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::{
    crd::{names, path::Path, schema::text},
    gourl,
    status::{FieldProblem, Problem},
};

type Fields = Map<String, Value>;

/// Checks the `clientConfig` of a webhook.
pub(crate) fn check(config: &Fields, place: &Path<'_>, any_bundle: bool, problems: &mut Vec<FieldProblem>) {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").and_then(Value::as_object);
    match (url, service) {
        (Some(url), None) => check_url(url, &place.field("url"), problems),
        (None, Some(service)) => check_service(service, &place.field("service"), problems),
        _ => {
            let problem = Problem::Required("exactly one of url or service is required".to_owned());
            problems.push(FieldProblem::new(place.text(), problem));
        }
    }
    let bundle = text(config, "caBundle");
    if !any_bundle && !bundle.is_empty() && !is_bundle(bundle) {
        let why = "unable to load root certificates: unable to parse bytes as PEM block".to_owned();
        problems
            .push(FieldProblem::new(place.field("caBundle").text(), Problem::Invalid(bundle.into(), why)));
    }
}

/// True when a bundle, encoded as it is in JSON, holds certificates, or nothing at all.
pub(crate) fn is_bundle(encoded: &str) -> bool {
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(encoded) else { return false };
    if bytes.is_empty() {
        return true;
    }
    let mut found = false;
    for block in x509_parser::pem::Pem::iter_from_buffer(&bytes) {
        let Ok(block) = block else { return false };
        if block.label == "CERTIFICATE" {
            if block.parse_x509().is_err() {
                return false;
            }
            found = true;
        }
    }
    found
}

fn check_url(url: &str, place: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut invalid = |value: &str, why: String| {
        problems.push(FieldProblem::new(place.text(), Problem::Invalid(value.into(), why)));
    };
    let parsed = match gourl::parse_any(url) {
        Ok(parsed) => parsed,
        Err(problem) => {
            let why = format!("url must be a valid URL: {problem}{FORM}");
            problems.push(FieldProblem::new(place.text(), Problem::Required(why)));
            return;
        }
    };
    if parsed.scheme != "https" {
        invalid(&parsed.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parsed.host.is_empty() {
        invalid("", format!("host must be specified{FORM}"));
    }
    let authority =
        url.split_once("//").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(""));
    if let Some((user, _)) = authority.rsplit_once('@') {
        invalid(user, "user information is not permitted in the URL".to_owned());
    }
    let fragment = url.split_once('#').map_or("", |(_, fragment)| fragment);
    if !fragment.is_empty() {
        invalid(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !parsed.raw_query.is_empty() {
        invalid(&parsed.raw_query, "query parameters are not permitted in the URL".to_owned());
    }
}

fn check_service(service: &Fields, place: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    for key in ["name", "namespace"] {
        // The two are looked at in each other's place, which makes no difference as only emptiness counts.
        if text(service, key).is_empty() {
            problems.push(FieldProblem::new(place.field(key).text(), Problem::Required(String::new())));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive".to_owned();
        problems.push(FieldProblem::new(place.field("port").text(), Problem::Invalid(port.into(), why)));
    }
    let path = text(service, "path");
    if path.is_empty() || path == "/" {
        return;
    }
    let mut invalid = |why: String| {
        problems.push(FieldProblem::new(place.field("path").text(), Problem::Invalid(path.into(), why)));
    };
    if path == "//" {
        invalid("segment[0] may not be empty".to_owned());
        return;
    }
    if !path.starts_with('/') {
        invalid("must start with a '/'".to_owned());
    }
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            invalid(format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in names::dns_subdomain(step) {
            invalid(format!("segment[{index}]: {why}"));
        }
    }
}
