//! Kubeconfigs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::pki::{Authority, Bundle, Credential, PkiError};
use crate::secret::Secret;
use crate::yaml::to_yaml;

/// A server as a kubeconfig names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server<'a> {
    /// Its URL.
    pub(crate) url: &'a str,
    /// The name its certificate must have, where that is not the one in the URL.
    pub(crate) name: Option<&'a str>,
}

impl<'a> From<&'a str> for Server<'a> {
    fn from(url: &'a str) -> Self {
        Self { url, name: None }
    }
}

/// A kubeconfig with everything inside: one server, one user.
pub(crate) fn kubeconfig<'a>(
    bundle: &Bundle,
    cluster: &str,
    server: impl Into<Server<'a>>,
    user: &str,
    credential: &Credential,
) -> Result<Secret, PkiError> {
    let authority = &bundle.authority(Authority::Kubernetes)?.certificate;
    let context = format!("{user}@{cluster}");
    let server = server.into();
    let mut document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {
            "server": server.url,
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": STANDARD.encode(&credential.certificate),
            "client-key-data": STANDARD.encode(credential.key.expose()),
        }}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
    });
    if let Some(name) = server.name {
        document["clusters"][0]["cluster"]["tls-server-name"] = name.into();
    }
    Ok(Secret::new(to_yaml(&document)))
}
