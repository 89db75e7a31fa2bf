//! Instances: what they get when they are made, and who may change what of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::Config;
use super::field::Field;
use super::{checks, decode, defaults, plug, presets};
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::VMI_PRESET;
use crate::object::Object as _;
use crate::quantity;
use crate::service::admission::{Cause, Review, Verdict};

/// What users of presets are told.
const PRESETS_DEPRECATED: &str =
    "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2.";

/// Fills in a new instance, and puts back what only KubeVirt may write of the status.
pub async fn mutate(context: &Context, review: Review) -> Verdict {
    let mut vmi = review.object;
    if let Some(problem) = decode::instance(&vmi, "spec") {
        return Verdict::denied(400, "", problem);
    }
    if review.operation == "UPDATE" {
        if review.user.is_kubevirt() || vmi["status"] == review.old["status"] {
            return Verdict::fine();
        }
        match &review.old["status"] {
            Value::Null => vmi.unset("/status"),
            status => vmi["status"] = status.clone(),
        }
        return Verdict::changed(vmi);
    }
    let cache = context.client(Identity::VIRT_API).cache(&VMI_PRESET);
    cache.complete().await;
    let used = presets::apply(&mut vmi, &cache.list(&review.namespace));
    let config = Config::of(context).await;
    if let Err(message) = defaults::instance(&config, &mut vmi, &context.clock.seconds()) {
        return Verdict::denied(400, "", message);
    }
    let warnings = if used { vec![PRESETS_DEPRECATED.to_owned()] } else { Vec::new() };
    Verdict::changed(vmi).warning(warnings)
}

/// Says what is wrong with a new instance.
pub async fn create(context: &Context, review: Review) -> Verdict {
    let config = Config::of(context).await;
    Verdict::of_causes(judge(&config, &review.object, review.user.is_kubevirt()))
}

/// What is wrong with a new instance.
pub fn judge(config: &Config, vmi: &Value, is_kubevirt: bool) -> Vec<Cause> {
    let field = Field::new("spec");
    let mut causes = checks::discontinued_bindings(&field, &vmi["spec"]);
    causes.extend(checks::spec(&field, &vmi["spec"], config));
    causes.extend(checks::complete(&field, &vmi["spec"]));
    causes.extend(checks::metadata(&Field::new("metadata"), &vmi["metadata"], config, is_kubevirt));
    causes
}

/// Says what is wrong with a change of an instance.
pub async fn update(context: &Context, review: Review) -> Verdict {
    if review.object.is_deleting() {
        return Verdict::fine();
    }
    let config = Config::of(context).await;
    Verdict::of_causes(change(&config, &review.old, &review.object, review.user.is_kubevirt()))
}

/// What is wrong with a change of an instance: its spec changes through subresources only, and its labels of
/// KubeVirt's through KubeVirt only.
pub fn change(config: &Config, old: &Value, new: &Value, is_kubevirt: bool) -> Vec<Cause> {
    if old["spec"] != new["spec"] {
        if !is_kubevirt {
            return vec![Cause::not_supported("", "update of VMI object is restricted")];
        }
        if let Some(message) = hotplug(old, new) {
            return vec![Cause::invalid("", message)];
        }
        let causes = checks::spec(&Field::new("spec"), &new["spec"], config);
        if !causes.is_empty() {
            return causes;
        }
    }
    let changed = checks::RESERVED_LABELS.iter().any(|label| old.label(label) != new.label(label));
    if changed && !is_kubevirt {
        return vec![Cause::not_supported(
            "",
            "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
        )];
    }
    Vec::new()
}

/// What is wrong with what is plugged in or out while the machine runs.
fn hotplug(old: &Value, new: &Value) -> Option<String> {
    if old.at("/spec/domain/cpu/maxSockets") != new.at("/spec/domain/cpu/maxSockets") {
        return Some("CPU topology maxSockets changed".to_owned());
    }
    let (before, after) = (old.at("/spec/domain/memory/maxGuest"), new.at("/spec/domain/memory/maxGuest"));
    if !before.is_null() && !after.is_null() && quantity::of(before) != quantity::of(after) {
        return Some("Memory maxGuest changed".to_owned());
    }
    let by_name = |vmi: &Value, pointer: &str| -> BTreeMap<String, Value> {
        vmi.list(pointer).iter().map(|one| (one.text("/name").to_owned(), one.clone())).collect()
    };
    let is_permanent = |name: &str| {
        let status = old.list("/status/volumeStatus").iter().find(|one| one["name"] == *name);
        status.is_some_and(|status| status["hotplugVolume"].is_null())
    };
    let (old_volumes, new_volumes) = (by_name(old, "/spec/volumes"), by_name(new, "/spec/volumes"));
    let (old_disks, new_disks) =
        (by_name(old, "/spec/domain/devices/disks"), by_name(new, "/spec/domain/devices/disks"));
    let permanent =
        |volumes: &BTreeMap<String, Value>| volumes.keys().filter(|name| is_permanent(name)).count();
    if permanent(&old_volumes) != permanent(&new_volumes) {
        return Some("Number of permanent volumes has changed".to_owned());
    }
    for (name, volume) in &new_volumes {
        let disk = new_disks.get(name);
        let on_disk = volume["memoryDump"].is_null();
        if is_permanent(name) {
            if disk != old_disks.get(name) {
                return Some(format!("permanent disk {name}, changed"));
            }
        } else if let Some(before) = old_volumes.get(name) {
            let is_cdrom = disk.is_some_and(|disk| disk["cdrom"].is_object());
            if before != volume && !is_cdrom {
                return Some(format!("hotplug volume {name}, changed"));
            }
            if on_disk && disk != old_disks.get(name) {
                return Some(format!("hotplug disk {name}, changed"));
            }
        } else if let Some(message) = plug::problem(name, volume, disk) {
            return Some(message);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vmi() -> Value {
        json!({
            "metadata": {"name": "a", "labels": {"kubevirt.io/nodeName": "n"}},
            "spec": {
                "architecture": "amd64",
                "domain": {
                    "cpu": {"sockets": 1, "maxSockets": 4}, "memory": {"guest": "1Gi", "maxGuest": "4Gi"},
                    "devices": {"disks": [{"name": "root", "disk": {"bus": "sata"}}]},
                },
                "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "c"}}],
            },
            "status": {"volumeStatus": [{"name": "root", "target": "sda"}]},
        })
    }

    #[test]
    fn people_may_not_change_specs_or_labels_of_kubevirt() {
        let config = Config::default();
        let mut changed = vmi();
        changed.set("/spec/terminationGracePeriodSeconds", 1.into());
        assert_eq!(change(&config, &vmi(), &changed, false)[0].message, "update of VMI object is restricted");
        assert_eq!(change(&config, &vmi(), &changed, true), []);
        let mut moved = vmi();
        moved.set_label("kubevirt.io/nodeName", "other");
        assert!(
            change(&config, &vmi(), &moved, false)[0].message.starts_with("modification of the following")
        );
        assert_eq!(change(&config, &vmi(), &moved, true), []);
        let mut labelled = vmi();
        labelled.set_label("mine", "other");
        assert_eq!(change(&config, &vmi(), &labelled, false), []);
    }

    #[test]
    fn only_volumes_that_can_be_plugged_in_are() {
        let add = |volume: Value, disk: Value| {
            let mut vmi = vmi();
            vmi["spec"]["volumes"].as_array_mut().unwrap().push(volume);
            if !disk.is_null() {
                vmi["spec"]["domain"]["devices"]["disks"].as_array_mut().unwrap().push(disk);
            }
            vmi
        };
        let claim = json!({"name": "x", "persistentVolumeClaim": {"claimName": "d", "hotpluggable": true}});
        for (new, message) in [
            (add(claim.clone(), json!({"name": "x", "disk": {"bus": "scsi"}})), None),
            (add(claim.clone(), json!({"name": "x", "disk": {"bus": "virtio"}})), None),
            (
                add(claim.clone(), json!({"name": "x", "disk": {"bus": "sata"}})),
                Some("hotplugged Disk x does not use a scsi or virtio bus"),
            ),
            (
                add(claim.clone(), json!({"name": "x"})),
                Some("Disk x requires diskDevice of type 'disk' or 'lun' to be hotplugged."),
            ),
            (add(claim, Value::Null), Some("Disk x does not exist")),
            (
                add(json!({"name": "x", "emptyDisk": {}}), Value::Null),
                Some("volume x is not a PVC or DataVolume"),
            ),
            (
                {
                    let mut vmi = vmi();
                    vmi["spec"]["volumes"] = json!([]);
                    vmi
                },
                Some("Number of permanent volumes has changed"),
            ),
            (
                {
                    let mut vmi = vmi();
                    vmi.set("/spec/domain/devices/disks/0/disk/bus", "scsi".into());
                    vmi
                },
                Some("permanent disk root, changed"),
            ),
            (
                {
                    let mut vmi = vmi();
                    vmi.set("/spec/domain/cpu/maxSockets", 8.into());
                    vmi
                },
                Some("CPU topology maxSockets changed"),
            ),
            (
                {
                    let mut vmi = vmi();
                    vmi.set("/spec/domain/memory/maxGuest", "8Gi".into());
                    vmi
                },
                Some("Memory maxGuest changed"),
            ),
        ] {
            assert_eq!(hotplug(&vmi(), &new).as_deref(), message);
        }
    }
}
