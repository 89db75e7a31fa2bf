//! Following a cluster until something holds of it: what its TenantCluster says, and what its machines wait for.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_engine::controllers::fleet::CLUSTERS;
use trellis_engine::families::Object;
use trellis_runtime::{Cache, Key, Resource, Selection, Site};

use crate::args::Format;
use crate::exit::Failure;
use crate::live::screen::Bar;
use crate::live::table::one_line;
use crate::live::{Screen, words};
use crate::output::{Output, print};

const MACHINES: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machines", "Machine");
/// How often what is shown is drawn anew although nothing changed: times in it pass.
const TICK: Duration = Duration::from_secs(1);

/// How long the first look may take.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The control plane serves without the bootstrap machine.
    Bootstrap,
    /// Everything that was asked for is there.
    Install,
}

impl Goal {
    /// The condition that says so.
    fn condition(self) -> &'static str {
        match self {
            Self::Bootstrap => "BootstrapComplete",
            Self::Install => "InstallComplete",
        }
    }

    /// As the command line calls it.
    fn word(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap-complete",
            Self::Install => "install-complete",
        }
    }
}

/// How a cluster stands on the way to a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether it is there.
    pub(crate) reached: bool,
    /// One word.
    pub(crate) reason: String,
    /// What there is to say.
    pub(crate) message: String,
}

/// How a cluster stands, by what is said of it.
pub(crate) fn standing(cluster: &Object, goal: Goal) -> Standing {
    let status = cluster.status_json();
    let conditions = status.get("conditions").and_then(Value::as_array);
    let find = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|one| one.get("type").and_then(Value::as_str) == Some(kind))
    };
    let text =
        |one: &Value, field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    // Where nobody can look after it, that is the reason.
    let unserved = find("Served").filter(|one| text(one, "status") == "False");
    let reached = find(goal.condition()).is_some_and(|one| text(one, "status") == "True");
    match unserved.filter(|_| !reached).or_else(|| find(goal.condition())) {
        Some(said) => Standing { reached, reason: text(said, "reason"), message: text(said, "message") },
        None => Standing {
            reached: false,
            reason: "Unseen".to_owned(),
            message: "no controller has said anything of it yet".to_owned(),
        },
    }
}

/// How far a cluster is on the whole way, of how much.
fn far(standing: &Standing) -> (u32, u32) {
    let done = match standing.reason.as_str() {
        "Preparing" => 1,
        "Bootstrapping" => 2,
        "Growing" => 3,
        "Complete" => 4,
        _ => 0,
    };
    (done, 4)
}

/// Where progress is told.
pub(crate) struct Teller {
    name: String,
    output: Output,
    screen: Screen,
    began: Instant,
    said: String,
}

impl Teller {
    pub(crate) fn new(name: &str, output: Output) -> Self {
        let screen = Screen::new(output);
        Self { name: name.to_owned(), output, screen, began: Instant::now(), said: String::new() }
    }

    /// Whether programs read what is told.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.output.format == Format::Json
    }

    /// How long it takes so far.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Says something that stays; for programs with what it is about.
    pub(crate) fn say(&mut self, kind: &str, message: &str, more: Value) -> Result<(), Failure> {
        if self.output.format == Format::Json {
            let mut line =
                json!({"type": kind, "cluster": self.name, "seconds": self.rounded(), "message": message});
            if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
                line.extend(more);
            }
            return Ok(print(&line.to_string())?);
        }
        let seconds = self.seconds();
        Ok(self.screen.say(&format!("{seconds:6.1} s  {message}"))?)
    }

    /// Says how far it is, if that is new; on a terminal also what machines wait for.
    fn progress(&mut self, standing: &Standing, below: &[String]) -> Result<(), Failure> {
        let Standing { reason, message, .. } = standing;
        if self.screen.is_terminal() && self.output.format == Format::Human {
            let (done, of) = far(standing);
            let passed = words::span(SignedDuration::try_from(self.began.elapsed()).unwrap_or_default());
            let said = format!("{message}, {passed}");
            self.screen.progress(&Bar { name: &self.name, done, of, said: &said }, below)?;
        } else if self.said != *message {
            self.said.clone_from(message);
            self.say("progress", message, json!({"reason": reason}))?;
        }
        Ok(())
    }

    fn rounded(&self) -> f64 {
        (self.seconds() * 1000.0).round() / 1000.0
    }
}

/// The machines that are not there yet, and what they wait for.
fn waiting(machines: &Cache<Object>) -> Vec<String> {
    let mut lines: Vec<String> = machines
        .all()
        .iter()
        .filter_map(|machine| {
            let status = machine.status_json();
            let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
            let phase = text("phase");
            let line = format!("  {}  {phase}  {}", machine.metadata.name(), text("message"));
            (phase != "Running").then(|| one_line(&line, 160))
        })
        .collect();
    lines.sort();
    lines
}

/// Follows a cluster until a goal is reached, it is gone, or the time is over.
pub(crate) async fn follow(
    control: &Site,
    key: &Key,
    goal: Goal,
    end: Instant,
    teller: &mut Teller,
) -> Result<(), Failure> {
    let by_name = Selection::namespace(key.namespace()).fields(&format!("metadata.name={}", key.name()));
    let clusters: Cache<Object> = Cache::new(CLUSTERS, by_name);
    let label = format!("{}={}", trellis_platform_kubevirt::CLUSTER_LABEL, key.name());
    let machines: Cache<Object> = Cache::new(MACHINES, Selection::namespace(key.namespace()).labels(&label));
    let mut changes = clusters.changes();
    let work = async {
        // However little time there is, the last reason is to be known.
        let first = end.max(Instant::now() + FIRST_LOOK);
        let synced = tokio::time::timeout_at(first, clusters.synced()).await;
        if synced.is_err() {
            let why = clusters.trouble().unwrap_or_else(|| "the server does not answer".to_owned());
            return Err(Failure::TimedOut(format!("{} cannot be looked at: {why}", key.name())));
        }
        loop {
            let Some(cluster) = clusters.get(key) else {
                return Err(Failure::NotFound(format!(
                    "there is no TenantCluster {} in namespace {}, or no longer",
                    key.name(),
                    key.namespace()
                )));
            };
            let standing = standing(&cluster, goal);
            teller.progress(&standing, &waiting(&machines))?;
            if standing.reached {
                return Ok(());
            }
            if Instant::now() >= end {
                let waited = SignedDuration::try_from(teller.began.elapsed()).unwrap_or_default();
                return Err(Failure::TimedOut(format!(
                    "{} is not {} after {}: {}",
                    key.name(),
                    goal.word(),
                    words::span(waited),
                    standing.message
                )));
            }
            let tick = (Instant::now() + TICK).min(end);
            let _ = tokio::time::timeout_at(tick, changes.recv()).await;
        }
    };
    tokio::select! {
        () = clusters.run(control, 0) => Ok(()),
        () = machines.run(control, 0) => Ok(()),
        done = work => done,
    }
}

/// Whether a cluster has reached a goal, asked once.
pub(crate) async fn look(control: &Site, key: &Key, goal: Goal) -> Result<Option<Standing>, Failure> {
    let found = control.find::<Object>(&CLUSTERS, key).await;
    let found = found.map_err(|error| Failure::Refused(error.to_string()))?;
    Ok(found.map(|cluster| standing(&cluster, goal)))
}

/// When something that is told to take so long is over.
pub(crate) fn until(timeout: Duration) -> Instant {
    let far = Duration::from_hours(24 * 365);
    Instant::now() + timeout.min(far)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(conditions: &Value) -> Object {
        let metadata = json!({"namespace": "n", "name": "blue", "uid": "u"});
        Object::from_json(json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    #[test]
    fn the_condition_of_the_goal_counts() {
        let said = json!([
            {"type": "BootstrapComplete", "status": "True", "reason": "Complete", "message": "b"},
            {"type": "InstallComplete", "status": "False", "reason": "Growing", "message": "1 of 5"},
            {"type": "Served", "status": "True", "reason": "Serving", "message": "s"},
        ]);
        assert!(standing(&cluster(&said), Goal::Bootstrap).reached);
        let install = standing(&cluster(&said), Goal::Install);
        assert_eq!((install.reached, install.message.as_str(), far(&install)), (false, "1 of 5", (3, 4)));
        assert_eq!(standing(&cluster(&json!([])), Goal::Install).reason, "Unseen");
    }

    #[test]
    fn whoever_cannot_look_after_it_says_why_unless_it_is_there() {
        let unserved = json!({"type": "Served", "status": "False", "reason": "BadSpec", "message": "why"});
        let going =
            json!({"type": "InstallComplete", "status": "False", "reason": "Growing", "message": "m"});
        let done = json!({"type": "InstallComplete", "status": "True", "reason": "Complete", "message": "m"});
        assert_eq!(standing(&cluster(&json!([going, unserved])), Goal::Install).message, "why");
        assert!(standing(&cluster(&json!([done, unserved])), Goal::Install).reached);
    }
}
