//! Ways to the ports of a machine.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use trellis_runtime::Site;

/// How much is held for a slow reader.
const BUFFER: usize = 64 * 1024;
/// How much goes into one frame.
const FRAME: usize = 16 * 1024;

/// A stream of bytes in both directions.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Knows how the port of a machine is reached.
pub trait Dial: Send + Sync {
    /// Connects to a port of a machine; the error is for people.
    fn dial<'a>(&'a self, machine: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Wire>, String>>;
}

/// By the machine's name, for whoever is on its network.
#[derive(Debug, Clone)]
pub struct ByName {
    /// What follows the machine's name.
    pub domain: String,
}

impl Dial for ByName {
    fn dial<'a>(&'a self, machine: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Wire>, String>> {
        Box::pin(async move {
            let host = format!("{machine}.{}", self.domain);
            let stream = tokio::net::TcpStream::connect((host.as_str(), port)).await;
            let stream = stream.map_err(|error| format!("{host}:{port}: {error}"))?;
            Ok(Box::new(stream) as Box<dyn Wire>)
        })
    }
}

/// Through the infra API: KubeVirt's port forwarding, for whoever has rights in the machine's namespace and is on no
/// network of it.
#[derive(Debug, Clone)]
pub struct PortForward {
    /// The infra site.
    pub site: Site,
    /// The namespace of the machines.
    pub namespace: String,
}

impl Dial for PortForward {
    fn dial<'a>(&'a self, machine: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Wire>, String>> {
        Box::pin(async move {
            let path = format!(
                "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachineinstances/{machine}/portforward/{port}/tcp",
                self.namespace
            );
            let socket = upgrade(&self.site.client(), &path).await?;
            let (near, far) = tokio::io::duplex(BUFFER);
            // Ends with either end.
            tokio::spawn(carry(socket, far));
            Ok(Box::new(near) as Box<dyn Wire>)
        })
    }
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Asks for a WebSocket. KubeVirt's protocol is none of those kube's own client knows.
async fn upgrade(client: &kube::Client, path: &str) -> Result<Socket, String> {
    let key = generate_key();
    let request = Request::get(path)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, "plain.kubevirt.io")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!("the infra API answers {} to port forwarding", response.status().as_u16()));
    }
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err("the infra API answers somebody else's request for port forwarding".to_owned());
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
    Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await)
}

/// Carries bytes between a WebSocket and a stream until one of them ends.
async fn carry(mut socket: Socket, mut stream: DuplexStream) {
    let mut buffer = vec![0; FRAME];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(length @ 1..) => {
                    let frame = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
                    if socket.send(Message::Binary(frame)).await.is_err() {
                        return;
                    }
                }
                _ => break,
            },
            message = socket.next() => match message {
                Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => {
                    if stream.write_all(&message.into_data()).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
    // Whoever is gone needs no farewell.
    let _ = socket.close(None).await;
}
