//! A run is its plan: made again it is the same, and undisturbed it breaks no rule.

use trellis_simulation::explore;
use trellis_simulation::plan::Plan;
use trellis_simulation::run::{Manner, run};

/// A line with the names that machines have in this scenario: `REVISION` stands for that of the pool as it is made.
pub(crate) fn with_names(line: &str) -> String {
    let plan = Plan::undisturbed(line.split_whitespace().next().unwrap(), 1);
    let outcome = run(&plan, &Manner::default()).unwrap();
    let name = outcome.points.iter().find_map(|seen| {
        let name = seen.point.what.strip_prefix("create:machines/")?;
        Some(name.trim_start_matches("blue-workers-").split('-').next()?.to_owned())
    });
    line.replace("REVISION", &name.expect("a machine is made"))
}

#[test]
fn undisturbed_runs_are_alike_and_break_no_rule() {
    for scenario in ["scale-up", "scale-down"] {
        let chart = explore::chart(scenario, 1).unwrap();
        let chart = chart.unwrap_or_else(|told| panic!("{told}"));
        assert!(chart.points.len() > 20, "{}", chart.points.len());
    }
}

#[test]
fn a_plan_that_names_no_moment_of_a_run_is_found_out() {
    let plan: Plan = "scale-down seed=1 lost@infra:create:nothing/of-this-kind#1".parse().unwrap();
    let outcome = run(&plan, &Manner::default()).unwrap();
    assert!(outcome.converged && outcome.violations.is_empty(), "{}", outcome.timeline);
    assert!(!outcome.fired && !outcome.is_good());
}
