//! Tries the controllers in worlds where everything goes wrong that can: `cargo xtask simulate`.

use std::process::ExitCode;
use std::time::Duration;

use mimalloc::MiMalloc;

use trellis_simulation::explore::{self, Tally};
use trellis_simulation::plan::{NoPlan, Perturbation, Plan};
use trellis_simulation::run::{self, Manner};
use trellis_simulation::scenario;

/// Objects are trees of many small pieces: half of a run is making and freeing them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "\
usage: simulate [--core | --scenario NAME,...] [--seed N] [--faults KIND,...] [--pairs] [--seeds N] [--plan LINE] [--list]

  (nothing)        every point of every scenario, each with all that can go wrong there
  --core           only of the scenarios that are tried whenever all tests run
  --faults KIND    only these things that can go wrong, such as crash-after,lost
  --scenario NAME  only of these
  --seed N         what all chance comes from; 1 if left out
  --pairs          two crashes instead, after every pair of writes
  --seeds N        instead N runs in which many things go wrong by chance
  --plan LINE      one run, with what happened
  --list           the scenarios";

/// What is asked for.
#[derive(Debug)]
struct Wish {
    scenarios: Vec<String>,
    seed: u64,
    only: Vec<Perturbation>,
    work: Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Points,
    Pairs,
    Seeds(u64),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--list") => {
            for scenario in scenario::all() {
                let core = if scenario.is_core() { " (core)" } else { "" };
                println!("{:<20} {}{core}", scenario.name(), scenario.about());
            }
            ExitCode::SUCCESS
        }
        Some("--help" | "-h") => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some("--plan") => verdict(one(&arguments[1..].join(" "))),
        _ => verdict(wish(&arguments).and_then(|wish| many(&wish))),
    }
}

fn verdict(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}

fn wish(arguments: &[String]) -> Result<Wish, String> {
    let all = scenario::all();
    let every = || all.iter().map(|scenario| scenario.name().to_owned()).collect();
    let mut wish = Wish { scenarios: every(), seed: 1, only: Vec::new(), work: Work::Points };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("`{argument}` needs a value\n{USAGE}"));
        let number = |text: &String| text.parse().map_err(|_| format!("`{text}` is no number"));
        match argument.as_str() {
            "--core" => {
                let core = all.iter().filter(|scenario| scenario.is_core());
                wish.scenarios = core.map(|scenario| scenario.name().to_owned()).collect();
            }
            "--scenario" => wish.scenarios = value()?.split(',').map(str::to_owned).collect(),
            "--seed" => wish.seed = number(value()?)?,
            "--seeds" => wish.work = Work::Seeds(number(value()?)?),
            "--faults" => {
                let all = value()?.split(',').map(str::parse).collect::<Result<_, _>>();
                wish.only = all.map_err(|problem: NoPlan| problem.to_string())?;
            }
            "--pairs" => wish.work = Work::Pairs,
            other => return Err(format!("`{other}` is not understood\n{USAGE}")),
        }
    }
    let known = |name: &&String| !all.iter().any(|scenario| scenario.name() == name.as_str());
    match wish.scenarios.iter().find(known) {
        Some(unknown) => Err(format!("there is no scenario `{unknown}`; `--list` names them")),
        None => Ok(wish),
    }
}

/// One run, with what happened.
fn one(line: &str) -> Result<bool, String> {
    let plan: Plan = line.parse().map_err(|problem| format!("{problem}"))?;
    let undisturbed = Plan::undisturbed(&plan.scenario, plan.seed);
    let reference = run::run(&undisturbed, &Manner::default()).map_err(|failure| failure.to_string())?;
    let manner = Manner { reference: Some(reference.reference), tell: true, ..Manner::default() };
    let (outcome, took) = run::timed(|| run::run(&plan, &manner));
    let outcome = outcome.map_err(|failure| failure.to_string())?;
    println!("{}", outcome.timeline);
    println!("{}", outcome.plan);
    for violation in &outcome.violations {
        println!("broken: {}: {}", violation.rule, violation.how);
    }
    println!(
        "{} after {} of virtual time, {} points, {} writes, in {} ms",
        if outcome.converged { "converged" } else { "did not converge" },
        clock(outcome.lasted),
        outcome.points.len(),
        outcome.reference.writes,
        took.as_millis(),
    );
    if !outcome.fired {
        println!("not all of the plan happened");
    }
    Ok(outcome.is_good())
}

/// Many runs, and a table of what became of them.
fn many(wish: &Wish) -> Result<bool, String> {
    let mut tallies = Vec::new();
    for name in &wish.scenarios {
        let tally = match wish.work {
            Work::Points => explore::exhaust(name, wish.seed, &wish.only),
            Work::Pairs => explore::exhaust_pairs(name, wish.seed),
            Work::Seeds(count) => explore::by_chance(name, wish.seed, count),
        };
        let tally = tally.map_err(|failure| failure.to_string())?;
        for told in &tally.told {
            println!("{told}");
        }
        eprintln!("{}", row(&tally));
        tallies.push(tally);
    }
    println!("\n{HEAD}");
    for tally in &tallies {
        println!("{}", row(tally));
    }
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    let good = tallies.iter().all(Tally::is_good);
    let took: Duration = tallies.iter().map(|tally| tally.took).sum();
    let runs = sum(|tally| tally.found);
    let bad = sum(|tally| tally.bad);
    let rate = f64::from(u32::try_from(runs).unwrap_or(u32::MAX)) / took.as_secs_f64().max(0.001);
    println!("{runs} perturbed runs, {bad} of them wrong, in {} ({rate:.1}/s)", clock(took));
    // In the words by which tests are counted.
    let word = if good { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {} passed; {bad} failed; 0 ignored; 0 measured; 0 filtered out",
        runs.saturating_sub(bad)
    );
    Ok(good)
}

const HEAD: &str = "scenario              points    runs   fired  converged  violated    runs/s";

fn row(tally: &Tally) -> String {
    let rules: Vec<String> = tally.rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
    format!(
        "{:<20} {:>7} {:>7} {:>7} {:>10} {:>9} {:>9.1}  {}",
        tally.scenario,
        tally.points,
        tally.found,
        tally.fired,
        tally.converged,
        tally.violated,
        tally.rate(),
        rules.join(", "),
    )
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}
