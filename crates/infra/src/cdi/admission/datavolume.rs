//! DataVolumes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{rights, spec};
use crate::cdi::source::{self, Origin, Source};
use crate::cdi::{names, token};
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::PVC;
use crate::object::{Key, Object as _};
use crate::quantity;
use crate::service::admission::{Cause, Review, Verdict};

/// The longest name there is.
const LONGEST_NAME: usize = 253;

/// Adds a token to a clone whose maker may read its source, and refuses it to others.
pub(super) async fn mutate(context: &Context, review: Review) -> Verdict {
    let volume = &review.object;
    if review.operation != "CREATE" || volume.is_deleting() {
        return Verdict::fine();
    }
    let mut placed = volume.clone();
    placed.set("/metadata/namespace", review.namespace.as_str().into());
    let Some(Source::Clone(origin)) = source::of(&context.client(Identity::CDI_API), &placed) else {
        return Verdict::fine();
    };
    match rights::may_clone(context, &review.user, &origin, &review.namespace).await {
        Ok(true) => {}
        Ok(false) => {
            let message = format!(
                "User {} has insufficient permissions in clone source namespace {}",
                review.user.name, origin.key.namespace
            );
            return Verdict::of_causes(vec![Cause::invalid("spec.source.PVC.namespace", message)]);
        }
        Err(failure) => return Verdict::denied(500, "InternalError", failure.to_string()),
    }
    match token::issue(context, token::CLONE, grant(&origin, &review)).await {
        Ok(token) => {
            let mut changed = volume.clone();
            changed.set_annotation(names::CLONE_TOKEN, &token);
            Verdict::changed(changed)
        }
        Err(failure) => Verdict::denied(500, "InternalError", failure.to_string()),
    }
}

fn grant(origin: &Origin, review: &Review) -> token::Grant {
    let name = if review.name.is_empty() { review.object.name() } else { &review.name };
    token::Grant {
        operation: "Clone".to_owned(),
        name: origin.key.name.clone(),
        namespace: origin.key.namespace.clone(),
        resource: if origin.snapshot { token::Resource::snapshots() } else { token::Resource::claims() },
        params: BTreeMap::from([
            ("targetNamespace".to_owned(), review.namespace.clone()),
            ("targetName".to_owned(), name.to_owned()),
        ]),
    }
}

/// Refuses DataVolumes that cannot come to anything.
pub(super) async fn validate(context: &Context, review: Review) -> Verdict {
    let volume = &review.object;
    if review.operation == "UPDATE" {
        let same = without_checkpoints(&volume["spec"]) == without_checkpoints(&review.old["spec"]);
        if !same && !volume.is_deleting() {
            return refused(Cause::duplicate("DataVolume.Spec", "Cannot update DataVolume Spec"));
        }
        return Verdict::fine();
    }
    if review.name.len() > LONGEST_NAME || volume.name().len() > LONGEST_NAME {
        let message = format!("Name of data volume cannot be more than {LONGEST_NAME} characters");
        return refused(Cause::invalid("", message));
    }
    let causes = spec::check("spec", &volume["spec"]);
    if !causes.is_empty() {
        return Verdict::of_causes(causes);
    }
    let client = context.client(Identity::CDI_API);
    let name = if review.name.is_empty() { volume.name() } else { &review.name };
    let found = client.get(&PVC, &Key::new(&review.namespace, name)).await;
    if let Ok(Some(claim)) = &found
        && let Some(cause) = claim_in_the_way(volume, claim, &review.namespace)
    {
        return refused(cause);
    }
    let mut placed = volume.clone();
    placed.set("/metadata/namespace", review.namespace.as_str().into());
    if let Some(Source::Clone(origin)) = source::of(&client, &placed)
        && !origin.snapshot
        && let Ok(Some(claim)) = client.get(&PVC, &origin.key).await
        && let Some(cause) = clone_of(&volume["spec"], &claim, volume)
    {
        return refused(cause);
    }
    Verdict::fine()
}

fn refused(cause: Cause) -> Verdict {
    Verdict::of_causes(vec![cause])
}

/// A specification without what an import in stages may change.
fn without_checkpoints(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in ["checkpoints", "finalCheckpoint"] {
        spec.unset(&format!("/{field}"));
    }
    spec
}

/// A claim of the same name that is none of CDI's.
fn claim_in_the_way(volume: &Value, claim: &Value, namespace: &str) -> Option<Cause> {
    let says = |annotation: &str| !volume.annotation(annotation).is_empty();
    let adopts = [volume, claim].iter().any(|one| one.annotation(names::CLAIM_ADOPTION) == "true");
    let meant = claim.annotation(names::POPULATED_FOR) == volume.name();
    if adopts || meant || says(names::PRE_POPULATED) || says(names::STATIC_VOLUME) {
        return None;
    }
    let ours = claim.controller().is_some_and(|owner| owner["kind"] == "DataVolume");
    (!ours).then(|| {
        let message = format!("Destination PVC {namespace}/{} already exists", claim.name());
        Cause::invalid("DataVolume.Name", message)
    })
}

/// What keeps a claim from being cloned into what is wanted.
fn clone_of(spec: &Value, claim: &Value, volume: &Value) -> Option<Cause> {
    let kind = |text: &str| if text.is_empty() { "kubevirt".to_owned() } else { text.to_owned() };
    let (from, to) = (kind(claim.annotation(names::CONTENT_TYPE)), kind(spec.text("/contentType")));
    if from != to {
        let message = format!("Source contentType ({from}) and target contentType ({to}) do not match");
        return Some(Cause::invalid("spec.source.PVC", message));
    }
    let asked = ["pvc", "storage"]
        .into_iter()
        .map(|field| spec[field].at("/resources/requests/storage"))
        .find(|asked| !asked.is_null())?;
    let permissive = volume["metadata"]["annotations"].get(names::PERMISSIVE_CLONE).is_some();
    // Of a file system the size of the disk in it counts, which only a look inside tells.
    let is_block = claim["spec"]["volumeMode"] == "Block";
    let there = quantity::whole(claim.at("/spec/resources/requests/storage"));
    if is_block && !permissive && quantity::whole(asked) < there {
        let message = "target resources requests storage size is smaller than the source";
        return Some(Cause::invalid("spec.source.PVC", message));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_of_somebody_else_is_in_the_way() {
        let volume = json!({"metadata": {"name": "d"}});
        let claim = json!({"metadata": {"name": "d"}});
        let cause = claim_in_the_way(&volume, &claim, "n").unwrap();
        assert_eq!(cause.message, "Destination PVC n/d already exists");
        let adopting = json!({"metadata": {"name": "d", "annotations": {names::CLAIM_ADOPTION: "true"}}});
        assert!(claim_in_the_way(&adopting, &claim, "n").is_none());
        let ours = json!({"metadata": {"name": "d", "ownerReferences": [{"kind": "DataVolume", "controller": true}]}});
        assert!(claim_in_the_way(&volume, &ours, "n").is_none());
    }

    #[test]
    fn a_clone_is_as_large_as_its_source() {
        let claim = json!({"spec": {"volumeMode": "Block", "resources": {"requests": {"storage": "2Gi"}}}});
        let spec = |size: &str| json!({"storage": {"resources": {"requests": {"storage": size}}}});
        assert!(clone_of(&spec("1Gi"), &claim, &json!({})).is_some());
        assert!(clone_of(&spec("2Gi"), &claim, &json!({})).is_none());
        assert!(clone_of(&json!({"storage": {}, "contentType": "archive"}), &claim, &json!({})).is_some());
    }
}
