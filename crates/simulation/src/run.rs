//! One run of a scenario by a plan, and what is thought of it.

use std::cell::Cell;
use std::sync::Once;
use std::time::{Duration, Instant as Watch};

use futures::future::join_all;

use crate::failure::{Failure, Result};
use crate::oracles::{self, End, Violation};
use crate::plan::Plan;
use crate::scenario::{self, Scenario};
use crate::stage::{Disguise, Props, Stage};
use crate::tap::{Line, Seen};
use crate::timeline;
use crate::trouble::{Kind, NoTrouble, Trouble};

/// How long what was written late may follow: back-offs, watches that begin anew, certificates.
const SETTLE: Duration = Duration::from_mins(3);
/// How long nothing may happen after that.
const IDLE: Duration = Duration::from_mins(10);
/// How many times as many writes as in the undisturbed run a disturbed one may take.
const WRITES: usize = 3;
/// So many more are never too many: a small run that begins anew says everything again.
const SPARE: usize = 30;

thread_local! {
    /// How often something panicked on this thread.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// What an undisturbed run came to.
#[derive(Debug, Clone)]
pub struct Reference {
    /// What was there in the end.
    pub end: End,
    /// How many writes it took.
    pub writes: usize,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Whether all that was to go wrong did.
    pub fired: bool,
    /// Whether it came to its end and stayed there.
    pub converged: bool,
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// Everything that was asked and told where things may go wrong.
    pub points: Vec<Seen>,
    /// What was there in the end, and how many writes it took.
    pub reference: Reference,
    /// What happened, for people; only where something is wrong.
    pub timeline: String,
    /// How long it took, in virtual time.
    pub lasted: Duration,
}

impl Outcome {
    /// Whether nothing is wrong with it.
    pub fn is_good(&self) -> bool {
        self.fired && self.converged && self.violations.is_empty()
    }

    /// The rules that were broken, by name.
    pub fn rules(&self) -> Vec<&'static str> {
        let mut rules: Vec<_> = self.violations.iter().map(|violation| violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// How a run is made other than by its plan.
#[derive(Clone, Default)]
pub struct Manner {
    /// What an undisturbed run came to; nothing to compare with in that run itself.
    pub reference: Option<Reference>,
    /// How the controller is broken on purpose.
    pub disguise: Option<Disguise>,
    /// How long nothing may happen in the end, where it is not the usual time.
    pub idle: Option<Duration>,
    /// How long it may take, where that is not what its scenario says.
    pub patience: Option<Duration>,
    /// Whether the timeline is told of a good run, too.
    pub tell: bool,
}

/// Runs a plan.
pub fn run(plan: &Plan, manner: &Manner) -> Result<Outcome> {
    let scenario = scenario::named(&plan.scenario)
        .ok_or_else(|| Failure::Client(format!("there is no scenario `{}`", plan.scenario)))?;
    run_scenario(scenario.as_ref(), plan, manner)
}

/// Runs a plan of a scenario.
pub fn run_scenario(scenario: &dyn Scenario, plan: &Plan, manner: &Manner) -> Result<Outcome> {
    count_panics();
    PANICS.set(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|error| Failure::Client(error.to_string()))?;
    runtime.block_on(play(scenario, plan, manner))
}

async fn play(scenario: &dyn Scenario, plan: &Plan, manner: &Manner) -> Result<Outcome> {
    let troubles = troubles(plan)?;
    let wrong = troubles.iter().find(|trouble| trouble.kind == Kind::Skew).map_or(0, |trouble| trouble.lasts);
    let stage = Stage::set(Props {
        seed: plan.seed,
        faults: plan.faults.clone(),
        disguise: manner.disguise.clone(),
        hosts: scenario.hosts(),
        skew: i64::try_from(wrong).unwrap_or_default(),
        grows: scenario.grows(),
        twins: troubles.iter().any(|trouble| trouble.kind == Kind::Twins),
    })
    .await?;
    scenario.prepare(&stage).await?;
    tokio::time::sleep(SETTLE).await;
    stage.book.count();
    let began = stage.book.now();
    let (acted, _) =
        tokio::join!(scenario.act(&stage), join_all(troubles.iter().map(|one| one.happen(&stage))));
    acted?;
    let patience = manner.patience.unwrap_or_else(|| scenario.patience());
    let reached = stage.until(patience, |state| scenario.is_over(state)).await;
    let lasted = stage.book.now().saturating_sub(began);
    tokio::time::sleep(SETTLE).await;
    // What goes wrong as late as that is followed by something, too: whoever starts anew says again what is shared.
    while let Some(late) = stage.book.last_fault().map(|at| at + SETTLE)
        && late > stage.book.now()
    {
        tokio::time::sleep(late.saturating_sub(stage.book.now())).await;
    }
    let quiet = stage.book.now();
    tokio::time::sleep(manner.idle.unwrap_or(IDLE)).await;
    let stayed = stage.trace.look(|state| scenario.is_over(state));
    Ok(judged(&stage, plan, manner, began, quiet, reached && stayed, lasted))
}

/// The trouble a plan makes.
fn troubles(plan: &Plan) -> Result<Vec<Trouble>> {
    let all = plan
        .troubles
        .iter()
        .map(|text| text.parse().map_err(|wrong: NoTrouble| Failure::Client(wrong.to_string())));
    all.collect()
}

/// What is thought of a run that is over.
fn judged(
    stage: &Stage,
    plan: &Plan,
    manner: &Manner,
    began: Duration,
    quiet: Duration,
    converged: bool,
    lasted: Duration,
) -> Outcome {
    let (lines, changes) = (stage.book.lines(), stage.trace.changes());
    let now = stage.book.now();
    let (state, mut violations) = oracles::judge(&changes);
    violations.extend(oracles::deletes_name_their_object(&lines));
    let mut add = |rule, at, how| violations.push(Violation { rule, at, how });
    if !converged {
        add("convergence", now, "it did not come to its end".to_owned());
    }
    for left in oracles::left_over(&state) {
        add("leftovers", now, left);
    }
    for write in oracles::writes(&lines, quiet, now) {
        add("quiescence", write.at, format!("{} although nothing is left to do", write.point));
    }
    let writes = oracles::writes(&lines, began, quiet).len();
    let end = oracles::end_of(&state);
    if let Some(reference) = &manner.reference {
        let most = reference.writes * WRITES + SPARE;
        if writes > most {
            add("restraint", now, format!("{writes} writes where {most} are enough"));
        }
        if converged {
            for difference in oracles::differences(&reference.end, &end) {
                add("same-end", now, difference);
            }
        }
    }
    if PANICS.get() > 0 {
        add("panic", now, format!("something panicked {} times", PANICS.get()));
    }
    let fired = stage.book.fired();
    let fired = plan.faults.iter().all(|fault| fired.contains(fault));
    let points = lines.iter().filter_map(|(_, _, line)| match line {
        Line::Seen(seen) if seen.counted && seen.at < quiet => Some(seen.clone()),
        _ => None,
    });
    let points = points.collect();
    let told = manner.tell || !violations.is_empty();
    let timeline = if told { timeline::write(began, &lines, &changes, &violations) } else { String::new() };
    let reference = Reference { end, writes };
    Outcome { plan: plan.clone(), fired, converged, violations, points, reference, timeline, lasted }
}

/// Has panics counted, and says nothing of those of tasks: the run they are of does.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            usual(info);
        }));
    });
}

/// How long something takes on the machine's own time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Watch::now();
    let made = work();
    (made, began.elapsed())
}
