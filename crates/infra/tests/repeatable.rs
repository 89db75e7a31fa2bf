//! Two runs with the same seed are the same, to the last uid; with another seed they differ.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails the test")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use trellis_infra::client::{Change, Client, Identity};
use trellis_infra::guests::Programs;
use trellis_infra::kinds::{self, NAMESPACE, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::service::install::SERVICES;
use trellis_infra::stages::Profile;
use trellis_infra::{Infra, Settings};
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};

/// A line of the log: when, and what.
type Line = (Duration, String);

/// Runs a small world and logs everything that happens to its objects, sorted within a moment.
fn log_of(seed: u64) -> Vec<Line> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Arc::new(TokioClock::starting_at(start));
        let lab = Lab::start(Options { seed: Some(seed), clock, ..Options::default() }).await.unwrap();
        let settings = Settings {
            seed,
            virtual_start: Some(start),
            profile: Profile::Realistic,
            hosts: 2,
            ..Settings::default()
        };
        let kube = kube::Client::new(lab.service(), "default");
        let mut infra = Infra::new(kube, settings, Programs::default());
        for (namespace, name) in SERVICES {
            let service = infra.service();
            lab.mount(namespace, name, move |stream| service.clone().connection(stream));
        }
        infra.start_mounted().await.unwrap();
        let client = infra.context().client(Identity { program: "person", user: "person" });
        let log = Arc::new(Mutex::new(Vec::new()));
        let began = tokio::time::Instant::now();
        let mut readers = tokio::task::JoinSet::new();
        for kind in [
            &kinds::VM,
            &kinds::VMI,
            &kinds::POD,
            &kinds::EVENT,
            &kinds::PVC,
            &kinds::DATA_VOLUME,
            &kinds::NODE,
        ] {
            let mut changes = client.cache(kind).changes();
            let log = Arc::clone(&log);
            readers.spawn(async move {
                while let Some(change) = changes.recv().await {
                    log.lock().push((began.elapsed(), told(&change)));
                }
            });
        }
        live(&client).await;
        let mut log = std::mem::take(&mut *log.lock());
        log.sort();
        log
    })
}

/// What happens in the world: machines come, one goes, one is started anew.
async fn live(client: &Client) {
    client.create(&NAMESPACE, json!({"metadata": {"name": "a"}})).await.unwrap();
    for name in ["one", "two", "three"] {
        client.create(&VM, machine(name)).await.unwrap();
    }
    for name in ["one", "two", "three"] {
        until(client, name, |vmi| vmi.is_some_and(|vmi| vmi.text("/status/phase") == "Running")).await;
    }
    client.delete(&VM, &Key::new("a", "two"), "").await.unwrap();
    client.merge(&VM, &Key::new("a", "three"), &json!({"spec": {"runStrategy": "Halted"}})).await.unwrap();
    until(client, "two", |vmi| vmi.is_none()).await;
    until(client, "three", |vmi| vmi.is_none()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
}

async fn until(client: &Client, name: &str, wanted: impl Fn(Option<&Value>) -> bool) {
    let cache = client.cache(&VMI);
    let mut changes = cache.changes();
    let key = Key::new("a", name);
    let waited = tokio::time::timeout(Duration::from_mins(10), async {
        while !wanted(cache.get(&key).as_deref()) {
            changes.recv().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{name} is not as wanted: {:?}", cache.get(&key)));
}

fn machine(name: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name},
        "spec": {
            "runStrategy": "Always",
            "dataVolumeTemplates": [{
                "metadata": {"name": format!("{name}-data")},
                "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "1Gi"}}}},
            }],
            "template": {"spec": {
                "domain": {
                    "devices": {"disks": [
                        {"name": "root", "disk": {"bus": "virtio"}}, {"name": "data", "disk": {"bus": "virtio"}},
                    ]},
                    "memory": {"guest": "1Gi"},
                },
                "volumes": [
                    {"name": "root", "containerDisk": {"image": "registry.example/fedora:42"}},
                    {"name": "data", "dataVolume": {"name": format!("{name}-data")}},
                ],
            }},
        },
    })
}

/// A change without what counts requests: versions and the bookkeeping of managers.
fn told(change: &Change) -> String {
    let object = change.object();
    let mut told = String::new();
    let verb = match (&change.before, &change.after) {
        (None, _) => "new",
        (_, None) => "gone",
        _ => "changed",
    };
    let mut plain = (**object).clone();
    plain.unset("/metadata/resourceVersion");
    plain.unset("/metadata/managedFields");
    plain.unset("/involvedObject/resourceVersion");
    write!(told, "{verb} {} {} {plain}", object.text("/kind"), Key::of(object)).unwrap();
    told
}

#[test]
fn a_seed_is_a_history() {
    let (one, same) = (log_of(7), log_of(7));
    for (place, (left, right)) in one.iter().zip(&same).enumerate() {
        assert_eq!(left, right, "line {place} differs");
    }
    assert_eq!(one.len(), same.len());
    assert!(one.len() > 100, "too little happened: {} lines", one.len());
    assert_ne!(one, log_of(8));
}
