//! `trellis gather`.

mod archive;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_engine::controllers::fleet::CLUSTERS;
use trellis_engine::install::privacy::{redact, scrub};
use trellis_engine::install::teardown::{Kind, Scope};
use trellis_runtime::client::{Error, Manners};
use trellis_runtime::credentials::Source;
use trellis_runtime::{Resource, Selection, Site};

use super::create::cluster::InfraFlags;
use super::create::control::Control;
use super::create::folder::Folder;
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, plural, print, print_json};
use archive::Archive;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
const MIGRATIONS: Resource = Resource::namespaced(
    "kubevirt.io",
    "v1",
    "virtualmachineinstancemigrations",
    "VirtualMachineInstanceMigration",
);
const MACHINE_POOLS: Resource =
    Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
const MACHINES: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machines", "Machine");
/// What is looked at in the tenant.
const OF_TENANT: [Resource; 8] = [
    Resource::cluster("", "v1", "nodes", "Node"),
    Resource::cluster("", "v1", "namespaces", "Namespace"),
    Resource::cluster("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest"),
    PODS,
    EVENTS,
    Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet"),
    Resource::namespaced("apps", "v1", "deployments", "Deployment"),
    Resource::namespaced("", "v1", "services", "Service"),
];
/// How much of the end of a log is kept.
const LOG_BYTES: u32 = 1024 * 1024;

/// Collect what shows how a tenant cluster is, in one archive without secrets.
///
/// From the infra cluster: virtual machines, what runs of them, volumes, pods, Services, Events, and the logs of the pods,
/// with the consoles of the machines where KubeVirt keeps them. From wherever the machine objects are: those. From the
/// tenant: its Nodes, pods and Events. Values of Secrets, user data, keys and tokens are taken out before anything is
/// written. What could not be had is said, and is no failure.
#[derive(Debug, Args)]
pub(crate) struct Gather {
    /// The folder of the installation; the archive is written there.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "cluster_id")]
    dir: PathBuf,
    /// The cluster by the value of its label `trellis.dev/cluster`, where there is no folder. The archive is written to
    /// the present one.
    #[arg(long, value_name = "ID", requires = "namespace")]
    cluster_id: Option<String>,
    /// The namespace of its machines, where there is no folder.
    #[arg(long, short, value_name = "NAME", requires = "cluster_id")]
    namespace: Option<String>,
    #[command(flatten)]
    infra: InfraFlags,
}

/// What is collected, and what could not be had.
struct Collection {
    archive: Archive<File>,
    files: usize,
    missing: Vec<String>,
}

impl Gather {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        super::logs::begin_quietly();
        crate::live::run(self.gather(output))
    }

    async fn gather(self, output: Output) -> Result<Exit, Failure> {
        let (id, namespace, folder) = if let (Some(id), Some(namespace)) = (&self.cluster_id, &self.namespace)
        {
            (id.clone(), namespace.clone(), None)
        } else {
            let folder = Folder::at(&self.dir);
            let metadata = folder.needed_metadata()?;
            (metadata.infra_id, metadata.kubevirt.namespace, Some(folder))
        };
        let (infra, _) = self.infra.connect().await?;
        let now = Timestamp::now();
        let name = format!("gather-{id}-{}", now.strftime("%Y%m%d%H%M%S"));
        let home = folder.as_ref().map_or(std::path::Path::new("."), Folder::path);
        let path = home.join(format!("{name}.tar.gz"));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        let made = u64::try_from(now.as_second()).unwrap_or_default();
        let archive = Archive::new(file, &name, made);
        let mut all = Collection { archive, files: 0, missing: Vec::new() };
        all.infra(&infra.site, &namespace, &id).await?;
        match &folder {
            Some(folder) if folder.control().exists() => match Control::in_folder(folder).await {
                Ok(control) => all.control(&control.site, &namespace, &id).await?,
                Err(failure) => all.missing.push(format!("control: {failure}")),
            },
            _ => all.control(&infra.site, &namespace, &id).await?,
        }
        match folder.as_ref().map(Folder::kubeconfig).filter(|path| path.exists()) {
            Some(kubeconfig) => all.tenant(kubeconfig).await?,
            None => all.missing.push("tenant: there is no kubeconfig of it in the folder".to_owned()),
        }
        let missing = all.missing.join("\n") + "\n";
        all.add("missing.txt", missing.as_bytes())?;
        all.archive.end()?.sync_all()?;
        match output.format {
            Format::Json => {
                print_json(&json!({"archive": path, "files": all.files, "missing": all.missing}))?;
            }
            Format::Human => {
                for one in &all.missing {
                    print(&format!("not there: {one}"))?;
                }
                print(&format!("{} in {}", plural(all.files, "file"), path.display()))?;
            }
        }
        Ok(Exit::Success)
    }
}

impl Collection {
    fn add(&mut self, name: &str, content: &[u8]) -> Result<(), Failure> {
        self.archive.add(name, content)?;
        self.files += 1;
        Ok(())
    }

    /// Adds the objects of a kind, without their secrets; nothing where there are none.
    fn objects(&mut self, part: &str, resource: &Resource, objects: &[Value]) -> Result<(), Failure> {
        if objects.is_empty() {
            return Ok(());
        }
        let api_version = match resource.group {
            "" => resource.version.to_owned(),
            group => format!("{group}/{}", resource.version),
        };
        let clean = |object: &Value| {
            // Items of lists do not say what they are.
            let mut object = object.clone();
            object["apiVersion"] = api_version.clone().into();
            object["kind"] = resource.kind.into();
            redact(&object)
        };
        let clean: Vec<Value> = objects.iter().map(clean).collect();
        self.add(&format!("{part}/{}.yaml", resource.plural), to_yaml_documents(&clean).as_bytes())
    }

    /// The objects of a kind; none, and a note, where they cannot be had.
    async fn list(
        &mut self,
        part: &str,
        site: &Site,
        resource: &Resource,
        selection: &Selection,
    ) -> Vec<Value> {
        match site.list(resource, selection).await {
            Ok(objects) => objects,
            Err(Error::NotFound(_)) => Vec::new(),
            Err(error) => {
                self.missing.push(format!("{part}: {}: {error}", resource.plural));
                Vec::new()
            }
        }
    }

    async fn infra(&mut self, site: &Site, namespace: &str, id: &str) -> Result<(), Failure> {
        let scope = Scope::Cluster(id.to_owned());
        let of_cluster = Selection::namespace(namespace).labels(&scope.selector());
        let kinds = scope.kinds().into_iter();
        let mut resources: Vec<Resource> = kinds
            .filter(|kind| !matches!(kind, Kind::Pool | Kind::Machine | Kind::Kept | Kind::Record))
            .map(Kind::resource)
            .collect();
        resources.extend([MIGRATIONS, PODS]);
        let mut names = BTreeSet::new();
        let mut pods = Vec::new();
        for resource in &resources {
            let objects = self.list("infra", site, resource, &of_cluster).await;
            names
                .extend(objects.iter().filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned)));
            self.objects("infra", resource, &objects)?;
            if *resource == PODS {
                pods = objects;
            }
        }
        let mut events = self.list("infra", site, &EVENTS, &Selection::namespace(namespace)).await;
        events.retain(|event| {
            event["involvedObject"]["name"].as_str().is_some_and(|name| names.contains(name))
        });
        self.objects("infra", &EVENTS, &events)?;
        for pod in &pods {
            self.logs(site, namespace, pod).await?;
        }
        Ok(())
    }

    /// The logs of the containers of a pod; the one called `guest-console-log` is the console of a machine.
    async fn logs(&mut self, site: &Site, namespace: &str, pod: &Value) -> Result<(), Failure> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let containers = containers.chain(pod["spec"]["initContainers"].as_array().into_iter().flatten());
        for container in containers.filter_map(|container| container["name"].as_str()) {
            let path = format!(
                "/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}&limitBytes={LOG_BYTES}"
            );
            let asked = http::Request::get(path).body(Vec::new());
            let Ok(request) = asked else { continue };
            match site.client().request_text(request).await {
                Ok(text) if text.is_empty() => {}
                Ok(text) => {
                    self.add(&format!("infra/logs/{name}/{container}.log"), scrub(&text).as_bytes())?;
                }
                // The error may quote what it was sent.
                Err(_) => self.missing.push(format!("infra: the log of container {container} of pod {name}")),
            }
        }
        Ok(())
    }

    async fn control(&mut self, site: &Site, namespace: &str, id: &str) -> Result<(), Failure> {
        let here = Selection::namespace(namespace);
        let mut clusters = self.list("control", site, &CLUSTERS, &here).await;
        clusters.retain(|one| one["metadata"]["name"] == id);
        self.objects("control", &CLUSTERS, &clusters)?;
        for resource in [MACHINE_POOLS, MACHINES] {
            let mut objects = self.list("control", site, &resource, &here).await;
            objects.retain(|one| one["spec"]["cluster"] == id);
            self.objects("control", &resource, &objects)?;
        }
        Ok(())
    }

    async fn tenant(&mut self, kubeconfig: PathBuf) -> Result<(), Failure> {
        let source = Source::File { path: kubeconfig, context: None };
        let site = match source.connect("tenant", Manners::default()).await {
            Ok(connected) => connected.site,
            Err(error) => {
                self.missing.push(format!("tenant: {error}"));
                return Ok(());
            }
        };
        for resource in OF_TENANT {
            let objects = self.list("tenant", &site, &resource, &Selection::default()).await;
            self.objects("tenant", &resource, &objects)?;
        }
        Ok(())
    }
}
