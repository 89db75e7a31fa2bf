//! What a machine is started with, from its specification and what is below the API.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kubevirt::instance::{claim_of, is_hotplugged};
use crate::kubevirt::vmi::networks::{NETWORK_STATUS, attachment, is_primary, network_of, pod_interface};
use crate::object::{Key, Object as _};
use crate::quantity;
use crate::stages::Stages;
use crate::world::machine::{Disk, Interface, Place};
use crate::world::volumes::Volumes;

/// How large the image in a container disk looks to its guest: about as large as those of distributions.
const CONTAINER_DISK: u64 = 10 << 30;

/// How large a drive that was made for the guest looks.
const SMALL: u64 = 1 << 20;

/// Where a machine runs.
pub fn place(pod: &Value) -> Place {
    Place { pod: Key::of(pod), pod_uid: pod.uid().to_owned(), node: pod.text("/spec/nodeName").to_owned() }
}

/// The bus of a disk.
fn bus(disk: &Value) -> &str {
    let given = ["disk", "cdrom", "lun"].iter().find_map(|kind| disk[*kind]["bus"].as_str());
    given.filter(|bus| !bus.is_empty()).unwrap_or("sata")
}

/// The disks of an instance in the order its firmware tries them. `handle` finds the volume behind a claim.
pub fn disks(vmi: &Value, volumes: &Volumes, handle: &dyn Fn(&str) -> Option<String>) -> Vec<Disk> {
    let mut found: Vec<(i64, Disk)> = Vec::new();
    let (mut virtio, mut others) = (0, 0);
    for disk in vmi.list("/spec/domain/devices/disks") {
        let name = disk.text("/name");
        let volume = vmi.list("/spec/volumes").iter().find(|volume| volume["name"] == name);
        let Some(volume) = volume.filter(|volume| !is_hotplugged(volume)) else { continue };
        let bus = bus(disk);
        let counter = if bus == "virtio" { &mut virtio } else { &mut others };
        let target = Disk::device(bus, *counter);
        *counter += 1;
        let mut own = content(volume, volumes, handle);
        let status = vmi.list("/status/volumeStatus").iter().find(|one| one["name"] == name);
        // Of a device a guest sees all there is, however small the image on it.
        if status.is_some_and(is_block)
            && let Some(found) = volumes.get(&own.volume)
        {
            own.size = own.size.max(found.capacity);
        }
        name.clone_into(&mut own.name);
        bus.clone_into(&mut own.bus);
        own.target = target;
        if disk["disk"].is_object() {
            disk.text("/serial").clone_into(&mut own.serial);
        }
        found.push((disk.number("/bootOrder").unwrap_or(i64::MAX), own));
    }
    found.sort_by_key(|(order, _)| *order);
    found.into_iter().map(|(_, disk)| disk).collect()
}

/// Whether what is told of a volume says that it is a device.
pub fn is_block(status: &Value) -> bool {
    status["persistentVolumeClaimInfo"]["volumeMode"] == "Block"
}

/// What is on a volume.
fn content(volume: &Value, volumes: &Volumes, handle: &dyn Fn(&str) -> Option<String>) -> Disk {
    if let Some(claim) = claim_of(volume) {
        let handle = handle(claim).unwrap_or_default();
        let found = volumes.get(&handle).unwrap_or_default();
        let size = if found.content.virtual_size == 0 { found.capacity } else { found.content.virtual_size };
        return Disk { volume: handle, bootable: found.content.bootable, size, ..Disk::default() };
    }
    if volume["containerDisk"].is_object() {
        return Disk { bootable: true, size: CONTAINER_DISK, ..Disk::default() };
    }
    if let Some(empty) = volume.get("emptyDisk") {
        let size = u64::try_from(quantity::whole(&empty["capacity"])).unwrap_or_default();
        return Disk { size, ..Disk::default() };
    }
    Disk { size: SMALL, ..Disk::default() }
}

/// The interfaces of an instance; where it names none it has the one every pod has.
pub fn specified_interfaces(vmi: &Value) -> Vec<Value> {
    let given = vmi.list("/spec/domain/devices/interfaces");
    if given.is_empty()
        && vmi.list("/spec/networks").is_empty()
        && vmi.at("/spec/domain/devices/autoattachPodInterface") != &Value::Bool(false)
    {
        return vec![json!({"name": "default", "masquerade": {}})];
    }
    given.iter().filter(|one| one["state"] != "absent").cloned().collect()
}

/// The interfaces of an instance with their addresses, which are those of its pod.
pub fn interfaces(vmi: &Value, pod: &Value, stages: &Stages) -> Vec<Interface> {
    let told: Value = serde_json::from_str(pod.annotation(NETWORK_STATUS)).unwrap_or_default();
    let told = told.as_array().map(Vec::as_slice).unwrap_or_default();
    specified_interfaces(vmi)
        .iter()
        .map(|interface| {
            let name = interface.text("/name");
            let network = network_of(vmi.at("/spec"), interface);
            let primary = network.is_null() || is_primary(network);
            let own = pod_interface(name);
            let entry =
                told.iter().find(|one| if primary { one.flag("/default") } else { one["interface"] == own });
            let addresses = if primary {
                parsed(pod.list("/status/podIPs").iter().map(|one| one.text("/ip")))
            } else {
                parsed(entry.into_iter().flat_map(|one| one.list("/ips")).filter_map(Value::as_str))
            };
            let mac = match interface.text("/macAddress") {
                "" => entry
                    .filter(|_| !primary || interface["bridge"].is_object())
                    .map(|one| one.text("/mac").to_owned())
                    .filter(|mac| !mac.is_empty())
                    .unwrap_or_else(|| {
                        hardware_address(stages.chance("interface.mac", vmi.uid(), hashed(name)))
                    }),
                given => given.to_owned(),
            };
            let network = if primary {
                String::new()
            } else {
                let (namespace, name) = attachment(vmi, network);
                format!("{namespace}/{name}")
            };
            Interface { name: name.to_owned(), mac, network, addresses }
        })
        .collect()
}

fn parsed<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<IpAddr> {
    texts.filter_map(|text| text.parse().ok()).collect()
}

fn hashed(name: &str) -> u64 {
    use std::hash::Hasher as _;
    let mut hash = crate::stages::Fnv::new(0);
    hash.write(name.as_bytes());
    hash.finish()
}

/// An address of the kind that is given out locally.
fn hardware_address(chance: u64) -> String {
    let bytes = chance.to_be_bytes();
    format!("02:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4])
}

/// The handle of the volume a claim is bound to.
pub fn handle(claim: Option<&Arc<Value>>, volume: impl Fn(&str) -> Option<Arc<Value>>) -> Option<String> {
    let name = claim?.text("/spec/volumeName");
    let volume = volume(name)?;
    let handle = volume.text("/spec/csi/volumeHandle");
    (!handle.is_empty()).then(|| handle.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::Profile;
    use crate::world::volumes::Content;

    #[test]
    fn disks_have_targets_by_bus_and_are_tried_in_order() {
        let volumes = Volumes::default();
        volumes.make("h", 100);
        volumes.write("h", Content { virtual_size: 50, digest: "d".to_owned(), bootable: true });
        let vmi = json!({"spec": {
            "domain": {"devices": {"disks": [
                {"name": "init", "cdrom": {"bus": "sata"}},
                {"name": "data", "disk": {"bus": "virtio"}},
                {"name": "root", "disk": {"bus": "virtio"}, "bootOrder": 1, "serial": "S"},
                {"name": "later", "disk": {"bus": "scsi"}},
            ]}},
            "volumes": [
                {"name": "root", "dataVolume": {"name": "root"}},
                {"name": "data", "emptyDisk": {"capacity": "1Ki"}},
                {"name": "init", "cloudInitNoCloud": {}},
                {"name": "later", "persistentVolumeClaim": {"claimName": "x", "hotpluggable": true}},
            ],
        }});
        let disks = disks(&vmi, &volumes, &|_| Some("h".to_owned()));
        let seen: Vec<_> = disks
            .iter()
            .map(|one| (one.name.as_str(), one.target.as_str(), one.bootable, one.size))
            .collect();
        assert_eq!(
            seen,
            [("root", "vdb", true, 50), ("init", "sda", false, SMALL), ("data", "vda", false, 1024)]
        );
        let mut on_device = vmi.clone();
        let status = json!([{"name": "root", "persistentVolumeClaimInfo": {"volumeMode": "Block"}}]);
        on_device.set("/status/volumeStatus", status);
        let disks = super::disks(&on_device, &volumes, &|_| Some("h".to_owned()));
        assert_eq!(disks[0].size, 100, "all of the device");
        assert_eq!((disks[0].serial.as_str(), disks[0].volume.as_str()), ("S", "h"));
    }

    #[test]
    fn interfaces_have_the_addresses_of_the_pod() {
        let stages = Stages::new(Profile::Instant, 1);
        let status = json!([
            {"name": "cluster", "default": true, "interface": "eth0", "mac": "0a:58:0a:00:00:01"},
            {"name": "nets/blue", "interface": pod_interface("blue"), "mac": "02:11", "ips": ["192.168.0.5"]},
        ]);
        let mut pod = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}});
        pod.set_annotation(NETWORK_STATUS, &status.to_string());
        let vmi = json!({
            "metadata": {"namespace": "a", "uid": "u"},
            "spec": {
                "domain": {"devices": {"interfaces": [
                    {"name": "default", "masquerade": {}}, {"name": "blue", "bridge": {}},
                ]}},
                "networks": [{"name": "default", "pod": {}}, {"name": "blue", "multus": {"networkName": "nets/blue"}}],
            },
        });
        let found = interfaces(&vmi, &pod, &stages);
        assert_eq!(found[0].addresses.len(), 2);
        assert!(found[0].mac.starts_with("02:") && found[0].network.is_empty());
        assert_eq!((found[1].mac.as_str(), found[1].network.as_str()), ("02:11", "nets/blue"));
        assert_eq!(found[1].addresses, ["192.168.0.5".parse::<IpAddr>().unwrap()]);
        assert_eq!(found, interfaces(&vmi, &pod, &stages));
    }

    #[test]
    fn an_instance_without_networks_is_on_that_of_its_pod() {
        assert_eq!(specified_interfaces(&json!({"spec": {}})).len(), 1);
        let none = json!({"spec": {"domain": {"devices": {"autoattachPodInterface": false}}}});
        assert!(specified_interfaces(&none).is_empty());
    }
}
