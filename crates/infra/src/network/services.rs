//! Where the address of a service leads: what kube-proxy does on each host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::ends::Protocol;
use crate::object::{Key, Object as _};

/// One endpoint behind a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// The host it is on; may be empty.
    pub node: String,
}

/// How a service is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door<'a> {
    /// By its address of the cluster, from a host (empty outside).
    Cluster(&'a str),
    /// By the address of its load balancer.
    Balancer,
    /// By its port on a host.
    Node(&'a str),
}

/// The port of a service that has a number.
pub fn port_of(service: &Value, port: u16, protocol: Protocol) -> Option<&Value> {
    service.list("/spec/ports").iter().find(|one| {
        one.number("/port") == Some(i64::from(port))
            && Protocol::parse(one.text("/protocol")) == Some(protocol)
    })
}

/// The port of a service that has a number on the hosts.
pub fn node_port_of(service: &Value, port: u16, protocol: Protocol) -> Option<&Value> {
    service.list("/spec/ports").iter().find(|one| {
        one.number("/nodePort") == Some(i64::from(port))
            && Protocol::parse(one.text("/protocol")) == Some(protocol)
    })
}

/// The endpoints a port of a service leads to through a door, by address: the ready ones, or where there are none
/// those that still serve while they end.
pub fn backends(
    service: &Value,
    slices: &[Arc<Value>],
    port: &Value,
    family: IpAddr,
    door: Door<'_>,
) -> Vec<Backend> {
    let local = match door {
        Door::Cluster(node) if service.text("/spec/internalTrafficPolicy") == "Local" => Some(node),
        Door::Node(node) if service.text("/spec/externalTrafficPolicy") == "Local" => Some(node),
        _ => None,
    };
    let kind = if family.is_ipv4() { "IPv4" } else { "IPv6" };
    let (mut ready, mut ending) = (BTreeMap::new(), BTreeMap::new());
    for slice in slices.iter().filter(|slice| slice.text("/addressType") == kind) {
        let target = slice.list("/ports").iter().find(|one| one.text("/name") == port.text("/name"));
        let Some(target) = target.and_then(|one| u16::try_from(one.number("/port")?).ok()) else { continue };
        for endpoint in slice.list("/endpoints") {
            let node = endpoint.text("/nodeName").to_owned();
            let Some(address) = endpoint.text("/addresses/0").parse().ok() else { continue };
            if local.is_some_and(|local| local != node) {
                continue;
            }
            // Ready unless something else is said.
            let list = if endpoint.at("/conditions/ready") != false {
                &mut ready
            } else if endpoint.flag("/conditions/serving") && endpoint.flag("/conditions/terminating") {
                &mut ending
            } else {
                continue;
            };
            list.insert((address, target), Backend { address, port: target, node });
        }
    }
    let found = if ready.is_empty() { ending } else { ready };
    found.into_values().collect()
}

/// Whose turn it is: endpoints take turns, unless a client sticks to one.
#[derive(Debug, Default)]
pub struct Turns {
    taken: BTreeMap<(Key, String), u64>,
    sticky: BTreeMap<(Key, IpAddr), (IpAddr, Instant)>,
}

impl Turns {
    /// The endpoint whose turn it is; `start` is where the first round begins. Only a turn that is taken counts.
    pub fn pick(
        &mut self,
        service: &Value,
        port: &Value,
        client: IpAddr,
        backends: &[Backend],
        (start, take): (u64, bool),
    ) -> Option<Backend> {
        let key = Key::of(service);
        let now = Instant::now();
        let sticks = service.text("/spec/sessionAffinity") == "ClientIP";
        if sticks
            && let Some((address, until)) = self.sticky.get_mut(&(key.clone(), client))
            && *until > now
            && let Some(backend) = backends.iter().find(|backend| backend.address == *address)
        {
            *until = now + patience(service);
            return Some(backend.clone());
        }
        self.prune(now);
        let turn = self.taken.entry((key.clone(), port.text("/name").to_owned())).or_default();
        let count = u64::try_from(backends.len()).ok().filter(|count| *count > 0)?;
        let place = usize::try_from(start.wrapping_add(*turn) % count).ok()?;
        let backend = backends.get(place)?.clone();
        if take {
            *turn = turn.wrapping_add(1);
            if sticks {
                self.sticky.insert((key, client), (backend.address, now + patience(service)));
            }
        }
        Some(backend)
    }
}

/// How much is remembered before it is looked through for what is of no use any more.
const REMEMBERED: usize = 4096;

impl Turns {
    /// Forgets clients whose time is over, and whose turn it was where far too many services have come and gone: a
    /// round begins anew then, which nobody can tell from another one.
    fn prune(&mut self, now: Instant) {
        if self.sticky.len() >= REMEMBERED {
            self.sticky.retain(|_, (_, until)| *until > now);
        }
        if self.taken.len() >= REMEMBERED {
            self.taken.clear();
        }
    }
}

/// How long a client sticks to an endpoint without a word.
fn patience(service: &Value) -> Duration {
    let seconds = service.number("/spec/sessionAffinityConfig/clientIP/timeoutSeconds").unwrap_or(10_800);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FOUR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

    fn slice(endpoints: &Value) -> Vec<Arc<Value>> {
        vec![Arc::new(
            json!({"addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints}),
        )]
    }

    fn addresses(found: &[Backend]) -> Vec<String> {
        found.iter().map(|backend| backend.address.to_string()).collect()
    }

    #[test]
    fn only_who_is_ready_is_asked_unless_all_are_ending() {
        let port = json!({"port": 80});
        let serving = json!({"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}});
        let not = json!({"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": false}});
        let ready = json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true}});
        let all = slice(&json!([serving, not, ready]));
        let found = backends(&json!({}), &all, &port, FOUR, Door::Balancer);
        assert_eq!(addresses(&found), ["10.0.0.1"]);
        let found = backends(&json!({}), &slice(&json!([serving, not])), &port, FOUR, Door::Balancer);
        assert_eq!(addresses(&found), ["10.0.0.3"]);
        assert_eq!(found[0].port, 8080);
    }

    #[test]
    fn local_policies_keep_to_the_host() {
        let slices = slice(
            &json!([{"addresses": ["10.0.0.1"], "nodeName": "a"}, {"addresses": ["10.0.0.2"], "nodeName": "b"}]),
        );
        let service = json!({"spec": {"externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local"}});
        let port = json!({"port": 80});
        let through = |door| addresses(&backends(&service, &slices, &port, FOUR, door));
        assert_eq!(through(Door::Node("b")), ["10.0.0.2"]);
        assert_eq!(through(Door::Cluster("a")), ["10.0.0.1"]);
        assert_eq!(through(Door::Node("c")), Vec::<String>::new());
        assert_eq!(through(Door::Balancer).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_remembered_for_ever() {
        let found = backends(
            &json!({}),
            &slice(&json!([{"addresses": ["10.0.0.1"]}])),
            &json!({}),
            FOUR,
            Door::Balancer,
        );
        let mut turns = Turns::default();
        for number in 0..u32::try_from(2 * REMEMBERED).unwrap() {
            let service = json!({"metadata": {"name": format!("s{number}"), "namespace": "n"}, "spec": {"sessionAffinity": "ClientIP"}});
            turns.pick(&service, &json!({}), IpAddr::V4(number.into()), &found, (0, true));
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert!(turns.taken.len() <= REMEMBERED && turns.sticky.len() <= REMEMBERED);
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_take_turns_and_clients_may_stick() {
        let slices = slice(&json!([{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]));
        let port = json!({"port": 80});
        let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {}});
        let found = backends(&service, &slices, &port, FOUR, Door::Balancer);
        let client: IpAddr = [10, 9, 9, 9].into();
        let mut turns = Turns::default();
        let mut pick = |service: &Value, take| turns.pick(service, &port, client, &found, (1, take));
        let first = pick(&service, true);
        assert_eq!(first.clone().unwrap().address.to_string(), "10.0.0.2");
        assert_ne!(pick(&service, false), first);
        assert_ne!(pick(&service, true), first);
        assert_eq!(pick(&service, true), first);
        service.set("/spec/sessionAffinity", "ClientIP".into());
        let stuck = pick(&service, true);
        assert_eq!(pick(&service, true), stuck);
        tokio::time::advance(Duration::from_secs(10_801)).await;
        assert_ne!(pick(&service, true), stuck);
    }
}
