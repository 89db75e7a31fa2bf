//! One rule of a role, and what it allows.

use serde_json::{Map, Value};

use crate::attributes::Attributes;
use crate::auth::words::quoted_list;

/// What a rule of a role allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The verbs; `*` is every verb.
    pub verbs: Vec<String>,
    /// The groups; `*` is every group.
    pub api_groups: Vec<String>,
    /// Resources and subresources: `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// The names of the objects; none means every one.
    pub resource_names: Vec<String>,
    /// Paths that are no resources; a `*` at the end stands for anything.
    pub non_resource_urls: Vec<String>,
}

/// What is asked for: a resource or a path. A review can ask for a resource without a name, so the attributes
/// alone do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::auth) enum Target {
    Resource,
    Path,
}

impl Target {
    pub(in crate::auth) fn of(attributes: &Attributes) -> Self {
        if attributes.is_resource() { Self::Resource } else { Self::Path }
    }
}

impl Rule {
    /// A rule as it is written in a role. Whatever is not of the right type is taken for missing.
    pub fn read(rule: &Value) -> Self {
        Self {
            verbs: texts(&rule["verbs"]),
            api_groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            resource_names: texts(&rule["resourceNames"]),
            non_resource_urls: texts(&rule["nonResourceURLs"]),
        }
    }

    /// The rules of a role.
    pub fn read_all(role: &Value) -> Vec<Self> {
        role["rules"].as_array().into_iter().flatten().map(Self::read).collect()
    }

    /// The rule as roles have it.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("verbs".to_owned(), self.verbs.clone().into());
        let parts = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        for (name, values) in parts {
            if !values.is_empty() {
                fields.insert(name.to_owned(), values.clone().into());
            }
        }
        fields.into()
    }

    /// True when the rule allows what is asked for.
    pub(in crate::auth) fn allows(&self, attributes: &Attributes, target: Target) -> bool {
        if !self.verbs.iter().any(|verb| verb == "*" || *verb == attributes.verb) {
            return false;
        }
        match target {
            Target::Resource => {
                self.api_groups.iter().any(|group| group == "*" || *group == attributes.group)
                    && self
                        .resources
                        .iter()
                        .any(|rule| covers_resource(rule, &attributes.resource, &attributes.subresource))
                    && (self.resource_names.is_empty() || self.resource_names.contains(&attributes.name))
            }
            Target::Path => self.non_resource_urls.iter().any(|url| covers_path(url, &attributes.path)),
        }
    }

    /// The rule in the words of messages about permissions that are not held.
    fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{}", quoted_list(values)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }

    /// The rule as rules with one verb, one resource and at most one name each.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let atom = Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        atoms.push(atom);
                    } else {
                        let named = self
                            .resource_names
                            .iter()
                            .map(|name| Self { resource_names: one(name), ..atom.clone() });
                        atoms.extend(named);
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                atoms.push(Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() });
            }
        }
        atoms
    }

    /// True when whoever has this rule may do all that an atom allows.
    fn covers(&self, atom: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| {
            own.iter().any(|one| one == "*") || wanted.iter().all(|one| own.contains(one))
        };
        let resource = |wanted: &String| {
            self.resources.contains(wanted)
                || wanted.split_once('/').is_some_and(|(_, subresource)| {
                    self.resources.iter().any(|own| own.strip_prefix("*/") == Some(subresource))
                })
        };
        let names = if atom.resource_names.is_empty() {
            self.resource_names.is_empty()
        } else {
            self.resource_names.is_empty()
                || atom.resource_names.iter().all(|name| self.resource_names.contains(name))
        };
        names
            && all(&self.verbs, &atom.verbs)
            && all(&self.api_groups, &atom.api_groups)
            && (self.resources.iter().any(|own| own == "*") || atom.resources.iter().all(resource))
            && atom
                .non_resource_urls
                .iter()
                .all(|path| self.non_resource_urls.iter().any(|own| own == path || covers_prefix(own, path)))
    }
}

/// What of `wanted` is not covered by `held`, one line per resource, sorted; empty when everything is.
pub(super) fn not_covered(held: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let mut missing: Vec<Rule> = Vec::new();
    for atom in wanted.iter().flat_map(Rule::atoms) {
        if held.iter().any(|rule| rule.covers(&atom)) {
            continue;
        }
        // Rules for one resource are told as one, with all verbs.
        let same = |known: &&mut Rule| {
            atom.non_resource_urls.is_empty()
                && known.api_groups == atom.api_groups
                && known.resources == atom.resources
                && known.resource_names == atom.resource_names
                && known.non_resource_urls.is_empty()
        };
        match missing.iter_mut().find(same) {
            Some(known) => known.verbs.extend(atom.verbs),
            None => missing.push(atom),
        }
    }
    let mut lines: Vec<String> = missing.iter().map(Rule::compact).collect();
    lines.sort();
    lines.dedup();
    lines
}

fn covers_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let of_all = rule.strip_prefix("*/") == Some(subresource);
    of_all || rule.strip_prefix(resource).and_then(|rest| rest.strip_prefix('/')) == Some(subresource)
}

fn covers_path(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || covers_prefix(rule, path)
}

fn covers_prefix(rule: &str, path: &str) -> bool {
    rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*'))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(verb: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        }
    }

    #[test]
    fn resources_subresources_and_names_are_matched() {
        let allows = |resources: &[&str], names: &[&str], wanted: &Attributes| {
            let rule = Rule::read(&json!({
                "verbs": ["get"], "apiGroups": [""], "resources": resources, "resourceNames": names,
            }));
            rule.allows(wanted, Target::Resource)
        };
        assert!(allows(&["pods"], &[], &resource("get", "pods", "", "")));
        assert!(!allows(&["pods"], &[], &resource("get", "pods", "log", "x")));
        assert!(allows(&["pods/log"], &[], &resource("get", "pods", "log", "x")));
        assert!(!allows(&["pods/log"], &[], &resource("get", "pods", "", "x")));
        assert!(allows(&["*/log"], &[], &resource("get", "pods", "log", "x")));
        assert!(!allows(&["*/log"], &[], &resource("get", "pods", "", "x")));
        assert!(!allows(&["pods/*"], &[], &resource("get", "pods", "log", "x")));
        assert!(allows(&["*"], &[], &resource("get", "pods", "log", "x")));
        assert!(allows(&["pods"], &["x"], &resource("get", "pods", "", "x")));
        assert!(!allows(&["pods"], &["x"], &resource("get", "pods", "", "")));
        assert!(!allows(&["pods"], &[], &resource("list", "pods", "", "")));
    }

    #[test]
    fn paths_are_matched_with_a_star_at_the_end() {
        let allows = |url: &str, path: &str| {
            let attributes =
                Attributes { verb: "get".to_owned(), path: path.to_owned(), ..Attributes::default() };
            Rule::read(&json!({"verbs": ["get"], "nonResourceURLs": [url]})).allows(&attributes, Target::Path)
        };
        assert!(allows("/api/*", "/api/v1") && allows("*", "/x") && allows("/version", "/version"));
        assert!(!allows("/api/*", "/api") && !allows("/version", "/version/"));
    }

    #[test]
    fn what_is_not_held_is_told_per_resource() {
        let held =
            [Rule::read(&json!({"verbs": ["*"], "apiGroups": [""], "resources": ["*/scale", "pods"]}))];
        let wanted = [
            Rule::read(
                &json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets", "pods"]}),
            ),
            Rule::read(&json!({"verbs": ["get"], "apiGroups": [""], "resources": ["things/scale"]})),
            Rule::read(&json!({"verbs": ["get"], "nonResourceURLs": ["/a", "/b"]})),
        ];
        assert_eq!(
            not_covered(&held, &wanted),
            [
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
                r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#,
            ]
        );
    }
}
