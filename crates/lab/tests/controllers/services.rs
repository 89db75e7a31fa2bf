//! APIServices: those of the server itself, and those that other servers serve.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use crate::{Cluster, DEFINITIONS, condition};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn reason(service: &Value) -> &str {
    service["status"]["conditions"][0]["reason"].as_str().unwrap_or_default()
}

fn message(service: &Value) -> &str {
    service["status"]["conditions"][0]["message"].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn what_is_served_here_has_services_of_its_own() {
    let cluster = Cluster::start().await;
    let apps = cluster.until(&format!("{SERVICES}/v1.apps"), |code, _| code == 200).await;
    assert_eq!(apps["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!((condition(&apps, "Available"), reason(&apps)), ("True", "Local"));
    assert_eq!(apps["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
    let core = cluster.read(&format!("{SERVICES}/v1.")).await;
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    cluster.quiet().await;
    assert_eq!(cluster.get(&format!("{SERVICES}/v1.apiregistration.k8s.io")).await.0, 404);

    // Those of custom resources are restored, and go with the last definition of their group and version.
    cluster.define_widgets().await;
    let path = format!("{SERVICES}/v1.example.com");
    let custom = cluster.until(&path, |code, _| code == 200).await;
    assert_eq!(custom["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    assert_eq!(
        custom["spec"],
        json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    cluster.delete(&path).await;
    cluster.until(&path, |code, _| code == 200).await;
    cluster.patch(&path, json!({"spec": {"versionPriority": 7}})).await;
    cluster.until(&path, |_, service| service["spec"] == custom["spec"]).await;
    cluster.delete(&format!("{DEFINITIONS}/widgets.example.com")).await;
    cluster.until_gone(&path).await;
    cluster.delete(&format!("{SERVICES}/v1.apps")).await;
    cluster.quiet().await;
    assert_eq!(cluster.get(&format!("{SERVICES}/v1.apps")).await.0, 404);
}

/// What another server was asked: method, path and the headers that say who asks.
type Asked = Arc<Mutex<Vec<(String, String, Vec<String>)>>>;

/// A server of `flunders`, the certificate to trust it by, and what it was asked.
async fn flunder_server() -> (u16, String, Asked) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["flunders.default.svc".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let chain = vec![certificate.der().clone()];
    let private = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private).unwrap();
    let tls = TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (tls, log) = (tls.clone(), Arc::clone(&log));
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |request| {
                    let answer = flunders(&request, &log);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, STANDARD.encode(certificate.pem()), asked)
}

fn flunders(request: &Request<Incoming>, log: &Asked) -> Response<Full<Bytes>> {
    let header = |name: &str| {
        let values = request.headers().get_all(name).iter();
        values.map(|value| format!("{name}={}", value.to_str().unwrap())).collect::<Vec<_>>()
    };
    let path = request.uri().path().to_owned();
    let who = [header("authorization"), header("x-remote-user"), header("x-remote-group")].concat();
    log.lock().unwrap().push((request.method().to_string(), path.clone(), who));
    let (code, answer) = match path.as_str() {
        "/apis/flunders.io/v1" => {
            let verbs = ["get", "list", "delete", "deletecollection"];
            (
                200,
                json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "flunders.io/v1", "resources": [
                {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": verbs}]}),
            )
        }
        "/openapi/v3" => (
            200,
            json!({"paths": {"apis/flunders.io/v1": {"serverRelativeURL": "/openapi/v3/apis/flunders.io/v1?hash=1"}}}),
        ),
        "/openapi/v3/apis/flunders.io/v1" => (200, json!({"openapi": "3.0.0"})),
        path if path.ends_with("/flunders") => {
            (200, json!({"kind": "FlunderList", "apiVersion": "flunders.io/v1", "items": []}))
        }
        _ => (418, json!({"kind": "Status", "message": "no such flunder"})),
    };
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .header("x-flunder", "1")
        .body(Full::new(answer.to_string().into()))
        .unwrap()
}

#[tokio::test]
async fn what_another_server_serves_is_asked_of_it() {
    let (port, authority, asked) = flunder_server().await;
    let cluster = Cluster::start().await;
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.flunders.io"},
        "spec": {"group": "flunders.io", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 10, "caBundle": authority,
            "service": {"namespace": "default", "name": "flunders", "port": port}}});
    cluster.create(SERVICES, service).await;
    let path = format!("{SERVICES}/v1.flunders.io");
    let missing = cluster.until(&path, |_, service| condition(service, "Available") == "False").await;
    assert_eq!(
        (reason(&missing), message(&missing)),
        ("ServiceNotFound", "service/flunders in \"default\" is not present")
    );
    assert_eq!(cluster.get("/apis/flunders.io/v1/flunders").await, (503, json!("service unavailable\n")));
    let stale = cluster.namespace("waits").await;
    cluster.delete(&stale).await;
    let stuck = cluster
        .until(&stale, |_, namespace| condition(namespace, "NamespaceDeletionDiscoveryFailure") == "True")
        .await;
    assert_eq!(
        message(&stuck),
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
         flunders.io/v1: stale GroupVersion discovery: flunders.io/v1"
    );

    // A Service without endpoints, then one that leads to the server.
    let ports = json!([{"name": "https", "port": port}]);
    let with_endpoints = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "flunders"}, "spec": {"ports": ports}});
    cluster.create("/api/v1/namespaces/default/services", with_endpoints).await;
    let missing = cluster.until(&path, |_, service| reason(service) == "EndpointsNotFound").await;
    assert_eq!(message(&missing), "cannot find endpointslices for service/flunders in \"default\"");
    cluster.delete("/api/v1/namespaces/default/services/flunders").await;
    let external = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "flunders"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    cluster.create("/api/v1/namespaces/default/services", external).await;
    let found = cluster.until(&path, |_, service| condition(service, "Available") == "True").await;
    assert_eq!((reason(&found), message(&found)), ("Passed", "all checks passed"));
    cluster.until_gone(&stale).await;
    let deleted = |(method, path, who): &(String, String, Vec<String>)| {
        method == "DELETE"
            && path == "/apis/flunders.io/v1/namespaces/waits/flunders"
            && who
                .contains(&"x-remote-user=system:serviceaccount:kube-system:namespace-controller".to_owned())
    };
    assert!(asked.lock().unwrap().iter().any(deleted), "the other server was asked to delete what it has");

    // Discovery, documents and requests.
    let groups = cluster.read("/apis").await;
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "flunders.io"));
    assert_eq!(cluster.read("/apis/flunders.io/v1").await["resources"][0]["kind"], "Flunder");
    let index = cluster.read("/openapi/v3").await;
    assert_eq!(
        index["paths"]["apis/flunders.io/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/flunders.io/v1?hash=1"
    );
    assert_eq!(cluster.read("/openapi/v3/apis/flunders.io/v1?hash=1").await["openapi"], "3.0.0");
    let (code, answer) = cluster
        .send(
            Method::PUT,
            "/apis/flunders.io/v1/namespaces/default/flunders/x",
            "application/json",
            &json!({"a": 1}),
        )
        .await;
    assert_eq!((code, &answer["message"]), (418, &json!("no such flunder")));
    let last = asked.lock().unwrap().last().cloned().unwrap();
    assert_eq!(last.0, "PUT");
    assert_eq!(
        last.2,
        ["x-remote-user=lab-admin", "x-remote-group=system:masters", "x-remote-group=system:authenticated"]
    );

    cluster.delete(&path).await;
    cluster.until("/apis/flunders.io/v1/flunders", |code, _| code == 404).await;
}
