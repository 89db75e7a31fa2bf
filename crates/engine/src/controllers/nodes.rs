//! Nodes and pods of the tenant, narrowed to what plans look at.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use trellis_model::network::NodeTaint;

use crate::machines::{Attached, NodeReady, NodeSeen, OwnedNodeMeta, PodSeen};
use crate::pools::checkup::NodeCondition;

/// Where a Node says which VM it is.
pub(crate) const VM_UID: &str = "trellis.dev/vm-uid";
/// The annotation of a Node that says for the removal or evacuation of which VM we cordoned it.
pub(crate) const CORDONED_FOR: &str = "trellis.dev/cordoned-for";
/// Where a Node says in which infra namespace that VM is.
const INFRA_NAMESPACE: &str = "trellis.dev/infra-namespace";
/// Where a Node says what of its labels, annotations and taints comes from its pool.
const OWNED: &str = "trellis.dev/from-pool";
/// What a static pod's reflection carries.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Which VM a Node is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VmName<'a> {
    /// Its uid.
    pub(crate) uid: &'a str,
    /// The infra namespace it is in.
    pub(crate) namespace: &'a str,
}

/// A Node, with its taints as they stand: others have some, too.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) seen: NodeSeen,
    /// What holds for it, as health checks look at it.
    pub(crate) conditions: Vec<NodeCondition>,
    taints: Vec<Value>,
}

/// What comes from the pool, as it is written onto the Node.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct FromPool {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    taints: Vec<NodeTaint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<u32>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<WireOwner>>,
}

#[derive(Deserialize)]
struct WireOwner {
    kind: String,
}

#[derive(Deserialize)]
struct WireNode {
    metadata: WireMeta,
    #[serde(default)]
    spec: WireNodeSpec,
    #[serde(default)]
    status: WireNodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    unschedulable: bool,
    taints: Option<Vec<Value>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeStatus {
    conditions: Vec<WireCondition>,
    node_info: WireNodeInfo,
    volumes_attached: Option<Vec<WireAttached>>,
    volumes_in_use: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireAttached {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeInfo {
    #[serde(rename = "systemUUID")]
    system_uuid: String,
    kubelet_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WireNode::deserialize(deserializer).map(Self::narrowed)
    }
}

impl Node {
    fn narrowed(wire: WireNode) -> Self {
        let WireNode { metadata, spec, status } = wire;
        let created = metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
        let mut annotations = metadata.annotations.unwrap_or_default();
        let ours: FromPool =
            annotations.remove(OWNED).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let vm_uid = annotations.remove(VM_UID);
        let cordoned_for = annotations.remove(CORDONED_FOR);
        let taints = spec.taints.unwrap_or_default();
        let attached = status.volumes_attached.unwrap_or_default();
        let seen = NodeSeen {
            name: metadata.name,
            uid: metadata.uid,
            created,
            deleting: metadata.deletion_timestamp,
            provider_id: spec.provider_id.filter(|id| !id.is_empty()),
            system_uuid: status.node_info.system_uuid.to_lowercase(),
            ready: ready(&status.conditions, created),
            cordoned: spec.unschedulable,
            cordoned_for,
            meta: OwnedNodeMeta {
                labels: metadata.labels.unwrap_or_default(),
                annotations,
                taints: taints.iter().filter_map(read_taint).collect(),
            },
            ours: OwnedNodeMeta { labels: ours.labels, annotations: ours.annotations, taints: ours.taints },
            vm_uid,
            attached: Attached {
                attached: attached.into_iter().map(|volume| volume.name).collect(),
                in_use: status.volumes_in_use.unwrap_or_default(),
            },
            kubelet_version: status.node_info.kubelet_version,
        };
        let conditions = status.conditions.into_iter().map(|condition| NodeCondition {
            since: condition.last_transition_time.unwrap_or(created),
            kind: condition.kind.into(),
            status: condition.status.into(),
        });
        Self { seen, conditions: conditions.collect(), taints }
    }

    /// The patch that links the Node to its machine and brings what comes from the pool to what is wished.
    pub(crate) fn link(
        &self,
        version: &str,
        provider_id: Option<&str>,
        vm: VmName<'_>,
        wish: &OwnedNodeMeta,
        before: &OwnedNodeMeta,
    ) -> Value {
        let from_pool = FromPool {
            labels: wish.labels.clone(),
            annotations: wish.annotations.clone(),
            taints: wish.taints.clone(),
        };
        let mut annotations = difference(&wish.annotations, &before.annotations);
        annotations.insert(VM_UID.to_owned(), vm.uid.into());
        annotations.insert(INFRA_NAMESPACE.to_owned(), vm.namespace.into());
        annotations.insert(OWNED.to_owned(), serde_json::to_string(&from_pool).unwrap_or_default().into());
        let mut patch = json!({"metadata": {
            "uid": self.seen.uid, "resourceVersion": version,
            "labels": difference(&wish.labels, &before.labels), "annotations": annotations,
        }});
        let mut spec = Map::new();
        if let Some(id) = provider_id {
            spec.insert("providerID".to_owned(), id.into());
        }
        let taints = self.tainted(wish, before);
        if taints != self.taints {
            spec.insert("taints".to_owned(), taints.into());
        }
        if !spec.is_empty() {
            patch["spec"] = spec.into();
        }
        patch
    }

    /// The taints as they are to be: those of others as they stand, and those of the pool.
    fn tainted(&self, wish: &OwnedNodeMeta, before: &OwnedNodeMeta) -> Vec<Value> {
        let old = |taint: &Value| read_taint(taint).is_some_and(|taint| before.taints.contains(&taint));
        let wanted = |taint: &Value| read_taint(taint).is_some_and(|taint| wish.taints.contains(&taint));
        let mut taints: Vec<Value> =
            self.taints.iter().filter(|taint| !old(taint) || wanted(taint)).cloned().collect();
        for taint in &wish.taints {
            if !self.seen.meta.taints.contains(taint) {
                taints.push(serde_json::to_value(taint).unwrap_or_default());
            }
        }
        taints
    }
}

/// What of a map changes: what is wished, and nothing for what was there before and is no longer.
fn difference(wish: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Map<String, Value> {
    let gone = before.keys().filter(|key| !wish.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    gone.chain(wish.iter().map(|(key, value)| (key.clone(), value.as_str().into()))).collect()
}

fn read_taint(taint: &Value) -> Option<NodeTaint> {
    let mut taint = taint.clone();
    taint.as_object_mut()?.remove("timeAdded");
    serde_json::from_value(taint).ok()
}

fn ready(conditions: &[WireCondition], created: Timestamp) -> NodeReady {
    let Some(condition) = conditions.iter().find(|condition| condition.kind == "Ready") else {
        return NodeReady::Never;
    };
    let since = condition.last_transition_time.unwrap_or(created);
    match condition.status.as_str() {
        "True" => NodeReady::Yes(since),
        "False" => NodeReady::No(since),
        _ => NodeReady::Silent(since),
    }
}

/// A pod, as far as a drain looks at it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod(pub(crate) PodSeen);

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: WireMeta,
            #[serde(default)]
            spec: Spec,
            #[serde(default)]
            status: Status,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Spec {
            volumes: Option<Vec<Map<String, Value>>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Status {
            phase: String,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let owners = metadata.owner_references.unwrap_or_default();
        let grace = metadata.deletion_grace_period_seconds.unwrap_or_default();
        let volumes = spec.volumes.unwrap_or_default();
        Ok(Self(PodSeen {
            daemon: owners.iter().any(|owner| owner.kind == "DaemonSet"),
            mirror: metadata.annotations.unwrap_or_default().contains_key(MIRROR),
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            deleting: metadata.deletion_timestamp.map(|at| (at, grace)),
            refused: None,
            has_volumes: volumes.iter().any(|volume| volume.contains_key("persistentVolumeClaim")),
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(taints: &Value, from_pool: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {
                "name": "w1", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"team": "red", "own": "1"},
                "annotations": {OWNED: from_pool.to_string(), VM_UID: "v"},
            },
            "spec": {"taints": taints},
            "status": {
                "nodeInfo": {"systemUUID": "ABC"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_came_from_the_pool_goes_with_it_and_nothing_else_does() {
        let others = json!({"key": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"});
        let node = node(
            &json!([{"key": "a", "value": "1", "effect": "NoSchedule"}, others]),
            &json!({"labels": {"team": "red"}, "annotations": {}, "taints": [{"key": "a", "value": "1", "effect": "NoSchedule"}]}),
        );
        assert_eq!(node.seen.system_uuid, "abc");
        assert_eq!(node.seen.vm_uid.as_deref(), Some("v"));
        let vm = VmName { uid: "v", namespace: "infra" };
        let patch = node.link("7", Some("kubevirt://w1"), vm, &OwnedNodeMeta::default(), &node.seen.ours);
        assert_eq!(patch["metadata"]["labels"], json!({"team": null}));
        assert_eq!(patch["spec"], json!({"providerID": "kubevirt://w1", "taints": [others]}));
        let again = node.link("7", None, vm, &node.seen.ours, &node.seen.ours);
        assert!(again.get("spec").is_none(), "{again}");
    }

    #[test]
    fn pods_are_told_apart() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 30, "ownerReferences": [{"kind": "DaemonSet"}],
                "annotations": {MIRROR: "x"},
            },
            "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        assert!(pod.0.daemon && pod.0.mirror && pod.0.has_volumes && !pod.0.finished);
        assert_eq!(pod.0.deleting.map(|(_, grace)| grace), Some(30));
    }
}
