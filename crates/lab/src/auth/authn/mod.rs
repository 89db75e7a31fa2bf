//! Who makes a request.

mod bootstrap_token;
mod certificate;
mod headers;

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

pub use certificate::Peer;
pub use headers::strip_credentials;
pub(super) use headers::{all, extras, first};

use super::pki::{Pki, PkiError};
use super::secret::Secret;
use super::tokens::{TokenUser, Tokens};
use super::words::aggregated;
use crate::attributes::User;
use crate::reader::Reader;
use crate::status::Status;
use certificate::Verifier;

/// The name of whoever says nothing about themselves.
pub(super) const ANONYMOUS: &str = "system:anonymous";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// What is said about a token that nobody knows.
const INVALID_TOKEN: &str = "invalid bearer token";

/// Whoever makes a request, and what they are to be told about how they said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The user.
    pub user: User,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// What a review says about a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewed {
    /// The user.
    pub user: User,
    /// The audiences that the token and the review share.
    pub audiences: Vec<String>,
}

/// Finds out who makes a request: by certificate, by token, on the word of a proxy, or nobody in particular.
pub struct Authenticator {
    reader: Arc<dyn Reader>,
    tokens: Arc<Tokens>,
    clients: Verifier,
    proxies: Verifier,
    proxy_names: Vec<String>,
    fixed_tokens: HashMap<String, User>,
    bootstrap_tokens: bool,
    anonymous: bool,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Authenticator").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// An authenticator for a server with these keys, which looks at these objects.
    ///
    /// Anonymous requests and bootstrap tokens are accepted; proxies have to be the server's own.
    pub fn new(pki: &Pki, tokens: Arc<Tokens>, reader: Arc<dyn Reader>) -> Result<Self, PkiError> {
        Ok(Self {
            reader,
            tokens,
            clients: Verifier::new(&pki.cluster)?,
            proxies: Verifier::new(&pki.front_proxy)?,
            proxy_names: vec!["front-proxy-client".to_owned()],
            fixed_tokens: HashMap::new(),
            bootstrap_tokens: true,
            anonymous: true,
        })
    }

    /// Lets a token stand for a user.
    #[must_use]
    pub fn with_token(mut self, token: &Secret, user: User) -> Self {
        self.fixed_tokens.insert(token.expose().to_owned(), user);
        self
    }

    /// Says whether requests without credentials are let in as `system:anonymous`.
    #[must_use]
    pub fn with_anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// Says whether bootstrap tokens are accepted.
    #[must_use]
    pub fn with_bootstrap_tokens(mut self, accepted: bool) -> Self {
        self.bootstrap_tokens = accepted;
        self
    }

    /// The common names of proxies that may speak for others; none means all that their authority signed.
    #[must_use]
    pub fn with_proxy_names(mut self, names: Vec<String>) -> Self {
        self.proxy_names = names;
        self
    }

    /// The tokens of service accounts.
    pub fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// Looks at the certificates of a connection, which is done once and not for every request. The first
    /// certificate is the client's; a client without any is nobody in particular.
    pub fn peer(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Peer {
        Peer::new(chain, &self.clients, &self.proxies, &self.proxy_names, now)
    }

    /// Finds out who makes a request.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
        now: Timestamp,
    ) -> Result<Authenticated, Status> {
        let mut warnings = Vec::new();
        match self.find(headers, peer, now, &mut warnings) {
            Ok(Some(user)) => Ok(Authenticated { user: with_group(user), warnings }),
            Ok(None) if self.anonymous => {
                let groups = vec![UNAUTHENTICATED.to_owned()];
                let user = User { name: ANONYMOUS.to_owned(), groups, ..User::default() };
                Ok(Authenticated { user, warnings })
            }
            Ok(None) | Err(_) => Err(unauthorized()),
        }
    }

    /// The first way that tells who it is. Somebody who tried and failed is not taken for nobody.
    fn find(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
        now: Timestamp,
        warnings: &mut Vec<String>,
    ) -> Result<Option<User>, String> {
        let mut problems = Vec::new();
        if let Some(peer) = peer {
            match peer.proxy(now) {
                Ok(may) => {
                    if let Some(user) = headers::remote_user(headers).filter(|_| may) {
                        return Ok(Some(user));
                    }
                }
                Err(problem) => problems.push(problem),
            }
            match peer.user(now) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        let ways = [headers::bearer(headers, warnings).map(Ok), headers::websocket_bearer(headers)];
        for token in ways.into_iter().flatten() {
            match token.and_then(|token| self.token_user(token.expose(), self.tokens.audiences(), now)) {
                Ok(found) => return Ok(Some(found.user)),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(None) } else { Err(aggregated(&problems)) }
    }

    /// Who a token is of, for a `TokenReview`. Without audiences it is about those of the server.
    pub fn review_token(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Reviewed, String> {
        let audiences = if audiences.is_empty() { self.tokens.audiences() } else { audiences };
        // As in a header, only what comes before a space is the token.
        let problem = match token.trim().split(' ').next().filter(|token| !token.is_empty()) {
            Some(token) => match self.token_user(token, audiences, now) {
                Ok(TokenUser { user, audiences }) => {
                    return Ok(Reviewed { user: with_group(user), audiences });
                }
                Err(problem) => problem,
            },
            None => return Err(String::new()),
        };
        // The server's own token is tried first, and fails in these words.
        Err(aggregated(&[INVALID_TOKEN.to_owned(), problem]))
    }

    fn token_user(&self, token: &str, audiences: &[String], now: Timestamp) -> Result<TokenUser, String> {
        // Those who know nothing of audiences speak for all of the server's.
        let own = || -> Option<Vec<String>> {
            let shared: Vec<String> =
                self.tokens.audiences().iter().filter(|one| audiences.contains(one)).cloned().collect();
            (!shared.is_empty()).then_some(shared)
        };
        if let Some(user) = self.fixed_tokens.get(token)
            && let Some(audiences) = own()
        {
            return Ok(TokenUser { user: user.clone(), audiences });
        }
        let problem = match self.tokens.authenticate(token, audiences, self.reader.as_ref(), now) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => None,
            Err(problem) => Some(problem),
        };
        if self.bootstrap_tokens
            && let Some(user) = bootstrap_token::user(token, self.reader.as_ref(), now)
            && let Some(audiences) = own()
        {
            return Ok(TokenUser { user, audiences });
        }
        Err(problem.unwrap_or_else(|| INVALID_TOKEN.to_owned()))
    }
}

/// The failure of a request by somebody who could not be made out.
pub fn unauthorized() -> Status {
    Status::new(401, "Unauthorized", "Unauthorized")
}

/// Everybody who was made out is in one group.
fn with_group(mut user: User) -> User {
    let known = user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if user.name != ANONYMOUS && !known {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests;
