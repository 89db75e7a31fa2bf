//! Everything else.

use serde_json::json;

use super::*;

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
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

#[test]
fn places_can_be_found() {
    let pods = "/affinity/podAntiAffinity";
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    check(vec![
        (
            vec![("/affinity/nodeAffinity", json!({required: {"nodeSelectorTerms": []}}))],
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one",
        ),
        (
            vec![("/affinity/nodeAffinity", json!({preferred: [{"weight": 0, "preference": {}}]}))],
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
        ),
        (
            vec![(pods, json!({required: [{"topologyKey": ""}]}))],
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
        ),
        (
            vec![("/topologySpreadConstraints", json!([{"maxSkew": 0, "topologyKey": "zone"}]))],
            "spec.topologySpreadConstraints[0].maxSkew",
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
    ]);
}
