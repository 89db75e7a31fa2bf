//! One suite of client-side scenarios, run with the same assertions against the lab and the real server.
//!
//! `TRELLIS_CONFORMANCE` picks the servers (`lab`, `real`, or both by a comma; the lab alone if it is not
//! set). Trials are called after their server, file and scenario, such as `real::watch::bookmarks`.

#![expect(clippy::similar_names, reason = "a path and a patch are called what they are")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod support;

mod context;
mod crds;
mod hooks;
mod scenarios;
mod servers;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use servers::Server;

/// Scenarios mostly wait for the server, so more of them run than there are processors.
const THREADS: usize = 12;
/// How often a scenario may fail on the real server. Some break on purpose what all share there, such as discovery or
/// an API service, and its controllers then take their time with the others; the lab gets one try.
const TRIES_ON_THE_REAL: usize = 2;
/// The file whose scenarios have a real server of their own: webhooks that convert badly outlive them there, and no
/// namespace of that server ends any more.
const ALONE: &str = "crd_conversion";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let servers = match servers::chosen() {
        Ok(servers) => servers,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    };
    servers::keep_panics();
    let trials = match servers.iter().map(trials_of).collect::<support::Result<Vec<_>>>() {
        Ok(trials) => trials.into_iter().flatten().collect(),
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end here, and not after the exit, so that they can remove their files.
    drop(servers);
    conclusion.exit_code()
}

/// All scenarios as trials of one server, and of another one like it where they need their own.
fn trials_of(server: &Arc<Server>) -> support::Result<Vec<Trial>> {
    let alone = if server.name() == "real" { server.another()? } else { Arc::clone(server) };
    let trial = |(file, name, run): (&'static str, &'static str, context::Run)| {
        let server = Arc::clone(if file == ALONE { &alone } else { server });
        let about = format!("{file}-{name}");
        Trial::test(format!("{}::{file}::{name}", server.name()), move || {
            let tries = if server.name() == "real" { TRIES_ON_THE_REAL } else { 1 };
            let mut outcome = server.run(&about, run);
            for attempt in 2..=tries {
                let Err(failure) = &outcome else { break };
                eprintln!(
                    "{about} failed on the real server and is tried again ({attempt} of {tries}): {failure}"
                );
                outcome = server.run(&about, run);
            }
            outcome.map_err(|failure| Failed::from(failure.to_string()))
        })
    };
    Ok(scenarios::all().into_iter().map(trial).collect())
}
