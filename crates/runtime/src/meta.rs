//! The part of an object's metadata that is kept in memory.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de::DeserializeOwned};

use crate::Key;

/// An object as a cache holds it: only the fields that somebody looks at, so that memory stays small and an event that
/// changes nothing of them can be dropped. Equality must not look at the resource version; [`Meta`]'s does not.
///
/// [`narrow!`](crate::narrow) implements it for a type with a field of type [`Meta`].
pub trait Narrow: DeserializeOwned + PartialEq + Send + Sync + 'static {
    /// What the object is called.
    fn key(&self) -> &Key;
    /// Which of all objects that ever had that name it is.
    fn uid(&self) -> &Arc<str>;
    /// How new this view of the object is, among views from the same server.
    fn resource_version(&self) -> u64;
}

/// Implements [`Narrow`] by a field that is a [`Meta`]: `narrow!(Machine)` for the field `metadata`,
/// `narrow!(Machine, meta)` for another.
#[macro_export]
macro_rules! narrow {
    ($type:ty) => {
        $crate::narrow!($type, metadata);
    };
    ($type:ty, $field:ident) => {
        impl $crate::Narrow for $type {
            fn key(&self) -> &$crate::Key {
                &self.$field.key
            }
            fn uid(&self) -> &::std::sync::Arc<str> {
                &self.$field.uid
            }
            fn resource_version(&self) -> u64 {
                self.$field.resource_version
            }
        }
    };
}

/// Which labels and annotations of a kind are kept. A name that ends in `*` stands for all that begin like it.
pub trait Keep: 'static {
    /// The labels.
    const LABELS: &'static [&'static str] = &[];
    /// The annotations.
    const ANNOTATIONS: &'static [&'static str] = &[];
}

/// Keeps no labels and no annotations.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl Keep for Nothing {}

/// The metadata of an object as far as it is kept. Two are equal although their resource versions differ.
pub struct Meta<K = Nothing> {
    /// Namespace and name.
    pub key: Key,
    /// What tells it from others that had its name.
    pub uid: Arc<str>,
    /// How new this view is; 0 where the server tells none that is a number.
    pub resource_version: u64,
    /// How often the spec was changed.
    pub generation: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it was asked to go.
    pub deleting: Option<Timestamp>,
    /// Who wants to do something before it goes.
    pub finalizers: Box<[Box<str>]>,
    /// The owner that acts on it.
    pub controller: Option<Box<Owner>>,
    /// The labels that are kept.
    pub labels: Pairs,
    /// The annotations that are kept.
    pub annotations: Pairs,
    keep: PhantomData<fn() -> K>,
}

/// Who an object belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Group and version.
    pub api_version: Box<str>,
    /// The kind.
    pub kind: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The uid.
    pub uid: Box<str>,
}

impl<K> Meta<K> {
    /// The name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }

    /// Whether it was asked to go.
    pub fn is_deleting(&self) -> bool {
        self.deleting.is_some()
    }

    /// Whether somebody of that name wants to do something before it goes.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|found| **found == *name)
    }
}

impl<K> Clone for Meta<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            uid: Arc::clone(&self.uid),
            resource_version: self.resource_version,
            generation: self.generation,
            created: self.created,
            deleting: self.deleting,
            finalizers: self.finalizers.clone(),
            controller: self.controller.clone(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            keep: PhantomData,
        }
    }
}

impl<K> Default for Meta<K> {
    fn default() -> Self {
        Self {
            key: Key::cluster(""),
            uid: Arc::from(""),
            resource_version: 0,
            generation: 0,
            created: None,
            deleting: None,
            finalizers: Box::default(),
            controller: None,
            labels: Pairs::default(),
            annotations: Pairs::default(),
            keep: PhantomData,
        }
    }
}

impl<K> PartialEq for Meta<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
            && self.uid == other.uid
            && self.generation == other.generation
            && self.created == other.created
            && self.deleting == other.deleting
            && self.finalizers == other.finalizers
            && self.controller == other.controller
            && self.labels == other.labels
            && self.annotations == other.annotations
    }
}

impl<K> Eq for Meta<K> {}

impl<K> fmt::Debug for Meta<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Meta")
            .field("key", &self.key)
            .field("uid", &self.uid)
            .field("resource_version", &self.resource_version)
            .field("generation", &self.generation)
            .field("deleting", &self.deleting)
            .finish_non_exhaustive()
    }
}

/// Names and values in the order of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<[(Cow<'static, str>, Box<str>)]>);

impl Pairs {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn kept(pairs: Vec<(Cow<'_, str>, String)>, names: &'static [&'static str]) -> Self {
        let mut kept: Vec<_> = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((kept_name(name, names)?, value.into_boxed_str())))
            .collect();
        kept.sort();
        Self(kept.into_boxed_slice())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut kept: Vec<_> = pairs
            .into_iter()
            .map(|(name, value)| (Cow::Owned(name.into()), value.into().into_boxed_str()))
            .collect();
        kept.sort();
        Self(kept.into_boxed_slice())
    }
}

/// The name as it is kept: the one of the list where it is there, so that it takes no memory of its own.
fn kept_name(name: Cow<'_, str>, names: &'static [&'static str]) -> Option<Cow<'static, str>> {
    for wanted in names {
        if *wanted == name {
            return Some(Cow::Borrowed(wanted));
        }
        if wanted.strip_suffix('*').is_some_and(|start| name.starts_with(start)) {
            return Some(Cow::Owned(name.into_owned()));
        }
    }
    None
}

/// The metadata as the server tells it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<Box<str>>,
    #[serde(default)]
    owner_references: Vec<ToldOwner>,
    #[serde(borrow, default)]
    labels: Texts<'a>,
    #[serde(borrow, default)]
    annotations: Texts<'a>,
}

#[derive(Deserialize)]
struct ToldOwner {
    #[serde(default)]
    controller: bool,
    #[serde(flatten)]
    owner: Owner,
}

/// A map of texts, read without making a tree of it.
#[derive(Default)]
struct Texts<'a>(Vec<(Cow<'a, str>, String)>);

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Texts<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of texts")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Texts::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or_default());
                while let Some((name, value)) = map.next_entry::<Text<'de>, String>()? {
                    pairs.push((name.0, value));
                }
                Ok(Texts(pairs))
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// A text that is borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, K: Keep> Deserialize<'de> for Meta<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let told = Told::deserialize(deserializer)?;
        Ok(Self {
            key: Key::new(&told.namespace, &told.name),
            uid: Arc::from(&*told.uid),
            resource_version: told.resource_version.parse().unwrap_or_default(),
            generation: told.generation,
            created: told.creation_timestamp,
            deleting: told.deletion_timestamp,
            finalizers: told.finalizers.into_boxed_slice(),
            controller: told
                .owner_references
                .into_iter()
                .find(|owner| owner.controller)
                .map(|owner| Box::new(owner.owner)),
            labels: Pairs::kept(told.labels.0, K::LABELS),
            annotations: Pairs::kept(told.annotations.0, K::ANNOTATIONS),
            keep: PhantomData,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Some;

    impl Keep for Some {
        const LABELS: &'static [&'static str] = &["trellis.dev/cluster"];
        const ANNOTATIONS: &'static [&'static str] = &["autoscaler/*"];
    }

    fn object(version: &str) -> serde_json::Value {
        json!({
            "name": "m", "namespace": "ns", "uid": "u-1", "resourceVersion": version, "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"trellis.dev/cluster": "c", "other": "x"},
            "annotations": {"autoscaler/min": "1", "autoscaler/max": "2", "noise": "y"},
            "finalizers": ["trellis.dev/machine"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
                {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true},
            ],
            "managedFields": [{"manager": "x"}],
        })
    }

    #[test]
    fn only_what_is_asked_for_is_kept() {
        let meta: Meta<Some> = serde_json::from_value(object("7")).unwrap();
        assert_eq!(meta.key, Key::new("ns", "m"));
        assert_eq!(meta.resource_version, 7);
        assert_eq!(meta.labels.iter().collect::<Vec<_>>(), [("trellis.dev/cluster", "c")]);
        let annotations = meta.annotations.iter().collect::<Vec<_>>();
        assert_eq!(annotations, [("autoscaler/max", "2"), ("autoscaler/min", "1")]);
        assert!(meta.has_finalizer("trellis.dev/machine"));
        assert_eq!(&*meta.controller.as_ref().unwrap().name, "b");
        assert!(!meta.is_deleting());
    }

    #[test]
    fn a_new_version_alone_is_no_difference() {
        let old: Meta = serde_json::from_str(&object("7").to_string()).unwrap();
        let new: Meta = serde_json::from_str(&object("8").to_string()).unwrap();
        assert_eq!(old, new);
        assert!(old.labels.is_empty());
        let mut other = object("8");
        other["generation"] = 4.into();
        assert_ne!(old, serde_json::from_value(other).unwrap());
    }

    #[test]
    fn sparse_metadata_is_read() {
        let meta: Meta = serde_json::from_str(r#"{"name": "x", "labels": null}"#).unwrap();
        assert_eq!((meta.name(), meta.namespace(), meta.generation), ("x", "", 0));
    }
}
