//! Volumes that come and go while a machine runs.
//!
//! Three hands take part, each a client of its own: the controller of machines passes what a template says on to the
//! running instance; virt-controller makes pods that hold the volumes on the instance's host; virt-handler mounts what such a
//! pod holds and plugs it into the machine. What they tell each other is in the instance's `status.volumeStatus`.

mod attach;
mod dump;
mod mount;
mod pods;
mod sync;

use serde_json::{Value, json};

pub use sync::sync_spec;

use super::instance::{self, is_hotpluggable};
use crate::context::{Context, Tasks};
use crate::object::Object as _;

/// Starts the controllers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(attach::Attach::new(context));
    tasks.control(mount::Mount::new(context));
    tasks.control(dump::Dump::new(context));
}

/// The instance a pod holds volumes for; empty for other pods.
pub fn held_for(pod: &Value) -> &str {
    pod.annotation(pods::OWNER_NAME)
}

/// Whether a pod holds volumes and has them all.
pub fn is_holding(pod: &Value) -> bool {
    pods::is_attachment(pod) && pods::is_ready(pod)
}

/// A pod that holds, beside another launcher, what an instance has plugged in; nothing where it has nothing.
/// `is_block` says which claims are block devices.
pub fn holder_beside(vmi: &Value, launcher: &Value, is_block: impl Fn(&str) -> bool) -> Option<Value> {
    let plugged: Vec<(&Value, bool)> = wanted(vmi)
        .filter(|volume| {
            matches!(status_of(vmi, volume.text("/name")).text("/phase"), "MountedToPod" | "Ready")
        })
        .map(|volume| (volume, is_block(claim_of(volume))))
        .collect();
    (!plugged.is_empty()).then(|| pods::attachment(vmi, launcher, &plugged))
}

/// The claim behind a volume; empty for volumes without one.
fn claim_of(volume: &Value) -> &str {
    instance::claim_of(volume).unwrap_or_default()
}

/// The volumes of an instance that may come and go.
fn wanted(vmi: &Value) -> impl Iterator<Item = &Value> {
    vmi.list("/spec/volumes").iter().filter(|volume| is_hotpluggable(volume))
}

/// What an instance's status says of a volume, or null.
fn status_of<'v>(vmi: &'v Value, name: &str) -> &'v Value {
    vmi.list("/status/volumeStatus").iter().find(|status| status["name"] == name).unwrap_or(&Value::Null)
}

/// What an instance's status says of the volumes that came while it ran, or are on their way.
fn statuses(vmi: &Value) -> impl Iterator<Item = &Value> {
    vmi.list("/status/volumeStatus").iter().filter(|status| status["hotplugVolume"].is_object())
}

/// Sets a phase with why.
fn set_phase(status: &mut Value, phase: &str, reason: &str, message: &str) {
    status["phase"] = phase.into();
    status["reason"] = reason.into();
    status["message"] = message.into();
}

/// The instance with these statuses of its volumes in place of those of the same names, by name; `gone` are taken out.
fn with_statuses(vmi: &Value, new: Vec<Value>, gone: &[String]) -> Value {
    let mut all: Vec<Value> = vmi
        .list("/status/volumeStatus")
        .iter()
        .filter(|old| {
            !gone.iter().any(|name| old["name"] == *name) && !new.iter().any(|one| one["name"] == old["name"])
        })
        .cloned()
        .collect();
    all.extend(new);
    all.sort_by(|one, other| one.text("/name").cmp(other.text("/name")));
    let mut vmi = vmi.clone();
    if all.is_empty() && vmi.at("/status/volumeStatus").is_null() {
        return vmi;
    }
    vmi.set("/status/volumeStatus", json!(all));
    vmi
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plugged_in_is_held_elsewhere() {
        let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": true}});
        let vmi = json!({
            "spec": {"volumes": [volume("a"), volume("b")]},
            "status": {"volumeStatus": [{"name": "a", "phase": "Ready"}, {"name": "b", "phase": "Pending"}]},
        });
        let pod = holder_beside(&vmi, &json!({"metadata": {"uid": "t"}}), |_| true).unwrap();
        assert_eq!(pods::held(&pod).into_iter().collect::<Vec<_>>(), ["a"]);
        assert!(pod.is_controlled_by("t"));
        assert!(holder_beside(&json!({}), &json!({}), |_| true).is_none());
    }

    #[test]
    fn statuses_are_replaced_by_name_and_kept_in_order() {
        let vmi = json!({"status": {"volumeStatus": [{"name": "c"}, {"name": "b", "phase": "Bound"}]}});
        let new = vec![json!({"name": "b", "phase": "Ready"}), json!({"name": "a"})];
        let after = with_statuses(&vmi, new, &["c".to_owned()]);
        assert_eq!(after["status"]["volumeStatus"], json!([{"name": "a"}, {"name": "b", "phase": "Ready"}]));
        assert_eq!(with_statuses(&json!({}), Vec::new(), &[]), json!({}));
    }
}
