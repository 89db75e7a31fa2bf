//! How the past ends: lists of versions from some time ago expire, however much of the history is still there.
//!
//! As with etcd, a compaction is itself a write. So the version somebody reads now is never one that is too old
//! already, even where nothing else is written for long, and every version is too old some time.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{Draft, Expect, Key, Refusal, Store};
use crate::names::GroupResource;

/// Where the last compactions were.
#[derive(Debug, Default)]
pub(super) struct Compactions {
    /// The write of the last one.
    last: AtomicU64,
    /// Versions below this one are gone: the write of the one before.
    floor: AtomicU64,
}

impl Compactions {
    /// True when the state at a version is gone.
    pub(super) fn have_taken(&self, version: u64) -> bool {
        version < self.floor.load(Ordering::Acquire)
    }
}

/// What compactions write; no API serves it.
pub(super) fn resource() -> GroupResource {
    GroupResource::new("", "compactions")
}

impl Store {
    /// Ends what was before the last call of this. To be called once in every [`super::Retention::age`].
    pub(crate) fn compact_past(&self) {
        self.forget_old();
        let (of, key) = (resource(), Key::new("", "last"));
        let draft = Draft::new(&json!({"metadata": {"name": key.name}}), Vec::new(), 0);
        let expect = self.get(&of, &key).map_or(Expect::Absent, |record| Expect::Version(record.version));
        match self.put(&of, &key, expect, draft) {
            Ok(record) => {
                let last = self.compactions.last.swap(record.version, Ordering::AcqRel);
                self.compactions.floor.store(last, Ordering::Release);
            }
            // Somebody else compacts at the same time, or nothing is written any more.
            Err(Refusal::Changed(_) | Refusal::Gone | Refusal::Lost(_)) => {}
        }
    }
}
