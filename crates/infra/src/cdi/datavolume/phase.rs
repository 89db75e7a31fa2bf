//! The phase of a DataVolume, from what is seen of its claim.

use serde_json::Value;

use crate::cdi::names;
use crate::cdi::source::{Origin, Source};
use crate::object::Object as _;

/// What is seen of a DataVolume.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// The DataVolume.
    pub volume: &'a Value,
    /// Its claim.
    pub claim: &'a Value,
    /// What it is filled from.
    pub source: &'a Source,
    /// Whether a populator does that.
    pub populated: bool,
    /// Whether the claim waits for somebody to use it.
    pub waits: bool,
    /// How far a worker on the claim itself is, in percent.
    pub percent: Option<f64>,
}

/// Where a DataVolume is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Step {
    /// The phase.
    pub phase: String,
    /// The progress, where it is another.
    pub progress: Option<String>,
    /// What is told when the phase changes.
    pub event: Option<Told>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// Whether something is wrong.
    pub warning: bool,
    /// The reason in one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Told {
    fn normal(reason: &'static str, message: String) -> Self {
        Self { warning: false, reason, message }
    }
}

impl Step {
    fn at(phase: &str) -> Self {
        Self { phase: phase.to_owned(), ..Self::default() }
    }

    fn told(phase: &str, event: Option<Told>) -> Self {
        Self { event, ..Self::at(phase) }
    }

    fn done(event: Option<Told>) -> Self {
        Self { progress: Some("100.0%".to_owned()), ..Self::told("Succeeded", event) }
    }
}

/// Where a DataVolume is now.
pub(super) fn step(view: &View<'_>) -> Step {
    let claim = view.claim;
    let now = view.volume.text("/status/phase");
    let bound = claim.text("/status/phase") == "Bound";
    if now == "Succeeded" || (bound && claim.annotation(names::POPULATED_FOR) == view.volume.name()) {
        return Step::done(None);
    }
    if claim.text("/status/phase") == "Lost" {
        return Step::told("Failed", None);
    }
    if !claim.annotation(names::FATAL_ERROR).is_empty() {
        return failed(view);
    }
    if !bound {
        if view.waits {
            return Step::at(if view.populated { "PendingPopulation" } else { "WaitForFirstConsumer" });
        }
        if !view.populated {
            return Step::at("Pending");
        }
    } else if !view.populated && matches!(now, "" | "Pending" | "WaitForFirstConsumer") {
        return Step::at("PVCBound");
    }
    let step = match view.source {
        Source::Import(_) => import(view),
        Source::Upload => upload(view),
        Source::Clone(origin) => clone(view, origin),
        Source::Outside if bound => Step::done(None),
        Source::Outside => Step::at("Pending"),
    };
    // Without its volume nobody can use it, however complete the content is.
    if step.phase == "Succeeded" && !bound { Step::at(now) } else { step }
}

fn failed(view: &View<'_>) -> Step {
    let message = format!("Failed to import into PVC {}", view.claim.name());
    Step::told("Failed", Some(Told { warning: true, reason: "ImportFailed", message }))
}

/// The progress as the claim or its worker tells it.
fn progress(view: &View<'_>) -> Option<String> {
    let told = view.claim.annotation(names::PROGRESS);
    if view.populated {
        return (!told.is_empty()).then(|| told.to_owned());
    }
    view.percent.filter(|percent| *percent < 100.0).map(|percent| format!("{percent:.2}%"))
}

fn import(view: &View<'_>) -> Step {
    let name = view.claim.name();
    let scheduled = || Some(Told::normal("ImportScheduled", format!("Import into {name} scheduled")));
    match view.claim.annotation(names::POD_PHASE) {
        "" if !view.populated && view.claim.annotation(names::IMPORT_POD).is_empty() => {
            Step::at(view.volume.text("/status/phase"))
        }
        "" if view.populated && view.volume.text("/status/phase").is_empty() => Step::at("Pending"),
        "Running" => Step {
            progress: progress(view),
            ..Step::told(
                "ImportInProgress",
                Some(Told::normal("ImportInProgress", format!("Import into {name} in progress"))),
            )
        },
        "Failed" => Step::told(
            view.volume.text("/status/phase"),
            Some(Told {
                warning: true,
                reason: "ImportFailed",
                message: format!("Failed to import into PVC {name}"),
            }),
        ),
        "Succeeded" => Step::done(Some(Told::normal(
            "ImportSucceeded",
            format!("Successfully imported into PVC {name}"),
        ))),
        _ => Step { progress: progress(view), ..Step::told("ImportScheduled", scheduled()) },
    }
}

fn upload(view: &View<'_>) -> Step {
    let name = view.claim.name();
    let ready = view.claim.annotation(names::POD_READY) == "true";
    match view.claim.annotation(names::POD_PHASE) {
        "Succeeded" => {
            Step::done(Some(Told::normal("UploadSucceeded", format!("Successfully uploaded into {name}"))))
        }
        "Running" if ready => {
            Step::told("UploadReady", Some(Told::normal("UploadReady", format!("Upload into {name} ready"))))
        }
        "Failed" => Step::told(
            view.volume.text("/status/phase"),
            Some(Told {
                warning: true,
                reason: "UploadFailed",
                message: format!("Upload into {name} failed"),
            }),
        ),
        _ => Step::told(
            "UploadScheduled",
            Some(Told::normal("UploadScheduled", format!("Upload into {name} scheduled"))),
        ),
    }
}

fn clone(view: &View<'_>, origin: &Origin) -> Step {
    let phase = if view.populated {
        match view.claim.annotation(names::CLONE_PHASE) {
            "" | "Pending" => "CloneScheduled",
            "Error" => match view.volume.text("/status/phase") {
                "" => "CloneScheduled",
                now => now,
            },
            "Succeeded" => "Succeeded",
            "HostClone" => "CloneInProgress",
            "CSIClone" => "CSICloneInProgress",
            "Snapshot" => "SnapshotForSmartCloneInProgress",
            "SnapshotClone" => "CloneFromSnapshotSourceInProgress",
            "PrepClaim" => "PrepClaimInProgress",
            "Rebind" => "RebindInProgress",
            _ => view.volume.text("/status/phase"),
        }
    } else {
        match view.claim.annotation(names::POD_PHASE) {
            "Running" => "CloneInProgress",
            "Succeeded" => "Succeeded",
            _ => "CloneScheduled",
        }
    };
    let event = told_of_clone(phase, origin, view.volume);
    if phase == "Succeeded" {
        return Step::done(event);
    }
    Step { progress: progress(view), ..Step::told(phase, event) }
}

/// What is told when a clone comes into a phase.
pub(super) fn told_of_clone(phase: &str, origin: &Origin, volume: &Value) -> Option<Told> {
    let from = &origin.key;
    let to = format!("{}/{}", volume.namespace(), volume.name());
    let (reason, message) = match phase {
        "CloneScheduled" => ("CloneScheduled", format!("Cloning from {from} into {to} scheduled")),
        "CloneInProgress" => ("CloneInProgress", format!("Cloning from {from} into {to} in progress")),
        "SnapshotForSmartCloneInProgress" => (
            "SnapshotForSmartCloneInProgress",
            format!("Creating snapshot for smart-clone is in progress (for pvc {from})"),
        ),
        "CloneFromSnapshotSourceInProgress" => (
            "CloneFromSnapshotSourceInProgress",
            format!("Creating PVC from snapshot source is in progress (for {} {from})", origin.word()),
        ),
        "CSICloneInProgress" => {
            ("CSICloneInProgress", format!("CSI Volume clone in progress (for pvc {from})"))
        }
        "PrepClaimInProgress" => {
            ("PrepClaimInProgress", format!("Prepping PersistentVolumeClaim for DataVolume {to}"))
        }
        "RebindInProgress" => {
            ("RebindInProgress", format!("Rebinding PersistentVolumeClaim for DataVolume {to}"))
        }
        "Succeeded" => ("CloneSucceeded", format!("Successfully cloned from {from} into {to}")),
        _ => return None,
    };
    Some(Told::normal(reason, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(phase: &str, annotations: &Value) -> Value {
        json!({"metadata": {"name": "d", "annotations": annotations}, "status": {"phase": phase}})
    }

    fn at(now: &str, claim: &Value, source: &Source, populated: bool, waits: bool) -> Step {
        let volume = json!({"metadata": {"namespace": "n", "name": "d"}, "status": {"phase": now}});
        step(&View { volume: &volume, claim, source, populated, waits, percent: Some(12.345) })
    }

    #[test]
    fn an_import_by_a_populator() {
        let source = Source::Import("http");
        let phase = |now: &str, claim: &Value, waits: bool| at(now, claim, &source, true, waits).phase;
        let pending = claim("Pending", &json!({}));
        assert_eq!(phase("", &pending, true), "PendingPopulation");
        assert_eq!(phase("", &pending, false), "Pending");
        assert_eq!(phase("Pending", &pending, false), "ImportScheduled");
        let running = claim("Pending", &json!({names::POD_PHASE: "Running", names::PROGRESS: "7.00%"}));
        let step = at("ImportScheduled", &running, &source, true, false);
        assert_eq!((step.phase.as_str(), step.progress.as_deref()), ("ImportInProgress", Some("7.00%")));
        let done = json!({names::POD_PHASE: "Succeeded"});
        assert_eq!(phase("ImportInProgress", &claim("Pending", &done), false), "ImportInProgress");
        assert_eq!(phase("ImportInProgress", &claim("Bound", &done), false), "Succeeded");
    }

    #[test]
    fn an_import_on_the_claim_itself() {
        let source = Source::Import("blank");
        let phase = |now: &str, claim: &Value, waits: bool| at(now, claim, &source, false, waits);
        assert_eq!(phase("", &claim("Pending", &json!({})), true).phase, "WaitForFirstConsumer");
        assert_eq!(phase("Pending", &claim("Bound", &json!({})), false).phase, "PVCBound");
        assert_eq!(phase("PVCBound", &claim("Bound", &json!({})), false).phase, "PVCBound");
        let pod = claim("Bound", &json!({names::IMPORT_POD: "p", names::POD_PHASE: "Pending"}));
        assert_eq!(phase("PVCBound", &pod, false).phase, "ImportScheduled");
        let running = claim("Bound", &json!({names::IMPORT_POD: "p", names::POD_PHASE: "Running"}));
        assert_eq!(phase("ImportScheduled", &running, false).progress.as_deref(), Some("12.35%"));
    }

    #[test]
    fn only_what_is_beyond_repair_fails() {
        let source = Source::Import("http");
        let lost = claim("Lost", &json!({}));
        assert_eq!(at("ImportInProgress", &lost, &source, true, false).phase, "Failed");
        let fatal = claim("Pending", &json!({names::FATAL_ERROR: "checksum mismatch"}));
        assert_eq!(at("ImportInProgress", &fatal, &source, true, false).phase, "Failed");
        let again = claim("Pending", &json!({names::POD_PHASE: "Failed"}));
        assert_eq!(at("ImportInProgress", &again, &source, true, false).phase, "ImportInProgress");
    }

    #[test]
    fn a_clone_tells_its_steps() {
        let origin = Origin { snapshot: false, key: crate::object::Key::new("s", "a") };
        let source = Source::Clone(origin);
        let at = |phase: &str| {
            at("", &claim("Pending", &json!({names::CLONE_PHASE: phase})), &source, true, false)
        };
        assert_eq!(at("Pending").event.unwrap().message, "Cloning from s/a into n/d scheduled");
        assert_eq!(at("Snapshot").phase, "SnapshotForSmartCloneInProgress");
        assert_eq!(at("Error").phase, "CloneScheduled");
    }
}
