//! Every point of a scenario, each with all that can go wrong there; and runs by chance on top.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::chance;
use crate::failure::Result;
use crate::plan::{Fault, Perturbation, Plan};
use crate::run::{Manner, Outcome, Reference, run};
use crate::tap::Seen;

/// How long an undisturbed run has to stay quiet.
const LONG_IDLE: Duration = Duration::from_mins(200);
/// How much of the stack a run may take: a world is one deep tree of futures.
const STACK: usize = 32 << 20;
/// How many failures are told whole.
const TOLD: usize = 3;

/// What became of the runs of a scenario.
#[derive(Debug, Default)]
pub struct Tally {
    /// The scenario.
    pub scenario: String,
    /// How many points there are.
    pub points: usize,
    /// How many runs were to be made: a point and what goes wrong there.
    pub found: usize,
    /// In how many of them it went wrong as planned.
    pub fired: usize,
    /// How many came to their end.
    pub converged: usize,
    /// How many broke a rule.
    pub violated: usize,
    /// How many could not be made.
    pub failed: usize,
    /// How many are wrong, for whatever reason.
    pub bad: usize,
    /// Whether all that was planned has to happen: the second of two crashes may find nothing left to be crashed in.
    pub strict: bool,
    /// How long all of them took.
    pub took: Duration,
    /// What is wrong, for people: how to repeat it, and what happened.
    pub told: Vec<String>,
    /// How often each rule was broken.
    pub rules: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// Whether all that was to go wrong did, and nothing came of it.
    pub fn is_good(&self) -> bool {
        self.bad == 0 && self.converged == self.found && (self.fired == self.found || !self.strict)
    }

    /// How many runs there were in a second.
    pub fn rate(&self) -> f64 {
        let runs = u32::try_from(self.found).map_or(f64::MAX, f64::from);
        runs / self.took.as_secs_f64().max(0.001)
    }
}

/// The points of an undisturbed run, and what it came to.
pub struct Chart {
    /// The points, each with what may go wrong there.
    pub points: Vec<Seen>,
    /// What it came to.
    pub reference: Reference,
}

/// Runs a scenario undisturbed, twice: what differs between the two could not be repeated. The first one has to stay
/// quiet for long.
pub fn chart(scenario: &str, seed: u64) -> Result<Result<Chart, String>> {
    let plan = Plan::undisturbed(scenario, seed);
    let manner = Manner { idle: Some(LONG_IDLE), ..Manner::default() };
    let first = run(&plan, &manner)?;
    if !first.is_good() {
        return Ok(Err(wrong(&first)));
    }
    let again = run(&plan, &Manner { reference: Some(first.reference.clone()), ..Manner::default() })?;
    if !again.is_good() {
        return Ok(Err(wrong(&again)));
    }
    let names = |outcome: &Outcome| {
        let mut all: Vec<String> = outcome.points.iter().map(|seen| seen.point.to_string()).collect();
        all.sort();
        all
    };
    let (one, other) = (names(&first), names(&again));
    if one != other {
        let missing = one.iter().filter(|name| !other.contains(name));
        let more = other.iter().filter(|name| !one.contains(name));
        let list: Vec<String> =
            missing.map(|name| format!("- {name}")).chain(more.map(|name| format!("+ {name}"))).collect();
        return Ok(Err(format!("two runs of `{plan}` differ:\n{}", list.join("\n"))));
    }
    Ok(Ok(Chart { points: first.points, reference: first.reference }))
}

/// All plans with one fault.
pub fn single(plan: &Plan, points: &[Seen]) -> Vec<Plan> {
    let of_point = |seen: &Seen| {
        let all: &[Perturbation] = match seen.verb {
            Some(verb) => Perturbation::of_request(verb),
            None => &Perturbation::OF_EVENT,
        };
        all.iter().map(|what| plan.with(*what, &seen.point)).collect::<Vec<_>>()
    };
    points.iter().flat_map(of_point).collect()
}

/// All plans with two crashes, each just after a write.
pub fn pairs(plan: &Plan, points: &[Seen]) -> Vec<Plan> {
    let writes: Vec<&Seen> =
        points.iter().filter(|seen| seen.verb.is_some_and(crate::point::Verb::writes)).collect();
    let mut all = Vec::new();
    for (place, first) in writes.iter().enumerate() {
        for second in &writes[place + 1..] {
            let one = plan.with(Perturbation::CrashAfter, &first.point);
            all.push(one.with(Perturbation::CrashAfter, &second.point));
        }
    }
    all
}

/// Tries every point of a scenario: with all that can go wrong there, or only with some of it.
pub fn exhaust(scenario: &str, seed: u64, only: &[Perturbation]) -> Result<Tally> {
    let chosen = |plan: &Plan| only.is_empty() || plan.faults.iter().all(|fault| only.contains(&fault.what));
    charted(scenario, seed, |plan, chart| {
        let plans: Vec<Plan> = single(plan, &chart.points).into_iter().filter(chosen).collect();
        all(scenario, &plans, &chart.reference, true)
    })
}

/// Tries every pair of crashes of a scenario. The second one may find that there is nothing left to be crashed in.
pub fn exhaust_pairs(scenario: &str, seed: u64) -> Result<Tally> {
    charted(scenario, seed, |plan, chart| all(scenario, &pairs(plan, &chart.points), &chart.reference, false))
}

/// Runs a scenario often, each time with many things that go wrong by chance.
pub fn by_chance(scenario: &str, seed: u64, count: u64) -> Result<Tally> {
    charted(scenario, seed, |plan, chart| {
        let plans: Vec<Plan> = (0..count).map(|number| chance::plan(plan, &chart.points, number)).collect();
        let mut tally = all(scenario, &plans, &chart.reference, false);
        // What failed is told again by the smallest plan that does.
        let failed: Vec<Plan> =
            tally.told.iter().filter_map(|told| told.lines().next()?.parse().ok()).collect();
        for plan in failed.iter().take(TOLD) {
            if let Ok(outcome) = minimal(plan, &chart.reference) {
                tally.told.push(format!("the smallest part of it that fails, too:\n{}", wrong(&outcome)));
            }
        }
        tally
    })
}

fn charted(scenario: &str, seed: u64, work: impl FnOnce(&Plan, &Chart) -> Tally) -> Result<Tally> {
    let began = Instant::now();
    let plan = Plan::undisturbed(scenario, seed);
    let mut tally = match chart(scenario, seed)? {
        Ok(chart) => {
            let tally = work(&plan, &chart);
            Tally { points: chart.points.len(), ..tally }
        }
        Err(told) => {
            let scenario = scenario.to_owned();
            Tally { scenario, failed: 1, bad: 1, told: vec![told], ..Tally::default() }
        }
    };
    tally.took = began.elapsed();
    Ok(tally)
}

/// Runs plans on all processors. Where `strict`, all faults have to fire.
pub fn all(scenario: &str, plans: &[Plan], reference: &Reference, strict: bool) -> Tally {
    let began = Instant::now();
    let scenario = scenario.to_owned();
    let tally = Mutex::new(Tally { scenario, found: plans.len(), strict, ..Tally::default() });
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let work = || {
                let manner = Manner { reference: Some(reference.clone()), ..Manner::default() };
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nobody waits for another's run.
                    let outcome = run(plan, &manner);
                    count(&mut tally.lock(), plan, outcome);
                }
            };
            // Where no thread is to be had, the others do the work.
            let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
    });
    let mut tally = tally.into_inner();
    tally.took = began.elapsed();
    tally
}

fn count(tally: &mut Tally, plan: &Plan, outcome: Result<Outcome>) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => {
            tally.failed += 1;
            tally.bad += 1;
            tally.told.push(format!("`{plan}` cannot be run: {failure}"));
            return;
        }
    };
    tally.fired += usize::from(outcome.fired);
    tally.converged += usize::from(outcome.converged);
    tally.violated += usize::from(!outcome.violations.is_empty());
    for rule in outcome.rules() {
        *tally.rules.entry(rule).or_default() += 1;
    }
    let good = outcome.converged && outcome.violations.is_empty() && (outcome.fired || !tally.strict);
    if !good {
        tally.bad += 1;
        let whole = tally.told.len() < TOLD;
        tally.told.push(if whole { wrong(&outcome) } else { brief(&outcome) });
    }
}

fn brief(outcome: &Outcome) -> String {
    let fired = if outcome.fired { "" } else { "; not all of it happened" };
    format!("{}\n   broken: {}{fired}", outcome.plan, outcome.rules().join(", "))
}

/// What is wrong with a run, and how to repeat it.
pub fn wrong(outcome: &Outcome) -> String {
    let broken = outcome.violations.iter().map(|violation| format!("{}: {}", violation.rule, violation.how));
    let lines: Vec<String> = std::iter::once(brief(outcome)).chain(broken).collect();
    format!("{}\n{}", lines.join("\n   "), outcome.timeline)
}

/// The smallest part of a failing plan that fails by one of the same rules.
pub fn minimal(plan: &Plan, reference: &Reference) -> Result<Outcome> {
    let manner = Manner { reference: Some(reference.clone()), ..Manner::default() };
    let mut best = run(plan, &manner)?;
    let rules = best.rules();
    let mut smaller = true;
    while smaller {
        smaller = false;
        for candidate in without_one(&best.plan) {
            let outcome = run(&candidate, &manner)?;
            if outcome.rules().iter().any(|rule| rules.contains(rule)) {
                best = outcome;
                smaller = true;
                break;
            }
        }
    }
    Ok(best)
}

/// All plans in which one thing less goes wrong.
fn without_one(plan: &Plan) -> Vec<Plan> {
    let faults = (0..plan.faults.len()).map(|place| {
        let faults: Vec<Fault> = plan
            .faults
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != place)
            .map(|(_, fault)| fault.clone())
            .collect();
        Plan { faults, ..plan.clone() }
    });
    let troubles = (0..plan.troubles.len()).map(|place| {
        let mut troubles = plan.troubles.clone();
        troubles.remove(place);
        Plan { troubles, ..plan.clone() }
    });
    faults.chain(troubles).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Point;

    #[test]
    fn a_smaller_plan_has_one_thing_less() {
        let at: Point = "infra:create:a#1".parse().unwrap();
        let mut plan = Plan::undisturbed("x", 1).with(Perturbation::Lost, &at).with(Perturbation::Drop, &at);
        plan.troubles.push("skew".to_owned());
        let lines: Vec<String> = without_one(&plan).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "x seed=1 with=skew drop@infra:create:a#1",
                "x seed=1 with=skew lost@infra:create:a#1",
                "x seed=1 lost@infra:create:a#1 drop@infra:create:a#1",
            ]
        );
    }
}
