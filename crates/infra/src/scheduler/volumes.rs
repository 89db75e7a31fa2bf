//! Where the volumes of a pod can be used.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::cluster::Cluster;
use super::pod::Pod;
use super::selector::{Labels, NodeSelector};
use crate::object::{Key, Object as _};
use crate::quantity;

/// The annotation by which the scheduler tells where a volume is wanted.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of classes whose volumes are made by hand.
const BY_HAND: &str = "kubernetes.io/no-provisioner";

const WRONG_NODE: &str = "node(s) didn't match PersistentVolume's node affinity";
const NONE_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const LOST: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// What there is of storage.
pub(crate) trait Storage {
    /// A claim.
    fn claim(&self, key: &Key) -> Option<Arc<Value>>;
    /// A volume.
    fn volume(&self, name: &str) -> Option<Arc<Value>>;
    /// All volumes.
    fn volumes(&self) -> Vec<Arc<Value>>;
    /// A class.
    fn class(&self, name: &str) -> Option<Arc<Value>>;
}

/// Where one volume of a pod can be used.
#[derive(Debug, Clone, PartialEq)]
enum Need {
    /// Where the volume is.
    At(NodeSelector),
    /// Nowhere: the volume is lost.
    Lost,
    /// On a node that was chosen before.
    On(String),
    /// In places with any of these sets of labels; anywhere where there are none.
    Topology(Vec<Vec<(String, Vec<String>)>>),
    /// Where one of these volumes is; those without a place are everywhere.
    Existing(Vec<(String, Option<NodeSelector>)>),
}

/// Where the volumes of a pod can be used.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Needs {
    places: Vec<Need>,
    /// The claims that are bound once a node is chosen.
    pub(crate) waiting: Vec<Key>,
    /// Whether another pod has a claim that only one may have.
    pub(crate) taken: bool,
}

impl Needs {
    /// Looks at the claims of a pod; why none can be used anywhere where it is so.
    pub(crate) fn of(pod: &Pod, storage: &dyn Storage, cluster: &Cluster) -> Result<Self, String> {
        let mut claims = Vec::new();
        for claim in &pod.claims {
            let key = Key::new(&pod.key.namespace, &claim.name);
            let name = &claim.name;
            let found = storage.claim(&key);
            let Some(found) = found else {
                return Err(if claim.ephemeral {
                    format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    )
                } else {
                    format!("persistentvolumeclaim \"{name}\" not found")
                });
            };
            if found.text("/status/phase") == "Lost" {
                let volume = found.text("/spec/volumeName");
                return Err(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            if found.is_deleting() {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            claims.push((key, found));
        }
        let mut needs = Self::default();
        for (key, claim) in claims {
            needs.taken |= is_taken(pod, &key, &claim, cluster);
            if is_bound(&claim) {
                needs.places.extend(need_of_bound(&claim, storage));
                continue;
            }
            let class = storage.class(claim.text("/spec/storageClassName"));
            let class = class.filter(|class| {
                class.text("/volumeBindingMode") == "WaitForFirstConsumer"
                    && claim.text("/spec/volumeName").is_empty()
            });
            let Some(class) = class else {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            };
            needs.places.push(need_of_unbound(&claim, &class, storage));
            needs.waiting.push(key);
        }
        Ok(needs)
    }

    /// Why the volumes cannot be used on a node, if they cannot.
    pub(crate) fn misfit(&self, name: &str, labels: &Labels) -> Option<&'static str> {
        self.places.iter().find_map(|need| need.misfit(name, labels))
    }

    /// The volumes made by hand that fit a node, one for each claim that waits for one.
    pub(crate) fn volumes_on(&self, name: &str, labels: &Labels) -> BTreeMap<Key, String> {
        let unbound = self.places.iter().filter(|need| !matches!(need, Need::At(_) | Need::Lost));
        self.waiting
            .iter()
            .zip(unbound)
            .filter_map(|(key, need)| match need {
                Need::Existing(volumes) => {
                    let fitting = volumes
                        .iter()
                        .find(|(_, place)| place.as_ref().is_none_or(|place| place.matches(name, labels)));
                    fitting.map(|(volume, _)| (key.clone(), volume.clone()))
                }
                _ => None,
            })
            .collect()
    }
}

impl Need {
    fn misfit(&self, name: &str, labels: &Labels) -> Option<&'static str> {
        let (fits, reason) = match self {
            Self::At(place) => (place.matches(name, labels), WRONG_NODE),
            Self::Lost => (false, LOST),
            Self::On(node) => (node == name, NONE_TO_BIND),
            Self::Topology(terms) => (
                terms.is_empty()
                    || terms.iter().any(|term| {
                        term.iter()
                            .all(|(key, values)| labels.get(key).is_some_and(|value| values.contains(value)))
                    }),
                NONE_TO_BIND,
            ),
            Self::Existing(volumes) => (
                volumes
                    .iter()
                    .any(|(_, place)| place.as_ref().is_none_or(|place| place.matches(name, labels))),
                NONE_TO_BIND,
            ),
        };
        (!fits).then_some(reason)
    }
}

/// Whether a claim has its volume.
pub(crate) fn is_bound(claim: &Value) -> bool {
    !claim.text("/spec/volumeName").is_empty()
        && (claim.text("/status/phase") == "Bound"
            || claim.annotation("pv.kubernetes.io/bind-completed") == "yes")
}

fn is_taken(pod: &Pod, key: &Key, claim: &Value, cluster: &Cluster) -> bool {
    claim.list("/spec/accessModes").iter().any(|mode| mode == "ReadWriteOncePod")
        && cluster
            .pods_of(&pod.key.namespace)
            .any(|other| other.uid != pod.uid && other.claims.iter().any(|claim| claim.name == key.name))
}

fn need_of_bound(claim: &Value, storage: &dyn Storage) -> Option<Need> {
    let Some(volume) = storage.volume(claim.text("/spec/volumeName")) else { return Some(Need::Lost) };
    NodeSelector::read(volume.at("/spec/nodeAffinity/required")).map(Need::At)
}

fn need_of_unbound(claim: &Value, class: &Value, storage: &dyn Storage) -> Need {
    let chosen = claim.annotation(SELECTED_NODE);
    if !chosen.is_empty() {
        return Need::On(chosen.to_owned());
    }
    if class.text("/provisioner") == BY_HAND {
        let fitting = storage.volumes().into_iter().filter(|volume| can_have(claim, volume));
        let place = |volume: &Value| NodeSelector::read(volume.at("/spec/nodeAffinity/required"));
        return Need::Existing(fitting.map(|volume| (volume.name().to_owned(), place(&volume))).collect());
    }
    let terms = class.list("/allowedTopologies").iter().map(|term| {
        let expressions = term.list("/matchLabelExpressions").iter();
        expressions
            .map(|one| {
                let values = one.list("/values").iter().filter_map(Value::as_str).map(ToOwned::to_owned);
                (one.text("/key").to_owned(), values.collect())
            })
            .collect()
    });
    Need::Topology(terms.collect())
}

/// Whether a claim can have a volume that is there.
fn can_have(claim: &Value, volume: &Value) -> bool {
    let modes = volume.list("/spec/accessModes");
    volume.text("/status/phase") == "Available"
        && volume.at("/spec/claimRef").is_null()
        && volume.text("/spec/storageClassName") == claim.text("/spec/storageClassName")
        && volume.text("/spec/volumeAttributesClassName") == claim.text("/spec/volumeAttributesClassName")
        && volume.text("/spec/volumeMode") == claim.text("/spec/volumeMode")
        && claim.list("/spec/accessModes").iter().all(|mode| modes.contains(mode))
        && quantity::of(volume.at("/spec/capacity/storage"))
            >= quantity::of(claim.at("/spec/resources/requests/storage"))
}
