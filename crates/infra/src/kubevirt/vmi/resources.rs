//! What a launcher asks a host for.

use serde_json::{Map, Value, json};

use crate::kubevirt::instance::{guest_memory, processors};
use crate::object::Object as _;
use crate::quantity;

/// How many virtual processors share one of the host.
const SHARING: i128 = 10;

const MIB: i128 = 1 << 20;

/// What the programs around the guest need: the monitor, the launcher, the two daemons of libvirt, and QEMU itself.
const PROGRAMS: i128 = (25 + 100 + 25 + 40 + 30) * MIB;
/// What each virtual processor needs.
const PER_PROCESSOR: i128 = 8 * MIB;
/// What the thread for input and output needs.
const IO_THREAD: i128 = 8 * MIB;
/// What a screen needs.
const SCREEN: i128 = 32 * MIB;
/// What a security chip needs.
const SECURITY_CHIP: i128 = 53 * MIB;
/// What devices handed through need: all of the guest's addresses are mapped for them.
const PASSED_DEVICE: i128 = 1 << 30;

/// How much more than the memory of the guest a machine needs, in bytes.
pub fn overhead(spec: &Value) -> i128 {
    // The tables that translate the guest's addresses.
    let mut sum = guest_memory(spec) / 512;
    sum += PROGRAMS + IO_THREAD + PER_PROCESSOR * i128::from(processors(spec));
    if spec.at("/domain/devices/autoattachGraphicsDevice") != &Value::Bool(false) {
        sum += SCREEN;
    }
    if spec.at("/domain/devices/tpm").is_object() {
        sum += SECURITY_CHIP;
    }
    let passed = |name: &str| !spec.list(&format!("/domain/devices/{name}")).is_empty();
    let direct = spec.list("/domain/devices/interfaces").iter().any(|one| one["sriov"].is_object());
    if passed("gpus") || passed("hostDevices") || direct {
        sum += PASSED_DEVICE;
    }
    sum + quantity::whole(spec.at("/domain/memory/reservedOverhead/addedOverhead"))
}

/// The requests and limits of the container a machine runs in.
pub fn compute(vmi: &Value) -> Value {
    let spec = vmi.at("/spec");
    let mut requests = spec.at("/domain/resources/requests").as_object().cloned().unwrap_or_default();
    let mut limits = spec.at("/domain/resources/limits").as_object().cloned().unwrap_or_default();
    let overhead = overhead(spec);
    let dedicated = spec.flag("/domain/cpu/dedicatedCpuPlacement");
    let count = i128::from(processors(spec));
    if dedicated {
        for side in [&mut requests, &mut limits] {
            side.insert("cpu".to_owned(), count.to_string().into());
        }
    } else if !requests.contains_key("cpu") {
        requests.insert("cpu".to_owned(), quantity::cpu(count * 1000 / SHARING).into());
    }
    memory(spec, overhead, &mut requests, &mut limits);
    requests.entry("ephemeral-storage").or_insert_with(|| "50M".into());
    for device in devices(spec) {
        for side in [&mut requests, &mut limits] {
            side.insert(device.clone(), "1".into());
        }
    }
    json!({"requests": requests, "limits": limits})
}

fn memory(spec: &Value, overhead: i128, requests: &mut Map<String, Value>, limits: &mut Map<String, Value>) {
    let size = spec.text("/domain/memory/hugepages/pageSize");
    if size.is_empty() {
        let asked = requests.get("memory").map_or_else(|| guest_memory(spec), quantity::whole);
        let over = if spec.flag("/domain/resources/overcommitGuestOverhead") { 0 } else { overhead };
        requests.insert("memory".to_owned(), quantity::bytes(asked + over).into());
        if let Some(limit) = limits.get("memory").map(quantity::whole) {
            limits.insert("memory".to_owned(), quantity::bytes(limit + overhead).into());
        }
        return;
    }
    for side in [requests, limits] {
        side.insert(format!("hugepages-{size}"), quantity::bytes(guest_memory(spec)).into());
        side.insert("memory".to_owned(), quantity::bytes(overhead).into());
    }
}

/// The devices of the host a machine needs.
fn devices(spec: &Value) -> Vec<String> {
    let mut devices = vec!["devices.kubevirt.io/kvm".to_owned()];
    if !spec.list("/domain/devices/interfaces").is_empty() || spec.list("/networks").is_empty() {
        devices.extend(["tun", "vhost-net"].map(|name| format!("devices.kubevirt.io/{name}")));
    }
    for list in ["gpus", "hostDevices"] {
        let wanted = spec.list(&format!("/domain/devices/{list}")).iter();
        devices.extend(wanted.filter_map(|one| one["deviceName"].as_str()).map(ToOwned::to_owned));
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi() -> Value {
        json!({"spec": {"domain": {
            "cpu": {"sockets": 2}, "memory": {"guest": "1Gi"}, "devices": {"interfaces": [{"name": "default"}]},
        }}})
    }

    #[test]
    fn a_tenth_of_a_processor_and_all_of_the_memory() {
        let resources = compute(&vmi());
        assert_eq!(resources["requests"]["cpu"], "200m");
        // 1024 for the guest, 2 for its tables, 220 for the programs, 8 and 2 times 8 for threads, 32 for the screen.
        assert_eq!(resources["requests"]["memory"], "1302Mi");
        assert!(resources["limits"].get("memory").is_none());
        for side in ["requests", "limits"] {
            assert_eq!(resources[side]["devices.kubevirt.io/kvm"], "1");
            assert_eq!(resources[side]["devices.kubevirt.io/vhost-net"], "1");
        }
    }

    #[test]
    fn what_is_asked_for_counts() {
        let mut vmi = vmi();
        vmi.set(
            "/spec/domain/resources",
            json!({"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}),
        );
        let resources = compute(&vmi);
        assert_eq!(resources["requests"]["cpu"], "1");
        assert_eq!(resources["requests"]["memory"], "790Mi");
        assert_eq!(resources["limits"]["memory"], "1302Mi");
    }

    #[test]
    fn dedicated_processors_are_guaranteed() {
        let mut vmi = vmi();
        vmi.set("/spec/domain/cpu/dedicatedCpuPlacement", true.into());
        let resources = compute(&vmi);
        assert_eq!(resources["requests"]["cpu"], "2");
        assert_eq!(resources["limits"]["cpu"], "2");
    }
}
