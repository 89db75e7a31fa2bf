//! What the server keeps of itself, and the addresses of Services.

use serde_json::json;

use crate::{Cluster, condition};

const NETWORKS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const DEFAULT: &str = "/api/v1/namespaces/default";

#[tokio::test(start_paused = true)]
async fn what_the_server_needs_comes_back() {
    let cluster = Cluster::start().await;
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let endpoints = format!("{DEFAULT}/endpoints/kubernetes");
    let slice_found = cluster.until(slice, |code, _| code == 200).await;
    let found = cluster.until(&endpoints, |code, _| code == 200).await;
    assert_eq!(found["subsets"][0]["addresses"][0]["ip"], slice_found["endpoints"][0]["addresses"][0]);
    assert_eq!(found["subsets"][0]["ports"][0]["port"], slice_found["ports"][0]["port"]);
    let tracking =
        "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    let tracked = cluster.until(tracking, |code, _| code == 200).await;
    assert_eq!(tracked["data"], json!({"since": "2026-01-01"}));
    for path in
        [slice, &endpoints, &format!("{DEFAULT}/services/kubernetes"), "/api/v1/namespaces/kube-node-lease"]
    {
        let before = cluster.read(path).await;
        cluster.delete(path).await;
        cluster
            .until(path, |code, now| code == 200 && now["metadata"]["uid"] != before["metadata"]["uid"])
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn services_have_addresses_and_networks_wait_for_them() {
    let cluster = Cluster::start().await;
    let network = cluster
        .until(&format!("{NETWORKS}/kubernetes"), |_, network| condition(network, "Ready") == "True")
        .await;
    assert_eq!(network["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    assert_eq!(network["metadata"]["finalizers"], json!(["networking.k8s.io/service-cidr-finalizer"]));
    cluster.until(&format!("{ADDRESSES}/10.96.0.1"), |code, _| code == 200).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}});
    cluster.create(&format!("{DEFAULT}/services"), service.clone()).await;
    let path = format!("{ADDRESSES}/10.96.7.7");
    let address = cluster.until(&path, |code, _| code == 200).await;
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "s"})
    );
    assert_eq!(
        address["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    cluster.delete(&path).await;
    cluster.until(&path, |code, _| code == 200).await;
    cluster.delete(&format!("{DEFAULT}/services/s")).await;
    cluster.until_gone(&path).await;

    cluster.delete(&format!("{NETWORKS}/kubernetes")).await;
    let waiting = cluster
        .until(&format!("{NETWORKS}/kubernetes"), |_, network| condition(network, "Ready") == "False")
        .await;
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "Terminating");
    let wider = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "wider"},
        "spec": {"cidrs": ["10.96.0.0/12"]}});
    cluster.create(NETWORKS, wider).await;
    let uid = waiting["metadata"]["uid"].clone();
    cluster
        .until(&format!("{NETWORKS}/kubernetes"), |code, now| code == 404 || now["metadata"]["uid"] != uid)
        .await;
}
