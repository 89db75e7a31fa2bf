//! What a namespace that is ending says about itself.

use serde_json::{Value, json};

/// What is left in a namespace, and what went wrong.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// How many objects of which resource.
    pub(super) objects: Vec<(String, usize)>,
    /// How many objects have which finalizer.
    pub(super) finalizers: Vec<(String, usize)>,
    /// Deletions that were refused.
    pub(super) failures: Vec<String>,
    /// Why not all resources are known.
    pub(super) unknown: Option<String>,
    /// True while pods are left. What else is there is not looked at then, and nothing is said about it.
    pub(super) pods: bool,
    /// How many seconds it will take at least, as far as anybody can tell.
    pub(super) estimate: i64,
}

impl Remains {
    /// Counts an object that has a finalizer.
    pub(super) fn count_finalizer(&mut self, finalizer: &str) {
        match self.finalizers.iter_mut().find(|(name, _)| name == finalizer) {
            Some((_, count)) => *count += 1,
            None => self.finalizers.push((finalizer.to_owned(), 1)),
        }
    }
}

fn listed(items: &[(String, usize)], joined_by: &str) -> String {
    let mut texts: Vec<String> =
        items.iter().map(|(name, count)| format!("{name} {joined_by} {count} resource instances")).collect();
    texts.sort();
    texts.join(", ")
}

/// The conditions of what is left: type, whether it holds, reason and message.
fn conditions(remains: &Remains) -> [(&'static str, bool, &'static str, String); 5] {
    let Remains { objects, finalizers, failures, unknown, pods, .. } = remains;
    let fine = |kind, reason, message: &str| (kind, false, reason, message.to_owned());
    [
        match unknown {
            None => fine(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            Some(why) => ("NamespaceDeletionDiscoveryFailure", true, "DiscoveryFailed", why.clone()),
        },
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        if failures.is_empty() {
            fine(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            )
        } else {
            let mut sorted = failures.clone();
            sorted.sort();
            let message = format!(
                "Failed to delete all resource types, {} remaining: {}",
                failures.len(),
                sorted.join(", ")
            );
            ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", message)
        },
        if objects.is_empty() || *pods {
            fine("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
        } else {
            let message = format!("Some resources are remaining: {}", listed(objects, "has"));
            ("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
        },
        if finalizers.is_empty() || *pods {
            fine(
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        } else {
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                listed(finalizers, "in")
            );
            ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
        },
    ]
}

/// The namespace with conditions that say what it waits for.
pub(super) fn explained(mut namespace: Value, remains: &Remains, now: &str) -> Value {
    let mut all: Vec<Value> = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, holds, reason, message) in conditions(remains) {
        let status = if holds { "True" } else { "False" };
        let mut fresh = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        match all.iter_mut().find(|condition| condition["type"] == kind) {
            Some(condition) => {
                if condition["status"] == status {
                    fresh["lastTransitionTime"] = condition["lastTransitionTime"].clone();
                }
                *condition = fresh;
            }
            None => all.push(fresh),
        }
    }
    namespace["status"]["phase"] = "Terminating".into();
    namespace["status"]["conditions"] = all.into();
    namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_sorted_and_only_a_new_state_has_a_new_time() {
        let namespace = json!({"metadata": {"name": "a"}});
        let first = explained(
            namespace,
            &Remains { pods: true, objects: vec![("pods.".into(), 1)], ..Remains::default() },
            "1",
        );
        let mut remains = Remains {
            objects: vec![("widgets.example.com".into(), 2), ("configmaps.".into(), 1)],
            failures: vec!["b".into(), "a".into()],
            ..Remains::default()
        };
        remains.count_finalizer("x.io/z");
        remains.count_finalizer("x.io/z");
        let second = explained(first.clone(), &remains, "2");
        let of = |namespace: &Value, place: usize| namespace["status"]["conditions"][place].clone();
        assert_eq!(of(&first, 3)["message"], "All content successfully removed");
        assert_eq!(
            of(&second, 3)["message"],
            "Some resources are remaining: configmaps. has 1 resource instances, widgets.example.com has 2 resource instances"
        );
        assert_eq!(of(&second, 2)["message"], "Failed to delete all resource types, 2 remaining: a, b");
        assert_eq!(
            of(&second, 4)["message"],
            "Some content in the namespace has finalizers remaining: x.io/z in 2 resource instances"
        );
        assert_eq!(
            (&of(&second, 0)["lastTransitionTime"], &of(&second, 3)["lastTransitionTime"]),
            (&json!("1"), &json!("2"))
        );
    }
}
