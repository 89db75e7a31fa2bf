//! One machine of a MachinePool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::names::{ClusterName, PoolName};
use trellis_model::placement::Locality;

/// One machine of a pool. Trellis makes and removes them; people look at them, annotate and delete them.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    shortname = "tma",
    category = "trellis",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".status.nodeRef.name"}"#,
    printcolumn = r#"{"name":"Pool","type":"string","jsonPath":".spec.pool"}"#,
    printcolumn = r#"{"name":"Zone","type":"string","jsonPath":".spec.zone"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".spec.revision"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Message","type":"string","priority":1,"jsonPath":".status.message"}"#,
    printcolumn = r#"{"name":"Address","type":"string","priority":1,"jsonPath":".status.addresses[0].address"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.cluster == oldSelf.cluster && self.pool == oldSelf.pool && self.revision == oldSelf.revision && self.ordinal == oldSelf.ordinal", "message": "a machine keeps its cluster, pool, revision and number" },
    { "rule": "has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)", "message": "a machine keeps its zone" },
    { "rule": "!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)", "message": "a provider id does not change" }
]))]
pub struct MachineSpec {
    /// The tenant cluster it belongs to.
    pub cluster: ClusterName,
    /// The pool it belongs to.
    pub pool: PoolName,
    /// The revision of the pool it was made from.
    pub revision: String,
    /// The zone it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Locality>,
    /// Its number in the pool, from zero; addresses are dealt out by it.
    pub ordinal: u32,
    /// How the tenant's Node calls it.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// What a machine was last seen as.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// The generation of the spec the rest of the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Time>,
    /// One word: why it is there and not further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it is late, and what is late then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<MachineDeadline>,
    /// Its Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<MachineNode>,
    /// Its addresses, the primary interface's first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// The version of its kubelet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<String>,
    /// What holds for it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What Trellis keeps for later decisions; removal works from it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<MachineRecord>,
}

/// When a machine is late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeadline {
    /// When.
    pub at: Time,
    /// What will be late then.
    pub of: String,
}

/// The Node a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineNode {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// An address of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// What kind of address.
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}

/// What is kept of a machine for later decisions. The machines of other families have it in
/// `status.providerStatus.trellis`.
///
/// Nothing in it has a default: a server would write that out, and it would look as if somebody had changed it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineRecord {
    /// The phase it was last seen in; spelled out here where the family has other words for phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Since when it has been in that phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Time>,
    /// The furthest part of its life it was observed in; limits are counted from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_since: Option<Time>,
    /// The infra namespace its VM is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infra_namespace: Option<String>,
    /// The uid of its VM.
    #[serde(rename = "vmUID", skip_serializing_if = "Option::is_none")]
    pub vm_uid: Option<String>,
    /// The identifier its VM's firmware shows to the guest.
    #[serde(rename = "firmwareUUID", skip_serializing_if = "Option::is_none")]
    pub firmware_uuid: Option<String>,
    /// Its VM was seen being removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_removal_seen: Option<bool>,
    /// The uid of the run that is or was its Node.
    #[serde(rename = "instanceUID", skip_serializing_if = "Option::is_none")]
    pub instance_uid: Option<String>,
    /// The host it was last seen on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<MachineNode>,
    /// When its Node first was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<Time>,
    /// When the drain of its Node began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_started: Option<Time>,
    /// When the last pod that a drain waits for had gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emptied: Option<Time>,
    /// When the present evacuation from a host began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evacuation_started: Option<Time>,
    /// The host it is to leave refused new work when that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evacuation_cordoned: Option<bool>,
    /// The uid of the run whose eviction was called off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evacuation_void: Option<String>,
    /// Since when its Node has not been ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_since: Option<Time>,
    /// How often making it has failed in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_failures: Option<u32>,
    /// When making it failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_failed: Option<Time>,
}
