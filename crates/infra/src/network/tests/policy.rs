use proptest::prelude::*;

use super::super::ends::{End, Member, Protocol};
use super::super::policy::{Aim, verdict};
use super::super::selector::labels_at;
use super::*;
use crate::object::Key;

fn member(namespace: &str, name: &str, labels: &Value) -> Member {
    Member {
        uid: format!("{namespace}/{name}"),
        key: Key::new(namespace, name),
        labels: labels_at(&json!({"l": labels}), "/l"),
        namespace_labels: [("team".to_owned(), namespace.to_owned())].into(),
        node: "h1".to_owned(),
        addresses: vec![ip("10.64.0.1"), ip("fd00::1")],
        ports: vec![("web".to_owned(), Protocol::Tcp, 8080)],
    }
}

fn policy(namespace: &str, spec: &Value) -> Arc<Value> {
    Arc::new(
        json!({"kind": "NetworkPolicy", "metadata": {"namespace": namespace, "name": "p"}, "spec": spec}),
    )
}

/// Whether `b/server` may be reached from an end under one policy of its namespace.
fn admits(spec: &Value, from: &End, port: u16, protocol: Protocol) -> bool {
    let server = End::Pod(member("b", "server", &json!({"app": "server"})));
    verdict(&[policy("b", spec)], from, &server, Aim { port, protocol }).allowed
}

/// Whether `a/client` may reach an end under one policy of its namespace.
fn releases(spec: &Value, to: &End, port: u16) -> bool {
    let client = End::Pod(member("a", "client", &json!({"app": "client"})));
    verdict(&[policy("a", spec)], &client, to, Aim { port, protocol: Protocol::Tcp }).allowed
}

fn client() -> End {
    End::Pod(member("a", "client", &json!({"app": "client"})))
}

#[test]
fn ingress_by_pods_namespaces_and_ports() {
    let from = |peer: Value| json!({"podSelector": {}, "ingress": [{"from": [peer]}]});
    let port = |port: Value| json!({"podSelector": {}, "ingress": [{"ports": [port]}]});
    let cases = [
        ("nothing is allowed", json!({"podSelector": {}}), false),
        ("an empty rule allows all", json!({"podSelector": {}, "ingress": [{}]}), true),
        ("other pods are isolated", json!({"podSelector": {"matchLabels": {"app": "other"}}}), true),
        (
            "pods of the own namespace only",
            from(json!({"podSelector": {"matchLabels": {"app": "client"}}})),
            false,
        ),
        ("all pods of a namespace", from(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}})), true),
        ("another namespace", from(json!({"namespaceSelector": {"matchLabels": {"team": "c"}}})), false),
        ("any namespace", from(json!({"namespaceSelector": {}})), true),
        (
            "both selectors of one peer",
            from(json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "client"}}})),
            true,
        ),
        (
            "both selectors of one peer, one fails",
            from(json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}})),
            false,
        ),
        (
            "either of two peers",
            json!({"podSelector": {}, "ingress": [{"from": [
                {"podSelector": {"matchLabels": {"app": "x"}}}, {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            ]}]}),
            true,
        ),
        ("a number", port(json!({"port": 8080})), true),
        ("another number", port(json!({"port": 80})), false),
        ("another protocol", port(json!({"port": 8080, "protocol": "UDP"})), false),
        ("any port of a protocol", port(json!({"protocol": "TCP"})), true),
        ("a name", port(json!({"port": "web"})), true),
        ("a name nobody has", port(json!({"port": "other"})), false),
        ("a range", port(json!({"port": 8000, "endPort": 8080})), true),
        ("a range that ends before", port(json!({"port": 8000, "endPort": 8079})), false),
        (
            "the peer fits one rule and the port another",
            json!({"podSelector": {}, "ingress": [
                {"from": [{"namespaceSelector": {}}], "ports": [{"port": 1}]}, {"from": [{"podSelector": {}}]},
            ]}),
            false,
        ),
        ("egress only", json!({"podSelector": {}, "policyTypes": ["Egress"]}), true),
        ("rules for egress, no types", json!({"podSelector": {}, "egress": [{}]}), false),
    ];
    for (what, spec, expected) in cases {
        assert_eq!(admits(&spec, &client(), 8080, Protocol::Tcp), expected, "{what}");
    }
}

#[test]
fn addresses_are_matched_by_blocks_with_exceptions() {
    let block = |cidr: &str, except: &[&str]| json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": cidr, "except": except}}]}]});
    let outside = End::Outside(ip("192.0.2.1"));
    let cases = [
        (block("0.0.0.0/0", &[]), true),
        (block("192.0.2.0/24", &[]), true),
        (block("192.0.2.0/24", &["192.0.2.0/28"]), false),
        (block("192.0.2.0/24", &["192.0.2.16/28"]), true),
        (block("198.51.100.0/24", &[]), false),
        (block("::/0", &[]), false),
        (json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}), false),
    ];
    for (spec, expected) in cases {
        assert_eq!(admits(&spec, &outside, 80, Protocol::Tcp), expected, "{spec}");
    }
    assert!(admits(&block("2001:db8::/32", &[]), &End::Outside(ip("2001:db8::7")), 80, Protocol::Tcp));
}

#[test]
fn the_own_host_reaches_its_pods_and_others_do_not() {
    let spec = json!({"podSelector": {}});
    let host = |name: &str| End::Host { name: name.to_owned(), addresses: vec![ip("172.30.0.1")] };
    assert!(admits(&spec, &host("h1"), 80, Protocol::Tcp));
    assert!(!admits(&spec, &host("h2"), 80, Protocol::Tcp));
}

#[test]
fn egress_is_asked_at_the_other_end_of_the_connection() {
    let server = End::Pod(member("b", "server", &json!({"app": "server"})));
    let api = End::Api(ip("203.0.113.10"));
    let to = |peer: Value| json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [peer]}]});
    assert!(!releases(&json!({"podSelector": {}, "policyTypes": ["Egress"]}), &server, 80));
    assert!(releases(&json!({"podSelector": {}, "policyTypes": ["Ingress"], "egress": [{}]}), &server, 80));
    assert!(releases(&to(json!({"namespaceSelector": {"matchLabels": {"team": "b"}}})), &server, 80));
    assert!(!releases(&to(json!({"podSelector": {}})), &server, 80));
    assert!(releases(&to(json!({"ipBlock": {"cidr": "203.0.113.0/24"}})), &api, 443));
    assert!(!releases(&to(json!({"namespaceSelector": {}})), &api, 443));
    let named =
        json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": "web"}]}]});
    assert!(releases(&named, &server, 8080) && !releases(&named, &server, 80));
}

#[test]
fn both_sides_are_asked_and_the_refusal_names_the_policy() {
    let (client, server) = (client(), End::Pod(member("b", "server", &json!({}))));
    let open = policy("b", &json!({"podSelector": {}, "ingress": [{}]}));
    let closed = policy("a", &json!({"podSelector": {}, "policyTypes": ["Egress"]}));
    let aim = Aim { port: 80, protocol: Protocol::Tcp };
    let verdict = verdict(&[open, closed], &client, &server, aim);
    assert!(!verdict.allowed);
    assert_eq!(verdict.why, "TCP to port 80 may not leave a/client: isolated for egress by p");
}

/// Labels and ports from a small world, so that they meet.
fn some_labels() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), Just(json!({"app": "x"})), Just(json!({"app": "y"}))]
}

fn some_selector() -> impl Strategy<Value = Value> {
    some_labels().prop_map(|labels| json!({"matchLabels": labels}))
}

fn some_peer() -> impl Strategy<Value = Value> {
    let namespaces =
        prop_oneof![Just("a"), Just("b")].prop_map(|team| json!({"matchLabels": {"team": team}}));
    prop_oneof![
        some_selector().prop_map(|pods| json!({"podSelector": pods})),
        namespaces.clone().prop_map(|namespaces| json!({"namespaceSelector": namespaces})),
        (some_selector(), namespaces)
            .prop_map(|(pods, namespaces)| json!({"podSelector": pods, "namespaceSelector": namespaces})),
        Just(json!({"ipBlock": {"cidr": "10.64.0.0/23", "except": ["10.64.1.0/24"]}})),
    ]
}

fn some_rule(peers: &'static str) -> impl Strategy<Value = Value> {
    let ports = prop_oneof![
        Just(json!([])),
        Just(json!([{"port": 80}])),
        Just(json!([{"port": 80, "endPort": 81}])),
        Just(json!([{"port": "web"}])),
    ];
    (prop::collection::vec(some_peer(), 0..3), ports)
        .prop_map(move |(list, ports)| json!({peers: list, "ports": ports}))
}

prop_compose! {
    fn some_policy()(
        namespace in prop_oneof![Just("a"), Just("b")],
        name in 0..1000,
        pods in some_selector(),
        types in prop::sample::subsequence(vec!["Ingress", "Egress"], 0..=2),
        ingress in prop::collection::vec(some_rule("from"), 0..3),
        egress in prop::collection::vec(some_rule("to"), 0..3),
    ) -> Value {
        json!({
            "kind": "NetworkPolicy", "metadata": {"namespace": namespace, "name": format!("p{name}")},
            "spec": {"podSelector": pods, "policyTypes": types, "ingress": ingress, "egress": egress},
        })
    }
}

/// Four pods in two namespaces on two hosts.
fn small_world(labels: &[Value], policies: &[Value]) -> (Fabric, Vec<&'static str>) {
    let uids = vec!["a/p0", "a/p1", "b/p2", "b/p3"];
    let mut objects: Vec<Value> = ["a", "b"]
        .map(|name| json!({"kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}))
        .to_vec();
    for (place, (uid, labels)) in uids.iter().zip(labels).enumerate() {
        let (namespace, name) = uid.split_once('/').unwrap();
        let mut pod = pod(namespace, name, labels, ["h1", "h2"][place % 2]);
        pod["spec"]["containers"] = json!([{"ports": [{"name": "web", "containerPort": 80 + place % 2}]}]);
        objects.push(pod);
    }
    objects.push(json!({
        "kind": "Service", "metadata": {"namespace": "b", "name": "s"},
        "spec": {"clusterIPs": ["10.96.0.7"], "ports": [{"port": 80, "targetPort": 80}]},
    }));
    objects.push(json!({
        "kind": "EndpointSlice",
        "metadata": {"namespace": "b", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80}],
        "endpoints": [{"addresses": ["10.64.2.2"]}, {"addresses": ["10.64.3.2"]}],
    }));
    objects.extend(policies.iter().cloned());
    let fabric = fabric(&objects);
    for (place, uid) in uids.iter().enumerate() {
        plug(&fabric, uid, "", &format!("10.64.{place}.2"));
    }
    (fabric, uids)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The question and the deed are one decision.
    #[test]
    fn reach_and_connect_agree(
        labels in prop::collection::vec(some_labels(), 4),
        policies in prop::collection::vec(some_policy(), 0..4),
        cable in any::<bool>(),
        cut in any::<bool>(),
        listening in prop::collection::vec(any::<bool>(), 4),
    ) {
        let (fabric, uids) = small_world(&labels, &policies);
        fabric.hosts.set("h2", Host { powered: true, connected: cable });
        if cut {
            let party = super::super::ends::Party::Labelled("app".to_owned(), "x".to_owned());
            fabric.cut(party, super::super::ends::Party::Namespace("b".to_owned()));
        }
        let _listeners: Vec<_> = uids
            .iter()
            .zip(&listening)
            .filter(|(_, listens)| **listens)
            .map(|(uid, _)| fabric.listen(uid, 80))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            for from in &uids {
                for address in ["10.64.0.2", "10.64.1.2", "10.64.2.2", "10.64.3.2", "10.96.0.7", "10.64.9.9"] {
                    for port in [80, 81] {
                        let verdict = fabric.reach_address(&source(from), ip(address), port, Protocol::Tcp);
                        let connected = connect(&fabric, from, address, port).await;
                        assert_eq!(verdict.allowed && verdict.listening, connected.is_ok(), "{verdict:?}");
                        assert!(verdict.allowed || !verdict.why.is_empty());
                        assert!(verdict.allowed || connected.unwrap_err() != FabricError::NoSuchHost);
                    }
                }
            }
        });
    }

    /// What is isolated already can only gain by another policy.
    #[test]
    fn policies_only_add_to_each_other(
        labels in prop::collection::vec(some_labels(), 4),
        policies in prop::collection::vec(some_policy(), 0..3),
        more in some_policy(),
    ) {
        let closed = |namespace: &str| json!({
            "kind": "NetworkPolicy", "metadata": {"namespace": namespace, "name": "closed"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        });
        let mut before = policies;
        before.extend([closed("a"), closed("b")]);
        let mut after = before.clone();
        after.push(more);
        let ((one, uids), (other, _)) = (small_world(&labels, &before), small_world(&labels, &after));
        for from in &uids {
            for to in &uids {
                let allowed =
                    |fabric: &Fabric| fabric.reach(&source(from), &source(to), 80, Protocol::Tcp).allowed;
                prop_assert!(allowed(&other) || !allowed(&one), "{from} lost {to}");
            }
        }
    }
}
