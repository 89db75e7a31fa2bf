//! What the drivers can do, and the classes that are there from the start.

use serde_json::{Value, json};

use crate::client::{Client, Result};
use crate::kinds::{CSI_DRIVER, STORAGE_CLASS, VOLUME_SNAPSHOT_CLASS};
use crate::object::Object as _;

/// A storage driver: what it can do, whatever class it is used through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Its name, which is what classes call their provisioner.
    pub name: &'static str,
    /// The access modes and volume modes that go together.
    pub shapes: &'static [(&'static str, &'static str)],
    /// What it says of a shape it cannot do.
    pub refusal: &'static str,
    /// The node label its volumes are bound to; empty where they are everywhere.
    pub topology: &'static str,
    /// Whether volumes are attached to nodes before they are mounted.
    pub attaches: bool,
    /// Whether volumes can grow.
    pub grows: bool,
    /// Whether it takes snapshots.
    pub snapshots: bool,
    /// Whether it copies volumes by itself.
    pub clones: bool,
}

const RWO: &str = "ReadWriteOnce";
const RWOP: &str = "ReadWriteOncePod";
const RWX: &str = "ReadWriteMany";
const ROX: &str = "ReadOnlyMany";
const BLOCK: &str = "Block";
const FILE: &str = "Filesystem";

/// All drivers.
pub static DRIVERS: &[Driver] = &[
    Driver {
        name: "rbd.csi.ceph.com",
        shapes: &[
            (RWX, BLOCK),
            (RWO, BLOCK),
            (RWOP, BLOCK),
            (ROX, BLOCK),
            (RWO, FILE),
            (RWOP, FILE),
            (ROX, FILE),
        ],
        refusal: "multi node access modes are only supported on rbd `block` type volumes",
        topology: "",
        attaches: true,
        grows: true,
        snapshots: true,
        clones: true,
    },
    Driver {
        name: "kubevirt.io.hostpath-provisioner",
        shapes: &[(RWO, FILE), (RWOP, FILE)],
        refusal: "only volumes of one node with a file system are supported",
        topology: "topology.hostpath.csi/node",
        attaches: false,
        grows: false,
        snapshots: false,
        clones: false,
    },
    Driver {
        name: "ebs.csi.aws.com",
        shapes: &[(RWO, BLOCK), (RWOP, BLOCK), (RWO, FILE), (RWOP, FILE)],
        refusal: "Volume capabilities not supported: only volumes of one node are",
        topology: "topology.kubernetes.io/zone",
        attaches: true,
        grows: true,
        snapshots: true,
        clones: false,
    },
    Driver {
        name: "csi.storage.trellis.dev",
        shapes: &[(RWX, FILE), (RWO, FILE), (RWOP, FILE), (ROX, FILE)],
        refusal: "only volumes with a file system are supported",
        topology: "",
        attaches: false,
        grows: true,
        snapshots: false,
        clones: false,
    },
];

/// The driver of a name, if it is one of ours.
pub fn driver(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| driver.name == name)
}

impl Driver {
    /// What stands against a claim's access modes and volume mode, in the driver's words.
    pub fn refuses(&self, claim: &Value) -> Option<&'static str> {
        let volume_mode = volume_mode(claim);
        let can =
            |mode: &Value| self.shapes.iter().any(|(access, form)| mode == access && *form == volume_mode);
        (!claim.list("/spec/accessModes").iter().all(can)).then_some(self.refusal)
    }
}

/// The volume mode of a claim or a volume.
pub(super) fn volume_mode(object: &Value) -> &str {
    match object.text("/spec/volumeMode") {
        "" => FILE,
        mode => mode,
    }
}

/// The class of a claim: the old annotation goes before the field.
pub(super) fn class_of(claim: &Value) -> &str {
    match claim.annotation("volume.beta.kubernetes.io/storage-class") {
        "" => claim.text("/spec/storageClassName"),
        class => class,
    }
}

/// Whether volumes of a class wait for a pod.
pub(super) fn waits_for_consumer(class: &Value) -> bool {
    class.text("/volumeBindingMode") == "WaitForFirstConsumer"
}

/// A class that is there from the start.
struct Class {
    name: &'static str,
    driver: &'static str,
    waits: bool,
    default: bool,
}

const CLASSES: &[Class] = &[
    Class { name: "replicated", driver: "rbd.csi.ceph.com", waits: false, default: true },
    Class { name: "local", driver: "kubevirt.io.hostpath-provisioner", waits: true, default: false },
    Class { name: "zonal", driver: "ebs.csi.aws.com", waits: true, default: false },
    Class { name: "unknown", driver: "csi.storage.trellis.dev", waits: false, default: false },
];

/// Makes the drivers and classes. What is there already stays as it is: people may have changed it.
pub(super) async fn install(client: &Client) -> Result {
    for driver in DRIVERS {
        client.create_if_absent(&CSI_DRIVER, csi_driver(driver)).await?;
    }
    for class in CLASSES {
        let Some(driver) = driver(class.driver) else { continue };
        client.create_if_absent(&STORAGE_CLASS, storage_class(class, driver)).await?;
        if driver.snapshots {
            client.create_if_absent(&VOLUME_SNAPSHOT_CLASS, snapshot_class(class)).await?;
        }
    }
    Ok(())
}

fn csi_driver(driver: &Driver) -> Value {
    json!({
        "metadata": {"name": driver.name},
        "spec": {
            "attachRequired": driver.attaches, "podInfoOnMount": false, "storageCapacity": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
        },
    })
}

fn storage_class(class: &Class, driver: &Driver) -> Value {
    let mut object = json!({
        "metadata": {"name": class.name},
        "provisioner": driver.name,
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": driver.grows,
        "volumeBindingMode": if class.waits { "WaitForFirstConsumer" } else { "Immediate" },
        "parameters": {"pool": class.name},
    });
    if class.default {
        object.set_annotation("storageclass.kubernetes.io/is-default-class", "true");
        object.set_annotation("storageclass.kubevirt.io/is-default-virt-class", "true");
    }
    object
}

fn snapshot_class(class: &Class) -> Value {
    json!({
        "metadata": {
            "name": format!("{}-snapshots", class.name),
            // One default per driver is what the snapshot controller wants.
            "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
        },
        "driver": class.driver,
        "deletionPolicy": "Delete",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_driver_and_one_is_the_default() {
        assert!(CLASSES.iter().all(|class| driver(class.driver).is_some()));
        assert_eq!(CLASSES.iter().filter(|class| class.default).count(), 1);
    }

    #[test]
    fn a_driver_refuses_what_it_cannot_do() {
        let claim = |mode: &str, form: &str| json!({"spec": {"accessModes": [mode], "volumeMode": form}});
        let (rbd, local) =
            (driver("rbd.csi.ceph.com").unwrap(), driver("kubevirt.io.hostpath-provisioner").unwrap());
        assert_eq!(rbd.refuses(&claim(RWX, BLOCK)), None);
        assert!(rbd.refuses(&claim(RWX, FILE)).is_some());
        assert_eq!(local.refuses(&json!({"spec": {"accessModes": [RWO]}})), None);
        assert!(local.refuses(&claim(RWO, BLOCK)).is_some());
    }
}
