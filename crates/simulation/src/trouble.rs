//! Trouble around the controllers, from some moment on and for some time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::json;
use trellis_infra::kinds::{Kind as ObjectKind, NODE, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::hosts::Host;

use crate::stage::{CLUSTER, CONTROL, POOL, Stage};
use crate::trace::Place;

/// What network policies are called.
static POLICY: ObjectKind = ObjectKind {
    group: "networking.k8s.io",
    version: "v1",
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    ..VM
};

/// The stages that take longer when storage is slow.
const STORAGE: [&str; 6] =
    ["volume.provision", "volume.attach", "volume.detach", "volume.delete", "import.copy", "clone.csi"];

/// What kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nobody reaches the machine objects.
    PartitionControl,
    /// Nobody reaches the tenant.
    PartitionTenant,
    /// Nobody reaches the infra cluster.
    PartitionInfra,
    /// Storage takes much longer.
    SlowStorage,
    /// The controller is killed, and the clock of its successor is wrong.
    Skew,
    /// Two controllers share the work by a Lease.
    Twins,
    /// A host is off for a while.
    HostOff,
    /// A person changes things and changes them back.
    Edits,
    /// The servers forget their history and all watches end, as when a store is opened again.
    Forgotten,
}

/// All kinds of trouble.
pub const KINDS: [Kind; 9] = [
    Kind::PartitionControl,
    Kind::PartitionTenant,
    Kind::PartitionInfra,
    Kind::SlowStorage,
    Kind::Skew,
    Kind::Twins,
    Kind::HostOff,
    Kind::Edits,
    Kind::Forgotten,
];

impl Kind {
    /// The word in a plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::PartitionControl => "partition-control",
            Self::PartitionTenant => "partition-tenant",
            Self::PartitionInfra => "partition-infra",
            Self::SlowStorage => "slow-storage",
            Self::Skew => "skew",
            Self::Twins => "twins",
            Self::HostOff => "host-off",
            Self::Edits => "edits",
            Self::Forgotten => "forgotten",
        }
    }
}

/// Trouble, from some moment on and for some time, both in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trouble {
    /// What kind.
    pub kind: Kind,
    /// When it begins.
    pub from: usize,
    /// How long it lasts; how wrong a clock is.
    pub lasts: usize,
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.kind.word(), self.from, self.lasts)
    }
}

/// Why a text is no trouble.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no trouble: `KIND:FROM:LASTS` is, in seconds")]
pub struct NoTrouble(String);

impl FromStr for Trouble {
    type Err = NoTrouble;

    fn from_str(text: &str) -> Result<Self, NoTrouble> {
        let mut parts = text.split(':');
        let word = parts.next().unwrap_or_default();
        let kind = KINDS.into_iter().find(|kind| kind.word() == word);
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        match (kind, number(), number()) {
            (Some(kind), Some(from), Some(lasts)) => Ok(Self { kind, from, lasts }),
            _ => Err(NoTrouble(text.to_owned())),
        }
    }
}

impl Trouble {
    /// Makes it happen.
    pub async fn happen(&self, stage: &Stage) {
        let seconds = |count: usize| Duration::from_secs(u64::try_from(count).unwrap_or_default());
        tokio::time::sleep(seconds(self.from)).await;
        stage.book.done(format!("trouble begins: {self}"));
        let lasts = seconds(self.lasts);
        match self.kind {
            Kind::PartitionControl => cut_off(stage, "control", lasts).await,
            Kind::PartitionTenant => cut_off(stage, "tenant", lasts).await,
            Kind::PartitionInfra => cut_off(stage, "infra", lasts).await,
            Kind::SlowStorage => slow_down(stage, lasts).await,
            Kind::Skew => stage.kill(),
            // There are two from the beginning; here one of them is lost.
            Kind::Twins => stage.kill_one(),
            Kind::HostOff => switch_off(stage, lasts).await,
            Kind::Edits => edit(stage, lasts).await,
            Kind::Forgotten => stage.forget_history(),
        }
        stage.book.done(format!("trouble is over: {self}"));
    }
}

async fn cut_off(stage: &Stage, site: &'static str, lasts: Duration) {
    stage.book.part(site, true);
    tokio::time::sleep(lasts).await;
    stage.book.part(site, false);
}

async fn slow_down(stage: &Stage, lasts: Duration) {
    let stages = &stage.world.infra.context().stages;
    for name in STORAGE {
        let rule = json!({"name": "slow", "stage": name, "delay": {"min": 60.0, "max": 120.0}});
        if let Ok(rule) = serde_json::from_value(rule) {
            stages.add(rule);
        }
    }
    tokio::time::sleep(lasts).await;
    stages.remove("slow");
}

async fn switch_off(stage: &Stage, lasts: Duration) {
    let host = stage.trace.look(|state| {
        let run = state.all(Place::World, "virtualmachineinstances").last()?;
        Some(run.json().text("/status/nodeName").to_owned())
    });
    let Some(host) = host.filter(|host| !host.is_empty()) else { return };
    // One that is vouched to be off stays off.
    let hosts = &stage.world.infra.context().world.hosts;
    let vouched =
        stage.world.person.get(&NODE, &Key::cluster(&host)).await.ok().flatten().is_some_and(|node| {
            node.list("/spec/taints").iter().any(|taint| taint.text("/key").ends_with("out-of-service"))
                || !node.condition_holds("Ready")
        });
    if vouched {
        return;
    }
    hosts.set(&host, Host { powered: false, connected: false });
    tokio::time::sleep(lasts).await;
    hosts.set(&host, Host::UP);
}

/// What a person does that is of no use: takes away what is shared, and has the pool grow and shrink again.
async fn edit(stage: &Stage, lasts: Duration) {
    let person = &stage.world.person;
    let policies = person.list(&POLICY, CLUSTER).await.unwrap_or_default();
    for policy in policies {
        // Whatever somebody else does meanwhile is as good.
        let _ = person.delete(&POLICY, &Key::of(&policy), "").await;
    }
    let key = Key::new(CONTROL, "workers");
    let Ok(Some(pool)) = person.get(&POOL, &key).await else { return };
    let replicas = pool.number("/spec/replicas").unwrap_or_default();
    let _ = person.merge(&POOL, &key, &json!({"spec": {"replicas": replicas + 1}})).await;
    tokio::time::sleep(lasts).await;
    let _ = person.merge(&POOL, &key, &json!({"spec": {"replicas": replicas}})).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_read_as_it_is_written() {
        for kind in KINDS {
            let trouble = Trouble { kind, from: 3, lasts: 70 };
            assert_eq!(trouble.to_string().parse(), Ok(trouble));
        }
        for wrong in ["", "skew", "skew:1", "skew:a:b", "luck:1:2"] {
            assert!(wrong.parse::<Trouble>().is_err(), "{wrong}");
        }
    }
}
