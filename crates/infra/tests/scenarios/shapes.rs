//! Instancetypes and preferences, and the sets that machines are made in.

use serde_json::{Value, json};
use trellis_infra::kinds::{
    CLUSTER_INSTANCETYPE, CLUSTER_PREFERENCE, CONTROLLER_REVISION, INSTANCETYPE, KUBEVIRT, POOL, PREFERENCE,
    PVC, VM, VMI, VMI_REPLICA_SET,
};
use trellis_infra::kubevirt::shapes;
use trellis_infra::object::{Key, Object as _};

use crate::admission::{machine, refusal};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(common_shapes_are_there),
        scenario!(a_shape_is_remembered_as_it_was),
        scenario!(a_shape_is_applied_to_the_instance),
        scenario!(a_shape_is_found_out_from_a_volume),
        scenario!(requirements_are_kept),
        scenario!(a_shape_may_be_written_out),
        scenario!(a_started_machine_has_its_shape),
        scenario!(a_machine_without_memory_fails_to_start),
        scenario!(a_replica_set_keeps_its_number),
        scenario!(a_pool_names_and_updates_its_machines),
        scenario!(a_paused_pool_rests),
    ]
}

fn instancetype(name: &str, vcpus: u32, memory: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"cpu": {"guest": vcpus}, "memory": {"guest": memory}}})
}

/// A machine that names a shape of its namespace.
fn shaped(name: &str, shape: &str) -> Value {
    let mut vm = machine(name);
    vm.unset("/spec/template/spec/domain/memory");
    vm.set("/spec/instancetype", json!({"name": shape, "kind": "VirtualMachineInstancetype"}));
    vm
}

async fn common_shapes_are_there(cx: Cx) -> Result {
    let small = cx.client.get(&CLUSTER_INSTANCETYPE, &Key::cluster("u1.small")).await?.unwrap_or_default();
    assert_eq!((small.number("/spec/cpu/guest"), small.text("/spec/memory/guest")), (Some(1), "2Gi"));
    let fedora = cx.client.get(&CLUSTER_PREFERENCE, &Key::cluster("fedora")).await?.unwrap_or_default();
    assert_eq!(fedora.text("/spec/devices/preferredDiskBus"), "virtio");
    let mut vm = machine("a");
    vm.unset("/spec/template/spec/domain/memory");
    vm.set("/spec/instancetype", json!({"name": "u1.medium"}));
    vm.set("/spec/preference", json!({"name": "fedora"}));
    let vm = cx.create(&VM, vm).await?;
    assert_eq!(vm.text("/spec/instancetype/kind"), "virtualmachineclusterinstancetype");
    assert_eq!(vm.text("/spec/preference/kind"), "virtualmachineclusterpreference");
    Ok(())
}

async fn a_shape_is_remembered_as_it_was(cx: Cx) -> Result {
    cx.create(&INSTANCETYPE, instancetype("mine", 2, "2Gi")).await?;
    let vm = cx.create(&VM, shaped("a", "mine")).await?;
    let context = cx.infra.context();
    shapes::ensure_revisions(context, &vm).await?;
    let key = cx.key("a");
    let vm = cx
        .until(&VM, &key, |vm| !vm.text("/status/instancetypeRef/controllerRevisionRef/name").is_empty())
        .await?;
    assert_eq!(vm.text("/status/instancetypeRef/name"), "mine");
    let name = vm.text("/status/instancetypeRef/controllerRevisionRef/name");
    let kind = cx.client.get(&INSTANCETYPE, &cx.key("mine")).await?.unwrap_or_default();
    assert_eq!(name, format!("a-mine-v1beta1-{}-{}", kind.uid(), kind.generation()));
    let revision = cx.client.get(&CONTROLLER_REVISION, &cx.key(name)).await?.unwrap_or_default();
    assert!(revision.is_controlled_by(vm.uid()));
    assert_eq!(revision.label("instancetype.kubevirt.io/object-name"), "mine");
    assert_eq!(revision.label("instancetype.kubevirt.io/object-kind"), "VirtualMachineInstancetype");
    assert_eq!(revision.label("instancetype.kubevirt.io/object-version"), "v1beta1");
    assert_eq!(revision.at("/data/spec"), kind.at("/spec"));
    // Later changes are for machines that come later, even where the shape is gone.
    let change = json!({"spec": {"cpu": {"guest": 8}}});
    cx.client.merge(&INSTANCETYPE, &cx.key("mine"), &change).await?;
    let expanded = shapes::expand(context, &vm).await?;
    assert_eq!(expanded.number("/spec/template/spec/domain/cpu/sockets"), Some(2));
    shapes::ensure_revisions(context, &vm).await?;
    let later = cx.create(&VM, shaped("b", "mine")).await?;
    let expanded = shapes::expand(context, &later).await?;
    assert_eq!(expanded.number("/spec/template/spec/domain/cpu/sockets"), Some(8));
    cx.client.delete(&INSTANCETYPE, &cx.key("mine"), "").await?;
    cx.until_gone(&INSTANCETYPE, &cx.key("mine")).await?;
    shapes::expand(context, &vm).await?;
    // A machine without a revision has nothing to hold on to.
    let status = refusal(&cx, &VM, shaped("c", "mine")).await?;
    assert!(status.text("/message").contains("Failure to find instancetype: "), "{status}");
    Ok(())
}

async fn a_shape_is_applied_to_the_instance(cx: Cx) -> Result {
    cx.create(&INSTANCETYPE, instancetype("mine", 4, "2Gi")).await?;
    let preference = json!({
        "metadata": {"name": "mine"},
        "spec": {
            "cpu": {"preferredCPUTopology": "spread"},
            "devices": {"preferredDiskBus": "virtio", "preferredInterfaceModel": "virtio", "preferredInterfaceMasquerade": {}},
            "firmware": {"preferredEfi": {"secureBoot": false}},
        },
    });
    cx.create(&PREFERENCE, preference).await?;
    let mut vm = shaped("a", "mine");
    vm.set("/spec/preference", json!({"name": "mine", "kind": "VirtualMachinePreference"}));
    let vm = cx.create(&VM, vm).await?;
    let expanded = shapes::expand(cx.infra.context(), &vm).await?;
    let template = expanded.at("/spec/template");
    assert_eq!(template.annotation("kubevirt.io/instancetype-name"), "mine");
    assert_eq!(template.annotation("kubevirt.io/preference-name"), "mine");
    let domain = template.at("/spec/domain");
    assert_eq!(domain["cpu"], json!({"sockets": 2, "cores": 2, "threads": 1}));
    assert_eq!(domain["memory"], json!({"guest": "2Gi"}));
    assert_eq!(domain.at("/devices/disks"), &json!([{"name": "root", "disk": {"bus": "virtio"}}]));
    assert_eq!(domain.text("/devices/interfaces/0/model"), "virtio");
    assert_eq!(domain.at("/firmware/bootloader"), &json!({"efi": {"secureBoot": false}}));
    assert_eq!(expanded["spec"]["instancetype"], vm["spec"]["instancetype"]);
    let written = shapes::expand_spec(cx.infra.context(), &vm).await?;
    assert!(written["spec"]["instancetype"].is_null() && written["spec"]["preference"].is_null());
    assert_eq!(written.number("/spec/template/spec/domain/cpu/cores"), Some(2));
    Ok(())
}

async fn a_shape_is_found_out_from_a_volume(cx: Cx) -> Result {
    let claim = |name: &str, labels: Value| {
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
        })
    };
    let labels = json!({
        "instancetype.kubevirt.io/default-instancetype": "u1.small",
        "instancetype.kubevirt.io/default-preference": "fedora",
    });
    cx.create(&PVC, claim("told", labels)).await?;
    cx.create(&PVC, claim("untold", json!({}))).await?;
    let vm = |name: &str, claim: &str, policy: Value| {
        let mut vm = machine(name);
        vm.set(
            "/spec/template/spec/volumes",
            json!([{"name": "root", "persistentVolumeClaim": {"claimName": claim}}]),
        );
        let mut matcher = json!({"inferFromVolume": "root"});
        if policy.is_string() {
            matcher["inferFromVolumeFailurePolicy"] = policy;
        } else {
            vm.unset("/spec/template/spec/domain/memory");
        }
        vm.set("/spec/instancetype", matcher.clone());
        vm.set("/spec/preference", matcher);
        vm
    };
    let found = cx.create(&VM, vm("a", "told", Value::Null)).await?;
    assert_eq!(
        found.at("/spec/instancetype"),
        &json!({"name": "u1.small", "kind": "virtualmachineclusterinstancetype"})
    );
    assert_eq!(found.text("/spec/preference/name"), "fedora");
    let status = refusal(&cx, &VM, vm("b", "untold", Value::Null)).await?;
    assert_eq!(status.number("/code"), Some(400));
    assert!(
        status.text("/message").ends_with(
            "unable to find required instancetype.kubevirt.io/default-instancetype label on the volume"
        ),
        "{status}"
    );
    let status = refusal(&cx, &VM, vm("b", "lost", json!("Ignore"))).await?;
    assert!(status.text("/message").contains("persistentvolumeclaims \"lost\" not found"), "{status}");
    let plain = cx.create(&VM, vm("c", "untold", json!("Ignore"))).await?;
    assert!(plain["spec"]["instancetype"].is_null() && plain["spec"]["preference"].is_null(), "{plain}");
    assert_eq!(plain.text("/spec/template/spec/domain/memory/guest"), "1Gi");
    let given = cx.create(&VM, vm("d", "told", json!("Ignore"))).await?;
    assert!(given.at("/spec/template/spec/domain/memory").is_null());
    Ok(())
}

async fn requirements_are_kept(cx: Cx) -> Result {
    cx.create(&INSTANCETYPE, instancetype("odd", 3, "1Gi")).await?;
    let preference = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let needs = json!({"requirements": {"cpu": {"guest": 4}, "memory": {"guest": "1Gi"}}});
    cx.create(&PREFERENCE, preference("needs", needs)).await?;
    let spread = json!({"cpu": {"preferredCPUTopology": "spread"}});
    cx.create(&PREFERENCE, preference("spread", spread)).await?;
    for (name, field, message) in [
        (
            "needs",
            "spec.instancetype",
            "failure checking preference requirements: insufficient CPU resources of 3 vCPU provided by instance type, preference requires 4 vCPU",
        ),
        ("spread", "instancetype.spec.cpu.guest", "3 vCPUs provided by the instance type are not divisible"),
    ] {
        let mut vm = shaped("a", "odd");
        vm.set("/spec/preference", json!({"name": name, "kind": "VirtualMachinePreference"}));
        let status = refusal(&cx, &VM, vm).await?;
        assert_eq!(status.text("/details/causes/0/field"), field, "{status}");
        assert!(status.text("/message").contains(message), "{status}");
    }
    let status =
        refusal(&cx, &PREFERENCE, preference("x", json!({"cpu": {"preferredCPUTopology": "round"}}))).await?;
    assert_eq!(status.text("/details/causes/0/field"), "spec.cpu.preferredCPUTopology", "{status}");
    Ok(())
}

async fn a_shape_may_be_written_out(cx: Cx) -> Result {
    cx.create(&INSTANCETYPE, instancetype("mine", 2, "2Gi")).await?;
    cx.create(&VM, shaped("kept", "mine")).await?;
    let used = |vm: &Value| !vm.text("/status/instancetypeRef/controllerRevisionRef/name").is_empty();
    let kept = cx.until(&VM, &cx.key("kept"), used).await?;
    // The policy is the cluster's: whatever comes of this, it is put back.
    policy(&cx, json!({"referencePolicy": "expand"})).await?;
    let outcome = written_out(&cx, &kept).await;
    policy(&cx, Value::Null).await?;
    outcome
}

/// Sets how the cluster deals with references to shapes.
async fn policy(cx: &Cx, policy: Value) -> Result {
    let key = Key::new("kubevirt", "kubevirt");
    let patch = json!({"spec": {"configuration": {"instancetype": policy}}});
    cx.client.merge(&KUBEVIRT, &key, &patch).await?;
    cx.until(&KUBEVIRT, &key, |found| *found.at("/spec/configuration/instancetype") == policy).await?;
    Ok(())
}

async fn written_out(cx: &Cx, kept: &Value) -> Result {
    cx.create(&VM, shaped("a", "mine")).await?;
    let vm = cx.until(&VM, &cx.key("a"), |vm| vm["spec"]["instancetype"].is_null()).await?;
    assert_eq!(vm.number("/spec/template/spec/domain/cpu/sockets"), Some(2));
    assert_eq!(vm.text("/spec/template/spec/domain/memory/guest"), "2Gi");
    assert!(vm["status"]["instancetypeRef"].is_null());
    // A machine that has a revision keeps it.
    shapes::ensure_revisions(cx.infra.context(), kept).await?;
    let kept = cx.client.get(&VM, &cx.key("kept")).await?.unwrap_or_default();
    assert_eq!(kept.text("/spec/instancetype/name"), "mine");
    Ok(())
}

async fn a_started_machine_has_its_shape(cx: Cx) -> Result {
    cx.create(&INSTANCETYPE, instancetype("mine", 2, "2Gi")).await?;
    let mut vm = shaped("a", "mine");
    vm.set("/spec/runStrategy", "Always".into());
    vm.set("/spec/preference", json!({"name": "ubuntu"}));
    cx.create(&VM, vm).await?;
    let vmi = cx.until(&VMI, &cx.key("a"), |_| true).await?;
    assert_eq!(vmi.annotation("kubevirt.io/instancetype-name"), "mine");
    assert_eq!(vmi.annotation("kubevirt.io/cluster-preference-name"), "ubuntu");
    assert_eq!(vmi.number("/spec/domain/cpu/sockets"), Some(2));
    assert_eq!(vmi.text("/spec/domain/memory/guest"), "2Gi");
    assert_eq!(vmi.text("/spec/domain/devices/disks/0/disk/bus"), "virtio");
    let vm = cx.until(&VM, &cx.key("a"), |vm| vm["status"]["preferenceRef"].is_object()).await?;
    assert!(vm.text("/status/preferenceRef/controllerRevisionRef/name").starts_with("a-ubuntu-v1beta1-"));
    assert!(vm.at("/spec/template/spec/domain/cpu").is_null(), "the machine itself is not rewritten");
    Ok(())
}

async fn a_machine_without_memory_fails_to_start(cx: Cx) -> Result {
    // A machine may lack memory; an instance may not.
    let mut vm = machine("a");
    vm.unset("/spec/template/spec/domain/memory");
    vm.set("/spec/runStrategy", "Always".into());
    cx.create(&VM, vm).await?;
    let vm = cx.until(&VM, &cx.key("a"), |vm| vm.condition_holds("Failure")).await?;
    assert_eq!(vm.condition("Failure")["reason"], "FailedCreate");
    assert!(vm.condition("Failure").text("/message").contains("no memory requested"), "{vm}");
    cx.until_event("a", "FailedCreate").await?;
    assert!(cx.client.get(&VMI, &cx.key("a")).await?.is_none());
    let memory = json!({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}}}}});
    cx.client.merge(&VM, &cx.key("a"), &memory).await?;
    cx.until(&VMI, &cx.key("a"), |_| true).await?;
    Ok(())
}

/// A template of instances that nothing can run.
fn idle(label: &str) -> Value {
    json!({
        "metadata": {"labels": {"set": label}},
        "spec": {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}, "nodeSelector": {"nowhere": "yes"}},
    })
}

async fn a_replica_set_keeps_its_number(cx: Cx) -> Result {
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"set": "web"}}, "template": idle("web")},
    });
    let set = cx.create(&VMI_REPLICA_SET, set).await?;
    let key = cx.key("web");
    let noted = cx.until(&VMI_REPLICA_SET, &key, |set| set.number("/status/replicas") == Some(2)).await?;
    assert_eq!(noted.text("/status/labelSelector"), "set=web");
    let members = || {
        let all = cx.client.cache(&VMI).controlled_by(set.uid());
        all.into_iter().filter(|vmi| !vmi.is_deleting()).collect::<Vec<_>>()
    };
    assert_eq!(members().len(), 2);
    assert!(members().iter().all(|vmi| vmi.name().starts_with("web") && vmi.label("set") == "web"));
    cx.until_event("web", "SuccessfulCreate").await?;
    // One that is deleted is made again.
    let first = members()[0].clone();
    cx.client.delete(&VMI, &Key::of(&first), first.uid()).await?;
    cx.until(&VMI_REPLICA_SET, &key, |set| {
        let now: Vec<_> = members();
        set.number("/status/replicas") == Some(2)
            && now.len() == 2
            && now.iter().all(|vmi| vmi.uid() != first.uid())
    })
    .await?;
    // Scaling goes through the scale subresource too.
    let scale = json!({"spec": {"replicas": 1}});
    let path = format!("{}/scale", VMI_REPLICA_SET.path(&cx.namespace, "web"));
    cx.client.send(http::Method::PATCH, &path, Some(("application/merge-patch+json", &scale))).await?;
    cx.until(&VMI_REPLICA_SET, &key, |set| set.number("/status/replicas") == Some(1)).await?;
    // Paused, it rests.
    cx.client.merge(&VMI_REPLICA_SET, &key, &json!({"spec": {"paused": true}})).await?;
    cx.until(&VMI_REPLICA_SET, &key, |set| set.condition_holds("ReplicaPaused")).await?;
    cx.client.merge(&VMI_REPLICA_SET, &key, &json!({"spec": {"replicas": 3}})).await?;
    cx.client.merge(&VMI_REPLICA_SET, &key, &json!({"spec": {"paused": false}})).await?;
    let noted = cx.until(&VMI_REPLICA_SET, &key, |set| set.number("/status/replicas") == Some(3)).await?;
    assert!(!noted.condition_holds("ReplicaPaused"));
    Ok(())
}

fn pool(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "pool"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": "pool"}},
            "scaleInStrategy": {"proactive": {"selectionPolicy": {"sortPolicy": "DescendingOrder"}}},
            "virtualMachineTemplate": {
                "metadata": {"labels": {"pool": "pool"}},
                "spec": {"runStrategy": "Halted", "template": idle("pool")},
            },
        },
    })
}

async fn a_pool_names_and_updates_its_machines(cx: Cx) -> Result {
    let made = cx.create(&POOL, pool(3)).await?;
    let key = cx.key("pool");
    cx.until(&POOL, &key, |pool| pool.number("/status/replicas") == Some(3)).await?;
    for index in 0..3 {
        let vm = cx.until(&VM, &cx.key(&format!("pool-{index}")), |_| true).await?;
        assert!(vm.is_controlled_by(made.uid()));
        let revision = vm.label("kubevirt.io/vm-pool-revision-name").to_owned();
        assert_eq!(vm["spec"]["template"].label("kubevirt.io/vm-pool-revision-name"), revision);
        cx.until(&CONTROLLER_REVISION, &cx.key(&revision), |_| true).await?;
    }
    let before = cx.client.get(&VM, &cx.key("pool-0")).await?.unwrap_or_default();
    // A change of the template reaches the machines, which stay themselves.
    let change =
        json!({"spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {"hostname": "new"}}}}}});
    cx.client.merge(&POOL, &key, &change).await?;
    for index in 0..3 {
        let vm = cx
            .until(&VM, &cx.key(&format!("pool-{index}")), |vm| {
                vm.text("/spec/template/spec/hostname") == "new"
            })
            .await?;
        if index == 0 {
            let pointer = "/spec/template/spec/domain/firmware/uuid";
            assert_eq!((vm.uid(), vm.text(pointer)), (before.uid(), before.text(pointer)));
        }
    }
    // The state that no machine is of is forgotten.
    cx.until_gone(&CONTROLLER_REVISION, &cx.key(before.label("kubevirt.io/vm-pool-revision-name"))).await?;
    // The last ones go first, and their places are used again.
    cx.client.merge(&POOL, &key, &json!({"spec": {"replicas": 1}})).await?;
    for index in [1, 2] {
        let_go(&cx, &format!("pool-{index}")).await?;
    }
    cx.until(&POOL, &key, |pool| pool.number("/status/replicas") == Some(1)).await?;
    cx.client.merge(&POOL, &key, &json!({"spec": {"replicas": 2}})).await?;
    cx.until(&VM, &cx.key("pool-1"), |vm| !vm.is_deleting()).await?;
    // Its machines go with it.
    cx.client.delete(&POOL, &key, "").await?;
    cx.until_gone(&POOL, &key).await?;
    for index in 0..2 {
        let_go(&cx, &format!("pool-{index}")).await?;
    }
    Ok(())
}

/// Waits until a machine goes. Whoever holds it beyond its pool lets it go in its own time.
async fn let_go(cx: &Cx, name: &str) -> Result {
    cx.until_gone(&VM, &cx.key(name)).await
}

async fn a_paused_pool_rests(cx: Cx) -> Result {
    let mut paused = pool(1);
    paused.set("/spec/paused", true.into());
    cx.create(&POOL, paused).await?;
    let key = cx.key("pool");
    let noted = cx.until(&POOL, &key, |pool| pool.condition_holds("ReplicaPaused")).await?;
    assert_eq!(noted.number("/status/replicas"), Some(0));
    assert!(cx.client.get(&VM, &cx.key("pool-0")).await?.is_none());
    cx.client.merge(&POOL, &key, &json!({"spec": {"paused": false}})).await?;
    cx.until(&VM, &cx.key("pool-0"), |_| true).await?;
    cx.until(&POOL, &key, |pool| pool.condition("ReplicaPaused").is_null()).await?;
    cx.client.delete(&POOL, &key, "").await?;
    cx.until_gone(&POOL, &key).await
}
