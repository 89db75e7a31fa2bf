//! A Shoot with everything a Shoot can have, read together with all it refers to.

use trellis_model::cluster::Platform;
use trellis_model::image::{ImageSource, OperatingSystem};
use trellis_model::machine::{Architecture, CpuFeaturePolicy, Firmware, Shape};
use trellis_model::placement::Locality;
use trellis_model::pool::Autoscaling;
use trellis_model::quantity::{Bytes, Count, MilliCpu};
use trellis_model::volume::DiskBus;

use super::support::read;

pub(crate) const PROFILE: &str = include_str!("../fixtures/gardener-profile.yaml");
pub(crate) const FULL: &str = include_str!("../fixtures/gardener-full.yaml");
const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: infra\ncontexts:\n- name: infra\n  context:\n    cluster: infra\n    namespace: my-shoot\n    user: infra\nusers:\n- name: infra\n  user:\n    token: s3cr3t-t0ken\n";

fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |chunk: &[u8], at: usize| {
        let bits =
            chunk.iter().enumerate().fold(0_u32, |bits, (i, byte)| bits | u32::from(*byte) << (16 - 8 * i));
        if at > chunk.len() { '=' } else { char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]) }
    };
    text.as_bytes().chunks(3).flat_map(|chunk| (0..4).map(move |at| digit(chunk, at))).collect()
}

pub(crate) fn secret(data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: infra-kubeconfig\n  namespace: garden-keys\ndata:\n  kubeconfig: {data}\n"
    )
}

#[test]
fn everything_is_found_in_the_documents_beside_it() {
    let outcome = read(&[FULL, PROFILE, &secret(&base64(KUBECONFIG))]);
    assert_eq!((outcome.errors(), outcome.warnings()), (vec![], vec![]), "{}", outcome.text());
    assert!(!outcome.text().contains("s3cr3t"));
    let cluster = &outcome.estate.clusters[0];
    let Platform::Kubevirt(platform) = &cluster.spec.platform else { panic!("kubevirt") };
    assert_eq!(platform.namespace.as_ref().unwrap().as_str(), "my-shoot");
    let credentials = platform.credentials.as_ref().unwrap();
    assert_eq!(credentials.name.as_str(), "infra-kubeconfig");
    assert_eq!(credentials.namespace.as_ref().unwrap().as_str(), "garden-keys");
    assert_eq!(cluster.spec.network.pods[0].node_prefix, Some(24));
    assert_eq!(cluster.spec.maintenance.window.as_ref().unwrap().begin, "220000+0100");
    assert!(cluster.spec.maintenance.update_kubernetes && !cluster.spec.maintenance.update_images);
    let small = outcome.pool("small");
    assert_eq!((small.replicas, small.autoscaling), (2, Some(Autoscaling { min: 2, max: 5 })));
    assert_eq!(
        (small.update.max_surge, small.update.max_unavailable),
        (Count::Percent(25), Count::Absolute(1))
    );
    assert_eq!(small.kubelet_version.unwrap().to_string(), "1.32.8");
    assert_eq!((small.node_labels.len(), small.node_annotations.len(), small.node_taints.len()), (1, 1, 1));
    let template = &small.template;
    let Shape::Custom(compute) = &template.shape else { panic!("custom") };
    assert_eq!(
        (compute.cpu.request, compute.cpu.limit),
        (Some(MilliCpu::whole(1)), Some(MilliCpu::whole(2)))
    );
    assert_eq!(compute.cpu.topology.unwrap().total(), 2);
    assert_eq!(compute.cpu.features["vmx"], CpuFeaturePolicy::Disable);
    assert_eq!(compute.cpu.features["pcid"], CpuFeaturePolicy::Require);
    let memory = &compute.memory;
    assert_eq!(
        (memory.request, memory.guest, memory.limit),
        (Some(Bytes::gibi(4)), Some(Bytes::gibi(6)), Some(Bytes::gibi(8)))
    );
    assert!(matches!(&template.image.source, Some(ImageSource::Http(image)) if image.url.contains("noble")));
    assert_eq!(template.root_disk.storage.class, None);
    let scratch = &template.data_disks[0];
    assert_eq!(scratch.storage.class.as_ref().unwrap().as_str(), "ceph-nvme");
    assert_eq!(
        (scratch.device.bus, scratch.device.serial.as_ref().unwrap().as_str()),
        (DiskBus::Scsi, "SCRATCH-1")
    );
    assert!(template.devices.network_multi_queue);
    let zones: Vec<&str> = template.placement.zones.iter().map(Locality::as_str).collect();
    assert_eq!(zones, ["europe-west1-d", "europe-west1-c"]);
}

#[test]
fn what_a_pool_leaves_out_comes_from_its_machine_type() {
    let outcome = read(&[FULL, PROFILE]);
    let arm = outcome.pool("arm");
    assert_eq!((arm.replicas, arm.autoscaling), (0, Some(Autoscaling { min: 0, max: 3 })));
    let template = &arm.template;
    assert_eq!((template.architecture, template.firmware), (Architecture::Arm64, Firmware::Uefi));
    assert_eq!((template.image.os, template.root_disk.size), (OperatingSystem::Sles, Bytes::gibi(50)));
    assert_eq!(template.root_disk.storage.class.as_ref().unwrap().as_str(), "ceph-nvme");
    assert!(matches!(template.image.source, Some(ImageSource::Registry(_))));
    let notices = outcome.text();
    for said in ["scale-to-zero", "image-name", "credentials-missing", "other-spelling"] {
        assert!(notices.contains(said), "{said}\n{notices}");
    }
    let credentials = |outcome: &super::support::Outcome| match &outcome.estate.clusters[0].spec.platform {
        Platform::Kubevirt(platform) => (platform.namespace.clone(), platform.credentials.is_some()),
        Platform::Ovirt(_) => panic!("kubevirt"),
    };
    assert_eq!(credentials(&outcome), (None, true), "the binding alone says which Secret it is");
}

#[test]
fn every_field_that_has_nothing_to_do_with_machines_is_mentioned_once() {
    let outcome = read(&[FULL, PROFILE]);
    let ignored: Vec<String> =
        outcome.notices().into_iter().filter(|said| said.ends_with("ignored-field")).collect();
    let lines = |text: &str, name: &str| {
        let line = text.lines().position(|line| line.trim_start().starts_with(name)).unwrap() + 1;
        format!("{line} ignored-field")
    };
    for field in [
        "accessRestrictions:",
        "addons:",
        "controlPlane:",
        "hibernation:",
        "kubeAPIServer:",
        "purpose:",
        "cri:",
        "sysctls:",
    ] {
        assert_eq!(
            ignored.iter().filter(|said| **said == lines(FULL, field)).count(),
            1,
            "{field} {ignored:?}"
        );
    }
    assert!(!outcome.text().contains("`status`"), "what a server writes is not worth a word");
}

#[test]
fn both_spellings_of_multi_queue_mean_the_same() {
    let config = |name: &str| {
        format!(
            "apiVersion: kubevirt.provider.extensions.gardener.cloud/v1alpha1\nkind: WorkerConfig\ndevices:\n  {name}: true\n"
        )
    };
    let documented = FULL.replace("networkInterfaceMultiqueue", "networkInterfaceMultiQueue");
    assert_eq!(read(&[FULL, PROFILE]).estate, read(&[&documented, PROFILE]).estate);
    assert_eq!(read(&[&config("networkInterfaceMultiqueue")]).errors(), [] as [&str; 0]);
    assert_eq!(read(&[&config("networkInterfaceMultiQueue")]).errors(), [] as [&str; 0]);
    let both = format!("{}  networkInterfaceMultiqueue: true\n", config("networkInterfaceMultiQueue"));
    assert_eq!(read(&[&both]).errors(), ["5 duplicate-key"]);
}

#[test]
fn default_stands_for_hosts_without_region_and_zone() {
    let shoot =
        FULL.replace("europe-west1-d, europe-west1-c", "default").replace("[europe-west1-c]", "[default]");
    let outcome = read(&[&shoot.replace("region: europe-west1", "region: default"), PROFILE]);
    assert_eq!((outcome.errors(), outcome.warnings()), (vec![], vec![]), "{}", outcome.text());
    let placement = &outcome.pool("small").template.placement;
    assert_eq!(placement.region.as_ref().unwrap().label(), None);
    assert_eq!(placement.zones[0].label(), None);
}

#[test]
fn a_kubeconfig_is_taken_raw_as_well_and_without_namespace_means_default() {
    let raw = KUBECONFIG.replace("    namespace: my-shoot\n", "");
    let indented = format!("    {}\n", raw.trim_end().replace('\n', "\n    "));
    let secret =
        secret("x").replace("data:\n  kubeconfig: x\n", &format!("stringData:\n  kubeconfig: |\n{indented}"));
    let outcome = read(&[FULL, PROFILE, &secret]);
    assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
    let Platform::Kubevirt(platform) = &outcome.estate.clusters[0].spec.platform else { panic!("kubevirt") };
    assert_eq!(platform.namespace.as_ref().unwrap().as_str(), "default");
}

#[test]
fn the_newer_kind_of_binding_is_followed_as_well() {
    let newer = FULL
        .replace("secretBindingName: infra", "credentialsBindingName: infra")
        .replace(
            "core.gardener.cloud/v1beta1\nkind: SecretBinding",
            "security.gardener.cloud/v1alpha1\nkind: CredentialsBinding",
        )
        .replace("secretRef:\n", "credentialsRef:\n  apiVersion: v1\n  kind: Secret\n");
    let secret = secret(&base64(KUBECONFIG));
    assert_eq!(read(&[&newer, PROFILE, &secret]).estate, read(&[FULL, PROFILE, &secret]).estate);
    let other = newer.replace("kind: Secret\n", "kind: WorkloadIdentity\n");
    assert!(read(&[&other, PROFILE]).text().contains("unsupported"));
}

#[test]
fn a_shared_network_of_the_same_name_in_another_namespace_is_another_network() {
    let config = "    infrastructureConfig:\n      apiVersion: kubevirt.provider.extensions.gardener.cloud/v1alpha1\n      kind: InfrastructureConfig\n      networks:\n        sharedNetworks:\n        - {name: vlan, namespace: a}\n        - {name: vlan, namespace: b}\n";
    let outcome =
        read(&[&FULL.replace("    workersSettings:", &format!("{config}    workersSettings:")), PROFILE]);
    assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
    let networks = &outcome.estate.clusters[0].spec.network.machine_networks;
    assert_eq!(networks.iter().map(|network| network.name.as_str()).collect::<Vec<_>>(), ["vlan", "b-vlan"]);
}

#[test]
fn what_is_only_nearly_right_is_read_and_said() {
    for (from, to, said) in [
        ("  name: full\n", "  generateName: full-\n", "generated-name"),
        ("    kind: CloudProfile\n", "    kind: NamespacedCloudProfile\n", "unsupported-kind"),
        ("AutoRollingUpdate", "AutoInPlaceUpdate", "no-effect"),
        ("zones: [europe-west1-c]", "zones: [europe-west1-x]", "unknown-zone"),
        ("version: \"24.04\"", "version: \"22.04\"", "unknown-image-version"),
    ] {
        let outcome = read(&[&FULL.replacen(from, to, 1), PROFILE]);
        assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
        assert!(outcome.text().contains(said), "{said}: {}", outcome.text());
        assert_eq!(outcome.estate.pools.len(), 2);
    }
    let tls = secret(&base64(KUBECONFIG)).replace("\ndata:", "\ntype: kubernetes.io/tls\ndata:");
    assert!(read(&[FULL, PROFILE, &tls]).text().contains("secret-type"));
}
