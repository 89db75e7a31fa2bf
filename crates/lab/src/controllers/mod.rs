//! What keeps objects in order behind the API: the parts of the real control plane no client can do without.
//!
//! A controller turns changes of the store into things to look at, looks at each as it is then, and writes
//! through the same pipeline as any client, under the name the real controller has. What fails is looked at
//! again later. Each runs in a task of its own, so that one that waits for a webhook holds up no other; one
//! task reads the changes and hands on those a controller is interested in.

mod accounts;
pub(crate) mod addresses;
mod agent;
mod availability;
mod budgets;
mod certificates;
mod compaction;
mod definitions;
mod expiry;
mod flows;
mod garbage;
mod namespaces;
mod networks;
mod policies;
mod protection;
mod queue;
mod quotas;
mod registration;
mod roles;
mod system;
mod tokens;

pub(crate) use registration::of_builtin_groups as builtin_api_services;

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, Store};

use agent::Agent;
use queue::Queue;

/// Which controllers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Those of the lab.
    Embedded,
    /// Only what the real API server does by itself; a kube-controller-manager does the rest.
    Outside,
}

/// Says whether a controller wants to know of a change. It is asked about every change of the store.
type Interest = Box<dyn FnMut(&Change) -> bool + Send>;

/// What comes after a thing was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing, until something changes.
    Done,
    /// Another look after a while, whatever happens.
    After(Duration),
}

/// Keeps some kind of objects in order.
trait Controller: Send + 'static {
    /// Something to look at.
    type Item: Clone + Eq + Hash + Debug + Send + Sync;

    /// The longest wait after a failure.
    const LONGEST_WAIT: Duration = Duration::from_secs(1000);

    /// Which changes it is interested in.
    fn interest(&self) -> Interest;

    /// Queues everything there is, since nobody knows what happened before.
    fn begin(&mut self, queue: &mut Queue<Self::Item>);

    /// Queues what a change is about.
    fn observe(&mut self, change: &Change, queue: &mut Queue<Self::Item>);

    /// Looks at one thing as it is now, and does what has to be done.
    fn work(
        &mut self,
        item: &Self::Item,
        queue: &mut Queue<Self::Item>,
    ) -> impl Future<Output = Result<Next, Status>> + Send;
}

/// Hands a controller its changes and things to do, until there will be no more changes.
async fn drive<C: Controller>(mut controller: C, mut changes: mpsc::UnboundedReceiver<Arc<Change>>) {
    let mut queue = Queue::new(C::LONGEST_WAIT);
    controller.begin(&mut queue);
    loop {
        // What is known already may save work: many changes are often about the same thing.
        while let Ok(change) = changes.try_recv() {
            controller.observe(&change, &mut queue);
        }
        if let Some(item) = queue.pop() {
            // A bug in one step must not end the others.
            let step = AssertUnwindSafe(controller.work(&item, &mut queue)).catch_unwind().await;
            match step {
                Ok(Ok(next)) => {
                    queue.forget(&item);
                    if let Next::After(wait) = next {
                        queue.add_after(item, wait);
                    }
                }
                Ok(Err(status)) => {
                    tracing::debug!(?item, error = status.message, "to be tried again");
                    queue.retry(item);
                }
                Err(_) => {
                    tracing::error!(?item, "a controller's step ended in a panic");
                    queue.retry(item);
                }
            }
            // Nothing in a store in memory ever waits, and others want to run too.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            biased;
            change = changes.recv() => match change {
                Some(change) => controller.observe(&change, &mut queue),
                None => return,
            },
            () = queue.due() => {}
        }
    }
}

/// The running controllers, and who wants to know what.
struct Desk {
    tasks: JoinSet<()>,
    readers: Vec<(Interest, mpsc::UnboundedSender<Arc<Change>>)>,
}

impl Desk {
    fn start<C: Controller>(&mut self, controller: C) {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.readers.push((controller.interest(), sender));
        self.tasks.spawn(drive(controller, receiver));
    }

    /// Starts what a controller manager does for the real server.
    fn start_manager(&mut self, server: &Weak<Server>, store: &Arc<Store>) {
        let agent = |name: &str| Agent::controller(server, name);
        self.start(garbage::Collector::new(agent("generic-garbage-collector")));
        self.start(namespaces::Namespaces::new(agent("namespace-controller"), store));
        let (accounts, publisher) = (agent("service-account-controller"), agent("root-ca-cert-publisher"));
        self.start(accounts::Accounts::new(accounts, publisher));
        self.start(tokens::Tokens::new(agent("tokens-controller")));
        self.start(roles::Roles::new(agent("clusterrole-aggregation-controller")));
        self.start(certificates::Certificates::new(agent("certificate-controller")));
        self.start(quotas::Quotas::new(agent("resourcequota-controller"), store));
        self.start(budgets::Budgets::new(agent("disruption-controller"), store));
        let (claims, volumes) = (agent("pvc-protection-controller"), agent("pv-protection-controller"));
        self.start(protection::Protection::new(claims, volumes, store));
    }

    /// Hands a change to everybody who is interested.
    fn hand_out(&mut self, change: &Arc<Change>) {
        for (interest, reader) in &mut self.readers {
            // A reader that is gone has ended with the server.
            if interest(change) && reader.send(Arc::clone(change)).is_err() {
                tracing::debug!("a controller is gone");
            }
        }
    }
}

/// Runs the controllers until the server is gone. Boxed, so that they are not compiled anew wherever a lab is started.
pub(crate) fn run(server: Weak<Server>, which: Controllers) -> BoxFuture<'static, ()> {
    Box::pin(run_all(server, which))
}

async fn run_all(server: Weak<Server>, which: Controllers) {
    let Some(strong) = server.upgrade() else { return };
    let mut changes = strong.store().tap();
    let mut desk = Desk { tasks: JoinSet::new(), readers: Vec::new() };
    let itself = || Agent::server_itself(&server);
    desk.start(definitions::Definitions::new(itself()));
    desk.start(system::System::new(itself()));
    let cidrs = Agent::controller(&server, "service-cidrs-controller");
    let cidrs = (which == Controllers::Embedded).then_some(cidrs);
    desk.start(networks::Networks::new(itself(), cidrs));
    desk.start(registration::Registration::new(itself()));
    desk.start(availability::Availability::new(itself(), &server));
    desk.start(expiry::Expiry::new(itself()));
    desk.start(compaction::Compaction::new(itself()));
    desk.start(policies::Policies::new(itself()));
    desk.start(flows::Flows::new(itself()));
    desk.start(addresses::Addresses::new(itself()));
    if which == Controllers::Embedded {
        desk.start_manager(&server, strong.store());
    }
    drop(strong);
    while let Some(change) = changes.recv().await {
        desk.hand_out(&change);
    }
}
