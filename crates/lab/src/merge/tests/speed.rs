//! What tracking costs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::compare::compare;
use super::super::field_set::to_field_set;
use super::super::*;
use super::builtin_type;

/// The time this thread spent on a processor: other work on the machine does not count.
fn processor_time() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    std::time::Duration::from_nanos(nanoseconds)
}

/// What tracking costs per write: `cargo test --release -p trellis-lab --lib tracking -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn tracking_costs_little() {
    let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "tier": "front"},
            "annotations": {"example.com/a": "1"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [{"name": "web", "image": "registry.example.com/web:1", "imagePullPolicy": "Always",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30}}},
        "status": {}});
    let types = |api_version: &str| builtin_type(api_version, "Deployment");
    let context = |manager, subresource, reset| Context {
        manager,
        api_version: "apps/v1",
        kind: "Deployment",
        subresource,
        custom: false,
        now: Timestamp::UNIX_EPOCH,
        versions: &types,
        reset,
    };
    let main = context("kubectl", "", Reset::Fields(&[&["status"]]));
    let controller = context("controller", "status", Reset::Fields(&[&["spec"], &["metadata", "labels"]]));
    let mut created = manifest.clone();
    update(&main, None, &mut created);
    let mut ready = created.clone();
    ready["status"] = json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "conditions": [
        {"type": "Available", "status": "True", "reason": "x", "message": "y",
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    update(&controller, Some(&created), &mut ready);
    let mut changed = ready.clone();
    changed["spec"]["replicas"] = 3.into();
    let mut status = ready.clone();
    status["status"]["readyReplicas"] = 1.into();
    println!("{} bytes", ready.to_string().len());
    let measure = |what: &str, context: &Context<'_>, old: Option<&Value>, new: &Value| {
        let copies: Vec<Value> = vec![new.clone(); 2000];
        let start = processor_time();
        let mut kept = Vec::with_capacity(copies.len());
        for mut copy in copies {
            update(context, old, &mut copy);
            kept.push(copy);
        }
        println!("{what}: {:?}", processor_time().saturating_sub(start) / 2000);
    };
    let of = types("apps/v1").unwrap();
    let steps: [(&str, &dyn Fn()); 7] = [
        ("check", &|| drop(check(of, &manifest, false))),
        ("field set", &|| drop(to_field_set(of, &manifest))),
        ("combine", &|| drop(combine(of, &ready, &manifest))),
        ("compare", &|| drop(compare(of, &ready, &changed))),
        ("clone", &|| drop(ready.clone())),
        ("decode", &|| drop(managed::decode(ready["metadata"]["managedFields"].as_array().unwrap()))),
        ("encode", &|| drop(fields::encode(&to_field_set(of, &manifest)))),
    ];
    for (what, step) in steps {
        let start = processor_time();
        (0..2000).for_each(|_| step());
        println!("{what}: {:?}", processor_time().saturating_sub(start) / 2000);
    }
    for _ in 0..3 {
        measure("create", &main, None, &manifest);
        measure("nothing", &main, Some(&ready), &ready);
        measure("replicas", &main, Some(&ready), &changed);
        measure("status", &controller, Some(&ready), &status);
        let start = processor_time();
        for _ in 0..2000 {
            let _ = apply(&main, true, Some(&ready), &manifest);
        }
        println!("apply: {:?}", processor_time().saturating_sub(start) / 2000);
    }
}
