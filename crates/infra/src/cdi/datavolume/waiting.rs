//! Who waits for what: so that a change wakes those it concerns and nobody else.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::kinds::Kind;
use crate::object::Key;

/// The keys that wait for an object.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    table: Mutex<HashMap<(&'static str, Key), BTreeSet<Key>>>,
}

impl Waiting {
    /// Remembers that somebody waits for an object.
    pub(super) fn add(&self, kind: &'static Kind, object: &Key, who: &Key) {
        self.table.lock().entry((kind.kind, object.clone())).or_default().insert(who.clone());
    }

    /// Who has waited for an object; they are to look, and to wait again if need be.
    pub(super) fn take(&self, kind: &'static Kind, object: &Key) -> Vec<Key> {
        let who = self.table.lock().remove(&(kind.kind, object.clone()));
        who.into_iter().flatten().collect()
    }
}
