//! What is written and read again is the same.

use proptest::prelude::*;
use trellis_model::Estate;

use super::{KUBEVIRT, KUBEVIRT_SET, OVIRT, OVIRT_MACHINE, edited, read, write};
use crate::testing::text;

fn round(estate: &Estate) -> Estate {
    let written = text(&write(estate));
    let outcome = read(&written);
    assert!(outcome.said_of("error").is_empty(), "{written}\n{:#?}", outcome.diagnostics);
    outcome.estate
}

#[test]
fn the_examples_come_back() {
    for example in [KUBEVIRT, OVIRT, KUBEVIRT_SET, OVIRT_MACHINE] {
        let estate = read(example).clean().clone();
        assert_eq!(round(&estate), estate, "{example}");
    }
    let both = read(&format!("{KUBEVIRT}---\n{KUBEVIRT_SET}")).clean().clone();
    assert_eq!(round(&both), both);
    let without_network = edited(KUBEVIRT, &[("    networkName: mynet\n", "")]).clean().clone();
    assert_eq!(round(&without_network), without_network);
}

#[test]
fn a_pool_without_a_control_plane_is_a_machine_set() {
    let mut estate = read(KUBEVIRT).clean().clone();
    estate.pools.retain(|pool| pool.name.as_str() == "big");
    let documents = write(&estate);
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0]["kind"], "MachineSet");
}

#[test]
fn a_control_plane_of_any_name_is_the_master_here() {
    let mut estate = read(KUBEVIRT).clean().clone();
    let control = estate.pools.iter_mut().find(|pool| pool.name.as_str() == "master").unwrap();
    control.name = "control-plane".parse().unwrap();
    let documents = write(&estate);
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0]["controlPlane"]["name"], "master");
}

fn settings() -> impl Strategy<Value = (bool, Vec<(&'static str, String)>)> {
    let kubevirt = (1_u32..64, 1_u32..64, 0_u32..6, 0_usize..3, any::<bool>(), any::<bool>()).prop_map(
        |(cpu, memory, replicas, mode, bridge, arm)| {
            let mode = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"][mode];
            let edits = vec![
                ("cpu: 8", format!("cpu: {cpu}")),
                ("memory: 8Gi", format!("memory: {memory}Gi")),
                ("replicas: 2", format!("replicas: {replicas}")),
                ("AccessMode: ReadWriteOnce", format!("AccessMode: {mode}")),
                ("Method: SRIOV", format!("Method: {}", if bridge { "Bridge" } else { "InterfaceSRIOV" })),
                ("architecture: amd64", format!("architecture: {}", if arm { "arm64" } else { "s390x" })),
                (
                    "networkType: Calico",
                    (if arm { "networkType: Cilium" } else { "networkType: None" }).to_owned(),
                ),
            ];
            (true, edits)
        },
    );
    let ovirt = (1_u32..5, 1_u32..9, 0_u32..3, 0_usize..3, 0_usize..3, any::<bool>()).prop_map(
        |(sockets, cores, threads, kind, groups, pin)| {
            let kind = ["desktop", "server", "high_performance"][kind];
            let groups = ["[]", "[compute]", "[compute, controlplane]"][groups];
            let edits = vec![
                (
                    "cpu: {sockets: 2, cores: 4}",
                    format!("cpu: {{sockets: {sockets}, cores: {cores}, threads: {threads}}}"),
                ),
                ("vmType: desktop", format!("vmType: {kind}")),
                ("affinityGroupsNames: [compute]", format!("affinityGroupsNames: {groups}")),
                (
                    "autoPinningPolicy: resize_and_pin",
                    format!("autoPinningPolicy: {}", if pin { "resize_and_pin" } else { "none" }),
                ),
                ("hugepages: 2048", format!("hugepages: {}", if pin { "1048576" } else { "0" })),
                ("sparse: true", format!("sparse: {pin}")),
            ];
            (false, edits)
        },
    );
    prop_oneof![kubevirt, ovirt]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn whatever_can_be_said_comes_back((on_kubevirt, edits) in settings()) {
        let edits: Vec<(&str, &str)> = edits.iter().map(|(old, new)| (*old, new.as_str())).collect();
        let outcome = edited(if on_kubevirt { KUBEVIRT } else { OVIRT }, &edits);
        let estate = outcome.clean();
        prop_assert_eq!(&round(estate), estate);
    }
}
