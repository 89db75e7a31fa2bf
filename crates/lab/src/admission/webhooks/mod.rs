//! Webhooks that are registered through the API.

mod configuration;
mod exchange;

use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::chain::Admission;
use super::matching::{self, Matched};
use super::policies::conditions::{Outcome, Subject};
use super::review::Review;
use super::{Warnings, warn};
use crate::status::Status;

pub(crate) use configuration::{Registered, Webhook};
pub(super) use exchange::user_info;
use exchange::{Answer, Failure};

/// What webhooks did so far, for calling some of them again.
#[derive(Debug, Default)]
pub(super) struct Invoked {
    last: Option<Value>,
    seen: Vec<String>,
    again: Vec<String>,
}

impl Invoked {
    fn must_run_again(&mut self) {
        self.again.append(&mut self.seen);
    }
}

/// Calls the mutating webhooks. Gives back whether one of them changed the object.
pub(super) async fn mutate(
    admission: &Admission,
    review: &mut Review<'_>,
    invoked: &mut Invoked,
    is_second_round: bool,
    warnings: &mut Warnings,
) -> Result<bool, Status> {
    if matching::is_exempt(review) || matching::is_virtual(review) {
        return Ok(false);
    }
    let hooks = admission.mutating_webhooks();
    if hooks.is_empty() {
        return Ok(false);
    }
    if is_second_round && invoked.last != review.object {
        invoked.must_run_again();
    }
    let mut changed_any = false;
    for hook in hooks.iter() {
        let Some(matched) = called_for(admission, hook, review)? else { continue };
        if is_second_round && !invoked.again.contains(&hook.id) {
            continue;
        }
        let called = call_mutating(admission, hook, &matched, review, warnings).await;
        if let Ok(true) = called {
            changed_any = true;
            invoked.must_run_again();
        }
        if hook.is_reinvoked {
            invoked.seen.push(hook.id.clone());
        }
        called.or_else(|failure| settled(hook, failure).map(|()| false))?;
    }
    invoked.last.clone_from(&review.object);
    Ok(changed_any)
}

/// Calls the validating webhooks, all at once.
pub(super) async fn validate(
    admission: &Admission,
    review: &Review<'_>,
    warnings: &mut Warnings,
) -> Result<(), Status> {
    if matching::is_exempt(review) || matching::is_virtual(review) {
        return Ok(());
    }
    let hooks = admission.validating_webhooks();
    let mut relevant = Vec::new();
    for hook in hooks.iter() {
        if let Some(matched) = called_for(admission, hook, review)? {
            relevant.push((hook, matched));
        }
    }
    let calls = relevant.iter().map(|(hook, matched)| async move {
        let answer = exchange(admission, hook, matched, review, false).await;
        (hook, answer)
    });
    let mut refusal = Ok(());
    for (hook, answer) in join_all(calls).await {
        let verdict = match answer {
            Ok(answer) => {
                answer.warnings.iter().for_each(|text| warn(warnings, text));
                answer.verdict(&hook.name)
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = verdict
            && let Err(status) = settled(hook, failure)
            && refusal.is_ok()
        {
            refusal = Err(status);
        }
    }
    refusal
}

/// What a failure means for the request: failed calls are forgiven where the webhook says so.
fn settled(hook: &Webhook, failure: Failure) -> Result<(), Status> {
    match failure {
        Failure::Call(why) if hook.fails_open => {
            tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
            Ok(())
        }
        Failure::Call(why) => Err(Status::internal(format!("failed calling webhook {:?}: {why}", hook.name))),
        Failure::Denied(status) => Err(status),
    }
}

/// What a webhook is called for, if it is.
fn called_for(admission: &Admission, hook: &Webhook, review: &Review<'_>) -> Result<Option<Matched>, Status> {
    let reader = admission.reader();
    let selectors = hook.selectors.as_ref();
    let by_namespace = match selectors {
        Ok((namespaces, _)) => matching::by_namespace(namespaces, review, reader),
        Err(why) => Err(Status::internal(why.clone())),
    };
    if by_namespace == Ok(false) || selectors.is_ok_and(|(_, objects)| !matching::by_object(objects, review))
    {
        return Ok(None);
    }
    let matched = matching::by_rules(&hook.rules, hook.is_equivalent, review, admission.kinds())?;
    let Some(matched) = matched else { return Ok(None) };
    by_namespace?;
    if hook.conditions.is_empty() {
        return Ok(Some(matched));
    }
    let subject = Subject::of(review, &matched, admission.kinds())?;
    match hook.conditions.evaluate(&subject, None, None, admission) {
        Outcome::Met => Ok(Some(matched)),
        Outcome::NotMet => Ok(None),
        Outcome::Failed(_) if hook.fails_open => Ok(None),
        Outcome::Failed(why) => {
            let attributes = review.attributes;
            Err(Status::forbidden(&attributes.group, &attributes.resource, review.name(), &why))
        }
    }
}

async fn call_mutating(
    admission: &Admission,
    hook: &Webhook,
    matched: &Matched,
    review: &mut Review<'_>,
    warnings: &mut Warnings,
) -> Result<bool, Failure> {
    let answer = exchange(admission, hook, matched, review, true).await?;
    answer.warnings.iter().for_each(|text| warn(warnings, text));
    let patch = match &answer.patch {
        Some(bytes) if answer.allowed => exchange::decode_patch(bytes)?,
        _ => {
            answer.verdict(&hook.name)?;
            return Ok(false);
        }
    };
    if patch.as_array().is_none_or(Vec::is_empty) {
        return Ok(false);
    }
    let internal = |why: String| Failure::Denied(Status::internal(why));
    let Some(object) = &review.object else {
        return Err(internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    };
    if answer.patch_type != "JSONPatch" {
        return Err(Failure::Call(format!("unsupported patch type {:?}", answer.patch_type)));
    }
    let kinds = admission.kinds();
    let converted;
    let before = if matched.kind == *review.kind {
        object
    } else {
        converted = kinds.convert(object, &matched.kind).map_err(Failure::Denied)?;
        &converted
    };
    let patched = kinds.patch(before, &patch).map_err(|failure| internal(failure.message))?;
    let decoded = kinds.decode(&matched.kind, patched).map_err(Failure::Denied)?;
    let changed = decoded != *before;
    if changed {
        let after = if matched.kind == *review.kind {
            decoded
        } else {
            kinds.convert(&decoded, review.kind).map_err(Failure::Denied)?
        };
        review.object = Some(after);
    }
    Ok(changed)
}

/// Asks a webhook and checks the form of its answer.
async fn exchange(
    admission: &Admission,
    hook: &Webhook,
    matched: &Matched,
    review: &Review<'_>,
    mutates: bool,
) -> Result<Answer, Failure> {
    if review.dry_run && !hook.allows_dry_run {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failure::Denied(Status::bad_request(why)));
    }
    let Some(version) = hook.review_version() else {
        return Err(Failure::Call(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned(),
        ));
    };
    let uid = admission.chance().uid(&["admission", &hook.name]);
    let asked =
        exchange::question(version, &uid, matched, review, admission.kinds()).map_err(Failure::Denied)?;
    let target =
        hook.target.as_ref().map_err(|why| Failure::Call(format!("could not get REST client: {why}")))?;
    let timeout = Duration::from_secs(hook.timeout_seconds);
    let answer = admission
        .client()
        .post(target, &asked, timeout)
        .await
        .map_err(|error| Failure::Call(format!("failed to call webhook: {error}")))?;
    let review = exchange::decoded(&answer, version)
        .map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
    Answer::verified(&review, version, &uid, mutates)
        .map_err(|why| Failure::Call(format!("received invalid webhook response: {why}")))
}

#[cfg(test)]
mod tests;
