//! `trellis destroy`.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_engine::controllers::fleet::{CLUSTERS, RESERVED};
use trellis_engine::controllers::{Inventory, Teardown, TeardownError, Told};
use trellis_engine::families::Object;
use trellis_engine::install::teardown::{Scope, Thing, plural};
use trellis_runtime::client::{Delete, Error, Verb};
use trellis_runtime::{Cache, Key, Selection, Site};

use super::create::cluster::{InfraFlags, namespace_group};
use super::create::control::Control;
use super::create::engine::{Engine, Work};
use super::create::folder::Folder;
use super::create::follow::{self, Teller};
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::Connected;
use crate::live::connect::Asked;
use crate::output::{Output, plural as counted, print};

/// How long a controller of the infra cluster has to begin before it is done here.
const TAKEN_UP: Duration = Duration::from_secs(15);

/// Take a tenant cluster, or its bootstrap machine, away.
#[derive(Debug, Args)]
pub(crate) struct Destroy {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Take a tenant cluster away: its machines, their volumes, and everything else that carries its label.
    Cluster(Target),
    /// Take the bootstrap machine of a tenant cluster away.
    Bootstrap(Target),
}

/// What goes, and how.
///
/// Everything that goes is listed first. Only what carries the label of the cluster goes: other clusters in the same
/// namespace stay. At the end stands that nothing is left, or what is.
#[derive(Debug, Args)]
struct Target {
    /// The folder of the installation.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "cluster_id")]
    dir: PathBuf,
    /// The cluster by the value of its label `trellis.dev/cluster`, where there is no folder.
    #[arg(long, value_name = "ID", requires = "namespace")]
    cluster_id: Option<String>,
    /// The namespace of its machines, where there is no folder.
    #[arg(long, short, value_name = "NAME", requires = "cluster_id")]
    namespace: Option<String>,
    /// Only list what would go.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// How long it may take, such as 90s or 30m. What is left then is listed, and the same command goes on.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = crate::live::words::duration)]
    timeout: Duration,
    #[command(flatten)]
    infra: InfraFlags,
}

impl Destroy {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        super::logs::begin_quietly();
        let (target, bootstrap) = match self.what {
            What::Cluster(target) => (target, false),
            What::Bootstrap(target) => (target, true),
        };
        crate::live::run(target.take_away(bootstrap, output))
    }
}

/// The cluster that goes.
struct Doomed {
    id: String,
    namespace: String,
    folder: Option<Folder>,
}

impl Target {
    fn doomed(&self) -> Result<Doomed, Failure> {
        if let (Some(id), Some(namespace)) = (&self.cluster_id, &self.namespace) {
            return Ok(Doomed { id: id.clone(), namespace: namespace.clone(), folder: None });
        }
        let folder = Folder::at(&self.dir);
        let metadata = folder.needed_metadata()?;
        Ok(Doomed { id: metadata.infra_id, namespace: metadata.kubevirt.namespace, folder: Some(folder) })
    }

    async fn take_away(self, bootstrap: bool, output: Output) -> Result<Exit, Failure> {
        let end = follow::until(self.timeout);
        let doomed = self.doomed()?;
        let (infra, _) = self.infra.connect().await?;
        let scope = if bootstrap {
            let handed_over = is_handed_over(&infra, &doomed).await?;
            if handed_over == Some(false) {
                return Err(Failure::Rejected(format!(
                    "the control plane of {} does not serve yet; without its bootstrap machine it never would",
                    doomed.id
                )));
            }
            Scope::Machine(doomed.id.clone(), format!("{}-bootstrap", doomed.id))
        } else {
            Scope::Cluster(doomed.id.clone())
        };
        let teardown =
            Teardown { scope, infra: infra.site.clone(), namespace: doomed.namespace.clone(), control: None };
        let inventory =
            teardown.inventory().await.map_err(|error| explained(&infra, &doomed.namespace, error))?;
        show(&inventory, &doomed, output)?;
        if let Some((kind, _)) = inventory.unseen.first() {
            let resource = kind.resource();
            let asked = Asked::new(Verb::List, &resource, &doomed.namespace, "");
            return Err(infra.explain(Error::Forbidden(String::new()), asked));
        }
        if self.dry_run || !self.agreed(&inventory, &doomed)? {
            return Ok(Exit::Success);
        }
        let mut teller = Teller::new(&doomed.id, output);
        let work = Removal { infra: &infra, doomed: &doomed, teardown: &teardown, end };
        let result =
            if bootstrap { work.directly(&mut teller).await } else { work.cluster(&mut teller).await };
        match result {
            Ok(()) => {}
            Err(TeardownError::TooLate { left }) => return report_left(&left, &doomed, &mut teller),
            Err(error) => return Err(explained(&infra, &doomed.namespace, error)),
        }
        let after =
            teardown.inventory().await.map_err(|error| explained(&infra, &doomed.namespace, error))?;
        if !after.things.is_empty() {
            return report_left(&after.things, &doomed, &mut teller);
        }
        if let (Some(folder), false) = (&doomed.folder, bootstrap) {
            folder.clear()?;
        }
        teller.say(
            "done",
            &format!("nothing of {} is left in namespace {}", doomed.id, doomed.namespace),
            json!({}),
        )?;
        Ok(Exit::Success)
    }

    /// Whether whoever asked means it.
    fn agreed(&self, inventory: &Inventory, doomed: &Doomed) -> Result<bool, Failure> {
        if self.yes || inventory.things.is_empty() {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage(
                "nobody can be asked here: give --yes, or --dry-run to only look".to_owned(),
            ));
        }
        eprint!("Delete all of this? Type the name of the cluster ({}) to go on: ", doomed.id);
        std::io::stderr().flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(answer.trim() == doomed.id)
    }
}

/// One removal.
struct Removal<'a> {
    infra: &'a Connected,
    doomed: &'a Doomed,
    teardown: &'a Teardown,
    end: Instant,
}

impl Removal<'_> {
    /// Takes the whole cluster away: by its TenantCluster where somebody may look after that, else directly.
    async fn cluster(self, teller: &mut Teller) -> Result<(), TeardownError> {
        let key = Key::new(&self.doomed.namespace, &self.doomed.id);
        if let Some(folder) = self.doomed.folder.as_ref().filter(|folder| folder.control().exists()) {
            return match Control::claimed(folder) {
                // Whoever has the folder makes nothing new; what is in it goes with it.
                Some(_claim) => self.directly(teller).await,
                None => match Control::in_folder(folder).await {
                    Ok(control) => self.by_object(&control.site, &key, false, teller).await,
                    Err(failure) => Err(unreachable(&failure)),
                },
            };
        }
        match self.infra.site.find::<Object>(&CLUSTERS, &key).await {
            Ok(Some(_)) => {
                let site = self.infra.site.clone();
                self.by_object(&site, &key, true, teller).await
            }
            // The kind is not served there, or not for this person: nobody looks after it.
            Ok(None) | Err(Error::Forbidden(_)) => self.directly(teller).await,
            Err(source) => Err(TeardownError::Unseen { resource: CLUSTERS, source }),
        }
    }

    /// Takes it away in this process, with nothing but what its label picks.
    async fn directly(&self, teller: &mut Teller) -> Result<(), TeardownError> {
        let mut last = Vec::new();
        let tell = |told: Told| {
            // Whoever closes the pipe has heard enough; the work goes on.
            let _ = match told {
                Told::Progress(plan) if !plan.is_done() && plan.kinds() != last => {
                    last = plan.kinds();
                    teller.say("progress", &plan.message(), json!({}))
                }
                Told::Progress(_) => Ok(()),
                Told::Trouble(message) => teller.say("trouble", &message, json!({})),
            };
        };
        self.teardown.run(Some(self.end), tell).await
    }

    /// Deletes its TenantCluster, and waits until whoever looks after it has let it go. Where nobody does, this process
    /// does, if it may help.
    async fn by_object(
        self,
        control: &Site,
        key: &Key,
        may_help: bool,
        teller: &mut Teller,
    ) -> Result<(), TeardownError> {
        let unseen = |source| TeardownError::Unseen { resource: CLUSTERS, source };
        let by_name = Selection::namespace(key.namespace()).fields(&format!("metadata.name={}", key.name()));
        let clusters: Cache<Object> = Cache::new(CLUSTERS, by_name);
        let Some(cluster) = control.find::<Object>(&CLUSTERS, key).await.map_err(unseen)? else {
            return Ok(());
        };
        control.delete(&CLUSTERS, key, &Delete::uid(&cluster.metadata.uid)).await.map_err(unseen)?;
        let group = namespace_group(key.namespace());
        let mut changes = clusters.changes();
        let mut engine = None;
        let ended = {
            let work = async {
                clusters.synced().await;
                let (mut last, mut is_moving) = (String::new(), false);
                let patience = Instant::now() + TAKEN_UP;
                loop {
                    let Some(cluster) = clusters.get(key) else { return Ok(()) };
                    if let Some(message) = removal(&cluster).filter(|message| *message != last) {
                        let _ = teller.say("progress", &message, json!({}));
                        (last, is_moving) = (message, true);
                    }
                    let now = Instant::now();
                    if now >= self.end {
                        return Err(());
                    }
                    let reserved = cluster.metadata.annotations.get(RESERVED) == Some(group.as_str());
                    if may_help && engine.is_none() && !is_moving && (reserved || now >= patience) {
                        if !reserved {
                            let ours = json!({"metadata": {"annotations": {RESERVED: group}}});
                            let _ = control.merge_patch::<Value>(&CLUSTERS, key, &ours).await;
                        }
                        engine = Some(Engine::start(Work {
                            control,
                            namespace: key.namespace(),
                            cluster: key.name(),
                            group: group.clone(),
                            identity: super::controller::identity(),
                            infra: None,
                            growing: trellis_engine::controllers::Growing::default(),
                        }));
                    }
                    let next = if may_help && engine.is_none() && !is_moving { patience } else { self.end };
                    let _ = tokio::time::timeout_at(next.min(self.end), changes.recv()).await;
                }
            };
            tokio::select! {
                () = clusters.run(control, 0) => Ok(()),
                ended = work => ended,
            }
        };
        if let Some(engine) = engine {
            engine.end().await;
        }
        if ended.is_ok() {
            return Ok(());
        }
        let left = self.teardown.inventory().await?.things;
        Err(TeardownError::TooLate { left })
    }
}

/// How far the removal of a cluster is, as is said of it.
fn removal(cluster: &Object) -> Option<String> {
    let status = cluster.status_json();
    let conditions = status.get("conditions").and_then(Value::as_array)?;
    let said = conditions.iter().find(|one| one["type"] == "Removed")?;
    said["message"].as_str().map(str::to_owned)
}

/// Whether the control plane has taken over from its bootstrap machine; nothing where that cannot be known here.
async fn is_handed_over(infra: &Connected, doomed: &Doomed) -> Result<Option<bool>, Failure> {
    let key = Key::new(&doomed.namespace, &doomed.id);
    let said = |standing: follow::Standing| standing.reached;
    if let Some(folder) = doomed.folder.as_ref().filter(|folder| folder.control().exists()) {
        let control = Control::in_folder(folder).await?;
        return Ok(follow::look(&control.site, &key, follow::Goal::Bootstrap).await?.map(said));
    }
    match infra.site.find::<Object>(&CLUSTERS, &key).await {
        Ok(found) => Ok(found.map(|cluster| follow::standing(&cluster, follow::Goal::Bootstrap).reached)),
        Err(_) => Ok(None),
    }
}

/// A failure of the folder's server, where a failure of a teardown is wanted.
fn unreachable(failure: &Failure) -> TeardownError {
    TeardownError::Unseen { resource: CLUSTERS, source: Error::Unavailable(failure.to_string()) }
}

fn explained(infra: &Connected, namespace: &str, error: TeardownError) -> Failure {
    match error {
        TeardownError::Unseen { resource, source } => {
            infra.explain(source, Asked::new(Verb::List, &resource, namespace, ""))
        }
        TeardownError::Refused { thing, source } => {
            let resource = thing.kind.resource();
            infra.explain(source, Asked::new(Verb::Delete, &resource, namespace, &thing.name))
        }
        error @ TeardownError::TooLate { .. } => Failure::TimedOut(error.to_string()),
    }
}

/// Lists what goes.
fn show(inventory: &Inventory, doomed: &Doomed, output: Output) -> Result<(), Failure> {
    let things = &inventory.things;
    if output.format == Format::Json {
        return Ok(print(
            &json!({"type": "inventory", "cluster": doomed.id, "things": listed(things)}).to_string(),
        )?);
    }
    if things.is_empty() {
        return Ok(print(&format!("Nothing of {} is in namespace {}.", doomed.id, doomed.namespace))?);
    }
    let mut text = format!(
        "Of {}, {} in namespace {} go:\n",
        doomed.id,
        counted(things.len(), "object"),
        doomed.namespace
    );
    for same in things.chunk_by(|one, other| one.kind == other.kind) {
        let names: Vec<&str> = same.iter().map(|thing| thing.name.as_str()).collect();
        let kind = same.first().map_or("", |thing| thing.kind.resource().kind);
        text += "  ";
        text += &plural(kind);
        text += ": ";
        text += &names.join(", ");
        text += "\n";
    }
    Ok(print(&text)?)
}

fn listed(things: &[Thing]) -> Vec<Value> {
    let one = |thing: &Thing| json!({"kind": thing.kind.resource().kind, "name": thing.name, "uid": thing.uid, "heldBy": thing.held_by});
    things.iter().map(one).collect()
}

/// Says what is left, which is a failure of its own.
fn report_left(left: &[Thing], doomed: &Doomed, teller: &mut Teller) -> Result<Exit, Failure> {
    let names: Vec<String> = left.iter().map(ToString::to_string).collect();
    let message = format!("{} of {} left: {}", counted(left.len(), "object"), doomed.id, names.join(", "));
    teller.say("left", &message, json!({"things": listed(left)}))?;
    Ok(Exit::Leftovers)
}
