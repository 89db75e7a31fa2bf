//! What is seen of one machine on the three sites; plain data, narrowed to what plans look at.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trellis_model::network::NodeTaint;

use super::status::Phase;

/// A Machine object of any family, on the control site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineSeen {
    /// Its name: also that of its VM and of its Node.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// When somebody asked for its removal.
    pub deleting: Option<Timestamp>,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// The provider id in its spec.
    pub provider_id: Option<String>,
    /// What people wrote on it.
    pub flags: Flags,
    /// What was recorded about it.
    pub record: Record,
    /// Whether that stands in its status already, and is not only about to be written.
    pub recorded: bool,
    /// Why making it failed last, as far as that is remembered.
    pub create_trouble: Option<String>,
}

/// What people (or a health check) write on a Machine to steer it, from annotations of its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Not to be touched at all.
    pub paused: bool,
    /// It goes first when its pool shrinks.
    pub delete_first: bool,
    /// It is not drained before it goes.
    pub skip_drain: bool,
    /// It is kept for debugging although it failed.
    pub preserve: bool,
    /// A health check wants it replaced.
    pub unhealthy: bool,
}

/// What was found out about a machine and is kept in its status, so that later decisions, removal above all, need
/// nothing but it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The phase it was last said to be in, and since when.
    pub phase: Option<(Phase, Timestamp)>,
    /// The furthest part of its life it was observed in, and since when: limits are counted from here. It differs from
    /// the phase when that says `Failed` or `Unknown`, and when a machine that comes up falls back: one that crashes
    /// and starts again and again is late all the same.
    pub stage: Option<(Phase, Timestamp)>,
    /// The infra namespace its VM is in.
    pub infra_namespace: Option<String>,
    /// The uid of its VM.
    pub vm_uid: Option<String>,
    /// The identifier its VM's firmware shows to the guest: by it a Node is known to be its own when the VM is gone.
    pub firmware_uuid: Option<String>,
    /// Its VM was seen being removed: that it is missing later is no riddle.
    pub vm_removal_seen: bool,
    /// The uid of the run that is or was its node.
    pub instance_uid: Option<String>,
    /// The host it was last seen on.
    pub host: Option<String>,
    /// Its Node: name and uid.
    pub node: Option<(String, String)>,
    /// When its Node first was ready; user data is erased after that.
    pub joined: Option<Timestamp>,
    /// When the drain of its Node began.
    pub drain_started: Option<Timestamp>,
    /// When the last pod that a drain waits for had gone; volumes are waited for from then.
    pub emptied: Option<Timestamp>,
    /// When the present evacuation from a host began.
    pub evacuation_started: Option<Timestamp>,
    /// The host it is to leave refused new work when that was last looked at.
    pub evacuation_cordoned: bool,
    /// The uid of the run whose eviction was called off: its host takes work again.
    pub evacuation_void: Option<String>,
    /// Since when its Node has not been ready.
    pub unready_since: Option<Timestamp>,
    /// How often making it has failed in a row, and when the last time was.
    pub create_failures: (u32, Option<Timestamp>),
}

/// Labels, annotations and taints a pool wishes for its nodes, and which of them were put there before: what was put
/// there and is no longer wished is taken away, what others put there is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedNodeMeta {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<NodeTaint>,
}

/// A Node of the tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// When somebody asked for its removal.
    pub deleting: Option<Timestamp>,
    /// Its provider id: immutable once set.
    pub provider_id: Option<String>,
    /// The firmware's identifier, as the kubelet read it; lower case.
    pub system_uuid: String,
    /// What its kubelet says of itself.
    pub ready: NodeReady,
    /// Whether it refuses new pods.
    pub cordoned: bool,
    /// For the removal or evacuation of which VM we made it refuse them, from our annotation: what people cordoned they
    /// uncordon themselves.
    pub cordoned_for: Option<String>,
    /// All its labels, annotations and taints, as far as a plan may compare them.
    pub meta: OwnedNodeMeta,
    /// What we put there before, from our annotation.
    pub ours: OwnedNodeMeta,
    /// The VM it was last linked to, from our annotation.
    pub vm_uid: Option<String>,
    /// Volumes the attach controller still counts as attached or in use.
    pub attached: Attached,
    /// The kubelet's version.
    pub kubelet_version: String,
}

/// Volumes at a Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attached {
    /// From `status.volumesAttached` and VolumeAttachments.
    pub attached: Vec<String>,
    /// From `status.volumesInUse`.
    pub in_use: Vec<String>,
}

/// What a kubelet says of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeReady {
    /// Ready since then.
    Yes(Timestamp),
    /// Not ready since then.
    No(Timestamp),
    /// Nothing was heard of it since then.
    Silent(Timestamp),
    /// It has not said anything yet.
    Never,
}

/// A pod on a Node of the tenant, as far as a drain looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// It belongs to a DaemonSet, which would put it back at once.
    pub daemon: bool,
    /// It is the reflection of a static pod, which cannot be evicted.
    pub mirror: bool,
    /// It has ended.
    pub finished: bool,
    /// When somebody asked for its removal, and how many seconds it was given.
    pub deleting: Option<(Timestamp, u32)>,
    /// Its eviction was refused: by a disruption budget.
    pub refused: Option<Refusal>,
    /// It has volumes that must be detached before they can be used elsewhere.
    pub has_volumes: bool,
}

/// An eviction that was refused. Kept by whoever asked for it: the pod does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, in the server's words.
    pub why: String,
    /// When it was refused the last time.
    pub at: Timestamp,
    /// How often in a row.
    pub times: u32,
}

/// Whether a site can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteHealth {
    /// It answers.
    Up,
    /// It does not, since then: nothing is decided from what was last seen of it.
    Down(Timestamp),
    /// There is none yet: a tenant whose control plane does not exist.
    Absent,
}

/// The health of the three sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sites {
    /// Where the machine objects live.
    pub control: SiteHealth,
    /// Where the Nodes live.
    pub tenant: SiteHealth,
    /// Where the VMs live.
    pub infra: SiteHealth,
}
