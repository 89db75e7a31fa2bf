//! What is measured, in which order, and the report of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::fanout::FANOUTS;
use crate::loads::LOADS;
use crate::outcome::{Outcome, Round};
use crate::servers::{Server, Which};
use crate::support::Result;
use crate::{machines, memory};

/// How long and how often.
struct Effort {
    starts: usize,
    rounds: usize,
    time: Duration,
}

/// Measures everything that is asked for.
pub(crate) async fn run(arguments: &Arguments) -> Value {
    let effort = if arguments.quick {
        Effort { starts: 1, rounds: 1, time: Duration::from_millis(700) }
    } else {
        Effort { starts: 3, rounds: 3, time: Duration::from_millis(1_200) }
    };
    let mut which = vec![Which::Lab(arguments.lab.clone())];
    which.extend(arguments.real.clone().map(Which::Real));
    let mut report = Vec::new();
    if arguments.wants(memory::START) {
        report.push(memory::starts(&which, effort.starts).await);
    }
    loads(arguments, &which, &effort, &mut report).await;
    if arguments.wants(memory::FULL) && !arguments.quick {
        report.push(memory::full(&which).await);
    }
    if arguments.wants(machines::NAME) {
        report.extend(machines::measure(arguments, &which).await);
    }
    Value::from(report)
}

/// Loads and watches, on servers that live through all of them.
async fn loads(arguments: &Arguments, which: &[Which], effort: &Effort, report: &mut Vec<Value>) {
    let names = LOADS.iter().map(|load| load.name).chain(FANOUTS.iter().map(|fanout| fanout.name));
    let names: Vec<&str> = names.filter(|name| arguments.wants(name)).collect();
    if names.is_empty() {
        return;
    }
    let mut servers = Vec::new();
    for one in which {
        match one.start().await {
            Ok(server) => servers.push((one.name(), server)),
            Err(failure) => {
                let failed = |name: &&str| json!({"name": name, one.name(): not_measured(&failure)});
                return report.extend(names.iter().map(failed));
            }
        }
    }
    for name in names {
        eprintln!("{name}");
        let mut outcomes: Vec<Result<Outcome>> = servers.iter().map(|_| Ok(Outcome::default())).collect();
        for round in 0..effort.rounds {
            // In turns, so that a busy moment of the machine hits both alike.
            for ((_, server), outcome) in servers.iter().zip(&mut outcomes) {
                if let Ok(rounds) = outcome {
                    match one_round(name, server, round, effort.time).await {
                        Ok(measured) => rounds.add(measured),
                        Err(failure) => *outcome = Err(failure),
                    }
                }
            }
        }
        let mut entry = json!({"name": name});
        for ((which, _), outcome) in servers.iter().zip(outcomes) {
            entry[which] = outcome.map_or_else(|failure| not_measured(&failure), |outcome| outcome.report());
        }
        report.push(entry);
    }
}

async fn one_round(name: &str, server: &Server, round: usize, time: Duration) -> Result<Round> {
    if let Some(load) = LOADS.iter().find(|load| load.name == name) {
        return load.round(server, round, time).await;
    }
    let fanout = FANOUTS.iter().find(|fanout| fanout.name == name).ok_or("there is no such load")?;
    fanout.round(server, round, time).await
}

/// What the report says about something that went wrong.
pub(crate) fn not_measured(failure: &(impl std::fmt::Display + ?Sized)) -> Value {
    json!({"not_measured": failure.to_string()})
}
