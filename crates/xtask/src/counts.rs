//! Counting tests by reading what the test harness prints.

use std::ops::AddAssign;

/// How many tests passed, failed and were not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests the harness was told to leave out.
    pub(crate) ignored: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl Counts {
    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`.
    ///
    /// Any other line gives `None`. Colours in the line do not matter.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let plain = without_colours(line);
        let (_verdict, tally) = plain.trim().strip_prefix("test result: ")?.split_once(". ")?;
        let number = |word: &str| {
            tally.split("; ").find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
        };
        Some(Self { passed: number("passed")?, failed: number("failed")?, ignored: number("ignored")? })
    }

    /// The counts in words for the closing table.
    pub(crate) fn describe(self) -> String {
        let Self { passed, failed, ignored } = self;
        let total = passed + failed;
        let words = match (total, failed) {
            (0, _) => "no tests".to_owned(),
            (1, 0) => "1 test".to_owned(),
            (_, 0) => format!("{total} tests"),
            _ => format!("{failed} of {total} tests failed"),
        };
        if ignored > 0 { format!("{words}, {ignored} ignored") } else { words }
    }
}

/// The line without terminal escape sequences.
pub(crate) fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // A sequence is an escape, a bracket, parameters, and one closing letter (or `(B`).
            let _ = characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, ignored: u64) -> Counts {
        Counts { passed, failed, ignored }
    }

    #[test]
    fn reads_a_passing_result() {
        let line =
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(Counts::read(line), Some(counts(12, 0, 3)));
    }

    #[test]
    fn reads_a_failing_result() {
        let line = "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 1 filtered out; finished in 1.00s";
        assert_eq!(Counts::read(line), Some(counts(4, 2, 0)));
    }

    #[test]
    fn reads_through_colours() {
        let line =
            "test result: \u{1b}[32mok\u{1b}[m. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(Counts::read(line), Some(counts(1, 0, 0)));
        let terminfo = "test result: \u{1b}[32mok\u{1b}(B\u{1b}[m. 1 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!(Counts::read(terminfo), Some(counts(1, 0, 0)));
    }

    #[test]
    fn passes_over_other_lines() {
        for line in
            ["", "running 3 tests", "test names::keeps ... ok", "test result: ok.", "test result: unclear. x"]
        {
            assert_eq!(Counts::read(line), None, "{line:?}");
        }
    }

    #[test]
    fn adds_up_over_test_programs() {
        let mut sum = counts(1, 0, 2);
        sum += counts(3, 1, 0);
        assert_eq!(sum, counts(4, 1, 2));
    }

    #[test]
    fn speaks_plainly() {
        assert_eq!(counts(0, 0, 0).describe(), "no tests");
        assert_eq!(counts(1, 0, 0).describe(), "1 test");
        assert_eq!(counts(7, 0, 1).describe(), "7 tests, 1 ignored");
        assert_eq!(counts(7, 1, 0).describe(), "1 of 8 tests failed");
    }
}
