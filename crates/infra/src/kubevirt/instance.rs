//! What all parts need to know of a `VirtualMachineInstance`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::names::PROVISIONING_ANNOTATION;
use crate::client::Cache;
use crate::object::Object as _;

/// The phase of an instance.
pub fn phase(vmi: &Value) -> &str {
    vmi.text("/status/phase")
}

/// Whether an instance has ended.
pub fn is_final(vmi: &Value) -> bool {
    vmi.is_over()
}

/// Whether nothing was done for an instance yet.
pub fn is_unprocessed(vmi: &Value) -> bool {
    matches!(phase(vmi), "" | "Pending")
}

/// Whether an instance ever ran.
pub fn has_run(vmi: &Value) -> bool {
    phase(vmi) == "Running"
        || vmi.list("/status/phaseTransitionTimestamps").iter().any(|one| one["phase"] == "Running")
}

/// Whether an instance is on its way to another host.
pub fn is_migrating(vmi: &Value) -> bool {
    vmi.at("/status/migrationState").is_object() && !vmi.flag("/status/migrationState/completed")
}

/// Sets the phase, and remembers when.
pub fn set_phase(vmi: &mut Value, new: &str, now: &str) {
    if phase(vmi) == new && !vmi.list("/status/phaseTransitionTimestamps").is_empty() {
        return;
    }
    vmi.set("/status/phase", new.into());
    let entry = json!({"phase": new, "phaseTransitionTimestamp": now});
    match vmi.pointer_mut("/status/phaseTransitionTimestamps").and_then(Value::as_array_mut) {
        Some(list) => {
            list.retain(|one| one["phase"] != new);
            list.push(entry);
        }
        None => vmi.set("/status/phaseTransitionTimestamps", json!([entry])),
    }
}

/// The claim behind a volume; nothing for volumes without one. A data volume and its claim have one name.
pub fn claim_of(volume: &Value) -> Option<&str> {
    let places = [
        "/persistentVolumeClaim/claimName",
        "/dataVolume/name",
        "/ephemeral/persistentVolumeClaim/claimName",
        "/memoryDump/claimName",
    ];
    places.iter().find_map(|place| volume.pointer(place)).and_then(Value::as_str)
}

/// Whether a volume may come and go while the machine runs.
pub fn is_hotpluggable(volume: &Value) -> bool {
    volume.flag("/persistentVolumeClaim/hotpluggable") || volume.flag("/dataVolume/hotpluggable")
}

/// Whether a volume is none of those the machine starts with: it is plugged in later, or takes its memory.
pub fn is_hotplugged(volume: &Value) -> bool {
    is_hotpluggable(volume) || volume.get("memoryDump").is_some()
}

/// The claims a specification (of an instance, or of a template) uses, each once and in order.
pub fn claims(spec: &Value) -> Vec<&str> {
    let mut claims: Vec<&str> = spec.list("/volumes").iter().filter_map(claim_of).collect();
    claims.extend(spec.list("/utilityVolumes").iter().filter_map(|one| one["claimName"].as_str()));
    claims.sort_unstable();
    claims.dedup();
    claims
}

/// Whether a pod only binds volumes.
pub fn is_provisioning(pod: &Value) -> bool {
    pod.annotation(PROVISIONING_ANNOTATION) == "true"
}

/// Whether a pod has ended.
pub fn is_down(pod: &Value) -> bool {
    pod.is_over()
}

/// The pods of an instance that run it or bind its volumes.
pub fn pods(cache: &Cache, vmi: &Value) -> Vec<Arc<Value>> {
    cache.controlled_by(vmi.uid())
}

/// Of the pods of an instance the one that runs it: of those on its host, where it has one, the newest.
pub fn current_pod(pods: &[Arc<Value>], vmi: &Value) -> Option<Arc<Value>> {
    let node = vmi.text("/status/nodeName");
    let here = |pod: &&Arc<Value>| node.is_empty() || pod.text("/spec/nodeName") == node;
    // Until an instance has a host, the pods of its migrations cannot be there.
    let candidates = pods.iter().filter(|pod| !is_provisioning(pod)).filter(here);
    candidates.max_by_key(|pod| (pod.text("/metadata/creationTimestamp"), pod.version())).cloned()
}

/// Of the pods of an instance the newest that only binds volumes.
pub fn current_provisioner(pods: &[Arc<Value>]) -> Option<Arc<Value>> {
    let binders = pods.iter().filter(|pod| is_provisioning(pod));
    binders.max_by_key(|pod| (pod.text("/metadata/creationTimestamp"), pod.version())).cloned()
}

/// The number of virtual processors.
pub fn processors(spec: &Value) -> i64 {
    let one = |name: &str| spec.number(&format!("/domain/cpu/{name}")).unwrap_or(1).max(1);
    let (cores, sockets, threads) = (one("cores"), one("sockets"), one("threads"));
    if spec.at("/domain/cpu").is_null() {
        let asked = ["/domain/resources/limits/cpu", "/domain/resources/requests/cpu"];
        let asked =
            asked.iter().map(|place| crate::quantity::whole(spec.at(place))).max().unwrap_or_default();
        return i64::try_from(asked).unwrap_or(1).max(1);
    }
    cores.saturating_mul(sockets).saturating_mul(threads)
}

/// The memory of the guest, in bytes.
pub fn guest_memory(spec: &Value) -> i128 {
    let places =
        ["/domain/memory/guest", "/domain/resources/requests/memory", "/domain/resources/limits/memory"];
    places.iter().map(|place| crate::quantity::whole(spec.at(place))).find(|amount| *amount > 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_is_remembered_with_its_time() {
        let mut vmi = json!({});
        set_phase(&mut vmi, "Pending", "1");
        set_phase(&mut vmi, "Pending", "2");
        set_phase(&mut vmi, "Running", "3");
        assert_eq!(
            vmi.at("/status/phaseTransitionTimestamps"),
            &json!([
                {"phase": "Pending", "phaseTransitionTimestamp": "1"},
                {"phase": "Running", "phaseTransitionTimestamp": "3"},
            ])
        );
        assert!(has_run(&vmi) && !is_final(&vmi));
    }

    #[test]
    fn the_pod_of_an_instance_is_on_its_host() {
        let pod = |name: &str, node: &str, made: &str| {
            Arc::new(json!({
                "metadata": {"name": name, "creationTimestamp": made}, "spec": {"nodeName": node},
            }))
        };
        let pods = [pod("source", "a", "1"), pod("target", "b", "2")];
        let vmi = json!({"status": {"nodeName": "a"}});
        assert_eq!(current_pod(&pods, &vmi).unwrap().name(), "source");
        assert_eq!(current_pod(&pods, &json!({})).unwrap().name(), "target");
        assert!(current_pod(&pods, &json!({"status": {"nodeName": "c"}})).is_none());
    }

    #[test]
    fn claims_are_found_in_all_places() {
        let spec = json!({"volumes": [
            {"name": "a", "dataVolume": {"name": "one"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "two", "hotpluggable": true}},
            {"name": "c", "containerDisk": {"image": "i"}},
        ]});
        assert_eq!(claims(&spec), ["one", "two"]);
        assert!(is_hotplugged(&spec["volumes"][1]) && !is_hotplugged(&spec["volumes"][0]));
    }
}
