//! One row per rule: what is changed in a spec that is fine, and the cause that is told.

use serde_json::{Value, json};

use super::*;

/// A spec with all usual values in which nothing is wrong.
fn fine() -> Value {
    let mut spec = json!({
        "domain": {"devices": {}, "memory": {"guest": "1Gi"}},
        "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "c"}}],
    });
    super::super::defaults::spec(&Config::default(), &mut spec);
    spec
}

fn judged(spec: &Value) -> Vec<Cause> {
    let field = Field::new("spec");
    let mut causes = super::spec(&field, spec, &Config::default());
    causes.extend(complete(&field, spec));
    causes
}

/// What is set where, the field of the only cause, and how its message begins.
type Row = (Vec<(&'static str, Value)>, &'static str, &'static str);

fn check(rows: Vec<Row>) {
    for (changes, field, message) in rows {
        let mut spec = fine();
        for (pointer, value) in &changes {
            if value.is_null() {
                spec.unset(pointer);
            } else {
                spec.set(pointer, value.clone());
            }
        }
        let causes = judged(&spec);
        assert_eq!(causes.len(), 1, "{changes:?} comes to {causes:?}");
        assert_eq!(causes[0].field, field, "{changes:?}");
        assert!(causes[0].message.starts_with(message), "{changes:?}: {}", causes[0].message);
    }
}

#[test]
fn a_usual_spec_is_fine() {
    assert_eq!(judged(&fine()), []);
}

#[test]
fn names_have_their_forms() {
    check(vec![
        (
            vec![("/hostname", json!("Not_A_Label"))],
            "spec.hostname",
            "spec.hostname does not conform to the kubernetes DNS_LABEL rules : a lowercase RFC 1123 label",
        ),
        (
            vec![("/hostname", json!("a".repeat(64)))],
            "spec.hostname",
            "spec.hostname does not conform to the kubernetes DNS_LABEL rules : must be no more than 63",
        ),
        (
            vec![("/subdomain", json!("a..b"))],
            "spec.subdomain",
            "spec.subdomain does not conform to the kubernetes DNS_SUBDOMAIN rules : ",
        ),
    ]);
}

#[test]
fn memory_is_there_and_fits() {
    let memory = "/domain/resources/requests/memory";
    check(vec![
        (
            vec![("/domain/resources", Value::Null), ("/domain/memory", Value::Null)],
            "",
            "no memory requested, at least one of 'spec.domain.memory.guest'",
        ),
        (
            vec![(memory, json!("-1"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '-1': must be greater than or equal to 0.",
        ),
        (
            vec![(memory, json!("1k"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1k': must be greater than or equal to 1M.",
        ),
        (
            vec![("/domain/resources/limits/memory", json!("-1"))],
            "spec.domain.resources.limits.memory",
            "spec.domain.resources.limits.memory '-1': must be",
        ),
        (
            vec![("/domain/resources/limits/memory", json!("512Mi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1Gi' is greater than spec.domain.resources.limits.memory '512Mi'",
        ),
        (
            vec![("/domain/memory/hugepages/pageSize", json!("x"))],
            "spec.domain.hugepages.size",
            "spec.domain.hugepages.size 'x': quantities must match",
        ),
        (
            vec![("/domain/memory/hugepages/pageSize", json!("2Gi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1Gi' must be equal to or larger than page size",
        ),
        (
            vec![("/domain/memory/hugepages/pageSize", json!("300Mi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1Gi' is not a multiple of the page size",
        ),
    ]);
}

#[test]
fn processors_fit() {
    let pinned = ("/domain/cpu/dedicatedCpuPlacement", json!(true));
    check(vec![
        (
            vec![("/domain/resources/requests/cpu", json!("-1"))],
            "spec.domain.resources.requests.cpu",
            "spec.domain.resources.requests.cpu '-1': must be",
        ),
        (
            vec![("/domain/resources/limits/cpu", json!("-1"))],
            "spec.domain.resources.limits.cpu",
            "spec.domain.resources.limits.cpu '-1': must be",
        ),
        (
            vec![
                ("/domain/resources/requests/cpu", json!("2")),
                ("/domain/resources/limits/cpu", json!("1")),
            ],
            "spec.domain.resources.requests.cpu",
            "spec.domain.resources.requests.cpu '2' is greater than",
        ),
        (
            vec![("/domain/cpu/isolateEmulatorThread", json!(true))],
            "spec.domain.cpu.isolateEmulatorThread",
            "IsolateEmulatorThread should be only set",
        ),
        (
            vec![("/domain/cpu/features", json!([{"name": "vmx", "policy": "maybe"}]))],
            "spec.domain.cpu.features[0].policy",
            "CPU feature vmx uses policy maybe that is not supported.",
        ),
        (
            vec![("/domain/cpu/maxSockets", json!(2)), ("/domain/cpu/sockets", json!(3))],
            "spec.domain.cpu.sockets",
            "Number of sockets in CPU topology is greater",
        ),
        (
            vec![pinned.clone(), ("/domain/cpu/threads", json!(4))],
            "spec.domain.cpu.dedicatedCpuPlacement",
            "Not more than two threads must be provided",
        ),
        (
            vec![pinned.clone(), ("/domain/resources/requests/cpu", json!("3"))],
            "spec.domain.cpu.dedicatedCpuPlacement",
            "spec.domain.resources.requests.cpu or spec.domain.resources.limits.cpu must not be provided",
        ),
        (
            vec![pinned.clone(), ("/domain/resources/limits/memory", json!("2Gi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory must be equal to",
        ),
        (
            vec![pinned.clone(), ("/domain/cpu/numa/guestMappingPassthrough", json!({}))],
            "spec.domain.cpu.numa.guestMappingPassthrough",
            "spec.domain.memory.hugepages must be requested",
        ),
        (
            vec![pinned, ("/domain/cpu/realtime", json!({}))],
            "spec.domain.cpu.numa.guestMappingPassthrough",
            "spec.domain.cpu.numa.guestMappingPassthrough must be defined",
        ),
        (
            vec![("/domain/machine/type", json!("pc-i440fx"))],
            "spec.domain.machine.type",
            "spec.domain.machine.type is not supported: pc-i440fx (allowed values: [q35* pc-q35*])",
        ),
    ]);
}

#[test]
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

#[test]
fn networks_and_interfaces_belong_together() {
    let interfaces = "/domain/devices/interfaces";
    let interface = "/domain/devices/interfaces/0";
    let two = |first: Value, second: Value| {
        vec![
            ("/networks", json!([first, second])),
            (interfaces, json!([{"name": "a", "bridge": {}}, {"name": "b", "bridge": {}}])),
        ]
    };
    check(vec![
        (
            vec![
                ("/networks/0/name", json!("other")),
                (interfaces, json!([{"name": "other", "bridge": {}}, {"name": "lost", "bridge": {}}])),
            ],
            "spec.domain.devices.interfaces[1].name",
            "spec.domain.devices.interfaces[1].name 'lost' not found.",
        ),
        (
            vec![(
                "/networks",
                json!([{"name": "default", "pod": {}}, {"name": "lost", "multus": {"networkName": "n"}}]),
            )],
            "spec.networks[1].name",
            "spec.networks[1].name 'lost' not found.",
        ),
        (
            two(json!({"name": "a", "pod": {}}), json!({"name": "b", "pod": {}})),
            "spec.interfaces",
            "more than one interface is connected to a pod network",
        ),
        (
            two(
                json!({"name": "a", "pod": {}}),
                json!({"name": "b", "multus": {"networkName": "n", "default": true}}),
            ),
            "spec.networks",
            "Pod network cannot be defined when Multus default network is defined",
        ),
        (
            two(
                json!({"name": "a", "multus": {"networkName": "m", "default": true}}),
                json!({"name": "b", "multus": {"networkName": "n", "default": true}}),
            ),
            "spec.networks",
            "Multus CNI should only have one default network",
        ),
        (vec![("/networks/0", json!({"name": "default"}))], "spec.networks[0]", "should have a network type"),
        (
            vec![("/networks/0/multus", json!({"networkName": "n"}))],
            "spec.networks[0]",
            "should have only one network type",
        ),
        (
            vec![("/networks/0", json!({"name": "default", "multus": {"networkName": ""}}))],
            "spec.networks[0]",
            "CNI delegating plugin must have a networkName",
        ),
        (
            vec![(
                "/networks",
                json!([{"name": "default", "pod": {}}, {"name": "default", "multus": {"networkName": "n"}}]),
            )],
            "spec.networks[1].name",
            "Network with name \"default\" already exists",
        ),
        (
            vec![(interfaces, json!([{"name": "default", "bridge": {}}, {"name": "default", "bridge": {}}]))],
            "spec.domain.devices.interfaces[1].name",
            "Only one interface can be connected to one specific network",
        ),
        (
            vec![(interface, json!({"name": "default"}))],
            "spec.domain.devices.interfaces[0]",
            "logical default interface must have an interface binding method",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "masquerade": {}}))],
            "spec.domain.devices.interfaces[0]",
            "logical default interface cannot have more than one",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "binding": {"name": "p"}}))],
            "spec.domain.devices.interfaces[0].binding",
            "logical default interface cannot have both",
        ),
        (
            vec![
                (interface, json!({"name": "default", "masquerade": {}})),
                ("/networks/0", json!({"name": "default", "multus": {"networkName": "n"}})),
            ],
            "spec.domain.devices.interfaces[0].name",
            "Masquerade interface only implemented with pod network",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:00"}),
            )],
            "spec.domain.devices.interfaces[0].macAddress",
            "The requested MAC address is reserved for the in-pod bridge.",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "macAddress": "zz"}))],
            "spec.domain.devices.interfaces[0].macAddress",
            "interface spec.domain.devices.interfaces[0].name has malformed MAC address (zz).",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "bridge": {}, "macAddress": "02:00:00:00:00:00:00:01"}),
            )],
            "spec.domain.devices.interfaces[0].macAddress",
            "interface spec.domain.devices.interfaces[0].name has MAC address (02:00:00:00:00:00:00:01) that is too long.",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "model": "ne1"}))],
            "spec.domain.devices.interfaces[0].model",
            "interface spec.domain.devices.interfaces[0].name uses model ne1",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "pciAddress": "1"}))],
            "spec.domain.devices.interfaces[0].pciAddress",
            "interface spec.domain.devices.interfaces[0].name has malformed PCI address",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "ports": [{"port": 0}]}))],
            "spec.domain.devices.interfaces[0].ports[0]",
            "Port field is mandatory.",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "ports": [{"port": 70000}]}))],
            "spec.domain.devices.interfaces[0].ports[0]",
            "Port field must be in range",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "bridge": {}, "ports": [{"port": 1, "protocol": "SCTP"}]}),
            )],
            "spec.domain.devices.interfaces[0].ports[0].protocol",
            "Unknown protocol",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "bridge": {}, "ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}),
            )],
            "spec.domain.devices.interfaces[0].ports[1].name",
            "Duplicate name of the port: a",
        ),
    ]);
    let slirp = json!({"domain": {"devices": {"interfaces": [{"name": "a", "slirp": {}}]}}});
    assert_eq!(
        discontinued_bindings(&Field::new("spec"), &slirp)[0].field,
        "spec.domain.devices.interfaces[0].slirp"
    );
}

#[test]
fn the_rest_is_as_it_should_be() {
    check(vec![
        (
            vec![("/startStrategy", json!("Now"))],
            "spec.startStrategy",
            "spec.startStrategy is set with an unrecognized option: Now",
        ),
        (
            vec![("/evictionStrategy", json!("Run"))],
            "spec.evictionStrategy",
            "spec.evictionStrategy is set with an unrecognized option: Run",
        ),
        (
            vec![("/architecture", json!("arm64")), ("/domain/machine/type", json!("virt"))],
            "spec.architecture",
            "MultiArchitecture feature gate is not enabled",
        ),
        (
            vec![("/readinessProbe", json!({}))],
            "spec.readinessProbe",
            "either spec.readinessProbe.tcpSocket, spec.readinessProbe.exec or",
        ),
        (
            vec![("/livenessProbe", json!({"exec": {}, "tcpSocket": {"port": 1}}))],
            "spec.livenessProbe",
            "spec.livenessProbe must have exactly one probe type set",
        ),
        (
            vec![
                ("/readinessProbe", json!({"tcpSocket": {"port": 1}})),
                ("/networks/0", json!({"name": "default", "multus": {"networkName": "n"}})),
            ],
            "spec.readinessProbe.tcpSocket",
            "spec.readinessProbe.tcpSocket is only allowed if the Pod Network is attached",
        ),
        (
            vec![("/domain/firmware/serial", json!("a b"))],
            "spec.domain.firmware.serial",
            "spec.domain.firmware.serial must be made up of",
        ),
        (
            vec![("/domain/firmware/bootloader", json!({"efi": {"secureBoot": false}, "bios": {}}))],
            "spec.domain.firmware.bootloader",
            "spec.domain.firmware.bootloader has both EFI and BIOS",
        ),
        (
            vec![("/domain/firmware/bootloader", json!({"efi": {}}))],
            "spec.domain",
            "spec.domain has EFI SecureBoot enabled. SecureBoot requires SMM",
        ),
        (
            vec![("/domain/firmware/kernelBoot/kernelArgs", json!("quiet"))],
            "spec.domain.firmware.kernelBoot.kernelArgs",
            "kernel arguments cannot be provided",
        ),
        (
            vec![("/domain/firmware/kernelBoot/container", json!({"image": "a"}))],
            "spec.domain.firmware.kernelBoot.container",
            "spec.domain.firmware.kernelBoot.container must be defined with at least one",
        ),
        (
            vec![("/domain/firmware/acpi", json!({"slicNameRef": "lost"}))],
            "spec.acpi.slicNameRef",
            "spec.acpi does not have a matching Volume.",
        ),
        (
            vec![("/accessCredentials", json!([{}]))],
            "spec.accessCredentials[0]",
            "spec.accessCredentials[0] must have exactly one access credential type set",
        ),
        (
            vec![(
                "/accessCredentials",
                json!([{"sshPublicKey": {"source": {"secret": {"secretName": "s"}}, "propagationMethod": {"noCloud": {}}}}]),
            )],
            "spec.accessCredentials[0].sshPublicKey.propagationMethod",
            "spec.accessCredentials[0] requires a noCloud volume",
        ),
        (
            vec![(
                "/accessCredentials",
                json!([{"userPassword": {"source": {}, "propagationMethod": {"qemuGuestAgent": {}}}}]),
            )],
            "spec.accessCredentials[0].userPassword.source",
            "spec.accessCredentials[0] must have exactly one source set",
        ),
        (vec![("/dnsPolicy", json!("Some"))], "spec.dnsPolicy", "DNSPolicy: Some is not supported"),
        (
            vec![("/dnsPolicy", json!("None"))],
            "spec.dnsConfig",
            "must provide `dnsConfig` when `dnsPolicy` is None",
        ),
        (vec![("/dnsConfig/nameservers", json!(["x"]))], "nameservers", "must be valid IP address: x"),
        (
            vec![("/domain/devices/inputs", json!([{"name": "i", "type": "mouse"}]))],
            "spec.domain.devices.inputs[0].type",
            "Input device can have only tablet type.",
        ),
        (
            vec![("/domain/devices/inputs", json!([{"name": "i", "type": "tablet", "bus": "ps2"}]))],
            "spec.domain.devices.inputs[0].bus",
            "Input device can have only virtio or usb bus.",
        ),
        (
            vec![("/domain/ioThreadsPolicy", json!("many"))],
            "spec.domain.ioThreadsPolicy",
            "Invalid IOThreadsPolicy (many)",
        ),
        (
            vec![("/domain/ioThreadsPolicy", json!("supplementalPool"))],
            "spec.domain.ioThreads.count",
            "the number of iothreads needs to be set",
        ),
        (
            vec![("/domain/devices/sound", json!({"name": "s", "model": "sb16"}))],
            "spec.Sound",
            "Sound device type is not supported.",
        ),
        (
            vec![("/domain/devices/hostDevices", json!([{"name": "h"}]))],
            "spec.HostDevices",
            "Host Devices feature gate is not enabled",
        ),
        (
            vec![("/domain/devices/autoattachVSOCK", json!(true))],
            "spec.domain.devices.autoattachVSOCK",
            "VSOCK feature gate is not enabled",
        ),
        (
            vec![("/domain/launchSecurity/sev", json!({}))],
            "spec.launchSecurity",
            "WorkloadEncryptionSEV feature gate is not enabled",
        ),
    ]);
}

#[test]
fn metadata_is_judged_by_who_writes_it() {
    let field = Field::new("metadata");
    for label in RESERVED_LABELS {
        let object = json!({"labels": {*label: "x"}});
        let causes = metadata(&field, &object, &Config::default(), false);
        assert_eq!(causes[0].field, "metadata.labels");
        assert_eq!(causes[0].reason, "FieldValueNotSupported");
        assert_eq!(metadata(&field, &object, &Config::default(), true), []);
    }
    let ignition = json!({"annotations": {"kubevirt.io/ignitiondata": "{}"}});
    let causes = metadata(&field, &ignition, &Config::default(), true);
    assert!(causes[0].message.ends_with("invalid entry metadata.annotations.kubevirt.io/ignitiondata"));
    let open =
        Config::new(json!({"developerConfiguration": {"featureGates": ["ExperimentalIgnitionSupport"]}}));
    assert_eq!(metadata(&field, &ignition, &open, true), []);
}
