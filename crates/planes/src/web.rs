//! HTTP with JSON on a stream: as much of it as the programs of a control plane need among themselves.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// The largest message.
const LARGEST: usize = 1 << 20;

/// A connection that requests are sent on, one after the other.
pub(crate) struct Caller {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// Carries the bytes for as long as this is there.
    _driving: JoinSet<()>,
}

impl Caller {
    /// Speaks HTTP on a stream to a host.
    pub(crate) async fn new(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        host: &str,
    ) -> Result<Self, String> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| error.to_string())?;
        let mut driving = JoinSet::new();
        driving.spawn(async move {
            // The answer tells what went wrong, if anything.
            let _ = connection.await;
        });
        Ok(Self { sender, host: host.to_owned(), _driving: driving })
    }

    /// Sends a request and reads the answer: its code and its JSON.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), String> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("host", &self.host);
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let told = |error: hyper::Error| error.to_string();
        self.sender.ready().await.map_err(told)?;
        let answer = self.sender.send_request(request).await.map_err(told)?;
        let code = answer.status().as_u16();
        let bytes =
            Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|error| error.to_string())?;
        Ok((code, serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default()))
    }
}

/// A request, read whole.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Answers the requests of one connection until it ends.
pub(crate) async fn serve<F>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    answer: impl Fn(Asked) -> F + Send + Sync,
) where
    F: Future<Output = (u16, Value)> + Send,
{
    let answer = &answer;
    let service = hyper::service::service_fn(move |request: Request<Incoming>| async move {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, LARGEST)
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let asked = Asked {
            method: head.method,
            path: head.uri.path().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let (code, value) = answer(asked).await;
        let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Ok::<_, Infallible>(response)
    });
    // Whoever asked has seen how far it came.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
