//! Wrong manifests, each with the one thing that is said about it and the line it is said at.

use super::{KUBEVIRT, KUBEVIRT_SET, OVIRT, OVIRT_MACHINE, edited};

/// Makes an edit and expects exactly this error, as `code line`.
fn error(example: &str, old: &str, new: &str, expected: &str) {
    let outcome = edited(example, &[(old, new)]);
    assert_eq!(outcome.said_of("error"), [format!("error {expected}")], "{new}\n{:#?}", outcome.diagnostics);
}

#[test]
fn an_unknown_field_anywhere() {
    error(KUBEVIRT, "baseDomain:", "basedomain:", "unknown-field 4");
    error(KUBEVIRT, "networkName: mynet", "network: mynet", "unknown-field 29");
    error(OVIRT, "ovirt_network_name", "ovirtNetworkName", "unknown-field 27");
    error(KUBEVIRT_SET, "requestedCPU", "requestedCpu", "unknown-field 39");
    error(OVIRT_MACHINE, "memory_mb: 16384", "memoryMB: 16384", "unknown-field 20");
}

#[test]
fn another_platform_is_one_error() {
    let kubevirt = KUBEVIRT.split("platform:\n  kubevirt:\n    namespace").next().unwrap();
    let text = format!("{kubevirt}platform:\n  aws: {{region: x}}\n");
    let outcome = edited(&text, &[]);
    assert_eq!(outcome.said_of("error"), ["error unsupported-platform 27"]);
    error(KUBEVIRT, "platform:\n  kubevirt:\n", "platform:\n  ovirt: {}\n  kubevirt:\n", "choose-one 27");
    error(
        KUBEVIRT_SET,
        "kind: KubevirtMachineProviderSpec",
        "kind: AWSMachineProviderConfig",
        "unsupported-platform 35",
    );
    error(KUBEVIRT_SET, "          kind: KubevirtMachineProviderSpec\n", "", "missing-field 34");
}

#[test]
fn a_pool_on_another_platform_than_its_cluster() {
    error(
        KUBEVIRT,
        "    kubevirt:\n      cpu: 8",
        "    ovirt:\n      vmType: server",
        "platform-conflict 16",
    );
    error(KUBEVIRT, "    kubevirt:\n      cpu: 8", "    vsphere: {}", "platform-conflict 15");
}

#[test]
fn a_network_of_its_own_needs_addresses() {
    error(
        KUBEVIRT,
        "    apiVIP: 192.168.1.5\n    ingressVIP: 192.168.1.6\n",
        "    ingressVIP: 192.168.1.6\n    apiVIP: 192.168.1.600\n",
        "invalid-value 31",
    );
    let outcome = edited(KUBEVIRT, &[("    apiVIP: 192.168.1.5\n    ingressVIP: 192.168.1.6\n", "")]);
    assert_eq!(outcome.said_of("error"), ["error missing-field 28", "error missing-field 28"]);
    error(KUBEVIRT, "ingressVIP: 192.168.1.6", "ingressVIP: 192.168.1.5", "same-vip-twice 31");
    error(KUBEVIRT, "apiVIP: 192.168.1.5", "apiVIP: 10.9.9.9", "vip-outside-nodes 30");
}

#[test]
fn without_a_network_of_its_own_addresses_mean_nothing() {
    let outcome = edited(KUBEVIRT, &[("    networkName: mynet\n", "")]);
    outcome.clean();
    assert_eq!(
        outcome.said_of("warning not-used"),
        ["warning not-used 29", "warning not-used 30", "warning not-used 32"]
    );
}

#[test]
fn ranges_that_are_none_or_overlap() {
    error(KUBEVIRT, "10.132.0.0/14", "10.132.0.0", "invalid-value 40");
    error(KUBEVIRT, "172.31.0.0/16", "10.133.0.0/16", "ranges-overlap 43");
}

#[test]
fn words_that_are_no_choice() {
    for (example, old, new, line) in [
        (KUBEVIRT, "Method: SRIOV", "Method: Sriov", 33),
        (KUBEVIRT, "AccessMode: ReadWriteOnce", "AccessMode: RWO", 34),
        (KUBEVIRT, "publish: Internal", "publish: internal", 9),
        (KUBEVIRT, "architecture: amd64", "architecture: x86_64", 13),
        (KUBEVIRT, "hyperthreading: Enabled", "hyperthreading: on", 20),
        (OVIRT, "vmType: desktop", "vmType: laptop", 22),
        (OVIRT, "format: cow", "format: qcow2", 21),
        (OVIRT, "autoPinningPolicy: resize_and_pin", "autoPinningPolicy: pin", 18),
        (OVIRT_MACHINE, "type: high_performance", "type: fast", 23),
        (KUBEVIRT_SET, "deletePolicy: Newest", "deletePolicy: newest", 13),
    ] {
        error(example, old, new, &format!("invalid-value {line}"));
    }
}

#[test]
fn amounts_that_are_none() {
    error(KUBEVIRT, "memory: 8Gi", "memory: lots", "invalid-value 23");
    error(KUBEVIRT, "storageSize: 100Gi", "storageSize: 100GiB", "invalid-value 37");
    error(KUBEVIRT, "cpu: 8", "cpu: eight", "wrong-type 16");
    error(KUBEVIRT, "replicas: 3", "replicas: -3", "invalid-value 12");
    error(OVIRT, "hugepages: 2048", "hugepages: 4096", "invalid-value 33");
    error(OVIRT, "cpu: {sockets: 2, cores: 4}", "cpu: {sockets: 0, cores: 4}", "invalid-value 9");
}

#[test]
fn an_instance_type_beside_what_it_replaces() {
    error(OVIRT, "affinityGroupsNames: [compute]", "memoryMB: 4096", "choose-one 16");
    error(
        OVIRT_MACHINE,
        "memory_mb: 16384",
        "memory_mb: 16384\n      instance_type_id: 99999999-2222-3333-4444-555555555555",
        "choose-one 21",
    );
}

#[test]
fn identifiers_that_are_missing_or_none() {
    error(OVIRT, "    ovirt_cluster_id: 11111111-2222-3333-4444-555555555555\n", "", "missing-field 25");
    error(OVIRT, "22222222-2222-3333-4444-555555555555", "storage", "invalid-value 26");
    error(OVIRT_MACHINE, "      os_disk: {size_gb: 120}\n", "", "missing-field 13");
    error(OVIRT_MACHINE, "guaranteed_memory_mb: 8192", "guaranteed_memory_mb: 99999", "invalid-value 21");
}

#[test]
fn old_and_new_addresses_that_contradict() {
    error(OVIRT, "api_vips: [10.0.0.5]", "api_vips: [10.0.0.5]\n    api_vip: 10.0.0.7", "field-conflict 30");
    let two = "api_vips: [10.0.0.5]\n    affinityGroups: [{name: compute}, {name: compute, priority: 2}]";
    error(OVIRT, "api_vips: [10.0.0.5]", two, "duplicate-name 30");
}

#[test]
fn names_that_are_missing_or_none() {
    error(KUBEVIRT, "  name: demo\n", "  name: Demo\n", "invalid-value 3");
    error(KUBEVIRT, "metadata:\n  name: demo\n", "", "missing-field 1");
    error(KUBEVIRT, "name: master", "name: controlplane", "invalid-value 11");
    error(KUBEVIRT, "  - name: big", "  - name: worker", "duplicate-pool 24");
    error(KUBEVIRT, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA", "ssh-ed25519", "invalid-value 5");
}

#[test]
fn machines_without_a_cluster_or_selector() {
    let outcome = edited(
        KUBEVIRT_SET,
        &[
            ("  labels:\n    machine.openshift.io/cluster-api-cluster: demo\n", ""),
            ("        machine.openshift.io/cluster-api-cluster: demo\n", ""),
        ],
    );
    assert_eq!(outcome.said_of("error"), ["error missing-field 18"]);
    error(
        KUBEVIRT_SET,
        "cluster-api-machineset: demo-worker-0\n  template",
        "cluster-api-machineset: other\n  template",
        "selector-mismatch 16",
    );
}
