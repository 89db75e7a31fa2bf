//! What the API says of itself, to everybody.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{not_allowed, told};
use crate::kubevirt::names::VERSION;
use crate::service::{Body, plain};

/// The group.
pub(super) const GROUP: &str = "subresources.kubevirt.io";
/// Its versions.
const VERSIONS: &[&str] = &["v1", "v1alpha3"];

/// What can be done to machines.
const MACHINES: &[&str] = &[
    "start",
    "stop",
    "restart",
    "migrate",
    "expand-spec",
    "addvolume",
    "removevolume",
    "memorydump",
    "removememorydump",
    "portforward",
    "objectgraph",
    "evacuate/cancel",
];
/// What can be done to instances.
const INSTANCES: &[&str] = &[
    "vnc",
    "vnc/screenshot",
    "console",
    "usbredir",
    "vsock",
    "portforward",
    "pause",
    "unpause",
    "freeze",
    "unfreeze",
    "softreboot",
    "reset",
    "guestosinfo",
    "userlist",
    "filesystemlist",
    "addvolume",
    "removevolume",
    "objectgraph",
    "evacuate/cancel",
    "sev/fetchcertchain",
    "sev/querylaunchmeasurement",
    "sev/setupsession",
    "sev/injectlaunchsecret",
];

/// The version of the API in a path.
pub(super) fn version_of(path: &str) -> Option<&'static str> {
    let version = path.strip_prefix("/apis/")?.strip_prefix(GROUP)?.strip_prefix('/').unwrap_or_default();
    let version = version.split('/').next().unwrap_or_default();
    if version.is_empty() {
        return VERSIONS.first().copied();
    }
    VERSIONS.iter().find(|known| **known == version).copied()
}

/// What everybody is told without being asked who they are.
pub(super) fn open(version: &str, path: &str, method: &Method) -> Option<Response<Body>> {
    let rest = path.strip_prefix("/apis/")?.strip_prefix(GROUP)?.trim_end_matches('/');
    let what = rest.trim_start_matches('/').trim_start_matches(version).trim_start_matches('/');
    let told = match what {
        "" if rest.is_empty() => told(&group()),
        "" => told(&resources(version)),
        "version" => told(&version_info()),
        "guestfs" => told(&json!({
            "registry": "quay.io/kubevirt", "tag": VERSION, "digest": "", "imagePrefix": "", "gsImage": "",
        })),
        "healthz" => told(&json!({"apiserver": {"connectivity": "ok"}})),
        "start-cluster-profiler" | "stop-cluster-profiler" | "dump-cluster-profiler" => plain(
            StatusCode::FORBIDDEN,
            "Unable to proceed. \"ClusterProfiler\" feature gate must be enabled",
        ),
        _ => return None,
    };
    Some(if *method == Method::GET { told } else { not_allowed() })
}

fn group() -> Value {
    let versions: Vec<Value> = VERSIONS
        .iter()
        .map(|version| json!({"groupVersion": format!("{GROUP}/{version}"), "version": version}))
        .collect();
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": GROUP,
        "preferredVersion": versions[0], "versions": versions,
    })
}

/// The list discovery reads. The real one names neither kinds nor verbs.
fn resources(version: &str) -> Value {
    let one = |name: String| json!({"name": name, "singularName": "", "namespaced": true, "kind": "", "verbs": null});
    let mut resources: Vec<Value> =
        MACHINES.iter().map(|action| one(format!("virtualmachines/{action}"))).collect();
    resources.extend(INSTANCES.iter().map(|action| one(format!("virtualmachineinstances/{action}"))));
    resources.push(one("expand-vm-spec".to_owned()));
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{version}"),
        "resources": resources,
    })
}

fn version_info() -> Value {
    json!({
        "gitVersion": VERSION, "gitCommit": "trellis-lab", "gitTreeState": "clean",
        "buildDate": "2026-08-01T00:00:00Z", "goVersion": "lab", "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_may_look_around() {
        let base = "/apis/subresources.kubevirt.io";
        assert_eq!(version_of(&format!("{base}/v1alpha3/version")), Some("v1alpha3"));
        assert_eq!(version_of(&format!("{base}/v2")), None);
        for path in ["", "/v1", "/v1/", "/v1/version", "/v1/guestfs", "/v1/healthz"] {
            let answer = open("v1", &format!("{base}{path}"), &Method::GET);
            assert_eq!(answer.map(|answer| answer.status()), Some(StatusCode::OK), "{path}");
        }
        assert!(
            open("v1", &format!("{base}/v1/namespaces/a/virtualmachines/m/start"), &Method::PUT).is_none()
        );
    }

    #[test]
    fn the_list_names_every_action_once() {
        let list = resources("v1");
        let names: std::collections::BTreeSet<_> =
            list["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), MACHINES.len() + INSTANCES.len() + 1);
        assert!(names.contains("virtualmachineinstances/vnc/screenshot"));
    }
}
