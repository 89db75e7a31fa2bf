//! Machines that others made.

use serde_json::{Value, json};
use trellis_engine::families::adoption::{
    SecretName, forget, hand_back, is_handed_back, made_by_others, take_over,
};
use trellis_engine::families::{Family, KKP, OPENSHIFT, machine_seen};

use super::fixtures::{at, deployment, kkp_machine, object, openshift_machine, patched};

/// A family, a Machine its own controller made, and that controller.
type Row = (&'static Family, fn(&str) -> Value, &'static str);

const ROWS: [Row; 2] =
    [(&KKP, kkp_machine, "machine-controller"), (&OPENSHIFT, openshift_machine, "machine-api")];

#[test]
fn a_machine_is_taken_over_and_handed_back_by_one_patch_each() {
    for (family, machine, controller) in ROWS {
        let before = machine("m");
        let patch = take_over(family, &object(before.clone())).unwrap();
        assert!(
            patch.get("spec").is_none() && patch.get("status").is_none(),
            "nothing else changes: {patch}"
        );
        let taken = patched(before.clone(), &patch);
        assert_eq!(taken["metadata"]["finalizers"], json!(["trellis.dev/machine"]));
        assert_eq!(taken["metadata"]["annotations"]["trellis.dev/adopted-from"], controller);
        let seen = object(taken.clone());
        assert!(machine_seen(family, &seen).finalizer);
        assert_eq!(take_over(family, &seen), None, "it is ours now");
        assert!(made_by_others(family, &seen).is_some(), "and what they made for it is still known");

        let back = patched(taken, &hand_back(family, &seen).unwrap());
        let sorted = |value: &Value| {
            let mut list: Vec<String> =
                serde_json::from_value(value["metadata"]["finalizers"].clone()).unwrap();
            list.sort();
            list
        };
        assert_eq!(sorted(&back), sorted(&before));
        assert_eq!(back["metadata"]["annotations"].get("trellis.dev/adopted-from"), None);
        assert_eq!(hand_back(family, &object(back)), None);
    }
}

#[test]
fn finalizers_of_third_parties_stay() {
    let mut machine = kkp_machine("m");
    machine["metadata"]["finalizers"].as_array_mut().unwrap().push("example.com/backup".into());
    let patch = take_over(&KKP, &object(machine)).unwrap();
    assert_eq!(patch["metadata"]["finalizers"], json!(["example.com/backup", "trellis.dev/machine"]));
}

#[test]
fn what_others_made_is_found_by_their_names() {
    let kkp = made_by_others(&KKP, &object(kkp_machine("m"))).unwrap();
    assert_eq!((kkp.vm.as_str(), kkp.volumes), ("m", vec!["m".to_owned()]));
    assert!(kkp.user_data.is("userdata-m-1700000000"));
    for other in ["userdata-m-1-1700000000", "userdata-m-", "userdata-m", "m"] {
        assert!(!kkp.user_data.is(other), "{other}");
    }
    let openshift = made_by_others(&OPENSHIFT, &object(openshift_machine("m"))).unwrap();
    assert_eq!(openshift.volumes, ["m-bootvolume"]);
    assert_eq!(openshift.user_data, SecretName::Exactly("m-ignition".to_owned()));
    let mut ours = kkp_machine("m");
    ours["metadata"]["finalizers"] = json!(["trellis.dev/machine"]);
    assert_eq!(made_by_others(&KKP, &object(ours)), None);
}

#[test]
fn facts_of_a_machine_that_others_made_are_read_from_their_status() {
    let record = machine_seen(&OPENSHIFT, &object(openshift_machine("m"))).record;
    assert_eq!(record.vm_uid.as_deref(), Some("vm-m"));
    assert_eq!(record.infra_namespace.as_deref(), Some("tenant"));
    assert_eq!(record.node, Some(("m".to_owned(), "node-m".to_owned())));
    let record = machine_seen(&KKP, &object(kkp_machine("m"))).record;
    assert_eq!((record.phase, record.joined), (None, Some(at("2026-11-16T10:05:00Z"))));
}

#[test]
fn people_say_on_a_machine_or_its_pool_that_it_goes_back() {
    let machine = object(kkp_machine("m"));
    let mut pool = deployment();
    assert!(!is_handed_back([&machine, &object(pool.clone())]));
    pool["metadata"]["annotations"]["trellis.dev/hand-back"] = "true".into();
    assert!(is_handed_back([&machine, &object(pool)]));
}

#[test]
fn our_record_goes_and_theirs_stays() {
    let mut machine = openshift_machine("m");
    assert_eq!(forget(&object(machine.clone())), None);
    machine["status"]["providerStatus"]["trellis"] = json!({ "host": "h" });
    let patch = forget(&object(machine.clone())).unwrap();
    let after = patched(machine, &patch);
    assert_eq!(after["status"]["providerStatus"], json!({ "created": true, "ready": true }));
}
