//! Three sites in three places, each with a kubeconfig that changes while the controller works.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trellis_engine::controllers::{Settings, Tenant};
use trellis_engine::families::TRELLIS;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{Kind, NAMESPACE, NODE, SECRET, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::Source;
use trellis_runtime::{Clock, Site};
use trellis_simulation::{Make, Server};

use crate::families::pool;
use crate::real::{self, is_real};
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Sites, Stage, install_kinds, spec};

crate::everywhere!(three_places_whose_credentials_change);

/// How often a kubeconfig is looked at.
const LOOK: Duration = Duration::from_millis(500);
const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";

static SERVICE_ACCOUNT: Kind =
    Kind { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts", ..SECRET };

/// One site: the file it is reached by, and who may give out access.
struct Place {
    person: Client,
    address: String,
    authority: String,
    file: PathBuf,
}

impl Place {
    async fn new(name: &str, server: &mut Server, directory: &Path) -> Self {
        let person = Client::new(server.client(), Identity::INSTALLER);
        let file = directory.join(name);
        Self { person, address: server.reach().await.unwrap(), authority: server.authority(), file }
    }

    /// Writes a kubeconfig with a token of a new account that may do everything.
    async fn grant(&self, account: &str) -> Value {
        let post = async |path: &str, body: Value| {
            self.person.send(http::Method::POST, path, Some(("application/json", &body))).await.unwrap()
        };
        post(ACCOUNTS, json!({"metadata": {"name": account}})).await;
        let binding = json!({
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": account}],
        });
        post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = post(&format!("{ACCOUNTS}/{account}/token"), request).await["status"]["token"].clone();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": STANDARD.encode(&self.authority),
            }}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        // As whoever rotates it would: the whole file at once.
        let unfinished = self.file.with_extension("new");
        std::fs::write(&unfinished, config.to_string()).unwrap();
        std::fs::rename(&unfinished, &self.file).unwrap();
        config
    }

    /// Takes an account away, and waits until what it was given is worth nothing.
    async fn revoke(&self, account: &str, config: Value) {
        self.person.delete(&SERVICE_ACCOUNT, &Key::new("kube-system", account), "").await.unwrap();
        let (config, options) =
            (serde_json::from_value(config).unwrap(), kube::config::KubeConfigOptions::default());
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let old = Client::new(kube::Client::try_from(config).unwrap(), Identity::INSTALLER);
        let begin = tokio::time::Instant::now();
        while old.list(&NAMESPACE, "").await.is_ok() {
            assert!(begin.elapsed() < Duration::from_mins(1), "the old token still counts");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The site, whose credentials are followed from now on.
    async fn connect(&self, name: &str) -> Site {
        let source = Source::File { path: self.file.clone(), context: None };
        let followed = source.connect(name, Manners::default()).await.unwrap().every(LOOK);
        let site = followed.site.clone();
        tokio::spawn(followed.follow());
        site
    }
}

/// Waits until as many Nodes of the tenant are ready, and no more exist.
async fn until_nodes(tenant: &Client, count: usize) {
    let begin = tokio::time::Instant::now();
    loop {
        let nodes = tenant.list(&NODE, "").await.unwrap();
        if nodes.len() == count && nodes.iter().all(|node| node.condition_holds("Ready")) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_mins(2), "not {count} Nodes but {nodes:?}");
        tokio::time::sleep(LOOK).await;
    }
}

async fn three_places_whose_credentials_change() {
    // Credentials go through sockets and files, which virtual time does not wait for.
    if !is_real() {
        tokio::time::resume();
    }
    let make = Make::default().on_machine_time();
    let (world, mut control) = tokio::join!(real::start(make.clone(), CLUSTER), real::start_empty(&make));
    let (mut world, mut tenant) = world;
    let directory = tempfile::tempdir().unwrap();
    let places = [
        Place::new("control", &mut control, directory.path()).await,
        Place::new("tenant", &mut tenant.server, directory.path()).await,
        Place::new("infra", &mut world.server, directory.path()).await,
    ];
    let mut first = Vec::new();
    for place in &places {
        first.push(place.grant("first").await);
    }
    let sites = Sites {
        control: places[0].connect("control").await,
        tenant: places[1].connect("tenant").await,
        infra: places[2].connect("infra").await,
    };
    let objects = &places[0].person;
    install_kinds(objects).await;
    objects.create_if_absent(&NAMESPACE, json!({"metadata": {"name": CONTROL}})).await.unwrap();
    world.namespace(CLUSTER).await.unwrap();
    let data = json!({"userData": tenant.user_data().unwrap()});
    let secret = json!({"metadata": {"namespace": CONTROL, "name": "join"}, "stringData": data});
    objects.create(&SECRET, secret).await.unwrap();
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let controller = Tenant::new(spec(&sites, &TRELLIS), Settings::default(), Clock::of_machine());
    let running = Arc::clone(&controller);
    tokio::spawn(async move { running.run(&stop).await });
    let mut object = pool(1);
    object["metadata"]["namespace"] = CONTROL.into();
    objects.create(&POOL, object).await.unwrap();
    until_nodes(&tenant.person, 1).await;
    // Each thing is in its place alone.
    assert_eq!(objects.list(&MACHINE, CONTROL).await.unwrap().len(), 1);
    assert_eq!(world.person.list(&VM, CLUSTER).await.unwrap().len(), 1);
    assert!(objects.list(&NODE, "").await.unwrap().is_empty());
    // All three change, what was before is worth nothing, and work goes on.
    for (place, old) in places.iter().zip(first) {
        place.grant("second").await;
        tokio::time::sleep(LOOK * 4).await;
        place.revoke("first", old).await;
    }
    let scale = |replicas: u32| json!({"spec": {"replicas": replicas}});
    objects.merge(&POOL, &Stage::key("workers"), &scale(2)).await.unwrap();
    until_nodes(&tenant.person, 2).await;
    objects.merge(&POOL, &Stage::key("workers"), &scale(0)).await.unwrap();
    until_nodes(&tenant.person, 0).await;
    let begin = tokio::time::Instant::now();
    while !objects.list(&MACHINE, CONTROL).await.unwrap().is_empty() {
        assert!(begin.elapsed() < Duration::from_mins(1), "a machine is left");
        tokio::time::sleep(LOOK).await;
    }
    assert!(world.person.list(&VM, CLUSTER).await.unwrap().is_empty());
}
