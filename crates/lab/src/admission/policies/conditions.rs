//! What a request looks like to expressions, and the conditions that decide whether a webhook or policy is called.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::Kinds;
use super::super::chain::Admission;
use super::super::json::{items, text};
use super::super::matching::Matched;
use super::super::plugins::aggregated;
use super::super::review::Review;
use super::super::webhooks::user_info;
use super::BUDGET_OF_CONDITIONS;
use super::expression::{Evaluation, Expression, Failure, Scope, Variables, Wanted};
use crate::attributes::Attributes;
use crate::status::Status;

/// A request as expressions see it.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    /// Who asks for what.
    pub attributes: &'a Attributes,
    /// The `object` variable; null for none.
    pub object: Arc<Value>,
    /// The `oldObject` variable; null for none.
    pub old: Arc<Value>,
    /// The `request` variable.
    pub request: Arc<Value>,
}

impl<'a> Subject<'a> {
    /// What a request looks like to somebody who is called for `matched`.
    pub(crate) fn of(review: &Review<'a>, matched: &Matched, kinds: &dyn Kinds) -> Result<Self, Status> {
        let as_matched = |object: Option<&Value>| match object {
            None => Ok(Value::Null),
            Some(object) if matched.kind == *review.kind => Ok(object.clone()),
            Some(object) => kinds.convert(object, &matched.kind),
        };
        Ok(Self {
            attributes: review.attributes,
            object: Arc::new(as_matched(review.object.as_ref())?),
            old: match &review.old {
                Some(old) if matched.kind == *review.kind => Arc::clone(old),
                old => Arc::new(as_matched(old.as_deref())?),
            },
            request: Arc::new(request(review, matched)),
        })
    }
}

fn request(review: &Review<'_>, matched: &Matched) -> Value {
    let attributes = review.attributes;
    let mut request = json!({
        "kind": {"group": matched.kind.group, "version": matched.kind.version, "kind": matched.kind.kind},
        "resource": {"group": matched.group, "version": matched.version, "resource": matched.resource},
        "requestKind": {"group": review.kind.group, "version": review.kind.version, "kind": review.kind.kind},
        "requestResource": {
            "group": attributes.group, "version": attributes.version, "resource": attributes.resource,
        },
        "operation": review.operation.as_str(),
        "userInfo": user_info(review),
        "dryRun": review.dry_run,
    });
    // What is empty is not there, as in the JSON of a review.
    let optional = [
        ("subResource", attributes.subresource.as_str()),
        ("requestSubResource", attributes.subresource.as_str()),
        ("name", review.name()),
        ("namespace", review.namespace()),
    ];
    for (key, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
        request[key] = value.into();
    }
    if !review.options.is_null() {
        request["options"] = review.options.clone();
    }
    request
}

/// Whether conditions are met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All are.
    Met,
    /// One is not.
    NotMet,
    /// None says no, but some could not be evaluated.
    Failed(String),
}

/// Compiled `matchConditions`.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    conditions: Vec<Expression>,
}

impl Conditions {
    /// Compiles conditions outside of policies, where there are no variables.
    pub(crate) fn compile(list: &Value, has_params: bool) -> Self {
        Self::compile_with(list, has_params, &Variables::default())
    }

    /// Compiles conditions that may use the variables of a policy.
    pub(crate) fn compile_with(list: &Value, has_params: bool, variables: &Variables) -> Self {
        let scope = Scope { params: has_params, authorizer: true, patches: false, stored: true };
        let conditions = items(list)
            .map(|one| Expression::compile(text(&one["expression"]), Wanted::Bool, scope, variables))
            .collect();
        Self { conditions }
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Evaluates them.
    pub(crate) fn evaluate(
        &self,
        subject: &Subject<'_>,
        params: Option<&Value>,
        variables: Option<&Variables>,
        admission: &Admission,
    ) -> Outcome {
        let none = Variables::default();
        let evaluation = Evaluation::new(subject, variables.unwrap_or(&none), BUDGET_OF_CONDITIONS)
            .with_params(params)
            .with_authorizer(admission.shared_authorizer());
        let mut problems = Vec::new();
        for condition in &self.conditions {
            match condition.evaluate(&evaluation) {
                Ok(value) if value.is_false() => return Outcome::NotMet,
                Ok(_) => {}
                Err(Failure::OutOfBudget(why)) => return Outcome::Failed(why),
                Err(Failure::Evaluation(why)) => problems.push(why),
            }
        }
        match aggregated(&problems) {
            Some(why) => Outcome::Failed(why),
            None => Outcome::Met,
        }
    }
}
