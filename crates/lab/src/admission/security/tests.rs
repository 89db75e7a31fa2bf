use super::*;
use crate::attributes::Attributes;
use crate::names::Gvk;
use crate::reader::Fixture;
use serde_json::json;

fn namespace(labels: &Value) -> Fixture {
    let namespace = json!({"metadata": {"name": "shop", "labels": labels}});
    Fixture::default().with(GroupResource::new("", "namespaces"), namespace)
}

fn validated(resource: &str, group: &str, object: Value, reader: &Fixture) -> (Result<(), Status>, Warnings) {
    let attributes = Attributes {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: "shop".to_owned(),
        ..Attributes::default()
    };
    let kind = Gvk::new(group, "v1", "Any");
    let review = Review {
        attributes: &attributes,
        kind: &kind,
        operation: Operation::Create,
        dry_run: false,
        options: Value::Null,
        object: Some(object),
        old: None,
    };
    let mut warnings = Warnings::new();
    (validate(&review, reader, &mut warnings), warnings)
}

#[test]
fn a_plain_pod_violates_the_restricted_level_in_these_words() {
    let reader = namespace(&json!({"pod-security.kubernetes.io/enforce": "restricted"}));
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}]}});
    let (verdict, _) = validated("pods", "", pod.clone(), &reader);
    let words = "violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"app\" \
         must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"app\" must \
         set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"app\" must set \
         securityContext.runAsNonRoot=true), seccompProfile (pod or container \"app\" must set \
         securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(verdict.unwrap_err().message, format!("pods \"web\" is forbidden: {words}"));
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"template": pod}});
    let (verdict, warnings) = validated("deployments", "apps", deployment, &reader);
    assert!(verdict.is_ok());
    assert_eq!(warnings, [format!("would {}", words.replacen("violates", "violate", 1))]);
}

#[test]
fn baseline_forbids_the_host() {
    let reader = namespace(&json!({"pod-security.kubernetes.io/enforce": "baseline"}));
    let pod = json!({
        "metadata": {"name": "web"},
        "spec": {
            "hostNetwork": true,
            "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
            "securityContext": {"sysctls": [{"name": "kernel.msgmax"}], "seLinuxOptions": {"type": "spc_t", "user": "u"}},
            "containers": [
                {"name": "a", "ports": [{"hostPort": 20}, {"hostPort": 10}], "securityContext": {"privileged": true}},
                {"name": "b", "securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}},
            ],
        },
    });
    let (verdict, _) = validated("pods", "", pod, &reader);
    assert_eq!(
        verdict.unwrap_err().message,
        "pods \"web\" is forbidden: violates PodSecurity \"baseline:latest\": non-default capabilities (container \
         \"b\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces \
         (hostNetwork=true), hostPath volumes (volume \"root\"), hostPort (container \"a\" uses hostPorts 10, 20), \
         privileged (container \"a\" must not set securityContext.privileged=true), seLinuxOptions (pod set \
         forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set), forbidden sysctls \
         (kernel.msgmax)"
    );
}

#[test]
fn a_good_pod_is_restricted_enough() {
    let reader = namespace(&json!({"pod-security.kubernetes.io/enforce": "restricted"}));
    let pod = json!({"metadata": {"name": "web"}, "spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "app", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        }}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }});
    assert_eq!(validated("pods", "", pod, &reader), (Ok(()), Vec::new()));
}

#[test]
fn labels_that_make_no_sense_are_refused() {
    let object =
        json!({"metadata": {"name": "shop", "labels": {"pod-security.kubernetes.io/enforce-version": "v1"}}});
    let (verdict, _) = validated("namespaces", "", object, &Fixture::default());
    assert!(verdict.unwrap_err().message.ends_with(
        "is invalid: metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"v1\": must be \
         \"latest\" or \"v1.x\""
    ));
}
