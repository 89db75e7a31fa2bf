//! What a server takes to start, and what it holds in memory.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::connection::Body;
use crate::loads::{End, Kind, Place, run};
use crate::plan::not_measured;
use crate::servers::{Server, Which};
use crate::support::Result;
use crate::usage::Usage;

/// The name of the first measurement.
pub(crate) const START: &str = "start of an empty server";
/// The name of the last one.
pub(crate) const FULL: &str = "memory with 100000 ConfigMaps";

/// How many objects a full server has.
const OBJECTS: u64 = 100_000;
/// How many clients fill it.
const CLIENTS: usize = 64;
/// How long filling may take; the rest is then computed from what is there.
const FILLING: Duration = Duration::from_mins(1);
/// After this, what a server does by itself after its start is done.
const SETTLING: Duration = Duration::from_secs(2);

/// Starts each server some times, and looks at what it uses then.
pub(crate) async fn starts(which: &[Which], times: usize) -> Value {
    let mut entry = json!({"name": START});
    let mut seen: Vec<Result<Vec<Start>>> = which.iter().map(|_| Ok(Vec::new())).collect();
    for _ in 0..times {
        for (one, seen) in which.iter().zip(&mut seen) {
            eprintln!("{START}: {}", one.name());
            if let Ok(starts) = seen {
                match Start::of(one).await {
                    Ok(start) => starts.push(start),
                    Err(failure) => *seen = Err(failure),
                }
            }
        }
    }
    for (one, seen) in which.iter().zip(seen) {
        entry[one.name()] = match seen {
            Ok(starts) => Start::report(starts),
            Err(failure) => not_measured(&failure),
        };
    }
    entry
}

/// One start.
struct Start {
    ready: Duration,
    /// Processor time until it was ready.
    cpu: Duration,
    resident: u64,
}

impl Start {
    async fn of(which: &Which) -> Result<Self> {
        let server = which.start().await?;
        let cpu = Usage::of(&server.processes)?.cpu;
        tokio::time::sleep(SETTLING).await;
        Ok(Self { ready: server.ready, cpu, resident: Usage::of(&server.processes)?.resident })
    }

    fn report(mut starts: Vec<Self>) -> Value {
        starts.sort_by_key(|start| start.ready);
        let best = starts.first().map(|start| start.ready.as_secs_f64() * 1000.0);
        let middle = starts.get(starts.len() / 2);
        json!({
            "rounds": starts.len(),
            "ready_ms": middle.map(|start| start.ready.as_secs_f64() * 1000.0),
            "best_ready_ms": best,
            "cpu_ms": middle.map(|start| start.cpu.as_secs_f64() * 1000.0),
            "resident_bytes": middle.map(|start| start.resident),
        })
    }
}

/// Fills each server, one after the other, and looks at its memory.
pub(crate) async fn full(which: &[Which]) -> Value {
    let mut entry = json!({"name": FULL});
    for one in which {
        eprintln!("{FULL}: {}", one.name());
        let measured = async { fill(&one.start().await?).await };
        entry[one.name()] = measured.await.unwrap_or_else(|failure| not_measured(&failure));
    }
    entry
}

async fn fill(server: &Server) -> Result<Value> {
    tokio::time::sleep(SETTLING).await;
    let empty = Usage::of(&server.processes)?.resident;
    let place = Place::new(Kind::ConfigMap, "full");
    place.prepare(&mut server.dialer.dial().await?).await?;
    let start = Instant::now();
    let mut objects = 0;
    // In steps, to see in time when it takes too long.
    for step in 0..10 {
        let each = usize::try_from(OBJECTS)? / 10 / CLIENTS + 1;
        let place = place.clone();
        let round = run(server, CLIENTS, End::Turns(each), move |client, turn| {
            let name = format!("o-{step}-{client}-{turn}");
            (Method::POST, place.collection(), Body::Json(place.body(&name)))
        });
        objects += round.await?.operations;
        if start.elapsed() > FILLING {
            break;
        }
    }
    tokio::time::sleep(SETTLING).await;
    let resident = Usage::of(&server.processes)?.resident;
    let of_objects = resident.saturating_sub(empty);
    Ok(json!({
        "objects": objects,
        "filled_in_seconds": start.elapsed().as_secs_f64(),
        "resident_bytes": resident,
        "resident_bytes_at_100000": empty + of_objects * OBJECTS / objects.max(1),
        "bytes_per_object": of_objects / objects.max(1),
    }))
}
