//! Where machines run: goldens.

use serde_json::{Value, json};

use crate::builders::{
    control_plane, demo, golden, instance, instance_of, of_kind, pool, rendered, with_cluster,
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

#[test]
fn machines_are_dealt_out_over_zones_and_default_is_hosts_without_one() {
    let zones = json!({ "replicas": 3, "template": { "placement": { "zones": ["a", "default"] } } });
    let objects = rendered(&demo(vec![pool("demo", "workers", zones)]));
    let rules: Vec<Value> = of_kind(&objects, "VirtualMachine")
        .iter()
        .map(|vm| vm["spec"]["template"]["spec"]["affinity"]["nodeAffinity"].clone())
        .collect();
    let operator = |i: usize| &rules[i][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"][0]["operator"];
    assert_eq!([operator(0), operator(1), operator(2)], ["In", "DoesNotExist", "In"]);
    golden("zones", &Value::Array(rules));
}

#[test]
fn everything_hosts_must_be_is_one_term() {
    let instance = instance_of(json!({ "placement": {
        "region": "west", "zones": ["a"],
        "wantedHosts": [{ "strength": "Hard", "key": "disk", "values": ["ssd", "nvme"] }],
        "avoidedHosts": [{ "strength": "Hard", "key": "example.com/old" }, { "strength": "Soft", "key": "rack", "values": ["7"] }],
    } }));
    let affinity = &instance["affinity"]["nodeAffinity"];
    let terms = affinity[REQUIRED]["nodeSelectorTerms"].as_array().unwrap();
    assert_eq!(terms.len(), 1, "terms are alternatives; what must hold together is one");
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 4);
    assert_eq!(affinity[PREFERRED][0]["weight"], 1);
    golden("hosts", affinity);
}

#[test]
fn machines_keep_together_or_apart() {
    let instance = instance_of(json!({ "placement": { "together": "Soft", "apart": "Hard" } }));
    let affinity = &instance["affinity"];
    assert_eq!(affinity["podAffinity"][PREFERRED][0]["weight"], 100);
    let term = &affinity["podAntiAffinity"][REQUIRED][0];
    assert_eq!(term["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(term["labelSelector"]["matchLabels"]["trellis.dev/pool"], "workers");
    golden("together_and_apart", affinity);
}

#[test]
fn masters_keep_apart_whatever_pool_they_are_in() {
    let objects = with_cluster(json!({}), vec![control_plane(1)]);
    let term = &instance(&objects)["affinity"]["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"];
    let selected = term["labelSelector"]["matchLabels"].as_object().unwrap();
    assert_eq!(selected["trellis.dev/role"], "control-plane");
    assert!(!selected.contains_key("trellis.dev/pool"));
    // A selector that no pod can match keeps nobody apart.
    let labels = &of_kind(&objects, "VirtualMachine")[0]["spec"]["template"]["metadata"]["labels"];
    assert!(selected.iter().all(|(key, value)| labels[key] == *value));
    golden("masters_apart", term);
}

#[test]
fn machines_of_one_revision_are_spread() {
    let instance = instance_of(json!({ "placement": { "spread": [
        { "over": "topology.kubernetes.io/zone", "strength": "Hard", "maxSkew": 2 }, { "over": "kubernetes.io/hostname" },
    ] } }));
    let spread = &instance["topologySpreadConstraints"];
    assert_eq!(spread[0]["whenUnsatisfiable"], "DoNotSchedule");
    assert_eq!(spread[1]["matchLabelKeys"][0], "trellis.dev/revision");
    golden("spread", spread);
}

#[test]
fn hosts_are_selected_and_their_taints_tolerated() {
    let instance = instance_of(json!({ "placement": {
        "hostSelector": { "example.com/kind": "big" },
        "tolerations": [{}, { "key": "dedicated", "value": "tenants", "effect": "NoSchedule" }],
    } }));
    assert_eq!(instance["tolerations"][0], json!({ "operator": "Exists" }));
    golden("tolerations", &json!([instance["nodeSelector"], instance["tolerations"]]));
}
