//! Nobody gives away what they do not have.

use serde_json::Value;

use super::rule::{Rule, not_covered};
use super::scope::{GROUP, Missing};
use super::{Authorizer, SUPERUSERS, Target};
use crate::attributes::Attributes;
use crate::auth::words::{aggregated, quoted, quoted_list};
use crate::status::Status;

impl Authorizer {
    /// Refuses to create or change a role or binding that would give somebody more than the user has.
    ///
    /// `attributes` is the request, `object` what would be stored, `old` what is stored so far. Whatever is
    /// not about roles and bindings passes.
    pub fn check_escalation(
        &self,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if attributes.group != GROUP
            || attributes.user.groups.iter().any(|group| group == SUPERUSERS)
            || old.is_some_and(|old| only_for_the_garbage_collector(object, old))
        {
            return Ok(());
        }
        match attributes.resource.as_str() {
            "roles" | "clusterroles" => self.check_role(attributes, object, old),
            "rolebindings" | "clusterrolebindings" => self.check_binding(attributes, object),
            _ => Ok(()),
        }
    }

    fn check_role(&self, attributes: &Attributes, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        let escalate = Attributes {
            verb: "escalate".to_owned(),
            version: "*".to_owned(),
            subresource: String::new(),
            ..attributes.clone()
        };
        if self.decide(&escalate, Target::Resource, false).allowed {
            return Ok(());
        }
        self.confirm(attributes, object, &Rule::read_all(object))?;
        // A role that gathers others can become anything.
        let gathers = |role: &Value| {
            let selectors = &role["aggregationRule"]["clusterRoleSelectors"];
            selectors.as_array().is_some_and(|selectors| !selectors.is_empty())
        };
        if attributes.resource == "clusterroles" && (gathers(object) || old.is_some_and(gathers)) {
            let everything = || vec!["*".to_owned()];
            let full = [
                Rule {
                    verbs: everything(),
                    api_groups: everything(),
                    resources: everything(),
                    ..Rule::default()
                },
                Rule { verbs: everything(), non_resource_urls: everything(), ..Rule::default() },
            ];
            let (held, _) = self.held(&attributes.user, &attributes.namespace);
            if !not_covered(&held, &full).is_empty() {
                let words = "must have cluster-admin privileges to use the aggregationRule";
                return Err(Status::forbidden(GROUP, &attributes.resource, name(object), words));
            }
        }
        Ok(())
    }

    fn check_binding(&self, attributes: &Attributes, object: &Value) -> Result<(), Status> {
        let reference = &object["roleRef"];
        let kind = reference["kind"].as_str().unwrap_or_default();
        let role = reference["name"].as_str().unwrap_or_default();
        let resource = match kind {
            "ClusterRole" => Some("clusterroles"),
            "Role" => Some("roles"),
            _ => None,
        };
        if let Some(resource) = resource {
            let bind = Attributes {
                user: attributes.user.clone(),
                verb: "bind".to_owned(),
                group: reference["apiGroup"].as_str().unwrap_or_default().to_owned(),
                version: "*".to_owned(),
                resource: resource.to_owned(),
                namespace: attributes.namespace.clone(),
                name: role.to_owned(),
                ..Attributes::default()
            };
            if self.decide(&bind, Target::Resource, false).allowed {
                return Ok(());
            }
        }
        let cluster = self.scope("");
        let local = self.scope(&attributes.namespace);
        let rules = local.referenced(&cluster, &attributes.namespace, kind, role).map_err(|missing| {
            match missing.name() {
                // The real server looks the role up in the course of this request and takes its resource for
                // the one that is missing.
                Some(name) => Status::not_found(GROUP, &attributes.resource, name),
                None => Status::new(500, "", missing.in_words()),
            }
        })?;
        self.confirm(attributes, object, rules)
    }

    fn confirm(&self, attributes: &Attributes, object: &Value, wanted: &[Rule]) -> Result<(), Status> {
        let (held, problems) = self.held(&attributes.user, &attributes.namespace);
        let missing = not_covered(&held, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let user = &attributes.user;
        let mut words = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quoted(&user.name),
            quoted_list(&user.groups),
            missing.join("\n")
        );
        if !problems.is_empty() {
            let told = |missing: &Missing| match missing.name() {
                Some(name) => format!("{}.{GROUP} {} not found", attributes.resource, quoted(name)),
                None => missing.in_words(),
            };
            let problems: Vec<String> = problems.iter().map(told).collect();
            words = format!("{words}; resolution errors: [{}]", aggregated(&problems));
        }
        Err(Status::forbidden(GROUP, &attributes.resource, name(object), &words))
    }
}

/// True when an update touches only what the garbage collector works with.
fn only_for_the_garbage_collector(object: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(object) == rest(old)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
