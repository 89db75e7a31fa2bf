//! Services: addresses and ports that are given out.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    address_is_given,
    address_can_be_chosen,
    address_is_fixed,
    headless,
    external_name,
    node_ports,
    load_balancer,
    types_can_change,
    address_is_returned,
    without_selector,
    bad_services,
    status_of_load_balancers,
    endpoints_by_hand,
    addresses_are_objects,
];

fn service(name: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

async fn create(cx: &Cx, name: &str, spec: &Value) -> Result<Value> {
    cx.create(cx.core("services"), &service(name, spec)).await
}

async fn address_is_given(cx: Cx) -> Result {
    let first = create(&cx, "a", &json!({})).await?;
    let second = create(&cx, "b", &json!({})).await?;
    let address = text(&first, "/spec/clusterIP");
    assert!(address.starts_with("10.96."), "{address}");
    has(
        &first["spec"],
        &json!({
            "type": "ClusterIP", "clusterIPs": [address], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        }),
    );
    has(&first, &json!({"status": {"loadBalancer": {}}}));
    assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
    Ok(())
}

async fn address_can_be_chosen(cx: Cx) -> Result {
    // Nobody else chooses in this part of the range.
    let created = create(&cx, "a", &json!({"clusterIP": "10.96.77.77"})).await?;
    has(&created["spec"], &json!({"clusterIP": "10.96.77.77", "clusterIPs": ["10.96.77.77"]}));
    let status = cx
        .admin
        .post(cx.core("services"), &service("b", &json!({"clusterIP": "10.96.77.77"})))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.clusterIPs", "message":
        "Invalid value: [\"10.96.77.77\"]: failed to allocate IP 10.96.77.77: provided IP is already \
            allocated"}]}}),
    );
    let status = cx
        .admin
        .post(cx.core("services"), &service("b", &json!({"clusterIP": "192.168.1.1"})))
        .await?
        .fails(422, "Invalid");
    let message = text(&status, "/details/causes/0/message");
    assert!(message.contains("failed to allocate IP 192.168.1.1: "), "{message}");
    let status = cx
        .admin
        .post(cx.core("services"), &service("b", &json!({"clusterIP": "nonsense"})))
        .await?
        .fails(422, "Invalid");
    has(&status["details"]["causes"][0], &json!({"field": "spec.clusterIPs[0]"}));
    Ok(())
}

async fn address_is_fixed(cx: Cx) -> Result {
    let created = create(&cx, "a", &json!({})).await?;
    let patch = json!({"spec": {"clusterIP": "10.96.77.78", "clusterIPs": ["10.96.77.78"]}});
    let status = cx.admin.merge_patch(cx.core("services/a"), &patch).await?.fails(422, "Invalid");
    has(&status["details"]["causes"][0], &json!({"field": "spec.clusterIPs[0]"}));
    // Left out of an update, it stays.
    let mut without = created.clone();
    without["spec"].as_object_mut().map(|spec| (spec.remove("clusterIP"), spec.remove("clusterIPs")));
    let replaced = cx.admin.put(cx.core("services/a"), &without).await?.ok(200);
    assert_eq!(replaced["spec"]["clusterIP"], created["spec"]["clusterIP"]);
    Ok(())
}

async fn headless(cx: Cx) -> Result {
    let created = create(&cx, "a", &json!({"clusterIP": "None"})).await?;
    has(&created["spec"], &json!({"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP"}));
    Ok(())
}

async fn external_name(cx: Cx) -> Result {
    let created = cx
        .create(
            cx.core("services"),
            &json!({"metadata": {"name": "a"}, "spec": {"type": "ExternalName",
            "externalName": "example.com"}}),
        )
        .await?;
    has(
        &created["spec"],
        &json!({"clusterIP": null, "clusterIPs": null, "externalName": "example.com",
            "sessionAffinity": "None"}),
    );
    let status = cx
        .admin
        .post(cx.core("services"), &json!({"metadata": {"name": "b"}, "spec": {"type": "ExternalName"}}))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.externalName", "reason": "FieldValueRequired"}]}}),
    );
    Ok(())
}

async fn node_ports(cx: Cx) -> Result {
    let created = create(
        &cx,
        "a",
        &json!({"type": "NodePort", "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 81}]}),
    )
    .await?;
    let ports: Vec<u64> = created["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| port["nodePort"].as_u64())
        .collect();
    assert_eq!(ports.len(), 2, "{created}");
    assert!(ports.iter().all(|port| (30000..=32767).contains(port)) && ports[0] != ports[1], "{ports:?}");
    has(&created["spec"], &json!({"externalTrafficPolicy": "Cluster"}));
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": ports[0]}]});
    let status = cx.admin.post(cx.core("services"), &service("b", &taken)).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.ports[0].nodePort", "message":
        format!("Invalid value: {}: provided port is already allocated", ports[0])}]}}),
    );
    let outside = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
    let status = cx.admin.post(cx.core("services"), &service("b", &outside)).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.ports[0].nodePort", "message":
        "Invalid value: 80: provided port is not in the valid range. The range of valid ports is \
            30000-32767"}]}}),
    );
    Ok(())
}

async fn load_balancer(cx: Cx) -> Result {
    let created =
        create(&cx, "a", &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})).await?;
    has(&created["spec"], &json!({"allocateLoadBalancerNodePorts": true}));
    assert!(created["spec"]["ports"][0]["nodePort"].is_u64(), "{created}");
    assert!(created["spec"]["healthCheckNodePort"].as_u64().is_some_and(|port| port >= 30000), "{created}");
    let created =
        create(&cx, "b", &json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})).await?;
    has(&created["spec"], &json!({"ports": [{"nodePort": null}]}));
    Ok(())
}

async fn types_can_change(cx: Cx) -> Result {
    let created = create(&cx, "a", &json!({})).await?;
    let patched =
        cx.admin.merge_patch(cx.core("services/a"), &json!({"spec": {"type": "NodePort"}})).await?.ok(200);
    assert!(patched["spec"]["ports"][0]["nodePort"].is_u64(), "{patched}");
    assert_eq!(patched["spec"]["clusterIP"], created["spec"]["clusterIP"]);
    let patched =
        cx.admin.merge_patch(cx.core("services/a"), &json!({"spec": {"type": "ClusterIP"}})).await?.ok(200);
    has(&patched["spec"], &json!({"ports": [{"nodePort": null}], "externalTrafficPolicy": null}));
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let patched = cx.admin.merge_patch(cx.core("services/a"), &patch).await?.ok(200);
    has(&patched["spec"], &json!({"clusterIP": null, "type": "ExternalName"}));
    Ok(())
}

async fn address_is_returned(cx: Cx) -> Result {
    for _ in 0..2 {
        create(&cx, "a", &json!({"clusterIP": "10.96.77.79"})).await?;
        cx.admin.delete(cx.core("services/a")).await?.ok(200);
        cx.until_gone("/apis/networking.k8s.io/v1/ipaddresses/10.96.77.79").await?;
    }
    Ok(())
}

async fn without_selector(cx: Cx) -> Result {
    let created = cx
        .create(
            cx.core("services"),
            &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1, "targetPort": "name"}]}}),
        )
        .await?;
    has(&created["spec"], &json!({"selector": null, "ports": [{"targetPort": "name"}]}));
    Ok(())
}

async fn bad_services(cx: Cx) -> Result {
    for (spec, field) in [
        (json!({"ports": []}), "spec.ports"),
        (json!({"ports": [{"port": 0}]}), "spec.ports[0].port"),
        (json!({"ports": [{"port": 80}, {"port": 81}]}), "spec.ports[0].name"),
        (json!({"ports": [{"port": 80, "protocol": "TELEX"}]}), "spec.ports[0].protocol"),
        (json!({"type": "Nothing"}), "spec.type"),
        (json!({"sessionAffinity": "Sometimes"}), "spec.sessionAffinity"),
        (json!({"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]}), "spec.ports[1].name"),
    ] {
        let status = cx.admin.post(cx.core("services"), &service("bad", &spec)).await?.fails(422, "Invalid");
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{field}: {status}");
    }
    Ok(())
}

async fn status_of_load_balancers(cx: Cx) -> Result {
    create(&cx, "a", &json!({"type": "LoadBalancer"})).await?;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}});
    let patched = cx.admin.merge_patch(cx.core("services/a/status"), &status).await?.ok(200);
    has(&patched["status"], &json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.10", "ipMode": "VIP"}]}}));
    let table = cx
        .admin
        .get(cx.core("services/a"))
        .accept("application/json;as=Table;v=v1;g=meta.k8s.io")
        .await?
        .ok(200);
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[3]), (&json!("LoadBalancer"), &json!("192.0.2.10")), "{cells}");
    Ok(())
}

async fn endpoints_by_hand(cx: Cx) -> Result {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "a", "labels": {"kubernetes.io/service-name": "x"}},
        "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["192.0.2.1"]}]});
    let created = cx.create(cx.apis("discovery.k8s.io/v1", "endpointslices"), &slice).await?;
    has(&created, &json!({"ports": [{"name": "", "protocol": "TCP"}]}));
    let mut wrong = slice.clone();
    wrong["metadata"]["name"] = "b".into();
    wrong["endpoints"][0]["addresses"] = json!(["127.0.0.1"]);
    let status =
        cx.admin.post(cx.apis("discovery.k8s.io/v1", "endpointslices"), &wrong).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "endpoints[0].addresses[0]"}]}}));
    Ok(())
}

async fn addresses_are_objects(cx: Cx) -> Result {
    let created = create(&cx, "a", &json!({})).await?;
    let address = cx
        .read(format!("/apis/networking.k8s.io/v1/ipaddresses/{}", text(&created, "/spec/clusterIP")))
        .await?;
    has(
        &address,
        &json!({"kind": "IPAddress", "spec": {"parentRef": {"resource": "services", "namespace": cx.ns,
            "name": "a"}}}),
    );
    has(
        &cx.read("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await?,
        &json!({"spec": {"cidrs": ["10.96.0.0/16"]}}),
    );
    Ok(())
}
