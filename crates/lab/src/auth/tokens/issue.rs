//! Requests for tokens: the subresource `token` of service accounts, and the tokens of secrets.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::Tokens;
use super::claims::{LEGACY_ISSUER, account_name};
use crate::auth::pki::PkiError;
use crate::auth::secret::Secret;
use crate::auth::words::quoted;
use crate::clock;
use crate::crd::names::dns_subdomain;
use crate::json::text;
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::server::chance::uuid;
use crate::status::{FieldProblem, Problem, Status};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// What the injected volume asks for: such tokens only warn when it is over, and end after a year.
const WARN_ONLY: i64 = 60 * 60 + 7;
const A_YEAR: i64 = 365 * 24 * 60 * 60;
const ATTESTATION: &str = "admissionReviewAPIGroups";

/// What a token is bound to.
#[derive(Debug, Default)]
struct Bound {
    pod: Option<Value>,
    secret: Option<Value>,
    node: Option<Value>,
}

impl Tokens {
    /// Issues the token that is requested for a service account: both steps of it at once, for whoever has no
    /// admission in between.
    pub fn issue_token(
        &self,
        reader: &dyn Reader,
        namespace: &str,
        account: &str,
        request: &Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let prepared = self.prepare_token(reader, namespace, account, request, now)?;
        self.complete_token(reader, &prepared, now)
    }

    /// The first step: checks and completes a request for a token. What it returns is what admission is to see.
    pub fn prepare_token(
        &self,
        reader: &dyn Reader,
        namespace: &str,
        account: &str,
        request: &Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let metadata = &request["metadata"];
        for (field, own) in [("name", account), ("namespace", namespace)] {
            let given = text(&metadata[field]);
            if !given.is_empty() && given != own {
                let words = format!("must match the service account {field} if specified");
                let problem =
                    FieldProblem::new(format!("metadata.{field}"), Problem::Invalid(given.into(), words));
                return Err(Status::invalid(GROUP, KIND, account, vec![problem]));
            }
        }
        let stored = get(reader, "serviceaccounts", namespace, account)?;
        let uid = text(&stored["metadata"]["uid"]);
        let given = text(&metadata["uid"]);
        if !given.is_empty() && given != uid {
            let words = format!(
                "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
            );
            return Err(Status::conflict(GROUP, KIND, account, &words));
        }
        let mut object = request.clone();
        // Whatever is no object at all was refused when it was read.
        if !object.is_object() {
            object = json!({});
        }
        object["apiVersion"] = format!("{GROUP}/v1").into();
        object["kind"] = KIND.into();
        for part in ["metadata", "spec"] {
            if !object[part].is_object() {
                object[part] = json!({});
            }
        }
        object["metadata"]["name"] = account.into();
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["creationTimestamp"] = clock::seconds(now).into();
        let spec = &mut object["spec"];
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = self.audiences().into();
        }
        if spec["expirationSeconds"].is_null() {
            spec["expirationSeconds"] = 3600.into();
        }
        if !spec["boundObjectRef"].is_object() {
            spec["boundObjectRef"] = Value::Null;
        }
        object["status"] = json!({"token": "", "expirationTimestamp": null});
        let problems = problems(&object["spec"]);
        if problems.is_empty() { Ok(object) } else { Err(Status::invalid(GROUP, KIND, "", problems)) }
    }

    /// The second step: binds and signs the token of a request that [`Tokens::prepare_token`] returned.
    pub fn complete_token(
        &self,
        reader: &dyn Reader,
        prepared: &Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let metadata = &prepared["metadata"];
        let (namespace, account) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let spec = &prepared["spec"];
        let bound = bind(reader, namespace, account, &spec["boundObjectRef"])?;
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(3600);
        let audiences: Vec<&str> = spec["audiences"].as_array().into_iter().flatten().map(text).collect();
        let for_the_server = audiences.iter().all(|one| self.audiences().iter().any(|own| own == one));
        let warns = bound.pod.is_some() && seconds == WARN_ONLY && for_the_server;

        let start = now.as_second();
        let mut kubernetes = json!({
            "namespace": namespace,
            "serviceaccount": {"name": account, "uid": text(&metadata["uid"])},
        });
        for (field, object) in [("pod", &bound.pod), ("secret", &bound.secret), ("node", &bound.node)] {
            if let Some(object) = object {
                kubernetes[field] = reference(object);
            }
        }
        if warns {
            kubernetes["warnafter"] = start.saturating_add(seconds).into();
        }
        let claims = json!({
            "aud": audiences,
            "exp": start.saturating_add(if warns { A_YEAR } else { seconds }),
            "iat": start,
            "iss": self.issuer,
            "jti": uuid(rand::random()),
            "kubernetes.io": kubernetes,
            "nbf": start,
            "sub": account_name(namespace, account),
        });
        let token = self
            .sign(&claims)
            .map_err(|problem| Status::internal(format!("failed to generate token: {problem}")))?;
        let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        let mut object = prepared.clone();
        object["status"] = json!({"token": token.expose(), "expirationTimestamp": clock::seconds(end)});
        Ok(object)
    }

    /// The token that is kept in a secret of the type `kubernetes.io/service-account-token`. It has no end.
    pub fn secret_token(&self, account: &Value, secret: &Value) -> Result<Secret, PkiError> {
        let namespace = text(&account["metadata"]["namespace"]);
        let name = text(&account["metadata"]["name"]);
        self.sign(&json!({
            "iss": LEGACY_ISSUER,
            "sub": account_name(namespace, name),
            "kubernetes.io/serviceaccount/namespace": namespace,
            "kubernetes.io/serviceaccount/secret.name": text(&secret["metadata"]["name"]),
            "kubernetes.io/serviceaccount/service-account.name": name,
            "kubernetes.io/serviceaccount/service-account.uid": text(&account["metadata"]["uid"]),
        }))
    }
}

/// What is wrong with the spec of a request.
fn problems(spec: &Value) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let seconds = &spec["expirationSeconds"];
    let mut wrong = |field: &str, value: &Value, words: &str| {
        let kind = Problem::Invalid(value.clone(), words.to_owned());
        problems.push(FieldProblem::new(format!("spec.{field}"), kind));
    };
    if seconds.as_i64().is_none_or(|seconds| seconds < 600) {
        wrong("expirationSeconds", seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds.as_i64().is_some_and(|seconds| seconds > 1 << 32) {
        wrong("expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let attestations = &spec["attestations"];
    let count = attestations.as_object().map_or(0, Map::len);
    if !is_webhook(&spec["boundObjectRef"]) {
        if count > 0 {
            let words = "attestations may only be specified with a webhook bound object reference";
            let kind = Problem::Invalid(attestations.clone(), words.to_owned());
            return vec![FieldProblem::new("spec.attestations", kind)];
        }
        return problems;
    }
    if spec["audiences"].as_array().is_none_or(|audiences| audiences.len() != 1) {
        wrong("audiences", &spec["audiences"], "must be length 1 when bound to a webhook config");
    }
    if count == 1 {
        problems.extend(
            attestations
                .as_object()
                .into_iter()
                .flatten()
                .flat_map(|(key, value)| attestation_problems(key, value)),
        );
    } else {
        wrong(
            "attestations",
            attestations,
            "webhook bound requests require exactly one admissionReviewAPIGroups attestation",
        );
    }
    problems
}

fn attestation_problems(key: &str, value: &Value) -> Vec<FieldProblem> {
    let field = format!("spec.attestations[{key}]");
    if key != ATTESTATION {
        return vec![FieldProblem::new(
            field,
            Problem::NotSupported(key.into(), vec![ATTESTATION.to_owned()]),
        )];
    }
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let [group] = values else {
        let kind = Problem::Invalid(value.clone(), "must specify a single value".to_owned());
        return vec![FieldProblem::new(field, kind)];
    };
    let words = match text(group) {
        "" => vec!["may not be an empty string".to_owned()],
        "*" => Vec::new(),
        name => dns_subdomain(name)
            .into_iter()
            .map(|problem| format!("must specify a valid API Group: {problem}"))
            .collect(),
    };
    words
        .into_iter()
        .map(|words| FieldProblem::new(format!("{field}[0]"), Problem::Invalid(group.clone(), words)))
        .collect()
}

fn is_webhook(reference: &Value) -> bool {
    matches!(text(&reference["kind"]), "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration")
        && reference["apiVersion"] == "admissionregistration.k8s.io/v1"
}

/// Finds what a token is to be bound to.
fn bind(reader: &dyn Reader, namespace: &str, account: &str, reference: &Value) -> Result<Bound, Status> {
    let mut bound = Bound::default();
    if !reference.is_object() {
        return Ok(bound);
    }
    let (kind, name) = (text(&reference["kind"]), text(&reference["name"]));
    let (group, version) = group_version(text(&reference["apiVersion"]));
    let object = match (group, kind) {
        ("", "Pod") => {
            let pod = get(reader, "pods", namespace, name)?;
            if pod["spec"]["serviceAccountName"] != account {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quoted(account)
                )));
            }
            let node = text(&pod["spec"]["nodeName"]);
            if !node.is_empty() {
                // A node that is not there is still named.
                let stored = reader.get(&GroupResource::new("", "nodes"), "", node);
                bound.node = Some(
                    stored.map_or_else(|| json!({"metadata": {"name": node}}), |node| Value::clone(&node)),
                );
            }
            bound.pod.insert(Value::clone(&pod)).clone()
        }
        ("", "Node") => bound.node.insert(Value::clone(&*get(reader, "nodes", "", name)?)).clone(),
        ("", "Secret") => {
            bound.secret.insert(Value::clone(&*get(reader, "secrets", namespace, name)?)).clone()
        }
        _ => {
            let mut words = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            if is_webhook(reference) {
                words.push_str(" (feature gate APIServerWebhookAuthenticationToken is disabled)");
            }
            return Err(Status::bad_request(words));
        }
    };
    let wanted = text(&reference["uid"]);
    if !wanted.is_empty() && object["metadata"]["uid"] != wanted {
        let words = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might \
             have been deleted and then recreated"
        );
        return Err(Status::conflict(group, kind, name, &words));
    }
    Ok(bound)
}

/// Group and version; both empty for what is neither.
fn group_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some(both) => both,
    }
}

fn reference(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut reference = json!({"name": text(&metadata["name"])});
    if let Some(uid) = metadata["uid"].as_str() {
        reference["uid"] = uid.into();
    }
    reference
}

fn get(reader: &dyn Reader, resource: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
    reader
        .get(&GroupResource::new("", resource), namespace, name)
        .ok_or_else(|| Status::not_found("", resource, name))
}
