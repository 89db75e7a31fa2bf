//! What a guest likes: values for what a machine leaves open.

use serde_json::{Value, json};

use crate::object::Object as _;

/// Applies a preference to a template.
pub fn apply(preference: &Value, template: &mut Value) {
    if let Some(annotations) = preference["annotations"].as_object() {
        for (name, value) in annotations {
            if template.annotation(name).is_empty() {
                template.set_annotation(name, value.as_str().unwrap_or_default());
            }
        }
    }
    let spec = &mut template["spec"];
    for (from, to) in [
        ("/machine/preferredMachineType", "/domain/machine/type"),
        ("/preferredSubdomain", "/subdomain"),
        ("/preferredTerminationGracePeriodSeconds", "/terminationGracePeriodSeconds"),
        ("/preferredArchitecture", "/architecture"),
        ("/preferredLaunchSecurity", "/domain/launchSecurity"),
    ] {
        fill(spec, to, preference.at(from));
    }
    cpu_features(preference, spec);
    devices(preference, spec);
    features(&preference["features"], spec);
    firmware(&preference["firmware"], spec);
    clock(&preference["clock"], spec);
}

/// Sets what is not set.
fn fill(spec: &mut Value, pointer: &str, value: &Value) {
    let found = spec.at(pointer);
    if !value.is_null() && value != "" && (found.is_null() || found == "") {
        spec.set(pointer, value.clone());
    }
}

/// How vCPUs are to be placed: `sockets`, `cores`, `threads`, `spread` or `any`. Older names say `prefer` first.
pub fn topology(preference: &Value) -> String {
    let name = preference.text("/cpu/preferredCPUTopology");
    let name = name.strip_prefix("prefer").unwrap_or(name).to_lowercase();
    if name.is_empty() { "sockets".to_owned() } else { name }
}

/// The ratio, and what vCPUs are spread across.
pub fn spread(preference: &Value) -> (i64, &str) {
    let options = preference.at("/cpu/spreadOptions");
    let ratio = options.number("/ratio").or_else(|| preference.number("/preferSpreadSocketToCoreRatio"));
    let across = options.text("/across");
    (ratio.filter(|ratio| *ratio > 0).unwrap_or(2), if across.is_empty() { "SocketsCores" } else { across })
}

fn cpu_features(preference: &Value, spec: &mut Value) {
    let wanted = preference.list("/cpu/preferredCPUFeatures");
    let mut features = spec.list("/domain/cpu/features").to_vec();
    let before = features.len();
    for feature in wanted {
        if !features.iter().any(|known| known["name"] == feature["name"]) {
            features.push(feature.clone());
        }
    }
    if features.len() != before {
        spec.set("/domain/cpu/features", features.into());
    }
}

/// The switches and values of devices: how the preference calls them, and how a machine does.
const DEVICES: &[(&str, &str)] = &[
    ("preferredAutoattachGraphicsDevice", "autoattachGraphicsDevice"),
    ("preferredAutoattachInputDevice", "autoattachInputDevice"),
    ("preferredAutoattachMemBalloon", "autoattachMemBalloon"),
    ("preferredAutoattachPodInterface", "autoattachPodInterface"),
    ("preferredAutoattachSerialConsole", "autoattachSerialConsole"),
    ("preferredUseVirtioTransitional", "useVirtioTransitional"),
    ("preferredBlockMultiQueue", "blockMultiQueue"),
    ("preferredNetworkInterfaceMultiQueue", "networkInterfaceMultiqueue"),
    ("preferredRng", "rng"),
    ("preferredTPM", "tpm"),
];

/// Applies what a preference says of devices; more than once, since devices are added on the way.
pub fn devices(preference: &Value, spec: &mut Value) {
    let wanted = &preference["devices"];
    if !wanted.is_object() {
        return;
    }
    for (from, to) in DEVICES {
        fill(spec, &format!("/domain/devices/{to}"), &wanted[*from]);
    }
    if !wanted["preferredDisableHotplug"].is_null() {
        spec.set("/domain/devices/disableHotplug", wanted["preferredDisableHotplug"].clone());
    }
    if spec.at("/domain/devices/sound").is_object() {
        fill(spec, "/domain/devices/sound/model", &wanted["preferredSoundModel"]);
    }
    if !wanted.text("/preferredVideoType").is_empty() && spec.at("/domain/devices/video").is_null() {
        spec.set("/domain/devices/video", json!({"type": wanted["preferredVideoType"]}));
    }
    each(spec, "/domain/devices/disks", |disk| disk_preferences(wanted, disk));
    each(spec, "/domain/devices/inputs", |input| {
        fill(input, "/bus", &wanted["preferredInputBus"]);
        fill(input, "/type", &wanted["preferredInputType"]);
    });
    each(spec, "/domain/devices/panicDevices", |device| {
        fill(device, "/model", &wanted["preferredPanicDeviceModel"]);
    });
    let pod_networks: Vec<String> = spec
        .list("/networks")
        .iter()
        .filter(|network| network["pod"].is_object())
        .map(|network| network.text("/name").to_owned())
        .collect();
    each(spec, "/domain/devices/interfaces", |interface| {
        fill(interface, "/model", &wanted["preferredInterfaceModel"]);
        let bound = ["bridge", "masquerade", "sriov", "passtBinding", "slirp", "macvtap", "passt", "binding"];
        if wanted["preferredInterfaceMasquerade"].is_object()
            && bound.iter().all(|binding| interface[*binding].is_null())
            && pod_networks.iter().any(|name| interface["name"] == **name)
        {
            interface["masquerade"] = json!({});
        }
    });
}

/// Does something to each element of a list.
fn each(spec: &mut Value, pointer: &str, change: impl Fn(&mut Value)) {
    if let Some(list) = spec.pointer_mut(pointer).and_then(Value::as_array_mut) {
        list.iter_mut().for_each(change);
    }
}

fn disk_preferences(wanted: &Value, disk: &mut Value) {
    if ["disk", "cdrom", "lun"].iter().all(|target| disk[*target].is_null()) {
        disk["disk"] = json!({});
    }
    if disk["disk"].is_object() {
        fill(disk, "/disk/bus", &wanted["preferredDiskBus"]);
        fill(disk, "/blockSize", &wanted["preferredDiskBlockSize"]);
        fill(disk, "/cache", &wanted["preferredDiskCache"]);
        fill(disk, "/io", &wanted["preferredDiskIO"]);
        if disk.text("/disk/bus") == "virtio" {
            fill(disk, "/dedicatedIOThread", &wanted["preferredDiskDedicatedIoThread"]);
        }
    } else if disk["cdrom"].is_object() {
        fill(disk, "/cdrom/bus", &wanted["preferredCdromBus"]);
    } else {
        fill(disk, "/lun/bus", &wanted["preferredLunBus"]);
    }
}

fn features(wanted: &Value, spec: &mut Value) {
    if !wanted.is_object() {
        return;
    }
    if wanted["preferredAcpi"].is_object() {
        spec.set("/domain/features/acpi", wanted["preferredAcpi"].clone());
    }
    for (from, to) in [
        ("preferredApic", "apic"),
        ("preferredKvm", "kvm"),
        ("preferredPvspinlock", "pvspinlock"),
        ("preferredSmm", "smm"),
    ] {
        fill(spec, &format!("/domain/features/{to}"), &wanted[from]);
    }
    if let Some(hyperv) = wanted["preferredHyperv"].as_object() {
        for (name, value) in hyperv {
            fill(spec, &format!("/domain/features/hyperv/{name}"), value);
        }
    }
}

fn firmware(wanted: &Value, spec: &mut Value) {
    if !wanted.is_object() {
        return;
    }
    let loader =
        |spec: &Value, name: &str| spec.at(&format!("/domain/firmware/bootloader/{name}")).is_object();
    let none = |spec: &Value| !loader(spec, "efi") && !loader(spec, "bios");
    if wanted.flag("/preferredUseBios") && none(spec) {
        spec.set("/domain/firmware/bootloader/bios", json!({}));
    }
    if loader(spec, "bios") {
        fill(spec, "/domain/firmware/bootloader/bios/useSerial", &wanted["preferredUseBiosSerial"]);
    }
    if wanted["preferredEfi"].is_object() && none(spec) {
        spec.set("/domain/firmware/bootloader/efi", wanted["preferredEfi"].clone());
        return;
    }
    if wanted.flag("/preferredUseEfi") && none(spec) {
        spec.set("/domain/firmware/bootloader/efi", json!({}));
    }
    if loader(spec, "efi") {
        fill(spec, "/domain/firmware/bootloader/efi/secureBoot", &wanted["preferredUseSecureBoot"]);
    }
}

fn clock(wanted: &Value, spec: &mut Value) {
    let offset = &wanted["preferredClockOffset"];
    if spec.at("/domain/clock/utc").is_null() && spec.at("/domain/clock/timezone").is_null() {
        fill(spec, "/domain/clock/utc", &offset["utc"]);
        fill(spec, "/domain/clock/timezone", &offset["timezone"]);
    }
    fill(spec, "/domain/clock/timer", &wanted["preferredTimer"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_fills_what_is_open() {
        let preference = json!({
            "devices": {
                "preferredDiskBus": "virtio", "preferredCdromBus": "sata", "preferredInterfaceModel": "virtio",
                "preferredInterfaceMasquerade": {}, "preferredRng": {}, "preferredDiskDedicatedIoThread": true,
                "preferredInputBus": "usb", "preferredInputType": "tablet",
            },
            "firmware": {"preferredEfi": {"secureBoot": true}},
            "features": {"preferredSmm": {}, "preferredHyperv": {"relaxed": {}, "vapic": {"enabled": false}}},
            "clock": {"preferredClockOffset": {"utc": {}}, "preferredTimer": {"hpet": {"present": false}}},
            "machine": {"preferredMachineType": "q35"}, "preferredTerminationGracePeriodSeconds": 180,
        });
        let mut template = json!({"spec": {
            "domain": {
                "devices": {
                    "disks": [{"name": "a"}, {"name": "b", "disk": {"bus": "scsi"}}, {"name": "c", "cdrom": {}}],
                    "interfaces": [{"name": "pod"}, {"name": "other"}],
                    "inputs": [{"name": "i"}],
                },
                "features": {"hyperv": {"relaxed": {"enabled": false}}},
            },
            "networks": [{"name": "pod", "pod": {}}, {"name": "other", "multus": {"networkName": "n"}}],
            "terminationGracePeriodSeconds": 5,
        }});
        apply(&preference, &mut template);
        let spec = &template["spec"];
        assert_eq!(
            spec["domain"]["devices"]["disks"],
            json!([
                {"name": "a", "disk": {"bus": "virtio"}, "dedicatedIOThread": true},
                {"name": "b", "disk": {"bus": "scsi"}},
                {"name": "c", "cdrom": {"bus": "sata"}},
            ])
        );
        assert_eq!(
            spec["domain"]["devices"]["interfaces"],
            json!([{"name": "pod", "model": "virtio", "masquerade": {}}, {"name": "other", "model": "virtio"}])
        );
        assert_eq!(
            spec["domain"]["devices"]["inputs"],
            json!([{"name": "i", "bus": "usb", "type": "tablet"}])
        );
        assert_eq!(spec["domain"]["devices"]["rng"], json!({}));
        assert_eq!(spec["domain"]["firmware"]["bootloader"], json!({"efi": {"secureBoot": true}}));
        assert_eq!(
            spec["domain"]["features"],
            json!({"smm": {}, "hyperv": {"relaxed": {"enabled": false}, "vapic": {"enabled": false}}})
        );
        assert_eq!(spec["domain"]["clock"], json!({"utc": {}, "timer": {"hpet": {"present": false}}}));
        assert_eq!(
            (spec.text("/domain/machine/type"), spec.number("/terminationGracePeriodSeconds")),
            ("q35", Some(5))
        );
    }

    #[test]
    fn older_ways_to_ask_for_efi_are_understood() {
        let mut template = json!({"spec": {"domain": {}}});
        apply(
            &json!({"firmware": {"preferredUseEfi": true, "preferredUseSecureBoot": false}}),
            &mut template,
        );
        assert_eq!(
            template["spec"]["domain"]["firmware"]["bootloader"],
            json!({"efi": {"secureBoot": false}})
        );
        let mut template = json!({"spec": {"domain": {"firmware": {"bootloader": {"bios": {}}}}}});
        apply(&json!({"firmware": {"preferredEfi": {}}}), &mut template);
        assert_eq!(template["spec"]["domain"]["firmware"]["bootloader"], json!({"bios": {}}));
    }
}
