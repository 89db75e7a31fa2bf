//! `kubectl delete`: one, many and all, with each cascade.

use serde_json::json;

use super::Kubectl;
use crate::context::{config_map, deployment, pod};
use crate::support::Result;

super::scenarios![
    one_and_many,
    by_selector_and_all,
    cascades,
    finalizers,
    pods_with_grace,
    namespaces,
    dry_run,
    raw,
    what_is_not_there,
];

async fn one_and_many(k: Kubectl) -> Result {
    for name in ["a", "b", "c", "d"] {
        k.cx.create(k.cx.core("configmaps"), &config_map(name, "1")).await?;
    }
    let ns = &k.cx.ns;
    assert_eq!(k.ok("delete cm a").await?, format!("configmap \"a\" deleted from {ns} namespace\n"));
    assert_eq!(
        k.ok("delete cm/b cm/c").await?,
        format!("configmap \"b\" deleted from {ns} namespace\nconfigmap \"c\" deleted from {ns} namespace\n")
    );
    assert_eq!(k.ok("delete cm d -o name").await?, "configmap/d\n");
    Ok(())
}

async fn by_selector_and_all(k: Kubectl) -> Result {
    for (name, kind) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"] = json!({"kind": kind});
        k.cx.create(k.cx.core("configmaps"), &map).await?;
        k.cx.create(k.cx.core("secrets"), &json!({"metadata": {"name": name}})).await?;
    }
    assert_eq!(k.ok("delete cm -l kind=x").await?.lines().count(), 2);
    assert_eq!(k.ok("get cm -l kind -o name").await?, "configmap/c\n");
    assert_eq!(k.ok("delete secret --field-selector metadata.name=a").await?.lines().count(), 1);
    assert_eq!(k.ok("delete secrets --all").await?.lines().count(), 2);
    assert_eq!(k.ok("delete secrets --all").await?, "No resources found\n");
    Ok(())
}

/// A Deployment of nobody's, with a ReplicaSet it owns.
async fn owner_and_owned(k: &Kubectl, name: &str) -> Result {
    // A ReplicaSet as the owner, so that no controller of workloads is in the way of either.
    let owner = k.cx.create(k.cx.core("configmaps"), &config_map(name, "owner")).await?;
    let mut owned = config_map(&format!("{name}-owned"), "1");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true, "controller": true,
    }]);
    k.cx.create(k.cx.core("configmaps"), &owned).await?;
    Ok(())
}

async fn cascades(k: Kubectl) -> Result {
    for name in ["back", "fore", "left"] {
        owner_and_owned(&k, name).await?;
    }
    k.ok("delete cm back --cascade=background").await?;
    k.ok("wait --for=delete cm/back-owned --timeout=60s").await?;
    // In the foreground, the owner goes last: when the command is done, both are gone.
    k.ok("delete cm fore --cascade=foreground").await?;
    k.fails("get cm fore-owned").await?;
    k.ok("delete cm left --cascade=orphan").await?;
    let left = k.json("get cm left-owned").await?;
    assert!(left["metadata"].get("ownerReferences").is_none(), "{left}");
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    k.ok("delete deploy d").await?;
    let complaint = k.fails("delete cm left-owned --cascade=sometimes").await?;
    assert!(complaint.contains("invalid cascade value"), "{complaint}");
    Ok(())
}

async fn finalizers(k: Kubectl) -> Result {
    let mut map = config_map("held", "1");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    k.cx.create(k.cx.core("configmaps"), &map).await?;
    let complaint = k.fails("delete cm held --timeout=1s").await?;
    assert!(complaint.contains("timed out waiting for the condition on configmaps/held"), "{complaint}");
    let held = k.json("get cm held").await?;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    k.ok("delete cm held --wait=false").await?;
    k.ok("patch cm held --type=merge -p '{\"metadata\":{\"finalizers\":null}}'").await?;
    k.fails("get cm held").await?;
    Ok(())
}

async fn pods_with_grace(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    // A pod nobody has a place for is gone at once.
    k.cx.create(k.cx.core("pods"), &pod("waiting")).await?;
    k.ok("delete pod waiting").await?;
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = json!("nowhere");
    k.cx.create(k.cx.core("pods"), &bound).await?;
    k.ok("delete pod bound --wait=false --grace-period=60").await?;
    let stored = k.json("get pod bound").await?;
    assert_eq!(stored["metadata"]["deletionGracePeriodSeconds"], 60);
    let said = k.run("delete pod bound --now --wait=false").await?;
    assert!(said.success, "{said:?}");
    assert_eq!(k.json("get pod bound").await?["metadata"]["deletionGracePeriodSeconds"], 1);
    let said = k.run("delete pod bound --force --grace-period=0").await?;
    assert!(
        said.stderr.starts_with("Warning: Immediate deletion does not wait for confirmation"),
        "{said:?}"
    );
    assert!(said.ok().starts_with("pod \"bound\" force deleted"));
    k.fails("get pod bound").await?;
    Ok(())
}

async fn namespaces(k: Kubectl) -> Result {
    let name = format!("{}-gone", k.cx.unique);
    k.ok(&format!("create ns {name}")).await?;
    k.ok(&format!("create cm a --from-literal=a=b -n {name}")).await?;
    k.ok(&format!("create deployment d --image=example.com/a -n {name}")).await?;
    k.ok(&format!("delete ns {name} --timeout=90s")).await?;
    k.fails(&format!("get ns {name}")).await?;
    let complaint = k.fails("delete ns default").await?;
    assert!(
        complaint.ends_with(
            "Error from server (Forbidden): namespaces \"default\" is forbidden: this namespace may not be deleted\n"
        ),
        "{complaint}"
    );
    Ok(())
}

async fn dry_run(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let said = k.ok("delete cm a --dry-run=server").await?;
    assert_eq!(said, format!("configmap \"a\" deleted from {} namespace (server dry run)\n", k.cx.ns));
    k.ok("get cm a").await?;
    Ok(())
}

async fn raw(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let said = k.ok(&format!("delete --raw {}", k.cx.core("configmaps/a"))).await?;
    assert!(said.contains("\"status\":\"Success\"") || said.contains("\"status\": \"Success\""), "{said}");
    Ok(())
}

async fn what_is_not_there(k: Kubectl) -> Result {
    let complaint = k.fails("delete cm ghost").await?;
    assert_eq!(complaint, "Error from server (NotFound): configmaps \"ghost\" not found\n");
    assert_eq!(k.ok("delete cm ghost --ignore-not-found").await?, "");
    let complaint = k.feed("delete -f -", &config_map("ghost", "1").to_string()).await?.fails();
    assert_eq!(
        complaint,
        "Error from server (NotFound): error when deleting \"STDIN\": configmaps \"ghost\" not found\n"
    );
    let complaint = k.fails("delete nonsense x").await?;
    assert_eq!(complaint, "error: the server doesn't have a resource type \"nonsense\"\n");
    Ok(())
}
