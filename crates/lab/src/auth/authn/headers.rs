//! Who somebody is by the headers of their request.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::attributes::User;
use crate::auth::secret::Secret;
use crate::gourl::escaped_byte;

const REMOTE_USER: &str = "x-remote-user";
const REMOTE_UID: &str = "x-remote-uid";
const REMOTE_GROUP: &str = "x-remote-group";
const REMOTE_EXTRA: &str = "x-remote-extra-";
const IMPERSONATE: &str = "impersonate-";
const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";
const SPACE_BEFORE_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The token of the header `Authorization`, if there is one.
pub(super) fn bearer(headers: &HeaderMap, warnings: &mut Vec<String>) -> Option<Secret> {
    let value = first(headers, AUTHORIZATION.as_str())?;
    let mut parts = value.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    if token.is_empty() {
        if parts.next().is_some() {
            warnings.push(SPACE_BEFORE_TOKEN.to_owned());
        }
        return None;
    }
    Some(Secret::new(token))
}

/// The token that a browser sends as a protocol of a WebSocket, because it cannot set other headers.
pub(super) fn websocket_bearer(headers: &HeaderMap) -> Option<Result<Secret, String>> {
    let says = |name: HeaderName, wanted: &str| {
        first(headers, name.as_str()).is_some_and(|value| value.to_ascii_lowercase().contains(wanted))
    };
    if !says(CONNECTION, "upgrade") || !says(UPGRADE, "websocket") {
        return None;
    }
    let (tokens, others) = protocols(headers);
    let token = match tokens.as_slice() {
        [] => return None,
        [one] => URL_SAFE_NO_PAD
            .decode(one)
            .map_err(|_| "invalid base64.bearer.authorization token encoding".to_owned())
            .and_then(|bytes| {
                String::from_utf8(bytes).map_err(|_| "invalid base64.bearer.authorization token".to_owned())
            }),
        _ => Err("multiple base64.bearer.authorization tokens specified".to_owned()),
    };
    match token {
        Ok(token) if token.is_empty() => None,
        // One is taken away, and one has to be left to be chosen.
        Ok(_) if others.is_empty() => Some(Err("missing additional subprotocol".to_owned())),
        other => Some(other.map(Secret::new)),
    }
}

/// The protocols of a WebSocket: tokens in their encoding, and the others.
fn protocols(headers: &HeaderMap) -> (Vec<String>, Vec<String>) {
    let (mut tokens, mut others) = (Vec::new(), Vec::new());
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for protocol in String::from_utf8_lossy(value.as_bytes()).split(',').map(str::trim) {
            match protocol.strip_prefix(WEBSOCKET_TOKEN) {
                Some(token) => tokens.push(token.to_owned()),
                None => others.push(protocol.to_owned()),
            }
        }
    }
    (tokens, others)
}

/// The user a proxy speaks for.
pub(super) fn remote_user(headers: &HeaderMap) -> Option<User> {
    let name = first(headers, REMOTE_USER).filter(|name| !name.is_empty())?;
    Some(User {
        name,
        uid: first(headers, REMOTE_UID).unwrap_or_default(),
        groups: all(headers, REMOTE_GROUP).into_iter().filter(|group| !group.is_empty()).collect(),
        extra: extras(headers, REMOTE_EXTRA),
    })
}

/// The values of headers with a prefix, by the rest of their names.
pub(in crate::auth) fn extras(headers: &HeaderMap, prefix: &str) -> BTreeMap<String, Vec<String>> {
    let mut extras: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(prefix) {
            extras.entry(unescaped(key)).or_default().push(readable(value));
        }
    }
    extras
}

/// The first value of a header.
pub(in crate::auth) fn first(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(readable)
}

/// All values of a header.
pub(in crate::auth) fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(readable).collect()
}

fn readable(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// A key with its `%` sequences resolved; as it is when they make no sense.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [byte, after @ ..] = rest {
        if *byte != b'%' {
            bytes.push(*byte);
            rest = after;
            continue;
        }
        let Some(value) = escaped_byte(rest) else {
            return key.to_owned();
        };
        bytes.push(value);
        rest = &after[2..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes everything that says who somebody is out of a request, so that nobody behind the server sees it.
pub fn strip_credentials(headers: &mut HeaderMap) {
    let ours = |name: &str| {
        name == AUTHORIZATION.as_str()
            || [REMOTE_USER, REMOTE_UID, REMOTE_GROUP].contains(&name)
            || name.starts_with(REMOTE_EXTRA)
            || name.starts_with(IMPERSONATE)
    };
    let names: Vec<HeaderName> = headers.keys().filter(|name| ours(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    let (tokens, others) = protocols(headers);
    if !tokens.is_empty() {
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        if let Ok(value) = HeaderValue::from_str(&others.join(",")) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
    }
}
