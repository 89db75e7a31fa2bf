//! Objects as what plans look at.

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_engine::families::health::{BadHealthCheck, HealthCheck};
use trellis_engine::families::{
    Family, HistoryObject, KKP, OPENSHIFT, Object, PoolStatus, Readings, TRELLIS, identity, is_present,
    machine_seen, make, member, node_wish, number_of, pool_wish, read_cluster, set_seen, set_size, wish,
};
use trellis_engine::pools::MachineState;
use trellis_model::pool::{DeletePolicy, UpdateStrategy};
use trellis_model::quantity::Count;

use super::fixtures::{
    at, cluster, deployment, kkp_machine, kkp_set, object, openshift_machine, openshift_set, own_readings,
    pool, readings, served,
};

#[test]
fn a_deployment_its_set_and_its_machines_have_one_revision() {
    let readings = readings(&KKP);
    let wished = readings.pool(&object(deployment())).unwrap();
    let set = readings.set(&object(kkp_set()), Some("workers")).unwrap();
    let machine = readings.machine(&object(kkp_machine("workers-6f8d7c-x2x4z")), Some("workers")).unwrap();
    assert_eq!(wished.revision, set.revision, "the set KKP made is that of the template");
    assert_eq!(wished.revision, machine.revision, "and so are its machines: adoption rolls nothing");
    assert_eq!(machine.pool.name.as_str(), "workers");
    assert_eq!(machine.pool.spec.machine_labels, wished.pool.spec.machine_labels);
    assert_eq!(wished.cluster.name.as_str(), "demo");

    let wish = pool_wish(&KKP, &object(deployment()), &wished);
    assert_eq!((wish.replicas, wish.update.max_surge), (3, Count::Percent(25)));
    assert_eq!((wish.update.min_ready_seconds, wish.update.paused), (10, false));
    assert_eq!(wish.revision, wished.revision.as_str());
    assert_eq!((set_size(&object(kkp_set())), number_of(&KKP, &object(kkp_set()))), (2, 3));
}

#[test]
fn an_openshift_set_and_its_machines_have_one_revision() {
    let readings = readings(&OPENSHIFT);
    let set = readings.set(&object(openshift_set()), None).unwrap();
    let machine =
        readings.machine(&object(openshift_machine("demo-worker-0-abcde")), Some("demo-worker-0")).unwrap();
    assert_eq!(set.revision, machine.revision);
    assert_eq!(set.pool.spec.machine_labels, machine.pool.spec.machine_labels);
    let wish = pool_wish(&OPENSHIFT, &object(openshift_set()), &set);
    assert_eq!((wish.replicas, wish.delete_policy), (2, DeletePolicy::Newest));
    assert_eq!(
        wish.update.strategy,
        UpdateStrategy::OnDelete,
        "a changed template only holds for new machines"
    );
}

#[test]
fn spelling_makes_no_revision_and_meaning_does() {
    let readings = readings(&KKP);
    let revision = |edit: &dyn Fn(&mut Value)| {
        let mut value = deployment();
        edit(&mut value);
        readings.pool(&object(value)).unwrap().revision.to_string()
    };
    let provider = "/spec/template/spec/providerSpec/value";
    let at = |value: &mut Value, path: &str, text: Value| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        value.pointer_mut(&format!("{provider}{parent}")).unwrap()[key] = text;
    };
    let plain = revision(&|_| {});
    let vm = "/cloudProviderSpec/virtualMachine";
    for (same, edit) in [
        (true, Box::new(|_: &mut Value| {}) as Box<dyn Fn(&mut Value)>),
        (true, Box::new(move |v| at(v, &format!("{vm}/template/memory"), "4096Mi".into()))),
        (true, Box::new(move |v| at(v, &format!("{vm}/template/cpus"), 2.into()))),
        (true, Box::new(move |v| at(v, &format!("{vm}/template/cpus"), json!({ "value": "2000m" })))),
        // Defaults written out.
        (true, Box::new(move |v| at(v, &format!("{vm}/evictionStrategy"), "External".into()))),
        (true, Box::new(move |v| at(v, &format!("{vm}/enableNetworkMultiQueue"), true.into()))),
        (true, Box::new(|v| v["spec"]["progressDeadlineSeconds"] = 600.into())),
        // What reaches machines in place.
        (true, Box::new(|v| v["spec"]["template"]["spec"]["taints"] = json!([]))),
        (true, Box::new(|v| v["spec"]["template"]["metadata"]["annotations"] = json!({ "a": "b" }))),
        (true, Box::new(|v| v["spec"]["replicas"] = 9.into())),
        (false, Box::new(move |v| at(v, &format!("{vm}/template/memory"), "8Gi".into()))),
        (false, Box::new(|v| v["spec"]["template"]["spec"]["versions"]["kubelet"] = "1.34.3".into())),
    ] {
        let other = revision(&*edit);
        assert_eq!(other == plain, same, "{plain} {other}");
    }
}

#[test]
fn equal_machines_are_one_template_and_read_once() {
    let readings = readings(&KKP);
    let machines: Vec<Object> = (0..50).map(|i| object(kkp_machine(&format!("m-{i}")))).collect();
    assert!(machines.iter().all(|machine| machine.spec.is_same(&machines[0].spec)));
    let first = readings.machine(&machines[0], Some("workers")).unwrap();
    for machine in &machines {
        assert!(Arc::ptr_eq(&first, &readings.machine(machine, Some("workers")).unwrap()));
    }
    let per_machine = machines[1].status.len();
    assert!(per_machine < 1000, "{per_machine}");
}

#[test]
fn a_pool_of_ours_is_read_with_its_cluster_and_its_history_stays_what_it_was() {
    let readings = own_readings();
    let object_of_pool = served(pool(), "uid-pool");
    let reading = readings.pool(&object_of_pool).unwrap();
    assert_eq!(reading.cluster.name.as_str(), "demo");
    let wish = pool_wish(&TRELLIS, &object_of_pool, &reading);
    assert_eq!(wish.zones, ["zone-a", "zone-b"]);
    assert!(!wish.control_plane);

    let mut history = make::history(&object_of_pool, &reading, 4);
    assert_eq!(history["metadata"]["name"], format!("workers-{}", reading.revision));
    history["metadata"]["uid"] = "uid-history".into();
    let history: HistoryObject = serde_json::from_value(history).unwrap();
    assert_eq!(history.number, 4);
    let old = readings.history(&history).unwrap();
    assert_eq!(
        (&old.revision, &old.pool, &old.cluster.spec),
        (&reading.revision, &reading.pool, &reading.cluster.spec)
    );

    // The cluster moves on: its pools have another revision, the history has not.
    let mut newer = cluster();
    newer["spec"]["version"] = "1.35.0".into();
    let newer = Readings::new(&TRELLIS, Some(read_cluster(&object(newer)).unwrap()), Vec::new());
    assert_ne!(newer.pool(&object_of_pool).unwrap().revision, reading.revision);
    assert_eq!(newer.history(&history).unwrap().revision, reading.revision);
}

#[test]
fn a_pool_without_its_cluster_says_so() {
    let error = readings(&TRELLIS).pool(&object(pool())).unwrap_err().to_string();
    assert!(error.contains("TenantCluster"), "{error}");
}

#[test]
fn whoever_knows_the_cluster_knows_better_than_a_template() {
    let known = read_cluster(&object(cluster())).unwrap();
    let readings = Readings::new(&OPENSHIFT, Some(Arc::clone(&known)), Vec::new());
    let mut set = openshift_set();
    set["metadata"]["labels"] = json!({});
    let labels = set["spec"]["template"]["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("machine.openshift.io/cluster-api-cluster");
    let reading = readings.set(&object(set), None).unwrap();
    assert!(Arc::ptr_eq(&reading.cluster, &known));
    let kkp = Readings::new(&KKP, Some(Arc::clone(&known)), Vec::new());
    let mut other = deployment();
    other["spec"]["template"]["spec"]["providerSpec"]["value"]["cloudProviderSpec"]["clusterName"] =
        "xyz".into();
    assert_eq!(kkp.pool(&object(other)).unwrap().pool.spec.cluster, known.name);
}

#[test]
fn all_problems_of_a_template_are_one_message() {
    let mut broken = deployment();
    let vm = &mut broken["spec"]["template"]["spec"]["providerSpec"]["value"]["cloudProviderSpec"]["virtualMachine"];
    vm["template"]["memory"] = "much".into();
    vm["template"]["primaryDisk"]["size"] = "big".into();
    vm["flavour"] = json!({});
    let error = readings(&KKP).pool(&object(broken)).unwrap_err().to_string();
    for part in ["memory", "size", "flavour"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
}

#[test]
fn settings_in_config_maps_are_looked_up() {
    let mut value = deployment();
    value["spec"]["template"]["spec"]["providerSpec"]["value"]["cloudProviderSpec"]["virtualMachine"]["template"]
        ["memory"] =
        json!({ "configMapKeyRef": { "namespace": "kube-system", "name": "sizes", "key": "memory" } });
    assert!(readings(&KKP).pool(&object(value.clone())).is_err());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "sizes", "namespace": "kube-system" },
        "data": { "memory": "4Gi" },
    });
    let with = Readings::new(&KKP, None, vec![map]).pool(&object(value)).unwrap();
    assert_eq!(with.revision, readings(&KKP).pool(&object(deployment())).unwrap().revision);
}

/// A row of the table below: the family, an edit of the Machine, and the state its pool sees.
fn state(family: &'static Family, mut machine: Value, edit: impl Fn(&mut Value)) -> MachineState {
    edit(&mut machine);
    member(family, &object(machine)).state
}

#[test]
fn members_are_where_their_status_says() {
    let kkp = || kkp_machine("m");
    let ready = MachineState::Ready(at("2026-11-16T10:05:00Z"));
    assert_eq!(state(&KKP, kkp(), |_| {}), ready);
    assert_eq!(state(&KKP, kkp(), |m| m["status"] = json!({})), MachineState::Coming);
    assert_eq!(
        state(&KKP, kkp(), |m| m["status"]["conditions"][0]["status"] = "False".into()),
        MachineState::Unready
    );
    let going = |m: &mut Value| m["metadata"]["deletionTimestamp"] = "2026-11-16T11:59:00Z".into();
    assert_eq!(state(&KKP, kkp(), going), MachineState::Going);
    let openshift = || openshift_machine("m");
    assert_eq!(
        state(&OPENSHIFT, openshift(), |m| m["status"]["phase"] = "Failed".into()),
        MachineState::Failed
    );
    assert_eq!(
        state(&OPENSHIFT, openshift(), |_| {}),
        MachineState::Unready,
        "nothing says that its Node is ready"
    );
}

#[test]
fn people_steer_machines_by_the_annotations_of_their_family() {
    type Row = (&'static Family, fn(&str) -> Value, [&'static str; 3]);
    let rows: [Row; 2] = [
        (
            &KKP,
            kkp_machine,
            [
                "machine-controller.kubermatic.io/initializers",
                "cluster.k8s.io/delete-machine",
                "kubermatic.io/skip-eviction",
            ],
        ),
        (
            &OPENSHIFT,
            openshift_machine,
            [
                "cluster.x-k8s.io/paused",
                "machine.openshift.io/cluster-api-delete-machine",
                "machine.openshift.io/exclude-node-draining",
            ],
        ),
    ];
    for (family, machine, [paused, first, skip]) in rows {
        let flags = |key: &str, value: &str| {
            let mut machine = machine("m");
            machine["metadata"]["annotations"] = json!({ key: value });
            machine_seen(family, &object(machine)).flags
        };
        assert!(flags(paused, "x").paused && flags("trellis.dev/paused", "true").paused);
        assert!(flags(first, "true").delete_first && flags("trellis.dev/delete-first", "").delete_first);
        assert!(flags(skip, "true").skip_drain && !flags(skip, "false").skip_drain);
        assert!(flags("trellis.dev/preserve", "true").preserve && !flags("other", "true").preserve);
    }
}

#[test]
fn a_machine_is_which_it_was_made_as() {
    let readings = readings(&KKP);
    let mut value = kkp_machine("m");
    value["metadata"]["annotations"] = json!({ "trellis.dev/ordinal": "7", "trellis.dev/zone": "zone-b" });
    let machine = object(value);
    let reading = readings.machine(&machine, Some("workers")).unwrap();
    let identity = identity(&KKP, &machine, &reading);
    assert_eq!((identity.name.as_str(), identity.ordinal), ("m", 7));
    assert_eq!(identity.zone.unwrap().as_str(), "zone-b");
    assert_eq!(identity.revision, reading.revision);
    assert_eq!(member(&KKP, &machine).ordinal, Some(7));
    assert_eq!(member(&KKP, &object(kkp_machine("m"))).ordinal, None);
}

#[test]
fn what_changes_in_place_comes_from_the_pool_and_the_rest_stays() {
    let readings = readings(&KKP);
    let machine = object(kkp_machine("m"));
    let own = readings.machine(&machine, Some("workers")).unwrap();
    let mut changed = deployment();
    changed["spec"]["template"]["metadata"]["labels"]["team"] = "b".into();
    changed["spec"]["template"]["spec"]["metadata"]["labels"] = json!({ "tier": "back" });
    let relabelled = readings.pool(&object(changed.clone())).unwrap();
    let wished = wish(&KKP, &machine, &own, Some(&relabelled), None);
    assert!(
        Arc::ptr_eq(&wished.pool, &relabelled.pool),
        "the same revision: labels reach the machine in place"
    );
    assert_eq!(wished.owner.unwrap().uid, "uid-m");
    assert!(is_present(&machine, &own, Some(&relabelled)));
    let node = node_wish(&KKP, &machine, &own, Some(&relabelled));
    assert_eq!(node.labels["tier"], "back");
    assert_eq!(node.labels["machine-controller/owned-by"], "uid-m");
    assert_eq!(node.annotations["cluster.k8s.io/machine"], "kube-system/m");
    assert_eq!(node.taints.len(), 1);

    changed["spec"]["template"]["spec"]["versions"]["kubelet"] = "1.34.3".into();
    let newer = readings.pool(&object(changed)).unwrap();
    let wished = wish(&KKP, &machine, &own, Some(&newer), None);
    assert!(
        Arc::ptr_eq(&wished.pool, &own.pool),
        "another revision: it stays what it is until it is replaced"
    );
    assert_eq!(wished.identity.revision, own.revision);
    assert!(!is_present(&machine, &own, Some(&newer)), "and nothing of it is taken back meanwhile");
    assert!(!is_present(&machine, &own, None), "nor because its pool cannot be read");
    assert_eq!(node_wish(&KKP, &machine, &own, Some(&newer)).labels["tier"], "back");
}

#[test]
fn a_later_view_that_changes_nothing_is_equal() {
    let mut value = kkp_machine("m");
    value["metadata"]["resourceVersion"] = "5".into();
    let one = object(value.clone());
    value["metadata"]["resourceVersion"] = "6".into();
    value["metadata"]["managedFields"] = json!([{ "manager": "kubectl" }]);
    let other = object(value.clone());
    assert_eq!(one, other);
    assert_eq!((one.metadata.resource_version, other.metadata.resource_version), (5, 6));
    value["status"]["phase"] = "Running".into();
    assert_ne!(one, object(value));
}

#[test]
fn sets_are_seen_with_the_revision_of_their_template() {
    let readings = readings(&KKP);
    let set = object(kkp_set());
    let reading = readings.set(&set, Some("workers")).unwrap();
    let seen = set_seen(&KKP, &set, &reading, vec![member(&KKP, &object(kkp_machine("m")))]);
    assert_eq!((seen.name.as_str(), seen.number, seen.wished), ("workers-6f8d7c", 3, 2));
    assert_eq!(seen.revision, readings.pool(&object(deployment())).unwrap().revision.as_str());
    let said = PoolStatus::of_set(&seen, 10, at("2026-11-16T10:05:05Z"));
    assert_eq!((said.replicas, said.ready, said.available), (1, 1, 0), "not ready for long enough yet");
    let said = PoolStatus::of_set(&seen, 10, at("2026-11-16T10:05:10Z"));
    assert_eq!(said.available, 1);
}

#[test]
fn provider_ids_have_the_form_their_readers_parse() {
    for (family, id) in
        [(&KKP, "kubevirt://m"), (&OPENSHIFT, "kubevirt://tenant/m"), (&TRELLIS, "kubevirt://m")]
    {
        assert_eq!(family.provider_id.of("tenant", "m"), id);
    }
}

#[test]
fn health_checks_are_read_from_objects_and_annotations() {
    let check = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": { "name": "workers", "namespace": "openshift-machine-api" },
        "spec": {
            "selector": { "matchLabels": { "role": "worker" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "300s" }],
            "maxUnhealthy": "40%",
        },
    });
    let read = HealthCheck::of_object(&object(check.clone())).unwrap();
    assert_eq!(read.max_unhealthy, Count::Percent(40));
    assert_eq!(read.startup.unwrap().as_secs(), 600);
    assert_eq!(read.unhealthy[0].timeout.as_secs(), 300);
    assert!(read.selects(&[("role".to_owned(), "worker".to_owned())].into()) && !read.selects(&[].into()));

    let mut bad = check.clone();
    bad["spec"]["maxUnhealthy"] = "many".into();
    let bad = object(bad);
    assert!(matches!(HealthCheck::of_object(&bad), Err(BadHealthCheck::Share { .. })));
    let worker = [("role".to_owned(), "worker".to_owned())].into();
    assert!(HealthCheck::may_select(&bad, &worker) && !HealthCheck::may_select(&bad, &[].into()));
    let mut shapeless = check.clone();
    shapeless["spec"]["selector"] = "role=worker".into();
    assert!(HealthCheck::may_select(&object(shapeless), &[].into()), "it may mean any machine");
    let mut elsewhere = check;
    elsewhere["spec"]["remediationTemplate"] =
        json!({ "kind": "SelfNodeRemediationTemplate", "name": "self" });
    assert_eq!(HealthCheck::of_object(&object(elsewhere)), Err(BadHealthCheck::Remedy));

    assert_eq!(HealthCheck::of_pool(&object(pool())), Ok(None));
    let mut annotated = pool();
    annotated["metadata"]["annotations"] = json!({ "trellis.dev/unhealthy-after": "5m", "trellis.dev/max-unhealthy": "1", "trellis.dev/node-startup-timeout": "0" });
    let read = HealthCheck::of_pool(&object(annotated)).unwrap().unwrap();
    assert_eq!((read.unhealthy.len(), read.max_unhealthy, read.startup), (2, Count::Absolute(1), None));
}
