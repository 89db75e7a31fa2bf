//! The life of a pool of workers.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use trellis_infra::kinds::{DEPLOYMENT, NODE, POD};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::hosts::Host;

use super::Scenario;
use crate::failure::{Failure, Result};
use crate::stage::{CLUSTER, CONTROL, POOL, Stage};
use crate::trace::{Place, State};

/// The pool.
const WORKERS: &str = "workers";
/// How long the undisturbed beginning may take.
const PATIENCE: Duration = Duration::from_hours(1);

/// What is done to a pool of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// It is made.
    ScaleUp,
    /// It is to have fewer machines.
    ScaleDown,
    /// Its machines are to be larger.
    RollingUpdate,
    /// Its machines are to have another image.
    ImageChange,
    /// A host is emptied.
    HostDrain,
    /// A host is lost, and somebody vouches that it is off.
    HostLoss,
    /// It is deleted.
    Deletion,
    /// It is made, and deleted while its machines come up.
    Abandoned,
    /// It is to have more machines, and all credentials are new meanwhile.
    CredentialRotation,
    /// Its machines are to be larger, and another version of the controller takes over meanwhile.
    Upgrade,
}

/// One deed, and what goes with it.
struct Row {
    deed: Deed,
    name: &'static str,
    about: &'static str,
    core: bool,
    /// How many machines there are before, and after.
    replicas: (u32, u32),
    /// Whether pods run on the tenant's Nodes.
    pods: bool,
}

const ROWS: [Row; 10] = [
    Row {
        deed: Deed::ScaleUp,
        name: "scale-up",
        about: "a pool of two machines is made, with all that machines share",
        core: true,
        replicas: (0, 2),
        pods: false,
    },
    Row {
        deed: Deed::ScaleDown,
        name: "scale-down",
        about: "one of two machines is drained and goes",
        core: true,
        replicas: (2, 1),
        pods: true,
    },
    Row {
        deed: Deed::RollingUpdate,
        name: "rolling-update",
        about: "both machines are replaced by larger ones, one after the other",
        core: true,
        replicas: (2, 2),
        pods: true,
    },
    Row {
        deed: Deed::ImageChange,
        name: "image-change",
        about: "a machine is replaced by one with another image, which is imported first",
        core: false,
        replicas: (1, 1),
        pods: true,
    },
    Row {
        deed: Deed::HostDrain,
        name: "host-drain",
        about: "a host is emptied: its machine is drained and replaced",
        core: true,
        replicas: (2, 2),
        pods: true,
    },
    Row {
        deed: Deed::HostLoss,
        name: "host-loss",
        about: "a host is lost, and its machine comes back only when somebody vouches that the host is off",
        core: true,
        replicas: (2, 2),
        pods: false,
    },
    Row {
        deed: Deed::Deletion,
        name: "deletion",
        about: "a pool goes with all that its machines had",
        core: true,
        replicas: (2, 0),
        pods: true,
    },
    Row {
        deed: Deed::Abandoned,
        name: "abandoned",
        about: "a pool is made and deleted again while its machines come up",
        core: false,
        replicas: (0, 1),
        pods: false,
    },
    Row {
        deed: Deed::CredentialRotation,
        name: "credential-rotation",
        about: "a pool grows while the credentials for all sites change",
        core: false,
        replicas: (1, 2),
        pods: false,
    },
    Row {
        deed: Deed::Upgrade,
        name: "upgrade",
        about: "another version of the controller takes over in the middle of a rollout",
        core: false,
        replicas: (2, 2),
        pods: true,
    },
];

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    ROWS.into_iter().map(|row| Box::new(row) as Box<dyn Scenario>).collect()
}

impl Scenario for Row {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn is_core(&self) -> bool {
        self.core
    }

    fn hosts(&self) -> usize {
        if matches!(self.deed, Deed::HostDrain | Deed::HostLoss) { 3 } else { 1 }
    }

    fn prepare<'a>(&'a self, stage: &'a Stage) -> BoxFuture<'a, Result> {
        self.prepared(stage).boxed()
    }

    fn act<'a>(&'a self, stage: &'a Stage) -> BoxFuture<'a, Result> {
        self.done(stage).boxed()
    }

    fn is_over(&self, state: &State) -> bool {
        match self.deed {
            Deed::Deletion | Deed::Abandoned => {
                state.all(Place::World, "machinepools").next().is_none() && has_machines(state, 0)
            }
            Deed::HostDrain => {
                is_settled(state, self.replicas.1)
                    && !state.all(Place::World, "nodes").any(|host| {
                        host.json().flag("/spec/unschedulable") && !launchers(state, host.name()).is_empty()
                    })
            }
            Deed::HostLoss => {
                is_settled(state, self.replicas.1)
                    && !state.all(Place::World, "nodes").any(|host| {
                        !host.json().condition_holds("Ready") && !launchers(state, host.name()).is_empty()
                    })
            }
            _ => is_settled(state, self.replicas.1),
        }
    }
}

impl Row {
    async fn prepared(&self, stage: &Stage) -> Result {
        stage.look_after().await?;
        if self.replicas.0 == 0 {
            return Ok(());
        }
        stage.create(&POOL, pool(self.replicas.0)).await?;
        settled(stage, self.replicas.0).await?;
        if self.pods {
            let labels = json!({"app": "web"});
            let web = json!({
                "metadata": {"namespace": "default", "name": "web"},
                "spec": {"replicas": self.replicas.0, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
                }},
            });
            let tenant = stage.tenant()?;
            tenant.person.create(&DEPLOYMENT, web).await?;
            let count = i64::from(self.replicas.0);
            let runs = |one: &Value| one.number("/status/availableReplicas") == Some(count);
            tenant.until(&DEPLOYMENT, &Key::new("default", "web"), runs).await?;
        }
        Ok(())
    }

    async fn done(&self, stage: &Stage) -> Result {
        let larger = json!({"spec": {"template": {"rootDisk": {"size": "12Gi"}}}});
        let count = json!({"spec": {"replicas": self.replicas.1}});
        match self.deed {
            Deed::ScaleUp => stage.create(&POOL, pool(self.replicas.1)).await,
            Deed::ScaleDown => stage.change(&POOL, WORKERS, &count).await,
            Deed::RollingUpdate => stage.change(&POOL, WORKERS, &larger).await,
            Deed::ImageChange => {
                let url = "docker://registry.example/ubuntu:26.04";
                let image = json!({"spec": {"template": {"image": {"source": {"registry": {"url": url}}}}}});
                stage.change(&POOL, WORKERS, &image).await
            }
            Deed::Deletion => delete(stage).await,
            Deed::Abandoned => {
                stage.create(&POOL, pool(self.replicas.1)).await?;
                let has_vm = |state: &State| state.all(Place::World, "virtualmachines").next().is_some();
                stage.until(PATIENCE, has_vm).await;
                delete(stage).await
            }
            Deed::HostDrain => drain_host(stage, &a_host(stage)?).await,
            Deed::HostLoss => lose_host(stage, &a_host(stage)?).await,
            Deed::CredentialRotation => {
                stage.change(&POOL, WORKERS, &count).await?;
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    stage.rotate_credentials();
                }
                Ok(())
            }
            Deed::Upgrade => {
                stage.change(&POOL, WORKERS, &larger).await?;
                tokio::time::sleep(Duration::from_secs(90)).await;
                stage.upgrade().await
            }
        }
    }
}

async fn delete(stage: &Stage) -> Result {
    stage.book.done(format!("the pool {WORKERS} is deleted"));
    stage.world.person.delete(&POOL, &Key::new(CONTROL, WORKERS), "").await?;
    Ok(())
}

/// The pool: never more than one machine too many, never one too few.
fn pool(replicas: u32) -> Value {
    json!({
        "metadata": {"name": WORKERS},
        "spec": {
            "cluster": CLUSTER,
            "replicas": replicas,
            "update": {"maxSurge": 1, "maxUnavailable": 0},
            "template": {
                "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                "image": {"os": "ubuntu", "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}}},
                "rootDisk": {"size": "10Gi", "storage": {"accessMode": "ReadWriteOnce"}},
                "userData": {"secret": "join"},
            },
        },
    })
}

async fn settled(stage: &Stage, replicas: u32) -> Result {
    if stage.until(PATIENCE, |state| is_settled(state, replicas)).await {
        return Ok(());
    }
    let machines = stage.trace.look(|state| {
        let told =
            |one: &std::sync::Arc<crate::trace::Snapshot>| format!("{} {}", one.name(), one.json()["status"]);
        state.all(Place::World, "machines").map(told).collect::<Vec<_>>().join("\n")
    });
    Err(Failure::Never { what: "the pool did not settle".to_owned(), instead: machines })
}

/// Whether there are exactly so many machines, each with all it has and nothing else.
fn has_machines(state: &State, replicas: u32) -> bool {
    let count = usize::try_from(replicas).unwrap_or(usize::MAX);
    let ours = |resource| {
        state.all(Place::World, resource).filter(|one| !one.label("trellis.dev/machine").is_empty()).count()
    };
    state.all(Place::World, "machines").count() == count
        && ours("virtualmachines") == count
        && state.all(Place::World, "virtualmachineinstances").count() == count
        && state.all(Place::Tenant, "nodes").count() == count
}

/// Whether the pool has nothing left to do.
fn is_settled(state: &State, replicas: u32) -> bool {
    let Some(pool) = state.named(Place::World, "machinepools", WORKERS) else { return false };
    let pool = pool.json();
    let counts = ["replicas", "updatedReplicas", "availableReplicas"];
    has_machines(state, replicas)
        && counts
            .iter()
            .all(|count| pool.number(&format!("/status/{count}")).unwrap_or_default() == i64::from(replicas))
        && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
        && pool.condition_holds("Ready")
        && state.all(Place::Tenant, "nodes").all(|node| node.json().condition_holds("Ready"))
        && state.all(Place::World, "machines").all(|machine| {
            !machine.deleting()
                && machine.json().condition_holds("Ready")
                && machine.json().text("/status/phase") == "Running"
        })
}

/// The names of the pods in which machines run on a host.
fn launchers(state: &State, host: &str) -> Vec<String> {
    state
        .all(Place::World, "pods")
        .filter(|pod| pod.label("kubevirt.io") == "virt-launcher")
        .filter(|pod| pod.json().text("/spec/nodeName") == host)
        .filter(|pod| !matches!(pod.json().text("/status/phase"), "Succeeded" | "Failed"))
        .map(|pod| pod.name().to_owned())
        .collect()
}

/// The host of the first machine.
fn a_host(stage: &Stage) -> Result<String> {
    let host = stage.trace.look(|state| {
        let run = state.all(Place::World, "virtualmachineinstances").next()?;
        Some(run.json().text("/status/nodeName").to_owned())
    });
    host.filter(|host| !host.is_empty()).ok_or_else(|| Failure::Never {
        what: "no machine runs on any host".to_owned(),
        instead: String::new(),
    })
}

/// Cordons a host and evicts what runs on it, again and again as a drain does; ends when nothing is left.
async fn drain_host(stage: &Stage, host: &str) -> Result {
    stage.book.done(format!("host {host} is emptied"));
    let cordoned = json!({"spec": {"unschedulable": true}});
    stage.world.person.merge(&NODE, &Key::cluster(host), &cordoned).await?;
    for _ in 0..2000 {
        let pods = stage.trace.look(|state| launchers(state, host));
        if pods.is_empty() {
            break;
        }
        for pod in pods {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": CLUSTER, "name": pod},
            });
            // Refused for as long as the machine is there.
            let _ = stage.world.person.post(&POD, &Key::new(CLUSTER, &pod), "eviction", &eviction).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Switches a host off; later somebody vouches for it.
async fn lose_host(stage: &Stage, host: &str) -> Result {
    stage.book.done(format!("host {host} is lost"));
    stage.world.infra.context().world.hosts.set(host, Host { powered: false, connected: false });
    tokio::time::sleep(Duration::from_mins(15)).await;
    stage.book.done(format!("somebody vouches that host {host} is off"));
    let node = stage.world.person.get(&NODE, &Key::cluster(host)).await?.unwrap_or_default();
    let mut taints = node.list("/spec/taints").to_vec();
    taints.push(json!({
        "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
    }));
    stage.world.person.merge(&NODE, &Key::cluster(host), &json!({"spec": {"taints": taints}})).await?;
    Ok(())
}
