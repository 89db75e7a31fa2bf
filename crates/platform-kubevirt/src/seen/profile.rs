//! What CDI knows of a class of storage.

use serde::Deserialize;

use super::meta::{Meta, WireMeta, or_default, words};
use super::seen;

/// What CDI knows of a class of storage: only how it clones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageProfile {
    /// Name, identity and age; the name is that of the class.
    pub meta: Meta,
    /// How volumes of the class are cloned.
    pub clone_strategy: CloneStrategy,
}

words! {
    /// How volumes of a class are cloned.
    CloneStrategy {
        /// Every byte is copied.
        Copy = "copy",
        /// From a snapshot.
        Snapshot = "snapshot",
        /// By the storage itself.
        CsiClone = "csi-clone",
    }
}

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    clone_strategy: CloneStrategy,
}

impl StorageProfile {
    pub(crate) fn narrowed(Wire { metadata, status }: Wire) -> Self {
        Self { meta: metadata.narrowed(), clone_strategy: status.clone_strategy }
    }
}

seen!(
    StorageProfile from Wire, machine(_this) { None },
    "cdi.kubevirt.io", "v1beta1", "StorageProfile", "storageprofiles", None, cluster_wide
);
