//! `trellis machine-config-server`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use trellis_bootstrap::server::shared::Shared;
use trellis_bootstrap::server::{Ledger, Server, Source, folder};
use trellis_engine::install::SharedSecret;

use super::lab::interrupted;
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// Hand configurations to machines that show their token.
///
/// Serves `/config/master`, `/config/worker` and `/healthz` over TLS until it is interrupted. A machine shows its token
/// and its name; it gets its configuration once, and nobody else gets anything. The folder holds what is known of the
/// cluster (site.json), its certificates (bundle.json) and the ledger of who was served (ledger.json), and is read anew
/// for every machine that asks. With --shared-ledger only the certificates are in the folder: the rest is in the Secret
/// kube-system/trellis-machine-config, which several servers use together.
#[derive(Debug, Args)]
pub(crate) struct MachineConfigServer {
    /// The folder to serve from.
    #[arg(long, value_name = "DIR")]
    config: PathBuf,
    /// Serve together with others, from the Secret kube-system/trellis-machine-config of the cluster that this kubeconfig
    /// leads to. Until it is there, machines are told to ask again.
    #[arg(long, value_name = "KUBECONFIG")]
    shared_ledger: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:22623")]
    listen: SocketAddr,
    /// Write logs as JSON.
    #[arg(long)]
    log_json: bool,
}

impl MachineConfigServer {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        super::logs::begin(self.log_json, None);
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.serve(output))
    }

    /// Where it learns what it serves, and where it keeps who was served.
    fn sources(&self) -> (Arc<dyn Source>, Arc<dyn Ledger>) {
        let folder = folder::Folder::new(&self.config);
        match &self.shared_ledger {
            None => {
                let folder = Arc::new(folder);
                (Arc::<folder::Folder>::clone(&folder), folder)
            }
            Some(kubeconfig) => {
                let shelf = Arc::new(SharedSecret::new(kubeconfig.clone()));
                let shared = Arc::new(Shared::new(folder, shelf));
                (Arc::<Shared<folder::Folder>>::clone(&shared), shared)
            }
        }
    }

    async fn serve(self, output: Output) -> Result<Exit, Failure> {
        let refused = |error: &dyn std::fmt::Display| Failure::Refused(error.to_string());
        let (source, ledger) = self.sources();
        let rng = StdRng::from_rng(&mut rand::rng());
        let server = Server::new(source, ledger, Arc::new(trellis_bootstrap::now), Box::new(rng));
        server.check().map_err(|error| refused(&error))?;
        let listener = tokio::net::TcpListener::bind(self.listen).await;
        let listener =
            listener.map_err(|error| refused(&format!("cannot listen on {}: {error}", self.listen)))?;
        let address = listener.local_addr()?;
        match output.format {
            Format::Json => print_json(&json!({"address": address, "folder": self.config}))?,
            Format::Human => {
                print(&format!("Hands configurations to machines on https://{address}. Ctrl-C stops it.\n"))?;
            }
        }
        tokio::select! {
            ended = server.listen(listener) => match ended {
                Ok(never) => match never {},
                Err(error) => Err(refused(&error)),
            },
            stopped = interrupted() => Ok(stopped.map(|()| Exit::Success)?),
        }
    }
}
