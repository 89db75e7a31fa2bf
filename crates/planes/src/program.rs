//! The program guests are given: it starts what the static pods on their disk say.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use trellis_infra::guests::boot::Boot;
use trellis_infra::guests::kubelet::Kubelet;
use trellis_infra::guests::{Guest, Program, Programs};

use crate::etcd::{self, Clusters, Observer, Quorum};
use crate::{Balancers, Kubeadm, MachineConfigServers, apiserver, manager, manifest};

/// How long a kubelet waits before it starts a failed static pod again.
const RESTART: Duration = Duration::from_secs(10);

/// What a guest runs that is a control plane. One for all guests of an infra cluster: members of one etcd cluster find
/// what they share through it, once they have found each other over the network.
#[derive(Debug, Default)]
pub struct ControlPlanes {
    clusters: Arc<Clusters>,
}

impl ControlPlanes {
    /// The same, and somebody who is told at every change how a cluster of etcd stands; it must not wait.
    pub fn observed(observer: impl Fn(Quorum) + Send + Sync + 'static) -> Self {
        Self { clusters: Arc::new(Clusters::observed(Observer(Arc::new(observer)))) }
    }
}

/// The programs of an infra cluster whose guests can be control planes.
pub fn programs(planes: ControlPlanes) -> Programs {
    Programs::default().with(planes).with(MachineConfigServers).with(Balancers).with(Kubeadm)
}

impl Program for ControlPlanes {
    fn name(&self) -> &'static str {
        "static pods"
    }

    fn is_started_by(&self, boot: &Boot) -> bool {
        let pods = ["etcd", "kube-apiserver"];
        Kubelet.is_started_by(boot) && pods.iter().all(|pod| manifest::exists(boot, pod))
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        let clusters = Arc::clone(&self.clusters);
        Box::pin(async move {
            let (etcd, api) = (watch::Sender::new(None), watch::Sender::new(None));
            let members = kept(&guest, "etcd", || etcd::run(&guest, &clusters, &etcd));
            let servers = kept(&guest, "kube-apiserver", || apiserver::run(&guest, &etcd, &api));
            let managers = async {
                if manager::PROGRAMS.iter().all(|pod| manifest::exists(&guest.boot, pod)) {
                    kept(&guest, "kube-controller-manager", || manager::run(&guest, &api)).await;
                }
            };
            tokio::join!(members, servers, managers);
            Ok(())
        })
    }
}

/// Runs a static pod, and again when it fails. What is said twice in a row is told once.
async fn kept<F: Future<Output = Result<Infallible, String>>>(
    guest: &Guest,
    name: &str,
    run: impl Fn() -> F,
) {
    let mut last = String::new();
    loop {
        let Err(why) = run().await;
        if why != last {
            guest.log(name, &why);
            last = why;
        }
        guest.pause(RESTART).await;
    }
}
