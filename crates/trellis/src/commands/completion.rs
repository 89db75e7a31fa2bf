//! `trellis completion`.

use clap::{Args as ClapArgs, CommandFactory as _};

use crate::args::Args;
use crate::exit::{Exit, Failure};
use crate::output::print;

/// Print a completion script for a shell.
///
/// For bash: `source <(trellis completion bash)`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl Completion {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Self { shell } = self;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "trellis", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Success)
    }
}
