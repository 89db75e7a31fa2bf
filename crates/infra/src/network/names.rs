//! Names: what the cluster's name server answers, and what a resolver in a pod asks it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::directory::Directory;
use super::ends::{End, FabricError, Member, Protocol, Source};
use super::fabric::Fabric;
use super::policy::Aim;
use super::route::Blocked;
use super::selector::labels_at;
use crate::object::{Key, Object as _};

/// How many dots make a resolver try a name as it is before anything else.
const DOTS: usize = 5;
/// How often a name may stand for another.
const ALIASES: usize = 8;

impl Fabric {
    /// The addresses of a name, as somebody finds them. A pod asks the cluster's name server, if it may reach it;
    /// hosts and the outside know only what is outside.
    pub async fn resolve(&self, from: &Source, name: &str) -> Result<Vec<IpAddr>, FabricError> {
        if let Ok(address) = name.trim_matches(['[', ']']).parse() {
            return Ok(vec![address]);
        }
        let end = match self.end_of(from) {
            Ok(end) => end,
            Err(blocked) => return Err(self.give_up(&blocked).await),
        };
        let found = match (&end, self.directory()) {
            (End::Pod(member), Some(directory)) => {
                if name == "localhost" {
                    return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
                }
                if member.addresses.is_empty() {
                    return Err(FabricError::Unreachable);
                }
                if let Err(why) = self.asks(&directory, &end) {
                    return Err(self.give_up(&Blocked::silence(why)).await);
                }
                let pod = directory.pod(&member.uid);
                let subdomain = pod.as_deref().map(|pod| pod.text("/spec/subdomain")).unwrap_or_default();
                candidates(name, &member.key.namespace, subdomain, &directory.domain)
                    .iter()
                    .find_map(|name| self.answer(&directory, name, 0))
            }
            _ => self.outside(name.trim_end_matches('.')),
        };
        found.ok_or(FabricError::NoSuchHost)
    }

    /// Whether a pod reaches the name server.
    fn asks(&self, directory: &Directory, end: &End) -> Result<(), String> {
        let server = name_server(directory);
        self.path(end, &server)?;
        self.police(end, &server, Aim { port: 53, protocol: Protocol::Udp }).map(|_| ())
    }

    /// What the name server says of a full name.
    fn answer(&self, directory: &Directory, name: &str, depth: usize) -> Option<Vec<IpAddr>> {
        if depth > ALIASES {
            return None;
        }
        let Some(inner) = name.strip_suffix(&format!(".{}", directory.domain)) else {
            return self.outside(name);
        };
        match of_cluster(directory, inner)? {
            // No address is no answer: the next name is tried.
            Answer::Addresses(addresses) => Some(addresses).filter(|found| !found.is_empty()),
            Answer::Alias(other) => self.answer(directory, other.trim_end_matches('.'), depth + 1),
        }
    }

    fn outside(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.externals.read().get(name).map(|external| vec![external.address])
    }
}

/// The name server as policies see it: a pod like any other, in the place where people expect it.
fn name_server(directory: &Directory) -> End {
    let namespace = directory.namespace("kube-system");
    let namespace_labels = namespace.map(|one| labels_at(&one, "/metadata/labels")).unwrap_or_default();
    let service = directory.service(&Key::new("kube-system", "kube-dns"));
    let addresses = service.as_deref().map(|one| one.list("/spec/clusterIPs")).unwrap_or_default();
    End::Pod(Member {
        uid: "name-server".to_owned(),
        key: Key::new("kube-system", "coredns"),
        labels: [("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
        namespace_labels,
        node: String::new(),
        addresses: addresses.iter().filter_map(|one| one.as_str()?.parse().ok()).collect(),
        ports: vec![("dns".to_owned(), Protocol::Udp, 53), ("dns-tcp".to_owned(), Protocol::Tcp, 53)],
    })
}

/// The full names a resolver tries for a name, in order.
fn candidates(name: &str, namespace: &str, subdomain: &str, domain: &str) -> Vec<String> {
    if let Some(full) = name.strip_suffix('.') {
        return vec![full.to_owned()];
    }
    let mut search = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    if !subdomain.is_empty() {
        // Machines find their neighbours by bare names.
        search.insert(0, format!("{subdomain}.{namespace}.svc.{domain}"));
    }
    let searched = search.iter().map(|suffix| format!("{name}.{suffix}"));
    if name.matches('.').count() >= DOTS {
        [name.to_owned()].into_iter().chain(searched).collect()
    } else {
        searched.chain([name.to_owned()]).collect()
    }
}

enum Answer {
    Addresses(Vec<IpAddr>),
    Alias(String),
}

/// A name of the cluster without its domain.
fn of_cluster(directory: &Directory, name: &str) -> Option<Answer> {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        [service, namespace, "svc"] => of_service(directory, &Key::new(namespace, service)),
        [host, service, namespace, "svc"] => {
            let addresses = endpoints(directory, &Key::new(namespace, service), Some(host));
            Some(Answer::Addresses(addresses))
        }
        [address, _, "pod"] => Some(Answer::Addresses(vec![undashed(address)?])),
        _ => None,
    }
}

fn of_service(directory: &Directory, key: &Key) -> Option<Answer> {
    let service = directory.service(key)?;
    if service.text("/spec/type") == "ExternalName" {
        return Some(Answer::Alias(service.text("/spec/externalName").to_owned()));
    }
    if service.text("/spec/clusterIP") == "None" {
        return Some(Answer::Addresses(endpoints(directory, key, None)));
    }
    let addresses = service.list("/spec/clusterIPs").iter().filter_map(|one| one.as_str()?.parse().ok());
    Some(Answer::Addresses(addresses.collect()))
}

/// The addresses of the ready endpoints of a service, or of those with a name of their own.
fn endpoints(directory: &Directory, service: &Key, host: Option<&str>) -> Vec<IpAddr> {
    let slices = directory.slices(service);
    let endpoints = slices.iter().flat_map(|slice| slice.list("/endpoints"));
    let ready = endpoints.filter(|one| one.at("/conditions/ready") != false);
    let named = ready.filter(|one| host.is_none_or(|host| goes_by(one, host)));
    let addresses = named.filter_map(|one| one.text("/addresses/0").parse().ok());
    addresses.collect::<BTreeSet<_>>().into_iter().collect()
}

/// An endpoint without a name of its own goes by its address.
fn goes_by(endpoint: &Value, host: &str) -> bool {
    match endpoint.text("/hostname") {
        "" => undashed(host).is_some_and(|one| endpoint.text("/addresses/0").parse() == Ok(one)),
        name => name == host,
    }
}

/// The address in a name such as `10-0-0-1`.
fn undashed(name: &str) -> Option<IpAddr> {
    let four = name.replace('-', ".").parse::<Ipv4Addr>().map(IpAddr::V4);
    four.or_else(|_| name.replace('-', ":").parse::<Ipv6Addr>().map(IpAddr::V6)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_searched_and_long_ones_tried_first() {
        assert_eq!(
            candidates("api", "a", "", "cluster.local"),
            ["api.a.svc.cluster.local", "api.svc.cluster.local", "api.cluster.local", "api"]
        );
        assert_eq!(candidates("api.", "a", "", "cluster.local"), ["api"]);
        assert_eq!(candidates("m0", "a", "sub", "c.l")[0], "m0.sub.a.svc.c.l");
        assert_eq!(candidates("a.b.c.d.e.f", "a", "", "c.l")[0], "a.b.c.d.e.f");
    }

    #[test]
    fn addresses_are_read_from_names() {
        assert_eq!(undashed("10-0-0-1"), Some([10, 0, 0, 1].into()));
        assert_eq!(undashed("fd00--1"), Some("fd00::1".parse().unwrap()));
        assert_eq!(undashed("web"), None);
    }
}
