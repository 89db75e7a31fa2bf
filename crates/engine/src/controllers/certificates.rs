//! Serving certificates of the tenant's kubelets: requests are looked at when they come, and again when something is
//! learnt of the machine that asks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use trellis_platform_kubevirt::seen::{Phase, Seen as _, VirtualMachineInstance};
use trellis_runtime::queue::Outcome;
use trellis_runtime::{Cache, Index, Key, Narrow as _, Resource, Selection};

use super::cached::Cached;
use super::tenant::Tenant;
use super::voices::Place;
use super::work::{COMING, Task};
use crate::Happening;
use crate::certificates::{Asked, Decision, Identity, SIGNER, decide};
use crate::families::machine_seen;

const REQUEST: Resource =
    Resource::cluster("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest");
/// Why we approved a request.
const APPROVED: &str = "MachineProven";
/// Why we denied a request.
const DENIED: &str = "MachineForged";
/// Why we did neither.
const LEFT: &str = "MachineNotProven";

/// A request for a certificate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    username: String,
    groups: Vec<String>,
    usages: Vec<String>,
    /// What is to be signed.
    signing: Vec<u8>,
    /// Somebody approved or denied it, or it is signed.
    decided: bool,
    /// All of it: an approval is written together with what was approved.
    object: Value,
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
        let list = |place: &Value| -> Vec<String> {
            let all = place.as_array().into_iter().flatten().filter_map(Value::as_str);
            all.map(str::to_owned).collect()
        };
        let spec = &object["spec"];
        let status = &object["status"];
        let conditions = status["conditions"].as_array().is_some_and(|all| !all.is_empty());
        Ok(Self {
            username: spec["username"].as_str().unwrap_or_default().to_owned(),
            groups: list(&spec["groups"]),
            usages: list(&spec["usages"]),
            signing: STANDARD.decode(spec["request"].as_str().unwrap_or_default()).unwrap_or_default(),
            decided: conditions || status["certificate"].is_string(),
            object,
        })
    }
}

impl Request {
    fn asked(&self) -> Asked<'_> {
        Asked { username: &self.username, groups: &self.groups, usages: &self.usages, request: &self.signing }
    }

    /// The request with what was decided about it.
    fn with(&self, kind: &str, reason: &str, message: &str, now: Timestamp) -> Value {
        let mut object = self.object.clone();
        let now = format!("{now:.0}");
        object["status"]["conditions"] = json!([{
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastUpdateTime": now, "lastTransitionTime": now,
        }]);
        object
    }
}

/// The requests of a tenant.
pub(crate) struct Certificates {
    pub(crate) requests: Cache<Cached<Request>>,
    /// Those that nobody has decided about, by the node that asks.
    open: Index<Cached<Request>, String>,
    /// Why each was left, so that it is told once.
    left: Mutex<BTreeMap<String, String>>,
}

impl Certificates {
    /// The requests of a tenant.
    pub(crate) fn new() -> Self {
        let selection = Selection::default().fields(&format!("spec.signerName={SIGNER}"));
        let requests: Cache<Cached<Request>> = Cache::new(REQUEST, selection);
        let open = requests.index(|request: &Cached<Request>| {
            let node = request.asked().node().filter(|_| !request.decided);
            node.map(str::to_owned).into_iter().collect()
        });
        Self { requests, open, left: Mutex::default() }
    }
}

/// Tells the tenant what became of a request.
fn tell(tenant: &Tenant, request: &Cached<Request>, warning: bool, reason: &'static str, message: String) {
    let happening = Happening { warning, reason, message };
    tenant.voices.tell(Place::Tenant, REQUEST, request.key().clone(), request.uid(), happening);
}

/// Names the request that a change is about.
pub(crate) fn request_changed(tenant: &Tenant, request: &Cached<Request>) {
    if !request.decided {
        tenant.queue.add(&Task::Certificate(request.key().name().to_owned()), COMING);
    }
}

/// Forgets a request that is gone.
pub(crate) fn request_gone(tenant: &Tenant, request: &Cached<Request>) {
    if let Some(certificates) = &tenant.certificates {
        certificates.left.lock().remove(&**request.uid());
    }
}

/// Something is known of a machine that was not before: its requests are looked at again.
pub(crate) fn machine_changed(tenant: &Tenant, machine: &str) {
    let Some(certificates) = &tenant.certificates else { return };
    for key in certificates.open.keys(machine) {
        tenant.queue.add(&Task::Certificate(key.name().to_owned()), COMING);
    }
}

/// Looks at a request.
pub(crate) async fn look(tenant: &Tenant, name: &str) -> Outcome {
    let (Some(certificates), Some(guests)) = (&tenant.certificates, &tenant.guests) else {
        return Outcome::Done;
    };
    let key = Key::cluster(name);
    let Some(request) = certificates.requests.get(&key).filter(|request| !request.decided) else {
        return Outcome::Done;
    };
    let now = tenant.clock.now();
    let decision = decide(&request.asked(), |node| identity(tenant, node));
    let (body, warning, reason, message) = match decision {
        Decision::Approve => {
            let message = "the machine on the infra side vouches for it".to_owned();
            (request.with("Approved", APPROVED, &message, now), false, APPROVED, message)
        }
        Decision::Deny(why) => (request.with("Denied", DENIED, &why, now), true, DENIED, why),
        Decision::Leave(why) => {
            let before = certificates.left.lock().insert(request.uid().to_string(), why.clone());
            if before.as_ref() != Some(&why) {
                tell(tenant, &request, true, LEFT, format!("not approved: {why}"));
            }
            return Outcome::Done;
        }
    };
    match guests.site.put(&REQUEST, &key, "approval", &body).await {
        Ok(written) => {
            certificates.requests.written(written);
            certificates.left.lock().remove(&**request.uid());
            tell(tenant, &request, warning, reason, message);
            Outcome::Done
        }
        Err(error) => {
            tracing::debug!(request = name, %error, "a request for a certificate cannot be decided");
            Outcome::Retry
        }
    }
}

/// What the infra side knows of the machine behind a node, or why nothing vouches for it.
fn identity(tenant: &Tenant, node: &str) -> Result<Identity, String> {
    let control = &tenant.control;
    let machine = control.machines.get(&Key::new(&control.namespace, node));
    let machine = machine.ok_or("no machine of ours has its name")?;
    let seen = machine_seen(control.family, &machine);
    if seen.deleting.is_some() {
        return Err("its machine is being removed".to_owned());
    }
    let place = Key::new(&tenant.infra.namespace, node);
    let vm = tenant.infra.machines.cache.get(&place).ok_or("its machine has no VM")?;
    let recorded = seen.record.vm_uid.as_deref() == Some(&*vm.meta.uid);
    let made_for = vm.machine_uid.as_deref() == Some(seen.uid.as_str());
    if !recorded && !made_for {
        return Err("the VM of its name is another machine's".to_owned());
    }
    let run = tenant.infra.instances.cache.get(&place);
    let run = run.filter(|run| run.phase == Phase::Running);
    let run = run.filter(|run| run.owner.as_ref().is_some_and(|owner| owner.uid == vm.meta.uid));
    let run = run.ok_or("its VM does not run")?;
    let guest = tenant.guests.as_ref().and_then(|guests| guests.node(node));
    let guest = guest.ok_or("its Node is not registered yet")?;
    let firmware = run.firmware_uuid.as_ref().or(vm.firmware_uuid.as_ref()).map(|uuid| uuid.to_lowercase());
    if firmware.as_deref() != Some(guest.seen.system_uuid.as_str()) {
        return Err("its Node is not the machine of its name: the system UUID is another".to_owned());
    }
    let mut identity = Identity { names: BTreeSet::from([node.to_owned()]), ..Identity::default() };
    identity.addresses.extend(addresses(&run));
    identity.addresses.extend(run.hidden.iter().copied());
    for other in tenant.infra.instances.cache.all() {
        if other.meta().name != run.meta().name {
            identity.other_names.insert(other.meta().name.to_string());
            identity.other_addresses.extend(addresses(&other));
        }
    }
    Ok(identity)
}

/// The addresses of the interfaces a machine was made with. What only the guest says it has proves nothing.
fn addresses(run: &VirtualMachineInstance) -> impl Iterator<Item = IpAddr> {
    let made = run.interfaces.iter().filter(|interface| !interface.name.is_empty());
    made.flat_map(|interface| &interface.addresses).filter_map(|address| address.parse().ok())
}
