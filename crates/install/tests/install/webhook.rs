//! The webhook as a server: what it shows, and what it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use trellis_engine::admission;
use trellis_runtime::webhook::{Keys, LARGEST, Webhook};

use crate::objects::deployment;
use crate::support::certificates::Authority;
use crate::support::client::{Client, Credentials};

/// Puts a certificate of an authority into the folder.
fn store(folder: &std::path::Path, authority: &Authority) {
    let identity = authority.server("trellis", &["trellis.trellis-system.svc"]).unwrap();
    std::fs::write(folder.join("tls.crt"), identity.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), identity.key).unwrap();
    std::fs::write(folder.join("ca.crt"), &authority.certificate).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_shows_the_certificate_that_is_there_now() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Keys::of_folder(folder.path()).unwrap_err().to_string().contains("tls.crt"));
    let (first, second) = (Authority::new("first").unwrap(), Authority::new("second").unwrap());
    store(folder.path(), &first);
    let keys = Arc::new(Keys::of_folder(folder.path()).unwrap());
    let authority = keys.authority();
    let webhook = Webhook::listen("127.0.0.1:0".parse().unwrap(), keys, admission::review).await.unwrap();
    let base = format!("https://{}", webhook.address().unwrap());
    let stop = CancellationToken::new();
    let token = stop.clone();
    let served = tokio::spawn(async move { webhook.run(&token).await });
    let believing = |authority: &Authority| {
        Client::new(&base, &authority.certificate, &Credentials::Anonymous).unwrap().http1()
    };
    let asked = json!({"request": {"uid": "u", "operation": "CREATE", "object": deployment().object}});
    let client = believing(&first);
    let answer = client.post("/validate", &asked).await.unwrap();
    assert_eq!((answer.status, &answer.json()["response"]["allowed"]), (200, &json!(true)));
    // What is no question is told so, and what is too large is not read.
    assert_eq!(client.get("/validate").await.unwrap().status, 405);
    assert_eq!(client.post("/validate", &json!("what?")).await.unwrap().status, 400);
    assert_eq!(client.post("/elsewhere", &asked).await.unwrap().status, 400);
    let large = json!({"request": "x".repeat(LARGEST)});
    assert!(client.post("/validate", &large).await.is_ok_and(|answer| answer.status == 413));
    // Half of a change is none: the certificate stays until both fit.
    let other = second.server("trellis", &["trellis.trellis-system.svc"]).unwrap();
    std::fs::write(folder.path().join("tls.crt"), other.certificate).unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(client.post("/validate", &asked).await.unwrap().status, 200);
    store(folder.path(), &second);
    let begin = Instant::now();
    while believing(&second).post("/validate", &asked).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it is never shown");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(believing(&first).post("/validate", &asked).await.is_err());
    assert_eq!(authority.borrow().as_deref(), Some(second.certificate.as_str()));
    stop.cancel();
    served.await.unwrap();
}
