//! What is said of a pool or set, in the form of its family.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::machine_status::{merged_conditions, whole_seconds};
use super::object::Object;
use super::patch::{status_difference, status_patch};
use super::pool::{own_selector, selector};
use super::table::{Family, TRELLIS};
use crate::Condition;
use crate::pools::remedy::REMEDIATION_ALLOWED;
use crate::pools::report::conditions;
use crate::pools::{MachineState, Mark, Member, PoolWish, RolloutPlan, SetSeen};

/// Conditions of pools that are ours in a status that others write too.
const OUR_CONDITIONS: &[&str] = &[
    conditions::READY,
    conditions::AVAILABLE,
    conditions::PROGRESSING,
    conditions::REPLICA_FAILURE,
    conditions::PAUSED,
    conditions::RECONCILING,
    conditions::STALLED,
    conditions::ETCD_READY,
];

/// What is said of a pool, or of a set alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolStatus {
    /// How many machines are wished for.
    pub wished: u32,
    /// How many there are, those that are going included.
    pub replicas: u32,
    /// How many of them have the newest revision.
    pub updated: u32,
    /// How many have a ready Node.
    pub ready: u32,
    /// How many have had one for long enough.
    pub available: u32,
    /// How many are going.
    pub terminating: u32,
    /// The newest revision.
    pub revision: Option<String>,
    /// How far it has come on its way to what is wished.
    pub mark: Option<Mark>,
    /// Why machines cannot be made, in one word and for people: a template that cannot be read, a quota.
    pub error: Option<(&'static str, String)>,
    /// What holds for it.
    pub conditions: Vec<Condition>,
}

impl PoolStatus {
    /// What a plan says of a pool.
    pub fn of(wish: &PoolWish, plan: &RolloutPlan) -> Self {
        let counts = &plan.counts;
        Self {
            wished: wish.replicas,
            replicas: counts.staying.saturating_add(counts.going),
            updated: counts.updated,
            ready: counts.ready,
            available: counts.available,
            terminating: counts.going,
            revision: Some(wish.revision.clone()),
            mark: Some(plan.mark.clone()),
            error: None,
            conditions: plan.conditions.clone(),
        }
    }

    /// What there is to say of one set from its machines alone.
    pub fn of_set(set: &SetSeen, min_ready_seconds: u32, now: Timestamp) -> Self {
        let count = |pick: &dyn Fn(&Member) -> bool| {
            u32::try_from(set.members.iter().filter(|member| pick(member)).count()).unwrap_or(u32::MAX)
        };
        let staying = count(&Member::stays);
        let terminating = count(&Member::goes);
        Self {
            wished: set.wished,
            replicas: staying.saturating_add(terminating),
            updated: staying,
            ready: count(&|member| member.stays() && matches!(member.state, MachineState::Ready(_))),
            available: count(&|member| member.stays() && member.is_available(min_ready_seconds, now)),
            terminating,
            revision: Some(set.revision.clone()),
            ..Self::default()
        }
    }

    /// Whether everything is as wished.
    pub fn is_settled(&self) -> bool {
        self.error.is_none()
            && self.terminating == 0
            && [self.replicas, self.updated, self.available].iter().all(|count| *count == self.wished)
    }

    /// The conditions with those that tools wait for: `Ready` for people, `Reconciling` and `Stalled` for Flux and
    /// Argo. What a plan says itself goes before.
    fn conditions(&self) -> Vec<Condition> {
        let mut all = self.conditions.clone();
        if let Some((reason, message)) = &self.error {
            // A plan knows nothing of what came of it.
            for condition in &mut all {
                let holds = match condition.kind {
                    conditions::READY => false,
                    conditions::REPLICA_FAILURE => true,
                    _ => continue,
                };
                *condition = Condition { holds: Some(holds), reason, message: message.clone(), ..*condition };
            }
        }
        let settled = self.is_settled();
        let progress = format!(
            "{} of {} updated, {} available, {} going",
            self.updated, self.wished, self.available, self.terminating
        );
        let (reason, message) = match (&self.error, settled) {
            (Some((reason, message)), _) => (*reason, message.clone()),
            (None, true) => ("AsWished", progress),
            (None, false) => ("Changing", progress),
        };
        let stalled = self.error.is_some();
        for (kind, holds) in [("Ready", settled), ("Reconciling", !settled && !stalled), ("Stalled", stalled)]
        {
            if !all.iter().any(|condition| condition.kind == kind) {
                all.push(Condition { kind, holds: Some(holds), reason, message: message.clone() });
            }
        }
        all
    }
}

/// The patch that brings the status of a MachineDeployment or MachinePool to what is said of it; nothing where it
/// stands there already.
pub fn pool_status(family: &Family, pool: &Object, said: &PoolStatus, now: Timestamp) -> Option<Value> {
    let own = *family == TRELLIS;
    let mut wished = counts(pool, said);
    let mut put = |key: &str, value: Value| drop(wished.insert(key.to_owned(), value));
    put("progress", said.mark.as_ref().map_or(Value::Null, progress));
    put("updatedReplicas", said.updated.into());
    put("unavailableReplicas", said.wished.saturating_sub(said.available).into());
    if own {
        put("terminatingReplicas", said.terminating.into());
        put("revision", said.revision.clone().map_or(Value::Null, Value::String));
        put("selector", own_selector(pool).into());
    } else {
        put("labelSelector", selector(pool).map_or(Value::Null, Value::String));
    }
    finish(family, pool, wished, said, now)
}

/// The patch that brings the status of a MachineSet to what is said of it; nothing where it stands there already.
pub fn set_status(family: &Family, set: &Object, said: &PoolStatus, now: Timestamp) -> Option<Value> {
    let mut wished = counts(set, said);
    let mut put = |key: &str, value: Value| drop(wished.insert(key.to_owned(), value));
    // Machines are found by their owner, and carry the labels of the template from the beginning.
    put("fullyLabeledReplicas", said.replicas.into());
    let (reason, message) = match &said.error {
        Some((reason, message)) => (Value::from(*reason), Value::from(message.as_str())),
        None => (Value::Null, Value::Null),
    };
    put("errorReason", reason);
    put("errorMessage", message);
    put("labelSelector", selector(set).map_or(Value::Null, Value::String));
    finish(family, set, wished, said, now)
}

/// How far a pool has come, to the second: nothing is written for less.
fn progress(mark: &Mark) -> Value {
    let Mark { revision, replicas, available, left, at, done } = mark;
    let at = whole_seconds(*at);
    json!({ "revision": revision, "replicas": replicas, "available": available, "left": left, "at": at, "done": done })
}

fn counts(object: &Object, said: &PoolStatus) -> Map<String, Value> {
    let mut wished = Map::new();
    wished.insert("observedGeneration".to_owned(), object.metadata.generation.into());
    for (key, count) in
        [("replicas", said.replicas), ("readyReplicas", said.ready), ("availableReplicas", said.available)]
    {
        wished.insert(key.to_owned(), count.into());
    }
    wished
}

fn finish(
    family: &Family,
    object: &Object,
    mut wished: Map<String, Value>,
    said: &PoolStatus,
    now: Timestamp,
) -> Option<Value> {
    let current = object.status_json();
    let own = *family == TRELLIS;
    // What a health check says has a writer of its own.
    let others = |kind: &str| kind == REMEDIATION_ALLOWED || (!own && !OUR_CONDITIONS.contains(&kind));
    wished.insert("conditions".to_owned(), merged_conditions(&current, &said.conditions(), others, now));
    status_patch(object, &status_difference(&current, wished))
}
