//! Objects of one kind in the versions and groups it is served in.

use serde_json::{Map, Value, json};

use super::defaults::workloads::{AUTOSCALER_ANNOTATIONS, default_metric};
use super::view::{Edit, Look};
use crate::names::Gvk;
use crate::status::Status;

/// The fields of an event that are called something else in the other group: core, then newer.
const EVENT_NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The version an object of this kind is stored in.
pub fn storage_kind(kind: &Gvk) -> Gvk {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("events.k8s.io", "Event") => Gvk::new("", "v1", "Event"),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler")
        }
        _ => kind.clone(),
    }
}

/// The same object in another version or group of its kind.
///
/// # Errors
///
/// When the two kinds are not the same one.
pub fn convert(mut object: Value, to: &Gvk) -> Result<Value, Status> {
    let (group, version) = match object.text("apiVersion").split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), object.text("apiVersion").to_owned()),
    };
    let from = Gvk::new(&group, &version, object.text("kind"));
    if from == *to {
        return Ok(object);
    }
    object = match (from.kind.as_str(), from.group.as_str(), to.group.as_str(), to.version.as_str()) {
        ("Event", "", "events.k8s.io", _) => event_from_core(object),
        ("Event", "events.k8s.io", "", _) => event_to_core(object),
        ("HorizontalPodAutoscaler", "autoscaling", "autoscaling", "v1") => autoscaler_to_v1(object),
        ("HorizontalPodAutoscaler", "autoscaling", "autoscaling", "v2") => autoscaler_to_v2(object),
        _ => {
            return Err(Status::internal(format!(
                "cannot convert {} to {}",
                from.api_version(),
                to.api_version()
            )));
        }
    };
    object.put("apiVersion", to.api_version());
    Ok(object)
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = object.cut(from) {
        object.put(to, value);
    }
}

/// An event by the names of the core group.
pub(crate) fn event_to_core(mut event: Value) -> Value {
    for (core, newer) in EVENT_NAMES {
        rename(&mut event, newer, core);
    }
    event
}

fn event_from_core(mut event: Value) -> Value {
    for (core, newer) in EVENT_NAMES {
        rename(&mut event, core, newer);
    }
    event
}

fn is_cpu_share(metric: &Value) -> bool {
    metric.text("type") == "Resource" && metric.at("resource").text("name") == "cpu"
}

/// What the older version cannot say is kept in annotations.
fn autoscaler_to_v1(mut object: Value) -> Value {
    drop_annotations(&mut object);
    let spec = object.at("spec");
    let cpu = |metric: &&Value| {
        is_cpu_share(metric) && metric.at("resource").at("target").has("averageUtilization")
    };
    let percent = spec
        .list("metrics")
        .iter()
        .find(cpu)
        .and_then(|metric| metric.at("resource").at("target").int("averageUtilization"));
    let others: Vec<Value> = spec
        .list("metrics")
        .iter()
        .filter(|metric| !cpu(metric))
        .map(|metric| metric_to_v1(metric, "target"))
        .collect();
    let behavior = spec.get("behavior").map(behavior_to_text);
    let status = object.at("status");
    let current: Vec<Value> =
        status.list("currentMetrics").iter().map(|metric| metric_to_v1(metric, "current")).collect();
    let conditions = status.list("conditions").to_vec();
    let used = status
        .list("currentMetrics")
        .iter()
        .filter(|metric| is_cpu_share(metric))
        .filter_map(|metric| metric.at("resource").at("current").int("averageUtilization"))
        .next_back();
    let mut note = |name: &str, text: String| {
        object.object("metadata").object("annotations").put(name, text);
    };
    if !others.is_empty() {
        note(AUTOSCALER_ANNOTATIONS[0], in_order(&others));
    }
    if !current.is_empty() {
        note(AUTOSCALER_ANNOTATIONS[4], in_order(&current));
    }
    if let Some(behavior) = behavior {
        note(AUTOSCALER_ANNOTATIONS[1], behavior);
    }
    if !conditions.is_empty() {
        note(AUTOSCALER_ANNOTATIONS[5], in_order(&conditions));
    }
    let spec = object.object("spec");
    spec.cut("metrics");
    spec.cut("behavior");
    if let Some(percent) = percent {
        spec.put("targetCPUUtilizationPercentage", percent);
    }
    if let Some(status) = object.child("status") {
        status.cut("currentMetrics");
        status.cut("conditions");
        status.fill("currentReplicas", 0);
        if let Some(used) = used {
            status.put("currentCPUUtilizationPercentage", used);
        }
    }
    object
}

fn drop_annotations(object: &mut Value) {
    let Some(metadata) = object.child("metadata") else { return };
    if let Some(annotations) = metadata.child("annotations") {
        for name in AUTOSCALER_ANNOTATIONS {
            annotations.cut(name);
        }
        if annotations.as_object().is_some_and(Map::is_empty) {
            metadata.cut("annotations");
        }
    }
}

/// Where the two versions put the parts of a metric: in the kind's object, old name, and new place.
fn metric_fields(kind: &str, side: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    let target = side == "target";
    match (kind, target) {
        ("Object", true) => {
            vec![("targetValue", "target", "value"), ("averageValue", "target", "averageValue")]
        }
        ("Object", false) => {
            vec![("currentValue", "current", "value"), ("averageValue", "current", "averageValue")]
        }
        ("Pods", true) => vec![("targetAverageValue", "target", "averageValue")],
        ("Pods", false) => vec![("currentAverageValue", "current", "averageValue")],
        ("External", true) => {
            vec![("targetValue", "target", "value"), ("targetAverageValue", "target", "averageValue")]
        }
        ("External", false) => {
            vec![("currentValue", "current", "value"), ("currentAverageValue", "current", "averageValue")]
        }
        (_, true) => vec![
            ("targetAverageUtilization", "target", "averageUtilization"),
            ("targetAverageValue", "target", "averageValue"),
        ],
        (_, false) => vec![
            ("currentAverageUtilization", "current", "averageUtilization"),
            ("currentAverageValue", "current", "averageValue"),
        ],
    }
}

fn holder_of(kind: &str) -> &'static str {
    match kind {
        "Object" => "object",
        "Pods" => "pods",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "resource",
    }
}

fn metric_to_v1(metric: &Value, side: &str) -> Value {
    let kind = metric.text("type");
    let source = metric.at(holder_of(kind));
    let mut out = json!({});
    for field in ["name", "container"] {
        if source.has(field) {
            out.put(field, source.at(field).clone());
        }
    }
    if kind == "Object" {
        out.put("target", source.at("describedObject").clone());
    }
    if source.has("metric") {
        out.put("metricName", source.at("metric").text("name"));
        let selector = if kind == "External" { "metricSelector" } else { "selector" };
        if source.at("metric").has("selector") {
            out.put(selector, source.at("metric").at("selector").clone());
        }
    }
    for (old, place, new) in metric_fields(kind, side) {
        if source.at(place).has(new) {
            out.put(old, source.at(place).at(new).clone());
        }
    }
    // Values that are not pointers in the older version are always written.
    let always = match (kind, side) {
        ("Object", "target") => Some("targetValue"),
        ("Object" | "External", "current") => Some("currentValue"),
        ("Pods", "target") => Some("targetAverageValue"),
        (_, "current") => Some("currentAverageValue"),
        _ => None,
    };
    if let Some(field) = always {
        out.fill(field, "0");
    }
    json!({"type": kind, holder_of(kind): out})
}

fn metric_from_v1(metric: &Value, side: &str) -> Value {
    let kind = metric.text("type");
    let source = metric.at(holder_of(kind));
    let mut out = json!({});
    for field in ["name", "container"] {
        if source.has(field) {
            out.put(field, source.at(field).clone());
        }
    }
    if kind == "Object" {
        out.put("describedObject", source.at("target").clone());
    }
    if matches!(kind, "Object" | "Pods" | "External") {
        let mut identifier = json!({"name": source.text("metricName")});
        let selector = if kind == "External" { "metricSelector" } else { "selector" };
        if source.has(selector) {
            identifier.put("selector", source.at(selector).clone());
        }
        out.put("metric", identifier);
    }
    let mut value = json!({});
    for (old, _, new) in metric_fields(kind, side) {
        if source.has(old) {
            value.put(new, source.at(old).clone());
        }
    }
    if side == "target" {
        let average = kind == "Object" && source.has("averageValue");
        if average && matches!(value.text("value"), "0" | "") {
            value.cut("value");
        }
        let of = match kind {
            "Object" if average => "AverageValue",
            "Object" => "Value",
            "External" if source.has("targetValue") => "Value",
            "Resource" | "ContainerResource" if source.has("targetAverageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        value.put("type", of);
    }
    out.put(side, value);
    json!({"type": kind, holder_of(kind): out})
}

/// The behavior is kept in the form the server has in memory.
fn behavior_to_text(behavior: &Value) -> String {
    super::shown::internal("autoscaling.HorizontalPodAutoscalerBehavior", behavior)
}

fn behavior_from_text(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    let rules = |name: &str, shown: &str| -> Option<Value> {
        let given = [shown, name].iter().map(|key| value.at(key)).find(|value| value.is_object())?;
        let mut out = Map::new();
        for (key, item) in given.as_object()? {
            if item.is_null() {
                continue;
            }
            let mut letters = key.chars();
            let key: String = letters.next()?.to_lowercase().chain(letters).collect();
            let item = match item.as_array() {
                Some(policies) if key == "policies" => policies.iter().map(small_keys).collect(),
                _ => item.clone(),
            };
            out.insert(key, item);
        }
        Some(out.into())
    };
    let mut out = json!({});
    for (name, shown) in [("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")] {
        if let Some(rules) = rules(name, shown) {
            out.put(name, rules);
        }
    }
    (!out.as_object().is_some_and(Map::is_empty)).then_some(out)
}

fn small_keys(value: &Value) -> Value {
    let lower = |key: &String| {
        let mut letters = key.chars();
        letters
            .next()
            .map(|first| first.to_lowercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (lower(key), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// An autoscaler in the form that says everything.
pub(super) fn autoscaler_to_v2(mut object: Value) -> Value {
    let annotations = object.at("metadata").at("annotations").clone();
    let listed = |place: usize| -> Option<Vec<Value>> {
        annotations.get(AUTOSCALER_ANNOTATIONS[place]).and_then(|text| serde_json::from_str(text.str()).ok())
    };
    let spec = object.object("spec");
    let share = spec.cut("targetCPUUtilizationPercentage").and_then(|percent| percent.as_i64());
    let mut metrics: Vec<Value> =
        listed(0).unwrap_or_default().iter().map(|metric| metric_from_v1(metric, "target")).collect();
    metrics.extend(share.map(default_metric));
    if metrics.is_empty() {
        metrics.push(default_metric(80));
    }
    spec.put("metrics", metrics);
    if let Some(behavior) =
        annotations.get(AUTOSCALER_ANNOTATIONS[1]).and_then(|text| behavior_from_text(text.str()))
    {
        spec.put("behavior", behavior);
    }
    let current =
        listed(4).map(|list| list.iter().map(|metric| metric_from_v1(metric, "current")).collect::<Vec<_>>());
    let conditions = listed(5);
    if let Some(status) = object.child("status") {
        let used = status.cut("currentCPUUtilizationPercentage").and_then(|percent| percent.as_i64());
        let used = used.map(|percent| {
            vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})]
        });
        if let Some(metrics) = current.or(used) {
            status.put("currentMetrics", metrics);
        }
        if let Some(conditions) = conditions {
            status.put("conditions", conditions);
        }
    }
    drop_annotations(&mut object);
    object
}

/// Text with the fields in the order the typed server writes them.
fn in_order(values: &[Value]) -> String {
    const ORDER: [&str; 24] = [
        "type",
        "status",
        "lastTransitionTime",
        "reason",
        "message",
        "object",
        "pods",
        "resource",
        "containerResource",
        "external",
        "kind",
        "name",
        "apiVersion",
        "target",
        "metricName",
        "targetValue",
        "currentValue",
        "targetAverageUtilization",
        "currentAverageUtilization",
        "targetAverageValue",
        "currentAverageValue",
        "selector",
        "metricSelector",
        "averageValue",
    ];
    fn write(value: &Value) -> String {
        match value {
            Value::Object(fields) => {
                let mut keys: Vec<&String> = fields.keys().collect();
                keys.sort_by_key(|key| ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len()));
                let parts: Vec<String> = keys
                    .iter()
                    .map(|key| format!("{}:{}", Value::from(key.as_str()), write(&fields[*key])))
                    .collect();
                format!("{{{}}}", parts.join(","))
            }
            Value::Array(items) => format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(",")),
            other => other.to_string(),
        }
    }
    format!("[{}]", values.iter().map(write).collect::<Vec<_>>().join(","))
}
