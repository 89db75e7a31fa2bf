//! Requests that fail, wait or see the past.

use std::time::Duration;

use http::{Method, Request, Version};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;
use trellis_lab::faults::{Fault, Matching, When};

use crate::{Cluster, JSON, MAPS, config_map};

#[tokio::test(start_paused = true)]
async fn a_delay_is_as_long_as_it_says() {
    let cluster = Cluster::start().await;
    let delay = Duration::from_secs(7);
    cluster.lab.faults().add(Matching::new("create", "configmaps"), When::Occurrence(2), Fault::Delay(delay));
    for (name, wanted) in [("a", Duration::ZERO), ("b", delay), ("c", Duration::ZERO)] {
        let start = Instant::now();
        cluster.create(name, json!({})).await;
        let took = start.elapsed();
        assert!(took >= wanted && took < wanted + Duration::from_secs(1), "{name}: {took:?}");
    }
    assert_eq!(cluster.lab.faults().fired(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_may_be_longer_than_the_server_lets_a_request_take() {
    let cluster = Cluster::start().await;
    let delay = Duration::from_secs(150);
    cluster.lab.faults().add(Matching::new("create", "configmaps"), When::Occurrence(1), Fault::Delay(delay));
    let start = Instant::now();
    cluster.create("a", json!({})).await;
    assert!(start.elapsed() >= delay);
}

#[tokio::test]
async fn a_folder_that_is_opened_again_neither_repeats_its_chances_nor_makes_up_its_past() {
    let folder = tempfile::tempdir().unwrap();
    let mut uids = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::start_in(Some(folder.path())).await;
        cluster.create("a", json!({})).await;
        let path = format!("{MAPS}/a");
        uids.push(cluster.get(&path).await.1["metadata"]["uid"].clone());
        assert_eq!(cluster.send(Method::DELETE, &path, &Value::Null).await.0, 200);
    }
    assert_ne!(uids[0], uids[1]);
    // Nobody has touched these since, and nobody knows whether there were any.
    let cluster = Cluster::start_in(Some(folder.path())).await;
    let then = "/api/v1/namespaces/default/podtemplates?resourceVersion=1&resourceVersionMatch=Exact";
    let (code, answer) = cluster.get(then).await;
    assert_eq!(code, 410, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_nothing() {
    let cluster = Cluster::start().await;
    let reasons =
        [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")];
    for (code, reason) in reasons {
        let faults = cluster.lab.faults();
        faults.clear();
        faults.add(Matching::new("create", "configmaps"), When::Always, Fault::Fail(code));
        let (answered, status) = cluster.send(Method::POST, MAPS, &config_map("a", "1", &json!({}))).await;
        assert_eq!((answered, status["reason"].as_str()), (code, Some(reason)), "{status}");
        assert_eq!(cluster.get(&format!("{MAPS}/a")).await.0, 404);
    }
    cluster.lab.faults().clear();
    cluster.create("a", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_comes_before_or_after_the_effect() {
    let cluster = Cluster::start().await;
    let time = Duration::from_secs(10);
    for (name, fault, effect) in
        [("a", Fault::TimeoutBefore(time), 404), ("b", Fault::TimeoutAfter(time), 200)]
    {
        cluster.lab.faults().clear();
        cluster.lab.faults().add(Matching::new("create", "configmaps"), When::Occurrence(1), fault);
        let start = Instant::now();
        let (code, status) = cluster.send(Method::POST, MAPS, &config_map(name, "1", &json!({}))).await;
        assert_eq!((code, status["reason"].as_str()), (504, Some("Timeout")), "{status}");
        assert!(start.elapsed() >= time);
        assert_eq!(cluster.get(&format!("{MAPS}/{name}")).await.0, effect, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn stale_reads_show_the_past() {
    let cluster = Cluster::start().await;
    // Versions are counted for all resources: whatever the server writes at first has to be done.
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.create("a", json!({})).await;
    cluster.update("a", "2").await;
    cluster.create("b", json!({})).await;
    let faults = cluster.lab.faults();
    faults.add(Matching::new("get", "configmaps"), When::Between(1, 2), Fault::Stale(2));
    faults.add(Matching::new("list", "configmaps"), When::Occurrence(1), Fault::Stale(2));
    let path = format!("{MAPS}/a");
    assert_eq!(cluster.get(&path).await.1["data"]["x"], "1");
    assert_eq!(cluster.get(&format!("{MAPS}/b")).await.0, 404, "it was not there then");
    assert_eq!(cluster.get(&path).await.1["data"]["x"], "2");

    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let (_, list) = cluster.get(MAPS).await;
    assert_eq!((names(&list), list["items"][0]["data"]["x"].as_str()), (vec!["a".to_owned()], Some("1")));
    let (_, list) = cluster.get(MAPS).await;
    assert_eq!(names(&list), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn occurrences_are_counted_for_what_is_meant_only() {
    let cluster = Cluster::start().await;
    cluster.create("a", json!({})).await;
    let faults = cluster.lab.faults();
    faults.add(Matching::new("update", "configmaps"), When::Occurrence(2), Fault::Fail(503));
    let named = Matching { name: "b".to_owned(), ..Matching::new("", "configmaps") };
    faults.add(named, When::Always, Fault::Fail(500));
    faults.add(Matching::new("get", "namespaces/status"), When::Always, Fault::Fail(500));
    let put = async |data: &str| {
        cluster.send(Method::PUT, &format!("{MAPS}/a"), &config_map("a", data, &json!({}))).await.0
    };
    assert_eq!(put("2").await, 200);
    // Other verbs, resources and names do not count.
    assert_eq!(cluster.get(&format!("{MAPS}/a")).await.0, 200);
    assert_eq!(cluster.get("/api/v1/namespaces/default").await.0, 200);
    assert_eq!(cluster.get(&format!("{MAPS}/b")).await.0, 500);
    assert_eq!(cluster.get("/api/v1/namespaces/default/status").await.0, 500);
    assert_eq!(put("3").await, 503);
    assert_eq!(put("3").await, 200);
    assert_eq!(faults.fired(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_the_limit_announces_the_end_of_the_connection() {
    let cluster = Cluster::start().await;
    for (version, announced) in [(Version::HTTP_11, Some("close")), (Version::HTTP_2, None)] {
        let request = Request::post(MAPS)
            .version(version)
            .header("content-type", JSON)
            .body(Full::new(bytes::Bytes::from(vec![b' '; 4 << 20])))
            .unwrap();
        let response = cluster.lab.service().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 413);
        let told = response.headers().get("connection").map(|value| value.to_str().unwrap());
        assert_eq!(told, announced, "{version:?}");
    }
}
