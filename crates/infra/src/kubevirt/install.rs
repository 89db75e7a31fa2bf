//! The object that says KubeVirt is installed, and how; and the roles that come with it.

use serde_json::{Value, json};

use super::names::VERSION;
use crate::client::{Identity, Result};
use crate::context::Context;
use crate::kinds::KUBEVIRT;
use crate::object::{Key, Object as _};
use crate::roles::{self, Role, Rule};

/// Everything that can be done to objects one at a time.
const ONE: &[&str] = &["get", "delete", "create", "update", "patch", "list", "watch"];
/// Everything that can be done to objects.
const ALL: &[&str] = &["get", "delete", "create", "update", "patch", "list", "watch", "deletecollection"];
const READ: &[&str] = &["get", "list", "watch"];

/// What is kept for the users of a namespace: groups and resources.
const KINDS: &[(&str, &[&str])] = &[
    (
        "kubevirt.io",
        &[
            "virtualmachines",
            "virtualmachineinstances",
            "virtualmachineinstancepresets",
            "virtualmachineinstancereplicasets",
        ],
    ),
    (
        "snapshot.kubevirt.io",
        &["virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores"],
    ),
    ("export.kubevirt.io", &["virtualmachineexports"]),
    ("clone.kubevirt.io", &["virtualmachineclones"]),
    (
        "instancetype.kubevirt.io",
        &[
            "virtualmachineinstancetypes",
            "virtualmachineclusterinstancetypes",
            "virtualmachinepreferences",
            "virtualmachineclusterpreferences",
        ],
    ),
    ("pool.kubevirt.io", &["virtualmachinepools"]),
];

/// What can be looked at.
const LOOKS: &[&str] = &[
    "virtualmachineinstances/guestosinfo",
    "virtualmachineinstances/filesystemlist",
    "virtualmachineinstances/userlist",
    "virtualmachineinstances/sev/fetchcertchain",
    "virtualmachineinstances/sev/querylaunchmeasurement",
    "virtualmachines/expand-spec",
    "virtualmachines/objectgraph",
    "virtualmachineinstances/objectgraph",
];

/// What leads into machines.
const STREAMS: &[&str] = &[
    "virtualmachineinstances/console",
    "virtualmachineinstances/vnc",
    "virtualmachineinstances/vnc/screenshot",
    "virtualmachineinstances/portforward",
    "virtualmachineinstances/usbredir",
    "virtualmachines/portforward",
];

/// What can be done to machines. To move them takes a right of its own.
const ACTIONS: &[&str] = &[
    "virtualmachineinstances/pause",
    "virtualmachineinstances/unpause",
    "virtualmachineinstances/addvolume",
    "virtualmachineinstances/removevolume",
    "virtualmachineinstances/freeze",
    "virtualmachineinstances/unfreeze",
    "virtualmachineinstances/softreboot",
    "virtualmachineinstances/reset",
    "virtualmachineinstances/sev/setupsession",
    "virtualmachineinstances/sev/injectlaunchsecret",
    "virtualmachines/start",
    "virtualmachines/stop",
    "virtualmachines/restart",
    "virtualmachines/addvolume",
    "virtualmachines/removevolume",
    "virtualmachines/memorydump",
    "virtualmachines/removememorydump",
];

/// The roles an installation brings: those of namespaces become part of `admin`, `edit` and `view`.
fn installed_roles() -> Vec<Role> {
    const SUBRESOURCES: &str = "subresources.kubevirt.io";
    let migrations = |verbs| Rule::new("kubevirt.io", &["virtualmachineinstancemigrations"], verbs);
    let shared = |kinds| {
        let mut rules: Vec<Rule> =
            KINDS.iter().map(|(group, resources)| Rule::new(group, resources, kinds)).collect();
        rules.extend([
            Rule::new("kubevirt.io", &["kubevirts"], &["get", "list"]),
            Rule::new("migrations.kubevirt.io", &["migrationpolicies"], READ),
            migrations(READ),
            Rule::new(SUBRESOURCES, LOOKS, &["get"]),
            Rule::new(SUBRESOURCES, &["expand-vm-spec"], &["update"]),
        ]);
        rules
    };
    let worked = |kinds| {
        let mut rules = shared(kinds);
        rules.push(Rule::new(SUBRESOURCES, STREAMS, &["get"]));
        rules.push(Rule::new(SUBRESOURCES, ACTIONS, &["update"]));
        rules
    };
    vec![
        // Clients ask the installation what they can expect.
        Role::new(
            "kubevirt.io:default",
            vec![
                Rule::new(SUBRESOURCES, &["version", "guestfs"], &["get", "list"]),
                Rule::new("kubevirt.io", &["kubevirts"], READ),
            ],
        )
        .for_everybody(),
        Role::new("kubevirt.io:admin", worked(ALL)).part_of("admin"),
        Role::new("kubevirt.io:edit", worked(ONE)).part_of("edit"),
        Role::new("kubevirt.io:view", shared(READ)).part_of("view"),
        Role::new(
            "kubevirt.io:migrate",
            vec![Rule::new(SUBRESOURCES, &["virtualmachines/migrate"], &["update"]), migrations(ALL)],
        ),
        Role::new(
            "instancetype.kubevirt.io:view",
            vec![Rule::new(
                "instancetype.kubevirt.io",
                &["virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences"],
                READ,
            )],
        )
        .for_everybody(),
    ]
}

/// Makes the `KubeVirt` object as the operator leaves it after an installation.
pub async fn install(context: &Context) -> Result {
    let client = context.client(Identity::VIRT_OPERATOR);
    roles::install(&client, &installed_roles()).await?;
    let key = Key::new("kubevirt", "kubevirt");
    if client.get(&KUBEVIRT, &key).await?.is_some_and(|found| found.text("/status/phase") == "Deployed") {
        return Ok(());
    }
    client.create_if_absent(&KUBEVIRT, installation()).await?;
    client.merge_status(&KUBEVIRT, &key, &json!({"status": status(&context.clock.seconds())})).await?;
    Ok(())
}

/// What was asked for: the defaults of a packaged installation.
fn installation() -> Value {
    json!({
        "metadata": {
            "namespace": "kubevirt", "name": "kubevirt", "finalizers": ["foregroundDeleteKubeVirt"],
            "annotations": {
                "kubevirt.io/latest-observed-api-version": "v1",
                "kubevirt.io/storage-observed-api-version": "v1",
            },
        },
        "spec": {
            "certificateRotateStrategy": {},
            "configuration": {
                "developerConfiguration": {"featureGates": []},
                "vmRolloutStrategy": "LiveUpdate",
            },
            "customizeComponents": {},
            "imagePullPolicy": "IfNotPresent",
            "workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]},
        },
    })
}

fn status(now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "phase": "Deployed",
        "conditions": [
            condition("Available", "True", "AllComponentsReady", "All components are ready."),
            condition("Progressing", "False", "AllComponentsReady", "All components are ready."),
            condition("Degraded", "False", "AllComponentsReady", "All components are ready."),
            condition("Created", "True", "AllResourcesCreated", "All resources were created."),
        ],
        "defaultArchitecture": "amd64",
        "observedGeneration": 1,
        "observedKubeVirtVersion": VERSION,
        "operatorVersion": VERSION,
        "targetKubeVirtVersion": VERSION,
        "outdatedVirtualMachineInstanceWorkloads": 0,
    })
}
