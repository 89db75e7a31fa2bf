//! Moving from client-side apply of kubectl to server-side apply.

use serde_json::Value;

use super::check::check;
use super::compare::compare;
use super::context::Context;
use super::field_set::to_field_set;
use super::updater::Conflict;
use crate::schema::TypeRef;

/// The manager who may take over what client-side apply left behind.
pub(super) const KUBECTL: &str = "kubectl";

/// Where client-side apply leaves what it applied.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How large all annotations together may be.
const MOST_ANNOTATIONS: usize = 256 * 1024;

/// A kind as messages name it, such as `apps/v1, Kind=Deployment`.
pub(crate) fn kind_text(api_version: &str, kind: &str) -> String {
    let group_version = match api_version.matches('/').count() {
        0 => format!("/{api_version}"),
        1 => api_version.to_owned(),
        // A version that makes no sense leaves nothing of the kind.
        _ => return "/, Kind=".to_owned(),
    };
    format!("{group_version}, Kind={kind}")
}

/// The kind an object says it is.
pub(super) fn group_version_kind(object: &Value) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    kind_text(text("apiVersion"), text("kind"))
}

/// An object as messages name it: namespace, name and kind.
pub(crate) fn named(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}; {}", text("namespace"), text("name"), group_version_kind(object))
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}

/// The conflicts that are left when somebody may change what was applied by the client and has still the same
/// value; none when the client applied nothing that can be used.
pub(super) fn other_conflicts(
    context: &Context<'_>,
    of: TypeRef<'_>,
    live: &Value,
    conflicts: &mut Vec<Conflict<'_>>,
) -> Option<()> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied["apiVersion"] != context.api_version || check(of, &applied, false).is_err() {
        return None;
    }
    let changes = compare(of, &applied, live);
    let allowed = to_field_set(of, &applied)
        .difference(&changes.modified)
        .difference(&changes.added)
        .difference(&changes.removed);
    conflicts.retain(|conflict| !allowed.has(&conflict.path));
    Some(())
}

/// Keeps the annotation of client-side apply up to date, where there is one.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let mut text = crate::gotext::json(&applied);
    text.push('\n');
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.insert(ANNOTATION.to_owned(), text.into());
        let size: usize =
            annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
        if size > MOST_ANNOTATIONS {
            annotations.remove(ANNOTATION);
        }
    }
}
