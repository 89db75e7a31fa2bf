//! Traces: what was looked at and which requests that took, sent to a collector over OTLP (HTTP with protobuf).
//!
//! Spans are what `tracing` has of this program's own crates, and nothing else: not those of the libraries below, which
//! may name what is in a request, and not the sending of spans itself.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// Where a collector takes traces, after its address.
const PATH: &str = "/v1/traces";
/// How long a collector has to take what it is sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The address of the collector is none.
    #[error("`{0}` is no address of a collector: it has to be like http://collector:4318")]
    Address(String),
    /// The exporter cannot be made.
    #[error("traces cannot be sent: {0}")]
    Exporter(String),
}

/// Traces of a daemon, on their way to a collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Traces that go to the collector at an address, in the name of one of several daemons of a kind. To be called within
    /// a runtime.
    pub fn to(endpoint: &str, service: &'static str, instance: &str) -> Result<Self, TracesError> {
        let wrong = || TracesError::Address(endpoint.to_owned());
        let address: http::Uri = endpoint.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let (Some("http" | "https"), Some(authority)) = (address.scheme_str(), address.authority()) else {
            return Err(wrong());
        };
        let server = format!("{}://{authority}", address.scheme_str().unwrap_or_default());
        let mut config = kube::Config::new(server.parse().map_err(|_| wrong())?);
        config.default_retry = false;
        let failed = |error: &dyn fmt::Display| TracesError::Exporter(error.to_string());
        let client = kube::Client::try_from(config).map_err(|error| failed(&error))?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(Sender { client, runtime: Handle::current() })
            .with_endpoint(format!("{server}{}{PATH}", address.path().trim_end_matches('/')))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| failed(&error))?;
        let resource = Resource::builder()
            .with_service_name(service)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", instance.to_owned()))
            .build();
        let provider =
            SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        Ok(Self { provider })
    }

    /// What takes in the spans of this program.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.provider.tracer("trellis");
        let ours = Targets::new().with_target("trellis", LevelFilter::DEBUG);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(ours)
    }

    /// Sends what is left, and ends.
    pub async fn end(self) {
        // It waits for a thread that waits for this runtime.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the last traces were not taken");
        }
    }
}

/// Sends what the exporter is done with. It is called from a thread without a runtime.
struct Sender {
    client: kube::Client,
    runtime: Handle,
}

impl fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let answer = client.send(request.map(Body::from)).await?;
            let (parts, body) = answer.into_parts();
            let bytes = body.collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, bytes))
        };
        let sent = self.runtime.spawn(async move { tokio::time::timeout(PATIENCE, exchange).await });
        sent.await??
    }
}
