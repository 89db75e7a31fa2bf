//! Random choices that come out the same for the same seed, whatever becomes of anybody's library.

use serde_json::Value;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or_default() % limit.max(1)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(crate) fn pick<'list, T>(&mut self, list: &'list [T]) -> &'list T {
        &list[self.below(list.len())]
    }

    /// Some of several, in any order.
    pub(crate) fn some<T: Clone>(&mut self, list: &[T]) -> Vec<T> {
        let mut chosen: Vec<T> = Vec::new();
        for item in list {
            if self.chance(45) {
                let place = self.below(chosen.len() + 1);
                chosen.insert(place, item.clone());
            }
        }
        chosen
    }

    /// A map of some of the keys to some of the values.
    pub(crate) fn map(&mut self, keys: &[&str], values: &[&str]) -> Value {
        let keys = self.some(keys);
        keys.into_iter().map(|key| (key.to_owned(), Value::from(*self.pick(values)))).collect()
    }

    /// Adds a field in so many of a hundred cases.
    pub(crate) fn maybe(
        &mut self,
        percent: usize,
        object: &mut Value,
        field: &str,
        value: impl FnOnce(&mut Self) -> Value,
    ) {
        if self.chance(percent) {
            object[field] = value(self);
        }
    }
}
