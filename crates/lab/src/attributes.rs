//! Who asks for what: the facts of a request that authorization and admission decide by.

use std::collections::BTreeMap;

/// Whoever made a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:shop:default`.
    pub name: String,
    /// The uid, where there is one.
    pub uid: String,
    /// The groups, such as `system:authenticated`.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a request asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Whoever asks.
    pub user: User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the HTTP method
    /// in small letters for paths that are no resources.
    pub verb: String,
    /// The group; empty for the core and for paths.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural resource; empty for paths that are no resources.
    pub resource: String,
    /// The subresource, such as `status`; empty for none.
    pub subresource: String,
    /// The namespace; empty for resources of the cluster and for lists over all namespaces.
    pub namespace: String,
    /// The name of the object; empty for collections.
    pub name: String,
    /// The path of the URL.
    pub path: String,
    /// The label selector of a list, watch or deletecollection, as sent.
    pub label_selector: String,
    /// The field selector, as sent.
    pub field_selector: String,
}

impl Attributes {
    /// True for a path under `/api` or `/apis` that names a resource.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}
