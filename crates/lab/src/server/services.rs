//! Addresses and ports of Services, and other writes that need a look at their neighbours.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;

use super::Server;
use crate::admission::Review;
use crate::admission::quota::Charged;
use crate::controllers::addresses;
use crate::kinds::allocation::{ServiceNetwork, Taken};
use crate::kinds::{self, WriteContext};
use crate::names::GroupResource;
use crate::registry::Served;
use crate::status::Status;
use crate::store::{EventKind, Expect, Key, Query, Record, Refusal, Store};

/// How often a charge is computed anew when a quota changes meanwhile.
const CHARGE_ATTEMPTS: usize = 32;

/// What was chosen for a Service. Nobody else is given it until the Service is written, or the write is given up.
#[derive(Debug)]
pub(crate) struct Allocation {
    services: Arc<Mutex<TakenByServices>>,
    addresses: Vec<Ipv4Addr>,
    ports: Vec<u16>,
}

impl Allocation {
    /// Waits until a Service that is ordered is safe, and makes its IPAddresses, before anybody is answered.
    ///
    /// A client that hangs up stops none of it: the Service is there, and what it has must not be given away.
    fn written(self, server: &Arc<Server>, service: &Arc<Record>) -> BoxFuture<'static, Result<(), Status>> {
        let (server, service) = (Arc::clone(server), Arc::clone(service));
        let rest = tokio::spawn(async move {
            server.settled(service.version).await?;
            let made = addresses::make_of(&server, &service).await;
            drop(self);
            made
        });
        Box::pin(async move {
            rest.await.unwrap_or_else(|error| Err(Status::internal(format!("writing a Service: {error}"))))
        })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut services = self.services.lock();
        for address in &self.addresses {
            services.reserved_addresses.remove(address);
        }
        for port in &self.ports {
            services.reserved_ports.remove(port);
        }
    }
}

/// The addresses and ports Services have. It follows the store, so that a new Service costs no look at all others.
#[derive(Debug, Default)]
pub(super) struct TakenByServices {
    /// Where addresses are from.
    pub(super) network: ServiceNetwork,
    /// What happened up to this version is known.
    version: u64,
    addresses: HashSet<Ipv4Addr>,
    ports: HashSet<u16>,
    /// What was chosen for Services that are not written yet.
    reserved_addresses: HashSet<Ipv4Addr>,
    reserved_ports: HashSet<u16>,
}

/// The addresses and ports of one Service.
fn held_by(service: &Value) -> (impl Iterator<Item = Ipv4Addr>, impl Iterator<Item = u16>) {
    let spec = &service["spec"];
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let addresses = list("clusterIPs").chain([&spec["clusterIP"]]);
    let ports = list("ports").map(|port| &port["nodePort"]).chain([&spec["healthCheckNodePort"]]);
    (
        addresses.filter_map(|text| text.as_str()?.parse().ok()),
        ports.filter_map(|port| u16::try_from(port.as_u64()?).ok()),
    )
}

impl TakenByServices {
    /// Nothing is taken of a network yet.
    pub(super) fn of(network: ServiceNetwork) -> Self {
        Self { network, ..Self::default() }
    }

    /// Takes in what happened to Services since the last time.
    fn catch_up(&mut self, store: &Store) {
        let services = GroupResource::new("", "services");
        let Ok(events) = store.events_after(&services, self.version) else {
            // The history does not reach back that far.
            let all = store.list(&services, &Query::default(), |_, _| true);
            self.version = all.version;
            self.addresses.clear();
            self.ports.clear();
            all.records.iter().for_each(|record| self.add(&record.parse()));
            return;
        };
        for event in events {
            self.version = event.record.version;
            if let Some(before) = &event.before {
                self.remove(&before.parse());
            }
            if event.kind != EventKind::Deleted {
                self.add(&event.record.parse());
            }
        }
    }

    /// Keeps what a Service will have that is nobody's yet from being given away.
    fn reserve(&mut self, service: &Value) -> (Vec<Ipv4Addr>, Vec<u16>) {
        let (addresses, ports) = held_by(service);
        let addresses: Vec<_> = addresses.filter(|&address| !self.address(address)).collect();
        let ports: Vec<_> = ports.filter(|&port| !self.port(port)).collect();
        self.reserved_addresses.extend(&addresses);
        self.reserved_ports.extend(&ports);
        (addresses, ports)
    }

    fn add(&mut self, service: &Value) {
        let (addresses, ports) = held_by(service);
        self.addresses.extend(addresses);
        self.ports.extend(ports);
    }

    fn remove(&mut self, service: &Value) {
        let (addresses, ports) = held_by(service);
        for address in addresses {
            self.addresses.remove(&address);
        }
        for port in ports {
            self.ports.remove(&port);
        }
    }
}

impl Taken for TakenByServices {
    fn network(&self) -> ServiceNetwork {
        self.network
    }

    fn address(&self, address: Ipv4Addr) -> bool {
        self.addresses.contains(&address) || self.reserved_addresses.contains(&address)
    }

    fn port(&self, port: u16) -> bool {
        self.ports.contains(&port) || self.reserved_ports.contains(&port)
    }
}

impl Server {
    /// Writes what a request uses of the quotas of its namespace, once it is known to be valid. What it was charged
    /// before, by a quota or an attempt that was not the last, is not charged again; what it was charged in vain
    /// goes when the quota is counted anew.
    pub(crate) async fn charge(&self, review: &Review<'_>, charged: &mut Charged) -> Result<(), Status> {
        let quotas = GroupResource::new("", "resourcequotas");
        for _ in 0..CHARGE_ATTEMPTS {
            let charges = self.admission.charge(review, charged)?;
            let mut all = true;
            for charge in charges {
                let key = Key::new(charge.namespace.as_str(), charge.name.as_str());
                let Some(record) = self.store.get(&quotas, &key) else { continue };
                let mut quota = record.parse();
                quota["status"] = charge.status.clone();
                quota["metadata"]["resourceVersion"] = charge.resource_version.as_str().into();
                if self.replace(&quotas, &key, &quota).await?.is_some() {
                    charged.note(charge);
                } else {
                    all = false;
                }
            }
            if all {
                return Ok(());
            }
        }
        Err(Status::conflict("", "resourcequotas", "", "the quotas of the namespace change too often"))
    }

    /// Chooses addresses and ports for a Service that needs some. What it returns is kept until the write is done.
    pub(crate) fn allocate(
        &self,
        served: &Served,
        context: &WriteContext<'_>,
        old: Option<&Value>,
        new: &mut Value,
        dry_run: bool,
    ) -> Result<Option<Allocation>, Status> {
        let is_service = served.resource.group.is_empty() && served.resource.resource == "services";
        if !is_service || !context.subresource.is_empty() {
            return Ok(None);
        }
        let mut services = self.services.lock();
        services.catch_up(&self.store);
        kinds::allocate_service(context, old, new, &*services, dry_run)?;
        if dry_run {
            return Ok(None);
        }
        let (addresses, ports) = services.reserve(new);
        Ok(Some(Allocation { services: Arc::clone(&self.services), addresses, ports }))
    }

    /// Waits until a write is safe, and does what belongs to it.
    pub(crate) async fn finished(
        self: &Arc<Self>,
        record: &Arc<Record>,
        allocation: Option<Allocation>,
    ) -> Result<(), Status> {
        match allocation {
            Some(allocation) => allocation.written(self, record).await,
            None => self.settled(record.version).await,
        }
    }

    /// Replaces an object if it has not changed meanwhile; what is stored then.
    pub(crate) async fn replace(
        &self,
        of: &GroupResource,
        key: &Key,
        object: &Value,
    ) -> Result<Option<Arc<Record>>, Status> {
        let Some(served) = self.registry.stored(of) else { return Ok(None) };
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let Some(version) = version else { return Ok(None) };
        let draft = self.draft(&served, object.clone()).await?;
        match self.store.put(of, key, Expect::Version(version), draft) {
            Ok(record) => {
                self.settled(record.version).await?;
                Ok(Some(record))
            }
            Err(Refusal::Changed(_) | Refusal::Gone) => Ok(None),
            // Trying again would not help.
            Err(Refusal::Lost(error)) => Err(Status::internal(error.to_string())),
        }
    }
}
