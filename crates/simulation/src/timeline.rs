//! What happened in a run, for people.

use std::fmt::Write as _;
use std::time::Duration;

use trellis_infra::object::Object as _;

use crate::oracles::Violation;
use crate::tap::Line;
use crate::trace::{Change, Snapshot};

/// Writes down what happened from a moment on: what was done, what controllers wrote and what went wrong with it, what
/// came of it, and where rules were broken.
pub(crate) fn write(
    from: Duration,
    lines: &[(Duration, usize, Line)],
    changes: &[Change],
    violations: &[Violation],
) -> String {
    let mut rows: Vec<(Duration, usize, u8, String)> = Vec::new();
    for (at, after, line) in lines {
        if let Some(told) = line_told(line) {
            rows.push((*at, *after, 1, told));
        }
    }
    for (number, change) in changes.iter().enumerate() {
        if let Some(told) = change_told(change) {
            rows.push((change.at, number, 0, told));
        }
    }
    for violation in violations {
        rows.push((violation.at, usize::MAX, 2, format!("!! {}: {}", violation.rule, violation.how)));
    }
    rows.retain(|(at, ..)| *at >= from);
    rows.sort_by_key(|(at, after, order, _)| (*at, *after, *order));
    let mut text = String::new();
    for (at, _, _, told) in rows {
        let seconds = at.saturating_sub(from).as_secs_f64();
        // Writing to a text does not fail.
        let _ = writeln!(text, "{seconds:>10.3} s  {told}");
    }
    text
}

fn line_told(line: &Line) -> Option<String> {
    Some(match line {
        Line::Began(who) => format!("   controller {} begins", who.0),
        Line::Killed(who) => format!("XX controller {} is killed", who.0),
        Line::Done(what) => format!("** {what}"),
        Line::Seen(seen) => {
            let fault = seen.fault.map(|fault| format!("  <-- {fault}")).unwrap_or_default();
            let writes = seen.verb.is_some_and(crate::point::Verb::writes);
            if !writes && fault.is_empty() {
                return None;
            }
            let code = seen.code.map(|code| format!(" {code}")).unwrap_or_default();
            format!("-> {} {}{code}{fault}", seen.who.0, seen.point)
        }
    })
}

fn change_told(change: &Change) -> Option<String> {
    let object = change.object()?;
    let what = format!("{object:?}");
    match (&change.before, &change.after) {
        (None, Some(after)) => Some(format!("   {what} is there {}", looks(after))),
        (Some(_), None) => Some(format!("   {what} is gone")),
        (Some(before), Some(after)) => {
            let (before, after) = (looks(before), looks(after));
            (before != after).then(|| format!("   {what}: {before} becomes {after}"))
        }
        (None, None) => None,
    }
}

/// What of an object people want to know.
fn looks(object: &Snapshot) -> String {
    let json = object.json();
    let going = if object.deleting() { " going" } else { "" };
    let ready = json.condition("Ready").text("/status");
    let closed = if json.flag("/spec/unschedulable") { " cordoned" } else { "" };
    format!(
        "[{}{}{}{closed}{going}]",
        json.text("/status/phase"),
        if ready.is_empty() { "" } else { " Ready=" },
        ready
    )
}
