//! Pods: one word for what all the containers are doing.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{Object, human, text};

/// The cells of a Pod.
pub(super) fn pod(of: Object<'_>) -> Vec<Value> {
    let summary = Summary::of(of);
    let mut restarts = summary.restarts.to_string();
    if let Some(last) = summary.last_restart.filter(|_| summary.restarts != 0) {
        restarts = format!("{restarts} ({} ago)", human::since(&last.to_string(), of.now));
    }
    let gates = of.list("/spec/readinessGates");
    let readiness = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        let open = |gate: &&Value| {
            let kind = gate["conditionType"].as_str().unwrap_or_default();
            of.condition(kind).is_some_and(|condition| condition["status"] == "True")
        };
        format!("{}/{}", gates.iter().filter(open).count(), gates.len())
    };
    vec![
        of.name(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        of.age(),
        text::or(of.text("/status/podIPs/0/ip"), "<none>").into(),
        of.text_or("/spec/nodeName", "<none>").into(),
        of.text_or("/status/nominatedNodeName", "<none>").into(),
        readiness.into(),
    ]
}

/// What the containers are doing.
#[derive(Debug, Default)]
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(of: Object<'_>) -> Self {
        let phase = of.text("/status/phase");
        let mut summary = Self {
            reason: of.text_or("/status/reason", phase).to_owned(),
            total: of.count("/spec/containers"),
            ..Self::default()
        };
        let gated = |condition: &Value| {
            condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
        };
        if of.list("/status/conditions").iter().any(gated) {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let initialized = of.condition("Initialized").is_some_and(|condition| condition["status"] == "True");
        let sidecar_restarts = summary.initialization(of);
        if let Some((restarts, last)) = sidecar_restarts.or_when(initialized) {
            summary.restarts = restarts;
            summary.last_restart = last;
            summary.containers(of);
        }
        if of.is_going() && of.text("/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if of.is_going() && !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.reason);
        }
        summary
    }

    /// Looks at the init containers up to the first that is not done.
    fn initialization(&mut self, of: Object<'_>) -> Initialization {
        let specs = of.list("/spec/initContainers");
        let sidecars: HashSet<&str> = specs
            .iter()
            .filter(|container| container["restartPolicy"] == "Always")
            .filter_map(|container| container["name"].as_str())
            .collect();
        self.total += sidecars.len();
        let mut sidecar = (0, None);
        for (place, container) in of.list("/status/initContainerStatuses").iter().enumerate() {
            let is_sidecar = container["name"].as_str().is_some_and(|name| sidecars.contains(name));
            let restarts = container["restartCount"].as_i64().unwrap_or_default();
            self.restarts += restarts;
            self.last_restart = self.last_restart.max(finished(container));
            if is_sidecar {
                sidecar.0 += restarts;
                sidecar.1 = sidecar.1.max(finished(container));
            }
            let terminated = &container["state"]["terminated"];
            let waiting = container["state"]["waiting"]["reason"].as_str().unwrap_or_default();
            if !terminated.is_null() && terminated["exitCode"].as_i64().unwrap_or_default() == 0 {
                continue;
            }
            if is_sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", ending(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{place}/{}", specs.len())
            };
            return Initialization { unfinished: true, sidecar };
        }
        Initialization { unfinished: false, sidecar }
    }

    /// Looks at the containers, the first of them having the last word.
    fn containers(&mut self, of: Object<'_>) {
        let (mut running, mut failure) = (false, String::new());
        for container in of.list("/status/containerStatuses").iter().rev() {
            self.restarts += container["restartCount"].as_i64().unwrap_or_default();
            self.last_restart = self.last_restart.max(finished(container));
            let state = &container["state"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            let terminated = &state["terminated"];
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if !terminated.is_null() {
                self.reason = ending(terminated);
                if terminated["exitCode"].as_i64().unwrap_or_default() != 0 {
                    failure.clone_from(&self.reason);
                }
            } else if container["ready"] == true && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        // A Pod of which something still runs is not completed.
        if self.reason == "Completed" {
            let ready = of
                .list("/status/conditions")
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            if running && ready {
                "Running".clone_into(&mut self.reason);
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

/// How far the init containers are.
struct Initialization {
    unfinished: bool,
    /// The restarts of those that keep running beside the others, and the last of them.
    sidecar: (i64, Option<Timestamp>),
}

impl Initialization {
    /// The restarts to go on with, when the containers proper are to be looked at.
    fn or_when(self, initialized: bool) -> Option<(i64, Option<Timestamp>)> {
        (!self.unfinished || initialized).then_some(self.sidecar)
    }
}

/// Why a container ended.
fn ending(terminated: &Value) -> String {
    let reason = terminated["reason"].as_str().unwrap_or_default();
    let signal = terminated["signal"].as_i64().unwrap_or_default();
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default())
    }
}

/// When a container ended before its last restart.
fn finished(container: &Value) -> Option<Timestamp> {
    container["lastState"]["terminated"]["finishedAt"].as_str()?.parse().ok()
}
