//! Objects of the infra cluster as far as they are looked at.
//!
//! There may be thousands of each in memory, and each may change many times a minute without anything happening
//! that matters. They are narrowed while they are read: what is kept is small, phases are enums, and an event that
//! changes nothing that is kept compares equal and can be dropped.
//!
//! Reading is lenient where a newer version of the platform may say something unknown (a phase, a condition): it is
//! then unknown, and the rest still counts. It fails only on what is not such an object at all.

mod host;
mod instance;
mod meta;
mod migration;
mod pod;
mod profile;
mod stored;
mod vm;
mod volume;

pub use host::Host;
pub use instance::{Interface, MigrationReport, Phase, VirtualMachineInstance};
pub use meta::{Condition, MadeBy, Meta};
pub use migration::{Migration, MigrationPhase};
pub use pod::LauncherPod;
pub use profile::{CloneStrategy, StorageProfile};
pub use stored::{Stored, StoredService};
pub use vm::{PrintableStatus, StartFailure, VirtualMachine, VolumeUse};
pub use volume::{DataVolume, VolumePhase, VolumeSource};

use crate::labels;

/// How objects of a kind are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its plural in addresses.
    pub plural: &'static str,
    /// Whether there is one for the whole infra cluster, or one in each namespace.
    pub cluster_wide: bool,
    /// Whether nothing but the metadata is read: the rest is secret, or of no use.
    pub metadata_only: bool,
    selector: Selector,
}

/// Which labels tell the objects of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selector {
    /// Nothing does: all of the namespace are watched.
    None,
    /// The cluster's label, which machines made by others do not have.
    Cluster,
    /// The cluster's label and that of a machine.
    Machines,
    /// The pods machines run in.
    Launchers,
}

/// Whose objects are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Those of a cluster, made by us.
    Cluster(&'a str),
    /// All machines of a namespace: some were made by others and carry no label of ours, nor do their volumes.
    Namespace,
}

impl Watched {
    /// What selects the objects, if anything does.
    pub fn selector(&self, scope: Scope<'_>) -> Option<String> {
        let of_cluster = |cluster: &str| format!("{}={cluster}", labels::CLUSTER);
        match (self.selector, scope) {
            (Selector::None, _) | (Selector::Cluster, Scope::Namespace) => None,
            (Selector::Cluster, Scope::Cluster(cluster)) => Some(of_cluster(cluster)),
            (Selector::Machines, Scope::Cluster(cluster)) => {
                Some(format!("{},{}", of_cluster(cluster), labels::MACHINE))
            }
            (Selector::Machines, Scope::Namespace) => Some(labels::MACHINE.to_owned()),
            (Selector::Launchers, Scope::Cluster(cluster)) => {
                Some(format!("{},{LAUNCHERS}", of_cluster(cluster)))
            }
            (Selector::Launchers, Scope::Namespace) => Some(LAUNCHERS.to_owned()),
        }
    }

    /// Its `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// A kind of which nothing is said.
const PLAIN: Watched = Watched {
    group: "",
    version: "",
    kind: "",
    plural: "",
    cluster_wide: false,
    metadata_only: false,
    selector: Selector::None,
};

/// What selects the pods machines run in.
const LAUNCHERS: &str = "kubevirt.io=virt-launcher";

/// An object that is watched.
pub trait Seen: serde::de::DeserializeOwned + PartialEq + Send + Sync + 'static {
    /// How.
    const WATCHED: Watched;

    /// What all objects have.
    fn meta(&self) -> &Meta;

    /// The machine it belongs to, by the label we put on it or by what made it.
    fn machine(&self) -> Option<&str>;
}

/// Declares how a type is watched, and how it is read: through a type that has the shape of the object.
macro_rules! seen {
    ($ty:ident from $wire:ty, machine($this:ident) $machine:block, $group:literal, $version:literal, $kind:literal, $plural:literal,
     $selector:ident $(, $option:ident)*) => {
        impl $crate::seen::Seen for $ty {
            const WATCHED: $crate::seen::Watched = $crate::seen::Watched {
                group: $group,
                version: $version,
                kind: $kind,
                plural: $plural,
                selector: $crate::seen::Selector::$selector,
                $($option: true,)*
                ..$crate::seen::PLAIN
            };

            fn meta(&self) -> &$crate::seen::Meta {
                &self.meta
            }

            fn machine(&self) -> Option<&str> {
                let $this = self;
                $machine
            }
        }

        impl<'de> serde::Deserialize<'de> for $ty {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$wire>::deserialize(deserializer).map(Self::narrowed)
            }
        }
    };
}
pub(crate) use seen;
