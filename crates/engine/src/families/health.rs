//! Health checks: when a machine counts as unhealthy, and how many may be replaced.
//!
//! OpenShift and (by us) KKP have an object for it, which selects machines. A MachinePool has annotations:
//! `trellis.dev/unhealthy-after`, `trellis.dev/max-unhealthy` and `trellis.dev/node-startup-timeout`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use trellis_api::machine_api::{LabelOperator, LabelRule, LabelSelector};
use trellis_model::quantity::Count;

use super::object::Object;
use super::table::keys;

/// How long a machine may take to join when nothing is said.
const STARTUP: Duration = Duration::from_mins(10);

/// A health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Which machines it is about; all of its namespace if it says nothing.
    pub selector: LabelSelector,
    /// What of a Node is unhealthy, and after how long.
    pub unhealthy: Vec<UnhealthyCondition>,
    /// While more than that are unhealthy, nothing is replaced.
    pub max_unhealthy: Count,
    /// How long a machine may take to join; without end if left out.
    pub startup: Option<Duration>,
}

/// What of a Node is unhealthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyCondition {
    /// The condition.
    pub kind: String,
    /// The value: `True`, `False` or `Unknown`.
    pub status: String,
    /// For how long it must have that value.
    pub timeout: Duration,
}

/// A health check cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHealthCheck {
    /// It does not have the form it should have.
    #[error("the health check {0} does not have the form of a MachineHealthCheck")]
    Form(String),
    /// A time is none.
    #[error("{field}: {found:?} is not a time such as 300s or 5m")]
    Time {
        /// Where it stands.
        field: String,
        /// What stands there.
        found: String,
    },
    /// It leaves the remedy to somebody else.
    #[error(
        "spec.remediationTemplate leaves it to another controller what is done for sick machines: nothing is replaced here"
    )]
    Remedy,
    /// A share is none.
    #[error("{field}: {found:?} is neither a number nor a share such as 40%")]
    Share {
        /// Where it stands.
        field: String,
        /// What stands there.
        found: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    selector: LabelSelector,
    #[serde(default)]
    unhealthy_conditions: Vec<Condition>,
    #[serde(default)]
    max_unhealthy: Option<Value>,
    #[serde(default)]
    node_startup_timeout: Option<Value>,
    #[serde(default)]
    remediation_template: Option<Value>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    timeout: Value,
}

impl HealthCheck {
    /// Reads a MachineHealthCheck of either family.
    pub fn of_object(object: &Object) -> Result<Self, BadHealthCheck> {
        let spec: Spec =
            object.spec_as().ok_or_else(|| BadHealthCheck::Form(object.metadata.name().to_string()))?;
        if spec.remediation_template.is_some() {
            return Err(BadHealthCheck::Remedy);
        }
        let conditions = spec.unhealthy_conditions.into_iter().map(|condition| {
            let field = format!("spec.unhealthyConditions[{}].timeout", condition.kind);
            let timeout = time(&field, &condition.timeout)?;
            Ok(UnhealthyCondition { kind: condition.kind, status: condition.status, timeout })
        });
        let startup = spec.node_startup_timeout.as_ref();
        let startup = startup.map(|value| time("spec.nodeStartupTimeout", value)).transpose()?;
        Ok(Self {
            selector: spec.selector,
            unhealthy: conditions.collect::<Result<_, _>>()?,
            max_unhealthy: share("spec.maxUnhealthy", spec.max_unhealthy.as_ref())?,
            startup: Some(startup.unwrap_or(STARTUP)).filter(|startup| !startup.is_zero()),
        })
    }

    /// Reads the annotations of a MachinePool; nothing where it has none of them.
    pub fn of_pool(pool: &Object) -> Result<Option<Self>, BadHealthCheck> {
        let annotation = |key: &str| pool.metadata.annotations.get(key).map(Value::from);
        let after = annotation(keys::UNHEALTHY_AFTER);
        let most = annotation(keys::MAX_UNHEALTHY);
        let startup = annotation(keys::NODE_STARTUP_TIMEOUT);
        if after.is_none() && most.is_none() && startup.is_none() {
            return Ok(None);
        }
        let after = after.map(|after| time(keys::UNHEALTHY_AFTER, &after)).transpose()?;
        let unhealthy = after.into_iter().flat_map(|timeout| {
            let condition = |status: &str| UnhealthyCondition {
                kind: "Ready".to_owned(),
                status: status.to_owned(),
                timeout,
            };
            [condition("False"), condition("Unknown")]
        });
        let startup = startup.map(|startup| time(keys::NODE_STARTUP_TIMEOUT, &startup)).transpose()?;
        Ok(Some(Self {
            selector: LabelSelector::default(),
            unhealthy: unhealthy.collect(),
            max_unhealthy: share(keys::MAX_UNHEALTHY, most.as_ref())?,
            startup: Some(startup.unwrap_or(STARTUP)).filter(|startup| !startup.is_zero()),
        }))
    }

    /// Whether a MachineHealthCheck is about machines with these labels, as far as that can be read: one whose selector
    /// cannot may mean any.
    pub fn may_select(object: &Object, labels: &BTreeMap<String, String>) -> bool {
        #[derive(Deserialize)]
        struct Selecting {
            #[serde(default)]
            selector: LabelSelector,
        }
        object.spec_as::<Selecting>().is_none_or(|spec| selects(&spec.selector, labels))
    }

    /// Whether it is about machines with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        selects(&self.selector, labels)
    }
}

/// Whether a selector selects what has these labels.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let rule = |rule: &LabelRule| {
        let value = labels.get(&rule.key);
        match rule.operator {
            LabelOperator::In => value.is_some_and(|value| rule.values.contains(value)),
            LabelOperator::NotIn => value.is_none_or(|value| !rule.values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    };
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(rule)
}

fn share(field: &str, value: Option<&Value>) -> Result<Count, BadHealthCheck> {
    let Some(value) = value else { return Ok(Count::Percent(100)) };
    let found = shown(value);
    let count = match found.strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().filter(|percent| *percent <= 100).map(Count::Percent),
        None => found.trim().parse().ok().map(Count::Absolute),
    };
    count.ok_or_else(|| BadHealthCheck::Share { field: field.to_owned(), found })
}

fn time(field: &str, value: &Value) -> Result<Duration, BadHealthCheck> {
    let found = shown(value);
    duration(&found).ok_or_else(|| BadHealthCheck::Time { field: field.to_owned(), found })
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(40).collect(),
        other => other.to_string().chars().take(40).collect(),
    }
}

/// A time as these APIs write it: numbers with units behind each other (`1h30m`, `1.5h`), or `0`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, next) = behind.split_at(unit_end);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = next;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(seconds).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, seconds) in
            [("300s", 300.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("0", 0.0), ("100ms", 0.1)]
        {
            assert_eq!(duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "5", "m", "5 m", "-5m", "5x", "1h30"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
