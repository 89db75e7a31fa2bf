//! etcd in a guest.

mod cluster;
mod config;
mod disks;
mod gateway;
mod member;

use sha2::{Digest as _, Sha256};

pub use cluster::Quorum;
pub(crate) use cluster::{Cluster, Clusters, Observer};
pub(crate) use member::{Member, listen, run};

/// The version members say they are of.
const VERSION: &str = "3.6.5";

/// A number that follows from texts and is not zero.
fn id_of(parts: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first).max(1)
}
