//! What an infra cluster does, step by step, on the lab and with the same assertions on a real API server.
//!
//! `TRELLIS_CONFORMANCE` picks the servers, `lab` where it says nothing. On the lab each scenario has a cluster of its
//! own, in virtual time unless it talks to the world outside; on the real server all share one, one after the other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the scenario"
)]

#[path = "../../../lab/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod support;

mod context;
mod machines;
mod servers;
mod sockets;

mod access;
mod admission;
mod clone;
mod fabric;
mod guests;
mod hosts;
mod import;
mod logs;
mod migrate;
mod network;
mod operate;
mod plug;
mod restart;
mod scheduler;
mod shapes;
mod storage;
mod update;
mod vm;
mod workloads;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use context::Scenario;
use servers::Server;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let servers = match servers::chosen() {
        Ok(servers) => servers,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    };
    if servers.iter().any(|server| matches!(**server, Server::Real(_))) {
        arguments.test_threads = Some(1);
    }
    let trials = servers
        .iter()
        .flat_map(|server| {
            scenarios().into_iter().filter(|scenario| server.takes(scenario)).map(|scenario| {
                let server = std::sync::Arc::clone(server);
                Trial::test(format!("{}::{}", server.name(), scenario.name), move || {
                    server.run(&scenario).map_err(|failure| failure.to_string().into())
                })
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end here, and not after the exit, so that they can remove their files.
    drop(servers);
    conclusion.exit_code()
}

/// All scenarios.
fn scenarios() -> Vec<Scenario> {
    [
        access::scenarios(),
        admission::scenarios(),
        clone::scenarios(),
        fabric::scenarios(),
        guests::scenarios(),
        hosts::scenarios(),
        import::scenarios(),
        logs::scenarios(),
        migrate::scenarios(),
        network::scenarios(),
        operate::scenarios(),
        plug::scenarios(),
        restart::scenarios(),
        scheduler::scenarios(),
        shapes::scenarios(),
        storage::scenarios(),
        update::scenarios(),
        vm::scenarios(),
        workloads::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
