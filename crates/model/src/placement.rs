//! Where in the infra cluster machines may run, and how they keep apart.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{LabelKey, LabelValue};
use crate::util::is_default;

/// Where machines of a pool may run. What is left out does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// The region of the infra cluster; `default` means hosts without a region label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Locality>,
    /// Zones, over which the machines are shared out equally in this order; `default` means hosts without a zone label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Locality>,
    /// Whether machines of the pool want to be on one host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub together: Preset,
    /// Whether machines of the pool want to be on different hosts.
    #[serde(default = "Preset::soft", skip_serializing_if = "Preset::is_soft")]
    pub apart: Preset,
    /// Hosts that are wanted, by label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted_hosts: Vec<HostRule>,
    /// Hosts that are avoided, by label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoided_hosts: Vec<HostRule>,
    /// How evenly machines of one revision are spread. Left out: over hosts, as far as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Vec<Spread>>,
    /// Labels a host must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_selector: BTreeMap<LabelKey, LabelValue>,
    /// Host taints that are tolerated.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tolerations: BTreeSet<Toleration>,
}

impl Default for Placement {
    /// Anywhere, apart from each other as far as possible.
    fn default() -> Self {
        Self {
            region: None,
            zones: Vec::new(),
            together: Preset::None,
            apart: Preset::Soft,
            wanted_hosts: Vec::new(),
            avoided_hosts: Vec::new(),
            spread: None,
            host_selector: BTreeMap::new(),
            tolerations: BTreeSet::new(),
        }
    }
}

impl Placement {
    /// The spread rules in force: those given, or one machine difference between hosts as far as possible,
    /// unless machines want to be together.
    pub fn effective_spread(&self) -> Vec<Spread> {
        match &self.spread {
            Some(rules) => rules.clone(),
            None if self.together != Preset::None => Vec::new(),
            None => vec![Spread::over_hosts()],
        }
    }

    /// The zone of the machine with that number: zones are dealt out in the given order.
    pub fn zone_of(&self, ordinal: u32) -> Option<&Locality> {
        let zones = u32::try_from(self.zones.len()).ok().filter(|n| *n > 0)?;
        self.zones.get(usize::try_from(ordinal % zones).ok()?)
    }
}

/// A region or a zone; the name `default` stands for hosts that have no such label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Locality(LabelValue);

impl Locality {
    /// The name that stands for the absence of the label.
    pub const ABSENT: &'static str = "default";

    /// That region or zone.
    pub fn new(name: LabelValue) -> Self {
        Self(name)
    }

    /// Its name, unless it stands for the absence of the label.
    pub fn label(&self) -> Option<&LabelValue> {
        (self.0.as_str() != Self::ABSENT).then_some(&self.0)
    }

    /// Its name in manifests.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// How strongly a wish holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Strength {
    /// As far as possible.
    Soft,
    /// Always: without it, the machine waits.
    Hard,
}

/// A preset: no wish, or one of some strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Preset {
    /// No wish.
    #[default]
    None,
    /// As far as possible.
    Soft,
    /// Always: without it, the machine waits.
    Hard,
}

impl Preset {
    /// The default for keeping machines apart.
    pub(crate) fn soft() -> Self {
        Self::Soft
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn is_soft(&self) -> bool {
        *self == Self::Soft
    }

    /// The strength of the wish, if there is one.
    pub fn strength(self) -> Option<Strength> {
        match self {
            Self::None => None,
            Self::Soft => Some(Strength::Soft),
            Self::Hard => Some(Strength::Hard),
        }
    }
}

/// Hosts by a label: one of some values, or any value when none is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostRule {
    /// How strongly it holds.
    pub strength: Strength,
    /// The label's key.
    pub key: LabelKey,
    /// Its values; any value when empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub values: BTreeSet<LabelValue>,
}

/// How evenly machines are spread over the values of a host label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spread {
    /// The host label whose values are the places to spread over.
    pub over: LabelKey,
    /// How many machines more than another a place may have.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub max_skew: u32,
    /// How strongly it holds.
    #[serde(default = "Strength::soft", skip_serializing_if = "Strength::is_soft")]
    pub strength: Strength,
}

impl Strength {
    fn soft() -> Self {
        Self::Soft
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_soft(&self) -> bool {
        *self == Self::Soft
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

/// The label every host carries its own name in.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The label hosts carry their zone in.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The label hosts carry their region in.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";

impl Spread {
    /// One machine difference between hosts, as far as possible: what is in force when nothing is said.
    pub fn over_hosts() -> Self {
        Self { over: LabelKey::trusted(HOSTNAME_LABEL), max_skew: 1, strength: Strength::Soft }
    }
}

/// A taint of a host that is tolerated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// The taint's key; all taints when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<LabelKey>,
    /// The taint's value; any value when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<LabelValue>,
    /// The taint's effect; all effects when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They are not placed there.
    NoSchedule,
    /// They are placed elsewhere if possible.
    PreferNoSchedule,
    /// They are not placed there, and those there are removed.
    NoExecute,
}

impl TaintEffect {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}
