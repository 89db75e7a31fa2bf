use super::*;
use crate::attributes::Attributes;
use crate::names::Gvk;
use crate::reader::Fixture;

fn attributes(resource: &str) -> Attributes {
    Attributes {
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: "shop".to_owned(),
        ..Attributes::default()
    }
}

fn quota(hard: &Value, used: &Value) -> Value {
    json!({
        "metadata": {"name": "compute", "namespace": "shop", "resourceVersion": "7"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    })
}

fn pod(requests: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]},
    })
}

fn created<'a>(attributes: &'a Attributes, kind: &'a Gvk, object: Value) -> Review<'a> {
    Review {
        attributes,
        kind,
        operation: Operation::Create,
        dry_run: false,
        options: Value::Null,
        object: Some(object),
        old: None,
    }
}

#[test]
fn a_pod_is_charged_or_refused_in_the_words_of_the_real_server() {
    let (attributes, kind) = (attributes("pods"), Gvk::new("", "v1", "Pod"));
    let quota =
        quota(&json!({"requests.cpu": "1", "pods": "2"}), &json!({"requests.cpu": "500m", "pods": "1"}));
    let reader = Fixture::default().with(GroupResource::new("", "resourcequotas"), quota);
    let now = Timestamp::UNIX_EPOCH;

    let charges =
        charge(&created(&attributes, &kind, pod(&json!({"cpu": "0.5"}))), &reader, &Charged::default(), now)
            .unwrap();
    assert_eq!(charges.len(), 1);
    assert_eq!(charges[0].status["used"], json!({"requests.cpu": "1", "pods": "2"}));
    assert_eq!(charges[0].resource_version, "7");

    let refused =
        charge(&created(&attributes, &kind, pod(&json!({"cpu": "600m"}))), &reader, &Charged::default(), now)
            .unwrap_err();
    assert_eq!(
        refused.message,
        "pods \"web\" is forbidden: exceeded quota: compute, requested: requests.cpu=600m, used: \
         requests.cpu=500m, limited: requests.cpu=1"
    );

    let silent =
        charge(&created(&attributes, &kind, pod(&json!({}))), &reader, &Charged::default(), now).unwrap_err();
    assert_eq!(
        silent.message,
        "pods \"web\" is forbidden: failed quota: compute: must specify requests.cpu for: app"
    );
}

#[test]
fn objects_of_any_resource_are_counted() {
    let attributes = Attributes { group: "apps".to_owned(), ..attributes("deployments") };
    let kind = Gvk::new("apps", "v1", "Deployment");
    let limits = json!({"count/deployments.apps": "1"});
    let reader = Fixture::default().with(
        GroupResource::new("", "resourcequotas"),
        quota(&limits, &json!({"count/deployments.apps": "1"})),
    );
    let object = json!({"metadata": {"name": "web"}});
    let refused =
        charge(&created(&attributes, &kind, object), &reader, &Charged::default(), Timestamp::UNIX_EPOCH)
            .unwrap_err();
    assert_eq!(
        refused.message,
        "deployments.apps \"web\" is forbidden: exceeded quota: compute, requested: count/deployments.apps=1, \
         used: count/deployments.apps=1, limited: count/deployments.apps=1"
    );
}

#[test]
fn a_recalculation_counts_what_is_there_and_is_silent_if_nothing_changed() {
    let quota = json!({
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"services.loadbalancers": "2", "secrets": "5", "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
                          "count/nothings.example.com": "1"}},
    });
    let objects = |of: &GroupResource| match of.resource.as_str() {
        "services" => Some(vec![Arc::new(json!({"spec": {"type": "LoadBalancer", "ports": [{}]}}))]),
        "persistentvolumeclaims" => Some(vec![Arc::new(json!({
            "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "3Gi"}}},
        }))]),
        "secrets" => Some(Vec::new()),
        _ => None,
    };
    let status = recalculate(&quota, &objects, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(
        status["used"],
        json!({"services.loadbalancers": "1", "secrets": "0",
               "gold.storageclass.storage.k8s.io/requests.storage": "3Gi"})
    );
    let mut known = quota.clone();
    known["status"] = status;
    assert_eq!(recalculate(&known, &objects, Timestamp::UNIX_EPOCH), None);
}

#[test]
fn scopes_select_pods() {
    let mut quota = quota(&json!({"pods": "0"}), &json!({"pods": "0"}));
    quota["spec"]["scopeSelector"] =
        json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    let evaluator = Evaluator::of("", "pods");
    assert!(!evaluator.matches(&quota, &pod(&json!({}))));
    let mut high = pod(&json!({}));
    high["spec"]["priorityClassName"] = "high".into();
    assert!(evaluator.matches(&quota, &high));
    quota["spec"] = json!({"scopes": ["NotBestEffort"]});
    assert!(!evaluator.matches(&quota, &high));
    assert!(evaluator.matches(&quota, &pod(&json!({"cpu": "1"}))));
}

#[test]
fn a_request_that_is_tried_again_is_charged_for_what_is_new_alone() {
    let (attributes, kind) = (attributes("pods"), Gvk::new("", "v1", "Pod"));
    let hard = json!({"requests.cpu": "1", "pods": "2"});
    let mut second = quota(&hard, &json!({"requests.cpu": "0", "pods": "0"}));
    second["metadata"]["name"] = "other".into();
    let of = || GroupResource::new("", "resourcequotas");
    let first = quota(&hard, &json!({"requests.cpu": "0", "pods": "0"}));
    let reader = Fixture::default().with(of(), first).with(of(), second.clone());
    let now = Timestamp::UNIX_EPOCH;
    let mut charged = Charged::default();
    let review = created(&attributes, &kind, pod(&json!({"cpu": "0.5"})));
    let charges = charge(&review, &reader, &charged, now).unwrap();
    assert_eq!(charges.len(), 2);
    // The first quota could be written, the second one had changed meanwhile.
    charges.into_iter().filter(|charge| charge.name == "compute").for_each(|charge| charged.note(charge));
    let first = quota(&hard, &json!({"requests.cpu": "500m", "pods": "1"}));
    let reader = Fixture::default().with(of(), first).with(of(), second);
    let again = charge(&review, &reader, &charged, now).unwrap();
    assert_eq!(again.iter().map(|charge| charge.name.as_str()).collect::<Vec<_>>(), ["other"]);
    // It grows before the next attempt.
    let review = created(&attributes, &kind, pod(&json!({"cpu": "0.7"})));
    let grown = charge(&review, &reader, &charged, now).unwrap();
    let compute = grown.iter().find(|charge| charge.name == "compute").unwrap();
    assert_eq!(compute.status["used"], json!({"requests.cpu": "700m", "pods": "1"}));
}
