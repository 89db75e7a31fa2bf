//! The page of a daemon: `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Metrics;

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks with reasons. Copies are cheap and share everything.
#[derive(Clone, Default)]
pub struct Checks {
    checks: Arc<RwLock<Vec<(String, Check)>>>,
}

impl fmt::Debug for Checks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks = self.checks.read();
        formatter.debug_list().entries(checks.iter().map(|(name, _)| name)).finish()
    }
}

impl Checks {
    /// Adds a check, which says what is wrong, if anything is. It has to be quick.
    pub fn add(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.checks.write().push((name.to_owned(), Box::new(check)));
    }

    /// A line for each check, and whether all is well.
    pub fn report(&self) -> (bool, String) {
        let (mut well, mut text) = (true, String::new());
        for (name, check) in self.checks.read().iter() {
            match check() {
                Ok(()) => text.extend(["[+] ", name, ": ok\n"]),
                Err(reason) => {
                    well = false;
                    text.extend(["[-] ", name, ": ", &reason, "\n"]);
                }
            }
        }
        text.push_str(if well { "ok\n" } else { "not ok\n" });
        (well, text)
    }
}

/// What a daemon shows of itself.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Its numbers.
    pub metrics: Metrics,
    /// Whether it has to be restarted.
    pub health: Checks,
    /// Whether it can do its work.
    pub ready: Checks,
}

impl Page {
    /// Listens on an address, and serves what is listened on with [`Listening::run`].
    pub async fn listen(self, address: SocketAddr) -> std::io::Result<Listening> {
        Ok(Listening { listener: TcpListener::bind(address).await?, page: self })
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (code, text) = match request.uri().path() {
            _ if request.method() != Method::GET && request.method() != Method::HEAD => {
                (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned())
            }
            "/metrics" => (StatusCode::OK, self.metrics.text()),
            "/healthz" | "/livez" => checked(&self.health),
            "/readyz" => checked(&self.ready),
            _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = code;
        let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

fn checked(checks: &Checks) -> (StatusCode, String) {
    let (well, text) = checks.report();
    (if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

/// A page that can be asked for.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    page: Page,
}

impl Listening {
    /// Where.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the page until `stop` says so.
    pub async fn run(self, stop: &CancellationToken) {
        let page = Arc::new(self.page);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let page = Arc::clone(&page);
                        let service = service_fn(move |request: Request<Incoming>| {
                            let answer = page.answer(&request);
                            async move { Ok::<_, Infallible>(answer) }
                        });
                        connections.spawn(async move {
                            let server = auto::Builder::new(TokioExecutor::new());
                            // Who hangs up in the middle is nobody's trouble.
                            let _ = server.serve_connection(TokioIo::new(stream), service).await;
                        });
                    }
                    // Out of file descriptors, most likely: some will be given back.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn checks_are_told_with_their_reasons() {
        let page = Page::default();
        let fine = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let check = Arc::clone(&fine);
        page.ready.add("caches", move || {
            if check.load(std::sync::atomic::Ordering::SeqCst) {
                Ok(())
            } else {
                Err("3 of 5 known".to_owned())
            }
        });
        let listening = page.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listening.address().unwrap();
        let stop = CancellationToken::new();
        let token = stop.clone();
        let served = tokio::spawn(async move { listening.run(&token).await });
        let answer = get(address, "/readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("[-] caches: 3 of 5 known"),
            "{answer}"
        );
        fine.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/healthz").await.contains("ok"));
        assert!(get(address, "/metrics").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/else").await.starts_with("HTTP/1.1 404"));
        stop.cancel();
        served.await.unwrap();
    }
}
