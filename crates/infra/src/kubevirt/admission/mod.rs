//! Admission: what virt-api fills in, and what it refuses.
//!
//! Deciding is done by functions over JSON; what is here leads the reviews to them.

pub mod checks;
pub mod config;
pub mod decode;
pub mod defaults;
pub mod field;
pub mod instance;
pub mod machine;
pub mod others;
pub mod plug;
pub mod presets;

use crate::context::{Context, Tasks};
use crate::kinds::{CONTROLLER_REVISION, KUBEVIRT, VMI_PRESET};
use crate::service::admission::{Hook, Rule};

const CORE: (&str, &[&str]) = ("kubevirt.io", &["v1", "v1alpha3"]);
const SHAPES: (&str, &[&str]) = ("instancetype.kubevirt.io", &["v1beta1"]);
const SNAPSHOTS: (&str, &[&str]) = ("snapshot.kubevirt.io", &["v1beta1", "v1alpha1"]);
const POOLS: (&str, &[&str]) = ("pool.kubevirt.io", &["v1beta1", "v1alpha1"]);
const POLICIES: (&str, &[&str]) = ("migrations.kubevirt.io", &["v1alpha1"]);

const CREATE: &[&str] = &["CREATE"];
const UPDATE: &[&str] = &["UPDATE"];
const BOTH: &[&str] = &["CREATE", "UPDATE"];

macro_rules! hook {
    ($kind:ident $name:literal $path:literal $group:ident $resource:literal $operations:ident $review:expr) => {
        Hook {
            path: $path,
            configuration: hook!(@configuration $kind),
            name: $name,
            mutating: hook!(@mutating $kind),
            rules: &[Rule { group: $group.0, versions: $group.1, resources: &[$resource], operations: $operations }],
            ignore_failure: false,
            review: $review,
        }
    };
    (@configuration mutator) => { "virt-api-mutator" };
    (@configuration validator) => { "virt-api-validator" };
    (@mutating mutator) => { true };
    (@mutating validator) => { false };
}

/// The webhooks of virt-api.
pub const HOOKS: &[Hook] = &[
    hook!(mutator "virtualmachines-mutator.kubevirt.io" "/virtualmachines-mutate"
        CORE "virtualmachines" BOTH |context, review| Box::pin(machine::mutate(context, review))),
    hook!(mutator "virtualmachineinstances-mutator.kubevirt.io" "/virtualmachineinstances-mutate"
        CORE "virtualmachineinstances" BOTH |context, review| Box::pin(instance::mutate(context, review))),
    hook!(mutator "migrations-mutator.kubevirt.io" "/migration-mutate-create"
        CORE "virtualmachineinstancemigrations" CREATE
        |_, review| Box::pin(async { others::mutate_migration(review) })),
    hook!(validator "virtualmachineinstances-create-validator.kubevirt.io" "/virtualmachineinstances-validate-create"
        CORE "virtualmachineinstances" CREATE |context, review| Box::pin(instance::create(context, review))),
    hook!(validator "virtualmachineinstances-update-validator.kubevirt.io" "/virtualmachineinstances-validate-update"
        CORE "virtualmachineinstances" UPDATE |context, review| Box::pin(instance::update(context, review))),
    hook!(validator "virtualmachine-validator.kubevirt.io" "/virtualmachines-validate"
        CORE "virtualmachines" BOTH |context, review| Box::pin(machine::validate(context, review))),
    hook!(validator "virtualmachinereplicaset-validator.kubevirt.io" "/virtualmachinereplicaset-validate"
        CORE "virtualmachineinstancereplicasets" BOTH
        |context, review| Box::pin(others::replica_set(context, review))),
    hook!(validator "virtualmachinepool-validator.kubevirt.io" "/virtualmachinepool-validate"
        POOLS "virtualmachinepools" BOTH |context, review| Box::pin(others::pool(context, review))),
    hook!(validator "virtualmachinepreset-validator.kubevirt.io" "/vmipreset-validate"
        CORE "virtualmachineinstancepresets" BOTH |_, review| Box::pin(async move { others::preset(&review) })),
    hook!(validator "migration-create-validator.kubevirt.io" "/migration-validate-create"
        CORE "virtualmachineinstancemigrations" CREATE
        |context, review| Box::pin(others::create_migration(context, review))),
    hook!(validator "migration-update-validator.kubevirt.io" "/migration-validate-update"
        CORE "virtualmachineinstancemigrations" UPDATE
        |_, review| Box::pin(async move { others::update_migration(&review) })),
    hook!(validator "virtualmachinesnapshot-validator.snapshot.kubevirt.io" "/virtualmachinesnapshots-validate"
        SNAPSHOTS "virtualmachinesnapshots" BOTH |context, review| Box::pin(others::snapshot(context, review))),
    hook!(validator "virtualmachinerestore-validator.snapshot.kubevirt.io" "/virtualmachinerestores-validate"
        SNAPSHOTS "virtualmachinerestores" BOTH |context, review| Box::pin(others::restore(context, review))),
    hook!(validator "virtualmachineinstancetype-validator.instancetype.kubevirt.io"
        "/virtualmachineinstancetypes-validate" SHAPES "virtualmachineinstancetypes" BOTH
        |_, review| Box::pin(async move { others::instancetype(&review) })),
    hook!(validator "virtualmachineclusterinstancetype-validator.instancetype.kubevirt.io"
        "/virtualmachineclusterinstancetypes-validate" SHAPES "virtualmachineclusterinstancetypes" BOTH
        |_, review| Box::pin(async move { others::instancetype(&review) })),
    hook!(validator "virtualmachinepreference-validator.instancetype.kubevirt.io"
        "/virtualmachinepreferences-validate" SHAPES "virtualmachinepreferences" BOTH
        |_, review| Box::pin(async move { others::preference(&review) })),
    hook!(validator "virtualmachineclusterpreference-validator.instancetype.kubevirt.io"
        "/virtualmachineclusterpreferences-validate" SHAPES "virtualmachineclusterpreferences" BOTH
        |_, review| Box::pin(async move { others::preference(&review) })),
    hook!(validator "migration-policy-validator.kubevirt.io" "/migration-policy-validate-create"
        POLICIES "migrationpolicies" BOTH |_, review| Box::pin(async move { others::migration_policy(&review) })),
];

/// Begins to watch what admission looks at, so that no review has to wait for it.
pub fn start(context: &Context, _tasks: &mut Tasks) {
    for kind in [&KUBEVIRT, &VMI_PRESET, &CONTROLLER_REVISION] {
        context.client.cache(kind);
    }
}
