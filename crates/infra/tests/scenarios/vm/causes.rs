//! What keeps a machine from going on: each cause removed by itself.

use serde_json::json;
use trellis_infra::kinds::{EVENT, NODE, POD, PVC, RESOURCE_QUOTA, SECRET, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::hosts::Host;

use super::{add_volume, change, machine, until_phase, until_shown};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(no_host_fits),
        scenario!(a_claim_is_missing),
        scenario!(a_volume_is_missing),
        scenario!(a_claim_is_not_bound),
        scenario!(a_secret_is_missing),
        scenario!(a_quota_is_used_up),
        scenario!(the_host_is_gone).with(|_| {}),
    ]
}

async fn no_host_fits(cx: Cx) -> Result {
    let mut one = machine("one", "Always");
    one.set("/spec/template/spec/nodeSelector", json!({"no": "where"}));
    cx.create(&VM, one).await?;
    let vm = until_shown(&cx, "one", "ErrorUnschedulable").await?;
    assert_eq!(vm.condition("PodScheduled")["reason"], "Unschedulable");
    let vmi = cx.client.get(&VMI, &cx.key("one")).await?.expect("it waits");
    assert_eq!(vmi.text("/status/phase"), "Scheduling");
    assert_eq!(vmi.text("/status/nodeName"), "");
    // What never came to a host is soon gone.
    cx.client.delete(&VM, &cx.key("one"), "").await?;
    cx.until_gone(&VM, &cx.key("one")).await
}

async fn a_claim_is_missing(cx: Cx) -> Result {
    let mut one = machine("one", "Always");
    add_volume(&mut one, "data", &json!({"persistentVolumeClaim": {"claimName": "data"}}));
    cx.create(&VM, one).await?;
    until_shown(&cx, "one", "ErrorPvcNotFound").await?;
    let vmi = cx.client.get(&VMI, &cx.key("one")).await?.expect("it waits");
    assert_eq!(vmi.text("/status/phase"), "Pending");
    assert_eq!(vmi.condition("Synchronized")["reason"], "FailedPvcNotFound");
    let message = format!("PVC {}/data does not exist, waiting for it to appear", cx.namespace);
    let scheduled = vmi.condition("PodScheduled");
    assert_eq!(
        (scheduled.text("/status"), scheduled.text("/reason"), scheduled.text("/message")),
        ("False", "Unschedulable", message.as_str())
    );
    let event = cx.until_event("one", "FailedPvcNotFound").await?;
    assert_eq!((event.text("/type"), event.text("/message")), ("Normal", message.as_str()));
    assert!(cx.client.cache(&POD).list(&cx.namespace).is_empty());
    cx.create(&PVC, claim("data", None)).await?;
    until_shown(&cx, "one", "Running").await?;
    let vmi = cx.until(&VMI, &cx.key("one"), |vmi| vmi.condition_holds("Ready")).await?;
    assert!(vmi.condition("PodScheduled").is_null() && vmi.condition("Synchronized")["status"] != "False");
    Ok(())
}

async fn a_volume_is_missing(cx: Cx) -> Result {
    let mut one = machine("one", "Always");
    add_volume(&mut one, "data", &json!({"dataVolume": {"name": "data"}}));
    cx.create(&VM, one).await?;
    until_shown(&cx, "one", "ErrorPvcNotFound").await?;
    assert!(cx.client.cache(&POD).list(&cx.namespace).is_empty());
    Ok(())
}

async fn a_claim_is_not_bound(cx: Cx) -> Result {
    cx.create(&PVC, claim("data", Some("there-is-no-such-class"))).await?;
    let mut one = machine("one", "Always");
    add_volume(&mut one, "data", &json!({"persistentVolumeClaim": {"claimName": "data"}}));
    cx.create(&VM, one).await?;
    until_phase(&cx, "one", "Scheduling").await?;
    let vm = until_shown(&cx, "one", "ErrorUnschedulable").await?;
    assert!(!vm.condition_holds("Ready"));
    Ok(())
}

async fn a_secret_is_missing(cx: Cx) -> Result {
    let mut one = machine("one", "Always");
    add_volume(&mut one, "init", &json!({"cloudInitNoCloud": {"secretRef": {"name": "init"}}}));
    cx.create(&VM, one).await?;
    let vmi = until_phase(&cx, "one", "Scheduling").await?;
    let pods = cx.client.cache(&POD).controlled_by(vmi.uid());
    cx.until_event(pods[0].name(), "FailedMount").await?;
    let vmi = cx.client.get(&VMI, &cx.key("one")).await?.expect("it waits");
    assert_eq!(vmi.text("/status/phase"), "Scheduling");
    cx.create(&SECRET, json!({"metadata": {"name": "init"}, "stringData": {"userdata": "#cloud-config"}}))
        .await?;
    let vmi = until_phase(&cx, "one", "Running").await?;
    let plan = super::below(&cx, &vmi).plan();
    assert_eq!(plan.drive.label, "cidata");
    assert_eq!(plan.drive.files["user-data"], b"#cloud-config");
    Ok(())
}

async fn a_quota_is_used_up(cx: Cx) -> Result {
    cx.create(&RESOURCE_QUOTA, json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})).await?;
    cx.until(&RESOURCE_QUOTA, &cx.key("q"), |quota| quota.at("/status/hard").is_object()).await?;
    cx.create(&VM, machine("one", "Always")).await?;
    until_phase(&cx, "one", "Running").await?;
    let mut history = cx.follow(&VMI, &cx.key("two")).await;
    cx.create(&VM, machine("two", "Always")).await?;
    let refused = |vmi: &serde_json::Value| vmi.condition("Synchronized")["reason"] == "FailedCreate";
    let vmi = cx.until(&VMI, &cx.key("two"), refused).await?;
    assert!(vmi.condition("Synchronized").text("/message").contains("exceeded quota: q"), "{vmi}");
    // Each attempt names another pod, and the wait for the next grows all the same.
    let events = || {
        let all = cx.client.cache(&EVENT).list(&cx.namespace);
        all.into_iter().filter(|event| event["reason"] == "FailedCreate").collect::<Vec<_>>()
    };
    let told = |event: &serde_json::Value| event.number("/count").unwrap_or_default();
    let all = cx.client.cache(&EVENT);
    let mut changes = all.changes();
    while events().iter().map(|event| told(event)).sum::<i64>() < 14 {
        tokio::time::timeout(crate::context::PATIENCE, changes.recv()).await?;
    }
    let writes = history.states().len();
    assert!(writes < 6, "{writes} writes while nothing happens");
    let events = events();
    assert!(events.len() <= 10, "{} events of one kind", events.len());
    let words =
        |event: &std::sync::Arc<serde_json::Value>| event.text("/message").starts_with("(combined from");
    assert!(events.iter().any(words), "similar events are one");
    cx.client.delete(&VM, &cx.key("one"), "").await?;
    until_phase(&cx, "two", "Running").await?;
    Ok(())
}

async fn the_host_is_gone(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    let first = cx.until(&VMI, &key, |vmi| vmi.condition_holds("Ready")).await?;
    let node = first.text("/status/nodeName").to_owned();
    let world = &cx.infra.context().world;
    world.hosts.set(&node, Host { powered: false, connected: true });
    cx.until(&NODE, &Key::cluster(&node), |node| node.condition("Ready")["status"] == "Unknown").await?;
    // Nobody is there to say that it does not run any more.
    let vmi = cx.client.get(&VMI, &key).await?.expect("it is there");
    assert_eq!((vmi.uid(), vmi.text("/status/phase")), (first.uid(), "Running"));
    change(&cx, "one", &json!({"runStrategy": "RerunOnFailure"})).await?;
    world.hosts.set(&node, Host::UP);
    cx.until(&VMI, &key, |vmi| vmi.uid() != first.uid() && vmi.text("/status/phase") == "Running").await?;
    Ok(())
}

fn claim(name: &str, class: Option<&str>) -> serde_json::Value {
    let mut claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}
