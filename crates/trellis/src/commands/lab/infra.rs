//! The infra cluster on the lab's API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{NODE, STORAGE_CLASS};
use trellis_infra::object::Object as _;
use trellis_infra::service::install::SERVICES;
use trellis_infra::stages::Profile;
use trellis_infra::world::World;
use trellis_infra::world::store::{Folder, StoreError};
use trellis_infra::{Infra as Emulation, Settings};
use trellis_lab::Lab;
use trellis_planes::{ControlPlanes, programs};

use crate::exit::Failure;

/// What the infra cluster is made of.
#[derive(Debug, Args)]
#[command(next_help_heading = "The infra cluster")]
pub(crate) struct Infra {
    /// Only the API server, without an infra cluster.
    #[arg(long, conflicts_with_all = ["hosts", "zones", "profile", "settings"])]
    api_only: bool,
    /// How many hosts there are. [default: as many as the folder has, or 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: Option<u32>,
    /// How many zones the hosts are spread over. [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
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
    /// What all chance comes from: uids, generated names, delays. [default: another one for each folder]
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
    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// How many zones were asked for, if that was said.
    pub(crate) fn zones(&self) -> Option<usize> {
        self.zones.map(usize::from)
    }

    /// The number of hosts, if one was given.
    pub(crate) fn hosts(&self) -> Option<usize> {
        self.hosts.map(|hosts| hosts as usize)
    }

    /// What the cluster is to be made of, and whether somebody named its seed; nothing where there is to be none.
    pub(crate) fn settings(&self) -> Result<Option<(Settings, bool)>, Failure> {
        if self.api_only {
            return Ok(None);
        }
        let (mut settings, mut is_seeded) = match &self.settings {
            Some(path) => {
                let unreadable = |why: String| Failure::Read { name: path.display().to_string(), why };
                let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
                read(&text).map_err(|error| unreadable(error.to_string()))?
            }
            None => (Settings { sockets: true, ..Settings::default() }, false),
        };
        if let Some(hosts) = self.hosts() {
            settings.hosts = hosts;
        }
        if let Some(zones) = self.zones() {
            settings.zones = zones;
        }
        if let Some(hosts) = self.hosts() {
            enough_for_zones(hosts, self.zones())?;
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
            is_seeded = true;
        }
        Ok(Some((settings, is_seeded)))
    }
}

/// The number of a host of the lab; nothing for the Nodes of others.
fn host_number(node: &Value) -> Option<usize> {
    node.text("/spec/providerID").strip_prefix("lab://host-")?.parse().ok()
}

/// How many hosts there are to be, where some are there from the last run. Hosts are not taken away by a flag: what
/// runs on them would be lost without a word.
fn hosts_to_have(wanted: usize, asked: Option<usize>, nodes: &[Value]) -> Result<usize, Failure> {
    let there = nodes.iter().filter_map(host_number).max().unwrap_or_default();
    match asked {
        Some(asked) if asked < there => Err(Failure::Usage(format!(
            "--hosts {asked}: the folder has {there} hosts; to have fewer, drain and delete the Nodes of the last ones first"
        ))),
        Some(asked) => Ok(asked),
        None => Ok(wanted.max(there)),
    }
}

/// Refuses more zones than there are hosts for: some would be empty, and nobody would see them.
fn enough_for_zones(hosts: usize, zones: Option<usize>) -> Result<(), Failure> {
    match zones {
        Some(zones) if zones > hosts => Err(Failure::Usage(format!(
            "--zones {zones}: {hosts} hosts are in {hosts} zones at most; add hosts with --hosts {zones}"
        ))),
        _ => Ok(()),
    }
}

/// The settings in a file, and whether they name a seed. Where they do not say otherwise, this machine reaches load
/// balancers: a lab is there to be used.
fn read(text: &str) -> Result<(Settings, bool), serde_saphyr::Error> {
    let mut settings: Settings = serde_saphyr::from_str(text)?;
    let given: Value = serde_saphyr::from_str(text)?;
    if given.get("sockets").is_none() {
        settings.sockets = true;
    }
    Ok((settings, given.get("seed").is_some()))
}

/// A seed nobody can guess: that of the last run in a folder, or a new one.
pub(crate) fn chosen_seed(folder: Option<&Path>) -> Result<u64, Failure> {
    let Some(folder) = folder else { return Ok(rand::random()) };
    let path = folder.join("seed");
    if let Some(seed) = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
        return Ok(seed);
    }
    let seed = rand::random();
    std::fs::create_dir_all(folder)?;
    std::fs::write(path, format!("{seed}\n"))?;
    Ok(seed)
}

/// The world whose disks are kept in a folder.
fn kept_world(folder: &Path) -> Result<World, StoreError> {
    World::in_store(Arc::new(Folder::open(folder)?))
}

/// A running infra cluster on a lab of this process.
#[derive(Debug)]
pub(crate) struct Cluster {
    infra: Emulation,
    /// The connections of guests to the API server of the infra cluster.
    _api: JoinSet<()>,
}

/// What there is, in words and for programs.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Described {
    /// Its first line.
    pub(crate) fn summary(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

impl Cluster {
    /// Starts a cluster on a lab. `hosts` and `zones` are how many somebody asked for; where nobody did, the hosts of
    /// the last run stay. What is on the disks is kept in `folder`, if one is given.
    pub(crate) async fn start(
        lab: &Lab,
        mut settings: Settings,
        hosts: Option<usize>,
        zones: Option<usize>,
        folder: Option<&Path>,
    ) -> Result<Self, Failure> {
        let world = match folder {
            Some(folder) => kept_world(&folder.join("world")),
            None => Ok(World::default()),
        };
        let world = world.map_err(|error| Failure::Lab(error.to_string()))?;
        let client = kube::Client::new(lab.service(), "default");
        let there = Client::new(client.clone(), Identity::INSTALLER);
        let there = there.list(&NODE, "").await.map_err(|error| Failure::Lab(error.to_string()))?;
        settings.hosts = hosts_to_have(settings.hosts, hosts, &there)?;
        enough_for_zones(settings.hosts, zones)?;
        let mut infra = Emulation::on(world, client, settings, programs(ControlPlanes::default()));
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

    /// Waits until what is on the disks cannot be kept any more; returns why. Nothing may be promised from then on.
    pub(crate) async fn lost(&self) -> String {
        let mut lost = self.infra.context().world.volumes.lost();
        match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// What the cluster has.
    pub(crate) async fn described(&self) -> Result<Described, Failure> {
        let client = &self.infra.context().client;
        let failed = |error: trellis_infra::client::ApiError| Failure::Lab(error.to_string());
        let mut nodes = client.list(&NODE, "").await.map_err(failed)?;
        nodes.retain(|node| host_number(node).is_some());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_leaves_the_rest_as_it_is_without_one() {
        let (settings, is_seeded) = read("hosts: 5").unwrap();
        assert_eq!((settings.hosts, settings.sockets, is_seeded), (5, true, false));
        let (settings, is_seeded) = read("{sockets: false, seed: 0}").unwrap();
        assert_eq!((settings.sockets, is_seeded), (false, true));
        assert!(read("hots: 5").is_err());
    }

    #[test]
    fn a_seed_is_chosen_once_for_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let seed = chosen_seed(Some(&one)).unwrap();
        assert_eq!(chosen_seed(Some(&one)).unwrap(), seed);
        assert_ne!(chosen_seed(Some(&other)).unwrap(), seed);
        assert_ne!(chosen_seed(None).unwrap(), chosen_seed(None).unwrap());
    }

    #[test]
    fn hosts_are_not_taken_away_by_a_flag() {
        let node = |provider: &str| json!({"spec": {"providerID": provider}});
        let nodes = [node("lab://host-0001"), node("lab://host-0003"), node("other://host-0009")];
        assert_eq!(hosts_to_have(3, None, &nodes).unwrap(), 3);
        assert_eq!(hosts_to_have(1, None, &nodes).unwrap(), 3);
        assert_eq!(hosts_to_have(5, Some(5), &nodes).unwrap(), 5);
        assert!(hosts_to_have(1, Some(1), &nodes).is_err());
        assert_eq!(hosts_to_have(1, Some(1), &[]).unwrap(), 1);
    }

    #[test]
    fn zones_without_hosts_are_refused() {
        assert!(enough_for_zones(3, Some(3)).is_ok() && enough_for_zones(1, None).is_ok());
        assert!(enough_for_zones(3, Some(4)).unwrap_err().to_string().contains("--hosts 4"));
    }
}
