//! Which of two views of an object is the newer one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::Change;
use super::index::Indexed;
use crate::{Key, Narrow};

/// The objects and how far the watch has come. No lock and no clock: only the rules of order.
pub(super) struct Objects<T> {
    known: BTreeMap<Key, Arc<T>>,
    indexes: Vec<Box<dyn Indexed<T>>>,
    /// What was removed by ourselves and is not yet told by the watch, with its uid: older events must not bring it back.
    removed: HashMap<Key, Arc<str>>,
    /// How far the watch has come: what was written up to here, it has told.
    seen: u64,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), indexes: Vec::new(), removed: HashMap::new(), seen: 0 }
    }
}

impl<T: Narrow> Objects<T> {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.known.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.known.values()
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    pub(super) fn add_index(&mut self, mut index: Box<dyn Indexed<T>>) {
        for (key, object) in &self.known {
            index.update(key, None, Some(object));
        }
        self.indexes.push(index);
    }

    /// The answer to an own write.
    pub(super) fn written(&mut self, object: Arc<T>) -> Vec<Change<T>> {
        if object.resource_version() <= self.seen || self.is_removed(&object) {
            return Vec::new();
        }
        self.newer(object)
    }

    /// The answer to an own deletion.
    pub(super) fn removed(&mut self, key: &Key, uid: &str) -> Vec<Change<T>> {
        let Some(object) = self.known.get(key).filter(|object| &**object.uid() == uid) else {
            return Vec::new();
        };
        self.removed.insert(key.clone(), Arc::clone(object.uid()));
        self.put(key, None)
    }

    /// An event of the watch: an object is like this.
    pub(super) fn told(&mut self, object: Arc<T>) -> Vec<Change<T>> {
        self.reach(object.resource_version());
        if self.is_removed(&object) {
            return Vec::new();
        }
        self.newer(object)
    }

    /// An event of the watch: an object went, and was like this last.
    pub(super) fn told_gone(&mut self, object: &T) -> Vec<Change<T>> {
        let version = object.resource_version();
        self.reach(version);
        let key = object.key();
        if self.removed.get(key).is_some_and(|uid| uid == object.uid()) {
            self.removed.remove(key);
        }
        match self.known.get(key) {
            // One that was made after that is another.
            Some(known) if known.resource_version() > version => Vec::new(),
            Some(_) => self.put(key, None),
            None => Vec::new(),
        }
    }

    /// An object of a list. Where the list is from another server than the objects known, versions say nothing.
    pub(super) fn listed(&mut self, object: Arc<T>, elsewhere: bool) -> Vec<Change<T>> {
        if elsewhere {
            return self.replaced(object);
        }
        if self.is_removed(&object) {
            return Vec::new();
        }
        self.newer(object)
    }

    /// A list is complete: what it did not name and is not newer than it is gone.
    pub(super) fn listed_all(
        &mut self,
        names: &HashSet<Key>,
        version: u64,
        elsewhere: bool,
    ) -> Vec<Change<T>> {
        let vanished: Vec<Key> = self
            .known
            .iter()
            .filter(|(key, object)| {
                !names.contains(*key) && (elsewhere || object.resource_version() <= version)
            })
            .map(|(key, _)| key.clone())
            .collect();
        self.removed.retain(|key, _| names.contains(key) && !elsewhere);
        self.seen = version;
        vanished.into_iter().flat_map(|key| self.put(&key, None)).collect()
    }

    /// The watch has come this far.
    pub(super) fn reach(&mut self, version: u64) {
        self.seen = self.seen.max(version);
    }

    fn is_removed(&self, object: &T) -> bool {
        self.removed.get(object.key()).is_some_and(|uid| uid == object.uid())
    }

    /// Takes a view of an object, if it is newer than the one known.
    fn newer(&mut self, object: Arc<T>) -> Vec<Change<T>> {
        match self.known.get(object.key()) {
            Some(known) if known.resource_version() >= object.resource_version() => Vec::new(),
            _ => self.replaced(object),
        }
    }

    fn replaced(&mut self, object: Arc<T>) -> Vec<Change<T>> {
        let key = object.key().clone();
        self.removed.remove(&key);
        let other = self.known.get(&key).is_some_and(|known| known.uid() != object.uid());
        let mut changes = if other { self.put(&key, None) } else { Vec::new() };
        changes.extend(self.put(&key, Some(object)));
        changes
    }

    /// Sets or removes an object; a change is one only if something that is kept differs.
    fn put(&mut self, key: &Key, new: Option<Arc<T>>) -> Vec<Change<T>> {
        let old = match &new {
            Some(object) => self.known.insert(key.clone(), Arc::clone(object)),
            None => self.known.remove(key),
        };
        if old.as_deref() == new.as_deref() {
            return Vec::new();
        }
        for index in &mut self.indexes {
            index.update(key, old.as_deref(), new.as_deref());
        }
        vec![Change { old, new }]
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{Meta, narrow};

    #[derive(Debug, PartialEq, Deserialize)]
    struct Thing {
        metadata: Meta,
        #[serde(default)]
        text: String,
    }
    narrow!(Thing);

    fn thing(uid: &str, version: u64, text: &str) -> Arc<Thing> {
        let mut metadata = Meta::default();
        metadata.key = Key::new("ns", "a");
        metadata.uid = uid.into();
        metadata.resource_version = version;
        Arc::new(Thing { metadata, text: text.to_owned() })
    }

    fn text(objects: &Objects<Thing>) -> Option<&str> {
        objects.get(&Key::new("ns", "a")).map(|thing| thing.text.as_str())
    }

    fn told(changes: &[Change<Thing>]) -> Vec<(Option<&str>, Option<&str>)> {
        let text = |thing: &Option<Arc<Thing>>| {
            thing.as_ref().map(|thing| thing.text.as_str().to_owned().leak() as &str)
        };
        changes.iter().map(|change| (text(&change.old), text(&change.new))).collect()
    }

    #[test]
    fn a_write_is_seen_before_the_watch_tells_it() {
        let mut objects = Objects::default();
        objects.told(thing("u", 5, "old"));
        assert_eq!(told(&objects.written(thing("u", 9, "new"))), [(Some("old"), Some("new"))]);
        // What is on its way is older.
        assert!(objects.told(thing("u", 7, "between")).is_empty());
        assert_eq!(text(&objects), Some("new"));
        // Its echo changes nothing.
        assert!(objects.told(thing("u", 9, "new")).is_empty());
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_the_watch_has_told_gone() {
        let mut objects = Objects::default();
        objects.told(thing("u", 5, "x"));
        objects.told_gone(&thing("u", 8, "x"));
        assert!(objects.written(thing("u", 7, "late")).is_empty());
        assert_eq!(text(&objects), None);
    }

    #[test]
    fn what_was_removed_is_not_brought_back_by_older_events() {
        let mut objects = Objects::default();
        objects.told(thing("u", 5, "x"));
        assert_eq!(told(&objects.removed(&Key::new("ns", "a"), "u")), [(Some("x"), None)]);
        assert!(objects.told(thing("u", 6, "y")).is_empty());
        assert!(objects.told_gone(&thing("u", 7, "y")).is_empty());
        // A new one of the name is welcome.
        assert_eq!(told(&objects.told(thing("v", 8, "z"))), [(None, Some("z"))]);
        assert!(objects.removed.is_empty());
        // And is not meant by a removal of the old one.
        assert!(objects.removed(&Key::new("ns", "a"), "u").is_empty());
    }

    #[test]
    fn a_replaced_object_is_told_as_two_changes() {
        let mut objects = Objects::default();
        objects.told(thing("u", 5, "x"));
        let changes = objects.told(thing("v", 6, "x"));
        assert_eq!(told(&changes), [(Some("x"), None), (None, Some("x"))]);
    }

    #[test]
    fn a_change_of_nothing_that_is_kept_is_not_told() {
        let mut objects = Objects::default();
        objects.told(thing("u", 5, "x"));
        assert!(objects.told(thing("u", 6, "x")).is_empty());
        // But its version counts.
        assert_eq!(objects.get(&Key::new("ns", "a")).unwrap().resource_version(), 6);
    }

    #[test]
    fn a_list_tells_what_vanished_and_spares_what_is_newer() {
        let mut objects = Objects::default();
        objects.told(thing("u", 5, "x"));
        assert_eq!(told(&objects.listed_all(&HashSet::new(), 9, false)), [(Some("x"), None)]);
        objects.written(thing("v", 12, "y"));
        assert!(objects.listed_all(&HashSet::new(), 11, false).is_empty());
        assert_eq!(text(&objects), Some("y"));
    }

    #[test]
    fn another_server_is_believed_although_its_versions_are_lower() {
        let mut objects = Objects::default();
        objects.told(thing("u", 500, "x"));
        objects.listed(thing("u", 3, "y"), true);
        objects.listed_all(&HashSet::from([Key::new("ns", "a")]), 4, true);
        assert_eq!((text(&objects), objects.seen()), (Some("y"), 4));
        assert_eq!(told(&objects.told(thing("u", 5, "z"))), [(Some("y"), Some("z"))]);
    }
}
