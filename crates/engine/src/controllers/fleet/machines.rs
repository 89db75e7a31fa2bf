//! The reconciler of machines.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trellis_runtime::client::{Request, Verb};
use trellis_runtime::{Resource, Site};

use super::{Progress, Reconciler, Served};
use crate::controllers::tenant::{Settings, Spec, Tenant};
use crate::families::TRELLIS;

const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
/// How long to wait before a server that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a tenant may take to learn everything before that is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at until then.
const LOOK: Duration = Duration::from_millis(500);

/// Keeps the machines of a record as its machine objects ask.
#[derive(Debug, Clone, Default)]
pub struct Machines {
    settings: Settings,
}

impl Machines {
    /// Keeps machines by these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }
}

impl Reconciler for Machines {
    fn run(&self, served: Served, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let settings = self.settings.clone();
        async move {
            let progress = served.progress.clone();
            progress.send_replace(Progress::Beginning);
            let sees_hosts = tokio::select! {
                sees = may_see_hosts(&served.infra) => sees,
                () = stop.cancelled() => return,
            };
            let family = served.asked.family;
            let Served { asked, control, tenant, infra, metrics, clock, .. } = served;
            let spec = Spec {
                cluster: asked.cluster,
                family: asked.family,
                control,
                control_namespace: asked.namespace,
                tenant,
                infra,
                sees_hosts,
            };
            let tenant = Tenant::new(spec, settings, clock);
            tenant.measure(&metrics);
            // Who grows it has to be known before the first machine is looked at.
            let kept = async {
                if *family == TRELLIS {
                    tokio::join!(biased; tenant.grow(&stop), tenant.run(&stop));
                } else {
                    tenant.run(&stop).await;
                }
            };
            tokio::select! {
                () = kept => {}
                () = tell(&tenant, &progress) => {}
            }
        }
        .boxed()
    }
}

/// Says how far a tenant is until it can do its work, and then no more.
async fn tell(tenant: &Tenant, progress: &watch::Sender<Progress>) {
    let begun = tokio::time::Instant::now();
    while let Err(why) = tenant.not_ready() {
        if begun.elapsed() >= PATIENCE {
            let now = Progress::NotSynced(why);
            progress.send_if_modified(|last| std::mem::replace(last, now.clone()) != now);
        }
        tokio::time::sleep(LOOK).await;
    }
    progress.send_replace(Progress::Working);
    std::future::pending::<()>().await;
}

/// Whether the user of the infra site may look at its hosts; without, what is known of hosts is unknown.
async fn may_see_hosts(infra: &Site) -> bool {
    loop {
        match infra.may(&Request::new(Verb::List, &NODES, ""), "").await {
            Ok(may) => return may,
            Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN).await,
            Err(_) => return false,
        }
    }
}
