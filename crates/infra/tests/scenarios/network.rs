//! Services: addresses of load balancers, and endpoints that follow pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::timeout;
use trellis_infra::kinds::{ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE};
use trellis_infra::network::balancers::FINALIZER;
use trellis_infra::object::{Key, Object as _};
use trellis_infra::stages::Rule;

use super::hosts::pod;
use crate::context::{Cx, PATIENCE, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_load_balancer_comes_and_goes),
        scenario!(a_service_without_the_type_gets_no_address),
        scenario!(an_assignment_that_fails_is_tried_again),
        scenario!(a_service_waits_while_the_assignment_hangs),
        scenario!(an_empty_pool_makes_services_wait).with(|settings| {
            settings.load_balancers = "127.70.0.0/30".parse().unwrap_or(settings.load_balancers);
        }),
        scenario!(endpoints_follow_readiness),
        scenario!(named_ports_and_names_of_machines),
        scenario!(slices_of_others_are_left_alone),
        scenario!(the_older_endpoints_say_the_same).with(|_| {}),
    ]
}

/// A service that selects pods by `app`.
pub(crate) fn service(name: &str, spec: &Value) -> Value {
    let mut service = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}

/// A pod that a service of this name selects.
pub(crate) fn backend(app: &str, name: &str) -> Value {
    let mut pod = pod(name);
    pod.set_label("app", app);
    pod.set("/spec/containers/0/ports", json!([{"name": "http", "containerPort": 8080}]));
    pod
}

fn address(service: &Value) -> &str {
    service.text("/status/loadBalancer/ingress/0/ip")
}

async fn a_load_balancer_comes_and_goes(cx: Cx) -> Result {
    let key = cx.key("web");
    let mut history = cx.follow(&SERVICE, &key).await;
    cx.create(&SERVICE, service("web", &json!({"type": "LoadBalancer"}))).await?;
    let service = cx.until(&SERVICE, &key, |service| !address(service).is_empty()).await?;
    assert_eq!(service.text("/status/loadBalancer/ingress/0/ipMode"), "VIP");
    assert!(service.has_finalizer(FINALIZER));
    assert!(service.number("/spec/ports/0/nodePort").is_some());
    cx.until_event("web", "EnsuringLoadBalancer").await?;
    cx.until_event("web", "EnsuredLoadBalancer").await?;
    // It is held before it has an address.
    let steps: Vec<(bool, bool)> = history
        .states()
        .iter()
        .map(|state| (state.has_finalizer(FINALIZER), !address(state).is_empty()))
        .collect();
    assert_eq!(steps, [(false, false), (true, false), (true, true)]);
    // Another type gives the address back.
    cx.client.merge(&SERVICE, &key, &json!({"spec": {"type": "ClusterIP"}})).await?;
    cx.until(&SERVICE, &key, |service| !service.has_finalizer(FINALIZER) && address(service).is_empty())
        .await?;
    cx.until_event("web", "DeletedLoadBalancer").await?;
    cx.client.merge(&SERVICE, &key, &json!({"spec": {"type": "LoadBalancer"}})).await?;
    cx.until(&SERVICE, &key, |service| !address(service).is_empty()).await?;
    cx.client.delete(&SERVICE, &key, "").await?;
    cx.until_gone(&SERVICE, &key).await
}

async fn a_service_without_the_type_gets_no_address(cx: Cx) -> Result {
    cx.create(&SERVICE, service("plain", &json!({}))).await?;
    cx.create(&SERVICE, service("ports", &json!({"type": "NodePort"}))).await?;
    let other = json!({"type": "LoadBalancer", "loadBalancerClass": "other.example/balancer"});
    cx.create(&SERVICE, service("other", &other)).await?;
    let own = json!({"type": "LoadBalancer", "loadBalancerClass": trellis_infra::network::balancers::CLASS});
    cx.create(&SERVICE, service("own", &own)).await?;
    cx.until(&SERVICE, &cx.key("own"), |service| !address(service).is_empty()).await?;
    cx.until_event("own", "EnsuredLoadBalancer").await?;
    for name in ["plain", "ports", "other"] {
        let service = cx.until(&SERVICE, &cx.key(name), |_| true).await?;
        assert!(address(&service).is_empty() && !service.has_finalizer(FINALIZER), "{service}");
    }
    let ports = cx.until(&SERVICE, &cx.key("ports"), |_| true).await?;
    assert!(ports.number("/spec/ports/0/nodePort").is_some_and(|port| port >= 30_000), "{ports}");
    Ok(())
}

async fn an_assignment_that_fails_is_tried_again(cx: Cx) -> Result {
    let rule: Rule = serde_json::from_value(json!({
        "name": "no balancer", "stage": "loadbalancer.assign", "times": 1,
        "match": [["/metadata/namespace", cx.namespace]], "effect": {"fail": "the cloud is out"},
    }))?;
    let stages = &cx.infra.context().stages;
    stages.add(rule);
    cx.create(&SERVICE, service("web", &json!({"type": "LoadBalancer"}))).await?;
    let event = cx.until_event("web", "SyncLoadBalancerFailed").await?;
    assert_eq!(
        event.text("/message"),
        "Error syncing load balancer: failed to ensure load balancer: the cloud is out"
    );
    cx.until(&SERVICE, &cx.key("web"), |service| !address(service).is_empty()).await?;
    stages.remove("no balancer");
    Ok(())
}

async fn a_service_waits_while_the_assignment_hangs(cx: Cx) -> Result {
    let rule: Rule = serde_json::from_value(json!({
        "name": "hanging balancer", "stage": "loadbalancer.assign", "effect": "hang",
        "match": [["/metadata/namespace", cx.namespace], ["/metadata/name", "web"]],
    }))?;
    let stages = &cx.infra.context().stages;
    stages.add(rule);
    cx.create(&SERVICE, service("web", &json!({"type": "LoadBalancer"}))).await?;
    cx.until_event("web", "EnsuringLoadBalancer").await?;
    // Others are served meanwhile.
    cx.create(&SERVICE, service("other", &json!({"type": "LoadBalancer"}))).await?;
    let other = cx.until(&SERVICE, &cx.key("other"), |service| !address(service).is_empty()).await?;
    let waiting = cx.until(&SERVICE, &cx.key("web"), |service| service.has_finalizer(FINALIZER)).await?;
    let early = address(&waiting).to_owned();
    stages.remove("hanging balancer");
    assert_eq!(early, "");
    let late = cx.until(&SERVICE, &cx.key("web"), |service| !address(service).is_empty()).await?;
    assert_ne!(address(&late), address(&other));
    Ok(())
}

async fn an_empty_pool_makes_services_wait(cx: Cx) -> Result {
    for (name, wanted) in [("one", "127.70.0.1"), ("two", "127.70.0.2")] {
        let spec = json!({"type": "LoadBalancer", "loadBalancerIP": wanted});
        cx.create(&SERVICE, service(name, &spec)).await?;
        cx.until(&SERVICE, &cx.key(name), |service| address(service) == wanted).await?;
    }
    cx.create(&SERVICE, service("three", &json!({"type": "LoadBalancer"}))).await?;
    let event = cx.until_event("three", "SyncLoadBalancerFailed").await?;
    assert!(event.text("/message").ends_with("no address is left in the pool 127.70.0.0/30"), "{event}");
    let spec = json!({"type": "LoadBalancer", "loadBalancerIP": "10.0.0.1"});
    cx.create(&SERVICE, service("four", &spec)).await?;
    let event = cx.until_event("four", "SyncLoadBalancerFailed").await?;
    assert!(event.text("/message").contains("10.0.0.1 is not in the pool"), "{event}");
    cx.client.delete(&SERVICE, &cx.key("one"), "").await?;
    cx.until(&SERVICE, &cx.key("three"), |service| address(service) == "127.70.0.1").await?;
    Ok(())
}

/// Waits until the endpoints of a service are as wanted: address and conditions of each.
async fn until_endpoints(cx: &Cx, service: &str, wanted: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
    let cache = cx.client.cache(&ENDPOINT_SLICE);
    let mut changes = cache.changes();
    let now = || -> Vec<Value> {
        let slices = cache.find("service", &cx.key(service).to_string());
        slices.iter().flat_map(|slice| slice.list("/endpoints").to_vec()).collect()
    };
    let found = async {
        loop {
            let endpoints = now();
            if wanted(&endpoints) {
                return endpoints;
            }
            changes.recv().await;
        }
    };
    timeout(PATIENCE, found).await.map_err(|_| format!("the endpoints of {service} are {:?}", now()).into())
}

fn ready(endpoints: &[Value]) -> Vec<bool> {
    endpoints.iter().map(|one| one.flag("/conditions/ready")).collect()
}

async fn endpoints_follow_readiness(cx: Cx) -> Result {
    cx.create(&SERVICE, service("web", &json!({}))).await?;
    cx.create(
        &SERVICE,
        service("eager", &json!({"selector": {"app": "web"}, "publishNotReadyAddresses": true})),
    )
    .await?;
    let mut gated = backend("web", "a");
    gated.set("/spec/readinessGates", json!([{"conditionType": "example.com/gate"}]));
    cx.create(&POD, gated).await?;
    cx.create(&POD, backend("other", "b")).await?;
    let running = |pod: &Value| pod.condition_holds("ContainersReady");
    let pod = cx.until(&POD, &cx.key("a"), running).await?;
    let endpoints = until_endpoints(&cx, "web", |endpoints| ready(endpoints) == [false]).await?;
    let endpoint = &endpoints[0];
    assert_eq!(endpoint.text("/addresses/0"), pod.text("/status/podIP"));
    assert_eq!(endpoint.text("/nodeName"), pod.text("/spec/nodeName"));
    assert_eq!(endpoint.text("/targetRef/uid"), pod.uid());
    assert_ne!(endpoint.text("/zone"), "");
    until_endpoints(&cx, "eager", |endpoints| ready(endpoints) == [true]).await?;
    // The gate opens, and closes again.
    for status in ["True", "False", "True"] {
        set_gate(&cx, "a", status).await?;
        let wanted = status == "True";
        until_endpoints(&cx, "web", |endpoints| ready(endpoints) == [wanted]).await?;
    }
    let slices = cx.client.cache(&ENDPOINT_SLICE).find("service", &cx.key("web").to_string());
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].label("endpointslice.kubernetes.io/managed-by"), "endpointslice-controller.k8s.io");
    assert_eq!(slices[0].text("/metadata/ownerReferences/0/kind"), "Service");
    assert_eq!(slices[0].number("/ports/0/port"), Some(8080));
    // A slice somebody deletes is made again.
    cx.client.delete(&ENDPOINT_SLICE, &Key::of(&slices[0]), slices[0].uid()).await?;
    cx.until_gone(&ENDPOINT_SLICE, &Key::of(&slices[0])).await?;
    until_endpoints(&cx, "web", |endpoints| ready(endpoints) == [true]).await?;
    cx.client.delete(&POD, &cx.key("a"), "").await?;
    until_endpoints(&cx, "web", <[Value]>::is_empty).await?;
    // What is kept for a service goes with it.
    let slices = cx.client.cache(&ENDPOINT_SLICE).find("service", &cx.key("web").to_string());
    let left = slices.first().map(|slice| slice.name().to_owned()).unwrap_or_default();
    cx.client.delete(&SERVICE, &cx.key("web"), "").await?;
    cx.until_gone(&ENDPOINT_SLICE, &cx.key(&left)).await
}

/// Sets the condition of a pod's readiness gate, as whoever keeps it would.
async fn set_gate(cx: &Cx, name: &str, status: &str) -> Result {
    let key = cx.key(name);
    loop {
        let Some(mut pod) = cx.client.get(&POD, &key).await? else { return Err("the pod is gone".into()) };
        trellis_infra::object::Condition { kind: "example.com/gate", status, reason: "", message: "" }
            .put(&mut pod, "2026-01-01T00:00:00Z");
        match cx.client.replace_status(&POD, &pod).await {
            Err(failure) if failure.is_conflict() => {}
            other => return other.map(drop).map_err(Into::into),
        }
    }
}

async fn named_ports_and_names_of_machines(cx: Cx) -> Result {
    let named = json!({
        "clusterIP": "None", "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    });
    cx.create(&SERVICE, service("machines", &named)).await?;
    let mut one = backend("machines", "m1-launcher");
    one.set("/spec/hostname", "m1".into());
    one.set("/spec/subdomain", "machines".into());
    let mut other = backend("machines", "m2-launcher");
    other.set("/spec/containers/0/ports/0/containerPort", 9090.into());
    cx.create(&POD, one).await?;
    cx.create(&POD, other).await?;
    let endpoints = until_endpoints(&cx, "machines", |endpoints| ready(endpoints) == [true, true]).await?;
    let hostnames: BTreeSet<&str> = endpoints.iter().map(|one| one.text("/hostname")).collect();
    assert_eq!(hostnames, BTreeSet::from(["", "m1"]));
    let slices = cx.client.cache(&ENDPOINT_SLICE).find("service", &cx.key("machines").to_string());
    let with_endpoints = slices.iter().filter(|slice| !slice.list("/endpoints").is_empty());
    let ports: BTreeSet<Option<i64>> = with_endpoints.map(|slice| slice.number("/ports/0/port")).collect();
    assert_eq!(ports, BTreeSet::from([Some(8080), Some(9090)]));
    let headless = |slice: &Arc<Value>| slice["metadata"]["labels"]["service.kubernetes.io/headless"] == "";
    assert!(slices.iter().all(headless), "{slices:?}");
    Ok(())
}

async fn slices_of_others_are_left_alone(cx: Cx) -> Result {
    let mut outside = service("outside", &json!({}));
    outside.unset("/spec/selector");
    cx.create(&SERVICE, outside).await?;
    let own = json!({
        "metadata": {"name": "outside-own", "labels": {"kubernetes.io/service-name": "outside"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 443}],
        "endpoints": [{"addresses": ["192.0.2.10"]}],
    });
    let written = cx.create(&ENDPOINT_SLICE, own).await?;
    // By the time another service has its slices, this one would have been touched.
    cx.create(&SERVICE, service("web", &json!({}))).await?;
    cx.create(&POD, backend("web", "a")).await?;
    until_endpoints(&cx, "web", |endpoints| ready(endpoints) == [true]).await?;
    let all = cx.client.cache(&ENDPOINT_SLICE).find("service", &cx.key("outside").to_string());
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].version(), written.version());
    Ok(())
}

async fn the_older_endpoints_say_the_same(cx: Cx) -> Result {
    cx.create(&SERVICE, service("web", &json!({}))).await?;
    let mut gated = backend("web", "a");
    gated.set("/spec/readinessGates", json!([{"conditionType": "example.com/gate"}]));
    cx.create(&POD, gated).await?;
    let key: Key = cx.key("web");
    let count = |object: &Value, list: &str| object.list(&format!("/subsets/0/{list}")).len();
    cx.until(&ENDPOINTS, &key, |one| count(one, "notReadyAddresses") == 1).await?;
    set_gate(&cx, "a", "True").await?;
    let endpoints = cx.until(&ENDPOINTS, &key, |one| count(one, "addresses") == 1).await?;
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    cx.client.delete(&POD, &cx.key("a"), "").await?;
    cx.until(&ENDPOINTS, &key, |one| one["subsets"].is_null()).await?;
    cx.client.delete(&SERVICE, &key, "").await?;
    cx.until_gone(&ENDPOINTS, &key).await
}
