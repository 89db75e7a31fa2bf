//! What is written and read again is the same.

use proptest::prelude::*;

use super::{NESTED, SEED, edited, read_text, write};
use crate::testing::text;
use trellis_model::Estate;

fn round(estate: &Estate) -> Estate {
    let written = text(&write(estate));
    let outcome = read_text(&written);
    assert!(outcome.said_of("error").is_empty(), "{written}\n{:#?}", outcome.diagnostics);
    outcome.estate
}

#[test]
fn the_examples_come_back() {
    let estate = edited(&[]).clean().clone();
    assert_eq!(round(&estate), estate);
    let mut estate = read_text(SEED).clean().clone();
    let back = round(&estate);
    // Today's generation has no namespace and no hosts to avoid; nothing else is lost.
    estate.clusters = back.clusters.clone();
    estate.pools[0].spec.template.placement.avoided_hosts.clear();
    assert_eq!(back, estate);
}

#[test]
fn what_only_the_cluster_says_is_written_into_its_pools() {
    let mut estate = edited(&[("kubelet: 1.34.2", "kubelet: ''")]).clean().clone();
    estate.clusters[0].spec.version = Some("1.33".parse().unwrap());
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA me";
    estate.clusters[0].spec.ssh_keys.insert(trellis_model::access::SshKey::new(key).unwrap());
    let back = round(&estate);
    assert_eq!(back.pools[0].spec.kubelet_version, Some("1.33".parse().unwrap()));
    assert_eq!(back.pools[0].spec.template.ssh_keys.len(), 1);
}

#[test]
fn what_no_worker_on_kubevirt_is_stays_out() {
    let mut estate = edited(&[]).clean().clone();
    estate.pools[0].spec.role = trellis_model::pool::Role::ControlPlane;
    assert!(write(&estate).is_empty());
}

/// Some settings, as edits of the example.
fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let shape = prop_oneof![
        (1_u32..9).prop_map(|n| ("cpus: 2", format!("cpus: {n}"))),
        (1_u32..9).prop_map(|n| ("cpus: 2", format!("vcpus: {{cores: {n}}}"))),
        Just(("template:\n                cpus: 2\n                memory: 4Gi", "flavor: {name: database-8}\n              template:".to_owned())),
        prop_oneof![Just(""), Just("Cluster")].prop_map(|scope| (
            "template:\n                cpus: 2\n                memory: 4Gi",
            format!("instancetype: {{name: i, kind: VirtualMachine{scope}Instancetype}}\n              preference: {{name: p, kind: VirtualMachine{scope}Preference}}\n              template:")
        )),
    ];
    let image = prop_oneof![
        Just("https://x/y.img\n                  extraHeaders: ['A: b', 'C: d']"),
        Just(
            "http://x\n                  extraHeadersSecretRef: s\n                  dataVolumeSecretRef: t"
        ),
        Just("oci-archive://x\n                  pullMethod: pod"),
        Just("ns/volume"),
        Just("volume"),
    ]
    .prop_map(|image| ("docker://quay.io/images/ubuntu:24.04", image.to_owned()));
    let preset = prop_oneof![Just("''"), Just("soft"), Just("hard")]
        .prop_map(|word| ("podAntiAffinityPreset: hard", format!("podAntiAffinityPreset: {word}")));
    let surge = (1_u32..100, any::<bool>()).prop_map(|(n, percent)| {
        ("maxSurge: 25%", format!("maxSurge: {n}{}", if percent { "%" } else { "" }))
    });
    let dns = prop_oneof![
        Just("location: {region: r}"),
        Just("location: {}"),
        Just("dnsPolicy: Default\n              location: {zone: z}"),
        Just("dnsConfig: {nameservers: [1.1.1.1, 'fd00::1'], searches: [a.b], options: [{name: ndots, value: '5'}, {name: x}]}\n              location: {}"),
    ]
    .prop_map(|dns| ("location:\n                region: eu\n                zone: a", dns.to_owned()));
    let switches = any::<(bool, bool)>().prop_map(|(queue, live)| {
        let live = if live { "LiveMigrate" } else { "External" };
        (
            "evictionStrategy: LiveMigrate",
            format!("evictionStrategy: {live}\n              enableNetworkMultiQueue: {queue}"),
        )
    });
    let disk = prop_oneof![
        Just("storageTarget: pvc"),
        Just("storageTarget: storage"),
        Just("storageAccessType: ReadOnlyMany")
    ]
    .prop_map(|disk| ("storageAccessType: ReadWriteMany", disk.to_owned()));
    let kind = prop_oneof![Just("MachineDeployment"), Just("MachineSet")];
    (shape, image, preset, surge, dns, switches, disk, kind).prop_map(
        |(shape, image, preset, surge, dns, switches, disk, kind)| {
            let mut edits = vec![shape, image, preset, surge, dns, switches, disk];
            if kind == "MachineSet" {
                edits.push(("kind: MachineDeployment", "kind: MachineSet".to_owned()));
            }
            edits
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn whatever_can_be_said_comes_back(edits in settings()) {
        let mut manifest = NESTED.to_owned();
        for (old, new) in &edits {
            prop_assert!(manifest.contains(old), "{old}");
            manifest = manifest.replacen(old, new, 1);
        }
        if manifest.contains("kind: MachineSet") {
            let (before, rest) = manifest.split_once("  strategy:").unwrap_or_default();
            let (_, after) = rest.split_once("  template:").unwrap_or_default();
            manifest = format!("{before}  deletePolicy: Newest\n  template:{after}");
        }
        let outcome = read_text(&manifest);
        let estate = outcome.clean();
        prop_assert_eq!(&round(estate), estate);
    }
}
