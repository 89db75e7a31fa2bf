//! Services: what goes when the type changes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::view::{Edit, Look, same};

/// True for services that have addresses in the cluster.
pub(crate) fn needs_cluster_ip(spec: &Value) -> bool {
    spec.text("type") != "ExternalName"
}

/// True for services that have ports on the nodes.
pub(crate) fn needs_node_port(spec: &Value) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

/// True for services that have a port on the nodes to ask for their health.
pub(crate) fn needs_health_check_port(spec: &Value) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

fn externally_accessible(spec: &Value) -> bool {
    needs_node_port(spec) || (spec.text("type") == "ClusterIP" && !spec.list("externalIPs").is_empty())
}

/// Fields that only make sense for the old type go with it, unless they were changed as well.
pub(super) fn update(old: &Value, new: &mut Value) {
    let old_spec = old.at("spec");
    let spec = new.object("spec");
    let unchanged = |spec: &Value, field: &str| same(old_spec.at(field), spec.at(field));
    if needs_cluster_ip(old_spec) && !needs_cluster_ip(spec) {
        if unchanged(spec, "clusterIP") && unchanged(spec, "clusterIPs") {
            spec.cut("clusterIP");
            spec.cut("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if unchanged(spec, field) {
                spec.cut(field);
            }
        }
    }
    let node_ports = |spec: &Value| -> BTreeSet<i64> {
        spec.list("ports").iter().filter_map(|port| port.int("nodePort")).filter(|&port| port != 0).collect()
    };
    if needs_node_port(old_spec)
        && !needs_node_port(spec)
        && node_ports(old_spec).is_superset(&node_ports(spec))
    {
        for port in spec.items("ports") {
            port.cut("nodePort");
        }
    }
    if needs_health_check_port(old_spec)
        && !needs_health_check_port(spec)
        && unchanged(spec, "healthCheckNodePort")
    {
        spec.cut("healthCheckNodePort");
    }
    if old_spec.text("type") == "LoadBalancer" && spec.text("type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if unchanged(spec, field) {
                spec.cut(field);
            }
        }
    }
    if externally_accessible(old_spec)
        && !externally_accessible(spec)
        && unchanged(spec, "externalTrafficPolicy")
    {
        spec.cut("externalTrafficPolicy");
    }
    if spec.text("type") != "LoadBalancer" {
        new.object("status").put("loadBalancer", serde_json::json!({}));
    }
}
