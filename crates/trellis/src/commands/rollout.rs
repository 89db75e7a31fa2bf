//! `trellis rollout`.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_engine::families::rollback::{self, Kept};
use trellis_engine::families::{HistoryObject, OPENSHIFT, Object, TRELLIS, keys};
use trellis_runtime::client::Verb;
use trellis_runtime::{Resource, Selection};

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::connect::Asked;
use crate::live::find::{FamilyName, Reference, Wanted};
use crate::live::table::{Cell, Style, Table};
use crate::live::{Connected, Estate, Screen, Sort, Thing, Where, pools, progress, words};
use crate::output::{Output, print, print_json};

/// Where old revisions of our own pools are kept.
const HISTORY: Resource = Resource::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");
/// How many changed fields of a revision are shown.
const SHOWN: usize = 3;

/// Follow and steer the updates of a pool: of MachineDeployments by their MachineSets, of MachinePools by their
/// ControllerRevisions.
///
/// OpenShift's MachineSets have no updates: a changed template holds for new machines only.
#[derive(Debug, Args)]
pub(crate) struct Rollout {
    #[command(subcommand)]
    act: Act,
}

/// What is done.
#[derive(Debug, Subcommand)]
enum Act {
    /// Show how far an update is until it has finished. Ends with 12 when the progress deadline is exceeded, and with 11
    /// when --timeout is.
    Status(Status),
    /// Stop an update where it is; scaling goes on.
    Pause(Which),
    /// Let a paused update go on.
    Resume(Which),
    /// Go back to an earlier revision.
    Undo(Undo),
    /// List the revisions that can be gone back to.
    History(Which),
}

/// Which pool.
#[derive(Debug, Args)]
struct Which {
    /// The pool: workers, machinepool/workers, machinedeployment/workers.
    #[arg(value_name = "POOL")]
    pool: Reference,
    /// The family of the pool, where several have one of that name.
    #[arg(long, value_enum)]
    family: Option<FamilyName>,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Args)]
struct Status {
    #[command(flatten)]
    which: Which,
    /// How long to wait, such as 90s or 10m; without end when left out.
    #[arg(long, value_name = "DURATION", value_parser = words::duration)]
    timeout: Option<Duration>,
    /// Say how it stands now, and do not wait.
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
}

#[derive(Debug, Args)]
struct Undo {
    #[command(flatten)]
    which: Which,
    /// The number of the revision to go back to, as `trellis rollout history` lists it; the one before the present when
    /// left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    to_revision: Option<u64>,
}

/// A pool that rolls, and what was found with it.
struct Found {
    connected: Connected,
    pool: Thing,
    wanted: Vec<Wanted>,
    estate: Estate,
}

impl Rollout {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        crate::live::run(async move {
            match self.act {
                Act::Status(status) => status.run(output).await,
                Act::Pause(which) => which.find().await?.pause(true, output).await,
                Act::Resume(which) => which.find().await?.pause(false, output).await,
                Act::Undo(undo) => undo.which.find().await?.undo(undo.to_revision, output).await,
                Act::History(which) => which.find().await?.history(output).await,
            }
        })
    }
}

impl Which {
    async fn find(&self) -> Result<Found, Failure> {
        let connected = self.place.connect().await?;
        let (pool, wanted, estate) = connected.find_pool(&self.pool, self.family).await?;
        rolls(&pool, &estate)?;
        Ok(Found { connected, pool, wanted, estate })
    }
}

/// Refuses what has no updates, with what to do instead.
fn rolls(pool: &Thing, estate: &Estate) -> Result<(), Failure> {
    if pool.kind.sort == Sort::Pool {
        return Ok(());
    }
    let call = pool.call();
    Err(Failure::Rejected(match estate.owner(pool) {
        Some(owner) => format!("{call} is one revision of {}: name that one", owner.call()),
        None if pool.kind.family == &OPENSHIFT => format!(
            "{call} has no updates: a changed template of an OpenShift MachineSet holds for new machines only. Replace old \
             ones by deleting them one at a time (`trellis get machines` lists them), or scale up and down again; \
             `trellis convert --to trellis` makes a MachinePool of it, which has updates"
        ),
        None => format!(
            "{call} has no updates: a changed template of a MachineSet holds for new machines only; a MachineDeployment \
             has updates"
        ),
    }))
}

impl Status {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let Found { connected, pool, wanted, .. } = self.which.find().await?;
        if !self.no_wait {
            progress::follow(&connected, &wanted, &pool, self.timeout, output).await?;
            return Ok(Exit::Success);
        }
        let row = pools::pool(&pool);
        match output.format {
            Format::Json => print_json(&json!({ "pool": row.json() }))?,
            Format::Human => print(&format!("{}: {}", pool.call(), row.message))?,
        }
        match progress::Verdict::of(&row) {
            progress::Verdict::Stuck(_) => Ok(Exit::Stalled),
            _ => Ok(Exit::Success),
        }
    }
}

impl Found {
    fn say(&self, did: &str, words: &str, output: Output) -> Result<Exit, Failure> {
        let meta = &self.pool.object.metadata;
        match output.format {
            Format::Json => print_json(&json!({
                "did": did, "family": self.pool.kind.family.name, "kind": self.pool.kind.resource.kind,
                "namespace": meta.namespace(), "name": meta.name(), "message": words,
            }))?,
            Format::Human => print(&format!("{} {words}", self.pool.call()))?,
        }
        Ok(Exit::Success)
    }

    fn failed(&self, error: trellis_runtime::client::Error) -> Failure {
        let meta = &self.pool.object.metadata;
        self.connected
            .explain(error, Asked::new(Verb::Patch, &self.pool.kind.resource, meta.namespace(), meta.name()))
    }

    async fn pause(self, paused: bool, output: Output) -> Result<Exit, Failure> {
        let (family, object) = (self.pool.kind.family, &self.pool.object);
        let (did, done, was) = if paused {
            ("paused", "paused: updating has stopped, scaling goes on", "is paused already")
        } else {
            ("resumed", "resumed: updating goes on", "is not paused")
        };
        let annotation = family.paused.iter().find(|key| object.metadata.annotations.is_on(key));
        if let Some(key) = annotation.filter(|_| !paused) {
            return Err(Failure::Rejected(format!(
                "{} is paused by its annotation {key}, which somebody put there: take that away",
                self.pool.call()
            )));
        }
        let Some(patch) = rollback::pause(family, object, paused) else { return self.say(did, was, output) };
        let written = self
            .connected
            .site
            .merge_patch::<Object>(&self.pool.kind.resource, &object.metadata.key, &patch)
            .await;
        written.map_err(|error| self.failed(error))?;
        self.say(did, done, output)
    }

    /// The revisions there are, the oldest first.
    async fn kept(&self) -> Result<Vec<Kept>, Failure> {
        let (family, object) = (self.pool.kind.family, &self.pool.object);
        if family != &TRELLIS {
            let sets = self.estate.of(Sort::Set).map(|set| &*set.object);
            return Ok(rollback::kept_sets(family, object, sets));
        }
        let namespace = object.metadata.namespace();
        let selection =
            Selection::namespace(namespace).labels(&format!("{}={}", keys::POOL, object.metadata.name()));
        let listed = self.connected.site.list::<HistoryObject>(&HISTORY, &selection).await;
        let listed = listed.map_err(|error| {
            self.connected.explain(error, Asked::new(Verb::List, &HISTORY, namespace, ""))
        })?;
        Ok(rollback::kept_history(object, &listed))
    }

    async fn undo(self, to: Option<u64>, output: Output) -> Result<Exit, Failure> {
        let call = self.pool.call();
        if pools::pool(&self.pool).paused {
            return Err(Failure::Rejected(format!("{call} is paused: resume it first, then go back")));
        }
        let kept = self.kept().await?;
        let target = target(&kept, to).map_err(|why| Failure::Rejected(format!("{call} {why}")))?;
        let operations = rollback::go_back(self.pool.kind.family, &self.pool.object, target);
        let key = &self.pool.object.metadata.key;
        let written =
            self.connected.site.json_patch::<Object>(&self.pool.kind.resource, key, &operations).await;
        written.map_err(|error| self.failed(error))?;
        self.say("undone", &format!("goes back to revision {}", target.number), output)
    }

    async fn history(self, output: Output) -> Result<Exit, Failure> {
        let kept = self.kept().await?;
        let machines = |entry: &Kept| {
            self.estate
                .machines_of(&self.pool)
                .filter(|machine| {
                    let of_set =
                        self.estate.owner(machine).is_some_and(|set| *set.object.metadata.uid == *entry.uid);
                    let revision =
                        machine.object.spec_json().get("revision").and_then(Value::as_str).map(str::to_owned);
                    of_set || (revision.is_some() && revision.as_deref() == Some(&entry.revision))
                })
                .count()
        };
        let newest = kept.last().map(|entry| entry.number);
        let changed =
            |at: usize| match at.checked_sub(1).and_then(|before| kept.get(before)).zip(kept.get(at)) {
                Some((before, entry)) => before.differs_at(entry),
                None => Vec::new(),
            };
        if output.format == Format::Json {
            let revisions: Vec<Value> = kept
                .iter()
                .enumerate()
                .map(|(at, entry)| {
                    json!({
                        "number": entry.number, "revision": entry.revision, "object": entry.name,
                        "created": entry.created.to_string(), "machines": machines(entry),
                        "current": Some(entry.number) == newest, "changed": changed(at),
                    })
                })
                .collect();
            print_json(&json!({ "revisions": revisions }))?;
            return Ok(Exit::Success);
        }
        if kept.is_empty() {
            return self.say("history", "has no revisions yet: no controller has looked at it", output);
        }
        let now = Timestamp::now();
        let row = |(at, entry): (usize, &Kept)| {
            let style = if Some(entry.number) == newest { Style::Good } else { Style::Plain };
            vec![
                Cell::styled(entry.number.to_string(), style),
                entry.revision.as_str().into(),
                machines(entry).to_string().into(),
                words::age(entry.created, now).into(),
                if at == 0 { "the oldest that is kept".to_owned() } else { some_of(&changed(at)) }.into(),
            ]
        };
        let rows = kept.iter().enumerate().map(row).collect();
        let table = Table { titles: vec!["REVISION", "HASH", "MACHINES", "AGE", "CHANGED"], rows };
        print(&table.text(Screen::new(output).layout()))?;
        Ok(Exit::Success)
    }
}

fn some_of(paths: &[String]) -> String {
    let shown = paths.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The revision to go back to, or why there is none.
fn target(kept: &[Kept], to: Option<u64>) -> Result<&Kept, String> {
    let (newest, older) = kept.split_last().ok_or("has no revisions yet")?;
    let numbers = || older.iter().map(|entry| entry.number.to_string()).collect::<Vec<_>>().join(", ");
    match to {
        None => older
            .last()
            .ok_or_else(|| format!("has only revision {}: there is nothing to go back to", newest.number)),
        Some(number) if number == newest.number => Err(format!("has revision {number} already")),
        Some(number) => older.iter().find(|entry| entry.number == number).ok_or_else(|| {
            let others = if older.is_empty() { "none".to_owned() } else { numbers() };
            format!("has no revision {number} to go back to; it has {others}")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::{kind, thing};
    use trellis_engine::families::KKP;

    fn kept(numbers: &[u64]) -> Vec<Kept> {
        let pool = thing(kind(&KKP, Sort::Pool), "blue", None, json!({}), json!({}));
        let sets: Vec<Object> = numbers
            .iter()
            .map(|number| {
                Object::from_json(json!({
                    "metadata": {
                        "name": format!("blue-{number}"), "uid": number.to_string(),
                        "annotations": {KKP.revision_number.unwrap(): number.to_string()},
                        "ownerReferences": [{"kind": "X", "name": "blue", "uid": "blue", "controller": true}],
                    },
                    "spec": {"template": {}},
                }))
                .unwrap()
            })
            .collect();
        rollback::kept_sets(&KKP, &pool.object, &sets)
    }

    #[test]
    fn the_revision_to_go_back_to_is_found_or_it_is_said_why_not() {
        let three = kept(&[4, 7, 9]);
        let to = |kept: &[Kept], to| target(kept, to).map(|entry| entry.number);
        assert_eq!(to(&three, None), Ok(7));
        assert_eq!(to(&three, Some(4)), Ok(4));
        assert_eq!(to(&three, Some(9)), Err("has revision 9 already".to_owned()));
        assert_eq!(to(&three, Some(5)), Err("has no revision 5 to go back to; it has 4, 7".to_owned()));
        assert_eq!(
            to(&kept(&[1]), None),
            Err("has only revision 1: there is nothing to go back to".to_owned())
        );
        assert!(to(&[], None).is_err());
    }

    #[test]
    fn what_has_no_updates_is_told_what_to_do_instead() {
        let red = thing(kind(&OPENSHIFT, Sort::Set), "red", None, json!({}), json!({}));
        let blue = thing(kind(&KKP, Sort::Pool), "blue", None, json!({}), json!({}));
        let set = thing(kind(&KKP, Sort::Set), "blue-1", Some("blue"), json!({}), json!({}));
        let estate = Estate { things: vec![red.clone(), blue.clone(), set.clone()] };
        assert!(rolls(&blue, &estate).is_ok());
        let said = |thing| rolls(thing, &estate).unwrap_err().to_string();
        assert!(said(&red).contains("holds for new machines only"));
        assert!(said(&set).contains("is one revision of machinedeployment/blue"));
    }

    #[test]
    fn long_lists_of_fields_are_cut() {
        let paths: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(some_of(&paths), "a, b, c and 1 more");
        assert_eq!(some_of(&paths[..1]), "a");
    }
}
