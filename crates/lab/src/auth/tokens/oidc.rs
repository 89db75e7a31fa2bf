//! What others need to verify tokens by themselves.

use serde::Serialize;

use super::Tokens;

/// The content type of the keys.
pub const JWKS_CONTENT_TYPE: &str = "application/jwk-set+json";
/// How long both documents may be kept: the header `Cache-Control`.
pub const OIDC_CACHE_CONTROL: &str = "public, max-age=3600";

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
}

#[derive(Serialize)]
struct Keys<'a> {
    keys: [Key<'a>; 1],
}

#[derive(Serialize)]
struct Key<'a> {
    #[serde(rename = "use")]
    use_for: &'static str,
    kty: &'static str,
    kid: &'a str,
    crv: &'static str,
    alg: &'static str,
    x: &'a str,
    y: &'a str,
}

impl Tokens {
    /// The document `/.well-known/openid-configuration`. `address` is the host and port of the server.
    pub fn openid_configuration(&self, address: &str) -> String {
        written(&Configuration {
            issuer: &self.issuer,
            jwks_uri: format!("https://{address}/openid/v1/jwks"),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: ["ES256"],
        })
    }

    /// The document `/openid/v1/jwks`.
    pub fn jwks(&self) -> String {
        let (x, y) = (&self.point.0, &self.point.1);
        let key = Key { use_for: "sig", kty: "EC", kid: &self.key_id, crv: "P-256", alg: "ES256", x, y };
        written(&Keys { keys: [key] })
    }
}

fn written(document: &impl Serialize) -> String {
    // Plain texts under plain names can always be written.
    serde_json::to_string(document).unwrap_or_default()
}
