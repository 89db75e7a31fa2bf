//! Bringing what changes in place up to date.

use serde_json::{Value, json};
use trellis_model::volume::DiskBus;
use trellis_platform::{Failure, Wish};

use super::{Context, remembered, renderable, rendered};
use crate::applied::{self, ANNOTATIONS, Applied, EVICTION, GRACE, LABELS, PLACEMENT, keys_of};
use crate::call::{Call, Verb};
use crate::labels::{self, Labels};
use crate::machine::Machine;
use crate::observe::Differences;
use crate::seen::{Seen, VirtualMachine};
use crate::{annotations, disks};

/// Operations of a JSON patch, in order.
#[derive(Default)]
struct Patch(Vec<Value>);

impl Patch {
    fn test(&mut self, path: &str, value: impl Into<Value>) {
        self.0.push(json!({ "op": "test", "path": path, "value": value.into() }));
    }

    /// Sets a field; what is above it must exist.
    fn set(&mut self, path: &str, value: impl Into<Value>) {
        self.0.push(json!({ "op": "add", "path": path, "value": value.into() }));
    }

    fn remove(&mut self, path: &str) {
        self.0.push(json!({ "op": "remove", "path": path }));
    }

    /// Removes a field that may not be there.
    fn clear(&mut self, path: &str) {
        self.set(path, Value::Null);
        self.remove(path);
    }

    /// Sets a field, or removes it where there is nothing to say.
    fn put(&mut self, path: &str, value: &impl serde::Serialize, says_nothing: bool) {
        if says_nothing {
            self.clear(path);
        } else {
            self.set(path, serde_json::to_value(value).unwrap_or(Value::Null));
        }
    }
}

/// The path of an entry of a map.
fn entry(map: &str, key: &str) -> String {
    format!("{map}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// One patch for all that differs; nothing where nothing does.
///
/// A machine that others made is taken over: it gets our labels and remembers the Machine it now belongs to. What it
/// is stays as it is, and what is wished of it now counts as put into effect.
pub(super) fn update(wish: &Wish, context: &Context<'_>) -> Result<Vec<Call>, Failure> {
    let Some(seen) = context.seen.vm else {
        return Err(Failure::Outdated(format!("there is no machine {}", wish.identity.name)));
    };
    let is_taken = seen.meta.cluster.is_some();
    if is_taken && !seen.is_of(&wish.cluster) {
        return Err(Failure::Refused(format!("machine {} is another cluster's", wish.identity.name)));
    }
    let pool = renderable(wish)?;
    let machine = pool.machine(wish.identity.clone(), None);
    let mut patch = Patch::default();
    patch.test("/metadata/uid", &*seen.meta.uid);
    let rendered = rendered(&machine, wish);
    let keys = applied::wished_keys(&machine);
    if is_taken {
        let differences = Differences::between(seen, &pool, &machine);
        if differences.names().is_empty() {
            return Ok(Vec::new());
        }
        change(&mut patch, seen, &machine, &rendered, &differences);
        if seen.wished_keys.is_some() && keys.is_empty() {
            patch.clear(&entry("/metadata/annotations", annotations::WISHED_KEYS));
        }
    } else {
        let labels = labels::of_vm(&machine);
        for (key, value) in labels.iter().filter(|(key, _)| TAKEN_WITH.contains(&key.as_str())) {
            patch.set(&entry("/metadata/labels", key), value.as_str());
        }
    }
    for (key, value) in remembered(wish, &Applied::of(&rendered), &keys) {
        patch.set(&entry("/metadata/annotations", &key), value);
    }
    let call = Call::new(Verb::JsonPatch, VirtualMachine::WATCHED, context.namespace, &*seen.meta.name);
    Ok(vec![call.with(Value::Array(patch.0))])
}

/// The labels a machine is taken over with: only our own, so that handing it back leaves it as it was.
const TAKEN_WITH: [&str; 5] =
    [labels::CLUSTER, labels::MACHINE, labels::POOL, labels::REVISION, labels::ROLE];

/// Lets go of a machine that was taken over: our labels and what it remembers for us go, and it stays as it is for
/// whoever made it. Nothing where it is not ours.
pub fn hand_back(context: &Context<'_>) -> Option<Call> {
    let seen = context.seen.vm.filter(|vm| vm.meta.cluster.as_deref() == Some(context.cluster))?;
    let mut patch = Patch::default();
    patch.test("/metadata/uid", &*seen.meta.uid);
    for label in
        [labels::CLUSTER, labels::MACHINE, labels::POOL, labels::REVISION, labels::ROLE, labels::MANAGED_BY]
    {
        patch.clear(&entry("/metadata/labels", label));
    }
    for annotation in annotations::OF_MACHINE {
        patch.clear(&entry("/metadata/annotations", annotation));
    }
    let call = Call::new(Verb::JsonPatch, VirtualMachine::WATCHED, context.namespace, &*seen.meta.name);
    Some(call.with(Value::Array(patch.0)))
}

fn change(
    patch: &mut Patch,
    seen: &VirtualMachine,
    machine: &Machine<'_>,
    rendered: &trellis_api::kubevirt::VirtualMachine,
    differences: &Differences,
) {
    const INSTANCE: &str = "/spec/template/spec";
    let at = |field: &str| format!("{INSTANCE}/{field}");
    let instance = &rendered.spec.template.spec;
    if differences.memory.is_some() {
        let guest = instance.domain.memory.as_ref().and_then(|memory| memory.guest.as_ref());
        patch.put(&at("domain/memory/guest"), &guest, false);
    }
    if let Some(sockets) = differences.sockets {
        patch.set(&at("domain/cpu/sockets"), sockets);
    }
    unplug(patch, seen, &differences.unplug);
    plug(patch, machine, rendered, &differences.plug);
    let wished_before = seen.wished_keys.as_deref().unwrap_or_default();
    for part in &differences.parts {
        match *part {
            LABELS => {
                let maps = ["/metadata/labels", "/spec/template/metadata/labels"];
                let wished = rendered.metadata.labels.clone().unwrap_or_default();
                for map in maps {
                    set_entries(patch, map, &wished, keys_of(wished_before, "l"));
                }
            }
            ANNOTATIONS => {
                let template = rendered.spec.template.metadata.as_ref();
                let of_template =
                    template.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default();
                let of_vm = rendered.metadata.annotations.clone().unwrap_or_default();
                set_entries(patch, "/metadata/annotations", &of_vm, keys_of(wished_before, "a"));
                if !seen.has_template_annotations {
                    patch.set("/spec/template/metadata/annotations", json!({}));
                }
                let map = "/spec/template/metadata/annotations";
                set_entries(patch, map, &of_template, keys_of(wished_before, "a"));
            }
            EVICTION => patch.put(&at("evictionStrategy"), &instance.eviction_strategy, false),
            GRACE => patch.put(
                &at("terminationGracePeriodSeconds"),
                &instance.termination_grace_period_seconds,
                false,
            ),
            PLACEMENT => {
                let spread = &instance.topology_spread_constraints;
                patch.put(&at("affinity"), &instance.affinity, instance.affinity.is_none());
                patch.put(&at("nodeSelector"), &instance.node_selector, instance.node_selector.is_empty());
                patch.put(&at("tolerations"), &instance.tolerations, instance.tolerations.is_empty());
                patch.put(&at("topologySpreadConstraints"), spread, spread.is_empty());
            }
            _ => {}
        }
    }
}

/// Writes the entries of a map, and takes away those that were wished for once and are no more. Entries of others stay.
fn set_entries<'a>(patch: &mut Patch, map: &str, wished: &Labels, before: impl Iterator<Item = &'a str>) {
    for key in before.filter(|key| !wished.contains_key(*key)) {
        patch.clear(&entry(map, key));
    }
    for (key, value) in wished {
        patch.set(&entry(map, key), value.as_str());
    }
}

/// Takes data disks away, each by its place in the list, which is tested to still be its own. Their volumes stay
/// until the machine goes: taking a disk away is undone more often than its contents are.
fn unplug(patch: &mut Patch, seen: &VirtualMachine, names: &[String]) {
    let places = |list: &mut dyn Iterator<Item = &Box<str>>| -> Vec<(usize, String)> {
        let found = list.enumerate().filter(|(_, name)| names.iter().any(|gone| **gone == ***name));
        let mut found: Vec<_> = found.map(|(place, name)| (place, name.to_string())).collect();
        // From the back, so that a place stays the same while others are taken away.
        found.reverse();
        found
    };
    let mut take = |list: &str, key: &str, places: Vec<(usize, String)>| {
        for (place, name) in places {
            patch.test(&format!("{list}/{place}/{key}"), name);
            patch.remove(&format!("{list}/{place}"));
        }
    };
    take("/spec/template/spec/domain/devices/disks", "name", places(&mut seen.disks.iter()));
    take("/spec/template/spec/volumes", "name", places(&mut seen.volumes.iter().map(|volume| &volume.name)));
    let gone: Vec<&str> = seen
        .volumes
        .iter()
        .filter(|volume| names.iter().any(|gone| **gone == *volume.name))
        .filter_map(|volume| volume.data_volume.as_deref())
        .collect();
    let made = seen.made_volumes.iter().enumerate().filter(|(_, made)| gone.contains(&&***made));
    let mut made: Vec<_> = made.map(|(place, name)| (place, name.to_string())).collect();
    made.reverse();
    take("/spec/dataVolumeTemplates", "metadata/name", made);
}

/// Adds data disks at the ends of the lists, as disks that can be plugged while the machine runs.
fn plug(
    patch: &mut Patch,
    machine: &Machine<'_>,
    rendered: &trellis_api::kubevirt::VirtualMachine,
    places: &[usize],
) {
    let (drives, volumes) = (disks::disks(machine), disks::volumes(machine));
    for place in places {
        // The root disk comes before all of them.
        let nth = place + 1;
        let (Some(made), Some(volume), Some(drive)) =
            (rendered.spec.data_volume_templates.get(nth), volumes.get(nth), drives.get(nth))
        else {
            continue;
        };
        let mut volume = serde_json::to_value(volume).unwrap_or(Value::Null);
        if let Some(source) = volume.get_mut("dataVolume") {
            source["hotpluggable"] = true.into();
        }
        let mut drive = serde_json::to_value(drive).unwrap_or(Value::Null);
        let bus = drive.pointer("/disk/bus").and_then(Value::as_str).unwrap_or_default();
        if bus != DiskBus::Virtio.as_str()
            && bus != DiskBus::Scsi.as_str()
            && let Some(target) = drive.get_mut("disk")
        {
            // No other bus takes a disk while the machine runs.
            target["bus"] = DiskBus::Scsi.as_str().into();
        }
        patch.set("/spec/dataVolumeTemplates/-", serde_json::to_value(made).unwrap_or(Value::Null));
        patch.set("/spec/template/spec/volumes/-", volume);
        patch.set("/spec/template/spec/domain/devices/disks/-", drive);
    }
}
