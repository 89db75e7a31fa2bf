//! The infra site of a tenant: what is watched there, what is seen of a machine, and what is done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use trellis_platform::{Action, Failure, Observation, Platform, Receipt, Wish};
use trellis_platform_kubevirt as kubevirt;
use trellis_platform_kubevirt::seen::{
    DataVolume, Host, LauncherPod, Migration, Scope, Seen, Stored, StoredService, VirtualMachine,
    VirtualMachineInstance, Watched,
};
use trellis_platform_kubevirt::{ApiError, Call, Context, MachineObjects, Propagation, Verb};
use trellis_runtime::client::{self, Delete};
use trellis_runtime::{Cache, Index, Key, Resource, Selection, Site};

use super::cached::Cached;
use super::cluster::SHARED;
use super::work::Watches;
use crate::families::Object;

/// Objects of one kind on the infra site, found by name and by the machine they belong to.
pub(crate) struct Kind<T: Seen> {
    pub(crate) cache: Cache<Cached<T>>,
    by_machine: Index<Cached<T>, Box<str>>,
}

impl<T: Seen> Kind<T> {
    fn new(namespace: &str, scope: Scope<'_>) -> Self {
        let watched = T::WATCHED;
        let namespace = if watched.cluster_wide { "" } else { namespace };
        let selection = Selection::namespace(namespace);
        let selection = match watched.selector(scope) {
            Some(labels) => selection.labels(&labels),
            None => selection,
        };
        let cache = Cache::new(resource(&watched), selection);
        let by_machine =
            cache.index(|object: &Cached<T>| object.machine().map(Box::from).into_iter().collect());
        Self { cache, by_machine }
    }

    fn of_machine(&self, machine: &str) -> Vec<Arc<Cached<T>>> {
        self.by_machine.get(machine)
    }
}

/// A kind, as requests name it.
pub(crate) fn resource(watched: &Watched) -> Resource {
    Resource {
        group: watched.group,
        version: watched.version,
        plural: watched.plural,
        kind: watched.kind,
        namespaced: !watched.cluster_wide,
    }
}

/// The infra site of one tenant on KubeVirt.
pub(crate) struct Infra {
    pub(crate) site: Site,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    pub(crate) machines: Kind<VirtualMachine>,
    pub(crate) instances: Kind<VirtualMachineInstance>,
    pub(crate) volumes: Kind<DataVolume>,
    pub(crate) migrations: Kind<Migration>,
    pub(crate) pods: Kind<LauncherPod>,
    pub(crate) secrets: Kind<Stored>,
    pub(crate) services: Kind<StoredService>,
    /// Hosts, where we may look at them.
    pub(crate) hosts: Option<Kind<Host>>,
    /// Hosts that runs name and that the server did not have when it was asked for them.
    gone_hosts: Mutex<BTreeSet<String>>,
    /// What all machines share.
    pub(crate) shared: Vec<Shared>,
}

/// What all machines share, of one kind. A cluster that has none of it need not know the kind, so that it is watched
/// from the first time that something of it is applied.
pub(crate) struct Shared {
    pub(crate) cache: Cache<Object>,
    begun: AtomicBool,
}

impl Shared {
    fn new(resource: Resource, namespace: &str, cluster: &str) -> Self {
        let labels = format!("{}={cluster}", kubevirt::CLUSTER_LABEL);
        let selection = Selection::namespace(namespace).labels(&labels);
        Self { cache: Cache::new(resource, selection), begun: AtomicBool::new(false) }
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.cache.resource().kind
    }

    /// Keeps what is known of it true from now on.
    pub(crate) fn watch(&self, watches: &Watches, site: &Site) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            watches.watch(&self.cache, site);
        }
    }
}

impl Infra {
    /// The infra site of a cluster. `sees_hosts` says whether its user may look at Nodes.
    pub(crate) fn new(
        site: Site,
        namespace: &str,
        cluster: &str,
        scope: Scope<'_>,
        sees_hosts: bool,
    ) -> Self {
        Self {
            site,
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            machines: Kind::new(namespace, scope),
            instances: Kind::new(namespace, scope),
            volumes: Kind::new(namespace, scope),
            migrations: Kind::new(namespace, scope),
            pods: Kind::new(namespace, scope),
            secrets: Kind::new(namespace, scope),
            services: Kind::new(namespace, scope),
            hosts: sees_hosts.then(|| Kind::new("", scope)),
            gone_hosts: Mutex::default(),
            shared: SHARED.map(|kind| Shared::new(kind, namespace, cluster)).into(),
        }
    }

    fn gather(&self, machine: &str, golden: Option<&str>) -> Gathered {
        let key = Key::new(&self.namespace, machine);
        let instance = self.instances.cache.get(&key);
        let names = || instance.iter().map(inner).flat_map(VirtualMachineInstance::hosts);
        // Who is not told of hosts any more is like one who may not look.
        let hosts = self.hosts.as_ref().filter(|hosts| hosts.cache.health().borrow().is_up());
        let hosts =
            hosts.map(|hosts| names().filter_map(|name| hosts.cache.get(&Key::new("", name))).collect());
        let gone = self.gone_hosts.lock();
        let gone_hosts = names().filter(|name| gone.contains(*name)).map(str::to_owned).collect();
        drop(gone);
        Gathered {
            gone_hosts,
            secret: self.secrets.of_machine(machine).into_iter().next(),
            service: self.services.of_machine(machine).into_iter().next(),
            vm: self.machines.cache.get(&key),
            instance,
            volumes: self.volumes.of_machine(machine),
            migrations: self.migrations.of_machine(machine),
            pods: self.pods.of_machine(machine),
            hosts,
            golden: golden.and_then(|name| self.volumes.cache.get(&Key::new(&self.namespace, name))),
        }
    }

    /// Asks the server for the hosts of a machine's run that are not known here: whoever is to be ended because its host
    /// is gone is not ended because a watch has told of the run first.
    pub(crate) async fn prove_hosts(&self, machine: &str) {
        let Some(hosts) = &self.hosts else { return };
        let Some(instance) = self.instances.cache.get(&Key::new(&self.namespace, machine)) else { return };
        for name in inner(&instance).hosts() {
            let is_known = hosts.cache.get(&Key::new("", name)).is_some();
            if is_known || self.gone_hosts.lock().contains(name) {
                continue;
            }
            let selection = Selection::default().fields(&format!("metadata.name={name}"));
            let found = self.site.list::<Value>(&resource(&Host::WATCHED), &selection).await;
            // Without an answer nothing is proven.
            if found.is_ok_and(|found| found.is_empty()) {
                self.gone_hosts.lock().insert(name.to_owned());
            }
        }
    }

    /// A host is there: what was said of one of its name before does not count.
    pub(crate) fn host_is_there(&self, name: &str) {
        self.gone_hosts.lock().remove(name);
    }

    /// Lets go of a VM that goes back to whoever made its machine.
    pub(crate) async fn hand_back(&self, machine: &str) -> Result<(), Failure> {
        let call = {
            let gathered = self.gather(machine, None);
            let objects = gathered.objects();
            let context = Context { namespace: &self.namespace, cluster: &self.cluster, seen: &objects };
            kubevirt::hand_back(&context)
        };
        self.send(call.into_iter().collect()).await.map(drop)
    }

    /// Sends requests, in order, and takes in what they answer.
    pub(crate) async fn send(&self, calls: Vec<Call>) -> Result<Receipt, Failure> {
        let mut receipt = Receipt::default();
        for call in calls {
            match self.call(&call).await {
                Ok(uid) => receipt.uid = uid,
                Err(error) => {
                    let error = told(&error);
                    if !kubevirt::is_done(&call, &error) {
                        return Err(kubevirt::failure(&call, &error));
                    }
                }
            }
        }
        Ok(receipt)
    }

    async fn call(&self, call: &Call) -> client::Result<Option<String>> {
        let resource = Resource {
            group: call.group,
            version: call.version,
            plural: call.plural,
            kind: kind_of(call.plural),
            namespaced: true,
        };
        let key = Key::new(&call.namespace, &call.name);
        let body = call.body.clone().unwrap_or_default();
        let answer: Value = match call.verb {
            Verb::Apply => self.site.apply(&resource, &key, &body, true).await?,
            Verb::Create => self.site.create(&resource, &call.namespace, &body).await?,
            Verb::JsonPatch => self.site.json_patch(&resource, &key, &body).await?,
            Verb::MergePatch => self.site.merge_patch(&resource, &key, &body).await?,
            Verb::Delete => return self.delete(&resource, &key, call).await,
        };
        let uid = answer["metadata"]["uid"].as_str().map(str::to_owned);
        self.take_in(call.plural, &answer);
        Ok(uid)
    }

    async fn delete(&self, resource: &Resource, key: &Key, call: &Call) -> client::Result<Option<String>> {
        let Some(uid) = &call.precondition_uid else { return Ok(None) };
        let propagation = match call.propagation {
            Some(Propagation::Foreground) => client::Propagation::Foreground,
            Some(Propagation::Background) | None => client::Propagation::Background,
        };
        let how = Delete { propagation, grace: call.grace_seconds, ..Delete::uid(uid) };
        match self.site.delete(resource, key, &how).await? {
            client::Deleted::Gone | client::Deleted::Replaced => self.forget(call.plural, key, uid),
            client::Deleted::Going(left) => self.take_in(call.plural, &left),
        }
        Ok(None)
    }

    /// Tells the caches what was written, so that the next plan sees it.
    fn take_in(&self, plural: &str, object: &Value) {
        fn into<T: Seen>(kind: &Kind<T>, object: &Value) {
            // What cannot be read is told by the watch, too, and counted there.
            if let Ok(text) = serde_json::value::to_raw_value(object)
                && let Ok(object) = serde_json::from_str(text.get())
            {
                kind.cache.written(object);
            }
        }
        match plural {
            "virtualmachines" => into(&self.machines, object),
            "virtualmachineinstances" => into(&self.instances, object),
            "datavolumes" => into(&self.volumes, object),
            "virtualmachineinstancemigrations" => into(&self.migrations, object),
            "secrets" => into(&self.secrets, object),
            "services" => into(&self.services, object),
            _ => {}
        }
    }

    fn forget(&self, plural: &str, key: &Key, uid: &str) {
        match plural {
            "virtualmachines" => self.machines.cache.removed(key, uid),
            "virtualmachineinstances" => self.instances.cache.removed(key, uid),
            "datavolumes" => self.volumes.cache.removed(key, uid),
            "virtualmachineinstancemigrations" => self.migrations.cache.removed(key, uid),
            "secrets" => self.secrets.cache.removed(key, uid),
            "services" => self.services.cache.removed(key, uid),
            _ => {}
        }
    }
}

/// The kind of a plural that we write.
fn kind_of(plural: &str) -> &'static str {
    match plural {
        "virtualmachines" => "VirtualMachine",
        "virtualmachineinstances" => "VirtualMachineInstance",
        "datavolumes" => "DataVolume",
        "virtualmachineinstancemigrations" => "VirtualMachineInstanceMigration",
        "secrets" => "Secret",
        "services" => "Service",
        _ => "",
    }
}

/// An error in the words the platform's rules look at.
fn told(error: &client::Error) -> ApiError {
    let message = error.to_string();
    let code = match error {
        client::Error::NotFound(_) => 404,
        client::Error::AlreadyExists(_) | client::Error::Conflict(_) => 409,
        client::Error::Expired(_) => 410,
        client::Error::Forbidden(_) | client::Error::Quota(_) => 403,
        client::Error::Unauthorized => 401,
        // KubeVirt refuses a second move so, and that is no fault of the request.
        client::Error::Invalid(_) if message.contains("in-flight migration") => 400,
        client::Error::Invalid(_) => 422,
        client::Error::TooManyRequests { .. } => 429,
        client::Error::Unavailable(_) | client::Error::ServerFailed(_) => 503,
        client::Error::Timeout | client::Error::Malformed(_) => 0,
        client::Error::Other { code, .. } => *code,
    };
    ApiError { code, reason: error.label().to_owned(), message }
}

/// What was gathered of one machine, held while it is looked at.
struct Gathered {
    secret: Option<Arc<Cached<Stored>>>,
    service: Option<Arc<Cached<StoredService>>>,
    vm: Option<Arc<Cached<VirtualMachine>>>,
    instance: Option<Arc<Cached<VirtualMachineInstance>>>,
    volumes: Vec<Arc<Cached<DataVolume>>>,
    migrations: Vec<Arc<Cached<Migration>>>,
    pods: Vec<Arc<Cached<LauncherPod>>>,
    hosts: Option<Vec<Arc<Cached<Host>>>>,
    gone_hosts: Vec<String>,
    golden: Option<Arc<Cached<DataVolume>>>,
}

fn inner<T>(object: &Arc<Cached<T>>) -> &T {
    object
}

impl Gathered {
    fn objects(&self) -> MachineObjects<'_> {
        MachineObjects {
            secret: self.secret.as_ref().map(inner),
            service: self.service.as_ref().map(inner),
            vm: self.vm.as_ref().map(inner),
            instance: self.instance.as_ref().map(inner),
            volumes: self.volumes.iter().map(inner).collect(),
            migrations: self.migrations.iter().map(inner).collect(),
            pods: self.pods.iter().map(inner).collect(),
            hosts: self.hosts.as_ref().map(|hosts| hosts.iter().map(inner).collect()),
            gone_hosts: self.gone_hosts.iter().map(String::as_str).collect(),
            golden: self.golden.as_ref().map(inner),
        }
    }
}

/// The machine an action is about, where it names one.
fn subject(action: &Action) -> &str {
    match action {
        Action::StoreUserData(wish) | Action::Create(wish) | Action::Update(wish) => &wish.identity.name,
        Action::Migrate { machine, .. }
        | Action::StopInstance { machine, .. }
        | Action::Delete { machine, .. }
        | Action::EraseUserData { machine } => machine,
        Action::CancelMigration { .. } | Action::DeleteVolume { .. } => "",
    }
}

impl Platform for Infra {
    fn observe(&self, machine: &str, wish: Option<&Wish>) -> Observation {
        let golden = wish.and_then(|wish| kubevirt::golden_name(&wish.cluster, &wish.pool));
        let gathered = self.gather(machine, golden.as_deref());
        kubevirt::observe(&gathered.objects(), wish)
    }

    fn act(&self, action: Action) -> BoxFuture<'_, Result<Receipt, Failure>> {
        let calls = {
            let machine = subject(&action);
            let mut gathered = self.gather(machine, None);
            if let Action::CancelMigration { migration } = &action {
                let key = Key::new(&self.namespace, migration);
                gathered.migrations = self.migrations.cache.get(&key).into_iter().collect();
            }
            let objects = gathered.objects();
            let context = Context { namespace: &self.namespace, cluster: &self.cluster, seen: &objects };
            kubevirt::calls(&action, &context)
        };
        async move { self.send(calls?).await }.boxed()
    }
}
