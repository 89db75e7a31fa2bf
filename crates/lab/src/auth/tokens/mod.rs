//! The tokens of service accounts: signed by the server, valid as long as what they are bound to.

mod claims;
mod issue;
mod oidc;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use parking_lot::Mutex;
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(super) use claims::{Claims, LEGACY_ISSUER, TokenUser, account_groups, secret_data};
pub use oidc::{JWKS_CONTENT_TYPE, OIDC_CACHE_CONTROL};

use super::pki::PkiError;
use super::secret::Secret;

/// The issuer unless told otherwise, which is also the one audience.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// How many tokens are remembered as rightly signed.
const REMEMBERED: usize = 4096;

/// Signs the tokens of service accounts and knows them again.
pub struct Tokens {
    issuer: String,
    audiences: Vec<String>,
    signing: EncodingKey,
    verifying: DecodingKey,
    key_id: String,
    /// The public key: `x` and `y` of a point on P-256.
    point: (String, String),
    /// Digests of tokens whose signature was verified, with what they say.
    verified: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens signed with this key (PKCS 8 as PEM, on the curve P-256). Without audiences the issuer is the one.
    pub fn new(key: &Secret, issuer: &str, audiences: &[String]) -> Result<Self, PkiError> {
        let wrong =
            || PkiError::Crypto("the key of service accounts is not a private key on P-256".to_owned());
        let pair = KeyPair::from_pem(key.expose()).map_err(|_| wrong())?;
        // A point on the curve: a mark and two numbers of 32 bytes.
        let [4, x_and_y @ ..] = pair.public_key_raw() else { return Err(wrong()) };
        let Some((x, y)) = x_and_y.split_at_checked(32).filter(|(_, y)| y.len() == 32) else {
            return Err(wrong());
        };
        let own = || vec![issuer.to_owned()];
        Ok(Self {
            issuer: issuer.to_owned(),
            audiences: if audiences.is_empty() { own() } else { audiences.to_vec() },
            signing: EncodingKey::from_ec_pem(key.expose().as_bytes()).map_err(|_| wrong())?,
            verifying: DecodingKey::from_ec_der(pair.public_key_raw()),
            key_id: URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info())),
            point: (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y)),
            verified: Mutex::default(),
        })
    }

    /// The audiences of the server itself.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs claims as a token.
    fn sign(&self, claims: &Value) -> Result<Secret, PkiError> {
        let header = json!({"alg": "ES256", "kid": self.key_id});
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.signing, Algorithm::ES256)
            .map_err(|_| PkiError::Crypto("the token could not be signed".to_owned()))?;
        Ok(Secret::new(format!("{message}.{signature}")))
    }

    /// What a token of this server says; nothing for tokens that are not meant to be of this server.
    pub(super) fn verify(&self, token: &str) -> Result<Option<Arc<Claims>>, String> {
        let Some((message, signature)) = token.rsplit_once('.') else { return Ok(None) };
        let Some((header, payload)) = message.split_once('.') else { return Ok(None) };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let Some(payload) = decode(payload) else { return Ok(None) };
        let Ok(unverified) = serde_json::from_slice::<Issuer>(&payload) else { return Ok(None) };
        if unverified.iss != self.issuer && unverified.iss != LEGACY_ISSUER {
            return Ok(None);
        }
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(claims) = self.verified.lock().get(&digest) {
            return Ok(Some(Arc::clone(claims)));
        }
        let Some(header) = decode(header).and_then(|json| serde_json::from_slice::<Header>(&json).ok())
        else {
            return Ok(None);
        };
        if !header.kid.is_empty() && header.kid != self.key_id {
            return Err("invalid signature, no keys found".to_owned());
        }
        let right = header.alg == "ES256"
            && jsonwebtoken::crypto::verify(signature, message.as_bytes(), &self.verifying, Algorithm::ES256)
                .unwrap_or(false);
        if !right {
            return Err("go-jose/go-jose: error in cryptographic primitive".to_owned());
        }
        let claims: Claims = serde_json::from_slice(&payload)
            .map_err(|_| "go-jose/go-jose/jwt: validation failed, invalid claims".to_owned())?;
        let claims = Arc::new(claims);
        let mut verified = self.verified.lock();
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(digest, Arc::clone(&claims));
        Ok(Some(claims))
    }
}

#[derive(serde::Deserialize)]
struct Issuer {
    iss: String,
}

#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Header {
    alg: String,
    kid: String,
}

#[cfg(test)]
mod tests;
