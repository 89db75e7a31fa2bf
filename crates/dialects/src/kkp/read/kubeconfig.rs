//! How the infra cluster is reached. A kubeconfig itself is looked at only for its namespace, and never kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trellis_api::kkp::cloud::{ConfigVar, KeyRef};
use trellis_model::cluster::{Credentials, CredentialsKind};
use trellis_model::names::NamespaceName;

use super::values::say_unused;
use crate::diagnostic::{Diagnostics, Severity};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::At;
use crate::source::FileId;
use crate::tree::Node;

/// What a kubeconfig setting says.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// Where the kubeconfig is kept.
    pub(super) credentials: Option<At<Credentials>>,
    /// The namespace of its current context.
    pub(super) namespace: Option<At<NamespaceName>>,
}

/// Reads a kubeconfig setting.
pub(super) fn access(cx: &mut Cx<'_>, kubeconfig: Option<&At<ConfigVar>>) -> Access {
    let Some(At { at, value: var }) = kubeconfig else { return Access::default() };
    say_unused(cx, at, var);
    let reference = match (&var.secret_key_ref, &var.config_map_key_ref) {
        (Some(key), _) => Some(("secretKeyRef", CredentialsKind::Secret, key)),
        (None, Some(key)) => Some(("configMapKeyRef", CredentialsKind::ConfigMap, key)),
        (None, None) => None,
    };
    if let Some((field, kind, key)) = reference {
        let at = at.child(field);
        let credentials = credentials(cx, &at, kind, key).map(|credentials| At::new(at, credentials));
        return Access { credentials, namespace: None };
    }
    let text = var.value.as_deref().unwrap_or_default();
    if text.trim().is_empty() {
        let message = "the kubeconfig is empty; Trellis reaches the infra cluster by its own surroundings";
        cx.warning("empty-kubeconfig", at, message, "name a Secret with `secretKeyRef`, or remove the field");
        return Access::default();
    }
    let message = "a kubeconfig that is written out is not carried over";
    let help = "keep it in a Secret and name that with `secretKeyRef`";
    cx.hidden(Severity::Warning, "inline-kubeconfig", at, message, help);
    let namespace = context_namespace(text).and_then(|name| name.parse().ok());
    Access { credentials: None, namespace: namespace.map(|namespace| At::new(at.clone(), namespace)) }
}

fn credentials(cx: &mut Cx<'_>, at: &FieldPath, kind: CredentialsKind, key: &KeyRef) -> Option<Credentials> {
    let namespace = cx.parse_opt(&at.child("namespace"), key.namespace.as_deref());
    let inside = if key.key.is_empty() { Credentials::DEFAULT_KEY } else { &key.key };
    Some(Credentials {
        kind,
        namespace,
        name: cx.parse(&at.child("name"), &key.name)?,
        key: inside.to_owned(),
    })
}

/// The namespace of the current context of a kubeconfig, plain or in base64.
fn context_namespace(text: &str) -> Option<String> {
    let packed: String = text.split_whitespace().collect();
    let plain = STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let plain = plain.as_deref().unwrap_or(text);
    // What is wrong with a foreign kubeconfig is nobody's business here.
    let documents = crate::parse::parse(FileId(0), plain, &mut Diagnostics::new());
    let root = &documents.first()?.root;
    let current = root.get("current-context")?.as_text()?;
    let named = |context: &&Node| context.get("name").and_then(Node::as_text) == Some(current);
    let context = root.get("contexts")?.items().iter().find(named)?;
    context.get("context")?.get("namespace")?.as_text().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts:\n\
        - name: a\n  context: {cluster: x, namespace: wrong}\n- name: b\n  context: {cluster: x, namespace: right}\n";

    #[test]
    fn the_namespace_of_the_current_context_is_found_plain_and_in_base64() {
        assert_eq!(context_namespace(KUBECONFIG).as_deref(), Some("right"));
        assert_eq!(context_namespace(&STANDARD.encode(KUBECONFIG)).as_deref(), Some("right"));
        for other in ["", "nonsense", "{", "current-context: z\ncontexts: []"] {
            assert_eq!(context_namespace(other), None, "{other:?}");
        }
    }
}
