//! Addresses for interfaces: the lowest free one of a range, so that equal runs give equal addresses.
//!
//! Network attachments say in their `ipam` where addresses come from: `host-local` and `whereabouts` have ranges,
//! `static` lists them. Without `ipam` an interface has no address before its guest finds one.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::segments::main_plugin;
use crate::object::Object as _;

/// Why an interface gets no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// All addresses of a range are taken.
    #[error("no IP addresses available in range set: {0}")]
    Exhausted(String),
    /// The configuration cannot be understood.
    #[error("invalid IPAM configuration: {0}")]
    Invalid(String),
    /// Somebody else has the address that was asked for.
    #[error("requested IP address {0} is not available in range set")]
    Taken(IpAddr),
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The network the addresses are in.
    pub subnet: IpNet,
    /// The first address that is given away.
    pub first: IpAddr,
    /// The last.
    pub last: IpAddr,
    /// Addresses that are not given away.
    pub exclude: Vec<IpNet>,
}

impl Range {
    /// All addresses of a network but its own, the broadcast address of IPv4 and the gateway, which is the first.
    pub fn of(subnet: IpNet) -> Self {
        let last = match subnet {
            IpNet::V4(net) if net.prefix_len() < 31 => previous(IpAddr::V4(net.broadcast())),
            other => other.broadcast(),
        };
        let first = if subnet.prefix_len() + 1 < subnet.max_prefix_len() {
            next(next(subnet.network()))
        } else {
            subnet.network()
        };
        Self { subnet: subnet.trunc(), first, last, exclude: Vec::new() }
    }

    /// Whether an address may be given away at all.
    pub fn has(&self, address: IpAddr) -> bool {
        self.subnet.contains(&address)
            && (self.first..=self.last).contains(&address)
            && !self.exclude.iter().any(|net| net.contains(&address))
    }

    /// The lowest address nobody has.
    pub fn free(&self, taken: &dyn Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let mut address = self.first;
        while address <= self.last {
            if let Some(excluded) = self.exclude.iter().find(|net| net.contains(&address)) {
                address = next(excluded.broadcast());
            } else if taken(address) {
                address = next(address);
            } else {
                return Some(address);
            }
            // After the very last address there is no other.
            if address <= self.first {
                return None;
            }
        }
        None
    }

    fn network_of(&self, address: IpAddr) -> IpNet {
        IpNet::new(address, self.subnet.prefix_len()).unwrap_or_else(|_| address.into())
    }
}

/// The addresses of an interface on a network attachment, each with the length of its network's prefix.
///
/// `wanted` is what the pod asks for, such as in the `ips` of its annotation; where it asks for nothing it gets one
/// address per set of ranges.
pub fn assign(
    attachment: &Value,
    wanted: &[IpAddr],
    taken: &dyn Fn(IpAddr) -> bool,
) -> Result<Vec<IpNet>, AddressError> {
    let Some(plugin) = main_plugin(attachment) else {
        return Err(AddressError::Invalid("the configuration is not JSON".to_owned()));
    };
    let ipam = plugin.at("/ipam");
    match ipam.text("/type") {
        "" | "dhcp" => Ok(Vec::new()),
        "static" => fixed(ipam, wanted),
        "host-local" | "whereabouts" => sets(ipam)?.iter().map(|set| from_set(set, wanted, taken)).collect(),
        other => Err(AddressError::Invalid(format!("unknown type {other}"))),
    }
}

fn fixed(ipam: &Value, wanted: &[IpAddr]) -> Result<Vec<IpNet>, AddressError> {
    if !wanted.is_empty() {
        return Ok(wanted.iter().map(|address| IpNet::from(*address)).collect());
    }
    let listed = ipam.list("/addresses").iter().map(|one| one.text("/address"));
    listed.map(|text| text.parse().map_err(|_| AddressError::Invalid(text.to_owned()))).collect()
}

fn from_set(set: &[Range], wanted: &[IpAddr], taken: &dyn Fn(IpAddr) -> bool) -> Result<IpNet, AddressError> {
    let asked = wanted.iter().find_map(|address| Some((address, set.iter().find(|one| one.has(*address))?)));
    if let Some((address, range)) = asked {
        let free = !taken(*address);
        return free.then(|| range.network_of(*address)).ok_or(AddressError::Taken(*address));
    }
    let found = set.iter().find_map(|range| Some(range.network_of(range.free(taken)?)));
    found.ok_or_else(|| {
        let names: Vec<String> = set.iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
        AddressError::Exhausted(names.join(","))
    })
}

/// The sets of ranges of a configuration: one address comes from each.
fn sets(ipam: &Value) -> Result<Vec<Vec<Range>>, AddressError> {
    let mut sets = Vec::new();
    if ipam.text("/type") == "whereabouts" {
        if !ipam.text("/range").is_empty() {
            sets.push(vec![whereabouts_range(ipam)?]);
        }
        for range in ipam.list("/ipRanges") {
            sets.push(vec![whereabouts_range(range)?]);
        }
    } else {
        if !ipam.text("/subnet").is_empty() {
            sets.push(vec![host_local_range(ipam)?]);
        }
        for set in ipam.list("/ranges") {
            let ranges = set.as_array().into_iter().flatten();
            sets.push(ranges.map(host_local_range).collect::<Result<_, _>>()?);
        }
    }
    if sets.is_empty() {
        return Err(AddressError::Invalid("no ranges".to_owned()));
    }
    Ok(sets)
}

fn host_local_range(config: &Value) -> Result<Range, AddressError> {
    let mut range = Range::of(network(config.text("/subnet"))?);
    if let Some(first) = address(config.text("/rangeStart"))? {
        range.first = first;
    } else if let Some(gateway) = address(config.text("/gateway"))? {
        range.first = next(range.subnet.network());
        range.exclude.push(gateway.into());
    }
    if let Some(last) = address(config.text("/rangeEnd"))? {
        range.last = last;
    }
    Ok(range)
}

/// `range` is a network, or `first-last/prefix`; `range_start` and `range_end` narrow it.
fn whereabouts_range(config: &Value) -> Result<Range, AddressError> {
    let text = config.text("/range");
    let mut range = if let Some((first, rest)) = text.split_once('-') {
        let last = network(rest)?;
        let mut range = Range::of(last);
        range.first = address(first)?.unwrap_or(range.first);
        range.last = last.addr();
        range
    } else {
        let mut range = Range::of(network(text)?);
        // No address is kept for a gateway here.
        if range.first != range.subnet.network() {
            range.first = next(range.subnet.network());
        }
        range
    };
    range.first = address(config.text("/range_start"))?.unwrap_or(range.first);
    range.last = address(config.text("/range_end"))?.unwrap_or(range.last);
    for exclude in config.list("/exclude").iter().filter_map(Value::as_str) {
        range.exclude.push(network(exclude)?);
    }
    Ok(range)
}

fn network(text: &str) -> Result<IpNet, AddressError> {
    let text = text.trim();
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| AddressError::Invalid(text.to_owned()))
}

fn address(text: &str) -> Result<Option<IpAddr>, AddressError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| AddressError::Invalid(text.to_owned()))
}

fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(four) => IpAddr::V4(four.to_bits().wrapping_add(1).into()),
        IpAddr::V6(six) => IpAddr::V6(six.to_bits().wrapping_add(1).into()),
    }
}

fn previous(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(four) => IpAddr::V4(four.to_bits().wrapping_sub(1).into()),
        IpAddr::V6(six) => IpAddr::V6(six.to_bits().wrapping_sub(1).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn all(ipam: &Value) -> Vec<String> {
        let attachment = json!({"spec": {"config": json!({"type": "bridge", "ipam": ipam}).to_string()}});
        let mut taken = BTreeSet::new();
        let mut given = Vec::new();
        while let Ok(addresses) = assign(&attachment, &[], &|address| taken.contains(&address)) {
            for address in &addresses {
                assert!(taken.insert(address.addr()), "{address} was given twice");
                given.push(address.to_string());
            }
            if addresses.is_empty() || given.len() > 300 {
                break;
            }
        }
        given
    }

    #[test]
    fn host_local_ranges_leave_out_what_is_not_for_pods() {
        let given = all(&json!({"type": "host-local", "subnet": "10.1.0.0/29"}));
        assert_eq!(given, ["10.1.0.2/29", "10.1.0.3/29", "10.1.0.4/29", "10.1.0.5/29", "10.1.0.6/29"]);
        let narrowed = json!({"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.9", "rangeEnd": "10.1.0.10"}]]});
        assert_eq!(all(&narrowed), ["10.1.0.9/24", "10.1.0.10/24"]);
        let gateway = json!({"type": "host-local", "subnet": "10.1.0.0/30", "gateway": "10.1.0.2"});
        assert_eq!(all(&gateway), ["10.1.0.1/30"]);
    }

    #[test]
    fn each_set_of_ranges_gives_one_address() {
        let both = json!({"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/30"}], [{"subnet": "fd01::/126"}]]});
        assert_eq!(all(&both), ["10.1.0.2/30", "fd01::2/126"]);
        let second =
            json!({"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/30"}, {"subnet": "10.2.0.0/30"}]]});
        assert_eq!(all(&second), ["10.1.0.2/30", "10.2.0.2/30"]);
    }

    #[test]
    fn whereabouts_ranges_exclude() {
        let ipam = json!({"type": "whereabouts", "range": "192.168.2.0/28", "exclude": ["192.168.2.0/30", "192.168.2.8/29"]});
        assert_eq!(all(&ipam), ["192.168.2.4/28", "192.168.2.5/28", "192.168.2.6/28", "192.168.2.7/28"]);
        let dashed = json!({"type": "whereabouts", "range": "192.168.2.225-192.168.2.226/28"});
        assert_eq!(all(&dashed), ["192.168.2.225/28", "192.168.2.226/28"]);
        let started =
            json!({"type": "whereabouts", "range": "192.168.2.0/24", "range_start": "192.168.2.253"});
        assert_eq!(all(&started), ["192.168.2.253/24", "192.168.2.254/24"]);
    }

    #[test]
    fn fixed_and_missing_addresses() {
        let attachment = |ipam: &Value| json!({"spec": {"config": json!({"ipam": ipam}).to_string()}});
        let fixed = attachment(&json!({"type": "static", "addresses": [{"address": "10.10.0.1/24"}]}));
        assert_eq!(assign(&fixed, &[], &|_| false), Ok(vec!["10.10.0.1/24".parse().unwrap()]));
        assert_eq!(assign(&attachment(&json!({})), &[], &|_| false), Ok(Vec::new()));
        assert!(matches!(
            assign(&attachment(&json!({"type": "odd"})), &[], &|_| false),
            Err(AddressError::Invalid(_))
        ));
        assert!(matches!(
            assign(&json!({"spec": {"config": "no"}}), &[], &|_| false),
            Err(AddressError::Invalid(_))
        ));
        let range = attachment(&json!({"type": "whereabouts", "range": "10.0.0.0/24"}));
        let wanted = ["10.0.0.9".parse().unwrap()];
        assert_eq!(assign(&range, &wanted, &|_| false), Ok(vec!["10.0.0.9/24".parse().unwrap()]));
        assert_eq!(assign(&range, &wanted, &|_| true), Err(AddressError::Taken(wanted[0])));
    }
}
