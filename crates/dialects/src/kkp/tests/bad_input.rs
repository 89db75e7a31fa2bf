//! Wrong manifests, each with the one thing that is said about it and the line it is said at.

use super::{SEED, edited, read_text};

/// Makes some edits and expects exactly these errors, as `code line`.
fn errors(edits: &[(&str, &str)], expected: &[&str]) {
    let outcome = edited(edits);
    let expected: Vec<String> = expected.iter().map(|text| format!("error {text}")).collect();
    assert_eq!(outcome.said_of("error"), expected, "{edits:?}\n{:#?}", outcome.diagnostics);
}

#[test]
fn an_unknown_field_anywhere() {
    errors(&[("  replicas: 3", "  replica: 3")], &["unknown-field 10"]);
    errors(&[("clusterName: demo", "clustername: demo")], &["unknown-field 39"]);
    errors(&[("storageClassName: fast", "storageClass: fast")], &["unknown-field 53"]);
}

#[test]
fn another_platform_is_one_error() {
    errors(&[("cloudProvider: kubevirt", "cloudProvider: aws")], &["unsupported-platform 34"]);
    errors(&[("cloudProvider: kubevirt\n          ", "")], &["missing-field 34"]);
}

#[test]
fn an_unknown_operating_system() {
    errors(&[("operatingSystem: ubuntu", "operatingSystem: ubunto")], &["invalid-value 35"]);
    errors(&[("operatingSystem: ubuntu\n          ", "")], &["missing-field 34"]);
}

#[test]
fn a_selector_that_selects_nothing() {
    errors(
        &[("      pool: workers\n  strategy", "      pool: others\n  strategy")],
        &["selector-mismatch 13"],
    );
    errors(&[("  selector:\n    matchLabels:\n      pool: workers\n", "")], &["missing-field 10"]);
    let rule = "    matchExpressions: [{key: pool, operator: NotIn, values: [workers]}]\n";
    errors(&[("    matchLabels:\n      pool: workers\n", rule)], &["selector-mismatch 12"]);
}

#[test]
fn an_update_that_could_never_happen() {
    errors(
        &[("maxSurge: 25%", "maxSurge: 0"), ("maxUnavailable: 1", "maxUnavailable: 0")],
        &["surge-and-unavailable-zero 16"],
    );
    errors(&[("maxSurge: 25%", "maxSurge: many")], &["invalid-value 16"]);
    errors(&[("  strategy:\n", "  strategy:\n    type: Recreate\n")], &["invalid-value 15"]);
}

#[test]
fn a_reference_nobody_can_follow() {
    errors(&[("cpus: 2", "cpus: {secretKeyRef: {name: a, key: b}}")], &["unresolved-reference 48"]);
    let outcome = edited(&[("clusterName: demo", "clusterName: {configMapKeyRef: {name: a, key: b}}")]);
    assert_eq!(outcome.said_of("error"), Vec::<String>::new());
    assert_eq!(outcome.said_of("warning"), ["warning unresolved-reference 39"]);
}

#[test]
fn settings_of_two_generations() {
    errors(
        &[("clusterName: demo", "clusterName: demo\n            pvcSize: 10Gi")],
        &["mixed-generations 40"],
    );
    let outcome = edited(&[("clusterName: demo", "clusterName: demo\n            sourceURL: http://x")]);
    let said = outcome.diagnostics.iter().find(|d| d.code == "mixed-generations").unwrap();
    assert!(said.message.contains("`sourceURL`") && said.message.contains("`virtualMachine`"), "{said:?}");
    assert!(said.help.as_ref().unwrap().contains("virtualMachine.template.primaryDisk.osImage"), "{said:?}");
}

#[test]
fn amounts_that_are_none() {
    errors(&[("memory: 4Gi", "memory: 4GB")], &["invalid-value 49"]);
    errors(&[("size: 20Gi", "size: big")], &["invalid-value 52"]);
    errors(&[("                  size: 20Gi\n", "")], &["missing-field 51"]);
    errors(&[("cpus: 2", "cpus: 2\n                vcpus: {cores: 2}")], &["choose-one 49"]);
}

#[test]
fn words_that_are_no_choice() {
    for (old, new, line) in [
        ("podAntiAffinityPreset: hard", "podAntiAffinityPreset: Hard", 70),
        ("type: hard", "type: heavy", 72),
        ("whenUnsatisfiable: DoNotSchedule", "whenUnsatisfiable: Never", 78),
        ("evictionStrategy: LiveMigrate", "evictionStrategy: LiveMigration", 67),
        ("storageAccessType: ReadWriteMany", "storageAccessType: RWX", 54),
        ("location:", "dnsPolicy: none\n              location:", 58),
        ("size: 20Gi", "size: 20Gi\n                  storageTarget: volume", 53),
        ("size: 20Gi", "size: 20Gi\n                  source: ftp", 53),
        ("size: 20Gi", "size: 20Gi\n                  pullMethod: host", 53),
        ("location:", "enableNetworkMultiQueue: maybe\n              location:", 58),
        ("effect: NoSchedule", "effect: NoScheduling", 29),
    ] {
        let outcome = edited(&[(old, new)]);
        assert_eq!(
            outcome.said_of("error"),
            [format!("error invalid-value {line}")],
            "{new}: {:#?}",
            outcome.diagnostics
        );
    }
    let outcome = edited(&[("podAntiAffinityPreset: hard", "podAntiAffinityPreset: Hard")]);
    let said = outcome.diagnostics.iter().find(|d| d.code == "invalid-value").unwrap();
    assert_eq!(said.help.as_deref(), Some("did you mean `hard`?"));
}

#[test]
fn presets_and_spreads_without_a_key() {
    errors(&[("                key: disk\n", "")], &["missing-field 72"]);
    errors(&[("                topologyKey: topology.kubernetes.io/zone\n", "")], &["missing-field 76"]);
}

#[test]
fn an_address_of_nothing() {
    errors(&[("docker://quay.io/images/ubuntu:24.04", "ftp://x/y")], &["invalid-value 51"]);
    let both =
        "https://x/y\n                  extraHeaders: ['A: b']\n                  extraHeadersSecretRef: s";
    errors(&[("docker://quay.io/images/ubuntu:24.04", both)], &["choose-one 53"]);
    errors(
        &[("operatingSystem: ubuntu", "operatingSystem: ubuntu\n          network: {cidr: 10.0.0.5}")],
        &["invalid-value 36"],
    );
}

#[test]
fn what_was_taken_out_of_kubernetes() {
    errors(&[("      versions:", "      configSource: {}\n      versions:")], &["unsupported 30"]);
    errors(&[("      versions:", "      providerID: kubevirt://x\n      versions:")], &["unsupported 30"]);
    errors(&[("kubelet: 1.34.2", "kubelet: newest")], &["invalid-value 31"]);
}

#[test]
fn keys_and_labels_that_are_none() {
    let text = SEED.replace("- ssh-rsa AAAAB3", "- ssh-rsa-AAAAB3");
    let outcome = read_text(&text);
    assert_eq!(outcome.said_of("error"), ["error invalid-value 72"]);
    assert!(outcome.diagnostics.iter().any(|d| d.code == "invalid-value" && d.sensitive));
    errors(&[("tier: front", "tier: 'front door'")], &["invalid-value 25"]);
}

#[test]
fn autoscaling_needs_two_bounds() {
    errors(&[(r#"min-size: "2""#, r#"min-size: "two""#)], &["invalid-value 7"]);
    let outcome = edited(&[("    cluster.k8s.io/cluster-api-autoscaler-node-group-min-size: \"2\"\n", "")]);
    assert_eq!(outcome.said_of("warning"), ["warning not-used 7"]);
}
