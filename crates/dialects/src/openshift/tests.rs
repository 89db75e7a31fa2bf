//! Tests of this dialect.

mod bad_input;
mod round_trip;

use trellis_model::cluster::Platform;
use trellis_model::image::ImageSource;
use trellis_model::machine::{Architecture, Compute, Firmware, HugepageSize, Shape};
use trellis_model::network::{Binding, NetworkPlugin, NetworkSource, NicNetwork, Publish};
use trellis_model::ovirt::{OvirtDiskFormat, OvirtMachine, OvirtPlatform, OvirtVmType};
use trellis_model::pool::{Autoscaling, DeletePolicy, Role, UpdateStrategy};
use trellis_model::quantity::{Bytes, MilliCpu};
use trellis_model::volume::AccessMode;
use trellis_model::{Estate, Pool};

use super::write;
use crate::testing::{Outcome, read};

const KUBEVIRT: &str = include_str!("../../tests/fixtures/openshift-kubevirt.yaml");
const OVIRT: &str = include_str!("../../tests/fixtures/openshift-ovirt.yaml");
const KUBEVIRT_SET: &str = include_str!("../../tests/fixtures/openshift-machineset-kubevirt.yaml");
const OVIRT_MACHINE: &str = include_str!("../../tests/fixtures/openshift-machineset-ovirt.yaml");

/// Reads an example after some texts in it were replaced.
fn edited(example: &str, edits: &[(&str, &str)]) -> Outcome {
    let mut text = example.to_owned();
    for (old, new) in edits {
        assert!(text.contains(old), "{old} is not in the example");
        text = text.replacen(old, new, 1);
    }
    read(&text)
}

fn pool<'a>(estate: &'a Estate, name: &str) -> &'a Pool {
    estate.pools.iter().find(|pool| pool.name.as_str() == name).unwrap()
}

fn compute(pool: &Pool) -> &Compute {
    match &pool.spec.template.shape {
        Shape::Custom(compute) => compute,
        other => panic!("{other:?}"),
    }
}

fn ovirt(estate: &Estate) -> &OvirtPlatform {
    match &estate.clusters[0].spec.platform {
        Platform::Ovirt(platform) => platform,
        Platform::Kubevirt(_) => panic!("not on oVirt"),
    }
}

fn machine(pool: &Pool) -> &OvirtMachine {
    pool.spec.template.ovirt.as_ref().unwrap()
}

#[test]
fn an_install_config_on_kubevirt_is_a_cluster_with_pools() {
    let outcome = read(KUBEVIRT);
    let estate = outcome.clean();
    let cluster = &estate.clusters[0];
    assert_eq!(cluster.name.as_str(), "demo");
    assert_eq!(cluster.infra_namespace(), "tenant");
    assert_eq!(cluster.spec.base_domain.as_ref().unwrap().as_str(), "example.com");
    assert_eq!(cluster.spec.ssh_keys.len(), 2);
    let Platform::Kubevirt(platform) = &cluster.spec.platform else { panic!() };
    assert_eq!(platform.storage.class.as_ref().unwrap().as_str(), "fast");
    assert_eq!(platform.storage.access_mode, Some(AccessMode::ReadWriteOnce));
    let network = &cluster.spec.network;
    assert_eq!((network.plugin, network.publish), (Some(NetworkPlugin::Calico), Publish::Internal));
    assert_eq!(network.pods[0].cidr.to_string(), "10.132.0.0/14");
    assert_eq!(network.services[0].to_string(), "172.31.0.0/16");
    assert_eq!((network.api_vips.len(), network.ingress_vips.len()), (1, 1));
    assert!(!network.attach_pod_network);
    let main = &network.machine_networks[0];
    assert_eq!((main.name.as_str(), main.binding), ("main", Binding::Sriov));
    let NetworkSource::Shared(shared) = &main.source else { panic!() };
    assert_eq!((shared.namespace.as_ref().unwrap().as_str(), shared.name.as_str()), ("tenant", "mynet"));

    // Built-in values, then the platform's, then the pool's.
    let sizes = |name: &str| {
        let pool = pool(estate, name);
        let compute = compute(pool);
        let size = pool.spec.template.root_disk.size;
        (compute.cpu.request.unwrap().ceil(), compute.memory.request.unwrap(), size, pool.spec.replicas)
    };
    let sixteen = Bytes::new(16_000_000_000);
    assert_eq!(sizes("master"), (8, sixteen, Bytes::gibi(100), 3));
    assert_eq!(sizes("worker"), (6, Bytes::gibi(8), Bytes::gibi(100), 2));
    assert_eq!(sizes("big"), (6, sixteen, Bytes::gibi(100), 1));
    assert_eq!(pool(estate, "master").spec.role, Role::ControlPlane);
    assert_eq!(outcome.said_of("notice"), ["notice ignored-field 8"]);
    assert!(!format!("{:?}", outcome.diagnostics).contains("aHVudGVyMg"));
    assert!(outcome.diagnostics.iter().any(|d| d.code == "ignored-field" && d.sensitive));
}

#[test]
fn an_install_config_that_says_little_gets_the_installer_s_values() {
    let outcome = read(
        "apiVersion: v1\nmetadata: {name: x}\nbaseDomain: svc.cluster.local\nplatform: {kubevirt: {namespace: x}}\n",
    );
    let estate = outcome.clean();
    let network = &estate.clusters[0].spec.network;
    assert!(network.uses_pod_network() && network.machine_networks.is_empty() && network.api_vips.is_empty());
    assert_eq!(
        (network.pods[0].cidr.to_string(), network.pods[0].node_prefix),
        ("10.128.0.0/14".to_owned(), Some(23))
    );
    assert_eq!(network.services[0].to_string(), "172.30.0.0/16");
    for name in ["master", "worker"] {
        let pool = pool(estate, name);
        assert_eq!(compute(pool).cpu.request, Some(MilliCpu::whole(4)));
        assert_eq!((pool.spec.replicas, pool.spec.template.root_disk.size), (3, Bytes::gibi(120)));
    }
}

#[test]
fn arm_machines_start_with_uefi() {
    let outcome = edited(KUBEVIRT, &[("architecture: amd64", "architecture: arm64")]);
    let template = &pool(outcome.clean(), "master").spec.template;
    assert_eq!((template.architecture, template.firmware), (Architecture::Arm64, Firmware::Uefi));
}

#[test]
fn every_binding_and_access_mode_is_understood() {
    for (word, binding) in [
        ("Bridge", Binding::Bridge),
        ("InterfaceBridge", Binding::Bridge),
        ("SRIOV", Binding::Sriov),
        ("InterfaceSRIOV", Binding::Sriov),
    ] {
        let outcome = edited(KUBEVIRT, &[("Method: SRIOV", &format!("Method: {word}"))]);
        assert_eq!(outcome.clean().clusters[0].spec.network.machine_networks[0].binding, binding, "{word}");
    }
    for (word, mode) in
        [("ReadWriteMany", AccessMode::ReadWriteMany), ("ReadOnlyMany", AccessMode::ReadOnlyMany)]
    {
        let outcome = edited(KUBEVIRT, &[("AccessMode: ReadWriteOnce", &format!("AccessMode: {word}"))]);
        let Platform::Kubevirt(platform) = &outcome.clean().clusters[0].spec.platform else { panic!() };
        assert_eq!(platform.storage.access_mode, Some(mode));
    }
}

#[test]
fn old_names_of_networks_are_understood_and_warned_about() {
    let old = "networking:\n  type: OpenShiftSDN\n  clusterNetworks:\n    - {cidr: 10.1.0.0/16, hostSubnetLength: 9}\n  \
               serviceCIDR: 172.16.0.0/16\n  machineCIDR: 192.168.1.0/24\n";
    let text = KUBEVIRT.split("networking:").next().unwrap().to_owned() + old;
    let outcome = read(&text);
    let network = &outcome.clean().clusters[0].spec.network;
    assert_eq!(network.plugin, Some(NetworkPlugin::OpenshiftSdn));
    assert_eq!(
        (network.pods[0].cidr.to_string(), network.pods[0].node_prefix),
        ("10.1.0.0/16".to_owned(), Some(23))
    );
    assert_eq!(
        (network.services[0].to_string(), network.nodes[0].to_string()),
        ("172.16.0.0/16".to_owned(), "192.168.1.0/24".to_owned())
    );
    let warned = outcome.said_of("warning deprecated-field");
    assert_eq!(warned.len(), 5, "{warned:?}");
}

#[test]
fn an_install_config_on_ovirt_is_a_cluster_with_pools() {
    let outcome = read(OVIRT);
    let estate = outcome.clean();
    let platform = ovirt(estate);
    assert_eq!(platform.cluster_id.as_str(), "11111111-2222-3333-4444-555555555555");
    assert_eq!((platform.network_name.as_str(), platform.vnic_profile_id.is_some()), ("net", true));
    let groups: Vec<_> =
        platform.affinity_groups.iter().map(|g| (g.name.as_str(), g.priority, g.enforcing)).collect();
    assert_eq!(groups, [("compute", 3, true), ("controlplane", 5, true)]);
    let master = pool(estate, "master");
    let topology = compute(master).cpu.topology.unwrap();
    assert_eq!((topology.sockets.get(), topology.cores.get(), topology.threads.get()), (2, 4, 1));
    assert_eq!(compute(master).memory.guest, Some(Bytes::mebi(8192)));
    assert_eq!(compute(master).memory.hugepages, Some(HugepageSize::Mebi2));
    assert_eq!(machine(master).vm_type, OvirtVmType::HighPerformance);
    assert_eq!(machine(master).affinity_groups, ["controlplane"]);
    assert_eq!(master.spec.template.root_disk.size, Bytes::gibi(150));
    let worker = machine(pool(estate, "worker"));
    assert!(worker.instance_type_id.is_some() && worker.resize_and_pin);
    assert_eq!(
        (worker.clone_disks, worker.sparse, worker.format),
        (Some(false), Some(true), Some(OvirtDiskFormat::Cow))
    );
    assert_eq!(worker.vm_type, OvirtVmType::Desktop);
    assert_eq!(compute(pool(estate, "worker")).cpu.topology, None);
}

#[test]
fn ovirt_has_values_of_its_own_when_nothing_is_said() {
    let platform = OVIRT
        .split("platform:\n  ovirt:")
        .nth(1)
        .unwrap()
        .split("    defaultMachinePlatform")
        .next()
        .unwrap();
    let bare = format!("apiVersion: v1\nmetadata: {{name: x}}\nplatform:\n  ovirt:{platform}");
    let outcome = read(&bare);
    let estate = outcome.clean();
    let worker = pool(estate, "worker");
    assert_eq!(compute(worker).cpu.guest_cpus(), Some(4));
    assert_eq!(compute(worker).memory.guest, Some(Bytes::mebi(16348)));
    assert_eq!(worker.spec.template.root_disk.size, Bytes::gibi(120));
    assert_eq!(
        (machine(worker).vm_type, machine(worker).affinity_groups.as_slice()),
        (OvirtVmType::Server, &["compute".to_owned()][..])
    );

    let outcome = read(&format!("{bare}    affinityGroups: []\n    loadBalancer: {{type: UserManaged}}\n"));
    let estate = outcome.clean();
    assert!(ovirt(estate).affinity_groups.is_empty() && ovirt(estate).user_managed_load_balancer);
    assert!(machine(pool(estate, "master")).affinity_groups.is_empty());

    let old = bare
        .replace("api_vips: [10.0.0.5]", "api_vip: 10.0.0.5")
        .replace("ingress_vips: [10.0.0.6]", "ingress_vip: 10.0.0.6");
    let outcome = read(&old);
    assert_eq!(outcome.clean().clusters[0].spec.network.api_vips.len(), 1);
    assert_eq!(outcome.said_of("warning deprecated-field").len(), 2);
}

#[test]
fn a_machine_set_on_kubevirt_is_a_pool_that_is_left_alone() {
    let outcome = read(KUBEVIRT_SET);
    let estate = outcome.clean();
    let pool = pool(estate, "demo-worker-0");
    assert_eq!((pool.spec.cluster.as_str(), pool.spec.role, pool.spec.replicas), ("demo", Role::Worker, 2));
    assert_eq!(pool.spec.autoscaling, Some(Autoscaling { min: 1, max: 4 }));
    assert_eq!(
        (pool.spec.update.strategy, pool.spec.delete_policy),
        (UpdateStrategy::OnDelete, DeletePolicy::Newest)
    );
    assert_eq!(
        (pool.spec.machine_labels.len(), pool.spec.node_labels.len(), pool.spec.node_taints.len()),
        (1, 1, 1)
    );
    let template = &pool.spec.template;
    assert!(
        matches!(&template.image.source, Some(ImageSource::Pvc(pvc)) if pvc.name.as_str() == "demo-source-pvc")
    );
    assert_eq!(template.user_data.secret.as_ref().unwrap().as_str(), "worker-user-data");
    assert_eq!(
        (template.root_disk.size, template.root_disk.storage.access_mode),
        (Bytes::gibi(35), Some(AccessMode::ReadWriteMany))
    );
    assert_eq!(compute(pool).memory.request, Some(Bytes::new(8_000_000_000)));
    assert!(
        matches!(&template.nics[0].network, NicNetwork::Shared(shared) if shared.name.as_str() == "mynet")
    );
    assert_eq!(template.nics[0].binding, Binding::Sriov);
    assert!(outcome.said().contains(&"notice implied-cluster 20".to_owned()), "{:?}", outcome.said());
}

#[test]
fn a_machine_set_beside_its_cluster_says_nothing_twice() {
    let outcome = read(&format!("{KUBEVIRT}---\n{KUBEVIRT_SET}"));
    let template = &pool(outcome.clean(), "demo-worker-0").spec.template;
    assert!(template.nics.is_empty());
    assert_eq!(template.root_disk.storage.access_mode, Some(AccessMode::ReadWriteMany));
    let outcome = read(
        &format!("{KUBEVIRT}---\n{KUBEVIRT_SET}")
            .replace("AccessMode: ReadWriteOnce", "AccessMode: ReadWriteMany"),
    );
    assert_eq!(pool(outcome.clean(), "demo-worker-0").spec.template.root_disk.storage.access_mode, None);
}

#[test]
fn a_machine_on_ovirt_is_a_pool_of_one() {
    let outcome = read(OVIRT_MACHINE);
    let estate = outcome.clean();
    let pool = pool(estate, "demo-master-0");
    assert_eq!(
        (pool.spec.role, pool.spec.machine_name.as_ref().unwrap().as_str()),
        (Role::ControlPlane, "demo-master-0")
    );
    assert!(pool.spec.machine_labels.is_empty());
    let template = &pool.spec.template;
    assert!(matches!(&template.image.source, Some(ImageSource::OvirtTemplate(name)) if name == "demo-rhcos"));
    let ovirt = machine(pool);
    assert_eq!(ovirt.guaranteed_memory, Some(Bytes::gibi(8)));
    assert_eq!(
        (ovirt.clone_disks, ovirt.sparse, ovirt.format),
        (Some(true), Some(false), Some(OvirtDiskFormat::Raw))
    );
    assert!(ovirt.cluster_id.is_some() && ovirt.storage_domain_id.is_some() && ovirt.credentials.is_some());
    assert_eq!(compute(pool).memory.hugepages, Some(HugepageSize::Gibi1));
    assert!(matches!(template.nics[0].network, NicNetwork::OvirtProfile(_)));
}
