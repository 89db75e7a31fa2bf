//! The cluster as the scheduler sees it: nodes with what is on them, kept up to date change by change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::pod::Pod;
use super::resources::Resources;
use super::selector::{Labels, labels_of};
use crate::object::Object as _;

/// What matters of a node itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Value>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Resources,
}

impl NodeFacts {
    /// Reads what matters of a node.
    pub(crate) fn read(node: &Value) -> Self {
        Self {
            name: node.name().to_owned(),
            labels: labels_of(node),
            taints: node.list("/spec/taints").to_vec(),
            unschedulable: node.flag("/spec/unschedulable"),
            allocatable: Resources::read(node.at("/status/allocatable")),
        }
    }
}

/// A node and what is on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) facts: NodeFacts,
    /// Whether the node itself is there; pods may be known before it.
    exists: bool,
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) wanted: Resources,
    pub(crate) likely: Resources,
}

/// The cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    nodes: BTreeMap<String, Node>,
    /// The names of the nodes that exist, in order.
    names: Vec<String>,
    /// Which node a pod is on, by uid.
    places: HashMap<String, String>,
    /// The pods on nodes, by namespace and uid.
    in_namespace: BTreeMap<String, BTreeMap<String, Arc<Pod>>>,
    /// The pods that keep others away or want them near, by uid.
    pub(crate) with_terms: BTreeMap<String, Arc<Pod>>,
    namespaces: BTreeMap<String, Labels>,
    /// Answers that depend on nothing but the nodes, by question; gone with the next change of a node.
    answers: Mutex<HashMap<String, Arc<Answer>>>,
}

/// Nodes by name, with something about each.
type Answer = BTreeMap<String, String>;

impl Cluster {
    /// Adds a node or changes it; false if nothing that matters is new.
    pub(crate) fn put_node(&mut self, facts: NodeFacts) -> bool {
        let node = self.nodes.entry(facts.name.clone()).or_default();
        if node.exists && node.facts == facts {
            return false;
        }
        if !node.exists
            && let Err(place) = self.names.binary_search(&facts.name)
        {
            self.names.insert(place, facts.name.clone());
        }
        node.exists = true;
        node.facts = facts;
        self.answers.get_mut().clear();
        true
    }

    /// Removes a node. What is on it stays known until it is gone itself.
    pub(crate) fn remove_node(&mut self, name: &str) {
        if let Ok(place) = self.names.binary_search_by(|one| one.as_str().cmp(name)) {
            self.names.remove(place);
        }
        self.answers.get_mut().clear();
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.exists = false;
        if node.pods.is_empty() {
            self.nodes.remove(name);
        }
    }

    /// Puts a pod on a node; one that is known already is replaced.
    pub(crate) fn put_pod(&mut self, node: &str, pod: Arc<Pod>) {
        self.remove_pod(&pod.uid);
        let place = self.nodes.entry(node.to_owned()).or_default();
        place.wanted.add(&pod.wanted);
        place.likely.add(&pod.likely);
        place.pods.insert(pod.uid.clone(), Arc::clone(&pod));
        self.places.insert(pod.uid.clone(), node.to_owned());
        if !(pod.anti_affinity.is_empty() && pod.affinity.is_empty() && pod.preferred.is_empty()) {
            self.with_terms.insert(pod.uid.clone(), Arc::clone(&pod));
        }
        let namespace = self.in_namespace.entry(pod.key.namespace.clone()).or_default();
        namespace.insert(pod.uid.clone(), pod);
    }

    /// Takes a pod off its node; nothing where it was on none.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let name = self.places.remove(uid)?;
        self.with_terms.remove(uid);
        let node = self.nodes.get_mut(&name)?;
        let pod = node.pods.remove(uid)?;
        node.wanted.subtract(&pod.wanted);
        node.likely.subtract(&pod.likely);
        if node.pods.is_empty() && !node.exists {
            self.nodes.remove(&name);
        }
        if let Some(pods) = self.in_namespace.get_mut(&pod.key.namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.in_namespace.remove(&pod.key.namespace);
            }
        }
        Some(pod)
    }

    /// The node a pod is on.
    pub(crate) fn place_of(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(self.places.get(uid)?)
    }

    /// Sets the labels of a namespace.
    pub(crate) fn put_namespace(&mut self, namespace: &Value) {
        self.namespaces.insert(namespace.name().to_owned(), labels_of(namespace));
    }

    /// Forgets a namespace.
    pub(crate) fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// The labels of a namespace.
    pub(crate) fn namespace_labels(&self, name: &str) -> Labels {
        self.namespaces.get(name).cloned().unwrap_or_default()
    }

    /// The answer to a question about the nodes, which is asked once as long as no node changes.
    pub(crate) fn remembered(&self, question: &str, ask: impl FnOnce() -> Answer) -> Arc<Answer> {
        if let Some(answer) = self.answers.lock().get(question) {
            return Arc::clone(answer);
        }
        let answer = Arc::new(ask());
        self.answers.lock().insert(question.to_owned(), Arc::clone(&answer));
        answer
    }

    /// The names of all nodes, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// A node that exists.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).filter(|node| node.exists)
    }

    /// All nodes that exist, by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.exists)
    }

    /// The pods on nodes in some namespaces, or in all of them.
    pub(crate) fn pods_in<'a>(
        &'a self,
        namespaces: Option<&'a BTreeSet<String>>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Pod>> + 'a> {
        match namespaces {
            None => Box::new(self.in_namespace.values().flat_map(BTreeMap::values)),
            Some(names) => Box::new(
                names.iter().filter_map(|name| self.in_namespace.get(name)).flat_map(BTreeMap::values),
            ),
        }
    }

    /// The pods on nodes in one namespace.
    pub(crate) fn pods_of(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.in_namespace.get(namespace).into_iter().flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, cpu: &str) -> Arc<Pod> {
        Pod::read(&json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "a"},
            "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        }))
    }

    #[test]
    fn sums_follow_the_pods() {
        let mut cluster = Cluster::default();
        assert!(cluster.put_node(NodeFacts { name: "n".to_owned(), ..NodeFacts::default() }));
        assert!(!cluster.put_node(NodeFacts { name: "n".to_owned(), ..NodeFacts::default() }));
        cluster.put_pod("n", pod("1", "1"));
        cluster.put_pod("n", pod("2", "2"));
        cluster.put_pod("n", pod("2", "3"));
        assert_eq!(cluster.node("n").unwrap().wanted.get("cpu"), 4000);
        cluster.remove_pod("1");
        assert_eq!(cluster.node("n").unwrap().wanted.get("cpu"), 3000);
        cluster.remove_node("n");
        assert!(cluster.node("n").is_none() && cluster.names().is_empty());
        cluster.remove_pod("2");
        assert!(cluster.pods_in(None).next().is_none());
    }
}
