//! Real clients, unmodified, against the lab and, with the same assertions, against the real server.
//!
//! `TRELLIS_CONFORMANCE` picks the servers as it does for the conformance suite. A client whose program is
//! not here is skipped and says so. Trials are called after their server, client and scenario, such as
//! `lab::kubectl_get::wide`.

#[path = "../conformance/context.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod context;
#[path = "../conformance/servers.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod servers;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod support;

mod go;
mod kube_rs;
mod kubectl;
mod python;
mod tools;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use context::Run;
use servers::Server;
use tools::Tool;

/// Clients mostly wait for the server and for each other; but each is a process of its own.
const THREADS: usize = 6;

/// The scenarios of one client.
struct Suite {
    /// File, name, and what to run.
    scenarios: Vec<(&'static str, &'static str, Run)>,
    /// What they run, looked for or made when the first of them needs it.
    tool: fn() -> &'static Tool,
}

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
    let mut trials = Vec::new();
    for suite in [kubectl::suite(), kube_rs::suite(), python::suite(), go::suite()] {
        for server in &servers {
            trials.extend(trials_of(server, &suite));
        }
    }
    if servers.iter().any(|server| server.name() == "lab") {
        trials.extend(kube_rs::in_process());
        trials.push(go::restart());
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end here, and not after the exit, so that they can remove their files.
    drop(servers);
    conclusion.exit_code()
}

/// The scenarios of a client as trials of one server.
fn trials_of(server: &Arc<Server>, suite: &Suite) -> Vec<Trial> {
    let trial = |(file, name, run): &(&'static str, &'static str, Run)| {
        let server = Arc::clone(server);
        let (run, tool) = (*run, suite.tool);
        let about = format!("{file}-{name}");
        Trial::ignorable_test(format!("{}::{file}::{name}", server.name()), move || {
            with(tool(), || server.run(&about, run))
        })
    };
    suite.scenarios.iter().map(trial).collect()
}

/// Runs something that needs a tool, or tells why the tool is not here.
fn with(tool: &Tool, run: impl FnOnce() -> support::Result) -> Result<Completion, Failed> {
    match tool {
        Tool::Here(_) => run().map(|()| Completion::Completed).map_err(|failure| failure.to_string().into()),
        Tool::Missing(why) => Ok(Completion::ignored_with(why)),
        Tool::Broken(why) => Err(why.into()),
    }
}
