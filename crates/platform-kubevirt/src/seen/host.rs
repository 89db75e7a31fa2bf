//! Hosts of the infra cluster.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{Meta, WireCondition, WireMeta, or_default};
use super::seen;

/// A host, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name, identity and age.
    pub meta: Meta,
    /// Since when it does not answer.
    pub silent_since: Option<Timestamp>,
    /// Whether it refuses new work.
    pub cordoned: bool,
    /// Whether somebody vouches that it is switched off.
    pub out_of_service: bool,
    /// Its zone.
    pub zone: Option<Box<str>>,
    /// Its region.
    pub region: Option<Box<str>>,
}

/// The taint by which somebody vouches that a host is switched off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The taint by which KubeVirt is asked to empty a host.
const DRAIN: &str = "kubevirt.io/drain";

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    unschedulable: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    taints: Vec<Taint>,
}

#[derive(Deserialize)]
struct Taint {
    #[serde(default)]
    key: Box<str>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<WireCondition>,
}

impl Host {
    pub(crate) fn narrowed(wire: Wire) -> Self {
        let Wire { mut metadata, spec, status } = wire;
        let tainted = |key: &str| spec.taints.iter().any(|taint| &*taint.key == key);
        let ready = status.conditions.iter().find(|condition| &*condition.kind == "Ready");
        // A host that says of itself that it is not ready does answer.
        let silent = ready.filter(|ready| ready.status.as_deref() == Some("Unknown"));
        let zone = metadata.labels.remove("topology.kubernetes.io/zone");
        let region = metadata.labels.remove("topology.kubernetes.io/region");
        let meta = metadata.narrowed();
        Self {
            silent_since: silent.map(|ready| ready.last_transition_time.unwrap_or(meta.created)),
            cordoned: spec.unschedulable.unwrap_or_default() || tainted(DRAIN),
            out_of_service: tainted(OUT_OF_SERVICE),
            zone,
            region,
            meta,
        }
    }
}

seen!(
    Host from Wire, machine(_this) { None },
    "", "v1", "Node", "nodes", None, cluster_wide
);
