//! A crash after every request of the core scenarios of pools: nothing is sampled. Minutes of work, so that it is a tier of
//! its own (`cargo xtask test --only simulation`), which sets `TRELLIS_SIMULATION=core`. What else can go wrong, the other
//! scenarios and the growing of a tenant are tried by `cargo xtask simulate`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use parking_lot::Mutex;
use trellis_simulation::explore::{Tally, exhaust};
use trellis_simulation::plan::Perturbation;
use trellis_simulation::scenario;

/// What goes wrong at every point; the rest is for `cargo xtask simulate`.
const FAULTS: [Perturbation; 1] = [Perturbation::CrashAfter];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A scenario uses all processors by itself.
    arguments.test_threads = Some(1);
    let wanted = std::env::var("TRELLIS_SIMULATION").is_ok_and(|what| what == "core");
    let tallies: Arc<Mutex<Vec<Tally>>> = Arc::default();
    let core = scenario::all().into_iter().filter(|scenario| scenario.is_core() && !scenario.grows());
    let trials = core
        .map(|scenario| {
            let (name, tallies) = (scenario.name(), Arc::clone(&tallies));
            Trial::ignorable_test(format!("every_crash::{name}"), move || {
                if !wanted {
                    return Ok(Completion::ignored_with("the tier `simulation` runs it"));
                }
                try_out(name, &tallies)
            })
        })
        .collect();
    let began = Instant::now();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if wanted {
        println!("for the table: {}", summary(&tallies.lock(), began));
    }
    conclusion.exit_code()
}

fn try_out(name: &str, tallies: &Mutex<Vec<Tally>>) -> Result<Completion, Failed> {
    let tally = exhaust(name, 1, &FAULTS).map_err(|failure| failure.to_string())?;
    let Tally { points, found, fired, converged, bad, .. } = tally;
    eprintln!("{name}: {points} points, {found} runs, {fired} fired, {converged} converged, {bad} wrong");
    let verdict = if tally.is_good() && found > 0 {
        Ok(Completion::Completed)
    } else {
        Err(tally.told.join("\n").into())
    };
    tallies.lock().push(tally);
    verdict
}

/// What the closing table says.
fn summary(tallies: &[Tally], began: Instant) -> String {
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
    let (runs, fired) = (sum(|tally| tally.found), sum(|tally| tally.fired));
    let (converged, wrong) = (sum(|tally| tally.converged), sum(|tally| tally.bad));
    let rate = u32::try_from(runs).map_or(f64::MAX, f64::from) / began.elapsed().as_secs_f64().max(0.001);
    format!("{runs} perturbed runs: {fired} fired, {converged} converged, {wrong} wrong; {rate:.1} runs/s")
}
