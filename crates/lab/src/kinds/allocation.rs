//! Addresses and ports of services: chosen, or refused when they are taken.
//!
//! The cluster has one range of IPv4 addresses and one of ports. Which of them are taken is told by whoever calls;
//! nothing is kept here, so that a write that fails in the end leaves no trace.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::prepare::{needs_cluster_ip, needs_health_check_port};
use super::validate::service_addresses;
use super::view::{Edit, Look, Path, Problems, same};
use super::{WriteContext, format};
use crate::status::{FieldProblem, Problem, Status};

/// The network of the addresses of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceNetwork {
    address: Ipv4Addr,
    bits: u8,
}

impl Default for ServiceNetwork {
    fn default() -> Self {
        Self { address: Ipv4Addr::new(10, 96, 0, 0), bits: 16 }
    }
}

impl std::fmt::Display for ServiceNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

impl std::str::FromStr for ServiceNetwork {
    type Err = String;

    /// Reads a network of between 14 and about a million addresses, as servers take it.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text} is no network of IPv4 addresses with 12 to 28 bits");
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let (address, bits): (Ipv4Addr, u8) =
            (address.parse().map_err(|_| bad())?, bits.parse().map_err(|_| bad())?);
        if !(12..=28).contains(&bits) {
            return Err(bad());
        }
        let network = Self { address, bits };
        Ok(Self { address: Ipv4Addr::from(u32::from(address) & !(network.size() - 1)), bits })
    }
}

impl ServiceNetwork {
    const fn size(self) -> u32 {
        1 << (32 - self.bits)
    }

    /// The lower part is left to those who ask for something certain.
    fn kept(self) -> u32 {
        (self.size() / 16).clamp(16, 256).min(self.size() - 2)
    }

    /// The address of the service that every pod finds the server by.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) + 1)
    }
}

/// The first and the last port.
pub const PORTS: (u16, u16) = (30_000, 32_767);

/// The lower part of the ports is left to those who ask for something certain.
const KEPT_PORTS: u16 = 86;

/// Says what is taken by other services, or by this one before the change.
pub trait Taken {
    /// Where addresses are from.
    fn network(&self) -> ServiceNetwork;
    /// True when the address belongs to a service.
    fn address(&self, address: Ipv4Addr) -> bool;
    /// True when the port belongs to a service.
    fn port(&self, port: u16) -> bool;
}

/// Gives a service the addresses and ports it needs, before it is prepared and checked any further.
///
/// A dry run takes nothing and shows values nobody would get.
///
/// # Errors
///
/// When something that is asked for is taken or out of range, or nothing is left.
pub fn allocate_service(
    context: &WriteContext<'_>,
    old: Option<&Value>,
    new: &mut Value,
    taken: &dyn Taken,
    dry_run: bool,
) -> Result<(), Status> {
    if !context.subresource.is_empty() {
        return Ok(());
    }
    let before = old.map(|old| old.at("spec").clone());
    if let Some(before) = &before {
        keep_allocated(before, new.object("spec"));
    }
    normalise(before.as_ref(), new.object("spec"));
    let name = new.at("metadata").text("name").to_owned();
    let fail = |problems: Vec<FieldProblem>| Status::invalid("", "Service", &name, problems);
    families(before.as_ref(), new, &name)?;
    let luck = luck_of(new.at("metadata").text("uid"));
    let spec = new.object("spec");
    let mut ports = Ports { taken, used: Vec::new(), dry_run, luck };
    addresses(before.as_ref(), spec, taken, (!dry_run).then_some(luck)).map_err(|why| failure(why, fail))?;
    node_ports(before.as_ref(), spec, &mut ports).map_err(|why| failure(why, fail))?;
    let needed = before.as_ref().is_some_and(needs_health_check_port);
    if needs_health_check_port(spec) && !needed {
        health_check(spec, &mut ports)?;
    }
    Ok(())
}

enum Refused {
    Invalid(FieldProblem),
    Internal(String),
}

fn failure(why: Refused, invalid: impl Fn(Vec<FieldProblem>) -> Status) -> Status {
    match why {
        Refused::Invalid(problem) => invalid(vec![problem]),
        Refused::Internal(message) => Status::internal(message),
    }
}

/// What was allocated for the service stays when a client does not mention it.
fn keep_allocated(before: &Value, spec: &mut Value) {
    if needs_cluster_ip(before) && needs_cluster_ip(spec) {
        if spec.text("clusterIP").is_empty() && before.has("clusterIP") {
            spec.put("clusterIP", before.at("clusterIP").clone());
        }
        if spec.list("clusterIPs").is_empty() && !before.list("clusterIPs").is_empty() {
            spec.put("clusterIPs", before.at("clusterIPs").clone());
        }
    }
    let has_ports = |spec: &Value| {
        spec.text("type") == "NodePort"
            || (spec.text("type") == "LoadBalancer"
                && spec.at("allocateLoadBalancerNodePorts") != &Value::Bool(false))
    };
    if has_ports(before) && has_ports(spec) {
        let numbers = |spec: &Value| -> Vec<i64> {
            spec.list("ports")
                .iter()
                .filter_map(|port| port.int("nodePort"))
                .filter(|&port| port != 0)
                .collect()
        };
        let wanted = numbers(spec);
        let used: Vec<i64> = numbers(before).into_iter().filter(|port| wanted.contains(port)).collect();
        for port in spec.items("ports") {
            if port.int("nodePort").unwrap_or_default() != 0 {
                continue;
            }
            let same_name = before.list("ports").iter().rfind(|old| old.text("name") == port.text("name"));
            let number = same_name.and_then(|old| old.int("nodePort")).unwrap_or_default();
            if number != 0 && !used.contains(&number) {
                port.put("nodePort", number);
            }
        }
    }
    let health = |spec: &Value| spec.int("healthCheckNodePort").unwrap_or_default();
    if needs_health_check_port(before)
        && needs_health_check_port(spec)
        && health(spec) == 0
        && health(before) != 0
    {
        spec.put("healthCheckNodePort", health(before));
    }
}

/// Clients that only know the singular of the addresses are understood.
fn normalise(before: Option<&Value>, spec: &mut Value) {
    let single = spec.text("clusterIP").to_owned();
    let Some(before) = before else {
        if !single.is_empty() && spec.list("clusterIPs").is_empty() {
            spec.put("clusterIPs", json!([single]));
        }
        return;
    };
    let unchanged = same(before.at("clusterIPs"), spec.at("clusterIPs"));
    if before.text("clusterIP") == single {
        if !before.list("clusterIPs").is_empty() && spec.list("clusterIPs").is_empty() {
            spec.put("clusterIPs", before.at("clusterIPs").clone());
        }
    } else if unchanged {
        if single.is_empty() {
            spec.cut("clusterIPs");
        } else {
            spec.put("clusterIPs", json!([single]));
        }
    }
}

fn prefers_both_unchanged(before: &Value, spec: &Value) -> bool {
    let prefers = |spec: &Value| spec.text("ipFamilyPolicy") == "PreferDualStack";
    before.text("type") == spec.text("type")
        && matches!(spec.text("type"), "ClusterIP" | "NodePort" | "LoadBalancer")
        && prefers(spec)
        && (prefers(before) || !before.has("ipFamilyPolicy"))
        && same(before.at("clusterIPs"), spec.at("clusterIPs"))
        && same(before.at("ipFamilies"), spec.at("ipFamilies"))
}

/// Which families of addresses the service has, on a cluster that has one.
fn families(before: Option<&Value>, service: &mut Value, name: &str) -> Result<(), Status> {
    let spec = service.object("spec");
    if !needs_cluster_ip(spec) || before.is_some_and(|before| prefers_both_unchanged(before, spec)) {
        return Ok(());
    }
    let without_selector =
        spec.text("clusterIP") == "None" && spec.fields("selector").is_none_or(Map::is_empty);
    if !spec.has("ipFamilyPolicy") {
        let kept = before.map(|before| before.text("ipFamilyPolicy")).filter(|policy| !policy.is_empty());
        let usual = if without_selector { "RequireDualStack" } else { "SingleStack" };
        let policy = kept.unwrap_or(usual).to_owned();
        spec.put("ipFamilyPolicy", policy);
    }
    let mut problems = Problems::default();
    service_addresses(spec, before, &mut problems);
    let refuse = |problems: Problems| {
        if problems.is_empty() { Ok(()) } else { Err(Status::invalid("", "Service", name, problems.0)) }
    };
    refuse(problems)?;
    let mut problems = Problems::default();
    let at = Path::root("spec");
    let policy = spec.text("ipFamilyPolicy").to_owned();
    if let Some(before) = before {
        release_second(before, spec, &policy, &at, &mut problems);
    }
    if policy == "SingleStack" {
        for (list, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if spec.list(list).len() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                problems.invalid(&at.child("ipFamilyPolicy"), policy.as_str(), why);
            }
        }
    }
    let mut known: Vec<Value> = spec.list("ipFamilies").to_vec();
    let list = at.child("clusterIPs");
    for (place, address) in spec.list("clusterIPs").iter().map(Look::str).enumerate() {
        if address == "None" {
            break;
        }
        if place >= spec.list("ipFamilies").len() {
            if let Some(IpAddr::V4(_)) = format::sloppy_ip(address) {
                known.push("IPv4".into());
            } else {
                let all = spec.list("clusterIPs").to_vec();
                problems.invalid(&list.index(place), all, "IPv6 is not configured on this cluster");
            }
        }
    }
    refuse(problems)?;
    let mut problems = Problems::default();
    if without_selector {
        if known.is_empty() {
            known.push("IPv4".into());
        }
        if known.len() < 2 && policy != "SingleStack" {
            known.push(if known[0].str() == "IPv4" { "IPv6".into() } else { "IPv4".into() });
        }
        spec.put("ipFamilies", known);
        return Ok(());
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        problems.invalid(&at.child("ipFamilyPolicy"), policy.as_str(), why);
    }
    let list = at.child("ipFamilies");
    for (place, family) in known.iter().enumerate() {
        if family.str() != "IPv4" {
            problems.invalid(&list.index(place), family.clone(), "not configured on this cluster");
        }
    }
    refuse(problems)?;
    if known.is_empty() {
        known.push("IPv4".into());
    }
    spec.put("ipFamilies", known);
    Ok(())
}

/// A second family goes when the policy says so, and only then.
fn release_second(before: &Value, spec: &mut Value, policy: &str, at: &Path<'_>, problems: &mut Problems) {
    for (list, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (old, new) = (before.list(list), spec.list(list).to_vec());
        if policy == "SingleStack" {
            if old == new.as_slice() && new.len() > 1 {
                spec.put(list, new[..1].to_vec());
            }
        } else if !new.is_empty() && new.len() < old.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            problems.invalid(&at.child("ipFamilyPolicy"), policy, why);
        }
    }
}

fn addresses(
    before: Option<&Value>,
    spec: &mut Value,
    taken: &dyn Taken,
    luck: Option<u32>,
) -> Result<(), Refused> {
    let is_new = before.is_none_or(|before| !needs_cluster_ip(before));
    if !is_new
        || !needs_cluster_ip(spec)
        || spec.list("clusterIPs").first().is_some_and(|ip| ip.str() == "None")
    {
        return Ok(());
    }
    let wanted = spec.list("clusterIPs").first().map(|ip| ip.str().to_owned()).unwrap_or_default();
    if wanted.is_empty() {
        // A dry run shows an address that nobody gets.
        let chosen = luck.map_or(Ok(taken.network().address), |luck| free_address(taken, luck))?;
        spec.put("clusterIP", chosen.to_string());
        spec.put("clusterIPs", json!([chosen.to_string()]));
        return Ok(());
    }
    let refuse = |why: String| {
        let all = Value::from(spec.list("clusterIPs").to_vec());
        let why = format!("failed to allocate IP {wanted}: {why}");
        Err(Refused::Invalid(FieldProblem::new("spec.clusterIPs", Problem::Invalid(all, why))))
    };
    let Some(IpAddr::V4(address)) = format::sloppy_ip(&wanted) else {
        return Err(Refused::Internal(format!("failed to parse service IP {wanted:?}")));
    };
    let network = taken.network();
    let offset = u32::from(address).wrapping_sub(u32::from(network.address));
    if offset == 0 || offset >= network.size() - 1 {
        return refuse(if luck.is_none() {
            format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {network}"
            )
        } else {
            "the provided network does not match the current range".to_owned()
        });
    }
    if luck.is_some() && taken.address(address) {
        return refuse("provided IP is already allocated".to_owned());
    }
    Ok(())
}

/// Any free address of the upper part, or else of the lower one. The first and the last are nobody's.
fn free_address(taken: &dyn Taken, luck: u32) -> Result<Ipv4Addr, Refused> {
    let network = taken.network();
    let base = u32::from(network.address);
    let (kept, last) = (network.kept(), network.size() - 2);
    for (from, to) in [(kept + 1, last), (1, kept)].into_iter().filter(|(from, to)| from <= to) {
        let count = to - from + 1;
        let start = luck % count;
        let free = (0..count)
            .map(|step| Ipv4Addr::from(base + from + (start + step) % count))
            .find(|address| !taken.address(*address));
        if let Some(address) = free {
            return Ok(address);
        }
    }
    Err(Refused::Internal("failed to allocate a serviceIP: range is full".to_owned()))
}

struct Ports<'a> {
    taken: &'a dyn Taken,
    /// What this write took already.
    used: Vec<i64>,
    dry_run: bool,
    /// Where the search begins.
    luck: u32,
}

/// Where the search for something free begins: anywhere, but the same for the same object.
fn luck_of(uid: &str) -> u32 {
    let digest = Sha256::digest(uid.as_bytes());
    digest.iter().take(4).fold(0, |luck, byte| (luck << 8) | u32::from(*byte))
}

impl Ports<'_> {
    fn take(&mut self, port: i64) -> Result<(), String> {
        let (first, last) = PORTS;
        let in_range = u16::try_from(port).ok().filter(|port| (first..=last).contains(port));
        // A dry run does not look at the range.
        if in_range.is_none() && !self.dry_run {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        }
        if self.used.contains(&port) || in_range.is_some_and(|port| self.taken.port(port)) {
            return Err("provided port is already allocated".to_owned());
        }
        self.used.push(port);
        Ok(())
    }

    fn next(&mut self) -> Option<i64> {
        if self.dry_run {
            let port = self.used.iter().max().copied().unwrap_or(32_768) + 1;
            self.used.push(port);
            return Some(port);
        }
        let (first, last) = PORTS;
        for (from, to) in [(first + KEPT_PORTS, last), (first, first + KEPT_PORTS - 1)] {
            let count = to - from + 1;
            let start = u16::try_from(self.luck % u32::from(count)).unwrap_or_default();
            let free = (0..count)
                .map(|step| from + (start + step) % count)
                .find(|port| !self.used.contains(&i64::from(*port)) && !self.taken.port(*port));
            if let Some(port) = free {
                self.used.push(i64::from(port));
                return Some(i64::from(port));
            }
        }
        None
    }
}

fn node_ports(before: Option<&Value>, spec: &mut Value, ports: &mut Ports<'_>) -> Result<(), Refused> {
    let kind = spec.text("type");
    let choose = kind == "NodePort" || (kind == "LoadBalancer" && spec.flag("allocateLoadBalancerNodePorts"));
    if !matches!(kind, "NodePort" | "LoadBalancer") {
        return Ok(());
    }
    let full = || Refused::Internal("failed to allocate a nodePort: range is full".to_owned());
    let refuse = |place: usize, port: i64, why: String| {
        let field = format!("spec.ports[{place}].nodePort");
        Refused::Invalid(FieldProblem::new(field, Problem::Invalid(port.into(), why)))
    };
    let own: Vec<i64> = before
        .into_iter()
        .flat_map(|before| before.list("ports"))
        .filter_map(|port| port.int("nodePort"))
        .filter(|&port| port != 0)
        .collect();
    let all = spec.list("ports").to_vec();
    let mut by_port: Vec<(i64, i64)> = Vec::new();
    for (place, port) in spec.items("ports").iter_mut().enumerate() {
        let (number, mut wanted) =
            (port.int("port").unwrap_or_default(), port.int("nodePort").unwrap_or_default());
        if wanted == 0 && !choose {
            continue;
        }
        if before.is_some() {
            if wanted == 0 {
                port.put("nodePort", ports.next().ok_or_else(full)?);
            } else if !own.contains(&wanted) && !ports.used.contains(&wanted) {
                ports.take(wanted).map_err(|why| refuse(place, wanted, why))?;
            }
            continue;
        }
        // The same port of several protocols has the same number on the nodes.
        match by_port.iter().find(|(port, _)| *port == number) {
            None => {
                let asked = all.iter().filter(|one| one.int("port") == Some(number));
                let asked = asked.filter_map(|one| one.int("nodePort")).find(|&port| port != 0);
                match asked {
                    Some(asked) => {
                        ports.take(asked).map_err(|why| refuse(place, asked, why))?;
                        wanted = asked;
                    }
                    None => wanted = ports.next().ok_or_else(full)?,
                }
                port.put("nodePort", wanted);
                by_port.push((number, wanted));
            }
            Some((_, given)) if wanted == 0 => port.put("nodePort", *given),
            Some((_, given)) if *given != wanted => {
                ports.take(wanted).map_err(|why| refuse(place, wanted, why))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn health_check(spec: &mut Value, ports: &mut Ports<'_>) -> Result<(), Status> {
    match spec.int("healthCheckNodePort").unwrap_or_default() {
        0 => {
            let port = ports.next().ok_or_else(|| {
                Status::internal("failed to allocate a HealthCheck NodePort 0: range is full")
            })?;
            spec.put("healthCheckNodePort", port);
        }
        port => ports.take(port).map_err(|why| {
            Status::internal(format!("failed to allocate requested HealthCheck NodePort {port}: {why}"))
        })?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::User;
    use crate::names::Gvk;

    struct Some2;

    impl Taken for Some2 {
        fn network(&self) -> ServiceNetwork {
            ServiceNetwork::default()
        }

        fn address(&self, address: Ipv4Addr) -> bool {
            address == Ipv4Addr::new(10, 96, 0, 1)
        }

        fn port(&self, port: u16) -> bool {
            port == 30_001
        }
    }

    fn write(old: Option<&Value>, spec: &Value) -> Result<Value, String> {
        let (kind, user) = (Gvk::new("", "v1", "Service"), User::default());
        let context = WriteContext {
            kind: &kind,
            subresource: "",
            now: jiff::Timestamp::UNIX_EPOCH,
            user: &user,
            namespace: "ns",
        };
        let mut service = json!({"metadata": {"name": "s"}, "spec": spec});
        super::super::default(&kind, &mut service, context.now);
        allocate_service(&context, old, &mut service, &Some2, false).map_err(|status| status.message)?;
        Ok(service)
    }

    #[test]
    fn what_is_taken_or_out_of_range_is_refused_in_the_words_of_the_real_server() {
        let refused = |spec: Value| write(None, &spec).unwrap_err();
        assert_eq!(
            refused(json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80}]})),
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: failed to allocate IP 10.96.0.1: provided IP is already allocated"
        );
        assert_eq!(
            refused(json!({"clusterIP": "10.97.0.1", "ports": [{"port": 80}]})),
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.97.0.1\"]: failed to allocate IP 10.97.0.1: the provided network does not match the current range"
        );
        assert_eq!(
            refused(
                json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_001, "ports": [{"port": 80}]})
            ),
            "Internal error occurred: failed to allocate requested HealthCheck NodePort 30001: provided port is already allocated"
        );
        assert_eq!(
            refused(
                json!({"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30_790}, {"name": "b", "port": 81, "nodePort": 30_790}]})
            ),
            "Service \"s\" is invalid: spec.ports[1].nodePort: Invalid value: 30790: provided port is already allocated"
        );
        assert_eq!(
            refused(json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]})),
            "Service \"s\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
        );
        assert_eq!(
            refused(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 29_999}]})),
            "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 29999: provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
        assert_eq!(
            refused(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_001}]})),
            "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"
        );
        assert_eq!(
            refused(json!({"ipFamilies": ["IPv6"], "ports": [{"port": 80}]})),
            "Service \"s\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
        );
    }

    #[test]
    fn what_was_allocated_stays_when_it_is_not_mentioned() {
        let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}]);
        let old = write(None, &json!({"type": "NodePort", "ports": ports})).unwrap();
        assert_eq!(old["spec"]["ports"][0]["nodePort"], old["spec"]["ports"][1]["nodePort"]);
        assert_eq!(old["spec"]["clusterIPs"][0], old["spec"]["clusterIP"]);
        let new =
            write(Some(&old), &json!({"type": "NodePort", "ports": [{"name": "a", "port": 81}]})).unwrap();
        assert_eq!(new["spec"]["ports"][0]["nodePort"], old["spec"]["ports"][0]["nodePort"]);
        assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"]);
        assert_eq!(new["spec"]["ipFamilies"], json!(["IPv4"]));
    }

    #[test]
    fn services_without_a_selector_that_are_headless_may_have_both_families() {
        let headless = write(None, &json!({"clusterIP": "None", "ports": [{"port": 80}]})).unwrap();
        assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");
        let both =
            write(None, &json!({"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]})).unwrap();
        assert_eq!(both["spec"]["ipFamilies"], json!(["IPv4"]));
    }

    #[test]
    fn networks_are_read_and_have_room_at_both_ends() {
        let network: ServiceNetwork = "172.30.5.9/28".parse().unwrap();
        assert_eq!(
            (network.to_string().as_str(), network.first().to_string().as_str()),
            ("172.30.5.0/28", "172.30.5.1")
        );
        assert_eq!((network.size(), network.kept()), (16, 14));
        assert_eq!(ServiceNetwork::default().kept(), 256);
        for bad in ["", "10.0.0.0", "10.0.0.0/8", "10.0.0.0/29", "fd00::/112", "a/16", "10.0.0.0/x"] {
            assert!(bad.parse::<ServiceNetwork>().is_err(), "{bad}");
        }
    }
}
