//! What tokens say, and whether it is still true.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Tokens;
use crate::attributes::User;
use crate::auth::secret::same;
use crate::auth::words::{quoted, quoted_list};
use crate::json::text;
use crate::names::GroupResource;
use crate::reader::Reader;

/// The issuer of tokens that are kept in secrets.
pub(in crate::auth) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// How far clocks may be apart, in seconds.
const LEEWAY: i64 = 60;
/// The label of a secret whose token is not to be used any more.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// What a token says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::auth) struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    legacy_namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    legacy_secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    legacy_name: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    legacy_uid: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Default for Audience {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Reference,
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
    uid: String,
}

/// Who a token is of, and for which of the wanted audiences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::auth) struct TokenUser {
    pub(in crate::auth) user: User,
    pub(in crate::auth) audiences: Vec<String>,
}

impl Tokens {
    /// Who a token is of, if it is one of this server and everything it is bound to is still there.
    pub(in crate::auth) fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        reader: &dyn Reader,
        now: Timestamp,
    ) -> Result<Option<TokenUser>, String> {
        let Some(claims) = self.verify(token)? else { return Ok(None) };
        let own = match &claims.aud {
            Audience::One(one) => vec![one.clone()],
            // Tokens of old are for the server only.
            Audience::Many(many) if many.is_empty() => self.audiences().to_vec(),
            Audience::Many(many) => many.clone(),
        };
        let shared: Vec<String> = own.iter().filter(|one| audiences.contains(one)).cloned().collect();
        if shared.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted_list(&own),
                quoted_list(audiences)
            ));
        }
        let check = Check { claims: &claims, reader, now };
        let user = if claims.iss == LEGACY_ISSUER { check.legacy(token)? } else { check.bound()? };
        Ok(Some(TokenUser { user, audiences: shared }))
    }
}

struct Check<'a> {
    claims: &'a Claims,
    reader: &'a dyn Reader,
    now: Timestamp,
}

const INVALIDATED: &str = "service account token has been invalidated";

impl Check<'_> {
    /// The user of a token that was requested.
    fn bound(&self) -> Result<User, String> {
        self.times()?;
        let Kubernetes { namespace, serviceaccount, pod, secret, node } = &self.claims.kubernetes;
        let account = self
            .get("serviceaccounts", namespace, &serviceaccount.name)
            .ok_or_else(|| format!("serviceaccounts {} not found", quoted(&serviceaccount.name)))?;
        let uid = text(&account["metadata"]["uid"]);
        if uid != serviceaccount.uid {
            return Err(format!("service account UID ({uid}) does not match claim ({})", serviceaccount.uid));
        }
        if self.is_gone(&account) {
            return Err(format!("service account {namespace}/{} has been deleted", serviceaccount.name));
        }
        if let Some(secret) = secret {
            self.still_there("secrets", namespace, secret, "secret")?;
        }
        let mut user = account_user(namespace, &serviceaccount.name, uid);
        let mut extra = |key: &str, value: &str| {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        };
        if !self.claims.jti.is_empty() {
            extra("credential-id", &format!("JTI={}", self.claims.jti));
        }
        if let Some(pod) = pod {
            self.still_there("pods", namespace, pod, "pod")?;
            if !pod.name.is_empty() && !pod.uid.is_empty() {
                extra("pod-name", &pod.name);
                extra("pod-uid", &pod.uid);
            }
        }
        if let Some(node) = node {
            // Tokens of pods only mention the node.
            if pod.is_none() {
                self.still_there("nodes", "", node, "node")?;
            }
            if !node.name.is_empty() {
                extra("node-name", &node.name);
                if !node.uid.is_empty() {
                    extra("node-uid", &node.uid);
                }
            }
        }
        Ok(user)
    }

    fn times(&self) -> Result<(), String> {
        let now = self.now.as_second();
        let claims = self.claims;
        if claims.nbf.is_some_and(|at| now.saturating_add(LEEWAY) < seconds(at)) {
            return Err("service account token is not valid yet".to_owned());
        }
        if claims.exp.is_some_and(|at| now.saturating_sub(LEEWAY) > seconds(at)) {
            return Err("service account token has expired".to_owned());
        }
        if claims.iat.is_some_and(|at| now.saturating_add(LEEWAY) < seconds(at)) {
            return Err("service account token is issued in the future".to_owned());
        }
        Ok(())
    }

    /// The object a token is bound to is there and still the same.
    fn still_there(
        &self,
        resource: &str,
        namespace: &str,
        reference: &Reference,
        what: &str,
    ) -> Result<(), String> {
        let object = self.get(resource, namespace, &reference.name).ok_or(INVALIDATED)?;
        let uid = text(&object["metadata"]["uid"]);
        if uid != reference.uid {
            let claim = &reference.uid;
            return Err(format!(
                "{what} UID ({uid}) does not match service account {what} ref claim ({claim})"
            ));
        }
        if self.is_gone(&object) { Err(INVALIDATED.to_owned()) } else { Ok(()) }
    }

    /// The user of a token that is kept in a secret.
    fn legacy(&self, token: &str) -> Result<User, String> {
        let claims = self.claims;
        let (namespace, name) = (&claims.legacy_namespace, &claims.legacy_name);
        let required = [
            (&claims.sub, "sub"),
            (namespace, "namespace"),
            (&claims.legacy_secret, "secretName"),
            (name, "serviceAccountName"),
            (&claims.legacy_uid, "serviceAccountUID"),
        ];
        if let Some((_, missing)) = required.into_iter().find(|(value, _)| value.is_empty()) {
            return Err(format!("{missing} claim is missing"));
        }
        if claims.sub != account_name(namespace, name) {
            return Err("sub claim is invalid".to_owned());
        }
        let deleted = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let secret = self
            .get("secrets", namespace, &claims.legacy_secret)
            .filter(|secret| !deleted(secret))
            .ok_or("Token has been invalidated")?;
        if !secret_data(&secret, "token").is_some_and(|stored| same(&stored, token.as_bytes())) {
            return Err("Token does not match server's copy".to_owned());
        }
        let account = self
            .get("serviceaccounts", namespace, name)
            .ok_or_else(|| format!("serviceaccounts {} not found", quoted(name)))?;
        if deleted(&account) {
            return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
        }
        let uid = text(&account["metadata"]["uid"]);
        if uid != claims.legacy_uid {
            return Err(format!("ServiceAccount UID ({uid}) does not match claim ({})", claims.legacy_uid));
        }
        if secret["metadata"]["labels"].get(INVALID_SINCE).is_some_and(|since| since != "") {
            let secret = &claims.legacy_secret;
            return Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{name} has been marked \
                 invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove \
                 the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ));
        }
        Ok(account_user(namespace, name, uid))
    }

    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.reader.get(&GroupResource::new("", resource), namespace, name)
    }

    /// True for an object that should have been gone for a while.
    fn is_gone(&self, object: &Value) -> bool {
        let deleted = object["metadata"]["deletionTimestamp"].as_str();
        deleted
            .and_then(|at| at.parse::<Timestamp>().ok())
            .is_some_and(|at| at.as_second() < self.now.as_second().saturating_sub(LEEWAY))
    }
}

/// A time of a token in whole seconds.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit becomes the nearest that does")]
fn seconds(at: f64) -> i64 {
    at as i64
}

/// The bytes under a key of a secret.
pub(in crate::auth) fn secret_data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(secret["data"].get(key)?.as_str()?).ok()
}

/// The user name of a service account.
pub(in crate::auth) fn account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The groups of the service accounts of a namespace.
pub(in crate::auth) fn account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

fn account_user(namespace: &str, name: &str, uid: &str) -> User {
    User {
        name: account_name(namespace, name),
        uid: uid.to_owned(),
        groups: account_groups(namespace),
        extra: BTreeMap::new(),
    }
}
