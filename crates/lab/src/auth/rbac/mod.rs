//! Who may do what: the superusers, the nodes and RBAC, one after the other as the real server asks them.

mod aggregate;
mod escalation;
mod forbidden;
mod node;
mod rule;
mod scope;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

pub use aggregate::aggregate;
pub use forbidden::forbidden;
pub use rule::Rule;
pub(in crate::auth) use rule::Target;

use super::words::aggregated;
use crate::attributes::{Attributes, User};
use crate::reader::Reader;
use crate::status::Status;
use scope::Scope;

/// The group whose members may do everything.
pub(super) const SUPERUSERS: &str = "system:masters";
/// How many namespaces are kept compiled before those that are out of date are dropped.
const KEPT: usize = 1024;

/// Whether something may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not; with what could be wrong, often nothing.
    Deny(String),
}

/// A decision with its reason, as reviews tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// True when it may be done.
    pub allowed: bool,
    /// Why, or why not; often nothing.
    pub reason: String,
}

/// Everything a user may do in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserRules {
    /// The rules, those of the cluster first.
    pub rules: Vec<Rule>,
    /// True when the user may do more than the rules say.
    pub incomplete: bool,
    /// What went wrong while they were collected; empty for nothing.
    pub problem: String,
}

/// Decides who may do what by the stored roles and bindings.
pub struct Authorizer {
    reader: Arc<dyn Reader>,
    /// Compiled roles and bindings by namespace; those of the cluster under the empty name.
    scopes: RwLock<HashMap<String, Arc<Scope>>>,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Authorizer").finish_non_exhaustive()
    }
}

impl Authorizer {
    /// An authorizer that looks at these objects.
    pub fn new(reader: Arc<dyn Reader>) -> Self {
        Self { reader, scopes: RwLock::default() }
    }

    /// Decides about a request.
    pub fn authorize(&self, attributes: &Attributes) -> Decision {
        match self.decide(attributes, Target::of(attributes), false) {
            Verdict { allowed: true, .. } => Decision::Allow,
            Verdict { reason, .. } => Decision::Deny(reason),
        }
    }

    /// Lets a request pass or refuses it with a 403.
    pub fn check(&self, attributes: &Attributes) -> Result<(), Status> {
        match self.authorize(attributes) {
            Decision::Allow => Ok(()),
            Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
        }
    }

    /// Decides and says why, as reviews do.
    pub fn explain(&self, attributes: &Attributes) -> Verdict {
        self.decide(attributes, Target::of(attributes), true)
    }

    /// The decision; a reason for something that is allowed is looked for only when it is asked for.
    pub(super) fn decide(&self, attributes: &Attributes, target: Target, explained: bool) -> Verdict {
        let allowed = |reason: String| Verdict { allowed: true, reason };
        let user = &attributes.user;
        if user.groups.iter().any(|group| group == SUPERUSERS) {
            return allowed(String::new());
        }
        let mut reasons = Vec::new();
        if let Some(name) = node::identity(user) {
            match node::authorize(self.reader.as_ref(), name, attributes, target) {
                Ok(()) => return allowed(String::new()),
                Err(reason) if reason.is_empty() => {}
                Err(reason) => reasons.push(format!("node: {reason}")),
            }
        }
        let cluster = self.scope("");
        let local = (!attributes.namespace.is_empty()).then(|| self.scope(&attributes.namespace));
        let scopes = || std::iter::once(&cluster).chain(&local);
        if scopes().any(|scope| scope.allows(&cluster, attributes, target)) {
            if !explained {
                return allowed(String::new());
            }
            let grants = scopes().flat_map(|scope| scope.applying(&cluster, user)).find(|(_, rules)| {
                rules.as_ref().is_ok_and(|rules| rules.iter().any(|rule| rule.allows(attributes, target)))
            });
            let source = grants.map_or_else(String::new, |(binding, _)| binding.describe(user));
            return allowed(format!("RBAC: allowed by {source}"));
        }
        let problems: Vec<String> = scopes()
            .flat_map(|scope| scope.applying(&cluster, user))
            .filter_map(|(_, rules)| rules.err())
            .map(|missing| missing.in_words())
            .collect();
        if !problems.is_empty() {
            reasons.push(format!("rbac: RBAC: {}", aggregated(&problems)));
        }
        Verdict { allowed: false, reason: reasons.join("\n") }
    }

    /// Everything a user may do in a namespace.
    pub fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        let (rules, missing) = self.held(user, namespace);
        let mut problems: Vec<String> = missing.iter().map(scope::Missing::in_words).collect();
        let is_node = node::identity(user).is_some();
        if is_node {
            problems.insert(0, "node authorizer does not support user rule resolution".to_owned());
        }
        let problem = if problems.is_empty() { String::new() } else { aggregated(&problems) };
        UserRules { rules, incomplete: is_node, problem }
    }

    /// The rules RBAC gives a user, and the roles that are missing.
    fn held(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<scope::Missing>) {
        let cluster = self.scope("");
        let local = (!namespace.is_empty()).then(|| self.scope(namespace));
        let (mut held, mut problems) = (Vec::new(), Vec::new());
        for scope in std::iter::once(&cluster).chain(&local) {
            for (_, rules) in scope.applying(&cluster, user) {
                match rules {
                    Ok(rules) => held.extend(rules.iter().cloned()),
                    Err(missing) => problems.push(missing),
                }
            }
        }
        (held, problems)
    }

    /// The compiled roles and bindings of a namespace, or of the cluster, as of now.
    fn scope(&self, namespace: &str) -> Arc<Scope> {
        let reader = self.reader.as_ref();
        let known = self.scopes.read().get(namespace).map(Arc::clone);
        if let Some(scope) = known.filter(|scope| scope.is_current(reader, namespace)) {
            return scope;
        }
        let scope = Arc::new(Scope::compile(reader, namespace));
        let mut scopes = self.scopes.write();
        if scopes.len() >= KEPT {
            scopes.retain(|place, scope| scope.is_current(reader, place));
            if scopes.len() >= 8 * KEPT {
                scopes.clear();
            }
        }
        scopes.insert(namespace.to_owned(), Arc::clone(&scope));
        scope
    }
}

#[cfg(test)]
mod tests;
