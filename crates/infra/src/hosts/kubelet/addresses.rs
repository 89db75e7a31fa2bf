//! The addresses of pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use parking_lot::Mutex;

/// Addresses that are given out, in ranges named by whoever asks: a host, or a network on it.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    ranges: HashMap<String, Range>,
    /// What each holder has, and in which range.
    held: HashMap<String, Vec<(String, IpAddr)>>,
}

#[derive(Debug, Default)]
struct Range {
    given: BTreeSet<IpAddr>,
    /// The address given last, per network; the next one follows it, so that none is used again at once.
    last: BTreeMap<IpNet, IpAddr>,
}

impl Addresses {
    /// The address a holder has in a network of a range, or a free one that is neither in `taken` nor special.
    pub(crate) fn give(
        &self,
        range: &str,
        network: &IpNet,
        holder: &str,
        taken: &BTreeSet<IpAddr>,
    ) -> Option<IpAddr> {
        let mut given = self.given.lock();
        let Given { ranges, held } = &mut *given;
        let held = held.entry(holder.to_owned()).or_default();
        if let Some((_, address)) = held.iter().find(|(name, one)| name == range && network.contains(one)) {
            return Some(*address);
        }
        let name = range;
        let range = ranges.entry(name.to_owned()).or_default();
        let last = range.last.get(network).copied();
        let (mut index, first) = (last.and_then(|last| following(network, last)), first(network)?);
        let start = index.unwrap_or(first);
        let mut address = start;
        loop {
            if !range.given.contains(&address) && !taken.contains(&address) {
                range.given.insert(address);
                held.push((name.to_owned(), address));
                range.last.insert(*network, address);
                return Some(address);
            }
            index = following(network, address);
            address = index.unwrap_or(first);
            if address == start {
                return None;
            }
        }
    }

    /// Notes that a holder has an address.
    pub(crate) fn keep(&self, range: &str, address: IpAddr, holder: &str) {
        let mut given = self.given.lock();
        if given.ranges.entry(range.to_owned()).or_default().given.insert(address) {
            given.held.entry(holder.to_owned()).or_default().push((range.to_owned(), address));
        }
    }

    /// Takes back all addresses of a holder.
    pub(crate) fn release(&self, holder: &str) {
        let mut given = self.given.lock();
        for (range, address) in given.held.remove(holder).unwrap_or_default() {
            if let Some(range) = given.ranges.get_mut(&range) {
                range.given.remove(&address);
            }
        }
    }
}

/// The first address pods can have: after that of the network and that of its router.
fn first(network: &IpNet) -> Option<IpAddr> {
    crate::hosts::node::nth(network, 2).or_else(|| Some(network.network()))
}

/// The address after another, except for the last of a network, which is for everybody.
fn following(network: &IpNet, address: IpAddr) -> Option<IpAddr> {
    let next = match address {
        IpAddr::V4(address) => IpAddr::from(address.to_bits().checked_add(1)?.to_be_bytes()),
        IpAddr::V6(address) => IpAddr::from(address.to_bits().checked_add(1)?.to_be_bytes()),
    };
    let ok = network.contains(&next) && !(next.is_ipv4() && next == network.broadcast());
    ok.then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_come_back() {
        let addresses = Addresses::default();
        let network: IpNet = "10.0.0.0/29".parse().unwrap();
        let none = BTreeSet::new();
        let give = |holder: &str| addresses.give("host", &network, holder, &none).map(|one| one.to_string());
        // .0 is the network, .1 the router, .7 is for everybody.
        let all: Vec<_> = ["a", "b", "c", "d", "e"].iter().filter_map(|holder| give(holder)).collect();
        assert_eq!(all, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        assert_eq!(give("f"), None);
        assert_eq!(give("b").as_deref(), Some("10.0.0.3"));
        addresses.release("b");
        assert_eq!(give("f").as_deref(), Some("10.0.0.3"));
    }

    #[test]
    fn what_others_have_is_passed_over() {
        let addresses = Addresses::default();
        let network: IpNet = "10.0.0.0/24".parse().unwrap();
        let taken = BTreeSet::from(["10.0.0.2".parse().unwrap()]);
        assert_eq!(addresses.give("h", &network, "a", &taken).unwrap().to_string(), "10.0.0.3");
    }
}
