//! Services and what is behind and in front of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Object;
use super::text::{first_three, labels, selector_cell, strings};

/// The cells of a kind, if it is one of these.
pub(super) fn cells(kind: &str, of: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Service" => vec![
            of.name(),
            of.text("/spec/type").into(),
            of.text_or("/spec/clusterIPs/0", "<none>").into(),
            external_address(of).into(),
            ports(of).into(),
            of.age(),
            labels(of.at("/spec/selector")).into(),
        ],
        "Endpoints" => vec![of.name(), endpoints(of).into(), of.age()],
        "EndpointSlice" => slice(of),
        "Ingress" => {
            let tls = if of.count("/spec/tls") > 0 { "80, 443" } else { "80" };
            vec![
                of.name(),
                of.text_or("/spec/ingressClassName", "<none>").into(),
                hosts(of).into(),
                balancer_addresses(of).into(),
                tls.into(),
                of.age(),
            ]
        }
        "IngressClass" => ingress_class(of),
        "NetworkPolicy" => vec![of.name(), selector_cell(of.at("/spec/podSelector")), of.age()],
        "IPAddress" => vec![of.name(), parent(of).into(), of.age()],
        "ServiceCIDR" => vec![of.name(), strings(of.at("/spec/cidrs")).join(",").into(), of.age()],
        _ => return None,
    })
}

/// What the load balancer can be reached at.
fn balancer_addresses(of: Object<'_>) -> String {
    let addresses: BTreeSet<&str> = of
        .list("/status/loadBalancer/ingress")
        .iter()
        .filter_map(|each| {
            let text = |key: &str| each[key].as_str().filter(|text| !text.is_empty());
            text("ip").or_else(|| text("hostname"))
        })
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn external_address(of: Object<'_>) -> String {
    let own = strings(of.at("/spec/externalIPs")).join(",");
    match of.text("/spec/type") {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => match (balancer_addresses(of), own) {
            (balancer, own) if balancer.is_empty() && own.is_empty() => "<pending>".to_owned(),
            (balancer, own) if own.is_empty() => balancer,
            (balancer, own) if balancer.is_empty() => own,
            (balancer, own) => format!("{balancer},{own}"),
        },
        "ExternalName" => of.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(of: Object<'_>) -> String {
    let pieces: Vec<String> = of
        .list("/spec/ports")
        .iter()
        .map(|port| {
            let number = port["port"].as_i64().unwrap_or_default();
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64() {
                Some(node @ 1..) => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    if pieces.is_empty() { "<none>".to_owned() } else { pieces.join(",") }
}

fn endpoints(of: Object<'_>) -> String {
    let subsets = of.list("/subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut list = Vec::new();
    for subset in subsets {
        let addresses: Vec<&str> = subset["addresses"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|address| address["ip"].as_str().unwrap_or_default())
            .collect();
        let ports = subset["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if ports.is_empty() {
            list.extend(addresses.iter().map(|&address| address.to_owned()));
        }
        for port in ports {
            let port = port["port"].as_i64().unwrap_or_default();
            list.extend(addresses.iter().map(|address| {
                if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
                }
            }));
        }
    }
    if list.is_empty() { String::new() } else { first_three(&list) }
}

fn slice(of: Object<'_>) -> Vec<Value> {
    let ports: Vec<String> = of
        .list("/ports")
        .iter()
        .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = of
        .list("/endpoints")
        .iter()
        .flat_map(|endpoint| strings(&endpoint["addresses"]))
        .map(str::to_owned)
        .collect();
    vec![
        of.name(),
        of.text("/addressType").into(),
        first_three(&ports).into(),
        first_three(&addresses).into(),
        of.age(),
    ]
}

fn hosts(of: Object<'_>) -> String {
    let rules = of.list("/spec/rules");
    let mut list = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == 3;
        if let Some(host) = rule["host"].as_str().filter(|host| !more && !host.is_empty()) {
            list.push(host);
        }
    }
    if list.is_empty() {
        "*".to_owned()
    } else if more {
        format!("{} + {} more...", list.join(","), rules.len() - 3)
    } else {
        list.join(",")
    }
}

fn ingress_class(of: Object<'_>) -> Vec<Value> {
    let mut name = of.text("/metadata/name").to_owned();
    if of.text("/metadata/annotations/ingressclass.kubernetes.io~1is-default-class") == "true" {
        name.push_str(" (default)");
    }
    let parameters = match of.at("/spec/parameters") {
        Value::Null => "<none>".to_owned(),
        told => {
            let group = told["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
            let text = |key: &str| told[key].as_str().unwrap_or_default();
            format!("{}{group}/{}", text("kind"), text("name"))
        }
    };
    vec![name.into(), of.text("/spec/controller").into(), parameters.into(), of.age()]
}

/// What an address belongs to.
fn parent(of: Object<'_>) -> String {
    let parent = of.at("/spec/parentRef");
    if parent.is_null() {
        return "<none>".to_owned();
    }
    let text = |key: &str| parent[key].as_str().unwrap_or_default();
    let resource = crate::status::qualified(text("group"), text("resource")).to_lowercase();
    let namespace = text("namespace");
    let place = if namespace.is_empty() { String::new() } else { format!("/{namespace}") };
    format!("{resource}{place}/{}", text("name"))
}
