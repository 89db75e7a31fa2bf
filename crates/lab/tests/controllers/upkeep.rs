//! Objects whose status or fields follow from others: roles, quotas, budgets, secrets, claims, events.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::{Cluster, condition, config_map};

const DEFAULT: &str = "/api/v1/namespaces/default";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn pod(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}})
}

async fn started() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.until(&format!("{DEFAULT}/serviceaccounts/default"), |code, _| code == 200).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn roles_gather_the_rules_of_others() {
    let cluster = started().await;
    let role = |name: &str, labels: Value, resource: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]})
    };
    cluster.create(ROLES, role("one", json!({"to": "all"}), "pods")).await;
    let mut all = role("all", json!({}), "nodes");
    all["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]});
    cluster.create(ROLES, all).await;
    let resources = |role: &Value| {
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        rules.iter().map(|rule| rule["resources"][0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let path = format!("{ROLES}/all");
    let all = cluster.until(&path, |_, role| resources(role) == ["pods"]).await;
    let managers = all["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|entry| entry["manager"] == "clusterrole-aggregation-controller").unwrap();
    assert_eq!((&own["operation"], &own["fieldsV1"]), (&json!("Apply"), &json!({"f:rules": {}})));
    cluster.create(ROLES, role("another", json!({"to": "all"}), "secrets")).await;
    cluster.until(&path, |_, role| resources(role) == ["secrets", "pods"]).await;
    cluster.patch(&format!("{ROLES}/one"), json!({"metadata": {"labels": {"to": null}}})).await;
    cluster.until(&path, |_, role| resources(role) == ["secrets"]).await;
    cluster.delete(&format!("{ROLES}/another")).await;
    cluster.until(&path, |_, role| resources(role).is_empty()).await;
    assert!(!resources(&cluster.read(&format!("{ROLES}/admin")).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn quotas_count_what_goes_and_what_ceases_to_count() {
    let cluster = started().await;
    cluster.create(&format!("{DEFAULT}/configmaps"), config_map("before")).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "3", "requests.cpu": "1", "count/configmaps": "10"}}});
    cluster.create(&format!("{DEFAULT}/resourcequotas"), quota).await;
    let path = format!("{DEFAULT}/resourcequotas/q");
    let used = |pods: &str, cpu: &str, maps: &str| json!({"pods": pods, "requests.cpu": cpu, "count/configmaps": maps});
    let first = cluster.until(&path, |_, quota| quota["status"]["used"] == used("0", "0", "2")).await;
    assert_eq!(first["status"]["hard"], first["spec"]["hard"]);
    for name in ["a", "b", "c"] {
        cluster.create(&format!("{DEFAULT}/pods"), pod(name, &json!({}))).await;
    }
    assert_eq!(cluster.read(&path).await["status"]["used"], used("3", "300m", "2"));
    assert_eq!(cluster.post(&format!("{DEFAULT}/pods"), &pod("d", &json!({}))).await.0, 403);
    cluster.delete(&format!("{DEFAULT}/pods/a?gracePeriodSeconds=0")).await;
    cluster.patch(&format!("{DEFAULT}/pods/b/status"), json!({"status": {"phase": "Succeeded"}})).await;
    cluster.delete(&format!("{DEFAULT}/configmaps/before")).await;
    cluster.until(&path, |_, quota| quota["status"]["used"] == used("1", "100m", "1")).await;
    cluster.patch(&path, json!({"spec": {"hard": {"count/secrets": "1", "requests.cpu": null}}})).await;
    let last = cluster.until(&path, |_, quota| quota["status"]["hard"] == quota["spec"]["hard"]).await;
    assert_eq!(last["status"]["used"], json!({"pods": "1", "count/configmaps": "1", "count/secrets": "0"}));
}

#[tokio::test(start_paused = true)]
async fn budgets_follow_their_pods() {
    let cluster = started().await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    cluster.create(BUDGETS, budget).await;
    let path = format!("{BUDGETS}/b");
    let counts = |budget: &Value| {
        let status = &budget["status"];
        ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
            .map(|key| status[key].as_i64())
    };
    cluster.until(&path, |_, budget| counts(budget) == [0, 0, 1, 0].map(Some)).await;
    for name in ["a", "b"] {
        cluster.create(&format!("{DEFAULT}/pods"), pod(name, &json!({"app": "x"}))).await;
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        cluster.patch(&format!("{DEFAULT}/pods/{name}/status"), ready).await;
    }
    let settled = cluster.until(&path, |_, budget| counts(budget) == [2, 2, 1, 1].map(Some)).await;
    assert_eq!(condition(&settled, "DisruptionAllowed"), "True");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "default"}});
    cluster.create(&format!("{DEFAULT}/pods/a/eviction"), eviction).await;
    cluster.until(&path, |_, budget| counts(budget) == [1, 1, 1, 0].map(Some)).await;

    // The pods that are expected are those their controllers want.
    let deployments = "/apis/apps/v1/namespaces/default";
    let template =
        json!({"metadata": {"labels": {"app": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 5, "selector": {"matchLabels": {"app": "y"}}, "template": template});
    let reference = |owner: &Value| {
        json!([{"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true}])
    };
    let object =
        |kind: &str| json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "y"}, "spec": spec});
    let deployment = cluster.create(&format!("{deployments}/deployments"), object("Deployment")).await;
    let mut set = object("ReplicaSet");
    set["metadata"]["ownerReferences"] = reference(&deployment);
    let set = cluster.create(&format!("{deployments}/replicasets"), set).await;
    let mut owned = pod("y", &json!({"app": "y"}));
    owned["metadata"]["ownerReferences"] = reference(&set);
    cluster.create(&format!("{DEFAULT}/pods"), owned).await;
    let percent = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "y"},
        "spec": {"maxUnavailable": "40%", "selector": {"matchLabels": {"app": "y"}}}});
    cluster.create(BUDGETS, percent).await;
    cluster.until(&format!("{BUDGETS}/y"), |_, budget| counts(budget) == [5, 0, 3, 0].map(Some)).await;
}

#[tokio::test(start_paused = true)]
async fn secrets_of_accounts_are_filled_in_and_go_with_them() {
    let cluster = started().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}, "secrets": [{"name": "t"}]});
    let accounts = format!("{DEFAULT}/serviceaccounts");
    let account = cluster.create(&accounts, account).await;
    let secret = |account: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": account}}})
    };
    let (secrets, path) = (format!("{DEFAULT}/secrets"), format!("{DEFAULT}/secrets/t"));
    cluster.create(&secrets, secret("robot")).await;
    let filled = cluster.until(&path, |_, secret| secret["data"]["token"].is_string()).await;
    assert_eq!(filled["data"]["namespace"], "ZGVmYXVsdA==");
    assert_eq!(
        filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"],
        account["metadata"]["uid"]
    );
    cluster.patch(&path, json!({"data": {"ca.crt": "b3RoZXI=", "token": null}})).await;
    cluster
        .until(&path, |_, secret| {
            secret["data"]["ca.crt"] == filled["data"]["ca.crt"] && secret["data"]["token"].is_string()
        })
        .await;
    cluster.delete(&path).await;
    cluster.until(&format!("{accounts}/robot"), |_, account| account.get("secrets").is_none()).await;
    cluster.create(&secrets, secret("robot")).await;
    cluster.until(&path, |_, secret| secret["data"]["token"].is_string()).await;
    cluster.delete(&format!("{accounts}/robot")).await;
    cluster.until_gone(&path).await;
    cluster.create(&secrets, secret("nobody")).await;
    cluster.until_gone(&path).await;
}

#[tokio::test(start_paused = true)]
async fn claims_wait_for_their_pods_and_volumes_for_their_claims() {
    let cluster = started().await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = cluster.create(&format!("{DEFAULT}/persistentvolumeclaims"), claim).await;
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let path = format!("{DEFAULT}/persistentvolumeclaims/c");
    cluster.patch(&format!("{path}/status"), json!({"status": {"phase": "Bound"}})).await;
    cluster.until(&path, |_, claim| condition(claim, "Unused") == "True").await;
    let mut user = pod("p", &json!({}));
    user["spec"]["nodeName"] = "n".into();
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    cluster.create(&format!("{DEFAULT}/pods"), user).await;
    cluster.until(&path, |_, claim| condition(claim, "Unused") == "False").await;
    cluster.delete(&path).await;
    // Even a pod that is over keeps it.
    cluster.patch(&format!("{DEFAULT}/pods/p/status"), json!({"status": {"phase": "Succeeded"}})).await;
    cluster.quiet().await;
    cluster.read(&path).await;
    cluster.delete(&format!("{DEFAULT}/pods/p?gracePeriodSeconds=0")).await;
    cluster.until_gone(&path).await;

    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}});
    cluster.create("/api/v1/persistentvolumes", volume).await;
    let path = "/api/v1/persistentvolumes/v";
    cluster.patch(&format!("{path}/status"), json!({"status": {"phase": "Bound"}})).await;
    cluster.delete(path).await;
    cluster.quiet().await;
    cluster.read(path).await;
    cluster.patch(&format!("{path}/status"), json!({"status": {"phase": "Released"}})).await;
    cluster.until_gone(path).await;
}

#[tokio::test(start_paused = true)]
async fn events_are_kept_for_an_hour_after_their_last_change() {
    let cluster = started().await;
    let event = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "Test",
            "involvedObject": {"kind": "ConfigMap", "name": "x", "namespace": "default"}})
    };
    let (one, other) = (format!("{DEFAULT}/events/one"), format!("{DEFAULT}/events/other"));
    for name in ["one", "other"] {
        cluster.create(&format!("{DEFAULT}/events"), event(name)).await;
    }
    tokio::time::sleep(Duration::from_mins(30)).await;
    cluster.patch(&other, json!({"count": 2})).await;
    tokio::time::sleep(Duration::from_mins(29)).await;
    cluster.read(&one).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(cluster.get(&one).await.0, 404);
    cluster.read(&other).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(cluster.get(&other).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn approved_requests_for_certificates_are_signed() {
    let cluster = started().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "robot");
    let request = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
        "spec": {"request": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, request),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}});
    cluster.create(path, object).await;
    cluster.quiet().await;
    let path = format!("{path}/r");
    let mut object = cluster.read(&path).await;
    assert!(object["status"]["certificate"].is_null());
    object["status"] =
        json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": ""}]});
    let (code, answer) =
        cluster.send(Method::PUT, &format!("{path}/approval"), "application/json", &object).await;
    assert_eq!(code, 200, "{answer}");
    cluster.until(&path, |_, request| request["status"]["certificate"].is_string()).await;
}
