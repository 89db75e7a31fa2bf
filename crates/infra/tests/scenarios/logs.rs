//! What the containers of pods have printed, as `kubectl logs` asks for it.

use std::time::Duration;

use serde_json::json;
use trellis_infra::kinds::{DATA_VOLUME, POD, VM, VMI};
use trellis_infra::object::Object as _;

use crate::context::{Cx, Scenario};
use crate::import::{registry, rule, volume};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    // The kubelets of a real server are asked at an address of their own, which nobody has here.
    vec![
        scenario!(a_container_has_a_log).with(|_| {}),
        scenario!(a_log_is_followed_to_its_end).with(|_| {}),
        scenario!(workers_and_machines_have_logs).with(|_| {}),
    ]
}

/// The log of a pod, or the message why there is none.
async fn log(cx: &Cx, pod: &str, query: &str) -> std::result::Result<String, String> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/log?{query}", cx.namespace);
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    cx.kube.request_text(request).await.map_err(|error| error.to_string())
}

async fn pod(cx: &Cx) -> Result {
    let containers = json!([
        {"name": "c", "image": "web:1", "command": ["serve"]}, {"name": "d", "image": "side:1"},
    ]);
    cx.create(&POD, json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})).await?;
    cx.until(&POD, &cx.key("p"), |pod| pod.condition_holds("Ready")).await?;
    Ok(())
}

async fn a_container_has_a_log(cx: Cx) -> Result {
    pod(&cx).await?;
    let said = log(&cx, "p", "container=c").await?;
    assert!(said.starts_with("lab: container c of image web:1 runs on "), "{said}");
    assert_eq!(log(&cx, "p", "container=c&tailLines=1").await?, "lab: it would run: serve\n");
    assert_eq!(log(&cx, "p", "container=c&limitBytes=4").await?, "lab:");
    let stamped = log(&cx, "p", "container=d&timestamps=true").await?;
    let (at, rest) = stamped.split_once(' ').ok_or("no time")?;
    assert!(at.parse::<jiff::Timestamp>().is_ok() && rest.starts_with("lab: container d"), "{stamped}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(log(&cx, "p", "container=c&sinceSeconds=10").await?, "");
    for (query, message) in [
        ("", "a container name must be specified for pod p, choose one of: [c d]"),
        ("container=x", "container x is not valid for pod p"),
        ("container=c&previous=true", "previous terminated container \"c\" in pod \"p\" not found"),
        ("container=c&tailLines=-1", "must be greater than or equal to 0"),
    ] {
        let refused = log(&cx, "p", query).await.expect_err(query);
        assert!(refused.contains(message), "{query}: {refused}");
    }
    Ok(())
}

async fn a_log_is_followed_to_its_end(cx: Cx) -> Result {
    pod(&cx).await?;
    let reader = cx.clone();
    let following = tokio::spawn(async move { log(&reader, "p", "container=c&follow=true").await });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!following.is_finished(), "it goes on for as long as the container runs");
    cx.client.delete(&POD, &cx.key("p"), "").await?;
    cx.until_gone(&POD, &cx.key("p")).await?;
    let said = tokio::time::timeout(crate::context::PATIENCE, following).await???;
    assert!(said.contains("lab: it would run: serve\n"), "{said}");
    Ok(())
}

async fn workers_and_machines_have_logs(cx: Cx) -> Result {
    let stages = &cx.infra.context().stages;
    stages.add(rule(json!({"name": cx.namespace, "stage": "import.copy", "effect": {"fail": "no space"}})));
    cx.create(&DATA_VOLUME, volume("a", "1Gi", registry())).await?;
    let failing = |pod: &serde_json::Value| {
        pod.text("/status/containerStatuses/0/lastState/terminated/message").ends_with("no space")
    };
    let pods = cx.client.cache(&POD);
    let mut changes = pods.changes();
    let found = async {
        loop {
            if let Some(pod) = pods.list(&cx.namespace).into_iter().find(|pod| failing(pod)) {
                return pod;
            }
            changes.recv().await;
        }
    };
    let importer = tokio::time::timeout(crate::context::PATIENCE, found).await?;
    let said = log(&cx, importer.name(), "").await?;
    assert!(said.contains("Starting importer") && said.ends_with("no space\n"), "{said}");
    stages.remove(&cx.namespace);

    let mut machine = crate::vm::machine("m", "Always");
    machine.set("/spec/template/spec/domain/devices/logSerialConsole", true.into());
    cx.create(&VM, machine).await?;
    let vmi = cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition_holds("AgentConnected")).await?;
    let pods = cx.client.cache(&POD).controlled_by(vmi.uid());
    let said = log(&cx, pods[0].name(), "container=compute").await?;
    assert!(said.contains("\"component\":\"virt-launcher\"") && said.contains("_m started"), "{said}");
    let said = log(&cx, pods[0].name(), "container=guest-console-log").await?;
    assert!(said.contains("login: "), "{said}");
    Ok(())
}
