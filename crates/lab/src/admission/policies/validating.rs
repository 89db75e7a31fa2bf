//! Validating admission policies.

use std::sync::Arc;

use serde_json::Value;

use super::super::chain::Admission;
use super::super::matching::{self, Matched};
use super::super::review::Review;
use super::super::{Warnings, warn};
use super::conditions::{Outcome, Subject};
use super::expression::{Evaluation, Failure};
use super::registered::{Binding, Policy, Validation};
use super::{BUDGET, is_exempt, namespace_of, params};
use crate::status::{Cause, Status, interned};

/// The longest message an expression may make.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A refusal in the making: who, and why.
struct Denial {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: String,
}

/// What one validation says.
struct Decision {
    denied: bool,
    message: String,
    reason: String,
}

/// Asks all policies; the first that denies decides what is said.
pub(in super::super) fn validate(
    admission: &Admission,
    review: &Review<'_>,
    warnings: &mut Warnings,
) -> Result<(), Status> {
    if is_exempt(review) || matching::is_virtual(review) {
        return Ok(());
    }
    let mut denials = Vec::new();
    for policy in admission.policies().validating(admission.reader()).iter() {
        ask(admission, policy, review, &mut denials, warnings)?;
    }
    match denials.into_iter().next() {
        None => Ok(()),
        Some(denial) => Err(refused(review, &denial)),
    }
}

fn refused(review: &Review<'_>, denial: &Denial) -> Status {
    let Denial { policy, binding, message, reason } = denial;
    let by = binding.as_ref().map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{policy}'{by} denied request: {message}");
    let mut status = review.forbidden(&message);
    status.reason = interned(if reason.is_empty() { "Invalid" } else { reason });
    status.code = match reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status.details.causes.push(Cause { reason: "", message, field: String::new() });
    status
}

fn ask(
    admission: &Admission,
    policy: &Policy,
    review: &Review<'_>,
    denials: &mut Vec<Denial>,
    warnings: &mut Warnings,
) -> Result<(), Status> {
    let (reader, kinds) = (admission.reader(), admission.kinds());
    // Failures of the configuration deny, unless the policy says that they do not matter.
    let mut misconfigured = |binding: Option<&Binding>, why: &str| {
        if !policy.fails_open {
            let what = if binding.is_some() { "binding" } else { "policy" };
            denials.push(Denial {
                policy: policy.name.clone(),
                binding: binding.map(|binding| binding.name.clone()),
                message: format!("failed to configure {what}: {why}"),
                reason: String::new(),
            });
        }
    };
    let matched = match policy.constraints.matches(review, reader, kinds) {
        Ok(Some(matched)) => matched,
        Ok(None) => return Ok(()),
        Err(why) => {
            misconfigured(None, &why);
            return Ok(());
        }
    };
    let source = match params::source(&policy.object, kinds) {
        Ok(source) => source,
        Err(why) => {
            misconfigured(None, &why);
            return Ok(());
        }
    };
    let mut found = Vec::new();
    for binding in &policy.bindings {
        match binding.constraints.as_ref().map_or(Ok(true), |constraints| {
            constraints.matches(review, reader, kinds).map(|matched| matched.is_some())
        }) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                misconfigured(Some(binding), &why);
                continue;
            }
        }
        match params::collect(&policy.object, source.as_ref(), &binding.object, review, reader, kinds) {
            Ok(params) => found.push((binding, params)),
            Err(why) => misconfigured(Some(binding), &why),
        }
    }
    for (binding, params) in found {
        let namespace = namespace_of(review, reader)?;
        for param in params {
            let decisions = decide(admission, policy, &matched, review, namespace.as_ref(), param.as_ref())?;
            for decision in decisions.into_iter().filter(|decision| decision.denied) {
                if binding.actions.iter().any(|action| action == "Warn") {
                    warn(
                        warnings,
                        format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.name, binding.name, decision.message
                        ),
                    );
                }
                if binding.actions.iter().any(|action| action == "Deny") {
                    denials.push(Denial {
                        policy: policy.name.clone(),
                        binding: Some(binding.name.clone()),
                        message: decision.message,
                        reason: decision.reason,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Evaluates the validations of a policy for one parameter.
fn decide(
    admission: &Admission,
    policy: &Policy,
    matched: &Matched,
    review: &Review<'_>,
    namespace: Option<&Arc<Value>>,
    param: Option<&Arc<Value>>,
) -> Result<Vec<Decision>, Status> {
    let failed = |message: String| Decision { denied: !policy.fails_open, message, reason: String::new() };
    let subject = Subject::of(review, matched, admission.kinds())?;
    if !policy.conditions.is_empty() {
        match policy.conditions.evaluate(
            &subject,
            param.map(|param| &**param),
            Some(&policy.variables),
            admission,
        ) {
            Outcome::Met => {}
            Outcome::NotMet => return Ok(Vec::new()),
            // Ignored failures of conditions mean that the policy is not asked.
            Outcome::Failed(_) if policy.fails_open => return Ok(Vec::new()),
            Outcome::Failed(why) => return Ok(vec![failed(why)]),
        }
    }
    let evaluation = Evaluation::new(&subject, &policy.variables, BUDGET)
        .with_params(param.map(|param| &**param))
        .with_namespace(namespace.map(|namespace| &**namespace))
        .with_authorizer(admission.shared_authorizer());
    let mut decisions = Vec::new();
    for validation in &policy.validations {
        match validation.expression.evaluate(&evaluation) {
            Ok(value) if value.is_true() => {}
            Ok(_) => decisions.push(Decision {
                denied: true,
                message: message_of(validation, &evaluation),
                reason: if validation.reason.is_empty() {
                    "Invalid".to_owned()
                } else {
                    validation.reason.clone()
                },
            }),
            Err(Failure::Evaluation(why)) => decisions.push(failed(why)),
            // What was decided before does not count any more.
            Err(Failure::OutOfBudget(why)) => return Ok(vec![failed(why)]),
        }
    }
    for annotation in &policy.annotations {
        if let Err(Failure::Evaluation(why) | Failure::OutOfBudget(why)) = annotation.evaluate(&evaluation) {
            decisions.push(failed(why));
        }
    }
    Ok(decisions)
}

/// What a failed validation says: what its expression makes, or its text, or the expression itself.
fn message_of<'a>(validation: &'a Validation, evaluation: &Evaluation<'a>) -> String {
    let made = validation
        .message_expression
        .as_ref()
        .and_then(|expression| expression.evaluate(evaluation).ok())
        .and_then(|value| value.as_text().map(|text| text.trim().to_owned()))
        .filter(|text| !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n'));
    let given = validation.message.trim();
    made.unwrap_or_else(|| {
        if given.is_empty() {
            format!("failed expression: {}", validation.source.trim())
        } else {
            given.to_owned()
        }
    })
}
