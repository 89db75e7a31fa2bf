//! Bad input: each thing that is wrong is said once, at its line.

use proptest::prelude::*;

use super::full::{FULL, PROFILE, secret};
use super::support::read;

/// The line of the first occurrence of a text.
fn line(text: &str, piece: &str) -> usize {
    text[..text.find(piece).unwrap_or_else(|| panic!("{piece}"))].matches('\n').count() + 1
}

/// Reads the full Shoot with something replaced, and expects exactly one error, at the line of `at`.
fn wrong(from: &str, to: &str, at: &str, code: &str) {
    assert!(FULL.contains(from), "{from}");
    let shoot = FULL.replacen(from, to, 1);
    let outcome = read(&[&shoot, PROFILE]);
    assert_eq!(outcome.errors(), [format!("{} {code}", line(&shoot, at))], "{to}\n{}", outcome.text());
}

/// Likewise with the CloudProfile.
fn wrong_profile(from: &str, to: &str, at: &str, code: &str) {
    assert!(PROFILE.contains(from), "{from}");
    let profile = PROFILE.replacen(from, to, 1);
    let outcome = read(&[FULL, &profile]);
    assert_eq!(outcome.errors(), [format!("{} {code}", line(&profile, at))], "{to}\n{}", outcome.text());
}

#[test]
fn a_shoot_for_another_infrastructure() {
    wrong("type: kubevirt", "type: aws", "type: aws", "wrong-provider");
}

#[test]
fn a_network_plugin_nobody_knows() {
    wrong("type: cilium", "type: cilum", "type: cilum", "invalid-value");
    let outcome = read(&[&FULL.replacen("type: cilium", "type: cilum", 1), PROFILE]);
    assert!(outcome.text().contains("did you mean `cilium`?"), "{}", outcome.text());
}

#[test]
fn no_address_range_for_the_machines() {
    wrong("    nodes: 10.250.0.0/16\n", "", "type: cilium", "missing-field");
}

#[test]
fn ranges_that_are_none_or_overlap() {
    wrong("nodes: 10.250.0.0/16", "nodes: 10.250.0.0/33", "nodes:", "invalid-value");
    wrong("nodes: 10.250.0.0/16", "nodes: 100.65.0.0/16", "nodes:", "ranges-overlap");
}

#[test]
fn no_region_and_no_zones() {
    wrong("  region: europe-west1\n", "", "accessRestrictions:", "missing-field");
    wrong("      zones: [europe-west1-d, europe-west1-c]\n", "", "name: small", "missing-field");
    wrong(
        "[europe-west1-d, europe-west1-c]",
        "[europe-west1-c, europe-west1-c]",
        "zones: [",
        "duplicate-zone",
    );
}

#[test]
fn no_volume_and_volumes_that_are_wrong() {
    wrong("      volume:\n        type: default\n        size: 20Gi\n", "", "name: small", "missing-field");
    wrong(
        "        type: default\n        size: 20Gi\n",
        "        size: 20Gi\n",
        "size: 20Gi",
        "missing-field",
    );
    wrong("size: 20Gi", "size: 20 Gi", "size: 20 Gi", "invalid-value");
    wrong("size: 20Gi", "size: 20Gi\n        encrypted: true", "encrypted: true", "unsupported");
    wrong("        type: fast\n", "        type: fats\n", "type: fats", "unknown-volume-type");
    let shoot = FULL.replacen("      - name: scratch\n", "      - name: root-disk\n", 1);
    let expected = [
        format!("{} duplicate-disk", line(&shoot, "- name: root-disk")),
        format!("{} unknown-disk", line(&shoot, "- name: scratch")),
    ];
    assert_eq!(read(&[&shoot, PROFILE]).errors(), expected);
}

#[test]
fn a_machine_type_and_an_image_nobody_knows() {
    wrong("type: standard-1", "type: standrad-1", "type: standrad-1", "unknown-machine-type");
    wrong("name: ubuntu", "name: windows", "name: windows", "unknown-image");
    wrong("architecture: amd64", "architecture: x86_64", "architecture: x86_64", "invalid-value");
}

#[test]
fn numbers_that_cannot_be() {
    wrong("      minimum: 2\n", "", "name: small", "missing-field");
    wrong("minimum: 2", "minimum: 6", "minimum: 6", "autoscaling-bounds");
    wrong("minimum: 2", "minimum: -1", "minimum: -1", "invalid-value");
    wrong("maxSurge: 25%", "maxSurge: lots", "maxSurge: lots", "invalid-value");
    wrong(
        "maxSurge: 25%\n      maxUnavailable: 1",
        "maxSurge: 0\n      maxUnavailable: 0",
        "maxSurge: 0",
        "surge-and-unavailable-zero",
    );
}

#[test]
fn versions_that_cannot_be() {
    wrong("version: 1.33.4", "version: latest", "version: latest", "invalid-value");
    wrong("version: 1.32.8", "version: 1.34.0", "version: 1.34.0", "kubelet-too-new");
    wrong("begin: 220000+0100", "begin: 22:00", "begin: 22:00", "invalid-value");
}

#[test]
fn labels_and_taints_that_cannot_be() {
    wrong("example.com/tier: web", "example.com/tier: web site", "tier: web site", "invalid-value");
    wrong("effect: NoSchedule", "effect: NoSchedul", "effect: NoSchedul", "invalid-value");
    wrong("- key: dedicated\n        value", "- value", "- value: web", "missing-field");
}

#[test]
fn a_worker_config_with_disks_that_cannot_be() {
    wrong("          - name: scratch\n", "          - name: scratsh\n", "name: scratsh", "unknown-disk");
    wrong("{bus: scsi}", "{bus: ide}", "{bus: ide}", "invalid-value");
    wrong("serial: SCRATCH-1", "bootOrder: 1", "bootOrder: 1", "unsupported");
    wrong("disk: {bus: scsi}", "cdrom: {}", "cdrom: {}", "unsupported");
    wrong("serial: SCRATCH-1", "cache: writearound", "cache: writearound", "invalid-value");
    wrong("serial: SCRATCH-1", "serail: SCRATCH-1", "serail:", "unknown-field");
    wrong(
        "            serial: SCRATCH-1\n",
        "          - name: scratch\n            cache: none\n",
        "name: scratch\n            cache: none",
        "duplicate-name",
    );
}

#[test]
fn a_worker_config_with_cpus_and_memory_that_cannot_be() {
    wrong("cores: 2", "isolateEmulatorThread: true", "isolateEmulatorThread", "needs-dedicated-cpus");
    wrong("cores: 2", "realtime: {}", "realtime", "unsupported");
    wrong("policy: disable", "policy: never", "policy: never", "invalid-value");
    wrong("guest: 6Gi", "guest: 10Gi", "guest: 10Gi", "guest-memory-above-limit");
    wrong("guest: 6Gi", "guest: much", "guest: much", "invalid-value");
    wrong("guest: 6Gi", "hugepages: {pageSize: 4Mi}", "pageSize: 4Mi", "invalid-value");
    wrong("kind: WorkerConfig", "kind: WorkerConfiguration", "kind: WorkerConfiguration", "wrong-kind");
    wrong(
        "        memory:\n",
        "        dnsPolicy: None\n        memory:\n",
        "dnsPolicy: None",
        "dns-none-without-nameserver",
    );
    wrong(
        "        memory:\n",
        "        dnsConfig: {nameservers: [dns.example]}\n        memory:\n",
        "dnsConfig:",
        "invalid-value",
    );
}

#[test]
fn a_guest_that_sees_less_than_is_set_aside_is_worth_a_warning() {
    let shoot = FULL.replace("guest: 6Gi", "guest: 2Gi");
    let outcome = read(&[&shoot, PROFILE]);
    assert_eq!(
        outcome.warnings(),
        [format!("{} guest-below-request", line(&shoot, "guest: 2Gi"))],
        "{}",
        outcome.text()
    );
}

#[test]
fn networks_that_cannot_be() {
    let head = "apiVersion: kubevirt.provider.extensions.gardener.cloud/v1alpha1\nkind: InfrastructureConfig\nnetworks:\n";
    for (body, expected) in [
        ("  tenantNetworks:\n  - name: a\n    config: \"{...}\"\n", "6 invalid-cni-config"),
        ("  tenantNetworks:\n  - name: a\n    config: \"[]\"\n", "6 invalid-cni-config"),
        ("  tenantNetworks:\n  - name: a\n", "5 missing-field"),
        ("  tenantNetworks:\n  - config: '{\"type\":\"bridge\"}'\n", "5 missing-field"),
        ("  sharedNetworks:\n  - namespace: default\n", "5 missing-field"),
        ("  sharedNetworks:\n  - name: a\n  - name: a\n", "6 duplicate-network"),
        ("  sharedNetwork:\n  - name: a\n", "4 unknown-field"),
    ] {
        let outcome = read(&[&format!("{head}{body}")]);
        assert_eq!(outcome.errors(), [expected], "{body}\n{}", outcome.text());
    }
    let two = "  tenantNetworks:\n  - {name: a, default: true, config: '{\"type\":\"bridge\"}'}\n  - {name: b, default: true, config: '{\"type\":\"bridge\"}'}\n";
    let outcome = read(&[&format!("{head}{two}")]);
    assert_eq!(outcome.errors(), ["5 two-default-networks", "6 two-default-networks"], "{}", outcome.text());
}

#[test]
fn a_cloud_profile_that_is_wrong() {
    wrong_profile("cpu: \"1\"", "cpu: one", "cpu: one", "invalid-value");
    wrong_profile("https://cloud", "ftp://cloud", "sourceURL: ftp", "invalid-value");
    let again = "  - name: standard-1\n    cpu: 9\n    memory: 1Gi\n  volumeTypes:\n";
    wrong_profile("  volumeTypes:\n", again, "name: standard-1\n    cpu: 9", "duplicate-name");
    wrong_profile("  type: kubevirt\n", "", "kubernetes:", "missing-field");
    // What is wrong inside the configuration does not make its images missing as well.
    let profile = PROFILE.replace("    machineTypes:", "    machineKinds:");
    let outcome = read(&[&profile]);
    let expected = [format!("{} unknown-field", line(&profile, "machineKinds"))];
    assert_eq!((outcome.errors(), outcome.warnings()), (expected.to_vec(), vec![]), "{}", outcome.text());
    wrong_profile("cpu: \"2\"", "cpu: \"0.5\"", "cpu: \"1\"", "cpu-request-above-limit");
}

#[test]
fn secrets_that_hold_no_kubeconfig_are_not_repeated() {
    for (data, code) in [
        ("\"%%%\"", "invalid-base64"),
        ("czNjcjN0", "invalid-kubeconfig"),
        ("Y3VycmVudC1jb250ZXh0OiB6Cg==", "invalid-kubeconfig"),
    ] {
        let secret = secret(data);
        let outcome = read(&[FULL, PROFILE, &secret]);
        assert_eq!(outcome.errors(), [format!("7 {code}")], "{}", outcome.text());
        assert!(!outcome.text().contains("s3cr3t") && !outcome.text().contains(data), "{}", outcome.text());
        assert!(outcome.diagnostics.iter().filter(|said| said.code == code).all(|said| said.sensitive));
    }
    let empty = secret("x").replace("data:\n  kubeconfig: x\n", "data: {}\n");
    let outcome = read(&[FULL, PROFILE, &empty]);
    assert_eq!(outcome.errors(), [format!("{} missing-field", line(FULL, "secretBindingName"))]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines lost, doubled or emptied: whatever comes of it, reading ends and every complaint has a place.
    #[test]
    fn a_damaged_text_never_breaks_the_reader(damage in proptest::collection::vec((any::<prop::sample::Index>(), 0..4), 1..6)) {
        let mut lines: Vec<String> = format!("{FULL}---\n{PROFILE}").lines().map(str::to_owned).collect();
        for (index, kind) in damage {
            let at = index.index(lines.len());
            match kind {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => lines[at] = lines[at].split_inclusive(':').next().unwrap_or_default().to_owned(),
                _ => lines[at].push_str("x: ["),
            }
        }
        let text = lines.join("\n");
        let outcome = read(&[&text]);
        for said in &outcome.diagnostics {
            prop_assert!(said.location.is_some(), "{said:?}\n{text}");
        }
    }
}

#[test]
fn an_empty_configuration_is_none() {
    let shoot = FULL.replace(
        "    workersSettings:",
        "    infrastructureConfig:\n    controlPlaneConfig: ~\n    workersSettings:",
    );
    assert_eq!(read(&[&shoot, PROFILE]).errors(), [] as [&str; 0]);
}
