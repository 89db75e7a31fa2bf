//! A collector receives what was looked at and which requests that took.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;
use trellis_runtime::traces::Traces;

use crate::support::{CONFIG_MAP, World, key, map};

/// Takes requests, answers them well, and tells their heads and bodies: a slow machine sends its spans in several.
async fn collect(listener: TcpListener, told: UnboundedSender<(String, Vec<u8>)>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, told.clone()));
    }
}

async fn serve(mut stream: TcpStream, told: UnboundedSender<(String, Vec<u8>)>) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        if count == 0 {
            assert!(bytes.is_empty(), "the request ended too early");
            return;
        }
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        if bytes.len() >= end + 4 + length {
            told.send((head, bytes[end + 4..].to_vec())).unwrap();
            bytes.clear();
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }
}

fn text<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_and_their_requests_reach_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/otlp/", listener.local_addr().unwrap());
    let (told, mut received) = mpsc::unbounded_channel();
    tokio::spawn(collect(listener, told));
    let traces = Traces::to(&endpoint, "trellis-controller", "one").unwrap();
    let subscriber = tracing_subscriber::registry().with(traces.layer());
    let world = World::new().await;
    let site = world.other();
    let look = async {
        site.create::<Value>(&CONFIG_MAP, "default", &map("a", "hunter2")).await.unwrap();
        site.find::<Value>(&CONFIG_MAP, &key("none")).await.unwrap();
    };
    async {
        let span =
            tracing::info_span!(target: "trellis_engine", "look", tenant = "default/blue", machine = "m1");
        look.instrument(span).await;
    }
    .with_subscriber(subscriber)
    .await;
    traces.end().await;
    // What was to be sent has been answered by now.
    let mut spans: Vec<Span> = Vec::new();
    while let Ok((head, body)) = received.try_recv() {
        assert!(head.starts_with("post /otlp/v1/traces http/1.1"), "{head}");
        assert!(!body.windows(7).any(|window| window == b"hunter2"), "what is sent to a server is not told");
        let request = ExportTraceServiceRequest::decode(&*body).unwrap();
        for sent in request.resource_spans {
            let resource = sent.resource.unwrap();
            assert!(resource.attributes.iter().any(|attribute| attribute.key == "service.instance.id"));
            spans.extend(sent.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let look = spans.iter().find(|span| span.name == "look").unwrap();
    assert_eq!((text(look, "tenant"), text(look, "machine")), (Some("default/blue"), Some("m1")));
    let requests: Vec<_> = spans.iter().filter(|span| span.name == "request").collect();
    let told: Vec<_> =
        requests.iter().map(|span| (text(span, "verb").unwrap(), text(span, "result").unwrap())).collect();
    assert_eq!(told, [("create", "ok"), ("get", "not_found")]);
    assert!(
        requests.iter().all(|span| span.parent_span_id == look.span_id && span.trace_id == look.trace_id)
    );
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    for wrong in ["collector:4318", "ftp://collector", "/v1/traces", "http://"] {
        assert!(Traces::to(wrong, "x", "y").is_err(), "{wrong}");
    }
}
