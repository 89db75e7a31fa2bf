//! Who may act: one of several replicas ([`Election`]), or each for its share ([`Shards`]).
//!
//! A Lease says who holds it and is renewed while the holder lives. Clocks of different machines are never compared:
//! whether a lease has run out is judged by how long it has looked the same *here*. A holder stops by itself before
//! anybody else can come to that judgement, because it counts from before it sent its last renewal, and less time.

mod election;
mod shards;

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

pub use election::{Election, Leadership};
pub use shards::{Pass, Shards};

use crate::{Keep, Meta, Resource, narrow};

/// Leases as the server has them.
pub const LEASE: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// The annotation of a member's lease with the members it counts on.
const VIEW: &str = "trellis.dev/members";
/// The label of a member's lease with the group it is a member of.
const GROUP: &str = "trellis.dev/shard-group";

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long a lease that is not renewed counts.
    pub duration: Duration,
    /// How long its holder goes on without having renewed it: less than the duration, by the time that requests under way
    /// need to end.
    pub deadline: Duration,
    /// How often it is renewed.
    pub renew: Duration,
    /// How long to wait after a failure.
    pub retry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            renew: Duration::from_secs(4),
            retry: Duration::from_secs(1),
        }
    }
}

/// What is kept of a lease's metadata.
#[derive(Debug)]
pub struct Kept;

impl Keep for Kept {
    const LABELS: &'static [&'static str] = &[GROUP];
    const ANNOTATIONS: &'static [&'static str] = &[VIEW];
}

/// A lease as it is kept.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Lease {
    /// Its metadata.
    pub metadata: Meta<Kept>,
    /// What it says.
    #[serde(default)]
    pub spec: Spec,
}

narrow!(Lease);

/// What a lease says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Who holds it; nobody, where it is missing or empty.
    #[serde(default)]
    pub holder_identity: Option<String>,
    /// How long it counts.
    #[serde(default)]
    pub lease_duration_seconds: Option<u32>,
    /// How often it went to another holder: the number writes of a holder can be told apart by.
    #[serde(default)]
    pub lease_transitions: Option<u64>,
    /// When it was renewed, by the clock of who did: only good for telling that it was.
    #[serde(default)]
    pub renew_time: Option<String>,
}

impl Spec {
    fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    fn duration(&self, terms: &Terms) -> Duration {
        self.lease_duration_seconds.map_or(terms.duration, |seconds| Duration::from_secs(u64::from(seconds)))
    }
}

/// What is seen of a lease: what it says, and since when it has said so here.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What it says.
    pub spec: Spec,
    /// When that was first seen, by this machine's clock.
    pub since: Instant,
}

/// What one who wants to hold a lease does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Makes it.
    Make,
    /// Takes it over, with this number of transitions.
    Take(u64),
    /// Renews it.
    Renew,
    /// Lets its holder be, at least until then.
    Wait(Instant),
}

/// What `me` does next about a lease, if it is seen like this.
pub fn decide(me: &str, seen: Option<&Seen>, terms: &Terms, now: Instant) -> Decision {
    let Some(seen) = seen else { return Decision::Make };
    let next = seen.spec.lease_transitions.unwrap_or_default() + 1;
    match seen.spec.holder() {
        Some(holder) if holder == me => Decision::Renew,
        None => Decision::Take(next),
        Some(_) => {
            let end = seen.since + seen.spec.duration(terms);
            if end <= now { Decision::Take(next) } else { Decision::Wait(end) }
        }
    }
}

/// A time as leases have it.
fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// What a holder writes to renew a lease, or to take it with a new number of transitions.
fn claim(me: &str, transitions: Option<u64>, terms: &Terms, now: Timestamp) -> Value {
    let mut spec = json!({
        "holderIdentity": me,
        "leaseDurationSeconds": terms.duration.as_secs(),
        "renewTime": written(now),
    });
    if let Some(transitions) = transitions {
        spec["leaseTransitions"] = transitions.into();
        spec["acquireTime"] = written(now).into();
    }
    spec
}

/// What a patch has to carry to be refused if somebody else was faster.
fn at_version(lease: &Lease) -> Value {
    json!({"uid": &*lease.metadata.uid, "resourceVersion": lease.metadata.resource_version.to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(holder: &str, since: Instant) -> Seen {
        let spec = Spec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(4),
            // Years away: the clock of another machine.
            renew_time: Some("1999-01-01T00:00:00.000000Z".to_owned()),
        };
        Seen { spec, since }
    }

    #[test]
    fn a_lease_runs_out_by_our_own_clock_alone() {
        let (terms, now) = (Terms::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(decide("a", None, &terms, now), Decision::Make);
        assert_eq!(decide("a", Some(&seen("a", now)), &terms, at(100)), Decision::Renew);
        assert_eq!(decide("a", Some(&seen("b", now)), &terms, at(14)), Decision::Wait(at(15)));
        assert_eq!(decide("a", Some(&seen("b", now)), &terms, at(15)), Decision::Take(5));
        assert_eq!(decide("a", Some(&seen("", now)), &terms, now), Decision::Take(5));
    }

    #[test]
    fn a_holder_gives_up_before_others_may_take_over() {
        let terms = Terms::default();
        assert!(terms.deadline + terms.retry * 3 < terms.duration && terms.renew * 2 < terms.deadline);
    }

    #[test]
    fn times_have_microseconds() {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(written(time), "2026-01-01T00:00:00.000000Z");
    }
}
