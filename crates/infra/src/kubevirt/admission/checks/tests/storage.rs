//! Disks and volumes.

use serde_json::json;

use super::*;

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn disks_and_volumes_belong_together() {
    let disk = "/domain/devices/disks/0";
    check(vec![
        (
            vec![("/volumes", Value::Null)],
            "spec.domain.devices.disks[0].name",
            "spec.domain.devices.disks[0].Name 'root' not found.",
        ),
        (
            vec![("/domain/devices/disks", json!([]))],
            "spec.domain.volumes[0].name",
            "spec.domain.volumes[0].name 'root' not found.",
        ),
        (
            vec![("/domain/devices/disks", json!([{"name": "root"}, {"name": "root"}]))],
            "spec.domain.devices.disks[1].name",
            "spec.domain.devices.disks[1] and spec.domain.devices.disks[0] must not have the same Name.",
        ),
        (
            vec![("/volumes/0/emptyDisk", json!({"capacity": "1Gi"}))],
            "spec.volumes[0]",
            "spec.volumes[0] must have exactly one source type set",
        ),
        (
            vec![("/volumes/0/persistentVolumeClaim", Value::Null)],
            "spec.volumes[0]",
            "spec.volumes[0] must have exactly one source type set",
        ),
        (
            vec![("/volumes", json!([{"name": "root", "emptyDisk": {}}, {"name": "root", "emptyDisk": {}}]))],
            "spec.volumes[1].name",
            "spec.volumes[1] and spec.volumes[0] must not have the same Name.",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {}, "cdrom": {}}))],
            "spec.domain.devices.disks[0]",
            "spec.domain.devices.disks[0] can only have a single target type defined",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {"bus": "ide"}}))],
            "spec.domain.devices.disks[0].disk.bus",
            "IDE bus is not supported",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {"bus": "floppy"}}))],
            "spec.domain.devices.disks[0].disk.bus",
            "spec.domain.devices.disks[0] is set with an unrecognized bus floppy",
        ),
        (
            vec![(disk, json!({"name": "root", "cdrom": {"bus": "virtio"}}))],
            "spec.domain.devices.disks[0].cdrom.bus",
            "Bus type virtio is invalid for CD-ROM device",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {"bus": "sata", "readonly": true}}))],
            "spec.domain.devices.disks[0].disk.bus",
            "sata hard-disks do not support read-only.",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {"bus": "sata"}, "dedicatedIOThread": true}))],
            "spec.domain.devices.disks[0]",
            "IOThreads are not supported for disks on a sata bus",
        ),
        (
            vec![(disk, json!({"name": "root", "serial": "a b"}))],
            "spec.domain.devices.disks[0].serial",
            "spec.domain.devices.disks[0] must be made up of the following characters",
        ),
        (
            vec![(disk, json!({"name": "root", "serial": "a".repeat(257)}))],
            "spec.domain.devices.disks[0].serial",
            "spec.domain.devices.disks[0] must be less than or equal to 256",
        ),
        (
            vec![(disk, json!({"name": "root", "cache": "x"}))],
            "spec.domain.devices.disks[0].cache",
            "spec.domain.devices.disks[0].cache has invalid value x",
        ),
        (
            vec![(disk, json!({"name": "root", "io": "x"}))],
            "spec.domain.devices.disks[0].io",
            "Disk IO mode for",
        ),
        (
            vec![(disk, json!({"name": "root", "errorPolicy": "x"}))],
            "spec.domain.devices.disks[0].errorPolicy",
            "spec.domain.devices.disks[0].errorPolicy has invalid value \"x\"",
        ),
        (
            vec![(disk, json!({"name": "root", "bootOrder": 0}))],
            "spec.domain.devices.disks[0].bootOrder",
            "spec.domain.devices.disks[0] must have a boot order > 0",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {"pciAddress": "0000:81:01.0"}}))],
            "spec.domain.devices.disks[0].disk.pciAddress",
            "disk spec.domain.devices.disks[0] - setting a PCI address",
        ),
        (
            vec![(disk, json!({"name": "root", "disk": {"pciAddress": "x", "bus": "virtio"}}))],
            "spec.domain.devices.disks[0].disk.pciAddress",
            "disk spec.domain.devices.disks[0] has malformed PCI address (x).",
        ),
        (
            vec![(disk, json!({"name": "root", "blockSize": {"custom": {"logical": 100, "physical": 512}}}))],
            "spec.domain.devices.disks[0].blockSize.custom.logical",
            "Provided size of 100 is less than",
        ),
        (
            vec![(
                disk,
                json!({"name": "root", "blockSize": {"custom": {"logical": 4096, "physical": 512}}}),
            )],
            "spec.domain.devices.disks[0].blockSize.custom.logical",
            "Logical size 4096 must be",
        ),
        (
            vec![
                (disk, json!({"name": "root", "lun": {}})),
                ("/volumes/0", json!({"name": "root", "emptyDisk": {}})),
            ],
            "spec.domain.devices.disks[0].lun",
            "spec.domain.devices.disks[0].lun can only be mapped",
        ),
        (
            vec![(disk, json!({"name": "Root"})), ("/volumes/0/name", json!("Root"))],
            "spec.domain.devices.disks[0].name",
            "a lowercase RFC 1123 label",
        ),
        (
            vec![
                ("/domain/devices/disks/0/bootOrder", json!(1)),
                ("/domain/devices/interfaces/0/bootOrder", json!(1)),
            ],
            "spec.domain.devices.interfaces[0].bootOrder",
            "Boot order for spec.domain.devices.interfaces[0].bootOrder already set",
        ),
    ]);
}

#[test]
fn volumes_are_whole() {
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "root".into();
        vec![("/volumes/0", volume)]
    };
    let long = "x".repeat(2049);
    check(vec![
        (
            volume(json!({"cloudInitNoCloud": {"userData": long}})),
            "spec.volumes[0].cloudInitNoCloud",
            "spec.volumes[0].cloudInitNoCloud userdata exceeds 2048 byte limit.",
        ),
        (
            volume(json!({"cloudInitConfigDrive": {"networkData": long}})),
            "spec.volumes[0].cloudInitConfigDrive",
            "spec.volumes[0].cloudInitConfigDrive networkdata exceeds 2048 byte limit.",
        ),
        (
            volume(json!({"cloudInitNoCloud": {"userData": "a", "secretRef": {"name": "s"}}})),
            "spec.volumes[0].cloudInitNoCloud",
            "spec.volumes[0].cloudInitNoCloud must have only one userdatasource set.",
        ),
        (
            volume(json!({"cloudInitNoCloud": {"userDataBase64": "%"}})),
            "spec.volumes[0].cloudInitNoCloud.userDataBase64",
            "spec.volumes[0].cloudInitNoCloud.userDataBase64 is not a valid base64 value.",
        ),
        (
            volume(json!({"cloudInitNoCloud": {}})),
            "spec.volumes[0].cloudInitNoCloud",
            "spec.volumes[0].cloudInitNoCloud must have at least one userdatasource",
        ),
        (
            volume(json!({"hostDisk": {"path": "/a", "type": "Disk"}})),
            "spec.volumes[0]",
            "HostDisk feature gate is not enabled",
        ),
        (
            volume(json!({"configMap": {}})),
            "spec.volumes[0].configMap.name",
            "spec.volumes[0].configMap.name is a required field",
        ),
        (
            volume(json!({"secret": {}})),
            "spec.volumes[0].secret.secretName",
            "spec.volumes[0].secret.secretName is a required field",
        ),
        (
            volume(json!({"serviceAccount": {}})),
            "spec.volumes[0].serviceAccount.serviceAccountName",
            "spec.volumes[0].serviceAccount.serviceAccountName is",
        ),
        (
            volume(json!({"dataVolume": {"name": ""}})),
            "spec.volumes[0].name",
            "DataVolume 'name' must be set",
        ),
        (
            volume(json!({"containerDisk": {"image": "a", "path": "/"}})),
            "spec.volumes[0].containerDisk",
            "spec.volumes[0].containerDisk must not point to root",
        ),
        (
            volume(json!({"containerDisk": {"image": "a", "path": "a/../b"}})),
            "spec.volumes[0].containerDisk",
            "spec.volumes[0].containerDisk must be an absolute path",
        ),
        (volume(json!({"downwardMetrics": {}})), "spec.volumes[0]", "downwardMetrics disks are not allowed"),
    ]);
}
