//! Following one pool until it is as wished.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;

use super::find::{Estate, Thing, Wanted};
use super::pools::{self, Pool, State};
use super::screen::Bar;
use super::table::{Cell, Style, Table};
use super::{Connected, Screen, Watched, machines, words};
use crate::args::Format;
use crate::exit::Failure;
use crate::output::{Output, print};

/// How often what is shown is drawn anew although nothing changed: times in it pass.
const TICK: Duration = Duration::from_secs(1);

/// How a pool stands on its way to what is wished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is as wished.
    Done(String),
    /// It goes on, for this reason.
    Going(String),
    /// It will not get on by itself, for this reason.
    Stuck(String),
}

impl Verdict {
    /// How a pool stands.
    pub(crate) fn of(pool: &Pool) -> Self {
        let message = pool.message.clone();
        match pool.state {
            State::Ready => Self::Done(message),
            State::Stalled => Self::Stuck(message),
            State::Paused => Self::Going(format!("{message} (`trellis rollout resume` lets it go on)")),
            State::Changing | State::Unseen => Self::Going(message),
        }
    }

    /// What there is to say.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Done(message) | Self::Going(message) | Self::Stuck(message) => message,
        }
    }
}

/// Follows a pool until it is as wished, is stuck, or the time is over.
pub(crate) async fn follow(
    connected: &Connected,
    wanted: &[Wanted],
    pool: &Thing,
    timeout: Option<Duration>,
    output: Output,
) -> Result<(), Failure> {
    let began = Instant::now();
    let end = timeout.map(|timeout| began + timeout);
    let (call, uid) = (pool.call(), pool.object.metadata.uid.clone());
    let mut watched = Watched::start(connected, wanted).await?;
    let mut screen = Screen::new(output);
    let mut told = None;
    loop {
        let estate = watched.estate();
        let Some(thing) = estate.by_uid(&uid) else {
            return Err(Failure::NotFound(format!("{call} was deleted meanwhile")));
        };
        let row = pools::pool(thing);
        let verdict = Verdict::of(&row);
        if output.format == Format::Json {
            let kind = match verdict {
                Verdict::Done(_) => "done",
                Verdict::Going(_) => "progress",
                Verdict::Stuck(_) => "stalled",
            };
            let line = json!({ "type": kind, "pool": row.json() });
            if told.as_ref() != Some(&line) {
                print(&line.to_string())?;
                told = Some(line);
            }
        } else if let Verdict::Going(message) = &verdict {
            let passed = words::span(SignedDuration::try_from(began.elapsed()).unwrap_or_default());
            let said = if screen.is_terminal() { format!("{message}, {passed}") } else { message.clone() };
            let bar = Bar { name: &call, done: done(&row), of: row.wished, said: &said };
            let mut below = busy(&estate, thing, Timestamp::now()).lines(screen.layout());
            below.extend(watched.silence().map(str::to_owned));
            screen.progress(&bar, &below)?;
        } else {
            screen.say(&format!("{call}: {}", verdict.message()))?;
        }
        match verdict {
            Verdict::Done(_) => return Ok(()),
            Verdict::Stuck(message) => return Err(Failure::Stalled(format!("{call} is stuck: {message}"))),
            Verdict::Going(message) if end.is_some_and(|end| Instant::now() >= end) => {
                let after = SignedDuration::try_from(timeout.unwrap_or_default()).unwrap_or_default();
                return Err(Failure::TimedOut(format!(
                    "{call} is not as wished after {}: {message}",
                    words::span(after)
                )));
            }
            Verdict::Going(_) => {}
        }
        let tick = Instant::now() + TICK;
        watched.news(end.map_or(tick, |end| end.min(tick))).await;
    }
}

/// How many machines are as wished.
fn done(pool: &Pool) -> u32 {
    pool.updated.map_or(pool.available, |updated| updated.min(pool.available))
}

/// The machines of a pool that are not as wished, and why.
fn busy(estate: &Estate, pool: &Thing, now: Timestamp) -> Table {
    let all = estate.machines_of(pool).map(|thing| machines::machine(estate, thing));
    let rows = all
        .filter(|machine| machine.phase != "Running" || machine.is_current == Some(false))
        .map(|machine| {
            let old = if machine.is_current == Some(false) { "old" } else { "new" };
            let phase = Cell::styled(machine.phase.as_str(), Style::Busy);
            vec![format!("  {}", machine.name).into(), old.into(), phase, machine.why(now).into()]
        })
        .collect();
    Table { titles: vec!["  MACHINE", "REVISION", "PHASE", "WHY"], rows }
}

#[cfg(test)]
mod tests {
    use super::super::find::Sort;
    use super::super::testing::{at, kind, thing};
    use super::*;
    use trellis_engine::families::TRELLIS;

    #[test]
    fn what_is_waited_for_is_judged_by_the_state() {
        let row = |state| {
            let pool = thing(kind(&TRELLIS, Sort::Pool), "p", None, json!({"replicas": 3}), json!({}));
            Pool { state, message: "m".to_owned(), ..pools::pool(&pool) }
        };
        assert_eq!(Verdict::of(&row(State::Ready)), Verdict::Done("m".to_owned()));
        assert_eq!(Verdict::of(&row(State::Stalled)), Verdict::Stuck("m".to_owned()));
        assert_eq!(Verdict::of(&row(State::Unseen)), Verdict::Going("m".to_owned()));
        assert!(Verdict::of(&row(State::Paused)).message().contains("rollout resume"));
        let half = Pool { updated: Some(2), available: 3, ..row(State::Changing) };
        assert_eq!((done(&half), done(&Pool { updated: None, ..half.clone() })), (2, 3));
    }

    #[test]
    fn machines_that_are_as_wished_are_not_listed() {
        let machine = |name: &str, revision: &str, phase: &str| {
            let spec = json!({"cluster": "c", "pool": "p", "revision": revision, "ordinal": 0});
            thing(
                kind(&TRELLIS, Sort::Machine),
                name,
                Some("p"),
                spec,
                json!({"phase": phase, "message": "m"}),
            )
        };
        let pool = thing(kind(&TRELLIS, Sort::Pool), "p", None, json!({}), json!({"revision": "r2"}));
        let estate = Estate {
            things: vec![
                pool.clone(),
                machine("a", "r1", "Running"),
                machine("b", "r2", "Running"),
                machine("c", "r2", "Joining"),
            ],
        };
        let table = busy(&estate, &pool, at("2026-01-01T00:00:00Z"));
        let names: Vec<&str> = table.rows.iter().map(|row| row[0].text.trim()).collect();
        assert_eq!(names, ["a", "c"]);
    }
}
