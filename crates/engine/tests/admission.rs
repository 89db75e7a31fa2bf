//! What may be written, what is filled in, and what may not change, on objects of all families.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the test"
)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trellis_engine::admission::{Why, causes, defaults, review};
use trellis_engine::families::{Family, KKP, OPENSHIFT, Object, Readings, TRELLIS};

/// A cluster, a pool of each family, and what is made of them.
fn pool() -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "MachinePool",
        "metadata": {"name": "workers", "namespace": "machines"},
        "spec": {"cluster": "blue", "template": {
            "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
            "image": {"os": "ubuntu", "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}}},
            "rootDisk": {"size": "10Gi"},
            "userData": {"secret": "join"},
        }},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineDeployment",
        "metadata": {"name": "workers", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"pool": "workers"}},
            "template": {"metadata": {"labels": {"pool": "workers"}}, "spec": {
                "versions": {"kubelet": "1.34.2"},
                "providerSpec": {"value": {
                    "cloudProvider": "kubevirt", "operatingSystem": "ubuntu", "operatingSystemSpec": {},
                    "cloudProviderSpec": {
                        "clusterName": "blue",
                        "auth": {"kubeconfig": {"secretKeyRef": {"namespace": "infra", "name": "access", "key": "kubeconfig"}}},
                        "virtualMachine": {"template": {"cpus": "1", "memory": "1Gi", "primaryDisk": {
                            "osImage": "docker://registry.example/u:1", "size": "10Gi", "storageClassName": "fast",
                        }}},
                    },
                }},
            }},
        },
    })
}

fn set() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": "openshift-machine-api"},
        "spec": {
            "selector": {"matchLabels": {"set": "workers"}},
            "template": {"metadata": {"labels": {"set": "workers"}}, "spec": {"providerSpec": {"value": {
                "apiVersion": "kubevirtproviderconfig.openshift.io/v1alpha1", "kind": "KubevirtMachineProviderSpec",
                "sourcePvcName": "rhcos", "ignitionSecretName": "worker-user-data", "requestedCPU": 1,
                "requestedMemory": "1Gi", "requestedStorage": "12Gi", "storageClassName": "fast",
            }}}},
        },
    })
}

fn machine() -> Value {
    let mut machine = deployment();
    let template = machine["spec"]["template"].take();
    machine["kind"] = "Machine".into();
    machine["metadata"]["labels"] = template["metadata"]["labels"].clone();
    machine["spec"] = template["spec"].clone();
    machine
}

fn health_check() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": {"name": "check"},
        "spec": {
            "selector": {"matchLabels": {"set": "workers"}},
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "300s"}],
        },
    })
}

fn cluster() -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TenantCluster", "metadata": {"name": "blue", "namespace": "machines"},
        "spec": {"platform": {"kubevirt": {"namespace": "blue"}}, "version": "1.34.2", "baseDomain": "example.com"},
    })
}

fn good() -> [Value; 6] {
    [pool(), deployment(), set(), machine(), health_check(), cluster()]
}

fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"))[key] = value;
    object
}

fn fields(object: &Value, old: Option<&Value>) -> Vec<String> {
    causes(object, old).into_iter().map(|cause| cause.field).collect()
}

#[test]
fn good_objects_pass_and_stay_as_they_are() {
    for object in good() {
        assert_eq!(causes(&object, None), [], "{object}");
        assert_eq!(causes(&object, Some(&object)), [], "{object}");
    }
}

#[test]
fn every_problem_is_told_at_its_field() {
    let at = "/spec/template/spec/providerSpec/value/cloudProviderSpec/virtualMachine/template";
    let bad = with(deployment(), &format!("{at}/cpus"), "many".into());
    let bad = with(bad, "/spec/template/spec/versions/kubelet", "new".into());
    let found = fields(&bad, None);
    let place = "spec.template.spec.providerSpec.value.cloudProviderSpec.virtualMachine.template.cpus";
    assert!(found.contains(&place.to_owned()), "{found:?}");
    assert!(found.contains(&"spec.template.spec.versions.kubelet".to_owned()), "{found:?}");
    let bad = with(pool(), "/spec/template/rootDisk/size", "-1".into());
    assert_eq!(fields(&bad, None), ["spec.template.rootDisk.size"]);
    let bad = with(machine(), "/spec/versions/kubelet", "new".into());
    assert_eq!(fields(&bad, None), ["spec.versions.kubelet"]);
    let bad = with(set(), "/spec/template/spec/providerSpec/value/requestedMemory", "lots".into());
    assert_eq!(fields(&bad, None), ["spec.template.spec.providerSpec.value.requestedMemory"]);
    let bad = with(health_check(), "/spec/maxUnhealthy", "half".into());
    let bad = with(bad, "/spec/unhealthyConditions/0/timeout", "soon".into());
    assert_eq!(fields(&bad, None), ["spec.maxUnhealthy", "spec.unhealthyConditions[0].timeout"]);
    let bad = with(cluster(), "/spec/version", "one".into());
    assert_eq!(fields(&bad, None), ["spec.version"]);
    let annotated = with(pool(), "/metadata/annotations", json!({"trellis.dev/unhealthy-after": "soon"}));
    assert_eq!(fields(&annotated, None), ["metadata.annotations[\"trellis.dev/unhealthy-after\"]"]);
}

#[test]
fn what_may_not_change_does_not() {
    let refused = |old: &Value, path: &str, value: Value, field: &str| {
        let found = causes(&with(old.clone(), path, value), Some(old));
        assert!(
            found.iter().any(|cause| cause.field == field && cause.why == Why::Forbidden),
            "{path}: {found:?}"
        );
    };
    refused(&pool(), "/spec/cluster", "red".into(), "spec.cluster");
    refused(&pool(), "/spec/role", "control-plane".into(), "spec.role");
    refused(&deployment(), "/spec/selector", json!({"matchLabels": {"pool": "others"}}), "spec.selector");
    refused(&set(), "/spec/selector", json!({"matchLabels": {}}), "spec.selector");
    refused(&machine(), "/spec/versions/kubelet", "1.35.0".into(), "spec.versions");
    let known = with(machine(), "/spec/providerID", "kubevirt://a".into());
    refused(&known, "/spec/providerID", "kubevirt://b".into(), "spec.providerID");
    refused(&cluster(), "/spec/baseDomain", "example.org".into(), "spec.baseDomain");
    refused(
        &cluster(),
        "/spec/platform/kubevirt/namespace",
        "red".into(),
        "spec.platform.kubevirt.namespace",
    );
    refused(&cluster(), "/spec/version", "1.33.0".into(), "spec.version");
}

#[test]
fn what_may_change_does() {
    assert_eq!(causes(&with(machine(), "/spec/providerID", "kubevirt://a".into()), Some(&machine())), []);
    assert_eq!(causes(&with(machine(), "/spec/taints", json!([])), Some(&machine())), []);
    assert_eq!(causes(&with(deployment(), "/spec/replicas", 3.into()), Some(&deployment())), []);
    assert_eq!(causes(&with(pool(), "/spec/template/rootDisk/size", "20Gi".into()), Some(&pool())), []);
    let bypass = json!({"kubermatic.io/bypass-no-spec-mutation-requirement": "true"});
    let changed = with(machine(), "/spec/versions/kubelet", "1.35.0".into());
    assert_eq!(causes(&with(changed, "/metadata/annotations", bypass), Some(&machine())), []);
}

#[test]
fn an_old_fault_holds_up_neither_removal_nor_status_nor_the_rest() {
    let old = with(deployment(), "/spec/template/spec/versions/kubelet", "new".into());
    assert!(!causes(&old, None).is_empty());
    // A finalizer goes, a status comes.
    let changed =
        with(with(old.clone(), "/metadata/finalizers", json!([])), "/status", json!({"replicas": 1}));
    assert_eq!(causes(&changed, Some(&old)), []);
    // It is scaled.
    assert_eq!(causes(&with(old.clone(), "/spec/replicas", 0.into()), Some(&old)), []);
    // Another fault is another matter.
    let worse = with(old.clone(), "/spec/template/spec/versions/kubelet", "newer".into());
    assert_eq!(fields(&worse, Some(&old)), ["spec.template.spec.versions.kubelet"]);
    // What is being deleted is let go, whatever it says.
    let going = with(worse, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into());
    assert_eq!(causes(&going, Some(&old)), []);
}

#[test]
fn what_is_on_other_platforms_is_none_of_our_business() {
    let others = with(deployment(), "/spec/template/spec/providerSpec/value/cloudProvider", "aws".into());
    assert_eq!(causes(&with(others, "/spec/template/spec/versions/kubelet", "new".into()), None), []);
    assert_eq!(causes(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}), None), []);
}

fn filled(object: &Value) -> Value {
    let mut filled = object.clone();
    for operation in defaults(object) {
        let path = operation["path"].as_str().unwrap().to_owned();
        filled = with(filled, &path, operation["value"].clone());
    }
    filled
}

#[test]
fn what_is_filled_in_rolls_nothing_and_is_filled_in_once() {
    let read = |family: &'static Family, object: &Value| {
        let (readings, object) =
            (Readings::new(family, None, Vec::new()), Object::from_json(object.clone()).unwrap());
        match object.metadata.namespace() {
            "openshift-machine-api" => readings.set(&object, None),
            _ => readings.pool(&object),
        }
        .unwrap()
        .revision
        .clone()
    };
    let labelled = with(
        set(),
        "/spec/template/metadata/labels",
        json!({"set": "workers", "machine.openshift.io/cluster-api-cluster": "blue"}),
    );
    for (family, object) in [(&KKP, deployment()), (&OPENSHIFT, labelled)] {
        assert_eq!(read(family, &object), read(family, &filled(&object)), "{object}");
    }
    for object in good() {
        let once = filled(&object);
        assert_eq!(defaults(&once), Vec::<Value>::new(), "{once}");
        assert_eq!(causes(&once, None), [], "{once}");
        assert_eq!(once.pointer("/spec/template"), object.pointer("/spec/template"));
    }
    assert_eq!(
        filled(&deployment())["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": 1, "maxUnavailable": 0})
    );
    assert_eq!(filled(&pool())["spec"]["replicas"], 1);
    assert_eq!(Family::of(pool()["apiVersion"].as_str().unwrap()), Some(&TRELLIS));
}

#[test]
fn a_review_is_answered() {
    let ask =
        |path: &str, request: Value| review(path, &json!({"request": request})).unwrap()["response"].clone();
    let bad = with(deployment(), "/spec/template/spec/versions/kubelet", "new".into());
    let answer = ask("/validate", json!({"uid": "u", "operation": "CREATE", "object": bad}));
    assert_eq!((&answer["uid"], &answer["allowed"]), (&json!("u"), &json!(false)));
    assert_eq!(answer["status"]["code"], 422);
    assert_eq!(answer["status"]["details"]["causes"][0]["field"], "spec.template.spec.versions.kubelet");
    assert!(
        answer["status"]["message"]
            .as_str()
            .unwrap()
            .contains("is invalid: spec.template.spec.versions.kubelet")
    );
    for request in [
        json!({"uid": "u", "operation": "DELETE", "oldObject": bad}),
        json!({"uid": "u", "operation": "UPDATE", "subResource": "status", "object": bad, "oldObject": deployment()}),
    ] {
        assert_eq!(ask("/validate", request)["allowed"], true);
    }
    let answer = ask("/mutate", json!({"uid": "u", "operation": "CREATE", "object": pool()}));
    let patch = STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&patch).unwrap(),
        json!([{"op": "add", "path": "/spec/replicas", "value": 1}])
    );
    assert!(review("/else", &json!({"request": {"uid": "u"}})).is_none());
    assert!(review("/validate", &json!([])).is_none());
}

#[test]
fn secrets_are_not_repeated() {
    let hidden = "https://me:hunter2@registry.example/u.img";
    let at = "/spec/template/spec/providerSpec/value/cloudProviderSpec/virtualMachine/template/primaryDisk/osImage";
    let bad = with(deployment(), at, hidden.into());
    let bad = with(bad, "/spec/template/spec/versions/kubelet", "new".into());
    let said = format!("{:?}", causes(&bad, None));
    assert!(!said.contains("hunter2"), "{said}");
}
