//! Scenarios that hold on the lab and, with the same assertions, on the real Kubernetes.
//!
//! A scenario that [`everywhere!`] names runs on a lab, in virtual time, unless `TRELLIS_CONFORMANCE` says `real`: then its
//! world and its tenant are two real API servers, each with its store and its controller manager, and time is the
//! machine's own. Scenarios of hours, and of a cluster whose making takes its time, are for the lab alone.

use std::time::Duration;

use trellis_simulation::{Make, Outside, Server, Tenant, World};

use crate::support::parts;
use crate::support::real::{CLUSTER_CONTROLLERS, JOINING_CONTROLLERS, RealCluster};

/// How long a scenario may take on the machine's time.
const PATIENCE: Duration = Duration::from_mins(4);

tokio::task_local! {
    /// Set in scenarios that run on the real Kubernetes.
    static REAL: ();
}

/// Makes tests of scenarios that hold anywhere.
#[macro_export]
macro_rules! everywhere {
    ($($scenario:ident),+ $(,)?) => {
        mod everywhere {
            $(
                #[test]
                fn $scenario() {
                    $crate::real::run(super::$scenario());
                }
            )+
        }
    };
}

/// Whether this scenario runs on the real Kubernetes.
pub(crate) fn is_real() -> bool {
    REAL.try_with(|()| ()).is_ok()
}

/// Runs a scenario where `TRELLIS_CONFORMANCE` says.
pub(crate) fn run(scenario: impl Future<Output = ()>) {
    let runtime = |builder: &mut tokio::runtime::Builder| builder.enable_all().build().unwrap();
    if std::env::var("TRELLIS_CONFORMANCE").is_ok_and(|choice| choice.trim() == "real") {
        let limited = async {
            assert!(tokio::time::timeout(PATIENCE, scenario).await.is_ok(), "it takes too long");
        };
        runtime(tokio::runtime::Builder::new_multi_thread().worker_threads(2))
            .block_on(REAL.scope((), limited));
    } else {
        runtime(tokio::runtime::Builder::new_current_thread().start_paused(true)).block_on(scenario);
    }
}

/// A world and a tenant on API servers of their own.
pub(crate) async fn start(make: Make, tenant: &str) -> (World, Tenant) {
    if !is_real() {
        let world = World::start(make).await.unwrap();
        let tenant = Tenant::start(&world, tenant).await.unwrap();
        return (world, tenant);
    }
    let (infra, guests) = tokio::join!(server(CLUSTER_CONTROLLERS), server(JOINING_CONTROLLERS));
    let world = World::start_beside(infra, make.on_machine_time()).await.unwrap();
    let tenant = Tenant::start_beside(&world, tenant, guests).await.unwrap();
    (world, tenant)
}

/// An API server in which there is nothing.
pub(crate) async fn start_empty(make: &Make) -> Server {
    if is_real() { Server::Outside(server(&[]).await) } else { Server::start(make).await.unwrap() }
}

/// Starts an API server with its store and its controller manager.
async fn server(controllers: &[&str]) -> Outside {
    // Whoever makes the first TLS configuration finds this.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = tempfile::Builder::new().prefix("trellis-machines-").tempdir().unwrap();
    let parts = parts::find().unwrap();
    let target = RealCluster::start_with(directory.path(), &parts, controllers).await.unwrap();
    let config = kube::config::Kubeconfig::read_from(&target.kubeconfig).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
    // What is refused for now, such as an eviction, is to be seen as such.
    config.default_retry = false;
    Outside {
        client: kube::Client::try_from(config).unwrap(),
        address: target.base.trim_start_matches("https://").to_owned(),
        authority: target.authority.clone(),
        // The programs go before the directory they write to.
        running: Box::new((target, directory)),
    }
}
