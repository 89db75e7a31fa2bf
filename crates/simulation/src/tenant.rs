//! A tenant cluster: its API server, its controllers, and how machines join it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{CONFIG_MAP, DAEMON_SET, Kind, NAMESPACE, SECRET};
use trellis_infra::manager::ControlPlane;
use trellis_infra::object::Key;

use crate::failure::{Failure, Result};
use crate::world::{Outside, Server, World, options, until, until_gone};

/// The port of its API server.
const PORT: u16 = 6443;
/// The token machines join with.
const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");
/// Who may do what while joining: binding, role, group.
const BINDINGS: [(&str, &str, &str); 4] = [
    ("bootstrap", "system:node-bootstrapper", "system:bootstrappers:nodes"),
    (
        "approve",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "system:bootstrappers:nodes",
    ),
    ("nodes", "system:node", "system:nodes"),
    ("cluster-info", "cluster-info", "system:unauthenticated"),
];

/// The name its API server is found by.
fn address(name: &str) -> String {
    format!("api.{name}.example")
}

/// A tenant cluster whose API server machines reach through the infra cluster's network.
pub struct Tenant {
    /// A client of a person with all rights.
    pub person: Client,
    address: String,
    patience: Duration,
    _plane: ControlPlane,
    _doors: JoinSet<()>,
    /// Its API server. Dropped after its clients.
    pub server: Server,
}

impl Tenant {
    /// Starts a tenant whose API server is a lab and is found at `api.<name>.example`.
    pub async fn start(world: &World, name: &str) -> Result<Self> {
        let mut make = world.make.clone();
        make.start = make.start.map(|_| world.infra.context().clock.now());
        let mut options = options(&make);
        options.names = vec![address(name)];
        let server = Server::lab(options).await?;
        let mut doors = JoinSet::new();
        if let Some(lab) = server.as_lab() {
            let door = lab.door().map_err(|failure| Failure::Lab(failure.to_string()))?;
            let mut connections = world.infra.context().world.fabric.serve_external(&address(name), PORT);
            doors.spawn(async move {
                while let Some(stream) = connections.recv().await {
                    tokio::spawn(door.clone().serve(stream));
                }
            });
        }
        Self::begin(world, name, server, doors).await
    }

    /// The same on an API server that somebody else started and that has a certificate for this name. Its controller
    /// manager signs certificates and looks after what belongs to an API server alone.
    pub async fn start_beside(world: &World, name: &str, outside: Outside) -> Result<Self> {
        let mut connections = world.infra.context().world.fabric.serve_external(&address(name), PORT);
        let mut doors = JoinSet::new();
        let socket = outside.address.clone();
        doors.spawn(async move {
            while let Some(mut stream) = connections.recv().await {
                let socket = socket.clone();
                tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(&socket).await {
                        // Either side may hang up whenever it wants.
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                    }
                });
            }
        });
        Self::begin(world, name, Server::Outside(outside), doors).await
    }

    async fn begin(world: &World, name: &str, server: Server, doors: JoinSet<()>) -> Result<Self> {
        let context = world.infra.context();
        let kube = server.client();
        let plane = ControlPlane::start(kube.clone(), context.clock, context.stages.clone());
        let person = Client::new(kube, Identity::INSTALLER);
        let patience = world.make.patience();
        let tenant = Self { person, address: address(name), patience, _plane: plane, _doors: doors, server };
        tenant.prepare().await?;
        Ok(tenant)
    }

    /// A client of the API server with all rights, for a controller.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// User data with which a machine joins by kubeadm.
    pub fn user_data(&self) -> Result<String> {
        let (id, secret) = TOKEN;
        let (address, pin) = (&self.address, self.pin()?);
        Ok(format!(
            "#cloud-config\nruncmd:\n- kubeadm join {address}:6443 --token {id}.{secret} --discovery-token-ca-cert-hash {pin}\n"
        ))
    }

    /// User data with which a machine joins by Ignition: a kubelet with what it asks for its certificate with.
    pub fn ignition(&self) -> String {
        let (id, secret) = TOKEN;
        let config = self.kubeconfig(&json!({"token": format!("{id}.{secret}")})).to_string();
        let kubelet =
            "[Service]\nExecStart=/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/kubeconfig\n";
        let file = json!({"source": format!("data:;base64,{}", STANDARD.encode(config))});
        json!({
            "ignition": {"version": "3.4.0"},
            "storage": {"files": [{"path": "/etc/kubernetes/kubeconfig", "contents": file}]},
            "systemd": {"units": [{"name": "kubelet.service", "enabled": true, "contents": kubelet}]},
        })
        .to_string()
    }

    /// Waits until an object is as wanted, and gives it.
    pub async fn until(
        &self,
        kind: &'static Kind,
        key: &Key,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Arc<Value>> {
        until(&self.person, self.patience, kind, key, wanted).await
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, kind: &'static Kind, key: &Key) -> Result {
        until_gone(&self.person, self.patience, kind, key).await
    }

    /// What kubeadm leaves behind for machines that join, and a network plugin, without which no node is ready.
    async fn prepare(&self) -> Result {
        let (id, secret) = TOKEN;
        let person = &self.person;
        for namespace in ["kube-node-lease", "kube-public"] {
            person.create_if_absent(&NAMESPACE, json!({"metadata": {"name": namespace}})).await?;
        }
        let token = json!({
            "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true", "auth-extra-groups": "system:bootstrappers:nodes",
            },
        });
        person.create(&SECRET, token).await?;
        let info = json!({
            "metadata": {"namespace": "kube-public", "name": "cluster-info"},
            "data": {"kubeconfig": self.kubeconfig(&json!({})).to_string()},
        });
        person.create(&CONFIG_MAP, info).await?;
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]});
        self.post("clusterroles", json!({"metadata": {"name": "cluster-info"}, "rules": [rule]})).await?;
        for (name, role, group) in BINDINGS {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
            let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group});
            let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
            self.post("clusterrolebindings", binding).await?;
        }
        plug_in(person).await
    }

    async fn post(&self, plural: &str, body: Value) -> Result {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        self.person.send(http::Method::POST, &path, Some(("application/json", &body))).await?;
        Ok(())
    }

    fn kubeconfig(&self, user: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}:6443", self.address),
                "certificate-authority-data": STANDARD.encode(self.server.authority()),
            }}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
    }

    /// What `kubeadm join` pins the authority by.
    fn pin(&self) -> Result<String> {
        let unreadable = |error: &dyn std::fmt::Display| Failure::Certificate(error.to_string());
        let pem = self.server.authority();
        let (_, pem) =
            x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|error| unreadable(&error))?;
        let certificate = pem.parse_x509().map_err(|error| unreadable(&error))?;
        let digest = Sha256::digest(certificate.public_key().raw);
        Ok(digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}")))
    }
}

/// Puts a stand-in for a network plugin onto every node, without which none is ready.
pub async fn plug_in(person: &Client) -> Result {
    let set = json!({
        "metadata": {"namespace": "kube-system", "name": "stand-in"},
        "spec": {
            "selector": {"matchLabels": {"app": "stand-in"}},
            "template": {
                "metadata": {"labels": {"app": "stand-in"}},
                "spec": {
                    "hostNetwork": true,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "cni", "image": "registry.example/cni:1"}],
                    "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}],
                },
            },
        },
    });
    person.create(&DAEMON_SET, set).await?;
    Ok(())
}
