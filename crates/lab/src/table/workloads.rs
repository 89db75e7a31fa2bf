//! What runs Pods: controllers, jobs, budgets and scaling.

use serde_json::Value;

use super::text::{joined, labels, quantity, selector, selector_cell};
use super::{Object, human};

/// The cells of a kind, if it is one of these.
pub(super) fn cells(kind: &str, of: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "PodTemplate" => {
            let mut cells = vec![of.name()];
            cells.extend(containers(of, "/template/spec/containers"));
            cells.push(labels(of.at("/template/metadata/labels")).into());
            cells
        }
        "ReplicationController" | "ReplicaSet" => {
            let mut cells = vec![
                of.name(),
                of.number("/spec/replicas").into(),
                of.number("/status/replicas").into(),
                of.number("/status/readyReplicas").into(),
                of.age(),
            ];
            cells.extend(containers(of, "/spec/template/spec/containers"));
            cells.push(if kind == "ReplicaSet" {
                selector_cell(of.at("/spec/selector"))
            } else {
                labels(of.at("/spec/selector")).into()
            });
            cells
        }
        "DaemonSet" => daemon_set(of),
        "Deployment" => deployment(of),
        "StatefulSet" => {
            let mut cells = vec![of.name(), ready_of_wanted(of), of.age()];
            cells.extend(containers(of, "/spec/template/spec/containers"));
            cells
        }
        "ControllerRevision" => {
            vec![of.name(), controller(of).into(), of.number("/revision").into(), of.age()]
        }
        "Job" => job(of),
        "CronJob" => cron_job(of),
        "PodDisruptionBudget" => {
            let amount = |pointer| match of.at(pointer) {
                Value::Null => "N/A".to_owned(),
                value => quantity(value),
            };
            vec![
                of.name(),
                amount("/spec/minAvailable").into(),
                amount("/spec/maxUnavailable").into(),
                of.number("/status/disruptionsAllowed").into(),
                of.age(),
            ]
        }
        "HorizontalPodAutoscaler" => autoscaler(of),
        "Scale" => {
            vec![
                of.name(),
                of.number("/spec/replicas").into(),
                of.number("/status/replicas").into(),
                of.age(),
            ]
        }
        _ => return None,
    })
}

/// The names and images of containers.
fn containers(of: Object<'_>, pointer: &str) -> [Value; 2] {
    ["name", "image"].map(|key| joined(of.list(pointer), key).into())
}

fn ready_of_wanted(of: Object<'_>) -> Value {
    format!("{}/{}", of.number("/status/readyReplicas"), of.number("/spec/replicas")).into()
}

fn daemon_set(of: Object<'_>) -> Vec<Value> {
    let mut cells = vec![of.name()];
    cells.extend(
        [
            "/status/desiredNumberScheduled",
            "/status/currentNumberScheduled",
            "/status/numberReady",
            "/status/updatedNumberScheduled",
            "/status/numberAvailable",
        ]
        .map(|pointer| of.number(pointer).into()),
    );
    cells.push(labels(of.at("/spec/template/spec/nodeSelector")).into());
    cells.push(of.age());
    cells.extend(containers(of, "/spec/template/spec/containers"));
    cells.push(selector_cell(of.at("/spec/selector")));
    cells
}

fn deployment(of: Object<'_>) -> Vec<Value> {
    let mut cells = vec![
        of.name(),
        ready_of_wanted(of),
        of.number("/status/updatedReplicas").into(),
        of.number("/status/availableReplicas").into(),
        of.age(),
    ];
    cells.extend(containers(of, "/spec/template/spec/containers"));
    cells.push(selector(of.at("/spec/selector")).unwrap_or_else(|| "<invalid>".to_owned()).into());
    cells
}

/// `deployment.apps/web` for the owner that controls the object.
fn controller(of: Object<'_>) -> String {
    let owners = of.list("/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return "<none>".to_owned();
    };
    let text = |key: &str| owner[key].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    format!("{}/{}", crate::status::qualified(group, text("kind")).to_lowercase(), text("name"))
}

fn job(of: Object<'_>) -> Vec<Value> {
    let succeeded = of.number("/status/succeeded");
    let completions = match of.at("/spec/completions").as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match of.number("/spec/parallelism") {
            many @ 2.. => format!("{succeeded}/1 of {many}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let moment = |pointer: &str| of.text(pointer).parse::<jiff::Timestamp>().ok();
    let duration = match (moment("/status/startTime"), moment("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human::human_duration(end.unwrap_or(of.now).duration_since(start)),
    };
    let is = |kind: &str| of.condition(kind).is_some_and(|condition| condition["status"] == "True");
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if of.is_going() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let mut cells = vec![of.name(), status.into(), completions.into(), duration.into(), of.age()];
    cells.extend(containers(of, "/spec/template/spec/containers"));
    cells.push(selector_cell(of.at("/spec/selector")));
    cells
}

fn cron_job(of: Object<'_>) -> Vec<Value> {
    let suspended = match of.at("/spec/suspend").as_bool() {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = match of.text("/status/lastScheduleTime") {
        "" => "<none>".to_owned(),
        _ => of.since("/status/lastScheduleTime"),
    };
    let mut cells = vec![
        of.name(),
        of.text("/spec/schedule").into(),
        of.text_or("/spec/timeZone", "<none>").into(),
        suspended.into(),
        of.count("/status/active").into(),
        last.into(),
        of.age(),
    ];
    cells.extend(containers(of, "/spec/jobTemplate/spec/template/spec/containers"));
    cells.push(selector_cell(of.at("/spec/jobTemplate/spec/selector")));
    cells
}

fn autoscaler(of: Object<'_>) -> Vec<Value> {
    let reference =
        format!("{}/{}", of.text("/spec/scaleTargetRef/kind"), of.text("/spec/scaleTargetRef/name"));
    let least =
        of.at("/spec/minReplicas").as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    vec![
        of.name(),
        reference.into(),
        metrics(of).into(),
        least.into(),
        of.number("/spec/maxReplicas").into(),
        of.number("/status/currentReplicas").into(),
        of.age(),
    ]
}

/// The first two metrics, each as what is and what is wanted.
fn metrics(of: Object<'_>) -> String {
    let statuses = of.list("/status/currentMetrics");
    let mut list: Vec<String> = Vec::new();
    if let Some(target) = of.at("/spec/targetCPUUtilizationPercentage").as_i64() {
        // The only metric of the first version of the kind.
        let current = of.at("/status/currentCPUUtilizationPercentage").as_i64();
        list.push(format!("cpu: {}/{target}%", percent(current, "<unknown>")));
    }
    for (place, spec) in of.list("/spec/metrics").iter().enumerate() {
        list.push(metric(spec, statuses.get(place).unwrap_or(&Value::Null)));
    }
    match list.len() {
        0 => "<none>".to_owned(),
        count @ 3.. => format!("{} + {} more...", list[..2].join(", "), count - 2),
        _ => list.join(", "),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let key = match spec["type"].as_str() {
        Some("External") => "external",
        Some("Pods") => "pods",
        Some("Object") => "object",
        Some("Resource") => "resource",
        Some("ContainerResource") => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, now) = (&spec[key]["target"], &status[key]["current"]);
    let known = |value: &Value, told: bool| if told { quantity(value) } else { "<unknown>".to_owned() };
    let average = &target["averageValue"];
    match key {
        "external" | "object" if !average.is_null() => {
            let current = &now["averageValue"];
            format!("{}/{} (avg)", known(current, !current.is_null()), quantity(average))
        }
        "external" | "object" => {
            format!("{}/{}", known(&now["value"], !status[key].is_null()), quantity(&target["value"]))
        }
        "pods" => format!("{}/{}", known(&now["averageValue"], !status[key].is_null()), quantity(average)),
        _ => {
            let name = spec[key]["name"].as_str().unwrap_or_default();
            if average.is_null() {
                let current = percent(now["averageUtilization"].as_i64(), "<unknown>");
                format!("{name}: {current}/{}", percent(target["averageUtilization"].as_i64(), "<auto>"))
            } else {
                format!(
                    "{name}: {}/{}",
                    known(&now["averageValue"], !status[key].is_null()),
                    quantity(average)
                )
            }
        }
    }
}

fn percent(value: Option<i64>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), |value| format!("{value}%"))
}
