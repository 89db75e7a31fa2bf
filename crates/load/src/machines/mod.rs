//! The controller of machines, as the process that people run, against an API server: how fast, with how many requests,
//! with how much memory.
//!
//! The infra is what costs the least: nobody boots anything. A client that plays KubeVirt and the kubelets makes every
//! machine run and join as soon as it hears of it, with two requests each ([`infra`]); how fast machines are made is
//! measured without it.

mod calibration;
mod controller;
mod figures;
mod infra;
mod makespan;
mod objects;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::plan::not_measured;
use crate::servers::Which;

/// What all of these measurements are picked by.
pub(crate) const NAME: &str = "machines";

/// Measures the controller on each server, and rolling updates in virtual time.
pub(crate) async fn measure(arguments: &Arguments, which: &[Which]) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    for one in which {
        eprintln!("{NAME}: {}", one.name());
        let measured = figures::measure(one, &arguments.lab, arguments.quick).await;
        let measured = measured.unwrap_or_else(|failure| {
            let failed = |name: &&'static str| (*name, not_measured(&failure));
            figures::NAMES.iter().map(failed).collect()
        });
        for (name, figures) in measured {
            match rows.iter_mut().find(|row| row["name"] == name) {
                Some(row) => row[one.name()] = figures,
                None => rows.push(json!({"name": name, one.name(): figures})),
            }
        }
    }
    rows.push(makespan::measure(arguments.quick));
    rows
}
