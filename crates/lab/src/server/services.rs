//! Addresses and ports of Services, and other writes that need a look at their neighbours.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::{Server, Stored};
use crate::admission::Review;

use crate::kinds::allocation::Taken;
use crate::kinds::{self, WriteContext};
use crate::names::GroupResource;
use crate::reader::Reader as _;
use crate::registry::Served;
use crate::status::Status;
use crate::store::{Expect, Key};

/// How often a charge is computed anew when a quota changes meanwhile.
const CHARGE_ATTEMPTS: usize = 32;

/// Held until what was allocated is written.
pub(crate) type Allocation = OwnedMutexGuard<()>;

/// The addresses and ports Services have.
struct TakenByServices {
    addresses: HashSet<Ipv4Addr>,
    ports: HashSet<u16>,
}

impl TakenByServices {
    fn read(services: &[Arc<Value>]) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut taken = Self { addresses: HashSet::new(), ports: HashSet::new() };
        for service in services {
            let spec = &service["spec"];
            let mut addresses = list(&spec["clusterIPs"]);
            addresses.push(spec["clusterIP"].clone());
            taken
                .addresses
                .extend(addresses.iter().filter_map(|text| text.as_str()?.parse::<Ipv4Addr>().ok()));
            let mut ports: Vec<Value> =
                list(&spec["ports"]).iter().map(|port| port["nodePort"].clone()).collect();
            ports.push(spec["healthCheckNodePort"].clone());
            taken.ports.extend(ports.iter().filter_map(|port| u16::try_from(port.as_u64()?).ok()));
        }
        taken
    }
}

impl Taken for TakenByServices {
    fn address(&self, address: Ipv4Addr) -> bool {
        self.addresses.contains(&address)
    }

    fn port(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }
}

impl Server {
    /// Writes what a request uses of the quotas of its namespace, once it is known to be valid.
    pub(crate) async fn charge(&self, review: &Review<'_>) -> Result<(), Status> {
        let quotas = GroupResource::new("", "resourcequotas");
        for _ in 0..CHARGE_ATTEMPTS {
            let charges = self.admission.charge(review)?;
            let mut all = true;
            for charge in charges {
                let key = Key::new(charge.namespace.as_str(), charge.name.as_str());
                let Some(record) = self.store.get(&quotas, &key) else { continue };
                let mut quota = record.parse();
                quota["status"] = charge.status;
                quota["metadata"]["resourceVersion"] = charge.resource_version.into();
                all &= self.replace(&quotas, &key, &quota).await?;
            }
            if all {
                return Ok(());
            }
        }
        Err(Status::conflict("", "resourcequotas", "", "the quotas of the namespace change too often"))
    }

    /// Chooses addresses and ports for a Service that needs some. What it returns is held until the write is done.
    pub(crate) async fn allocate(
        &self,
        served: &Served,
        context: &WriteContext<'_>,
        old: Option<&Value>,
        new: &mut Value,
        dry_run: bool,
    ) -> Result<Option<Allocation>, Status> {
        if !(served.resource.group.is_empty() && served.resource.resource == "services") {
            return Ok(None);
        }
        let held = Arc::clone(&self.allocation).lock_owned().await;
        let services = Stored(Arc::clone(&self.store)).list(&GroupResource::new("", "services"), None);
        let taken = TakenByServices::read(&services);
        kinds::allocate_service(context, old, new, &taken, dry_run)?;
        Ok(Some(held))
    }

    /// Replaces an object if it has not changed meanwhile; says whether it was done.
    pub(crate) async fn replace(
        &self,
        of: &GroupResource,
        key: &Key,
        object: &Value,
    ) -> Result<bool, Status> {
        let Some(served) = self.registry.stored(of) else { return Ok(false) };
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let Some(version) = version else { return Ok(false) };
        let draft = self.draft(&served, object.clone()).await?;
        match self.store.put(of, key, Expect::Version(version), draft) {
            Ok(record) => {
                self.settled(record.version).await?;
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }
}
