//! A tenant is grown from its record: keys, a bootstrap machine, a control plane, the hand-over, and a worker.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use trellis_infra::object::Object as _;

use super::Scenario;
use crate::failure::Result;
use crate::stage::{CLUSTER, POOL, Stage, TENANT_CLUSTER};
use crate::trace::{Place, State};

/// One master and one worker: three masters show nothing of a crash that one does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Install;

impl Scenario for Install {
    fn name(&self) -> &'static str {
        "install"
    }

    fn about(&self) -> &'static str {
        "a record becomes a cluster of one master and one worker"
    }

    fn is_core(&self) -> bool {
        true
    }

    fn hosts(&self) -> usize {
        1
    }

    fn grows(&self) -> bool {
        true
    }

    fn prepare<'a>(&'a self, stage: &'a Stage) -> BoxFuture<'a, Result> {
        async move {
            stage.look_after().await?;
            Ok(())
        }
        .boxed()
    }

    fn act<'a>(&'a self, stage: &'a Stage) -> BoxFuture<'a, Result> {
        async move {
            let spec = json!({
                "platform": {"kubevirt": {"namespace": CLUSTER}}, "baseDomain": "svc.cluster.local", "version": "1.34.2",
            });
            stage.create(&TENANT_CLUSTER, json!({"metadata": {"name": CLUSTER}, "spec": spec})).await?;
            for (name, role) in [("masters", "control-plane"), ("workers", "worker")] {
                stage.create(&POOL, pool(name, role)).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn is_over(&self, state: &State) -> bool {
        let installed = state
            .named(Place::World, "tenantclusters", CLUSTER)
            .is_some_and(|record| record.json().condition_holds("InstallComplete"));
        let pools: Vec<_> = state.all(Place::World, "machinepools").collect();
        installed
            && pools.len() == 2
            && pools.iter().all(|pool| {
                let pool = pool.json();
                pool.condition_holds("Ready")
                    && pool.number("/status/availableReplicas") == Some(1)
                    && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
            })
            && state.all(Place::World, "virtualmachines").count() == 2
    }

    fn patience(&self) -> Duration {
        Duration::from_hours(2)
    }
}

fn pool(name: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "cluster": CLUSTER, "role": role, "replicas": 1,
            "template": {
                "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                "image": {"os": "flatcar", "source": {"registry": {"url": "docker://registry.example/flatcar:1"}}},
                "rootDisk": {"size": "10Gi"},
            },
        },
    })
}
