//! What may be plugged into a machine that runs.

use serde_json::Value;

use super::field::Field;
use crate::kubevirt::instance::is_hotpluggable;
use crate::object::Object as _;
use crate::service::admission::Cause;

/// What is wrong with a volume that is plugged into a running instance.
pub fn problem(name: &str, volume: &Value, disk: Option<&Value>) -> Option<String> {
    if !volume["memoryDump"].is_null() {
        return None;
    }
    if volume["dataVolume"].is_null() && volume["persistentVolumeClaim"].is_null() {
        return Some(format!("volume {name} is not a PVC or DataVolume"));
    }
    let Some(disk) = disk else { return Some(format!("Disk {name} does not exist")) };
    if disk["cdrom"].is_object() {
        return None;
    }
    if disk["disk"].is_null() && disk["lun"].is_null() {
        return Some(format!("Disk {name} requires diskDevice of type 'disk' or 'lun' to be hotplugged."));
    }
    let bus = if disk["disk"].is_object() { disk.text("/disk/bus") } else { disk.text("/lun/bus") };
    (!matches!(bus, "scsi" | "virtio"))
        .then(|| format!("hotplugged Disk {name} does not use a scsi or virtio bus"))
}

/// What is wrong with the volumes a change adds to the template of a machine in order to have them plugged in. What cannot
/// be is refused here, where somebody is told: later it would only keep everything else from being plugged in.
pub fn added(old: &Value, new: &Value) -> Vec<Cause> {
    if !old.at("/spec/template/spec").is_object() {
        return Vec::new();
    }
    let known = old.list("/spec/template/spec/volumes");
    let is_new =
        |volume: &&Value| is_hotpluggable(volume) && !known.iter().any(|one| one["name"] == volume["name"]);
    let disks = new.list("/spec/template/spec/domain/devices/disks");
    let volumes = new.list("/spec/template/spec/volumes").iter().filter(is_new);
    volumes
        .filter_map(|volume| {
            let index = disks.iter().position(|disk| disk["name"] == volume["name"])?;
            let (target, allowed): (&str, &[&str]) = if disks[index]["lun"].is_object() {
                ("lun", &["scsi"])
            } else if disks[index]["cdrom"].is_object() {
                return None;
            } else {
                ("disk", &["scsi", "virtio"])
            };
            let bus = disks[index][target].text("/bus");
            let field =
                Field::new("spec.template.spec.domain.devices.disks").index(index).child(target).child("bus");
            let told = allowed.iter().map(|bus| format!("'{bus}'")).collect::<Vec<_>>().join(" or ");
            let message = format!(
                "Hotplug configuration for disk [{}] requires bus to be {told}. [{bus}] is not permitted",
                volume.text("/name")
            );
            (!allowed.contains(&bus)).then(|| Cause::invalid(field, message))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_some_buses_take_a_disk_while_the_machine_runs() {
        let vm = |disks: Value| {
            let names = disks.as_array().cloned().unwrap_or_default();
            let volumes: Vec<Value> = names
                .iter()
                .map(|disk| json!({"name": disk["name"], "dataVolume": {"name": "d", "hotpluggable": true}}))
                .collect();
            json!({"spec": {"template": {"spec": {"volumes": volumes, "domain": {"devices": {"disks": disks}}}}}})
        };
        let before = vm(json!([{"name": "old", "disk": {"bus": "sata"}}]));
        let fields = |disk: Value| -> Vec<String> {
            let after = vm(json!([{"name": "old", "disk": {"bus": "sata"}}, disk]));
            added(&before, &after).into_iter().map(|cause| cause.field).collect()
        };
        let field = |target: &str| vec![format!("spec.template.spec.domain.devices.disks[1].{target}.bus")];
        for fine in [
            json!({"name": "x", "disk": {"bus": "scsi"}}),
            json!({"name": "x", "disk": {"bus": "virtio"}}),
            json!({"name": "x", "lun": {"bus": "scsi"}}),
            json!({"name": "x", "cdrom": {"bus": "sata"}}),
        ] {
            assert!(fields(fine.clone()).is_empty(), "{fine}");
        }
        assert_eq!(fields(json!({"name": "x", "disk": {"bus": "sata"}})), field("disk"));
        assert_eq!(fields(json!({"name": "x", "disk": {}})), field("disk"));
        assert_eq!(fields(json!({"name": "x", "lun": {"bus": "virtio"}})), field("lun"));
        assert!(added(&Value::Null, &before).is_empty(), "what a machine starts with is not plugged in");
    }
}
