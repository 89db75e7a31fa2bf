//! The controllers, in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use trellis_bootstrap::site::{Program, Sources};
use trellis_engine::controllers::fleet::{Clusters, Fleet, Lifetime, Machines, Overrides, Parts};
use trellis_engine::controllers::{GivenPlugin, Growing, Settings};
use trellis_runtime::lease::{Shards, Terms};
use trellis_runtime::{CancellationToken, Clock, Metrics, Selection, Site};

/// How long what is under way may take to end.
const LAST: Duration = Duration::from_secs(5);

/// The controllers that run.
pub(super) struct Controllers {
    /// They end by themselves when they are told to.
    acting: JoinSet<()>,
    /// Only listens.
    _listening: JoinSet<()>,
}

impl Controllers {
    /// Waits until they have ended.
    pub(super) async fn end(mut self) {
        let ended = async { while self.acting.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST, ended).await.is_err() {
            tracing::warn!("the controllers take too long to end; what they were at goes on next time");
        }
    }
}

/// Runs the controllers of all TenantClusters until `stop` says so.
pub(super) fn start(site: &Site, stop: &CancellationToken) -> Controllers {
    let clock = Clock::of_machine();
    let shards = Shards::new(site, "default", "trellis-up", "up", clock, Terms::default());
    // Guests of the lab know their programs; where they would come from is never asked.
    let program = Program { url: "https://lab.trellis.dev/trellis".to_owned(), sha256: "0".repeat(64) };
    let growing = Growing {
        sources: Sources { trellis: Some(program), ..Sources::default() },
        plugin: GivenPlugin::StandIn,
    };
    let fleet = Fleet::new(Parts {
        control: site.clone(),
        shards: shards.clone(),
        reconcilers: vec![Arc::new(Lifetime::of(Machines::new(Settings { growing, ..Settings::default() })))],
        metrics: Metrics::default(),
        clock,
    });
    let (mut acting, mut listening) = (JoinSet::new(), JoinSet::new());
    let (told, control) = (fleet.clone(), site.clone());
    let clusters = Clusters::new(Selection::default(), Overrides::default());
    listening.spawn(async move { clusters.run(&control, told.records()).await });
    let (stop, left) = (stop.clone(), CancellationToken::new());
    let ended = left.clone();
    acting.spawn(async move {
        fleet.run(&stop).await;
        ended.cancel();
    });
    acting.spawn(async move { shards.run(&left).await });
    Controllers { acting, _listening: listening }
}
