//! The sweep: finds what is left of machines that are gone, and removes what is proven.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use trellis_platform_kubevirt::seen::{DataVolume, Seen, Stored, StoredService, VirtualMachine};
use trellis_runtime::client::{self, Delete, Propagation};
use trellis_runtime::queue::Outcome;
use trellis_runtime::{Key, Narrow as _, Resource};

use super::guests::NODE;
use super::infra;
use super::tenant::Tenant;
use super::voices::Place;
use super::work::{GOING, Task};
use crate::Happening;
use crate::families::Object;
use crate::leftovers::{self, Kind, Known, Thing};
use crate::machines::{NodeReady, NodeSeen, SiteHealth};

/// What becomes of what is left of machines that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leftovers {
    /// Nobody looks.
    Ignore,
    /// Events tell what would be removed; nothing is.
    Report,
    /// What is proven is removed; Events tell the rest.
    #[default]
    Remove,
}

/// How long something must have looked left over.
pub(crate) const GRACE: Duration = Duration::from_mins(15);
/// It was removed.
const REMOVED: &str = "LeftoverRemoved";
/// It would be removed.
const FOUND: &str = "LeftoverFound";
/// It stays because nothing proves it.
const UNPROVEN: &str = "LeftoverUnproven";

/// What is remembered between looks; it can be lost, and the time begins anew.
#[derive(Default)]
pub(crate) struct Sweep {
    since: Mutex<BTreeMap<String, Timestamp>>,
    told: Mutex<BTreeMap<String, &'static str>>,
}

/// Tells of a thing, once for each reason.
fn tell(tenant: &Tenant, thing: &Thing, reason: &'static str, message: String) {
    if tenant.sweep.told.lock().insert(thing.uid.clone(), reason) == Some(reason) {
        return;
    }
    let (resource, key) = position(tenant, thing);
    let place = if thing.kind == Kind::Node { Place::Tenant } else { Place::Infra };
    let happening = Happening { warning: true, reason, message };
    tenant.voices.tell(place, resource, key, &thing.uid.as_str().into(), happening);
}

/// Where a thing is.
fn position(tenant: &Tenant, thing: &Thing) -> (Resource, Key) {
    let watched = match thing.kind {
        Kind::Node => return (NODE, Key::cluster(&thing.name)),
        Kind::Vm => VirtualMachine::WATCHED,
        Kind::Volume => DataVolume::WATCHED,
        Kind::Secret => Stored::WATCHED,
        Kind::Service => StoredService::WATCHED,
    };
    (infra::resource(&watched), Key::new(&tenant.infra.namespace, &thing.name))
}

/// Something of a machine that may not exist has changed.
pub(crate) fn part_changed(tenant: &Tenant, machine: Option<&str>) {
    let Some(machine) = machine else { return };
    if tenant.control.machines.get(&Key::new(&tenant.control.namespace, machine)).is_none() {
        name(tenant);
    }
}

/// What is left is looked at, now or as soon as somebody has time.
pub(crate) fn name(tenant: &Tenant) {
    if tenant.settings.leftovers != Leftovers::Ignore {
        tenant.queue.add(&Task::Leftovers, GOING);
    }
}

/// Looks at what is left.
pub(crate) async fn look(tenant: &Tenant) -> Outcome {
    let now = tenant.clock.now();
    let grace = SignedDuration::try_from(tenant.settings.leftover_grace).unwrap_or(SignedDuration::MAX);
    let since = std::mem::take(&mut *tenant.sweep.since.lock());
    let plan = leftovers::plan(things(tenant), &known(tenant), &since, grace, now);
    tenant.sweep.told.lock().retain(|uid, _| plan.since.contains_key(uid));
    tenant.sweep.since.lock().clone_from(&plan.since);
    for (thing, why) in &plan.tell {
        tell(tenant, thing, UNPROVEN, format!("it looks left over and stays: {why}"));
    }
    let mut retry = false;
    for thing in &plan.remove {
        let machine = &thing.machine;
        if tenant.settings.leftovers == Leftovers::Report {
            let message =
                format!("it is left over from machine {machine}, which is gone, and would be removed");
            tell(tenant, thing, FOUND, message);
            continue;
        }
        match remove(tenant, thing).await {
            Ok(true) => {
                let message = format!("it was left over from machine {machine}, which is gone");
                tell(tenant, thing, REMOVED, message);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(kind = ?thing.kind, name = thing.name, %error, "what is left cannot be removed");
                retry = true;
            }
        }
    }
    match (retry, plan.wake) {
        (true, _) => Outcome::Retry,
        (false, Some(at)) => Outcome::At(at),
        (false, None) => Outcome::Done,
    }
}

/// Everything that says that it belongs to a machine of this cluster.
fn things(tenant: &Tenant) -> Vec<Thing> {
    fn of<T: Seen>(
        all: &mut Vec<Thing>,
        tenant: &Tenant,
        kind: Kind,
        objects: &infra::Kind<T>,
        made_for: impl Fn(&T) -> Option<&str>,
    ) {
        for object in objects.cache.all() {
            let meta = object.meta();
            let of_cluster = meta.cluster.as_deref() == Some(tenant.infra.cluster.as_str());
            // A cluster of that name in another namespace may have its machines here, too: they are not ours to miss.
            let said = meta.machine_namespace.as_deref();
            let ours = of_cluster && said.is_none_or(|namespace| namespace == tenant.control.namespace);
            // Images belong to no machine.
            let Some(machine) = meta.machine.as_deref().filter(|_| ours) else { continue };
            all.push(Thing {
                kind,
                name: meta.name.to_string(),
                uid: meta.uid.to_string(),
                version: object.resource_version(),
                machine: machine.to_owned(),
                // A uid alone says nothing about where its Machine is to be looked for.
                made_for: made_for(&object).filter(|_| said.is_some()).map(str::to_owned),
                going: meta.deleting.is_some(),
            });
        }
    }
    let mut all = Vec::new();
    let parts = &tenant.infra;
    of(&mut all, tenant, Kind::Vm, &parts.machines, |vm| vm.machine_uid.as_deref());
    of(&mut all, tenant, Kind::Volume, &parts.volumes, |volume| volume.machine_uid.as_deref());
    of(&mut all, tenant, Kind::Secret, &parts.secrets, |secret| secret.machine_uid.as_deref());
    of(&mut all, tenant, Kind::Service, &parts.services, |service| service.machine_uid.as_deref());
    for node in tenant.guests.iter().flat_map(|guests| guests.nodes.all()) {
        let seen = &node.seen;
        let Some(machine) = machine_of_node(tenant, seen) else { continue };
        all.push(Thing {
            kind: Kind::Node,
            name: seen.name.clone(),
            uid: seen.uid.clone(),
            version: node.resource_version(),
            machine,
            made_for: seen.vm_uid.clone(),
            going: seen.deleting.is_some(),
        });
    }
    all
}

/// The Machine a Node says it is, if that would be one of ours.
fn machine_of_node(tenant: &Tenant, node: &NodeSeen) -> Option<String> {
    let (namespace, name) = node.meta.annotations.get(tenant.control.family.node_machine)?.split_once('/')?;
    (namespace == tenant.control.namespace).then(|| name.to_owned())
}

fn known(tenant: &Tenant) -> Known {
    let control = &tenant.control;
    let uid = |object: &Arc<Object>| (object.metadata.name().to_owned(), object.metadata.uid.to_string());
    let machines: BTreeMap<String, String> = control.machines.cache.all().iter().map(uid).collect();
    let others = control.sets.iter().chain(&control.pools).any(|things| !things.cache.is_empty());
    let vms = tenant.infra.machines.cache.all();
    let nodes = tenant.guests.iter().flat_map(|guests| guests.nodes.all());
    let ready: Vec<_> = nodes.filter(|node| matches!(node.seen.ready, NodeReady::Yes(_))).collect();
    Known {
        inhabited: others || !machines.is_empty(),
        machines,
        vms: vms.iter().map(|vm| (vm.meta.name.to_string(), vm.meta.uid.to_string())).collect(),
        ready: ready.iter().map(|node| node.seen.name.clone()).collect(),
        ready_vms: ready.iter().filter_map(|node| node.seen.vm_uid.clone()).collect(),
        ready_machines: ready.iter().filter_map(|node| machine_of_node(tenant, &node.seen)).collect(),
        doubt: doubt(tenant),
        calm_since: tenant.calm_since(),
    }
}

/// Why nothing can be concluded from what is not seen.
fn doubt(tenant: &Tenant) -> Option<&'static str> {
    let sites = tenant.sites();
    let down = |health: SiteHealth| matches!(health, SiteHealth::Down(_));
    if down(sites.control) || down(sites.tenant) || down(sites.infra) {
        return Some("a site cannot be reached");
    }
    tenant.not_ready().is_err().then_some("not everything is known yet")
}

/// Removes a thing, after the server was asked once more; whether it did.
async fn remove(tenant: &Tenant, thing: &Thing) -> client::Result<bool> {
    let control = &tenant.control;
    let key = Key::new(&control.namespace, &thing.machine);
    let machine: Option<Object> = control.site.find(&control.machines.resource, &key).await?;
    let belongs = |machine: &Object| {
        thing.kind == Kind::Node || Some(&*machine.metadata.uid) == thing.made_for.as_deref()
    };
    if machine.as_ref().is_some_and(belongs) {
        return Ok(false);
    }
    let (resource, key) = position(tenant, thing);
    let site = match (&tenant.guests, thing.kind) {
        (Some(guests), Kind::Node) => &guests.site,
        _ => &tenant.infra.site,
    };
    let propagation = if thing.kind == Kind::Vm { Propagation::Foreground } else { Propagation::Background };
    let how = Delete { resource_version: Some(thing.version), propagation, ..Delete::uid(&thing.uid) };
    site.delete(&resource, &key, &how).await?;
    Ok(true)
}
