use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::ends::{Party, Protocol};
use super::*;

fn two_pods() -> Fabric {
    let fabric = fabric(&[pod("a", "one", &json!({}), "h1"), pod("b", "two", &json!({"t": "x"}), "h2")]);
    plug(&fabric, "a/one", "", "10.64.0.2,fd00::2");
    plug(&fabric, "b/two", "", "10.64.1.2,fd00:1::2");
    fabric
}

#[tokio::test(start_paused = true)]
async fn pods_reach_each_other_by_address_of_both_families() {
    let fabric = two_pods();
    let mut listener = fabric.listen("b/two", 80);
    for (address, own) in [("10.64.1.2", "10.64.0.2"), ("fd00:1::2", "fd00::2")] {
        let mut near = connect(&fabric, "a/one", address, 80).await.unwrap();
        let mut far = listener.recv().await.unwrap();
        assert!(carries(&mut near, &mut far).await && carries(&mut far, &mut near).await);
        assert_eq!((far.peer().ip(), near.peer().ip(), near.peer().port()), (ip(own), ip(address), 80));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_silence_and_nobody_listening_a_refusal() {
    let fabric = two_pods();
    let start = Instant::now();
    assert_eq!(connect(&fabric, "a/one", "10.64.1.2", 81).await.unwrap_err(), FabricError::Refused);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(connect(&fabric, "a/one", "10.64.9.9", 80).await.unwrap_err(), FabricError::TimedOut);
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert_eq!(connect(&fabric, "nobody", "10.64.1.2", 80).await.unwrap_err(), FabricError::Unreachable);
    // A listener that is dropped does not listen.
    drop(fabric.listen("b/two", 80));
    assert_eq!(connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap_err(), FabricError::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_machine_reaches_itself_by_every_address_it_believes_in() {
    let fabric = two_pods();
    let mut listener = fabric.listen("a/one", 6443);
    for address in ["127.0.0.1", "::1", "10.0.2.2", "10.64.0.2"] {
        connect(&fabric, "a/one", address, 6443).await.unwrap();
        listener.recv().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_resets_its_connections() {
    let fabric = two_pods();
    let mut listener = fabric.listen("b/two", 80);
    let mut near = connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap();
    let _far = listener.recv().await.unwrap();
    fabric.unplug("b/two");
    let failure = near.read_u8().await.unwrap_err();
    assert_eq!(failure.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap_err(), FabricError::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn hosts_without_power_or_cable_are_silent() {
    let fabric = two_pods();
    let mut listener = fabric.listen("b/two", 80);
    let mut near = connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap();
    let mut far = listener.recv().await.unwrap();
    fabric.hosts.set("h2", Host { powered: true, connected: false });
    fabric.recheck();
    assert_eq!(connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap_err(), FabricError::TimedOut);
    // What is on one host still talks.
    plug(&fabric, "b/three", "", "10.64.1.3");
    connect(&fabric, "b/two", "10.64.1.2", 80).await.unwrap();
    fabric.hosts.set("h2", Host::UP);
    fabric.recheck();
    assert!(carries(&mut near, &mut far).await, "a stalled connection goes on");
    fabric.hosts.set("h2", Host { powered: false, connected: true });
    fabric.recheck();
    assert_eq!(connect(&fabric, "b/two", "10.64.1.2", 80).await.unwrap_err(), FabricError::Unreachable);
    let start = Instant::now();
    assert_eq!(near.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn cut_links_are_silent_until_they_are_mended() {
    let fabric = two_pods();
    let _listener = fabric.listen("b/two", 80);
    let others = [
        (Party::Namespace("a".to_owned()), Party::Namespace("b".to_owned())),
        (Party::Pod("b/two".to_owned()), Party::Everybody),
        (Party::Labelled("t".to_owned(), "x".to_owned()), Party::Host("h1".to_owned())),
    ];
    for (one, other) in others {
        fabric.cut(one.clone(), other.clone());
        assert_eq!(connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap_err(), FabricError::TimedOut);
        let verdict = fabric.reach(&source("a/one"), &source("b/two"), 80, Protocol::Tcp);
        assert!(!verdict.allowed && verdict.why.contains("cut"), "{}", verdict.why);
        assert!(fabric.mend(other, one));
        connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_down_hides_the_machine_but_not_its_pod() {
    let fabric = two_pods();
    let _listener = fabric.listen("b/two", 80);
    fabric.set_link("b/two", "", false);
    assert_eq!(connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap_err(), FabricError::TimedOut);
    assert_eq!(connect(&fabric, "b/two", "10.64.0.2", 80).await.unwrap_err(), FabricError::Unreachable);
    fabric.set_link("b/two", "", true);
    connect(&fabric, "a/one", "10.64.1.2", 80).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_made_when_the_way_opens_in_time() {
    let fabric = two_pods();
    let _listener = fabric.listen("b/two", 80);
    let cut = || (Party::Pod("a/one".to_owned()), Party::Everybody);
    fabric.cut(cut().0, cut().1);
    let mend = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        fabric.mend(cut().0, cut().1)
    };
    let start = Instant::now();
    let (connected, mended) = tokio::join!(connect(&fabric, "a/one", "10.64.1.2", 80), mend);
    assert!(connected.is_ok() && mended);
    assert_eq!(start.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn only_what_has_a_door_is_entered_from_outside() {
    let fabric = two_pods();
    let _listener = fabric.listen("b/two", 80);
    let entered = fabric.connect(&Source::Outside, ip("10.64.1.2"), 80).await;
    assert_eq!(entered.unwrap_err(), FabricError::TimedOut);
    let left = fabric.connect(&source("a/one"), ip("203.0.113.7"), 443).await;
    assert_eq!(left.unwrap_err(), FabricError::Refused);
}

#[tokio::test]
async fn datagrams_arrive_with_where_they_came_from() {
    let fabric = two_pods();
    let mut inbox = fabric.bind("b/two", 53);
    let mut answers = fabric.bind("a/one", 4000);
    let to = (ip("10.64.1.2"), 53).into();
    fabric.send(&source("a/one"), 4000, to, Bytes::from_static(b"?")).unwrap();
    let asked = inbox.recv().await.unwrap();
    assert_eq!((asked.from, &asked.bytes[..]), ((ip("10.64.0.2"), 4000).into(), &b"?"[..]));
    fabric.send(&source("b/two"), 53, asked.from, Bytes::from_static(b"!")).unwrap();
    assert_eq!(&answers.recv().await.unwrap().bytes[..], b"!");
}

#[tokio::test(start_paused = true)]
async fn one_wire_per_bridge_and_vlan() {
    let attachment = |namespace: &str, name: &str, vlan: u16| {
        let config = json!({"type": "bridge", "bridge": "br1", "vlan": vlan}).to_string();
        json!({
            "kind": "NetworkAttachmentDefinition", "metadata": {"namespace": namespace, "name": name},
            "spec": {"config": config},
        })
    };
    let fabric = fabric(&[attachment("a", "x", 100), attachment("b", "y", 100), attachment("b", "z", 200)]);
    plug(&fabric, "one", "a/x", "192.168.0.1");
    plug(&fabric, "two", "b/y", "192.168.0.2");
    plug(&fabric, "three", "b/z", "192.168.0.3");
    let _listeners = ["two", "three"].map(|uid| fabric.listen(uid, 80));
    connect(&fabric, "one", "192.168.0.2", 80).await.unwrap();
    assert_eq!(connect(&fabric, "one", "192.168.0.3", 80).await.unwrap_err(), FabricError::Unreachable);
    // An address moves to who claims it last, and back.
    let _listener = fabric.listen("one", 80);
    assert!(fabric.add_address("two", "b/y", ip("192.168.0.100")));
    assert!(fabric.add_address("one", "a/x", ip("192.168.0.100")));
    plug(&fabric, "four", "a/x", "");
    let mut stream = connect(&fabric, "four", "192.168.0.100", 80).await.unwrap();
    fabric.unplug("one");
    assert!(stream.read_u8().await.is_err());
    connect(&fabric, "four", "192.168.0.100", 80).await.unwrap();
}

#[tokio::test]
async fn the_world_outside_is_what_was_given_a_name() {
    let fabric = two_pods();
    let mut served = fabric.serve_external("images.example", 443);
    let mut near = fabric.connect_name(&source("a/one"), "images.example", 443).await.unwrap();
    assert!(carries(&mut near, &mut served.recv().await.unwrap()).await);
    let other = fabric.connect_name(&source("a/one"), "other.example", 443).await;
    assert_eq!(other.unwrap_err(), FabricError::NoSuchHost);
    // Real sockets are for those who asked for them.
    fabric.external("real.example", ([127, 0, 0, 1], 0).into());
    let real = fabric.connect_name(&source("a/one"), "real.example", 1).await;
    assert_eq!(real.unwrap_err(), FabricError::Refused);
}

#[tokio::test]
async fn real_sockets_are_reached_by_name_where_they_may_be_used() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut directory = Directory::of(&[pod("a", "one", &json!({}), "h1")]);
    directory.sockets = true;
    let fabric = fabric(&[]);
    fabric.inform(directory);
    plug(&fabric, "a/one", "", "10.64.0.2");
    let address = listener.local_addr().unwrap();
    fabric.external("images.example", address);
    fabric.external("any.example", (address.ip(), 0).into());
    for (name, port) in [("images.example", 443), ("any.example", address.port())] {
        let mut near = fabric.connect_name(&source("a/one"), name, port).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        near.write_all(b"hi").await.unwrap();
        let mut bytes = [0; 2];
        far.read_exact(&mut bytes).await.unwrap();
        assert_eq!((&bytes, near.peer().port()), (b"hi", port));
    }
}
