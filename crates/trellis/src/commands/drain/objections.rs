//! Why a Node is not drained without being told to: what would be lost.

use serde_json::Value;

/// What a person said may be lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed {
    /// Pods of DaemonSets may stay.
    pub(super) daemon_sets: bool,
    /// Pods that nothing makes anew may go.
    pub(super) lone: bool,
    /// What is in emptyDir volumes may go.
    pub(super) empty_dirs: bool,
}

/// Everything that speaks against a drain, each with the flag that allows it.
pub(super) fn objections(pods: &[Value], allowed: Allowed) -> Vec<String> {
    let named = |pick: &dyn Fn(&Value) -> bool| -> Option<String> {
        let names: Vec<String> = pods.iter().filter(|pod| pick(pod)).map(call).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut against = Vec::new();
    if let Some(pods) = named(&|pod| !allowed.daemon_sets && is_daemon(pod)) {
        against.push(format!(
            "DaemonSets have pods there, which would stay: {pods}; allow it with --ignore-daemonsets"
        ));
    }
    if let Some(pods) = named(&|pod| !allowed.lone && is_evicted(pod) && controller(pod).is_none()) {
        against.push(format!("nothing would make these pods anew: {pods}; let them go with --force"));
    }
    if let Some(pods) = named(&|pod| !allowed.empty_dirs && is_evicted(pod) && has_empty_dir(pod)) {
        against.push(format!(
            "these pods keep data in emptyDir volumes, which would be lost: {pods}; allow it with --delete-emptydir-data"
        ));
    }
    against
}

/// How people name a pod.
pub(super) fn call(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Whether a drain takes a pod away.
pub(super) fn is_evicted(pod: &Value) -> bool {
    let mirror = pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    !mirror && !ended && !is_daemon(pod)
}

fn controller(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["kind"].as_str()
}

fn is_daemon(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"))
}

fn has_empty_dir(pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array();
    volumes.is_some_and(|volumes| volumes.iter().any(|volume| volume.get("emptyDir").is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, owner: Option<&str>, more: &Value) -> Value {
        let owners: Vec<Value> =
            owner.map(|kind| json!({"kind": kind, "controller": true})).into_iter().collect();
        let mut pod = json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": owners}});
        for (key, value) in more.as_object().unwrap() {
            if key == "annotations" {
                pod["metadata"]["annotations"] = value.clone();
            } else {
                pod[key] = value.clone();
            }
        }
        pod
    }

    #[test]
    fn every_objection_comes_at_once_with_its_flag() {
        let empty_dir = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        let pods = [
            pod("agent", Some("DaemonSet"), &json!({})),
            pod("lone", None, &empty_dir),
            pod("web", Some("ReplicaSet"), &json!({})),
            pod("ended", None, &json!({"status": {"phase": "Succeeded"}})),
            pod("static", None, &json!({"annotations": {"kubernetes.io/config.mirror": "x"}})),
        ];
        let all = objections(&pods, Allowed::default());
        assert_eq!(all.len(), 3, "{all:?}");
        for ((said, pod), flag) in all.iter().zip(["n/agent;", "n/lone;", "n/lone;"]).zip([
            "--ignore-daemonsets",
            "--force",
            "--delete-emptydir-data",
        ]) {
            assert!(said.contains(pod) && said.ends_with(flag), "{said}");
        }
        let everything = Allowed { daemon_sets: true, lone: true, empty_dirs: true };
        assert!(objections(&pods, everything).is_empty());
        let evicted: Vec<String> = pods.iter().filter(|pod| is_evicted(pod)).map(call).collect();
        assert_eq!(evicted, ["n/lone", "n/web"]);
    }
}
