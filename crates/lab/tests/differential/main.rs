//! Random sequences of writes, taken on the lab and on the real server, which have to answer alike.
//!
//! Runs where `TRELLIS_CONFORMANCE` names `real`. `TRELLIS_DIFFERENTIAL` may say how many sequences there
//! are of each kind, and the first seed: `200` or `200,12345`. A difference tells its seed, and the shortest
//! sequence that still shows it.

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod support;

mod compare;
mod kinds;
mod random;
mod sequence;
mod steps;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};

use kinds::Kind;
use sequence::{Both, Sequence};
use support::Result;

/// How many sequences of each kind there are, if nobody says otherwise.
const SEQUENCES: u64 = 25;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let chosen = std::env::var("TRELLIS_CONFORMANCE").unwrap_or_default();
    let wanted = chosen.split(',').any(|name| name.trim() == "real");
    let (count, seed) = extent();
    let servers = match Servers::new() {
        Ok(servers) => Arc::new(servers),
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    };
    if !wanted {
        eprintln!("nothing to compare with: the tier `real server` runs this, or TRELLIS_CONFORMANCE=real");
    }
    let kinds = Kind::ALL.into_iter().filter(|_| wanted);
    let trials = kinds.map(|kind| {
        let servers = Arc::clone(&servers);
        let run = move || servers.run(kind, count, seed).map_err(|failure| Failed::from(failure.to_string()));
        Trial::test(kind.resource(), run)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(servers);
    conclusion.exit_code()
}

/// How many sequences of each kind, and the first seed.
fn extent() -> (u64, u64) {
    let text = std::env::var("TRELLIS_DIFFERENTIAL").unwrap_or_default();
    let mut numbers = text.split(',').map(|number| number.trim().parse().ok());
    (numbers.next().flatten().unwrap_or(SEQUENCES), numbers.next().flatten().unwrap_or(1))
}

/// Both servers, started by the first kind that needs them.
struct Servers {
    runtime: Runtime,
    directory: tempfile::TempDir,
    both: OnceLock<std::result::Result<Both, String>>,
}

impl Servers {
    fn new() -> Result<Self> {
        Ok(Self {
            runtime: Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
            directory: tempfile::Builder::new().prefix("trellis-differential-").tempdir()?,
            both: OnceLock::new(),
        })
    }

    /// Runs the sequences of a kind; a failure tells all that differ.
    fn run(&self, kind: Kind, count: u64, seed: u64) -> Result {
        let started = self.both.get_or_init(|| {
            self.runtime.block_on(Both::start(self.directory.path())).map_err(|failure| failure.to_string())
        });
        let both = started.as_ref().map_err(Clone::clone)?;
        let mut reports = Vec::new();
        for seed in seed..seed + count {
            let sequence = Sequence::random(kind, seed);
            if let Some(report) = self.runtime.block_on(sequence.examine(both))? {
                reports.push(report);
            }
        }
        if reports.is_empty() {
            return Ok(());
        }
        Err(format!("{} of {count} sequences differ\n\n{}", reports.len(), reports.join("\n\n")).into())
    }
}
