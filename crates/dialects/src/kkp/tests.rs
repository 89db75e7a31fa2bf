//! Tests of this dialect.

mod bad_input;
mod round_trip;

use trellis_model::cluster::{Credentials, CredentialsKind, Platform};
use trellis_model::image::{ImageSource, OperatingSystem, PullMethod};
use trellis_model::machine::{Eviction, InfraScope, Shape};
use trellis_model::network::{Binding, DnsPolicy};
use trellis_model::placement::{Preset, Strength};
use trellis_model::pool::{Autoscaling, DeletePolicy, UpdateStrategy};
use trellis_model::quantity::{Bytes, Count, MilliCpu};
use trellis_model::volume::{AccessMode, StorageRequest};
use trellis_model::{Estate, Pool};

use super::write;
use crate::testing::{self, Outcome};

const SEED: &str = include_str!("../../tests/fixtures/kkp-seed-003.yaml");
const NESTED: &str = include_str!("../../tests/fixtures/kkp-nested.yaml");

fn read_text(text: &str) -> Outcome {
    testing::read(text)
}

/// Reads the nested example after some texts in it were replaced.
fn edited(edits: &[(&str, &str)]) -> Outcome {
    let mut text = NESTED.to_owned();
    for (old, new) in edits {
        assert!(text.contains(old), "{old} is not in the example");
        text = text.replacen(old, new, 1);
    }
    read_text(&text)
}

fn only_pool(estate: &Estate) -> &Pool {
    assert_eq!(estate.pools.len(), 1, "{estate:#?}");
    &estate.pools[0]
}

fn platform(estate: &Estate) -> &trellis_model::cluster::KubevirtPlatform {
    match &estate.clusters[0].spec.platform {
        Platform::Kubevirt(platform) => platform,
        Platform::Ovirt(_) => panic!("not on KubeVirt"),
    }
}

#[test]
fn the_manifest_of_the_proposal_is_read_exactly_as_printed() {
    let outcome = read_text(SEED);
    let estate = outcome.clean();
    let pool = only_pool(estate);
    assert_eq!(pool.name.as_str(), "fervent-payne-worker-q5bwjq");
    assert_eq!(pool.namespace.as_ref().unwrap().as_str(), "kube-system");
    assert_eq!(pool.spec.cluster.as_str(), "kmvh888v9h");
    assert_eq!(platform(estate).namespace.as_ref().unwrap().as_str(), "default");
    assert_eq!(platform(estate).credentials, None);
    assert_eq!((pool.spec.replicas, pool.spec.autoscaling), (3, None));
    assert_eq!(pool.spec.update, trellis_model::pool::UpdatePolicy::default());
    assert_eq!(pool.spec.kubelet_version.unwrap().to_string(), "1.21.10");
    assert_eq!(pool.spec.machine_labels.len(), 1);
    assert_eq!(pool.spec.node_labels.len(), 2);
    let template = &pool.spec.template;
    let Shape::Custom(compute) = &template.shape else { panic!("{:?}", template.shape) };
    assert_eq!(
        (compute.cpu.request, compute.cpu.limit),
        (Some(MilliCpu::whole(1)), Some(MilliCpu::whole(1)))
    );
    assert_eq!(compute.cpu.topology, None);
    assert_eq!((compute.memory.request, compute.memory.limit), (Some(Bytes::gibi(2)), Some(Bytes::gibi(2))));
    assert_eq!(template.image.os, OperatingSystem::Centos);
    let Some(ImageSource::Http(http)) = &template.image.source else { panic!("{:?}", template.image) };
    assert_eq!(http.url, "http://10.107.208.71/centos.img");
    assert_eq!(template.root_disk.size, Bytes::gibi(10));
    assert_eq!(template.root_disk.storage.request, StorageRequest::Claim);
    assert_eq!(template.root_disk.storage.access_mode, Some(AccessMode::ReadWriteOnce));
    assert_eq!(template.root_disk.storage.class.as_ref().unwrap().as_str(), "local-path");
    assert_eq!(template.dns.policy, DnsPolicy::None);
    assert_eq!(template.dns.nameservers.len(), 1);
    assert_eq!((template.placement.together, template.placement.apart), (Preset::None, Preset::Soft));
    assert_eq!(template.placement.wanted_hosts.len(), 1);
    assert_eq!(template.placement.avoided_hosts, template.placement.wanted_hosts);
    assert!(!template.devices.network_multi_queue && template.nics.is_empty());
    let key = template.ssh_keys.first().unwrap().as_str();
    assert!(
        key.starts_with("ssh-rsa AAAAB3") && key.ends_with("== helenedurand@Helenes-MacBook-Pro.local"),
        "{key}"
    );

    assert_eq!(outcome.said(), ["warning empty-kubeconfig 48", "warning placement-contradiction 63"]);
}

#[test]
fn the_second_spelling_of_the_proposal_is_read_too() {
    let outcome = read_text(&SEED.replace("nodeAntiAffinityPreset:", "nodeAntiAffinity:"));
    assert_eq!(outcome.clean(), read_text(SEED).clean());
    assert!(outcome.said().contains(&"notice other-spelling 62".to_owned()), "{:?}", outcome.said());
}

#[test]
fn today_s_generation_is_read() {
    let outcome = edited(&[]);
    let estate = outcome.clean();
    let expected = Credentials {
        kind: CredentialsKind::Secret,
        namespace: Some("infra".parse().unwrap()),
        name: "access".parse().unwrap(),
        key: "kubeconfig".to_owned(),
    };
    assert_eq!(platform(estate).credentials, Some(expected));
    assert_eq!(platform(estate).namespace, None);
    let pool = only_pool(estate);
    assert_eq!(pool.spec.cluster.as_str(), "demo");
    assert_eq!(pool.spec.autoscaling, Some(Autoscaling { min: 2, max: 5 }));
    assert_eq!(pool.spec.update.max_surge, Count::Percent(25));
    assert_eq!(pool.spec.update.max_unavailable, Count::Absolute(1));
    assert_eq!(pool.spec.node_taints.len(), 1);
    let subnet = "ovn.kubernetes.io/logical_switch".parse().unwrap();
    assert_eq!(pool.spec.machine_annotations[&subnet], "sub");
    let template = &pool.spec.template;
    let Some(ImageSource::Registry(registry)) = &template.image.source else {
        panic!("{:?}", template.image)
    };
    assert_eq!(
        (registry.url.as_str(), registry.pull_method),
        ("docker://quay.io/images/ubuntu:24.04", PullMethod::Node)
    );
    assert!(template.devices.network_multi_queue && template.user_data.upgrade_packages);
    assert_eq!(template.eviction, Eviction::LiveMigrate);
    assert_eq!(template.root_disk.storage.request, StorageRequest::Profile);
    assert_eq!(template.root_disk.storage.access_mode, Some(AccessMode::ReadWriteMany));
    assert_eq!(template.data_disks[0].name.as_str(), "disk-1");
    assert_eq!(template.data_disks[0].storage.class.as_ref().unwrap().as_str(), "slow");
    let placement = &template.placement;
    assert_eq!(placement.region.as_ref().unwrap().as_str(), "eu");
    assert_eq!(placement.zones[0].as_str(), "a");
    assert_eq!((placement.together, placement.apart), (Preset::None, Preset::Hard));
    assert_eq!(placement.wanted_hosts[0].strength, Strength::Hard);
    let spread = placement.spread.as_ref().unwrap();
    assert_eq!((spread[0].max_skew, spread[0].strength), (2, Strength::Hard));
    assert_eq!(
        outcome.said(),
        ["notice blank-disks 56", "notice location-scheduled 59", "notice kube-ovn-subnet 66"]
    );
}

#[test]
fn names_around_a_subnet_are_warned_about() {
    let outcome = edited(&[
        ("# Only the subnet matters here.", "name: net"),
        ("# The same goes for the VPC.", "name: v"),
    ]);
    outcome.clean();
    assert_eq!(outcome.said_of("warning"), ["warning not-used 62", "warning not-used 64"]);
}

#[test]
fn a_flavor_of_the_catalogue_is_used_and_another_is_warned_about() {
    let known = "virtualMachine:\n              flavor: {name: standard-4, profile: x}";
    let outcome =
        edited(&[("virtualMachine:", known), ("                cpus: 2\n                memory: 4Gi\n", "")]);
    let shape = &only_pool(outcome.clean()).spec.template.shape;
    assert!(matches!(shape, Shape::Flavor(name) if name.as_str() == "standard-4"), "{shape:?}");
    assert_eq!(outcome.said_of("warning"), ["warning not-used 47"]);

    let outcome = edited(&[("virtualMachine:", "virtualMachine:\n              flavor: {name: large}")]);
    assert!(matches!(only_pool(outcome.clean()).spec.template.shape, Shape::Custom(_)));
    assert_eq!(outcome.said_of("warning"), ["warning unknown-flavor 47"]);
}

#[test]
fn an_instance_type_takes_the_place_of_cpus_and_memory() {
    for (kind, scope, said) in [
        ("", InfraScope::Cluster, 1),
        (", kind: VirtualMachineInstancetype", InfraScope::Namespace, 0),
        (", kind: VirtualMachineClusterInstancetype", InfraScope::Cluster, 0),
    ] {
        let with = format!("virtualMachine:\n              instancetype: {{name: standard-2{kind}}}");
        let outcome = edited(&[("virtualMachine:", &with)]);
        let shape = &only_pool(outcome.clean()).spec.template.shape;
        assert!(matches!(shape, Shape::Instancetype(shape) if shape.scope == scope), "{kind}: {shape:?}");
        assert_eq!(outcome.said_of("warning"), ["warning not-used 49", "warning not-used 50"]);
        let assumed = outcome.said().iter().filter(|said| said.contains("scope-assumed")).count();
        assert_eq!(assumed, said);
    }
}

#[test]
fn virtual_cpus_are_cores_without_a_request() {
    let outcome = edited(&[("cpus: 2", "vcpus: {cores: 3}")]);
    let Shape::Custom(compute) = &only_pool(outcome.clean()).spec.template.shape else { panic!() };
    let topology = compute.cpu.topology.unwrap();
    assert_eq!((topology.sockets.get(), topology.cores.get(), compute.cpu.request), (1, 3, None));
    assert_eq!(compute.memory.limit, Some(Bytes::gibi(4)));
}

#[test]
fn every_form_of_image_is_understood() {
    let image = |address: &str| {
        let outcome =
            edited(&[("osImage: docker://quay.io/images/ubuntu:24.04", &format!("osImage: {address}"))]);
        let source = only_pool(outcome.clean()).spec.template.image.source.clone();
        serde_json::to_string(&source).unwrap()
    };
    assert_eq!(image("https://x/y"), r#"{"http":{"url":"https://x/y"}}"#);
    assert_eq!(image("oci://x/y"), r#"{"registry":{"url":"docker://x/y","pullMethod":"node"}}"#);
    assert_eq!(image("images/ubuntu"), r#"{"pvc":{"namespace":"images","name":"ubuntu"}}"#);
    assert_eq!(image("ubuntu"), r#"{"pvc":{"name":"ubuntu"}}"#);
    assert_eq!(
        image("x/y\n                  source: registry\n                  pullMethod: pod"),
        r#"{"registry":{"url":"docker://x/y"}}"#
    );
    assert_eq!(
        image(
            "https://x/y\n                  dataVolumeSecretRef: s\n                  extraHeaders: ['A: b:c']"
        ),
        r#"{"http":{"url":"https://x/y","secret":"s","headers":{"A":"b:c"}}}"#
    );
    assert_eq!(
        image("https://x/y\n                  extraHeadersSecretRef: s"),
        r#"{"http":{"url":"https://x/y","headerSecrets":["s"]}}"#
    );
}

#[test]
fn settings_may_be_wrapped_and_the_secret_goes_first() {
    let outcome = edited(&[
        ("cpus: 2", "cpus: {value: 500m}"),
        ("key: kubeconfig", "key: kubeconfig\n                value: abc"),
    ]);
    let Shape::Custom(compute) = &only_pool(outcome.clean()).spec.template.shape else { panic!() };
    assert_eq!(compute.cpu.limit, Some(MilliCpu::new(500)));
    assert!(platform(&outcome.estate).credentials.is_some());
    assert_eq!(outcome.said_of("warning"), ["warning not-used 46"]);
}

#[test]
fn fixed_addresses_are_put_on_a_bridge() {
    let network = "operatingSystem: ubuntu\n          network: {cidr: 10.0.0.5/24, gateway: 10.0.0.1, dns: {servers: [10.0.0.2]}}";
    let outcome = edited(&[("operatingSystem: ubuntu", network)]);
    let nics = &only_pool(outcome.clean()).spec.template.nics;
    assert_eq!((nics.len(), nics[0].binding, nics[0].name.as_str()), (1, Binding::Bridge, "default"));
    assert_eq!(nics[0].addresses.as_ref().unwrap().first.0.to_string(), "10.0.0.5/24");
}

#[test]
fn secrets_are_never_shown() {
    let secret = "operatingSystem: ubuntu\n          overwriteCloudConfig: '#cloud-config hunter2'";
    let outcome = edited(&[
        ("operatingSystem: ubuntu", secret),
        (
            "kubeconfig:\n                secretKeyRef:\n                  namespace: infra\n                  name: access\n                  key: kubeconfig",
            "kubeconfig: hunter2",
        ),
    ]);
    assert_eq!(
        only_pool(outcome.clean()).spec.template.user_data.inline.as_deref(),
        Some("#cloud-config hunter2")
    );
    let inline = outcome.diagnostics.iter().find(|d| d.code == "inline-kubeconfig").unwrap();
    assert!(inline.sensitive);
    assert!(!format!("{:?}", outcome.diagnostics).contains("hunter2"));
}

#[test]
fn sets_and_machines_are_pools_that_are_left_alone() {
    let set = NESTED.replace("kind: MachineDeployment", "kind: MachineSet").replace(
        "  strategy:\n    rollingUpdate:\n      maxSurge: 25%\n      maxUnavailable: 1\n",
        "  deletePolicy: Oldest\n  minReadySeconds: 7\n",
    );
    let outcome = read_text(&set);
    let pool = only_pool(outcome.clean());
    assert_eq!(
        (pool.spec.update.strategy, pool.spec.delete_policy),
        (UpdateStrategy::OnDelete, DeletePolicy::Oldest)
    );
    assert_eq!((pool.spec.update.min_ready_seconds, pool.spec.replicas, pool.spec.autoscaling), (7, 3, None));

    let template = NESTED
        .split("    spec:\n")
        .nth(1)
        .unwrap()
        .lines()
        .map(|line| &line[4..])
        .collect::<Vec<_>>()
        .join("\n");
    let machine = format!(
        "apiVersion: cluster.k8s.io/v1alpha1\nkind: Machine\nmetadata:\n  name: one\nspec:\n{template}"
    );
    let outcome = read_text(&machine);
    let pool = only_pool(outcome.clean());
    assert_eq!(pool.spec.machine_name.as_ref().unwrap().as_str(), "one");
    assert_eq!((pool.spec.update.strategy, pool.spec.replicas), (UpdateStrategy::OnDelete, 1));
}

#[test]
fn the_cluster_is_found_or_guessed() {
    let named = |edits: &[(&str, &str)]| {
        let outcome = edited(edits);
        let name = only_pool(outcome.clean()).spec.cluster.to_string();
        (name, outcome.said().iter().any(|said| said.contains("guessed-cluster")))
    };
    let unsaid = ("clusterName: demo\n            ", "");
    assert_eq!(named(&[unsaid]), ("default".to_owned(), true));
    assert_eq!(named(&[unsaid, ("namespace: kube-system", "namespace: team")]), ("team".to_owned(), true));
    for label in ["system/cluster", "kubermatic.k8c.io/cluster-id", "cluster.x-k8s.io/cluster-name"] {
        let with = format!("tier: front\n          {label}: found");
        assert_eq!(named(&[unsaid, ("tier: front", &with)]), ("found".to_owned(), false));
    }
}

#[test]
fn pools_of_one_cluster_share_its_namespace() {
    let two = format!("{SEED}---\n{}", SEED.replace("q5bwjq", "second"));
    let outcome = read_text(&two);
    assert_eq!((outcome.clean().clusters.len(), outcome.estate.pools.len()), (1, 2));
    let two = format!(
        "{SEED}---\n{}",
        SEED.replace("q5bwjq", "second").replace("namespace: default", "namespace: other")
    );
    assert_eq!(read_text(&two).said_of("error").len(), 1);
}

#[test]
fn every_field_says_what_becomes_of_it() {
    for kind in
        crate::read::kinds().iter().filter(|kind| ["kkp", "openshift"].contains(&kind.dialect.as_str()))
    {
        for field in crate::fields::fields((kind.schema)()).iter().flat_map(crate::fields::Field::flatten) {
            assert!(!field.about.is_empty(), "{} {} says not what it is", kind.kind, field.path);
            assert!(field.treatment.is_some(), "{} {} says not what becomes of it", kind.kind, field.path);
        }
    }
}
