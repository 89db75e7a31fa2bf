//! What all objects have, and small helpers to read them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::{annotations, labels};

/// Name, identity and age of an object, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Its name.
    pub name: Box<str>,
    /// Its namespace; empty for objects of the whole infra cluster.
    pub namespace: Box<str>,
    /// What tells it from a later one of the same name.
    pub uid: Box<str>,
    /// When it was made.
    pub created: Timestamp,
    /// When somebody asked for its removal.
    pub deleting: Option<Timestamp>,
    /// The cluster it belongs to, by our label.
    pub cluster: Option<Box<str>>,
    /// The machine it belongs to, by our label.
    pub machine: Option<Box<str>>,
    /// The namespace of the Machine object it was made for, where it says so.
    pub machine_namespace: Option<Box<str>>,
}

/// Metadata as objects have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireMeta {
    name: Box<str>,
    #[serde(default)]
    namespace: Option<Box<str>>,
    #[serde(default)]
    uid: Option<Box<str>>,
    #[serde(default, deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    deletion_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) annotations: BTreeMap<String, Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    owner_references: Vec<WireOwner>,
}

#[derive(Deserialize)]
struct WireOwner {
    #[serde(default)]
    kind: Box<str>,
    #[serde(default)]
    name: Box<str>,
    #[serde(default)]
    uid: Box<str>,
}

/// The object that another one was made by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeBy {
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
}

impl WireMeta {
    /// The part that is kept.
    pub(crate) fn narrowed(mut self) -> Meta {
        Meta {
            cluster: self.labels.remove(labels::CLUSTER),
            machine: self.labels.remove(labels::MACHINE),
            machine_namespace: self.annotations.remove(annotations::MACHINE_NAMESPACE),
            name: self.name,
            namespace: self.namespace.unwrap_or_default(),
            uid: self.uid.unwrap_or_default(),
            created: self.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleting: self.deletion_timestamp,
        }
    }

    /// Takes an annotation out.
    pub(crate) fn annotation(&mut self, key: &str) -> Option<Box<str>> {
        self.annotations.remove(key)
    }

    /// Takes the owner of that kind out.
    pub(crate) fn owner(&mut self, kind: &str) -> Option<MadeBy> {
        let owner = self.owner_references.iter_mut().find(|owner| &*owner.kind == kind)?;
        let (name, uid) = (std::mem::take(&mut owner.name), std::mem::take(&mut owner.uid));
        Some(MadeBy { name, uid }).filter(|owner| !owner.name.is_empty())
    }
}

/// What a condition that does not hold, or that holds and should not, says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// Its reason, one word.
    pub reason: Box<str>,
    /// Its message, for people.
    pub message: Box<str>,
}

impl Condition {
    /// The message, or the reason where there is none.
    pub fn text(&self) -> &str {
        if self.message.trim().is_empty() { &self.reason } else { &self.message }
    }
}

/// A condition as objects have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireCondition {
    #[serde(rename = "type", default)]
    pub(crate) kind: Box<str>,
    #[serde(default)]
    pub(crate) status: Option<Box<str>>,
    #[serde(default)]
    pub(crate) reason: Option<Box<str>>,
    #[serde(default)]
    pub(crate) message: Option<Box<str>>,
    #[serde(default, deserialize_with = "time")]
    pub(crate) last_transition_time: Option<Timestamp>,
}

impl WireCondition {
    /// Whether it holds.
    pub(crate) fn holds(&self) -> bool {
        self.status.as_deref() == Some("True")
    }

    /// Whether it is known not to hold.
    pub(crate) fn fails(&self) -> bool {
        self.status.as_deref() == Some("False")
    }

    /// What it says.
    pub(crate) fn said(self) -> Condition {
        Condition { reason: self.reason.unwrap_or_default(), message: self.message.unwrap_or_default() }
    }
}

/// Reads a moment; nothing where it is none.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<Box<str>>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

/// Reads a value that may be written as null where it is empty.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// An enum of words, where one that is not known is `Other`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// Nothing was said yet.
            #[default]
            Unset,
            /// A word that this version does not know.
            Other,
        }

        impl $name {
            /// All that are known.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The platform's word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Unset => "",
                    Self::Other => "unknown",
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = Option::<Box<str>>::deserialize(deserializer)?;
                Ok(match word.as_deref() {
                    None | Some("") => Self::Unset,
                    $(Some($word) => Self::$variant,)*
                    Some(_) => Self::Other,
                })
            }
        }
    };
}
pub(crate) use words;
