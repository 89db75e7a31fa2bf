//! What was asked of the infra cluster, and what it said, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use trellis_model::network::Cidr;
use trellis_runtime::client::{self, Error, Request};

use super::image::ImageFacts;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked<T> {
    /// The answer.
    Known(T),
    /// There is no such thing.
    Absent,
    /// The user may not look.
    NotAllowed,
    /// Asking failed, and why.
    Failed(String),
}

impl<T> Asked<T> {
    /// What a request came to.
    pub fn of(answer: client::Result<T>) -> Self {
        match answer {
            Ok(known) => Self::Known(known),
            Err(Error::NotFound(_)) => Self::Absent,
            Err(Error::Forbidden(_) | Error::Unauthorized) => Self::NotAllowed,
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// The answer, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            _ => None,
        }
    }

    /// The same with another answer.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Asked<U> {
        match self {
            Self::Known(known) => Asked::Known(change(known)),
            Self::Absent => Asked::Absent,
            Self::NotAllowed => Asked::NotAllowed,
            Self::Failed(why) => Asked::Failed(why),
        }
    }

    /// Why there is no answer, in words; nothing where there is one.
    pub fn why_not(&self) -> Option<String> {
        match self {
            Self::Known(_) => None,
            Self::Absent => Some("there is none".to_owned()),
            Self::NotAllowed => Some("not allowed to look".to_owned()),
            Self::Failed(why) => Some(why.clone()),
        }
    }
}

/// A request somebody must be allowed to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The request.
    pub request: Request,
    /// Whether nothing can be made without it; else something is only not known.
    pub needed: bool,
}

/// Which rights the user has: all that were asked about.
pub type Rights = Vec<(Right, Asked<bool>)>;

/// An installed operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Installation {
    /// Its version, as it says it.
    pub version: String,
    /// Where its installation is: `Deployed` when it works.
    pub phase: String,
    /// Feature gates that were switched on, and off.
    pub enabled_gates: BTreeSet<String>,
    /// Feature gates that were switched off.
    pub disabled_gates: BTreeSet<String>,
}

/// A class of storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// It is taken where nothing is said.
    pub default: bool,
    /// It is taken for machines where nothing is said.
    pub default_for_machines: bool,
    /// Volumes wait for their first consumer.
    pub waits_for_consumer: bool,
    /// Volumes can grow.
    pub grows: bool,
    /// What CDI knows of it: pairs of access mode and volume mode, the best first, and how it clones.
    pub profile: Asked<Profile>,
}

/// What CDI knows of a class of storage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Pairs of access mode and volume mode it can have, the best first.
    pub modes: Vec<(String, String)>,
    /// How volumes are cloned.
    pub clones: String,
}

/// A network of the infra cluster that machines are attached to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attachment {
    /// The kind of its plugin.
    pub plugin: String,
    /// Its MTU, where it says one.
    pub mtu: Option<u64>,
    /// The range it gives addresses from, where it does.
    pub range: Option<Cidr>,
}

/// A host of the infra cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Machines can be put there: it is ready, takes pods, and KubeVirt runs there.
    pub usable: bool,
    /// Millicores and bytes it can give.
    pub allocatable: (u64, u64),
    /// Millicores and bytes that pods there have asked for; nothing where that is not known.
    pub requested: Option<(u64, u64)>,
    /// The addresses of its pods.
    pub pods: Vec<Cidr>,
}

/// A quota of the namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// For each thing it limits: how much there may be and how much there is, in thousandths.
    pub limits: BTreeMap<String, (u128, u128)>,
}

/// An address that is taken, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The address.
    pub address: IpAddr,
    /// Who has it.
    pub by: String,
}

/// What can be known of an infra cluster before anything of a cluster is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The version of its API server.
    pub server: Asked<String>,
    /// Classes of storage.
    pub classes: Asked<Vec<Class>>,
    /// Hosts.
    pub hosts: Asked<Vec<Host>>,
    /// The addresses of Services.
    pub service_ranges: Asked<Vec<Cidr>>,
}

/// Everything that was asked of the infra cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The version of its API server.
    pub server: Asked<String>,
    /// Who asks.
    pub user: Asked<String>,
    /// Whether the namespace is there; false while it is being deleted.
    pub namespace: Asked<bool>,
    /// What the user may do there.
    pub rights: Rights,
    /// Groups that the server knows.
    pub groups: Asked<BTreeSet<String>>,
    /// KubeVirt.
    pub kubevirt: Asked<Installation>,
    /// CDI.
    pub cdi: Asked<Installation>,
    /// Classes of storage.
    pub classes: Asked<Vec<Class>>,
    /// The networks machines are attached to, by namespace and name.
    pub attachments: BTreeMap<(String, String), Asked<Attachment>>,
    /// Hosts.
    pub hosts: Asked<Vec<Host>>,
    /// The addresses of Services.
    pub service_ranges: Asked<Vec<Cidr>>,
    /// Addresses that are taken, as far as they can be seen.
    pub taken: Asked<Vec<Taken>>,
    /// Quotas of the namespace.
    pub quotas: Asked<Vec<Quota>>,
    /// Images, by their URL.
    pub images: BTreeMap<String, ImageFacts>,
}
