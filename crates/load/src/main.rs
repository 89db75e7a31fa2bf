//! Puts the lab and the real API server under the same load, in turns, and reports what both took for it.
//!
//! `cargo xtask bench` builds and calls it. The report is JSON on standard output; how far it is goes to
//! standard error.

mod arguments;
mod connection;
mod fanout;
mod loads;
mod machines;
mod memory;
mod outcome;
mod plan;
mod servers;
#[expect(dead_code, reason = "shared with the tests of the lab, which use more of it")]
#[path = "../../lab/tests/support/mod.rs"]
mod support;
mod usage;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(failure) => {
            eprintln!("error: {failure}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    // One thread for the client: what it takes away from the servers is the same for both.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{}", runtime.block_on(plan::run(&arguments)));
    ExitCode::SUCCESS
}
