//! What is done to nodes: `taint`, `cordon`, `drain`.

use serde_json::{Value, json};

use super::Kubectl;
use crate::context::pod;
use crate::support::Result;
use crate::support::json::has;

super::scenarios![taint, cordon, drain, drain_waits_for_budgets, drain_needs_consent];

impl Kubectl {
    /// A node nothing runs on, named after the scenario.
    async fn node(&self) -> Result<String> {
        let name = self.cx.unique.clone();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.cx.create("/api/v1/nodes", &node).await?;
        Ok(name)
    }

    /// A running pod on a node.
    async fn pod_on(&self, node: &str, name: &str, labels: Value, owner: Option<Value>) -> Result {
        let mut object = pod(name);
        object["spec"]["nodeName"] = json!(node);
        object["spec"]["terminationGracePeriodSeconds"] = json!(0);
        object["metadata"]["labels"] = labels;
        if let Some(owner) = owner {
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        self.cx.create(self.cx.core("pods"), &object).await?;
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        self.ok(&format!("patch pod {name} --subresource=status -p '{status}'")).await?;
        Ok(())
    }

    /// The reference to a controller that is there, as owner of pods.
    async fn owner(&self, kind: &str, resource: &str, name: &str) -> Result<Value> {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"of": name}},
                "template": {
                    "metadata": {"labels": {"of": name}},
                    "spec": {"containers": [{"name": "main", "image": "example.com/a"}]},
                },
            },
        });
        if kind == "ReplicaSet" {
            object["spec"]["replicas"] = json!(0);
        }
        let made = self.cx.create(self.cx.apis("apps/v1", resource), &object).await?;
        Ok(json!({
            "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": made["metadata"]["uid"], "controller": true,
        }))
    }
}

async fn taint(k: Kubectl) -> Result {
    let node = k.node().await?;
    assert_eq!(k.ok(&format!("taint nodes {node} a=b:NoSchedule")).await?, format!("node/{node} tainted\n"));
    let complaint = k.fails(&format!("taint node {node} a=c:NoSchedule")).await?;
    assert!(
        complaint.contains("already has a taint(s) with same effect(s) and --overwrite is false"),
        "{complaint}"
    );
    k.ok(&format!("taint node {node} a=c:NoSchedule --overwrite")).await?;
    let complaint = k.fails(&format!("taint node {node} x=y:Sometimes")).await?;
    assert!(complaint.contains("invalid taint effect: Sometimes"), "{complaint}");
    let stored = k.json(&format!("get node {node}")).await?;
    assert!(stored["spec"]["taints"].to_string().contains("\"value\":\"c\""), "{stored}");
    assert_eq!(k.ok(&format!("taint node {node} a-")).await?, format!("node/{node} untainted\n"));
    k.ok(&format!("delete node {node}")).await?;
    Ok(())
}

async fn cordon(k: Kubectl) -> Result {
    let node = k.node().await?;
    assert_eq!(k.ok(&format!("cordon {node}")).await?, format!("node/{node} cordoned\n"));
    assert_eq!(k.ok(&format!("cordon {node}")).await?, format!("node/{node} already cordoned\n"));
    let table = k.ok(&format!("get node {node}")).await?;
    assert!(table.contains("Unknown,SchedulingDisabled"), "{table}");
    assert_eq!(k.ok(&format!("uncordon {node}")).await?, format!("node/{node} uncordoned\n"));
    assert_eq!(k.ok(&format!("get node {node} -o jsonpath={{.spec.unschedulable}}")).await?, "");
    k.ok(&format!("delete node {node}")).await?;
    Ok(())
}

async fn drain(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    let node = k.node().await?;
    let set = k.owner("ReplicaSet", "replicasets", "rs").await?;
    let daemons = k.owner("DaemonSet", "daemonsets", "ds").await?;
    k.pod_on(&node, "owned", json!({}), Some(set)).await?;
    k.pod_on(&node, "daemon", json!({"of": "ds"}), Some(daemons)).await?;
    k.pod_on(&node, "alone", json!({}), None).await?;
    let complaint = k.fails(&format!("drain {node} --timeout=5s")).await?;
    assert!(
        complaint.contains("cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"),
        "{complaint}"
    );
    assert!(complaint.contains("use --force to override"), "{complaint}");
    let said = k.ok(&format!("drain {node} --ignore-daemonsets --force --timeout=60s")).await?;
    assert!(said.contains("pod/owned evicted") && said.contains("pod/alone evicted"), "{said}");
    assert!(said.ends_with(&format!("node/{node} drained\n")), "{said}");
    let left = k.ok("get pods -o name").await?;
    assert_eq!(left, "pod/daemon\n");
    has(&k.json(&format!("get node {node}")).await?, &json!({"spec": {"unschedulable": true}}));
    k.ok("delete pod daemon --force --grace-period=0").await?;
    k.ok(&format!("delete node {node}")).await?;
    Ok(())
}

async fn drain_waits_for_budgets(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    let node = k.node().await?;
    let set = k.owner("ReplicaSet", "replicasets", "rs").await?;
    k.pod_on(&node, "guarded", json!({"app": "guarded"}), Some(set)).await?;
    k.ok("create pdb guard --selector=app=guarded --min-available=1").await?;
    // The budget's controller, or we in its place, says how much may go: nothing.
    k.ok("wait pdb/guard --for=jsonpath={.status.observedGeneration}=1 --timeout=30s").await?;
    let complaint = k.fails(&format!("drain {node} --force --timeout=6s")).await?;
    assert!(
        complaint.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{complaint}"
    );
    k.ok("get pod guarded").await?;
    k.ok("delete pdb guard").await?;
    let said = k.ok(&format!("drain {node} --timeout=60s")).await?;
    assert!(said.contains("pod/guarded evicted"), "{said}");
    k.ok(&format!("delete node {node}")).await?;
    Ok(())
}

async fn drain_needs_consent(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    let node = k.node().await?;
    k.pod_on(&node, "alone", json!({}), None).await?;
    let said = k.run(&format!("drain {node} --dry-run=server --force")).await?;
    assert!(
        said.stdout.contains("pod/alone evicted (server dry run)") || said.stdout.contains("evicting pod"),
        "{said:?}"
    );
    k.ok("get pod alone").await?;
    let complaint = k.fails("drain no-such-node").await?;
    assert!(complaint.contains("nodes \"no-such-node\" not found"), "{complaint}");
    k.ok("delete pod alone --force --grace-period=0").await?;
    k.ok(&format!("delete node {node}")).await?;
    Ok(())
}
