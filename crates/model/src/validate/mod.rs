//! Everything that is wrong with an estate, found in one pass.
//!
//! These are the rules that hold on every platform. What only one platform refuses is checked by
//! that platform's crate.

mod addresses;
mod cluster;
mod machine;
mod nics;
mod pool;

use std::collections::BTreeSet;

use crate::problem::{Problem, Problems};
use crate::{Estate, Subject};

pub use machine::{IMAGE_WITHOUT_SOURCE, PASSWORD_IN_ADDRESS};

/// Finds all problems of an estate.
pub fn validate(estate: &Estate) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for cluster in &estate.clusters {
        let mut problems = Problems::of(Subject::Cluster(cluster.name.clone()), &mut out);
        if !seen.insert(&cluster.name) {
            problems.error(
                "duplicate-cluster",
                "name",
                format!("there are two clusters named {}", cluster.name),
                "give one of them another name",
            );
        }
        cluster::check(cluster, &mut problems);
    }
    let mut seen = BTreeSet::new();
    for pool in &estate.pools {
        let cluster = &pool.spec.cluster;
        let mut problems = Problems::of(Subject::Pool(cluster.clone(), pool.name.clone()), &mut out);
        if !seen.insert((cluster, &pool.name)) {
            problems.error(
                "duplicate-pool",
                "name",
                format!("cluster {cluster} has two pools named {}", pool.name),
                "give one of them another name",
            );
        }
        if estate.cluster(cluster).is_none() {
            problems.warning(
                "cluster-not-here",
                "cluster",
                format!("cluster {cluster} is not among what was read"),
                "read its TenantCluster together with the pool to check and render both",
            );
        }
        pool::check(estate.cluster(cluster), pool, &mut problems);
    }
    addresses::check(estate, &mut out);
    out
}
