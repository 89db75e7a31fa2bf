//! Mutating admission policies.

use std::sync::Arc;

use serde_json::Value;

use super::super::chain::Admission;
use super::super::json::text;
use super::super::matching::{self, Matched};
use super::super::review::{Operation, Review};
use super::conditions::{Outcome, Subject};
use super::expression::{Evaluation, Failure};
use super::registered::{Binding, Mutation, Policy};
use super::{BUDGET, is_exempt, namespace_of, params};
use crate::status::{Cause, Status, interned};

/// What policies did so far, for applying some of them again.
#[derive(Debug, Default)]
pub(in super::super) struct Applied {
    last: Option<Value>,
    seen: Vec<String>,
    again: Vec<String>,
}

/// One policy with one binding and one parameter.
struct Invocation<'a> {
    policy: &'a Policy,
    binding: &'a Binding,
    matched: Matched,
    param: Option<Arc<Value>>,
}

/// Something that went wrong with a policy.
struct Trouble<'a> {
    policy: &'a Policy,
    binding: Option<&'a Binding>,
    message: String,
    reason: &'static str,
}

/// Why a policy could not change an object.
enum Stop {
    /// The policy is to blame.
    Policy(String),
    /// The request fails as a whole.
    Request(Status),
}

/// Lets the policies change the object. Gives back whether one did.
pub(in super::super) fn mutate(
    admission: &Admission,
    review: &mut Review<'_>,
    applied: &mut Applied,
    is_second_round: bool,
) -> Result<bool, Status> {
    if is_exempt(review) || matching::is_virtual(review) || review.operation == Operation::Delete {
        return Ok(false);
    }
    let policies = admission.policies().mutating(admission.reader());
    if policies.is_empty() {
        return Ok(false);
    }
    let mut troubles = Vec::new();
    let invocations = invocations(admission, &policies, review, &mut troubles);
    let mut changed = false;
    if !invocations.is_empty() {
        if is_second_round && applied.last != review.object {
            applied.again.append(&mut applied.seen);
        }
        let namespace = namespace_of(review, admission.reader())?;
        for invocation in &invocations {
            changed |= apply(
                admission,
                invocation,
                review,
                namespace.as_ref(),
                applied,
                is_second_round,
                &mut troubles,
            )?;
        }
        applied.last.clone_from(&review.object);
    }
    troubles.retain(|trouble| !trouble.policy.fails_open);
    if troubles.is_empty() { Ok(changed) } else { Err(refused(review, &troubles)) }
}

fn refused(review: &Review<'_>, troubles: &[Trouble<'_>]) -> Status {
    let mut status = review.forbidden("admission request denied by policy");
    status.message.clear();
    for trouble in troubles {
        let name = &trouble.policy.name;
        let message = match trouble.binding {
            Some(binding) => {
                format!("policy '{name}' with binding '{}' denied request: {}", binding.name, trouble.message)
            }
            None => format!("policy {name:?} denied request: {}", trouble.message),
        };
        if status.message.is_empty() {
            status.message.clone_from(&message);
            if !trouble.reason.is_empty() {
                status.reason = interned(trouble.reason);
            }
        }
        status.details.causes.push(Cause { reason: "", message, field: String::new() });
    }
    status
}

fn invocations<'a>(
    admission: &Admission,
    policies: &'a [Policy],
    review: &Review<'_>,
    troubles: &mut Vec<Trouble<'a>>,
) -> Vec<Invocation<'a>> {
    let (reader, kinds) = (admission.reader(), admission.kinds());
    let mut found = Vec::new();
    for policy in policies {
        let mut misconfigured = |binding: Option<&'a Binding>, why: &str| {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {what}: {why}");
            troubles.push(Trouble { policy, binding, message, reason: "" });
        };
        let matched = match policy.constraints.matches(review, reader, kinds) {
            Ok(Some(matched)) => matched,
            Ok(None) => continue,
            Err(why) => {
                misconfigured(None, &why);
                continue;
            }
        };
        let source = match params::source(&policy.object, kinds) {
            Ok(source) => source,
            Err(why) => {
                misconfigured(None, &why);
                continue;
            }
        };
        for binding in &policy.bindings {
            let is_bound = binding.constraints.as_ref().map_or(Ok(true), |constraints| {
                constraints.matches(review, reader, kinds).map(|matched| matched.is_some())
            });
            let params = match is_bound {
                Ok(false) => continue,
                Ok(true) => {
                    params::collect(&policy.object, source.as_ref(), &binding.object, review, reader, kinds)
                }
                Err(why) => Err(why),
            };
            match params {
                Ok(params) => found.extend(params.into_iter().map(|param| Invocation {
                    policy,
                    binding,
                    matched: matched.clone(),
                    param,
                })),
                Err(why) => misconfigured(Some(binding), &why),
            }
        }
    }
    found
}

/// Applies one policy. Gives back whether it changed the object.
fn apply<'a>(
    admission: &Admission,
    invocation: &Invocation<'a>,
    review: &mut Review<'_>,
    namespace: Option<&Arc<Value>>,
    applied: &mut Applied,
    is_second_round: bool,
    troubles: &mut Vec<Trouble<'a>>,
) -> Result<bool, Status> {
    let Invocation { policy, binding, matched, param } = invocation;
    let kinds = admission.kinds();
    let trouble = |message: String| Trouble { policy, binding: Some(*binding), message, reason: "Invalid" };
    if !policy.conditions.is_empty() {
        let subject = Subject::of(review, matched, kinds)?;
        match policy.conditions.evaluate(&subject, param.as_deref(), Some(&policy.variables), admission) {
            Outcome::Met => {}
            Outcome::NotMet => return Ok(false),
            Outcome::Failed(_) if policy.fails_open => return Ok(false),
            Outcome::Failed(why) => {
                troubles.push(trouble(why));
                return Ok(false);
            }
        }
    }
    let name = param.as_ref().map(|param| text(&param["metadata"]["name"])).unwrap_or_default();
    let place = param.as_ref().map(|param| text(&param["metadata"]["namespace"])).unwrap_or_default();
    let key = format!("{}/{}/{place}/{name}", policy.name, binding.name);
    if is_second_round && !applied.again.contains(&key) {
        return Ok(false);
    }
    let before = review.object.clone();
    for mutation in &policy.mutations {
        if review.object.is_none() {
            continue;
        }
        match mutated(admission, invocation, mutation, review, namespace) {
            Ok(object) => review.object = Some(object),
            Err(Stop::Policy(why)) => troubles.push(trouble(why)),
            Err(Stop::Request(status)) => return Err(status),
        }
    }
    let changed = before != review.object;
    if changed {
        applied.again.append(&mut applied.seen);
    }
    if policy.is_reinvoked {
        applied.seen.push(key);
    }
    Ok(changed)
}

/// The object after one mutation.
fn mutated(
    admission: &Admission,
    invocation: &Invocation<'_>,
    mutation: &Mutation,
    review: &Review<'_>,
    namespace: Option<&Arc<Value>>,
) -> Result<Value, Stop> {
    let Invocation { policy, matched, param, .. } = invocation;
    let kinds = admission.kinds();
    let subject = Subject::of(review, matched, kinds).map_err(Stop::Request)?;
    let evaluation = Evaluation::new(&subject, &policy.variables, BUDGET)
        .with_params(param.as_deref())
        .with_namespace(namespace.map(|namespace| &**namespace))
        .with_authorizer(admission.shared_authorizer());
    let told = |failure: Failure| match failure {
        Failure::Evaluation(why) | Failure::OutOfBudget(why) => Stop::Policy(why),
    };
    let object = match mutation {
        Mutation::Apply(expression) => {
            let value = expression.evaluate(&evaluation).map_err(told)?;
            let mut configuration = value.to_apply_configuration().map_err(Stop::Policy)?;
            configuration["apiVersion"] = matched.kind.api_version().into();
            configuration["kind"] = matched.kind.kind.as_str().into();
            let merged = kinds
                .merge(&matched.kind, &subject.object, &configuration)
                .map_err(|why| Stop::Policy(format!("error applying patch: {why}")))?;
            kinds.decode(&matched.kind, merged)
        }
        Mutation::Patch(expression) => {
            let value = expression.evaluate(&evaluation).map_err(told)?;
            let patch = value.to_json_patch().map_err(Stop::Policy)?;
            match kinds.patch(&subject.object, &patch) {
                Ok(object) => kinds.decode_strictly(&matched.kind, object),
                // A test that fails means that there is nothing to do.
                Err(failure) if failure.by_test => return Ok(current(review)),
                Err(failure) => return Err(Stop::Policy(format!("JSON Patch: {}", failure.message))),
            }
        }
    };
    let object = object.map_err(Stop::Request)?;
    if matched.kind == *review.kind {
        return Ok(object);
    }
    kinds.convert(&object, review.kind).map_err(Stop::Request)
}

fn current(review: &Review<'_>) -> Value {
    review.object.clone().unwrap_or(Value::Null)
}
