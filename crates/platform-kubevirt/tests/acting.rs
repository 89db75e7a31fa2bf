//! What actions become, and what errors mean.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trellis_platform::{Action, Failure, Wish};
use trellis_platform_kubevirt::{
    ApiError, Call, Context, MachineObjects, Propagation, Verb, calls, capacity, failure, is_done, observe,
    seen,
};

use crate::builders::{cluster, golden, merged, pool};
use crate::others::kkp_vm;
use crate::seeing::{read, vm_of, wish, wish_of};

pub(crate) fn asked(action: &Action, seen: &MachineObjects<'_>) -> Vec<Call> {
    calls(action, &Context { namespace: "demo", cluster: "demo", seen }).unwrap()
}

pub(crate) fn only(calls: Vec<Call>) -> Call {
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.into_iter().next().unwrap()
}

pub(crate) fn update(wish: &Wish, vm: &seen::VirtualMachine) -> Vec<Call> {
    let seen = MachineObjects { vm: Some(vm), ..MachineObjects::default() };
    asked(&Action::Update(Arc::new(wish.clone())), &seen)
}

pub(crate) fn drift(wish: &Wish, vm: &Value) -> Vec<String> {
    let vm: seen::VirtualMachine = read(vm.clone());
    let seen = MachineObjects { vm: Some(&vm), ..MachineObjects::default() };
    observe(&seen, Some(wish)).vm.unwrap().drift.into_iter().map(|drift| drift.what).collect()
}

/// The object after a patch, as the server keeps it.
pub(crate) fn patched(object: &Value, call: &Call) -> Value {
    assert_eq!(call.verb, Verb::JsonPatch);
    let patch: json_patch::Patch = serde_json::from_value(call.body.clone().unwrap()).unwrap();
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).unwrap_or_else(|error| panic!("{error}: {patch}"));
    object
}

#[test]
fn user_data_is_stored_before_the_machine_and_is_one_request() {
    let wish = wish(json!({}));
    let call = only(asked(&Action::StoreUserData(Arc::new(wish.clone())), &MachineObjects::default()));
    assert_eq!((call.verb, call.plural), (Verb::Apply, "secrets"));
    assert_eq!(call.path(), format!("/api/v1/namespaces/demo/secrets/{}-user-data", wish.identity.name));
    assert!(!format!("{call:?}").contains("userdata"), "{call:?}");
    // In a cluster whose machines have names, the name comes first, once.
    let named =
        wish_of(cluster("demo", json!({ "baseDomain": "example.org" })), pool("demo", "workers", json!({})));
    let action = Action::StoreUserData(Arc::new(named.clone()));
    let plurals: Vec<_> = asked(&action, &MachineObjects::default()).iter().map(|call| call.plural).collect();
    assert_eq!(plurals, ["services", "secrets"]);
    let service: seen::StoredService =
        read(json!({ "metadata": { "name": named.identity.name, "uid": "svc-1" } }));
    let seen = MachineObjects { service: Some(&service), ..MachineObjects::default() };
    assert_eq!(only(asked(&action, &seen)).plural, "secrets");
    let action = Action::Delete { machine: named.identity.name.clone(), uid: "vm-1".to_owned() };
    let uids: Vec<_> =
        asked(&action, &seen).into_iter().map(|call| (call.plural, call.precondition_uid.unwrap())).collect();
    assert_eq!(uids, [("services", "svc-1".to_owned()), ("virtualmachines", "vm-1".to_owned())]);
}

#[test]
fn user_data_that_is_kept_elsewhere_must_be_handed_over() {
    let mut wish = wish(json!({ "template": { "userData": { "secret": "worker-user-data" } } }));
    let seen = MachineObjects::default();
    let context = Context { namespace: "demo", cluster: "demo", seen: &seen };
    let missing = calls(&Action::StoreUserData(Arc::new(wish.clone())), &context);
    assert!(matches!(missing, Err(Failure::Refused(_))), "{missing:?}");
    wish.user_data = Some("#cloud-config\n{}\n".into());
    let call = only(calls(&Action::StoreUserData(Arc::new(wish)), &context).unwrap());
    assert_eq!(call.body.unwrap()["data"]["userdata"], STANDARD.encode("#cloud-config\n{}\n"));
}

#[test]
fn a_machine_is_created_and_remembers_whose_it_is() {
    let wish =
        wish(json!({ "machineLabels": { "team": "a" }, "machineAnnotations": { "example.com/note": "b" } }));
    let call = only(asked(&Action::Create(Arc::new(wish.clone())), &MachineObjects::default()));
    assert_eq!(
        (call.verb, call.path().as_str()),
        (Verb::Create, "/apis/kubevirt.io/v1/namespaces/demo/virtualmachines")
    );
    let body = call.body.unwrap();
    golden("created-machine", &body);
    let annotations = &body["metadata"]["annotations"];
    assert_eq!(annotations["trellis.dev/machine-uid"], "machine-uid");
    assert_eq!(annotations["trellis.dev/wished-keys"], "l:team,a:example.com/note");
    assert!(body["spec"]["template"]["spec"]["domain"]["firmware"]["uuid"].is_string());
    // What was just made differs in nothing.
    assert_eq!(drift(&wish, &vm_of(&wish, json!({}))), [""; 0]);
    let vm: seen::VirtualMachine = read(vm_of(&wish, json!({})));
    assert_eq!(vm.machine_uid.as_deref(), Some("machine-uid"));
    assert_eq!(update(&wish, &vm), []);
}

#[test]
fn whatever_changes_in_place_is_told_and_patched() {
    let data = |names: &[&str]| {
        let disks: Vec<_> = names.iter().map(|name| json!({ "name": name, "size": "5Gi" })).collect();
        json!({ "template": { "dataDisks": disks } })
    };
    let memory = json!({ "template": { "shape": { "custom": { "cpu": { "topology": { "sockets": 2 } }, "memory": { "guest": "8Gi" } } } } });
    let sockets = json!({ "template": { "shape": { "custom": { "cpu": { "topology": { "sockets": 3 } }, "memory": { "guest": "4Gi" } } } } });
    let rows: &[(Value, Value, &[&str])] = &[
        (json!({}), memory, &["memory"]),
        (json!({}), sockets, &["sockets"]),
        (json!({}), data(&["a", "b"]), &["disks"]),
        (data(&["a", "b", "c"]), data(&["b"]), &["disks"]),
        (data(&["a", "b"]), data(&["c", "a"]), &["disks"]),
        (json!({}), json!({ "machineLabels": { "team": "a", "example.com/x": "y" } }), &["labels"]),
        (
            json!({ "machineLabels": { "team": "a", "gone": "b" } }),
            json!({ "machineLabels": { "team": "c" } }),
            &["labels"],
        ),
        (json!({}), json!({ "machineAnnotations": { "example.com/x": "y" } }), &["annotations"]),
        (json!({ "machineAnnotations": { "example.com/x": "y" } }), json!({}), &["annotations"]),
        (json!({}), json!({ "template": { "eviction": "LiveMigrate" } }), &["eviction"]),
        (json!({}), json!({ "template": { "stopGraceSeconds": 90 } }), &["grace"]),
        (
            json!({}),
            json!({ "template": { "placement": { "hostSelector": { "rack": "1" } } } }),
            &["placement"],
        ),
        (
            json!({ "template": { "placement": { "hostSelector": { "rack": "1" } } } }),
            json!({}),
            &["placement"],
        ),
        (
            json!({ "machineLabels": { "a": "b" } }),
            json!({ "template": { "eviction": "None" } }),
            &["eviction", "labels"],
        ),
    ];
    for (before, after, expected) in rows {
        let (before, mut after) = (wish(before.clone()), wish(after.clone()));
        // Its name and its revision stay: that is what in place means.
        after.identity = before.identity.clone();
        let others = json!({ "metadata": { "labels": { "other": "stays" } } });
        let vm = vm_of(
            &before,
            merged(
                others,
                json!({ "spec": { "template": { "metadata": { "labels": { "other": "stays" } } } } }),
            ),
        );
        assert_eq!(drift(&after, &vm), *expected);
        let call = only(update(&after, &read(vm.clone())));
        let changed = patched(&vm, &call);
        assert_eq!(drift(&after, &changed), [""; 0], "{expected:?}");
        // Beside the way disks are plugged, it is now what it would have been made as.
        let mut fresh = vm_of(&after, json!({}));
        let mut changed = changed;
        for object in [&mut fresh, &mut changed] {
            for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
                object.pointer_mut(labels).unwrap().as_object_mut().unwrap().remove("other");
            }
            if let Some(metadata) =
                object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut)
                && metadata.get("annotations").is_some_and(|annotations| *annotations == json!({}))
            {
                metadata.remove("annotations");
            }
            for list in [
                "/spec/template/spec/volumes",
                "/spec/template/spec/domain/devices/disks",
                "/spec/dataVolumeTemplates",
            ] {
                let list = object.pointer_mut(list).unwrap().as_array_mut().unwrap();
                list.iter_mut().filter_map(|item| item.pointer_mut("/dataVolume")).for_each(|volume| {
                    volume.as_object_mut().unwrap().remove("hotpluggable");
                });
                list.sort_by_key(|item| {
                    item.pointer("/metadata/name").or(item.get("name")).unwrap().to_string()
                });
            }
        }
        assert_eq!(changed, fresh, "{expected:?}");
    }
}

#[test]
fn what_rolls_is_never_patched() {
    let before = wish(json!({}));
    let mut after = wish(json!({ "template": { "firmware": "Uefi", "rootDisk": { "size": "40Gi" } } }));
    after.identity = before.identity.clone();
    let vm = vm_of(&before, json!({}));
    assert_eq!(drift(&after, &vm), [""; 0]);
    assert_eq!(update(&after, &read(vm)), []);
    // Not even along with what does not.
    after.pool = Arc::new(pool(
        "demo",
        "workers",
        json!({ "machineLabels": { "a": "b" }, "template": { "rootDisk": { "size": "40Gi" } } }),
    ));
    let patch = only(update(&after, &read(vm_of(&before, json!({}))))).body.unwrap();
    assert!(!patch.to_string().contains("40Gi"), "{patch}");
}

#[test]
fn volumes_that_others_plugged_stay() {
    let disks = json!({ "template": { "dataDisks": [{ "name": "a", "size": "1Gi" }, { "name": "b", "size": "1Gi" }] } });
    let (before, mut after) = (wish(disks), wish(json!({})));
    after.identity = before.identity.clone();
    let mut vm = vm_of(&before, json!({}));
    let foreign = json!({ "name": "pvc-123", "dataVolume": { "name": "pvc-123", "hotpluggable": true } });
    let instance = &mut vm["spec"]["template"]["spec"];
    instance["volumes"].as_array_mut().unwrap().insert(0, foreign.clone());
    instance["domain"]["devices"]["disks"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "pvc-123", "serial": "x" }));
    let call = only(update(&after, &read(vm.clone())));
    let changed = patched(&vm, &call);
    let names = |list: &str| -> Vec<String> {
        let list = changed.pointer(list).unwrap().as_array().unwrap();
        list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/spec/template/spec/volumes"), ["pvc-123", "root-disk", "config-drive"]);
    assert_eq!(names("/spec/template/spec/domain/devices/disks"), ["root-disk", "config-drive", "pvc-123"]);
    // If somebody plugs between the look and the patch, the patch does not apply at all.
    let mut meanwhile = vm.clone();
    meanwhile["spec"]["template"]["spec"]["volumes"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({ "name": "new" }));
    let patch: json_patch::Patch = serde_json::from_value(call.body.unwrap()).unwrap();
    assert!(json_patch::patch(&mut meanwhile, &patch).is_err());
}

#[test]
fn a_patch_is_for_one_machine_only() {
    let (before, mut after) = (wish(json!({})), wish(json!({ "machineLabels": { "a": "b" } })));
    after.identity = before.identity.clone();
    let vm = vm_of(&before, json!({}));
    let call = only(update(&after, &read(vm.clone())));
    let mut next = merged(vm, json!({ "metadata": { "uid": "vm-2" } }));
    let patch: json_patch::Patch = serde_json::from_value(call.body.unwrap()).unwrap();
    assert!(json_patch::patch(&mut next, &patch).is_err());
}

#[test]
fn a_move_has_one_name_for_each_attempt() {
    let action = Action::Migrate { machine: "m".to_owned(), instance_uid: "run-1".to_owned() };
    let first = only(asked(&action, &MachineObjects::default()));
    assert_eq!(first, only(asked(&action, &MachineObjects::default())));
    assert_eq!((first.verb, first.plural), (Verb::Create, "virtualmachineinstancemigrations"));
    let body = first.body.clone().unwrap();
    assert_eq!(body["spec"]["vmiName"], "m");
    let kept = |phase: &str, name: &str| -> seen::Migration {
        read(merged(
            body.clone(),
            json!({ "metadata": { "name": name, "uid": "mig-1" }, "status": { "phase": phase } }),
        ))
    };
    let going = kept("Running", &first.name);
    assert!(going.is_ours() && going.instance_uid.as_deref() == Some("run-1"));
    let seen = MachineObjects { migrations: vec![&going], ..MachineObjects::default() };
    assert_eq!(only(asked(&action, &seen)).name, first.name);
    let cancel = Action::CancelMigration { migration: first.name.clone() };
    assert_eq!(only(asked(&cancel, &seen)).precondition_uid.as_deref(), Some("mig-1"));
    let failed = kept("Failed", &first.name);
    let seen = MachineObjects { migrations: vec![&failed], ..MachineObjects::default() };
    assert_ne!(only(asked(&action, &seen)).name, first.name);
    assert_eq!(asked(&cancel, &seen), []);
    let other = Action::Migrate { machine: "m".to_owned(), instance_uid: "run-2".to_owned() };
    assert_ne!(only(asked(&other, &MachineObjects::default())).name, first.name);
}

#[test]
fn what_is_stopped_or_removed_is_named_by_uid() {
    let none = MachineObjects::default();
    let stop =
        |force| Action::StopInstance { machine: "m".to_owned(), instance_uid: "run-1".to_owned(), force };
    let call = only(asked(&stop(false), &none));
    assert_eq!(call.path(), "/apis/kubevirt.io/v1/namespaces/demo/virtualmachineinstances/m");
    assert_eq!(call.delete_options().unwrap()["preconditions"]["uid"], "run-1");
    assert_eq!(call.grace_seconds, None);
    assert_eq!(only(asked(&stop(true), &none)).delete_options().unwrap()["gracePeriodSeconds"], 0);
    let delete = Action::Delete { machine: "m".to_owned(), uid: "vm-1".to_owned() };
    let call = only(asked(&delete, &none));
    assert_eq!(call.propagation, Some(Propagation::Foreground));
    assert_eq!(call.delete_options().unwrap()["propagationPolicy"], "Foreground");
    let volume = Action::DeleteVolume { volume: "v".to_owned(), uid: "dv-1".to_owned() };
    assert_eq!(
        only(asked(&volume, &none)).path(),
        "/apis/cdi.kubevirt.io/v1beta1/namespaces/demo/datavolumes/v"
    );
}

#[test]
fn erasing_leaves_a_secret_that_the_machine_can_start_from() {
    let wish = wish(json!({}));
    let machine = wish.identity.name.clone();
    let erase = Action::EraseUserData { machine: machine.clone() };
    let secret: seen::Stored = read(
        json!({ "metadata": { "name": format!("{machine}-user-data"), "uid": "s-1", "labels": { "trellis.dev/machine": machine } } }),
    );
    let vm: seen::VirtualMachine = read(vm_of(&wish, json!({})));
    let seen = MachineObjects { vm: Some(&vm), secret: Some(&secret), ..MachineObjects::default() };
    let call = only(asked(&erase, &seen));
    assert_eq!((call.verb, &call.name), (Verb::MergePatch, &format!("{machine}-user-data")));
    let body = call.body.unwrap();
    assert_eq!(body["metadata"]["uid"], "s-1");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "vm-1");
    let left = STANDARD.decode(body["data"]["userdata"].as_str().unwrap()).unwrap();
    assert_eq!(String::from_utf8(left).unwrap(), format!("#cloud-config\n{{\"hostname\":\"{machine}\"}}\n"));
    assert!(body["data"].get("networkdata").is_none(), "network data is needed at each start");
    // Once erased there is nothing more to do, until it must be stored anew.
    let erased = seen::Stored { erased: true, ..secret.clone() };
    let seen = MachineObjects { vm: Some(&vm), secret: Some(&erased), ..MachineObjects::default() };
    assert_eq!(asked(&erase, &seen), []);
    let again = only(asked(&Action::StoreUserData(Arc::new(wish.clone())), &seen)).body.unwrap();
    assert_eq!(again["metadata"]["annotations"]["trellis.dev/erased"], "false");
    // With the machine the Secret goes.
    let seen = MachineObjects { secret: Some(&erased), ..MachineObjects::default() };
    let call = only(asked(&erase, &seen));
    assert_eq!((call.verb, call.precondition_uid.as_deref()), (Verb::Delete, Some("s-1")));
    // What is left of it must not be what the next machine of its name reads: it is about to go.
    let anew = asked(&Action::StoreUserData(Arc::new(wish.clone())), &seen);
    assert_eq!(anew.iter().map(|call| call.verb).collect::<Vec<_>>(), [Verb::Delete, Verb::Apply]);
    assert_eq!(anew[0].precondition_uid.as_deref(), Some("s-1"));
    assert!(anew[1].body.as_ref().unwrap()["metadata"]["annotations"].get("trellis.dev/erased").is_none());
    assert_eq!(asked(&erase, &MachineObjects::default()), []);
    // Machines of others name it otherwise.
    let vm: seen::VirtualMachine = read(kkp_vm());
    let seen = MachineObjects { vm: Some(&vm), ..MachineObjects::default() };
    assert_eq!(only(asked(&erase, &seen)).name, "userdata-x-170000");
}

/// What kind of failure is expected.
type Kind = fn(String) -> Failure;

#[test]
fn errors_mean_what_they_mean() {
    let delete = only(asked(
        &Action::DeleteVolume { volume: "v".to_owned(), uid: "u".to_owned() },
        &MachineObjects::default(),
    ));
    let create = only(asked(&Action::Create(Arc::new(wish(json!({})))), &MachineObjects::default()));
    let secret = only(asked(&Action::StoreUserData(Arc::new(wish(json!({})))), &MachineObjects::default()));
    let patch = Call { verb: Verb::JsonPatch, ..create.clone() };
    let error = |code, reason: &str, message: &str| ApiError {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let rows: &[(&Call, ApiError, Kind)] = &[
        (&create, error(409, "AlreadyExists", "exists"), Failure::Outdated),
        (&delete, error(409, "Conflict", "uid differs"), Failure::Outdated),
        (&patch, error(404, "NotFound", "gone"), Failure::Outdated),
        (&create, error(404, "NotFound", "namespaces \"demo\" not found"), Failure::Refused),
        (
            &create,
            error(403, "Forbidden", "pods is forbidden: exceeded quota: q, requested"),
            Failure::NoRoom,
        ),
        (&create, error(403, "Forbidden", "namespace demo because it is being terminated"), Failure::Refused),
        (&create, error(403, "Forbidden", "User x cannot create"), Failure::Forbidden),
        (&create, error(401, "Unauthorized", "Unauthorized"), Failure::Forbidden),
        (&create, error(422, "Invalid", "spec.x is invalid"), Failure::Refused),
        (&create, error(400, "BadRequest", "denied"), Failure::Refused),
        (&create, error(400, "", "in-flight migration detected"), Failure::Outdated),
        (
            &patch,
            error(422, "Invalid", "the server rejected our request due to an error in our request"),
            Failure::Outdated,
        ),
        (&patch, error(422, "Invalid", "spec.x is invalid"), Failure::Refused),
        (&create, error(429, "TooManyRequests", "later"), Failure::Unclear),
        (&create, error(500, "InternalError", "failed calling webhook"), Failure::Unclear),
        (&create, error(504, "Timeout", ""), Failure::Unclear),
        (&create, error(507, "", "full"), Failure::NoRoom),
        (&create, error(0, "", ""), Failure::Unclear),
    ];
    for (call, error, kind) in rows {
        let met = failure(call, error);
        assert_eq!(
            std::mem::discriminant(&met),
            std::mem::discriminant(&kind(String::new())),
            "{error:?}: {met:?}"
        );
        assert!(met.to_string().contains(&call.name));
    }
    assert!(is_done(&delete, &error(404, "NotFound", "")) && !is_done(&create, &error(404, "NotFound", "")));
    let leak = error(422, "Invalid", "data: Invalid value: \"token\"");
    assert!(!failure(&secret, &leak).to_string().contains("token"));
}

#[test]
fn a_machine_has_what_its_pool_or_flavor_says() {
    let cluster = cluster("demo", json!({}));
    let of = |shape: Value| capacity(&cluster, &pool("demo", "w", json!({ "template": { "shape": shape } })));
    let custom = of(json!({ "custom": { "cpu": { "topology": { "sockets": 2, "cores": 3 } }, "memory": { "guest": "4Gi" } } })).unwrap();
    assert_eq!((custom.milli_cpus, custom.memory_bytes), (6000, 4 << 30));
    let flavor = of(json!({ "flavor": "standard-4" })).unwrap();
    assert_eq!((flavor.milli_cpus, flavor.memory_bytes), (4000, 16 << 30));
    assert_eq!(of(json!({ "instancetype": { "name": "u1.small" } })), None);
}
