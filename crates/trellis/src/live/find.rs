//! The kinds of every family, and finding one object by what people call it.

use std::sync::Arc;

use clap::ValueEnum;
use trellis_engine::families::{Family, KKP, OPENSHIFT, Object, TRELLIS};
use trellis_runtime::client::{Error, Verb};
use trellis_runtime::{Resource, Selection};

use super::connect::{Asked, Connected, missing_kind};
use super::words;
use crate::exit::Failure;
use crate::output::remark;

/// Tenant clusters.
pub(crate) const CLUSTERS: Resource =
    Resource::namespaced("trellis.dev", "v1alpha1", "tenantclusters", "TenantCluster");

/// A family by its name on the command line.
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
    /// The family.
    pub(crate) fn family(self) -> &'static Family {
        match self {
            Self::Kkp => &KKP,
            Self::Openshift => &OPENSHIFT,
            Self::Trellis => &TRELLIS,
        }
    }
}

/// What an object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A pool that rolls its machines.
    Pool,
    /// A set of equal machines.
    Set,
    /// A machine.
    Machine,
    /// A tenant cluster.
    Cluster,
}

impl Sort {
    /// Whether it is something that has a number of machines.
    fn has_size(self) -> bool {
        matches!(self, Self::Pool | Self::Set)
    }
}

/// A kind of machine object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kind {
    pub(crate) family: &'static Family,
    pub(crate) sort: Sort,
    pub(crate) resource: Resource,
}

impl Kind {
    /// All kinds of these sorts, of one family or of all.
    pub(crate) fn all(family: Option<FamilyName>, sorts: &[Sort]) -> Vec<Self> {
        let wanted = |other: &&'static Family| family.is_none_or(|name| name.family() == *other);
        let kinds = |family: &'static Family| {
            let of = |sort: Sort| match sort {
                Sort::Pool => family.pool,
                Sort::Set => family.set,
                Sort::Machine => Some(family.machine),
                Sort::Cluster => None,
            };
            let kind = move |sort: &Sort| {
                of(*sort).map(|resource| Self { family, sort: *sort, resource: resource.requested() })
            };
            sorts.iter().filter_map(kind).collect::<Vec<_>>()
        };
        Family::all().into_iter().filter(wanted).flat_map(kinds).collect()
    }

    /// Tenant clusters.
    pub(crate) fn clusters() -> Self {
        Self { family: &TRELLIS, sort: Sort::Cluster, resource: CLUSTERS }
    }

    /// How people name an object of it: `machinedeployment/blue`.
    pub(crate) fn call(&self, name: &str) -> String {
        format!("{}/{name}", self.resource.kind.to_lowercase())
    }
}

/// Which objects of a kind are wanted.
pub(crate) type Wanted = (Kind, Selection);

/// An object of a known kind.
#[derive(Debug, Clone)]
pub(crate) struct Thing {
    pub(crate) kind: Kind,
    pub(crate) object: Arc<Object>,
}

impl Thing {
    /// How people name it.
    pub(crate) fn call(&self) -> String {
        self.kind.call(self.object.metadata.name())
    }

    /// Whether nothing above it decides how many machines it has.
    pub(crate) fn is_own_master(&self) -> bool {
        self.object.metadata.owner.is_none()
    }
}

/// The machine objects there are, as far as they were looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Estate {
    pub(crate) things: Vec<Thing>,
}

impl Estate {
    /// All things of a sort.
    pub(crate) fn of(&self, sort: Sort) -> impl Iterator<Item = &Thing> {
        self.things.iter().filter(move |thing| thing.kind.sort == sort)
    }

    /// The thing with a uid.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Thing> {
        self.things.iter().find(|thing| &*thing.object.metadata.uid == uid)
    }

    /// What controls a thing, if it was looked at.
    pub(crate) fn owner(&self, thing: &Thing) -> Option<&Thing> {
        self.by_uid(&thing.object.metadata.owner.as_ref()?.uid)
    }

    /// What people count as pools: everything that is sized by them.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Thing> {
        self.things.iter().filter(|thing| thing.kind.sort.has_size() && thing.is_own_master())
    }

    /// The machines that a pool or set has, through whatever is between.
    pub(crate) fn machines_of<'a>(&'a self, pool: &'a Thing) -> impl Iterator<Item = &'a Thing> {
        self.of(Sort::Machine).filter(move |machine| {
            let Some(owner) = self.owner(machine) else { return false };
            let top = self.owner(owner).unwrap_or(owner);
            let uid = &pool.object.metadata.uid;
            owner.object.metadata.uid == *uid || top.object.metadata.uid == *uid
        })
    }

    /// The one thing of these that people mean.
    pub(crate) fn pick(&self, reference: &Reference, namespace: &str) -> Result<&Thing, Failure> {
        let in_reach: Vec<&Thing> =
            self.things.iter().filter(|thing| reference.means(&thing.kind, thing.is_own_master())).collect();
        let found: Vec<&Thing> =
            in_reach.iter().copied().filter(|thing| thing.object.metadata.name() == reference.name).collect();
        match found.as_slice() {
            [thing] => Ok(thing),
            [] => {
                let names = in_reach.iter().map(|thing| thing.object.metadata.name());
                Err(Failure::NotFound(format!(
                    "there is no {} {} in namespace {namespace}{}",
                    reference.words(),
                    reference.name,
                    words::did_you_mean(&reference.name, names)
                )))
            }
            several => {
                let names: Vec<String> = several
                    .iter()
                    .map(|thing| format!("{} ({})", thing.call(), thing.kind.family.name))
                    .collect();
                Err(Failure::Usage(format!(
                    "{} may be any of these: {}; name the kind, or --family",
                    reference.name,
                    names.join(", ")
                )))
            }
        }
    }
}

/// An object as people name it: `workers`, `pool/workers`, `machinedeployment/workers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    word: Word,
    pub(crate) name: String,
}

/// What the word before the slash means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Nothing, or `pool`: whatever people size.
    Pool,
    /// MachinePools.
    MachinePool,
    /// MachineDeployments.
    MachineDeployment,
    /// MachineSets, those that belong to a MachineDeployment included.
    MachineSet,
}

const WORDS: &[(&str, Word)] = &[
    ("pool", Word::Pool),
    ("pools", Word::Pool),
    ("machinepool", Word::MachinePool),
    ("machinepools", Word::MachinePool),
    ("tmp", Word::MachinePool),
    ("machinedeployment", Word::MachineDeployment),
    ("machinedeployments", Word::MachineDeployment),
    ("md", Word::MachineDeployment),
    ("machineset", Word::MachineSet),
    ("machinesets", Word::MachineSet),
    ("ms", Word::MachineSet),
];

impl std::str::FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, name) = text.split_once('/').unwrap_or(("pool", text));
        // A group after the kind, as kubectl has it, says nothing that --family does not.
        let word = word.split_once('.').map_or(word, |(word, _)| word).to_lowercase();
        if name.is_empty() || name.contains('/') {
            return Err(format!(
                "{text:?} names no pool; write it like workers or machinedeployment/workers"
            ));
        }
        let known = WORDS.iter().find(|(known, _)| *known == word);
        let Some((_, word)) = known else {
            let close = words::did_you_mean(&word, WORDS.iter().map(|(word, _)| *word));
            return Err(format!("{word:?} is no kind of pool{close}"));
        };
        Ok(Self { word: *word, name: name.to_owned() })
    }
}

impl Reference {
    fn means(&self, kind: &Kind, own_master: bool) -> bool {
        match self.word {
            Word::Pool => kind.sort.has_size() && own_master,
            Word::MachinePool => kind.sort == Sort::Pool && kind.family == &TRELLIS,
            Word::MachineDeployment => kind.sort == Sort::Pool && kind.family == &KKP,
            Word::MachineSet => kind.sort == Sort::Set,
        }
    }

    fn words(&self) -> &'static str {
        match self.word {
            Word::Pool => "pool",
            Word::MachinePool => "machinepool",
            Word::MachineDeployment => "machinedeployment",
            Word::MachineSet => "machineset",
        }
    }
}

impl Connected {
    /// Lists objects of these kinds, and gives the kinds that the server has. One without any of them is told how to
    /// get them.
    pub(crate) async fn list(&self, wanted: &[Wanted]) -> Result<(Vec<Wanted>, Estate), Failure> {
        let mut there = Vec::new();
        let mut estate = Estate::default();
        let mut forbidden: Option<Failure> = None;
        for (kind, selection) in wanted {
            match self.site.list::<Object>(&kind.resource, selection).await {
                Ok(objects) => {
                    there.push((*kind, selection.clone()));
                    let things =
                        objects.into_iter().map(|object| Thing { kind: *kind, object: Arc::new(object) });
                    estate.things.extend(things);
                }
                Err(Error::NotFound(_)) => {}
                Err(error) => {
                    let may_not = matches!(error, Error::Forbidden(_));
                    let asked = Asked::new(Verb::List, &kind.resource, &selection.namespace, "");
                    let failure = self.explain(error, asked);
                    if !may_not {
                        return Err(failure);
                    }
                    // Who looks after machines of one family need not be allowed to see those of the others.
                    forbidden.get_or_insert(failure);
                }
            }
        }
        if let Some(failure) = forbidden {
            if there.is_empty() {
                return Err(failure);
            }
            remark(&format!("not everything is shown: {failure}\n"))?;
        }
        if there.is_empty() {
            let names: Vec<String> = wanted.iter().map(|(kind, _)| kind.resource.label()).collect();
            return Err(Failure::NotFound(missing_kind(&names.join(", "))));
        }
        Ok((there, estate))
    }

    /// Finds the pool that people mean, among all that belongs to pools.
    pub(crate) async fn find_pool(
        &self,
        reference: &Reference,
        family: Option<FamilyName>,
    ) -> Result<(Thing, Vec<Wanted>, Estate), Failure> {
        let here = Selection::namespace(&self.namespace);
        let kinds = Kind::all(family, &[Sort::Pool, Sort::Set, Sort::Machine]);
        let wanted: Vec<Wanted> = kinds.into_iter().map(|kind| (kind, here.clone())).collect();
        let (there, estate) = self.list(&wanted).await?;
        let thing = estate.pick(reference, &self.namespace)?.clone();
        let same = there.into_iter().filter(|(kind, _)| kind.family == thing.kind.family).collect();
        Ok((thing, same, estate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn thing(family: &'static Family, sort: Sort, name: &str, owner: Option<&str>) -> Thing {
        super::super::testing::thing(
            super::super::testing::kind(family, sort),
            name,
            owner,
            json!({}),
            json!({}),
        )
    }

    fn estate() -> Estate {
        Estate {
            things: vec![
                thing(&KKP, Sort::Pool, "blue", None),
                thing(&KKP, Sort::Set, "blue-1", Some("blue")),
                thing(&KKP, Sort::Machine, "blue-1-0", Some("blue-1")),
                thing(&OPENSHIFT, Sort::Set, "red", None),
                thing(&TRELLIS, Sort::Pool, "red", None),
            ],
        }
    }

    fn pick(text: &str) -> Result<String, String> {
        let reference: Reference = text.parse()?;
        estate()
            .pick(&reference, "n")
            .map(|thing| format!("{} {}", thing.kind.family.name, thing.call()))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn plain_names_are_resolved_and_doubtful_ones_listed() {
        assert_eq!(pick("blue").unwrap(), "kkp machinedeployment/blue");
        assert_eq!(pick("md/blue").unwrap(), "kkp machinedeployment/blue");
        assert_eq!(pick("machinedeployments.cluster.k8s.io/blue").unwrap(), "kkp machinedeployment/blue");
        assert_eq!(pick("machineset/blue-1").unwrap(), "kkp machineset/blue-1");
        assert_eq!(pick("MachineSet/red").unwrap(), "openshift machineset/red");
        let doubtful = pick("red").unwrap_err();
        assert!(doubtful.contains("machineset/red (openshift), machinepool/red (trellis)"), "{doubtful}");
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is_close() {
        assert_eq!(pick("bleu").unwrap_err(), "there is no pool bleu in namespace n; did you mean blue?");
        assert!(
            pick("blue-1").unwrap_err().contains("there is no pool blue-1"),
            "a set of a pool is no pool"
        );
        for (text, part) in
            [("", "names no pool"), ("a/b/c", "names no pool"), ("machinesets/", "names no pool")]
        {
            assert!(text.parse::<Reference>().unwrap_err().contains(part), "{text}");
        }
        assert!("machinepol/x".parse::<Reference>().unwrap_err().contains("did you mean machinepool"));
    }

    #[test]
    fn machines_belong_to_pools_through_sets() {
        let estate = estate();
        let names = |at: usize| {
            let pool = &estate.things[at];
            estate
                .machines_of(pool)
                .map(|machine| machine.object.metadata.name().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["blue-1-0"]);
        assert_eq!(names(1), ["blue-1-0"]);
        assert!(names(3).is_empty());
    }
}
