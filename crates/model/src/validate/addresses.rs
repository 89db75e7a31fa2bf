//! Fixed addresses that two pools would give to different machines.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::network::{NicNetwork, StaticAddresses};
use crate::pool::Pool;
use crate::problem::{Problem, Problems};
use crate::{Estate, Subject};

/// The addresses a pool hands out on one network.
struct Block<'a> {
    first: u128,
    last: u128,
    pool: &'a Pool,
    path: String,
}

/// Finds pools whose fixed addresses overlap on one network. Two clusters may share a network too.
pub(super) fn check(estate: &Estate, out: &mut Vec<Problem>) {
    let mut by_network = BTreeMap::<String, Vec<Block<'_>>>::new();
    for pool in &estate.pools {
        for nic in &pool.spec.template.nics {
            let Some(addresses) = &nic.addresses else { continue };
            let blocks = by_network.entry(network_key(estate, pool, &nic.network)).or_default();
            blocks.push(block(pool, addresses, format!("template.nics[{}].addresses.first", nic.name)));
        }
    }
    for blocks in by_network.values_mut() {
        blocks.sort_by_key(|block| block.first);
        // Sorted by their beginning, blocks overlap if one begins before another one has ended.
        let mut reaches: Option<&Block<'_>> = None;
        for block in blocks.iter() {
            if let Some(before) = reaches.filter(|before| block.first <= before.last) {
                let subject = Subject::Pool(block.pool.spec.cluster.clone(), block.pool.name.clone());
                Problems::of(subject, out).error(
                    "address-taken-twice",
                    block.path.as_str(),
                    format!("pool {} hands out the same addresses on this network", before.pool.name),
                    "begin behind the last machine of the other pool, those of an update included",
                );
            }
            if reaches.is_none_or(|before| block.last > before.last) {
                reaches = Some(block);
            }
        }
    }
}

/// What tells networks apart: a shared one by its place in the infra cluster, others by their cluster.
fn network_key(estate: &Estate, pool: &Pool, network: &NicNetwork) -> String {
    let cluster = estate.cluster(&pool.spec.cluster);
    let namespace = cluster.map_or(pool.spec.cluster.as_str(), |cluster| cluster.infra_namespace());
    match network {
        NicNetwork::Shared(shared) => {
            let namespace = shared.namespace.as_ref().map_or(namespace, AsRef::as_ref);
            format!("shared/{namespace}/{}", shared.name)
        }
        NicNetwork::Machine(name) => format!("machine/{}/{name}", pool.spec.cluster),
        NicNetwork::Pod(_) => format!("pod/{namespace}"),
        NicNetwork::OvirtProfile(profile) => format!("ovirt/{profile}"),
    }
}

fn block<'a>(pool: &'a Pool, addresses: &StaticAddresses, path: String) -> Block<'a> {
    let first = match addresses.first.0.addr() {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let spec = &pool.spec;
    let replicas = spec.autoscaling.map_or(spec.replicas, |bounds| bounds.max.max(spec.replicas));
    let most = replicas.saturating_add(spec.update.max_surge.of(replicas, true)).max(1);
    Block { first, last: first.saturating_add(u128::from(most - 1)), pool, path }
}
