//! Bodies that nobody reads to their end.
//!
//! Who refuses a request before its body is there answers while the client is still sending. A connection that is cut at
//! that moment takes the answer with it: the client fails in the middle of a write and never looks. So whatever is left
//! of a body is read and forgotten in the background, for a while, and the client finds its answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

/// How long a client may go on sending what nobody wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body whose rest is read by nobody, if need be.
pub(super) struct Lingering<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    /// Nothing once it is left to the background.
    body: Option<B>,
    /// Whether the client sends nothing before it is asked to. Who never asks has nothing to wait for.
    is_held_back: bool,
}

impl<B> Lingering<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    /// The same request with such a body.
    pub(super) fn wrap(request: Request<B>) -> Request<Self> {
        let is_held_back = request.headers().contains_key(header::EXPECT);
        request.map(|body| Self { body: Some(body), is_held_back })
    }
}

impl<B> Body for Lingering<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.is_held_back = false;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl<B> Drop for Lingering<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        // Without a runtime there is no connection any more.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_held_back {
            return;
        }
        runtime.spawn(tokio::time::timeout(PATIENCE, async move {
            while let Some(Ok(_)) = body.frame().await {}
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Response, StatusCode};
    use http_body_util::Empty;
    use hyper::server::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What a client is told that sends so much to who does not want it, if it could send all of it.
    async fn told(length: usize, more: &str) -> std::io::Result<String> {
        let (mut client, server) = tokio::io::duplex(4096);
        let service = hyper::service::service_fn(|request| async {
            drop(Lingering::wrap(request));
            let mut refused = Response::new(Empty::<Bytes>::new());
            *refused.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            refused.headers_mut().insert(header::CONNECTION, http::HeaderValue::from_static("close"));
            Ok::<_, Infallible>(refused)
        });
        let served = tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(server), service));
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n");
        client.write_all(head.as_bytes()).await?;
        if more.is_empty() {
            client.write_all(&vec![b'x'; length]).await?;
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await?;
        served.await.unwrap().unwrap();
        Ok(answer)
    }

    #[tokio::test]
    async fn a_refusal_is_seen_however_much_is_sent() {
        let answer = told(8 << 20, "").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn who_waits_to_be_asked_is_refused_at_once() {
        let answer = told(8 << 20, "expect: 100-continue\r\n").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}
