//! The kubeconfig of the infra cluster: found through a SecretBinding, looked into for its namespace, never kept.

use base64::Engine;
use trellis_api::common::Metadata;
use trellis_api::gardener::binding::{BindingProvider, SecretReference};
use trellis_api::gardener::{CredentialsBinding, Secret, SecretBinding};
use trellis_model::cluster::{Credentials, CredentialsKind, KubevirtPlatform};
use trellis_model::names::NamespaceName;

use super::words::required;
use crate::diagnostic::{Diagnostics, Severity};
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId, Reading};
use crate::shared::object_name;
use crate::source::FileId;

/// The namespace of a kubeconfig that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// The bindings and Secrets that were read.
#[derive(Debug, Default)]
pub(super) struct Keyring {
    bindings: Vec<Binding>,
    secrets: Vec<Key>,
}

#[derive(Debug)]
struct Binding {
    document: DocumentId,
    kind: &'static str,
    name: String,
    namespace: Option<String>,
    secret: Option<(String, Option<String>)>,
    used: bool,
}

#[derive(Debug)]
struct Key {
    document: DocumentId,
    name: String,
    namespace: Option<String>,
    has_kubeconfig: bool,
    infra_namespace: Option<NamespaceName>,
    used: bool,
}

/// Whether two namespaces may be the same. One that is left out may be any.
fn may_match(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

impl Keyring {
    /// Takes in a SecretBinding.
    pub(super) fn add_binding(&mut self, cx: &mut Cx<'_>, binding: &SecretBinding) {
        let reference = binding.secret_ref.clone().unwrap_or_default();
        let at = FieldPath::root().child("secretRef");
        self.add(cx, "SecretBinding", &binding.metadata, binding.provider.as_ref(), &at, reference);
    }

    /// Takes in a CredentialsBinding, which may lead to other things than Secrets.
    pub(super) fn add_credentials_binding(&mut self, cx: &mut Cx<'_>, binding: &CredentialsBinding) {
        let reference = binding.credentials_ref.clone().unwrap_or_default();
        let at = FieldPath::root().child("credentialsRef");
        if let Some(other) = reference.kind.as_deref().filter(|kind| *kind != "Secret") {
            let message = format!("credentials of the kind {other} hold no kubeconfig");
            cx.error(
                "unsupported",
                &at.child("kind"),
                message,
                "refer to a Secret with the key `kubeconfig`",
            );
        }
        let reference = SecretReference { name: reference.name, namespace: reference.namespace };
        self.add(cx, "CredentialsBinding", &binding.metadata, binding.provider.as_ref(), &at, reference);
    }

    fn add(
        &mut self,
        cx: &mut Cx<'_>,
        kind: &'static str,
        metadata: &Metadata,
        provider: Option<&BindingProvider>,
        at: &FieldPath,
        reference: SecretReference,
    ) {
        let root = FieldPath::root();
        let provider = provider.map(|provider| provider.type_.as_str());
        if let Some(other) = provider.filter(|name| *name != "kubevirt" && !name.is_empty()) {
            let message = format!("this binding is for {other}; no Shoot on kubevirt can use it");
            cx.warning("wrong-provider", &root.child("provider").child("type"), message, "write `kubevirt`");
        }
        let why = "the binding must say which Secret it is for";
        let secret = required(cx, &at.child("name"), reference.name.as_deref(), why).map(str::to_owned);
        let Some(name) = object_name(cx, metadata) else { return };
        self.bindings.push(Binding {
            document: cx.document(),
            kind,
            name: name.value,
            namespace: metadata.namespace.clone(),
            secret: secret.map(|secret| (secret, reference.namespace)),
            used: false,
        });
    }

    /// Takes in a Secret: all that is kept of its kubeconfig is the namespace of the current context.
    pub(super) fn add_secret(&mut self, cx: &mut Cx<'_>, secret: &Secret) {
        let root = FieldPath::root();
        let raw = secret.string_data.get("kubeconfig");
        let encoded = secret.data.get("kubeconfig");
        let infra_namespace = match (raw, encoded) {
            (Some(raw), _) => look_into(cx, &root.child("stringData").child("kubeconfig"), raw),
            (None, Some(encoded)) => decode(cx, &root.child("data").child("kubeconfig"), encoded),
            (None, None) => None,
        };
        if let Some(other) = secret.type_.as_deref().filter(|name| *name != "Opaque") {
            let message =
                format!("a Secret of the type {other} usually holds something else than a kubeconfig");
            cx.notice("secret-type", &root.child("type"), message, "write `type: Opaque`");
        }
        let Some(name) = object_name(cx, &secret.metadata) else { return };
        self.secrets.push(Key {
            document: cx.document(),
            name: name.value,
            namespace: secret.metadata.namespace.clone(),
            has_kubeconfig: raw.or(encoded).is_some(),
            infra_namespace,
            used: false,
        });
    }

    /// The platform of a Shoot in that namespace that names that binding at that field.
    pub(super) fn platform(
        &mut self,
        cx: &mut Cx<'_>,
        at: &FieldPath,
        name: &str,
        namespace: Option<&str>,
    ) -> KubevirtPlatform {
        let wanted =
            |other: &str, in_namespace: Option<&str>| other == name && may_match(in_namespace, namespace);
        let binding = self.bindings.iter_mut().find(|b| wanted(&b.name, b.namespace.as_deref()));
        let reference = match binding {
            Some(binding) => {
                binding.used = true;
                let Some(reference) = binding.secret.clone() else { return KubevirtPlatform::default() };
                Some(reference)
            }
            // Without the binding, a Secret of the same name is what most people have.
            None => None,
        };
        let (secret_name, secret_namespace) = match &reference {
            Some((name, namespace)) => (name.as_str(), namespace.as_deref()),
            None => (name, namespace),
        };
        let key = self
            .secrets
            .iter_mut()
            .find(|key| key.name == secret_name && may_match(key.namespace.as_deref(), secret_namespace));
        let Some(key) = key else {
            let what = if reference.is_some() {
                format!("Secret {secret_name}")
            } else {
                format!("secret binding {name}")
            };
            let message = format!(
                "which namespace of the infra cluster the machines are in is in the kubeconfig of {what}"
            );
            cx.notice("credentials-missing", at, message, "read it together with the Shoot");
            let credentials =
                reference.and_then(|(name, namespace)| credentials(cx, at, &name, namespace.as_deref()));
            return KubevirtPlatform { credentials, ..KubevirtPlatform::default() };
        };
        key.used = true;
        if !key.has_kubeconfig {
            let message = format!("Secret {} has no key `kubeconfig`", key.name);
            cx.error(
                "missing-field",
                at,
                message,
                "add the infra cluster's kubeconfig under data.kubeconfig",
            );
        }
        let namespace = match &reference {
            Some((_, namespace)) => namespace.clone(),
            None => key.namespace.clone(),
        };
        KubevirtPlatform {
            namespace: key.infra_namespace.clone(),
            credentials: credentials(cx, at, &key.name, namespace.as_deref()),
            ..KubevirtPlatform::default()
        }
    }

    /// Says of each binding and Secret that no Shoot led to it.
    pub(super) fn say_unused(&self, reading: &mut Reading) {
        let root = FieldPath::root();
        for binding in self.bindings.iter().filter(|binding| !binding.used) {
            let message = format!("{} {} describes no machines on its own", binding.kind, binding.name);
            let help = "read it together with a Shoot that names it";
            reading.within(binding.document).notice("standalone-document", &root, message, help);
        }
        for key in self.secrets.iter().filter(|key| !key.used) {
            let message = format!("Secret {} describes no machines on its own", key.name);
            let help = "read it together with a Shoot and the SecretBinding that leads to it";
            // Marks the name: what follows it is secret.
            let at = root.child("metadata").child("name");
            reading.within(key.document).notice("standalone-document", &at, message, help);
        }
    }
}

fn credentials(cx: &mut Cx<'_>, at: &FieldPath, name: &str, namespace: Option<&str>) -> Option<Credentials> {
    Some(Credentials {
        kind: CredentialsKind::Secret,
        namespace: cx.parse_opt(at, namespace),
        name: cx.parse(at, name)?,
        key: Credentials::DEFAULT_KEY.to_owned(),
    })
}

/// Whether a text only shows what should stand there.
fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("base64(")
        || text.contains("...")
        || text.contains('…')
        || (text.starts_with('<') && text.ends_with('>'))
        || text.contains("{{")
        || text.starts_with("${")
}

fn say_placeholder(cx: &mut Cx<'_>, at: &FieldPath) {
    let message = "this stands for a kubeconfig but is none, so the namespace of the machines is not known";
    let help =
        "put the infra cluster's kubeconfig here: kubectl config view --raw --minify --flatten | base64 -w0";
    cx.hidden(Severity::Warning, "placeholder", at, message, help);
}

fn decode(cx: &mut Cx<'_>, at: &FieldPath, encoded: &str) -> Option<NamespaceName> {
    // Long values are often wrapped; white space means nothing in base64.
    let joined: String = encoded.split_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(&joined);
    match bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => look_into(cx, at, &text),
        None if is_placeholder(encoded) => {
            say_placeholder(cx, at);
            None
        }
        None => {
            let message = "this is not text in base64";
            let help = "encode the kubeconfig with base64, or write it as it is under stringData";
            cx.hidden(Severity::Error, "invalid-base64", at, message, help);
            None
        }
    }
}

/// The namespace of a kubeconfig's current context. Nothing else of it leaves this function.
fn look_into(cx: &mut Cx<'_>, at: &FieldPath, text: &str) -> Option<NamespaceName> {
    match current_namespace(text) {
        Ok(namespace) => Some(namespace),
        Err(_) if is_placeholder(text) => {
            say_placeholder(cx, at);
            None
        }
        Err(why) => {
            let message = format!("this is not a usable kubeconfig: {why}");
            cx.hidden(
                Severity::Error,
                "invalid-kubeconfig",
                at,
                message,
                "put the infra cluster's kubeconfig here",
            );
            None
        }
    }
}

fn current_namespace(text: &str) -> Result<NamespaceName, &'static str> {
    // What the parser would complain about shows pieces of the text, so it is dropped here.
    let mut veiled = Diagnostics::new();
    let documents = crate::parse::parse(FileId(usize::MAX), text, &mut veiled);
    let [document] = documents.as_slice() else { return Err("it is not one YAML document") };
    if veiled.has_errors() {
        return Err("it is not valid YAML");
    }
    let root = &document.root;
    let current = root.get("current-context").and_then(|node| node.as_text()).filter(|name| !name.is_empty());
    let current = current.ok_or("it has no current-context")?;
    let contexts = root.get("contexts").ok_or("it has no contexts")?.items();
    let named = |name: &str| name == current;
    let context = contexts
        .iter()
        .find(|context| context.get("name").and_then(|name| name.as_text()).is_some_and(named))
        .and_then(|context| context.get("context"))
        .ok_or("its current-context is not among its contexts")?;
    let namespace = context.get("namespace").and_then(|node| node.as_text()).filter(|name| !name.is_empty());
    NamespaceName::new(namespace.unwrap_or(DEFAULT_NAMESPACE))
        .map_err(|_| "its namespace is not a valid name")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "current-context: b\ncontexts:\n- name: a\n  context: {namespace: x}\n- name: b\n  context: {cluster: c}\n";

    #[test]
    fn the_namespace_is_that_of_the_current_context() {
        assert_eq!(current_namespace(KUBECONFIG).unwrap().as_str(), "default");
        let other = KUBECONFIG.replace("current-context: b", "current-context: a");
        assert_eq!(current_namespace(&other).unwrap().as_str(), "x");
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_without_repeating_it() {
        for bad in ["", "token: [s3cret", "a: b", "current-context: z\ncontexts: []\n", "- s3cret"] {
            assert!(!current_namespace(bad).unwrap_err().contains("s3cret"), "{bad}");
        }
    }
}
