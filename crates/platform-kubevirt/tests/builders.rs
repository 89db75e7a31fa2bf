//! Estates for tests, written as the manifests people write.

use serde_json::{Value, json};
use trellis_model::cluster::ClusterSpec;
use trellis_model::names::{ClusterName, PoolName};
use trellis_model::pool::PoolSpec;
use trellis_model::{Cluster, Estate, Pool};
use trellis_platform_kubevirt::render;

use crate::admission;

/// Puts `patch` over `base`, object by object; a null removes.
pub(crate) fn merged(mut base: Value, patch: Value) -> Value {
    match (&mut base, patch) {
        (Value::Object(base_map), Value::Object(patch_map)) => {
            for (key, value) in patch_map {
                if value.is_null() {
                    base_map.remove(&key);
                } else {
                    let old = base_map.remove(&key).unwrap_or(Value::Null);
                    base_map.insert(key, merged(old, value));
                }
            }
            base
        }
        (_, patch) => patch,
    }
}

/// A cluster on KubeVirt with these settings beside.
pub(crate) fn cluster(name: &str, patch: Value) -> Cluster {
    let spec: ClusterSpec =
        serde_json::from_value(merged(json!({ "platform": { "kubevirt": {} } }), patch)).unwrap();
    Cluster { name: ClusterName::new(name).unwrap(), namespace: None, spec }
}

/// A pool of one small Ubuntu worker with these settings beside.
pub(crate) fn pool(cluster: &str, name: &str, patch: Value) -> Pool {
    let base = json!({
        "cluster": cluster,
        "template": {
            "shape": { "custom": { "cpu": { "topology": { "sockets": 2 } }, "memory": { "guest": "4Gi" } } },
            "image": { "os": "ubuntu", "source": { "http": { "url": "https://images.example/noble.img" } } },
            "rootDisk": { "size": "20Gi" },
        },
    });
    let mut spec = merged(base, patch.clone());
    // Choices are objects of one key: the patch's choice replaces the base's.
    for choice in ["/template/shape", "/template/image/source"] {
        if let (Some(chosen), Some(slot)) = (patch.pointer(choice), spec.pointer_mut(choice)) {
            *slot = chosen.clone();
        }
    }
    let spec: PoolSpec = serde_json::from_value(spec).unwrap();
    Pool { name: PoolName::new(name).unwrap(), namespace: None, spec }
}

/// A pool whose template has these settings beside.
pub(crate) fn templated(patch: Value) -> Pool {
    pool("demo", "workers", json!({ "template": patch }))
}

/// One cluster named `demo` with these pools.
pub(crate) fn demo(pools: Vec<Pool>) -> Estate {
    Estate { clusters: vec![cluster("demo", json!({}))], pools }
}

/// The objects of an estate, which must be without errors and which admission must accept.
pub(crate) fn rendered(estate: &Estate) -> Vec<Value> {
    let rendered = render(estate);
    let errors = errors(&rendered.problems);
    assert!(errors.is_empty(), "{errors:#?}");
    let objects: Vec<Value> =
        rendered.objects.iter().map(trellis_platform_kubevirt::Object::to_json).collect();
    let refused = admission::refusals(&objects);
    assert!(refused.is_empty(), "{refused:#?}");
    objects
}

/// The errors among problems, as text.
pub(crate) fn errors(problems: &[trellis_model::Problem]) -> Vec<String> {
    let errors = problems.iter().filter(|problem| problem.severity == trellis_model::Severity::Error);
    errors.map(ToString::to_string).collect()
}

/// The objects of one kind.
pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The spec of what the first virtual machine starts.
pub(crate) fn instance(objects: &[Value]) -> &Value {
    &of_kind(objects, "VirtualMachine")[0]["spec"]["template"]["spec"]
}

/// The first virtual machine of a pool with this template.
pub(crate) fn instance_of(patch: Value) -> Value {
    instance(&rendered(&demo(vec![templated(patch)]))).clone()
}

/// The objects of a cluster named `demo` with these settings and pools.
pub(crate) fn with_cluster(settings: Value, pools: Vec<Pool>) -> Vec<Value> {
    rendered(&Estate { clusters: vec![cluster("demo", settings)], pools })
}

/// A pool of that many masters.
pub(crate) fn control_plane(replicas: u32) -> Pool {
    pool("demo", "masters", json!({ "role": "control-plane", "replicas": replicas }))
}

/// The configuration of a VLAN.
pub(crate) const TENANT_CONFIG: &str =
    r#"{"cniVersion":"0.4.0","type":"bridge","bridge":"br100","vlan":100}"#;

/// Settings of a cluster whose machines are on a VLAN beside the pod network.
pub(crate) fn vlan_cluster() -> Value {
    json!({ "network": { "machineNetworks": [{ "name": "vlan", "source": { "tenant": { "config": TENANT_CONFIG } } }] } })
}

/// Compares with `tests/golden/<name>.snap`.
pub(crate) fn golden(name: &str, value: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, serde_json::to_string_pretty(value).unwrap()));
}
