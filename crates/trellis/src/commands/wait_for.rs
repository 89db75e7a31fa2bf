//! `trellis wait-for`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use trellis_runtime::{Key, Site};

use super::create::control::Control;
use super::create::folder::Folder;
use super::create::follow::{self, Goal, Teller};
use crate::exit::{Exit, Failure};
use crate::live::Where;
use crate::output::Output;

/// Wait until a tenant cluster is as far as it is asked for.
///
/// The cluster is that of a folder, or a TenantCluster of a cluster that is named. When the time is over, the last reason
/// that was seen is printed.
#[derive(Debug, Args)]
pub(crate) struct WaitFor {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Wait until the control plane serves, and needs no bootstrap machine any more.
    BootstrapComplete(Awaited),
    /// Wait until everything that was asked for is there.
    InstallComplete(Awaited),
}

#[derive(Debug, Args)]
struct Awaited {
    /// The folder of the installation.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The TenantCluster, where there is no folder.
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    cluster: Option<String>,
    /// How long to wait, such as 90s or 30m.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = crate::live::words::duration)]
    timeout: Duration,
    #[command(flatten)]
    place: Where,
}

impl WaitFor {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        super::logs::begin_quietly();
        let (goal, awaited) = match self.what {
            What::BootstrapComplete(awaited) => (Goal::Bootstrap, awaited),
            What::InstallComplete(awaited) => (Goal::Install, awaited),
        };
        crate::live::run(awaited.wait(goal, output))
    }
}

impl Awaited {
    async fn wait(self, goal: Goal, output: Output) -> Result<Exit, Failure> {
        if let Some(cluster) = &self.cluster {
            let connected = self.place.connect().await?;
            let key = Key::new(&connected.namespace, cluster);
            return self.follow(&connected.site, &key, goal, output).await;
        }
        let folder = Folder::at(&self.dir);
        let metadata = folder.needed_metadata()?;
        let key = Key::new(&metadata.kubevirt.namespace, &metadata.cluster_name);
        if !folder.control().join("kubeconfig").exists() {
            let connected = self.place.connect().await?;
            return self.follow(&connected.site, &key, goal, output).await;
        }
        let control = Control::in_folder(&folder).await?;
        if control.is_others {
            return self.follow(&control.site, &key, goal, output).await;
        }
        // Nobody works on it, so nothing will change while it is looked at.
        let gone = || Failure::NotFound(format!("the folder knows no TenantCluster {}", key.name()));
        let standing = follow::look(&control.site, &key, goal).await?.ok_or_else(gone)?;
        let mut teller = Teller::new(key.name(), output);
        teller.say(
            if standing.reached { "done" } else { "progress" },
            &standing.message,
            json!({"reason": standing.reason}),
        )?;
        if standing.reached {
            return Ok(Exit::Success);
        }
        Err(Failure::Stalled(format!(
            "nobody looks after {}: go on with `trellis create cluster --dir {}`",
            key.name(),
            self.dir.display()
        )))
    }

    async fn follow(&self, site: &Site, key: &Key, goal: Goal, output: Output) -> Result<Exit, Failure> {
        let mut teller = Teller::new(key.name(), output);
        follow::follow(site, key, goal, follow::until(self.timeout), &mut teller).await?;
        Ok(Exit::Success)
    }
}
