//! Networks, Services and isolation: goldens.

use serde_json::{Value, json};
use trellis_model::Estate;

use crate::builders::{
    TENANT_CONFIG, cluster, control_plane, golden, instance, instance_of, of_kind, pool, rendered, templated,
    vlan_cluster, with_cluster,
};

/// The networks of the machine, and the definitions made for them.
fn network_parts(objects: &[Value]) -> Value {
    let instance = instance(objects);
    json!({
        "definitions": of_kind(objects, "NetworkAttachmentDefinition"),
        "networks": instance["networks"], "interfaces": instance["domain"]["devices"]["interfaces"],
    })
}

#[test]
fn a_default_network_takes_the_pod_networks_place() {
    let objects = with_cluster(
        json!({ "network": { "machineNetworks": [
            { "name": "data", "binding": "SRIOV", "source": { "shared": { "namespace": "nets", "name": "fast" } } },
            { "name": "main", "default": true, "source": { "tenant": { "config": TENANT_CONFIG } } }] } }),
        vec![control_plane(1)],
    );
    let parts = network_parts(&objects);
    assert_eq!(parts["networks"][0]["multus"], json!({ "default": true, "networkName": "demo/demo-main" }));
    assert_eq!(parts["networks"][1]["multus"]["networkName"], "nets/fast");
    assert!(of_kind(&objects, "Service").is_empty(), "there is no pod network they could point to");
    golden("default_network", &parts);
}

#[test]
fn two_interfaces_on_the_default_network_are_one_default() {
    let nics = json!([
        { "name": "a", "network": { "machine": "main" } },
        { "name": "b", "network": { "machine": "main" } },
    ]);
    let main =
        json!({ "name": "main", "default": true, "source": { "tenant": { "config": TENANT_CONFIG } } });
    let objects = with_cluster(
        json!({ "network": { "machineNetworks": [main] } }),
        vec![templated(json!({ "nics": nics }))],
    );
    let defaults: Vec<bool> = network_parts(&objects)["networks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|network| network["multus"]["default"] == true)
        .collect();
    assert_eq!(defaults, [true, false]);
}

#[test]
fn machine_networks_stand_beside_the_pod_network() {
    let objects = with_cluster(vlan_cluster(), vec![templated(json!({}))]);
    let parts = network_parts(&objects);
    assert_eq!(parts["networks"][0]["pod"], json!({}));
    assert_eq!(parts["interfaces"][0]["masquerade"], json!({}));
    assert!(parts["networks"][1]["multus"]["default"].is_null());
    golden("mixed_networks", &parts);
}

#[test]
fn a_bridge_on_the_pod_network_may_move() {
    let objects =
        with_cluster(json!({ "network": { "podNetworkBinding": "Bridge" } }), vec![templated(json!({}))]);
    let vm = of_kind(&objects, "VirtualMachine")[0];
    let key = "kubevirt.io/allow-pod-bridge-network-live-migration";
    assert_eq!(vm["spec"]["template"]["metadata"]["annotations"][key], "true");
    golden("pod_bridge", &network_parts(&objects));
}

#[test]
fn name_resolution_is_the_pods() {
    let instance = instance_of(json!({ "dns": {
        "policy": "None", "nameservers": ["10.0.0.53"], "searches": ["example.com"], "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }] } }));
    assert_eq!(instance["dnsPolicy"], "None");
    golden("dns", &json!([instance["dnsPolicy"], instance["dnsConfig"]]));
}

#[test]
fn services_have_plain_names_in_a_namespace_of_ones_own() {
    let objects = with_cluster(json!({ "baseDomain": "svc.cluster.local" }), vec![control_plane(3)]);
    let services = of_kind(&objects, "Service");
    let names: Vec<&Value> = services.iter().map(|service| &service["metadata"]["name"]).collect();
    assert_eq!((names[0].as_str(), names[1].as_str()), (Some("api"), Some("api-int")));
    assert_eq!(services[0]["spec"]["type"], "LoadBalancer");
    assert_eq!(services[2]["spec"]["clusterIP"], "None");
    assert_eq!(services[2]["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(names[2], &of_kind(&objects, "VirtualMachine")[0]["metadata"]["name"]);
    assert_eq!(services.len(), 5);
    golden("services_external", &json!(services));
}

#[test]
fn services_carry_the_clusters_name_in_a_shared_namespace() {
    let objects = with_cluster(
        json!({ "platform": { "kubevirt": { "namespace": "tenants" } }, "network": { "publish": "Internal" } }),
        vec![control_plane(1)],
    );
    let services = of_kind(&objects, "Service");
    assert_eq!(services[0]["metadata"]["name"], "demo-api");
    assert_eq!(services[0]["metadata"]["namespace"], "tenants");
    assert_eq!(services[0]["spec"]["type"], "ClusterIP");
    // Members of etcd find each other by name without a domain, too; workers need none.
    assert_eq!(services.len(), 3);
    assert_eq!(services[2]["metadata"]["name"], of_kind(&objects, "VirtualMachine")[0]["metadata"]["name"]);
    assert_eq!(services[2]["spec"]["publishNotReadyAddresses"], true);
    golden("services_internal", &json!(services[..2]));
}

/// The KubeVirt provider of Cluster API, 74: a Service chose machines by labels that another tenant's had, too, and sent
/// its clients to that tenant's control plane.
#[test]
fn a_service_leads_to_no_machine_of_another_tenant() {
    let shared =
        json!({ "platform": { "kubevirt": { "namespace": "tenants" } }, "baseDomain": "example.org" });
    // Names of which one is the beginning of the other, and pools that are called alike.
    let names = ["demo", "demo-masters"];
    let masters = json!({ "role": "control-plane", "replicas": 1 });
    let objects = rendered(&Estate {
        clusters: names.iter().map(|name| cluster(name, shared.clone())).collect(),
        pools: names.iter().map(|name| pool(name, "masters", masters.clone())).collect(),
    });
    let machines = of_kind(&objects, "VirtualMachine");
    let services = of_kind(&objects, "Service");
    assert!(machines.len() == 2 && services.len() >= 6, "{} and {}", machines.len(), services.len());
    for service in services {
        let chosen = service["spec"]["selector"].as_object().unwrap();
        let owner = &service["metadata"]["labels"]["trellis.dev/cluster"];
        let reached: Vec<&Value> = machines
            .iter()
            .map(|machine| &machine["spec"]["template"]["metadata"]["labels"])
            .filter(|labels| chosen.iter().all(|(name, value)| labels[name] == *value))
            .map(|labels| &labels["trellis.dev/cluster"])
            .collect();
        assert!(
            !reached.is_empty() || service["metadata"]["name"].as_str().unwrap().contains("api"),
            "{service}"
        );
        assert!(reached.iter().all(|cluster| *cluster == owner), "{service} reaches {reached:?}");
    }
}

#[test]
fn without_a_control_plane_of_its_own_a_cluster_has_no_services() {
    assert!(of_kind(&with_cluster(json!({}), vec![templated(json!({}))]), "Service").is_empty());
}

#[test]
fn a_cluster_with_a_domain_names_its_machines() {
    let objects = with_cluster(json!({ "baseDomain": "example.com" }), vec![templated(json!({}))]);
    let at = |kind: &str| objects.iter().position(|object| object["kind"] == kind).unwrap();
    assert_eq!(objects[at("Service")]["metadata"]["name"], objects[at("VirtualMachine")]["metadata"]["name"]);
    assert!(at("Service") < at("VirtualMachine"));
}

#[test]
fn name_servers_a_pool_names_can_be_reached() {
    let pool = templated(json!({ "dns": { "policy": "None", "nameservers": ["10.1.1.53", "fd00::53"] } }));
    let objects = with_cluster(json!({}), vec![pool]);
    let policies = of_kind(&objects, "NetworkPolicy");
    let dns = policies.iter().find(|policy| policy["metadata"]["name"] == "demo-allow-dns").unwrap();
    let to = dns["spec"]["egress"][0]["to"].to_string();
    assert!(to.contains("10.1.1.53/32") && to.contains("fd00::53/128"), "{to}");
}

#[test]
fn isolation_opens_what_the_cluster_needs() {
    let objects = with_cluster(
        json!({ "network": { "publish": "Internal", "allowedEgress": ["10.1.2.0/24", "fd00:1::/64"] } }),
        vec![],
    );
    let policies = of_kind(&objects, "NetworkPolicy");
    assert_eq!(policies[0]["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(policies[0]["spec"]["ingress"].is_null() && policies[0]["spec"]["egress"].is_null());
    let named =
        |name: &str| &policies.iter().find(|policy| policy["metadata"]["name"] == name).unwrap()["spec"];
    let api = &named("demo-allow-api")["ingress"][0];
    assert_eq!(api["from"], json!([{ "namespaceSelector": {} }]));
    assert_eq!(api["ports"][0]["port"], 6443);
    let peers = named("demo-allow-internet")["egress"][0]["to"].as_array().unwrap();
    assert!(peers[0]["ipBlock"]["except"].as_array().unwrap().contains(&json!("169.254.0.0/16")));
    assert_eq!(peers[1]["ipBlock"]["except"], json!(["fc00::/7", "fe80::/10"]));
    assert_eq!(peers[2]["ipBlock"]["cidr"], "10.1.2.0/24");
    // The members of etcd and the machine config server are asked through virt-api, and by nobody else outside.
    let forwarded = &named("demo-allow-port-forwarding")["ingress"][0];
    assert_eq!(forwarded["from"][0]["podSelector"]["matchLabels"], json!({"kubevirt.io": "virt-api"}));
    assert_eq!(forwarded["from"][0]["namespaceSelector"], json!({}));
    let ports: Vec<&Value> =
        forwarded["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [2379, 22623]);
    golden("isolation", &json!(policies));
}

#[test]
fn a_published_api_is_open_to_everyone_and_nothing_else_is() {
    let objects = with_cluster(json!({}), vec![]);
    for policy in of_kind(&objects, "NetworkPolicy") {
        for rule in policy["spec"]["ingress"].as_array().into_iter().flatten() {
            let open = rule["from"].is_null();
            assert_eq!(open, policy["metadata"]["name"] == "demo-allow-api", "{policy}");
        }
    }
}
