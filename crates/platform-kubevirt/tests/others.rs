//! Machines that others made: seen like ours, left as they are, taken over and handed back.

use serde_json::{Value, json};
use trellis_platform::{Action, Failure, InstanceState, VolumeState};
use trellis_platform_kubevirt::seen::{self, Seen as _};
use trellis_platform_kubevirt::{Context, MachineObjects, calls, hand_back, observe};

use crate::acting::{drift, only, patched, update};
use crate::builders::merged;
use crate::seeing::{read, run, vm_of, wish};

/// A machine as KKP's machine-controller makes it.
pub(crate) fn kkp_vm() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {
            "name": "demo-workers-d732514e6e-0", "namespace": "demo", "uid": "kkp-1",
            "creationTimestamp": "2025-01-01T00:00:00Z",
            "labels": { "md": "workers", "cluster.x-k8s.io/cluster-name": "demo", "kubevirt.io/vm": "x" },
            "annotations": { "kubevirt.io/latest-observed-api-version": "v1" },
        },
        "spec": {
            "runStrategy": "Once",
            "dataVolumeTemplates": [{ "metadata": { "name": "demo-workers-d732514e6e-0" }, "spec": {} }],
            "template": {
                "metadata": { "labels": { "md": "workers" } },
                "spec": {
                    "domain": {
                        "cpu": { "cores": 4 }, "resources": { "requests": { "memory": "8Gi" } },
                        "devices": { "disks": [{ "name": "datavolumedisk" }, { "name": "cloudinitdisk" }] },
                    },
                    "volumes": [
                        { "name": "datavolumedisk", "dataVolume": { "name": "demo-workers-d732514e6e-0" } },
                        { "name": "cloudinitdisk", "cloudInitNoCloud": { "secretRef": { "name": "userdata-x-170000" } } },
                    ],
                },
            },
        },
        "status": { "printableStatus": "Running", "conditions": null },
    })
}

#[test]
fn machines_of_others_are_seen_and_left_as_they_are() {
    let vm: seen::VirtualMachine = read(kkp_vm());
    let uuid =
        json!({ "spec": { "domain": { "firmware": { "uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223" } } } });
    let owner = json!([{ "kind": "VirtualMachine", "name": "demo-workers-d732514e6e-0", "uid": "kkp-1" }]);
    let run = run(merged(uuid, json!({ "metadata": { "labels": null, "ownerReferences": owner } })));
    let volume: seen::DataVolume = read(json!({
        "metadata": {
            "name": "demo-workers-d732514e6e-0", "uid": "dv-1",
            "ownerReferences": [{ "kind": "VirtualMachine", "name": "demo-workers-d732514e6e-0", "uid": "kkp-1" }],
        },
        "status": { "phase": "Succeeded" },
    }));
    assert_eq!((run.machine(), volume.machine()), (Some(&*vm.meta.name), Some(&*vm.meta.name)));
    let seen = MachineObjects {
        vm: Some(&vm),
        instance: Some(&run),
        volumes: vec![&volume],
        ..MachineObjects::default()
    };
    let wish = wish(json!({ "machineLabels": { "team": "a" } }));
    let observation = observe(&seen, Some(&wish));
    assert!(!observation.user_data_stored, "nothing of ours is");
    let vm = observation.vm.unwrap();
    assert_eq!((vm.cluster.as_str(), vm.machine_uid), ("", None));
    assert_eq!(vm.firmware_uuid.as_deref(), Some("5d307ca9-b3ef-428c-8861-06e72d69f223"));
    assert_eq!(vm.drift, []);
    assert_eq!(vm.instance.unwrap().state, InstanceState::Running);
    assert_eq!(observation.volumes[0].state, VolumeState::Ready);
}

#[test]
fn a_machine_of_others_is_taken_over_without_changing_what_it_is() {
    let wish = wish(json!({ "machineLabels": { "team": "a" } }));
    let vm = kkp_vm();
    let taken = patched(&vm, &only(update(&wish, &read(vm.clone()))));
    assert_eq!(taken["spec"], vm["spec"]);
    assert_eq!(taken["metadata"]["labels"]["trellis.dev/cluster"], "demo");
    assert_eq!(taken["metadata"]["labels"]["md"], "workers");
    assert_eq!(taken["metadata"]["annotations"]["trellis.dev/machine-uid"], "machine-uid");
    assert_eq!(drift(&wish, &taken), [""; 0]);
}

#[test]
fn a_machine_is_handed_back_as_it_was() {
    let wish = wish(json!({}));
    let vm = kkp_vm();
    let taken = patched(&vm, &only(update(&wish, &read(vm.clone()))));
    let seen_vm: seen::VirtualMachine = read(taken.clone());
    let seen = MachineObjects { vm: Some(&seen_vm), ..MachineObjects::default() };
    let back = hand_back(&Context { namespace: "demo", cluster: "demo", seen: &seen }).unwrap();
    assert_eq!(patched(&taken, &back), vm);
    assert_eq!(hand_back(&Context { namespace: "demo", cluster: "other", seen: &seen }), None);
}

#[test]
fn a_machine_of_openshifts_actuator_is_understood() {
    let vm: seen::VirtualMachine = read(json!({
        "metadata": { "name": "w-0", "namespace": "demo", "uid": "mapk-1", "labels": { "machine.openshift.io/cluster-api-machine-role": "worker" } },
        "spec": { "running": true, "template": { "spec": { "volumes": [
            { "name": "datavolumedisk1", "dataVolume": { "name": "w-0-bootvolume" } },
            { "name": "cloudinitdisk", "cloudInitConfigDrive": { "secretRef": { "name": "w-0-ignition" } } },
        ] } } },
    }));
    assert_eq!(vm.run_strategy.as_deref(), Some("Always"));
    let seen = MachineObjects { vm: Some(&vm), ..MachineObjects::default() };
    let context = Context { namespace: "demo", cluster: "demo", seen: &seen };
    let erase = calls(&Action::EraseUserData { machine: "w-0".to_owned() }, &context).unwrap();
    assert_eq!(only(erase).name, "w-0-ignition");
}

#[test]
fn a_machine_of_another_cluster_is_none_of_ours() {
    let wish = wish(json!({ "machineLabels": { "team": "a" } }));
    let foreign = vm_of(&wish, json!({ "metadata": { "labels": { "trellis.dev/cluster": "other" } } }));
    assert_eq!(drift(&wish, &foreign), [""; 0]);
    let vm: seen::VirtualMachine = read(foreign);
    let seen = MachineObjects { vm: Some(&vm), ..MachineObjects::default() };
    let context = Context { namespace: "demo", cluster: "demo", seen: &seen };
    let refused = calls(&Action::Update(std::sync::Arc::new(wish)), &context);
    assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
}

#[test]
fn a_run_of_an_earlier_machine_is_not_this_ones() {
    let vm: seen::VirtualMachine = read(kkp_vm());
    let run = run(json!({}));
    assert_eq!(run.owner.as_ref().unwrap().name, vm.meta.name);
    let seen = MachineObjects { vm: Some(&vm), instance: Some(&run), ..MachineObjects::default() };
    let observation = observe(&seen, None);
    assert_eq!(observation.vm.unwrap().instance, None);
    // It may still be alive, with or without a machine of its name.
    let left = observation.leftover.unwrap();
    assert_eq!(left.uid, *run.meta.uid);
    let seen = MachineObjects { instance: Some(&run), ..MachineObjects::default() };
    assert_eq!(observe(&seen, None).leftover, Some(left));
}
