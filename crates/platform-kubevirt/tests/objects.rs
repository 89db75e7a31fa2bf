//! Whole clusters, names and labels: goldens.

use serde_json::{Value, json};
use trellis_model::Estate;

use crate::builders::{
    cluster, control_plane, demo, golden, instance, instance_of, of_kind, pool, rendered, templated,
    with_cluster,
};

#[test]
fn a_whole_cluster() {
    let objects = with_cluster(json!({}), vec![control_plane(1), templated(json!({}))]);
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    let first = |kind: &str| kinds.iter().position(|k| *k == kind).unwrap();
    assert!(first("NetworkPolicy") < first("DataVolume") && first("DataVolume") < first("Service"));
    assert!(first("Service") < first("Secret") && first("Secret") < first("VirtualMachine"));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    for labels in [&vm["metadata"]["labels"], &vm["spec"]["template"]["metadata"]["labels"]] {
        assert_eq!(labels["trellis.dev/role"], "control-plane");
        assert_eq!(labels["cluster.x-k8s.io/cluster-name"], "demo");
    }
    golden("whole_cluster", &Value::Array(objects));
}

#[test]
fn eviction_and_shutdown_are_the_machines_own() {
    let instance = instance_of(json!({ "eviction": "LiveMigrateIfPossible", "stopGraceSeconds": 600 }));
    assert_eq!(instance["evictionStrategy"], "LiveMigrateIfPossible");
    assert_eq!(instance["terminationGracePeriodSeconds"], 600);
}

#[test]
fn labels_reach_the_pod_and_annotations_for_cdi_reach_the_volumes() {
    let objects = rendered(&demo(vec![pool(
        "demo",
        "workers",
        json!({
            "machineLabels": { "team": "blue" },
            "machineAnnotations": { "example.com/a": "1", "cdi.kubevirt.io/storage.usePopulator": "true" },
        }),
    )]));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    assert_eq!(vm["spec"]["template"]["metadata"]["labels"]["team"], "blue");
    assert_eq!(vm["metadata"]["annotations"], json!({ "example.com/a": "1" }));
    let volume = &vm["spec"]["dataVolumeTemplates"][0]["metadata"];
    assert_eq!(volume["annotations"], json!({ "cdi.kubevirt.io/storage.usePopulator": "true" }));
    golden("labels_and_annotations", &json!([vm["metadata"], vm["spec"]["template"]["metadata"], volume]));
}

#[test]
fn a_named_machine_has_that_name_everywhere() {
    let objects =
        rendered(&demo(vec![pool("demo", "bootstrap", json!({ "machineName": "demo-bootstrap" }))]));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    assert_eq!(vm["metadata"]["name"], "demo-bootstrap");
    assert_eq!(instance(&objects)["hostname"], "demo-bootstrap");
    assert_eq!(vm["spec"]["dataVolumeTemplates"][0]["metadata"]["name"], "demo-bootstrap-root-disk");
    assert_eq!(of_kind(&objects, "Secret")[0]["metadata"]["name"], "demo-bootstrap-user-data");
}

#[test]
fn long_names_are_cut_and_stay_different() {
    let long = "n".repeat(60);
    let estate = Estate {
        clusters: vec![cluster(&long, json!({}))],
        pools: vec![pool(
            &long,
            "a-pool-with-a-long-name",
            json!({ "replicas": 2, "template": {
            "dataDisks": [{ "name": "a-disk-with-quite-a-long-name-too-that-is-cut", "size": "1Gi" }] } }),
        )],
    };
    let objects = rendered(&estate);
    let names: Vec<Value> = objects.iter().map(|object| object["metadata"]["name"].clone()).collect();
    assert!(names.iter().all(|name| name.as_str().unwrap().len() <= 63));
    golden(
        "long_names",
        &json!([names, of_kind(&objects, "VirtualMachine")[0]["spec"]["template"]["spec"]["volumes"]]),
    );
}

#[test]
fn a_dash_in_a_clusters_name_cannot_be_mistaken_for_the_end_of_it() {
    let shared = json!({ "platform": { "kubevirt": { "namespace": "tenants" } } });
    let estate = Estate {
        clusters: vec![cluster("a", shared.clone()), cluster("a-b", shared)],
        pools: vec![pool("a", "b-c", json!({})), pool("a-b", "c", json!({}))],
    };
    assert_eq!(of_kind(&rendered(&estate), "VirtualMachine").len(), 2);
}
