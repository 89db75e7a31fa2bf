use super::super::slices::{Change, plan};
use super::*;
use crate::object::Object as _;

fn service(spec: &Value) -> Value {
    let mut service = json!({
        "metadata": {"namespace": "a", "name": "web", "uid": "s", "labels": {"l": "v"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], "ipFamilies": ["IPv4"]},
    });
    for (name, value) in spec.as_object().unwrap() {
        service["spec"][name] = value.clone();
    }
    service
}

fn running(name: &str, address: &str, ready: bool) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "h1", "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    })
}

fn planned(service: &Value, pods: Vec<Value>, slices: &[Arc<Value>]) -> Vec<Change> {
    let pods: Vec<Arc<Value>> = pods.into_iter().map(Arc::new).collect();
    plan(service, &pods, slices, &|_| "z1".to_owned())
}

fn created(change: &Change) -> &Value {
    match change {
        Change::Create(slice) => slice,
        other => panic!("{other:?}"),
    }
}

/// What a server would have after the creations of a plan.
fn stored(changes: &[Change]) -> Vec<Arc<Value>> {
    let slices = changes.iter().enumerate().map(|(place, change)| {
        let mut slice = created(change).clone();
        slice.set("/metadata/name", format!("web-{place}").into());
        slice.set("/metadata/uid", format!("slice-{place}").into());
        Arc::new(slice)
    });
    slices.collect()
}

#[test]
fn an_endpoint_says_how_its_pod_is() {
    let mut ending = running("c", "10.0.0.3", true);
    ending.set("/metadata/deletionTimestamp", "now".into());
    let mut over = running("d", "10.0.0.4", true);
    over.set("/status/phase", "Succeeded".into());
    let mut other = running("e", "10.0.0.5", true);
    other.set("/metadata/labels/app", "other".into());
    let mut early = running("f", "", false);
    early.set("/status/podIPs", json!([]));
    let pods =
        vec![running("a", "10.0.0.1", true), running("b", "10.0.0.2", false), ending, over, other, early];
    let changes = planned(&service(&json!({})), pods, &[]);
    assert_eq!(changes.len(), 1);
    let slice = created(&changes[0]);
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(slice.label("endpointslice.kubernetes.io/managed-by"), "endpointslice-controller.k8s.io");
    assert_eq!((slice.label("kubernetes.io/service-name"), slice.label("l")), ("web", "v"));
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "s");
    let conditions: Vec<_> = slice.list("/endpoints").iter().map(|one| &one["conditions"]).collect();
    assert_eq!(
        conditions,
        [
            &json!({"ready": true, "serving": true, "terminating": false}),
            &json!({"ready": false, "serving": false, "terminating": false}),
            &json!({"ready": false, "serving": true, "terminating": true}),
        ]
    );
    let first = &slice["endpoints"][0];
    assert_eq!((first.text("/nodeName"), first.text("/zone")), ("h1", "z1"));
    assert_eq!(first["targetRef"], json!({"kind": "Pod", "namespace": "a", "name": "a", "uid": "a"}));
}

#[test]
fn who_is_not_ready_can_be_published_all_the_same() {
    let service = service(&json!({"publishNotReadyAddresses": true}));
    let changes = planned(&service, vec![running("a", "10.0.0.1", false)], &[]);
    let expected = json!({"ready": true, "serving": false, "terminating": false});
    assert_eq!(created(&changes[0])["endpoints"][0]["conditions"], expected);
}

#[test]
fn machines_have_names_under_their_subdomain() {
    let mut pod = running("a", "10.0.0.1", true);
    pod.set("/spec/hostname", "m1".into());
    pod.set("/spec/subdomain", "web".into());
    let headless = service(&json!({"clusterIP": "None"}));
    let changes = planned(&headless, vec![pod.clone()], &[]);
    assert_eq!(created(&changes[0])["endpoints"][0]["hostname"], "m1");
    assert!(created(&changes[0])["metadata"]["labels"]["service.kubernetes.io/headless"].is_string());
    pod.set("/spec/subdomain", "other".into());
    let changes = planned(&headless, vec![pod], &[]);
    assert!(created(&changes[0])["endpoints"][0]["hostname"].is_null());
}

#[test]
fn both_families_have_slices_of_their_own() {
    let mut pod = running("a", "10.0.0.1", true);
    pod.set("/status/podIPs", json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]));
    let changes = planned(&service(&json!({"ipFamilies": ["IPv4", "IPv6"]})), vec![pod], &[]);
    let found: Vec<_> = changes
        .iter()
        .map(|change| {
            (created(change).text("/addressType"), created(change).text("/endpoints/0/addresses/0"))
        })
        .collect();
    assert_eq!(found, [("IPv4", "10.0.0.1"), ("IPv6", "fd00::1")]);
}

#[test]
fn a_named_port_may_be_another_in_each_pod() {
    let mut other = running("b", "10.0.0.2", true);
    other.set("/spec/containers/0/ports/0/containerPort", 9090.into());
    let changes = planned(&service(&json!({})), vec![running("a", "10.0.0.1", true), other], &[]);
    let mut ports: Vec<_> =
        changes.iter().map(|change| created(change)["ports"][0]["port"].clone()).collect();
    ports.sort_by_key(Value::as_i64);
    assert_eq!(ports, [8080, 9090]);
}

#[test]
fn a_hundred_fit_and_places_are_kept() {
    let pods: Vec<Value> =
        (0..150).map(|number| running(&format!("p{number:03}"), &format!("10.0.1.{number}"), true)).collect();
    let service = service(&json!({}));
    let changes = planned(&service, pods.clone(), &[]);
    let sizes: Vec<_> = changes.iter().map(|change| created(change).list("/endpoints").len()).collect();
    assert_eq!(sizes, [100, 50]);
    let slices = stored(&changes);
    assert_eq!(planned(&service, pods.clone(), &slices), []);
    // One that goes and one that comes change one slice.
    let mut others = pods;
    others[3] = running("new", "10.0.2.1", true);
    let changes = planned(&service, others, &slices);
    let [Change::Update(slice)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!((slice.name(), slice.list("/endpoints").len()), ("web-0", 100));
}

#[test]
fn no_endpoint_leaves_one_empty_slice() {
    let service = service(&json!({}));
    let changes = planned(&service, Vec::new(), &[]);
    assert_eq!(created(&changes[0])["endpoints"], json!([]));
    let placeholder = stored(&changes);
    assert_eq!(planned(&service, Vec::new(), &placeholder), []);
    let changes = planned(&service, vec![running("a", "10.0.0.1", true)], &placeholder);
    let [Change::Update(first)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!((first.name(), first.list("/endpoints").len()), ("web-0", 1), "its name stays");
    assert_eq!(first["ports"][0]["port"], 8080);
    let changes = planned(&service, Vec::new(), &[Arc::new(first.clone())]);
    let [Change::Update(last)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!((last.name(), last.list("/endpoints").len()), ("web-0", 0));
}
