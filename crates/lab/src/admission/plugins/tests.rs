use serde_json::{Value, json};

use super::super::testing::{admission, attributes, creation, shop};
use crate::admission::{Operation, Review};
use crate::names::{GroupResource, Gvk};
use crate::reader::Fixture;
use crate::status::Status;

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

async fn created(object: Value, objects: Fixture) -> Result<Value, Status> {
    let attributes = attributes("", "v1", "pods");
    let kind = Gvk::new("", "v1", "Pod");
    let admission = admission(objects);
    let mut review = creation(&attributes, &kind, object);
    admission.mutate(&mut review).await?;
    admission.validate(&review).await?;
    Ok(review.object.unwrap())
}

#[tokio::test]
async fn a_plain_pod_gets_what_the_real_server_gives_it() {
    let made = created(pod(&json!({"containers": [{"name": "a"}]})), shop()).await.unwrap();
    let volume = made["spec"]["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-") && volume.len() == 21, "{volume}");
    assert_eq!(
        made["spec"],
        json!({
            "containers": [{"name": "a", "volumeMounts": [
                {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": volume, "readOnly": true},
            ]}],
            "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
            "serviceAccount": "default", "serviceAccountName": "default",
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ],
            "volumes": [{"name": volume, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": [
                    {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"},
                ]}},
            ]}}],
        })
    );
    // What is there already is left alone.
    assert_eq!(created(made.clone(), shop()).await.unwrap(), made);
}

#[tokio::test]
async fn nothing_is_made_where_it_cannot_be() {
    let lost = created(pod(&json!({"containers": []})), Fixture::default()).await.unwrap_err();
    assert_eq!((lost.code, lost.message.as_str()), (404, "namespaces \"shop\" not found"));
    let leaving = Fixture::default().with(
        GroupResource::new("", "namespaces"),
        json!({"metadata": {"name": "shop"}, "status": {"phase": "Terminating"}}),
    );
    let refused = created(pod(&json!({"containers": []})), leaving).await.unwrap_err();
    assert_eq!(
        refused.message,
        "pods \"web\" is forbidden: unable to create new content in namespace shop because it is being terminated"
    );
    assert_eq!(refused.details.causes[0].reason, "NamespaceTerminating");
    let unknown = created(pod(&json!({"serviceAccountName": "bob"})), shop()).await.unwrap_err();
    assert_eq!(
        unknown.message,
        "pods \"web\" is forbidden: error looking up service account shop/bob: serviceaccount \"bob\" not found"
    );
}

#[tokio::test]
async fn some_namespaces_stay() {
    let attributes = crate::attributes::Attributes {
        name: "kube-system".to_owned(),
        namespace: String::new(),
        ..attributes("", "v1", "namespaces")
    };
    let kind = Gvk::new("", "v1", "Namespace");
    let mut review =
        Review { operation: Operation::Delete, object: None, ..creation(&attributes, &kind, Value::Null) };
    let refused = admission(Fixture::default()).mutate(&mut review).await.unwrap_err();
    assert_eq!(refused.message, "namespaces \"kube-system\" is forbidden: this namespace may not be deleted");
}

#[tokio::test]
async fn limit_ranges_set_defaults_and_bounds() {
    let range = json!({
        "metadata": {"name": "limits", "namespace": "shop"},
        "spec": {"limits": [{
            "type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "250m"},
            "max": {"cpu": "1"}, "min": {"cpu": "100m"}, "maxLimitRequestRatio": {"cpu": "2"},
        }]},
    });
    let objects = || shop().with(GroupResource::new("", "limitranges"), range.clone());
    let made = created(pod(&json!({"containers": [{"name": "a"}]})), objects()).await.unwrap();
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "250m"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container a; cpu limit for container a"
    );
    let greedy = pod(
        &json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}}}]}),
    );
    let refused = created(greedy, objects()).await.unwrap_err();
    assert_eq!(
        refused.message,
        "pods \"web\" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, cpu max limit to request \
         ratio per Container is 2, but provided ratio is 4.000000]"
    );
}

#[tokio::test]
async fn priority_classes_decide() {
    let class = |name: &str, value: i64, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"});
    let classes = GroupResource::new("scheduling.k8s.io", "priorityclasses");
    let objects = || {
        shop()
            .with(classes.clone(), class("high", 1000, false))
            .with(classes.clone(), class("usual", 5, true))
    };
    let made = created(pod(&json!({"containers": []})), objects()).await.unwrap();
    assert_eq!((&made["spec"]["priority"], &made["spec"]["priorityClassName"]), (&json!(5), &json!("usual")));
    let wrong = pod(&json!({"priorityClassName": "high", "priority": 3}));
    assert_eq!(
        created(wrong, objects()).await.unwrap_err().message,
        "pods \"web\" is forbidden: the integer value of priority (3) must not be provided in pod spec; priority \
         admission controller computed 1000 from the given PriorityClass name"
    );
    let unknown = created(pod(&json!({"priorityClassName": "low"})), objects()).await.unwrap_err();
    assert_eq!(unknown.message, "pods \"web\" is forbidden: no PriorityClass with name low was found");
}

#[tokio::test]
async fn runtime_classes_add_overhead_and_places() {
    let class = json!({
        "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}},
    });
    let objects = || shop().with(GroupResource::new("node.k8s.io", "runtimeclasses"), class.clone());
    let made = created(pod(&json!({"runtimeClassName": "kata"})), objects()).await.unwrap();
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "100m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"runtime": "kata"}));
    let elsewhere = pod(&json!({"runtimeClassName": "kata", "nodeSelector": {"runtime": "runc"}}));
    assert_eq!(
        created(elsewhere, objects()).await.unwrap_err().message,
        "pods \"web\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; \
         pod.spec.nodeSelector[runtime] = runc"
    );
    let missing = created(pod(&json!({"runtimeClassName": "none"})), objects()).await.unwrap_err();
    assert_eq!(missing.message, "pods \"web\" is forbidden: pod rejected: RuntimeClass \"none\" not found");
}

#[tokio::test]
async fn claims_get_a_class_and_a_finalizer_and_grow_only_if_they_can() {
    let attributes = attributes("", "v1", "persistentvolumeclaims");
    let kind = Gvk::new("", "v1", "PersistentVolumeClaim");
    let classes = GroupResource::new("storage.k8s.io", "storageclasses");
    let class = |name: &str, made: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": made,
               "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    let admission = admission(
        shop()
            .with(classes.clone(), class("old", "2020-01-01T00:00:00Z"))
            .with(classes.clone(), class("new", "2021-01-01T00:00:00Z")),
    );
    let claim =
        json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let mut review = creation(&attributes, &kind, claim);
    admission.mutate(&mut review).await.unwrap();
    let mut made = review.object.clone().unwrap();
    assert_eq!(made["spec"]["storageClassName"], "new");
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mut bigger = made.clone();
    bigger["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    let grow = |old: &Value| {
        let review = Review {
            operation: Operation::Update,
            object: Some(bigger.clone()),
            old: Some(std::sync::Arc::new(old.clone())),
            ..creation(&attributes, &kind, Value::Null)
        };
        super::storage::validate_growth(&review, &shop()).unwrap_err().message
    };
    assert!(grow(&made).ends_with("Only bound persistent volume claims can be expanded"));
    made["status"]["phase"] = "Bound".into();
    assert!(grow(&made).ends_with("the storageclass that provisions the pvc must support resize"));
}

#[test]
fn certificates_for_masters_are_never_requested() {
    let mut request = rcgen::CertificateParams::new(Vec::new()).unwrap();
    request.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = request.serialize_request(&key).unwrap().pem().unwrap();
    let attributes = crate::attributes::Attributes {
        namespace: String::new(),
        ..attributes("certificates.k8s.io", "v1", "certificatesigningrequests")
    };
    let kind = Gvk::new("certificates.k8s.io", "v1", "CertificateSigningRequest");
    let object = json!({
        "metadata": {"name": "mine"},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client",
                 "request": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem)},
    });
    let review = creation(&attributes, &kind, object);
    let refused = super::certificates::validate(&review, &crate::admission::AllowAll).unwrap_err();
    assert_eq!(
        refused.message,
        "certificatesigningrequests.certificates.k8s.io \"mine\" is forbidden: use of \
         kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
}
