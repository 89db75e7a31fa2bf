//! Two runs with the same seed are the same, to the last uid; with another seed they differ.
//!
//! The canonical log has for each object and moment of virtual time what it was in the end, and everything that was
//! written into it on the way, field by field. In which order components that act in the same moment get their turn is
//! not part of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use trellis_infra::client::{Change, Client, Identity};
use trellis_infra::guests::Programs;
use trellis_infra::kinds::{self, DATA_VOLUME, DEPLOYMENT, Kind, MIGRATION, NAMESPACE, SERVICE, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::service::install::SERVICES;
use trellis_infra::stages::Profile;
use trellis_infra::world::World;
use trellis_infra::world::hosts::Host;
use trellis_infra::{Infra, Settings};
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};

/// What became of an object in a moment.
#[derive(Debug, Default, PartialEq)]
struct Moment {
    /// What it was in the end.
    last: String,
    /// Every field that was written, and what into it.
    written: BTreeSet<String>,
}

/// The log: when, what object, and what became of it.
type Log = BTreeMap<(Duration, String), Moment>;

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
            hosts: 3,
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
            &kinds::MIGRATION,
            &kinds::SERVICE,
            &kinds::DEPLOYMENT,
            &kinds::REPLICA_SET,
        ] {
            let mut changes = client.cache(kind).changes();
            let log = Arc::clone(&log);
            readers.spawn(async move {
                while let Some(change) = changes.recv().await {
                    let object = change.object();
                    let what = format!("{} {}", object.text("/kind"), Key::of(object));
                    let mut log = log.lock();
                    let moment = log.entry((began.elapsed(), what)).or_default();
                    moment.last =
                        change.after.as_deref().map_or("gone".to_owned(), |now| plain(now).to_string());
                    moment.written.extend(written(&change));
                }
            });
        }
        live(&client, &infra.context().world).await;
        std::mem::take(&mut *log.lock())
    })
}

/// What happens in the world: machines come, are imported for, given disks, moved, lose their host and go.
async fn live(client: &Client, world: &World) {
    client.create(&NAMESPACE, json!({"metadata": {"name": "a"}})).await.unwrap();
    for name in ["one", "two", "three"] {
        client.create(&VM, machine(name)).await.unwrap();
    }
    client.create(&VM, mover()).await.unwrap();
    let web = json!({"metadata": {"namespace": "a", "name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
        },
    }});
    client.create(&DEPLOYMENT, web).await.unwrap();
    let service = json!({"metadata": {"namespace": "a", "name": "web"}, "spec": {
        "type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}],
    }});
    client.create(&SERVICE, service).await.unwrap();
    for (name, source) in
        [("imported", json!({"registry": {"url": "docker://images/fedora"}})), ("more", json!({"blank": {}}))]
    {
        let storage = json!({"resources": {"requests": {"storage": "2Gi"}}});
        let volume = json!({"metadata": {"namespace": "a", "name": name}, "spec": {"source": source, "storage": storage}});
        client.create(&DATA_VOLUME, volume).await.unwrap();
    }
    for name in ["one", "two", "three", "mover"] {
        until(client, &VMI, name, |vmi| vmi.is_some_and(|vmi| vmi.text("/status/phase") == "Running")).await;
    }
    until(client, &SERVICE, "web", |one| {
        one.is_some_and(|one| !one.list("/status/loadBalancer/ingress").is_empty())
    })
    .await;
    let add = json!({
        "name": "more", "disk": {"disk": {"bus": "scsi"}}, "volumeSource": {"dataVolume": {"name": "more"}},
    });
    let path = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/one/addvolume";
    // It answers with nothing, which is no JSON.
    let _ = client.send(http::Method::PUT, path, Some(("application/json", &add))).await;
    let plugged = |vmi: &Value| {
        vmi.list("/status/volumeStatus").iter().any(|one| one["name"] == "more" && one["phase"] == "Ready")
    };
    until(client, &VMI, "one", |vmi| vmi.is_some_and(plugged)).await;
    let migration = json!({"metadata": {"namespace": "a", "name": "move"}, "spec": {"vmiName": "mover"}});
    client.create(&MIGRATION, migration).await.unwrap();
    until(client, &MIGRATION, "move", |one| one.is_some_and(|one| one.text("/status/phase") == "Succeeded"))
        .await;
    client.delete(&VM, &Key::new("a", "two"), "").await.unwrap();
    client.merge(&VM, &Key::new("a", "three"), &json!({"spec": {"runStrategy": "Halted"}})).await.unwrap();
    until(client, &VMI, "two", |vmi| vmi.is_none()).await;
    until(client, &VMI, "three", |vmi| vmi.is_none()).await;
    let lost = client.cache(&VMI).get(&Key::new("a", "one")).unwrap().text("/status/nodeName").to_owned();
    world.hosts.set(&lost, Host { powered: false, ..Host::UP });
    tokio::time::sleep(Duration::from_mins(10)).await;
    world.hosts.set(&lost, Host::UP);
    tokio::time::sleep(Duration::from_mins(2)).await;
}

async fn until(client: &Client, kind: &'static Kind, name: &str, wanted: impl Fn(Option<&Value>) -> bool) {
    let cache = client.cache(kind);
    let mut changes = cache.changes();
    let key = Key::new("a", name);
    let waited = tokio::time::timeout(Duration::from_mins(10), async {
        while !wanted(cache.get(&key).as_deref()) {
            changes.recv().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{name} is not as wanted: {:?}", cache.get(&key)));
}

/// A machine that can be moved.
fn mover() -> Value {
    let mut mover = machine("mover");
    mover.unset("/spec/dataVolumeTemplates");
    mover.set(
        "/spec/template/spec/volumes",
        json!([{"name": "root", "containerDisk": {"image": "registry.example/fedora:42"}}]),
    );
    mover.set("/spec/template/spec/domain/devices", json!({
        "disks": [{"name": "root", "disk": {"bus": "virtio"}}], "interfaces": [{"name": "default", "masquerade": {}}],
    }));
    mover.set("/spec/template/spec/networks", json!([{"name": "default", "pod": {}}]));
    mover
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

/// An object without what counts requests or turns: versions, the bookkeeping of managers, and the order conditions came
/// in.
fn plain(object: &Value) -> Value {
    let mut plain = object.clone();
    for pointer in ["/metadata/resourceVersion", "/metadata/managedFields", "/involvedObject/resourceVersion"]
    {
        plain.unset(pointer);
    }
    if let Some(conditions) = plain.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_key(|condition| condition.text("/type").to_owned());
    }
    plain
}

/// The fields of an object and what is in them; what is in lists is told by its type or name, where it has one.
fn fields(place: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(parts) => {
            for (name, part) in parts {
                fields(&format!("{place}/{name}"), part, found);
            }
        }
        Value::Array(parts) => {
            for (number, part) in parts.iter().enumerate() {
                let name = ["/type", "/name", "/key"]
                    .into_iter()
                    .map(|key| part.text(key))
                    .find(|text| !text.is_empty());
                let name = name.map_or_else(|| number.to_string(), ToOwned::to_owned);
                fields(&format!("{place}/{name}"), part, found);
            }
        }
        leaf => {
            found.insert(place.to_owned(), leaf.to_string());
        }
    }
}

/// The fields a change wrote, and what into them; those it took away too.
fn written(change: &Change) -> BTreeSet<String> {
    let all = |object: &Option<Arc<Value>>| {
        let mut found = BTreeMap::new();
        if let Some(object) = object {
            fields("", &plain(object), &mut found);
        }
        found
    };
    let (before, after) = (all(&change.before), all(&change.after));
    let new = after.iter().filter(|(place, text)| before.get(*place) != Some(text));
    let gone = before.keys().filter(|place| !after.contains_key(*place));
    new.map(|(place, text)| format!("{place} = {text}"))
        .chain(gone.map(|place| format!("{place} is gone")))
        .collect()
}

#[test]
fn a_seed_is_a_history() {
    let (one, same) = (log_of(7), log_of(7));
    let only = |here: &Log, there: &Log| -> Vec<String> {
        let differs = here.iter().filter(|(what, now)| there.get(*what) != Some(now));
        differs.map(|((when, what), now)| format!("{when:?} {what} {now:?}")).collect()
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
