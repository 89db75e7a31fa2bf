//! A world with a tenant and its controller, and the kinds the tests look at.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trellis_engine::controllers::{Settings, Spec};
use trellis_engine::families::Family;
use trellis_infra::client::Client;
use trellis_infra::kinds::{CRD, Kind, NODE, SECRET, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_model::Cluster;
use trellis_runtime::{Clock, Site};
use trellis_simulation::{Make, Tenant, World};

use crate::{real, rights};

/// The namespace of the machine objects.
pub(crate) const CONTROL: &str = "machines";
/// The cluster, and the namespace of its VMs.
pub(crate) const CLUSTER: &str = "blue";

/// How long nothing has to happen on the machine's own time to be taken for nothing at all.
const QUIET: Duration = Duration::from_secs(4);

/// A world with one tenant that is looked after.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) tenant: Tenant,
    pub(crate) controller: Arc<trellis_engine::controllers::Tenant>,
    pub(crate) sites: Sites,
    family: &'static Family,
    stop: CancellationToken,
}

/// What the controller talks to.
#[derive(Clone)]
pub(crate) struct Sites {
    pub(crate) control: Site,
    pub(crate) tenant: Site,
    pub(crate) infra: Site,
}

impl Sites {
    /// The requests that were made of all of them, in words.
    pub(crate) fn requests(&self) -> std::collections::BTreeMap<String, u64> {
        let mut all = std::collections::BTreeMap::new();
        for site in [&self.control, &self.tenant, &self.infra] {
            for (request, _, count) in site.traffic().all() {
                *all.entry(format!("{} {} {}", site.name(), request.verb.word(), request.resource()))
                    .or_default() += count;
            }
        }
        all
    }
}

impl Stage {
    /// A tenant with machines of a family.
    pub(crate) async fn start(family: &'static Family) -> Self {
        Self::start_with(family, Make::default(), Settings::default()).await
    }

    /// A tenant with machines of a family in a world of its own kind.
    pub(crate) async fn start_with(family: &'static Family, make: Make, settings: Settings) -> Self {
        Self::prepare_with(family, make, settings).await.go()
    }

    /// A tenant that nobody looks after yet.
    pub(crate) async fn prepare(family: &'static Family) -> Self {
        Self::prepare_with(family, Make::default(), Settings::default()).await
    }

    async fn prepare_with(family: &'static Family, make: Make, settings: Settings) -> Self {
        let (world, tenant) = real::start(make, CLUSTER).await;
        install_kinds(&world.person).await;
        world.namespace(CONTROL).await.unwrap();
        world.namespace(CLUSTER).await.unwrap();
        world.namespace("cloud-init-settings").await.unwrap();
        let sites = rights::sites(&world, &tenant, family).await;
        let controller = controller(&world, &sites, family, settings);
        Self { world, tenant, controller, sites, family, stop: CancellationToken::new() }
    }

    /// Looks after the tenant from now on.
    pub(crate) fn go(self) -> Self {
        let (running, token) = (Arc::clone(&self.controller), self.stop.clone());
        tokio::spawn(async move { running.run(&token).await });
        self
    }

    /// Lets time pass in which nothing should happen: on the machine's own time a moment has to do.
    pub(crate) async fn quiet(&self, time: Duration) {
        tokio::time::sleep(if real::is_real() { QUIET } else { time }).await;
    }

    /// Waits until a machine says that it runs and its Node is ready.
    pub(crate) async fn until_running(&self, kind: &'static Kind, name: &str) -> Arc<Value> {
        let runs =
            |machine: &Value| machine.text("/status/phase") == "Running" && machine.condition_holds("Ready");
        self.world.until(kind, &Self::key(name), runs).await.unwrap()
    }

    /// Creates an object of the control site.
    pub(crate) async fn create(&self, kind: &'static Kind, mut object: Value) -> Value {
        object.set("/metadata/namespace", CONTROL.into());
        self.world.person.create(kind, object).await.unwrap()
    }

    /// Stores what machines join with.
    pub(crate) async fn store_user_data(&self, namespace: &str, name: &str, key: &str) {
        let data = self.tenant.user_data().unwrap();
        let secret = json!({"metadata": {"namespace": namespace, "name": name}, "stringData": {key: data}});
        self.world.person.create(&SECRET, secret).await.unwrap();
    }

    fn patience(&self) -> Duration {
        self.world.make.patience() * 3 / 2
    }

    /// Waits until as many Nodes are ready, and as many VMs exist.
    pub(crate) async fn until_nodes(&self, count: usize) -> Vec<Arc<Value>> {
        let cache = self.tenant.person.cache(&NODE);
        let mut changes = cache.changes();
        let found = async {
            loop {
                let nodes = cache.list("");
                let ready = nodes.iter().filter(|node| node.condition_holds("Ready")).count();
                if ready == count && nodes.len() == count {
                    return nodes;
                }
                changes.recv().await;
            }
        };
        if let Ok(nodes) = tokio::time::timeout(self.patience(), found).await {
            return nodes;
        }
        let told = |node: &Arc<Value>| format!("{} {}", node.name(), node.condition("Ready"));
        let nodes: Vec<String> = cache.list("").iter().map(told).collect();
        panic!("not {count} ready Nodes but {nodes:?}; machines: {}", self.machines().await)
    }

    /// Waits until as many Nodes are ready, whatever else there is.
    pub(crate) async fn until_ready_nodes(&self, count: usize) {
        let cache = self.tenant.person.cache(&NODE);
        let mut changes = cache.changes();
        let found = async {
            while cache.list("").iter().filter(|node| node.condition_holds("Ready")).count() < count {
                changes.recv().await;
            }
        };
        assert!(tokio::time::timeout(self.patience(), found).await.is_ok(), "{}", self.machines().await);
    }

    /// All machine objects and VMs, for the message of a test that failed.
    pub(crate) async fn machines(&self) -> String {
        let mut told = Vec::new();
        for kind in [&KKP_MACHINE, &OPENSHIFT_MACHINE, &MACHINE, &KKP_SET, &KKP_DEPLOYMENT, &POOL] {
            for object in self.world.person.list(kind, CONTROL).await.unwrap_or_default() {
                told.push(format!("{} {}: {}", kind.kind, object.name(), object["status"]));
            }
        }
        for vm in self.world.person.list(&VM, CLUSTER).await.unwrap_or_default() {
            told.push(format!("VM {}: {}", vm.name(), vm["status"]));
        }
        told.join("\n")
    }

    /// The names of the VMs there are.
    pub(crate) async fn vms(&self) -> Vec<String> {
        let vms = self.world.person.list(&VM, CLUSTER).await.unwrap();
        vms.iter().map(|vm| vm.name().to_owned()).collect()
    }

    /// A key of the control site.
    pub(crate) fn key(name: &str) -> Key {
        Key::new(CONTROL, name)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
        if !std::thread::panicking() {
            rights::check(&self.sites, self.family);
        }
    }
}

fn controller(
    world: &World,
    sites: &Sites,
    family: &'static Family,
    settings: Settings,
) -> Arc<trellis_engine::controllers::Tenant> {
    let clock = Clock::from(world.infra.context().clock.now());
    trellis_engine::controllers::Tenant::new(spec(sites, family), settings, clock)
}

/// Installs the kinds of all machine APIs.
pub(crate) async fn install_kinds(person: &Client) {
    let crds = trellis_api::machine_crds::machine_crds().into_iter().chain(trellis_api::trellis::crds());
    let crds: Vec<Value> = crds.collect();
    for crd in &crds {
        person.create(&CRD, crd.clone()).await.unwrap();
    }
    for crd in &crds {
        while !person.get(&CRD, &Key::of(crd)).await.unwrap().unwrap().condition_holds("Established") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The spec of the cluster's controller.
pub(crate) fn spec(sites: &Sites, family: &'static Family) -> Spec {
    let spec = json!({"platform": {"kubevirt": {"namespace": CLUSTER}}});
    let cluster = Cluster {
        name: CLUSTER.parse().unwrap(),
        namespace: Some(CONTROL.parse().unwrap()),
        spec: serde_json::from_value(spec).unwrap(),
    };
    Spec {
        cluster: Arc::new(cluster),
        family,
        control: sites.control.clone(),
        control_namespace: CONTROL.to_owned(),
        tenant: Some(sites.tenant.clone()),
        infra: sites.infra.clone(),
        sees_hosts: true,
    }
}

/// A kind of the machine APIs.
const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, version, kind, plural, ..trellis_infra::kinds::VM }
}

pub(crate) static KKP_MACHINE: Kind = kind("cluster.k8s.io", "v1alpha1", "Machine", "machines");
pub(crate) static KKP_SET: Kind = kind("cluster.k8s.io", "v1alpha1", "MachineSet", "machinesets");
pub(crate) static KKP_DEPLOYMENT: Kind =
    kind("cluster.k8s.io", "v1alpha1", "MachineDeployment", "machinedeployments");
pub(crate) static OPENSHIFT_MACHINE: Kind = kind("machine.openshift.io", "v1beta1", "Machine", "machines");
pub(crate) static OPENSHIFT_SET: Kind = kind("machine.openshift.io", "v1beta1", "MachineSet", "machinesets");
pub(crate) static MACHINE: Kind = kind("trellis.dev", "v1alpha1", "Machine", "machines");
pub(crate) static POOL: Kind = kind("trellis.dev", "v1alpha1", "MachinePool", "machinepools");
pub(crate) static KKP_CHECK: Kind =
    kind("cluster.k8s.io", "v1alpha1", "MachineHealthCheck", "machinehealthchecks");
pub(crate) static OPENSHIFT_CHECK: Kind =
    kind("machine.openshift.io", "v1beta1", "MachineHealthCheck", "machinehealthchecks");
