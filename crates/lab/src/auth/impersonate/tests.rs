use serde_json::{Value, json};

use super::*;
use crate::names::GroupResource;
use crate::reader::Fixture;

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    headers
}

fn impersonator(rules: &Value) -> Impersonator {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let subject = json!({"kind": "User", "name": "alice"});
    let fixture = Fixture::default()
        .with(GroupResource::new(RBAC, "clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules}))
        .with(
            GroupResource::new(RBAC, "clusterrolebindings"),
            json!({
                "metadata": {"name": "b"}, "subjects": [subject],
                "roleRef": {"kind": "ClusterRole", "name": "r"},
            }),
        );
    Impersonator::new(Arc::new(Authorizer::new(Arc::new(fixture))))
}

fn request(name: &str, groups: &[&str]) -> Attributes {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Attributes {
        user: User { name: name.to_owned(), groups, ..User::default() },
        verb: "create".to_owned(),
        group: "authentication.k8s.io".to_owned(),
        resource: "selfsubjectreviews".to_owned(),
        ..Attributes::default()
    }
}

fn admin() -> Attributes {
    request("admin", &["system:masters"])
}

fn become_user(all: &[(&str, &str)]) -> User {
    impersonator(&json!([])).impersonate(&headers(all), &admin()).unwrap().unwrap()
}

#[test]
fn superusers_can_be_anybody() {
    let bob = become_user(&[
        ("impersonate-user", "bob"),
        ("impersonate-group", "g1"),
        ("impersonate-group", "g2"),
        ("impersonate-uid", "u-1"),
        ("impersonate-extra-foo%2fbar", "v1"),
        ("impersonate-extra-foo%2fbar", "v2"),
    ]);
    assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "u-1"));
    assert_eq!(bob.groups, ["g1", "g2", "system:authenticated"]);
    assert_eq!(bob.extra["foo/bar"], ["v1", "v2"]);
    let account = become_user(&[("impersonate-user", "system:serviceaccount:auth-d:sa1")]);
    assert_eq!(
        account.groups,
        ["system:serviceaccounts", "system:serviceaccounts:auth-d", "system:authenticated"]
    );
    let node = become_user(&[("impersonate-user", "system:node:n1")]);
    assert_eq!(node.groups, ["system:nodes", "system:authenticated"]);
    let nobody = become_user(&[("impersonate-user", "system:anonymous")]);
    assert_eq!(nobody.groups, ["system:unauthenticated"]);
    let bob = become_user(&[("impersonate-user", "bob"), ("impersonate-group", "system:unauthenticated")]);
    assert_eq!(bob.groups, ["system:unauthenticated"]);
    let master = become_user(&[("impersonate-user", "bob"), ("impersonate-group", "system:masters")]);
    assert_eq!(master.groups, ["system:masters", "system:authenticated"]);
    assert_eq!(impersonator(&json!([])).impersonate(&HeaderMap::new(), &admin()).unwrap(), None);
}

#[test]
fn the_way_that_worked_is_tried_first() {
    let impersonator = impersonator(&json!([]));
    let as_user = |all: &[(&str, &str)]| impersonator.impersonate(&headers(all), &admin()).unwrap().unwrap();
    // Only the widest way takes a node with groups; after that a bare node has none.
    as_user(&[("impersonate-user", "system:node:n1"), ("impersonate-group", "system:nodes")]);
    assert_eq!(as_user(&[("impersonate-user", "system:node:n1")]).groups, ["system:authenticated"]);
}

#[test]
fn headers_without_a_user_make_no_sense() {
    let message = |all: &[(&str, &str)]| requested_user(&headers(all)).unwrap_err().message;
    assert_eq!(
        message(&[("impersonate-group", "g1"), ("impersonate-uid", "u")]),
        "requested &user.DefaultInfo{Name:\"\", UID:\"u\", Groups:[]string{\"g1\"}, \
         Extra:map[string][]string(nil)} without impersonating a user name"
    );
    assert_eq!(
        message(&[("impersonate-extra-foo", "v1")]),
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string(nil), \
         Extra:map[string][]string{\"foo\":[]string{\"v1\"}}} without impersonating a user name"
    );
}

#[test]
fn refusals_tell_about_the_first_way() {
    let nothing = impersonator(&json!([]));
    let message = |all: &[(&str, &str)]| {
        nothing.impersonate(&headers(all), &request("alice", &["devs"])).unwrap_err().message
    };
    let tail = "resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope";
    let start =
        "selfsubjectreviews.authentication.k8s.io is forbidden: User \"alice\" cannot impersonate-on:";
    assert_eq!(message(&[("impersonate-user", "bob")]), format!("{start}user-info:create {tail}"));
    assert_eq!(
        message(&[("impersonate-user", "system:serviceaccount:auth-d:sa1")]),
        format!("{start}serviceaccount:create {tail}")
    );
    assert_eq!(
        message(&[("impersonate-user", "system:node:n1")]),
        format!("{start}arbitrary-node:create {tail}")
    );
}

#[test]
fn the_right_to_users_is_not_the_right_to_groups() {
    let users = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}]);
    let impersonator = impersonator(&users);
    let alice = request("alice", &["devs"]);
    let ask = |all: &[(&str, &str)]| {
        impersonator.impersonate(&headers(all), &alice).map(Option::unwrap).map_err(|status| status.message)
    };
    assert_eq!(ask(&[("impersonate-user", "bob")]).unwrap().groups, ["system:authenticated"]);
    assert_eq!(
        ask(&[("impersonate-user", "bob"), ("impersonate-group", "g1")]).unwrap_err(),
        "groups \"g1\" is forbidden: User \"alice\" cannot impersonate resource \"groups\" in API group \"\" at the \
         cluster scope"
    );
    assert_eq!(
        ask(&[("impersonate-user", "bob"), ("impersonate-uid", "u")]).unwrap_err(),
        "uids.authentication.k8s.io \"u\" is forbidden: User \"alice\" cannot impersonate resource \"uids\" in API \
         group \"authentication.k8s.io\" at the cluster scope"
    );
    assert_eq!(
        ask(&[("impersonate-user", "bob"), ("impersonate-extra-x", "u")]).unwrap_err(),
        "userextras.authentication.k8s.io \"u\" is forbidden: User \"alice\" cannot impersonate resource \
         \"userextras/x\" in API group \"authentication.k8s.io\" at the cluster scope"
    );
}

#[test]
fn limited_ways_need_the_right_to_the_request_and_to_the_user() {
    let rules = json!([
        {
            "verbs": ["impersonate-on:user-info:create"], "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
        },
        {
            "verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"],
            "resources": ["users"], "resourceNames": ["bob"],
        },
        {
            "verbs": ["impersonate:associated-node", "impersonate-on:associated-node:create"], "apiGroups": ["*"],
            "resources": ["*"],
        },
    ]);
    let impersonator = impersonator(&rules);
    let alice = request("alice", &[]);
    let ask = |all: &[(&str, &str)]| {
        impersonator.impersonate(&headers(all), &alice).map(Option::unwrap).map_err(|status| status.message)
    };
    assert_eq!(ask(&[("impersonate-user", "bob")]).unwrap().name, "bob");
    assert_eq!(
        ask(&[("impersonate-user", "eve")]).unwrap_err(),
        "users.authentication.k8s.io \"eve\" is forbidden: User \"alice\" cannot impersonate:user-info resource \
         \"users\" in API group \"authentication.k8s.io\" at the cluster scope"
    );
    let refused = ask(&[("impersonate-user", "bob"), ("impersonate-group", "system:masters")]).unwrap_err();
    assert!(refused.ends_with(": impersonating the system:masters group is not allowed"), "{refused}");
    let refused = ask(&[("impersonate-user", "bob"), ("impersonate-extra-x", "y")]).unwrap_err();
    assert!(refused.contains("must be a domain-prefixed path"), "{refused}");
    // Only accounts are associated with nodes.
    assert!(ask(&[("impersonate-user", "system:node:n1")]).is_err());
}
