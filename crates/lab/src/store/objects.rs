//! The objects of a resource in their order, and who owns whom.
//!
//! There may be hundreds of thousands of objects. So everything here points to the record, which has the names
//! already, and nothing has a copy of them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::{Key, Listing, Query, Record};
use crate::names::GroupResource;

/// Objects as they were before: those that were not there then have none.
pub(super) type Undone = BTreeMap<Key, Option<Arc<Record>>>;

/// The objects of a resource, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeSet<Placed>);

/// A record in the place its key gives it.
#[derive(Debug)]
struct Placed(Arc<Record>);

impl Borrow<Key> for Placed {
    fn borrow(&self) -> &Key {
        &self.0.key
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl Objects {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Record>> {
        self.0.get(key).map(|placed| &placed.0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes in an object, in the place of an earlier state of it.
    pub(super) fn insert(&mut self, record: Arc<Record>) {
        self.0.replace(Placed(record));
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Cuts out one page, with some of the objects as they were before.
    pub(super) fn page(
        &self,
        before: &Undone,
        version: u64,
        query: &Query<'_>,
        keep: impl Fn(&Key, &Record) -> bool,
    ) -> Listing {
        let start = match (&query.after, query.namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        let range = (start, Bound::Unbounded);
        let untouched = self.0.range::<Key, _>(range.clone()).map(|placed| &placed.0);
        let untouched = untouched.filter(|record| before.is_empty() || !before.contains_key(&record.key));
        let restored = before.range(range).filter_map(|(_, record)| record.as_ref());
        let mut matching = merged(untouched, restored)
            .take_while(|record| query.namespace.is_none_or(|namespace| record.key.namespace == namespace))
            .filter(|record| keep(&record.key, record));
        if query.limit == 0 {
            let records = matching.map(Arc::clone).collect();
            return Listing { version, records, next: None, remaining: 0 };
        }
        let records: Vec<_> = matching.by_ref().take(query.limit).map(Arc::clone).collect();
        let remaining = matching.count();
        let next = records.last().map(|record| record.key.clone()).filter(|_| remaining > 0);
        Listing { version, records, next, remaining }
    }
}

/// Two sequences sorted by key, as one.
fn merged<'a>(
    left: impl Iterator<Item = &'a Arc<Record>>,
    right: impl Iterator<Item = &'a Arc<Record>>,
) -> impl Iterator<Item = &'a Arc<Record>> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(one), Some(other)) if one.key > other.key => right.next(),
        (None, _) => right.next(),
        _ => left.next(),
    })
}

/// Where the object of a uid is, and which objects it owns.
#[derive(Debug, Default)]
pub(super) struct Owned {
    places: HashMap<Uid, Place>,
    /// By where the record is in memory, which tells records apart.
    dependents: HashMap<Uid, HashMap<usize, Place>>,
}

/// An object of a resource.
#[derive(Debug, Clone)]
struct Place {
    of: Arc<GroupResource>,
    record: Arc<Record>,
}

impl Place {
    fn names(&self) -> (GroupResource, Key) {
        (self.of.as_ref().clone(), self.record.key.clone())
    }
}

/// A uid. The ones we give are 128 bits, written in one way only; others have to be kept as they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Uid {
    Bits([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    fn read(text: &str) -> Self {
        Self::bits(text).map_or_else(|| Self::Text(text.into()), Self::Bits)
    }

    /// The bits of 32 small hexadecimal digits with dashes in the usual places.
    fn bits(text: &str) -> Option<[u8; 16]> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return None;
        }
        let mut bits = [0; 16];
        let mut digits = 0;
        for (place, byte) in text.iter().enumerate() {
            let digit = match (place, byte) {
                (8 | 13 | 18 | 23, b'-') => continue,
                (8 | 13 | 18 | 23, _) => return None,
                (_, b'0'..=b'9') => byte - b'0',
                (_, b'a'..=b'f') => byte - b'a' + 10,
                _ => return None,
            };
            let pair: &mut u8 = bits.get_mut(digits / 2)?;
            *pair = *pair << 4 | digit;
            digits += 1;
        }
        Some(bits)
    }
}

impl Owned {
    pub(super) fn insert(&mut self, of: &Arc<GroupResource>, record: &Arc<Record>) {
        let place = Place { of: Arc::clone(of), record: Arc::clone(record) };
        for owner in &record.index.owners {
            let dependents = self.dependents.entry(Uid::read(&owner.uid)).or_default();
            dependents.insert(Arc::as_ptr(record).addr(), place.clone());
        }
        self.places.insert(Uid::read(&record.index.uid), place);
    }

    pub(super) fn remove(&mut self, record: &Arc<Record>) {
        self.places.remove(&Uid::read(&record.index.uid));
        for owner in &record.index.owners {
            let uid = Uid::read(&owner.uid);
            if let Some(dependents) = self.dependents.get_mut(&uid) {
                dependents.remove(&Arc::as_ptr(record).addr());
                if dependents.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
    }

    /// The object with this uid.
    pub(super) fn by_uid(&self, uid: &str) -> Option<(GroupResource, Key)> {
        self.places.get(&Uid::read(uid)).map(Place::names)
    }

    /// The objects that name this uid as an owner, in their order.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(GroupResource, Key)> {
        let found = self.dependents.get(&Uid::read(uid));
        let mut found: Vec<_> = found.into_iter().flat_map(HashMap::values).map(Place::names).collect();
        found.sort();
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Draft;
    use super::*;

    #[test]
    fn a_uid_is_bits_only_if_it_is_written_the_usual_way() {
        let usual = "01234567-89ab-4cde-8f01-23456789abcd";
        assert_eq!(Uid::bits(usual).unwrap()[..5], [0x01, 0x23, 0x45, 0x67, 0x89]);
        for other in
            ["uid-a", "", "01234567-89AB-4cde-8f01-23456789abcd", "01234567089ab-4cde-8f01-23456789abc"]
        {
            assert_eq!(Uid::read(other), Uid::Text(other.into()));
        }
    }

    #[test]
    fn owners_know_their_dependents() {
        let of = Arc::new(GroupResource::new("", "pods"));
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "owner"});
        let pod = |name: &str| {
            let object = json!({"metadata": {"name": name, "uid": name, "ownerReferences": [owner, owner]}});
            Arc::new(Draft::new(&object, Vec::new(), 0).finish(&Key::new("ns", name), 1))
        };
        let (b, a) = (pod("b"), pod("a"));
        let mut owned = Owned::default();
        owned.insert(&of, &b);
        owned.insert(&of, &a);
        let names: Vec<_> = owned.dependents("owner").into_iter().map(|(_, key)| key.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(owned.by_uid("a").unwrap().1, Key::new("ns", "a"));
        owned.remove(&a);
        owned.remove(&b);
        assert!(owned.dependents("owner").is_empty() && owned.by_uid("a").is_none());
        assert!(owned.dependents.is_empty());
    }
}
