//! Secrets and Services of machines, of which nothing but the metadata is read.

use serde::Deserialize;

use super::meta::{Meta, WireMeta};
use super::seen;
use crate::annotations;

/// A Secret of a machine. What it holds is never read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Name, identity and age.
    pub meta: Meta,
    /// The uid of the Machine object it was made for.
    pub machine_uid: Option<Box<str>>,
    /// Whether what was secret in it is erased.
    pub erased: bool,
}

/// A Service of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredService {
    /// Name, identity and age.
    pub meta: Meta,
    /// The uid of the Machine object it was made for.
    pub machine_uid: Option<Box<str>>,
}

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
}

impl Stored {
    pub(crate) fn narrowed(Wire { mut metadata }: Wire) -> Self {
        Self {
            machine_uid: metadata.annotation(annotations::MACHINE_UID),
            erased: metadata.annotation(annotations::ERASED).as_deref() == Some("true"),
            meta: metadata.narrowed(),
        }
    }
}

impl StoredService {
    pub(crate) fn narrowed(Wire { mut metadata }: Wire) -> Self {
        Self { machine_uid: metadata.annotation(annotations::MACHINE_UID), meta: metadata.narrowed() }
    }
}

seen!(
    Stored from Wire, machine(this) { this.meta.machine.as_deref() },
    "", "v1", "Secret", "secrets", Machines, metadata_only
);
seen!(
    StoredService from Wire, machine(this) { this.meta.machine.as_deref() },
    "", "v1", "Service", "services", Machines, metadata_only
);
