//! What of a machine changes in place, and what of it was last put into effect.
//!
//! Labels, annotations, placement and the like are not compared one by one with the machine: KubeVirt and others add
//! their own. Instead the machine carries a short hash of each part as it was last written, and a part differs when
//! it would now be written otherwise.

use serde_json::Value;
use trellis_api::kubevirt::VirtualMachine;
use trellis_model::canonical;
use trellis_model::names::LabelKey;

use crate::labels;
use crate::machine::Machine;

/// How many characters of a hash tell one state of a part from another.
const HASH_LENGTH: usize = 8;

/// The parts of a machine that change in place and are told apart by hashes.
pub(crate) struct Applied {
    parts: [(&'static str, String); 5],
}

/// Labels and annotations wished for beside ours.
pub(crate) const LABELS: &str = "labels";
/// Annotations.
pub(crate) const ANNOTATIONS: &str = "annotations";
/// What happens when the host is drained.
pub(crate) const EVICTION: &str = "eviction";
/// Where it may run.
pub(crate) const PLACEMENT: &str = "placement";
/// How long the guest has to shut down.
pub(crate) const GRACE: &str = "grace";

impl Applied {
    /// The parts of a machine as it is rendered.
    pub(crate) fn of(vm: &VirtualMachine) -> Self {
        let template = &vm.spec.template;
        let instance = &template.spec;
        let template_metadata = template.metadata.as_ref();
        let placement = (
            &instance.affinity,
            &instance.node_selector,
            &instance.tolerations,
            &instance.topology_spread_constraints,
        );
        Self {
            parts: [
                (ANNOTATIONS, short(&template_metadata.map(|metadata| &metadata.annotations))),
                (EVICTION, short(&instance.eviction_strategy)),
                (GRACE, short(&instance.termination_grace_period_seconds)),
                (LABELS, short(&vm.metadata.labels)),
                (PLACEMENT, short(&placement)),
            ],
        }
    }

    /// As it is written on the machine.
    pub(crate) fn text(&self) -> String {
        let parts = self.parts.iter().map(|(part, hash)| format!("{part}={hash}"));
        parts.collect::<Vec<_>>().join(",")
    }

    /// The parts that differ from those written.
    pub(crate) fn differences(&self, written: &str) -> Vec<&'static str> {
        let is_written = |part: &str, hash: &str| {
            written.split(',').any(|pair| pair.split_once('=') == Some((part, hash)))
        };
        let differing = self.parts.iter().filter(|(part, hash)| !is_written(part, hash));
        differing.map(|(part, _)| *part).collect()
    }
}

fn short(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    let mut hash = canonical::hash(&value);
    hash.truncate(HASH_LENGTH);
    hash
}

/// The labels and annotations that were asked for beside ours: `l:team,a:example.com/note`.
pub(crate) fn wished_keys(machine: &Machine<'_>) -> String {
    let spec = &machine.pool.spec;
    let labels = spec.machine_labels.keys().map(LabelKey::as_str).filter(|key| !labels::is_reserved(key));
    let (annotations, _) = labels::annotations(machine);
    let labels = labels.map(|key| format!("l:{key}"));
    let annotations = annotations.keys().map(|key| format!("a:{key}"));
    labels.chain(annotations).collect::<Vec<_>>().join(",")
}

/// The keys among those that begin with that letter.
pub(crate) fn keys_of<'a>(wished: &'a str, letter: &'a str) -> impl Iterator<Item = &'a str> {
    wished
        .split(',')
        .filter_map(move |entry| entry.split_once(':').filter(|(kind, _)| *kind == letter))
        .map(|(_, key)| key)
}
