//! Who gets at what: strangers at the listeners, and users of a namespace.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use trellis_infra::client::ApiError;
use trellis_infra::kinds::{CDI_CONFIG, DATA_VOLUME, Kind, MIGRATION, SUBJECT_ACCESS_REVIEW, VM};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, PATIENCE, Scenario};
use crate::machines::{assert_refused, machine};
use crate::operate::VMS;
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let uploads = scenario!(strangers_can_do_nothing_but_upload).on_machine_time().with(|settings| {
        settings.sockets = true;
        // Nothing else is reached from outside here.
        settings.load_balancers = "127.77.0.0/16".parse().unwrap();
    });
    vec![Scenario { lab_only: false, ..uploads }, scenario!(a_namespace_is_worked_in_by_its_users)]
}

/// Asks the listener that is published for uploads, as somebody without a certificate who says to be mighty.
async fn knock(address: &str, authority: &str, method: Method, path: &str) -> Result<StatusCode> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost")?, stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("x-remote-user", "admin")
        .header("x-remote-group", "system:masters");
    Ok(sender.send_request(request.body(Empty::<Bytes>::new())?).await?.status())
}

async fn strangers_can_do_nothing_but_upload(cx: Cx) -> Result {
    let config = cx
        .until(&CDI_CONFIG, &Key::cluster("config"), |config| {
            !config.text("/status/uploadProxyURL").is_empty()
                && !config.text("/status/uploadProxyCA").is_empty()
        })
        .await?;
    let address = config.text("/status/uploadProxyURL").trim_start_matches("https://").to_owned();
    let authority = config.text("/status/uploadProxyCA");
    cx.create(&VM, machine("m", "Halted")).await?;
    let tokens =
        format!("/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/{}/uploadtokenrequests", cx.namespace);
    for (method, path) in [
        (Method::GET, "/apis"),
        (Method::GET, "/apis/lab.trellis.dev/v1/rules"),
        (Method::POST, "/apis/lab.trellis.dev/v1/rules"),
        (Method::GET, "/apis/subresources.kubevirt.io/v1/version"),
        (Method::PUT, &cx.action(VMS, "m", "start")),
        (Method::POST, &tokens),
    ] {
        let status = knock(&address, authority, method, path).await?;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
    }
    // An upload without a token is heard, and refused.
    let status = knock(&address, authority, Method::POST, "/v1beta1/upload").await?;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    // The same by the API server, which says who asks.
    cx.put(VMS, "m", "start", &Value::Null).await?;
    cx.until(&VM, &cx.key("m"), |vm| vm.text("/spec/runStrategy") == "Always").await?;
    Ok(())
}

impl Cx {
    /// Asks for something as a user without rights but their own.
    async fn ask_as(
        &self,
        user: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> std::result::Result<String, ApiError> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("impersonate-user", user)
            .body(bytes);
        let request = request.map_err(|error| ApiError {
            code: 0,
            reason: String::new(),
            message: error.to_string(),
        })?;
        Ok(self.kube.request_text(request).await?)
    }

    /// Creates an object in the scenario's namespace as a user.
    async fn create_as(
        &self,
        user: &str,
        kind: &'static Kind,
        mut object: Value,
    ) -> std::result::Result<String, ApiError> {
        object["apiVersion"] = format!("{}/{}", kind.group, kind.version).into();
        object["kind"] = kind.kind.into();
        self.ask_as(user, Method::POST, &kind.path(&self.namespace, ""), &object).await
    }

    /// Gives a user a role in the scenario's namespace, and waits until it lets them do something.
    async fn bind(&self, user: &str, role: &str, (verb, resource): (&str, &str)) -> Result {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", self.namespace);
        let name = format!("{user}-{}", role.replace(':', "-"));
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.client.send(Method::POST, &path, Some(("application/json", &binding))).await?;
        let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": {
            "namespace": self.namespace, "verb": verb, "group": "kubevirt.io", "resource": resource,
        }}});
        let counts = async {
            while !self.client.create(&SUBJECT_ACCESS_REVIEW, review.clone()).await?.flag("/status/allowed") {
                // Nobody tells when an authorizer has heard of a binding.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Ok::<_, ApiError>(())
        };
        tokio::time::timeout(PATIENCE, counts).await??;
        Ok(())
    }
}

async fn a_namespace_is_worked_in_by_its_users(cx: Cx) -> Result {
    cx.bind("alice", "admin", ("create", "virtualmachines")).await?;
    cx.bind("bob", "view", ("get", "virtualmachines")).await?;
    let volume = json!({
        "metadata": {"name": "blank"},
        "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "1Gi"}}}},
    });
    let migration = json!({"metadata": {"name": "move"}, "spec": {"vmiName": "m"}});
    cx.create_as("alice", &VM, machine("m", "Halted")).await?;
    cx.create_as("alice", &DATA_VOLUME, volume.clone()).await?;
    cx.ask_as("alice", Method::PUT, &cx.action(VMS, "m", "start"), &json!({})).await?;
    cx.until_running("m").await?;
    // Who looks does no more than that.
    cx.ask_as("bob", Method::GET, &VM.path(&cx.namespace, "m"), &Value::Null).await?;
    cx.ask_as("bob", Method::GET, &cx.action(VMS, "m", "expand-spec"), &Value::Null).await?;
    assert_refused(cx.ask_as("bob", Method::PUT, &cx.action(VMS, "m", "stop"), &json!({})).await, 403, "bob");
    assert_refused(cx.create_as("bob", &DATA_VOLUME, volume).await, 403, "bob");
    // Moving machines takes a right of its own.
    assert_refused(cx.create_as("alice", &MIGRATION, migration.clone()).await, 403, "alice");
    cx.bind("alice", "kubevirt.io:migrate", ("create", "virtualmachineinstancemigrations")).await?;
    cx.create_as("alice", &MIGRATION, migration).await?;
    // Other namespaces are others'.
    let elsewhere = VM.path("default", "m");
    assert_refused(cx.ask_as("alice", Method::GET, &elsewhere, &Value::Null).await, 403, "alice");
    Ok(())
}
