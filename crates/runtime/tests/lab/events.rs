//! Events are told without waiting, and counted up instead of repeated.

use std::time::Duration;

use serde_json::Value;
use trellis_lab::faults::{Fault, Matching, When};
use trellis_runtime::client::Verb;
use trellis_runtime::events::{Kind, Note, Recorder, Regarding};
use trellis_runtime::{CancellationToken, Resource, Selection};

use crate::support::{CONFIG_MAP, World, key, until};

const EVENT: Resource = Resource::namespaced("", "v1", "events", "Event");

fn note(name: &str, message: &str) -> Note {
    let regarding = Regarding { resource: CONFIG_MAP, key: key(name), uid: name.into() };
    Note { regarding, kind: Kind::Warning, reason: "Late", message: message.to_owned() }
}

fn start(world: &World) -> (Recorder, CancellationToken) {
    let (recorder, teller) = Recorder::new(&world.site, world.clock, "trellis-test");
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move { teller.run(&token).await });
    (recorder, stop)
}

async fn told(world: &World) -> Vec<String> {
    let events: Vec<Value> = world.other().list(&EVENT, &Selection::namespace("default")).await.unwrap();
    let line = |event: &Value| {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {} x{}", text("type"), text("reason"), text("message"), event["count"])
    };
    let mut lines: Vec<_> =
        events.iter().filter(|event| event["source"]["component"] == "trellis-test").map(line).collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn what_is_said_again_is_counted_and_written_rarely() {
    let world = World::new().await;
    let (recorder, _stop) = start(&world);
    for _ in 0..100 {
        recorder.record(note("a", "no image"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    recorder.record(note("a", "other news"));
    until("the counts are told", || async {
        told(&world).await == ["Warning Late no image x100", "Warning Late other news x1"]
    })
    .await;
    assert_eq!(recorder.dropped(), 0);
    let patches = world.site.traffic().of(Verb::Patch, &EVENT);
    assert!((2..=3).contains(&patches), "100 repetitions in 10 s are {patches} patches");
    assert_eq!(world.site.traffic().of(Verb::Create, &EVENT), 2);
}

#[tokio::test(start_paused = true)]
async fn who_has_too_much_to_tell_is_cut_short() {
    let world = World::new().await;
    let (recorder, _stop) = start(&world);
    for number in 0..60 {
        recorder.record(note("a", &format!("news {number}")));
    }
    recorder.record(note("b", "news"));
    until("all is told or dropped", || async { recorder.dropped() == 35 && told(&world).await.len() == 26 })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_keeps_nobody_waiting() {
    let world = World::new().await;
    let slow = Fault::Delay(Duration::from_secs(20));
    world.lab.faults().add(Matching::new("create", "events"), When::Always, slow);
    let (recorder, stop) = start(&world);
    let began = tokio::time::Instant::now();
    for number in 0..3000 {
        recorder.record(note(&format!("m{number}"), "news"));
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(recorder.dropped() >= 1900, "{}", recorder.dropped());
    stop.cancel();
}
