//! `trellis create cluster`.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use trellis_dialects::record::record;
use trellis_engine::controllers::Growing;
use trellis_engine::controllers::fleet::{Access, CLUSTERS, RESERVED};
use trellis_engine::install::assets::Metadata;
use trellis_engine::preflight::Verdict;
use trellis_model::image::ImageSource;
use trellis_model::names::NamespaceName;
use trellis_model::pool::Role;
use trellis_model::validate::IMAGE_WITHOUT_SOURCE;
use trellis_model::{Cluster, Estate, Pool};
use trellis_runtime::client::{Error, Verb};
use trellis_runtime::{Key, Resource, Site};

use super::control::{Control, ControlName};
use super::engine::{Engine, GrowingFlags, Work};
use super::folder::Folder;
use super::follow::{self, Goal, Teller};
use crate::args::{Files, Format};
use crate::commands::{doctor, is_usable, lab, load, logs, render, unusable};
use crate::exit::{Exit, Failure};
use crate::live::connect::Asked;
use crate::live::{Connected, Where};
use crate::output::{Output, print};

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const POOLS: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
/// The group of whoever looks after the cluster of a folder. One process at a time has the folder.
pub(crate) const FOLDER_GROUP: &str = "trellis-folder";

/// Make a tenant cluster, and wait until it is there.
///
/// Checks the infra cluster first as `trellis doctor` does, makes the namespace if it is not there, and then does in this
/// process what `trellis controller` does in a cluster, until everything that was asked for is there. Interrupted at any
/// point, the same command goes on. It needs rights in one namespace, and nothing has to be installed: where the infra
/// cluster does not serve our kinds, an API server in the folder holds them (`DIR/control`).
#[derive(Debug, Args)]
pub(crate) struct CreateCluster {
    /// The folder of the installation: what the cluster is made from, how it is reached, and by what it is found again.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Manifests of any dialect; `install-config.yaml` of the folder, else its `manifests`, when left out.
    #[arg(long = "filename", short = 'f', value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The image of pools that do not say where theirs is: `https://…` or `docker://…`.
    #[arg(long, value_name = "URL", value_parser = render::parse_image)]
    image: Option<ImageSource>,
    /// Make it although the infra cluster was not looked at.
    #[arg(long)]
    skip_preflight: bool,
    /// Where the machine objects live.
    #[arg(long, value_enum, default_value_t = ControlName::Auto)]
    control: ControlName,
    /// How long it may take, such as 90s or 1h. What was made stays, and the same command goes on.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::live::words::duration)]
    timeout: Duration,
    #[command(flatten)]
    growing: GrowingFlags,
    #[command(flatten)]
    infra: InfraFlags,
}

/// Which infra cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which infra cluster")]
pub(crate) struct InfraFlags {
    /// The kubeconfig of the infra cluster; that of the KUBECONFIG variable, or ~/.kube/config, when left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in it; the current one when left out.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl InfraFlags {
    fn place(&self) -> Where {
        Where { kubeconfig: self.kubeconfig.clone(), context: self.context.clone(), namespace: None }
    }

    /// How the engine connects.
    pub(crate) fn access(&self) -> Result<Access, Failure> {
        Ok(Access::File { path: self.place().one_file()?, context: self.context.clone() })
    }

    /// Connects, and says how the engine connects in the same way.
    pub(crate) async fn connect(&self) -> Result<(Connected, Access), Failure> {
        let access = self.access()?;
        Ok((self.place().connect().await?, access))
    }
}

/// The cluster that is made.
struct Wanted {
    cluster: Cluster,
    estate: Estate,
}

impl Wanted {
    fn pools(&self) -> Vec<&Pool> {
        self.estate.pools.iter().collect()
    }

    fn namespace(&self) -> &str {
        self.cluster.infra_namespace()
    }

    fn key(&self) -> Key {
        Key::new(self.namespace(), self.cluster.name.as_str())
    }

    /// Whether machines have to be given what they boot with.
    fn is_grown(&self) -> bool {
        self.estate.pools.iter().any(|pool| {
            let given = &pool.spec.template.user_data;
            pool.spec.role == Role::ControlPlane && given.secret.is_none() && given.inline.is_none()
        })
    }
}

impl CreateCluster {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let folder = Folder::at(&self.dir);
        let files = if self.files.is_empty() { folder.sources()? } else { self.files.clone() };
        let (sources, mut read) = load(&Files { files })?;
        if let Some(image) = &self.image {
            read.estate.fill_in_image(image);
            read.diagnostics.drop_all(IMAGE_WITHOUT_SOURCE);
        }
        output.explain(&read.diagnostics, &sources)?;
        if !is_usable(&read, false) {
            return Ok(unusable(&read));
        }
        let wanted = wanted(read.estate)?;
        if let Some(other) =
            folder.metadata()?.filter(|known| known.cluster_name != wanted.cluster.name.as_str())
        {
            return Err(Failure::Rejected(format!(
                "{} is the folder of the cluster {}; take another one with --dir",
                self.dir.display(),
                other.cluster_name
            )));
        }
        crate::live::run(self.make(folder, wanted, output))
    }

    async fn make(self, folder: Folder, wanted: Wanted, output: Output) -> Result<Exit, Failure> {
        let end = follow::until(self.timeout);
        let (infra, access) = self.infra.connect().await?;
        let mut teller = Teller::new(wanted.cluster.name.as_str(), output);
        let is_new = self.is_new(&infra, &wanted).await?;
        if is_new && !self.skip_preflight {
            let examined = doctor::examine(&infra.site, &wanted.estate).await;
            match output.format {
                Format::Json => {
                    print(&json!({"type": "preflight", "checks": doctor::json(&examined)}).to_string())?;
                }
                Format::Human => doctor::show(&examined, output)?,
            }
            if doctor::is_ill(&examined, Verdict::Failed) {
                return Ok(Exit::Unfit);
            }
        }
        let growing = self.growing.growing(&infra.site).await;
        if wanted.is_grown() && growing.sources.trellis.is_none() {
            return Err(Failure::Usage(
                "the machines of the control plane must know where they get Trellis from: give --trellis-url and \
                 --trellis-sha256"
                    .to_owned(),
            ));
        }
        folder.make()?;
        logs::begin_into(&folder.log())?;
        let interrupted = lab::interrupted();
        tokio::select! {
            made = self.carry_out(&folder, &wanted, (&infra, access), growing, end, &mut teller) => made,
            interrupted = interrupted => {
                interrupted?;
                Err(Failure::Interrupted("what was made stays; the same command goes on".to_owned()))
            }
        }
    }

    /// Whether nothing was made of it yet: then the infra cluster is looked at as it is without it.
    async fn is_new(&self, infra: &Connected, wanted: &Wanted) -> Result<bool, Failure> {
        let name = format!("{}-record", wanted.cluster.name);
        let found = infra.site.find::<Value>(&SECRETS, &Key::new(wanted.namespace(), &name)).await;
        match found {
            Ok(found) => Ok(found.is_none()),
            // What may not be done is said by the preflight, all of it at once.
            Err(Error::Forbidden(_)) => Ok(true),
            Err(error) => {
                Err(infra.explain(error, Asked::new(Verb::Get, &SECRETS, wanted.namespace(), &name)))
            }
        }
    }

    async fn carry_out(
        &self,
        folder: &Folder,
        wanted: &Wanted,
        (infra, access): (&Connected, Access),
        growing: Growing,
        end: tokio::time::Instant,
        teller: &mut Teller,
    ) -> Result<Exit, Failure> {
        make_namespace(infra, wanted.namespace()).await?;
        let record = record(&wanted.cluster, &wanted.estate);
        let key = Key::new(wanted.namespace(), record["metadata"]["name"].as_str().unwrap_or_default());
        let recorded = infra.site.apply::<Value>(&SECRETS, &key, &record, true).await;
        let asked = Asked::new(Verb::Patch, &SECRETS, wanted.namespace(), key.name());
        recorded.map_err(|error| infra.explain(error, asked))?;
        let control = Control::open(self.control, folder, &infra.site, wanted.namespace()).await?;
        let group =
            if control.in_folder { FOLDER_GROUP.to_owned() } else { namespace_group(wanted.namespace()) };
        let changed = place(&control, wanted, &group).await.map_err(|error| {
            Failure::Rejected(format!("the TenantCluster and its MachinePools cannot be made: {error}"))
        })?;
        let cluster: Value = control
            .site
            .get(&CLUSTERS, &wanted.key())
            .await
            .map_err(|error| Failure::Refused(format!("the TenantCluster cannot be read: {error}")))?;
        let uid = cluster["metadata"]["uid"].as_str().unwrap_or_default();
        folder.write_metadata(&Metadata::of(&wanted.cluster, uid))?;
        folder.write_terraform(&wanted.cluster, &wanted.pools())?;
        folder.write_manifests(&wanted.estate)?;
        for name in changed {
            let message = format!(
                "{name} is there and says something else than the manifests; it stays as it is (`trellis plan` says \
                 what a change would do)"
            );
            teller.say("note", &message, json!({}))?;
        }
        let place = if control.in_folder { "the folder" } else { "the infra cluster" };
        let message = format!(
            "growing {} in namespace {}; its objects are in {place}",
            wanted.cluster.name,
            wanted.namespace()
        );
        teller.say("begin", &message, json!({"namespace": wanted.namespace(), "control": place}))?;
        let reserved = cluster["metadata"]["annotations"][RESERVED].as_str();
        let is_ours = !control.is_others && (control.in_folder || reserved == Some(group.as_str()));
        let engine = is_ours.then(|| {
            let identity = if control.in_folder {
                // The folder is this process's alone, so it is the same one again.
                "folder".to_owned()
            } else {
                crate::commands::controller::identity()
            };
            Engine::start(Work {
                control: &control.site,
                namespace: wanted.namespace(),
                cluster: wanted.cluster.name.as_str(),
                group,
                identity,
                infra: control.in_folder.then_some(access),
                growing,
            })
        });
        let grown = self.grown(folder, wanted, &control, end, teller).await;
        if let Some(engine) = engine {
            engine.end().await;
        }
        grown?;
        if !control.in_folder {
            // From now on it is everybody's who looks after TenantClusters there.
            let free = json!({"metadata": {"annotations": {RESERVED: null}}});
            let freed = control.site.merge_patch::<Value>(&CLUSTERS, &wanted.key(), &free).await;
            freed.map_err(|error| Failure::Refused(error.to_string()))?;
        }
        farewell(folder, wanted, control.in_folder, teller)?;
        Ok(Exit::Success)
    }

    async fn grown(
        &self,
        folder: &Folder,
        wanted: &Wanted,
        control: &Control,
        end: tokio::time::Instant,
        teller: &mut Teller,
    ) -> Result<(), Failure> {
        if wanted.is_grown() {
            follow::follow(&control.site, &wanted.key(), Goal::Bootstrap, end, teller).await?;
            keep_kubeconfig(folder, &control.site, &wanted.key()).await?;
        }
        follow::follow(&control.site, &wanted.key(), Goal::Install, end, teller).await
    }
}

/// The one cluster of an estate, with everything in the namespace of its machines.
fn wanted(mut estate: Estate) -> Result<Wanted, Failure> {
    let mut cluster = match estate.clusters.as_slice() {
        [one] => one.clone(),
        [] => return Err(Failure::Usage("these manifests describe no cluster".to_owned())),
        many => {
            let names: Vec<String> = many.iter().map(|cluster| cluster.name.to_string()).collect();
            return Err(Failure::Usage(format!(
                "these manifests describe {} clusters ({}), and each has a folder of its own",
                many.len(),
                names.join(", ")
            )));
        }
    };
    let wrong = |error: trellis_model::names::InvalidName| Failure::Usage(error.to_string());
    let namespace = NamespaceName::new(cluster.infra_namespace()).map_err(wrong)?;
    cluster.namespace = Some(namespace.clone());
    estate.pools.retain(|pool| pool.spec.cluster == cluster.name);
    for pool in &mut estate.pools {
        pool.namespace = Some(namespace.clone());
    }
    estate.clusters = vec![cluster.clone()];
    Ok(Wanted { cluster, estate })
}

/// The group of the replicas that look after the TenantClusters of a namespace: that of `trellis controller --namespace`.
pub(crate) fn namespace_group(namespace: &str) -> String {
    crate::commands::controller::bounded_group(&format!("trellis-fleet-{namespace}"))
}

/// Makes the namespace of a cluster, if it is not there.
async fn make_namespace(infra: &Connected, name: &str) -> Result<(), Failure> {
    match infra.site.find::<Value>(&NAMESPACES, &Key::cluster(name)).await {
        // Whoever may not look at namespaces works in one that is there.
        Ok(Some(_)) | Err(Error::Forbidden(_)) => return Ok(()),
        Ok(None) => {}
        Err(error) => return Err(infra.explain(error, Asked::new(Verb::Get, &NAMESPACES, "", name))),
    }
    match infra.site.create::<Value>(&NAMESPACES, "", &json!({"metadata": {"name": name}})).await {
        Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
        Err(Error::Forbidden(_)) => Err(Failure::Forbidden(format!(
            "there is no namespace {name}, and you may not make one: ask an admin for it, with the roles of `trellis rbac \
             --site install --namespace {name}`"
        ))),
        Err(error) => Err(infra.explain(error, Asked::new(Verb::Create, &NAMESPACES, "", name))),
    }
}

/// Makes the TenantCluster and its MachinePools where they are not there. Gives those that are there and differ.
async fn place(control: &Control, wanted: &Wanted, group: &str) -> Result<Vec<String>, Error> {
    control.namespace(wanted.namespace()).await?;
    let mut differ = Vec::new();
    for mut document in trellis_dialects::trellis::write(&wanted.estate) {
        let is_cluster = document["kind"] == "TenantCluster";
        let resource = if is_cluster { CLUSTERS } else { POOLS };
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if is_cluster && !control.in_folder {
            document["metadata"]["annotations"] = json!({RESERVED: group});
        }
        match control.site.create::<Value>(&resource, wanted.namespace(), &document).await {
            Ok(_) => {}
            Err(Error::AlreadyExists(_)) => {
                let there: Value = control.site.get(&resource, &Key::new(wanted.namespace(), &name)).await?;
                if there["spec"] != document["spec"] {
                    differ.push(format!("{} {name}", resource.kind));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(differ)
}

/// Writes the kubeconfig of the tenant into the folder.
pub(crate) async fn keep_kubeconfig(folder: &Folder, control: &Site, key: &Key) -> Result<(), Failure> {
    let secret = Key::new(key.namespace(), &format!("{}-kubeconfig", key.name()));
    let found: Value = control
        .get(&SECRETS, &secret)
        .await
        .map_err(|error| Failure::Refused(format!("the kubeconfig of the tenant cannot be read: {error}")))?;
    let text = found["data"]["value"].as_str().and_then(|data| STANDARD.decode(data).ok());
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let unreadable = || Failure::Refused(format!("the Secret {} holds no kubeconfig", secret.name()));
    folder.write("auth/kubeconfig", &text.ok_or_else(unreadable)?)
}

fn farewell(folder: &Folder, wanted: &Wanted, in_folder: bool, teller: &mut Teller) -> Result<(), Failure> {
    let kubeconfig = folder.kubeconfig();
    let name = &wanted.cluster.name;
    let message = format!("the cluster {name} is there");
    teller.say("done", &message, json!({"kubeconfig": kubeconfig}))?;
    if teller.is_for_programs() {
        return Ok(());
    }
    let (dir, kubeconfig) = (folder.path().display(), kubeconfig.display());
    let day2 = if in_folder {
        format!("Look after it:     trellis controller --dir {dir}\n")
    } else {
        format!("Its machines:      trellis get machines -n {}\n", wanted.namespace())
    };
    print(&format!(
        "\nIts nodes:         kubectl --kubeconfig {kubeconfig} get nodes\n{day2}Take it away:      trellis destroy cluster --dir {dir}\n"
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_is_for_one_cluster() {
        let said = wanted(Estate::default()).err().unwrap().to_string();
        assert!(said.contains("no cluster"), "{said}");
    }

    #[test]
    fn a_group_is_that_of_the_controllers_of_the_namespace() {
        assert_eq!(namespace_group("blue"), "trellis-fleet-blue");
        assert!(namespace_group(&"a".repeat(63)).len() <= 63);
    }
}
