//! Objects that plans ask for, and patches.

use serde_json::json;
use trellis_engine::families::make::{NewMachine, NewSet, history, machine, machine_name, numbers, set};
use trellis_engine::families::{
    Family, KKP, OPENSHIFT, Object, Reading, TRELLIS, add_finalizer, annotate, identity, machine_seen,
    member, number_of, recorded_revision, remove_finalizer, scale, set_provider_id,
};

use super::fixtures::{deployment, kkp_set, openshift_set, own_readings, pool, readings, served};

const NEW_SET: NewSet = NewSet { number: 4, replicas: 1, desired: 3, most: 4 };

/// A machine that was made, as the server hands it out.
fn made(family: &Family, owner: &Object, reading: &Reading) -> Object {
    let new = NewMachine { ordinal: 5, zone: Some("zone-b") };
    let value = machine(family, owner, reading, new);
    assert_eq!(value, machine(family, owner, reading, new), "the same request twice is the same object");
    assert!(value["metadata"].get("generateName").is_none());
    let references = value["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(
        (&references[0]["controller"], &references[0]["blockOwnerDeletion"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(references[0]["uid"], "uid-owner");
    served(value, "uid-machine")
}

#[test]
fn a_new_machine_is_of_its_set_and_nothing_is_rolled() {
    let kkp = readings(&KKP);
    let deployment = served(deployment(), "uid-md");
    let wished = kkp.pool(&deployment).unwrap();
    let owner = set(&KKP, &deployment, &wished, NEW_SET).unwrap();
    let owner = served(owner, "uid-owner");
    assert_eq!(owner.metadata.name(), format!("workers-{}", wished.revision));
    assert_eq!(kkp.set(&owner, Some("workers")).unwrap().revision, wished.revision);
    assert_eq!(number_of(&KKP, &owner), 4);
    assert_eq!(
        owner.metadata.annotations.get("machinedeployment.clusters.k8s.io/desired-replicas"),
        Some("3")
    );
    assert_eq!(owner.metadata.annotations.get("machinedeployment.clusters.k8s.io/max-replicas"), Some("4"));
    let spec = owner.spec_json();
    assert_eq!(spec["selector"]["matchLabels"]["machine-template-hash"], wished.revision.as_str());
    assert_eq!((&spec["replicas"], &spec["minReadySeconds"]), (&json!(1), &json!(10)));
    let machine = made(&KKP, &owner, &wished);
    assert_eq!(machine.metadata.name(), format!("workers-{}-5", wished.revision));
    assert_eq!(kkp.machine(&machine, Some("workers")).unwrap().revision, wished.revision);
    assert_eq!(recorded_revision(&KKP, &machine).as_deref(), Some(wished.revision.as_str()));
    let owner_of_machine = machine.metadata.owner.as_ref().unwrap();
    assert_eq!((&*owner_of_machine.kind, &*owner_of_machine.name), ("MachineSet", owner.metadata.name()));

    let openshift = readings(&OPENSHIFT);
    let owner = served(openshift_set(), "uid-owner");
    let reading = openshift.set(&owner, None).unwrap();
    let machine = made(&OPENSHIFT, &owner, &reading);
    assert_eq!(machine.metadata.name(), "demo-worker-0-5");
    assert_eq!(openshift.machine(&machine, Some("demo-worker-0")).unwrap().revision, reading.revision);
    assert_eq!(set(&OPENSHIFT, &owner, &reading, NEW_SET), None);

    let own = own_readings();
    let owner = served(pool(), "uid-owner");
    let reading = own.pool(&owner).unwrap();
    let machine = made(&TRELLIS, &owner, &reading);
    assert_eq!(machine.metadata.name(), format!("demo-workers-{}-5", reading.revision));
    assert_eq!(machine.metadata.labels.get("team"), Some("a"));
    assert_eq!(recorded_revision(&TRELLIS, &machine).as_deref(), Some(reading.revision.as_str()));
    assert_eq!(identity(&TRELLIS, &machine, &reading).zone.unwrap().as_str(), "zone-b");
    assert!(machine_seen(&TRELLIS, &machine).finalizer, "our finalizer is on it from the beginning");
    let member = member(&TRELLIS, &machine);
    assert_eq!((member.ordinal, member.zone.as_deref()), (Some(5), Some("zone-b")));
    assert_eq!(history(&owner, &reading, 1)["kind"], "ControllerRevision");
}

#[test]
fn long_names_are_cut_and_stay_apart() {
    let kkp = readings(&KKP);
    let mut value = kkp_set();
    value["metadata"]["name"] = "a".repeat(80).into();
    let owner = served(value, "uid");
    let reading = kkp.set(&owner, Some("workers")).unwrap();
    let (one, other) = (machine_name(&KKP, &owner, &reading, 1), machine_name(&KKP, &owner, &reading, 11));
    assert!(one.len() <= 63 && other.len() <= 63 && one != other, "{one} {other}");
    assert!(one.ends_with("-1") && other.ends_with("-11"));
}

#[test]
fn patches_say_only_what_changes_and_of_which_object() {
    let owner = served(kkp_set(), "uid-set");
    assert_eq!(scale(&owner, 2), None);
    assert_eq!(
        scale(&owner, 5),
        Some(json!({ "metadata": { "uid": "uid-set" }, "spec": { "replicas": 5 } }))
    );
    let numbers = numbers(&KKP, NewSet { number: 3, ..NEW_SET });
    let patch = annotate(&owner, &numbers).unwrap();
    let changed: Vec<&String> = patch["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(changed.len(), 2, "the number is right already: {changed:?}");
    assert_eq!(annotate(&owner, &numbers[..1]), None);

    let machine = served(super::fixtures::kkp_machine("m"), "uid-m");
    assert_eq!(set_provider_id(&machine, "kubevirt://m"), None, "it does not change once it is there");
    let patch = add_finalizer(&machine).unwrap();
    assert_eq!(patch["metadata"]["finalizers"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&patch["metadata"]["resourceVersion"], &patch["metadata"]["uid"]),
        (&json!("77"), &json!("uid-m"))
    );
    assert_eq!(remove_finalizer(&machine), None);
}
