//! An estate as objects, in the order they are created.

use trellis_model::{Cluster, Estate, Pool, Problem, Subject};
use trellis_platform::MachineIdentity;

use crate::check::{self, check_names, is_ours, is_renderable};
use crate::machine::{Machine, PoolOf};
use crate::object::Object;
use crate::{flavors, images, isolation, networks, services, user_data, vm};

/// What an estate becomes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rendered {
    /// The objects, each behind all that it refers to.
    pub objects: Vec<Object>,
    /// What is wrong with the estate on this platform.
    pub problems: Vec<Problem>,
}

/// Renders an estate: clusters by name, and of each what its machines share before the machines.
///
/// What cannot be rendered is left out, and the problems say why.
pub fn render(estate: &Estate) -> Rendered {
    let mut problems = check::check(estate);
    problems.extend(check::missing(estate));
    let estate = estate.clone().sorted();
    let mut objects = Vec::new();
    for cluster in estate.clusters.iter().filter(|cluster| is_ours(cluster)) {
        let pools: Vec<&Pool> =
            estate.pools.iter().filter(|pool| pool.spec.cluster == cluster.name).collect();
        let subject = Subject::Cluster(cluster.name.clone());
        objects.extend(render_cluster(cluster, &pools).into_iter().map(|object| (subject.clone(), object)));
        for pool in pools {
            let subject = Subject::Pool(cluster.name.clone(), pool.name.clone());
            let pool = PoolOf::new(cluster, pool);
            if is_renderable(&pool) {
                let machines = pool.machines().flat_map(|machine| machine_objects(&machine));
                objects.extend(machines.map(|object| (subject.clone(), object)));
            }
        }
    }
    let objects = check_names(objects, &mut problems);
    Rendered { objects, problems }
}

/// What the machines of a cluster share: isolation first, then networks, flavors, golden volumes and the
/// Services of the API.
pub fn render_cluster(cluster: &Cluster, pools: &[&Pool]) -> Vec<Object> {
    if !is_ours(cluster) {
        return Vec::new();
    }
    let pools: Vec<PoolOf<'_>> =
        pools.iter().map(|pool| PoolOf::new(cluster, pool)).filter(is_renderable).collect();
    let mut objects = Vec::new();
    objects
        .extend(isolation::policies(cluster, &pools).into_iter().map(|o| Object::NetworkPolicy(Box::new(o))));
    let definitions = networks::attachment_definitions(cluster).into_iter();
    objects.extend(definitions.map(|o| Object::NetworkAttachmentDefinition(Box::new(o))));
    for (name, flavor) in flavors::used(&pools) {
        let instancetype = flavors::instancetype(cluster, name, flavor);
        let preference = flavors::preference(cluster, name, flavor);
        objects.push(Object::VirtualMachineInstancetype(Box::new(instancetype)));
        objects.push(Object::VirtualMachinePreference(Box::new(preference)));
    }
    let golden = images::golden_volumes(cluster, &pools).into_iter();
    objects.extend(golden.map(|o| Object::DataVolume(Box::new(o))));
    objects.extend(services::services(cluster, &pools).into_iter().map(|o| Object::Service(Box::new(o))));
    objects
}

/// One machine of a pool: its Service and Secrets, then the virtual machine. Nothing where something is
/// missing that a machine needs.
///
/// `user_data` is what the Secret holds that the pool's `userData.secret` names; without it the machine's
/// own Secret is left for others to make.
pub fn render_machine(
    cluster: &Cluster,
    pool: &Pool,
    identity: &MachineIdentity,
    user_data: Option<&str>,
) -> Vec<Object> {
    let pool = PoolOf::new(cluster, pool);
    if is_ours(cluster) && is_renderable(&pool) {
        machine_objects(&pool.machine(identity.clone(), user_data))
    } else {
        Vec::new()
    }
}

fn machine_objects(machine: &Machine<'_>) -> Vec<Object> {
    let mut objects = Vec::new();
    if services::names_machines(machine.cluster, machine.pool) {
        objects.push(Object::Service(Box::new(services::machine_service(machine))));
    }
    objects.extend(user_data::secrets(machine).into_iter().map(|secret| Object::Secret(Box::new(secret))));
    objects.push(Object::VirtualMachine(Box::new(vm::virtual_machine(machine))));
    objects
}
