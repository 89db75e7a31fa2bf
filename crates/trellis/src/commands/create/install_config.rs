//! `trellis create install-config`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_engine::controllers::fleet::CLUSTERS;
use trellis_engine::install::survey::{Answers, ClassKnown, Known, Question};
use trellis_engine::preflight::{Class, Ground, ground};
use trellis_runtime::client::{Request, Verb};
use trellis_runtime::{Resource, Selection, Site};

use super::cluster::InfraFlags;
use super::folder::{Folder, INSTALL_CONFIG};
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json, remark};

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const ATTACHMENTS: Resource = Resource::namespaced(
    "k8s.cni.cncf.io",
    "v1",
    "network-attachment-definitions",
    "NetworkAttachmentDefinition",
);
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const INSTANCES: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance");

/// Write an install-config: ask for everything on a terminal, or take it from flags.
///
/// Every answer is held against the infra cluster at once, with the list to choose from. Where nobody can be asked, every
/// flag that is missing or wrong is told at once, and nothing is written.
#[derive(Debug, Args)]
pub(crate) struct CreateInstallConfig {
    /// The folder of the installation.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write over an install-config that is there.
    #[arg(long)]
    overwrite: bool,
    /// The public key that may log in to the machines: the key itself, or the file it is in.
    #[arg(long, value_name = "KEY")]
    ssh_key: Option<String>,
    /// The namespace of the infra cluster.
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The storage class of the machines' disks.
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// The network of the machines: `pod`, or a network attachment definition of the namespace.
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// The address range of that network.
    #[arg(long, value_name = "CIDR")]
    machine_network: Option<String>,
    /// The address on it where the API answers.
    #[arg(long, value_name = "ADDRESS")]
    api_vip: Option<String>,
    /// The address on it where ingress answers.
    #[arg(long, value_name = "ADDRESS")]
    ingress_vip: Option<String>,
    /// The name of the cluster; that of the namespace when left out.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The domain below which the cluster's names live.
    #[arg(long, value_name = "DOMAIN")]
    base_domain: Option<String>,
    /// How many masters: 1, 3 or 5.
    #[arg(long, value_name = "COUNT")]
    masters: Option<String>,
    /// The size of a master: a flavor, or CPUs,memory,disk such as 4,16Gi,120Gi.
    #[arg(long, value_name = "SIZE")]
    master_size: Option<String>,
    /// How many workers.
    #[arg(long, value_name = "COUNT")]
    workers: Option<String>,
    /// The size of a worker, likewise.
    #[arg(long, value_name = "SIZE")]
    worker_size: Option<String>,
    /// The address range of the tenant's pods.
    #[arg(long, value_name = "CIDR")]
    pod_network: Option<String>,
    /// The address range of the tenant's Services.
    #[arg(long, value_name = "CIDR")]
    service_network: Option<String>,
    /// The image the machines boot from. An install-config has no place for it: the command to go on with names it.
    #[arg(long, value_name = "URL")]
    image: Option<String>,
    #[command(flatten)]
    infra: InfraFlags,
}

impl CreateInstallConfig {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        crate::commands::logs::begin_quietly();
        crate::live::run(self.survey(output))
    }

    async fn survey(self, output: Output) -> Result<Exit, Failure> {
        let folder = Folder::at(&self.dir);
        let path = folder.path().join(INSTALL_CONFIG);
        if path.exists() && !self.overwrite {
            return Err(Failure::Rejected(format!(
                "{} is there; give --overwrite to write a new one",
                path.display()
            )));
        }
        let (infra, _) = self.infra.connect().await?;
        let mut answers = self.answers()?;
        let facts = ground(&infra.site).await;
        if let Some(why) = facts.server.why_not() {
            return Err(Failure::Unreachable(format!("the infra cluster does not answer: {why}")));
        }
        let mut known = known(&infra.site, &facts).await;
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        for question in Question::ALL {
            if asks && question.is_asked(&answers) {
                ask(question, &mut answers, &known)?;
            }
            if question == Question::Namespace
                && let Some(namespace) = answers.get(question)
            {
                look_into(&infra.site, namespace, &mut known).await;
            }
        }
        let problems = answers.settle(&known);
        if !problems.is_empty() {
            return Err(Failure::Usage(format!(
                "the answers are not complete:\n  {}",
                problems.join("\n  ")
            )));
        }
        folder.write(INSTALL_CONFIG, &to_yaml_documents(&[answers.install_config()]))?;
        let image = answers.get(Question::Image).unwrap_or_default();
        let next = format!("trellis create cluster --dir {} --image {image}", self.dir.display());
        match output.format {
            Format::Json => print_json(&json!({"written": path, "next": next}))?,
            Format::Human => print(&format!("{}\nGo on with: {next}", path.display()))?,
        }
        Ok(Exit::Success)
    }

    /// What the flags say.
    fn answers(&self) -> Result<Answers, Failure> {
        let mut answers = Answers::default();
        let given = [
            (Question::Namespace, &self.namespace),
            (Question::StorageClass, &self.storage_class),
            (Question::Network, &self.network),
            (Question::MachineNetwork, &self.machine_network),
            (Question::ApiVip, &self.api_vip),
            (Question::IngressVip, &self.ingress_vip),
            (Question::Name, &self.name),
            (Question::BaseDomain, &self.base_domain),
            (Question::Masters, &self.masters),
            (Question::MasterSize, &self.master_size),
            (Question::Workers, &self.workers),
            (Question::WorkerSize, &self.worker_size),
            (Question::PodNetwork, &self.pod_network),
            (Question::ServiceNetwork, &self.service_network),
            (Question::Image, &self.image),
        ];
        for (question, answer) in given {
            if let Some(answer) = answer {
                answers.set(question, answer);
            }
        }
        if let Some(key) = &self.ssh_key {
            answers.set(Question::SshKey, &key_text(key)?);
        }
        Ok(answers)
    }
}

/// A key, or what is in the file of that name.
fn key_text(key: &str) -> Result<String, Failure> {
    let path = PathBuf::from(key);
    if !path.is_file() {
        return Ok(key.to_owned());
    }
    std::fs::read_to_string(&path)
        .map_err(|error| Failure::Read { name: path.display().to_string(), why: error.to_string() })
}

/// Asks a question on the terminal until the answer is one. What a flag has answered rightly is not asked.
fn ask(question: Question, answers: &mut Answers, known: &Known) -> Result<(), Failure> {
    if let Some(given) = answers.get(question).map(str::to_owned) {
        match question.problem(&given, answers, known) {
            None => return Ok(()),
            Some(problem) => remark(&format!("{} {given}: {problem}\n", question.flag()))?,
        }
    }
    let choices = question.choices(known);
    for (number, (name, said)) in choices.iter().enumerate() {
        remark(&format!("  {:2}) {name}  {said}\n", number + 1))?;
    }
    let default = question.default(answers, known);
    loop {
        let hint = default.as_ref().map(|text| format!(" [{text}]")).unwrap_or_default();
        remark(&format!("{}{hint}: ", question.words()))?;
        std::io::stderr().flush()?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Err(Failure::Interrupted("nothing was written".to_owned()));
        }
        let line = line.trim();
        let picked = line.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
        let answer = match (picked, line, &default) {
            (Some((name, _)), _, _) => name.clone(),
            (None, "", Some(default)) => default.clone(),
            (None, line, _) if question == Question::SshKey => key_text(line)?.trim().to_owned(),
            (None, line, _) => line.to_owned(),
        };
        match question.problem(&answer, answers, known) {
            None => {
                answers.set(question, &answer);
                return Ok(());
            }
            Some(problem) => remark(&format!("  {problem}\n"))?,
        }
    }
}

/// What is known of an infra cluster before a namespace is chosen.
async fn known(site: &Site, facts: &Ground) -> Known {
    let namespaces = site.list::<Value>(&NAMESPACES, &Selection::default()).await.ok();
    let names = |objects: Vec<Value>| {
        let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
        objects.iter().filter_map(name).collect::<Vec<_>>()
    };
    let class = |class: &Class| ClassKnown {
        name: class.name.clone(),
        default: class.default_for_machines || class.default,
        abilities: abilities(class),
    };
    let services = facts.service_ranges.known().into_iter().flatten();
    let mut ranges: Vec<_> = services.map(|range| (*range, "the Services".to_owned())).collect();
    let hosts = facts.hosts.known().into_iter().flatten();
    ranges.extend(hosts.flat_map(|host| host.pods.iter().map(|range| (*range, "the pods".to_owned()))));
    Known {
        namespaces: namespaces.map(names),
        may_make_namespaces: site
            .may(&Request::new(Verb::Create, &NAMESPACES, ""), "")
            .await
            .unwrap_or(false),
        classes: facts.classes.known().map(|classes| classes.iter().map(class).collect()),
        ranges,
        ..Known::default()
    }
}

/// What a storage class can do, in words.
fn abilities(class: &Class) -> String {
    let mut parts = Vec::new();
    if let Some(profile) = class.profile.known() {
        parts.extend(profile.modes.iter().map(|(access, volume)| format!("{access} {volume}")));
        if !profile.clones.is_empty() {
            parts.push(format!("clones by {}", profile.clones));
        }
    }
    if class.grows {
        parts.push("volumes can grow".to_owned());
    }
    parts.join(", ")
}

/// Learns what is in the namespace that was chosen.
async fn look_into(site: &Site, namespace: &str, known: &mut Known) {
    let here = Selection::namespace(namespace);
    let ours = here.clone().labels("app.kubernetes.io/managed-by=trellis");
    let (networks, records, clusters, instances) = tokio::join!(
        site.list::<Value>(&ATTACHMENTS, &here),
        site.list::<Value>(&SECRETS, &ours),
        site.list::<Value>(&CLUSTERS, &here),
        site.list::<Value>(&INSTANCES, &here),
    );
    let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
    known.networks = networks.ok().map(|all| all.iter().filter_map(name).collect());
    let records = records.unwrap_or_default();
    let of_record = records.iter().filter(|secret| secret["type"] == "trellis.dev/record");
    known.clusters = of_record
        .filter_map(|secret| secret["metadata"]["labels"]["trellis.dev/cluster"].as_str().map(str::to_owned))
        .chain(clusters.unwrap_or_default().iter().filter_map(name))
        .collect();
    known.taken = taken(&instances.unwrap_or_default());
}

/// The addresses that machines of the namespace have.
fn taken(instances: &[Value]) -> BTreeMap<IpAddr, String> {
    let mut taken = BTreeMap::new();
    for instance in instances {
        let name = instance["metadata"]["name"].as_str().unwrap_or_default();
        for interface in instance["status"]["interfaces"].as_array().into_iter().flatten() {
            let addresses = interface["ipAddresses"].as_array().into_iter().flatten();
            for address in addresses.filter_map(|text| text.as_str()?.parse().ok()) {
                taken.insert(address, format!("VirtualMachineInstance {name}"));
            }
        }
    }
    taken
}
