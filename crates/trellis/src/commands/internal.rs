//! `trellis internal`: what the project's own chores need.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};
use crate::reference;

/// For the project's own chores.
#[derive(Debug, Args)]
pub(crate) struct Internal {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Write the generated part of the documentation into a folder.
    GenerateReference {
        /// The folder; it is made if it is not there.
        #[arg(long)]
        out: PathBuf,
    },
}

impl Internal {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Self { chore: Chore::GenerateReference { out } } = self;
        for (name, text) in reference::pages() {
            let file = out.join(name);
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(file, text)?;
        }
        Ok(Exit::Success)
    }
}
