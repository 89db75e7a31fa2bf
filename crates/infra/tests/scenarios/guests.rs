//! Guests: what is inside a machine, seen from its console and from the tenant cluster it joins.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{CONFIG_MAP, DAEMON_SET, LEASE, NAMESPACE, NODE, SECRET, VM, VMI};
use trellis_infra::manager::ControlPlane;
use trellis_infra::network::ends::Party;
use trellis_infra::object::{Key, Object as _};
use trellis_infra::stages::Rule;
use trellis_infra::world::machine::{Command, Machine};
use trellis_lab::{Lab, Options};

use crate::context::{Cx, PATIENCE, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_worker_joins_by_kubeadm),
        scenario!(a_worker_joins_by_ignition),
        // Silence takes most of a minute before anybody concludes anything, and the tenant is a lab everywhere.
        scenario!(a_node_goes_silent_with_its_machine).with(|_| {}),
        scenario!(a_lost_network_makes_a_node_silent).with(|_| {}),
        scenario!(who_does_not_trust_the_tenant_does_not_join),
        scenario!(a_guest_told_never_to_join_does_not),
        scenario!(a_guest_that_cannot_boot_crashes),
        scenario!(the_console_shows_a_boot_and_a_login),
    ]
}

/// Where the tenant's API server is found.
const API: &str = "api.tenant.example";
/// The token machines join with.
const TOKEN: &str = "abcdef.0123456789abcdef";

/// A tenant cluster whose API server machines reach through the fabric.
struct Tenant {
    lab: Lab,
    client: Client,
    _plane: ControlPlane,
    _doors: JoinSet<()>,
}

impl Tenant {
    async fn start(cx: &Cx) -> Result<Self> {
        let context = cx.infra.context();
        let mut options = Options { names: vec![API.to_owned()], ..Options::default() };
        if context.settings.virtual_start.is_some() {
            options.clock = Arc::new(trellis_lab::clock::TokioClock::starting_at(context.clock.now()));
        }
        let lab = Lab::start(options).await?;
        let door = lab.door()?;
        let mut doors = JoinSet::new();
        let mut connections = context.world.fabric.serve_external(API, 6443);
        doors.spawn(async move {
            while let Some(stream) = connections.recv().await {
                tokio::spawn(door.clone().serve(stream));
            }
        });
        let kube = kube::Client::new(lab.service(), "default");
        let plane = ControlPlane::start(kube.clone(), context.clock, context.stages.clone());
        let client = Client::new(kube, Identity::INSTALLER);
        let tenant = Self { lab, client, _plane: plane, _doors: doors };
        tenant.prepare().await?;
        Ok(tenant)
    }

    /// What kubeadm leaves behind for machines that join.
    async fn prepare(&self) -> Result {
        let (id, secret) = TOKEN.split_once('.').unwrap();
        let client = &self.client;
        client.create_if_absent(&NAMESPACE, json!({"metadata": {"name": "kube-node-lease"}})).await?;
        client.create_if_absent(&NAMESPACE, json!({"metadata": {"name": "kube-public"}})).await?;
        let token = json!({
            "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true", "auth-extra-groups": "system:bootstrappers:nodes",
            },
        });
        client.create(&SECRET, token).await?;
        let info = json!({
            "metadata": {"namespace": "kube-public", "name": "cluster-info"},
            "data": {"kubeconfig": self.kubeconfig(&json!({})).to_string()},
        });
        client.create(&CONFIG_MAP, info).await?;
        for (name, role, group) in [
            ("bootstrap", "system:node-bootstrapper", "system:bootstrappers:nodes"),
            (
                "approve",
                "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
                "system:bootstrappers:nodes",
            ),
            ("nodes", "system:node", "system:nodes"),
        ] {
            self.bind(name, role, group).await?;
        }
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]});
        self.post("clusterroles", json!({"metadata": {"name": "cluster-info"}, "rules": [rule]})).await?;
        self.bind("cluster-info", "cluster-info", "system:unauthenticated").await
    }

    async fn post(&self, plural: &str, body: Value) -> Result {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        self.client.send(http::Method::POST, &path, Some(("application/json", &body))).await?;
        Ok(())
    }

    async fn bind(&self, name: &str, role: &str, group: &str) -> Result {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group});
        self.post(
            "clusterrolebindings",
            json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}),
        )
        .await
    }

    fn kubeconfig(&self, user: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{API}:6443"),
                "certificate-authority-data": STANDARD.encode(self.lab.authority_pem()),
            }}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
    }

    /// What `kubeadm join` pins the authority by.
    fn pin(&self) -> String {
        let pem = self.lab.authority_pem();
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let digest = Sha256::digest(certificate.public_key().raw);
        digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// User data that joins by kubeadm.
    fn join(pin: &str) -> String {
        format!(
            "#cloud-config\nruncmd:\n- kubeadm join {API}:6443 --token {TOKEN} --discovery-token-ca-cert-hash {pin}\n"
        )
    }

    /// Waits until a node of the tenant is as wanted.
    async fn until(&self, node: &str, wanted: impl Fn(&Value) -> bool) -> Result<Arc<Value>> {
        let cache = self.client.cache(&NODE);
        let mut changes = cache.changes();
        let found = async {
            loop {
                if let Some(found) = cache.get(&Key::cluster(node))
                    && wanted(&found)
                {
                    return found;
                }
                changes.recv().await;
            }
        };
        let patience = PATIENCE * 2;
        tokio::time::timeout(patience, found).await.map_err(|_| {
            let now = cache.get(&Key::cluster(node)).map(|node| node["status"].to_string());
            format!("the tenant's node is {}", now.unwrap_or_else(|| "not there".to_owned())).into()
        })
    }

    /// A network plugin for all nodes.
    async fn plug_in(&self) -> Result {
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
        self.client.create(&DAEMON_SET, set).await?;
        Ok(())
    }
}

/// A machine that boots and reads user data.
async fn machine(cx: &Cx, name: &str, user_data: &str) -> Result<Arc<Value>> {
    let secret = json!({"metadata": {"name": format!("{name}-data")}, "stringData": {"userdata": user_data}});
    cx.create(&SECRET, secret).await?;
    let vm = json!({
        "metadata": {"name": name},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "domain": {
                "devices": {
                    "disks": [{"name": "root", "disk": {"bus": "virtio"}}, {"name": "data", "disk": {"bus": "virtio"}}],
                    "interfaces": [{"name": "default", "masquerade": {}}],
                },
                "memory": {"guest": "2Gi"},
                "cpu": {"cores": 2},
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [
                {"name": "root", "containerDisk": {"image": "registry.example/fedora:42"}},
                {"name": "data", "cloudInitNoCloud": {"secretRef": {"name": format!("{name}-data")}}},
            ],
        }}},
    });
    cx.create(&VM, vm).await?;
    cx.until(&VMI, &cx.key(name), |vmi| vmi.text("/status/phase") == "Running").await
}

/// The running machine of a VMI.
fn running(cx: &Cx, vmi: &Value) -> Arc<Machine> {
    cx.infra.context().world.machines.get(vmi.uid()).expect("it runs")
}

/// Waits until the console of a machine has shown something.
async fn shown(machine: &Machine, text: &str) -> Result {
    let (seen, mut news) = machine.console.look();
    let mut seen = String::from_utf8_lossy(&seen).into_owned();
    let found = async {
        while !seen.contains(text) {
            let Ok(more) = news.recv().await else { return };
            seen += &String::from_utf8_lossy(&more);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE * 2, found).await.is_ok();
    if in_time { Ok(()) } else { Err(format!("the console never showed {text:?}:\n{seen}").into()) }
}

async fn a_worker_joins_by_kubeadm(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    let vmi = machine(&cx, "w1", &Tenant::join(&tenant.pin())).await?;
    let node = tenant.until("w1", |_| true).await?;
    assert_eq!(node.condition("Ready")["reason"], "KubeletNotReady");
    assert_eq!(node.text("/status/nodeInfo/systemUUID"), vmi.text("/spec/domain/firmware/uuid"));
    assert_eq!(node.text("/status/capacity/cpu"), "2");
    // Without a network plugin it stays so, however long one waits.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!tenant.until("w1", |_| true).await?.condition_holds("Ready"));
    tenant.plug_in().await?;
    tenant.until("w1", |node| node.condition_holds("Ready") && node.list("/spec/taints").is_empty()).await?;
    let lease = tenant.client.get(&LEASE, &Key::new("kube-node-lease", "w1")).await?;
    assert_eq!(lease.unwrap_or_default().text("/spec/holderIdentity"), "w1");
    Ok(())
}

/// A machine config server: serves one configuration over TLS at a name of its own.
fn serve_config(cx: &Cx, config: &Value) -> Result<(String, JoinSet<()>)> {
    let key = rcgen::KeyPair::generate()?;
    let certificate =
        rcgen::CertificateParams::new(vec!["api-int.tenant.example".to_owned()])?.self_signed(&key)?;
    let secret = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der())?;
    let tls =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)?;
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let mut connections = cx.infra.context().world.fabric.serve_external("api-int.tenant.example", 22623);
    let body = config.to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(stream) = connections.recv().await {
            let (tls, body) = (tls.clone(), body.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let answer = hyper::service::service_fn(move |_| {
                    let body = http_body_util::Full::new(bytes::Bytes::from(body.clone()));
                    async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
                });
                let served = hyper::server::conn::http1::Builder::new();
                let _ = served.serve_connection(hyper_util::rt::TokioIo::new(stream), answer).await;
            });
        }
    });
    Ok((certificate.pem(), tasks))
}

async fn a_worker_joins_by_ignition(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    let bootstrap = tenant.kubeconfig(&json!({"token": TOKEN})).to_string();
    let data = |text: &str| json!({"source": format!("data:;base64,{}", STANDARD.encode(text))});
    let config = json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [{"path": "/etc/kubernetes/kubeconfig", "contents": data(&bootstrap)}]},
        "systemd": {"units": [{
            "name": "kubelet.service", "enabled": true,
            "contents": "[Service]\nExecStart=/usr/bin/kubelet --node-labels=role=worker --provider-id=kubevirt://w2 --bootstrap-kubeconfig=/etc/kubernetes/kubeconfig\n",
        }]},
    });
    let (authority, _server) = serve_config(&cx, &config)?;
    let stub = json!({"ignition": {
        "version": "3.4.0",
        "config": {"merge": [{"source": "https://api-int.tenant.example:22623/config/worker"}]},
        "security": {"tls": {"certificateAuthorities": [data(&authority)]}},
    }});
    machine(&cx, "w2", &stub.to_string()).await?;
    let node = tenant.until("w2", |_| true).await?;
    assert_eq!(node.label("role"), "worker");
    assert_eq!(node.text("/spec/providerID"), "kubevirt://w2");
    Ok(())
}

/// A joined worker whose node is ready.
async fn ready_worker(cx: &Cx, tenant: &Tenant, name: &str) -> Result<Arc<Value>> {
    tenant.plug_in().await?;
    let vmi = machine(cx, name, &Tenant::join(&tenant.pin())).await?;
    tenant.until(name, |node| node.condition_holds("Ready")).await?;
    Ok(vmi)
}

async fn a_node_goes_silent_with_its_machine(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    ready_worker(&cx, &tenant, "w3").await?;
    cx.client.merge(&VM, &cx.key("w3"), &json!({"spec": {"runStrategy": "Halted"}})).await?;
    cx.until_gone(&VMI, &cx.key("w3")).await?;
    let node = tenant.until("w3", |node| node.condition("Ready")["status"] == "Unknown").await?;
    assert_eq!(node.condition("Ready")["reason"], "NodeStatusUnknown");
    // The same machine again is the same node.
    let uid = node.uid().to_owned();
    cx.client.merge(&VM, &cx.key("w3"), &json!({"spec": {"runStrategy": "Always"}})).await?;
    let back = tenant.until("w3", |node| node.condition_holds("Ready")).await?;
    assert_eq!(back.uid(), uid);
    Ok(())
}

async fn a_lost_network_makes_a_node_silent(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    ready_worker(&cx, &tenant, "w4").await?;
    let fabric = &cx.infra.context().world.fabric;
    let everything = || (Party::Namespace(cx.namespace.clone()), Party::Outside);
    let (one, other) = everything();
    fabric.cut(one, other);
    tenant.until("w4", |node| node.condition("Ready")["status"] == "Unknown").await?;
    let (one, other) = everything();
    assert!(fabric.mend(one, other));
    tenant.until("w4", |node| node.condition_holds("Ready")).await?;
    Ok(())
}

async fn who_does_not_trust_the_tenant_does_not_join(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    let vmi = machine(&cx, "w5", &Tenant::join(&format!("sha256:{}", "0".repeat(64)))).await?;
    shown(&running(&cx, &vmi), "none of the public keys are pinned").await?;
    assert!(tenant.client.list(&NODE, "").await?.is_empty());
    Ok(())
}

async fn a_guest_told_never_to_join_does_not(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    let rule = json!({
        "name": "w6-hangs", "stage": "guest.join", "match": [["/metadata/name", "w6"]], "effect": "hang",
    });
    let stages = &cx.infra.context().stages;
    stages.add(serde_json::from_value::<Rule>(rule)?);
    let vmi = machine(&cx, "w6", &Tenant::join(&tenant.pin())).await?;
    shown(&running(&cx, &vmi), "Started kubelet").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(tenant.client.list(&NODE, "").await?.is_empty());
    stages.remove("w6-hangs");
    tenant.until("w6", |_| true).await?;
    Ok(())
}

async fn a_guest_that_cannot_boot_crashes(cx: Cx) -> Result {
    let rule = json!({
        "name": "w7-fails", "stage": "guest.boot", "match": [["/metadata/name", "w7"]],
        "effect": {"fail": "VFS: Unable to mount root fs"}, "times": 1, "delay": {"min": 2, "max": 2},
    });
    cx.infra.context().stages.add(serde_json::from_value::<Rule>(rule)?);
    let vmi = machine(&cx, "w7", "#cloud-config\n").await?;
    // The VM starts it anew, and now it boots.
    let again = cx
        .until(&VMI, &cx.key("w7"), |one| one.uid() != vmi.uid() && one.text("/status/phase") == "Running")
        .await?;
    shown(&running(&cx, &again), "login:").await?;
    // A panic is the same from outside.
    running(&cx, &again).command(Command::Panic("told to".to_owned()));
    cx.until(&VMI, &cx.key("w7"), |one| one.uid() != again.uid()).await?;
    cx.infra.context().stages.remove("w7-fails");
    Ok(())
}

async fn the_console_shows_a_boot_and_a_login(cx: Cx) -> Result {
    let vmi = machine(&cx, "w8", "#cloud-config\nhostname: gate\n").await?;
    let machine = running(&cx, &vmi);
    shown(&machine, "Linux version").await?;
    shown(&machine, "gate login: ").await?;
    machine.console.type_in("core\r".into());
    shown(&machine, "Password: ").await?;
    machine.console.type_in("secret\r".into());
    shown(&machine, "[core@gate ~]$ ").await?;
    machine.console.type_in("hostname\r".into());
    shown(&machine, "gate\r\n[core@gate").await?;
    let (seen, _) = machine.console.look();
    assert!(!String::from_utf8_lossy(&seen).contains("secret"), "a password is shown");
    Ok(())
}
