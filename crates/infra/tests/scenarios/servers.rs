//! The clusters the scenarios run on.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use trellis_infra::guests::Programs;
use trellis_infra::kinds::NAMESPACE;
use trellis_infra::object::Key;
use trellis_infra::service::install::SERVICES;
use trellis_infra::settings::Manager;
use trellis_infra::stages::Profile;
use trellis_infra::{Infra, Settings};
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};

use crate::context::{Cx, Scenario, Time};
use crate::support::real::{CLUSTER_CONTROLLERS, RealCluster};
use crate::support::target::Target;
use crate::support::{Result, parts};

/// How long a scenario may take on the machine's time.
const PATIENCE: Duration = Duration::from_mins(6);

/// Where scenarios run.
pub(crate) enum Server {
    /// On a lab of each scenario's own.
    Lab,
    /// On one real API server.
    Real(Box<Real>),
}

/// A real API server, started by the first scenario that needs it.
pub(crate) struct Real {
    runtime: Runtime,
    directory: tempfile::TempDir,
    started: OnceLock<std::result::Result<Mutex<Option<Beside>>, String>>,
}

/// A cluster beside a real API server.
#[derive(Clone)]
struct Beside {
    infra: Arc<Infra>,
    kube: kube::Client,
    _target: Arc<Target>,
}

/// The servers `TRELLIS_CONFORMANCE` picks.
pub(crate) fn chosen() -> Result<Vec<Arc<Server>>> {
    // Whoever makes the first TLS configuration finds this.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let choice = std::env::var("TRELLIS_CONFORMANCE").unwrap_or_default();
    let choice = if choice.trim().is_empty() { "lab" } else { choice.as_str() };
    choice
        .split(',')
        .map(|name| match name.trim() {
            "lab" => Ok(Arc::new(Server::Lab)),
            "real" => Ok(Arc::new(Server::Real(Box::new(Real {
                runtime: Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
                directory: tempfile::Builder::new().prefix("trellis-infra-").tempdir()?,
                started: OnceLock::new(),
            })))),
            other => Err(format!("TRELLIS_CONFORMANCE names `{other}`; there are `lab` and `real`").into()),
        })
        .collect()
}

impl Server {
    /// What the trials are named after.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Real(_) => "real",
        }
    }

    /// Whether a scenario makes sense here.
    pub(crate) fn takes(&self, scenario: &Scenario) -> bool {
        matches!(self, Self::Lab) || !scenario.lab_only
    }

    /// Runs one scenario to its end.
    pub(crate) fn run(&self, scenario: &Scenario) -> Result {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| match self {
            Self::Lab => on_lab(scenario),
            Self::Real(real) => real.run(scenario),
        }));
        outcome.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            Err(said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").into())
        })
    }
}

fn on_lab(scenario: &Scenario) -> Result {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    if scenario.time == Time::Virtual {
        builder.start_paused(true);
    }
    let runtime = builder.build()?;
    runtime.block_on(async {
        let mut options = Options { seed: Some(1), ..Options::default() };
        let mut settings = Settings { seed: 1, ..Settings::default() };
        if scenario.time == Time::Virtual {
            let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
            options.clock = Arc::new(TokioClock::starting_at(start));
            settings.virtual_start = Some(start);
            settings.profile = Profile::Realistic;
        }
        (scenario.settings)(&mut settings);
        let lab = Arc::new(Lab::start(options).await?);
        let kube = kube::Client::new(lab.service(), "default");
        let infra = start_on(&lab, kube.clone(), settings).await?;
        let cx = Cx::new(Arc::new(infra), kube, &scenario.name).await?;
        (scenario.run)(Cx { lab: Some(lab), ..cx }).await
    })
}

/// Starts a cluster on a lab.
pub(crate) async fn start_on(lab: &Lab, kube: kube::Client, settings: Settings) -> Result<Infra> {
    let mut infra = Infra::new(kube, settings, Programs::default());
    for (namespace, name) in SERVICES {
        let service = infra.service();
        lab.mount(namespace, name, move |stream| service.clone().connection(stream));
    }
    infra.start_mounted().await?;
    Ok(infra)
}

impl Real {
    fn run(&self, scenario: &Scenario) -> Result {
        let beside = self.started()?;
        self.runtime.block_on(async {
            let cx = Cx::new(Arc::clone(&beside.infra), beside.kube.clone(), &scenario.name).await?;
            let (client, namespace) = (cx.client.clone(), cx.namespace.clone());
            let outcome = tokio::time::timeout(PATIENCE, tokio::spawn((scenario.run)(cx))).await;
            client.delete(&NAMESPACE, &Key::cluster(&namespace), "").await?;
            match outcome {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => Err(panic_words(panic).into()),
                Err(_) => Err("it takes too long".into()),
            }
        })
    }

    fn started(&self) -> Result<Beside> {
        let started = self.started.get_or_init(|| {
            let started = self.runtime.block_on(self.start()).map_err(|failure| failure.to_string())?;
            Ok(Mutex::new(Some(started)))
        });
        let started = started.as_ref().map_err(Clone::clone)?;
        started.lock().clone().ok_or_else(|| "the server has ended".into())
    }

    async fn start(&self) -> Result<Beside> {
        let target =
            RealCluster::start_with(self.directory.path(), &parts::find()?, CLUSTER_CONTROLLERS).await?;
        let config = kube::config::Kubeconfig::read_from(&target.kubeconfig)?;
        let mut config =
            kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
        // What is refused for now, such as an eviction, is to be seen as such.
        config.default_retry = false;
        let kube = kube::Client::try_from(config)?;
        let settings = Settings { seed: 1, manager: Manager::Outside, ..Settings::default() };
        let mut infra = Infra::new(kube.clone(), settings, Programs::default());
        infra.start_beside().await?;
        Ok(Beside { infra: Arc::new(infra), kube, _target: Arc::new(target) })
    }
}

/// What a panic said.
fn panic_words(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            said.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
                .unwrap_or_else(|| "it panicked".to_owned())
        }
        Err(_) => "it was ended".to_owned(),
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // The programs go before the directory they write to.
        if let Some(Ok(started)) = self.started.get() {
            drop(started.lock().take());
        }
    }
}
