//! What keeps pods running: the group `apps`.

use serde_json::{Map, Value};

use super::{Check, core, own_metadata, pod, storage};
use crate::kinds::format;
use crate::kinds::meta;
use crate::kinds::shown;
use crate::kinds::view::{Edit, Look, Path, Problems, same};

const SPEC: Path<'static> = Path::root("spec");
const STATUS: Path<'static> = Path::root("status");

pub(super) fn create(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    own_metadata(check, object, problems);
    match check.facts.kind {
        "Deployment" => deployment(object.at("spec"), problems),
        "ReplicaSet" => replica_set(object.at("spec"), problems),
        "DaemonSet" => daemon_set(object, problems),
        "StatefulSet" => stateful_set(object.at("spec"), true, problems),
        "ControllerRevision" => {
            problems.not_negative(&Path::root("revision"), object.int("revision").unwrap_or_default());
            let data = Path::root("data");
            match object.at("data") {
                Value::Null => problems.required(&data, "data is mandatory"),
                Value::Object(_) => {}
                _ => problems.required(&data, "data must be a valid JSON object"),
            }
        }
        _ => {}
    }
}

pub(super) fn update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    super::finalizer_names(new.at("metadata"), problems);
    if check.context.subresource == "status" {
        status(check.facts.kind, old.at("status"), new.at("status"), problems);
        return;
    }
    let (before, after) = (old.at("spec"), new.at("spec"));
    let selector = SPEC.child("selector");
    let same_selector = |problems: &mut Problems| {
        problems.immutable_of(&selector, "*meta.LabelSelector", after.at("selector"), before.at("selector"));
    };
    match check.facts.kind {
        "Deployment" => {
            deployment(after, problems);
            same_selector(problems);
        }
        "ReplicaSet" => {
            replica_set(after, problems);
            same_selector(problems);
        }
        "DaemonSet" => {
            same_selector(problems);
            daemon_set(new, problems);
        }
        "StatefulSet" => {
            stateful_set(after, false, problems);
            same_selector(problems);
            if !same(before.at("volumeClaimTemplates"), after.at("volumeClaimTemplates")) {
                let mut claims = after.list("volumeClaimTemplates").to_vec();
                for claim in &mut claims {
                    claim.cut("apiVersion");
                    claim.cut("kind");
                }
                let shown = shown::list("PersistentVolumeClaim", &claims);
                problems.invalid_shown(&SPEC.child("volumeClaimTemplates"), &shown, "field is immutable");
            }
            for field in ["serviceName", "podManagementPolicy"] {
                problems.immutable_of(&SPEC.child(field), "string", after.at(field), before.at(field));
            }
        }
        "ControllerRevision" => {
            own_metadata(check, new, problems);
            problems.not_negative(&Path::root("revision"), new.int("revision").unwrap_or_default());
            problems.immutable(&Path::root("data"), new.at("data"), old.at("data"));
        }
        _ => {}
    }
}

/// The selector of a workload. Says whether its template is worth looking at.
fn selector(spec: &Value, kind: &str, why_invalid: &str, problems: &mut Problems) -> bool {
    let (selector, here) = (spec.at("selector"), SPEC.child("selector"));
    if selector.is_null() {
        problems.required(&here, "");
    } else {
        meta::label_selector(selector, &here, problems);
        if is_empty(selector) {
            let why = format!("empty selector is invalid for {kind}");
            problems.invalid_shown(&here, &shown::internal("meta.LabelSelector", selector), &why);
        }
    }
    let labels = spec.at("template").at("metadata").at("labels");
    match meta::selects(selector, labels) {
        None => {
            let shown = shown::internal("meta.LabelSelector", selector);
            let colon = if why_invalid.is_empty() { "" } else { ": " };
            problems.told(&here, "FieldValueInvalid", format!("Invalid value: {shown}{colon}{why_invalid}"));
            false
        }
        Some(selected) => {
            if !selected && !is_empty(selector) {
                mismatch(labels, problems);
            }
            true
        }
    }
}

fn is_empty(selector: &Value) -> bool {
    !selector.is_null()
        && selector.fields("matchLabels").is_none_or(Map::is_empty)
        && selector.list("matchExpressions").is_empty()
}

fn mismatch(labels: &Value, problems: &mut Problems) {
    let template = SPEC.child("template");
    let metadata = template.child("metadata");
    problems.invalid(
        &metadata.child("labels"),
        labels.clone(),
        "`selector` does not match template `labels`",
    );
}

/// Pods of workloads are restarted whenever they end.
fn always_running(spec: &Value, kind: &str, problems: &mut Problems) {
    let inner = spec.at("template").at("spec");
    let template = SPEC.child("template");
    let at = template.child("spec");
    let policy = inner.text("restartPolicy");
    if policy != "Always" {
        problems.unsupported(&at.child("restartPolicy"), policy, &["Always"]);
    }
    if inner.has("activeDeadlineSeconds") {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        problems.forbidden(&at.child("activeDeadlineSeconds"), why);
    }
}

fn not_negative(holder: &Value, at: &Path<'_>, fields: &[&str], problems: &mut Problems) {
    for field in fields {
        problems.not_negative(&at.child(field), holder.int(field).unwrap_or_default());
    }
}

fn deployment(spec: &Value, problems: &mut Problems) {
    not_negative(spec, &SPEC, &["replicas"], problems);
    if selector(spec, "deployment", "invalid label selector", problems) {
        pod::template(spec.at("template"), &SPEC.child("template"), problems);
        always_running(spec, "ReplicaSet", problems);
    }
    let (strategy, at) = (spec.at("strategy"), SPEC.child("strategy"));
    let here = at.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if strategy.has("rollingUpdate") {
                problems.forbidden(&here, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => rolling_deployment(strategy.at("rollingUpdate"), &here, problems),
        _ => {
            let shown = shown::internal("apps.DeploymentStrategy", strategy);
            problems.told(
                &at,
                "FieldValueNotSupported",
                format!("Unsupported value: {shown}: supported values: \"Recreate\", \"RollingUpdate\""),
            );
        }
    }
    not_negative(
        spec,
        &SPEC,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        problems,
    );
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.int("minReadySeconds").unwrap_or_default()
    {
        let why = "must be greater than minReadySeconds";
        problems.invalid(&SPEC.child("progressDeadlineSeconds"), deadline, why);
    }
}

fn rolling_deployment(rolling: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    int_or_percent(unavailable, &at.child("maxUnavailable"), problems);
    int_or_percent(surge, &at.child("maxSurge"), problems);
    if number(unavailable) == 0 && number(surge) == 0 {
        problems.invalid(
            &at.child("maxUnavailable"),
            unavailable.clone(),
            "may not be 0 when `maxSurge` is 0",
        );
    }
    at_most_all(unavailable, &at.child("maxUnavailable"), problems);
}

/// A number that is not negative, or a share.
pub(super) fn int_or_percent(value: &Value, at: &Path<'_>, problems: &mut Problems) {
    match value {
        Value::String(text) => problems.form(at, text, format::percent),
        number => problems.not_negative(at, number.as_i64().unwrap_or_default()),
    }
}

fn share(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| format::percent(text).is_empty())?;
    // More digits than fit are surely more than everything.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

fn number(value: &Value) -> i64 {
    share(value).or_else(|| value.as_i64()).unwrap_or_else(|| value.str().parse().unwrap_or_default())
}

/// No share of more than everything.
pub(super) fn at_most_all(value: &Value, at: &Path<'_>, problems: &mut Problems) {
    if share(value).is_some_and(|share| share > 100) {
        problems.invalid(at, value.clone(), "must not be greater than 100%");
    }
}

fn replica_set(spec: &Value, problems: &mut Problems) {
    not_negative(spec, &SPEC, &["replicas", "minReadySeconds"], problems);
    if selector(spec, "deployment", "invalid label selector", problems) {
        pod::template(spec.at("template"), &SPEC.child("template"), problems);
        always_running(spec, "ReplicaSet", problems);
    }
}

fn daemon_set(object: &Value, problems: &mut Problems) {
    let spec = object.at("spec");
    let (selector, here) = (spec.at("selector"), SPEC.child("selector"));
    meta::label_selector(selector, &here, problems);
    let labels = spec.at("template").at("metadata").at("labels");
    if meta::selects(selector, labels) == Some(false) {
        mismatch(labels, problems);
    }
    if is_empty(selector) {
        let shown = shown::internal("meta.LabelSelector", selector);
        problems.invalid_shown(&here, &shown, "empty selector is invalid for daemonset");
    }
    pod::template(spec.at("template"), &SPEC.child("template"), problems);
    always_running(spec, "DaemonSet", problems);
    not_negative(spec, &SPEC, &["minReadySeconds"], problems);
    let (strategy, at) = (spec.at("updateStrategy"), SPEC.child("updateStrategy"));
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling_daemon_set(strategy.at("rollingUpdate"), &at.child("rollingUpdate"), problems);
        }
        _ => {
            let shown = shown::internal("apps.DaemonSetUpdateStrategy", strategy);
            problems.told(
                &at,
                "FieldValueNotSupported",
                format!("Unsupported value: {shown}: supported values: \"RollingUpdate\", \"OnDelete\""),
            );
        }
    }
    not_negative(spec, &SPEC, &["revisionHistoryLimit"], problems);
}

fn rolling_daemon_set(rolling: &Value, at: &Path<'_>, problems: &mut Problems) {
    for field in ["maxUnavailable", "maxSurge"] {
        int_or_percent(rolling.at(field), &at.child(field), problems);
    }
    for field in ["maxUnavailable", "maxSurge"] {
        at_most_all(rolling.at(field), &at.child(field), problems);
    }
    let some = |field: &str| number(rolling.at(field)) != 0;
    match (some("maxUnavailable"), some("maxSurge")) {
        (true, true) => {
            let why = "may not be set when maxUnavailable is non-zero";
            problems.invalid(&at.child("maxSurge"), rolling.at("maxSurge").clone(), why);
        }
        (false, false) => problems.required(&at.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

fn stateful_set(spec: &Value, is_new: bool, problems: &mut Problems) {
    match spec.text("podManagementPolicy") {
        "" => problems.required(&SPEC.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            problems.invalid(
                &SPEC.child("podManagementPolicy"),
                other,
                "must be 'OrderedReady' or 'Parallel'",
            );
        }
    }
    update_strategy(spec.at("updateStrategy"), &SPEC.child("updateStrategy"), problems);
    let (policy, at) =
        (spec.at("persistentVolumeClaimRetentionPolicy"), SPEC.child("persistentVolumeClaimRetentionPolicy"));
    for field in ["whenDeleted", "whenScaled"] {
        if !policy.is_null() {
            problems.one_of(&at.child(field), policy.text(field), &["Retain", "Delete"]);
        }
    }
    if is_new {
        let list = SPEC.child("volumeClaimTemplates");
        for (place, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
            storage::claim_spec(claim.at("spec"), false, &list.index(place).child("spec"), problems);
        }
    }
    not_negative(spec, &SPEC, &["replicas", "minReadySeconds"], problems);
    let first = spec.at("ordinals").int("start").unwrap_or_default();
    problems.not_negative(&SPEC.child("ordinals.start"), first);
    if is_new && !spec.text("serviceName").is_empty() {
        problems.form(&SPEC.child("serviceName"), spec.text("serviceName"), format::dns1123_label);
    }
    if selector(spec, "statefulset", "", problems) {
        pod::template(&with_claims(spec), &SPEC.child("template"), problems);
    }
    always_running(spec, "StatefulSet", problems);
}

fn update_strategy(strategy: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (rolling, here) = (strategy.at("rollingUpdate"), at.child("rollingUpdate"));
    match strategy.text("type") {
        "" => problems.required(at, ""),
        "OnDelete" => {
            if !rolling.is_null() {
                let shown = shown::internal("apps.RollingUpdateStatefulSetStrategy", rolling);
                problems.invalid_shown(&here, &shown, "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            problems.not_negative(&here.child("partition"), rolling.int("partition").unwrap_or_default());
            let (value, place) = (rolling.at("maxUnavailable"), here.child("maxUnavailable"));
            if !value.is_null() {
                int_or_percent(value, &place, problems);
                if number(value) == 0 {
                    problems.invalid(&place, value.clone(), "cannot be 0");
                }
                at_most_all(value, &place, problems);
            }
        }
        _ => {
            let shown = shown::internal("apps.StatefulSetUpdateStrategy", strategy);
            problems.invalid_shown(at, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// The template with the claims as volumes, and without what each pod gets of its own.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec.at("template").clone();
    let inner = template.object("spec");
    inner.cut("subdomain");
    inner.cut("hostname");
    let claims = spec.list("volumeClaimTemplates");
    if !claims.is_empty() {
        let name = |claim: &Value| claim.at("metadata").text("name").to_owned();
        let mut volumes: Vec<Value> = Vec::new();
        for claim in claims {
            let name = name(claim);
            if !volumes.iter().any(|volume| volume.text("name") == name) {
                volumes.push(serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            }
        }
        let others = inner
            .list("volumes")
            .iter()
            .filter(|volume| !claims.iter().any(|claim| name(claim) == volume.text("name")));
        let others: Vec<Value> = others.cloned().collect();
        volumes.extend(others);
        inner.put("volumes", volumes);
    }
    template
}

fn status(kind: &str, before: &Value, after: &Value, problems: &mut Problems) {
    let count = |field: &str| after.int(field).unwrap_or_default();
    let within = |fields: &[&str], problems: &mut Problems| {
        for field in fields {
            if count(field) > count("replicas") {
                problems.invalid(
                    &STATUS.child(field),
                    count(field),
                    "cannot be greater than status.replicas",
                );
            }
        }
    };
    match kind {
        "ReplicaSet" => {
            core::replica_status(after, true, problems);
            not_negative(after, &STATUS, &["terminatingReplicas"], problems);
            return;
        }
        "Deployment" => {
            not_negative(
                after,
                &STATUS,
                &[
                    "observedGeneration",
                    "replicas",
                    "updatedReplicas",
                    "readyReplicas",
                    "availableReplicas",
                    "unavailableReplicas",
                    "terminatingReplicas",
                    "collisionCount",
                ],
                problems,
            );
            within(&["updatedReplicas", "readyReplicas", "availableReplicas"], problems);
        }
        "StatefulSet" => {
            not_negative(
                after,
                &STATUS,
                &[
                    "replicas",
                    "readyReplicas",
                    "currentReplicas",
                    "updatedReplicas",
                    "availableReplicas",
                    "observedGeneration",
                    "collisionCount",
                ],
                problems,
            );
            within(&["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"], problems);
        }
        _ => not_negative(
            after,
            &STATUS,
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            problems,
        ),
    }
    if kind != "DaemonSet" && count("availableReplicas") > count("readyReplicas") {
        let what = if kind == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        let why = format!("cannot be greater than {what}");
        problems.invalid(&STATUS.child("availableReplicas"), count("availableReplicas"), why);
    }
    if let Some(old) = before.int("collisionCount")
        && (count("collisionCount") < old || !after.has("collisionCount"))
    {
        problems.invalid(&STATUS.child("collisionCount"), count("collisionCount"), "cannot be decremented");
    }
}
