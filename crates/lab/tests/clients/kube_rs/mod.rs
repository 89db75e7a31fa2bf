//! kube-rs and its runtime: over TLS, in this process with no socket, and in this process with time standing
//! still.

mod api;
mod controller;
mod watching;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};

use crate::Suite;
use crate::context::{Cx, Run};
use crate::support::Result;
use crate::tools;

/// How long something that has to happen may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A scenario.
type Scenario = fn(World) -> Pin<Box<dyn Future<Output = Result> + Send>>;

/// What a scenario gets.
pub(crate) struct World {
    client: Client,
    /// A namespace of its own.
    ns: String,
}

/// Lists the scenarios of a file.
macro_rules! scenarios {
    ($file:literal: $($name:ident),* $(,)?) => {
        /// The scenarios of this file: as trials of a server, and as they are.
        pub(super) fn all() -> Vec<(&'static str, crate::context::Run, super::Scenario)> {
            vec![$((
                concat!($file, "_", stringify!($name)),
                |cx| Box::pin(async move { $name(super::World::over_tls(&cx).await?).await }),
                |world| Box::pin($name(world)),
            )),*]
        }
    };
}
use scenarios;

fn all() -> Vec<(&'static str, Run, Scenario)> {
    [api::all(), controller::all(), watching::all()].concat()
}

/// All scenarios, over TLS.
pub(crate) fn suite() -> Suite {
    let scenarios = all().into_iter().map(|(name, run, _)| ("kube_rs", name, run)).collect();
    Suite { scenarios, tool: || &tools::BUILT_IN }
}

/// All scenarios in this process, each with a lab of its own.
pub(crate) fn in_process() -> Vec<Trial> {
    let paused = [false, true].into_iter().flat_map(|paused| {
        let place = if paused { "paused" } else { "process" };
        all().into_iter().map(move |(name, _, scenario)| {
            Trial::test(format!("{place}::kube_rs::{name}"), move || {
                run_in_process(paused, scenario).map_err(|failure| Failed::from(failure.to_string()))
            })
        })
    });
    paused.collect()
}

fn run_in_process(paused: bool, scenario: Scenario) -> Result {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(paused).build()?;
    runtime.block_on(async {
        let mut options = Options::default();
        if paused {
            options.clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse()?));
        }
        let lab = Lab::start(options).await?;
        let world = World::new(Client::new(lab.service(), "default"), "kube-rs").await?;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let meta = json!({"metadata": {"name": "kube-rs"}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(meta)?).await?;
        let result = scenario(world).await;
        drop(lab);
        result
    })
}

impl World {
    /// A client of the server a kubeconfig leads to.
    pub(crate) async fn over_tls(cx: &Cx) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(&cx.target.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Self::new(Client::try_from(config)?, &cx.ns).await
    }

    async fn new(client: Client, ns: &str) -> Result<Self> {
        let version = client.apiserver_version().await?;
        assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "37"));
        Ok(Self { client, ns: ns.to_owned() })
    }

    /// The objects of a kind in the scenario's namespace.
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    /// The cluster's objects of a kind.
    fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }
}

/// A ConfigMap with one entry.
fn config_map(name: &str, value: &str) -> ConfigMap {
    of(json!({"metadata": {"name": name}, "data": {"key": value}}))
}

/// An object of a kind.
#[expect(clippy::panic, reason = "the test itself is wrong then")]
fn of<K: serde::de::DeserializeOwned>(object: Value) -> K {
    match serde_json::from_value(object) {
        Ok(object) => object,
        Err(failure) => panic!("the test has a malformed object: {failure}"),
    }
}

/// The failure the server answered with.
#[track_caller]
#[expect(clippy::panic, reason = "this is an assertion")]
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> kube::core::Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("this should have been refused: {other:?}"),
    }
}

/// Asks again until something holds.
async fn until<T, F>(what: &str, mut holds: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let asking = async {
        loop {
            if let Some(found) = holds().await? {
                return Ok(found);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(result) => result,
        Err(_) => Err(format!("{what}: still not so after {PATIENCE:?}").into()),
    }
}

/// True when sleeping takes no time.
async fn time_stands_still() -> bool {
    let start = std::time::Instant::now();
    tokio::time::sleep(Duration::from_millis(200)).await;
    start.elapsed() < Duration::from_millis(150)
}
