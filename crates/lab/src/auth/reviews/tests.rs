use super::*;
use crate::auth::tokens::{ISSUER, Tokens};
use crate::auth::{Pki, Secret};
use crate::names::GroupResource;
use crate::reader::Fixture;

fn now() -> Timestamp {
    "2026-11-16T05:51:03Z".parse().unwrap()
}

fn reviews() -> Reviews {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let role = json!({
        "metadata": {"namespace": "auth-d", "name": "r1"},
        "rules": [{
            "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
        }],
    });
    let binding = json!({
        "metadata": {"namespace": "auth-d", "name": "rb1"},
        "roleRef": {"kind": "Role", "name": "r1"}, "subjects": [{"kind": "User", "name": "alice"}],
    });
    let public = json!({
        "metadata": {"name": "public"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
    });
    let everybody = json!({
        "metadata": {"name": "public"}, "roleRef": {"kind": "ClusterRole", "name": "public"},
        "subjects": [{"kind": "Group", "name": "system:authenticated"}],
    });
    let reader: Arc<Fixture> = Arc::new(
        Fixture::default()
            .with(GroupResource::new(RBAC, "roles"), role)
            .with(GroupResource::new(RBAC, "rolebindings"), binding)
            .with(GroupResource::new(RBAC, "clusterroles"), public)
            .with(GroupResource::new(RBAC, "clusterrolebindings"), everybody),
    );
    let pki = Pki::generate(now(), &[]).unwrap();
    let tokens = Arc::new(Tokens::new(&pki.service_accounts, ISSUER, &[]).unwrap());
    let authenticator = Authenticator::new(&pki, tokens, Arc::clone(&reader) as _).unwrap();
    let authenticator = authenticator.with_token(&Secret::new("alice-token"), alice());
    Reviews { authorizer: Arc::new(Authorizer::new(reader)), authenticator: Arc::new(authenticator) }
}

fn alice() -> User {
    let groups = vec!["devs".to_owned(), "system:authenticated".to_owned()];
    User { name: "alice".to_owned(), uid: "2".to_owned(), groups, ..User::default() }
}

fn answer(review: Review, object: &Value) -> Result<Value, Status> {
    reviews().answer(review, &alice(), "auth-d", object, now())
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn status(review: Review, spec: Value) -> Value {
    answer(review, &json!({"spec": spec})).unwrap()["status"].clone()
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn problem(review: Review, spec: Value) -> String {
    let status = answer(review, &json!({"spec": spec})).unwrap_err();
    assert_eq!((status.code, status.details.group.as_str()), (422, "authorization.k8s.io"));
    status.message
}

#[test]
fn access_is_reviewed_with_its_reason() {
    let of_resource = json!({"verb": "get", "resource": "configmaps", "name": "a", "namespace": "auth-d"});
    let allowed = json!({
        "allowed": true,
        "reason": "RBAC: allowed by RoleBinding \"rb1/auth-d\" of Role \"r1\" to User \"alice\"",
    });
    assert_eq!(status(Review::SelfSubjectAccess, json!({"resourceAttributes": of_resource})), allowed);
    let of_alice = json!({"user": "alice", "resourceAttributes": of_resource});
    assert_eq!(status(Review::SubjectAccess, of_alice.clone()), allowed);
    assert_eq!(status(Review::LocalSubjectAccess, of_alice), allowed);
    let of_bob = json!({"user": "bob", "resourceAttributes": of_resource});
    assert_eq!(status(Review::SubjectAccess, of_bob), json!({"allowed": false}));
    let of_masters = json!({"groups": ["system:masters"], "resourceAttributes": of_resource});
    assert_eq!(status(Review::SubjectAccess, of_masters), json!({"allowed": true}));
    let of_path = json!({"nonResourceAttributes": {"verb": "get", "path": "/healthz"}});
    assert_eq!(status(Review::SelfSubjectAccess, of_path)["allowed"], true);
    let whole = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {"namespace": "x"},
        "spec": {"resourceAttributes": {"verb": "get"}},
    });
    assert_eq!(
        answer(Review::SelfSubjectAccess, &whole).unwrap(),
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {"resourceAttributes": {"verb": "get"}}, "status": {"allowed": false},
        })
    );
}

#[test]
fn wrong_reviews_are_refused_in_the_words_of_the_real_server() {
    let prefix = ".authorization.k8s.io \"\" is invalid: ";
    assert_eq!(
        problem(Review::SelfSubjectAccess, json!({})),
        format!("{prefix}spec: Invalid value: null: {NOT_BOTH}")
    );
    let both =
        json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}, "resourceAttributes": {}});
    assert_eq!(
        problem(Review::SelfSubjectAccess, both),
        format!("{prefix}spec: Invalid value: {{\"Path\":\"/metrics\",\"Verb\":\"get\"}}: {NOT_BOTH}")
    );
    assert_eq!(
        problem(Review::SubjectAccess, json!({})),
        format!(
            "{prefix}[spec: Invalid value: null: {NOT_BOTH}, spec.user: Invalid value: \"\": at least one of user or \
             group must be specified]"
        )
    );
    let empty = json!({"user": "a", "resourceAttributes": {"fieldSelector": {}}});
    assert_eq!(
        problem(Review::SubjectAccess, empty),
        format!(
            "{prefix}spec.resourceAttributes.fieldSelector.requirements: Required value: when \
             spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"
        )
    );
    let elsewhere = json!({"user": "a", "resourceAttributes": {"namespace": "other"}});
    assert_eq!(
        problem(Review::LocalSubjectAccess, elsewhere),
        format!(
            "{prefix}spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace"
        )
    );
    let path = json!({"user": "a", "nonResourceAttributes": {"verb": "get", "path": "/x"}});
    assert_eq!(
        problem(Review::LocalSubjectAccess, path),
        format!(
            "{prefix}spec.nonResourceAttributes: Invalid value: {{\"Path\":\"/x\",\"Verb\":\"get\"}}: disallowed on \
             this kind of request"
        )
    );
    let named = json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {"verb": "get"}}});
    let refused = answer(Review::SelfSubjectAccess, &named).unwrap_err().message;
    assert_eq!(refused, format!("{prefix}metadata: Invalid value: {{\"name\":\"x\"}}: must be empty"));
}

#[test]
fn selectors_of_reviews_are_checked_and_widened() {
    let labels = json!({
        "user": "a",
        "resourceAttributes": {
            "fieldSelector": {
                "rawSelector": "a=b", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}],
            },
            "labelSelector": {"requirements": [
                {"key": "", "operator": "In", "values": []},
                {"key": "a b", "operator": "Exists", "values": ["x"]},
                {"key": "ok", "operator": "Foo"},
                {"key": "ok", "operator": "", "values": ["---"]},
            ]},
        },
    });
    let status = answer(Review::SubjectAccess, &json!({"spec": labels})).unwrap_err();
    let fields: Vec<(&str, &str)> = status
        .details
        .causes
        .iter()
        .map(|cause| (cause.field.strip_prefix("spec.resourceAttributes.").unwrap(), cause.reason))
        .collect();
    // As many problems in this order as the real server finds.
    assert_eq!(
        fields,
        [
            ("fieldSelector.rawSelector", "FieldValueInvalid"),
            ("labelSelector.requirements[0].values", "FieldValueRequired"),
            ("labelSelector.requirements[0].key", "FieldValueInvalid"),
            ("labelSelector.requirements[0].key", "FieldValueInvalid"),
            ("labelSelector.requirements[1].values", "FieldValueForbidden"),
            ("labelSelector.requirements[1].key", "FieldValueInvalid"),
            ("labelSelector.requirements[3].values[0]", "FieldValueInvalid"),
        ]
    );
    let evaluation = |resource: Value| {
        let spec = json!({"user": "a", "resourceAttributes": resource});
        super::tests::status(Review::SubjectAccess, spec)["evaluationError"].clone()
    };
    assert_eq!(
        evaluation(
            json!({"fieldSelector": {"rawSelector": "a=b=c=d"}, "labelSelector": {"rawSelector": "a in ("}})
        ),
        "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector \
         ignored due to parse error"
    );
    assert_eq!(
        evaluation(json!({
            "fieldSelector": {"requirements": [
                {"key": "k", "operator": "In", "values": ["b", "c"]}, {"key": "a", "operator": "In", "values": ["x"]},
            ]},
            "labelSelector": {"requirements": [{"key": "ok", "operator": "Foo", "values": ["x"]}]},
        })),
        "spec.resourceAttributes.fieldSelector partially ignored due to parse error; \
         spec.resourceAttributes.labelSelector ignored due to parse error"
    );
    // A node that asks for its own pods.
    let own = json!({
        "user": "system:node:n1", "groups": ["system:nodes"],
        "resourceAttributes": {
            "verb": "list", "resource": "pods",
            "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
        },
    });
    assert_eq!(super::tests::status(Review::SubjectAccess, own), json!({"allowed": true}));
}

#[test]
fn rules_are_listed_by_kind() {
    let whole = answer(Review::SelfSubjectRules, &json!({"spec": {"namespace": "auth-d"}})).unwrap();
    assert_eq!(
        whole,
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "metadata": {}, "spec": {},
            "status": {
                "incomplete": false,
                "resourceRules": [{
                    "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
                }],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
            },
        })
    );
    let refused = answer(Review::SelfSubjectRules, &json!({"spec": {}})).unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (400, "no namespace on request"));
}

#[test]
fn people_and_tokens_are_told_who_they_are() {
    let me = answer(Review::SelfSubject, &json!({"metadata": {"name": "foo"}})).unwrap();
    let info = json!({"groups": ["devs", "system:authenticated"], "uid": "2", "username": "alice"});
    assert_eq!(
        me,
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            "metadata": {"creationTimestamp": "2026-11-16T05:51:03Z"}, "status": {"userInfo": info},
        })
    );
    assert_eq!(
        status(Review::Token, json!({"token": "alice-token"})),
        json!({"authenticated": true, "user": info, "audiences": [ISSUER]})
    );
    assert_eq!(
        status(Review::Token, json!({"token": "nope"})),
        json!({"error": "invalid bearer token", "user": {}})
    );
    let refused = answer(Review::Token, &json!({"spec": {}})).unwrap_err();
    assert_eq!(refused.message, "token is required for TokenReview in authentication");
    assert_eq!(Review::of("authorization.k8s.io", "subjectaccessreviews"), Some(Review::SubjectAccess));
    assert_eq!(Review::of("", "pods"), None);
}
