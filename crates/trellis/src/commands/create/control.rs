//! Where the machine objects of a cluster live while it is made and looked after.
//!
//! Either the infra cluster serves our kinds and the person may write them, or an API server of our own holds them in
//! the folder of the installation. Then nothing has to be installed in the infra cluster.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};
use trellis_engine::controllers::fleet::CLUSTERS;
use trellis_lab::{Claim, Lab as Server, LabError, Options, auth};
use trellis_runtime::client::{Error, Manners, Request, Verb};
use trellis_runtime::credentials::Source;
use trellis_runtime::{Key, Resource, Selection, Site};

use super::folder::Folder;
use crate::exit::Failure;

const DEFINITIONS: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const POOLS: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
/// How long a kind that was defined a moment ago may take to be served.
const SERVED: Duration = Duration::from_secs(30);
/// How often it is asked for until then.
const MOMENT: Duration = Duration::from_millis(20);

/// Where machine objects are to live, as somebody wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControlName {
    /// In the infra cluster, where it serves our kinds and you may write them; else in the folder
    Auto,
    /// In the infra cluster
    Infra,
    /// In an API server of our own, in the folder
    Folder,
}

/// Where the machine objects of a cluster live.
pub(crate) struct Control {
    /// The API server.
    pub(crate) site: Site,
    /// Whether it is that of the folder, and not the infra cluster.
    pub(crate) in_folder: bool,
    /// Whether another process has the folder, and looks after what is in it.
    pub(crate) is_others: bool,
    _server: Option<Box<(Server, Claim)>>,
}

/// Whether machine objects can live in the infra cluster: nothing, or why they cannot.
async fn obstacle(infra: &Site, namespace: &str) -> Result<Option<&'static str>, Error> {
    match infra.list::<Value>(&CLUSTERS, &Selection::namespace(namespace)).await {
        Ok(_) => {}
        Err(Error::NotFound(_)) => return Ok(Some("the infra cluster does not serve TenantClusters")),
        Err(Error::Forbidden(_)) => return Ok(Some("you may not look at TenantClusters there")),
        Err(error) => return Err(error),
    }
    let needed = [
        (Verb::Create, &CLUSTERS, ""),
        (Verb::Patch, &CLUSTERS, ""),
        (Verb::Patch, &CLUSTERS, "status"),
        (Verb::Create, &POOLS, ""),
        (Verb::Create, &LEASES, ""),
    ];
    for (verb, resource, subresource) in needed {
        if !infra.may(&Request::new(verb, resource, subresource), namespace).await? {
            return Ok(Some("you may not write TenantClusters, MachinePools and Leases there"));
        }
    }
    Ok(None)
}

impl Control {
    /// Opens the place that is wished for, or the one that was chosen when the folder was first used.
    pub(crate) async fn open(
        wish: ControlName,
        folder: &Folder,
        infra: &Site,
        namespace: &str,
    ) -> Result<Self, Failure> {
        let chosen_before = folder.control().join("kubeconfig").exists();
        match wish {
            ControlName::Folder => return Self::in_folder(folder).await,
            ControlName::Auto if chosen_before => return Self::in_folder(folder).await,
            ControlName::Auto | ControlName::Infra => {}
        }
        let obstacle = obstacle(infra, namespace).await;
        match obstacle.map_err(|error| Failure::Refused(error.to_string()))? {
            None => Ok(Self { site: infra.clone(), in_folder: false, is_others: false, _server: None }),
            Some(why) if wish == ControlName::Infra => Err(Failure::Rejected(format!(
                "--control infra: {why}; leave the flag out, and the folder holds them"
            ))),
            Some(_) => Self::in_folder(folder).await,
        }
    }

    /// Opens the API server of a folder: starts it, or connects to it where another process runs it.
    pub(crate) async fn in_folder(folder: &Folder) -> Result<Self, Failure> {
        let home = folder.control();
        let kubeconfig = home.join("kubeconfig");
        let failed =
            |error: LabError| Failure::Refused(format!("the folder's API server cannot start: {error}"));
        let claim = match trellis_lab::claim_folder(&home) {
            Ok(claim) => claim,
            Err(LabError::InUse(_)) => {
                let site = connect(kubeconfig).await?;
                return Ok(Self { site, in_folder: true, is_others: true, _server: None });
            }
            Err(error) => return Err(failed(error)),
        };
        let options = Options { folder: Some(home.clone()), ..Options::default() };
        let mut server = Server::start(options).await.map_err(failed)?;
        let port = home.join("port");
        let last = std::fs::read_to_string(&port).ok().and_then(|text| text.trim().parse().ok());
        let listening = match last {
            // Clients know the server by its address.
            Some(last) => match server.listen(last).await {
                Ok(listening) => listening,
                Err(_) => server.listen(0).await.map_err(failed)?,
            },
            None => server.listen(0).await.map_err(failed)?,
        };
        std::fs::write(&port, listening.address.port().to_string())?;
        auth::write_secret_file(&kubeconfig, &listening.kubeconfig)
            .map_err(|error| Failure::Refused(error.to_string()))?;
        let site = connect(kubeconfig).await?;
        install(&site)
            .await
            .map_err(|error| Failure::Refused(format!("our kinds cannot be installed: {error}")))?;
        Ok(Self { site, in_folder: true, is_others: false, _server: Some(Box::new((server, claim))) })
    }

    /// Takes a folder, so that nobody else works with it meanwhile; nothing where somebody does.
    pub(crate) fn claimed(folder: &Folder) -> Option<Claim> {
        trellis_lab::claim_folder(&folder.control()).ok()
    }

    /// Makes a namespace, where it is the folder's.
    pub(crate) async fn namespace(&self, name: &str) -> Result<(), Error> {
        if !self.in_folder {
            return Ok(());
        }
        match self.site.create::<Value>(&NAMESPACES, "", &json!({"metadata": {"name": name}})).await {
            Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn connect(path: PathBuf) -> Result<Site, Failure> {
    let source = Source::File { path, context: None };
    let connected = source.connect("control", Manners::default()).await;
    Ok(connected.map_err(|error| Failure::Unreachable(error.to_string()))?.site)
}

/// Defines our kinds, as this version of the program has them, and waits until they are served.
async fn install(site: &Site) -> Result<(), Error> {
    for crd in trellis_api::trellis::crds() {
        let value = serde_json::to_value(&crd).unwrap_or_default();
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        site.apply::<Value>(&DEFINITIONS, &Key::cluster(&name), &value, true).await?;
    }
    let until = Instant::now() + SERVED;
    for kind in [CLUSTERS, POOLS] {
        loop {
            match site.list::<Value>(&kind, &Selection::default()).await {
                Err(Error::NotFound(_)) if Instant::now() < until => tokio::time::sleep(MOMENT).await,
                other => break drop(other?),
            }
        }
    }
    Ok(())
}
