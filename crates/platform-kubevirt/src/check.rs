//! What KubeVirt, CDI or Kubernetes would refuse of an estate, or what would not work as intended.
//!
//! Only rules of this platform: those that hold everywhere are in [`trellis_model::validate`].

mod compute;
mod flavor;
mod migration;
mod objects;
mod vectors;

use std::collections::BTreeSet;

use trellis_model::cluster::Platform;
use trellis_model::image::{FirstBoot, ImageDelivery, ImageSource};
use trellis_model::machine::{Architecture, Firmware, MachineTemplate, Shape};
use trellis_model::names::DomainName;
use trellis_model::network::NicNetwork;
use trellis_model::problem::Problems;
use trellis_model::{Cluster, Estate, Problem, Subject};

use crate::machine::PoolOf;
use crate::services;

pub(crate) use objects::check_names;

/// Finds all problems that an estate has on KubeVirt.
///
/// An estate that lacks something has none for that: it may be complete later. [`missing`] finds it.
pub fn check(estate: &Estate) -> Vec<Problem> {
    let mut out = Vec::new();
    for cluster in estate.clusters.iter().filter(|cluster| is_ours(cluster)) {
        let pools: Vec<_> = estate.pools.iter().filter(|pool| pool.spec.cluster == cluster.name).collect();
        for pool in pools {
            let has_services = services::names_machines(cluster, pool);
            let subject = Subject::Pool(cluster.name.clone(), pool.name.clone());
            let mut problems = Problems::of(subject, &mut out);
            let pool = PoolOf::new(cluster, pool);
            check_pool(&pool, has_services, &mut problems);
        }
    }
    out
}

/// Finds everything that must be there before all machines of an estate can be rendered.
pub fn missing(estate: &Estate) -> Vec<Problem> {
    let mut out = Vec::new();
    for cluster in &estate.clusters {
        if !is_ours(cluster) {
            Problems::of(Subject::Cluster(cluster.name.clone()), &mut out).error(
                "ovirt-platform",
                "platform.ovirt",
                "oVirt machines are rendered by the oVirt platform, which is not part of this build",
                "",
            );
            continue;
        }
        for pool in estate.pools.iter().filter(|pool| pool.spec.cluster == cluster.name) {
            let subject = Subject::Pool(cluster.name.clone(), pool.name.clone());
            check_completeness(&PoolOf::new(cluster, pool), &mut Problems::of(subject, &mut out));
        }
    }
    for pool in estate.pools.iter().filter(|pool| estate.cluster(&pool.spec.cluster).is_none()) {
        let subject = Subject::Pool(pool.spec.cluster.clone(), pool.name.clone());
        Problems::of(subject, &mut out).error(
            "cluster-not-here",
            "cluster",
            format!(
                "cluster {} is not among what was read; the pool's machines are left out",
                pool.spec.cluster
            ),
            "read its TenantCluster together with the pool",
        );
    }
    out
}

/// Whether the cluster's machines run on KubeVirt.
pub(crate) fn is_ours(cluster: &Cluster) -> bool {
    matches!(cluster.spec.platform, Platform::Kubevirt(_))
}

/// Whether machines of a pool can be rendered at all.
pub(crate) fn is_renderable(pool: &PoolOf<'_>) -> bool {
    lacks(pool).is_none()
}

/// The first thing that a pool lacks before it can have machines.
pub(crate) fn lacks(pool: &PoolOf<'_>) -> Option<Problem> {
    let mut out = Vec::new();
    let subject = Subject::Cluster(pool.cluster.name.clone());
    check_completeness(pool, &mut Problems::of(subject, &mut out));
    out.into_iter().next()
}

fn check_pool(pool: &PoolOf<'_>, has_services: bool, problems: &mut Problems<'_>) {
    objects::check(pool, has_services, problems);
    compute::check(&pool.resolved, problems);
    flavor::check(pool, problems);
    migration::check(&pool.resolved, problems);
    vectors::check(&pool.resolved, problems);
    let template = &pool.resolved.template;
    check_hardware(template, problems);
    check_image(pool, problems);
    check_addresses(template, problems);
    check_user_data(template, problems);
}

/// What is needed before there can be a machine. Where it is missing none is rendered.
fn check_completeness(pool: &PoolOf<'_>, problems: &mut Problems<'_>) {
    let template = &pool.resolved.template;
    let (cluster, name) = (&pool.cluster.name, &pool.pool.name);
    match &template.image.source {
        None => problems.error(
            "image-without-source",
            "template.image.source",
            format!("nothing says where the image of pool {name} is; its machines are left out"),
            "give the image's source, or pass --image",
        ),
        Some(ImageSource::OvirtTemplate(image)) => problems.error(
            "ovirt-template",
            "template.image.source.ovirtTemplate",
            format!("the template {image} is on an oVirt engine; the machines of pool {name} are left out"),
            "give an image on a web server, in a registry or in the infra cluster",
        ),
        Some(_) => {}
    }
    match (&template.shape, &pool.resolved.flavor) {
        (Shape::Flavor(flavor), None) => problems.error(
            "unknown-flavor",
            "template.shape.flavor",
            format!("nothing says what flavor {flavor} is; the machines of pool {name} are left out"),
            "define it in the cluster's flavors",
        ),
        (Shape::Custom(compute), _) if compute.cpu.guest_cpus().is_none_or(|cpus| cpus == 0) => problems
            .error("no-cpu", "template.shape.custom.cpu", "nothing says how many CPUs a machine has", ""),
        (Shape::Custom(compute), _) if compute.memory.guest_bytes().is_none() => problems.error(
            "no-memory",
            "template.shape.custom.memory",
            "nothing says how much memory a machine has",
            "",
        ),
        _ => {}
    }
    if template.nics.is_empty() {
        problems.error("no-network", "template.nics", "the machines are on no network at all", "");
    }
    for nic in &template.nics {
        let path = format!("template.nics[{}].network", nic.name);
        match &nic.network {
            NicNetwork::OvirtProfile(_) => problems.error(
                "ovirt-network",
                path,
                "an oVirt network profile means nothing on KubeVirt",
                "use the pod network or a network of the cluster",
            ),
            NicNetwork::Machine(network)
                if !pool.resolved.networks.iter().any(|known| known.name == *network) =>
            {
                problems.error(
                    "unknown-network",
                    path,
                    format!("cluster {cluster} has no network {network}"),
                    "",
                );
            }
            _ => {}
        }
    }
}

fn check_hardware(template: &MachineTemplate, problems: &mut Problems<'_>) {
    match (template.architecture, template.firmware) {
        (Architecture::Arm64, Firmware::UefiSecureBoot) => problems.error(
            "secure-boot-on-arm",
            "template.firmware",
            "KubeVirt cannot start arm64 machines with secure boot: it needs system management mode, which is of x86",
            "set firmware to Uefi",
        ),
        (Architecture::S390x, Firmware::Uefi | Firmware::UefiSecureBoot) => problems.error(
            "uefi-on-s390x",
            "template.firmware",
            "s390x machines have no UEFI",
            "leave firmware out",
        ),
        _ => {}
    }
    if template.devices.tpm.is_some_and(|tpm| tpm.persistent) {
        problems.notice(
            "persistent-tpm",
            "template.devices.tpm.persistent",
            "the TPM's state is kept in a volume that KubeVirt makes for it",
            "the infra cluster's KubeVirt must name a storage class for it (vmStateStorageClass), one that many hosts can use if machines are to move",
        );
    }
    for search in template.dns.searches.iter().filter(|search| DomainName::new(search.as_str()).is_err()) {
        problems.error(
            "bad-search-domain",
            "template.dns.searches",
            format!("{search:?} is no domain that names can be looked up in"),
            "write it in lower case and without a dot at its end",
        );
    }
    let mut names = BTreeSet::new();
    for device in template.devices.host_devices.iter().filter(|device| !names.insert(&device.name)) {
        problems.error(
            "duplicate-host-device",
            format!("template.devices.hostDevices[{}]", device.name),
            "two devices of the host have this name",
            "rename one",
        );
    }
    for toleration in &template.placement.tolerations {
        if let (None, Some(value)) = (&toleration.key, &toleration.value) {
            problems.error(
                "toleration-without-key",
                "template.placement.tolerations",
                format!("the taint value {value} is tolerated, but nothing says of which taint"),
                "add the taint's key, or leave out the value to tolerate all taints",
            );
        }
    }
}

fn check_image(pool: &PoolOf<'_>, problems: &mut Problems<'_>) {
    let image = &pool.resolved.template.image;
    match &image.source {
        Some(ImageSource::Http(http))
            if http.checksum.is_some() && image.delivery == ImageDelivery::PerMachine =>
        {
            problems.warning(
                "checksum-not-checked",
                "template.image.source.http.checksum",
                "KubeVirt's volume templates have no checksum, so that an image imported by each machine is not checked",
                "use the delivery Golden, which checks it once",
            );
        }
        Some(ImageSource::Pvc(source) | ImageSource::Snapshot(source) | ImageSource::DataSource(source)) => {
            if let Some(namespace) = &source.namespace
                && namespace.as_str() != pool.cluster.infra_namespace()
            {
                problems.notice(
                    "clone-from-other-namespace",
                    "template.image.source",
                    format!("the image is copied from namespace {namespace}"),
                    "whoever makes the machines needs the right to create datavolumes/source there",
                );
            }
        }
        _ => {}
    }
}

/// The address KubeVirt's own bridge inside the pod has.
const RESERVED_MAC: &str = "02:00:00:00:00:00";

fn check_addresses(template: &MachineTemplate, problems: &mut Problems<'_>) {
    for nic in &template.nics {
        let path = format!("template.nics[{}]", nic.name);
        if nic.mac.as_ref().is_some_and(|mac| mac.as_str() == RESERVED_MAC) {
            problems.error(
                "reserved-mac",
                format!("{path}.mac"),
                format!("KubeVirt keeps the hardware address {RESERVED_MAC} for itself"),
                "choose another one",
            );
        }
        if nic.addresses.is_none() {
            continue;
        }
        if crate::nics::on_pod_network(nic) {
            problems.error(
                "static-address-on-pod-network",
                format!("{path}.addresses"),
                "on the pod network the infra cluster hands out the addresses",
                "leave the addresses out, or put the interface on a machine network",
            );
        }
        if template.image.os.first_boot() == FirstBoot::Ignition {
            problems.warning(
                "static-address-with-ignition",
                format!("{path}.addresses"),
                format!("{} reads no network data from the config drive", template.image.os.as_str()),
                "set the addresses in user data of your own, or by DHCP",
            );
        }
    }
}

fn check_user_data(template: &MachineTemplate, problems: &mut Problems<'_>) {
    let user_data = &template.user_data;
    if let Some(secret) = &user_data.secret {
        problems.warning(
            "user-data-elsewhere",
            "template.userData.secret",
            format!("what Secret {secret} holds is not known here, so the machines' own Secrets are not rendered"),
            "a controller copies it; by hand, make the Secret each machine names, with the key `userdata`, before the machine",
        );
    }
    let is_given = user_data.secret.is_some() || user_data.inline.is_some();
    if is_given && !template.ssh_keys.is_empty() {
        problems.warning(
            "ssh-keys-beside-user-data",
            "template.userData",
            "user data that is given is passed on as it is; the SSH keys are not added to it",
            "put the keys into the user data",
        );
    }
    let generates_cloud_config = !is_given && template.image.os.first_boot() == FirstBoot::CloudInit;
    if user_data.upgrade_packages && !generates_cloud_config {
        problems.warning(
            "packages-not-upgraded",
            "template.userData.upgradePackages",
            "packages are only upgraded by generated user data of systems with cloud-init",
            "remove upgradePackages",
        );
    }
}
