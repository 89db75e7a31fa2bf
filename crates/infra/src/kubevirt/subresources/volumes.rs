//! Adding volumes to machines that run, and taking them away.

use serde_json::{Value, json};

use super::{Answer, Asked, Refusal, accepted, dry_run};
use crate::kinds::{KUBEVIRT, VM, VMI};
use crate::kubevirt::instance::is_hotpluggable;
use crate::object::{Key, Object as _};

/// A change of the volumes of a machine.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    /// A disk, the name of its volume, and where that comes from.
    Add { name: String, disk: Value, source: Value },
    /// The name of a volume, or of what it comes from.
    Remove(String),
}

impl Change {
    fn added(body: &Value) -> Result<Self, Refusal> {
        let name = body.text("/name").to_owned();
        if name.is_empty() {
            return Err(Refusal::bad("AddVolumeOptions requires name to be set"));
        }
        let (mut disk, mut source) = (body["disk"].clone(), body["volumeSource"].clone());
        if !disk.is_object() {
            return Err(Refusal::bad("AddVolumeOptions requires disk to not be nil"));
        }
        if !source.is_object() {
            return Err(Refusal::bad("AddVolumeOptions requires VolumeSource to not be nil"));
        }
        disk["name"] = name.as_str().into();
        for kind in ["dataVolume", "persistentVolumeClaim"] {
            if source[kind].is_object() {
                source[kind]["hotpluggable"] = true.into();
                break;
            }
        }
        Ok(Self::Add { name, disk, source })
    }

    fn removed(body: &Value) -> Result<Self, Refusal> {
        match body.text("/name") {
            "" => Err(Refusal::bad("RemoveVolumeOptions requires name to be set")),
            name => Ok(Self::Remove(name.to_owned())),
        }
    }

    /// Whether the change makes sense for these volumes.
    fn check(&self, volumes: &[Value]) -> Result<(), String> {
        match self {
            Self::Add { name, source, .. } => {
                let origin = origin(source);
                for volume in volumes {
                    if volume["name"] == name.as_str() {
                        return Err(format!(
                            "Unable to add volume [{name}] because volume with that name already exists"
                        ));
                    }
                    if !origin.is_empty() && self::origin(volume) == origin {
                        return Err(format!(
                            "Unable to add volume source [{origin}] because it already exists"
                        ));
                    }
                }
                Ok(())
            }
            Self::Remove(name) => match volumes.iter().find(|volume| goes_by(volume, name)) {
                None => Err(format!("Unable to remove volume [{name}] because it does not exist")),
                Some(volume) if !is_hotpluggable(volume) => Err(format!(
                    "Unable to remove volume [{}] because it is not hotpluggable",
                    volume.text("/name")
                )),
                Some(_) => Ok(()),
            },
        }
    }

    /// The volumes and disks after the change.
    fn apply(&self, volumes: &[Value], disks: &[Value]) -> (Vec<Value>, Vec<Value>) {
        let (mut volumes, mut disks) = (volumes.to_vec(), disks.to_vec());
        match self {
            Self::Add { name, disk, source } => {
                let mut volume = source.clone();
                volume["name"] = name.as_str().into();
                volumes.push(volume);
                disks.push(disk.clone());
            }
            Self::Remove(name) => {
                let found = volumes.iter().find(|volume| goes_by(volume, name));
                let name = found.map(|volume| volume.text("/name").to_owned()).unwrap_or_default();
                volumes.retain(|volume| volume["name"] != name.as_str());
                disks.retain(|disk| disk["name"] != name.as_str());
            }
        }
        (volumes, disks)
    }
}

/// What a volume comes from, by name.
fn origin(volume: &Value) -> &str {
    match volume.text("/dataVolume/name") {
        "" => volume.text("/persistentVolumeClaim/claimName"),
        name => name,
    }
}

fn goes_by(volume: &Value, name: &str) -> bool {
    volume["name"] == name || origin(volume) == name
}

/// The patch of a specification at `prefix` that makes a change.
fn patch(object: &Value, prefix: &str, change: &Change) -> Value {
    let (volumes_path, disks_path) =
        (format!("{prefix}/spec/volumes"), format!("{prefix}/spec/domain/devices/disks"));
    let (volumes, disks) = change.apply(object.list(&volumes_path), object.list(&disks_path));
    let set = |path: &str, new: Vec<Value>| {
        let old = object.at(path);
        let op = if old.is_null() { "add" } else { "replace" };
        [json!({"op": "test", "path": path, "value": old}), json!({"op": op, "path": path, "value": new})]
    };
    let mut operations = set(&volumes_path, volumes).to_vec();
    operations.extend(set(&disks_path, disks));
    operations.into()
}

impl Asked {
    pub(super) async fn add_volume(&self, body: Value) -> Answer {
        self.change_volumes(&Change::added(&body)?, &body).await
    }

    pub(super) async fn remove_volume(&self, body: &Value) -> Answer {
        self.change_volumes(&Change::removed(body)?, body).await
    }

    async fn change_volumes(&self, change: &Change, body: &Value) -> Answer {
        if self.place.is_vm() {
            let vm = self.vm().await?;
            let volumes = vm.list("/spec/template/spec/volumes");
            change.check(volumes).map_err(|why| self.vm_conflict(&why))?;
            self.patch(&VM, "", patch(&vm, "/spec/template", change), dry_run(body)).await?;
            return Ok(accepted());
        }
        let vmi = self.vmi().await?;
        let is_owned = vmi.controller().is_some_and(|owner| owner["kind"] == VM.kind);
        if is_owned && !self.legacy_hotplug().await? {
            let message = format!("VMI {}/{} is owned by a VM", self.place.namespace, self.place.name);
            return Err(Refusal::bad(&message));
        }
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict("VMI is not running"));
        }
        change.check(vmi.list("/spec/volumes")).map_err(|why| self.vmi_conflict(&why))?;
        self.patch(&VMI, "", patch(&vmi, "", change), dry_run(body)).await?;
        Ok(accepted())
    }

    /// Whether the gate of the older way is open: volumes on instances that belong to a machine.
    async fn legacy_hotplug(&self) -> Result<bool, Refusal> {
        let found = self.client.get(&KUBEVIRT, &Key::new("kubevirt", "kubevirt")).await;
        let kubevirt = found.map_err(Refusal::of_api)?.unwrap_or_default();
        let gates = kubevirt.list("/spec/configuration/developerConfiguration/featureGates");
        Ok(gates.iter().any(|gate| gate == "HotplugVolumes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(name: &str, claim: &str) -> Change {
        let body = json!({
            "name": name, "disk": {"disk": {"bus": "scsi"}},
            "volumeSource": {"persistentVolumeClaim": {"claimName": claim}},
        });
        Change::added(&body).unwrap()
    }

    #[test]
    fn what_is_missing_is_told() {
        for (body, word) in [
            (json!({}), "name"),
            (json!({"name": "a"}), "disk"),
            (json!({"name": "a", "disk": {}}), "VolumeSource"),
        ] {
            assert!(Change::added(&body).unwrap_err().to_string().contains(word));
        }
        assert!(Change::removed(&json!({})).is_err());
    }

    #[test]
    fn names_and_sources_are_there_once() {
        let volumes = [json!({"name": "root", "dataVolume": {"name": "root-dv"}})];
        assert!(add("root", "x").check(&volumes).unwrap_err().contains("with that name"));
        assert!(add("other", "root-dv").check(&volumes).unwrap_err().contains("source"));
        assert_eq!(add("other", "x").check(&volumes), Ok(()));
    }

    #[test]
    fn only_what_was_added_can_be_removed() {
        let volumes = [
            json!({"name": "root", "dataVolume": {"name": "root-dv"}}),
            json!({"name": "more", "persistentVolumeClaim": {"claimName": "c", "hotpluggable": true}}),
        ];
        let check = |name: &str| Change::Remove(name.to_owned()).check(&volumes);
        assert!(check("root").unwrap_err().contains("not hotpluggable"));
        assert!(check("none").unwrap_err().contains("does not exist"));
        assert_eq!((check("more"), check("c")), (Ok(()), Ok(())));
        let disks = [json!({"name": "root"}), json!({"name": "more"})];
        let (volumes, disks) = Change::Remove("c".to_owned()).apply(&volumes, &disks);
        assert_eq!((volumes.len(), disks.len()), (1, 1));
    }

    #[test]
    fn a_patch_tests_what_it_replaces() {
        let vm = json!({"spec": {"template": {"spec": {"volumes": [], "domain": {"devices": {}}}}}});
        let patch = patch(&vm, "/spec/template", &add("a", "c"));
        assert_eq!(patch[1]["value"][0]["persistentVolumeClaim"]["hotpluggable"], true);
        assert_eq!((&patch[2]["value"], &patch[3]["op"]), (&Value::Null, &json!("add")));
        assert_eq!(patch[3]["value"][0]["name"], "a");
    }
}
