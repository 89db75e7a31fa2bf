//! Watches: one writer, and many who want to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;

use crate::connection::Body;
use crate::loads::{Kind, Place};
use crate::outcome::Round;
use crate::servers::Server;
use crate::support::Result;
use crate::usage::Usage;

/// So many events may be on their way at most; a server may end the watches of those who fall too far behind.
const AHEAD: u64 = 16;
/// How long the last event may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// One in so many watchers takes the time of what it gets; all would be too much work for the client.
const SAMPLED: usize = 50;

/// A number of watchers of one object that changes all the time.
#[derive(Debug)]
pub(crate) struct Fanout {
    /// What the report calls it.
    pub(crate) name: &'static str,
    watchers: usize,
    /// How many watches share a connection. A client of Kubernetes has one connection to a server, and the
    /// server allows it a hundred requests at a time.
    sharing: usize,
}

/// All of them, in the order they run.
pub(crate) const FANOUTS: &[Fanout] = &[
    Fanout { name: "watch, 100 watchers", watchers: 100, sharing: 100 },
    Fanout { name: "watch, 1000 watchers", watchers: 1_000, sharing: 100 },
    Fanout { name: "watch, 1000 watchers on 1000 connections", watchers: 1_000, sharing: 1 },
];

/// What watchers and writer tell each other.
struct Progress {
    start: Instant,
    /// Events that arrived, at all watchers together.
    delivered: AtomicU64,
    arrived: Notify,
    /// Watches that ended.
    lost: AtomicU64,
    /// What those who take the time took, in microseconds.
    latencies: Mutex<Vec<u32>>,
}

impl Fanout {
    /// One round on one server: about `time` of events.
    pub(crate) async fn round(&self, server: &Server, round: usize, time: Duration) -> Result<Round> {
        let namespace = format!("watched-{}-{}-{round}", self.watchers, self.sharing);
        let place = Place::new(Kind::ConfigMap, &namespace);
        let mut writer = server.dialer.dial().await?;
        place.prepare(&mut writer).await?;
        let created = Body::Json(place.body("ticker"));
        let created = writer.expect(Method::POST, &place.collection(), created, &[201]).await?;
        let created: Value = serde_json::from_slice(&created)?;
        let version = created["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();

        let progress = Arc::new(Progress {
            start: Instant::now(),
            delivered: AtomicU64::new(0),
            arrived: Notify::new(),
            lost: AtomicU64::new(0),
            latencies: Mutex::default(),
        });
        let path = format!("{}?watch=1&resourceVersion={version}", place.collection());
        let mut watches = JoinSet::new();
        let mut connection = server.dialer.dial().await?;
        for number in 0..self.watchers {
            if number > 0 && number % self.sharing == 0 {
                connection = server.dialer.dial().await?;
            }
            let response = connection.send(Method::GET, &path, Body::None).await?;
            if response.status() != 200 {
                return Err(format!("the watch is answered with {}", response.status()).into());
            }
            let sampled = number % SAMPLED == 0;
            watches.spawn(follow(response.into_body(), sampled, Arc::clone(&progress)));
        }

        let watchers = u64::try_from(self.watchers)?;
        let before = Usage::of(&server.processes)?;
        let start = Instant::now();
        let mut written = 0;
        while start.elapsed() < time {
            progress.until(written, AHEAD, watchers).await?;
            let since = progress.start.elapsed().as_micros();
            let patch = json!({"data": {"turn": since.to_string()}});
            let patch = Body::MergePatch(patch.to_string().into());
            writer.expect(Method::PATCH, &place.object("ticker"), patch, &[200]).await?;
            written += 1;
        }
        progress.until(written, 0, watchers).await?;
        let time = start.elapsed();
        let after = Usage::of(&server.processes)?;

        let latencies = std::mem::take(&mut *progress.latencies.lock().await);
        Ok(Round {
            operations: written * watchers,
            time,
            server: after.cpu.saturating_sub(before.cpu),
            latencies,
        })
    }
}

impl Progress {
    /// Waits until at most `ahead` of the written events are still on their way.
    async fn until(&self, written: u64, ahead: u64, watchers: u64) -> Result {
        let enough = written.saturating_sub(ahead) * watchers;
        let arrived = async {
            loop {
                let next = self.arrived.notified();
                if self.delivered.load(Ordering::Relaxed) >= enough || self.lost.load(Ordering::Relaxed) > 0 {
                    return;
                }
                next.await;
            }
        };
        if tokio::time::timeout(PATIENCE, arrived).await.is_err() {
            let missing = enough.saturating_sub(self.delivered.load(Ordering::Relaxed));
            return Err(format!("{missing} events never arrive").into());
        }
        match self.lost.load(Ordering::Relaxed) {
            0 => Ok(()),
            lost => Err(format!("the server ended {lost} watches").into()),
        }
    }
}

/// Reads a watch until it ends or is dropped.
async fn follow(mut body: Incoming, sampled: bool, progress: Arc<Progress>) {
    let mut line = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        if sampled {
            let now = progress.start.elapsed();
            let mut latencies = progress.latencies.lock().await;
            latencies.extend(
                sent_in(data, &mut line)
                    .map(|sent| u32::try_from(now.saturating_sub(sent).as_micros()).unwrap_or(u32::MAX)),
            );
        }
        let events = events_in(data);
        progress.delivered.fetch_add(u64::try_from(events).unwrap_or_default(), Ordering::Relaxed);
        progress.arrived.notify_one();
    }
    progress.lost.fetch_add(1, Ordering::Relaxed);
    progress.arrived.notify_one();
}

/// How many events end in `data`. An event is a line, and most pieces are one line.
fn events_in(data: &[u8]) -> usize {
    data.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).count()
}

/// When the events that end in `data` were sent; what is left of a line stays in `line`.
fn sent_in<'a>(data: &'a Bytes, line: &'a mut Vec<u8>) -> impl Iterator<Item = Duration> + 'a {
    data.split_inclusive(|byte| *byte == b'\n').filter_map(move |piece| {
        line.extend_from_slice(piece);
        if !piece.ends_with(b"\n") {
            return None;
        }
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        line.clear();
        let micros = event["object"]["data"]["turn"].as_str()?.parse().ok()?;
        Some(Duration::from_micros(micros))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_counts_where_it_ends() {
        assert_eq!((events_in(b""), events_in(b"a"), events_in(b"a\nb"), events_in(b"a\nb\n")), (0, 0, 1, 2));
    }

    #[test]
    fn events_are_found_across_pieces() {
        let mut line = Vec::new();
        let mut read = |data: &'static str| -> Vec<u128> {
            sent_in(&Bytes::from(data), &mut line).map(|sent| sent.as_micros()).collect()
        };
        assert_eq!(read("{\"object\":{\"data\":{\"turn\":\"7\"}}}\n{\"obj"), [7]);
        assert_eq!(read("ect\":{\"data\":{\"turn\":\"9\"}}}\n"), [9]);
    }
}
