//! Tokens that let somebody clone or upload for a while, signed with a key of the installation.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, RsaKeySize};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::Identity;
use crate::context::Context;
use crate::kinds::SECRET;
use crate::object::Key;

/// Who issues tokens for clones, for a short while.
pub(super) const CLONE: &str = "cdi-apiserver";
/// Who issues tokens for clones, for as long as they take.
pub(super) const EXTENDED_CLONE: &str = "cdi-deployment";
/// Who issues tokens for uploads.
pub(super) const UPLOAD: &str = "cdi-apiserver-upload";

/// The Secret with the keys, in CDI's namespace.
const SECRET_NAME: &str = "cdi-api-signing-key";
/// Its fields.
const PRIVATE: &str = "id_rsa.key";
const PUBLIC: &str = "id_rsa.key.pub";

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

/// The keys of an installation, as PEM.
struct Keys {
    private: Vec<u8>,
    public: Vec<u8>,
}

impl Keys {
    /// Those in a Secret, if they are there.
    fn of(secret: &Value) -> Option<Self> {
        let field = |name: &str| STANDARD.decode(secret["data"][name].as_str()?).ok();
        Some(Self { private: field(PRIVATE)?, public: field(PUBLIC)? })
    }
}

/// The keys of the installation. They are made when they are needed first, and kept where CDI keeps them: nobody who
/// cannot read that Secret can make a token.
async fn keys(context: &Context) -> Result<Keys, TokenError> {
    let client = context.client(Identity::CDI_API);
    let key = Key::new("cdi", SECRET_NAME);
    let failed = |error: &dyn std::fmt::Display| TokenError::Signing(error.to_string());
    let find = || async { client.get(&SECRET, &key).await.map_err(|error| failed(&error)) };
    if let Some(keys) = find().await?.as_ref().and_then(Keys::of) {
        return Ok(keys);
    }
    let pair = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)
        .map_err(|error| failed(&error))?;
    let secret = json!({
        "metadata": {"namespace": key.namespace, "name": key.name}, "type": "Opaque",
        "data": {
            PRIVATE: STANDARD.encode(pair.serialize_pem()), PUBLIC: STANDARD.encode(pair.public_key_pem()),
        },
    });
    // Somebody else may have been faster; then theirs count.
    client.create_if_absent(&SECRET, secret).await.map_err(|error| failed(&error))?;
    find().await?.as_ref().and_then(Keys::of).ok_or_else(|| failed(&"there is no key"))
}

/// A token that allows something.
pub(super) async fn issue(context: &Context, issuer: &str, grant: Grant) -> Result<String, TokenError> {
    sign(&keys(context).await?, issuer, grant, context.clock.now().as_second())
}

fn sign(keys: &Keys, issuer: &str, grant: Grant, now: i64) -> Result<String, TokenError> {
    let failed = |error: jsonwebtoken::errors::Error| TokenError::Signing(error.to_string());
    let lasts = if issuer == EXTENDED_CLONE { LONG } else { SHORT };
    let claims = Claims { iss: issuer.to_owned(), iat: now, nbf: now, exp: now + lasts, grant };
    let key = EncodingKey::from_rsa_pem(&keys.private).map_err(failed)?;
    jsonwebtoken::encode(&Header::new(Algorithm::PS256), &claims, &key).map_err(failed)
}

/// What a token allows now.
pub(super) async fn check(context: &Context, issuer: &str, token: &str) -> Result<Grant, TokenError> {
    verify(&keys(context).await?, issuer, token, context.clock.now().as_second())
}

fn verify(keys: &Keys, issuer: &str, token: &str, now: i64) -> Result<Grant, TokenError> {
    let mut validation = Validation::new(Algorithm::PS256);
    // Time is the cluster's, which the library does not know.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.required_spec_claims.clear();
    let key = DecodingKey::from_rsa_pem(&keys.public).map_err(|_| TokenError::Invalid)?;
    let claims =
        jsonwebtoken::decode::<Claims>(token, &key, &validation).map_err(|_| TokenError::Invalid)?.claims;
    if claims.iss != issuer {
        Err(TokenError::Issuer(claims.iss))
    } else if now > claims.exp + LEEWAY || now + LEEWAY < claims.nbf {
        Err(TokenError::Expired)
    } else {
        Ok(claims.grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Keys {
        let pair = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        Keys { private: pair.serialize_pem().into_bytes(), public: pair.public_key_pem().into_bytes() }
    }

    #[test]
    fn a_token_is_good_for_a_while_and_with_its_key() {
        let (keys, others) = (made(), made());
        let grant = Grant {
            operation: "Upload".to_owned(),
            name: "a".to_owned(),
            namespace: "b".to_owned(),
            resource: Resource::claims(),
            params: BTreeMap::new(),
        };
        let token = sign(&keys, UPLOAD, grant.clone(), 1000).unwrap();
        assert_eq!(jsonwebtoken::decode_header(&token).unwrap().alg, Algorithm::PS256);
        assert_eq!(verify(&keys, UPLOAD, &token, 1000), Ok(grant));
        assert_eq!(verify(&others, UPLOAD, &token, 1000), Err(TokenError::Invalid));
        assert_eq!(verify(&keys, CLONE, &token, 1000), Err(TokenError::Issuer(UPLOAD.to_owned())));
        let late = 1000 + SHORT + LEEWAY + 1;
        assert_eq!(verify(&keys, UPLOAD, &token, late), Err(TokenError::Expired));
    }
}
