//! The usual values of what machines and instances leave open.

use serde_json::{Map, Value, json};

use super::config::{Config, MOST_VCPUS};
use crate::kubevirt::names::VMI_FINALIZER;
use crate::object::Object as _;
use crate::quantity;

/// The user programs of an instance run as.
const RUNTIME_USER: i64 = 107;
/// Memory is added in pieces of this size.
const MEMORY_BLOCK: i128 = 2 << 20;
/// Machines with less memory than this cannot grow.
const LEAST_GROWING_MEMORY: i128 = 1 << 30;

/// What cannot be filled in, in words.
pub type Refusal = String;

/// Fills in the spec of an instance as far as it holds for templates too.
pub fn spec(config: &Config, spec: &mut Value) {
    // What cannot be filled in is found by the checks that follow.
    let _ = fill_spec(config, spec);
}

/// Fills in a new instance: everything `spec` does, what depends on the architecture, and the first status.
pub fn instance(config: &Config, vmi: &mut Value, now: &str) -> Result<(), Refusal> {
    fill_spec(config, &mut vmi["spec"])?;
    let spec = &mut vmi["spec"];
    object_defaults(spec);
    hyperv_needs(spec);
    growth(config, spec);
    bus(spec);
    if spec.text("/architecture") != "s390x" {
        fill(spec, "/domain/cpu/model", config.cpu_model());
    }
    watchdog(spec);
    node_selector(spec);
    vmi.add_finalizer(VMI_FINALIZER);
    vmi["status"] = status(&vmi["spec"], &vmi["status"], now);
    Ok(())
}

fn fill_spec(config: &Config, spec: &mut Value) -> Result<(), Refusal> {
    if !spec["domain"].is_object() {
        spec["domain"] = json!({"devices": {}});
    }
    fill(spec, "/architecture", config.architecture());
    let machine = config.machine_type(spec.text("/architecture")).to_owned();
    fill(spec, "/domain/machine/type", &machine);
    requests(spec);
    guest_memory(spec);
    topology(spec);
    pull_policies(spec);
    if !config.eviction_strategy().is_empty() {
        fill(spec, "/evictionStrategy", config.eviction_strategy());
    }
    interface(config, spec)?;
    disks_of_volumes(spec);
    Ok(())
}

/// Sets a text that is missing.
fn fill(spec: &mut Value, pointer: &str, text: &str) {
    if spec.text(pointer).is_empty() {
        spec.set(pointer, text.into());
    }
}

fn is_zero(value: &Value) -> bool {
    quantity::of(value) == 0
}

/// Where only a limit is given, that much is requested; memory is requested as the guest has it.
fn requests(spec: &mut Value) {
    for name in ["cpu", "memory"] {
        let limit = spec.at(&format!("/domain/resources/limits/{name}")).clone();
        let request = format!("/domain/resources/requests/{name}");
        if !is_zero(&limit) && is_zero(spec.at(&request)) {
            spec.set(&request, limit);
        }
    }
    if spec.at("/domain/resources/requests/memory").is_null() {
        let guest = spec.at("/domain/memory/guest").clone();
        let amount =
            if guest.is_null() { spec.at("/domain/memory/hugepages/pageSize").clone() } else { guest };
        if quantity::of(&amount) > 0 {
            spec.set("/domain/resources/requests/memory", amount);
        }
    }
}

fn guest_memory(spec: &mut Value) {
    if !spec.at("/domain/memory/guest").is_null() {
        return;
    }
    for pointer in [
        "/domain/resources/requests/memory",
        "/domain/resources/limits/memory",
        "/domain/memory/hugepages/pageSize",
    ] {
        let amount = spec.at(pointer).clone();
        if !is_zero(&amount) {
            spec.set("/domain/memory/guest", amount);
            return;
        }
    }
}

fn topology(spec: &mut Value) {
    let set = ["sockets", "cores", "threads"]
        .iter()
        .any(|name| spec.number(&format!("/domain/cpu/{name}")).unwrap_or_default() != 0);
    if set {
        return;
    }
    let limit = spec.at("/domain/resources/limits/cpu");
    let amount = if limit.is_null() { spec.at("/domain/resources/requests/cpu") } else { limit };
    let sockets = if amount.is_null() { 1 } else { i64::try_from(quantity::whole(amount)).unwrap_or(1) };
    for (name, count) in [("sockets", sockets), ("cores", 1), ("threads", 1)] {
        spec.set(&format!("/domain/cpu/{name}"), count.into());
    }
}

fn elements<'s>(spec: &'s mut Value, pointer: &str) -> &'s mut [Value] {
    spec.pointer_mut(pointer).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn pull_policies(spec: &mut Value) {
    for volume in elements(spec, "/volumes") {
        let image = volume.text("/containerDisk/image");
        if !volume["containerDisk"].is_object() || !volume.text("/containerDisk/imagePullPolicy").is_empty() {
            continue;
        }
        let moving = image.ends_with(":latest") || !image.contains([':', '@']);
        volume.set("/containerDisk/imagePullPolicy", if moving { "Always" } else { "IfNotPresent" }.into());
    }
}

/// An interface on the pod network, for machines that have neither networks nor interfaces.
pub fn interface(config: &Config, spec: &mut Value) -> Result<(), Refusal> {
    let none = spec.list("/networks").is_empty() && spec.list("/domain/devices/interfaces").is_empty();
    if !none || spec.at("/domain/devices/autoattachPodInterface") == false {
        return Ok(());
    }
    let binding = match config.default_binding() {
        "masquerade" => "masquerade",
        _ if config.bridge_on_pod_network() => "bridge",
        _ => return Err("Bridge interface is not enabled in kubevirt-config".to_owned()),
    };
    spec["networks"] = json!([{"name": "default", "pod": {}}]);
    let mut interface = json!({"name": "default"});
    interface[binding] = json!({});
    spec.set("/domain/devices/interfaces", json!([interface]));
    Ok(())
}

/// A disk for every volume that has none.
pub fn disks_of_volumes(spec: &mut Value) {
    let mut disks = spec.list("/domain/devices/disks").to_vec();
    let has = |disks: &[Value], filesystems: &[Value], name: &Value| {
        disks.iter().chain(filesystems).any(|one| one["name"] == *name)
    };
    let before = disks.len();
    let filesystems = spec.list("/domain/devices/filesystems").to_vec();
    for volume in spec.list("/volumes") {
        if !volume["memoryDump"].is_object() && !has(&disks, &filesystems, &volume["name"]) {
            disks.push(json!({"name": volume["name"]}));
        }
    }
    if disks.len() != before {
        spec.set("/domain/devices/disks", disks.into());
    }
}

/// A tablet, for machines that want an input device and have none.
pub fn input(spec: &mut Value) {
    if spec.flag("/domain/devices/autoattachInputDevice") && spec.list("/domain/devices/inputs").is_empty() {
        spec.set("/domain/devices/inputs", json!([{"name": "default-0"}]));
    }
}

/// What the API types themselves say is usual.
fn object_defaults(spec: &mut Value) {
    if spec.at("/domain/features/acpi/enabled").is_null() {
        spec.set("/domain/features/acpi/enabled", true.into());
    }
    for pointer in [
        "/domain/features/apic",
        "/domain/features/smm",
        "/domain/features/pvspinlock",
        "/domain/features/hyperv/relaxed",
        "/domain/features/hyperv/vapic",
        "/domain/features/hyperv/vpindex",
        "/domain/features/hyperv/runtime",
        "/domain/features/hyperv/synic",
        "/domain/features/hyperv/synictimer",
        "/domain/features/hyperv/reset",
        "/domain/features/hyperv/frequencies",
        "/domain/features/hyperv/reenlightenment",
        "/domain/features/hyperv/tlbflush",
        "/domain/features/hyperv/ipi",
        "/domain/features/hyperv/evmcs",
        "/domain/features/hyperv/spinlocks",
        "/domain/features/hyperv/vendorid",
    ] {
        switch(spec, pointer, "enabled");
    }
    for name in ["hpet", "kvm", "pit", "rtc", "hyperv"] {
        switch(spec, &format!("/domain/clock/timer/{name}"), "present");
    }
    for disk in elements(spec, "/domain/devices/disks") {
        if ["disk", "cdrom", "lun"].iter().all(|target| disk[*target].is_null()) {
            disk["disk"] = json!({});
        }
        if disk["cdrom"].is_object() {
            if disk["cdrom"]["readonly"].is_null() {
                disk["cdrom"]["readonly"] = true.into();
            }
            fill(disk, "/cdrom/tray", "closed");
        }
    }
    for name in ["livenessProbe", "readinessProbe"] {
        probe(&mut spec[name]);
    }
    // Reading a field of nothing makes it null, which is not the same as nothing.
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// Turns on what is there and does not say.
fn switch(spec: &mut Value, pointer: &str, name: &str) {
    if let Some(feature) = spec.pointer_mut(pointer).and_then(Value::as_object_mut) {
        feature.entry(name).or_insert_with(|| true.into());
    }
}

fn probe(probe: &mut Value) {
    let Some(fields) = probe.as_object_mut() else { return };
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        let set = fields.get(name).and_then(Value::as_i64).unwrap_or_default();
        if set == 0 {
            fields.insert(name.to_owned(), value.into());
        }
    }
}

/// Features of Hyper-V that need others.
fn hyperv_needs(spec: &mut Value) {
    for (feature, needed) in [
        ("evmcs", "vapic"),
        ("synictimer", "synic"),
        ("synic", "vpindex"),
        ("tlbflush", "vpindex"),
        ("ipi", "vpindex"),
    ] {
        let needed = format!("/domain/features/hyperv/{needed}");
        if spec.flag(&format!("/domain/features/hyperv/{feature}/enabled")) && spec.at(&needed).is_null() {
            spec.set(&needed, json!({"enabled": true}));
        }
    }
}

/// How far a running machine can grow.
fn growth(config: &Config, spec: &mut Value) {
    let Some(ratio) = config.growth() else { return };
    if spec.text("/architecture") == "s390x" {
        return;
    }
    let count = |spec: &Value, name: &str| spec.number(&format!("/domain/cpu/{name}")).unwrap_or(1).max(1);
    if spec.number("/domain/cpu/maxSockets").unwrap_or_default() == 0 {
        let sockets = count(spec, "sockets");
        let each = count(spec, "cores").saturating_mul(count(spec, "threads"));
        let most = config.most_sockets().unwrap_or(sockets.saturating_mul(ratio)).max(sockets);
        let most =
            if most.saturating_mul(each) > MOST_VCPUS { (MOST_VCPUS / each).max(sockets) } else { most };
        spec.set("/domain/cpu/maxSockets", most.into());
    }
    let guest = quantity::whole(spec.at("/domain/memory/guest"));
    if !spec.at("/domain/memory/maxGuest").is_null() || !can_grow(spec, guest) {
        return;
    }
    let set = quantity::whole(config.most_memory());
    let most = if set > 0 { set } else { guest * i128::from(ratio) };
    if most > guest {
        spec.set("/domain/memory/maxGuest", quantity::bytes(most).into());
    }
}

fn can_grow(spec: &Value, guest: i128) -> bool {
    guest >= LEAST_GROWING_MEMORY
        && guest % MEMORY_BLOCK == 0
        && spec.at("/domain/cpu/realtime").is_null()
        && spec.at("/domain/cpu/numa/guestMappingPassthrough").is_null()
        && !spec.flag("/domain/cpu/dedicatedCpuPlacement")
        && spec.at("/domain/launchSecurity").is_null()
        && spec.at("/domain/memory/hugepages").is_null()
}

fn bus(spec: &mut Value) {
    let bus = if spec.text("/architecture") == "amd64" { "sata" } else { "virtio" };
    for disk in elements(spec, "/domain/devices/disks") {
        for target in ["disk", "cdrom", "lun"] {
            if disk[target].is_object() {
                // There are no optical drives on virtio.
                fill(
                    disk,
                    &format!("/{target}/bus"),
                    if target == "cdrom" && bus == "virtio" { "scsi" } else { bus },
                );
            }
        }
        if let Some(fields) = disk.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
}

fn watchdog(spec: &mut Value) {
    let kind = if spec.text("/architecture") == "s390x" { "diag288" } else { "i6300esb" };
    if spec.at("/domain/devices/watchdog").is_object() {
        fill(spec, &format!("/domain/devices/watchdog/{kind}/action"), "reset");
    }
}

fn node_selector(spec: &mut Value) {
    for (pointer, label) in [
        ("/domain/cpu/realtime", "kubevirt.io/realtime"),
        ("/domain/launchSecurity/sev", "kubevirt.io/sev"),
        ("/domain/launchSecurity/sev/policy/encryptedState", "kubevirt.io/sev-es"),
    ] {
        let wanted = spec.at(pointer);
        if wanted.is_object() || *wanted == true {
            spec.set(&format!("/nodeSelector/{}", crate::object::escaped(label)), "".into());
        }
    }
}

fn status(spec: &Value, before: &Value, now: &str) -> Value {
    let mut status = if before.is_object() { before.clone() } else { Value::Object(Map::new()) };
    status["phase"] = "Pending".into();
    status["phaseTransitionTimestamps"] = json!([{"phase": "Pending", "phaseTransitionTimestamp": now}]);
    status["runtimeUser"] = RUNTIME_USER.into();
    let guest = spec.at("/domain/memory/guest");
    if !guest.is_null() {
        status["memory"] = json!({"guestAtBoot": guest, "guestCurrent": guest, "guestRequested": guest});
    }
    let count = |name: &str| spec.number(&format!("/domain/cpu/{name}")).unwrap_or(1);
    if status["currentCPUTopology"].is_null() {
        status["currentCPUTopology"] =
            json!({"sockets": count("sockets"), "cores": count("cores"), "threads": count("threads")});
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
    fn filled(spec: Value) -> Value {
        let mut vmi = json!({"metadata": {"name": "a"}, "spec": spec});
        instance(&Config::default(), &mut vmi, "now").unwrap();
        vmi
    }

    #[test]
    fn a_bare_instance_gets_all_that_is_usual() {
        let vmi = filled(json!({
            "domain": {"devices": {}, "resources": {"requests": {"memory": "1Gi"}}},
            "volumes": [{"name": "root", "containerDisk": {"image": "fedora"}}],
        }));
        assert_eq!(
            vmi["spec"],
            json!({
                "architecture": "amd64",
                "domain": {
                    "cpu": {"sockets": 1, "cores": 1, "threads": 1, "maxSockets": 4, "model": "host-model"},
                    "devices": {
                        "disks": [{"name": "root", "disk": {"bus": "sata"}}],
                        "interfaces": [{"name": "default", "bridge": {}}],
                    },
                    "features": {"acpi": {"enabled": true}},
                    "machine": {"type": "q35"},
                    "memory": {"guest": "1Gi", "maxGuest": "4Gi"},
                    "resources": {"requests": {"memory": "1Gi"}},
                },
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [{"name": "root", "containerDisk": {"image": "fedora", "imagePullPolicy": "Always"}}],
            })
        );
        assert!(vmi.has_finalizer(VMI_FINALIZER));
        assert_eq!(
            vmi["status"],
            json!({
                "phase": "Pending", "runtimeUser": 107,
                "phaseTransitionTimestamps": [{"phase": "Pending", "phaseTransitionTimestamp": "now"}],
                "memory": {"guestAtBoot": "1Gi", "guestCurrent": "1Gi", "guestRequested": "1Gi"},
                "currentCPUTopology": {"sockets": 1, "cores": 1, "threads": 1},
            })
        );
    }

    #[test]
    fn each_value_comes_from_where_it_should() {
        for (spec, pointer, expected) in [
            (
                json!({"domain": {"resources": {"limits": {"cpu": "3"}}}}),
                "/domain/resources/requests/cpu",
                json!("3"),
            ),
            (json!({"domain": {"resources": {"limits": {"cpu": "2500m"}}}}), "/domain/cpu/sockets", json!(3)),
            (json!({"domain": {"resources": {"requests": {"cpu": "2"}}}}), "/domain/cpu/sockets", json!(2)),
            (json!({"domain": {"cpu": {"cores": 4}}}), "/domain/cpu/maxSockets", json!(4)),
            (
                json!({"domain": {"cpu": {"sockets": 2, "cores": 200, "threads": 1}}}),
                "/domain/cpu/maxSockets",
                json!(2),
            ),
            (
                json!({"domain": {"resources": {"limits": {"memory": "2Gi"}}}}),
                "/domain/memory/guest",
                json!("2Gi"),
            ),
            (
                json!({"domain": {"memory": {"hugepages": {"pageSize": "2Mi"}}}}),
                "/domain/memory/guest",
                json!("2Mi"),
            ),
            (
                json!({"domain": {"memory": {"guest": "2Gi"}}}),
                "/domain/resources/requests/memory",
                json!("2Gi"),
            ),
            (json!({"domain": {"memory": {"guest": "512Mi"}}}), "/domain/memory/maxGuest", Value::Null),
            (
                json!({"domain": {"memory": {"guest": "2Gi"}, "cpu": {"dedicatedCpuPlacement": true}}}),
                "/domain/memory/maxGuest",
                Value::Null,
            ),
            (json!({"domain": {"devices": {"autoattachPodInterface": false}}}), "/networks", Value::Null),
            (json!({"domain": {"devices": {"interfaces": [{"name": "a"}]}}}), "/networks", Value::Null),
            (
                json!({"domain": {"devices": {"disks": [{"name": "a", "cdrom": {}}]}}}),
                "/domain/devices/disks/0/cdrom",
                json!({"bus": "sata", "readonly": true, "tray": "closed"}),
            ),
            (
                json!({"architecture": "arm64", "domain": {"devices": {"disks": [{"name": "a"}]}}}),
                "/domain/devices/disks/0/disk/bus",
                json!("virtio"),
            ),
            (json!({"architecture": "arm64", "domain": {}}), "/domain/machine/type", json!("virt")),
            (
                json!({"domain": {"features": {"hyperv": {"synictimer": {}}}}}),
                "/domain/features/hyperv/synic/enabled",
                json!(true),
            ),
            (
                json!({"domain": {}, "volumes": [{"name": "a", "containerDisk": {"image": "a:1"}}]}),
                "/volumes/0/containerDisk/imagePullPolicy",
                json!("IfNotPresent"),
            ),
            (
                json!({"domain": {}, "volumes": [{"name": "a", "memoryDump": {}}]}),
                "/domain/devices/disks",
                Value::Null,
            ),
            (json!({"domain": {"cpu": {"realtime": {}}}}), "/nodeSelector/kubevirt.io~1realtime", json!("")),
            (
                json!({"domain": {"devices": {"watchdog": {"name": "w"}}}}),
                "/domain/devices/watchdog/i6300esb/action",
                json!("reset"),
            ),
            (
                json!({"domain": {}, "readinessProbe": {"tcpSocket": {"port": 1}}}),
                "/readinessProbe/periodSeconds",
                json!(10),
            ),
        ] {
            assert_eq!(filled(spec.clone())["spec"].at(pointer), &expected, "{pointer} of {spec}");
        }
    }

    #[test]
    fn the_cluster_may_say_otherwise() {
        let config = Config::new(json!({
            "evictionStrategy": "LiveMigrate", "vmRolloutStrategy": "Stage", "cpuModel": "EPYC",
            "network": {"defaultNetworkInterface": "masquerade"},
        }));
        let mut vmi = json!({"spec": {"domain": {"devices": {}, "memory": {"guest": "2Gi"}}}});
        instance(&config, &mut vmi, "now").unwrap();
        let spec = &vmi["spec"];
        assert_eq!((spec.text("/evictionStrategy"), spec.text("/domain/cpu/model")), ("LiveMigrate", "EPYC"));
        assert!(spec.at("/domain/cpu/maxSockets").is_null() && spec.at("/domain/memory/maxGuest").is_null());
        assert!(spec.at("/domain/devices/interfaces/0/masquerade").is_object());
        let closed = Config::new(json!({"network": {"permitBridgeInterfaceOnPodNetwork": false}}));
        let mut vmi = json!({"spec": {"domain": {"devices": {}}}});
        assert!(instance(&closed, &mut vmi, "now").is_err());
    }
}
