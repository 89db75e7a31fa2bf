//! How a Shoot finds the credentials of the infra cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Ignored, Metadata};

/// Lets Shoots of a namespace use a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretBinding {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Name and namespace.
    ///
    /// Honoured: a Shoot of the same namespace finds the binding by its name.
    pub metadata: Metadata,
    /// The infrastructure the credentials are for.
    ///
    /// Warned about: a binding for anything but `kubevirt` is of no use here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<BindingProvider>,
    /// The Secret with the credentials.
    ///
    /// Honoured: the credentials of the clusters that use the binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Quotas for the Shoots that use the binding.
    ///
    /// Ignored: Trellis has no quotas of its own; the infra namespace's ResourceQuota holds.
    #[serde(skip_serializing)]
    pub quotas: Ignored,
}

/// The infrastructure a binding is for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingProvider {
    /// Its type.
    ///
    /// Warned about: anything but `kubevirt` is of no use here.
    #[serde(rename = "type")]
    pub type_: String,
}

/// A Secret in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretReference {
    /// Its name.
    ///
    /// Honoured: the name of the Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    ///
    /// Honoured: the namespace of the Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Lets Shoots of a namespace use credentials; it takes the place of SecretBinding in newer Gardeners.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsBinding {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Name and namespace.
    ///
    /// Honoured: a Shoot of the same namespace finds the binding by its name.
    pub metadata: Metadata,
    /// The infrastructure the credentials are for.
    ///
    /// Warned about: a binding for anything but `kubevirt` is of no use here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<BindingProvider>,
    /// The credentials.
    ///
    /// Honoured: a Secret with the credentials of the clusters that use the binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CredentialsReference>,
    /// Quotas for the Shoots that use the binding.
    ///
    /// Ignored: Trellis has no quotas of its own; the infra namespace's ResourceQuota holds.
    #[serde(skip_serializing)]
    pub quotas: Ignored,
}

/// Credentials in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsReference {
    /// The version of their API.
    ///
    /// Refused: unless it is `v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Their kind.
    ///
    /// Refused: unless it is `Secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Their name.
    ///
    /// Honoured: the name of the Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Their namespace.
    ///
    /// Honoured: the namespace of the Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A Secret with the kubeconfig of an infra cluster.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Secret {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Name and namespace.
    ///
    /// Honoured: a binding finds the Secret by them.
    pub metadata: Metadata,
    /// What kind of Secret it is.
    ///
    /// Warned about: any type will do, but one that is not `Opaque` usually holds something else.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Values by key, in base64.
    ///
    /// Honoured: from the key `kubeconfig` the namespace of the current context is taken; other keys are not looked at.
    #[serde(skip_serializing)]
    #[schemars(extend("x-trellis-sensitive" = true))]
    pub data: BTreeMap<String, String>,
    /// Values by key, as they are.
    ///
    /// Honoured: like `data`, without base64; it wins where both have a key.
    #[serde(skip_serializing)]
    #[schemars(extend("x-trellis-sensitive" = true))]
    pub string_data: BTreeMap<String, String>,
    /// Whether the Secret can still be changed.
    ///
    /// Ignored: Trellis does not write this Secret.
    #[serde(skip_serializing)]
    pub immutable: Ignored,
}

impl std::fmt::Debug for Secret {
    /// Names the keys and leaves out what they hold.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("metadata", &self.metadata)
            .field("data", &self.data.keys())
            .field("string_data", &self.string_data.keys())
            .finish_non_exhaustive()
    }
}
