//! Imports over HTTP from a server of this machine.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use trellis_infra::kinds::{DATA_VOLUME, POD, SECRET};
use trellis_infra::object::{Key, Object as _};

use super::{content, phases, until_phase, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(an_image_is_really_fetched).on_machine_time(),
        scenario!(a_wrong_checksum_is_fatal).on_machine_time(),
        scenario!(an_unreachable_server_is_tried_again).on_machine_time(),
        scenario!(headers_and_logins_are_sent).on_machine_time(),
    ]
}

/// A server of images that ends with this.
struct Server {
    address: SocketAddr,
    seen_login: Arc<AtomicBool>,
    _task: JoinSet<()>,
}

/// The beginning of a disk of 64 MiB, which is all there has to be of it.
fn qcow2() -> Vec<u8> {
    let mut image = b"QFI\xfb\0\0\0\x03".to_vec();
    image.extend([0; 16]);
    image.extend((64_u64 << 20).to_be_bytes());
    image.resize(100_000, 7);
    image
}

impl Server {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, seen_login) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let (mut task, seen) = (JoinSet::new(), Arc::clone(&seen_login));
        task.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                let answer = service_fn(move |request| {
                    let seen = Arc::clone(&seen);
                    async move { Ok::<_, Infallible>(answer(&request, &seen)) }
                });
                tokio::spawn(async move {
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await
                });
            }
        });
        Ok(Self { address, seen_login, _task: task })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn answer(request: &Request<Incoming>, seen: &AtomicBool) -> Response<Full<Bytes>> {
    let head =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(qcow2())));
    match request.uri().path() {
        "/image" => {}
        "/moved" => {
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(header::LOCATION, header::HeaderValue::from_static("image"));
        }
        // user:secret
        "/private" if head("authorization") == "Basic dXNlcjpzZWNyZXQ=" && head("x-kind") == "disk" => {
            seen.store(true, Ordering::Relaxed);
        }
        "/private" => *response.status_mut() = StatusCode::UNAUTHORIZED,
        _ => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}

fn digest() -> String {
    let hash = Sha256::digest(qcow2());
    hash.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
fn http(name: &str, source: Value) -> Value {
    volume(name, "128Mi", json!({"http": source}))
}

async fn an_image_is_really_fetched(cx: Cx) -> Result {
    let server = Server::start().await?;
    let mut history = cx.follow(&DATA_VOLUME, &cx.key("a")).await;
    cx.create(&DATA_VOLUME, http("a", json!({"url": server.url("/image"), "checksum": digest()}))).await?;
    let done = until_phase(&cx, &cx.key("a"), "Succeeded").await?;
    assert_eq!(done.text("/status/progress"), "100.0%");
    let held = content(&cx, &cx.key("a")).await?;
    assert_eq!((held.virtual_size, held.bootable), (64 << 20, true));
    assert_eq!(held.digest, digest());
    assert_eq!(phases(&mut history).last().map(String::as_str), Some("Succeeded"));
    // Another way leads to the same.
    cx.create(&DATA_VOLUME, http("b", json!({"url": server.url("/moved")}))).await?;
    until_phase(&cx, &cx.key("b"), "Succeeded").await?;
    assert_eq!(content(&cx, &cx.key("b")).await?, held);
    Ok(())
}

async fn a_wrong_checksum_is_fatal(cx: Cx) -> Result {
    let server = Server::start().await?;
    let wrong = format!("sha256:{}", "0".repeat(64));
    cx.create(&DATA_VOLUME, http("a", json!({"url": server.url("/image"), "checksum": wrong}))).await?;
    let failed = until_phase(&cx, &cx.key("a"), "Failed").await?;
    let message = failed.condition("Running").text("/message");
    let expected =
        format!("Unable to process data: checksum mismatch: expected {wrong}, calculated {}", digest());
    assert_eq!(message, expected);
    cx.until_event("a", "ImportFailed").await?;
    // The worker is dismissed, and what became of its container says nothing about why.
    let pods = cx.client.cache(&POD);
    for pod in pods.list(&cx.namespace) {
        cx.until_gone(&POD, &Key::of(&pod)).await?;
    }
    crate::import::meanwhile(&cx).await?;
    let failed = cx.client.get(&DATA_VOLUME, &cx.key("a")).await?.ok_or("it is gone")?;
    assert_eq!(failed.condition("Running").text("/message"), expected);
    Ok(())
}

async fn an_unreachable_server_is_tried_again(cx: Cx) -> Result {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = nobody.local_addr()?;
    drop(nobody);
    cx.create(&DATA_VOLUME, http("a", json!({"url": format!("http://{address}/image")}))).await?;
    let failing = |volume: &Value| volume.condition("Running")["reason"] == "Error";
    let failing = cx.until(&DATA_VOLUME, &cx.key("a"), failing).await?;
    let message = failing.condition("Running").text("/message");
    assert!(message.starts_with("Unable to connect to http data source: HTTP request errored"), "{message}");
    assert!(message.ends_with("connect: connection refused"), "{message}");
    assert_ne!(failing.text("/status/phase"), "Failed");
    let server = Server::start().await?;
    cx.create(&DATA_VOLUME, http("b", json!({"url": server.url("/nothing")}))).await?;
    let said = |volume: &Value| volume.condition("Running").text("/message").contains("got 404");
    cx.until(&DATA_VOLUME, &cx.key("b"), said).await?;
    Ok(())
}

async fn headers_and_logins_are_sent(cx: Cx) -> Result {
    let server = Server::start().await?;
    let login = json!({"accessKeyId": "user", "secretKey": "secret"});
    cx.create(&SECRET, json!({"metadata": {"name": "login"}, "stringData": login})).await?;
    let source =
        json!({"url": server.url("/private"), "secretRef": "login", "extraHeaders": ["X-Kind: disk"]});
    cx.create(&DATA_VOLUME, http("a", source)).await?;
    until_phase(&cx, &cx.key("a"), "Succeeded").await?;
    assert!(server.seen_login.load(Ordering::Relaxed));
    Ok(())
}
