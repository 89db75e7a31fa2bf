//! Requests to other servers: those of clients, handed on in their name, and our own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::{Server, is_available};
use crate::api::Call;
use crate::api::reply::{Body, Reply};
use crate::attributes::User;
use crate::auth;
use crate::status::Status;
use crate::webhook::{self, Place, Target, Trust};

/// How long another server may take to answer a question of ours.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer to a question of ours.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;

impl Server {
    /// Hands a request on, and the answer back as it comes. `upgrade` is the client's connection, if it can be
    /// taken over.
    pub(in crate::server) async fn forward(
        &self,
        call: &Call,
        service: &Value,
        body: webhook::Body,
        upgrade: Option<OnUpgrade>,
    ) -> Result<Reply, Status> {
        if !is_available(service) || self.address_of(service).is_err() {
            return Ok(plain_failure("service unavailable"));
        }
        let mut uri = call.attributes.path.clone();
        if !call.query.is_empty() {
            uri.push('?');
            uri.push_str(&call.query);
        }
        let upgrade = upgrade.zip(protocol_wanted(&call.headers));
        let mut request = Request::builder().method(call.method.clone()).uri(uri);
        if let Some(headers) = request.headers_mut() {
            *headers = without_hops(&call.headers);
            headers.remove(HOST);
            auth::strip_credentials(headers);
            identify(headers, &call.attributes.user);
            if let Some((_, protocol)) = &upgrade {
                headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.insert(UPGRADE, protocol.clone());
            }
        }
        let request = request.body(body).map_err(|error| Status::internal(error.to_string()))?;
        let (target, ..) = Self::place_of(service);
        let mut response = match self.webhooks.call(&target, request).await {
            Ok(response) => response,
            Err(error) => return Ok(plain_failure(&format!("error trying to reach service: {error}"))),
        };
        let mut headers = without_hops(response.headers());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some((ours, protocol)) = upgrade else {
                return Ok(plain_failure(
                    "error trying to reach service: it speaks another protocol unasked",
                ));
            };
            let chosen = response.headers().get(UPGRADE).cloned().unwrap_or(protocol);
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, chosen);
            self.join(ours, hyper::upgrade::on(&mut response));
        }
        let code = response.status().as_u16();
        Ok(Reply { code, headers, body: Body::passed(response.into_body()) })
    }

    /// Asks the kubelets for something, and hands the answer on as it comes; nothing where no server of this process
    /// answers for them.
    pub(crate) async fn ask_kubelets(&self, path: String) -> Result<Option<Reply>, Status> {
        let (namespace, name) = super::KUBELETS;
        if self.webhooks.mounted(namespace, name).is_none() {
            return Ok(None);
        }
        let place = Place::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port: 443,
            path: String::new(),
        };
        let request = Request::builder().uri(path).body(webhook::full(Bytes::new()));
        let request = request.map_err(|error| Status::internal(error.to_string()))?;
        let response = self.webhooks.call(&Target { place, trust: Trust::Anything }, request).await;
        let response = response.map_err(|error| Status::internal(error.to_string()))?;
        let (code, headers) = (response.status().as_u16(), without_hops(response.headers()));
        Ok(Some(Reply { code, headers, body: Body::passed(response.into_body()) }))
    }

    /// Joins the connections of a client and of the server it wants, until one of them ends or this server does.
    fn join(&self, client: OnUpgrade, other: OnUpgrade) {
        let joined = async {
            let (client, other) = match tokio::try_join!(client, other) {
                Ok(both) => both,
                Err(error) => return tracing::debug!(%error, "a connection could not be taken over"),
            };
            let ended =
                tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(other)).await;
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection that was handed on ended");
            }
        };
        let mut tunnels = self.remote.tunnels.lock();
        while tunnels.try_join_next().is_some() {}
        tunnels.spawn(joined);
    }

    /// A request of our own to the server behind an APIService: the code, and the answer if it is JSON.
    pub(crate) async fn ask_remote(
        &self,
        service: &Value,
        user: &User,
        method: Method,
        path: &str,
    ) -> Result<(u16, Value), String> {
        let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
        if let Some(headers) = request.headers_mut() {
            identify(headers, user);
        }
        let request = request.body(webhook::full(Bytes::new())).map_err(|error| error.to_string())?;
        let (target, ..) = Self::place_of(service);
        let asking = async {
            let response = self.webhooks.call(&target, request).await.map_err(|error| error.to_string())?;
            let code = response.status().as_u16();
            let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
        };
        let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err(late.to_owned()))
    }
}

/// 503 the way a proxy says it.
fn plain_failure(why: &str) -> Reply {
    Reply::text(503, &format!("{why}\n"))
}

/// The protocol a client wants to go on in. HTTP/2 is none: its requests would pass by every check of ours.
fn protocol_wanted(headers: &HeaderMap) -> Option<HeaderValue> {
    let says_upgrade = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    let protocol = headers.get(UPGRADE).filter(|_| says_upgrade)?;
    let is_http = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        name.starts_with("h2c") || name.starts_with("http/")
    };
    let safe = protocol.to_str().is_ok_and(|names| !names.split(',').any(is_http));
    safe.then(|| protocol.clone())
}

/// The headers that are about the message and not about the connection it came on.
fn without_hops(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let hop = |name: &HeaderName| {
        [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
            || matches!(
                name.as_str(),
                "keep-alive" | "proxy-connection" | "proxy-authenticate" | "proxy-authorization"
            )
            || named.iter().any(|other| other == name.as_str())
    };
    let kept = headers.iter().filter(|(name, _)| !hop(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Says who asks, to a server that trusts ours.
fn identify(headers: &mut HeaderMap, user: &User) {
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    };
    // The lab listens on loopback only, so that is where everybody comes from.
    add("x-forwarded-for", "127.0.0.1");
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    user.groups.iter().for_each(|group| add("x-remote-group", group));
    for (key, values) in &user.extra {
        for value in values {
            add(&format!("x-remote-extra-{}", escaped(key)), value);
        }
    }
}

/// A key that may stand in the name of a header.
fn escaped(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'*+^`|".contains(&byte);
    let letter = |byte: u8| match byte {
        byte if plain(byte) => char::from(byte.to_ascii_lowercase()).to_string(),
        byte => format!("%{byte:02X}"),
    };
    key.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_taken_over_for_what_is_not_http() {
        let wanted = |connection: &'static str, upgrade: &'static str| {
            let headers = [
                (CONNECTION, HeaderValue::from_static(connection)),
                (UPGRADE, HeaderValue::from_static(upgrade)),
            ];
            protocol_wanted(&headers.into_iter().collect())
        };
        assert_eq!(wanted("keep-alive, Upgrade", "websocket"), Some(HeaderValue::from_static("websocket")));
        assert_eq!(wanted("upgrade", "SPDY/3.1"), Some(HeaderValue::from_static("SPDY/3.1")));
        assert_eq!(wanted("keep-alive", "websocket"), None);
        assert_eq!(wanted("Upgrade, HTTP2-Settings", "h2c"), None);
        assert_eq!(wanted("Upgrade", "websocket, H2C"), None);
        assert_eq!(wanted("Upgrade", "HTTP/2.0"), None);
    }

    #[test]
    fn headers_of_a_connection_are_not_handed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "x-own, close"), ("x-own", "1"), ("te", "trailers"), ("accept", "*/*")]
        {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let kept = without_hops(&headers);
        assert_eq!(kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
        assert_eq!(escaped("example.com/Key%"), "example.com%2Fkey%25");
    }
}
