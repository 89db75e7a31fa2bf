//! The object that says KubeVirt is installed, and how.

use serde_json::{Value, json};

use super::names::VERSION;
use crate::client::{Identity, Result};
use crate::context::Context;
use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, KUBEVIRT};
use crate::object::{Key, Object as _};

/// Who may look at the installation: everybody, since clients ask it what they can expect.
const READERS: &str = "kubevirt.io:view-installation";

/// Makes the `KubeVirt` object as the operator leaves it after an installation.
pub async fn install(context: &Context) -> Result {
    let client = context.client(Identity::VIRT_OPERATOR);
    let rules = json!([{
        "apiGroups": ["kubevirt.io"], "resources": ["kubevirts"], "verbs": ["get", "list", "watch"],
    }]);
    client.apply(&CLUSTER_ROLE, json!({"metadata": {"name": READERS}, "rules": rules})).await?;
    let binding = json!({
        "metadata": {"name": READERS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READERS},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"},
        ],
    });
    client.apply(&CLUSTER_ROLE_BINDING, binding).await?;
    let key = Key::new("kubevirt", "kubevirt");
    if client.get(&KUBEVIRT, &key).await?.is_some_and(|found| found.text("/status/phase") == "Deployed") {
        return Ok(());
    }
    client.create_if_absent(&KUBEVIRT, installation()).await?;
    client.merge_status(&KUBEVIRT, &key, &json!({"status": status(&context.clock.seconds())})).await?;
    Ok(())
}

/// What was asked for: the defaults of a packaged installation.
fn installation() -> Value {
    json!({
        "metadata": {
            "namespace": "kubevirt", "name": "kubevirt", "finalizers": ["foregroundDeleteKubeVirt"],
            "annotations": {
                "kubevirt.io/latest-observed-api-version": "v1",
                "kubevirt.io/storage-observed-api-version": "v1",
            },
        },
        "spec": {
            "certificateRotateStrategy": {},
            "configuration": {
                "developerConfiguration": {"featureGates": []},
                "vmRolloutStrategy": "LiveUpdate",
            },
            "customizeComponents": {},
            "imagePullPolicy": "IfNotPresent",
            "workloadUpdateStrategy": {},
        },
    })
}

fn status(now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "phase": "Deployed",
        "conditions": [
            condition("Available", "True", "AllComponentsReady", "All components are ready."),
            condition("Progressing", "False", "AllComponentsReady", "All components are ready."),
            condition("Degraded", "False", "AllComponentsReady", "All components are ready."),
            condition("Created", "True", "AllResourcesCreated", "All resources were created."),
        ],
        "defaultArchitecture": "amd64",
        "observedGeneration": 1,
        "observedKubeVirtVersion": VERSION,
        "operatorVersion": VERSION,
        "targetKubeVirtVersion": VERSION,
        "outdatedVirtualMachineInstanceWorkloads": 0,
    })
}
