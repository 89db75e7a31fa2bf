use serde_json::{Value, json};

use super::*;
use crate::names::GroupResource;
use crate::reader::Fixture;

fn fixture(objects: Vec<Value>) -> Authorizer {
    let mut fixture = Fixture::default();
    for object in objects {
        let resource = match object["kind"].as_str().unwrap() {
            "ClusterRole" => GroupResource::new(scope::GROUP, "clusterroles"),
            "ClusterRoleBinding" => GroupResource::new(scope::GROUP, "clusterrolebindings"),
            "Role" => GroupResource::new(scope::GROUP, "roles"),
            "RoleBinding" => GroupResource::new(scope::GROUP, "rolebindings"),
            "Pod" => GroupResource::new("", "pods"),
            "PersistentVolume" => GroupResource::new("", "persistentvolumes"),
            other => panic!("{other}"),
        };
        fixture = fixture.with(resource, object);
    }
    Authorizer::new(Arc::new(fixture))
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn role(namespace: &str, name: &str, rules: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn binding(namespace: &str, name: &str, role: [&str; 2], subject: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    json!({
        "kind": kind, "metadata": {"namespace": namespace, "name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": scope::GROUP, "kind": role[0], "name": role[1]},
    })
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

fn alice() -> User {
    user("alice", &["devs", "system:authenticated"])
}

fn asks(user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    let (group, resource) = resource.split_once(':').unwrap_or(("", resource));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        user: user.clone(),
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    }
}

fn path(user: &User, verb: &str, path: &str) -> Attributes {
    Attributes { user: user.clone(), verb: verb.to_owned(), path: path.to_owned(), ..Attributes::default() }
}

/// What the server of these tests has: as in the namespace from which the expected texts were read.
fn server() -> Authorizer {
    let devs = json!({"kind": "Group", "name": "devs"});
    let alice = json!({"kind": "User", "name": "alice"});
    fixture(vec![
        role("", "reader", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}])),
        binding("", "auth-d-dangling", ["ClusterRole", "auth-d-nothere"], devs.clone()),
        binding("auth-d", "dangling", ["Role", "auth-d-nothere"], alice.clone()),
        role(
            "auth-d",
            "r1",
            json!([{
                "verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"],
            }]),
        ),
        binding("auth-d", "rb1", ["Role", "r1"], alice),
        role(
            "auth-d",
            "rolemaker",
            json!([{
                "verbs": ["create", "update", "patch", "get", "delete"], "apiGroups": [scope::GROUP],
                "resources": ["roles", "rolebindings"],
            }]),
        ),
        binding("auth-d", "rb2", ["Role", "rolemaker"], devs),
        binding(
            "auth-d",
            "rb3",
            ["ClusterRole", "reader"],
            json!({"kind": "ServiceAccount", "name": "robot"}),
        ),
    ])
}

#[test]
fn refusals_are_worded_as_by_the_real_server() {
    let none = fixture(Vec::new());
    let message = |attributes: Attributes| {
        let status = none.check(&attributes).unwrap_err();
        assert_eq!((status.code, status.reason), (403, "Forbidden"));
        status.message
    };
    let alice = alice();
    assert_eq!(
        message(asks(&alice, "list", "pods", "auth-d", "")),
        r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "auth-d""#
    );
    assert_eq!(
        message(asks(&alice, "create", "pods/eviction", "auth-d", "x")),
        r#"pods "x" is forbidden: User "alice" cannot create resource "pods/eviction" in API group "" in the namespace "auth-d""#
    );
    assert_eq!(
        message(asks(&alice, "list", "nodes", "", "")),
        r#"nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope"#
    );
    assert_eq!(
        message(asks(&alice, "get", "apps:deployments", "auth-d", "x")),
        r#"deployments.apps "x" is forbidden: User "alice" cannot get resource "deployments" in API group "apps" in the namespace "auth-d""#
    );
    assert_eq!(
        message(asks(&alice, "list", "po<ds", "auth-d", "")),
        r#"po<ds is forbidden: User "alice" cannot list resource "po&lt;ds" in API group "" in the namespace "auth-d""#
    );
    let of_path = none.check(&path(&alice, "post", "/foo/bar")).unwrap_err();
    assert_eq!(of_path.message, r#"forbidden: User "alice" cannot post path "/foo/bar""#);
    assert_eq!(of_path.to_value()["details"], json!({}));
}

#[test]
fn roles_that_are_missing_are_told() {
    let server = server();
    let both = r#"rbac: RBAC: [clusterrole.rbac.authorization.k8s.io "auth-d-nothere" not found, role.rbac.authorization.k8s.io "auth-d-nothere" not found]"#;
    assert_eq!(server.authorize(&asks(&alice(), "list", "pods", "auth-d", "")), Decision::Deny(both.into()));
    let one = r#"rbac: RBAC: clusterrole.rbac.authorization.k8s.io "auth-d-nothere" not found"#;
    assert_eq!(server.authorize(&path(&alice(), "get", "/metrics")), Decision::Deny(one.into()));
}

#[test]
fn bindings_allow_by_user_group_and_account_in_their_namespace() {
    let server = server();
    let reason = |attributes: &Attributes| {
        let verdict = server.explain(attributes);
        assert_eq!(verdict.allowed, server.authorize(attributes) == Decision::Allow);
        verdict.allowed.then_some(verdict.reason)
    };
    assert_eq!(
        reason(&asks(&alice(), "get", "configmaps", "auth-d", "a")).unwrap(),
        r#"RBAC: allowed by RoleBinding "rb1/auth-d" of Role "r1" to User "alice""#
    );
    assert_eq!(reason(&asks(&alice(), "get", "configmaps", "auth-d", "c")), None);
    assert_eq!(reason(&asks(&alice(), "get", "configmaps", "other", "a")), None);
    assert_eq!(
        reason(&asks(&alice(), "create", "rbac.authorization.k8s.io:roles", "auth-d", "")).unwrap(),
        r#"RBAC: allowed by RoleBinding "rb2/auth-d" of Role "rolemaker" to Group "devs""#
    );
    let robot = user("system:serviceaccount:auth-d:robot", &[]);
    assert_eq!(
        reason(&asks(&robot, "get", "nodes", "auth-d", "x")).unwrap(),
        r#"RBAC: allowed by RoleBinding "rb3/auth-d" of ClusterRole "reader" to ServiceAccount "robot/auth-d""#
    );
    assert_eq!(reason(&asks(&robot, "get", "nodes", "", "x")), None);
    let master = user("x", &["system:masters"]);
    assert_eq!(reason(&asks(&master, "do", "anything", "", "")), Some(String::new()));
}

#[test]
fn writes_change_the_next_decision() {
    #[derive(Debug, Default)]
    struct Changing(parking_lot::Mutex<Fixture>);
    impl Reader for Changing {
        fn get(&self, of: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
            self.0.lock().get(of, namespace, name)
        }
        fn list(&self, of: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
            self.0.lock().list(of, namespace)
        }
        fn revision(&self, of: &GroupResource) -> u64 {
            self.0.lock().revision(of)
        }
    }
    let store = Arc::new(Changing::default());
    let authorizer = Authorizer::new(Arc::clone(&store) as Arc<dyn Reader>);
    let wanted = asks(&alice(), "get", "pods", "n", "x");
    assert!(matches!(authorizer.authorize(&wanted), Decision::Deny(_)));
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let add = |resource: &str, object: Value| {
        let mut fixture = store.0.lock();
        *fixture = std::mem::take(&mut *fixture).with(GroupResource::new(scope::GROUP, resource), object);
    };
    add("roles", role("n", "r", rules));
    add("rolebindings", binding("n", "b", ["Role", "r"], json!({"kind": "User", "name": "alice"})));
    assert_eq!(authorizer.authorize(&wanted), Decision::Allow);
}

fn escalation(server: &Authorizer, resource: &str, namespace: &str, object: &Value) -> Result<(), String> {
    let attributes = asks(&alice(), "create", &format!("{}:{resource}", scope::GROUP), namespace, "");
    server.check_escalation(&attributes, object, None).map_err(|status| status.message)
}

#[test]
fn nobody_gives_away_what_they_do_not_have() {
    let server = server();
    let wanted = role(
        "auth-d",
        "esc",
        json!([
            {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["x", "y"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]},
        ]),
    );
    assert_eq!(
        escalation(&server, "roles", "auth-d", &wanted).unwrap_err(),
        "roles.rbac.authorization.k8s.io \"esc\" is forbidden: user \"alice\" (groups=[\"devs\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"deployments\"], ResourceNames:[\"x\"], Verbs:[\"*\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"deployments\"], ResourceNames:[\"y\"], Verbs:[\"*\"]}; \
         resolution errors: [roles.rbac.authorization.k8s.io \"auth-d-nothere\" not found]"
    );
    let held = role(
        "auth-d",
        "ok",
        json!([
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]},
        ]),
    );
    assert_eq!(escalation(&server, "roles", "auth-d", &held), Ok(()));
    let bind = |kind: &str, name: &str| {
        let object = binding("auth-d", "escb", [kind, name], json!({"kind": "User", "name": "eve"}));
        escalation(&server, "rolebindings", "auth-d", &object)
    };
    assert_eq!(bind("Role", "rolemaker"), Ok(()));
    assert_eq!(
        bind("ClusterRole", "reader").unwrap_err(),
        "rolebindings.rbac.authorization.k8s.io \"escb\" is forbidden: user \"alice\" (groups=[\"devs\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}; \
         resolution errors: [rolebindings.rbac.authorization.k8s.io \"auth-d-nothere\" not found]"
    );
    assert_eq!(
        bind("ClusterRole", "nothere").unwrap_err(),
        "rolebindings.rbac.authorization.k8s.io \"nothere\" not found"
    );
    assert_eq!(bind("Foo", "x").unwrap_err(), "unsupported role reference kind: \"Foo\"");
    let mut gathering = role("", "agg", json!(null));
    gathering["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    assert_eq!(
        escalation(&server, "clusterroles", "", &gathering).unwrap_err(),
        "clusterroles.rbac.authorization.k8s.io \"agg\" is forbidden: must have cluster-admin privileges to use \
         the aggregationRule"
    );
}

#[test]
fn bind_and_escalate_and_owner_references_are_let_through() {
    let server = fixture(vec![
        role("", "strong", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])),
        role(
            "n",
            "special",
            json!([
                {"verbs": ["bind"], "apiGroups": [scope::GROUP], "resources": ["clusterroles"], "resourceNames": ["strong"]},
                {"verbs": ["escalate"], "apiGroups": [scope::GROUP], "resources": ["roles"]},
            ]),
        ),
        binding("n", "b", ["Role", "special"], json!({"kind": "User", "name": "alice"})),
    ]);
    let bound = binding("n", "x", ["ClusterRole", "strong"], json!({}));
    assert_eq!(escalation(&server, "rolebindings", "n", &bound), Ok(()));
    assert!(escalation(&server, "clusterrolebindings", "", &bound).is_err());
    let wanted = role("n", "x", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
    assert_eq!(escalation(&server, "roles", "n", &wanted), Ok(()));
    assert!(escalation(&server, "roles", "m", &wanted).is_err());
    let mut old = wanted.clone();
    old["metadata"]["finalizers"] = json!(["a/b"]);
    let update = asks(&alice(), "update", "rbac.authorization.k8s.io:roles", "m", "x");
    assert!(server.check_escalation(&update, &wanted, Some(&old)).is_ok());
}

#[test]
fn rules_of_a_user_are_those_of_the_cluster_and_then_of_the_namespace() {
    let rules = server().rules_for(&alice(), "auth-d");
    assert_eq!(rules.rules.len(), 2);
    assert_eq!(
        rules.problem,
        r#"[clusterrole.rbac.authorization.k8s.io "auth-d-nothere" not found, role.rbac.authorization.k8s.io "auth-d-nothere" not found]"#
    );
    let of_node = server().rules_for(&user("system:node:n1", &["system:nodes"]), "auth-d");
    assert!(of_node.incomplete);
    assert_eq!(of_node.problem, "node authorizer does not support user rule resolution");
}

#[test]
fn nodes_see_what_their_pods_need() {
    let pod = |name: &str, node: &str| {
        json!({
            "kind": "Pod", "metadata": {"namespace": "n", "name": name},
            "spec": {
                "nodeName": node, "serviceAccountName": "robot",
                "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}}]}],
                "volumes": [
                    {"name": "s", "secret": {"secretName": "mounted"}},
                    {"name": "p", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "c", "projected": {"sources": [{"configMap": {"name": "conf"}}]}},
                ],
            },
        })
    };
    let mut mirror = pod("m", "n3");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let volume = json!({
        "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "n", "name": "claim"},
            "csi": {"nodePublishSecretRef": {"namespace": "csi", "name": "publish"}},
        },
    });
    let server = fixture(vec![pod("a", "n1"), mirror, volume]);
    let may = |node: &str, verb: &str, resource: &str, namespace: &str, name: &str| {
        let node = user(&format!("system:node:{node}"), &["system:nodes"]);
        match server.authorize(&asks(&node, verb, resource, namespace, name)) {
            Decision::Allow => "yes".to_owned(),
            Decision::Deny(reason) => reason,
        }
    };
    for (resource, namespace, name) in [
        ("secrets", "n", "env"),
        ("secrets", "n", "mounted"),
        ("secrets", "csi", "publish"),
        ("configmaps", "n", "conf"),
        ("persistentvolumeclaims", "n", "claim"),
        ("persistentvolumes", "", "pv"),
        ("serviceaccounts", "n", "robot"),
        ("pods", "n", "a"),
    ] {
        assert_eq!(may("n1", "get", resource, namespace, name), "yes", "{resource}");
        let other = may("n2", "get", resource, namespace, name);
        assert_eq!(other, "node: no relationship found between node 'n2' and this object", "{resource}");
    }
    assert!(may("n3", "get", "secrets", "n", "mounted").contains("no relationship"));
    assert_eq!(may("n1", "create", "serviceaccounts/token", "n", "robot"), "yes");
    assert_eq!(may("n1", "update", "secrets", "n", "env"), "node: can only read resources of this type");
    assert_eq!(may("n1", "patch", "nodes/status", "", "n1"), "yes");
    assert_eq!(
        may("n1", "get", "nodes", "", "n2"),
        "node: node 'n1' cannot read 'n2', only its own Node object"
    );
    assert_eq!(may("n1", "update", "coordination.k8s.io:leases", "kube-node-lease", "n1"), "yes");
    assert_eq!(may("n1", "list", "services", "", ""), "yes");
    assert_eq!(may("n1", "delete", "services", "n", "x"), "");
    let mut listing = asks(&user("system:node:n1", &["system:nodes"]), "list", "pods", "", "");
    assert!(matches!(server.authorize(&listing), Decision::Deny(_)));
    listing.field_selector = "spec.nodeName=n1".to_owned();
    assert_eq!(server.authorize(&listing), Decision::Allow);
}

#[test]
fn ordinary_decisions_take_about_a_microsecond() {
    let mut objects = crate::auth::bootstrap_objects(jiff::Timestamp::UNIX_EPOCH);
    for number in 0..200 {
        let subject = json!({"kind": "User", "name": format!("user-{number}")});
        objects.push(binding("", &format!("b-{number}"), ["ClusterRole", "view"], subject));
    }
    let server = fixture(objects);
    let someone = user("user-100", &["system:authenticated"]);
    let wanted = asks(&someone, "list", "apps:deployments", "n", "");
    assert_eq!(server.authorize(&wanted), Decision::Allow);
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(server.authorize(&wanted), Decision::Allow);
    }
    // Far from what an optimized build takes, but far below what looking at every binding would.
    assert!(start.elapsed() < std::time::Duration::from_millis(200), "{:?}", start.elapsed());
}
