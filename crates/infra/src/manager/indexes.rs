//! The indexes of a Job that are done, as ranges: a Job may have two thousand million of them.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Indexes {
    /// First and last of each range, in order, none touching the next.
    ranges: Vec<(i64, i64)>,
}

impl Indexes {
    /// Reads what a status has, like `0-2,5`; what is no range there is passed over.
    pub(super) fn read(text: &str) -> Self {
        let mut ranges: Vec<(i64, i64)> = text
            .split(',')
            .filter_map(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                Some((first.parse().ok()?, last.parse().ok()?))
            })
            .filter(|(first, last)| 0 <= *first && first <= last)
            .collect();
        ranges.sort_unstable();
        Self::joined(ranges)
    }

    /// The same ranges, those together that touch.
    fn joined(sorted: Vec<(i64, i64)>) -> Self {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }

    /// Adds an index.
    pub(super) fn insert(&mut self, index: i64) {
        let place = self.ranges.partition_point(|(first, _)| *first <= index);
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.insert(place, (index, index));
        *self = Self::joined(ranges);
    }

    /// How many there are.
    pub(super) fn count(&self) -> i64 {
        self.ranges.iter().map(|(first, last)| (last - first).saturating_add(1)).fold(0, i64::saturating_add)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest indexes below `end` that are neither in here nor busy, at most so many.
    pub(super) fn free(&self, end: i64, busy: &BTreeSet<i64>, most: usize) -> Vec<i64> {
        let mut free = Vec::new();
        let mut next = 0;
        for (first, last) in self.ranges.iter().copied().chain([(end, i64::MAX)]) {
            let gap = (next..first.min(end)).filter(|index| !busy.contains(index));
            free.extend(gap.take(most - free.len()));
            if free.len() == most {
                break;
            }
            next = last.saturating_add(1);
        }
        free
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match last - first {
                0 => write!(formatter, "{comma}{first}")?,
                1 => write!(formatter, "{comma}{first},{last}")?,
                _ => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_written_as_ranges() {
        let mut done = Indexes::read("0-2,5,7,8");
        assert_eq!((done.to_string().as_str(), done.count()), ("0-2,5,7,8", 6));
        assert_eq!(done.free(10, &BTreeSet::from([4]), 9), [3, 6, 9]);
        assert_eq!(done.free(10, &BTreeSet::new(), 2), [3, 4]);
        for index in [6, 6, 3, 9] {
            done.insert(index);
        }
        assert_eq!(done.to_string(), "0-3,5-9");
        assert_eq!(Indexes::read("").to_string(), "");
        assert_eq!(Indexes::read("x,3-1,-4,5-,2").to_string(), "2");
    }

    #[test]
    fn as_many_as_there_can_be_take_no_room() {
        let mut all = Indexes::read("0-2147483645");
        assert_eq!(all.free(i64::from(i32::MAX), &BTreeSet::new(), 2), [2_147_483_646]);
        all.insert(2_147_483_646);
        assert_eq!(all.count(), i64::from(i32::MAX));
        assert!(all.free(i64::from(i32::MAX), &BTreeSet::new(), 2).is_empty());
        assert_eq!(Indexes::default().free(i64::from(i32::MAX), &BTreeSet::from([1]), 3), [0, 2, 3]);
        assert_eq!(Indexes::read("0-9223372036854775807").count(), i64::MAX);
    }
}
