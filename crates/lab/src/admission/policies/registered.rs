//! Policies and their bindings, compiled.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::super::json::{items, text};
use super::super::matching::Constraints;
use super::conditions::Conditions;
use super::expression::{Expression, Scope, Variables, Wanted};
use crate::names::GroupResource;
use crate::reader::Reader;

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) object: Arc<Value>,
    /// Absent where the binding is about everything the policy is about.
    pub(super) constraints: Option<Constraints>,
    /// `Deny`, `Warn`, `Audit`.
    pub(super) actions: Vec<String>,
}

/// One of the validations of a policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) source: String,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

/// One of the changes a policy makes.
#[derive(Debug)]
pub(super) enum Mutation {
    Apply(Expression),
    Patch(Expression),
}

/// A policy with its bindings.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) object: Arc<Value>,
    pub(super) constraints: Constraints,
    pub(super) fails_open: bool,
    pub(super) is_reinvoked: bool,
    pub(super) variables: Variables,
    pub(super) conditions: Conditions,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Expression>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) bindings: Vec<Binding>,
}

impl Policy {
    fn compile(object: Arc<Value>, bindings: Vec<Binding>) -> Self {
        let spec = &object["spec"];
        let params = spec["paramKind"].is_object();
        let scope = Scope { params, authorizer: true, patches: false, stored: true };
        let variables = Variables::compile(&spec["variables"], scope);
        let optional = |source: &str| {
            let scope = Scope { authorizer: false, ..scope };
            (!source.is_empty()).then(|| Expression::compile(source, Wanted::Text, scope, &variables))
        };
        let validations = items(&spec["validations"])
            .map(|validation| Validation {
                expression: Expression::compile(
                    text(&validation["expression"]),
                    Wanted::Bool,
                    scope,
                    &variables,
                ),
                source: text(&validation["expression"]).to_owned(),
                message: text(&validation["message"]).to_owned(),
                message_expression: optional(text(&validation["messageExpression"])),
                reason: text(&validation["reason"]).to_owned(),
            })
            .collect();
        let annotations = items(&spec["auditAnnotations"])
            .map(|one| {
                Expression::compile(text(&one["valueExpression"]), Wanted::TextOrNull, scope, &variables)
            })
            .collect();
        let patches = Scope { patches: true, ..scope };
        let mutations = items(&spec["mutations"])
            .filter_map(|mutation| match text(&mutation["patchType"]) {
                "ApplyConfiguration" => {
                    let source = text(&mutation["applyConfiguration"]["expression"]);
                    Some(Mutation::Apply(Expression::compile(source, Wanted::Object, patches, &variables)))
                }
                "JSONPatch" => {
                    let source = text(&mutation["jsonPatch"]["expression"]);
                    Some(Mutation::Patch(Expression::compile(source, Wanted::Patches, patches, &variables)))
                }
                _ => None,
            })
            .collect();
        Self {
            name: text(&object["metadata"]["name"]).to_owned(),
            constraints: Constraints::compile(&spec["matchConstraints"]),
            fails_open: spec["failurePolicy"] == "Ignore",
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            conditions: Conditions::compile_with(&spec["matchConditions"], params, &variables),
            validations,
            annotations,
            mutations,
            bindings,
            variables,
            object,
        }
    }
}

/// The policies of a server, compiled anew only when one of them or a binding changes.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    validating: Mutex<Known>,
    mutating: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    of: Option<(u64, u64)>,
    policies: Arc<Vec<Policy>>,
}

impl Policies {
    pub(super) fn validating(&self, reader: &dyn Reader) -> Arc<Vec<Policy>> {
        let names = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        self.validating.lock().current(reader, names)
    }

    /// True when there are policies that change objects.
    pub(in super::super) fn any_mutating(&self, reader: &dyn Reader) -> bool {
        !self.mutating(reader).is_empty()
    }

    pub(super) fn mutating(&self, reader: &dyn Reader) -> Arc<Vec<Policy>> {
        let names = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
        self.mutating.lock().current(reader, names)
    }
}

impl Known {
    fn current(&mut self, reader: &dyn Reader, names: (&str, &str)) -> Arc<Vec<Policy>> {
        let of = |name: &str| GroupResource::new("admissionregistration.k8s.io", name);
        let (policies, bindings) = (of(names.0), of(names.1));
        let revision = (reader.revision(&policies), reader.revision(&bindings));
        if self.of != Some(revision) {
            self.policies = Arc::new(compile(reader, &policies, &bindings));
            self.of = Some(revision);
        }
        Arc::clone(&self.policies)
    }
}

/// All policies that are bound, by name, with their bindings by name.
fn compile(reader: &dyn Reader, policies: &GroupResource, bindings: &GroupResource) -> Vec<Policy> {
    let by_name = |list: &mut Vec<Arc<Value>>| {
        list.sort_by(|one, other| text(&one["metadata"]["name"]).cmp(text(&other["metadata"]["name"])));
    };
    let mut policies = reader.list(policies, None);
    let mut bindings = reader.list(bindings, None);
    by_name(&mut policies);
    by_name(&mut bindings);
    let mut compiled = Vec::new();
    for policy in policies {
        let mine: Vec<Binding> = bindings
            .iter()
            .filter(|binding| binding["spec"]["policyName"] == policy["metadata"]["name"])
            .map(|binding| {
                let constraints = &binding["spec"]["matchResources"];
                Binding {
                    name: text(&binding["metadata"]["name"]).to_owned(),
                    object: Arc::clone(binding),
                    constraints: constraints.is_object().then(|| Constraints::compile(constraints)),
                    actions: items(&binding["spec"]["validationActions"])
                        .map(|one| text(one).to_owned())
                        .collect(),
                }
            })
            .collect();
        if !mine.is_empty() {
            compiled.push(Policy::compile(policy, mine));
        }
    }
    compiled
}
