//! The fabric: who reaches whom, by address and by name, and who does not.

use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use trellis_infra::kinds::{NETWORK_ATTACHMENT, NETWORK_POLICY, NODE, POD, SERVICE};
use trellis_infra::network::fabric::{Fabric, FabricError, Party, Protocol, Source, Stream, Verdict};
use trellis_infra::object::Object as _;
use trellis_infra::world::hosts::Host;

use super::network::{backend, service};
use crate::context::{Cx, PATIENCE, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(pods_talk_by_address_name_and_service),
        scenario!(policies_are_enforced_and_the_question_agrees),
        scenario!(a_service_leads_only_to_who_is_ready),
        scenario!(cut_links_are_silent),
        scenario!(what_makes_no_sense_is_refused).with(|_| {}),
        scenario!(a_service_is_asked_for_by_name),
        scenario!(an_address_of_another_program_is_not_given).on_machine_time().with(|settings| {
            settings.sockets = true;
            settings.load_balancers = "127.72.0.0/16".parse().unwrap_or(settings.load_balancers);
        }),
        scenario!(a_host_without_a_cable_is_silent).with(|_| {}),
        scenario!(two_networks_are_two_wires),
        scenario!(a_pod_waits_for_the_network_it_wants),
        scenario!(programs_of_this_machine_reach_load_balancers).on_machine_time().with(|settings| {
            settings.sockets = true;
            settings.load_balancers = "127.71.0.0/16".parse().unwrap_or(settings.load_balancers);
        }),
    ]
}

fn fabric(cx: &Cx) -> &Arc<Fabric> {
    &cx.infra.context().world.fabric
}

/// A pod that runs, and its address.
async fn running(cx: &Cx, pod: Value) -> Result<(Source, IpAddr)> {
    let key = cx.key(pod.name());
    cx.create(&POD, pod).await?;
    let pod = cx.until(&POD, &key, |pod| pod.condition_holds("Ready")).await?;
    Ok((Source::Pod(pod.uid().to_owned()), pod.text("/status/podIP").parse()?))
}

fn listen(cx: &Cx, pod: &Source, port: u16) -> UnboundedReceiver<Stream> {
    let uid = if let Source::Pod(uid) = pod { uid.as_str() } else { "" };
    fabric(cx).listen(uid, port)
}

/// Whether bytes pass both ways over a connection that was just made.
async fn talk(mut near: Stream, listener: &mut UnboundedReceiver<Stream>) -> Result {
    let accepted = timeout(PATIENCE, listener.recv()).await?;
    let mut far = accepted.ok_or("nobody listens any more")?;
    let mut bytes = [0; 4];
    near.write_all(b"ping").await?;
    far.read_exact(&mut bytes).await?;
    far.write_all(b"pong").await?;
    near.read_exact(&mut bytes).await?;
    assert_eq!(&bytes, b"pong");
    Ok(())
}

/// Waits until a name has addresses: endpoints take a moment.
async fn resolved(cx: &Cx, from: &Source, name: &str) -> Result<Vec<IpAddr>> {
    let mut changes = cx.client.cache(&trellis_infra::kinds::ENDPOINT_SLICE).changes();
    let found = async {
        loop {
            if let Ok(found) = fabric(cx).resolve(from, name).await {
                return found;
            }
            changes.recv().await;
        }
    };
    timeout(PATIENCE, found).await.map_err(|_| format!("{name} has no address").into())
}

async fn pods_talk_by_address_name_and_service(cx: Cx) -> Result {
    let (client, _) = running(&cx, backend("client", "client")).await?;
    let mut machine = backend("web", "web-1");
    machine.set("/spec/hostname", "m1".into());
    machine.set("/spec/subdomain", "web".into());
    let (server, address) = running(&cx, machine).await?;
    let mut listener = listen(&cx, &server, 8080);
    talk(fabric(&cx).connect(&client, address, 8080).await?, &mut listener).await?;
    assert_eq!(fabric(&cx).connect(&client, address, 81).await.err(), Some(FabricError::Refused));

    // A service without an address stands for its pods, and gives them names.
    cx.create(&SERVICE, service("web", &json!({"clusterIP": "None"}))).await?;
    assert_eq!(resolved(&cx, &client, "web").await?, [address]);
    let full = format!("m1.web.{}.svc.cluster.local", cx.namespace);
    assert_eq!(resolved(&cx, &client, &full).await?, [address]);
    talk(fabric(&cx).connect_name(&client, "m1.web", 8080).await?, &mut listener).await?;
    let dashed = format!("{}.{}.pod.cluster.local", address.to_string().replace('.', "-"), cx.namespace);
    assert_eq!(resolved(&cx, &client, &dashed).await?, [address]);

    // One with an address leads to them.
    let spec = json!({"selector": {"app": "web"}, "type": "LoadBalancer"});
    cx.create(&SERVICE, service("front", &spec)).await?;
    let given = |service: &Value| !service.text("/status/loadBalancer/ingress/0/ip").is_empty();
    let front = cx.until(&SERVICE, &cx.key("front"), given).await?;
    let cluster: IpAddr = front.text("/spec/clusterIP").parse()?;
    for name in ["front", &format!("front.{}", cx.namespace), &format!("front.{}.svc", cx.namespace)] {
        assert_eq!(resolved(&cx, &client, name).await?, [cluster], "{name}");
    }
    until_reached(&cx, &client, cluster, 80).await?;
    talk(fabric(&cx).connect_name(&client, "front", 80).await?, &mut listener).await?;
    // So do its other doors, for who is outside.
    let balancer: IpAddr = front.text("/status/loadBalancer/ingress/0/ip").parse()?;
    talk(fabric(&cx).connect(&Source::Outside, balancer, 80).await?, &mut listener).await?;
    let port = front.number("/spec/ports/0/nodePort").and_then(|port| u16::try_from(port).ok());
    let nodes = cx.client.cache(&NODE);
    nodes.complete().await;
    let ours =
        |node: &Arc<Value>| node.list("/status/addresses").iter().any(|one| one["type"] == "InternalIP");
    let node = nodes.list("").into_iter().find(ours).ok_or("no host has an address")?;
    let host: IpAddr = node.text("/status/addresses/0/address").parse()?;
    let port = port.ok_or("no node port")?;
    talk(fabric(&cx).connect(&Source::Outside, host, port).await?, &mut listener).await?;

    // Another name for it.
    let alias = json!({
        "metadata": {"name": "alias"},
        "spec": {"type": "ExternalName", "externalName": format!("front.{}.svc.cluster.local", cx.namespace)},
    });
    cx.create(&SERVICE, alias).await?;
    assert_eq!(resolved(&cx, &client, "alias").await?, [cluster]);
    assert_eq!(fabric(&cx).resolve(&client, "nobody").await, Err(FabricError::NoSuchHost));
    Ok(())
}

/// Waits until an address can be reached by somebody.
async fn until_reached(cx: &Cx, from: &Source, address: IpAddr, port: u16) -> Result<Verdict> {
    let mut changes = cx.client.cache(&trellis_infra::kinds::ENDPOINT_SLICE).changes();
    let ask = || fabric(cx).reach_address(from, address, port, Protocol::Tcp);
    let reached = async {
        loop {
            let verdict = ask();
            if verdict.allowed {
                return verdict;
            }
            changes.recv().await;
        }
    };
    timeout(PATIENCE, reached).await.map_err(|_| ask().why.into())
}

async fn a_service_leads_only_to_who_is_ready(cx: Cx) -> Result {
    let (client, _) = running(&cx, backend("client", "client")).await?;
    let made = cx.create(&SERVICE, service("web", &json!({}))).await?;
    let cluster: IpAddr = made.text("/spec/clusterIP").parse()?;
    let refused = fabric(&cx).reach_address(&client, cluster, 80, Protocol::Tcp);
    assert!(!refused.allowed && refused.why.contains("no ready endpoint"), "{}", refused.why);
    assert_eq!(fabric(&cx).connect(&client, cluster, 80).await.err(), Some(FabricError::Refused));
    let (server, _) = running(&cx, backend("web", "web-1")).await?;
    let mut listener = listen(&cx, &server, 8080);
    until_reached(&cx, &client, cluster, 80).await?;
    talk(fabric(&cx).connect(&client, cluster, 80).await?, &mut listener).await?;
    // The connection ends with the pod, and so does the way.
    let mut stream = fabric(&cx).connect(&client, cluster, 80).await?;
    cx.client.delete(&POD, &cx.key("web-1"), "").await?;
    cx.until_gone(&POD, &cx.key("web-1")).await?;
    let mut byte = [0];
    let ended = timeout(PATIENCE, stream.read(&mut byte)).await?;
    assert!(!matches!(ended, Ok(1)), "something was read from a pod that is gone");
    Ok(())
}

async fn policies_are_enforced_and_the_question_agrees(cx: Cx) -> Result {
    let (friend, _) = running(&cx, backend("friend", "friend")).await?;
    let (stranger, _) = running(&cx, backend("stranger", "stranger")).await?;
    let (server, address) = running(&cx, backend("web", "web-1")).await?;
    let _listeners = [8080, 9090].map(|port| listen(&cx, &server, port));
    let reaches = async |from: &Source, port: u16| {
        let verdict = fabric(&cx).reach(from, &server, port, Protocol::Tcp);
        let connected = fabric(&cx).connect(from, address, port).await;
        assert_eq!(verdict.allowed && verdict.listening, connected.is_ok(), "{}", verdict.why);
        (connected.err(), verdict.why)
    };
    assert_eq!(reaches(&stranger, 8080).await.0, None);
    let closed =
        json!({"metadata": {"name": "closed"}, "spec": {"podSelector": {"matchLabels": {"app": "web"}}}});
    cx.create(&NETWORK_POLICY, closed).await?;
    let (failure, why) = reaches(&friend, 8080).await;
    assert_eq!(failure, Some(FabricError::TimedOut));
    assert!(why.contains("isolated for ingress by closed"), "{why}");
    let opened = json!({"metadata": {"name": "friends"}, "spec": {
        "podSelector": {"matchLabels": {"app": "web"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}], "ports": [{"port": "http"}]}],
    }});
    cx.create(&NETWORK_POLICY, opened).await?;
    assert_eq!(reaches(&friend, 8080).await.0, None);
    assert_eq!(reaches(&friend, 9090).await.0, Some(FabricError::TimedOut));
    assert_eq!(reaches(&stranger, 8080).await.0, Some(FabricError::TimedOut));
    // The other side is asked, too: names included.
    let kept = json!({"metadata": {"name": "kept"}, "spec": {
        "podSelector": {"matchLabels": {"app": "friend"}}, "policyTypes": ["Egress"],
    }});
    cx.create(&NETWORK_POLICY, kept).await?;
    let (failure, why) = reaches(&friend, 8080).await;
    assert!(failure.is_some() && why.contains("isolated for egress by kept"), "{why}");
    let named = fabric(&cx).resolve(&friend, "kubernetes.default.svc").await;
    assert_eq!(named, Err(FabricError::TimedOut));
    fabric(&cx).resolve(&stranger, "kubernetes.default.svc").await?;
    Ok(())
}

async fn cut_links_are_silent(cx: Cx) -> Result {
    let (client, _) = running(&cx, backend("client", "client")).await?;
    let (server, address) = running(&cx, backend("web", "web-1")).await?;
    let mut listener = listen(&cx, &server, 8080);
    let (one, other) =
        (Party::Labelled("app".to_owned(), "web".to_owned()), Party::Namespace(cx.namespace.clone()));
    talk(fabric(&cx).connect(&client, address, 8080).await?, &mut listener).await?;
    fabric(&cx).cut(one.clone(), other.clone());
    let lost = fabric(&cx).connect(&client, address, 8080).await.err();
    let verdict = fabric(&cx).reach(&client, &server, 8080, Protocol::Tcp);
    let name = |pod: &str| format!("pod/{}/{pod}", cx.namespace);
    let question = json!({"from": name("client"), "to": name("web-1"), "port": 8080});
    let asked = ask(&cx, "reach", &question).await;
    assert!(fabric(&cx).mend(one, other));
    let asked = asked?;
    assert_eq!((asked.flag("/allowed"), asked.text("/why")), (false, verdict.why.as_str()));
    assert_eq!(lost, Some(FabricError::TimedOut));
    assert!(!verdict.allowed && verdict.why.ends_with("is cut"), "{}", verdict.why);
    talk(fabric(&cx).connect(&client, address, 8080).await?, &mut listener).await?;
    // The same from outside, through the API.
    let link = json!({"one": "everybody", "other": {"namespace": cx.namespace}});
    ask(&cx, "cuts", &link).await?;
    let path = format!("{LAB}/cuts");
    let cut = cx.client.send(Method::GET, &path, None).await?;
    let lost = fabric(&cx).connect(&client, address, 8080).await.err();
    cx.client.send(Method::DELETE, &path, Some(("application/json", &link))).await?;
    assert!(cut.list("/items").contains(&link), "{cut}");
    assert_eq!(lost, Some(FabricError::TimedOut));
    talk(fabric(&cx).connect(&client, address, 8080).await?, &mut listener).await
}

/// Where the lab's own API is.
const LAB: &str = "/apis/lab.trellis.dev/v1";

/// Posts to the lab's own API.
async fn ask(cx: &Cx, what: &str, body: &Value) -> Result<Value> {
    let path = format!("{LAB}/{what}");
    Ok(cx.client.send(Method::POST, &path, Some(("application/json", body))).await?)
}

async fn what_makes_no_sense_is_refused(cx: Cx) -> Result {
    let rule = json!({"name": "slow", "stage": "guest.boot", "delay": {"min": 1, "max": 2}});
    ask(&cx, "rules", &rule).await?;
    let (host, namespace) = (json!({"host": "nope"}), json!({"namespace": "nope"}));
    for (what, body, words) in [
        ("rules", rule, "there is a rule \"slow\" already"),
        ("rules", json!({"name": "a", "stage": "guest.boot"}), "changes nothing"),
        (
            "rules",
            json!({"name": "a", "stage": "guest.boot", "delay": {"min": 9, "max": 1}}),
            "backwards: 9..1",
        ),
        (
            "rules",
            json!({"name": "a", "stage": "guest.boot", "delay": {"min": -1, "max": 1}}),
            "between 0 and",
        ),
        (
            "rules",
            json!({"name": "a", "stage": "guest.boot", "delay": {"min": 1, "max": 1e19}}),
            "between 0 and",
        ),
        (
            "rules",
            json!({"name": "a", "stage": "guest.boot", "effect": "hang", "weight": 2}),
            "have a weight",
        ),
        ("cuts", json!({"one": "outside", "other": host}), "there is no host/nope"),
        ("cuts", json!({"one": namespace, "other": "api"}), "there is no namespace/nope"),
        ("machines/web/panic", json!({}), "default/web"),
        ("reach", json!({"from": "outside", "to": "outside", "port": 1}), "name the one that is meant"),
        ("reach", json!({"from": "outside", "to": "no.default.svc", "port": 1}), "no service default/no"),
    ] {
        let refused = ask(&cx, what, &body).await.expect_err("it makes no sense").to_string();
        assert!(refused.contains(words), "{what} {body}: {refused}");
    }
    assert!(fabric(&cx).cuts().is_empty());
    Ok(())
}

async fn a_service_is_asked_for_by_name(cx: Cx) -> Result {
    running(&cx, backend("client", "client")).await?;
    let (server, _) = running(&cx, backend("web", "web-1")).await?;
    let _listener = listen(&cx, &server, 8080);
    let spec = json!({"ports": [{"port": 80, "targetPort": 8080}]});
    let made = cx.create(&SERVICE, service("web", &spec)).await?;
    let client = cx.until(&POD, &cx.key("client"), |_| true).await?;
    let address: IpAddr = made.text("/spec/clusterIP").parse()?;
    until_reached(&cx, &Source::Pod(client.uid().to_owned()), address, 80).await?;
    for name in [format!("web.{}.svc", cx.namespace), format!("web.{}.svc.cluster.local", cx.namespace)] {
        let from = format!("pod/{}/client", cx.namespace);
        let verdict = ask(&cx, "reach", &json!({"from": from, "to": name, "port": 80})).await?;
        assert!(verdict.flag("/allowed") && verdict.flag("/listening"), "{verdict}");
    }
    Ok(())
}

async fn an_address_of_another_program_is_not_given(cx: Cx) -> Result {
    let other = tokio::net::TcpListener::bind("127.72.0.1:38444").await?;
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 38_444, "targetPort": 8080}]});
    cx.create(&SERVICE, service("web", &spec)).await?;
    let given = |service: &Value| !service.text("/status/loadBalancer/ingress/0/ip").is_empty();
    let front = cx.until(&SERVICE, &cx.key("web"), given).await?;
    assert_eq!(front.text("/status/loadBalancer/ingress/0/ip"), "127.72.0.2");
    let mut wants = service("wants", &spec);
    wants["spec"]["loadBalancerIP"] = "127.72.0.1".into();
    cx.create(&SERVICE, wants).await?;
    let failed = cx.until_event("wants", "SyncLoadBalancerFailed").await?;
    assert!(failed.text("/message").ends_with("requested address 127.72.0.1 is in use"), "{failed}");
    drop(other);
    Ok(())
}

async fn a_host_without_a_cable_is_silent(cx: Cx) -> Result {
    let (client, _) = running(&cx, backend("client", "client")).await?;
    let node = cx.until(&POD, &cx.key("client"), |_| true).await?.text("/spec/nodeName").to_owned();
    let mut apart = backend("web", "web-1");
    apart.set(
        "/spec/affinity",
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]},
        ]}}}),
    );
    let (server, address) = running(&cx, apart).await?;
    let mut listener = listen(&cx, &server, 8080);
    talk(fabric(&cx).connect(&client, address, 8080).await?, &mut listener).await?;
    let mut standing = fabric(&cx).connect(&client, address, 8080).await?;
    let mut far = listener.recv().await.ok_or("nobody listens")?;
    let hosts = &cx.infra.context().world.hosts;
    hosts.set(&node, Host { powered: true, connected: false });
    assert_eq!(fabric(&cx).connect(&client, address, 8080).await.err(), Some(FabricError::TimedOut));
    let local: IpAddr = cx.until(&POD, &cx.key("client"), |_| true).await?.text("/status/podIP").parse()?;
    let mut own = listen(&cx, &client, 8080);
    talk(fabric(&cx).connect(&client, local, 8080).await?, &mut own).await?;
    // The cable is back in time: what was connected goes on.
    hosts.set(&node, Host::UP);
    standing.write_all(b"x").await?;
    assert_eq!(far.read_u8().await?, b'x');
    Ok(())
}

async fn two_networks_are_two_wires(cx: Cx) -> Result {
    for (name, vlan) in [("blue", 100), ("also-blue", 100), ("red", 200)] {
        let config = json!({
            "cniVersion": "0.3.1", "type": "bridge", "bridge": "br1", "vlan": vlan,
            "ipam": {"type": "whereabouts", "range": format!("192.168.{vlan}.0/24")},
        });
        let object = json!({"metadata": {"name": name}, "spec": {"config": config.to_string()}});
        cx.create(&NETWORK_ATTACHMENT, object).await?;
    }
    let mut sources = Vec::new();
    for (name, network) in [("one", "blue"), ("two", "also-blue"), ("three", "red")] {
        let mut pod = backend("wires", name);
        pod.set_annotation("k8s.v1.cni.cncf.io/networks", network);
        let (source, _) = running(&cx, pod).await?;
        let pod = cx.until(&POD, &cx.key(name), |_| true).await?;
        let status: Value = serde_json::from_str(pod.annotation("k8s.v1.cni.cncf.io/network-status"))?;
        assert_eq!(status[0]["ips"], json!([pod.text("/status/podIP")]));
        assert_eq!(status[1]["name"], format!("{}/{network}", cx.namespace));
        sources.push((source, status.text("/1/ips/0").parse::<IpAddr>()?));
    }
    let [(one, first), (two, second), (three, third)] = sources.as_slice() else {
        return Err("three pods were started".into());
    };
    assert_ne!(first, second, "one wire, one address each");
    let mut listener = listen(&cx, two, 8080);
    let mut other = listen(&cx, three, 8080);
    talk(fabric(&cx).connect(one, *second, 8080).await?, &mut listener).await?;
    assert_eq!(fabric(&cx).connect(one, *third, 8080).await.err(), Some(FabricError::TimedOut));
    // The pod network is between them all the same.
    let pod = cx.until(&POD, &cx.key("three"), |_| true).await?;
    talk(fabric(&cx).connect(one, pod.text("/status/podIP").parse()?, 8080).await?, &mut other).await
}

async fn a_pod_waits_for_the_network_it_wants(cx: Cx) -> Result {
    let mut pod = backend("wires", "one");
    pod.set_annotation("k8s.v1.cni.cncf.io/networks", r#"[{"name": "late", "interface": "pod1"}]"#);
    cx.create(&POD, pod).await?;
    let event = cx.until_event("one", "FailedCreatePodSandBox").await?;
    assert!(event.text("/message").contains("cannot find a network-attachment-definition (late)"), "{event}");
    let pod = cx.until(&POD, &cx.key("one"), |_| true).await?;
    assert_eq!((pod.text("/status/phase"), pod.text("/status/podIP")), ("Pending", ""));
    let config =
        json!({"type": "bridge", "bridge": "br1", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    let late = json!({"metadata": {"name": "late"}, "spec": {"config": config.to_string()}});
    cx.create(&NETWORK_ATTACHMENT, late).await?;
    let pod = cx.until(&POD, &cx.key("one"), |pod| pod.condition_holds("Ready")).await?;
    let status: Value = serde_json::from_str(pod.annotation("k8s.v1.cni.cncf.io/network-status"))?;
    assert_eq!((status.text("/1/interface"), status.text("/1/ips/0")), ("pod1", "10.9.0.2"));
    Ok(())
}

async fn programs_of_this_machine_reach_load_balancers(cx: Cx) -> Result {
    let (server, _) = running(&cx, backend("web", "web-1")).await?;
    let mut listener = listen(&cx, &server, 8080);
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 38_443, "targetPort": 8080}]});
    cx.create(&SERVICE, service("web", &spec)).await?;
    let given = |service: &Value| !service.text("/status/loadBalancer/ingress/0/ip").is_empty();
    let front = cx.until(&SERVICE, &cx.key("web"), given).await?;
    let balancer: IpAddr = front.text("/status/loadBalancer/ingress/0/ip").parse()?;
    until_reached(&cx, &Source::Outside, balancer, 38_443).await?;
    let node_port = front.number("/spec/ports/0/nodePort").and_then(|port| u16::try_from(port).ok());
    let doors = [(balancer, 38_443), ("127.0.0.1".parse()?, node_port.ok_or("no node port")?)];
    for door in doors {
        let mut socket = until_open(door).await?;
        socket.write_all(b"ping").await?;
        let mut inside = timeout(PATIENCE, listener.recv()).await?.ok_or("nobody listens")?;
        let mut bytes = [0; 4];
        inside.read_exact(&mut bytes).await?;
        inside.write_all(&bytes).await?;
        drop(inside);
        let mut back = Vec::new();
        socket.read_to_end(&mut back).await?;
        assert_eq!(back, b"ping");
    }
    cx.client.delete(&SERVICE, &cx.key("web"), "").await?;
    cx.until_gone(&SERVICE, &cx.key("web")).await?;
    let closed = async {
        while TcpStream::connect(doors[0]).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    Ok(timeout(PATIENCE, closed).await?)
}

/// Connects as soon as somebody listens.
async fn until_open(door: (IpAddr, u16)) -> Result<TcpStream> {
    let open = async {
        loop {
            if let Ok(socket) = TcpStream::connect(door).await {
                return socket;
            }
            tokio::task::yield_now().await;
        }
    };
    Ok(timeout(PATIENCE, open).await?)
}
