//! WebSockets: the bytes of a stream in binary frames.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::Refusal;
use crate::service::{Body, empty};

/// The protocol clients may ask for; it adds nothing.
const PROTOCOL: &str = "plain.kubevirt.io";
/// How much goes into one frame.
const FRAME: usize = 10 * 1024;
/// How often a client is asked whether it is still there.
const PING: Duration = Duration::from_secs(1);
/// How long it has for its last word.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long it may say nothing.
const SILENCE: Duration = Duration::from_mins(1);

/// A connection to a client.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A client that asked for a WebSocket and has not got it yet.
pub(super) struct Caller {
    key: String,
    protocol: bool,
    upgrade: OnUpgrade,
}

impl Caller {
    /// Who asks, if it is for a WebSocket.
    pub(super) fn of(mut request: Request<Incoming>) -> Result<Self, Refusal> {
        let headers = request.headers();
        let key = text(headers, "sec-websocket-key").to_owned();
        let wants = |name: &str, word: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
        };
        if !wants("connection", "upgrade") {
            return Err(no_websocket("'upgrade' token not found in 'Connection' header"));
        }
        if !wants("upgrade", "websocket") {
            return Err(no_websocket("'websocket' token not found in 'Upgrade' header"));
        }
        if key.is_empty() {
            return Err(Refusal::bad(
                "websocket: not a websocket handshake: 'Sec-WebSocket-Key' header is missing or blank",
            ));
        }
        let protocol = wants("sec-websocket-protocol", PROTOCOL);
        Ok(Self { key, protocol, upgrade: hyper::upgrade::on(&mut request) })
    }

    /// Says yes, and goes on with the connection once it is there.
    pub(super) fn accept<F, S>(self, serve: S) -> Response<Body>
    where
        F: Future<Output = ()> + Send + 'static,
        S: FnOnce(Socket) -> F + Send + 'static,
    {
        let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if self.protocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            match upgrade.await {
                Ok(stream) => {
                    let socket =
                        WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await;
                    serve(socket).await;
                }
                Err(error) => tracing::debug!(%error, "a client left before its stream began"),
            }
        });
        response
    }
}

fn no_websocket(why: &str) -> Refusal {
    Refusal::bad(&format!("websocket: the client is not using the websocket protocol: {why}"))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Carries bytes between a client and a stream until one of them ends, or `ended` does.
pub(super) async fn carry(
    mut socket: Socket,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ended: impl Future<Output = ()>,
) {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut buffer = vec![0; FRAME];
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            biased;
            read = from.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    let frame = Bytes::copy_from_slice(&buffer[..length]);
                    if socket.send(Message::Binary(frame)).await.is_err() {
                        return;
                    }
                }
            },
            message = socket.next() => match message {
                Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => {
                    heard = Instant::now();
                    if to.write_all(&message.into_data()).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => heard = Instant::now(),
            },
            _ = pings.tick() => {
                if heard.elapsed() > SILENCE || socket.send(Message::Ping(Bytes::from_static(b"keep alive"))).await.is_err() {
                    return;
                }
            }
            () = &mut ended => break,
        }
    }
    close(socket).await;
}

/// Ends a connection as one ends that is at its end.
pub(super) async fn close(mut socket: Socket) {
    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    // A client that is gone needs no farewell; one that is there has the last word.
    if socket.close(Some(frame)).await.is_ok() {
        let answered = async { while let Some(Ok(_)) = socket.next().await {} };
        let _ = tokio::time::timeout(FAREWELL, answered).await;
    }
}
