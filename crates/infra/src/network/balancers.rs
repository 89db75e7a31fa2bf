//! Load balancers: addresses from a pool for Services that ask for one.
//!
//! The steps are those of a cloud controller: it says that it begins, holds the Service by a finalizer, gets the
//! address, which takes a while, and writes it down. An address is free again when the finalizer is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::addresses::Range;
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::SERVICE;
use crate::object::{Key, Object as _};
use crate::stages::{Effect, Outcome, Stages};

/// What holds a Service until its address is given back.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The class of these load balancers, for who names one; who names none gets them too.
pub const CLASS: &str = "trellis.dev/lab";
/// The first wait after a failure; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// How often a stage that hangs is asked again.
const HANGING: Duration = Duration::from_secs(1);

/// A service that is being given an address.
#[derive(Debug, Clone)]
struct Underway {
    address: IpAddr,
    until: Instant,
    outcome: Outcome,
}

/// What is remembered between looks.
#[derive(Debug, Default)]
struct Memory {
    /// By uid.
    underway: BTreeMap<String, Underway>,
    /// Failures so far by uid, and when to try again.
    failures: BTreeMap<String, (u32, Instant)>,
}

/// Gives addresses to services.
#[derive(Debug)]
pub struct Balancers {
    client: Client,
    services: Arc<Cache>,
    recorder: Recorder,
    stages: Stages,
    pool: Range,
    /// Whether the addresses are to be listened on on this machine.
    sockets: bool,
    memory: Mutex<Memory>,
}

impl Balancers {
    /// Load balancers of a cluster.
    pub fn new(context: &Context) -> Self {
        let client = context.client(Identity::LOAD_BALANCER);
        let mut pool = Range::of(context.settings.load_balancers);
        // No gateway takes the first address of a pool.
        pool.first = pool.subnet.hosts().next().unwrap_or(pool.first);
        Self {
            services: client.cache(&SERVICE),
            recorder: Recorder::new(&client, context.clock, "service-controller"),
            client,
            stages: context.stages.clone(),
            pool,
            sockets: context.settings.sockets,
            memory: Mutex::default(),
        }
    }

    /// The next step towards an address.
    async fn ensure(&self, service: &Value) -> Looked {
        let uid = service.uid();
        let underway = self.memory.lock().underway.get(uid).cloned();
        let Some(underway) = underway else { return self.begin(service).await };
        let now = Instant::now();
        if now < underway.until {
            return Ok(Next::After(underway.until - now));
        }
        match underway.outcome.effect.clone() {
            Effect::Pass => {
                let status = json!({"status": {"loadBalancer": {"ingress": ingress(underway.address)}}});
                self.client.merge_status(&SERVICE, &Key::of(service), &status).await?;
                {
                    let mut memory = self.memory.lock();
                    memory.underway.remove(uid);
                    memory.failures.remove(uid);
                }
                self.recorder.normal(&SERVICE, service, "EnsuredLoadBalancer", "Ensured load balancer").await;
                Ok(Next::Done)
            }
            Effect::Fail(message) => Ok(self.fail(service, &message).await),
            Effect::Hang => {
                if self.stages.is_gone(&underway.outcome) {
                    self.work(service, underway.address);
                }
                Ok(Next::After(HANGING))
            }
        }
    }

    /// Says that it begins, holds the service, and sets an address aside.
    async fn begin(&self, service: &Value) -> Looked {
        let retry = self.memory.lock().failures.get(service.uid()).map(|(_, at)| *at);
        let now = Instant::now();
        if let Some(retry) = retry.filter(|retry| *retry > now) {
            return Ok(Next::After(retry - now));
        }
        self.recorder.normal(&SERVICE, service, "EnsuringLoadBalancer", "Ensuring load balancer").await;
        if !service.has_finalizer(FINALIZER) {
            self.set_finalizer(service, true).await?;
        }
        let choice = {
            // Held until the choice is written down, so that nobody else makes the same.
            let mut memory = self.memory.lock();
            let mut taken = self.taken(&memory, service.uid());
            let mut choice = choose(service, &self.pool, &taken);
            // What another process of this machine listens on is as little ours as what another service has.
            while let Ok(address) = choice
                && self.sockets
                && is_listened_on(service, address)
            {
                taken.insert(address);
                choice = choose(service, &self.pool, &taken);
            }
            if let Ok(address) = choice {
                let underway = self.worked(service, address, &memory);
                memory.underway.insert(service.uid().to_owned(), underway);
            }
            choice
        };
        match choice {
            Ok(_) => Box::pin(self.ensure(service)).await,
            Err(message) => Ok(self.fail(service, &message).await),
        }
    }

    fn work(&self, service: &Value, address: IpAddr) {
        let mut memory = self.memory.lock();
        let underway = self.worked(service, address, &memory);
        memory.underway.insert(service.uid().to_owned(), underway);
    }

    fn worked(&self, service: &Value, address: IpAddr, memory: &Memory) -> Underway {
        let attempt = memory.failures.get(service.uid()).map_or(0, |(count, _)| *count);
        let outcome = self.stages.outcome("loadbalancer.assign", service, u64::from(attempt));
        Underway { address, until: Instant::now() + outcome.after, outcome }
    }

    async fn fail(&self, service: &Value, message: &str) -> Next {
        let wait = {
            let mut memory = self.memory.lock();
            memory.underway.remove(service.uid());
            let (count, at) = memory.failures.entry(service.uid().to_owned()).or_insert((0, Instant::now()));
            let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(*count)).min(LONGEST_WAIT);
            *count += 1;
            *at = Instant::now() + wait;
            wait
        };
        let message = format!("Error syncing load balancer: failed to ensure load balancer: {message}");
        self.recorder.warning(&SERVICE, service, "SyncLoadBalancerFailed", &message).await;
        Next::After(wait)
    }

    /// The addresses of all other services.
    fn taken(&self, memory: &Memory, uid: &str) -> BTreeSet<IpAddr> {
        let services = self.services.list("");
        let others = services.iter().filter(|service| service.uid() != uid);
        let written = others.flat_map(|service| given(service));
        let underway = memory.underway.iter().filter(|(other, _)| *other != uid);
        written.chain(underway.map(|(_, underway)| underway.address)).collect()
    }

    /// Gives the address back.
    async fn release(&self, service: &Value) -> Result {
        self.forget(service.uid());
        let key = Key::of(service);
        self.recorder.normal(&SERVICE, service, "DeletingLoadBalancer", "Deleting load balancer").await;
        if !given(service).is_empty() {
            let empty = json!({"status": {"loadBalancer": {"ingress": null}}});
            self.client.merge_status(&SERVICE, &key, &empty).await?;
        }
        if service.has_finalizer(FINALIZER) {
            self.set_finalizer(service, false).await?;
        }
        self.recorder.normal(&SERVICE, service, "DeletedLoadBalancer", "Deleted load balancer").await;
        Ok(())
    }

    async fn set_finalizer(&self, service: &Value, there: bool) -> Result {
        match self.client.merge(&SERVICE, &Key::of(service), &with_finalizer(service, there)).await {
            // Gone: then there is nothing to hold.
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) => Err(failure),
            Ok(_) => Ok(()),
        }
    }

    fn forget(&self, uid: &str) {
        let mut memory = self.memory.lock();
        memory.underway.remove(uid);
        memory.failures.remove(uid);
    }
}

/// The patch that puts our finalizer or takes it away. The list is replaced as a whole, so it is bound to the version it
/// was read at: the finalizers of others must not get lost.
fn with_finalizer(service: &Value, there: bool) -> Value {
    let mut wanted = service.clone();
    if there {
        wanted.add_finalizer(FINALIZER);
    } else {
        wanted.remove_finalizer(FINALIZER);
    }
    json!({"metadata": {
        "finalizers": wanted.list("/metadata/finalizers"),
        "uid": service.uid(), "resourceVersion": service["metadata"]["resourceVersion"],
    }})
}

impl Controller for Balancers {
    const NAME: &'static str = "service-lb-controller";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::each(&self.services)]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(service) = self.services.get(key) else {
            let services = self.services.list("");
            let known: BTreeSet<&str> = services.iter().map(|service| service.uid()).collect();
            let mut memory = self.memory.lock();
            memory.underway.retain(|uid, _| known.contains(uid.as_str()));
            memory.failures.retain(|uid, _| known.contains(uid.as_str()));
            return Ok(Next::Done);
        };
        match wish(&service) {
            Wish::None => Ok(Next::Done),
            Wish::Release => self.release(&service).await.map(|()| Next::Done),
            Wish::Ensure => self.ensure(&service).await,
        }
    }
}

/// What has to be done for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    None,
    Ensure,
    Release,
}

fn wish(service: &Value) -> Wish {
    let held = service.has_finalizer(FINALIZER);
    if !is_ours(service) || service.is_deleting() {
        return if held { Wish::Release } else { Wish::None };
    }
    let wanted = service.text("/spec/loadBalancerIP").parse::<IpAddr>().ok();
    let given = given(service);
    let fits = wanted.is_none_or(|wanted| given.contains(&wanted));
    if held && !given.is_empty() && fits { Wish::None } else { Wish::Ensure }
}

/// Whether a service asks for a load balancer, of this kind or of any.
fn is_ours(service: &Value) -> bool {
    service.text("/spec/type") == "LoadBalancer"
        && matches!(service.text("/spec/loadBalancerClass"), "" | CLASS)
}

/// The addresses a service was given.
pub(super) fn given(service: &Value) -> Vec<IpAddr> {
    let ingress = service.list("/status/loadBalancer/ingress").iter();
    ingress.filter_map(|one| one.text("/ip").parse().ok()).collect()
}

fn ingress(address: IpAddr) -> Value {
    json!([{"ip": address.to_string(), "ipMode": "VIP"}])
}

/// Whether somebody else listens where a service would be reached. The address it has already is its own.
fn is_listened_on(service: &Value, address: IpAddr) -> bool {
    if !address.is_loopback() || given(service).contains(&address) {
        return false;
    }
    super::sockets::stream_ports(service, "/port").into_iter().any(|port| {
        let bound = std::net::TcpListener::bind((address, port));
        bound.is_err_and(|failure| failure.kind() == std::io::ErrorKind::AddrInUse)
    })
}

/// The address for a service: the one it wants, the one it has, or the lowest that is free.
fn choose(service: &Value, pool: &Range, taken: &BTreeSet<IpAddr>) -> std::result::Result<IpAddr, String> {
    let wanted = service.text("/spec/loadBalancerIP");
    if !wanted.is_empty() {
        let address = wanted.parse().map_err(|_| format!("{wanted} is not an IP address"))?;
        return if !pool.has(address) {
            Err(format!("requested address {address} is not in the pool {}", pool.subnet))
        } else if taken.contains(&address) {
            Err(format!("requested address {address} is in use"))
        } else {
            Ok(address)
        };
    }
    let own = given(service).into_iter().find(|address| pool.has(*address) && !taken.contains(address));
    own.or_else(|| pool.free(&|address| taken.contains(&address)))
        .ok_or_else(|| format!("no address is left in the pool {}", pool.subnet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(net: &str) -> Range {
        let mut pool = Range::of(net.parse().unwrap());
        pool.first = pool.subnet.hosts().next().unwrap();
        pool
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_finalizers_of_others_are_safe() {
        let service =
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["other", FINALIZER]}});
        let patch = with_finalizer(&service, false);
        assert_eq!(patch["metadata"]["finalizers"], json!(["other"]));
        // Somebody who has put one there in the meantime is not overrun.
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn the_lowest_free_address_is_given_until_none_is_left() {
        let pool = pool("127.64.0.0/30");
        let service = json!({"spec": {"type": "LoadBalancer"}});
        let mut taken = BTreeSet::new();
        assert_eq!(choose(&service, &pool, &taken), Ok(ip("127.64.0.1")));
        taken.insert(ip("127.64.0.1"));
        assert_eq!(choose(&service, &pool, &taken), Ok(ip("127.64.0.2")));
        taken.insert(ip("127.64.0.2"));
        let failure = choose(&service, &pool, &taken).unwrap_err();
        assert_eq!(failure, "no address is left in the pool 127.64.0.0/30");
    }

    #[test]
    fn a_wanted_address_is_given_or_nothing() {
        let pool = pool("127.64.0.0/24");
        let wants = |address: &str| json!({"spec": {"loadBalancerIP": address}});
        let taken = BTreeSet::from([ip("127.64.0.7")]);
        assert_eq!(choose(&wants("127.64.0.9"), &pool, &taken), Ok(ip("127.64.0.9")));
        assert!(choose(&wants("127.64.0.7"), &pool, &taken).unwrap_err().contains("in use"));
        assert!(choose(&wants("10.0.0.1"), &pool, &taken).unwrap_err().contains("not in the pool"));
        assert!(choose(&wants("127.64.0.255"), &pool, &taken).unwrap_err().contains("not in the pool"));
    }

    #[test]
    fn what_others_listen_on_is_not_given() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = other.local_addr().unwrap();
        let service = json!({"spec": {"ports": [{"port": at.port(), "protocol": "TCP"}]}});
        assert!(is_listened_on(&service, at.ip()));
        let mut own = service.clone();
        own["status"] = json!({"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}});
        assert!(!is_listened_on(&own, at.ip()));
        drop(other);
        assert!(!is_listened_on(&service, at.ip()));
    }

    #[test]
    fn what_is_done_depends_on_type_class_and_finalizer() {
        let held = json!({"finalizers": [FINALIZER]});
        let status = json!({"loadBalancer": {"ingress": [{"ip": "127.64.0.1"}]}});
        let cases = [
            (json!({"spec": {"type": "ClusterIP"}}), Wish::None),
            (json!({"spec": {"type": "LoadBalancer"}}), Wish::Ensure),
            (json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "other/one"}}), Wish::None),
            (json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": CLASS}}), Wish::Ensure),
            (json!({"metadata": held, "spec": {"type": "ClusterIP"}}), Wish::Release),
            (json!({"metadata": held, "spec": {"type": "LoadBalancer"}, "status": status}), Wish::None),
            (
                json!({"metadata": held, "spec": {"type": "LoadBalancer", "loadBalancerIP": "127.64.0.2"}, "status": status}),
                Wish::Ensure,
            ),
            (
                json!({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": "now"}, "spec": {"type": "LoadBalancer"}, "status": status}),
                Wish::Release,
            ),
        ];
        for (service, expected) in cases {
            assert_eq!(wish(&service), expected, "{service}");
        }
    }
}
