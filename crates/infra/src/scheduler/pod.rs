//! What matters of a pod for placing it, and for placing others beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::resources::Resources;
use super::selector::{Labels, NodeSelector, NodeTerm, Selector, labels_of};
use crate::object::{Key, Object as _};

/// What matters of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) labels: Labels,
    pub(crate) priority: i64,
    pub(crate) wanted: Resources,
    pub(crate) likely: Resources,
    pub(crate) tolerations: Vec<Value>,
    pub(crate) node_labels: Labels,
    pub(crate) node_affinity: Option<NodeSelector>,
    pub(crate) preferred_nodes: Vec<(i64, NodeTerm)>,
    pub(crate) ports: BTreeSet<Port>,
    pub(crate) affinity: Vec<Term>,
    pub(crate) anti_affinity: Vec<Term>,
    /// Weights are negative for what is better avoided.
    pub(crate) preferred: Vec<(i64, Term)>,
    pub(crate) spread: Vec<Spread>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) is_deleting: bool,
    pub(crate) start: String,
}

/// A port of the host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    pub(crate) number: i64,
    pub(crate) protocol: String,
    pub(crate) address: String,
}

impl Port {
    /// Whether both cannot be used on one host.
    pub(crate) fn collides(&self, other: &Self) -> bool {
        let any = |address: &str| matches!(address, "" | "0.0.0.0");
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || any(&self.address) || any(&other.address))
    }
}

/// A claim of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) name: String,
    /// Whether it is made for the pod.
    pub(crate) ephemeral: bool,
}

/// Some pods, and the places they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    selector: Option<Selector>,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<Selector>,
    pub(crate) topology: String,
}

impl Term {
    fn read(term: &Value, namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> =
            term.list("/namespaces").iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
        let namespace_selector = Selector::read(term.at("/namespaceSelector"));
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        Self {
            selector: Selector::read(term.at("/labelSelector")),
            namespaces,
            namespace_selector,
            topology: term.text("/topologyKey").to_owned(),
        }
    }

    /// Whether a pod is one of those meant. The labels of its namespace are asked for only where they matter.
    pub(crate) fn matches(&self, pod: &Pod, namespace: &dyn Fn(&str) -> Labels) -> bool {
        let place = &pod.key.namespace;
        let here = self.namespaces.contains(place)
            || self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(&namespace(place)));
        here && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// The only namespaces pods can be in, where that is known.
    pub(crate) fn namespaces(&self) -> Option<&BTreeSet<String>> {
        self.namespace_selector.is_none().then_some(&self.namespaces)
    }
}

/// How evenly pods are to be spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) topology: String,
    pub(crate) selector: Option<Selector>,
    pub(crate) skew: i64,
    pub(crate) min_domains: i64,
    /// Whether a pod rather waits than is placed unevenly.
    pub(crate) strict: bool,
    /// Whether nodes the pod does not select count.
    pub(crate) any_node: bool,
    /// Whether nodes whose taints the pod does not tolerate count.
    pub(crate) any_taint: bool,
}

impl Spread {
    fn read(constraint: &Value, labels: &Labels) -> Self {
        let mut selector = Selector::read(constraint.at("/labelSelector"));
        for name in constraint.list("/matchLabelKeys").iter().filter_map(Value::as_str) {
            if let (Some(selector), Some(value)) = (&mut selector, labels.get(name)) {
                selector.and(name, value);
            }
        }
        Self {
            topology: constraint.text("/topologyKey").to_owned(),
            selector,
            skew: constraint.number("/maxSkew").unwrap_or(1),
            min_domains: constraint.number("/minDomains").unwrap_or(1),
            strict: constraint.text("/whenUnsatisfiable") != "ScheduleAnyway",
            any_node: constraint.text("/nodeAffinityPolicy") == "Ignore",
            any_taint: constraint.text("/nodeTaintsPolicy") != "Honor",
        }
    }
}

impl Pod {
    /// Reads what matters of a pod.
    pub(crate) fn read(pod: &Value) -> Arc<Self> {
        let namespace = pod.namespace();
        let terms = |pointer: &str| -> Vec<Term> {
            pod.list(pointer).iter().map(|term| Term::read(term, namespace)).collect()
        };
        let weighted = |pointer: &str, sign: i64| -> Vec<(i64, Term)> {
            let list = pod.list(pointer).iter();
            list.map(|one| {
                (
                    sign * one.number("/weight").unwrap_or_default(),
                    Term::read(&one["podAffinityTerm"], namespace),
                )
            })
            .collect()
        };
        let labels = labels_of(pod);
        let mut preferred =
            weighted("/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution", 1);
        preferred.extend(weighted(
            "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
            -1,
        ));
        Arc::new(Self {
            key: Key::of(pod),
            uid: pod.uid().to_owned(),
            priority: pod.number("/spec/priority").unwrap_or_default(),
            wanted: Resources::wanted_by(pod),
            likely: Resources::likely_used_by(pod),
            tolerations: pod.list("/spec/tolerations").to_vec(),
            node_labels: pod
                .at("/spec/nodeSelector")
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            node_affinity: NodeSelector::read(
                pod.at("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"),
            ),
            preferred_nodes: pod
                .list("/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .map(|one| (one.number("/weight").unwrap_or_default(), NodeTerm::read(&one["preference"])))
                .collect(),
            ports: ports(pod),
            affinity: terms("/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution"),
            anti_affinity: terms(
                "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            ),
            preferred,
            spread: pod
                .list("/spec/topologySpreadConstraints")
                .iter()
                .map(|constraint| Spread::read(constraint, &labels))
                .collect(),
            claims: claims(pod),
            is_deleting: pod.is_deleting(),
            start: pod.text("/status/startTime").to_owned(),
            labels,
        })
    }

    /// Whether nodes have to be of a certain kind, by their labels and names.
    pub(crate) fn selects(&self, name: &str, labels: &Labels) -> bool {
        self.node_labels.iter().all(|(label, value)| labels.get(label) == Some(value))
            && self.node_affinity.as_ref().is_none_or(|selector| selector.matches(name, labels))
    }

    /// The names of the only nodes it can be on, if it names them.
    pub(crate) fn named_nodes(&self) -> Option<BTreeSet<&str>> {
        let terms = &self.node_affinity.as_ref()?.0;
        let mut names = BTreeSet::new();
        for term in terms {
            names.extend(term.names()?.iter().map(String::as_str));
        }
        Some(names)
    }
}

fn ports(pod: &Value) -> BTreeSet<Port> {
    let containers = pod.list("/spec/containers").iter().flat_map(|container| container.list("/ports"));
    containers
        .filter_map(|port| {
            Some(Port {
                number: port.number("/hostPort").filter(|number| *number > 0)?,
                protocol: port["protocol"].as_str().unwrap_or("TCP").to_owned(),
                address: port.text("/hostIP").to_owned(),
            })
        })
        .collect()
}

fn claims(pod: &Value) -> Vec<Claim> {
    let volumes = pod.list("/spec/volumes").iter();
    volumes
        .filter_map(|volume| {
            let ephemeral = volume["ephemeral"].is_object();
            let name = if ephemeral {
                format!("{}-{}", pod.name(), volume.text("/name"))
            } else {
                volume["persistentVolumeClaim"]["claimName"].as_str()?.to_owned()
            };
            Some(Claim { name, ephemeral })
        })
        .collect()
}
