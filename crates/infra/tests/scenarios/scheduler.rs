//! The scheduler: where pods go, and what is said of those that go nowhere.

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_infra::kinds::{NODE, POD, PRIORITY_CLASS, PV, PVC, STORAGE_CLASS};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, Scenario};
use crate::hosts::pod;
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(what_exceeds_every_node_waits),
        scenario!(a_pod_beyond_all_numbers_stops_nobody),
        scenario!(room_lets_a_waiting_pod_in),
        scenario!(nodes_are_refused_for_different_reasons),
        scenario!(host_ports_are_used_once),
        scenario!(anti_affinity_works_both_ways),
        scenario!(affinity_waits_for_the_other),
        scenario!(pods_are_spread_over_zones),
        scenario!(a_missing_claim_holds_a_pod_up),
        scenario!(an_unbound_claim_holds_a_pod_up),
        scenario!(a_volume_is_wanted_where_its_pod_will_be),
        scenario!(a_pod_goes_where_its_volume_is),
        scenario!(the_more_important_pod_takes_the_place),
        scenario!(a_gate_holds_a_pod_up),
        scenario!(pods_of_other_schedulers_are_left_alone),
        scenario!(many_pods_find_their_nodes).with(|settings| settings.hosts = 300),
    ]
}

/// What comes after the reasons where no preemption helps on any of three nodes.
const HOPELESS: &str = "no new claims to deallocate, preemption: 0/3 nodes are available: \
                        3 Preemption is not helpful for scheduling.";

fn with(name: &str, spec: &Value) -> Value {
    let mut pod = pod(name);
    merge(&mut pod["spec"], spec);
    pod
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn wanting(name: &str, cpu: &str) -> Value {
    with(
        name,
        &json!({"containers": [{
            "name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}},
        }]}),
    )
}

async fn until_running(cx: &Cx, name: &str) -> Result<Arc<Value>> {
    cx.until(&POD, &cx.key(name), |pod| pod.text("/status/phase") == "Running").await
}

/// Waits until it is said of a pod that it fits nowhere, in these words, by condition and by event.
async fn until_refused(cx: &Cx, name: &str, message: &str) -> Result {
    let wanted = |pod: &Value| {
        let condition = pod.condition("PodScheduled");
        condition["reason"] == "Unschedulable"
            && condition["status"] == "False"
            && condition["message"] == message
    };
    cx.until(&POD, &cx.key(name), wanted).await?;
    let cache = cx.client.cache(&trellis_infra::kinds::EVENT);
    let mut changes = cache.changes();
    while !cache.list(&cx.namespace).iter().any(|event| {
        event.text("/involvedObject/name") == name
            && event.text("/reason") == "FailedScheduling"
            && event.text("/message") == message
    }) {
        changes.recv().await;
    }
    Ok(())
}

async fn what_exceeds_every_node_waits(cx: Cx) -> Result {
    cx.create(&POD, wanting("a", "64")).await?;
    until_refused(&cx, "a", &format!("0/3 nodes are available: 3 Insufficient cpu. {HOPELESS}")).await?;
    let extended = json!({"containers": [{
        "name": "main", "image": "registry.example/app:1",
        "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
    }]});
    cx.create(&POD, with("b", &extended)).await?;
    until_refused(&cx, "b", &format!("0/3 nodes are available: 3 Insufficient example.com/gpu. {HOPELESS}"))
        .await
}

async fn a_pod_beyond_all_numbers_stops_nobody(cx: Cx) -> Result {
    let huge = |name: &str| {
        json!({
            "name": name, "image": "registry.example/app:1",
            "resources": {"requests": {"memory": "7E", "cpu": "9223372036854775807"}},
        })
    };
    cx.create(&POD, with("a", &json!({"containers": [huge("one"), huge("two")]}))).await?;
    let why = format!("0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory. {HOPELESS}");
    until_refused(&cx, "a", &why).await?;
    cx.create(&POD, wanting("b", "1")).await?;
    until_running(&cx, "b").await?;
    Ok(())
}

async fn room_lets_a_waiting_pod_in(cx: Cx) -> Result {
    for name in ["a", "b", "c"] {
        cx.create(&POD, wanting(name, "20")).await?;
        until_running(&cx, name).await?;
    }
    cx.create(&POD, wanting("d", "20")).await?;
    until_refused(
        &cx,
        "d",
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are \
         available: 3 No preemption victims found for incoming pod.",
    )
    .await?;
    let place = until_running(&cx, "b").await?.text("/spec/nodeName").to_owned();
    cx.client.delete(&POD, &cx.key("b"), "").await?;
    assert_eq!(until_running(&cx, "d").await?.text("/spec/nodeName"), place);
    Ok(())
}

async fn nodes_are_refused_for_different_reasons(cx: Cx) -> Result {
    let nodes: Vec<Key> = (0..3).map(|index| Key::cluster(&trellis_infra::hosts::name_of(index))).collect();
    cx.create(&POD, with("a", &json!({"nodeSelector": {"nothing": "like-it"}}))).await?;
    let words = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    until_refused(&cx, "a", &format!("{words} {HOPELESS}")).await?;
    let taint = json!({"spec": {"taints": [{"key": "mine", "value": "alone", "effect": "NoSchedule"}]}});
    cx.client.merge(&NODE, &nodes[0], &taint).await?;
    cx.client.merge(&NODE, &nodes[1], &json!({"spec": {"unschedulable": true}})).await?;
    cx.until(&NODE, &nodes[1], |node| {
        node.list("/spec/taints").iter().any(|taint| taint["key"] == "node.kubernetes.io/unschedulable")
    })
    .await?;
    cx.create(&POD, wanting("b", "33")).await?;
    let words = "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were \
                 unschedulable.";
    let refused = until_refused(&cx, "b", &format!("{words} {HOPELESS}")).await;
    let tolerant = json!({
        "tolerations": [{"key": "mine", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/hostname": nodes[0].name},
    });
    cx.create(&POD, with("c", &tolerant)).await?;
    let tolerated = until_running(&cx, "c").await;
    cx.client.merge(&NODE, &nodes[0], &json!({"spec": {"taints": null}})).await?;
    cx.client.merge(&NODE, &nodes[1], &json!({"spec": {"unschedulable": null}})).await?;
    cx.until(&NODE, &nodes[1], |node| node.list("/spec/taints").is_empty()).await?;
    tolerated?;
    refused
}

async fn host_ports_are_used_once(cx: Cx) -> Result {
    let ports = json!({"containers": [{
        "name": "main", "image": "registry.example/app:1", "ports": [{"containerPort": 80, "hostPort": 8080}],
    }]});
    for name in ["a", "b", "c"] {
        cx.create(&POD, with(name, &ports)).await?;
        until_running(&cx, name).await?;
    }
    cx.create(&POD, with("d", &ports)).await?;
    until_refused(
        &cx,
        "d",
        "0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports. no new claims to \
         deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
    )
    .await
}

fn labelled(mut pod: Value) -> Value {
    pod.set_label("app", "x");
    pod
}

fn terms(kind: &str, topology: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": topology},
    ]}}})
}

async fn anti_affinity_works_both_ways(cx: Cx) -> Result {
    let apart = terms("podAntiAffinity", "kubernetes.io/hostname");
    let mut places = std::collections::BTreeSet::new();
    for name in ["a", "b", "c"] {
        cx.create(&POD, labelled(with(name, &apart))).await?;
        places.insert(until_running(&cx, name).await?.text("/spec/nodeName").to_owned());
    }
    assert_eq!(places.len(), 3);
    let after = "no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found \
                 for incoming pod.";
    cx.create(&POD, with("d", &apart)).await?;
    let words = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.";
    until_refused(&cx, "d", &format!("{words} {after}")).await?;
    cx.create(&POD, labelled(pod("e"))).await?;
    let words = "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.";
    until_refused(&cx, "e", &format!("{words} {after}")).await
}

async fn affinity_waits_for_the_other(cx: Cx) -> Result {
    cx.create(&POD, with("a", &terms("podAffinity", "topology.kubernetes.io/zone"))).await?;
    let words = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.";
    until_refused(&cx, "a", &format!("{words} {HOPELESS}")).await?;
    cx.create(&POD, labelled(pod("b"))).await?;
    let b = until_running(&cx, "b").await?;
    let a = until_running(&cx, "a").await?;
    assert_eq!(a.text("/spec/nodeName"), b.text("/spec/nodeName"));
    Ok(())
}

async fn pods_are_spread_over_zones(cx: Cx) -> Result {
    let spread = |domains: Option<i64>| {
        let mut constraint = json!({
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        });
        if let Some(domains) = domains {
            constraint["minDomains"] = domains.into();
        }
        json!({"topologySpreadConstraints": [constraint]})
    };
    let mut places = std::collections::BTreeMap::new();
    for index in 0..6 {
        let name = format!("p{index}");
        cx.create(&POD, labelled(with(&name, &spread(None)))).await?;
        let pod = until_running(&cx, &name).await?;
        *places.entry(pod.text("/spec/nodeName").to_owned()).or_insert(0) += 1;
    }
    assert_eq!(places.into_values().collect::<Vec<_>>(), [2, 2, 2]);
    cx.create(&POD, labelled(with("q", &spread(Some(4))))).await?;
    until_refused(
        &cx,
        "q",
        "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints. no new claims to \
         deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
    )
    .await
}

fn mounting(name: &str, claim: &str) -> Value {
    with(name, &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

async fn a_missing_claim_holds_a_pod_up(cx: Cx) -> Result {
    cx.create(&POD, mounting("a", "c")).await?;
    let words = "0/3 nodes are available: persistentvolumeclaim \"c\" not found.";
    until_refused(&cx, "a", &format!("{words} {HOPELESS}")).await
}

async fn an_unbound_claim_holds_a_pod_up(cx: Cx) -> Result {
    cx.create(&PVC, claim("c", "no-such-class")).await?;
    cx.create(&POD, mounting("a", "c")).await?;
    let words = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    until_refused(&cx, "a", &format!("{words} {HOPELESS}")).await
}

/// Makes a volume on a host for a claim, as somebody who makes volumes would, and binds them.
async fn make_volume(cx: &Cx, claim: &str, class: &str, host: &str) -> Result {
    let name = format!("{}-{claim}", cx.namespace);
    let bound = cx.until(&PVC, &cx.key(claim), |_| true).await?;
    let volume = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": cx.namespace, "name": claim, "uid": bound.uid()},
            "hostPath": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]},
            ]}]}},
        },
    });
    cx.create(&PV, volume).await?;
    let key = cx.key(claim);
    let patch = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name},
    });
    // The real controller may be faster, with the same outcome.
    let _ = cx.client.merge(&PVC, &key, &patch).await;
    let status = json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
    let _ = cx.client.merge_status(&PVC, &key, &status).await;
    cx.until(&PVC, &key, |claim| claim.text("/status/phase") == "Bound").await?;
    Ok(())
}

async fn make_class(cx: &Cx, name: &str) -> Result {
    let class = json!({
        "metadata": {"name": name}, "provisioner": "volumes.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [
            {"key": "kubernetes.io/hostname", "values": [trellis_infra::hosts::name_of(1)]},
        ]}],
    });
    cx.create(&STORAGE_CLASS, class).await?;
    Ok(())
}

async fn clean_up(cx: &Cx, class: &str, claim: &str) -> Result {
    cx.client.delete(&STORAGE_CLASS, &Key::cluster(class), "").await?;
    cx.client.delete(&PV, &Key::cluster(&format!("{}-{claim}", cx.namespace)), "").await?;
    Ok(())
}

async fn a_volume_is_wanted_where_its_pod_will_be(cx: Cx) -> Result {
    make_class(&cx, "wanted-later").await?;
    cx.create(&PVC, claim("c", "wanted-later")).await?;
    let elsewhere = json!({
        "nodeSelector": {"kubernetes.io/hostname": trellis_infra::hosts::name_of(0)},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    });
    cx.create(&POD, with("elsewhere", &elsewhere)).await?;
    let words = "0/3 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 2 node(s) \
                 didn't match Pod's node affinity/selector.";
    let refused = until_refused(&cx, "elsewhere", &format!("{words} {HOPELESS}")).await;
    cx.create(&POD, mounting("a", "c")).await?;
    let host = trellis_infra::hosts::name_of(1);
    let chosen = |claim: &Value| claim.annotation("volume.kubernetes.io/selected-node") == host;
    let claim = cx.until(&PVC, &cx.key("c"), chosen).await?;
    assert_ne!(claim.text("/status/phase"), "Bound");
    let pod = cx.until(&POD, &cx.key("a"), |_| true).await?;
    assert_eq!(pod.text("/spec/nodeName"), "", "the volume is not there yet");
    let made = make_volume(&cx, "c", "wanted-later", &host).await;
    let running = until_running(&cx, "a").await;
    clean_up(&cx, "wanted-later", "c").await?;
    made?;
    refused?;
    assert_eq!(running?.text("/spec/nodeName"), host);
    Ok(())
}

async fn a_pod_goes_where_its_volume_is(cx: Cx) -> Result {
    let host = trellis_infra::hosts::name_of(2);
    cx.create(&PVC, claim("c", "none")).await?;
    make_volume(&cx, "c", "none", &host).await?;
    cx.create(&POD, mounting("a", "c")).await?;
    let there = until_running(&cx, "a").await;
    let elsewhere = json!({
        "nodeSelector": {"kubernetes.io/hostname": trellis_infra::hosts::name_of(0)},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    });
    cx.create(&POD, with("b", &elsewhere)).await?;
    let words = "0/3 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 2 node(s) \
                 didn't match Pod's node affinity/selector.";
    let refused = until_refused(&cx, "b", &format!("{words} {HOPELESS}")).await;
    clean_up(&cx, "none", "c").await?;
    refused?;
    assert_eq!(there?.text("/spec/nodeName"), host);
    Ok(())
}

async fn the_more_important_pod_takes_the_place(cx: Cx) -> Result {
    let class = json!({"metadata": {"name": "more-important"}, "value": 1000});
    cx.create(&PRIORITY_CLASS, class).await?;
    for name in ["a", "b", "c"] {
        cx.create(&POD, wanting(name, "30")).await?;
        until_running(&cx, name).await?;
    }
    let mut important = wanting("important", "30");
    important["spec"]["priorityClassName"] = "more-important".into();
    let mut history = cx.follow(&POD, &cx.key("important")).await;
    cx.create(&POD, important).await?;
    let running = until_running(&cx, "important").await;
    cx.client.delete(&PRIORITY_CLASS, &Key::cluster("more-important"), "").await?;
    let place = running?.text("/spec/nodeName").to_owned();
    let nominated = history.texts("/status/nominatedNodeName");
    assert!(nominated.contains(&place), "{nominated:?}");
    let messages: Vec<String> = history
        .states()
        .iter()
        .map(|pod| pod.condition("PodScheduled").text("/message").to_owned())
        .filter(|message| !message.is_empty())
        .collect();
    assert_eq!(
        messages.first().map(String::as_str),
        Some(
            format!(
                "0/3 nodes are available: 3 Insufficient cpu. preemption: found a potential placement for pod on \
                 node {place}, preempting 1 victims"
            )
            .as_str()
        )
    );
    let left: Vec<String> =
        cx.client.list(&POD, &cx.namespace).await?.iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    let gone = ["a", "b", "c"].into_iter().find(|name| !left.iter().any(|one| one == name));
    cx.until_event(gone.unwrap_or_default(), "Preempted").await?;
    Ok(())
}

async fn a_gate_holds_a_pod_up(cx: Cx) -> Result {
    cx.create(&POD, with("a", &json!({"schedulingGates": [{"name": "example.com/wait"}]}))).await?;
    let gated = |pod: &Value| pod.condition("PodScheduled")["reason"] == "SchedulingGated";
    cx.until(&POD, &cx.key("a"), gated).await?;
    cx.create(&POD, pod("b")).await?;
    until_running(&cx, "b").await?;
    let a = cx.until(&POD, &cx.key("a"), |_| true).await?;
    assert_eq!(a.text("/spec/nodeName"), "");
    cx.client.merge(&POD, &cx.key("a"), &json!({"spec": {"schedulingGates": null}})).await?;
    until_running(&cx, "a").await?;
    Ok(())
}

async fn pods_of_other_schedulers_are_left_alone(cx: Cx) -> Result {
    cx.create(&POD, with("a", &json!({"schedulerName": "mine"}))).await?;
    cx.create(&POD, pod("b")).await?;
    until_running(&cx, "b").await?;
    let a = cx.until(&POD, &cx.key("a"), |_| true).await?;
    assert_eq!(a.text("/spec/nodeName"), "");
    assert!(a.condition("PodScheduled").is_null());
    Ok(())
}

async fn many_pods_find_their_nodes(cx: Cx) -> Result {
    for index in 0..300 {
        cx.create(&POD, wanting(&format!("p{index}"), "20")).await?;
    }
    let mut places = std::collections::BTreeSet::new();
    for index in 0..300 {
        places.insert(until_running(&cx, &format!("p{index}")).await?.text("/spec/nodeName").to_owned());
    }
    assert_eq!(places.len(), 300, "each node has room for one");
    Ok(())
}
