//! Roles and their bindings.

use serde_json::Value;

use super::{Check, own_metadata};
use crate::kinds::view::{Look, Path, Problems, same};
use crate::kinds::{format, meta};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    own_metadata(check, object, problems);
    let namespaced = check.facts.namespaced;
    match check.facts.kind {
        "Role" => rules(object, namespaced, problems),
        "ClusterRole" => {
            rules(object, namespaced, problems);
            aggregation(object.at("aggregationRule"), problems);
        }
        _ => {
            let changed = old.is_some_and(|old| !same(old.at("roleRef"), object.at("roleRef")));
            binding(object, namespaced, changed, problems);
            if let Some(old) = old {
                let at = Path::root("roleRef");
                problems.immutable_of(&at, "rbac.RoleRef", object.at("roleRef"), old.at("roleRef"));
            }
        }
    }
}

fn rules(role: &Value, namespaced: bool, problems: &mut Problems) {
    let list = Path::root("rules");
    for (place, rule) in role.list("rules").iter().enumerate() {
        let at = list.index(place);
        if rule.list("verbs").is_empty() {
            problems.declared(|problems| problems.required(&at.child("verbs"), ""));
        }
        let none = |field: &str| rule.list(field).is_empty();
        if none("nonResourceURLs") {
            if none("apiGroups") {
                problems
                    .required(&at.child("apiGroups"), "resource rules must supply at least one api group");
            }
            if none("resources") {
                problems.required(&at.child("resources"), "resource rules must supply at least one resource");
            }
            continue;
        }
        let (urls, here) = (rule.at("nonResourceURLs"), at.child("nonResourceURLs"));
        if namespaced {
            problems.invalid(&here, urls.clone(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !(none("apiGroups") && none("resources") && none("resourceNames")) {
            problems.invalid(
                &here,
                urls.clone(),
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
    }
}

fn aggregation(rule: &Value, problems: &mut Problems) {
    if rule.is_null() {
        return;
    }
    let at = Path::root("aggregationRule");
    let list = at.child("clusterRoleSelectors");
    let selectors = rule.list("clusterRoleSelectors");
    if selectors.is_empty() {
        problems.required(&list, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (place, selector) in selectors.iter().enumerate() {
        meta::label_selector(selector, &list.index(place), problems);
        if meta::selects(selector, &Value::Null).is_none() {
            problems.invalid(&list.index(place), Value::Null, "invalid label selector.");
        }
    }
}

fn binding(binding: &Value, namespaced: bool, changed: bool, problems: &mut Problems) {
    let (role, at) = (binding.at("roleRef"), Path::root("roleRef"));
    problems.one_of(&at.child("apiGroup"), role.text("apiGroup"), &[GROUP]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    problems.one_of(&at.child("kind"), role.text("kind"), kinds);
    let name = role.text("name");
    if !name.is_empty() {
        problems.form(&at.child("name"), name, format::path_segment);
    } else if changed {
        problems.required(&at.child("name"), "");
    }
    let list = Path::root("subjects");
    for (place, subject) in binding.list("subjects").iter().enumerate() {
        let at = list.index(place);
        problems.declared(|problems| problems.need(&at, subject, "name"));
        let (name, group) = (subject.text("name"), subject.text("apiGroup"));
        match subject.text("kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    problems.form(&at.child("name"), name, format::dns1123_subdomain);
                }
                problems.one_of(&at.child("apiGroup"), group, &[""]);
                if !namespaced {
                    problems.need(&at, subject, "namespace");
                }
            }
            "User" | "Group" => problems.one_of(&at.child("apiGroup"), group, &[GROUP]),
            other => {
                problems.unsupported(&at.child("kind"), other, &["ServiceAccount", "User", "Group"]);
            }
        }
    }
    if !changed {
        problems.declared(|problems| problems.need(&at, role, "name"));
    }
}
