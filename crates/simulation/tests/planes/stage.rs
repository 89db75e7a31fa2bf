//! A world with one tenant whose control plane is looked after.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trellis_engine::controllers::{Settings, Spec};
use trellis_engine::etcd::{Credentials, Etcd, Member, PortForward};
use trellis_engine::families::TRELLIS;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{Kind, NAMESPACE, NODE, SECRET, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_model::Cluster;
use trellis_planes::Quorum;
use trellis_runtime::{Clock, Site};
use trellis_simulation::{Make, Plane, World, plug_in};

/// The namespace of the machine objects.
pub(crate) const CONTROL: &str = "machines";
/// The cluster, and the namespace of its VMs.
pub(crate) const CLUSTER: &str = "blue";
/// The names of the cluster end so.
pub(crate) const DOMAIN: &str = "blue.svc.cluster.local";

const PERSON: Identity = Identity { program: "person", user: "" };
const PATIENCE: Duration = Duration::from_mins(90);

pub(crate) static MACHINE: Kind =
    Kind { group: "trellis.dev", version: "v1alpha1", kind: "Machine", plural: "machines", ..VM };
pub(crate) static POOL: Kind =
    Kind { group: "trellis.dev", version: "v1alpha1", kind: "MachinePool", plural: "machinepools", ..VM };

/// A world with one tenant that is looked after.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) plane: Arc<Plane>,
    pub(crate) etcd: Etcd,
    tenant: Site,
    infra: Site,
    stop: CancellationToken,
}

impl Stage {
    /// A tenant whose machines get these files.
    pub(crate) async fn start(plane: Plane) -> Self {
        let world = World::start(Make::default()).await.unwrap();
        for crd in trellis_api::trellis::crds() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            world.person.send(http::Method::POST, path, Some(("application/json", &crd))).await.unwrap();
        }
        for namespace in [CONTROL, CLUSTER] {
            world.namespace(namespace).await.unwrap();
        }
        let plane = Arc::new(plane);
        let credentials = plane.etcd_credentials().unwrap();
        let secret = json!({
            "metadata": {"namespace": CONTROL, "name": format!("{CLUSTER}-etcd")}, "stringData": credentials,
        });
        world.person.create(&SECRET, secret).await.unwrap();
        let infra = Site::new("infra", world.client_by_wire().await.unwrap());
        let api = Key::new(CLUSTER, "api");
        let by_fabric = world.client_of(&plane.administrator().unwrap(), &api).await.unwrap();
        let tenant = Site::new("tenant", by_fabric);
        let bytes = |key: &str| credentials[key].as_str().unwrap().as_bytes().to_vec();
        let data = ["ca.crt", "tls.crt", "tls.key"].map(|key| (key.to_owned(), bytes(key)));
        let dial = PortForward { site: infra.clone(), namespace: CLUSTER.to_owned() };
        let credentials = Credentials::of_secret(&data.into()).unwrap();
        let etcd = Etcd::new(Arc::new(dial), &credentials, DOMAIN).unwrap();
        let stage = Self { world, plane, etcd, tenant, infra, stop: CancellationToken::new() };
        stage.look_after();
        stage
    }

    fn look_after(&self) {
        let spec =
            json!({"platform": {"kubevirt": {"namespace": CLUSTER}}, "baseDomain": "svc.cluster.local"});
        let cluster = Cluster {
            name: CLUSTER.parse().unwrap(),
            namespace: Some(CONTROL.parse().unwrap()),
            spec: serde_json::from_value(spec).unwrap(),
        };
        let spec = Spec {
            cluster: Arc::new(cluster),
            family: &TRELLIS,
            control: Site::new("control", self.world.client()),
            control_namespace: CONTROL.to_owned(),
            tenant: Some(self.tenant.clone()),
            infra: self.infra.clone(),
            sees_hosts: true,
        };
        let clock = Clock::from(self.world.infra.context().clock.now());
        let controller = trellis_engine::controllers::Tenant::new(spec, Settings::default(), clock);
        assert!(controller.make_masters_with(Arc::<Plane>::clone(&self.plane)));
        let stop = self.stop.clone();
        tokio::spawn(async move { controller.run(&stop).await });
    }

    /// Nobody looks after it any more.
    pub(crate) fn stop_looking(&self) {
        self.stop.cancel();
    }

    /// A pool of a control plane.
    pub(crate) async fn create(&self, replicas: u32) {
        let pool = json!({
            "metadata": {"namespace": CONTROL, "name": "cp"},
            "spec": {
                "cluster": CLUSTER,
                "role": "control-plane",
                "replicas": replicas,
                "template": {
                    "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                    "image": {"os": "flatcar", "source": {"registry": {"url": "docker://registry.example/flatcar:1"}}},
                    "rootDisk": {"size": "10Gi"},
                },
            },
        });
        self.world.person.create(&POOL, pool).await.unwrap();
    }

    /// A control plane that is there, with what its nodes need.
    pub(crate) async fn with(replicas: u32) -> Self {
        let stage = Self::start(Plane::new(DOMAIN).unwrap()).await;
        stage.create(replicas).await;
        stage.furnish().await;
        stage.settled(replicas).await;
        stage
    }

    /// What is asked of the tenant's API, over the network.
    pub(crate) fn tenant(&self) -> Client {
        Client::new(self.tenant.client(), PERSON)
    }

    /// Waits for the API and puts into it what kubeadm would: rights of nodes, and a network plugin.
    pub(crate) async fn furnish(&self) {
        let tenant = self.tenant();
        let binding = json!({
            "metadata": {"name": "nodes"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let sent = tenant.send(http::Method::POST, path, Some(("application/json", &binding))).await;
            match sent {
                Ok(_) => break,
                Err(error) if tokio::time::Instant::now() > until => {
                    panic!("the API never answers: {error}\n{}", self.told().await)
                }
                Err(_) => tokio::time::sleep(Duration::from_secs(5)).await,
            }
        }
        let namespace = json!({"metadata": {"name": "kube-node-lease"}});
        tenant.create_if_absent(&NAMESPACE, namespace).await.unwrap();
        plug_in(&tenant).await.unwrap();
    }

    pub(crate) async fn pool(&self) -> Value {
        self.world.person.get(&POOL, &key("cp")).await.unwrap().unwrap()
    }

    pub(crate) async fn change(&self, spec: Value) {
        self.world.person.merge(&POOL, &key("cp"), &json!({"spec": spec})).await.unwrap();
    }

    /// Waits until the pool is as wanted.
    pub(crate) async fn until(&self, wanted: impl Fn(&Value) -> bool) {
        let until = tokio::time::Instant::now() + PATIENCE;
        while !wanted(&self.pool().await) {
            assert!(tokio::time::Instant::now() < until, "{}", self.told().await);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Waits until the pool has nothing left to do, and all its machines carry a member that votes.
    pub(crate) async fn settled(&self, replicas: u32) {
        let count = i64::from(replicas);
        self.until(|pool| {
            ["replicas", "updatedReplicas", "availableReplicas"]
                .iter()
                .all(|field| pool.number(&format!("/status/{field}")).unwrap_or_default() == count)
                && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
                && pool.condition_holds("Ready")
                && pool.condition_holds("EtcdReady")
        })
        .await;
        let members = self.members().await;
        assert_eq!(members.iter().filter(|member| !member.learner).count(), members.len());
        assert_eq!(members.len(), usize::try_from(replicas).unwrap());
    }

    /// The machines, by name.
    pub(crate) async fn machines(&self) -> Vec<String> {
        let machines = self.world.person.list(&MACHINE, CONTROL).await.unwrap();
        machines.iter().map(|machine| machine.name().to_owned()).collect()
    }

    /// The members of etcd, as any of them tells.
    pub(crate) async fn members(&self) -> Vec<Member> {
        for machine in self.machines().await {
            if let Ok(members) = self.etcd.members(&machine).await {
                return members;
            }
        }
        panic!("nobody tells who the members are: {}", self.told().await)
    }

    /// How etcd stood, at every change since it was whole for the first time.
    pub(crate) fn quorums(&self) -> Vec<Quorum> {
        let all = self.world.quorums.lock().unwrap().clone();
        all.into_iter().skip_while(|quorum| !quorum.holds()).collect()
    }

    /// The console of a machine.
    pub(crate) async fn console(&self, machine: &str) -> String {
        let vmi = self.world.person.get(&VMI, &Key::new(CLUSTER, machine)).await.unwrap();
        let uid = vmi.map(|vmi| vmi.uid().to_owned()).unwrap_or_default();
        let machine = self.world.infra.context().world.machines.get(&uid);
        machine
            .map(|machine| String::from_utf8_lossy(&machine.console.look().0).into_owned())
            .unwrap_or_default()
    }

    /// Everything there is, for the message of a test that failed.
    pub(crate) async fn told(&self) -> String {
        let mut told = Vec::new();
        for kind in [&POOL, &MACHINE] {
            for object in self.world.person.list(kind, CONTROL).await.unwrap_or_default() {
                told.push(format!("{} {}: {}", kind.kind, object.name(), object["status"]));
            }
        }
        for vm in self.world.person.list(&VM, CLUSTER).await.unwrap_or_default() {
            told.push(format!("console of {}:\n{}", vm.name(), self.console(vm.name()).await));
        }
        if let Ok(nodes) = self.tenant().list(&NODE, "").await {
            told.extend(
                nodes.iter().map(|node| format!("Node {}: {}", node.name(), node.condition("Ready"))),
            );
        }
        told.join("\n")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A key of the control site.
pub(crate) fn key(name: &str) -> Key {
    Key::new(CONTROL, name)
}
