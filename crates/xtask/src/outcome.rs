//! How a tier of the test suite ended.

use crate::counts::Counts;

/// How a tier ended, and what to say about it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything held.
    Passed(Detail),
    /// Something did not.
    Failed(Detail),
    /// The tier could not run here, or was not asked to; in plain words.
    Skipped(String),
}

/// What the closing table says about a tier that ran.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    /// Words for the last column.
    pub(crate) words: String,
    /// The tests of a tier that counts them.
    pub(crate) tests: Option<Counts>,
}

impl Outcome {
    /// A tier that ran as a whole, without counting tests.
    pub(crate) fn of(success: bool, words: impl Into<String>) -> Self {
        let detail = Detail { words: words.into(), tests: None };
        if success { Self::Passed(detail) } else { Self::Failed(detail) }
    }

    /// A tier that counted its tests.
    pub(crate) fn of_tests(success: bool, tests: Counts) -> Self {
        let mut words = tests.describe();
        if !success && tests.failed == 0 {
            words = format!("did not get to the end; {words} until then");
        }
        let detail = Detail { words, tests: Some(tests) };
        if success && tests.failed == 0 { Self::Passed(detail) } else { Self::Failed(detail) }
    }

    /// The same with more to say in the table.
    pub(crate) fn adding(mut self, more: &str) -> Self {
        if let Self::Passed(detail) | Self::Failed(detail) = &mut self
            && !more.is_empty()
        {
            detail.words = format!("{}, {more}", detail.words);
        }
        self
    }

    /// A tier that did not run, and why.
    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(why.into())
    }

    /// True unless something failed.
    pub(crate) fn is_fine(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// The word for the table's second column.
    pub(crate) fn verdict(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The words for the table's last column.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Passed(detail) | Self::Failed(detail) => &detail.words,
            Self::Skipped(why) => why,
        }
    }

    /// The tier in tests: its own count, or one test if it has none.
    ///
    /// A failed tier has at least one failed test, for example when the tests do not build.
    pub(crate) fn tests(&self) -> Counts {
        match self {
            Self::Passed(detail) => detail.tests.unwrap_or(Counts { passed: 1, ..Counts::default() }),
            Self::Failed(detail) => {
                let counted = detail.tests.unwrap_or_default();
                Counts { failed: counted.failed.max(1), ..counted }
            }
            Self::Skipped(_) => Counts { ignored: 1, ..Counts::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, ignored: u64) -> Counts {
        Counts { passed, failed, ignored }
    }

    #[test]
    fn a_tier_without_a_count_is_one_test() {
        assert_eq!(Outcome::of(true, "").tests(), counts(1, 0, 0));
        assert_eq!(Outcome::of(false, "").tests(), counts(0, 1, 0));
        assert_eq!(Outcome::skipped("").tests(), counts(0, 0, 1));
    }

    #[test]
    fn a_tier_with_a_count_is_its_count() {
        assert_eq!(Outcome::of_tests(true, counts(5, 0, 2)).tests(), counts(5, 0, 2));
        assert_eq!(Outcome::of_tests(false, counts(5, 3, 0)).tests(), counts(5, 3, 0));
    }

    #[test]
    fn tests_that_do_not_build_are_a_failure() {
        let outcome = Outcome::of_tests(false, counts(0, 0, 0));
        assert!(!outcome.is_fine());
        assert_eq!(outcome.tests(), counts(0, 1, 0));
        assert_eq!(outcome.words(), "did not get to the end; no tests until then");
    }
}
