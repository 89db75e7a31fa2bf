//! Finding objects by something they say, so that nothing has to be scanned.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::Cache;
use crate::{Key, Narrow};

/// What a cache keeps up to date for an index.
pub(super) trait Indexed<T>: Send + Sync {
    fn update(&mut self, key: &Key, old: Option<&T>, new: Option<&T>);
}

/// The objects that say a word. Most words are said by one.
#[derive(Debug)]
enum Sayers {
    One(Key),
    Many(BTreeSet<Key>),
}

impl Sayers {
    fn add(&mut self, key: &Key) {
        match self {
            Self::One(one) if one == key => {}
            Self::One(one) => *self = Self::Many(BTreeSet::from([one.clone(), key.clone()])),
            Self::Many(many) => {
                many.insert(key.clone());
            }
        }
    }

    /// Whether none is left.
    fn remove(&mut self, key: &Key) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Many(many) => {
                many.remove(key);
                many.is_empty()
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }

    fn keys(&self) -> Vec<Key> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::Many(many) => many.iter().cloned().collect(),
        }
    }
}

type Words<W> = Arc<RwLock<BTreeMap<W, Sayers>>>;

struct Entry<W, F> {
    words: F,
    sayers: Words<W>,
}

impl<T, W, F> Indexed<T> for Entry<W, F>
where
    W: Ord + Send + Sync,
    F: Fn(&T) -> Vec<W> + Send + Sync,
{
    fn update(&mut self, key: &Key, old: Option<&T>, new: Option<&T>) {
        let before = old.map(&self.words).unwrap_or_default();
        let after = new.map(&self.words).unwrap_or_default();
        if before == after {
            return;
        }
        let mut sayers = self.sayers.write();
        for word in before {
            if sayers.get_mut(&word).is_some_and(|found| found.remove(key)) {
                sayers.remove(&word);
            }
        }
        for word in after {
            sayers.entry(word).and_modify(|found| found.add(key)).or_insert_with(|| Sayers::One(key.clone()));
        }
    }
}

/// Finds the objects of a cache that say a word.
pub struct Index<T, W> {
    cache: Cache<T>,
    sayers: Words<W>,
}

impl<T, W> Clone for Index<T, W> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), sayers: Arc::clone(&self.sayers) }
    }
}

impl<T, W> fmt::Debug for Index<T, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Index").field("of", &self.cache).finish_non_exhaustive()
    }
}

impl<T: Narrow, W: Ord + Clone + Send + Sync + 'static> Index<T, W> {
    pub(super) fn new(cache: &Cache<T>, words: impl Fn(&T) -> Vec<W> + Send + Sync + 'static) -> Self {
        let sayers = Words::default();
        let entry = Entry { words, sayers: Arc::clone(&sayers) };
        cache.shared.objects.write().add_index(Box::new(entry));
        Self { cache: cache.clone(), sayers }
    }

    /// How many objects say a word.
    pub fn count<Q>(&self, word: &Q) -> usize
    where
        W: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.sayers.read().get(word).map_or(0, Sayers::count)
    }

    /// The objects that say a word, in the order of their keys.
    pub fn get<Q>(&self, word: &Q) -> Vec<Arc<T>>
    where
        W: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        // The objects stay as they are while the words are read.
        let objects = self.cache.shared.objects.read();
        let keys = self.sayers.read().get(word).map(Sayers::keys).unwrap_or_default();
        keys.iter().filter_map(|key| objects.get(key).cloned()).collect()
    }

    /// The keys of the objects that say a word.
    pub fn keys<Q>(&self, word: &Q) -> Vec<Key>
    where
        W: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.sayers.read().get(word).map(Sayers::keys).unwrap_or_default()
    }

    /// All words that are said.
    pub fn words(&self) -> Vec<W> {
        self.sayers.read().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::client::Selection;
    use crate::{Meta, Resource, narrow};

    #[derive(PartialEq, Deserialize)]
    struct Pod {
        metadata: Meta,
        node: String,
    }
    narrow!(Pod);

    fn pod(name: &str, version: u64, node: &str) -> Pod {
        let mut metadata = Meta::default();
        metadata.key = Key::new("ns", name);
        metadata.uid = name.into();
        metadata.resource_version = version;
        Pod { metadata, node: node.to_owned() }
    }

    #[tokio::test]
    async fn objects_are_found_by_what_they_say_now() {
        let cache: Cache<Pod> =
            Cache::new(Resource::namespaced("", "v1", "pods", "Pod"), Selection::default());
        cache.written(pod("a", 1, "n1"));
        let nodes = cache.index(|pod: &Pod| vec![pod.node.clone()]);
        for (name, version) in [("b", 2), ("c", 3)] {
            cache.written(pod(name, version, "n1"));
        }
        let names = |node: &str| -> Vec<_> {
            nodes.get(node).iter().map(|pod| pod.metadata.name().to_owned()).collect()
        };
        assert_eq!(names("n1"), ["a", "b", "c"]);
        cache.written(pod("b", 4, "n2"));
        cache.removed(&Key::new("ns", "a"), "a");
        assert_eq!((names("n1"), names("n2")), (vec!["c".to_owned()], vec!["b".to_owned()]));
        cache.removed(&Key::new("ns", "c"), "c");
        assert_eq!(nodes.words(), ["n2"]);
    }
}
