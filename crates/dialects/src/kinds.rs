//! The kinds of documents a dialect is made of.

use serde_json::Value;

use crate::path::FieldPath;
use crate::reading::Cx;

/// One kind of document of a dialect, decoded into that dialect's `Object`.
#[derive(Debug)]
pub struct Kind<O> {
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Its `kind`.
    pub kind: &'static str,
    /// The schema documents are held against.
    pub schema: fn() -> &'static Value,
    /// Decodes a document that passed the check.
    pub decode: fn(&mut Cx<'_>, Value) -> Option<O>,
}

/// Decodes a whole document.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(cx: &mut Cx<'_>, value: Value) -> Option<T> {
    cx.decode(&FieldPath::root(), value)
}

/// Declares a dialect's kinds: an enum `Object` with one variant each, and the table `KINDS`.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident($ty:ty) = $api_version:literal $kind:literal;)*) => {
        /// A document of this dialect.
        #[derive(Debug, Clone)]
        pub enum Object {
            $($(#[$doc])* $variant(Box<$ty>),)*
        }

        /// The kinds this dialect is made of.
        pub static KINDS: &[$crate::kinds::Kind<Object>] = &[$(
            $crate::kinds::Kind {
                api_version: $api_version,
                kind: $kind,
                schema: $crate::schema::schema_of::<$ty>,
                decode: |cx, value| $crate::kinds::decode::<$ty>(cx, value).map(|object| Object::$variant(Box::new(object))),
            },
        )*];
    };
}
pub(crate) use kinds;
