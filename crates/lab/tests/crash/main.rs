//! What the lab promises across crashes: it is killed in the middle of writing, again and again on the same
//! folder, and has to come back with everything it ever acknowledged.
//!
//! `TRELLIS_CRASH_ROUNDS` says how often, `TRELLIS_CRASH_SEED` repeats the random choices of a run.

mod model;
mod server;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "shared with tests that use more of it")]
mod support;
mod writers;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::sleep;

use model::Model;
use server::Server;
use support::Result;

/// How often the lab is killed when nothing else is said.
const ROUNDS: usize = 200;
/// The longest a round writes before the kill, in milliseconds.
const WRITING: u64 = 150;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(server::SERVE) {
        let folder = words.next().unwrap_or_default();
        return server::serve(Path::new(&folder));
    }
    let trial = Trial::test("no_acknowledged_write_is_lost_by_kill_9", || {
        run().map_err(|failure| failure.to_string().into())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

fn run() -> Result {
    let rounds = number("TRELLIS_CRASH_ROUNDS").map_or(Ok(ROUNDS), usize::try_from)?;
    let seed = number("TRELLIS_CRASH_SEED").unwrap_or_else(|| rand::rng().random());
    let folder = tempfile::Builder::new().prefix("trellis-crash-").tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = Instant::now();
    let acknowledged = runtime
        .block_on(crash(folder.path(), rounds, &mut StdRng::seed_from_u64(seed)))
        .map_err(|failure| format!("with TRELLIS_CRASH_SEED={seed}: {failure}"))?;
    eprintln!(
        "{rounds} rounds of kill -9 in {:.1} s: {acknowledged} acknowledged writes, none lost",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Starts, checks, writes and kills, so many times; and checks once more.
async fn crash(folder: &Path, rounds: usize, random: &mut StdRng) -> Result<u64> {
    let mut model = Model::new();
    for round in 0..rounds {
        let server = Server::start(folder).await.map_err(|failure| format!("round {round}: {failure}"))?;
        model.check(&server).await.map_err(|failure| format!("round {round}: {failure}"))?;
        let writing = writers::start(&server, &mut model, random);
        sleep(Duration::from_millis(random.random_range(1..=WRITING))).await;
        server.kill()?;
        writing.collect(&mut model).await.map_err(|failure| format!("round {round}: {failure}"))?;
    }
    model.check(&Server::start(folder).await?).await?;
    Ok(model.acknowledged())
}
