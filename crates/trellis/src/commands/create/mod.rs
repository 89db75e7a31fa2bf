//! `trellis create`.

pub(crate) mod cluster;
pub(crate) mod control;
pub(crate) mod engine;
pub(crate) mod folder;
pub(crate) mod follow;
mod install_config;
mod manifests;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Make a tenant cluster, or what it is made from.
#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write an install-config: ask for everything on a terminal, or take it from flags.
    InstallConfig(Box<install_config::CreateInstallConfig>),
    /// Make a tenant cluster, and wait until it is there.
    Cluster(cluster::CreateCluster),
    /// Write what a cluster is made from in Trellis's own words, and the variables of Terraform, and stop.
    Manifests(manifests::CreateManifests),
}

impl Create {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.what {
            What::InstallConfig(config) => config.run(output),
            What::Cluster(cluster) => cluster.run(output),
            What::Manifests(manifests) => manifests.run(output),
        }
    }
}
