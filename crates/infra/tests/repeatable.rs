//! Two runs with the same seed are the same, to the last uid; with another seed they differ.
//!
//! The canonical log has one line for each object and moment: what became of it in that moment of virtual time. In which
//! order components that act in the same moment get their turn is not part of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails the test")]

use std::collections::BTreeMap;
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

/// The log: when, what object, and what it was at the end of that moment.
type Log = BTreeMap<(Duration, String), String>;

/// Runs a small world and logs everything that happens to its objects.
fn log_of(seed: u64) -> Log {
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
        let log = Arc::new(Mutex::new(Log::new()));
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
                    let (what, now) = told(&change);
                    log.lock().insert((began.elapsed(), what), now);
                }
            });
        }
        live(&client).await;
        std::mem::take(&mut *log.lock())
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

/// An object, and what it is now without what counts requests or turns: versions, the bookkeeping of managers, and the
/// order conditions came in.
fn told(change: &Change) -> (String, String) {
    let object = change.object();
    let what = format!("{} {}", object.text("/kind"), Key::of(object));
    let Some(now) = &change.after else { return (what, "gone".to_owned()) };
    let mut plain = (**now).clone();
    for pointer in ["/metadata/resourceVersion", "/metadata/managedFields", "/involvedObject/resourceVersion"]
    {
        plain.unset(pointer);
    }
    if let Some(conditions) = plain.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_key(|condition| condition.text("/type").to_owned());
    }
    (what, plain.to_string())
}

#[test]
fn a_seed_is_a_history() {
    let (one, same) = (log_of(7), log_of(7));
    let only = |here: &Log, there: &Log| -> Vec<String> {
        let differs = here.iter().filter(|(what, now)| there.get(*what) != Some(now));
        differs.map(|((when, what), now)| format!("{when:?} {what} {now}")).collect()
    };
    let (left, right) = (only(&one, &same), only(&same, &one));
    assert!(
        left.is_empty() && right.is_empty(),
        "only in one:\n{}\n\nonly in the other:\n{}",
        left.join("\n"),
        right.join("\n")
    );
    assert!(one.len() > 100, "too little happened: {} lines", one.len());
    assert_ne!(one, log_of(8));
}
