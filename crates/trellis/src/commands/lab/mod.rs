//! `trellis lab`.

mod control;
mod infra;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;
use trellis_infra::settings::{Manager, Settings};
use trellis_lab::{Controllers, Lab as Server, Listening, Options, Secret, User, auth};

pub(crate) use infra::{Cluster, Infra, chosen_seed};

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// Run an infra cluster on this machine: a Kubernetes API server with KubeVirt, CDI, Multus, hosts and guests emulated.
///
/// It listens on a loopback port, writes a kubeconfig with all rights into its folder, and runs until it is
/// interrupted. Everything is kept in the folder: the next start goes on from there. A write is answered only
/// when it is safe on disk. The commands below change a lab that runs: hosts lose their power, things are made slow
/// or fail, links are cut.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_help_heading = "Commands for a lab that runs")]
pub(crate) struct Lab {
    #[command(subcommand)]
    control: Option<control::Control>,
    #[command(flatten)]
    run: Run,
}

/// Starting a lab.
#[derive(Debug, Args)]
struct Run {
    /// The folder that keeps the objects, the keys and the kubeconfig.
    #[arg(long, value_name = "DIR", default_value = control::FOLDER)]
    dir: PathBuf,
    /// The port to listen on. 0 takes the port of the last run if it is free, otherwise any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Keep objects in memory only; the folder gets nothing but the kubeconfig and a lock.
    #[arg(long)]
    memory: bool,
    /// Who collects garbage, ends namespaces and makes service accounts.
    #[arg(long, value_enum, default_value_t = Who::Embedded)]
    controllers: Who,
    /// A file of tokens, one `token,user,uid,"group1,group2"` a line, as kube-apiserver reads it.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    #[command(flatten)]
    infra: infra::Infra,
}

/// Who keeps objects in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Who {
    /// The lab itself.
    Embedded,
    /// A kube-controller-manager of yours.
    Outside,
}

impl Who {
    /// Leaves to a controller manager of somebody else's what it does on an infra cluster too: nodes, volumes,
    /// endpoints and workloads.
    fn hand_over(self, settings: &mut Settings) {
        if self == Self::Outside {
            settings.manager = Manager::Outside;
        }
    }
}

impl Lab {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        match self.control {
            Some(control) => runtime.block_on(control.run(output)),
            None => runtime.block_on(self.run.serve(output)),
        }
    }
}

impl Run {
    async fn serve(self, output: Output) -> Result<Exit, Failure> {
        let failed = |error: trellis_lab::LabError| Failure::Lab(error.to_string());
        // What is wrong with the command line is said before there is a folder.
        let settings = self.infra.settings()?;
        let tokens = match &self.token_auth_file {
            Some(path) => read_tokens(path)?,
            None => Vec::new(),
        };
        let _claim = trellis_lab::claim_folder(&self.dir).map_err(failed)?;
        let folder = (!self.memory).then_some(self.dir.as_path());
        let settings = match settings {
            Some((mut settings, is_seeded)) => {
                if !is_seeded {
                    settings.seed = infra::chosen_seed(folder)?;
                }
                self.controllers.hand_over(&mut settings);
                Some(settings)
            }
            None => None,
        };
        let options = Options {
            folder: (!self.memory).then(|| self.dir.clone()),
            controllers: match self.controllers {
                Who::Embedded => Controllers::Embedded,
                Who::Outside => Controllers::Outside,
            },
            tokens,
            seed: self.infra.seed(),
            ..Options::default()
        };
        let mut lab = Server::start(options).await.map_err(failed)?;
        let listening = listen(&mut lab, &self.dir, self.port, !self.memory).await?;
        let kubeconfig = self.dir.join("kubeconfig");
        let cluster = match settings {
            Some(settings) => {
                let (hosts, zones) = (self.infra.hosts(), self.infra.zones());
                Some(infra::Cluster::start(&lab, settings, hosts, zones, folder).await?)
            }
            None => None,
        };
        let described = match &cluster {
            Some(cluster) => cluster.described().await?,
            None => infra::Described::default(),
        };
        match output.format {
            Format::Json => print_json(&json!({
                "address": format!("https://{}", listening.address), "kubeconfig": kubeconfig, "folder": self.dir,
                "infra": described.json,
            }))?,
            Format::Human => print(&format!(
                "The lab listens on https://{}\n{}kubeconfig: {}\nTry: kubectl --kubeconfig {} get {}\n{}",
                listening.address,
                described.text,
                kubeconfig.display(),
                kubeconfig.display(),
                if cluster.is_some() { "nodes,vm,vmi,dv -A" } else { "namespaces" },
                if self.memory {
                    "Ctrl-C stops it; nothing is kept.".to_owned()
                } else {
                    format!("Ctrl-C stops it; everything is kept in {}.", self.dir.display())
                },
            ))?,
        }
        let lost = async {
            match &cluster {
                Some(cluster) => cluster.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = interrupted() => ended?,
            why = lost => return Err(Failure::Lab(why)),
        }
        Ok(Exit::Success)
    }
}

/// Listens on the port asked for, or on that of the last run in the folder, or on any; and writes the kubeconfig there,
/// and the port if it is to be kept.
pub(crate) async fn listen(
    lab: &mut Server,
    folder: &Path,
    port: u16,
    is_kept: bool,
) -> Result<Listening, Failure> {
    let failed = |error: trellis_lab::LabError| Failure::Lab(error.to_string());
    let kept = folder.join("port");
    let last = std::fs::read_to_string(&kept).ok().and_then(|text| text.trim().parse().ok());
    let listening = match last.filter(|_| port == 0) {
        // Clients remember what a server at an address serves, so the old address is the best one.
        Some(last) => match lab.listen(last).await {
            Ok(listening) => listening,
            Err(_) => lab.listen(0).await.map_err(failed)?,
        },
        None => lab.listen(port).await.map_err(failed)?,
    };
    if is_kept {
        std::fs::write(kept, listening.address.port().to_string())?;
    }
    auth::write_secret_file(&folder.join("kubeconfig"), &listening.kubeconfig)
        .map_err(|error| Failure::Lab(error.to_string()))?;
    Ok(listening)
}

/// Waits for an interrupt or a request to end.
pub(crate) async fn interrupted() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminate.recv() => Ok(()),
    }
}

/// Reads a file of tokens.
fn read_tokens(path: &Path) -> Result<Vec<(Secret, User)>, Failure> {
    let unreadable = |why: String| Failure::Read { name: path.display().to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut fields = line.splitn(4, ',').map(str::trim);
        let (Some(token), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(unreadable(format!("line {} needs a token, a user and a uid", number + 1)));
        };
        if token.is_empty() || name.is_empty() {
            return Err(unreadable(format!("line {} has an empty token or user", number + 1)));
        }
        let groups = fields.next().unwrap_or_default().trim_matches('"');
        let groups =
            groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect();
        let user = User { name: name.to_owned(), uid: uid.to_owned(), groups, ..User::default() };
        tokens.push((Secret::new(token), user));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_outside_are_those_of_the_infra_cluster_too() {
        let mut settings = Settings::default();
        Who::Embedded.hand_over(&mut settings);
        assert_eq!(settings.manager, Manager::Embedded);
        Who::Outside.hand_over(&mut settings);
        assert_eq!(settings.manager, Manager::Outside);
    }
}
