//! Objects as the caches of the runtime keep them.

use std::ops::Deref;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::value::RawValue;
use trellis_runtime::{Key, Meta, Narrow};

/// A narrow object of any crate with what a cache needs to know of it. Two are equal when what was narrowed is.
#[derive(Debug, Clone)]
pub(crate) struct Cached<T> {
    meta: Meta,
    object: T,
}

impl<T> Cached<T> {
    /// The version to name where a write must not go over somebody else's.
    pub(crate) fn version(&self) -> String {
        self.meta.resource_version.to_string()
    }
}

impl<T> Deref for Cached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: PartialEq> PartialEq for Cached<T> {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Cached<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Head {
            metadata: Meta,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        // What serde says of an object may quote it, and some hold secrets.
        let unreadable = |_| D::Error::custom("it does not have the form of its kind");
        let head: Head = serde_json::from_str(text.get()).map_err(unreadable)?;
        let object = serde_json::from_str(text.get()).map_err(unreadable)?;
        Ok(Self { meta: head.metadata, object })
    }
}

impl<T: DeserializeOwned + PartialEq + Send + Sync + 'static> Narrow for Cached<T> {
    fn key(&self) -> &Key {
        &self.meta.key
    }

    fn uid(&self) -> &Arc<str> {
        &self.meta.uid
    }

    fn resource_version(&self) -> u64 {
        self.meta.resource_version
    }
}
