//! Passing volumes from a machine's template on to its running instance, which the machine's controller does.

use serde_json::{Value, json};

use crate::kubevirt::instance::is_hotpluggable;
use crate::object::Object as _;

/// The instance with the volumes that may come and go as its machine's template has them; nothing where it has them.
pub fn sync_spec(vm: &Value, vmi: &Value) -> Option<Value> {
    let template = vm.at("/spec/template/spec");
    let wanted: Vec<&Value> =
        template.list("/volumes").iter().filter(|volume| is_hotpluggable(volume)).collect();
    let has = |list: &[&Value], name: &Value| list.iter().any(|volume| volume["name"] == *name);
    let (mut volumes, mut disks) =
        (vmi.list("/spec/volumes").to_vec(), vmi.list("/spec/domain/devices/disks").to_vec());
    let gone: Vec<Value> = volumes
        .iter()
        .filter(|volume| is_hotpluggable(volume) && !has(&wanted, &volume["name"]))
        .map(|volume| volume["name"].clone())
        .collect();
    volumes.retain(|volume| !gone.contains(&volume["name"]));
    disks.retain(|disk| !gone.contains(&disk["name"]));
    for volume in wanted {
        // A volume that takes the place of another has to wait until that is gone.
        let leaving = vmi.list("/status/volumeStatus").iter().any(|status| {
            status["name"] == volume["name"]
                && matches!(status.text("/phase"), "Detaching" | "UnMountedFromPod")
        });
        if leaving || volumes.iter().any(|there| there["name"] == volume["name"]) {
            continue;
        }
        volumes.push(volume.clone());
        if disks.iter().any(|disk| disk["name"] == volume["name"]) {
            continue;
        }
        let disk = template.list("/domain/devices/disks").iter().find(|disk| disk["name"] == volume["name"]);
        disks.push(disk.cloned().unwrap_or_else(|| json!({"name": volume["name"], "disk": {"bus": "scsi"}})));
    }
    let mut new = vmi.clone();
    if volumes.as_slice() != vmi.list("/spec/volumes") {
        new.set("/spec/volumes", volumes.into());
    }
    if disks.as_slice() != vmi.list("/spec/domain/devices/disks") {
        new.set("/spec/domain/devices/disks", disks.into());
    }
    (new != *vmi).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> Value {
        json!({"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": true}})
    }

    fn vm(volumes: &[Value]) -> Value {
        let disks: Vec<_> =
            volumes.iter().map(|volume| json!({"name": volume["name"], "serial": "s"})).collect();
        json!({"spec": {"template": {"spec": {"volumes": volumes, "domain": {"devices": {"disks": disks}}}}}})
    }

    fn vmi(volumes: &[Value]) -> Value {
        json!({"spec": vm(volumes)["spec"]["template"]["spec"].clone()})
    }

    #[test]
    fn volumes_that_may_come_and_go_do() {
        let root = json!({"name": "root", "containerDisk": {"image": "i"}});
        let plain = vmi(std::slice::from_ref(&root));
        let added = sync_spec(&vm(&[root.clone(), volume("a")]), &plain).unwrap();
        assert_eq!(added["spec"]["volumes"][1], volume("a"));
        assert_eq!(added["spec"]["domain"]["devices"]["disks"][1]["serial"], "s");
        assert_eq!(sync_spec(&vm(&[root.clone(), volume("a")]), &added), None);
        assert_eq!(sync_spec(&vm(&[root]), &added), Some(plain));
    }

    #[test]
    fn other_volumes_stay_as_they_are() {
        let other = json!({"name": "other", "containerDisk": {"image": "i"}});
        assert_eq!(sync_spec(&vm(std::slice::from_ref(&other)), &vmi(&[])), None);
        assert_eq!(sync_spec(&vm(&[]), &vmi(&[other])), None);
    }

    #[test]
    fn a_name_is_free_again_once_its_volume_is_gone() {
        let mut leaving = vmi(&[]);
        leaving.set("/status/volumeStatus", json!([{"name": "a", "phase": "Detaching"}]));
        assert_eq!(sync_spec(&vm(&[volume("a")]), &leaving), None);
    }
}
