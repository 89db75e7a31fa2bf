//! A cluster grown from a record: keys, a bootstrap machine, masters that fetch their configuration with their tokens,
//! the hand-over, and workers.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trellis_bootstrap::site::{Program, Sources};
use trellis_engine::controllers::{GivenPlugin, Growing, Settings, Spec, Tenant};
use trellis_engine::families::TRELLIS;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{CONFIG_MAP, DAEMON_SET, DATA_VOLUME, Kind, NODE, SECRET, SERVICE, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_model::Cluster;
use trellis_runtime::{Clock, Site};
use trellis_simulation::{Make, World};

use crate::stage::{CLUSTER, CONTROL, POOL};

const PERSON: Identity = Identity { program: "person", user: "" };
static TENANT_CLUSTER: Kind =
    Kind { group: "trellis.dev", version: "v1alpha1", kind: "TenantCluster", plural: "tenantclusters", ..VM };

pub(crate) struct Grown {
    pub(crate) world: World,
    cluster: Arc<Cluster>,
    infra: Site,
}

impl Grown {
    pub(crate) async fn start() -> Self {
        Self::with_network(json!({})).await
    }

    async fn with_network(network: Value) -> Self {
        let world = World::start(Make::default()).await.unwrap();
        for crd in trellis_api::trellis::crds() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            world.person.send(http::Method::POST, path, Some(("application/json", &crd))).await.unwrap();
        }
        for namespace in [CONTROL, CLUSTER] {
            world.namespace(namespace).await.unwrap();
        }
        let spec = json!({
            "platform": {"kubevirt": {"namespace": CLUSTER}}, "baseDomain": "svc.cluster.local", "version": "1.34.2",
            "network": network,
        });
        let record = json!({"metadata": {"namespace": CONTROL, "name": CLUSTER}, "spec": spec});
        let until = tokio::time::Instant::now() + Duration::from_mins(1);
        while world.person.create(&TENANT_CLUSTER, record.clone()).await.is_err() {
            assert!(tokio::time::Instant::now() < until, "the kind is not served");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for (name, role, replicas) in [("masters", "control-plane", 3), ("workers", "worker", 2)] {
            let pool = json!({
                "metadata": {"namespace": CONTROL, "name": name},
                "spec": {
                    "cluster": CLUSTER, "role": role, "replicas": replicas,
                    "template": {
                        "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                        "image": {"os": "flatcar", "source": {"registry": {"url": "docker://registry.example/flatcar:1"}}},
                        "rootDisk": {"size": "10Gi"},
                        "placement": {"apart": if role == "worker" { "Soft" } else { "Hard" }},
                    },
                },
            });
            world.person.create(&POOL, pool).await.unwrap();
        }
        let cluster = Cluster {
            name: CLUSTER.parse().unwrap(),
            namespace: Some(CONTROL.parse().unwrap()),
            spec: serde_json::from_value(spec).unwrap(),
        };
        let infra = Site::new("infra", world.client_by_wire().await.unwrap());
        Self { world, cluster: Arc::new(cluster), infra }
    }

    /// Looks after it, as a replica does that knows this much of the tenant's API.
    pub(crate) fn look_after(&self, tenant: Option<Site>) -> CancellationToken {
        self.look_after_at(tenant, self.world.infra.context().clock.now())
    }

    /// The same with a clock that shows another time.
    fn look_after_at(&self, tenant: Option<Site>, now: jiff::Timestamp) -> CancellationToken {
        let program = Program { url: "https://programs.example/trellis".to_owned(), sha256: "0".repeat(64) };
        let growing = Growing {
            sources: Sources { trellis: Some(program), ..Sources::default() },
            plugin: GivenPlugin::StandIn,
        };
        let spec = Spec {
            cluster: Arc::clone(&self.cluster),
            family: &TRELLIS,
            control: Site::new("control", self.world.client()),
            control_namespace: CONTROL.to_owned(),
            tenant,
            infra: self.infra.clone(),
            sees_hosts: true,
        };
        let clock = Clock::from(now);
        let controller = Tenant::new(spec, Settings { growing, ..Settings::default() }, clock);
        let stop = CancellationToken::new();
        let token = stop.clone();
        tokio::spawn(async move { tokio::join!(biased; controller.grow(&token), controller.run(&token)) });
        stop
    }

    pub(crate) async fn secret(&self, part: &str) -> Option<Value> {
        self.world.person.get(&SECRET, &Key::new(CONTROL, &format!("{CLUSTER}-{part}"))).await.unwrap()
    }

    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFnMut() -> bool) {
        self.within(Duration::from_mins(30), what, holds).await;
    }

    pub(crate) async fn within(&self, patience: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let until = tokio::time::Instant::now() + patience;
        while !holds().await {
            assert!(tokio::time::Instant::now() < until, "in vain: {what}\n{}", self.told().await);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }

    async fn kubeconfig(&self) -> String {
        self.until("a kubeconfig", async || self.secret("kubeconfig").await.is_some()).await;
        let secret = self.secret("kubeconfig").await.unwrap();
        String::from_utf8(STANDARD.decode(secret.text("/data/value")).unwrap()).unwrap()
    }

    pub(crate) async fn tenant(&self) -> kube::Client {
        let kubeconfig = self.kubeconfig().await;
        assert!(
            kubeconfig.contains("tls-server-name: api.blue.svc.cluster.local"),
            "it is reached by address"
        );
        self.world.client_of(&kubeconfig, &Key::new(CLUSTER, "api")).await.unwrap()
    }

    pub(crate) async fn record(&self) -> Value {
        self.world.person.get(&TENANT_CLUSTER, &Key::new(CONTROL, CLUSTER)).await.unwrap().unwrap()
    }

    pub(crate) async fn condition(&self, kind: &str) -> Value {
        self.record().await.condition(kind).clone()
    }

    pub(crate) async fn holds(&self, kind: &str) -> bool {
        self.condition(kind).await.text("/status") == "True"
    }

    pub(crate) async fn console(&self, machine: &str) -> String {
        let vmi = self.world.person.get(&VMI, &Key::new(CLUSTER, machine)).await.unwrap();
        let uid = vmi.map(|vmi| vmi.uid().to_owned()).unwrap_or_default();
        let machine = self.world.infra.context().world.machines.get(&uid);
        let shown = machine.map(|machine| machine.console.look().0);
        shown.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    pub(crate) async fn told(&self) -> String {
        let mut told = vec![format!("{}", self.condition("InstallComplete").await)];
        for kind in [&POOL, &crate::stage::MACHINE] {
            for object in self.world.person.list(kind, CONTROL).await.unwrap_or_default() {
                told.push(format!("{} {}: {}", kind.kind, object.name(), object["status"]));
            }
        }
        for kind in [&VMI, &DATA_VOLUME] {
            for object in self.world.person.list(kind, CLUSTER).await.unwrap_or_default() {
                told.push(format!("{} {}: {}", kind.kind, object.name(), object["status"]));
            }
        }
        for vm in self.world.person.list(&VM, CLUSTER).await.unwrap_or_default() {
            told.push(format!("{}: {}", vm.name(), vm["status"]));
            told.push(format!("console of {}:\n{}", vm.name(), self.console(vm.name()).await));
        }
        told.join("\n")
    }

    pub(crate) async fn names(&self, kind: &'static Kind) -> Vec<String> {
        let all = self.world.person.list(kind, CLUSTER).await.unwrap();
        all.iter().map(|object| object.name().to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_becomes_a_cluster_with_workers_and_no_bootstrap_machine() {
    let grown = Grown::start().await;
    let stop = grown.look_after(None);
    let client = grown.tenant().await;
    grown
        .until("a bootstrap machine", async || grown.names(&VM).await.contains(&"blue-bootstrap".to_owned()))
        .await;
    assert!(
        !grown.names(&VM).await.iter().any(|name| name.contains("workers")),
        "workers come after the hand-over"
    );
    // The tenant's API is known now: whoever looks after it begins anew.
    stop.cancel();
    let _stop = grown.look_after(Some(Site::new("tenant", client.clone())));
    grown.until("the control plane", async || grown.holds("BootstrapComplete").await).await;
    let console = grown.console("blue-bootstrap").await;
    grown.until("all of it", async || grown.holds("InstallComplete").await).await;
    assert!(console.is_empty() || console.matches("handed out to").count() == 3, "{console}");
    let tenant = Client::new(client, PERSON);
    let nodes = tenant.list(&NODE, "").await.unwrap();
    assert_eq!(nodes.len(), 5);
    assert!(nodes.iter().all(|node| node.condition_holds("Ready")));
    let masters = nodes
        .iter()
        .filter(|node| !node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"].is_null());
    assert_eq!(masters.count(), 3);
    // Workers fetched their configurations from the masters, each once.
    let mut handed_out = 0;
    for name in grown.names(&VM).await.iter().filter(|name| name.contains("masters")) {
        handed_out += grown.console(name).await.matches("handed out to").count();
    }
    assert_eq!(handed_out, 2);
    let status = grown.record().await["status"].clone();
    assert_eq!((status.text("/phase"), status.text("/progress/steps")), ("Complete", "10/10"));
    assert_eq!(status.text("/kubeconfigSecret"), "blue-kubeconfig");
    assert!(status.text("/endpoint").starts_with("https://") && grown.holds("Ready").await, "{status}");
    // Nothing is left of the machine that handed configurations out.
    for kind in [&VM, &VMI, &SECRET, &SERVICE, &DATA_VOLUME] {
        grown
            .until("nothing of the bootstrap machine", async || {
                !grown.names(kind).await.iter().any(|name| name.contains("bootstrap"))
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_after_a_crash_goes_on() {
    let grown = Grown::start().await;
    // Every few moments the replica is gone without a word, and another one begins.
    let mut number = 0;
    while !grown.holds("BootstrapComplete").await {
        number += 1;
        assert!(number < 200, "{}", grown.told().await);
        let client = match grown.secret("kubeconfig").await {
            Some(_) => Some(Site::new("tenant", grown.tenant().await)),
            None => None,
        };
        let stop = grown.look_after(client);
        tokio::time::sleep(Duration::from_secs(7)).await;
        stop.cancel();
    }
    assert!(number > 2, "there was a middle");
    let _stop = grown.look_after(Some(Site::new("tenant", grown.tenant().await)));
    grown.until("all of it", async || grown.holds("InstallComplete").await).await;
    assert_eq!(grown.names(&VM).await.len(), 5, "nothing was made twice");
}

#[tokio::test(start_paused = true)]
async fn certificates_are_renewed_before_they_end() {
    let grown = Grown::start().await;
    let stop = grown.look_after(None);
    let before = grown.kubeconfig().await;
    let etcd = grown.secret("etcd").await.unwrap()["data"]["tls.crt"].clone();
    stop.cancel();
    let almost_a_year = jiff::SignedDuration::from_hours(320 * 24);
    let _stop = grown.look_after_at(None, grown.world.infra.context().clock.now() + almost_a_year);
    grown
        .until("another certificate of the administrator", async || grown.kubeconfig().await != before)
        .await;
    assert_ne!(grown.secret("etcd").await.unwrap()["data"]["tls.crt"], etcd);
    // The authority is the same: whoever trusted it still does.
    let authority = |text: &str| {
        let line = text.lines().find(|line| line.contains("certificate-authority-data"));
        line.unwrap().to_owned()
    };
    assert_eq!(authority(&grown.kubeconfig().await), authority(&before));
    let renewed = grown.kubeconfig().await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(grown.kubeconfig().await, renewed, "once");
}

/// What stands for the manifests of a plugin: the objects by which it is known, and a pod on each node.
const PLUGIN: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: kube-flannel, name: kube-flannel-ds}
spec:
  selector: {matchLabels: {app: flannel}}
  template:
    metadata: {labels: {app: flannel}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: kube-flannel, image: "registry.example/flannel:1"}]
      volumes: [{name: cni, hostPath: {path: /etc/cni/net.d}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-flannel, name: kube-flannel-cfg}
data: {net-conf.json: '{"Network": "10.244.0.0/16"}'}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-flannel}
"#;

#[tokio::test(start_paused = true)]
async fn the_network_plugin_a_cluster_names_is_the_one_somebody_provided() {
    let network = json!({"plugin": "flannel", "pods": [{"cidr": "10.177.0.0/16"}]});
    let grown = Grown::with_network(network).await;
    let map = |sum: &str| {
        let metadata = json!({"namespace": CONTROL, "name": "trellis-network-flannel"});
        json!({"metadata": metadata, "data": {"flannel.yaml": PLUGIN, "sha256": sum}})
    };
    grown.world.person.create(&CONFIG_MAP, map(&"0".repeat(64))).await.unwrap();
    let first = grown.look_after(None);
    let client = grown.tenant().await;
    first.cancel();
    let _stop = grown.look_after(Some(Site::new("tenant", client.clone())));
    // Other manifests than those that were meant are not given to anybody.
    let told = async || grown.condition("InstallComplete").await.text("/message").to_owned();
    grown.until("a refusal", async || told().await.contains("have the SHA-256")).await;
    let sum = told().await.split_once("SHA-256 ").unwrap().1.split(',').next().unwrap().to_owned();
    let key = Key::new(CONTROL, "trellis-network-flannel");
    grown.world.person.merge(&CONFIG_MAP, &key, &json!({"data": {"sha256": sum}})).await.unwrap();
    grown.until("the control plane", async || grown.holds("BootstrapComplete").await).await;
    let tenant = Client::new(client, PERSON);
    let config =
        tenant.get(&CONFIG_MAP, &Key::new("kube-flannel", "kube-flannel-cfg")).await.unwrap().unwrap();
    assert!(config.text("/data/net-conf.json").contains("10.177.0.0/16"), "{config}");
    let nodes = tenant.list(&NODE, "").await.unwrap();
    grown.until("a network", async || nodes_are_ready(&tenant).await).await;
    assert!(nodes.len() >= 3);
    let stand_in = Key::new("kube-system", "trellis-stand-in-network");
    assert!(tenant.get(&DAEMON_SET, &stand_in).await.unwrap().is_none());
}

async fn nodes_are_ready(tenant: &Client) -> bool {
    let nodes = tenant.list(&NODE, "").await.unwrap();
    nodes.iter().all(|node| node.condition_holds("Ready"))
}
