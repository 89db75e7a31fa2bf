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
    /// Write what is installed in clusters into a folder: a kustomization and a chart.
    GenerateDeploy {
        /// The folder; it is made if it is not there.
        #[arg(long)]
        out: PathBuf,
    },
}

impl Internal {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.chore {
            Chore::GenerateReference { out } => super::write_files(&out, reference::pages())?,
            Chore::GenerateDeploy { out } => {
                let kustomize = trellis_install::kustomize::files(&trellis_install::Settings::default());
                super::write_files(&out.join("kustomize"), kustomize)?;
                super::write_files(&out.join("helm/trellis"), trellis_install::chart::files())?;
            }
        }
        Ok(Exit::Success)
    }
}
