//! Many tenants in one process, shared out among replicas: on a lab, in virtual time, with a reconciler that only notes
//! who acts for whom.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the test"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_engine::controllers::fleet::{
    CLUSTERS, Clusters, Fleet, Machines, Overrides, Parts, Reconciler, Served,
};
use trellis_lab::clock::TokioClock;
use trellis_lab::faults::{Fault, Matching, When};
use trellis_lab::{Controllers, Lab, Options, User};
use trellis_runtime::lease::{Shards, Terms};
use trellis_runtime::{Clock, Key, Metrics, Resource, Selection, Site};

const NAMESPACE: &str = "fleet";
const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const EVENT: Resource = Resource::namespaced("", "v1", "events", "Event");
const SPACE: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const DEFINITION: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");

/// A control site that nobody looks after yet.
struct World {
    lab: Lab,
    clock: Clock,
}

/// Who acts for each tenant now, and how often somebody began to.
#[derive(Default)]
struct Acting {
    now: BTreeMap<String, String>,
    begun: BTreeMap<String, u32>,
    with_nodes: BTreeMap<String, bool>,
    /// Tenants that two acted for at once.
    twice: Vec<String>,
}

/// Notes who acts for what.
struct Noting {
    replica: String,
    acting: Arc<Mutex<Acting>>,
}

impl Reconciler for Noting {
    fn run(&self, served: Served, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let (replica, acting) = (self.replica.clone(), Arc::clone(&self.acting));
        async move {
            let name = served.name.clone();
            {
                let mut acting = acting.lock();
                if let Some(other) = acting.now.insert(name.clone(), replica.clone()) {
                    acting.twice.push(format!("{name}: {other} and {replica}"));
                }
                *acting.begun.entry(name.clone()).or_default() += 1;
                acting.with_nodes.insert(name.clone(), served.tenant.is_some());
            }
            stop.cancelled().await;
            // What is under way takes its time to end.
            tokio::time::sleep(Duration::from_millis(700)).await;
            acting.lock().now.remove(&name);
        }
        .boxed()
    }
}

/// A replica, until it is dropped as if it had crashed.
struct Replica {
    name: String,
    fleet: Fleet,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// A client in the name of a replica, so that faults can be meant for it alone.
fn site_of(lab: &Lab, name: &str) -> Site {
    let user = User { name: name.to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() };
    Site::new(name, kube::Client::new(lab.service_as(user), "default"))
}

fn noting(world: &World, name: &str, acting: &Arc<Mutex<Acting>>) -> Replica {
    let noting = Noting { replica: name.to_owned(), acting: Arc::clone(acting) };
    replica(world, name, Arc::new(noting))
}

fn replica(world: &World, name: &str, reconciler: Arc<dyn Reconciler>) -> Replica {
    let control = site_of(&world.lab, name);
    let clock = world.clock;
    let shards = Shards::new(&control, "default", "trellis-fleet", name, clock, Terms::default());
    let fleet = Fleet::new(Parts {
        control: control.clone(),
        shards: shards.clone(),
        reconcilers: vec![reconciler],
        metrics: Metrics::default(),
        clock,
    });
    let (stop, left) = (CancellationToken::new(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    let clusters = Clusters::new(Selection::default(), Overrides::default());
    let told = fleet.clone();
    tasks.spawn(async move { clusters.run(&control, told.records()).await });
    let (running, token, ended) = (fleet.clone(), stop.clone(), left.clone());
    tasks.spawn(async move {
        running.run(&token).await;
        ended.cancel();
    });
    tasks.spawn(async move { shards.run(&left).await });
    Replica { name: name.to_owned(), fleet, stop, tasks }
}

impl Replica {
    fn share(&self) -> usize {
        self.fleet.serving().borrow().len()
    }

    /// Ends it without a word.
    async fn crash(mut self, acting: &Mutex<Acting>) {
        self.tasks.shutdown().await;
        acting.lock().now.retain(|_, replica| *replica != self.name);
    }
}

/// A world with the kinds of ours, and a person in it.
async fn world() -> (World, Site) {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options {
        seed: Some(1),
        clock: Arc::new(TokioClock::starting_at(start)),
        controllers: Controllers::Embedded,
        ..Options::default()
    };
    let lab = Lab::start(options).await.unwrap();
    let site = site_of(&lab, "person");
    for crd in trellis_api::trellis::crds() {
        site.create::<Value>(&DEFINITION, "", &crd).await.unwrap();
    }
    site.create::<Value>(&SPACE, "", &json!({"metadata": {"name": NAMESPACE}})).await.unwrap();
    (World { lab, clock: Clock::from(start) }, site)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

async fn make_cluster(site: &Site, name: &str, annotations: &Value, kubevirt: &Value) {
    let object = json!({
        "metadata": {"name": name, "annotations": annotations}, "spec": {"platform": {"kubevirt": kubevirt}},
    });
    // The kind may have been defined a moment ago.
    for _ in 0..100 {
        if site.create::<Value>(&CLUSTERS, NAMESPACE, &object).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} cannot be made");
}

/// Waits until something is so, and says how long it took.
async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !check().await {
        assert!(began.elapsed() < Duration::from_mins(20), "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

fn kubeconfig(server: &str) -> Value {
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    text.to_string().into()
}

fn secret(name: &str, key: &str, text: &Value) -> Value {
    json!({"metadata": {"name": name}, "stringData": {key: text}})
}

/// The condition that says whether a tenant is served.
async fn served(site: &Site, name: &str) -> (String, String, String) {
    let cluster: Value = site.get(&CLUSTERS, &Key::new(NAMESPACE, name)).await.unwrap();
    let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Served"));
    let part = |name: &str| found.map(|condition| text(condition, name).to_owned()).unwrap_or_default();
    (part("/status"), part("/reason"), part("/message"))
}

#[tokio::test(start_paused = true)]
async fn a_hundred_tenants_are_shared_evenly_and_move_when_a_replica_is_gone() {
    let (world, site) = world().await;
    for number in 0..100 {
        make_cluster(&site, &format!("t{number}"), &json!({}), &json!({})).await;
    }
    let acting = Arc::default();
    let a = noting(&world, "a", &acting);
    let all = |replicas: &[&Replica], acting: &Mutex<Acting>| {
        replicas.iter().map(|replica| replica.share()).sum::<usize>() == 100 && acting.lock().now.len() == 100
    };
    until("one serves all", async || all(&[&a], &acting)).await;
    let b = noting(&world, "b", &acting);
    let even = |replicas: &[&Replica]| replicas.iter().all(|replica| replica.share() >= 35);
    until("two share", async || all(&[&a, &b], &acting) && even(&[&a, &b])).await;
    assert!(acting.lock().begun.values().all(|times| *times <= 2), "who stays is not disturbed");
    // Renewals of leases disturb nobody.
    let begun = acting.lock().begun.clone();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(acting.lock().begun, begun);
    // One crashes: its tenants are taken over when its lease has run out.
    b.crash(&acting).await;
    let took = until("the other takes over", async || all(&[&a], &acting)).await;
    assert!(took > Duration::from_secs(8) && took <= Duration::from_secs(20), "{took:?}");
    // One is cut off: it ends what it does before another begins, which the notes check.
    let c = noting(&world, "c", &acting);
    until("two share again", async || all(&[&a, &c], &acting) && even(&[&a, &c])).await;
    let of = Matching { user: "a".to_owned(), ..Matching::default() };
    world.lab.faults().add(of, When::Always, Fault::Fail(503));
    until("it has stopped", async || a.share() == 0).await;
    until("the other takes over", async || all(&[&c], &acting)).await;
    world.lab.faults().clear();
    until("it is back", async || all(&[&a, &c], &acting) && even(&[&a, &c])).await;
    // One leaves: its share is taken at once.
    a.stop.cancel();
    let took = until("the other takes over", async || all(&[&c], &acting)).await;
    assert!(took <= Duration::from_secs(6), "{took:?}");
    // A tenant that goes is let go.
    let gone: Value = site.get(&CLUSTERS, &Key::new(NAMESPACE, "t7")).await.unwrap();
    let how = trellis_runtime::client::Delete::uid(text(&gone, "/metadata/uid"));
    site.delete(&CLUSTERS, &Key::new(NAMESPACE, "t7"), &how).await.unwrap();
    until("it is let go", async || c.share() == 99 && acting.lock().now.len() == 99).await;
    assert_eq!(acting.lock().twice, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_tenant_is_told_and_hurts_no_other() {
    let (world, site) = world().await;
    let credentials = json!({"credentials": {"kind": "Secret", "name": "infra"}});
    make_cluster(&site, "good", &json!({}), &json!({})).await;
    make_cluster(&site, "odd", &json!({"trellis.dev/family": "capi"}), &json!({})).await;
    make_cluster(&site, "apart", &json!({}), &credentials).await;
    let acting: Arc<Mutex<Acting>> = Arc::default();
    let _replica = noting(&world, "a", &acting);
    let acts = |name: &str| acting.lock().now.contains_key(&format!("{NAMESPACE}/{name}"));
    let begun = |name: &str| acting.lock().begun[&format!("{NAMESPACE}/{name}")];
    until("the good one is served", async || acts("good")).await;
    until("it is said", async || served(&site, "good").await.0 == "True").await;
    assert!(served(&site, "good").await.2.contains("Secret fleet/good-kubeconfig has no kubeconfig"));
    until("the odd one is told", async || served(&site, "odd").await.1 == "BadFamily").await;
    until("the lack is told", async || served(&site, "apart").await.1 == "BadCredentials").await;
    assert!(!acts("odd") && !acts("apart"));
    let told = async |name: &str, reason: &str| {
        let events: Vec<Value> = site.list(&EVENT, &Selection::namespace(NAMESPACE)).await.unwrap();
        events.iter().any(|event| {
            text(event, "/involvedObject/name") == name
                && text(event, "/reason") == reason
                && text(event, "/type") == "Warning"
        })
    };
    until("there are Events", async || {
        told("odd", "BadFamily").await && told("apart", "BadCredentials").await
    })
    .await;
    // A Secret that is of no use is told without what is in it; one that is of use begins the tenant.
    site.create::<Value>(&SECRET, NAMESPACE, &secret("infra", "kubeconfig", &"hunter2 {".into()))
        .await
        .unwrap();
    until("it is told", async || served(&site, "apart").await.2.contains("infra is no kubeconfig")).await;
    assert!(!served(&site, "apart").await.2.contains("hunter2"));
    let infra = Key::new(NAMESPACE, "infra");
    let good = secret("infra", "kubeconfig", &kubeconfig("http://127.0.0.1:1"));
    site.merge_patch::<Value>(&SECRET, &infra, &good).await.unwrap();
    until("it is served", async || acts("apart") && served(&site, "apart").await.0 == "True").await;
    // The family is mended.
    let family = json!({"metadata": {"annotations": {"trellis.dev/family": "openshift"}}});
    site.merge_patch::<Value>(&CLUSTERS, &Key::new(NAMESPACE, "odd"), &family).await.unwrap();
    until("it is served", async || acts("odd")).await;
    // The tenant's own kubeconfig comes: it begins anew with Nodes. That it rotates disturbs nothing.
    assert_eq!((begun("good"), acting.lock().with_nodes["fleet/good"]), (1, false));
    let own = secret("good-kubeconfig", "value", &kubeconfig("http://127.0.0.1:1"));
    site.create::<Value>(&SECRET, NAMESPACE, &own).await.unwrap();
    until("it has Nodes", async || acting.lock().with_nodes["fleet/good"] && acts("good")).await;
    let rotated = secret("good-kubeconfig", "value", &kubeconfig("http://127.0.0.1:2"));
    site.merge_patch::<Value>(&SECRET, &Key::new(NAMESPACE, "good-kubeconfig"), &rotated).await.unwrap();
    until("it is said", async || served(&site, "good").await.2.contains("new credentials are of no use"))
        .await;
    assert_eq!((begun("good"), begun("apart")), (2, 1));
    // A spec that changes begins it anew.
    let namespace = json!({"spec": {"platform": {"kubevirt": {"namespace": "elsewhere"}}}});
    site.merge_patch::<Value>(&CLUSTERS, &Key::new(NAMESPACE, "good"), &namespace).await.unwrap();
    until("it is begun anew", async || begun("good") == 3 && acts("good")).await;
    assert_eq!((begun("apart"), begun("odd")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_of_which_nothing_can_be_known_is_not_said_to_be_served() {
    let (world, site) = world().await;
    // There is no KubeVirt where its VMs are to be.
    make_cluster(&site, "blue", &json!({}), &json!({})).await;
    let replica = replica(&world, "a", Arc::new(Machines::default()));
    until("it is said", async || served(&site, "blue").await.1 == "NotSynced").await;
    let (status, _, message) = served(&site, "blue").await;
    assert_eq!(status, "False");
    assert!(
        message.contains("virtualmachines.kubevirt.io of the infra site are not known yet: "),
        "{message}"
    );
    let why = replica.fleet.not_ready().unwrap_err();
    assert!(why.contains("fleet/blue: virtualmachines.kubevirt.io"), "{why}");
}
