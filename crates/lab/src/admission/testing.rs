//! What tests of admission share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio_rustls::TlsAcceptor;

use super::{Admission, AdmissionParts, AllowAll, Equivalent, Kinds, Operation, Review};
use crate::attributes::{Attributes, User};
use crate::clock;
use crate::names::{GroupResource, Gvk};
use crate::reader::{Fixture, Reader};
use crate::status::Status;
use crate::webhook::{Client, Endpoints};

/// Kinds of one version each, but for `Widget`, whose versions `v1` and `v2` differ in the name of one field.
pub(super) struct PlainKinds;

impl Kinds for PlainKinds {
    fn equivalents(&self, group: &str, _: &str, resource: &str, _: &str) -> Vec<Equivalent> {
        if (group, resource) != ("example.com", "widgets") {
            return Vec::new();
        }
        ["v1", "v2"]
            .iter()
            .map(|version| Equivalent {
                group: group.to_owned(),
                version: (*version).to_owned(),
                resource: resource.to_owned(),
                kind: Gvk::new(group, version, "Widget"),
            })
            .collect()
    }

    fn convert(&self, object: &Value, to: &Gvk) -> Result<Value, Status> {
        let mut object = object.clone();
        let (from, into) = if to.version == "v2" { ("size", "width") } else { ("width", "size") };
        if let Some(fields) = object.as_object_mut() {
            if let Some(value) = fields.remove(from) {
                fields.insert(into.to_owned(), value);
            }
            fields.insert("apiVersion".to_owned(), to.api_version().into());
        }
        Ok(object)
    }

    fn decode(&self, _: &Gvk, object: Value) -> Result<Value, Status> {
        Ok(object)
    }

    fn merge(&self, _: &Gvk, object: &Value, configuration: &Value) -> Result<Value, String> {
        let mut merged = object.clone();
        json_patch::merge(&mut merged, configuration);
        Ok(merged)
    }

    fn kind_of(&self, group: &str, version: &str, resource: &str) -> Option<Gvk> {
        (resource == "deployments").then(|| Gvk::new(group, version, "Deployment"))
    }

    fn type_of(&self, kind: &Gvk) -> Option<crate::cel::Type> {
        let of = crate::schema::builtin::kind_of(kind)?;
        Some(super::policies::typecheck::type_of_shape(of, &kind.kind))
    }

    fn resource_of(&self, kind: &Gvk) -> Option<(GroupResource, bool)> {
        (kind.kind == "ConfigMap").then(|| (GroupResource::new("", "configmaps"), true))
    }
}

/// Admission over some objects.
pub(super) fn admission(objects: Fixture) -> Admission {
    let reader: Arc<dyn Reader> = Arc::new(objects);
    Admission::new(AdmissionParts {
        client: Arc::new(Client::new(Arc::new(Endpoints::new(Arc::clone(&reader))))),
        reader,
        chance: Arc::new(crate::server::chance::Chance::of(None, 0)),
        kinds: Arc::new(PlainKinds),
        clock: clock::system(),
        authorizer: Arc::new(AllowAll),
    })
}

/// What a request is about.
pub(super) fn attributes(group: &str, version: &str, resource: &str) -> Attributes {
    Attributes {
        user: User { name: "alice".to_owned(), groups: vec!["devs".to_owned()], ..User::default() },
        verb: "create".to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        namespace: "shop".to_owned(),
        ..Attributes::default()
    }
}

/// A request that creates an object.
pub(super) fn creation<'a>(attributes: &'a Attributes, kind: &'a Gvk, object: Value) -> Review<'a> {
    Review {
        attributes,
        kind,
        operation: Operation::Create,
        dry_run: false,
        options: serde_json::json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}),
        object: Some(object),
        old: None,
    }
}

/// The namespace and the account most tests need.
pub(super) fn shop() -> Fixture {
    Fixture::default()
        .with(
            GroupResource::new("", "namespaces"),
            serde_json::json!({"metadata": {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}},
                               "status": {"phase": "Active"}}),
        )
        .with(
            GroupResource::new("", "serviceaccounts"),
            serde_json::json!({"metadata": {"name": "default", "namespace": "shop"}}),
        )
}

/// Answers a request at a path with a body.
pub(super) type Answering = dyn Fn(String, Value) -> BoxFuture<'static, (u16, String)> + Send + Sync;

/// A server over TLS, and the bundle to trust it by.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) bundle: String,
}

/// Starts a server whose certificate is for `name`.
pub(super) async fn serve(name: &str, answer: Arc<Answering>) -> Server {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, answer) = (acceptor.clone(), Arc::clone(&answer));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = Arc::clone(&answer);
                    async move {
                        let path = request.uri().to_string();
                        let body = request.into_body().collect().await?.to_bytes();
                        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                        let (code, text) = answer(path, body).await;
                        let response =
                            Response::builder().status(code).header("content-type", "application/json");
                        Ok::<_, hyper::Error>(response.body(Full::new(Bytes::from(text))).unwrap())
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    let bundle =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority_certificate.pem());
    Server { address, bundle }
}

/// A webhook configuration with the fields given besides those that every one has.
pub(super) fn webhook(server: &Server, path: &str, more: &Value) -> Value {
    let mut hook = serde_json::json!({
        "name": "check.example.com",
        "clientConfig": {"url": format!("https://{}/{path}", server.address), "caBundle": server.bundle},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    });
    json_patch::merge(&mut hook, more);
    serde_json::json!({"metadata": {"name": path}, "webhooks": [hook]})
}

/// Labels by name.
pub(super) fn labels_of(object: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default()
}
