//! What is drained: a Node, the Node of a Machine in its tenant, or a host.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use trellis_engine::families::Object;
use trellis_runtime::client::{Error, Verb};
use trellis_runtime::credentials::{Keeper, Source};
use trellis_runtime::{Key, Resource, Selection};

use super::NODE;
use crate::exit::Failure;
use crate::live::connect::Asked;
use crate::live::find::{CLUSTERS, FamilyName, Wanted};
use crate::live::machines::{self, Machine};
use crate::live::{Connected, Kind, Sort, Where, words};

const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// The fields of a Secret that may hold a kubeconfig.
const FIELDS: [&str; 2] = ["kubeconfig", "value"];

/// What is meant.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// A Node, or a Machine: NAME, node/NAME or machine/NAME.
    #[arg(value_name = "NODE", required_unless_present = "host")]
    name: Option<String>,
    /// A host of the infra cluster instead, whose VMs leave it.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "tenant_kubeconfig"])]
    host: Option<String>,
    /// The kubeconfig of the tenant the Node is in. Without it the one in the Secret of the Machine's TenantCluster, or for
    /// a Node the cluster --kubeconfig leads to.
    #[arg(long, value_name = "FILE")]
    tenant_kubeconfig: Option<PathBuf>,
}

/// A Node in its cluster.
#[derive(Debug)]
pub(super) struct On {
    pub(super) connected: Connected,
    pub(super) node: String,
    pub(super) is_host: bool,
    /// The Machine it is, where one was named.
    pub(super) machine: Option<String>,
}

impl On {
    /// How people name it.
    pub(super) fn call(&self) -> String {
        match &self.machine {
            Some(machine) if *machine != self.node => format!("node/{} of machine/{machine}", self.node),
            _ if self.is_host => format!("host/{}", self.node),
            _ => format!("node/{}", self.node),
        }
    }
}

impl Target {
    /// Finds the Node that is meant, and connects to its cluster.
    pub(super) async fn find(&self, place: &Where, family: Option<FamilyName>) -> Result<On, Failure> {
        if let Some(host) = &self.host {
            let connected = place.connect().await?;
            return Ok(On { connected, node: host.clone(), is_host: true, machine: None });
        }
        let text = self.name.as_deref().unwrap_or_default();
        let (word, name) = text.split_once('/').map_or((None, text), |(word, name)| (Some(word), name));
        if name.is_empty() || name.contains('/') {
            return Err(Failure::Usage(format!(
                "{text:?} names no Node; write it like node/NAME or machine/NAME"
            )));
        }
        match word {
            Some("node" | "nodes" | "no") => self.node(place, name).await,
            Some("machine" | "machines" | "ma") => self.machine(place, name, family).await,
            Some(other) => Err(Failure::Usage(format!(
                "{other:?} cannot be drained; name a node/NAME, a machine/NAME or a --host"
            ))),
            None => self.either(place, name, family).await,
        }
    }

    /// A Node of the cluster that was named.
    async fn node(&self, place: &Where, name: &str) -> Result<On, Failure> {
        let connected = match &self.tenant_kubeconfig {
            Some(file) => tenant_of_file(file).await?,
            None => place.connect().await?,
        };
        let found = connected.site.find::<Value>(&NODE, &Key::cluster(name)).await;
        let found =
            found.map_err(|error| connected.explain(error, Asked::new(Verb::Get, &NODE, "", name)))?;
        if found.is_none() {
            let all = connected.site.list::<Object>(&NODE, &Selection::default()).await.unwrap_or_default();
            let close = words::did_you_mean(name, all.iter().map(|node| node.metadata.name()));
            return Err(Failure::NotFound(format!("there is no Node {name}{close}")));
        }
        Ok(On { connected, node: name.to_owned(), is_host: false, machine: None })
    }

    /// A Node where there is one, else a Machine.
    async fn either(&self, place: &Where, name: &str, family: Option<FamilyName>) -> Result<On, Failure> {
        match self.node(place, name).await {
            Err(Failure::NotFound(no_node)) => match self.machine(place, name, family).await {
                Err(Failure::NotFound(no_machine)) => {
                    Err(Failure::NotFound(format!("{no_node}, and {no_machine}")))
                }
                other => other,
            },
            // Whoever may not look at Nodes may still know the Machine.
            Err(Failure::Forbidden(forbidden)) => match self.machine(place, name, family).await {
                Err(Failure::NotFound(_)) => Err(Failure::Forbidden(forbidden)),
                other => other,
            },
            other => other,
        }
    }

    /// The Node of a Machine, in its tenant.
    async fn machine(&self, place: &Where, name: &str, family: Option<FamilyName>) -> Result<On, Failure> {
        let control = place.connect().await?;
        let here = Selection::namespace(&control.namespace);
        let wanted: Vec<Wanted> =
            Kind::all(family, &[Sort::Machine]).into_iter().map(|kind| (kind, here.clone())).collect();
        let (_, estate) = control.list(&wanted).await?;
        let all = machines::machines(&estate, None);
        let found: Vec<&Machine> = all.iter().filter(|machine| machine.name == name).collect();
        let machine = match found.as_slice() {
            [machine] => *machine,
            [] => {
                let close = words::did_you_mean(name, all.iter().map(|machine| machine.name.as_str()));
                return Err(Failure::NotFound(format!(
                    "there is no Machine {name} in namespace {}{close}",
                    control.namespace
                )));
            }
            several => {
                let families: Vec<&str> = several.iter().map(|machine| machine.family).collect();
                return Err(Failure::Usage(format!(
                    "several families have a Machine {name}: {}; say which with --family",
                    families.join(", ")
                )));
            }
        };
        let Some(node) = machine.node.clone() else {
            return Err(Failure::NotFound(format!(
                "machine/{name} has no Node: it is {}{}",
                machine.phase,
                if machine.message.is_empty() { String::new() } else { format!(" ({})", machine.message) }
            )));
        };
        let connected = match &self.tenant_kubeconfig {
            Some(file) => tenant_of_file(file).await?,
            None => tenant_of_record(&control, machine).await?,
        };
        Ok(On { connected, node, is_host: false, machine: Some(name.to_owned()) })
    }
}

async fn tenant_of_file(file: &std::path::Path) -> Result<Connected, Failure> {
    let place = Where { kubeconfig: Some(file.to_owned()), context: None, namespace: None };
    place.connect().await
}

/// The tenant of a Machine, by the kubeconfig its TenantCluster names.
async fn tenant_of_record(control: &Connected, machine: &Machine) -> Result<Connected, Failure> {
    let unknown = |why: &str| {
        Failure::Usage(format!(
            "where the Node of machine/{} is, is not known: {why}; name the tenant's kubeconfig with --tenant-kubeconfig",
            machine.name
        ))
    };
    if machine.cluster.is_empty() {
        return Err(unknown("the Machine names no cluster"));
    }
    let key = Key::new(&machine.namespace, &machine.cluster);
    let cluster = match control.site.find::<Object>(&CLUSTERS, &key).await {
        Ok(Some(cluster)) => cluster,
        Ok(None) | Err(Error::NotFound(_)) => {
            return Err(unknown(&format!("there is no TenantCluster {}", machine.cluster)));
        }
        Err(error) => {
            let asked = Asked::new(Verb::Get, &CLUSTERS, key.namespace(), key.name());
            return Err(control.explain(error, asked));
        }
    };
    let status = cluster.status_json();
    // An installer says where it is; otherwise it is where the controllers look for it.
    let secret = status.get("kubeconfigSecret").and_then(Value::as_str).map(str::to_owned);
    let key = key.beside(&secret.unwrap_or_else(|| format!("{}-kubeconfig", machine.cluster)));
    control.require(Asked::new(Verb::Get, &SECRET, key.namespace(), key.name())).await?;
    let source = Source::Kept {
        site: control.site.clone(),
        keeper: Keeper::Secret,
        key: key.clone(),
        fields: FIELDS.map(str::to_owned).into(),
        context: None,
    };
    if let Ok(followed) = source.connect("tenant", trellis_runtime::client::Manners::default()).await {
        let place = format!("the tenant {} (Secret {key})", machine.cluster);
        return Ok(Connected::over(followed.site, place));
    }
    Err(unknown(&format!("the Secret {key} holds no kubeconfig that can be used")))
}
