//! `trellis controller`.

mod tenants;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;
use trellis_engine::controllers::fleet::{Fleet, Lifetime, Machines, Parts};
use trellis_engine::controllers::{Growing, Leftovers, Settings};
use trellis_engine::families::{Family, KKP, OPENSHIFT, TRELLIS};
use trellis_model::names::{ClusterName, NamespaceName};
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::{Followed, Source};
use trellis_runtime::lease::{Shards, Terms};
use trellis_runtime::serve::Page;
use trellis_runtime::traces::Traces;
use trellis_runtime::{CancellationToken, Clock, Site, Tasks};

use super::create::cluster::{FOLDER_GROUP, InfraFlags};
use super::create::control::Control;
use super::create::engine::GrowingFlags;
use super::create::folder::Folder;
use super::logs;
use super::webhook::Webhook;
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};
use tenants::Tenants;

/// Where a pod finds the namespace it is in.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The namespace of whoever says nothing else.
const DEFAULT_NAMESPACE: &str = "default";
/// The longest name of a group of replicas: it is the value of a label.
const LONGEST_GROUP: usize = 63;

/// Keep machines as machine objects ask.
///
/// Reconciles the machine objects of many tenant clusters on KubeVirt: Kubermatic's MachineDeployment, MachineSet and
/// Machine (cluster.k8s.io), OpenShift's MachineSet and Machine (machine.openshift.io), or our own MachinePool and
/// Machine (trellis.dev). The tenants are the TenantClusters of the control site, or those of a file (--tenants), or one
/// (--cluster). A tenant's machine objects, its Nodes and its VMs may be in three places; credentials are read again when
/// they change. Without a kubeconfig the control site is the KUBECONFIG variable's or the pod's own. Several replicas
/// share the tenants between them by Leases: no tenant is acted on by two, and those of a replica that is gone go to the
/// others.
#[derive(Debug, Args)]
pub(crate) struct Controller {
    /// The one tenant cluster to look after, instead of all TenantClusters. Its name is on everything that is made for
    /// it.
    #[arg(long, value_name = "NAME")]
    cluster: Option<ClusterName>,
    /// Whose machine objects are reconciled; without --cluster, each TenantCluster says so itself.
    #[arg(long, value_enum, default_value_t = FamilyName::Trellis, requires = "cluster")]
    family: FamilyName,
    /// The namespace of the TenantClusters, all when left out; with --cluster that of its machine objects, `default`
    /// when left out.
    #[arg(long, value_name = "NAME", conflicts_with = "tenants")]
    namespace: Option<NamespaceName>,
    /// The namespace the VMs are in; the one the TenantCluster says, or the cluster's name.
    #[arg(long, value_name = "NAME", requires = "cluster")]
    infra_namespace: Option<NamespaceName>,
    /// A file with the tenants, for installations that have no TenantClusters; it is read again when it changes.
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    tenants: Option<PathBuf>,
    /// The kubeconfig for the control site: machine objects, TenantClusters and Leases. With --dir that of the infra
    /// cluster.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Look after the cluster of this folder, which `trellis create cluster` made: its machine objects are in the folder,
    /// and `DIR/control/kubeconfig` is for `trellis get`, `scale` and `rollout`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cluster", "tenants", "namespace", "group", "lease_namespace"])]
    dir: Option<PathBuf>,
    /// The context of the kubeconfig of the infra cluster; the current one when left out.
    #[arg(long, value_name = "NAME", requires = "dir")]
    context: Option<String>,
    /// The kubeconfig of the tenant, for its Nodes. Without it machines are made, and nobody waits for Nodes.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    tenant_kubeconfig: Option<PathBuf>,
    /// The kubeconfig for the VMs; that of the machine objects when left out.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    infra_kubeconfig: Option<PathBuf>,
    /// What the replicas that share these tenants have in common: how the names of their Leases begin.
    #[arg(long, value_name = "NAME")]
    group: Option<NamespaceName>,
    /// The namespace of the Leases; --namespace, the pod's own, or `default` when left out.
    #[arg(long, value_name = "NAME")]
    lease_namespace: Option<NamespaceName>,
    /// Where to serve /metrics, /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How many objects of a tenant are looked at together.
    #[arg(long, default_value_t = 64)]
    workers: usize,
    /// What becomes of VMs, volumes, Secrets, Services and Nodes of machines that are gone.
    #[arg(long, value_enum, default_value_t = LeftoversName::Remove)]
    leftovers: LeftoversName,
    /// Leave the requests of kubelets for serving certificates to others.
    #[arg(long)]
    no_serving_certificates: bool,
    /// Write logs as JSON.
    #[arg(long)]
    log_json: bool,
    #[command(flatten)]
    growing: GrowingFlags,
    #[command(flatten)]
    webhook: Webhook,
    /// Send traces to this collector over OTLP (HTTP with protobuf): http://collector:4318.
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
}

/// What becomes of what is left, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LeftoversName {
    /// Nobody looks
    Ignore,
    /// Events tell what would be removed
    Report,
    /// What is proven is removed, and Events tell the rest
    Remove,
}

impl LeftoversName {
    fn leftovers(self) -> Leftovers {
        match self {
            Self::Ignore => Leftovers::Ignore,
            Self::Report => Leftovers::Report,
            Self::Remove => Leftovers::Remove,
        }
    }
}

/// A family of machine objects by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FamilyName {
    /// cluster.k8s.io/v1alpha1: MachineDeployment, MachineSet, Machine
    Kkp,
    /// machine.openshift.io/v1beta1: MachineSet, Machine
    Openshift,
    /// trellis.dev/v1alpha1: MachinePool, Machine
    Trellis,
}

impl FamilyName {
    pub(crate) fn family(self) -> &'static Family {
        match self {
            Self::Kkp => &KKP,
            Self::Openshift => &OPENSHIFT,
            Self::Trellis => &TRELLIS,
        }
    }
}

impl Controller {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.serve(output))
    }

    async fn serve(self, output: Output) -> Result<Exit, Failure> {
        // The folder is one process's alone, so it is the same one again.
        let identity = if self.dir.is_some() { "folder".to_owned() } else { identity() };
        let traces = self.log(&identity)?;
        let Some(tenants) = Tenants::of(&self, output)? else { return Ok(Exit::BadManifest) };
        let ended = self.keep(tenants, &identity, output).await;
        if let Some(traces) = traces {
            traces.end().await;
        }
        ended
    }

    /// Sets up logs, and traces where they are wished for.
    fn log(&self, identity: &str) -> Result<Option<Traces>, Failure> {
        let endpoint = self.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
        let traces = endpoint.map(|endpoint| Traces::to(endpoint, "trellis-controller", identity));
        let traces = traces.transpose().map_err(|error| Failure::Usage(error.to_string()))?;
        logs::begin(self.log_json, traces.as_ref());
        Ok(traces)
    }

    async fn keep(&self, tenants: Tenants, identity: &str, output: Output) -> Result<Exit, Failure> {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.stop_on_signals();
        let own = match &self.dir {
            Some(dir) => Some(self.open(dir).await?),
            None => None,
        };
        let control = match &own {
            Some((_, kubeconfig)) => connect(Some(kubeconfig)).await?,
            None => connect(self.kubeconfig.as_ref()).await?,
        };
        let site = control.site.clone();
        let tenants = tenants.looked_up(&site).await?;
        let growing = self.growing(&site).await?;
        let clock = Clock::of_machine();
        let terms = Terms::default();
        let shards = Shards::new(&site, &self.lease_namespace(), &self.group(), identity, clock, terms);
        let page = Page::default();
        page.metrics.add_site(&site);
        let settings = Settings {
            workers: self.workers,
            leftovers: self.leftovers.leftovers(),
            serving_certificates: !self.no_serving_certificates,
            growing,
            ..Settings::default()
        };
        let fleet = Fleet::new(Parts {
            control: site.clone(),
            shards: shards.clone(),
            reconcilers: vec![Arc::new(Lifetime::of(Machines::new(settings)))],
            metrics: page.metrics.clone(),
            clock,
        });
        let asked = fleet.clone();
        page.ready.add("tenants", move || asked.not_ready());
        let listening = page.listen(self.listen).await?;
        self.webhook.start(&site, clock, &mut tasks).await?;
        self.greet(&listening.address()?, output)?;
        tasks.background("credentials", control.follow());
        let token = stop.clone();
        tasks.essential("page", async move { listening.run(&token).await });
        let told = fleet.clone();
        tasks.background("records", async move { tenants.tell(&site, told.records()).await });
        let (token, ended) = (stop.clone(), CancellationToken::new());
        let running = ended.clone();
        tasks.essential("tenants", async move {
            fleet.run(&token).await;
            ended.cancel();
        });
        tasks.essential("membership", async move {
            // The share is given away when nobody acts for it any more.
            shards.run(&running).await;
        });
        tasks.wait().await.map_err(|ended| Failure::Refused(ended.to_string()))?;
        Ok(Exit::Success)
    }

    /// Opens the API server of a folder, which nobody else may have.
    async fn open(&self, dir: &Path) -> Result<(Control, PathBuf), Failure> {
        let folder = Folder::at(dir);
        folder.needed_metadata()?;
        let kubeconfig = folder.control().join("kubeconfig");
        if !kubeconfig.exists() {
            return Err(Failure::Usage(format!(
                "the machine objects of {} are in the infra cluster: look after them without --dir",
                dir.display()
            )));
        }
        let control = Control::in_folder(&folder).await?;
        if control.is_others {
            return Err(Failure::Rejected(format!(
                "another process looks after the cluster of {}",
                dir.display()
            )));
        }
        Ok((control, kubeconfig))
    }

    /// How clusters are grown.
    async fn growing(&self, control: &Site) -> Result<Growing, Failure> {
        if self.dir.is_none() {
            return Ok(self.growing.growing(control).await);
        }
        let (infra, _) = self.infra().connect().await?;
        Ok(self.growing.growing(&infra.site).await)
    }

    /// Which infra cluster the one of the folder is on.
    fn infra(&self) -> InfraFlags {
        InfraFlags { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// What the replicas that share these tenants have in common: whoever serves other tenants is not one of them.
    fn group(&self) -> String {
        if self.dir.is_some() {
            return FOLDER_GROUP.to_owned();
        }
        let group = match (&self.group, &self.cluster, &self.namespace) {
            (Some(group), _, _) => group.to_string(),
            (None, Some(cluster), _) => format!("trellis-{}-{cluster}", self.family.family().name),
            (None, None, Some(namespace)) => format!("trellis-fleet-{namespace}"),
            (None, None, None) => "trellis-fleet".to_owned(),
        };
        bounded_group(&group)
    }

    fn lease_namespace(&self) -> String {
        if self.dir.is_some() {
            return DEFAULT_NAMESPACE.to_owned();
        }
        let given = self.lease_namespace.as_ref().or(self.namespace.as_ref());
        let own = || std::fs::read_to_string(OWN_NAMESPACE).ok().map(|text| text.trim().to_owned());
        let own = || own().filter(|namespace| !namespace.is_empty());
        given.map(ToString::to_string).or_else(own).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }

    /// The namespace of the machine objects of the one tenant.
    fn machine_namespace(&self) -> &str {
        self.namespace.as_ref().map_or(DEFAULT_NAMESPACE, NamespaceName::as_str)
    }

    fn greet(&self, address: &SocketAddr, output: Output) -> Result<(), Failure> {
        let family = self.family.family().name;
        let (whom, mut told) = match (&self.cluster, &self.tenants) {
            _ if self.dir.is_some() => {
                let dir = self.dir.clone().unwrap_or_default();
                (format!("of the cluster in {}", dir.display()), json!({"dir": dir}))
            }
            (Some(cluster), _) => {
                let namespace = self.machine_namespace();
                (
                    format!("of {cluster} ({family}) in namespace {namespace}"),
                    json!({"cluster": cluster, "family": family, "namespace": namespace}),
                )
            }
            (None, Some(file)) => (format!("of the tenants in {}", file.display()), json!({"tenants": file})),
            (None, None) => {
                let place = self.namespace.as_ref();
                let words = place.map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
                (format!("of the TenantClusters in {words}"), json!({"namespace": place}))
            }
        };
        told["address"] = json!(address);
        told["group"] = json!(self.group());
        match output.format {
            Format::Json => print_json(&told)?,
            Format::Human => print(&format!(
                "Looks after the machines {whom}; /metrics, /healthz and /readyz on {address}.\n"
            ))?,
        }
        Ok(())
    }
}

/// The name of a group, as long as it may be.
pub(crate) fn bounded_group(name: &str) -> String {
    let mut group: String = name.chars().take(LONGEST_GROUP).collect();
    group.truncate(group.trim_end_matches('-').len());
    group
}

/// Who this process is among the replicas: a part of the name of its Lease.
pub(crate) fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default().to_ascii_lowercase();
    let host: String = host
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(80)
        .collect();
    let host = host.trim_matches('-');
    format!("{}-{:016x}", if host.is_empty() { "trellis" } else { host }, rand::random::<u64>())
}

async fn connect(path: Option<&PathBuf>) -> Result<Followed, Failure> {
    let source = match path {
        Some(path) => Source::File { path: path.clone(), context: None },
        None => Source::InCluster,
    };
    let connected = source.connect("control", Manners::default()).await;
    connected.map_err(|error| match path {
        Some(_) => Failure::Refused(error.to_string()),
        None => Failure::Usage(format!("{error}; name a kubeconfig for the control site")),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        controller: Controller,
    }

    fn parsed(arguments: &[&str]) -> Result<Controller, clap::Error> {
        let line = std::iter::once("x").chain(arguments.iter().copied());
        Line::try_parse_from(line).map(|line| line.controller)
    }

    #[test]
    fn who_serves_other_tenants_shares_nothing() {
        let group = |arguments: &[&str]| parsed(arguments).unwrap().group();
        assert_eq!(group(&[]), "trellis-fleet");
        assert_eq!(group(&["--namespace", "blue"]), "trellis-fleet-blue");
        assert_eq!(group(&["--cluster", "blue", "--family", "kkp"]), "trellis-kkp-blue");
        assert_eq!(group(&["--tenants", "f", "--group", "mine"]), "mine");
        let long = "a".repeat(63);
        assert_eq!(group(&["--cluster", &long]).len(), LONGEST_GROUP);
        assert!(parsed(&["--cluster", "a", "--tenants", "f"]).is_err());
        assert!(parsed(&["--tenant-kubeconfig", "f"]).is_err());
        assert!(parsed(&["--family", "kkp"]).is_err());
    }

    #[test]
    fn an_identity_is_part_of_a_name() {
        let identity = identity();
        assert!(
            identity
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
        );
        assert!(identity.len() < 100 && !identity.starts_with('-'));
    }
}
