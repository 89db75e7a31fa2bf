//! NetworkPolicies: who may talk to whom, as a pure function.
//!
//! A pod that no policy selects may talk to everybody and be talked to. One that is selected for a direction is
//! isolated in it, and may do what any of the policies that select it allows. Both ends are asked.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use super::ends::{End, Member, Protocol, Verdict};
use super::selector::{labels_at, picks};
use crate::object::Object as _;

/// A direction, as seen from the pod that is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ingress,
    Egress,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::Egress => "Egress",
        }
    }
}

/// Where something is sent to: the port is that of the pod, behind any service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aim {
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// Whether the policies let one end talk to another. They are those of both ends' namespaces; others do no harm.
pub fn verdict(policies: &[Arc<Value>], from: &End, to: &End, aim: Aim) -> Verdict {
    if let (Some(one), Some(other)) = (from.pod(), to.pod())
        && one.uid == other.uid
    {
        return Verdict::allow("a pod always reaches itself");
    }
    let mut reasons = Vec::new();
    if let Some(pod) = from.pod() {
        match side(policies, Way::Egress, pod, to, aim) {
            Ok(reason) => reasons.push(reason),
            Err(refusal) => return Verdict::deny(refusal),
        }
    }
    if let Some(pod) = to.pod() {
        // The host a pod runs on has to reach it, for probes.
        if matches!(from, End::Host { name, .. } if *name == pod.node) {
            return Verdict::allow("the own host always reaches its pods");
        }
        match side(policies, Way::Ingress, pod, from, aim) {
            Ok(reason) => reasons.push(reason),
            Err(refusal) => return Verdict::deny(refusal),
        }
    }
    reasons.retain(|reason| !reason.is_empty());
    Verdict::allow(if reasons.is_empty() {
        "no policy isolates either end".to_owned()
    } else {
        reasons.join(", ")
    })
}

/// What one side says: which policy allows it (nothing where the pod is not isolated), or which ones do not.
fn side(policies: &[Arc<Value>], way: Way, pod: &Member, peer: &End, aim: Aim) -> Result<String, String> {
    let selecting: Vec<&Value> =
        policies.iter().map(AsRef::as_ref).filter(|policy| selects(policy, way, pod)).collect();
    if selecting.is_empty() {
        return Ok(String::new());
    }
    if let Some(policy) = selecting.iter().find(|policy| allows(policy, way, pod, peer, aim)) {
        return Ok(format!(
            "{} allowed by {}/{}",
            way.name().to_lowercase(),
            policy.namespace(),
            policy.name()
        ));
    }
    let names: Vec<&str> = selecting.iter().map(|policy| policy.name()).collect();
    let what = if way == Way::Egress { "leave" } else { "reach" };
    Err(format!(
        "{} to port {} may not {what} {}: isolated for {} by {}",
        aim.protocol.name(),
        aim.port,
        pod.key,
        way.name().to_lowercase(),
        names.join(", ")
    ))
}

/// Whether a policy isolates a pod in a direction.
fn selects(policy: &Value, way: Way, pod: &Member) -> bool {
    policy.namespace() == pod.key.namespace
        && concerns(policy, way)
        && picks(policy.at("/spec/podSelector"), &pod.labels)
}

/// Without types a policy is about ingress, and about egress if it has rules for it.
fn concerns(policy: &Value, way: Way) -> bool {
    let types = policy.list("/spec/policyTypes");
    if types.is_empty() {
        way == Way::Ingress || !policy.list("/spec/egress").is_empty()
    } else {
        types.iter().any(|one| one == way.name())
    }
}

fn allows(policy: &Value, way: Way, pod: &Member, peer: &End, aim: Aim) -> bool {
    let (rules, peers) =
        if way == Way::Ingress { ("/spec/ingress", "/from") } else { ("/spec/egress", "/to") };
    // Named ports are those of the pod that is talked to.
    let target = if way == Way::Ingress { Some(pod) } else { peer.pod() };
    policy.list(rules).iter().any(|rule| {
        let ports = rule.list("/ports");
        let peers = rule.list(peers);
        (ports.is_empty() || ports.iter().any(|port| is_port(port, target, aim)))
            && (peers.is_empty() || peers.iter().any(|one| is_peer(one, policy.namespace(), peer)))
    })
}

fn is_port(port: &Value, target: Option<&Member>, aim: Aim) -> bool {
    if Protocol::parse(port.text("/protocol")) != Some(aim.protocol) {
        return false;
    }
    match &port["port"] {
        Value::Null => true,
        Value::String(name) => target.is_some_and(|pod| {
            pod.ports.iter().any(|(known, protocol, number)| {
                known == name && *protocol == aim.protocol && *number == aim.port
            })
        }),
        number => {
            let first = number.as_i64().unwrap_or_default();
            let last = port.number("/endPort").unwrap_or(first);
            (first..=last).contains(&i64::from(aim.port))
        }
    }
}

fn is_peer(peer: &Value, namespace: &str, end: &End) -> bool {
    if peer["ipBlock"].is_object() {
        // Selectors are for pods and blocks for everybody else; yet an address is an address.
        return end.addresses().iter().any(|address| in_block(&peer["ipBlock"], *address));
    }
    let Some(pod) = end.pod() else { return false };
    let (pods, namespaces) = (&peer["podSelector"], &peer["namespaceSelector"]);
    let near = if namespaces.is_null() {
        pod.key.namespace == namespace
    } else {
        picks(namespaces, &pod.namespace_labels)
    };
    near && (!pods.is_null() || !namespaces.is_null()) && (pods.is_null() || picks(pods, &pod.labels))
}

fn in_block(block: &Value, address: IpAddr) -> bool {
    let within = |text: &str| text.parse::<IpNet>().is_ok_and(|net| net.trunc().contains(&address));
    within(block.text("/cidr")) && !block.list("/except").iter().filter_map(Value::as_str).any(within)
}

/// A pod as policies see it, from the API's objects.
pub fn member(pod: &Value, namespace: Option<&Value>, addresses: Vec<IpAddr>) -> Member {
    let containers = pod.list("/spec/containers").iter().chain(
        // Sidecars are containers that begin early.
        pod.list("/spec/initContainers").iter().filter(|one| one.text("/restartPolicy") == "Always"),
    );
    let ports = containers.flat_map(|container| container.list("/ports")).filter_map(|port| {
        let number = u16::try_from(port.number("/containerPort")?).ok()?;
        Some((port.text("/name").to_owned(), Protocol::parse(port.text("/protocol"))?, number))
    });
    Member {
        uid: pod.uid().to_owned(),
        key: crate::object::Key::of(pod),
        labels: labels_at(pod, "/metadata/labels"),
        namespace_labels: namespace.map(|one| labels_at(one, "/metadata/labels")).unwrap_or_default(),
        node: pod.text("/spec/nodeName").to_owned(),
        addresses,
        ports: ports.filter(|(name, ..)| !name.is_empty()).collect(),
    }
}
