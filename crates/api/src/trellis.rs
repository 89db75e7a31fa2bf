//! Trellis's own kinds, `trellis.dev/v1alpha1`: the model written down.

mod machine;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trellis_model::cluster::ClusterSpec;
use trellis_model::pool::PoolSpec;

pub use self::machine::{
    Machine, MachineAddress, MachineDeadline, MachineNode, MachineRecord, MachineSpec, MachineStatus,
};
use crate::common::{ServerMetadata, ServerWritten};

/// The group and version of all kinds here.
pub const API_VERSION: &str = "trellis.dev/v1alpha1";

/// A tenant cluster: everything that is not a pool of machines.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "TenantCluster",
    plural = "tenantclusters",
    shortname = "tcl",
    category = "trellis",
    namespaced,
    status = "TenantClusterStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Progress","type":"string","jsonPath":".status.progress.steps"}"#,
    printcolumn = r#"{"name":"Endpoint","type":"string","jsonPath":".status.endpoint"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct TenantClusterSpec {
    /// The cluster.
    #[serde(flatten)]
    pub cluster: ClusterSpec,
}

/// What a tenant cluster was last seen as.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantClusterStatus {
    /// The generation of the spec the rest of the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the cluster is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Where its API answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The Secret with its kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<String>,
    /// How far it has come on its way to what is wished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ClusterProgress>,
    /// What holds for it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far a tenant cluster has come on its way to what is wished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProgress {
    /// How many milestones are behind it, and how many there are, such as `4/10`.
    pub steps: String,
    /// The milestone it is on the way to; empty when all is there.
    #[serde(default)]
    pub step: String,
    /// Since when.
    pub since: Time,
}

/// A pool of equal machines of one tenant cluster.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "MachinePool",
    plural = "machinepools",
    shortname = "tmp",
    category = "trellis",
    namespaced,
    status = "MachinePoolStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name":"Cluster","type":"string","jsonPath":".spec.cluster"}"#,
    printcolumn = r#"{"name":"Role","type":"string","jsonPath":".spec.role"}"#,
    printcolumn = r#"{"name":"Desired","type":"integer","jsonPath":".spec.replicas"}"#,
    printcolumn = r#"{"name":"Updated","type":"integer","jsonPath":".status.updatedReplicas"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.readyReplicas"}"#,
    printcolumn = r#"{"name":"Available","type":"integer","jsonPath":".status.availableReplicas"}"#,
    printcolumn = r#"{"name":"Kubelet","type":"string","priority":1,"jsonPath":".spec.kubeletVersion"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct MachinePoolSpec {
    /// The pool.
    #[serde(flatten)]
    pub pool: PoolSpec,
}

/// What a pool was last seen as.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePoolStatus {
    /// The generation of the spec the rest of the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many machines there are, those that are going included.
    pub replicas: u32,
    /// How many have the newest revision.
    pub updated_replicas: u32,
    /// How many have a ready node.
    pub ready_replicas: u32,
    /// How many have had one for long enough.
    pub available_replicas: u32,
    /// How many of those that are wished for are not available.
    pub unavailable_replicas: u32,
    /// How many are going.
    pub terminating_replicas: u32,
    /// The revision new machines are made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// How far it has come on its way to what is wished; the deadline of an update is counted from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<PoolProgress>,
    /// Which objects are its machines, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What holds for it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far a pool has come on its way to what is wished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolProgress {
    /// The revision that is wished.
    pub revision: String,
    /// How many machines are wished.
    pub replicas: u32,
    /// The most machines of that revision that were available so far.
    pub available: u32,
    /// The fewest machines that are not wished so far.
    pub left: u32,
    /// When one of these last moved.
    pub at: Time,
    /// It has been as wished: what happens after that is no longer an update.
    #[serde(default)]
    pub done: bool,
}

/// A document of one of these kinds as a person writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written<S> {
    /// The group and version, `trellis.dev/v1alpha1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Name and namespace.
    pub metadata: OwnMetadata,
    /// What it is.
    pub spec: S,
    /// What it was last seen as; not read.
    #[serde(default, skip_serializing)]
    pub status: ServerWritten,
}

/// Metadata of one of these kinds as a person writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnMetadata {
    /// The name of the cluster or pool. Names of machines and other objects are derived from it.
    pub name: String,
    /// The namespace the object lives in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the object itself. They stay with the object: those of machines are in the spec.
    #[serde(default, skip_serializing)]
    pub labels: ServerWritten,
    /// Annotations of the object itself. They stay with the object: those of machines are in the spec.
    #[serde(default, skip_serializing)]
    pub annotations: ServerWritten,
    /// What only a server writes.
    #[serde(flatten)]
    pub server: ServerMetadata,
}

/// The definitions of the kinds here, for an infra or management cluster, as JSON.
pub fn crds() -> Vec<Value> {
    let definitions = [TenantCluster::crd(), MachinePool::crd(), Machine::crd()];
    definitions.iter().filter_map(|crd| serde_json::to_value(crd).ok()).map(structural).collect()
}

/// Makes a schema structural where the derive leaves what API servers refuse: maps with checked keys
/// become maps with any key (the webhook and the reader check them), closed objects become open. Whole numbers
/// that cannot be negative have formats only Rust knows: they become bounds in a format the server knows.
fn structural(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(map) => {
            if let Some(Value::Object(patterns)) = map.remove("patternProperties")
                && let Some((_, values)) = patterns.into_iter().next()
            {
                map.insert("additionalProperties".to_owned(), values);
            }
            if map.get("additionalProperties") == Some(&Value::Bool(false)) {
                map.remove("additionalProperties");
            }
            let unsigned = match map.get("format").and_then(Value::as_str) {
                Some("uint8") => Some(("int32", u64::from(u8::MAX))),
                Some("uint16") => Some(("int32", u64::from(u16::MAX))),
                Some("uint32") => Some(("int64", u64::from(u32::MAX))),
                _ => None,
            };
            if let Some((format, maximum)) = unsigned {
                map.insert("format".to_owned(), format.into());
                map.entry("minimum").or_insert(0.into());
                map.entry("maximum").or_insert(maximum.into());
            }
            for value in map.values_mut() {
                *value = structural(value.take());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| *item = structural(item.take())),
        _ => {}
    }
    schema
}
