//! The lines of a log, from the life of a container. Everything here is pure.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cdi::Role;
use crate::kubevirt::names::COMPONENT_LABEL;
use crate::object::Object as _;

/// The container that prints what the guest shows on its serial console.
pub(crate) const CONSOLE: &str = "guest-console-log";

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// When it was printed.
    pub(super) at: Timestamp,
    /// What.
    pub(super) text: String,
}

/// What is known of a pod below the API.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// The time.
    pub(super) now: Timestamp,
    /// How far a worker is.
    pub(super) percent: Option<f64>,
    /// What the console of its machine showed.
    pub(super) console: Option<String>,
    /// The instance it runs.
    pub(super) instance: Option<Arc<Value>>,
}

/// One run of a container.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pod: &'a Value,
    container: &'a Value,
    /// When it started.
    pub(super) started: Timestamp,
    /// How it ended, if it has.
    pub(super) ended: Option<&'a Value>,
}

impl<'a> Run<'a> {
    /// The run of a container whose log is asked for: the last one, or the one before. The message where there is
    /// none.
    pub(super) fn of(pod: &'a Value, name: &str, previous: bool) -> Result<Self, String> {
        let find = |places: [&str; 2]| {
            places.iter().flat_map(|place| pod.list(place)).find(|one| one["name"] == name)
        };
        let container = find(["/spec/containers", "/spec/initContainers"])
            .ok_or_else(|| format!("container {name} is not valid for pod {}", pod.name()))?;
        let status = find(["/status/containerStatuses", "/status/initContainerStatuses"]);
        let status = status.unwrap_or(&Value::Null);
        let before = status.at("/lastState/terminated");
        let state = status.at("/state");
        let run = |started: &str, ended: Option<&'a Value>| Self {
            pod,
            container,
            started: started.parse().unwrap_or_default(),
            ended,
        };
        let of_end = |end: &'a Value| run(end.text("/startedAt"), Some(end));
        if previous {
            return before.is_object().then(|| of_end(before)).ok_or_else(|| {
                format!("previous terminated container {name:?} in pod {:?} not found", pod.name())
            });
        }
        if state["running"].is_object() {
            return Ok(run(state.text("/running/startedAt"), None));
        }
        let end = [state.at("/terminated"), before].into_iter().find(|end| end.is_object());
        end.map(of_end).ok_or_else(|| {
            let why = match state.text("/waiting/reason") {
                "" => "ContainerCreating",
                why => why,
            };
            format!("container {name:?} in pod {:?} is waiting to start: {why}", pod.name())
        })
    }

    fn line(&self, text: impl Into<String>) -> Line {
        Line { at: self.started, text: text.into() }
    }

    fn ended_at(&self) -> Timestamp {
        let end = self.ended.map_or("", |end| end.text("/finishedAt"));
        end.parse().unwrap_or(self.started)
    }
}

/// What a run has printed so far.
pub(super) fn of(run: &Run<'_>, below: &Below) -> Vec<Line> {
    if run.container["name"] == CONSOLE {
        let shown = below.console.as_deref().unwrap_or_default();
        return shown.lines().map(|line| run.line(line.trim_end_matches('\r'))).collect();
    }
    if let Some(role) = Role::of(run.pod) {
        return worker(run, role, below);
    }
    if run.pod.label(COMPONENT_LABEL) == "virt-launcher" && run.container["name"] == "compute" {
        return launcher(run, below);
    }
    plain(run)
}

/// Any other container: what it would have run.
fn plain(run: &Run<'_>) -> Vec<Line> {
    let (name, image) = (run.container.text("/name"), run.container.text("/image"));
    let node = run.pod.text("/spec/nodeName");
    let mut lines =
        vec![run.line(format!("lab: container {name} of image {image} runs on {node} (emulated)"))];
    let words = ["/command", "/args"].iter().flat_map(|place| run.container.list(place));
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    if !words.is_empty() {
        lines.push(run.line(format!("lab: it would run: {}", words.join(" "))));
    }
    if let Some(end) = run.ended {
        let code = end.number("/exitCode").unwrap_or_default();
        let said = end.text("/message");
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        let text = format!("lab: ended with exit code {code}{said}");
        lines.push(Line { at: run.ended_at(), text });
    }
    lines
}

/// A line as CDI's programs print it.
fn told(at: Timestamp, level: char, place: &str, text: &str) -> Line {
    let text = format!("{level}{} {place}] {text}", at.strftime("%m%d %H:%M:%S%.6f       1"));
    Line { at, text }
}

/// A worker of CDI.
fn worker(run: &Run<'_>, role: Role, below: &Below) -> Vec<Line> {
    let at = run.started;
    let variable = |name: &str| {
        let all = run.container.list("/env").iter();
        all.filter(|one| one["name"] == name).map(|one| one.text("/value")).next().unwrap_or_default()
    };
    let (place, first, done) = match role {
        Role::Importer => ("importer.go:107", "Starting importer", "Import Complete"),
        Role::Uploader => ("uploadserver.go:81", "Running server on 0.0.0.0:8443", "Upload Complete"),
        Role::Cloner => ("clone-source.go:220", "Starting cloner target", "Clone Complete"),
        Role::Preparer => ("prep.go:1", "Preparing the claim", "Done"),
    };
    let mut lines = vec![told(at, 'I', place, first)];
    if role == Role::Importer {
        let from = format!(
            "begin import process: source {}, endpoint {}",
            variable("IMPORTER_SOURCE"),
            variable("IMPORTER_ENDPOINT")
        );
        lines.push(told(at, 'I', "importer.go:172", &from));
    }
    match (run.ended, below.percent) {
        (None, Some(percent)) => {
            lines.push(told(below.now, 'I', "prometheus.go:75", &format!("{percent:.2}")));
        }
        (None, None) => {}
        (Some(end), _) if end["exitCode"] == 0 => {
            lines.push(told(run.ended_at(), 'I', "prometheus.go:75", "100.00"));
            lines.push(told(run.ended_at(), 'I', place, done));
        }
        (Some(end), _) => lines.push(told(run.ended_at(), 'E', place, end.text("/message"))),
    }
    lines
}

/// The launcher of a machine.
fn launcher(run: &Run<'_>, below: &Below) -> Vec<Line> {
    let said = |at: Timestamp, place: &str, message: &str| {
        let line = json!({
            "component": "virt-launcher", "level": "info", "msg": message, "pos": place,
            "timestamp": format!("{at:.6}"),
        });
        Line { at, text: line.to_string() }
    };
    let mut lines = vec![
        said(run.started, "virt-launcher.go:434", "Connected to libvirt daemon"),
        said(run.started, "virt-launcher.go:85", "Marked as ready to receive commands"),
    ];
    let instance = below.instance.as_deref().unwrap_or(&Value::Null);
    for step in instance.list("/status/phaseTransitionTimestamps") {
        let Ok(at) = step.text("/phaseTransitionTimestamp").parse::<Timestamp>() else { continue };
        let message = match step.text("/phase") {
            "Running" => format!("Domain {}_{} started", instance.namespace(), instance.name()),
            "Succeeded" | "Failed" => "Domain is shut off".to_owned(),
            _ => continue,
        };
        if at >= run.started {
            lines.push(said(at, "manager.go:1219", &message));
        }
    }
    if run.ended.is_some() {
        lines.push(said(run.ended_at(), "virt-launcher.go:510", "Exiting..."));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(state: &Value, last: &Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"nodeName": "h", "containers": [{"name": "c", "image": "i", "args": ["serve"]}]},
            "status": {"containerStatuses": [{"name": "c", "state": state, "lastState": last}]},
        })
    }

    fn texts(pod: &Value, previous: bool) -> Result<Vec<String>, String> {
        let run = Run::of(pod, "c", previous)?;
        Ok(of(&run, &Below::default()).into_iter().map(|line| line.text).collect())
    }

    #[test]
    fn a_container_tells_its_life() {
        let started = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let runs = pod(&started, &Value::Null);
        let said = texts(&runs, false).unwrap();
        assert_eq!(said, ["lab: container c of image i runs on h (emulated)", "lab: it would run: serve"]);
        assert_eq!(
            texts(&runs, true).unwrap_err(),
            "previous terminated container \"c\" in pod \"p\" not found"
        );
        let ended = json!({"terminated": {"exitCode": 3, "message": "no", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:09Z"}});
        let again = pod(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &ended);
        assert_eq!(texts(&again, false).unwrap()[2], "lab: ended with exit code 3: no");
        let waits = pod(&json!({"waiting": {"reason": "ErrImagePull"}}), &json!({}));
        let message = "container \"c\" in pod \"p\" is waiting to start: ErrImagePull";
        assert_eq!(texts(&waits, false).unwrap_err(), message);
    }

    #[test]
    fn a_worker_tells_why_it_failed() {
        let ended = json!({"terminated": {"exitCode": 1, "message": "checksum mismatch",
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:09Z"}});
        let mut pod = pod(&ended, &Value::Null);
        pod.set(
            "/metadata/labels",
            json!({"app": "containerized-data-importer", "cdi.kubevirt.io": "importer"}),
        );
        let said = texts(&pod, false).unwrap();
        assert_eq!(said.last().unwrap(), "E0101 00:00:09.000000       1 importer.go:107] checksum mismatch");
    }

    #[test]
    fn the_console_of_a_guest_has_a_log_of_its_own() {
        let mut pod = pod(&json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), &Value::Null);
        pod["spec"]["containers"][0]["name"] = CONSOLE.into();
        pod["status"]["containerStatuses"][0]["name"] = CONSOLE.into();
        let run = Run::of(&pod, CONSOLE, false).unwrap();
        let below = Below { console: Some("one\r\ntwo login: ".to_owned()), ..Below::default() };
        let said: Vec<String> = of(&run, &below).into_iter().map(|line| line.text).collect();
        assert_eq!(said, ["one", "two login: "]);
    }
}
