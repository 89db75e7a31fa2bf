//! ControllerRevisions: the templates a set has had.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods::{Hand, hash_of};
use crate::client::Result;
use crate::kinds::CONTROLLER_REVISION;
use crate::object::{Key, Object as _, owned_by};

/// The label of revisions that tells their content, and of pods that tells their revision.
pub(super) const HASH: &str = "controller-revision-hash";

/// What a revision remembers of a set.
fn data(set: &Value) -> Value {
    let mut template = set.at("/spec/template").clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The revisions of a set, oldest first.
pub(super) fn of(hand: &Hand, set: &Value) -> Vec<Arc<Value>> {
    let mut revisions = hand.client.cache(&CONTROLLER_REVISION).controlled_by(set.uid());
    revisions.sort_by_key(|revision| (revision.number("/revision"), revision.name().to_owned()));
    revisions
}

/// The revision of the template a set has now, made if there is none; it is the newest then.
pub(super) async fn current(hand: &Hand, set: &Value) -> Result<Arc<Value>> {
    let known = of(hand, set);
    let wanted = data(set);
    let next = known.last().and_then(|last| last.number("/revision")).unwrap_or_default() + 1;
    if let Some(same) = known.iter().find(|revision| revision["data"] == wanted) {
        if same.number("/revision") == Some(next - 1) {
            return Ok(Arc::clone(same));
        }
        // A template that was there before comes back as the newest.
        let patch = json!({"revision": next});
        return Ok(Arc::new(hand.client.merge(&CONTROLLER_REVISION, &Key::of(same), &patch).await?));
    }
    let hash = hash_of(&wanted, set.number("/status/collisionCount").unwrap_or_default());
    let mut revision = json!({
        "metadata": {
            "namespace": set.namespace(), "name": format!("{}-{hash}", set.name()),
            "labels": set.at("/spec/template/metadata/labels"),
            "ownerReferences": [owned_by(hand.kind, set)],
        },
        "data": wanted, "revision": next,
    });
    revision.set_label(HASH, &hash);
    if hand.kind.kind == "StatefulSet" {
        revision.set_label("controller.kubernetes.io/hash", &hash);
    }
    Ok(Arc::new(hand.client.create(&CONTROLLER_REVISION, revision).await?))
}

/// Removes the oldest revisions that nobody uses beyond the limit of a set.
pub(super) async fn clean(hand: &Hand, set: &Value, used: &[&str]) -> Result {
    let limit = set.number("/spec/revisionHistoryLimit").unwrap_or(10);
    let idle: Vec<_> =
        of(hand, set).into_iter().filter(|revision| !used.contains(&revision.name())).collect();
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for revision in idle.into_iter().take(surplus) {
        hand.client.delete(&CONTROLLER_REVISION, &Key::of(&revision), revision.uid()).await?;
    }
    Ok(())
}

/// The template a revision remembers.
pub(super) fn template(revision: &Value) -> Value {
    let mut template = revision.at("/data/spec/template").clone();
    template.unset("/$patch");
    template
}
