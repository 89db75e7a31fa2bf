//! From actions to requests.
//!
//! Each action is one request, with few exceptions: a machine of a cluster whose machines have names of their own
//! gets its Service ahead of its Secret, and loses it ahead of the machine; and what is left of the Secret of an earlier
//! machine of the same name is removed before a new one is stored.
//!
//! - A virtual machine is *created*, not applied: one of that name that exists may be somebody else's, or have
//!   volumes plugged into it since, and applying would take both over.
//! - It is changed by a JSON patch that names it by uid, for the same reason: its lists of volumes and disks are
//!   shared with whoever plugs volumes, and KubeVirt lets no two writers own parts of one list.
//! - It is deleted in the foreground: once it is gone, its run and its volumes are gone.
//! - Erasing user data of a machine that exists does not delete the Secret: KubeVirt reads it at each start and the
//!   machine would never start again. What is secret is replaced by a configuration that says the host name and
//!   nothing else, and the Secret now belongs to the machine and goes with it. Network data stays, which is no secret
//!   and needed at each start.

mod failure;
mod update;

pub use failure::{ApiError, failure, is_done};
pub use update::hand_back;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use trellis_platform::{Action, Failure, Wish};

use crate::call::{Call, Propagation, Verb};
use crate::check::{is_ours, lacks};
use crate::machine::{Machine, PoolOf};
use crate::object::Object;
use crate::observe::MachineObjects;
use crate::seen::{
    DataVolume, Migration, Seen, Stored, StoredService, VirtualMachine, VirtualMachineInstance,
};
use crate::{annotations, applied, labels, names, services, user_data, vm};

/// Where actions take place and what is seen there.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The infra namespace of the cluster.
    pub namespace: &'a str,
    /// The cluster's name.
    pub cluster: &'a str,
    /// What is seen of the machine.
    pub seen: &'a MachineObjects<'a>,
}

/// The requests an action comes to; none where what it asks for is so already.
pub fn calls(action: &Action, context: &Context<'_>) -> Result<Vec<Call>, Failure> {
    let namespace = context.namespace;
    match action {
        Action::StoreUserData(wish) => store_user_data(wish, context),
        Action::Create(wish) => create(wish),
        Action::Update(wish) => update::update(wish, context),
        Action::Migrate { machine, instance_uid } => Ok(vec![migrate(machine, instance_uid, context)]),
        Action::CancelMigration { migration } => {
            let seen = context.seen.migrations.iter().find(|seen| *seen.meta.name == **migration);
            let standing = seen.filter(|seen| !seen.is_over() && seen.meta.deleting.is_none());
            Ok(standing
                .map(|seen| Call::delete(Migration::WATCHED, namespace, migration, &seen.meta.uid))
                .into_iter()
                .collect())
        }
        Action::StopInstance { machine, instance_uid, force } => {
            let call = Call::delete(VirtualMachineInstance::WATCHED, namespace, machine, instance_uid);
            Ok(vec![Call { grace_seconds: force.then_some(0), ..call }])
        }
        Action::Delete { machine, uid } => {
            let call = Call::delete(VirtualMachine::WATCHED, namespace, machine, uid);
            let vm = Call { propagation: Some(Propagation::Foreground), ..call };
            // The Service first: whoever is killed between the two finds the VM, and begins anew.
            Ok(delete_service(context).into_iter().chain([vm]).collect())
        }
        Action::DeleteVolume { volume, uid } => {
            let call = Call::delete(DataVolume::WATCHED, namespace, volume, uid);
            Ok(vec![Call { propagation: Some(Propagation::Background), ..call }])
        }
        Action::EraseUserData { machine } => Ok(erase_user_data(machine, context)),
    }
}

/// A pool whose machines can be made.
fn renderable(wish: &Wish) -> Result<PoolOf<'_>, Failure> {
    let pool = PoolOf::new(&wish.cluster, &wish.pool);
    if !is_ours(&wish.cluster) {
        return Err(Failure::Refused(format!("cluster {} is not on KubeVirt", wish.cluster.name)));
    }
    match lacks(&pool) {
        None => Ok(pool),
        Some(problem) => {
            let known: Vec<String> = wish.cluster.spec.flavors.keys().map(ToString::to_string).collect();
            let others = match (problem.code, known.is_empty()) {
                ("unknown-flavor", false) => format!(" (the cluster has {})", known.join(", ")),
                _ => String::new(),
            };
            Err(Failure::Refused(format!("{}{others}", problem.message)))
        }
    }
}

fn store_user_data(wish: &Wish, context: &Context<'_>) -> Result<Vec<Call>, Failure> {
    let pool = renderable(wish)?;
    let machine = pool.machine(wish.identity.clone(), wish.user_data.as_deref());
    let mut calls = Vec::new();
    if services::names_machines(machine.cluster, machine.pool) && context.seen.service.is_none() {
        let mut service = services::machine_service(&machine);
        remember(&mut service.metadata, wish);
        let service = Object::Service(Box::new(service));
        calls.push(apply(StoredService::WATCHED, &service));
    }
    let secrets = user_data::secrets(&machine);
    let kept = names::user_data(machine.name());
    if !secrets.iter().any(|secret| secret.metadata.name.as_deref() == Some(&kept)) {
        return Err(Failure::Refused(format!("the user data of pool {} is not to be had", wish.pool.name)));
    }
    let erased = context.seen.secret.filter(|secret| secret.erased);
    if let (Some(secret), None) = (erased, context.seen.vm) {
        // It belongs to an earlier machine of this name, and is about to go as that one did.
        let left = &secret.meta;
        calls.push(Call::delete(Stored::WATCHED, context.namespace, &left.name, &left.uid));
    }
    for mut secret in secrets {
        remember(&mut secret.metadata, wish);
        if erased.is_some() && context.seen.vm.is_some() {
            // The mark was patched in, so that applying without it would leave it.
            let unmarked = (annotations::ERASED.to_owned(), "false".to_owned());
            secret.metadata.annotations.get_or_insert_default().extend([unmarked]);
        }
        calls.push(apply(Stored::WATCHED, &Object::Secret(Box::new(secret))));
    }
    Ok(calls)
}

fn apply(kind: crate::seen::Watched, object: &Object) -> Call {
    Call::new(Verb::Apply, kind, object.namespace(), object.name()).with(object.to_json())
}

fn create(wish: &Wish) -> Result<Vec<Call>, Failure> {
    let pool = renderable(wish)?;
    let machine = pool.machine(wish.identity.clone(), None);
    let mut vm = rendered(&machine, wish);
    if let (Some(owner), Some(firmware)) = (&wish.owner, &mut vm.spec.template.spec.domain.firmware) {
        let uuid = names::firmware_uuid_of(&owner.uid);
        (firmware.serial, firmware.uuid) = (Some(uuid.clone()), Some(uuid));
    }
    let remembered = remembered(wish, &applied::Applied::of(&vm), &applied::wished_keys(&machine));
    vm.metadata.annotations.get_or_insert_default().extend(remembered);
    let object = Object::VirtualMachine(Box::new(vm));
    let call = Call::new(Verb::Create, VirtualMachine::WATCHED, object.namespace(), object.name());
    Ok(vec![call.with(object.to_json())])
}

/// A virtual machine whose volumes remember whose they are: they may outlive it.
fn rendered(machine: &Machine<'_>, wish: &Wish) -> trellis_api::kubevirt::VirtualMachine {
    let mut vm = vm::virtual_machine(machine);
    for volume in &mut vm.spec.data_volume_templates {
        remember(&mut volume.metadata, wish);
    }
    vm
}

/// What a virtual machine is told to remember.
fn remembered(wish: &Wish, applied: &applied::Applied, wished_keys: &str) -> Vec<(String, String)> {
    let mut remembered = vec![(annotations::APPLIED.to_owned(), applied.text())];
    if !wished_keys.is_empty() {
        remembered.push((annotations::WISHED_KEYS.to_owned(), wished_keys.to_owned()));
    }
    remembered.extend(made_for(wish));
    remembered
}

/// Has an object remember which Machine it is made for: when that is gone, it is known to be left over.
fn remember(metadata: &mut ObjectMeta, wish: &Wish) {
    if wish.owner.is_some() {
        metadata.annotations.get_or_insert_default().extend(made_for(wish));
    }
}

fn made_for(wish: &Wish) -> impl Iterator<Item = (String, String)> {
    wish.owner.iter().flat_map(|owner| {
        [
            (annotations::MACHINE_NAMESPACE.to_owned(), owner.namespace.clone()),
            (annotations::MACHINE_UID.to_owned(), owner.uid.clone()),
        ]
    })
}

/// A move has a name of its run and its number: asking twice makes one, and asking again after a failure another.
fn migrate(machine: &str, instance_uid: &str, context: &Context<'_>) -> Call {
    let ours =
        context.seen.migrations.iter().filter(|seen| seen.instance_uid.as_deref() == Some(instance_uid));
    let number = |name: &str| name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
    // One that goes on is asked for again under its own name, which changes nothing.
    let next =
        |seen: &&Migration| number(&seen.meta.name).map(|n| n.saturating_add(u32::from(seen.is_over())));
    let attempt = ours.filter_map(next).max().unwrap_or_default();
    let name = names::migration(machine, instance_uid, attempt);
    let body = json!({
        "apiVersion": Migration::WATCHED.api_version(),
        "kind": Migration::WATCHED.kind,
        "metadata": {
            "name": name,
            "namespace": context.namespace,
            "labels": {
                labels::CLUSTER: context.cluster,
                labels::MACHINE: machine,
                labels::INSTANCE: instance_uid,
                labels::MANAGED_BY: "trellis",
            },
        },
        "spec": { "vmiName": machine },
    });
    Call::new(Verb::Create, Migration::WATCHED, context.namespace, name).with(body)
}

fn delete_service(context: &Context<'_>) -> Option<Call> {
    let service = context.seen.service.filter(|service| service.meta.deleting.is_none())?;
    Some(Call::delete(StoredService::WATCHED, context.namespace, &service.meta.name, &service.meta.uid))
}

/// Once the machine is gone a Secret that was not erased goes too, and the Service if it is still there.
fn erase_user_data(machine: &str, context: &Context<'_>) -> Vec<Call> {
    let Context { namespace, seen, .. } = *context;
    let Some(vm) = seen.vm else {
        let secret = seen.secret.filter(|secret| secret.meta.deleting.is_none());
        let secret = secret
            .map(|secret| Call::delete(Stored::WATCHED, namespace, &secret.meta.name, &secret.meta.uid));
        return secret.into_iter().chain(delete_service(context)).collect();
    };
    // By what the machine itself reads: others name it otherwise.
    let Some(name) = vm.user_data.as_deref() else { return Vec::new() };
    let own = seen.secret.filter(|secret| *secret.meta.name == *name);
    if own.is_some_and(|secret| secret.erased) {
        return Vec::new();
    }
    let mut body: Value = json!({
        "metadata": { "annotations": { annotations::ERASED: "true" } },
        "data": {
            "userdata": STANDARD.encode(user_data::nothing(machine)),
            // KubeVirt takes this spelling too.
            "userData": null,
        },
    });
    if let Some(secret) = own {
        body["metadata"]["uid"] = (*secret.meta.uid).into();
        // It is of no use without the machine any more, and goes with it without being asked.
        let kind = VirtualMachine::WATCHED;
        body["metadata"]["ownerReferences"] = json!([{
            "apiVersion": kind.api_version(), "kind": kind.kind, "name": &*vm.meta.name, "uid": &*vm.meta.uid,
        }]);
    }
    vec![Call::new(Verb::MergePatch, Stored::WATCHED, namespace, name).with(body)]
}
