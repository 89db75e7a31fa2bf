//! `kubectl scale` and `kubectl rollout`.

use serde_json::{Value, json};

use super::Kubectl;
use crate::context::deployment;
use crate::support::Result;
use crate::support::json::has;

super::scenarios![scale, scale_subresource, rollout_of_deployments, rollout_of_stateful_sets];

async fn scale(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("e")).await?;
    assert_eq!(k.ok("scale deploy d --replicas=3").await?, "deployment.apps/d scaled\n");
    assert_eq!(
        k.ok("scale deploy d e --replicas=2").await?,
        "deployment.apps/d scaled\ndeployment.apps/e scaled\n"
    );
    let complaint = k.fails("scale deploy d --current-replicas=7 --replicas=1").await?;
    assert!(complaint.contains("Expected replicas to be 7, was 2"), "{complaint}");
    let complaint = k.fails("scale deploy d --replicas=1 --resource-version=1").await?;
    assert!(
        complaint.contains("Expected resource version to be 1, was")
            || complaint.contains("the object has been modified"),
        "{complaint}"
    );
    let complaint = k.fails("scale deploy ghost --replicas=1").await?;
    assert!(complaint.contains("deployments.apps \"ghost\" not found"), "{complaint}");
    let complaint = k.fails("scale deploy d --replicas=-1").await?;
    assert!(
        complaint.contains("--replicas=COUNT is required") || complaint.contains("must be greater"),
        "{complaint}"
    );
    k.ok("create configmap c").await?;
    let complaint = k.fails("scale cm c --replicas=1").await?;
    assert!(
        complaint.contains("could not find the requested resource") || complaint.contains("cannot scale"),
        "{complaint}"
    );
    Ok(())
}

async fn scale_subresource(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let scale = k.json("get deploy d --subresource=scale").await?;
    has(
        &scale,
        &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}, "status": {"replicas": 0, "selector": "app=d"}}),
    );
    k.ok("patch deploy d --subresource=scale --type=merge -p '{\"spec\":{\"replicas\":6}}'").await?;
    assert_eq!(k.ok("get deploy d -o jsonpath={.spec.replicas}").await?, "6");
    let table = k.ok("get deploy d --subresource=scale").await?;
    assert!(table.starts_with("NAME   DESIRED   AVAILABLE   AGE\n"), "{table}");
    Ok(())
}

/// A deployment's set of pods, as its controller makes it.
fn replica_set(of: &Value, revision: u32, image: &str) -> Value {
    let labels = json!({"app": "d", "pod-template-hash": format!("hash{revision}")});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("d-hash{revision}"), "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": of["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}},
        },
    })
}

async fn rollout_of_deployments(k: Kubectl) -> Result {
    let made = k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    k.cx.create(k.cx.apis("apps/v1", "replicasets"), &replica_set(&made, 1, "example.com/image:0")).await?;
    k.cx.create(k.cx.apis("apps/v1", "replicasets"), &replica_set(&made, 2, "example.com/image:1")).await?;
    k.ok("annotate deploy d deployment.kubernetes.io/revision=2").await?;
    let text = k.ok("rollout history deploy d").await?;
    assert!(
        text.starts_with("deployment.apps/d \nREVISION  CHANGE-CAUSE\n1         <none>\n2         <none>\n"),
        "{text}"
    );
    let text = k.ok("rollout history deploy d --revision=1").await?;
    assert!(text.contains("example.com/image:0"), "{text}");
    assert_eq!(k.ok("rollout undo deploy d").await?, "deployment.apps/d rolled back\n");
    assert_eq!(
        k.ok("get deploy d -o jsonpath={.spec.template.spec.containers[0].image}").await?,
        "example.com/image:0"
    );
    assert_eq!(k.ok("rollout pause deploy d").await?, "deployment.apps/d paused\n");
    let complaint = k.fails("rollout restart deploy d").await?;
    assert!(complaint.contains("can't restart paused deployment"), "{complaint}");
    assert_eq!(k.ok("rollout resume deploy d").await?, "deployment.apps/d resumed\n");
    assert_eq!(k.ok("rollout restart deploy d").await?, "deployment.apps/d restarted\n");
    assert!(k.ok("get deploy d -o yaml").await?.contains("kubectl.kubernetes.io/restartedAt"));
    let generation = k.json("get deploy d").await?["metadata"]["generation"].clone();
    let status = json!({"status": {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    let waiting = k.run("rollout status deploy d --timeout=60s");
    let changing = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        k.ok(&format!("patch deploy d --subresource=status -p '{status}'")).await
    };
    let (waited, changed) = tokio::join!(waiting, changing);
    changed?;
    let said = waited?.ok();
    assert!(said.ends_with("deployment \"d\" successfully rolled out\n"), "{said}");
    assert!(said.starts_with("Waiting for deployment"), "{said}");
    Ok(())
}

async fn rollout_of_stateful_sets(k: Kubectl) -> Result {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
        "spec": {
            "serviceName": "s", "replicas": 1, "selector": {"matchLabels": {"app": "s"}},
            "template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "main", "image": "example.com/a"}]}},
        },
    });
    let made = k.cx.create(k.cx.apis("apps/v1", "statefulsets"), &set).await?;
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": "s-1", "labels": {"app": "s"}, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": made["metadata"]["uid"], "controller": true,
        }]},
        "revision": 1,
        "data": {"spec": {"template": {"$patch": "replace", "spec": {"containers": [{"name": "main", "image": "example.com/old"}]}}}},
    });
    k.cx.create(k.cx.apis("apps/v1", "controllerrevisions"), &revision).await?;
    let text = k.ok("rollout history sts s").await?;
    assert!(text.starts_with("statefulset.apps/s \nREVISION  CHANGE-CAUSE\n1         <none>\n"), "{text}");
    let table = k.ok("get controllerrevision s-1").await?;
    assert!(table.contains("statefulset.apps/s   1"), "{table}");
    assert_eq!(k.ok("rollout restart sts s").await?, "statefulset.apps/s restarted\n");
    Ok(())
}
