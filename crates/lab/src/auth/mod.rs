//! Who somebody is and what they may do: keys and certificates, tokens, and the rules of RBAC.

mod authn;
mod bootstrap;
mod csr;
mod impersonate;
mod kubeconfig;
mod pki;
mod rbac;
mod reviews;
mod secret;
mod tls;
mod tokens;
mod words;

pub use authn::{Authenticated, Authenticator, Peer, Reviewed, strip_credentials, unauthorized};
pub use bootstrap::bootstrap_objects;
pub use csr::{SigningError, approved as approved_csr, sign as sign_csr, signed as signed_csr};
pub use impersonate::{Impersonator, requested_user};
pub use kubeconfig::{Identity as ClientIdentity, kubeconfig};
pub use pki::{
    AltName, Authority, Credential, Given, Pki, PkiError, Subject, create_private_folder, open_private_file,
    write_secret_file,
};
pub use rbac::{Authorizer, Decision, Rule, UserRules, Verdict, aggregate, forbidden};
pub use reviews::{Review, Reviews};
pub use secret::Secret;
pub use tls::{server_config, server_config_with};
pub use tokens::{ISSUER, JWKS_CONTENT_TYPE, OIDC_CACHE_CONTROL, Tokens};
