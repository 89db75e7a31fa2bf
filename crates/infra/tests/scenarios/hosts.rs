//! Hosts: nodes and their heartbeats, the life of pods on them, and what becomes of them when a host falls silent.

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_infra::kinds::{CONFIG_MAP, EVENT, LEASE, NETWORK_ATTACHMENT, NODE, POD, SECRET};
use trellis_infra::object::{Condition, Key, Object};
use trellis_infra::stages::Rule;
use trellis_infra::world::hosts::Host;
use trellis_infra::world::machine::{Drive, Machine, Place, Plan, State};

use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(hosts_are_ready_and_send_heartbeats),
        scenario!(hosts_that_are_there_stay_as_they_are),
        scenario!(a_pod_runs_and_is_stopped),
        scenario!(addresses_are_unique),
        scenario!(a_pod_waits_for_what_it_mounts),
        scenario!(init_containers_run_first),
        scenario!(a_readiness_gate_holds_a_pod_back),
        scenario!(a_probe_holds_a_pod_back),
        scenario!(a_pod_can_succeed_and_fail),
        scenario!(a_failing_container_is_started_again_and_again),
        scenario!(an_image_that_cannot_be_had_holds_a_pod_up),
        scenario!(a_pod_is_on_the_networks_it_wants),
        scenario!(a_missing_network_holds_a_pod_up),
        scenario!(a_launcher_stays_until_its_machine_is_over),
        scenario!(a_launcher_ends_with_its_machine),
        scenario!(a_cordoned_host_is_drained),
        scenario!(a_silent_host_is_noticed),
        scenario!(no_pod_of_a_silent_host_stays_ready).with(|_| {}),
        scenario!(power_loss_ends_what_ran),
        scenario!(pods_of_a_removed_host_are_removed).with(|_| {}),
        scenario!(a_host_out_of_service_gives_its_pods_up).with(|_| {}),
    ]
}

/// A pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    })
}

/// A pod on a certain host.
fn pod_on(name: &str, host: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": host});
    pod
}

async fn until_ready(cx: &Cx, name: &str) -> Result<Arc<Value>> {
    cx.until(&POD, &cx.key(name), |pod| pod.condition_holds("Ready")).await
}

/// Waits until an event about an object says something.
async fn until_told(cx: &Cx, about: &str, reason: &str, words: &str) -> Result {
    cx.until_event(about, reason).await?;
    let cache = cx.client.cache(&EVENT);
    let told: Vec<String> = cache
        .list(&cx.namespace)
        .iter()
        .filter(|event| event.text("/involvedObject/name") == about && event.text("/reason") == reason)
        .map(|event| event.text("/message").to_owned())
        .collect();
    assert!(told.iter().any(|message| message.contains(words)), "{reason} about {about} says {told:?}");
    Ok(())
}

fn host(index: usize) -> String {
    trellis_infra::hosts::name_of(index)
}

async fn hosts_are_ready_and_send_heartbeats(cx: Cx) -> Result {
    for index in 0..3 {
        let key = Key::cluster(&host(index));
        let node = cx
            .until(&NODE, &key, |node| node.condition_holds("Ready") && node.list("/spec/taints").is_empty())
            .await?;
        assert_eq!(node.label("kubevirt.io/schedulable"), "true");
        assert_ne!(node.label("topology.kubernetes.io/zone"), "");
        assert_eq!(node.text("/status/allocatable/devices.kubevirt.io~1kvm"), "1k");
        let lease = Key::new("kube-node-lease", &key.name);
        let first = cx.until(&LEASE, &lease, |lease| lease.text("/spec/holderIdentity") == key.name).await?;
        let first = first.text("/spec/renewTime").to_owned();
        cx.until(&LEASE, &lease, |lease| lease.text("/spec/renewTime") > first.as_str()).await?;
    }
    Ok(())
}

async fn hosts_that_are_there_stay_as_they_are(cx: Cx) -> Result {
    let key = Key::cluster(&host(0));
    let patch = json!({"metadata": {"labels": {"mine": "kept"}}});
    cx.client.merge(&NODE, &key, &patch).await?;
    trellis_infra::hosts::install(cx.infra.context()).await?;
    let node = cx.client.get(&NODE, &key).await?.unwrap_or_default();
    let label = node.label("mine").to_owned();
    cx.client.merge(&NODE, &key, &json!({"metadata": {"labels": {"mine": null}}})).await?;
    assert_eq!(label, "kept");
    Ok(())
}

async fn a_pod_runs_and_is_stopped(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&POD, &key).await;
    cx.create(&POD, pod("a")).await?;
    let pod = until_ready(&cx, "a").await?;
    assert_eq!(pod.text("/status/phase"), "Running");
    assert!(pod.text("/status/podIP").starts_with("10."));
    assert!(pod.text("/status/hostIP").starts_with("172.30."));
    assert_eq!(pod.text("/status/qosClass"), "BestEffort");
    assert!(pod.text("/status/containerStatuses/0/containerID").starts_with("cri-o://"));
    for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
        assert!(pod.condition_holds(kind), "{kind} does not hold");
    }
    let waited = |pod: &Arc<Value>| {
        pod.text("/status/containerStatuses/0/state/waiting/reason") == "ContainerCreating"
    };
    assert!(history.states().iter().any(waited), "the container was never waiting");
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        cx.until_event("a", reason).await?;
    }
    cx.client.delete(&POD, &key, "").await?;
    cx.until_gone(&POD, &key).await?;
    assert_eq!(history.texts("/status/phase"), ["Pending", "Running", "Succeeded"]);
    until_told(&cx, "a", "Killing", "Stopping container main").await
}

async fn addresses_are_unique(cx: Cx) -> Result {
    let mut addresses = std::collections::BTreeSet::new();
    for index in 0..12 {
        let name = format!("p{index}");
        cx.create(&POD, pod(&name)).await?;
        let pod = until_ready(&cx, &name).await?;
        let node = cx.until(&NODE, &Key::cluster(pod.text("/spec/nodeName")), |_| true).await?;
        let address = pod.text("/status/podIP").to_owned();
        let network = node.text("/spec/podCIDR").to_owned();
        assert_eq!(
            address.rsplit_once('.').map(|(start, _)| start),
            network.rsplit_once('.').map(|(start, _)| start)
        );
        assert!(addresses.insert(address), "an address was given twice");
    }
    Ok(())
}

async fn a_pod_waits_for_what_it_mounts(cx: Cx) -> Result {
    let mut pod = pod("a");
    pod["spec"]["volumes"] = json!([
        {"name": "one", "configMap": {"name": "settings"}}, {"name": "two", "secret": {"secretName": "word"}},
    ]);
    cx.create(&POD, pod).await?;
    let words = "MountVolume.SetUp failed for volume \"one\" : configmap \"settings\" not found";
    until_told(&cx, "a", "FailedMount", words).await?;
    let waits = cx.until(&POD, &cx.key("a"), |_| true).await?;
    assert_eq!(waits.text("/status/phase"), "Pending");
    assert_eq!(waits.text("/status/containerStatuses/0/state/waiting/reason"), "ContainerCreating");
    cx.create(&SECRET, json!({"metadata": {"name": "word"}})).await?;
    cx.create(&CONFIG_MAP, json!({"metadata": {"name": "settings"}})).await?;
    until_ready(&cx, "a").await?;
    Ok(())
}

async fn init_containers_run_first(cx: Cx) -> Result {
    let mut pod = pod("a");
    pod["spec"]["initContainers"] = json!([
        {"name": "first", "image": "registry.example/init:1"},
        {"name": "beside", "image": "registry.example/side:1", "restartPolicy": "Always"},
        {"name": "last", "image": "registry.example/init:1"},
    ]);
    let mut history = cx.follow(&POD, &cx.key("a")).await;
    cx.create(&POD, pod).await?;
    let pod = until_ready(&cx, "a").await?;
    assert_eq!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert!(pod["status"]["initContainerStatuses"][1]["state"]["running"].is_object());
    assert_eq!(pod["status"]["initContainerStatuses"][2]["state"]["terminated"]["reason"], "Completed");
    let messages: Vec<String> = history
        .states()
        .iter()
        .map(|pod| pod.condition("Initialized").text("/message").to_owned())
        .filter(|message| !message.is_empty())
        .collect();
    assert_eq!(
        messages.first().map(String::as_str),
        Some("containers with incomplete status: [first beside last]")
    );
    assert_eq!(messages.last().map(String::as_str), Some("containers with incomplete status: [last]"));
    Ok(())
}

async fn a_readiness_gate_holds_a_pod_back(cx: Cx) -> Result {
    let mut pod = pod("a");
    pod["spec"]["readinessGates"] = json!([{"conditionType": "example.com/open"}]);
    cx.create(&POD, pod).await?;
    let closed = |pod: &Value| pod.condition("Ready")["reason"] == "ReadinessGatesNotReady";
    let pod = cx.until(&POD, &cx.key("a"), closed).await?;
    assert!(pod.condition_holds("ContainersReady"));
    assert_eq!(
        pod.condition("Ready")["message"],
        "corresponding condition of pod readiness gate \"example.com/open\" does not exist."
    );
    let mut open = (*pod).clone();
    Condition::new("example.com/open", true, "", "").put(&mut open, "2026-01-01T00:00:00Z");
    cx.client.replace_status(&POD, &open).await?;
    until_ready(&cx, "a").await?;
    Ok(())
}

async fn a_probe_holds_a_pod_back(cx: Cx) -> Result {
    let stages = &cx.infra.context().stages;
    stages.add(rule(
        &cx,
        json!({"name": "unwell", "stage": "pod.ready", "effect": {"fail": "HTTP probe failed"}}),
    )?);
    let mut probed = pod("a");
    probed["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
    cx.create(&POD, probed).await?;
    let told = until_told(&cx, "a", "Unhealthy", "Readiness probe failed: HTTP probe failed").await;
    stages.remove("unwell");
    told?;
    let pod = cx.until(&POD, &cx.key("a"), |_| true).await?;
    assert_eq!(pod.condition("Ready")["message"], "containers with unready status: [main]");
    let mut well = pod_on("b", &host(0));
    well["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
    cx.create(&POD, well).await?;
    until_ready(&cx, "b").await?;
    Ok(())
}

/// A rule for the scenario's own pods.
fn rule(cx: &Cx, mut rule: Value) -> Result<Rule> {
    rule["match"] = json!([["/metadata/namespace", cx.namespace]]);
    Ok(serde_json::from_value(rule)?)
}

async fn a_pod_can_succeed_and_fail(cx: Cx) -> Result {
    for (name, exit, policy, phase, reason) in [
        ("good", "0", "Never", "Succeeded", "Completed"),
        ("bad", "3", "Never", "Failed", "Error"),
        ("done", "0", "OnFailure", "Succeeded", "Completed"),
    ] {
        let mut pod = pod(name);
        pod["spec"]["restartPolicy"] = policy.into();
        pod.set_annotation("lab.trellis.dev/exit", exit);
        cx.create(&POD, pod).await?;
        let pod = cx.until(&POD, &cx.key(name), |pod| pod.text("/status/phase") == phase).await?;
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((ended["exitCode"].to_string().as_str(), ended.text("/reason")), (exit, reason));
        assert!(!pod.condition_holds("Ready"));
    }
    Ok(())
}

async fn a_failing_container_is_started_again_and_again(cx: Cx) -> Result {
    let mut pod = pod("a");
    pod.set_annotation("lab.trellis.dev/exit", "1");
    cx.create(&POD, pod).await?;
    let waits =
        |pod: &Value| pod.text("/status/containerStatuses/0/state/waiting/reason") == "CrashLoopBackOff";
    let pod = cx.until(&POD, &cx.key("a"), waits).await?;
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 1);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    let words =
        format!("back-off 10s restarting failed container=main pod=a_{}({})", cx.namespace, pod.uid());
    assert_eq!(status.text("/state/waiting/message"), words);
    assert_eq!(pod.text("/status/phase"), "Running");
    until_told(&cx, "a", "BackOff", "Back-off restarting failed container main in pod a_").await?;
    cx.until(&POD, &cx.key("a"), |pod| pod.number("/status/containerStatuses/0/restartCount") == Some(2))
        .await?;
    Ok(())
}

async fn an_image_that_cannot_be_had_holds_a_pod_up(cx: Cx) -> Result {
    let stages = &cx.infra.context().stages;
    stages.add(rule(
        &cx,
        json!({"name": "gone", "stage": "image.pull", "effect": {"fail": "manifest unknown"}}),
    )?);
    let mut pod = pod("a");
    pod["spec"]["containers"][0]["image"] = format!("registry.example/{}:1", cx.namespace).into();
    let mut history = cx.follow(&POD, &cx.key("a")).await;
    cx.create(&POD, pod).await?;
    let backs_off =
        |pod: &Value| pod.text("/status/containerStatuses/0/state/waiting/reason") == "ImagePullBackOff";
    let waits = cx.until(&POD, &cx.key("a"), backs_off).await;
    stages.remove("gone");
    let waits = waits?;
    assert_eq!(waits.text("/status/phase"), "Pending");
    let reasons = history.texts("/status/containerStatuses/0/state/waiting/reason");
    assert!(reasons.iter().any(|reason| reason == "ErrImagePull"), "{reasons:?}");
    until_told(&cx, "a", "Failed", "manifest unknown").await?;
    until_ready(&cx, "a").await?;
    until_told(&cx, "a", "Pulled", "Successfully pulled image").await
}

fn network(name: &str) -> Value {
    let config = json!({
        "cniVersion": "1.0.0", "type": "bridge", "bridge": "br1",
        "ipam": {"type": "whereabouts", "range": "192.168.50.0/24"},
    });
    json!({"metadata": {"name": name}, "spec": {"config": config.to_string()}})
}

async fn a_pod_is_on_the_networks_it_wants(cx: Cx) -> Result {
    cx.create(&NETWORK_ATTACHMENT, network("blue")).await?;
    let mut wants = pod("a");
    wants.set_annotation("k8s.v1.cni.cncf.io/networks", "blue@net7");
    cx.create(&POD, wants).await?;
    let pod = until_ready(&cx, "a").await?;
    let status: Value = serde_json::from_str(pod.annotation("k8s.v1.cni.cncf.io/network-status"))?;
    assert_eq!(status[0]["default"], true);
    assert_eq!(status[0]["ips"][0], pod["status"]["podIP"]);
    assert_eq!(status[1].text("/name"), format!("{}/blue", cx.namespace));
    assert_eq!(status[1].text("/interface"), "net7");
    assert!(status[1].text("/ips/0").starts_with("192.168.50."));
    assert_ne!(status[1].text("/mac"), "");
    Ok(())
}

async fn a_missing_network_holds_a_pod_up(cx: Cx) -> Result {
    let mut wants = pod("a");
    wants.set_annotation("k8s.v1.cni.cncf.io/networks", "blue");
    cx.create(&POD, wants).await?;
    let words = "cannot find a network-attachment-definition (blue)";
    until_told(&cx, "a", "FailedCreatePodSandBox", words).await?;
    let waits = cx.until(&POD, &cx.key("a"), |_| true).await?;
    assert_eq!(waits.text("/status/containerStatuses/0/state/waiting/reason"), "ContainerCreating");
    cx.create(&NETWORK_ATTACHMENT, network("blue")).await?;
    until_ready(&cx, "a").await?;
    Ok(())
}

/// A launcher pod with a machine in it that runs until it is told otherwise.
async fn launcher(cx: &Cx, name: &str) -> Result<Arc<Machine>> {
    let mut pod = pod(name);
    let vmi = format!("{}-{name}", cx.namespace);
    pod.set_label("kubevirt.io/created-by", &vmi);
    pod["spec"]["restartPolicy"] = "Never".into();
    cx.create(&POD, pod).await?;
    let pod = until_ready(cx, name).await?;
    let place = Place {
        pod: Key::of(&pod),
        pod_uid: pod.uid().to_owned(),
        node: pod.text("/spec/nodeName").to_owned(),
    };
    let plan = Plan {
        vmi: json!({"metadata": {"uid": vmi}}),
        pod: place,
        drive: Drive::default(),
        disks: Vec::new(),
        interfaces: Vec::new(),
    };
    let (machine, _) = Machine::new(plan);
    machine.set_state(State::Running);
    cx.infra.context().world.machines.add(&vmi, Arc::clone(&machine));
    Ok(machine)
}

async fn a_launcher_stays_until_its_machine_is_over(cx: Cx) -> Result {
    let machine = launcher(&cx, "a").await?;
    cx.client.delete(&POD, &cx.key("a"), "").await?;
    until_told(&cx, "a", "Killing", "Stopping container main").await?;
    // Another pod that is stopped later is gone, and this one is not.
    cx.create(&POD, pod("b")).await?;
    until_ready(&cx, "b").await?;
    cx.client.delete(&POD, &cx.key("b"), "").await?;
    cx.until_gone(&POD, &cx.key("b")).await?;
    let pod = cx.until(&POD, &cx.key("a"), Object::is_deleting).await?;
    assert_eq!(pod.text("/status/phase"), "Running");
    machine.set_state(State::Shutdown);
    cx.until_gone(&POD, &cx.key("a")).await
}

async fn a_launcher_ends_with_its_machine(cx: Cx) -> Result {
    let machine = launcher(&cx, "a").await?;
    machine.set_state(State::Shutdown);
    let pod = cx.until(&POD, &cx.key("a"), |pod| pod.text("/status/phase") == "Succeeded").await?;
    assert_eq!(pod.condition("Ready")["reason"], "PodCompleted");
    Ok(())
}

async fn a_cordoned_host_is_drained(cx: Cx) -> Result {
    let name = host(0);
    cx.create(&POD, pod_on("a", &name)).await?;
    until_ready(&cx, "a").await?;
    cx.client.merge(&NODE, &Key::cluster(&name), &json!({"spec": {"unschedulable": true}})).await?;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"namespace": cx.namespace, "name": "a"},
    });
    cx.client.post(&POD, &cx.key("a"), "eviction", &eviction).await?;
    let gone = cx.until_gone(&POD, &cx.key("a")).await;
    cx.create(&POD, pod("b")).await?;
    let elsewhere = until_ready(&cx, "b").await;
    cx.client.merge(&NODE, &Key::cluster(&name), &json!({"spec": {"unschedulable": null}})).await?;
    cx.until(&NODE, &Key::cluster(&name), |node| node.list("/spec/taints").is_empty()).await?;
    gone?;
    assert_ne!(elsewhere?.text("/spec/nodeName"), name);
    Ok(())
}

/// Waits for something about a node, for longer than usual.
async fn until_node(cx: &Cx, name: &str, wanted: fn(&Value) -> bool) -> Result<Arc<Value>> {
    let key = Key::cluster(name);
    match cx.until(&NODE, &key, wanted).await {
        Ok(node) => Ok(node),
        Err(_) => cx.until(&NODE, &key, wanted).await,
    }
}

fn is_silent(node: &Value) -> bool {
    let tainted = |effect: &str| {
        node.list("/spec/taints")
            .iter()
            .any(|taint| taint["key"] == "node.kubernetes.io/unreachable" && taint["effect"] == effect)
    };
    node.condition("Ready")["status"] == "Unknown" && tainted("NoSchedule") && tainted("NoExecute")
}

fn is_well(node: &Value) -> bool {
    node.condition_holds("Ready") && node.list("/spec/taints").is_empty()
}

async fn a_silent_host_is_noticed(cx: Cx) -> Result {
    let name = host(1);
    let hosts = &cx.infra.context().world.hosts;
    let mut brief = pod_on("brief", &name);
    brief["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ]);
    cx.create(&POD, pod_on("patient", &name)).await?;
    cx.create(&POD, brief).await?;
    let patient = until_ready(&cx, "patient").await?;
    until_ready(&cx, "brief").await?;
    let seconds = |pod: &Value, key: &str| {
        let tolerations = pod.list("/spec/tolerations").iter();
        tolerations.filter(|one| one["key"] == key).find_map(|one| one["tolerationSeconds"].as_i64())
    };
    assert_eq!(seconds(&patient, "node.kubernetes.io/unreachable"), Some(300));
    assert_eq!(seconds(&patient, "node.kubernetes.io/not-ready"), Some(300));

    hosts.set(&name, Host { powered: true, connected: false });
    let silent = until_node(&cx, &name, is_silent).await;
    let unready = cx.until(&POD, &cx.key("patient"), |pod| !pod.condition_holds("Ready")).await;
    let stuck = cx.until(&POD, &cx.key("brief"), Object::is_deleting).await;
    hosts.set(&name, Host::UP);
    let well = until_node(&cx, &name, is_well).await;
    assert_eq!(silent?.condition("Ready")["reason"], "NodeStatusUnknown");
    well?;
    assert_eq!(unready?.text("/status/phase"), "Running");
    assert_eq!(stuck?.text("/status/phase"), "Running", "nobody is there to stop it");
    // Whoever was to go goes now; whoever ran goes on, as if nothing had happened.
    cx.until_gone(&POD, &cx.key("brief")).await?;
    let patient = until_ready(&cx, "patient").await?;
    assert_eq!(patient.number("/status/containerStatuses/0/restartCount"), Some(0));
    Ok(())
}

async fn power_loss_ends_what_ran(cx: Cx) -> Result {
    let machine = launcher(&cx, "machine").await?;
    let name = machine.plan().pod.node;
    let mut once = pod_on("once", &name);
    once["spec"]["restartPolicy"] = "Never".into();
    cx.create(&POD, once).await?;
    cx.create(&POD, pod_on("always", &name)).await?;
    until_ready(&cx, "once").await?;
    until_ready(&cx, "always").await?;
    let hosts = &cx.infra.context().world.hosts;
    hosts.set(&name, Host { powered: false, connected: true });
    let over = machine.state().wait_for(State::is_over).await.map(|state| state.clone());
    hosts.set(&name, Host::UP);
    assert_eq!(over?, State::Destroyed);
    let once = cx.until(&POD, &cx.key("once"), |pod| pod.text("/status/phase") == "Failed").await?;
    assert_eq!(once["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 255);
    cx.until(&POD, &cx.key("machine"), |pod| pod.text("/status/phase") == "Failed").await?;
    cx.until(&POD, &cx.key("always"), |pod| {
        pod.number("/status/containerStatuses/0/restartCount") == Some(1) && pod.condition_holds("Ready")
    })
    .await?;
    until_told(&cx, "always", "SandboxChanged", "Pod sandbox changed").await
}

async fn pods_of_a_removed_host_are_removed(cx: Cx) -> Result {
    let name = host(2);
    cx.create(&POD, pod_on("a", &name)).await?;
    until_ready(&cx, "a").await?;
    cx.infra.context().world.hosts.set(&name, Host { powered: false, connected: false });
    let mut history = cx.follow(&POD, &cx.key("a")).await;
    cx.client.delete(&NODE, &Key::cluster(&name), "").await?;
    cx.until_gone(&POD, &cx.key("a")).await?;
    let last = history.states().last().cloned().unwrap_or_default();
    assert_eq!(last.text("/status/phase"), "Failed");
    assert_eq!(last.condition("DisruptionTarget")["reason"], "DeletionByPodGC");
    Ok(())
}

async fn a_host_out_of_service_gives_its_pods_up(cx: Cx) -> Result {
    let name = host(2);
    cx.create(&POD, pod_on("a", &name)).await?;
    until_ready(&cx, "a").await?;
    cx.infra.context().world.hosts.set(&name, Host { powered: false, connected: false });
    until_node(&cx, &name, is_silent).await?;
    cx.client.delete(&POD, &cx.key("a"), "").await?;
    let pod = cx.until(&POD, &cx.key("a"), Object::is_deleting).await?;
    assert_eq!(pod.text("/status/phase"), "Running");
    let node = cx.until(&NODE, &Key::cluster(&name), |_| true).await?;
    let mut taints = node.list("/spec/taints").to_vec();
    taints.push(
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}),
    );
    cx.client.merge(&NODE, &Key::cluster(&name), &json!({"spec": {"taints": taints}})).await?;
    cx.until_gone(&POD, &cx.key("a")).await
}

async fn no_pod_of_a_silent_host_stays_ready(cx: Cx) -> Result {
    cx.create(&POD, pod_on("p", &host(1))).await?;
    let pod = until_ready(&cx, "p").await?;
    cx.infra.context().world.hosts.set(&host(1), Host { connected: false, ..Host::UP });
    let node = Key::cluster(&host(1));
    cx.until(&NODE, &node, |node| node.condition("Ready")["status"] == "Unknown").await?;
    cx.until(&POD, &cx.key("p"), |pod| !pod.condition_holds("Ready")).await?;
    // As if the news of it had been overtaken by another write.
    let mut missed = (*pod).clone();
    missed.unset("/metadata/resourceVersion");
    cx.client.merge_status(&POD, &cx.key("p"), &json!({"status": missed["status"]})).await?;
    cx.client.merge(&NODE, &node, &json!({"metadata": {"labels": {"example.com/touched": "yes"}}})).await?;
    cx.until(&POD, &cx.key("p"), |pod| !pod.condition_holds("Ready")).await?;
    Ok(())
}
