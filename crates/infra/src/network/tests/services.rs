use super::super::ends::{Party, Protocol};
use super::*;

fn service(name: &str, spec: &Value) -> Value {
    json!({"kind": "Service", "metadata": {"namespace": "b", "name": name}, "spec": spec})
}

fn slice(service: &str, endpoints: &Value) -> Value {
    json!({
        "kind": "EndpointSlice",
        "metadata": {"namespace": "b", "name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    })
}

fn node(name: &str, address: &str) -> Value {
    json!({
        "kind": "Node", "metadata": {"name": name},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    })
}

fn world() -> Fabric {
    let mut machine = pod("b", "one", &json!({}), "h1");
    machine["spec"]["hostname"] = "m1".into();
    machine["spec"]["subdomain"] = "machines".into();
    let endpoint = |address: &str, node: &str| json!({"addresses": [address], "nodeName": node});
    let mut named = endpoint("10.64.0.2", "h1");
    named["hostname"] = "m1".into();
    let mut balanced = service(
        "web",
        &json!({
            "type": "LoadBalancer", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
            "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30_080}],
            "loadBalancerSourceRanges": ["192.0.2.0/24"],
        }),
    );
    balanced["status"] = json!({"loadBalancer": {"ingress": [{"ip": "127.64.0.1"}]}});
    let mut local = service(
        "local",
        &json!({
            "type": "NodePort", "externalTrafficPolicy": "Local", "clusterIPs": ["10.96.0.6"],
            "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30_081}],
        }),
    );
    local["metadata"]["name"] = "local".into();
    let fabric = fabric(&[
        machine,
        pod("b", "two", &json!({}), "h2"),
        pod("a", "client", &json!({}), "h2"),
        node("h1", "172.30.0.1"),
        node("h2", "172.30.0.2"),
        balanced,
        slice("web", &json!([endpoint("10.64.0.2", "h1"), endpoint("10.64.0.3", "h2")])),
        local,
        slice("local", &json!([endpoint("10.64.0.2", "h1")])),
        service("machines", &json!({"clusterIP": "None", "clusterIPs": ["None"]})),
        slice("machines", &json!([named, endpoint("10.64.0.3", "h2")])),
        service(
            "empty",
            &json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{"port": 80}]}),
        ),
        service("alias", &json!({"type": "ExternalName", "externalName": "web.b.svc.cluster.local."})),
        service("abroad", &json!({"type": "ExternalName", "externalName": "images.example"})),
        service("loop", &json!({"type": "ExternalName", "externalName": "loop.b.svc.cluster.local"})),
        json!({
            "kind": "Service", "metadata": {"namespace": "default", "name": "kubernetes"},
            "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": [{"name": "https", "port": 443}]},
        }),
        json!({
            "kind": "EndpointSlice",
            "metadata": {"namespace": "default", "name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4", "ports": [{"name": "https", "port": 6443}],
            "endpoints": [{"addresses": ["203.0.113.10"]}],
        }),
    ]);
    for (uid, address) in [("b/one", "10.64.0.2"), ("b/two", "10.64.0.3"), ("a/client", "10.64.0.4")] {
        plug(&fabric, uid, "", address);
    }
    fabric
}

#[tokio::test(start_paused = true)]
async fn a_service_leads_to_its_endpoints_in_turn() {
    let fabric = world();
    let mut one = fabric.listen("b/one", 8080);
    let mut two = fabric.listen("b/two", 8080);
    for _ in 0..4 {
        connect(&fabric, "a/client", "10.96.0.5", 80).await.unwrap();
    }
    let mut counts = (0, 0);
    while one.try_recv().is_ok() {
        counts.0 += 1;
    }
    while two.try_recv().is_ok() {
        counts.1 += 1;
    }
    assert_eq!(counts, (2, 2));
    assert_eq!(connect(&fabric, "a/client", "10.96.0.9", 80).await.unwrap_err(), FabricError::Refused);
    assert_eq!(connect(&fabric, "a/client", "10.96.0.5", 81).await.unwrap_err(), FabricError::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn who_is_outside_enters_by_load_balancers_and_node_ports() {
    let fabric = world();
    let _listeners = [fabric.listen("b/one", 8080), fabric.listen("b/two", 8080)];
    let enter = async |address: &str, port| fabric.connect(&Source::Outside, ip(address), port).await;
    enter("127.64.0.1", 80).await.unwrap();
    enter("172.30.0.2", 30_080).await.unwrap();
    enter("172.30.0.1", 30_081).await.unwrap();
    assert_eq!(enter("172.30.0.2", 30_081).await.unwrap_err(), FabricError::TimedOut);
    fabric.hosts.set("h2", Host { powered: false, connected: true });
    assert_eq!(enter("172.30.0.2", 30_080).await.unwrap_err(), FabricError::TimedOut);
    assert_eq!(enter("172.30.0.1", 22).await.unwrap_err(), FabricError::Refused);
}

#[tokio::test(start_paused = true)]
async fn the_api_server_is_reached_by_its_service_and_can_be_lost() {
    let fabric = world();
    let mut api = fabric.serve_api();
    let client = source("a/client");
    fabric.connect_name(&client, "kubernetes.default.svc", 443).await.unwrap();
    assert_eq!(api.recv().await.unwrap().peer().ip(), ip("10.64.0.4"));
    fabric.connect(&client, ip("203.0.113.10"), 6443).await.unwrap();
    fabric.cut(Party::Api, Party::Namespace("a".to_owned()));
    let lost = fabric.connect_name(&client, "kubernetes.default.svc", 443).await;
    assert_eq!(lost.unwrap_err(), FabricError::TimedOut);
    fabric.connect_name(&source("b/one"), "kubernetes.default", 443).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn names_in_all_their_forms() {
    let fabric = world();
    let _outside = fabric.serve_external("images.example", 443);
    let find = async |from: &str, name: &str| {
        let found = fabric.resolve(&source(from), name).await;
        found.map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    };
    let cases = [
        ("a/client", "web.b.svc.cluster.local", "10.96.0.5"),
        ("a/client", "web.b.svc.cluster.local.", "10.96.0.5"),
        ("a/client", "web.b.svc", "10.96.0.5"),
        ("a/client", "web.b", "10.96.0.5"),
        ("b/two", "web", "10.96.0.5"),
        ("a/client", "machines.b", "10.64.0.2,10.64.0.3"),
        ("a/client", "m1.machines.b.svc.cluster.local", "10.64.0.2"),
        ("b/one", "m1", "10.64.0.2"),
        ("a/client", "10-64-0-3.machines.b.svc", "10.64.0.3"),
        ("a/client", "10-64-0-3.b.pod.cluster.local", "10.64.0.3"),
        ("a/client", "alias.b", "10.96.0.5"),
        ("a/client", "abroad.b", "198.18.0.1"),
        ("a/client", "images.example", "198.18.0.1"),
        ("a/client", "10.1.2.3", "10.1.2.3"),
        ("a/client", "localhost", "127.0.0.1"),
    ];
    for (from, name, expected) in cases {
        assert_eq!(find(from, name).await.as_deref(), Ok(expected), "{name}");
    }
    for (from, name) in [
        ("a/client", "web"),
        ("a/client", "web.a"),
        ("a/client", "web."),
        ("a/client", "loop.b"),
        ("a/client", "m2.machines.b"),
        ("a/client", "other.example"),
    ] {
        assert_eq!(find(from, name).await, Err(FabricError::NoSuchHost), "{name}");
    }
    assert_eq!(
        fabric.resolve(&Source::Outside, "web.b.svc.cluster.local").await,
        Err(FabricError::NoSuchHost)
    );
}

#[tokio::test(start_paused = true)]
async fn who_may_not_ask_the_name_server_finds_no_names() {
    let policy = |egress: &Value| {
        json!({
            "kind": "NetworkPolicy", "metadata": {"namespace": "a", "name": "p"},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
        })
    };
    let objects = |policy: Value| {
        vec![
            pod("a", "client", &json!({}), "h1"),
            json!({"kind": "Namespace", "metadata": {"name": "kube-system", "labels": {"kubernetes.io/metadata.name": "kube-system"}}}),
            json!({"kind": "Service", "metadata": {"namespace": "a", "name": "web"}, "spec": {"clusterIPs": ["10.96.0.5"]}}),
            policy,
        ]
    };
    let closed = fabric(&objects(policy(&json!([]))));
    plug(&closed, "a/client", "", "10.64.0.4");
    assert_eq!(closed.resolve(&source("a/client"), "web").await, Err(FabricError::TimedOut));
    let open = fabric(&objects(policy(&json!([{
        "to": [{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }],
        "ports": [{"protocol": "UDP", "port": 53}],
    }]))));
    plug(&open, "a/client", "", "10.64.0.4");
    assert_eq!(open.resolve(&source("a/client"), "web").await, Ok(vec![ip("10.96.0.5")]));
}

#[tokio::test(start_paused = true)]
async fn policies_see_the_pod_behind_a_service() {
    let objects = [
        pod("a", "client", &json!({}), "h1"),
        pod("b", "server", &json!({"app": "server"}), "h2"),
        service("web", &json!({"clusterIPs": ["10.96.0.5"], "ports": [{"port": 80, "targetPort": 8080}]})),
        slice("web", &json!([{"addresses": ["10.64.0.2"]}])),
        json!({
            "kind": "NetworkPolicy", "metadata": {"namespace": "b", "name": "only-8080"},
            "spec": {"podSelector": {"matchLabels": {"app": "server"}}, "ingress": [{"ports": [{"port": 8080}]}]},
        }),
    ];
    let fabric = fabric(&objects);
    plug(&fabric, "a/client", "", "10.64.0.4");
    plug(&fabric, "b/server", "", "10.64.0.2");
    let _listeners = [fabric.listen("b/server", 8080), fabric.listen("b/server", 80)];
    connect(&fabric, "a/client", "10.96.0.5", 80).await.unwrap();
    assert_eq!(connect(&fabric, "a/client", "10.64.0.2", 80).await.unwrap_err(), FabricError::TimedOut);
    let verdict = fabric.reach(&source("a/client"), &source("b/server"), 80, Protocol::Tcp);
    assert!(verdict.why.contains("isolated for ingress by only-8080"), "{}", verdict.why);
}

#[tokio::test]
async fn networks_are_attached_as_the_annotation_wants() {
    let config = json!({
        "type": "bridge", "bridge": "br1", "vlan": 7,
        "ipam": {"type": "whereabouts", "range": "192.168.7.0/30"},
    });
    let attachment = json!({
        "kind": "NetworkAttachmentDefinition", "metadata": {"namespace": "a", "name": "net"},
        "spec": {"config": config.to_string()},
    });
    let fabric = fabric(&[attachment]);
    let wants = |name: &str, network: &str| {
        json!({"metadata": {
            "namespace": "a", "name": name, "uid": name,
            "annotations": {"k8s.v1.cni.cncf.io/networks": network},
        }})
    };
    for (name, expected) in [("one", "192.168.7.1"), ("two", "192.168.7.2")] {
        plug(&fabric, name, "", &format!("10.64.0.{}", name.len() + usize::from(name == "two")));
        let status = fabric.attach(&wants(name, "net")).unwrap().unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status[0]["default"], true);
        assert_eq!((&status[1]["name"], &status[1]["interface"]), (&json!("a/net"), &json!("net1")));
        assert_eq!(status[1]["ips"], json!([expected]));
        // Again is the same again.
        assert_eq!(fabric.attach(&wants(name, "net")).unwrap(), Some(status.to_string()));
    }
    let failure = fabric.attach(&wants("three", "net")).unwrap_err();
    assert!(failure.to_string().starts_with("no IP addresses available"), "{failure}");
    fabric.unplug("one");
    assert!(fabric.attach(&wants("three", "net")).unwrap().unwrap().contains("192.168.7.1"));
    let failure = fabric.attach(&wants("four", "b/other")).unwrap_err();
    assert!(
        failure.to_string().contains("cannot find a network-attachment-definition (other) in namespace (b)")
    );
    assert_eq!(fabric.attach(&json!({"metadata": {"uid": "five"}})).unwrap(), None);
}
