//! Settings that are written out, or kept in a Secret or ConfigMap.

use trellis_api::kkp::cloud::ConfigVar;

use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::At;
use crate::tree::Node;

/// The text of a setting. A reference is followed to a ConfigMap that was read together with it, and
/// otherwise complained about.
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
            if let Some(value) = from_config_map(cx, var) {
                return Some(At::new(at.child(key), value));
            }
            let field = at.last_key().unwrap_or("field");
            let (message, help) = if var.secret_key_ref.is_some() {
                let message = "this refers to a Secret, which Trellis does not open for a setting";
                (message, format!("write the value itself, `{field}: <value>`, or keep it in a ConfigMap"))
            } else {
                let message =
                    "this refers to a ConfigMap that is not among what was read, or has no such key";
                (
                    message,
                    format!(
                        "read the ConfigMap together with this, or write the value itself: `{field}: <value>`"
                    ),
                )
            };
            cx.error("unresolved-reference", &at.child(key), message, &help);
            None
        }
    }
}

/// The value a ConfigMap holds that was read together with this.
fn from_config_map(cx: &Cx<'_>, var: &ConfigVar) -> Option<String> {
    let key = var.config_map_key_ref.as_ref().filter(|_| var.secret_key_ref.is_none())?;
    let text = |node: &Node, path: &str| node_at(node, path).and_then(Node::as_text).map(str::to_owned);
    let is_meant = |root: &Node| {
        text(root, "kind").as_deref() == Some("ConfigMap")
            && text(root, "metadata.name").as_deref() == Some(key.name.as_str())
            && key
                .namespace
                .as_ref()
                .is_none_or(|namespace| text(root, "metadata.namespace").as_ref() == Some(namespace))
    };
    let map = cx.documents().iter().map(|document| &document.root).find(|root| is_meant(root))?;
    map.get("data")?.get(&key.key)?.as_text().map(str::to_owned)
}

fn node_at<'a>(node: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(node, |node, key| node.get(key))
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
