//! The infra cluster on the lab's API server.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trellis_infra::guests::Programs;
use trellis_infra::kinds::{NODE, STORAGE_CLASS};
use trellis_infra::object::Object as _;
use trellis_infra::service::install::SERVICES;
use trellis_infra::stages::Profile;
use trellis_infra::{Infra as Emulation, Settings};
use trellis_lab::Lab;

use crate::exit::Failure;

/// What the infra cluster is made of.
#[derive(Debug, Args)]
#[command(next_help_heading = "The infra cluster")]
pub(super) struct Infra {
    /// Only the API server, without an infra cluster.
    #[arg(long, conflicts_with_all = ["hosts", "zones", "profile", "settings"])]
    api_only: bool,
    /// How many hosts there are. [default: 3]
    #[arg(long, value_name = "N")]
    hosts: Option<usize>,
    /// How many zones the hosts are spread over. [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    zones: Option<u16>,
    /// The processors of each host, such as 32. [default: 32]
    #[arg(long, value_name = "AMOUNT")]
    host_cpu: Option<String>,
    /// The memory of each host, such as 128Gi. [default: 128Gi]
    #[arg(long, value_name = "AMOUNT")]
    host_memory: Option<String>,
    /// How time passes: everything at once, or about as on a real cluster. [default: instant]
    #[arg(long, value_enum)]
    profile: Option<Pace>,
    /// What all chance comes from: uids, generated names, delays. [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// A YAML file with more settings; flags win over it.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pace {
    /// Nothing takes any time.
    Instant,
    /// Everything takes about as long as on a real cluster.
    Realistic,
}

impl Infra {
    /// The seed, if one was given.
    pub(super) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// What the cluster is to be made of; nothing where there is to be none.
    pub(super) fn settings(&self) -> Result<Option<Settings>, Failure> {
        if self.api_only {
            return Ok(None);
        }
        let mut settings = match &self.settings {
            Some(path) => {
                let unreadable = |why: String| Failure::Read { name: path.display().to_string(), why };
                let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
                serde_saphyr::from_str(&text).map_err(|error| unreadable(error.to_string()))?
            }
            None => Settings { sockets: true, ..Settings::default() },
        };
        if let Some(hosts) = self.hosts {
            settings.hosts = hosts;
        }
        if let Some(zones) = self.zones {
            settings.zones = usize::from(zones);
        }
        for (flag, name, place) in [
            (&self.host_cpu, "--host-cpu", &mut settings.capacity.cpu),
            (&self.host_memory, "--host-memory", &mut settings.capacity.memory),
        ] {
            let Some(amount) = flag else { continue };
            if trellis_infra::quantity::milli(amount).is_none_or(|amount| amount <= 0) {
                return Err(Failure::Usage(format!(
                    "{name}: {amount:?} is no amount; write it like 32 or 128Gi"
                )));
            }
            amount.clone_into(place);
        }
        match self.profile {
            Some(Pace::Instant) => settings.profile = Profile::Instant,
            Some(Pace::Realistic) => settings.profile = Profile::Realistic,
            None => {}
        }
        if let Some(seed) = self.seed {
            settings.seed = seed;
        }
        Ok(Some(settings))
    }
}

/// A running infra cluster on a lab of this process.
#[derive(Debug)]
pub(super) struct Cluster {
    infra: Emulation,
    /// The connections of guests to the API server of the infra cluster.
    _api: JoinSet<()>,
}

/// What there is, in words and for programs.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) text: String,
    pub(super) json: Value,
}

impl Cluster {
    /// Starts a cluster on a lab.
    pub(super) async fn start(lab: &Lab, settings: Settings) -> Result<Self, Failure> {
        let client = kube::Client::new(lab.service(), "default");
        let mut infra = Emulation::new(client, settings, Programs::default());
        for (namespace, name) in SERVICES {
            let service = infra.service();
            lab.mount(namespace, name, move |stream| service.clone().connection(stream));
        }
        let door = lab.door().map_err(|error| Failure::Lab(error.to_string()))?;
        let mut connections = infra.context().world.fabric.serve_api();
        let mut api = JoinSet::new();
        api.spawn(async move {
            let mut open = JoinSet::new();
            while let Some(stream) = connections.recv().await {
                open.spawn(door.clone().serve(stream));
                while open.try_join_next().is_some() {}
            }
        });
        infra.start_mounted().await.map_err(|error| Failure::Lab(error.to_string()))?;
        Ok(Self { infra, _api: api })
    }

    /// What the cluster has.
    pub(super) async fn described(&self) -> Result<Described, Failure> {
        let client = &self.infra.context().client;
        let failed = |error: trellis_infra::client::ApiError| Failure::Lab(error.to_string());
        let nodes = client.list(&NODE, "").await.map_err(failed)?;
        let classes = client.list(&STORAGE_CLASS, "").await.map_err(failed)?;
        let zones: std::collections::BTreeSet<&str> =
            nodes.iter().map(|node| node.label("topology.kubernetes.io/zone")).collect();
        let names: Vec<&str> = classes.iter().map(Value::name).collect();
        let text = format!(
            "It has {} hosts in {} zones, KubeVirt v1.9, CDI v1.66 and Multus, all emulated\nstorage classes: {}\n",
            nodes.len(),
            zones.len(),
            names.join(", ")
        );
        let json = json!({"hosts": nodes.len(), "zones": zones.len(), "storageClasses": names});
        Ok(Described { text, json })
    }
}
