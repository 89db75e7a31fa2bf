//! The manifests printed in the extension's own documentation, exactly as printed.

use trellis_model::cluster::{CredentialsKind, Platform};
use trellis_model::image::OperatingSystem;
use trellis_model::machine::Shape;
use trellis_model::network::NetworkPlugin;
use trellis_model::pool::Autoscaling;
use trellis_model::quantity::Bytes;

use super::support::read;

const SHOOT: &str = include_str!("../fixtures/seed004-shoot.yaml");
const SECRET: &str = include_str!("../fixtures/seed004-secret.yaml");
const INFRASTRUCTURE: &str = include_str!("../fixtures/seed004-infrastructure-config.yaml");
const CONTROL_PLANE: &str = include_str!("../fixtures/seed004-control-plane-config.yaml");
const WORKER: &str = include_str!("../fixtures/seed004-worker-config.yaml");

#[test]
fn the_shoot_reads_with_notices_about_what_is_still_needed() {
    let outcome = read(&[SHOOT]);
    assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
    assert_eq!(outcome.warnings(), ["29 unknown-flavor", "31 image-without-source"], "{}", outcome.text());
    assert_eq!(
        outcome.notices(),
        ["7 cloud-profile-missing", "8 credentials-missing", "61 ignored-field"],
        "{}",
        outcome.text()
    );
    let [cluster] = outcome.estate.clusters.as_slice() else { panic!("one cluster") };
    assert_eq!(
        (cluster.name.as_str(), cluster.namespace.as_ref().unwrap().as_str()),
        ("johndoe-kubevirt", "garden-dev")
    );
    let Platform::Kubevirt(platform) = &cluster.spec.platform else { panic!("kubevirt") };
    assert_eq!((&platform.namespace, &platform.credentials), (&None, &None));
    assert_eq!(cluster.spec.version.unwrap().to_string(), "1.17.8");
    let network = &cluster.spec.network;
    assert_eq!(network.plugin, Some(NetworkPlugin::Calico));
    assert_eq!(network.pods[0].cidr.to_string(), "100.96.0.0/11");
    assert_eq!(network.services[0].to_string(), "100.64.0.0/13");
    assert_eq!(network.nodes[0].to_string(), "10.225.128.0/17");
    assert!(cluster.spec.maintenance.update_kubernetes && cluster.spec.maintenance.update_images);
    let [pool] = outcome.estate.pools.as_slice() else { panic!("one pool") };
    let (spec, template) = (&pool.spec, &pool.spec.template);
    assert_eq!((pool.name.as_str(), spec.replicas), ("cpu-worker", 1));
    assert_eq!(spec.autoscaling, Some(Autoscaling { min: 1, max: 2 }));
    assert!(matches!(&template.shape, Shape::Flavor(name) if name.as_str() == "standard-1"));
    assert_eq!(
        (template.image.os, template.image.version.as_deref()),
        (OperatingSystem::Ubuntu, Some("18.04"))
    );
    assert_eq!((template.root_disk.size, &template.root_disk.storage.class), (Bytes::gibi(20), &None));
    let placement = &template.placement;
    assert_eq!(placement.region.as_ref().unwrap().as_str(), "europe-west1");
    assert_eq!(placement.zones[0].as_str(), "europe-west1-c");
}

#[test]
fn the_shoot_finds_the_printed_secret_by_its_name() {
    let outcome = read(&[SHOOT, SECRET]);
    assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
    assert!(outcome.warnings().contains(&"8 placeholder".to_owned()), "{}", outcome.text());
    assert!(!outcome.notices().iter().any(|said| said.contains("credentials-missing")), "{}", outcome.text());
    let Platform::Kubevirt(platform) = &outcome.estate.clusters[0].spec.platform else { panic!("kubevirt") };
    assert_eq!(platform.namespace, None);
    let credentials = platform.credentials.as_ref().unwrap();
    assert_eq!(credentials.kind, CredentialsKind::Secret);
    assert_eq!(
        (credentials.namespace.as_ref().unwrap().as_str(), credentials.name.as_str()),
        ("garden-dev", "provider-cluster-kubeconfig")
    );
}

#[test]
fn the_secret_holds_a_placeholder() {
    let outcome = read(&[SECRET]);
    assert_eq!(outcome.errors(), [] as [&str; 0]);
    assert_eq!(outcome.warnings(), ["8 placeholder"]);
    assert_eq!(outcome.notices(), ["4 standalone-document"]);
    assert!(outcome.diagnostics.iter().all(|said| said.code != "placeholder" || said.sensitive));
}

#[test]
fn the_infrastructure_config_reads_alone() {
    let outcome = read(&[INFRASTRUCTURE]);
    assert_eq!((outcome.errors(), outcome.warnings()), (vec![], vec![]), "{}", outcome.text());
    assert_eq!(outcome.notices(), ["2 standalone-document"]);
}

#[test]
fn the_control_plane_config_reads_alone() {
    let outcome = read(&[CONTROL_PLANE]);
    assert_eq!((outcome.errors(), outcome.warnings()), (vec![], vec![]), "{}", outcome.text());
    assert_eq!(outcome.notices(), ["2 standalone-document"]);
    let with_shoot = read(&[SHOOT, CONTROL_PLANE]);
    assert!(
        with_shoot.estate.clusters[0].spec.cloud_controller.feature_gates.is_empty(),
        "it is not attached"
    );
    assert!(with_shoot.text().contains("not attached"), "{}", with_shoot.text());
}

#[test]
fn the_worker_config_contradicts_itself() {
    let outcome = read(&[WORKER]);
    assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
    assert_eq!(outcome.warnings(), ["60 hugepages-with-overcommit"], "{}", outcome.text());
    assert_eq!(outcome.notices(), ["2 standalone-document"]);
}

/// The Shoot with all that its comments offer switched on, and the printed configurations inside.
#[test]
fn the_configurations_read_inside_the_shoot() {
    let indent = |text: &str, by: usize| {
        text.lines().flat_map(|line| [" ".repeat(by), line.to_owned(), "\n".to_owned()]).collect::<String>()
    };
    let shoot = SHOOT
        .replace("    type: kubevirt\n", &format!("    type: kubevirt\n    infrastructureConfig:\n{}    controlPlaneConfig:\n{}", indent(INFRASTRUCTURE, 6), indent(CONTROL_PLANE, 6)))
        .replace("      zones:\n", &format!("      dataVolumes:\n      - {{name: volume-1, type: default, size: 10Gi}}\n      providerConfig:\n{}      zones:\n", indent(WORKER, 8)))
        .replace("10.225.128.0/17", "10.100.0.0/16");
    let outcome = read(&[&shoot]);
    assert_eq!(outcome.errors(), [] as [&str; 0], "{}", outcome.text());
    let warnings: Vec<&str> = outcome.diagnostics.iter().map(|said| said.code).collect();
    assert!(warnings.contains(&"hugepages-with-overcommit"), "{}", outcome.text());
    insta::assert_snapshot!(serde_json::to_string_pretty(&outcome.estate).unwrap());
    let elsewhere = read(&[&shoot.replace("nodes: 10.100.0.0/16", "nodes: 10.225.128.0/17")]);
    assert!(elsewhere.text().contains("nodes-outside-default-network"), "{}", elsewhere.text());
}
