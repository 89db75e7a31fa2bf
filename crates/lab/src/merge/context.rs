//! What a write is, as far as managed fields depend on it.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::Reset;
use crate::schema::TypeRef;

/// The versions of a kind.
pub(crate) trait Versions<'t> {
    /// What objects of the kind look like in a version such as `apps/v1`; none when there is no such version.
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'t>>;

    /// The object in another version. Most kinds look the same in all of them.
    fn convert<'v>(&self, object: &'v Value, to: &str) -> Cow<'v, Value> {
        let _ = to;
        Cow::Borrowed(object)
    }
}

/// Kinds that look the same in all versions.
impl<'t, 'u: 't, F: Fn(&str) -> Option<TypeRef<'u>>> Versions<'t> for F {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'t>> {
        self(api_version)
    }
}

/// Who writes what.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The name of whoever writes: see [`super::manager_name`].
    pub manager: &'a str,
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the object that is written.
    pub kind: &'a str,
    /// The subresource that is written to; empty for the object itself.
    pub subresource: &'a str,
    /// True for custom resources: they are stored as they were sent, without fields that are always there.
    pub custom: bool,
    /// The time of the write.
    pub now: Timestamp,
    /// What the versions of the kind look like.
    pub versions: &'a dyn Versions<'a>,
    /// What the write cannot change.
    pub reset: Reset,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Context")
            .field("manager", &self.manager)
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .field("subresource", &self.subresource)
            .field("reset", &self.reset)
            .finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    /// The type of the written object.
    pub(super) fn own_type(&self) -> Option<TypeRef<'a>> {
        self.versions.type_of(self.api_version)
    }

    /// The object before anybody wrote to it.
    pub(super) fn empty_object(&self, of: TypeRef<'_>) -> Value {
        let mut object =
            if self.custom { Value::Object(serde_json::Map::new()) } else { super::empty::empty(of) };
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), self.api_version.into());
            fields.insert("kind".to_owned(), self.kind.into());
        }
        object
    }
}
