//! What a plan of one machine is made from.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use trellis_platform::{Observation, Wish};

use super::reasons;
use super::seen::{MachineSeen, NodeSeen, OwnedNodeMeta, PodSeen, Sites};
use super::status::Phase;

/// Everything a plan of one machine looks at.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The Machine object.
    pub machine: &'a MachineSeen,
    /// What it is to be, or why nothing can be made now. A machine that exists needs no wish to run or to go.
    pub wish: Result<&'a Arc<Wish>, &'a Blocked>,
    /// What its Node is to carry.
    pub node_wish: &'a OwnedNodeMeta,
    /// What its platform shows of it; what was seen last while the infra site is down.
    pub platform: &'a Observation,
    /// The Node that may be its own: of its name, or the one that was linked. Whether it is, the plan finds out.
    pub node: Option<&'a NodeSeen>,
    /// The pods on that Node. Left out as long as they are not watched: nothing is taken for empty that was not
    /// looked at. A plan that says `Draining` wants them.
    pub pods: Option<&'a [PodSeen]>,
    /// The health of the three sites.
    pub sites: Sites,
    /// When the last outage of a site ended, as far as that is known: no limit is counted from before it, because
    /// nothing could move on during the outage.
    pub calm_since: Option<Timestamp>,
    /// How long each part of a life may take.
    pub deadlines: &'a Deadlines,
    /// How the provider id is spelled.
    pub provider_id: ProviderIdForm,
    /// The cluster id its VM carries.
    pub cluster: &'a str,
    /// The infra namespace its VM is in.
    pub infra_namespace: &'a str,
    /// What others allow now.
    pub rights: Rights,
    /// Why it must not be shut down yet although it goes: it carries something others need.
    pub held: Option<&'a str>,
}

/// Why nothing can be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// What was asked for cannot be understood or is not allowed; only an edit helps.
    BadSpec(String),
    /// What the guest is to read at first boot does not exist yet.
    UserDataMissing(String),
    /// The cluster it belongs to is not there yet.
    ClusterMissing(String),
    /// Nothing is made in its pool now.
    Frozen(String),
    /// Making failed too often; the next try is later.
    Throttled {
        /// When it is tried again.
        until: Timestamp,
        /// Why it failed.
        why: String,
    },
}

impl Blocked {
    /// One word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadSpec(_) => reasons::BAD_SPEC,
            Self::UserDataMissing(_) => reasons::USER_DATA_MISSING,
            Self::ClusterMissing(_) => reasons::CLUSTER_MISSING,
            Self::Frozen(_) => reasons::FROZEN,
            Self::Throttled { .. } => reasons::THROTTLED,
        }
    }

    /// For people.
    pub fn message(&self) -> String {
        match self {
            Self::BadSpec(why)
            | Self::UserDataMissing(why)
            | Self::ClusterMissing(why)
            | Self::Frozen(why) => why.clone(),
            Self::Throttled { until, why } => format!("{why}; tried again at {}", super::text::clock(*until)),
        }
    }
}

/// What others allow a machine's plan to do now: they see all machines of a set and of a tenant, the plan sees one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// It belongs to a set, which makes another when it goes.
    pub in_set: bool,
    /// It may be replaced now because it failed.
    pub may_replace: bool,
    /// Why not, where that is known.
    pub held: Option<&'static str>,
    /// A healthy machine may be disrupted now: the tenant's budget has room for one more.
    pub may_disrupt: bool,
    /// What it is wished to be is what its pool says now. Otherwise its wish is what was asked for when it was made:
    /// since then it may have grown in place, and that is not taken back.
    pub may_change: bool,
}

/// How a provider id is spelled: cloud controllers and CSI drivers of the family parse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderIdForm {
    /// `kubevirt://<name>`.
    Name,
    /// `kubevirt://<namespace>/<name>`.
    NamespaceAndName,
}

impl ProviderIdForm {
    /// The id of a machine.
    pub fn of(self, namespace: &str, name: &str) -> String {
        match self {
            Self::Name => format!("kubevirt://{name}"),
            Self::NamespaceAndName => format!("kubevirt://{namespace}/{name}"),
        }
    }
}

/// How long each part of a life may take before it is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// The image is brought in.
    pub image_importing: SignedDuration,
    /// The VM and its volumes are made.
    pub creating: SignedDuration,
    /// A host is found.
    pub scheduling: SignedDuration,
    /// It starts.
    pub starting: SignedDuration,
    /// Its Node is ready for the first time.
    pub joining: SignedDuration,
    /// A Node that was ready is ready again.
    pub unready: SignedDuration,
    /// Its Node is emptied.
    pub drain: SignedDuration,
    /// Pods that were deleted at the end of a drain have gone.
    pub force: SignedDuration,
    /// The volumes of an emptied Node are detached.
    pub detach: SignedDuration,
    /// A kubelet that is silent this long is not waited for.
    pub silent: SignedDuration,
    /// Its VM is shut down.
    pub stopping: SignedDuration,
    /// What is left of it is gone.
    pub deleting: SignedDuration,
    /// It has moved to another host.
    pub migration: SignedDuration,
    /// The first pause after an eviction was refused; it doubles.
    pub eviction_pause: SignedDuration,
    /// The longest pause between two evictions of one pod.
    pub eviction_pause_most: SignedDuration,
    /// The first pause after making it failed; it doubles.
    pub create_pause: SignedDuration,
    /// The longest pause between two tries to make it.
    pub create_pause_most: SignedDuration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let minutes = SignedDuration::from_mins;
        Self {
            image_importing: minutes(60),
            creating: minutes(30),
            scheduling: minutes(15),
            starting: minutes(10),
            joining: minutes(20),
            unready: minutes(10),
            drain: minutes(120),
            force: minutes(1),
            detach: minutes(2),
            silent: minutes(5),
            stopping: minutes(10),
            deleting: minutes(10),
            migration: minutes(10),
            eviction_pause: SignedDuration::from_secs(5),
            eviction_pause_most: minutes(1),
            create_pause: SignedDuration::from_secs(5),
            create_pause_most: minutes(5),
        }
    }
}

/// What helps when a part of a life is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Another machine in its place.
    Replace,
    /// Nothing that a plan could do: it is said, and somebody has to look.
    Say,
}

impl Deadlines {
    /// How long a machine may be in a phase, and what helps when it is there longer.
    pub(super) fn of(&self, phase: Phase) -> Option<(SignedDuration, Remedy)> {
        match phase {
            Phase::ImageImporting => Some((self.image_importing, Remedy::Say)),
            Phase::Creating => Some((self.creating, Remedy::Replace)),
            // Another machine of the same shape would find no host either.
            Phase::Scheduling => Some((self.scheduling, Remedy::Say)),
            Phase::Starting => Some((self.starting, Remedy::Replace)),
            Phase::Joining => Some((self.joining, Remedy::Replace)),
            Phase::Stopping => Some((self.stopping, Remedy::Say)),
            Phase::Deleting => Some((self.deleting, Remedy::Say)),
            _ => None,
        }
    }
}

/// The pause after so many failures in a row: it doubles from the first to the longest.
pub(super) fn pause(first: SignedDuration, most: SignedDuration, times: u32) -> SignedDuration {
    let doubled = first.saturating_mul(1_i32 << times.saturating_sub(1).min(20));
    doubled.min(most)
}
