//! Uploads: tokens, and the proxy they open.

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use trellis_infra::kinds::{DATA_VOLUME, POD, PVC};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::service::Service;

use super::{content, phases, until_phase, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(an_upload_needs_a_token_and_fills_a_volume), scenario!(an_upload_into_a_claim_of_its_own)]
}

/// A token for uploading to a claim.
async fn token(cx: &Cx, name: &str) -> Result<String> {
    let path =
        format!("/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/{}/uploadtokenrequests", cx.namespace);
    let request = json!({
        "apiVersion": "upload.cdi.kubevirt.io/v1beta1", "kind": "UploadTokenRequest",
        "metadata": {"name": "t"}, "spec": {"pvcName": name},
    });
    let answer = cx.client.send(Method::POST, &path, Some(("application/json", &request))).await?;
    Ok(answer.text("/status/token").to_owned())
}

/// Sends something to the proxy: how it answers, and with what words.
async fn send(cx: &Cx, path: &str, authorization: &str, body: &[u8]) -> Result<(StatusCode, String)> {
    let (client, server) = tokio::io::duplex(64 * 1024);
    tokio::spawn(Service::new(cx.infra.context().clone()).connection(server));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await?;
    tokio::spawn(connection);
    let mut request = Request::post(path).header(header::HOST, "cdi-uploadproxy.cdi.svc");
    if !authorization.is_empty() {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::copy_from_slice(body)))?).await?;
    let status = response.status();
    let words = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&words).into_owned()))
}

/// Sends a long body without looking for an answer before all of it is sent, and tells the first line of the answer.
async fn send_all_first(cx: &Cx, authorization: &str, length: usize) -> Result<String> {
    let (mut client, server) = tokio::io::duplex(4096);
    tokio::spawn(Service::new(cx.infra.context().clone()).connection(server));
    let head = format!(
        "POST /v1beta1/upload HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(&vec![0; length]).await?;
    let mut answer = vec![0; 256];
    let read = client.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

async fn an_upload_needs_a_token_and_fills_a_volume(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    cx.create(&DATA_VOLUME, volume("a", "16Mi", json!({"upload": {}}))).await?;
    cx.until(&PVC, &key, |_| true).await?;
    let path = "/v1beta1/upload";
    assert_eq!(send(&cx, path, "", b"x").await?.0, StatusCode::BAD_REQUEST);
    assert_eq!(send(&cx, path, "Bearer forged", b"x").await?.0, StatusCode::UNAUTHORIZED);
    assert_eq!(send_all_first(&cx, "Bearer forged", 3 << 20).await?, "HTTP/1.1 401 Unauthorized");
    let token = format!("Bearer {}", token(&cx, "a").await?);
    until_phase(&cx, &key, "UploadReady").await?;
    let large = vec![1; 20 << 20];
    let (status, words) = send(&cx, path, &token, &large).await?;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(words.contains("is larger than the reported available storage"), "{words}");
    let (status, words) = send(&cx, path, &token, &[1; 4096]).await?;
    assert_eq!(status, StatusCode::OK, "{words}");
    until_phase(&cx, &key, "Succeeded").await?;
    assert_eq!(phases(&mut history), ["UploadScheduled", "UploadReady", "Succeeded"]);
    assert_eq!(content(&cx, &key).await?.virtual_size, 4096);
    let (status, words) = send(&cx, path, &token, b"x").await?;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(words.contains("already finished uploading"), "{words}");
    Ok(())
}

async fn an_upload_into_a_claim_of_its_own(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut wanted = volume("a", "16Mi", json!({"upload": {}}));
    wanted.set_annotation("cdi.kubevirt.io/storage.usePopulator", "false");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &key, "UploadReady").await?;
    cx.until(&POD, &cx.key("cdi-upload-a"), |pod| pod.condition_holds("Ready")).await?;
    let token = format!("Bearer {}", token(&cx, "a").await?);
    let form =
        b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d\"\r\n\r\nbytes\r\n--x--\r\n";
    let (status, words) = send(&cx, "/v1beta1/upload-form", &token, form).await?;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{words}");
    assert!(words.contains("multipart/form-data"), "{words}");
    assert_eq!(send(&cx, "/v1beta1/upload-async", &token, b"bytes").await?.0, StatusCode::OK);
    until_phase(&cx, &key, "Succeeded").await?;
    let seen = phases(&mut history);
    let known = ["Pending", "PVCBound", "UploadScheduled", "UploadReady", "Succeeded"];
    assert!(seen.iter().all(|phase| known.contains(&phase.as_str())), "{seen:?}");
    assert_eq!(content(&cx, &key).await?.virtual_size, 5);
    let elsewhere: Value = json!({"metadata": {"name": "b"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "replicated", "resources": {"requests": {"storage": "1Gi"}}}});
    cx.create(&PVC, elsewhere).await?;
    assert!(self::token(&cx, "b").await.is_err(), "nothing can be uploaded to just any claim");
    cx.until(&PVC, &Key::new(&cx.namespace, "b"), |claim| claim.text("/status/phase") == "Bound").await?;
    Ok(())
}
