//! `kubectl wait` and `kubectl events`.

use serde_json::json;

use super::{Kubectl, cells};
use crate::context::{config_map, deployment, pod};
use crate::support::Result;

super::scenarios![
    for_a_condition,
    for_a_condition_that_does_not_come,
    for_deletion,
    for_a_field,
    for_creation,
    for_many,
    events,
];

async fn for_a_condition(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let waiting = k.run("wait deploy/d --for=condition=Odd --timeout=60s");
    let changing = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let patch = json!({"status": {"conditions": [{"type": "Odd", "status": "True"}]}});
        k.ok(&format!("patch deploy d --subresource=status -p '{patch}'")).await
    };
    let (waited, changed) = tokio::join!(waiting, changing);
    changed?;
    assert_eq!(waited?.ok(), "deployment.apps/d condition met\n");
    let said = k.ok("wait deploy d --for=condition=odd=true --timeout=5s").await?;
    assert_eq!(said, "deployment.apps/d condition met\n");
    Ok(())
}

async fn for_a_condition_that_does_not_come(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let complaint = k.fails("wait deploy/d --for=condition=Never --timeout=1s").await?;
    assert_eq!(complaint, "error: timed out waiting for the condition on deployments/d\n");
    let complaint = k.fails("wait deploy/ghost --for=condition=Never --timeout=1s").await?;
    assert_eq!(complaint, "Error from server (NotFound): deployments.apps \"ghost\" not found\n");
    Ok(())
}

async fn for_deletion(k: Kubectl) -> Result {
    // It says nothing about what was gone before it came, as may happen on a busy machine.
    let mut said = String::new();
    for patience in [1, 5, 20] {
        k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
        let waiting = k.run("wait cm/a --for=delete --timeout=60s");
        let deleting = async {
            tokio::time::sleep(std::time::Duration::from_secs(patience)).await;
            k.ok("delete cm a").await
        };
        let (waited, deleted) = tokio::join!(waiting, deleting);
        deleted?;
        said = waited?.ok();
        if !said.is_empty() {
            break;
        }
    }
    assert_eq!(said, "configmap/a condition met\n");
    k.cx.create(k.cx.core("configmaps"), &config_map("b", "1")).await?;
    let complaint = k.fails("wait cm/b --for=delete --timeout=1s").await?;
    assert_eq!(complaint, "error: timed out waiting for the condition on configmaps/b\n");
    Ok(())
}

async fn for_a_field(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    let waiting = k.run("wait pod/p --for=jsonpath={.status.phase}=Running --timeout=60s");
    let changing = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        k.ok("patch pod p --subresource=status -p '{\"status\":{\"phase\":\"Running\"}}'").await
    };
    let (waited, changed) = tokio::join!(waiting, changing);
    changed?;
    assert_eq!(waited?.ok(), "pod/p condition met\n");
    k.ok("wait pod/p --for=jsonpath={.metadata.uid} --timeout=5s").await?;
    let complaint = k.fails("wait pod/p --for=jsonpath={.status.phase}=Failed --timeout=1s").await?;
    assert_eq!(complaint, "error: timed out waiting for the condition on pods/p\n");
    Ok(())
}

async fn for_creation(k: Kubectl) -> Result {
    let waiting = k.run("wait cm/late --for=create --timeout=60s");
    let creating = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        k.cx.create(k.cx.core("configmaps"), &config_map("late", "1")).await
    };
    let (waited, created) = tokio::join!(waiting, creating);
    created?;
    assert_eq!(waited?.ok(), "configmap/late condition met\n");
    Ok(())
}

async fn for_many(k: Kubectl) -> Result {
    for name in ["a", "b"] {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"] = json!({"wait": "yes"});
        k.cx.create(k.cx.core("configmaps"), &map).await?;
    }
    let said = k.ok("wait cm -l wait --for=jsonpath={.data.key}=1 --timeout=10s").await?;
    assert_eq!(said, "configmap/a condition met\nconfigmap/b condition met\n");
    Ok(())
}

async fn events(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    let made = k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    for (name, kind, reason) in [("p.1", "Normal", "Scheduled"), ("p.2", "Warning", "Failed")] {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": k.cx.ns},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": k.cx.ns, "apiVersion": "v1", "uid": made["metadata"]["uid"]},
            "reason": reason, "message": format!("it was {reason}"), "type": kind, "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:10:00Z",
            "source": {"component": "tester"},
        });
        k.cx.create(k.cx.core("events"), &event).await?;
    }
    let table = k.ok("events").await?;
    let rows = cells(&table);
    assert_eq!(rows[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert!(table.contains("(x2 over") && table.contains("Pod/p"), "{table}");
    let table = k.ok("events --types=Warning").await?;
    assert!(table.contains("Failed") && !table.contains("Scheduled"), "{table}");
    let table = k.ok("events --for=pod/p").await?;
    assert_eq!(table.lines().count(), 3, "{table}");
    let table = k.ok("get events --field-selector involvedObject.name=p,type=Warning").await?;
    assert_eq!(cells(&table)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert!(table.contains("pod/p") && table.contains("it was Failed"), "{table}");
    let newer = k.json("get events.v1.events.k8s.io p.2").await?;
    assert_eq!((&newer["regarding"]["name"], &newer["note"]), (&json!("p"), &json!("it was Failed")));
    let described = k.ok("describe pod p").await?;
    assert!(described.contains("it was Scheduled"), "{described}");
    Ok(())
}
