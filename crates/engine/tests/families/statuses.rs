//! What is said of machines and pools, in the form of their families.

use serde_json::{Value, json};
use trellis_engine::families::{
    Family, KKP, OPENSHIFT, Object, PoolStatus, TRELLIS, machine_seen, machine_status, make, mark, member,
    pool_status, set_status,
};
use trellis_engine::machines::{MachineStatus, Phase, Record};
use trellis_engine::pools::{MachineState, Mark};
use trellis_engine::{Condition, Deadline};
use trellis_platform::{Address, AddressKind};

use super::fixtures::{
    at, deployment, kkp_machine, kkp_set, now, object, openshift_machine, openshift_set, own_readings,
    patched, pool, served,
};

/// A status in which everything is said.
fn full(phase: Phase) -> MachineStatus {
    let since = at("2026-11-16T11:58:00.123456789Z");
    let record = Record {
        phase: Some((phase, since)),
        stage: Some((Phase::Joining, at("2026-11-16T11:57:00.1Z"))),
        infra_namespace: Some("tenant".to_owned()),
        vm_uid: Some("vm-uid".to_owned()),
        firmware_uuid: Some("11111111-2222-5333-8444-555555555555".to_owned()),
        vm_removal_seen: true,
        instance_uid: Some("vmi-uid".to_owned()),
        host: Some("host-1".to_owned()),
        node: Some(("m".to_owned(), "node-uid".to_owned())),
        joined: Some(at("2026-11-16T11:00:00.5Z")),
        drain_started: Some(at("2026-11-16T11:01:00Z")),
        emptied: Some(at("2026-11-16T11:01:30Z")),
        evacuation_started: Some(at("2026-11-16T11:02:00Z")),
        evacuation_cordoned: true,
        evacuation_void: Some("vmi-uid".to_owned()),
        unready_since: Some(at("2026-11-16T11:03:00Z")),
        create_failures: (2, Some(at("2026-11-16T10:03:00Z"))),
    };
    MachineStatus {
        phase,
        since,
        reason: "NodeReady",
        message: "all is well".to_owned(),
        deadline: Some(Deadline { at: at("2026-11-16T12:10:00Z"), of: "FirstBoot" }),
        conditions: vec![
            Condition {
                kind: "NodeReady",
                holds: Some(true),
                reason: "KubeletReady",
                message: String::new(),
            },
            Condition { kind: "Ready", holds: None, reason: "Silent", message: "no word".to_owned() },
        ],
        addresses: vec![Address { kind: AddressKind::InternalIp, address: "10.0.0.9".to_owned() }],
        record,
        kubelet_version: Some("v1.34.2".to_owned()),
    }
}

fn own_machine() -> Value {
    let owner = served(pool(), "uid-owner");
    let reading = own_readings().pool(&owner).unwrap();
    let mut machine = make::machine(&TRELLIS, &owner, &reading, make::NewMachine { ordinal: 0, zone: None });
    machine["metadata"]["uid"] = "uid-m".into();
    machine["metadata"]["generation"] = 3.into();
    machine
}

fn machines() -> [(&'static Family, Value); 3] {
    [(&KKP, kkp_machine("m")), (&OPENSHIFT, openshift_machine("m")), (&TRELLIS, own_machine())]
}

#[test]
fn a_record_that_was_written_is_read_back_the_same() {
    for (family, machine) in machines() {
        for phase in Phase::ALL {
            let said = full(phase);
            let patch = machine_status(family, &object(machine.clone()), &said, now()).unwrap();
            let written = object(patched(machine.clone(), &patch));
            assert_eq!(machine_seen(family, &written).record, said.record, "{} {phase:?}", family.name);
            assert_eq!(machine_status(family, &written, &said, now()), None, "it stands there already");
            let later = at("2026-11-16T13:00:00Z");
            assert_eq!(machine_status(family, &written, &said, later), None, "time alone changes nothing");
        }
    }
}

#[test]
fn what_is_no_longer_so_is_taken_away() {
    for (family, machine) in machines() {
        let patch = machine_status(family, &object(machine.clone()), &full(Phase::Running), now()).unwrap();
        let written = patched(machine, &patch);
        let mut said = full(Phase::Creating);
        said.record = Record { phase: Some((Phase::Creating, said.since)), ..Record::default() };
        said.deadline = None;
        said.kubelet_version = None;
        said.conditions.truncate(1);
        said.addresses.clear();
        let patch = machine_status(family, &object(written.clone()), &said, now()).unwrap();
        let after = patched(written, &patch);
        assert_eq!(machine_seen(family, &object(after.clone())).record, said.record, "{}", family.name);
        assert!(!after.to_string().contains("FirstBoot") && !after.to_string().contains("Silent"), "{after}");
        assert_eq!(after["status"].get("nodeRef"), None);
    }
}

#[test]
fn only_what_changed_is_in_a_patch() {
    for (family, machine) in machines() {
        let said = full(Phase::Running);
        let patch = machine_status(family, &object(machine.clone()), &said, now()).unwrap();
        let written = object(patched(machine, &patch));
        let mut moved = said;
        moved.record.host = Some("host-2".to_owned());
        let mut patch = machine_status(family, &written, &moved, now()).unwrap();
        let status = patch["status"].as_object_mut().unwrap();
        status.remove("lastUpdated");
        let changed = if *family == TRELLIS {
            json!({ "record": { "host": "host-2" } })
        } else {
            json!({ "providerStatus": { "trellis": { "host": "host-2" } } })
        };
        assert_eq!(patch["status"], changed, "{}", family.name);
    }
}

#[test]
fn each_family_finds_what_its_ecosystem_expects() {
    let status = |family: &Family, machine: Value, phase: Phase| {
        let patch = machine_status(family, &object(machine.clone()), &full(phase), now()).unwrap();
        patched(machine, &patch)["status"].clone()
    };
    let kkp = status(&KKP, kkp_machine("m"), Phase::Failed);
    assert_eq!((&kkp["phase"], &kkp["errorReason"]), (&json!("Failed"), &json!("JoinClusterTimeoutError")));
    assert_eq!(kkp["versions"]["kubelet"], "v1.34.2");
    assert_eq!(kkp["nodeRef"]["kind"], "Node");
    assert_eq!(kkp["lastUpdated"], "2026-11-16T12:00:00Z");
    // Statuses of KKP's Machines count as changes of the spec: to note the generation would change it.
    assert!(!kkp.to_string().contains("bservedGeneration"));

    let phases = [
        (Phase::Creating, "Provisioning"),
        (Phase::Joining, "Provisioned"),
        (Phase::Running, "Running"),
        (Phase::Draining, "Running"),
        (Phase::Stopping, "Deleting"),
        (Phase::Failed, "Failed"),
        (Phase::Unknown, "Running"),
    ];
    for (phase, word) in phases {
        let openshift = status(&OPENSHIFT, openshift_machine("m"), phase);
        assert_eq!(openshift["phase"], word, "{phase:?}");
        assert_eq!(openshift["providerStatus"]["created"], true, "what the actuator wrote stays");
    }
    let mut going = openshift_machine("m");
    going["metadata"]["deletionTimestamp"] = "2026-11-16T11:59:00Z".into();
    assert_eq!(status(&OPENSHIFT, going, Phase::Draining)["phase"], "Deleting");

    let own = status(&TRELLIS, own_machine(), Phase::Starting);
    assert_eq!((&own["phase"], &own["observedGeneration"]), (&json!("Starting"), &json!(3)));
    assert_eq!(own["deadline"], json!({ "at": "2026-11-16T12:10:00Z", "of": "FirstBoot" }));
    let typed: trellis_api::trellis::MachineStatus = serde_json::from_value(own.clone()).unwrap();
    assert_eq!(typed.record.unwrap().vm_uid.as_deref(), Some("vm-uid"));
    let kinds: Vec<&str> = typed.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["NodeReady", "Ready", "Reconciling"], "what is not ready yet is on its way");
    // What is written fits into the schema: nothing would be pruned.
    let crds = trellis_api::trellis::crds();
    let crd = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "Machine").unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_known(&own, schema, "status");
}

/// Every key of a value is one the schema knows, and the schema adds none.
fn assert_known(value: &Value, schema: &Value, path: &str) {
    match value {
        Value::Object(map) => {
            // What a server fills in would be a difference to what we say, for ever.
            for (key, field) in schema["properties"].as_object().into_iter().flatten() {
                assert!(field["default"].is_null() || map.contains_key(key), "{path}.{key} has a default");
            }
            for (key, value) in map {
                let known = &schema["properties"][key];
                assert!(known.is_object(), "{path}.{key} is not in the schema");
                assert_known(value, known, &format!("{path}.{key}"));
            }
        }
        Value::Array(list) => list.iter().for_each(|item| assert_known(item, &schema["items"], path)),
        _ => {}
    }
}

#[test]
fn a_condition_keeps_its_time_and_those_of_others_stay() {
    let mut machine = openshift_machine("m");
    machine["status"]["conditions"] = json!([
        { "type": "Drainable", "status": "True", "lastTransitionTime": "2026-11-16T09:00:00Z" },
        { "type": "NodeReady", "status": "True", "reason": "Old", "message": "old", "lastTransitionTime": "2026-11-16T09:00:00Z" },
        { "type": "Drained", "status": "False", "lastTransitionTime": "2026-11-16T09:00:00Z" },
    ]);
    let patch = machine_status(&OPENSHIFT, &object(machine), &full(Phase::Running), now()).unwrap();
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    let shown: Vec<(&str, &str)> = conditions
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), c["lastTransitionTime"].as_str().unwrap()))
        .collect();
    let expected = [
        ("Drainable", "2026-11-16T09:00:00Z"),
        ("NodeReady", "2026-11-16T09:00:00Z"),
        ("Ready", "2026-11-16T12:00:00Z"),
        ("Reconciling", "2026-11-16T12:00:00Z"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_member_is_ready_since_its_condition_says_so() {
    for (family, machine) in machines() {
        let machine = patched(machine, &json!({ "status": { "conditions": null } }));
        let patch = machine_status(family, &object(machine.clone()), &full(Phase::Running), now()).unwrap();
        let written = object(patched(machine, &patch));
        assert_eq!(
            member(family, &written).state,
            MachineState::Ready(at("2026-11-16T12:00:00Z")),
            "{}",
            family.name
        );
    }
}

fn mark_of_pool() -> Mark {
    let at = at("2026-11-16T12:00:00Z");
    Mark { revision: "abc".to_owned(), replicas: 3, available: 3, left: 0, at, done: true }
}

fn settled() -> PoolStatus {
    PoolStatus {
        wished: 3,
        replicas: 3,
        updated: 3,
        ready: 3,
        available: 3,
        revision: Some("abc".to_owned()),
        mark: Some(mark_of_pool()),
        ..PoolStatus::default()
    }
}

/// The status of conditions by name, as `kubectl wait` and Flux look at them.
fn conditions(value: &Value) -> Vec<String> {
    let list = value["status"]["conditions"].as_array().unwrap();
    list.iter()
        .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect()
}

#[test]
fn pools_and_sets_say_what_tools_wait_for() {
    type Patch = fn(&Family, &Object, &PoolStatus, jiff::Timestamp) -> Option<Value>;
    let rows: [(&Family, Value, Patch); 4] = [
        (&KKP, deployment(), pool_status),
        (&KKP, kkp_set(), set_status),
        (&OPENSHIFT, openshift_set(), set_status),
        (&TRELLIS, pool(), pool_status),
    ];
    for (family, mut value, status) in rows {
        value["metadata"]["generation"] = 5.into();
        value["metadata"]["uid"] = "uid".into();
        let written =
            patched(value.clone(), &status(family, &object(value.clone()), &settled(), now()).unwrap());
        assert_eq!(written["status"]["observedGeneration"], 5);
        assert_eq!(
            (&written["status"]["replicas"], &written["status"]["availableReplicas"]),
            (&json!(3), &json!(3))
        );
        assert_eq!(conditions(&written), ["Ready=True", "Reconciling=False", "Stalled=False"]);
        assert_eq!(status(family, &object(written.clone()), &settled(), at("2026-11-16T14:00:00Z")), None);

        let rolling = PoolStatus { replicas: 4, updated: 1, available: 2, terminating: 1, ..settled() };
        let rolling =
            patched(written.clone(), &status(family, &object(written.clone()), &rolling, now()).unwrap());
        assert_eq!(conditions(&rolling), ["Ready=False", "Reconciling=True", "Stalled=False"]);

        let error = Some(("UnreadableTemplate", "memory: is not an amount".to_owned()));
        let stuck = PoolStatus { error, ..settled() };
        let stuck = patched(written.clone(), &status(family, &object(written), &stuck, now()).unwrap());
        assert_eq!(conditions(&stuck), ["Ready=False", "Reconciling=False", "Stalled=True"]);
    }
}

#[test]
fn a_pool_of_ours_says_all_its_schema_has() {
    let value = pool();
    let written = patched(value.clone(), &pool_status(&TRELLIS, &object(value), &settled(), now()).unwrap());
    let crds = trellis_api::trellis::crds();
    let crd = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "MachinePool").unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_known(&written["status"], schema, "status");
    assert_eq!(written["status"]["selector"], "trellis.dev/cluster=demo,trellis.dev/pool=workers");
    assert_eq!(written["status"]["unavailableReplicas"], 0);
    assert_eq!(mark(&object(written)), Some(mark_of_pool()), "how far it has come outlives who wrote it");
    let set = kkp_set();
    let set = patched(set.clone(), &set_status(&KKP, &object(set), &settled(), now()).unwrap());
    assert_eq!(set["status"]["labelSelector"], "machine-template-hash=3186546829,pool=workers");
}
