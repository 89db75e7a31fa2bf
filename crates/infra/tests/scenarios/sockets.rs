//! A client of the streams of `subresources.kubevirt.io`, on a connection to the emulated virt-api itself.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::context::Cx;
use crate::support::Result;

/// How long a stream may be silent.
const PATIENCE: Duration = Duration::from_mins(1);

/// A stream and what it said so far.
pub(crate) struct Stream {
    socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
    heard: Vec<u8>,
    /// The protocol the server chose.
    pub(crate) protocol: String,
}

impl Cx {
    /// Sends a request to virt-api as the API server would pass it on, with a user and headers.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        user: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response<Incoming>> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.infra.service().connection(far));
        let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await?;
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::builder().method(method).uri(path).header("host", "virt-api");
        if !user.is_empty() {
            request = request.header("x-remote-user", user).header("x-remote-group", "system:authenticated");
        }
        if user == "admin" {
            request = request.header("x-remote-group", "system:masters");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(sender.send_request(request.body(Empty::<Bytes>::new())?).await?)
    }

    /// Opens a stream.
    pub(crate) async fn open(&self, path: &str) -> Result<Stream> {
        let headers = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.dG9rZW4, plain.kubevirt.io"),
        ];
        let response = self.call("GET", path, "admin", &headers).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (code, text) = (response.status(), text(response).await?);
            return Err(format!("no stream but {code}: {text}").into());
        }
        let accept = response.headers().get("sec-websocket-accept").and_then(|value| value.to_str().ok());
        assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        let protocol = response.headers().get("sec-websocket-protocol");
        let protocol = protocol.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let upgraded = hyper::upgrade::on(response).await?;
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
        Ok(Stream { socket, heard: Vec::new(), protocol })
    }
}

/// The text of an answer.
pub(crate) async fn text(response: Response<Incoming>) -> Result<String> {
    Ok(String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?)
}

impl Stream {
    /// Says something.
    pub(crate) async fn say(&mut self, bytes: &[u8]) -> Result {
        Ok(self.socket.send(Message::Binary(Bytes::copy_from_slice(bytes))).await?)
    }

    /// Waits for the next bytes; nothing at the end, which has to be a proper one.
    async fn more(&mut self) -> Result<bool> {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.map_err(|_| "the stream is silent")? {
                Some(Ok(Message::Binary(bytes))) => {
                    self.heard.extend(&bytes);
                    return Ok(true);
                }
                Some(Ok(Message::Close(frame))) => {
                    let code = frame.map(|frame| u16::from(frame.code));
                    assert_eq!(code, Some(1000));
                    return Ok(false);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(false),
            }
        }
    }

    /// Waits until some words were said.
    pub(crate) async fn until(&mut self, words: &str) -> Result {
        while !String::from_utf8_lossy(&self.heard).contains(words) {
            if !self.more().await? {
                return Err(format!("it ended with {:?}", String::from_utf8_lossy(&self.heard)).into());
            }
        }
        Ok(())
    }

    /// Takes so many bytes.
    pub(crate) async fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.heard.len() < length {
            if !self.more().await? {
                return Err("it ended early".into());
            }
        }
        Ok(self.heard.drain(..length).collect())
    }

    /// Waits until it is ended.
    pub(crate) async fn until_end(&mut self) -> Result {
        while self.more().await? {}
        Ok(())
    }
}
