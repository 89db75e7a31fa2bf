//! What of the service a connection leads to.
//!
//! A request to an aggregated API says in its headers who its user is. Only an API server may say that: one of this
//! process, or one that shows the certificate real API servers show to those that extend them.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::admission;
use super::serve::ServeError;

/// The paths of CDI's proxy for uploads.
pub(super) const UPLOADS: [&str; 2] = ["/v1beta1/upload", "/v1alpha1/upload"];

/// What of the service a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everything: the other end is an API server.
    Everything,
    /// What needs nobody to say who the user is: reviews, which change nothing, and uploads.
    Reviews,
    /// Uploads alone, which carry tokens.
    Uploads,
}

impl Access {
    /// Whether a path can be asked for.
    pub(super) fn leads_to(self, path: &str) -> bool {
        let is_upload = UPLOADS.iter().any(|prefix| path.starts_with(prefix));
        match self {
            Self::Everything => true,
            Self::Reviews => is_upload || is_health(path) || admission::find(path).is_some(),
            Self::Uploads => is_upload || is_health(path),
        }
    }
}

/// Whether a path only asks whether anybody is there.
pub(super) fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz")
}

/// What an API server shows to those that extend it, so that they believe what it says of its users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxy {
    /// The certificates of the authority, as PEM.
    authority: String,
    /// The names it may have; any where there are none.
    names: Vec<String>,
}

impl FrontProxy {
    /// What an API server says of itself in `extension-apiserver-authentication`; nothing where it does not.
    pub fn of(config_map: &Value) -> Option<Self> {
        let authority = config_map["data"]["requestheader-client-ca-file"].as_str()?.to_owned();
        let names = config_map["data"]["requestheader-allowed-names"].as_str().unwrap_or("[]");
        Some(Self { authority, names: serde_json::from_str(names).ok()? })
    }

    /// What checks the certificates of clients; one who has none is let in, and not believed.
    pub(super) fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, ServeError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            let certificate = certificate.map_err(|error| ServeError::FrontProxy(error.to_string()))?;
            roots.add(certificate)?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.allow_unauthenticated().build().map_err(|error| ServeError::FrontProxy(error.to_string()))
    }

    /// Whether a certificate that was checked is that of the API server.
    pub(super) fn is(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        self.names.is_empty() || name.is_some_and(|name| self.names.iter().any(|allowed| allowed == name))
    }
}

/// The key of the config map in which API servers say what they show.
pub(crate) fn front_proxy_key() -> crate::object::Key {
    crate::object::Key::new("kube-system", "extension-apiserver-authentication")
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::object::Object as _;

    #[test]
    fn strangers_reach_what_carries_its_own_proof() {
        let review = admission::hooks().next().unwrap().path;
        for (path, reviews, uploads) in [
            ("/v1beta1/upload-form", true, true),
            ("/healthz", true, true),
            (review, true, false),
            ("/apis", false, false),
            ("/apis/lab.trellis.dev/v1/hosts", false, false),
            ("/apis/subresources.kubevirt.io/v1/version", false, false),
            ("/apis/upload.cdi.kubevirt.io/v1beta1", false, false),
        ] {
            assert!(Access::Everything.leads_to(path));
            assert_eq!(Access::Reviews.leads_to(path), reviews, "{path}");
            assert_eq!(Access::Uploads.leads_to(path), uploads, "{path}");
        }
    }

    #[test]
    fn an_api_server_is_known_by_its_name() {
        let named = |name: &str| {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.self_signed(&KeyPair::generate().unwrap()).unwrap()
        };
        let (proxy, user) = (named("front-proxy"), named("admin"));
        let mut map = json!({"data": {
            "requestheader-client-ca-file": proxy.pem(), "requestheader-allowed-names": "[\"front-proxy\"]",
        }});
        let known = FrontProxy::of(&map).unwrap();
        assert!(known.is(proxy.der()) && !known.is(user.der()));
        map.unset("/data/requestheader-allowed-names");
        assert!(FrontProxy::of(&map).unwrap().is(user.der()));
        assert_eq!(FrontProxy::of(&json!({"data": {}})), None);
    }
}
