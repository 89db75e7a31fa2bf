//! Tokens that let somebody clone or upload for a while, signed with a key of the installation.

use std::collections::BTreeMap;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::context::Context;

/// Who issues tokens for clones, for a short while.
pub(super) const CLONE: &str = "cdi-apiserver";
/// Who issues tokens for clones, for as long as they take.
pub(super) const EXTENDED_CLONE: &str = "cdi-deployment";
/// Who issues tokens for uploads.
pub(super) const UPLOAD: &str = "cdi-apiserver-upload";

/// How long a token for a clone or an upload is good, in seconds.
const SHORT: i64 = 5 * 60;
/// How long an extended token is good, in seconds.
const LONG: i64 = 10 * 365 * 24 * 3600;
/// How far clocks may be apart, in seconds.
const LEEWAY: i64 = 10;

/// What a token allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    /// `Clone` or `Upload`.
    pub operation: String,
    /// The object it is about.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What kind of object that is.
    pub resource: Resource,
    /// What else it is bound to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

/// A resource of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Resource {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    #[serde(rename = "resource")]
    pub plural: String,
}

impl Resource {
    /// Claims.
    pub(super) fn claims() -> Self {
        Self { group: String::new(), version: "v1".to_owned(), plural: "persistentvolumeclaims".to_owned() }
    }

    /// Snapshots.
    pub(super) fn snapshots() -> Self {
        Self {
            group: "snapshot.storage.k8s.io".to_owned(),
            version: "v1".to_owned(),
            plural: "volumesnapshots".to_owned(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    iat: i64,
    nbf: i64,
    exp: i64,
    #[serde(flatten)]
    grant: Grant,
}

/// Why a token is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    /// It was not signed here, or is no token at all.
    #[error("the token is not valid")]
    Invalid,
    /// It is too old or too young.
    #[error("the token has expired")]
    Expired,
    /// It was issued for something else.
    #[error("the token is from issuer {0}")]
    Issuer(String),
    /// It could not be made.
    #[error("the token cannot be made: {0}")]
    Signing(String),
}

/// The key of an installation: it comes from the seed, so that equal runs write equal tokens.
fn secret(context: &Context) -> Vec<u8> {
    let seed = context.stages.seed().to_le_bytes();
    let mut hash = Sha256::new();
    hash.update(b"cdi-api-signing-key");
    hash.update(seed);
    hash.finalize().to_vec()
}

/// A token that allows something.
pub(super) fn issue(context: &Context, issuer: &str, grant: Grant) -> Result<String, TokenError> {
    let now = context.clock.now().as_second();
    let lasts = if issuer == EXTENDED_CLONE { LONG } else { SHORT };
    let claims = Claims { iss: issuer.to_owned(), iat: now, nbf: now, exp: now + lasts, grant };
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(&secret(context)))
        .map_err(|error| TokenError::Signing(error.to_string()))
}

/// What a token allows now.
pub(super) fn check(context: &Context, issuer: &str, token: &str) -> Result<Grant, TokenError> {
    let mut validation = Validation::new(Algorithm::HS256);
    // Time is the cluster's, which the library does not know.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.required_spec_claims.clear();
    let key = DecodingKey::from_secret(&secret(context));
    let claims =
        jsonwebtoken::decode::<Claims>(token, &key, &validation).map_err(|_| TokenError::Invalid)?.claims;
    let now = context.clock.now().as_second();
    if claims.iss != issuer {
        Err(TokenError::Issuer(claims.iss))
    } else if now > claims.exp + LEEWAY || now + LEEWAY < claims.nbf {
        Err(TokenError::Expired)
    } else {
        Ok(claims.grant)
    }
}
