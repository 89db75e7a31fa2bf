//! The request under review.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::attributes::Attributes;
use crate::names::Gvk;
use crate::status::Status;

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is removed.
    Delete,
}

impl Operation {
    /// `CREATE` and so on.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A request on its way through admission.
#[derive(Debug, Clone)]
pub(crate) struct Review<'a> {
    /// Who asks for what.
    pub attributes: &'a Attributes,
    /// The kind of the object in the request, such as `Eviction` for `pods/eviction`.
    pub kind: &'a Gvk,
    /// What is done.
    pub operation: Operation,
    /// True if nothing will be stored.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions`; null for none.
    pub options: Value,
    /// The object as it will be; absent for deletions.
    pub object: Option<Value>,
    /// The object as it is; absent for creations.
    pub old: Option<Arc<Value>>,
}

impl Review<'_> {
    /// True if the request is about the objects of a resource themselves, not about a subresource.
    pub(crate) fn is(&self, group: &str, resource: &str) -> bool {
        self.is_resource(group, resource) && self.attributes.subresource.is_empty()
    }

    /// True if the request is about a resource or any subresource of it.
    pub(crate) fn is_resource(&self, group: &str, resource: &str) -> bool {
        self.attributes.group == group && self.attributes.resource == resource
    }

    /// True if the object in the request is of a kind, in whatever version.
    pub(crate) fn is_kind(&self, group: &str, kind: &str) -> bool {
        self.kind.group == group && self.kind.kind == kind
    }

    /// The name of the object: that of the request, or what the object to create is called.
    pub(crate) fn name(&self) -> &str {
        if self.attributes.name.is_empty() && self.operation == Operation::Create {
            return self
                .object
                .as_ref()
                .and_then(|object| object["metadata"]["name"].as_str())
                .unwrap_or_default();
        }
        &self.attributes.name
    }

    /// The namespace of the object. Namespaces count as being in themselves.
    pub(crate) fn namespace(&self) -> &str {
        if self.attributes.namespace.is_empty() && self.is_resource("", "namespaces") {
            return self.name();
        }
        &self.attributes.namespace
    }

    /// The name that messages show, which is never empty.
    pub(crate) fn shown_name(&self) -> &str {
        let name = self.name();
        if !name.is_empty() {
            return name;
        }
        let metadata = self.object.as_ref().map(|object| &object["metadata"]);
        ["name", "generateName"]
            .iter()
            .filter_map(|key| metadata?[*key].as_str())
            .find(|text| !text.is_empty())
            .unwrap_or("Unknown")
    }

    /// 403 with the reason in words.
    pub(crate) fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(&self.attributes.group, &self.attributes.resource, self.shown_name(), why)
    }
}
