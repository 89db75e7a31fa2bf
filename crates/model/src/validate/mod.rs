//! Everything that is wrong with an estate, found in one pass.
//!
//! These are the rules that hold on every platform. What only one platform refuses is checked by
//! that platform's crate.

mod addresses;
mod cluster;
mod machine;
mod nics;
mod pool;

use std::collections::BTreeMap;

use crate::problem::{Problem, Problems};
use crate::{Cluster, Estate, Pool, Subject};

pub use machine::{IMAGE_WITHOUT_SOURCE, PASSWORD_IN_ADDRESS};

/// Finds all problems of an estate.
pub fn validate(estate: &Estate) -> Vec<Problem> {
    let mut out = Vec::new();
    // Of several of one name the first is looked at; that there are several is said once.
    let mut clusters = BTreeMap::<_, (&Cluster, usize)>::new();
    for cluster in &estate.clusters {
        clusters.entry(&cluster.name).or_insert((cluster, 0)).1 += 1;
    }
    for (name, (cluster, count)) in &clusters {
        let mut problems = Problems::of(Subject::Cluster((*name).clone()), &mut out);
        if *count > 1 {
            let message = format!("there are {count} clusters named {name}");
            problems.error("duplicate-cluster", "name", message, "give each a name of its own");
        }
        cluster::check(cluster, &mut problems);
    }
    let mut pools = BTreeMap::<_, (&Pool, usize)>::new();
    for pool in &estate.pools {
        pools.entry((&pool.spec.cluster, &pool.name)).or_insert((pool, 0)).1 += 1;
    }
    for ((cluster, name), (pool, count)) in &pools {
        let mut problems = Problems::of(Subject::Pool((*cluster).clone(), (*name).clone()), &mut out);
        if *count > 1 {
            let message = format!("cluster {cluster} has {count} pools named {name}");
            problems.error("duplicate-pool", "name", message, "give each a name of its own");
        }
        let cluster_of_pool = clusters.get(cluster).map(|(cluster, _)| *cluster);
        if cluster_of_pool.is_none() {
            problems.warning(
                "cluster-not-here",
                "cluster",
                format!("cluster {cluster} is not among what was read"),
                "read its TenantCluster together with the pool to check and render both",
            );
        }
        pool::check(cluster_of_pool, pool, &mut problems);
    }
    addresses::check(estate, &mut out);
    out
}
