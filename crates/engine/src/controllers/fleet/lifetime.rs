//! The life of a record from its first machine to its last trace.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trellis_runtime::client::Error;

use super::record::About;
use super::{CLUSTERS, Reconciler, Served};
use crate::Condition;
use crate::controllers::teardown::{Control, Teardown, TeardownError, Told, cluster_finalizer};
use crate::families::{Object, TRELLIS, cluster_condition};
use crate::install::teardown::Scope;

/// What keeps a TenantCluster until nothing is left of what was made for it.
pub const CLUSTER_FINALIZER: &str = "trellis.dev/teardown";
/// The condition of a TenantCluster that goes, which says how far that is.
const REMOVED: &str = "Removed";
/// How long to wait after a failure at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Runs another reconciler as long as its TenantCluster is wished for. Before it may make anything, the TenantCluster is
/// kept by a finalizer; when the TenantCluster is deleted, everything that was made for it goes first.
///
/// Only clusters with our own machine objects are kept so: others have owners of their own.
pub struct Lifetime {
    inner: Arc<dyn Reconciler>,
}

impl Lifetime {
    /// The life of what another reconciler makes.
    pub fn of(inner: impl Reconciler) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Reconciler for Lifetime {
    fn run(&self, served: Served, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let inner = Arc::clone(&self.inner);
        async move {
            let kept = served.about.clone().filter(|_| *served.asked.family == TRELLIS);
            let Some(about) = kept else { return inner.run(served, stop).await };
            if about.deleting {
                tokio::select! {
                    () = end(&served, &about) => {}
                    () = stop.cancelled() => {}
                }
                return;
            }
            tokio::select! {
                () = keep(&served, &about, true) => {}
                () = stop.cancelled() => return,
            }
            inner.run(served, stop).await;
        }
        .boxed()
    }
}

/// Puts the finalizer on, or takes it off, however often that has to be tried.
async fn keep(served: &Served, about: &About, wished: bool) {
    let mut wait = AGAIN.0;
    while let Err(error) = try_keep(served, about, wished).await {
        if !matches!(error, Error::Conflict(_)) {
            tracing::warn!(tenant = served.name, %error, "the finalizer of the TenantCluster cannot be written");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN.1);
        }
    }
}

async fn try_keep(served: &Served, about: &About, wished: bool) -> Result<(), Error> {
    let Some(cluster) = served.control.find::<Object>(&CLUSTERS, &about.key).await? else { return Ok(()) };
    if cluster.metadata.uid != about.uid || (wished && cluster.metadata.deleting.is_some()) {
        return Ok(());
    }
    let Some(patch) = cluster_finalizer(&cluster, CLUSTER_FINALIZER, wished) else { return Ok(()) };
    match served.control.merge_patch::<Value>(&CLUSTERS, &about.key, &patch).await {
        Ok(_) | Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes everything of a record away, and lets its object go.
async fn end(served: &Served, about: &About) {
    let apart = served.asked.control != served.asked.infra
        || served.asked.namespace != served.asked.cluster.infra_namespace();
    let teardown = Teardown {
        scope: Scope::Cluster(served.asked.cluster.name.to_string()),
        infra: served.infra.clone(),
        namespace: served.asked.cluster.infra_namespace().to_owned(),
        control: Some(Control {
            site: served.control.clone(),
            namespace: served.asked.namespace.clone(),
            apart,
        }),
    };
    let said = watch::Sender::new(("Removing", "what is left is looked for".to_owned()));
    let work = async {
        let mut wait = AGAIN.0;
        while let Err(error) = take_away(&teardown, &said).await {
            tracing::warn!(tenant = served.name, %error, "the cluster cannot be taken away");
            said.send_replace(("Stuck", error.to_string()));
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN.1);
        }
    };
    tokio::select! {
        () = work => {}
        () = tell(served, about, said.subscribe()) => {}
    }
    tracing::info!(tenant = served.name, "nothing is left of it");
    keep(served, about, false).await;
    // The watch tells of the end, and the record with it.
    std::future::pending::<()>().await;
}

async fn take_away(
    teardown: &Teardown,
    said: &watch::Sender<(&'static str, String)>,
) -> Result<(), TeardownError> {
    let inventory = teardown.inventory().await?;
    if let Some((kind, message)) = inventory.unseen.into_iter().next() {
        let source = Error::Forbidden(message);
        return Err(TeardownError::Unseen { resource: kind.resource(), source });
    }
    let tell = |told: Told| {
        said.send_replace(match told {
            Told::Progress(plan) => ("Removing", plan.message()),
            Told::Trouble(message) => ("Stuck", message),
        });
    };
    teardown.run(None, tell).await
}

/// Says on the object how far it is. Never ends.
async fn tell(served: &Served, about: &About, mut said: watch::Receiver<(&'static str, String)>) {
    loop {
        let (reason, message) = said.borrow_and_update().clone();
        let condition = Condition { kind: REMOVED, holds: Some(false), reason, message };
        if let Err(error) = say(served, about, &condition).await {
            tracing::debug!(tenant = served.name, %error, "how far it is cannot be said");
        }
        if said.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn say(served: &Served, about: &About, condition: &Condition) -> Result<(), Error> {
    let Some(object) = served.control.find::<Object>(&CLUSTERS, &about.key).await? else { return Ok(()) };
    if let Some(patch) = cluster_condition(&object, condition, served.clock.now()) {
        served.control.merge_patch_status::<Value>(&CLUSTERS, &about.key, &patch).await?;
    }
    Ok(())
}
