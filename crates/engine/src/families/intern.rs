//! What many objects share is kept once.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many values are kept before those that nobody uses any more are dropped for the first time.
const FIRST_SWEEP: usize = 256;

/// Values of which each is kept once, for as long as somebody uses it.
pub(super) struct Shared<T: ?Sized + Ord> {
    inside: Mutex<Inside<T>>,
}

struct Inside<T: ?Sized + Ord> {
    values: BTreeSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized + Ord> Shared<T> {
    /// Nothing is kept yet.
    pub(super) const fn new() -> Self {
        Self { inside: Mutex::new(Inside { values: BTreeSet::new(), sweep_at: FIRST_SWEEP }) }
    }

    /// The one copy of a value.
    pub(super) fn keep<V>(&self, value: V) -> Arc<T>
    where
        V: Borrow<T> + Into<Arc<T>>,
    {
        let mut inside = self.inside.lock();
        if let Some(kept) = inside.values.get(value.borrow()) {
            return Arc::clone(kept);
        }
        if inside.values.len() >= inside.sweep_at {
            inside.values.retain(|kept| Arc::strong_count(kept) > 1);
            // Sweeping costs as much as there is left; twice that many may come before it is done again.
            inside.sweep_at = (inside.values.len() * 2).max(FIRST_SWEEP);
        }
        let kept: Arc<T> = value.into();
        inside.values.insert(Arc::clone(&kept));
        kept
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.inside.lock().values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_unused_ones_go() {
        let shared = Shared::<str>::new();
        let (one, other) = (shared.keep("a".to_owned()), shared.keep("a".to_owned()));
        assert!(Arc::ptr_eq(&one, &other));
        for number in 0..10 * FIRST_SWEEP {
            shared.keep(number.to_string());
        }
        assert!(shared.len() <= FIRST_SWEEP + 1, "{}", shared.len());
        assert!(Arc::ptr_eq(&one, &shared.keep("a".to_owned())));
    }
}
