//! The survey before a cluster is made: what is asked, what can be chosen from, and whether an answer is one.
//!
//! Everything here is a function of the answers so far and of what is known of the infra cluster. Whoever asks, on a
//! terminal or by flags, gets the same questions and the same refusals.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use trellis_model::access::SshKey;
use trellis_model::flavor::catalogue;
use trellis_model::image::ImageSource;
use trellis_model::names::{ClusterName, DomainName, FlavorName, NamespaceName};
use trellis_model::network::Cidr;
use trellis_model::quantity::Bytes;

/// The domain below which the Services of the infra cluster are.
const SERVICES_DOMAIN: &str = "svc.cluster.local";
/// The network of those who have none of their own.
pub const POD_NETWORK: &str = "pod";

/// A question of the survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Who may log in to the machines.
    SshKey,
    /// The namespace of the infra cluster.
    Namespace,
    /// The storage class of the machines' disks.
    StorageClass,
    /// The network the machines are on.
    Network,
    /// The range of addresses of that network.
    MachineNetwork,
    /// Where the API answers there.
    ApiVip,
    /// Where ingress answers there.
    IngressVip,
    /// The name of the cluster.
    Name,
    /// The domain below which its names live.
    BaseDomain,
    /// How many masters there are.
    Masters,
    /// How large a master is.
    MasterSize,
    /// How many workers there are.
    Workers,
    /// How large a worker is.
    WorkerSize,
    /// The addresses of the tenant's pods.
    PodNetwork,
    /// The addresses of the tenant's Services.
    ServiceNetwork,
    /// The image the machines boot from.
    Image,
}

impl Question {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 16] = [
        Self::SshKey,
        Self::Namespace,
        Self::StorageClass,
        Self::Network,
        Self::MachineNetwork,
        Self::ApiVip,
        Self::IngressVip,
        Self::Name,
        Self::BaseDomain,
        Self::Masters,
        Self::MasterSize,
        Self::Workers,
        Self::WorkerSize,
        Self::PodNetwork,
        Self::ServiceNetwork,
        Self::Image,
    ];

    /// The flag that answers it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::SshKey => "--ssh-key",
            Self::Namespace => "--namespace",
            Self::StorageClass => "--storage-class",
            Self::Network => "--network",
            Self::MachineNetwork => "--machine-network",
            Self::ApiVip => "--api-vip",
            Self::IngressVip => "--ingress-vip",
            Self::Name => "--name",
            Self::BaseDomain => "--base-domain",
            Self::Masters => "--masters",
            Self::MasterSize => "--master-size",
            Self::Workers => "--workers",
            Self::WorkerSize => "--worker-size",
            Self::PodNetwork => "--pod-network",
            Self::ServiceNetwork => "--service-network",
            Self::Image => "--image",
        }
    }

    /// What a person is asked.
    pub fn words(self) -> &'static str {
        match self {
            Self::SshKey => "SSH public key that may log in to the machines (empty for none)",
            Self::Namespace => "Namespace of the infra cluster (a new name makes one, where you may)",
            Self::StorageClass => "Storage class of the machines' disks",
            Self::Network => "Network of the machines: `pod`, or a network attachment definition",
            Self::MachineNetwork => "Address range of that network",
            Self::ApiVip => "Free address on it for the API",
            Self::IngressVip => "Free address on it for ingress",
            Self::Name => "Name of the cluster",
            Self::BaseDomain => "Base domain",
            Self::Masters => "How many masters (1, 3 or 5)",
            Self::MasterSize => "Size of a master: a flavor, or CPUs,memory,disk such as 4,16Gi,120Gi",
            Self::Workers => "How many workers",
            Self::WorkerSize => "Size of a worker: a flavor, or CPUs,memory,disk such as 4,16Gi,120Gi",
            Self::PodNetwork => "Address range of the tenant's pods",
            Self::ServiceNetwork => "Address range of the tenant's Services",
            Self::Image => "Image the machines boot from: https://… or docker://…",
        }
    }

    /// Whether it is a question at all after the answers so far.
    pub fn is_asked(self, answers: &Answers) -> bool {
        match self {
            Self::MachineNetwork | Self::ApiVip | Self::IngressVip => {
                answers.get(Self::Network).is_some_and(|network| network != POD_NETWORK)
            }
            _ => true,
        }
    }

    /// What is taken where nothing is said.
    pub fn default(self, answers: &Answers, known: &Known) -> Option<String> {
        let text = match self {
            Self::SshKey => "",
            Self::StorageClass => {
                let classes = known.classes.as_ref()?;
                return classes.iter().find(|class| class.default).map(|class| class.name.clone());
            }
            Self::Network => POD_NETWORK,
            Self::Name => return answers.get(Self::Namespace).map(str::to_owned),
            Self::BaseDomain if answers.get(Self::Network) == Some(POD_NETWORK) => SERVICES_DOMAIN,
            Self::Masters => "3",
            Self::Workers => "2",
            Self::MasterSize | Self::WorkerSize => "4,16Gi,120Gi",
            Self::PodNetwork => "10.128.0.0/14",
            Self::ServiceNetwork => "172.30.0.0/16",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// What can be chosen from, each with what there is to say of it; nothing where anything may be written.
    pub fn choices(self, known: &Known) -> Vec<(String, String)> {
        match self {
            Self::Namespace => {
                known.namespaces.iter().flatten().map(|name| (name.clone(), String::new())).collect()
            }
            Self::StorageClass => known
                .classes
                .iter()
                .flatten()
                .map(|class| (class.name.clone(), class.abilities.clone()))
                .collect(),
            Self::Network => {
                let own = known.networks.iter().flatten().map(|name| (name.clone(), String::new()));
                std::iter::once((POD_NETWORK.to_owned(), "the pod network of the infra cluster".to_owned()))
                    .chain(own)
                    .collect()
            }
            Self::MasterSize | Self::WorkerSize => catalogue()
                .keys()
                .filter_map(|name| {
                    let (cpus, memory) = flavor(name.as_str())?;
                    Some((name.to_string(), format!("{cpus} CPUs, {memory}")))
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Why an answer is none; nothing where it is one.
    pub fn problem(self, answer: &str, answers: &Answers, known: &Known) -> Option<String> {
        match self {
            Self::SshKey if answer.is_empty() => None,
            Self::SshKey => SshKey::new(answer).err().map(|error| error.to_string()),
            Self::Namespace => namespace_problem(answer, known),
            Self::StorageClass => {
                let names = known.classes.as_ref()?.iter().map(|class| class.name.as_str());
                one_of(answer, names, "storage class")
            }
            Self::Network if answer == POD_NETWORK => None,
            Self::Network => {
                let names = known.networks.as_ref()?.iter().map(String::as_str);
                one_of(answer, names, "network attachment definition in the namespace")
            }
            Self::MachineNetwork => range(answer).err(),
            Self::ApiVip | Self::IngressVip => self.address_problem(answer, answers, known),
            Self::Name => ClusterName::new(answer).err().map(|error| error.to_string()).or_else(|| {
                let taken = known.clusters.iter().any(|name| name == answer);
                taken.then(|| format!("there is a cluster {answer} in the namespace already"))
            }),
            Self::BaseDomain => domain_problem(answer, answers),
            Self::Masters => match answer {
                "1" | "3" | "5" => None,
                _ => Some(
                    "a control plane has 1, 3 or 5 masters: an even number survives no more failures"
                        .to_owned(),
                ),
            },
            Self::Workers => match answer.parse::<u32>() {
                Ok(count) if count <= 1000 => None,
                _ => Some("it is a number from 0 to 1000".to_owned()),
            },
            Self::MasterSize | Self::WorkerSize => size(answer).err(),
            Self::PodNetwork | Self::ServiceNetwork => self.range_problem(answer, answers, known),
            Self::Image => ImageSource::at(answer)
                .is_none()
                .then(|| "an image begins with http://, https://, docker:// or oci-archive://".to_owned()),
        }
    }

    fn address_problem(self, answer: &str, answers: &Answers, known: &Known) -> Option<String> {
        let Ok(address) = answer.parse::<IpAddr>() else { return Some("it is no address".to_owned()) };
        if let Some(network) = answers.get(Self::MachineNetwork).and_then(|text| range(text).ok())
            && !network.contains(address)
        {
            return Some(format!("it is not inside {network}"));
        }
        if self == Self::IngressVip && answers.get(Self::ApiVip) == Some(answer) {
            return Some("it is the address of the API; each has its own".to_owned());
        }
        let by = known.taken.get(&address)?;
        Some(format!("it is taken by {by}"))
    }

    fn range_problem(self, answer: &str, answers: &Answers, known: &Known) -> Option<String> {
        let own = match range(answer) {
            Ok(own) => own,
            Err(problem) => return Some(problem),
        };
        if let Some((other, whose)) = known.ranges.iter().find(|(other, _)| own.overlaps(*other)) {
            return Some(format!("it overlaps {other}, {whose} of the infra cluster"));
        }
        let others = [Self::PodNetwork, Self::ServiceNetwork, Self::MachineNetwork];
        others.into_iter().filter(|other| *other != self).find_map(|other| {
            let there = range(answers.get(other)?).ok()?;
            own.overlaps(there).then(|| format!("it overlaps {there}, which {} says", other.flag()))
        })
    }
}

fn one_of<'a>(answer: &str, mut names: impl Iterator<Item = &'a str> + Clone, what: &str) -> Option<String> {
    if names.clone().any(|name| name == answer) {
        return None;
    }
    let all: Vec<&str> = names.by_ref().collect();
    let there =
        if all.is_empty() { "there is none".to_owned() } else { format!("there are {}", all.join(", ")) };
    Some(format!("{answer:?} is no {what}; {there}"))
}

fn namespace_problem(answer: &str, known: &Known) -> Option<String> {
    if let Err(error) = NamespaceName::new(answer) {
        return Some(error.to_string());
    }
    let names = known.namespaces.as_ref()?;
    let is_there = names.iter().any(|name| name == answer);
    (!is_there && !known.may_make_namespaces)
        .then(|| format!("there is no namespace {answer}, and you may not make one; ask an admin for it"))
}

fn domain_problem(answer: &str, answers: &Answers) -> Option<String> {
    if let Err(error) = DomainName::new(answer) {
        return Some(error.to_string());
    }
    let elsewhere = answers.get(Question::Name) != answers.get(Question::Namespace);
    (answer == SERVICES_DOMAIN && elsewhere).then(|| {
        format!("below {SERVICES_DOMAIN} names are those of Services: the cluster has to be called like its namespace")
    })
}

fn range(text: &str) -> Result<Cidr, String> {
    text.parse().map_err(|_| format!("{text:?} is no range of addresses; write it like 10.0.0.0/16"))
}

/// How many CPUs and how much memory a flavor of the catalogue has.
fn flavor(name: &str) -> Option<(u32, Bytes)> {
    let flavor = catalogue().remove(&FlavorName::new(name).ok()?)?;
    Some((flavor.compute.cpu.guest_cpus()?, flavor.compute.memory.guest_bytes()?))
}

/// CPUs, memory and disk of an answer: a flavor, or written out.
fn size(answer: &str) -> Result<(u32, String, String), String> {
    const DISK: &str = "120Gi";
    if let Some((cpus, memory)) = flavor(answer) {
        return Ok((cpus, memory.to_string(), DISK.to_owned()));
    }
    let parts: Vec<&str> = answer.split(',').map(str::trim).collect();
    let (cpus, memory, disk) = match parts.as_slice() {
        [cpus, memory] => (*cpus, *memory, DISK),
        [cpus, memory, disk] => (*cpus, *memory, *disk),
        _ => return Err(format!("{answer:?} is no flavor, and no size such as 4,16Gi,120Gi")),
    };
    let cpus = cpus.parse::<u32>().ok().filter(|cpus| (1..=256).contains(cpus));
    let cpus = cpus.ok_or_else(|| "a machine has 1 to 256 CPUs".to_owned())?;
    for amount in [memory, disk] {
        amount.parse::<Bytes>().map_err(|_| format!("{amount:?} is no amount; write it like 16Gi"))?;
    }
    Ok((cpus, memory.to_owned(), disk.to_owned()))
}

/// The answers so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers(BTreeMap<Question, String>);

impl Answers {
    /// What was answered.
    pub fn get(&self, question: Question) -> Option<&str> {
        self.0.get(&question).map(String::as_str)
    }

    /// Answers a question.
    pub fn set(&mut self, question: Question, answer: &str) {
        self.0.insert(question, answer.trim().to_owned());
    }

    /// Everything that is wrong with the answers, and every question without one: what a person is told who cannot be
    /// asked. What is left to a default is filled in.
    pub fn settle(&mut self, known: &Known) -> Vec<String> {
        let mut problems = Vec::new();
        for question in Question::ALL {
            if !question.is_asked(self) {
                if self.get(question).is_some() {
                    problems.push(format!("{}: machines on the pod network have none", question.flag()));
                }
                continue;
            }
            let answer = self.get(question).map(str::to_owned).or_else(|| question.default(self, known));
            let Some(answer) = answer else {
                problems.push(format!("{}: it is missing. {}", question.flag(), question.words()));
                continue;
            };
            if let Some(problem) = question.problem(&answer, self, known) {
                problems.push(format!("{} {answer}: {problem}", question.flag()));
            }
            self.set(question, &answer);
        }
        problems
    }

    /// The install-config they come to.
    pub fn install_config(&self) -> Value {
        let text = |question| self.get(question).unwrap_or_default();
        let count = |question| text(question).parse::<u32>().unwrap_or_default();
        let machines = |question| {
            let (cpu, memory, storage) = size(text(question)).unwrap_or_default();
            json!({"kubevirt": {"cpu": cpu, "memory": memory, "storageSize": storage}})
        };
        let mut platform =
            json!({"namespace": text(Question::Namespace), "storageClass": text(Question::StorageClass)});
        let mut networking = json!({
            "clusterNetwork": [{"cidr": text(Question::PodNetwork), "hostPrefix": 23}],
            "serviceNetwork": [text(Question::ServiceNetwork)],
        });
        if text(Question::Network) != POD_NETWORK {
            platform["networkName"] = text(Question::Network).into();
            platform["apiVIP"] = text(Question::ApiVip).into();
            platform["ingressVIP"] = text(Question::IngressVip).into();
            networking["machineNetwork"] = json!([{"cidr": text(Question::MachineNetwork)}]);
        }
        let mut config = json!({
            "apiVersion": "v1",
            "metadata": {"name": text(Question::Name)},
            "baseDomain": text(Question::BaseDomain),
            "controlPlane": {"name": "master", "replicas": count(Question::Masters), "platform": machines(Question::MasterSize)},
            "compute": [{"name": "worker", "replicas": count(Question::Workers), "platform": machines(Question::WorkerSize)}],
            "platform": {"kubevirt": platform},
            "networking": networking,
        });
        if !text(Question::SshKey).is_empty() {
            config["sshKey"] = text(Question::SshKey).into();
        }
        config
    }
}

/// What is known of the infra cluster. What may not be looked at is nothing, and then any answer that could be right is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Its namespaces.
    pub namespaces: Option<Vec<String>>,
    /// Whether the person may make new ones.
    pub may_make_namespaces: bool,
    /// Its storage classes.
    pub classes: Option<Vec<ClassKnown>>,
    /// The network attachment definitions of the namespace that was chosen.
    pub networks: Option<Vec<String>>,
    /// The clusters that are in that namespace already.
    pub clusters: Vec<String>,
    /// The ranges of addresses it uses itself, and what for.
    pub ranges: Vec<(Cidr, String)>,
    /// Addresses that are taken, and by whom.
    pub taken: BTreeMap<IpAddr, String>,
}

/// A storage class, and what it can do in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassKnown {
    /// Its name.
    pub name: String,
    /// Whether it is taken where nothing is said.
    pub default: bool,
    /// What it can do.
    pub abilities: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let class =
            |name: &str, default| ClassKnown { name: name.to_owned(), default, abilities: "RWX".to_owned() };
        Known {
            namespaces: Some(vec!["blue".to_owned()]),
            classes: Some(vec![class("slow", false), class("fast", true)]),
            networks: Some(vec!["vlan".to_owned()]),
            clusters: vec!["old".to_owned()],
            ranges: vec![("10.96.0.0/12".parse().unwrap(), "the Services".to_owned())],
            taken: BTreeMap::from([("192.168.1.9".parse().unwrap(), "VirtualMachineInstance x".to_owned())]),
            may_make_namespaces: false,
        }
    }

    fn answers(all: &[(Question, &str)]) -> Answers {
        let mut answers = Answers::default();
        for (question, answer) in all {
            answers.set(*question, answer);
        }
        answers
    }

    #[test]
    fn who_cannot_be_asked_is_told_everything_at_once() {
        let mut none = Answers::default();
        let problems = none.settle(&known()).join("\n");
        for flag in ["--namespace: it is missing", "--name: it is missing", "--image: it is missing"] {
            assert!(problems.contains(flag), "{flag} is not in {problems}");
        }
        assert!(!problems.contains("--api-vip"), "nobody needs one on the pod network: {problems}");
        assert_eq!(none.get(Question::StorageClass), Some("fast"), "the default is taken");
    }

    #[test]
    fn answers_are_held_against_the_cluster_and_each_other() {
        use Question::*;
        let mut wrong = answers(&[
            (Namespace, "green"),
            (StorageClass, "fst"),
            (Network, "vlan"),
            (MachineNetwork, "192.168.1.0/24"),
            (ApiVip, "192.168.1.9"),
            (IngressVip, "10.0.0.1"),
            (Name, "old"),
            (BaseDomain, "svc.cluster.local"),
            (Masters, "2"),
            (WorkerSize, "huge"),
            (PodNetwork, "10.100.0.0/16"),
            (ServiceNetwork, "192.168.0.0/16"),
            (Image, "ftp://x"),
        ]);
        let problems = wrong.settle(&known());
        let parts = [
            "--namespace green: there is no namespace green",
            "--storage-class fst: \"fst\" is no storage class; there are slow, fast",
            "--api-vip 192.168.1.9: it is taken by VirtualMachineInstance x",
            "--ingress-vip 10.0.0.1: it is not inside 192.168.1.0/24",
            "--name old: there is a cluster old",
            "--base-domain svc.cluster.local: below svc.cluster.local",
            "--masters 2:",
            "--worker-size huge:",
            "--pod-network 10.100.0.0/16: it overlaps 10.96.0.0/12, the Services of the infra cluster",
            "--service-network 192.168.0.0/16: it overlaps 192.168.1.0/24, which --machine-network says",
            "--image ftp://x:",
        ];
        assert_eq!(problems.len(), parts.len(), "{problems:#?}");
        for (problem, part) in problems.iter().zip(parts) {
            assert!(problem.starts_with(part), "{problem:?} does not begin with {part:?}");
        }
    }

    #[test]
    fn what_may_not_be_looked_at_is_taken_as_it_is_said() {
        let mut blind = answers(&[
            (Question::Namespace, "blue"),
            (Question::StorageClass, "any"),
            (Question::Network, "any"),
            (Question::MachineNetwork, "192.168.1.0/24"),
            (Question::ApiVip, "192.168.1.2"),
            (Question::IngressVip, "192.168.1.3"),
            (Question::BaseDomain, "example.com"),
            (Question::Image, "https://images.example.com/rhcos.qcow2"),
        ]);
        assert_eq!(blind.settle(&Known::default()), Vec::<String>::new());
        let config = blind.install_config();
        assert_eq!(config["platform"]["kubevirt"]["networkName"], "any");
        assert_eq!(config["networking"]["machineNetwork"][0]["cidr"], "192.168.1.0/24");
        assert_eq!((&config["metadata"]["name"], &config["sshKey"]), (&json!("blue"), &Value::Null));
    }

    #[test]
    fn a_size_is_a_flavor_or_written_out() {
        assert_eq!(size("2,4Gi").unwrap(), (2, "4Gi".to_owned(), "120Gi".to_owned()));
        assert_eq!(size("2, 4Gi, 30Gi").unwrap().2, "30Gi");
        assert!(size("0,4Gi").is_err() && size("2,x").is_err() && size("x").is_err());
        let (name, said) = Question::WorkerSize.choices(&known()).into_iter().next().unwrap();
        assert!(size(&name).is_ok() && said.contains("CPUs"), "{name}: {said}");
    }
}
