//! Pools of every family as rows of one table, and what is to be said of them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trellis_engine::families::{KKP, TRELLIS, number_of, set_size};
use trellis_engine::pools::report::conditions;

use super::find::{Estate, Sort, Thing};
use super::machines::cluster;
use super::table::{Cell, Style, Table};
use super::words;

/// What a pool with a role of its own says of its role.
const CONTROL_PLANE: &str = "control-plane";

/// How a pool stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As wished.
    Ready,
    /// On its way.
    Changing,
    /// Its owner stopped the update.
    Paused,
    /// It will not get on by itself.
    Stalled,
    /// Nobody has looked at it, or at its last change.
    Unseen,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Changing => "Changing",
            Self::Paused => "Paused",
            Self::Stalled => "Stalled",
            Self::Unseen => "Unseen",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ready => Style::Good,
            Self::Changing | Self::Paused => Style::Busy,
            Self::Stalled => Style::Bad,
            Self::Unseen => Style::Faint,
        }
    }
}

/// A pool, as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) family: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) control_plane: bool,
    pub(crate) wished: u32,
    pub(crate) replicas: u32,
    /// Nothing where a pool knows no revisions.
    pub(crate) updated: Option<u32>,
    pub(crate) ready: u32,
    pub(crate) available: u32,
    pub(crate) going: Option<u32>,
    pub(crate) paused: bool,
    pub(crate) revision: Option<String>,
    pub(crate) state: State,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) created: Timestamp,
}

/// The pools of an estate, of one cluster or of all, in the order of namespaces and names.
pub(crate) fn pools(estate: &Estate, wanted: Option<&str>) -> Vec<Pool> {
    let mut all: Vec<Pool> = estate
        .pools()
        .map(pool)
        .filter(|pool| wanted.is_none_or(|cluster| pool.cluster == cluster))
        .collect();
    all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    all
}

/// One pool, or a set as if it were one.
pub(crate) fn pool(thing: &Thing) -> Pool {
    let (family, object) = (thing.kind.family, &thing.object);
    let (spec, status) = (Value::Object(object.spec_json()), object.status_json());
    let count =
        |key: &str| status.get(key).and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
    let rolls = thing.kind.sort == Sort::Pool;
    let role = spec.get("role").and_then(Value::as_str);
    let wished = set_size(object);
    let paused_in = if family == &TRELLIS { "/update/paused" } else { "/paused" };
    let paused = spec.pointer(paused_in).and_then(Value::as_bool).unwrap_or_default()
        || family.paused.iter().any(|key| object.metadata.annotations.is_on(key));
    let revision = if family == &TRELLIS {
        status.get("revision").and_then(Value::as_str).map(str::to_owned)
    } else {
        Some(number_of(family, object))
            .filter(|number| *number > 0 && family == &KKP)
            .map(|number| number.to_string())
    };
    let ready = count("readyReplicas").unwrap_or_default();
    let available = count("availableReplicas").unwrap_or_default();
    let (state, reason, message) = said(object.metadata.generation, &status, wished, available);
    Pool {
        family: family.name,
        kind: thing.kind.resource.kind,
        namespace: object.metadata.namespace().to_owned(),
        name: object.metadata.name().to_owned(),
        cluster: cluster(thing),
        control_plane: family == &TRELLIS && role == Some(CONTROL_PLANE),
        wished,
        replicas: count("replicas").unwrap_or_default(),
        updated: count("updatedReplicas").or_else(|| rolls.then_some(0)).filter(|_| rolls),
        ready,
        available,
        going: count("terminatingReplicas"),
        paused: paused && rolls,
        revision,
        state,
        reason,
        message,
        created: object.metadata.created,
    }
}

/// How a pool stands by its status: in one word for people, one for programs, and a sentence.
fn said(
    generation: i64,
    status: &Map<String, Value>,
    wished: u32,
    available: u32,
) -> (State, String, String) {
    let observed = status.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    let unseen = |message: &str| (State::Unseen, "Unseen".to_owned(), message.to_owned());
    if status.is_empty() {
        return unseen("no controller has looked at it yet");
    }
    if observed < generation {
        return unseen("no controller has looked at the last change yet");
    }
    let condition = |kind: &str| {
        let all = status.get("conditions").and_then(Value::as_array)?;
        all.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    };
    let text = |condition: &Value, key: &str| {
        condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let holds = |kind: &str| condition(kind).filter(|condition| text(condition, "status") == "True");
    if let Some(stalled) = holds(conditions::STALLED) {
        return (State::Stalled, text(stalled, "reason"), text(stalled, "message"));
    }
    let Some(ready) = condition(conditions::READY) else {
        // Others look after it, and say it with numbers alone.
        let message = format!("{available} of {wished} machines are available");
        let state = if available == wished { State::Ready } else { State::Changing };
        return (state, String::new(), message);
    };
    let (reason, message) = (text(ready, "reason"), text(ready, "message"));
    let state = match (text(ready, "status").as_str(), reason.as_str()) {
        ("True", _) => State::Ready,
        (_, "Paused") => State::Paused,
        _ => State::Changing,
    };
    (state, reason, message)
}

impl Pool {
    /// For programs: keys are only ever added.
    pub(crate) fn json(&self) -> Value {
        json!({
            "family": self.family,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "cluster": self.cluster,
            "role": if self.control_plane { CONTROL_PLANE } else { "worker" },
            "desired": self.wished,
            "replicas": self.replicas,
            "updated": self.updated,
            "ready": self.ready,
            "available": self.available,
            "terminating": self.going,
            "paused": self.paused,
            "revision": self.revision,
            "state": self.state.word(),
            "reason": self.reason,
            "message": self.message,
            "created": self.created.to_string(),
        })
    }
}

/// Pools as a table.
pub(crate) fn table(pools: &[Pool], namespaces: bool, wide: bool, now: Timestamp) -> Table {
    let mut titles =
        vec!["NAME", "CLUSTER", "ROLE", "DESIRED", "UPDATED", "READY", "AVAILABLE", "STATE", "AGE", "WHY"];
    if namespaces {
        titles.insert(0, "NAMESPACE");
    }
    if wide {
        titles.extend(["KIND", "FAMILY", "TERMINATING", "REVISION"]);
    }
    let number =
        |number: Option<u32>| Cell::from(number.map(|number| number.to_string()).unwrap_or_default());
    let rows = pools
        .iter()
        .map(|pool| {
            let mut row = vec![
                pool.name.as_str().into(),
                pool.cluster.as_str().into(),
                if pool.control_plane { CONTROL_PLANE } else { "worker" }.into(),
                pool.wished.to_string().into(),
                number(pool.updated),
                pool.ready.to_string().into(),
                pool.available.to_string().into(),
                Cell::styled(pool.state.word(), pool.state.style()),
                words::age(pool.created, now).into(),
                pool.message.as_str().into(),
            ];
            if namespaces {
                row.insert(0, pool.namespace.as_str().into());
            }
            if wide {
                let revision = pool.revision.clone().unwrap_or_default();
                row.extend([pool.kind.into(), pool.family.into(), number(pool.going), revision.into()]);
            }
            row
        })
        .collect();
    Table { titles, rows }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, kind, thing};
    use super::*;
    use trellis_engine::families::OPENSHIFT;

    fn conditions(all: &[(&str, &str, &str, &str)]) -> Value {
        all.iter()
            .map(|(kind, status, reason, message)| {
                json!({"type": kind, "status": status, "reason": reason, "message": message})
            })
            .collect()
    }

    fn ours(status: Value) -> Pool {
        let spec = json!({"cluster": "demo", "replicas": 3, "role": "control-plane"});
        pool(&thing(kind(&TRELLIS, Sort::Pool), "masters", None, spec, status))
    }

    #[test]
    fn how_a_pool_stands_is_said_in_one_word_and_a_sentence() {
        let ready =
            conditions(&[("Ready", "True", "AsWished", "all"), ("Stalled", "False", "AsWished", "all")]);
        let paused = conditions(&[("Ready", "False", "Paused", "stopped")]);
        let stalled = conditions(&[
            ("Ready", "False", "X", "x"),
            ("Stalled", "True", "ProgressDeadlineExceeded", "stuck"),
        ]);
        let cases = [
            (json!({}), State::Unseen, "no controller has looked at it yet"),
            (
                json!({"observedGeneration": 0, "replicas": 1}),
                State::Unseen,
                "no controller has looked at the last change yet",
            ),
            (json!({"observedGeneration": 1, "conditions": ready}), State::Ready, "all"),
            (json!({"observedGeneration": 1, "conditions": paused}), State::Paused, "stopped"),
            (json!({"observedGeneration": 1, "conditions": stalled}), State::Stalled, "stuck"),
            (
                json!({"observedGeneration": 1, "availableReplicas": 2}),
                State::Changing,
                "2 of 3 machines are available",
            ),
            (
                json!({"observedGeneration": 1, "availableReplicas": 3}),
                State::Ready,
                "3 of 3 machines are available",
            ),
        ];
        for (status, state, message) in cases {
            let pool = ours(status.clone());
            assert_eq!((pool.state, pool.message.as_str()), (state, message), "{status}");
            assert!(pool.control_plane && pool.wished == 3);
        }
    }

    #[test]
    fn sets_alone_are_pools_without_revisions() {
        let set = thing(kind(&OPENSHIFT, Sort::Set), "red", None, json!({}), json!({"readyReplicas": 1}));
        let owned = thing(kind(&KKP, Sort::Set), "blue-1", Some("blue"), json!({}), json!({}));
        let estate = Estate { things: vec![set, owned] };
        let all = pools(&estate, None);
        assert_eq!(all.len(), 1, "the set of a MachineDeployment is not one");
        assert_eq!((all[0].name.as_str(), all[0].wished, all[0].updated), ("red", 1, None));
        let table = table(&all, true, true, at("2026-01-01T00:01:00Z"));
        assert_eq!(table.titles.len(), table.rows[0].len());
        assert!(pools(&estate, Some("demo")).is_empty());
    }

    #[test]
    fn a_paused_deployment_says_so() {
        let pool = pool(&thing(
            kind(&KKP, Sort::Pool),
            "blue",
            None,
            json!({"paused": true, "replicas": 2}),
            json!({}),
        ));
        assert!(pool.paused && pool.wished == 2);
        assert_eq!(pool.json()["role"], "worker");
    }
}
