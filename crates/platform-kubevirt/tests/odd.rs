//! Objects as nobody makes them: nothing they hold may stop us, and what removes something names it.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use trellis_platform::Action;
use trellis_platform_kubevirt::{Context, MachineObjects, Verb, calls, observe, seen};

use crate::seeing::{lab, wish};

/// All places in an object.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                places(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            for (i, inner) in list.iter().enumerate() {
                places(inner, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "Failed",
            "Running",
            "True",
            "False",
            "Unknown",
            "PodScheduled",
            "0/3 nodes are available: ",
            "1 Insufficient ",
            "9999-12-31T23:59:59Z",
            "99999%",
            "exceeded quota: , requested: =, used: , limited: "
        ])
        .prop_map(Value::from),
    ]
}

/// An object of the lab with some of it replaced.
fn odd(name: &'static str) -> impl Strategy<Value = Value> {
    prop::collection::vec((any::<Index>(), odd_value()), 0..6).prop_map(move |changes| {
        let mut object = lab(name);
        for (place, value) in changes {
            let mut found = Vec::new();
            places(&object, "", &mut found);
            let place: &String = place.get(&found);
            *object.pointer_mut(place).unwrap() = value;
        }
        object
    })
}

fn actions(machine: &str) -> Vec<Action> {
    let (machine, uid) = (machine.to_owned(), "u-1".to_owned());
    let wish = std::sync::Arc::new(wish(json!({ "machineLabels": { "a": "b" } })));
    vec![
        Action::StoreUserData(wish.clone()),
        Action::Create(wish.clone()),
        Action::Update(wish),
        Action::Migrate { machine: machine.clone(), instance_uid: uid.clone() },
        Action::CancelMigration { migration: "m1".to_owned() },
        Action::StopInstance { machine: machine.clone(), instance_uid: uid.clone(), force: true },
        Action::Delete { machine: machine.clone(), uid: uid.clone() },
        Action::DeleteVolume { volume: machine.clone(), uid },
        Action::EraseUserData { machine },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_seen_is_observed_and_whatever_is_removed_is_named(
        vm in odd("vm-running"),
        instance in prop_oneof![odd("instance-running"), odd("instance-unschedulable"), odd("instance-evacuated")],
        volume in odd("volume-import-failing"),
        migration in odd("migration-pending"),
        pod in odd("pod-unschedulable"),
        host in odd("host"),
        secret in odd("volume-import-failing"),
        allowed in any::<bool>(),
    ) {
        let vm: Option<seen::VirtualMachine> = serde_json::from_value(vm).ok();
        let instance: Option<seen::VirtualMachineInstance> = serde_json::from_value(instance).ok();
        let volume: Option<seen::DataVolume> = serde_json::from_value(volume).ok();
        let migration: Option<seen::Migration> = serde_json::from_value(migration).ok();
        let pod: Option<seen::LauncherPod> = serde_json::from_value(pod).ok();
        let host: Option<seen::Host> = serde_json::from_value(host).ok();
        let secret: Option<seen::Stored> = serde_json::from_value(secret.clone()).ok();
        let wish = wish(json!({}));
        let seen = MachineObjects {
            secret: secret.as_ref(),
            service: None,
            vm: vm.as_ref(),
            instance: instance.as_ref(),
            volumes: volume.iter().collect(),
            migrations: migration.iter().collect(),
            pods: pod.iter().collect(),
            hosts: allowed.then(|| host.iter().collect()),
            gone_hosts: Vec::new(),
            golden: volume.as_ref(),
        };
        let observation = observe(&seen, Some(&wish));
        prop_assert_eq!(observation.vm.is_some(), vm.is_some());
        if let Some(instance) = observation.vm.and_then(|vm| vm.instance) {
            prop_assert!(instance.addresses.len() <= 64);
        }
        let context = Context { namespace: "demo", cluster: "demo", seen: &seen };
        for action in actions(&wish.identity.name) {
            for call in calls(&action, &context).into_iter().flatten() {
                if call.verb == Verb::Delete {
                    prop_assert!(call.precondition_uid.is_some(), "{:?}", call);
                }
                if call.verb == Verb::JsonPatch {
                    prop_assert_eq!(&call.body.as_ref().unwrap()[0]["path"], "/metadata/uid");
                }
            }
        }
    }
}
