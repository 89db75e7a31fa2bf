//! The loop of the scheduler: what changes comes in, decisions go out.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::cluster::{Cluster, NodeFacts};
use super::feeds::{Feeds, Known, News};
use super::filter::{Before, Cause};
use super::pick::{Misfits, Nominated, pick};
use super::pod::Pod;
use super::preempt::{Budget, Preemption, preempt};
use super::queue::Queue;
use super::selector::Selector;
use super::volumes::{self, Needs, SELECTED_NODE};
use super::write::Writer;
use crate::client::{Cache, Change, Identity};
use crate::context::Context;
use crate::controller::unharmed;
use crate::kinds::{NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET, PV, PVC, STORAGE_CLASS};
use crate::object::{Key, Object as _};
use crate::stages::Profile;

/// The name of the scheduler pods ask for.
const NAME: &str = "default-scheduler";
/// What is said of something that could not be written for a bug.
const PANIC: &str = "the scheduler failed over this pod";
/// How many pods are being told about at the same time.
const TOGETHER: usize = 64;
/// How long volumes may take to be bound.
const BIND_TIMEOUT: Duration = Duration::from_mins(10);

/// Schedules pods until the task is dropped.
pub(crate) async fn run(context: Context) {
    let client = context.client(Identity::SCHEDULER);
    let known = Known {
        pods: client.cache(&POD),
        nodes: client.cache(&NODE),
        namespaces: client.cache(&NAMESPACE),
        claims: client.cache(&PVC),
        volumes: client.cache(&PV),
        classes: client.cache(&STORAGE_CLASS),
        budgets: client.cache(&POD_DISRUPTION_BUDGET),
    };
    future::join_all(known.all().into_iter().map(Cache::complete)).await;
    let mut feeds = Feeds {
        nodes: known.nodes.changes(),
        namespaces: known.namespaces.changes(),
        pods: known.pods.changes(),
        claims: known.claims.changes(),
        volumes: known.volumes.changes(),
        classes: known.classes.changes(),
    };
    let mut scheduler = Scheduler::new(&context, known);
    loop {
        while let Some(news) = feeds.now() {
            scheduler.careful(&news.about(), |scheduler| scheduler.learn(&news));
        }
        scheduler.queue.tick(Instant::now());
        if scheduler.doing.len() < TOGETHER
            && let Some(key) = scheduler.queue.take()
        {
            if !scheduler.careful(&key, |scheduler| scheduler.schedule(&key)) {
                scheduler.queue.failed(&key, Cause::all());
                scheduler.queue.wake(Cause::Nodes);
            }
            continue;
        }
        let due = scheduler.due();
        tokio::select! {
            biased;
            Some(done) = scheduler.doing.next() => {
                scheduler.careful(&"what was written", |scheduler| scheduler.finish(done));
            }
            news = feeds.next() => match news {
                Some(news) => {
                    scheduler.careful(&news.about(), |scheduler| scheduler.learn(&news));
                }
                None => return,
            },
            () = wait_until(due) => {
                scheduler.careful(&"what is late", Scheduler::expire);
            }
        }
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => future::pending().await,
    }
}

/// Something that was being written, and is.
enum Done {
    /// A pod was bound, or not: then why.
    Bound(Key, String, Result<(), String>),
    /// It was said where volumes are wanted.
    Chosen(Key, Result<(), String>),
    /// Something was said.
    Said,
}

/// A pod whose node is chosen and whose volumes are not there yet.
struct Reserved {
    pod: Arc<Value>,
    node: String,
    claims: Vec<Key>,
    told: bool,
    until: Instant,
}

struct Scheduler {
    context: Context,
    known: Known,
    writer: Writer,
    cluster: Cluster,
    queue: Queue,
    nominated: Nominated,
    /// Pods that are placed but not seen so: the node by uid.
    assumed: HashMap<String, String>,
    reserved: BTreeMap<Key, Reserved>,
    doing: FuturesUnordered<BoxFuture<'static, Done>>,
    start: usize,
    attempts: u64,
}

impl Scheduler {
    fn new(context: &Context, known: Known) -> Self {
        let (first, longest) = match context.stages.profile() {
            Profile::Instant => (Duration::from_millis(20), Duration::from_secs(1)),
            Profile::Realistic => (Duration::from_secs(1), Duration::from_secs(10)),
        };
        Self {
            context: context.clone(),
            known,
            writer: Writer::new(context),
            cluster: Cluster::default(),
            queue: Queue::new(first, longest),
            nominated: Nominated::new(),
            assumed: HashMap::new(),
            reserved: BTreeMap::new(),
            doing: FuturesUnordered::new(),
            start: 0,
            attempts: 0,
        }
    }

    /// Does something about one object. A bug in that must not end the scheduler: then it is false, and what is known
    /// of the cluster, of which half may have been changed, is read anew.
    fn careful(&mut self, about: &dyn std::fmt::Display, act: impl FnOnce(&mut Self)) -> bool {
        if unharmed(NAME, about, || act(self)).is_some() {
            return true;
        }
        let mut cluster = Cluster::default();
        for node in self.known.nodes.list("") {
            unharmed(NAME, &Key::of(&node), || cluster.put_node(NodeFacts::read(&node)));
        }
        for namespace in self.known.namespaces.list("") {
            cluster.put_namespace(&namespace);
        }
        for pod in self.known.pods.list("").iter().filter(|pod| !pod.is_over()) {
            let node = Some(pod.text("/spec/nodeName")).filter(|node| !node.is_empty());
            if let Some(node) = node.or_else(|| self.assumed.get(pod.uid()).map(String::as_str)) {
                unharmed(NAME, &Key::of(pod), || cluster.put_pod(node, Pod::read(pod)));
            }
        }
        self.cluster = cluster;
        false
    }

    /// Does something that takes a while, and comes to `otherwise` where it ends in a panic.
    fn begin(&mut self, work: impl Future<Output = Done> + Send + 'static, otherwise: Done) {
        let work = AssertUnwindSafe(work).catch_unwind();
        self.doing.push(Box::pin(async move { work.await.unwrap_or(otherwise) }));
    }

    fn learn(&mut self, news: &News) {
        match news {
            News::Node(change) => match &change.after {
                Some(node) => {
                    if self.cluster.put_node(NodeFacts::read(node)) {
                        self.queue.wake(Cause::Nodes);
                    }
                }
                None => self.cluster.remove_node(change.object().name()),
            },
            News::Namespace(change) => match &change.after {
                Some(namespace) => self.cluster.put_namespace(namespace),
                None => self.cluster.remove_namespace(change.object().name()),
            },
            News::Pod(change) => self.learn_pod(change),
            News::Claim(change) => {
                self.queue.wake(Cause::Volumes);
                self.learn_claim(&change.key());
            }
            News::Storage => self.queue.wake(Cause::Volumes),
        }
    }

    fn learn_pod(&mut self, change: &Change) {
        let key = change.key();
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && before.uid() != after.uid()
        {
            self.forget(&key, before.uid());
        }
        let Some(pod) = &change.after else {
            self.forget(&key, change.object().uid());
            return;
        };
        let over = pod.is_over();
        let node = pod.text("/spec/nodeName");
        if over {
            self.forget(&key, pod.uid());
        } else if !node.is_empty() {
            let known = self.cluster.place_of(pod.uid()).is_some();
            self.assumed.remove(pod.uid());
            self.queue.remove(&key);
            self.withdraw(pod.uid());
            self.cluster.put_pod(node, Pod::read(pod));
            if !known {
                self.queue.wake(Cause::Neighbours);
            }
        } else {
            self.learn_waiting(&key, pod, change.before.as_deref());
        }
    }

    /// A pod without a node.
    fn learn_waiting(&mut self, key: &Key, pod: &Arc<Value>, before: Option<&Value>) {
        if pod.is_deleting() {
            self.forget(key, pod.uid());
            return;
        }
        let ours = pod.text("/spec/schedulerName") == NAME && pod.list("/spec/schedulingGates").is_empty();
        if !ours || self.assumed.contains_key(pod.uid()) {
            return;
        }
        let same = before.is_some_and(|before| {
            before["spec"] == pod["spec"] && before.at("/metadata/labels") == pod.at("/metadata/labels")
        });
        if !(same && self.queue.contains(key)) {
            self.queue.add(key, pod.number("/spec/priority").unwrap_or_default());
        }
        let nominated = pod.text("/status/nominatedNodeName");
        if !nominated.is_empty() && !self.is_nominated(pod.uid()) {
            self.nominated.entry(nominated.to_owned()).or_default().push(Pod::read(pod));
        }
    }

    fn is_nominated(&self, uid: &str) -> bool {
        self.nominated.values().flatten().any(|pod| pod.uid == uid)
    }

    /// Forgets what a pod was promised.
    fn withdraw(&mut self, uid: &str) {
        if self.is_nominated(uid) {
            self.nominated.retain(|_, pods| {
                pods.retain(|pod| pod.uid != uid);
                !pods.is_empty()
            });
        }
    }

    /// Forgets a pod that is gone, over, or goes before it was placed.
    fn forget(&mut self, key: &Key, uid: &str) {
        self.queue.remove(key);
        self.withdraw(uid);
        self.assumed.remove(uid);
        if self.reserved.get(key).is_some_and(|reserved| reserved.pod.uid() == uid) {
            self.reserved.remove(key);
        }
        if self.cluster.remove_pod(uid).is_some() {
            self.queue.wake(Cause::Pods);
        }
    }

    /// Looks for a node for a pod.
    fn schedule(&mut self, key: &Key) {
        let Some(object) = self.known.pods.get(key) else {
            self.queue.remove(key);
            return;
        };
        let pod = Pod::read(&object);
        let needs = match Needs::of(&pod, &self.known, &self.cluster) {
            Ok(needs) => needs,
            Err(everywhere) => {
                let misfits = Misfits { total: self.cluster.names().len(), everywhere, ..Misfits::default() };
                self.refuse(&object, &pod, &Needs::default(), &misfits);
                return;
            }
        };
        let before = Before::of(&pod, &self.cluster, needs);
        let chance = self.context.stages.chance("scheduler.pick", &pod.uid, 0);
        match pick(&pod, &self.cluster, &before, &self.nominated, &mut self.start, chance) {
            Ok(node) => {
                let needs = before.volumes().clone();
                drop(before);
                self.place(&object, pod, node, needs);
            }
            Err(misfits) => {
                let needs = before.volumes().clone();
                drop(before);
                self.refuse(&object, &pod, &needs, &misfits);
            }
        }
    }

    /// Places a pod: first what it needs, then the pod itself.
    fn place(&mut self, object: &Arc<Value>, pod: Arc<Pod>, node: String, needs: Needs) {
        self.assumed.insert(pod.uid.clone(), node.clone());
        let labels = self.cluster.node(&node).map(|node| node.facts.labels.clone()).unwrap_or_default();
        let key = pod.key.clone();
        self.cluster.put_pod(&node, pod);
        self.queue.wake(Cause::Neighbours);
        if needs.waiting.is_empty() {
            self.bind(object, node);
            return;
        }
        let (writer, claims, place) = (self.writer.clone(), needs.waiting.clone(), node.clone());
        let existing = needs.volumes_on(&node, &labels);
        let chosen = key.clone();
        let otherwise = Done::Chosen(key.clone(), Err(PANIC.to_owned()));
        let work = async move {
            let told = writer.choose_volumes(&place, &claims, &existing).await;
            Done::Chosen(chosen, told.map_err(|failure| failure.to_string()))
        };
        self.begin(work, otherwise);
        let until = Instant::now() + BIND_TIMEOUT;
        let reserved = Reserved { pod: Arc::clone(object), node, claims: needs.waiting, told: false, until };
        self.reserved.insert(key, reserved);
    }

    fn bind(&mut self, object: &Arc<Value>, node: String) {
        let (writer, pod, key) = (self.writer.clone(), Arc::clone(object), Key::of(object));
        self.attempts += 1;
        let attempt = self.attempts;
        let otherwise = Done::Bound(key.clone(), pod.uid().to_owned(), Err(PANIC.to_owned()));
        let work = async move {
            let bound = writer.bind(&pod, &node, attempt).await;
            Done::Bound(key, pod.uid().to_owned(), bound)
        };
        self.begin(work, otherwise);
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Said | Done::Bound(_, _, Ok(())) => {}
            Done::Bound(key, uid, Err(why)) => self.undo(&key, &uid, &why),
            Done::Chosen(key, Err(why)) => {
                if let Some(reserved) = self.reserved.remove(&key) {
                    self.undo(&key, reserved.pod.uid(), &why);
                }
            }
            Done::Chosen(key, Ok(())) => {
                if let Some(reserved) = self.reserved.get_mut(&key) {
                    reserved.told = true;
                }
                self.look_at_reserved(&key);
            }
        }
    }

    /// Takes back a decision that could not be carried out.
    fn undo(&mut self, key: &Key, uid: &str, why: &str) {
        if self.assumed.remove(uid).is_none() {
            return;
        }
        self.cluster.remove_pod(uid);
        self.queue.wake(Cause::Pods);
        let Some(pod) = self.known.pods.get(key).filter(|pod| pod.uid() == uid) else {
            self.queue.remove(key);
            return;
        };
        self.queue.failed(key, Cause::all());
        self.queue.wake(Cause::Nodes);
        let (writer, message) = (self.writer.clone(), why.to_owned());
        let work = async move {
            writer.refuse(&pod, "SchedulerError", &message, None).await;
            Done::Said
        };
        self.begin(work, Done::Said);
    }

    /// A claim has changed: pods may have been waiting for it.
    fn learn_claim(&mut self, claim: &Key) {
        let waiting: Vec<Key> = self
            .reserved
            .iter()
            .filter(|(_, reserved)| reserved.claims.contains(claim))
            .map(|(key, _)| key.clone())
            .collect();
        for key in waiting {
            self.look_at_reserved(&key);
        }
    }

    /// Goes on with a pod once its volumes are bound, or takes it back once that will not happen.
    fn look_at_reserved(&mut self, key: &Key) {
        let Some(reserved) = self.reserved.get(key).filter(|reserved| reserved.told) else { return };
        let claims: Vec<Option<Arc<Value>>> =
            reserved.claims.iter().map(|claim| self.known.claims.get(claim)).collect();
        let late = Instant::now() >= reserved.until;
        if claims.iter().all(|claim| claim.as_ref().is_some_and(|claim| volumes::is_bound(claim))) {
            if let Some(reserved) = self.reserved.remove(key) {
                self.bind(&reserved.pod, reserved.node);
            }
            return;
        }
        // Whoever makes volumes takes the choice back where it cannot make one there.
        let refused = claims.iter().any(|claim| {
            claim.as_ref().is_none_or(|claim| {
                !volumes::is_bound(claim)
                    && claim.annotation(SELECTED_NODE) != reserved.node
                    && claim.text("/spec/volumeName").is_empty()
                    && !self.has_volume(claim)
            })
        });
        if late || refused {
            let why = if late { "context deadline exceeded" } else { "provisioning failed for PVC" };
            let message = format!("running PreBind plugin \"VolumeBinding\": binding volumes: {why}");
            if let Some(reserved) = self.reserved.remove(key) {
                self.undo(key, reserved.pod.uid(), &message);
            }
        }
    }

    /// Whether a volume was bound to a claim by hand.
    fn has_volume(&self, claim: &Value) -> bool {
        !self.known.volumes.find("claim", &Key::of(claim).to_string()).is_empty()
    }

    fn due(&self) -> Option<Instant> {
        let reserved = self.reserved.values().map(|reserved| reserved.until).min();
        [self.queue.due(), reserved].into_iter().flatten().min()
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let late: Vec<Key> =
            self.reserved.iter().filter(|(_, one)| one.until <= now).map(|(key, _)| key.clone()).collect();
        for key in late {
            if let Some(reserved) = self.reserved.get_mut(&key) {
                reserved.told = true;
            }
            self.look_at_reserved(&key);
        }
    }

    /// Says why a pod fits nowhere, and makes room for it if it matters more than others.
    fn refuse(&mut self, object: &Arc<Value>, pod: &Arc<Pod>, needs: &Needs, misfits: &Misfits) {
        self.queue.failed(&pod.key, misfits.causes());
        let outcome = self.try_preemption(object, pod, needs, misfits);
        let (afterwards, victims) = match outcome {
            Preemption::Nothing(why) => (format!("no new claims to deallocate, preemption: {why}"), None),
            Preemption::Victims(node, victims) => {
                let count = victims.len();
                self.withdraw(&pod.uid);
                self.nominated.entry(node.clone()).or_default().push(Arc::clone(pod));
                let found =
                    format!("found a potential placement for pod on node {node}, preempting {count} victims");
                (format!("preemption: {found}"), Some((node, victims)))
            }
        };
        let afterwards = if misfits.total == 0 { String::new() } else { afterwards };
        let message = misfits.message(&afterwards);
        let (writer, object) = (self.writer.clone(), Arc::clone(object));
        let work = async move {
            let nominated = victims.as_ref().map(|(node, _)| node.as_str());
            writer.refuse(&object, "Unschedulable", &message, nominated).await;
            // Only now, so that the promise is known before the place is free.
            if let Some((node, victims)) = &victims {
                writer.evict(victims, &object, node).await;
            }
            Done::Said
        };
        self.begin(work, Done::Said);
    }

    fn try_preemption(&mut self, object: &Value, pod: &Pod, needs: &Needs, misfits: &Misfits) -> Preemption {
        if object.text("/spec/preemptionPolicy") == "Never" {
            return Preemption::Nothing("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        let promised = self.nominated.iter().find(|(_, pods)| pods.iter().any(|other| other.uid == pod.uid));
        if let Some((node, _)) = promised
            && let Some(node) = self.cluster.node(node)
            && node.pods.values().any(|other| other.is_deleting && other.priority < pod.priority)
        {
            let why = "not eligible due to a terminating pod on the nominated node.";
            return Preemption::Nothing(why.to_owned());
        }
        let budgets = self.known.budgets.list("");
        let budgets: Vec<Budget> = budgets
            .iter()
            .map(|budget| Budget {
                namespace: budget.namespace().to_owned(),
                selector: Selector::read(budget.at("/spec/selector")),
                allowed: budget.number("/status/disruptionsAllowed").unwrap_or_default(),
            })
            .collect();
        preempt(pod, &mut self.cluster, needs, &self.nominated, misfits, &budgets)
    }
}
