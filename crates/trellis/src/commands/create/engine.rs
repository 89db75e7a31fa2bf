//! The engine in this process: the same controllers as those of `trellis controller`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;
use trellis_bootstrap::site::{Program, Sources};
use trellis_engine::controllers::fleet::{Access, Clusters, Fleet, Lifetime, Machines, Overrides, Parts};
use trellis_engine::controllers::{GivenPlugin, Growing, Settings};
use trellis_runtime::lease::{Shards, Terms};
use trellis_runtime::{CancellationToken, Clock, Metrics, Selection, Site};

/// What only a lab serves.
const LAB: &str = "lab.trellis.dev";
/// How long those who only listen may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// What machines of a new cluster need to know.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What machines are given")]
pub(crate) struct GrowingFlags {
    /// Where the machines that hand out configurations download Trellis. Not needed on a lab.
    #[arg(long, value_name = "URL", requires = "trellis_sha256")]
    trellis_url: Option<String>,
    /// The SHA-256 of that program, in hexadecimal digits.
    #[arg(long, value_name = "HEX", requires = "trellis_url", value_parser = checksum)]
    trellis_sha256: Option<String>,
}

fn checksum(text: &str) -> Result<String, String> {
    let digits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits { Ok(text.to_ascii_lowercase()) } else { Err("a SHA-256 has 64 hexadecimal digits".to_owned()) }
}

impl GrowingFlags {
    /// How clusters are grown on an infra cluster. Guests of a lab know their programs, and need a network plugin in name
    /// only.
    pub(crate) async fn growing(&self, infra: &Site) -> Growing {
        let given = self.trellis_url.clone().zip(self.trellis_sha256.clone());
        let program = given.map(|(url, sha256)| Program { url, sha256 });
        // Who does not say what it serves is no lab.
        let is_lab = infra.groups().await.is_ok_and(|groups| groups.iter().any(|group| group == LAB));
        if !is_lab {
            return Growing {
                sources: Sources { trellis: program, ..Sources::default() },
                ..Growing::default()
            };
        }
        let own = Program { url: format!("https://{LAB}/trellis"), sha256: "0".repeat(64) };
        Growing {
            sources: Sources { trellis: Some(program.unwrap_or(own)), ..Sources::default() },
            plugin: GivenPlugin::StandIn,
        }
    }
}

/// What the engine is to do.
pub(crate) struct Work<'a> {
    /// Where the machine objects are.
    pub(crate) control: &'a Site,
    /// The namespace they are in, and the Leases.
    pub(crate) namespace: &'a str,
    /// The one cluster that is looked after.
    pub(crate) cluster: &'a str,
    /// What the replicas that share it have in common.
    pub(crate) group: String,
    /// Who this is among them.
    pub(crate) identity: String,
    /// How the VMs are reached; as the cluster says, when left out.
    pub(crate) infra: Option<Access>,
    /// How clusters are grown.
    pub(crate) growing: Growing,
}

/// The engine, running.
pub(crate) struct Engine {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Engine {
    /// Starts it.
    pub(crate) fn start(work: Work<'_>) -> Self {
        let clock = Clock::of_machine();
        let Work { control, namespace, cluster, group, identity, infra, growing } = work;
        let shards = Shards::new(control, namespace, &group, &identity, clock, Terms::default());
        let settings = Settings { growing, ..Settings::default() };
        let fleet = Fleet::new(Parts {
            control: control.clone(),
            shards: shards.clone(),
            reconcilers: vec![Arc::new(Lifetime::of(Machines::new(settings)))],
            metrics: Metrics::default(),
            clock,
        });
        let mut tasks = JoinSet::new();
        let selection = Selection::namespace(namespace).fields(&format!("metadata.name={cluster}"));
        let overrides = Overrides { infra, group: Some(group), ..Overrides::default() };
        let clusters = Clusters::new(selection, overrides);
        let (told, site) = (fleet.clone(), control.clone());
        tasks.spawn(async move { clusters.run(&site, told.records()).await });
        let (stop, left) = (CancellationToken::new(), CancellationToken::new());
        let (token, ended) = (stop.clone(), left.clone());
        tasks.spawn(async move {
            fleet.run(&token).await;
            ended.cancel();
        });
        tasks.spawn(async move { shards.run(&left).await });
        Self { tasks, stop }
    }

    /// Ends it, and waits until nothing of it acts any more.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        // Those that only listen never end by themselves.
        let _ = tokio::time::timeout(ENDING, async {
            while self.tasks.len() > 1 && self.tasks.join_next().await.is_some() {}
        })
        .await;
        self.tasks.shutdown().await;
    }
}
