//! Where machines may run, and how they keep apart.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm, PodAntiAffinity, PreferredSchedulingTerm, Toleration, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use trellis_model::names::LabelValue;
use trellis_model::placement::{
    self, HOSTNAME_LABEL, HostRule, Locality, Placement, Preset, REGION_LABEL, Spread, Strength, ZONE_LABEL,
};
use trellis_model::pool::Role;

use crate::compute::PAGE_MERGING_HOSTS;
use crate::labels::{self, Labels};
use crate::machine::Machine;

/// The weight of a wish between machines.
const MACHINE_WISH: i32 = 100;
/// The weight of a wish about hosts.
const HOST_WISH: i32 = 1;

/// Labels the host must have.
pub(crate) fn node_selector(machine: &Machine<'_>) -> Labels {
    let wished = &machine.template().placement.host_selector;
    let mut selector: Labels =
        wished.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    if machine.resolved.compute().is_some_and(|compute| compute.memory.page_merging) {
        selector.extend(labels::owned([PAGE_MERGING_HOSTS]));
    }
    selector
}

/// Host taints that do not matter.
pub(crate) fn tolerations(machine: &Machine<'_>) -> Vec<Toleration> {
    let toleration = |wished: &placement::Toleration| Toleration {
        key: wished.key.as_ref().map(ToString::to_string),
        operator: Some(if wished.value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: wished.value.as_ref().map(ToString::to_string),
        effect: wished.effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: None,
    };
    machine.template().placement.tolerations.iter().map(toleration).collect()
}

/// How evenly machines of one revision are spread. Old revisions do not count: they are about to go.
pub(crate) fn spread(machine: &Machine<'_>) -> Vec<TopologySpreadConstraint> {
    let constraint = |rule: &Spread| TopologySpreadConstraint {
        topology_key: rule.over.to_string(),
        max_skew: i32::try_from(rule.max_skew).unwrap_or(i32::MAX),
        when_unsatisfiable: match rule.strength {
            Strength::Soft => "ScheduleAnyway",
            Strength::Hard => "DoNotSchedule",
        }
        .to_owned(),
        label_selector: Some(labels::selector(select_pool(machine))),
        match_label_keys: Some(vec![labels::REVISION.to_owned()]),
        ..TopologySpreadConstraint::default()
    };
    machine.template().placement.effective_spread().iter().map(constraint).collect()
}

fn select_pool(machine: &Machine<'_>) -> Labels {
    labels::owned([
        (labels::CLUSTER, machine.cluster.name.as_str()),
        (labels::POOL, machine.pool.name.as_str()),
    ])
}

/// Affinity to hosts and to other machines.
pub(crate) fn affinity(machine: &Machine<'_>) -> Option<Affinity> {
    let placement = &machine.template().placement;
    let affinity = Affinity {
        node_affinity: host_affinity(placement, machine.identity.zone.as_ref()),
        pod_affinity: machine_terms(machine, placement.together).map(|(required, preferred)| PodAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred,
        }),
        pod_anti_affinity: machine_terms(machine, placement.apart).map(|(required, preferred)| {
            PodAntiAffinity {
                required_during_scheduling_ignored_during_execution: required,
                preferred_during_scheduling_ignored_during_execution: preferred,
            }
        }),
    };
    (affinity != Affinity::default()).then_some(affinity)
}

/// The pool of the machine that a control plane begins with.
pub const BOOTSTRAP_POOL: &str = "bootstrap";

type MachineTerms = (Option<Vec<PodAffinityTerm>>, Option<Vec<WeightedPodAffinityTerm>>);

fn machine_terms(machine: &Machine<'_>, wish: Preset) -> Option<MachineTerms> {
    // All masters of a cluster keep apart, whatever pools they are in: they fail together otherwise. The machine they
    // begin with is none of them, and must find a place beside one where there are no more hosts than masters.
    let others = match machine.pool.spec.role {
        Role::ControlPlane => {
            let mut others = labels::selector(labels::select_control_plane(machine.cluster));
            others.match_expressions = Some(vec![LabelSelectorRequirement {
                key: labels::POOL.to_owned(),
                operator: "NotIn".to_owned(),
                values: Some(vec![BOOTSTRAP_POOL.to_owned()]),
            }]);
            others
        }
        Role::Worker => labels::selector(select_pool(machine)),
    };
    let term = PodAffinityTerm {
        topology_key: HOSTNAME_LABEL.to_owned(),
        label_selector: Some(others),
        ..PodAffinityTerm::default()
    };
    Some(match wish.strength()? {
        Strength::Hard => (Some(vec![term]), None),
        Strength::Soft => {
            (None, Some(vec![WeightedPodAffinityTerm { weight: MACHINE_WISH, pod_affinity_term: term }]))
        }
    })
}

/// Affinity to hosts. What must hold is one term, because terms are alternatives to each other.
fn host_affinity(placement: &Placement, zone: Option<&Locality>) -> Option<NodeAffinity> {
    let wanted = placement.wanted_hosts.iter().map(|rule| (rule.strength, wanted_hosts(rule)));
    let avoided = placement.avoided_hosts.iter().map(|rule| (rule.strength, avoided_hosts(rule)));
    let (hard, soft): (Vec<_>, Vec<_>) =
        wanted.chain(avoided).partition(|(strength, _)| *strength == Strength::Hard);
    let region = placement.region.as_ref().map(|region| locality(REGION_LABEL, region));
    let zone = zone.map(|zone| locality(ZONE_LABEL, zone));
    let required: Vec<_> =
        region.into_iter().chain(zone).chain(hard.into_iter().map(|(_, rule)| rule)).collect();
    let preferred: Vec<_> = soft
        .into_iter()
        .map(|(_, rule)| PreferredSchedulingTerm { weight: HOST_WISH, preference: all_of(vec![rule]) })
        .collect();
    if required.is_empty() && preferred.is_empty() {
        return None;
    }
    Some(NodeAffinity {
        required_during_scheduling_ignored_during_execution: (!required.is_empty())
            .then(|| NodeSelector { node_selector_terms: vec![all_of(required)] }),
        preferred_during_scheduling_ignored_during_execution: (!preferred.is_empty()).then_some(preferred),
    })
}

fn all_of(rules: Vec<NodeSelectorRequirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { match_expressions: Some(rules), ..NodeSelectorTerm::default() }
}

fn wanted_hosts(rule: &HostRule) -> NodeSelectorRequirement {
    requirement(rule.key.as_str(), &rule.values, "In", "Exists")
}

fn avoided_hosts(rule: &HostRule) -> NodeSelectorRequirement {
    requirement(rule.key.as_str(), &rule.values, "NotIn", "DoesNotExist")
}

/// A region or zone; the one called `default` is that of hosts without the label.
fn locality(key: &str, place: &Locality) -> NodeSelectorRequirement {
    requirement(key, place.label(), "In", "DoesNotExist")
}

/// A rule about one of these values, or about the label itself where there are none.
fn requirement<'a>(
    key: &str,
    values: impl IntoIterator<Item = &'a LabelValue>,
    with_values: &str,
    without_values: &str,
) -> NodeSelectorRequirement {
    let values: Vec<String> = values.into_iter().map(ToString::to_string).collect();
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: if values.is_empty() { without_values } else { with_values }.to_owned(),
        values: (!values.is_empty()).then_some(values),
    }
}
