//! The command line of Trellis. Thin: it reads arguments and files, calls the other crates, and prints.

mod args;
mod commands;
mod exit;
mod input;
mod live;
mod output;
mod reference;

use std::process::ExitCode;

use clap::Parser as _;

/// What the lab does for a request is made of many small pieces of memory, which this one hands out in less time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let format = args.format();
    match args.run() {
        Ok(code) => code.into(),
        Err(failure) => failure.report(format),
    }
}
