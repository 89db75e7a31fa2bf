//! What is sent back.

use std::error::Error;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use serde_json::Value;

use super::negotiate::{Format, Output};
use crate::names::Gvk;
use crate::proto;
use crate::schema::{TypeRef, builtin, decode};
use crate::status::Status;

/// Answers shorter than this are not compressed.
const COMPRESS_FROM: usize = 128 * 1024;

/// The body of an answer: bytes at once, a stream of them, or what another server sends.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Bytes>),
    /// The only one that may fail: then it ends as badly as it does there.
    Passed(Incoming),
}

impl Body {
    /// No body at all, as in the answer to a `HEAD`.
    pub(crate) fn none() -> Self {
        Self(Kind::Whole(None))
    }

    /// A body that is known.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    /// A body that comes piece by piece.
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }

    /// The body of another server's answer.
    pub(crate) fn passed(body: Incoming) -> Self {
        Self(Kind::Passed(body))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self.0 {
            Kind::Whole(_) => "Body::Whole",
            Kind::Stream(_) => "Body::Stream",
            Kind::Passed(_) => "Body::Passed",
        })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Passed(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Stream(_) => false,
            Kind::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Stream(_) => SizeHint::default(),
            Kind::Passed(body) => body.size_hint(),
        }
    }
}

/// An answer before it is an HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl Reply {
    /// Bytes of a media type.
    pub(crate) fn bytes(code: u16, media_type: &str, body: impl Into<Bytes>) -> Self {
        let mut reply = Self { code, headers: HeaderMap::new(), body: Body::whole(body) };
        reply.set(CONTENT_TYPE, media_type);
        reply.set(CACHE_CONTROL, "no-cache, private");
        reply
    }

    /// Text.
    pub(crate) fn text(code: u16, text: &str) -> Self {
        Self::bytes(code, "text/plain; charset=utf-8", text.to_owned())
    }

    /// 304: what the client has is what there is. Has no body, and says nothing about one.
    pub(crate) fn unchanged() -> Self {
        Self { code: 304, headers: HeaderMap::new(), body: Body::stream(futures::stream::empty()) }
    }

    /// A JSON document that is no API object of the store.
    pub(crate) fn json(code: u16, document: &Value) -> Self {
        Self::bytes(code, Format::Json.media_type(), document.to_string())
    }

    /// JSON bytes that exist already, in the form the client wants.
    pub(crate) fn written(code: u16, body: Bytes, output: Output) -> Self {
        if output.pretty || output.format != Format::Json {
            let value = decode::parse_stored(&body).unwrap_or(Value::Null);
            return Self::object(code, &value, output);
        }
        Self::compressed(code, Format::Json.media_type(), body, output)
    }

    /// An object in the form the client wants.
    pub(crate) fn object(code: u16, object: &Value, output: Output) -> Self {
        let bytes: Bytes = match output.format {
            Format::Json if output.pretty => serde_json::to_vec_pretty(object).unwrap_or_default().into(),
            Format::Json => object.to_string().into(),
            Format::Yaml => serde_saphyr::to_string(object).unwrap_or_default().into(),
            Format::Protobuf => match encoded(object) {
                Some(bytes) => bytes.into(),
                // Not all objects have a protobuf form; every client that asks for it takes JSON as well.
                None => return Self::object(code, object, Output { format: Format::Json, ..output }),
            },
        };
        Self::compressed(code, output.format.media_type(), bytes, output)
    }

    /// A failure in the form the client wants.
    pub(crate) fn failure(status: &Status, output: Output) -> Self {
        let mut reply = Self::object(status.code, &status.to_value(), output);
        if let Some(seconds) = status.details.retry_after_seconds {
            reply.set(http::header::RETRY_AFTER, &seconds.to_string());
        }
        reply
    }

    /// A stream, never compressed and never waited for.
    pub(crate) fn stream(media_type: &str, stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let mut reply = Self { code: 200, headers: HeaderMap::new(), body: Body::stream(stream) };
        reply.set(CONTENT_TYPE, media_type);
        reply.set(CACHE_CONTROL, "no-cache, private");
        reply
    }

    fn compressed(code: u16, media_type: &str, body: Bytes, output: Output) -> Self {
        if !output.gzip || body.len() < COMPRESS_FROM {
            return Self::bytes(code, media_type, body);
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&body).and_then(|()| encoder.finish());
        let Ok(compressed) = compressed else { return Self::bytes(code, media_type, body) };
        let mut reply = Self::bytes(code, media_type, compressed);
        reply.set(CONTENT_ENCODING, "gzip");
        reply.set(VARY, "Accept-Encoding");
        reply
    }

    /// Sets a header; a value no header can have is left out.
    pub(crate) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// Adds the warnings a client shows to its user.
    pub(crate) fn warn(&mut self, warnings: &[String]) {
        for warning in warnings {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                self.headers.append(HeaderName::from_static("warning"), value);
            }
        }
    }

    /// The HTTP response.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = self.headers;
        response
    }
}

/// An object of a built-in kind, a list of them, or the metadata of any objects, as protobuf.
pub(crate) fn encoded(object: &Value) -> Option<Vec<u8>> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = Gvk::new(group, version, object["kind"].as_str().unwrap_or_default());
    type_of(&kind).map(|of| proto::encode(object, of))
}

/// The type of a built-in kind, or of what is left of any kind when only metadata is asked for.
fn type_of(kind: &Gvk) -> Option<TypeRef<'static>> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("meta.k8s.io", "PartialObjectMetadata" | "PartialObjectMetadataList") => {
            builtin::types().named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{}", kind.kind))
        }
        _ => builtin::kind_of(kind),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_alone_has_a_protobuf_form() {
        let one = json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"},
        });
        let list = json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "5"}, "items": [one],
        });
        for object in [one, list] {
            let bytes = encoded(&object).expect("it has a form");
            assert!(bytes.starts_with(b"k8s\0"));
            assert!(bytes.windows(1).any(|window| window == b"a"));
        }
    }

    #[test]
    fn other_objects_have_none() {
        let custom = json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}});
        assert_eq!(encoded(&custom), None);
    }
}
