//! Jobs and what starts them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, own_metadata, pod};
use crate::kinds::view::{Edit, Look, Path, Problems, same};
use crate::kinds::{cron, format, meta, shown};

const SPEC: Path<'static> = Path::root("spec");
const METADATA: Path<'static> = Path::root("metadata");
const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";

pub(super) fn create(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    own_metadata(check, object, problems);
    if check.facts.kind == "CronJob" {
        cron_job(object, None, problems);
        let name = object.at("metadata").text("name");
        if name.len() > 52 {
            problems.invalid(&METADATA.child("name"), name, "must be no more than 52 characters");
        }
        return;
    }
    generated_selector(object, problems);
    job(object.at("spec"), problems);
    host_names(object, problems);
}

pub(super) fn update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    let is_status = check.context.subresource == "status";
    if check.facts.kind == "CronJob" {
        if !is_status {
            super::finalizer_names(new.at("metadata"), problems);
            cron_job(new, Some(old), problems);
        }
        return;
    }
    super::finalizer_names(new.at("metadata"), problems);
    if is_status {
        super::job_status::update(old, new, problems);
        return;
    }
    let (before, after) = (old.at("spec"), new.at("spec"));
    job(after, problems);
    completions(before, after, problems);
    problems.immutable_of(
        &SPEC.child("selector"),
        "*meta.LabelSelector",
        after.at("selector"),
        before.at("selector"),
    );
    template_change(old, new, problems);
    for (field, of) in [
        ("completionMode", "*string"),
        ("podFailurePolicy", "*batch.PodFailurePolicy"),
        ("backoffLimitPerIndex", "*int"),
        ("managedBy", "*string"),
        ("successPolicy", "*batch.SuccessPolicy"),
    ] {
        problems.immutable_of(&SPEC.child(field), of, after.at(field), before.at(field));
    }
    host_names(new, problems);
}

/// Pods of an indexed job are called by their index.
fn host_names(object: &Value, problems: &mut Problems) {
    let spec = object.at("spec");
    let count = spec.int("completions").unwrap_or_default();
    if spec.text("completionMode") == "Indexed" && count > 0 {
        let name = object.at("metadata").text("name");
        let last = format!("{name}-{}", count - 1);
        if !format::dns1123_label(&last).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {last}");
            problems.invalid(&METADATA.child("name"), name, why);
        }
    }
}

fn generated_selector(object: &Value, problems: &mut Problems) {
    let spec = object.at("spec");
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let (uid, name) = (object.at("metadata").text("uid"), object.at("metadata").text("name"));
    if uid.is_empty() {
        problems.required(&METADATA.child("uid"), "");
    }
    let labels = spec.at("template").at("metadata").at("labels");
    let template = SPEC.child("template");
    let inner = template.child("metadata");
    let list = inner.child("labels");
    let expected = [("controller-uid", uid), ("job-name", name), (UID, uid), (NAME, name)];
    for (key, value) in expected {
        let why = format!("must be '{value}'");
        if !labels.has(key) {
            problems.required(&list.key(key), why);
        } else if labels.text(key) != value {
            problems.invalid(&list.key(key), labels.clone(), why);
        }
    }
    let all: serde_json::Map<String, Value> =
        expected.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    if meta::selects(spec.at("selector"), &all.into()) == Some(false) {
        let shown = shown::internal("meta.LabelSelector", spec.at("selector"));
        problems.invalid_shown(&SPEC.child("selector"), &shown, "`selector` not auto-generated");
    }
}

fn job(spec: &Value, problems: &mut Problems) {
    job_spec(spec, &SPEC, problems);
    if spec.has("selector") {
        meta::label_selector(spec.at("selector"), &SPEC.child("selector"), problems);
    } else {
        problems.required(&SPEC.child("selector"), "");
    }
    let labels = spec.at("template").at("metadata").at("labels");
    if meta::selects(spec.at("selector"), labels) == Some(false) {
        let template = SPEC.child("template");
        let inner = template.child("metadata");
        problems.invalid(
            &inner.child("labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

fn job_spec(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        problems.not_negative(&at.child(field), spec.int(field).unwrap_or_default());
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        problems.required(&at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if spec.has("managedBy") {
        let (name, here) = (spec.text("managedBy"), at.child("managedBy"));
        domain_path(name, &here, problems);
        if name.len() > 63 {
            problems.too_long(&here, 63);
        }
    }
    completion_mode(spec, at, problems);
    if spec.has("podFailurePolicy") {
        failure_policy(spec, &at.child("podFailurePolicy"), problems);
    }
    if spec.has("successPolicy") {
        let (policy, here) = (spec.at("successPolicy"), at.child("successPolicy"));
        if spec.text("completionMode") == "Indexed" {
            success_policy(spec, policy, &here, problems);
        } else {
            let shown = shown::internal("batch.SuccessPolicy", policy);
            problems.invalid_shown(&here, &shown, "requires indexed completion mode");
        }
    }
    if spec.has("podReplacementPolicy") {
        let choices: &[&str] =
            if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        problems.one_of(&at.child("podReplacementPolicy"), spec.text("podReplacementPolicy"), choices);
    }
    let template = at.child("template");
    pod::template(spec.at("template"), &template, problems);
    let inner = template.child("spec");
    let here = inner.child("restartPolicy");
    match spec.at("template").at("spec").text("restartPolicy") {
        "" | "Always" => problems.required(&here, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" => {
            if spec.has("podFailurePolicy") {
                problems.invalid(
                    &here,
                    "OnFailure",
                    "only \"Never\" is supported when podFailurePolicy is specified",
                );
            }
        }
        "Never" => {}
        other => problems.unsupported(&here, other, &["OnFailure", "Never"]),
    }
}

pub(super) fn domain_path(text: &str, at: &Path<'_>, problems: &mut Problems) {
    if text.is_empty() {
        problems.required(at, "");
        return;
    }
    match text.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            problems.form(at, host, format::dns1123_subdomain);
            let good = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
            if !path.chars().all(good) {
                let why = format::no_match("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
                problems.invalid(at, path, why);
            }
        }
        _ => problems.invalid(at, text, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn completion_mode(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let mode = spec.text("completionMode");
    if spec.has("completionMode") {
        problems.one_of(&at.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    let number = |field: &str| spec.int(field);
    let (failed_at, parallel_at) = (at.child("maxFailedIndexes"), at.child("parallelism"));
    if mode != "Indexed" {
        if mode == "NonIndexed" || !spec.has("completionMode") {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = number(field) {
                    problems.invalid(&at.child(field), number, "requires indexed completion mode");
                }
            }
        }
        return;
    }
    let (completions, parallelism) = (number("completions"), number("parallelism"));
    let failed = number("maxFailedIndexes");
    if completions.is_none() {
        problems.required(&at.child("completions"), "when completion mode is Indexed");
    }
    if let Some(parallelism) = parallelism.filter(|&parallelism| parallelism > 100_000) {
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        problems.invalid(&parallel_at, parallelism, why);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        problems.invalid(&failed_at, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|&failed| failed > 100_000) {
        problems.invalid(&failed_at, failed, "must be less than or equal to 100000");
    }
    if completions.is_some_and(|count| count > 100_000) && spec.has("backoffLimitPerIndex") {
        const WHY: &str = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
        match failed {
            None => problems.required(&failed_at, "must be specified when completions is above 100000"),
            Some(failed) if failed > 10_000 => problems.invalid(&failed_at, failed, WHY),
            Some(_) => {}
        }
        if let Some(parallelism) = parallelism.filter(|&parallelism| parallelism > 10_000) {
            problems.invalid(&parallel_at, parallelism, WHY);
        }
    }
}

fn failure_policy(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (rules, list) = (spec.at("podFailurePolicy").list("rules"), at.child("rules"));
    if rules.len() > 20 {
        problems.too_many(&list, rules.len(), 20);
    }
    let inner = spec.at("template").at("spec");
    let names: BTreeSet<&str> = inner
        .list("containers")
        .iter()
        .chain(inner.list("initContainers"))
        .map(|one| one.text("name"))
        .collect();
    for (place, rule) in rules.iter().enumerate() {
        let here = list.index(place);
        let (action, action_at) = (rule.text("action"), here.child("action"));
        let choices = ["Count", "FailIndex", "FailJob", "Ignore"];
        match action {
            "" => problems
                .required(&action_at, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
            "FailIndex" => {
                if !spec.has("backoffLimitPerIndex") {
                    problems.invalid(&action_at, action, "requires the backoffLimitPerIndex to be set");
                }
            }
            other => problems.one_of(&action_at, other, &choices),
        }
        if rule.has("onExitCodes") {
            exit_codes(rule.at("onExitCodes"), &names, &here.child("onExitCodes"), problems);
        }
        let conditions = rule.list("onPodConditions");
        let inner = here.child("onPodConditions");
        if conditions.len() > 20 {
            problems.too_many(&inner, conditions.len(), 20);
        }
        for (place, pattern) in conditions.iter().enumerate() {
            let here = inner.index(place);
            problems.form(&here.child("type"), pattern.text("type"), format::qualified_name);
            problems.one_of(&here.child("status"), pattern.text("status"), &["False", "True", "Unknown"]);
        }
        match (rule.has("onExitCodes"), conditions.is_empty()) {
            (true, false) => problems
                .invalid_unshown(&here, "specifying both OnExitCodes and OnPodConditions is not supported"),
            (false, true) => {
                problems
                    .invalid_unshown(&here, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            _ => {}
        }
    }
}

fn exit_codes(codes: &Value, names: &BTreeSet<&str>, at: &Path<'_>, problems: &mut Problems) {
    let operator = codes.text("operator");
    if operator.is_empty() {
        problems.required(&at.child("operator"), "valid values: [\"In\" \"NotIn\"]");
    } else {
        problems.one_of(&at.child("operator"), operator, &["In", "NotIn"]);
    }
    if codes.has("containerName") && !names.contains(codes.text("containerName")) {
        let why = "must be one of the container or initContainer names in the pod template";
        problems.invalid(&at.child("containerName"), codes.text("containerName"), why);
    }
    let here = at.child("values");
    let values: Vec<i64> =
        codes.list("values").iter().map(|value| value.as_i64().unwrap_or_default()).collect();
    if values.is_empty() {
        problems.invalid(&here, Value::Null, "at least one value is required");
    } else if values.len() > 255 {
        problems.too_many(&here, values.len(), 255);
    }
    let mut seen = BTreeSet::new();
    for (place, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            problems.invalid(&here.index(place), *value, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            problems.duplicate(&here.index(place), *value);
        }
    }
    if !values.is_sorted() {
        problems.invalid(&here, codes.at("values").clone(), "must be ordered");
    }
}

fn success_policy(spec: &Value, policy: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (rules, list) = (policy.list("rules"), at.child("rules"));
    if rules.is_empty() {
        problems.required(&list, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > 20 {
        problems.too_many(&list, rules.len(), 20);
    }
    let completions = spec.int("completions").unwrap_or_default();
    for (place, rule) in rules.iter().enumerate() {
        let here = list.index(place);
        if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            problems.required(&here, why);
        }
        let mut total = 0;
        if rule.has("succeededIndexes") {
            let (indexes, place) = (rule.text("succeededIndexes"), here.child("succeededIndexes"));
            if indexes.len() > 64 * 1024 {
                problems.too_long(&place, 64 * 1024);
            }
            match super::job_status::indexes(indexes, completions) {
                Ok(count) => total = count,
                Err(why) => {
                    problems.invalid(&place, indexes, format!("error parsing succeededIndexes: {why}"));
                }
            }
        }
        if let Some(count) = rule.int("succeededCount") {
            let place = here.child("succeededCount");
            problems.not_negative(&place, count);
            if count > completions {
                let why = format!(
                    "must be less than or equal to {completions} (the number of specified completions)"
                );
                problems.invalid(&place, count, why);
            }
            if rule.has("succeededIndexes") && count > total {
                let why = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                problems.invalid(&place, count, why);
            }
        }
    }
}

fn completions(before: &Value, after: &Value, problems: &mut Problems) {
    let here = SPEC.child("completions");
    if after.text("completionMode") != "Indexed" {
        problems.immutable_of(&here, "*int", after.at("completions"), before.at("completions"));
        return;
    }
    let wanted = after.int("completions");
    if wanted.is_some() && wanted != before.int("completions") && wanted != after.int("parallelism") {
        let why = "can only be modified in tandem with spec.parallelism";
        problems.invalid(&here, after.at("completions").clone(), why);
    }
}

/// The template of a job that waits may change in where its pods run and what they ask for.
fn template_change(old: &Value, new: &Value, problems: &mut Problems) {
    let (before, after) = (old.at("spec"), new.at("spec"));
    let status = old.at("status");
    let suspended = before.flag("suspend");
    let set_aside = status
        .list("conditions")
        .iter()
        .any(|condition| condition.text("type") == "Suspended" && condition.text("status") == "True");
    let changeable =
        suspended && (!status.has("startTime") || set_aside) && status.int("active").unwrap_or_default() == 0;
    let (wanted, mut kept) = (after.at("template"), before.at("template").clone());
    let here = SPEC.child("template");
    if !changeable {
        problems.immutable_of(&here, "PodTemplateSpec", wanted, &kept);
        return;
    }
    let inner = wanted.at("spec");
    let take = |from: &Value, to: &mut Value, field: &str| match from.get(field) {
        Some(value) => to.put(field, value.clone()),
        None => {
            to.cut(field);
        }
    };
    for field in ["annotations", "labels"] {
        take(wanted.at("metadata"), kept.object("metadata"), field);
    }
    let spec = kept.object("spec");
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(inner, spec, field);
    }
    match (inner.has("affinity"), spec.has("affinity")) {
        (false, true) => {
            spec.object("affinity").cut("nodeAffinity");
            if spec.at("affinity").as_object().is_some_and(serde_json::Map::is_empty) {
                spec.cut("affinity");
            }
        }
        (true, _) => take(inner.at("affinity"), spec.object("affinity"), "nodeAffinity"),
        (false, false) => {}
    }
    for group in ["containers", "initContainers"] {
        if inner.list(group).len() == spec.list(group).len() {
            for (container, wanted) in spec.items(group).iter_mut().zip(inner.list(group)) {
                if container.text("name") == wanted.text("name") {
                    take(wanted, container, "resources");
                }
            }
        }
    }
    if !same(inner, spec) {
        let shown = shown::internal("PodSpec", inner);
        problems.invalid_shown(&SPEC.child("template.spec"), &shown, "field is immutable");
    }
}

fn cron_job(object: &Value, old: Option<&Value>, problems: &mut Problems) {
    let spec = object.at("spec");
    let (schedule, here) = (spec.text("schedule"), SPEC.child("schedule"));
    if schedule.is_empty() {
        problems.declared(|problems| problems.required(&here, ""));
    } else {
        if let Err(why) = cron::check(schedule) {
            problems.invalid(&here, schedule, why);
        }
        if schedule.contains("TZ") {
            let kept = old.is_some_and(|old| old.at("spec").text("schedule").contains("TZ"));
            if !kept {
                let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                problems.invalid(&here, schedule, why);
            } else if spec.has("timeZone") {
                let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                problems.invalid(&here, schedule, why);
            }
        }
    }
    problems.not_negative(
        &SPEC.child("startingDeadlineSeconds"),
        spec.int("startingDeadlineSeconds").unwrap_or_default(),
    );
    if spec.has("timeZone") && old.is_none_or(|old| old.at("spec").at("timeZone") != spec.at("timeZone")) {
        time_zone(spec.text("timeZone"), problems);
    }
    match spec.text("concurrencyPolicy") {
        "" => problems.required(&SPEC.child("concurrencyPolicy"), ""),
        policy => problems.one_of(&SPEC.child("concurrencyPolicy"), policy, &["Allow", "Forbid", "Replace"]),
    }
    let template = SPEC.child("jobTemplate");
    let inner = template.child("spec");
    let job = spec.at("jobTemplate").at("spec");
    job_spec(job, &inner, problems);
    if job.has("selector") {
        let shown = shown::internal("meta.LabelSelector", job.at("selector"));
        problems.invalid_shown(&inner.child("selector"), &shown, "`selector` will be auto-generated");
    }
    if job.flag("manualSelector") {
        problems.unsupported(&inner.child("manualSelector"), true, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        problems.not_negative(&SPEC.child(field), spec.int(field).unwrap_or_default());
    }
}

fn time_zone(zone: &str, problems: &mut Problems) {
    let here = SPEC.child("timeZone");
    if zone.is_empty() {
        problems.invalid(&here, zone, "timeZone must be nil or non-empty string");
        return;
    }
    let good = |part: &str| {
        (1..=14).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if !zone.split('/').all(good) {
        problems.invalid(&here, zone, format!("unknown time zone {zone}"));
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        problems.invalid(
            &here,
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if !cron::is_zone(zone) {
        problems.invalid(&here, zone, format!("unknown time zone {zone}"));
    }
}
