//! Pieces that the foreign manifest languages share.
//!
//! Doc comments of fields are data: the first paragraph says what the field is, a paragraph that begins
//! with `Honoured:`, `Mapped:`, `Warned about:`, `Refused:` or `Ignored:` says what Trellis does with
//! it. `trellis explain`, the field tables and the diagnostics are made from them.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Metadata of an object, as people write it and as a server hands it out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The object's name.
    ///
    /// Honoured: the name of the cluster, pool or machine; on a template it has no effect, and a warning says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A prefix the server makes a name from.
    ///
    /// Mapped: names are derived, so the prefix itself becomes the name; on a template it has no effect, and a warning says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    /// The namespace the object lives in.
    ///
    /// Honoured: the namespace of the object on the control site; on a template it has no effect, and a warning says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the object.
    ///
    /// Mapped: labels of a template reach machines and VMs; of other objects, only those that name the cluster are used.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object.
    ///
    /// Mapped: annotations of a template reach machines and VMs; of other objects, only those with a meaning here are used.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    #[doc(hidden)]
    pub server: ServerMetadata,
}

/// Metadata that only a server writes. It is accepted, so that what `kubectl get -o yaml` prints can be
/// read, and means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerMetadata {
    /// When the object was made.
    #[serde(skip_serializing)]
    pub creation_timestamp: ServerWritten,
    /// When the object was asked to go.
    #[serde(skip_serializing)]
    pub deletion_timestamp: ServerWritten,
    /// How long it has for that.
    #[serde(skip_serializing)]
    pub deletion_grace_period_seconds: ServerWritten,
    /// Who still has to do something before it may go.
    #[serde(skip_serializing)]
    pub finalizers: ServerWritten,
    /// How often its spec changed.
    #[serde(skip_serializing)]
    pub generation: ServerWritten,
    /// Who wrote which field.
    #[serde(skip_serializing)]
    pub managed_fields: ServerWritten,
    /// Whose part it is.
    #[serde(skip_serializing)]
    pub owner_references: ServerWritten,
    /// Its version in the store.
    #[serde(skip_serializing)]
    pub resource_version: ServerWritten,
    /// Its old address.
    #[serde(skip_serializing)]
    pub self_link: ServerWritten,
    /// Its identity.
    #[serde(skip_serializing)]
    pub uid: ServerWritten,
}

/// A field only a server writes: accepted in any form and forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerWritten;

/// A field that has nothing to do with tenant machines: accepted in any form, mentioned once, forgotten.
/// Its doc comment says why, in a paragraph that begins with `Ignored:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored;

/// Like [`Ignored`], for a field that may hold a secret: nothing of its text is ever shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoredSecret;

/// A field of which only the presence counts, because Trellis refuses it: accepted in any form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Present;

/// A document inside a document, whose type depends on what stands beside it. The reader decodes it in
/// a second step; nothing of it is kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedded<T>(PhantomData<T>);

impl<T> Default for Embedded<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

macro_rules! forgotten {
    ($($ty:ident $(<$param:ident>)?),*) => {$(
        impl<'de $(, $param)?> Deserialize<'de> for $ty $(<$param>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self::default())
            }
        }
        impl$(<$param>)? Serialize for $ty $(<$param>)? {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_none()
            }
        }
    )*};
}

forgotten!(ServerWritten, Ignored, IgnoredSecret, Present, Embedded<T>);

impl JsonSchema for ServerWritten {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ServerWritten".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-trellis-ignored": "a server writes it", "x-trellis-silent": true })
    }
}

impl JsonSchema for Ignored {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ignored".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-trellis-ignored": "it has nothing to do with tenant machines" })
    }
}

impl JsonSchema for IgnoredSecret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IgnoredSecret".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-trellis-ignored": "Trellis keeps no secrets it does not need", "x-trellis-sensitive": true })
    }
}

impl JsonSchema for Present {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Present".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

impl<T: JsonSchema> JsonSchema for Embedded<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Embedded{}", T::schema_name()).into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let inner = generator.subschema_for::<T>();
        json_schema!({
            "x-trellis-ignored": "it is read in a second step",
            "x-trellis-silent": true,
            "x-trellis-embedded": inner,
        })
    }
}

/// A scalar taken as it stands: `1`, `1.5` and `"1"` are the same text as their writer typed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(pub String);

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: ToString> From<&T> for Text {
    fn from(value: &T) -> Self {
        Self(value.to_string())
    }
}

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-trellis-text": true })
    }
}

/// A number or a percentage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrText {
    /// A number.
    Int(i64),
    /// A text such as `25%`.
    Text(String),
}

impl std::fmt::Display for IntOrText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<trellis_model::quantity::Count> for IntOrText {
    fn from(count: trellis_model::quantity::Count) -> Self {
        match count {
            trellis_model::quantity::Count::Absolute(n) => Self::Int(n.into()),
            percent @ trellis_model::quantity::Count::Percent(_) => Self::Text(percent.to_string()),
        }
    }
}

impl JsonSchema for IntOrText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IntOrText".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

/// Settings of name resolution, as a pod has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsConfig {
    /// Addresses of name servers.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Domains that short names are looked up in.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<String>,
    /// Options of the resolver.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<DnsOption>,
}

/// An option of the resolver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsOption {
    /// Its name.
    ///
    /// Honoured: as it stands.
    pub name: String,
    /// Its value.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Text>,
}
