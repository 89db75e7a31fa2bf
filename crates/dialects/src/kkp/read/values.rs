//! Settings that are written out, or kept in a Secret or ConfigMap.

use trellis_api::kkp::cloud::ConfigVar;

use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::At;

/// The text of a setting. A reference cannot be followed without a cluster and is complained about.
pub(super) fn text(cx: &mut Cx<'_>, at: FieldPath, var: Option<&ConfigVar>) -> Option<At<String>> {
    let var = var?;
    say_unused(cx, &at, var);
    match reference(var) {
        None => {
            let inside = at.child("value");
            let at = if cx.has(&inside) { inside } else { at };
            Some(At::new(at, var.value.clone().unwrap_or_default()))
        }
        Some(key) => {
            let message = "this refers to a Secret or ConfigMap, which cannot be looked up without a cluster";
            let help = format!("write the value itself: `{}: <value>`", at.last_key().unwrap_or("field"));
            cx.error("unresolved-reference", &at.child(key), message, &help);
            None
        }
    }
}

/// The text of a setting that matters so little that a reference is only warned about.
pub(super) fn text_if_known(cx: &mut Cx<'_>, at: FieldPath, var: Option<&ConfigVar>) -> Option<At<String>> {
    let key = var.and_then(reference);
    match key {
        None => text(cx, at, var),
        Some(key) => {
            let message = "this refers to a Secret or ConfigMap, which is not looked up; it is as if nothing stood here";
            let help = format!("write the value itself: `{}: <value>`", at.last_key().unwrap_or("field"));
            cx.warning("unresolved-reference", &at.child(key), message, &help);
            None
        }
    }
}

/// The key of the reference that would be followed.
fn reference(var: &ConfigVar) -> Option<&'static str> {
    if var.secret_key_ref.is_some() {
        Some("secretKeyRef")
    } else if var.config_map_key_ref.is_some() {
        Some("configMapKeyRef")
    } else {
        None
    }
}

/// Warns when more than one way to a value is given: a Secret goes before a ConfigMap, and that before a value.
pub(super) fn say_unused(cx: &mut Cx<'_>, at: &FieldPath, var: &ConfigVar) {
    let Some(used) = reference(var) else { return };
    for (key, given) in
        [("configMapKeyRef", var.config_map_key_ref.is_some()), ("value", var.value.is_some())]
    {
        if given && key != used {
            let message = format!("`{key}` is not used: `{used}` goes before it");
            cx.warning("not-used", &at.child(key), message, &format!("keep one of `{used}` and `{key}`"));
        }
    }
}
