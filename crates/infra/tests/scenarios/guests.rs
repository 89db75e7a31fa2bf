//! Guests: what is inside a machine, seen from its console and from the tenant cluster it joins.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{
    CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, LEASE, NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET, SECRET,
    SERVICE, VM, VMI,
};
use trellis_infra::manager::ControlPlane;
use trellis_infra::network::ends::Party;
use trellis_infra::network::fabric::Source;
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
        scenario!(a_guest_whose_tenant_is_out_of_reach_joins_late).with(|_| {}),
        scenario!(unreadable_data_stops_ignition_alone),
        scenario!(the_console_shows_a_boot_and_a_login),
        scenario!(a_load_balancer_leads_to_a_machine),
        scenario!(a_tenant_runs_workloads_and_keeps_budgets),
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

async fn a_guest_whose_tenant_is_out_of_reach_joins_late(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    let fabric = &cx.infra.context().world.fabric;
    let everything = || (Party::Namespace(cx.namespace.clone()), Party::Outside);
    let (one, other) = everything();
    fabric.cut(one, other);
    let vmi = machine(&cx, "w9", &Tenant::join(&tenant.pin())).await?;
    shown(&running(&cx, &vmi), "Started kubelet").await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(tenant.client.list(&NODE, "").await?.is_empty());
    let (one, other) = everything();
    assert!(fabric.mend(one, other));
    tenant.until("w9", |_| true).await?;
    Ok(())
}

async fn unreadable_data_stops_ignition_alone(cx: Cx) -> Result {
    // cloud-init warns and goes on without its configuration.
    let vmi = machine(&cx, "broken", "#cloud-config\nhostname: other\nruncmd: [\n").await?;
    let guest = running(&cx, &vmi);
    shown(&guest, "Failed loading yaml blob").await?;
    shown(&guest, "broken login: ").await?;
    // Ignition does not boot without its own.
    let vmi = machine(&cx, "strict", r#"{"ignition": {"version": "9.9.9"}}"#).await?;
    shown(&running(&cx, &vmi), "You are in emergency mode").await?;
    // And without any data under the right key there is no drive to begin with.
    let secret = json!({"metadata": {"name": "empty"}, "stringData": {"other": "#cloud-config"}});
    cx.create(&SECRET, secret).await?;
    let mut vm = crate::machines::machine("nothing", "Always");
    let disks =
        json!([{"name": "root", "disk": {"bus": "virtio"}}, {"name": "data", "disk": {"bus": "virtio"}}]);
    vm.set("/spec/template/spec/domain/devices/disks", disks);
    let data = json!({"name": "data", "cloudInitNoCloud": {"secretRef": {"name": "empty"}}});
    vm["spec"]["template"]["spec"]["volumes"].as_array_mut().unwrap().push(data);
    cx.create(&VM, vm).await?;
    let event = cx.until_event("nothing", "SyncFailed").await?;
    assert!(event.text("/message").contains("secret empty"), "{}", event.text("/message"));
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

/// The page behind a name, asked for from outside the cluster until somebody answers.
async fn page(cx: &Cx, address: &str, port: u16) -> Result<String> {
    let fabric = &cx.infra.context().world.fabric;
    let got = async {
        loop {
            if let Ok(mut stream) = fabric.connect_name(&Source::Outside, address, port).await
                && stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n").await.is_ok()
            {
                let mut answer = String::new();
                if stream.read_to_string(&mut answer).await.is_ok() && !answer.is_empty() {
                    return answer;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, got).await.map_err(|_| "nobody answers".into())
}

async fn a_load_balancer_leads_to_a_machine(cx: Cx) -> Result {
    let vmi = machine(&cx, "w9", "#cloud-config\nruncmd:\n- python3 -m http.server 8080\n").await?;
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {
            "type": "LoadBalancer", "selector": {"vm.kubevirt.io/name": "w9"},
            "ports": [{"port": 80, "targetPort": 8080}],
        },
    });
    cx.create(&SERVICE, service).await?;
    let given = |service: &Value| !service.text("/status/loadBalancer/ingress/0/ip").is_empty();
    let service = cx.until(&SERVICE, &cx.key("web"), given).await?;
    let address = service.text("/status/loadBalancer/ingress/0/ip");
    let answer = page(&cx, address, 80).await?;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nw9\n"), "{answer:?}");
    // Every machine has an SSH server; pods reach it, who is outside does not.
    let own = vmi.text("/status/interfaces/0/ipAddress").to_owned();
    let fabric = &cx.infra.context().world.fabric;
    assert!(fabric.connect_name(&Source::Outside, &own, 22).await.is_err());
    let inside = Source::Pod(running(&cx, &vmi).plan().pod.pod_uid);
    let mut stream = fabric.connect_name(&inside, &own, 22).await?;
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).await?;
    assert_eq!(&greeting, b"SSH-2.0-");
    // Without its cable it is silent, and the machine does not restart for it.
    let cable = |state: &str| json!([{"op": "add", "path": "/spec/template/spec/domain/devices/interfaces/0/state", "value": state}]);
    let link = |wanted: &'static str| move |vmi: &Value| vmi.text("/status/interfaces/0/linkState") == wanted;
    cx.client.json_patch(&VM, &cx.key("w9"), &cable("down")).await?;
    cx.until(&VMI, &cx.key("w9"), link("down")).await?;
    let fabric = &cx.infra.context().world.fabric;
    assert!(fabric.connect_name(&Source::Outside, address, 80).await.is_err());
    cx.client.json_patch(&VM, &cx.key("w9"), &cable("up")).await?;
    let same = cx.until(&VMI, &cx.key("w9"), link("up")).await?;
    assert_eq!(same.uid(), vmi.uid());
    page(&cx, address, 80).await?;
    Ok(())
}

/// Waits until an object of the tenant is as wanted; what is gone is null.
async fn until_there(
    tenant: &Tenant,
    kind: &'static trellis_infra::kinds::Kind,
    key: &Key,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Arc<Value>> {
    let cache = tenant.client.cache(kind);
    let mut changes = cache.changes();
    let found = async {
        loop {
            let object = cache.get(key).unwrap_or_default();
            if wanted(&object) {
                return object;
            }
            changes.recv().await;
        }
    };
    let now = || cache.get(key).map(|object| object.to_string()).unwrap_or_default();
    tokio::time::timeout(PATIENCE, found).await.map_err(|_| format!("{key} is {}", now()).into())
}

async fn a_tenant_runs_workloads_and_keeps_budgets(cx: Cx) -> Result {
    let tenant = Tenant::start(&cx).await?;
    tenant.plug_in().await?;
    for name in ["w1", "w2"] {
        machine(&cx, name, &Tenant::join(&tenant.pin())).await?;
    }
    for name in ["w1", "w2"] {
        tenant
            .until(name, |node| node.condition_holds("Ready") && node.list("/spec/taints").is_empty())
            .await?;
    }
    let client = &tenant.client;
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    });
    let meta = |name: &str| json!({"namespace": "default", "name": name});
    let selector = json!({"matchLabels": {"app": "web"}});
    let deployment =
        json!({"metadata": meta("web"), "spec": {"replicas": 2, "selector": selector, "template": template}});
    client.create(&DEPLOYMENT, deployment).await?;
    let budget = json!({"metadata": meta("web"), "spec": {"minAvailable": 2, "selector": selector}});
    client.create(&POD_DISRUPTION_BUDGET, budget).await?;
    let key = Key::new("default", "web");
    until_there(&tenant, &DEPLOYMENT, &key, |one| one.number("/status/availableReplicas") == Some(2)).await?;
    until_there(&tenant, &POD_DISRUPTION_BUDGET, &key, |one| one.number("/status/currentHealthy") == Some(2))
        .await?;
    let pods = || {
        let mut pods = client.cache(&POD).list("default");
        pods.retain(|pod| pod.label("app") == "web");
        pods
    };
    client.cache(&POD).complete().await;
    let pod = pods().remove(0);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "default", "name": pod.name()}});
    let refused = client.post(&POD, &Key::of(&pod), "eviction", &eviction).await.unwrap_err();
    assert_eq!(refused.code, 429, "{refused}");
    // With one more there is one to spare; it is replaced elsewhere, and has its time to end.
    client.merge(&DEPLOYMENT, &key, &json!({"spec": {"replicas": 3}})).await?;
    until_there(&tenant, &POD_DISRUPTION_BUDGET, &key, |one| {
        one.number("/status/disruptionsAllowed") == Some(1)
    })
    .await?;
    client.post(&POD, &Key::of(&pod), "eviction", &eviction).await?;
    let going = client.get(&POD, &Key::of(&pod)).await?;
    assert!(going.is_none_or(|pod| pod.is_deleting()));
    until_there(&tenant, &POD, &Key::of(&pod), Value::is_null).await?;
    until_there(&tenant, &DEPLOYMENT, &key, |one| one.number("/status/availableReplicas") == Some(3)).await?;
    let mut work = template.clone();
    work["spec"]["restartPolicy"] = "Never".into();
    work["metadata"]["labels"] = json!({"app": "work"});
    client.create(&JOB, json!({"metadata": meta("work"), "spec": {"template": work}})).await?;
    until_there(&tenant, &JOB, &Key::new("default", "work"), |job| job.condition_holds("Complete")).await?;
    Ok(())
}
