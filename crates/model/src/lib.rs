//! The one provider-neutral description every dialect is read into and every platform is rendered from.
//!
//! Plain data without IO, clocks or Kubernetes types:
//!
//! - [`cluster`] and [`pool`] are the two things people describe; an [`Estate`] is a set of them;
//! - [`machine`], [`image`], [`volume`], [`network`], [`placement`] and [`flavor`] are what they are made of;
//! - [`validate`] finds every problem of an estate at once;
//! - [`canonical`] gives the same hash for the same meaning, however it was written;
//! - [`change`] says for two estates what differs, and what each difference does to running machines.
//!
//! Types refuse nonsense where they can: names and amounts are checked when they are made, and a
//! machine cannot isolate its emulator thread without having CPUs of its own.

pub mod access;
pub mod canonical;
pub mod change;
pub mod cluster;
pub mod cni;
pub mod flavor;
pub mod image;
pub mod machine;
pub mod names;
pub mod network;
pub mod ovirt;
pub mod placement;
pub mod pool;
pub mod problem;
pub mod quantity;
pub mod resolve;
pub mod validate;
pub mod version;
pub mod volume;

mod util;

use serde::{Deserialize, Serialize};

pub use cluster::Cluster;
pub use pool::Pool;
pub use problem::{Problem, Severity, Subject};

/// Clusters and pools that were read together. A pool may belong to a cluster that is not among them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Estate {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// The pools, of all clusters.
    pub pools: Vec<Pool>,
}

impl Estate {
    /// The cluster with that name.
    pub fn cluster(&self, name: &names::ClusterName) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.name == *name)
    }

    /// Gives an image to all pools that do not say where theirs is.
    pub fn fill_in_image(&mut self, source: &image::ImageSource) {
        for pool in self.pools.iter_mut().filter(|pool| pool.spec.template.image.source.is_none()) {
            pool.spec.template.image.source = Some(source.clone());
        }
    }

    /// Puts clusters and pools in the one order that is printed and compared: by name.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.clusters.sort_by(|a, b| a.name.cmp(&b.name));
        self.pools.sort_by(|a, b| (&a.spec.cluster, &a.name).cmp(&(&b.spec.cluster, &b.name)));
        self
    }
}
