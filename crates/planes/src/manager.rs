//! The controllers of a control plane: what kube-controller-manager and kube-scheduler do, on one guest at a time.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use trellis_infra::guests::Guest;
use trellis_infra::manager::ControlPlane;
use trellis_lab::Lab;

use crate::etcd::Cluster;
use crate::manifest::CommandLine;

/// The two programs. What they do is done as one: neither is of use without the other.
pub(crate) const PROGRAMS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// Runs the controllers while the API server of the guest is up and nobody else's do.
pub(crate) async fn run(
    guest: &Guest,
    api: &watch::Sender<Option<(Arc<Lab>, Arc<Cluster>)>>,
) -> Result<Infallible, String> {
    for program in PROGRAMS {
        let line = CommandLine::read(&guest.boot, program)?;
        let text = line.file(&guest.boot, "kubeconfig")?;
        let config: Value =
            serde_saphyr::from_str(&text).map_err(|error| format!("--kubeconfig: {error}"))?;
        if config["kind"] != "Config" || config["users"][0]["user"].is_null() {
            return Err(format!("--kubeconfig of {program}: it is no kubeconfig with a user"));
        }
    }
    let mut up = api.subscribe();
    loop {
        let Ok(served) = up.wait_for(Option::is_some).await.map(|served| served.clone()) else {
            return std::future::pending().await;
        };
        let Some((lab, cluster)) = served else { continue };
        let down = |up: &mut watch::Receiver<_>| {
            let mut up = up.clone();
            async move { drop(up.wait_for(Option::is_none).await) }
        };
        let turn = tokio::select! {
            turn = Arc::clone(&cluster.plane.manager).lock_owned() => turn,
            () = down(&mut up) => continue,
        };
        guest.log(
            "kube-controller-manager",
            "successfully acquired lease kube-system/kube-controller-manager",
        );
        let client = kube::Client::new(lab.service(), "default");
        let controllers = ControlPlane::start(client, guest.clock, guest.stages.clone());
        down(&mut up).await;
        drop(controllers);
        drop(turn);
    }
}
