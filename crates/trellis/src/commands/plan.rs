//! `trellis plan`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use trellis_model::change::{self, Change, Class, ClusterPlan, Fate, HeldBack, PoolPlan, diff};
use trellis_model::pool::Pool;

use super::{load, unusable};
use crate::args::{Files, Format};
use crate::exit::{Exit, Failure};
use crate::output::{Output, plural, print, print_json, remark};

/// Say what an edit would do to running machines, before it does.
///
/// Each change is applied in place, replaces machines, or is refused, and says why. Formatting, order
/// and defaults that are written out make no difference, nor does the dialect.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    files: Files,
    /// The manifests as they are now: a file, a folder or `-`; may be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    against: Vec<PathBuf>,
}

impl Plan {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self { files, against } = self;
        let (old_sources, old) = load(&Files { files: against })?;
        if old.diagnostics.has_errors() {
            remark("The manifests given with --against cannot be read:\n")?;
            output.explain(&old.diagnostics, &old_sources)?;
            return Ok(unusable(&old));
        }
        let (sources, new) = load(&files)?;
        output.explain(&new.diagnostics, &sources)?;
        if new.diagnostics.has_errors() {
            return Ok(unusable(&new));
        }
        let plan = diff(&old.estate, &new.estate);
        match output.format {
            Format::Json => print_json(&as_json(&plan))?,
            Format::Human => print(&as_text(&plan, &new.estate.pools, output.color_on_stdout()))?,
        }
        Ok(if plan.refused().next().is_some() { Exit::Refused } else { Exit::Success })
    }
}

fn as_json(plan: &change::Plan) -> Value {
    let changes = |changes: &[Change]| -> Vec<Value> {
        let of = |change: &Change| {
            json!({
                "in": change.subject.to_string(),
                "path": change.path,
                "old": change.old,
                "new": change.new,
                "class": class_name(change.class),
                "why": change.why,
            })
        };
        changes.iter().map(of).collect()
    };
    let clusters = plan.clusters.iter();
    let clusters: Vec<Value> = clusters
        .map(|c| json!({ "name": c.name, "fate": fate_name(c.fate), "changes": changes(&c.changes) }))
        .collect();
    let pools = plan.pools.iter();
    let pools: Vec<Value> = pools
        .map(|p| {
            json!({
                "cluster": p.cluster,
                "name": p.name,
                "fate": fate_name(p.fate),
                "replicas": { "old": p.replicas.0, "new": p.replicas.1 },
                "replaced": p.replaced,
                "heldBack": p.held_back.map(held_back_name),
                "changes": changes(&p.changes),
            })
        })
        .collect();
    json!({ "clusters": clusters, "pools": pools, "refused": plan.refused().count() })
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::InPlace => "inPlace",
        Class::ThroughPools => "throughPools",
        Class::Roll => "roll",
        Class::Reject => "reject",
    }
}

fn held_back_name(held_back: HeldBack) -> &'static str {
    match held_back {
        HeldBack::OnDelete => "onDelete",
        HeldBack::Paused => "paused",
        HeldBack::Refused => "refused",
    }
}

fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Created => "created",
        Fate::Removed => "removed",
        Fate::Kept => "kept",
    }
}

/// Writes a plan line by line. Writing to a String cannot fail.
struct Lines {
    text: String,
    color: bool,
}

impl Lines {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    fn change(&mut self, change: &Change) {
        let (word, paint) = match change.class {
            Class::InPlace => ("in place", "32"),
            Class::ThroughPools => ("by pools", "36"),
            Class::Roll => ("replaces", "33"),
            Class::Reject => ("refused ", "31"),
        };
        let word = if self.color { format!("\u{1b}[{paint}m{word}\u{1b}[0m") } else { word.to_owned() };
        let old = change.old.as_deref().unwrap_or("(not set)");
        let new = change.new.as_deref().unwrap_or("(not set)");
        self.line(&format!("  {word}  {}: {} → {}", change.path, shorten(old), shorten(new)));
        self.line(&format!("            {}", change.why));
    }
}

/// Long values are cut: the manifests have them in full.
fn shorten(text: &str) -> String {
    let line = text.replace('\n', " ");
    if line.chars().count() <= 80 { line } else { line.chars().take(77).chain("...".chars()).collect() }
}

fn as_text(plan: &change::Plan, pools: &[Pool], color: bool) -> String {
    let mut lines = Lines { text: String::new(), color };
    if plan.is_empty() {
        return "Nothing to do: the manifests mean the same.".to_owned();
    }
    for cluster in &plan.clusters {
        cluster_lines(cluster, &mut lines);
    }
    for pool in &plan.pools {
        pool_lines(
            pool,
            pools.iter().find(|p| p.name == pool.name && p.spec.cluster == pool.cluster),
            &mut lines,
        );
    }
    lines.line(&summary(plan));
    lines.text
}

fn cluster_lines(plan: &ClusterPlan, lines: &mut Lines) {
    let name = &plan.name;
    match plan.fate {
        Fate::Created => lines.line(&format!("cluster {name}: created")),
        Fate::Removed => lines.line(&format!("cluster {name}: removed")),
        Fate::Kept if plan.changes.is_empty() => return,
        Fate::Kept => lines.line(&format!("cluster {name}")),
    }
    for change in &plan.changes {
        lines.change(change);
    }
    lines.line("");
}

fn pool_lines(plan: &PoolPlan, pool: Option<&Pool>, lines: &mut Lines) {
    let PoolPlan { cluster, name, fate, replicas: (old, new), changes, replaced, held_back } = plan;
    let machines = |count: u32| plural(count as usize, "machine");
    match fate {
        Fate::Created => {
            lines.line(&format!("pool {name} of cluster {cluster}: created with {}", machines(*new)));
        }
        Fate::Removed => {
            lines.line(&format!("pool {name} of cluster {cluster}: removed with {}", machines(*old)));
        }
        Fate::Kept if changes.is_empty() => return,
        Fate::Kept if old == new => {
            lines.line(&format!("pool {name} of cluster {cluster}: {}", machines(*new)));
        }
        Fate::Kept => lines.line(&format!("pool {name} of cluster {cluster}: {old} → {}", machines(*new))),
    }
    for change in changes {
        lines.change(change);
    }
    if let (true, Some(pool)) = (*replaced > 0, pool) {
        let update = &pool.spec.update;
        lines.line(&format!(
            "  {} replaced, with at most {} more and {} fewer than {new} at a time",
            if *replaced == 1 { "1 machine is".to_owned() } else { format!("{replaced} machines are") },
            update.max_surge.of(*new, true),
            update.max_unavailable.of(*new, false),
        ));
    }
    let held_back = held_back.map(|held_back| match held_back {
        HeldBack::OnDelete => {
            "machines keep their old form until they are deleted: that is the pool's update strategy"
        }
        HeldBack::Paused => "no machine is replaced while the pool's updates are paused",
        HeldBack::Refused => "no machine is replaced, because a change is refused",
    });
    if let Some(why) = held_back {
        lines.line(&format!("  {why}"));
    }
    lines.line("");
}

fn summary(plan: &change::Plan) -> String {
    let sum = |count: &dyn Fn(&PoolPlan) -> u32| plan.pools.iter().map(count).sum::<u32>();
    let refused = plan.refused().count();
    let outcome = match refused {
        0 => "nothing refused".to_owned(),
        1 => "1 change refused".to_owned(),
        n => format!("{n} changes refused"),
    };
    format!(
        "Plan: {} replaced, {} added, {} removed; {outcome}.",
        plural(sum(&|pool| pool.replaced) as usize, "machine"),
        sum(&|pool| pool.replicas.1.saturating_sub(pool.replicas.0)),
        sum(&|pool| pool.replicas.0.saturating_sub(pool.replicas.1)),
    )
}
