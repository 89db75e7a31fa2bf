//! The status of jobs, which controllers of others may write, too.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kinds::shown;
use crate::kinds::view::{Look, Path, Problems, same};

const STATUS: Path<'static> = Path::root("status");

fn is_true(job: &Value, kind: &str) -> bool {
    has_condition(job, kind, "True")
}

fn has_condition(job: &Value, kind: &str, status: &str) -> bool {
    let conditions = job.at("status").list("conditions");
    conditions.iter().any(|condition| condition.text("type") == kind && condition.text("status") == status)
}

fn finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

pub(super) fn update(old: &Value, new: &Value, problems: &mut Problems) {
    counts(new, problems);
    conditions(old, new, problems);
    times(old, new, problems);
    when_finished(old, new, problems);
    index_lists(old, new, problems);
    kept(old, new, problems);
}

fn counts(job: &Value, problems: &mut Problems) {
    let status = job.at("status");
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        problems.not_negative(&STATUS.child(field), status.int(field).unwrap_or_default());
    }
    let at = STATUS.child("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for field in ["succeeded", "failed"] {
        let list = at.child(field);
        for (place, uid) in status.at("uncountedTerminatedPods").list(field).iter().map(Look::str).enumerate()
        {
            if uid.is_empty() {
                problems.invalid(&list.index(place), uid, "must not be empty");
            } else if !seen.insert(uid) {
                problems.duplicate(&list.index(place), uid);
            }
        }
    }
}

/// Most rules only look at what this write changed.
fn conditions(old: &Value, new: &Value, problems: &mut Problems) {
    let here = STATUS.child("conditions");
    let changed = |kind: &str| is_true(old, kind) != is_true(new, kind);
    let (complete, failed) = (is_true(new, "Complete"), is_true(new, "Failed"));
    let (target, met) = (is_true(new, "FailureTarget"), is_true(new, "SuccessCriteriaMet"));
    let mut refuse = |when: bool, why: &str| {
        if when {
            problems.invalid_unshown(&here, why);
        }
    };
    refuse(
        (changed("Complete") || changed("Failed")) && complete && failed,
        "cannot set Complete=True and Failed=true conditions",
    );
    refuse(
        (changed("Complete") || changed("FailureTarget")) && complete && target,
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    let indexes = old.at("status").at("failedIndexes") != new.at("status").at("failedIndexes");
    refuse(
        (changed("Failed") || indexes) && failed && !target,
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    refuse(
        (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !met,
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    refuse(met && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    refuse(met && target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    refuse(
        new.at("spec").has("successPolicy") && !met && complete,
        "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
    );
    for kind in ["Failed", "Complete", "FailureTarget"] {
        let why = format!("cannot disable the terminal {kind}=True condition");
        refuse(is_true(old, kind) && !is_true(new, kind), &why);
    }
    refuse(
        is_true(old, "SuccessCriteriaMet") && !met,
        "cannot disable the SuccessCriteriaMet=True condition",
    );
    refuse(
        is_true(old, "Complete") && !is_true(old, "SuccessCriteriaMet") && met,
        "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
    );
}

fn times(old: &Value, new: &Value, problems: &mut Problems) {
    let (before, after) = (old.at("status"), new.at("status"));
    let changed = |field: &str| before.at(field) != after.at(field);
    let (start, end) = (after.text("startTime"), after.text("completionTime"));
    let here = STATUS.child("completionTime");
    let complete = is_true(new, "Complete");
    if is_true(old, "Complete") != complete || changed("completionTime") {
        if !end.is_empty() && !complete {
            problems.invalid(
                &here,
                end,
                "cannot set completionTime when there is no Complete=True condition",
            );
        }
        if end.is_empty() && complete {
            problems.required(&here, "completionTime is required for Complete jobs");
        }
    }
    let moment = |text: &str| text.parse::<jiff::Timestamp>().ok();
    if (changed("startTime") || changed("completionTime"))
        && let (Some(start), Some(finish)) = (moment(start), moment(end))
        && finish < start
    {
        problems.invalid(&here, end, "must be equal to or after `startTime`");
    }
    if before.has("completionTime") && after.has("completionTime") && changed("completionTime") {
        problems.invalid(&here, end, "field is immutable");
    }
    let resumed = has_condition(old, "Suspended", "True") && has_condition(new, "Suspended", "False");
    if before.has("startTime") && changed("startTime") && !resumed && !new.at("spec").flag("suspend") {
        problems.invalid(
            &STATUS.child("startTime"),
            after.at("startTime").clone(),
            "field is immutable for unsuspended job once set",
        );
    }
}

fn when_finished(old: &Value, new: &Value, problems: &mut Problems) {
    let (before, after) = (old.at("status"), new.at("status"));
    let (is_finished, turned) = (finished(new), finished(old) != finished(new));
    let changed = |field: &str| !same(before.at(field), after.at(field));
    let count = |field: &str| after.int(field).unwrap_or_default();
    if (turned || changed("active")) && is_finished && count("active") > 0 {
        problems.invalid(&STATUS.child("active"), count("active"), "active>0 is invalid for finished job");
    }
    let nothing_to_do = new.at("spec").flag("suspend") && new.at("spec").int("completions") == Some(0);
    if (turned || changed("startTime")) && !nothing_to_do && is_finished && !after.has("startTime") {
        problems.required(&STATUS.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = after.at("uncountedTerminatedPods");
    let some = ["failed", "succeeded"].iter().any(|list| !uncounted.list(list).is_empty());
    if (turned || changed("uncountedTerminatedPods")) && is_finished && some {
        let shown = shown::internal("batch.UncountedTerminatedPods", uncounted);
        problems.invalid_shown(
            &STATUS.child("uncountedTerminatedPods"),
            &shown,
            "must be empty for finished job",
        );
    }
    if (turned || changed("terminating")) && is_finished && count("terminating") > 0 {
        let why = "terminating>0 is invalid for finished job";
        problems.invalid(&STATUS.child("terminating"), count("terminating"), why);
    }
    if (changed("ready") || changed("active")) && after.has("ready") && count("ready") > count("active") {
        problems.invalid(&STATUS.child("ready"), count("ready"), "cannot set more ready pods than active");
    }
}

fn index_lists(old: &Value, new: &Value, problems: &mut Problems) {
    let (before, after, spec) = (old.at("status"), new.at("status"), new.at("spec"));
    let changed = |field: &str| before.at(field) != after.at(field);
    let (completed, failed) = (after.text("completedIndexes"), after.text("failedIndexes"));
    let (completed_at, failed_at) = (STATUS.child("completedIndexes"), STATUS.child("failedIndexes"));
    let completions = spec.int("completions");
    if changed("completedIndexes") {
        if let Some(Err(why)) = completions.map(|count| indexes(completed, count)) {
            problems.invalid(&completed_at, completed, format!("error parsing completedIndexes: {why}"));
        }
        if !completed.is_empty() && spec.text("completionMode") != "Indexed" {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            problems.invalid(&completed_at, completed, why);
        }
    }
    if changed("failedIndexes") && after.has("failedIndexes") {
        if let (Some(count), true) = (completions, spec.has("backoffLimitPerIndex"))
            && let Err(why) = indexes(failed, count)
        {
            problems.invalid(&failed_at, failed, format!("error parsing failedIndexes: {why}"));
        }
        if !spec.has("backoffLimitPerIndex") {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            problems.invalid(&failed_at, failed, why);
        }
    }
    if (changed("failedIndexes") || changed("completedIndexes"))
        && let (Some(count), true) = (completions, after.has("failedIndexes"))
        && let Some(index) = overlap(completed, failed, count)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        problems.invalid(&failed_at, failed, why);
    }
}

fn kept(old: &Value, new: &Value, problems: &mut Problems) {
    let count = |job: &Value, field: &str| job.at("status").int(field).unwrap_or_default();
    let spec = new.at("spec");
    let may_shrink =
        spec.text("completionMode") == "Indexed" && spec.at("completions") == spec.at("parallelism");
    for (field, allowed) in [("failed", false), ("succeeded", may_shrink)] {
        if count(new, field) < count(old, field) && !allowed {
            let why = format!("cannot decrease the {field} counter");
            problems.invalid(&STATUS.child(field), count(new, field), why);
        }
    }
}

/// How many indexes a list such as `0,2-4` has.
///
/// # Errors
///
/// What is wrong with the list.
pub(super) fn indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|&last| last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let ends: Vec<&str> = part.split('-').collect();
    if ends.len() > 2 {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let number = |text: &str| -> Result<i64, String> {
        let number: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
    };
    let first = number(ends[0])?;
    match ends.get(1) {
        None => Ok((first, first)),
        Some(end) => {
            let end = number(end)?;
            if first >= end {
                return Err(format!("non-increasing order, previous: {first}, current: {end}"));
            }
            Ok((first, end))
        }
    }
}

/// The first index that is in both lists.
fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let parts = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (left, right) = (parts(one), parts(other));
    let (mut a, mut b) = (0, 0);
    while let (Some(x), Some(y)) = (left.get(a), right.get(b)) {
        if x.0 <= y.1 && y.0 <= x.1 {
            return Some(x.0.max(y.0));
        }
        if x.0 <= y.0 { a += 1 } else { b += 1 }
    }
    None
}
