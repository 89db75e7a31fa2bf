//! Requests to the infra cluster, as plain data.

use std::fmt;

use serde_json::Value;

use crate::seen::Watched;

/// How something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Server-side apply as [`FIELD_MANAGER`], by force: what we state is ours.
    Apply,
    /// Create; what exists is left alone and is an error.
    Create,
    /// JSON patch.
    JsonPatch,
    /// JSON merge patch.
    MergePatch,
    /// Delete.
    Delete,
}

/// The name we write under.
pub const FIELD_MANAGER: &str = "trellis";

/// What happens to the dependants of what is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go first, and the object after them: when it is gone, all is gone.
    Foreground,
    /// They go afterwards.
    Background,
}

impl Propagation {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
        }
    }
}

/// One request to the infra cluster.
#[derive(Clone, PartialEq)]
pub struct Call {
    /// How it is asked for.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural of the kind.
    pub plural: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// A part of the object that has an address of its own.
    pub subresource: Option<&'static str>,
    /// What is sent.
    pub body: Option<Value>,
    /// The object that is meant. Whatever deletes has one; patches have it in their body.
    pub precondition_uid: Option<String>,
    /// What happens to dependants.
    pub propagation: Option<Propagation>,
    /// How long what is deleted may take to end, in seconds; as it says itself where nothing is said.
    pub grace_seconds: Option<u32>,
}

impl fmt::Debug for Call {
    /// Leaves out what is sent: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.verb, self.path())
    }
}

impl Call {
    /// A request about an object of a kind.
    pub(crate) fn new(verb: Verb, kind: Watched, namespace: &str, name: impl Into<String>) -> Self {
        Self {
            verb,
            group: kind.group,
            version: kind.version,
            plural: kind.plural,
            namespace: namespace.to_owned(),
            name: name.into(),
            subresource: None,
            body: None,
            precondition_uid: None,
            propagation: None,
            grace_seconds: None,
        }
    }

    /// The same with that sent.
    pub(crate) fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// A deletion of exactly that object.
    pub(crate) fn delete(kind: Watched, namespace: &str, name: &str, uid: &str) -> Self {
        Self { precondition_uid: Some(uid.to_owned()), ..Self::new(Verb::Delete, kind, namespace, name) }
    }

    /// Where it goes: the object, or for a creation its collection. Without the parameters that verb and field
    /// manager bring.
    pub fn path(&self) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        let collection = format!("{root}/namespaces/{}/{}", self.namespace, self.plural);
        match (self.verb, self.subresource) {
            (Verb::Create, _) => collection,
            (_, Some(subresource)) => format!("{collection}/{}/{subresource}", self.name),
            (_, None) => format!("{collection}/{}", self.name),
        }
    }

    /// The `DeleteOptions` of a deletion.
    pub fn delete_options(&self) -> Option<Value> {
        if self.verb != Verb::Delete {
            return None;
        }
        let mut options = serde_json::json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
        if let Some(uid) = &self.precondition_uid {
            options["preconditions"] = serde_json::json!({ "uid": uid });
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = propagation.as_str().into();
        }
        if let Some(seconds) = self.grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        Some(options)
    }
}
