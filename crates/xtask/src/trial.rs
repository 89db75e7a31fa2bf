//! Running tests, and once more the few that failed.
//!
//! Many tests wait for real programs on a machine that is shared and noisy. One that fails and then holds is no proof
//! that something is broken, nor that nothing is: the tier passes and the closing table names the test, so that somebody looks.

use std::process::Command;

use crate::counts::{Counts, without_colours};
use crate::failure::Result;
use crate::outcome::Outcome;
use crate::process;

/// How a line begins that tests print for the closing table.
const FOR_THE_TABLE: &str = "for the table: ";
/// More failures than this are not chance, and are not tried again.
const FEW: usize = 8;

/// Runs what `command` makes of a filter of tests: first all of them, then the few that failed.
pub(crate) fn run(command: impl Fn(&[&str]) -> Command) -> Result<Outcome> {
    let first = attempt(&mut command(&[]))?;
    conclude(&first, |name| {
        println!("\n`{name}` failed and is tried again, alone");
        attempt(&mut command(&["--", "--exact", name]))
    })
}

/// How the tier ended, given the first attempt and a way to try one test again.
fn conclude(first: &Attempt, mut again: impl FnMut(&str) -> Result<Attempt>) -> Result<Outcome> {
    let Some(failed) = first.worth_another_try() else {
        return Ok(Outcome::of_tests(first.success, first.counts).adding(&first.beside()));
    };
    let mut counts = first.counts;
    let mut held = Vec::new();
    for name in failed {
        let second = again(name)?;
        if second.success && second.counts.passed > 0 {
            counts.failed -= 1;
            counts.passed += 1;
            held.push(name.as_str());
        }
    }
    Ok(Outcome::of_tests(counts.failed == 0, counts).adding(&told(&held)).adding(&first.beside()))
}

/// What the closing table says of tests that held at the second try only.
fn told(held: &[&str]) -> String {
    if held.is_empty() { String::new() } else { format!("at the second try only: {}", held.join(", ")) }
}

/// What one run of test programs came to.
#[derive(Debug, Default)]
struct Attempt {
    success: bool,
    counts: Counts,
    failed: Vec<String>,
    ignored: Vec<String>,
    /// What the tests themselves want said in the closing table.
    told: Vec<String>,
}

impl Attempt {
    /// Takes in a line the harness prints.
    fn see(&mut self, line: &str) {
        if let Some(told) = line.trim().strip_prefix(FOR_THE_TABLE) {
            self.told.push(told.to_owned());
        } else if let Some(counts) = Counts::read(line) {
            self.counts += counts;
        } else if let Some((name, verdict)) = told_of(line) {
            if verdict == "FAILED" {
                self.failed.push(name);
            } else if let Some(why) = verdict.strip_prefix("ignored, ") {
                self.ignored.push(format!("{name} ({why})"));
            }
        }
    }

    /// What the closing table says beside the counts: what tests told, and which are not run, and why.
    fn beside(&self) -> String {
        let ignored = (!self.ignored.is_empty()).then(|| format!("not run: {}", self.ignored.join("; ")));
        self.told.iter().cloned().chain(ignored).collect::<Vec<_>>().join(", ")
    }

    /// The failed tests, when they are few and all there is to complain of.
    fn worth_another_try(&self) -> Option<&[String]> {
        let all_known = u64::try_from(self.failed.len()) == Ok(self.counts.failed);
        (!self.success && all_known && (1..=FEW).contains(&self.failed.len())).then_some(&self.failed)
    }
}

/// Runs the tests once.
fn attempt(command: &mut Command) -> Result<Attempt> {
    let mut attempt = Attempt::default();
    attempt.success = process::stream_lines(command, |line| attempt.see(line))?;
    Ok(attempt)
}

/// The name and the verdict in a line such as `test names::keeps ... FAILED`.
fn told_of(line: &str) -> Option<(String, String)> {
    let plain = without_colours(line);
    let (name, verdict) = plain.trim().strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.trim().to_owned(), verdict.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt that printed these lines.
    fn printed(success: bool, lines: &[&str]) -> Attempt {
        let mut attempt = Attempt { success, ..Attempt::default() };
        for line in lines {
            attempt.see(line);
        }
        attempt
    }

    #[test]
    fn a_test_that_holds_at_the_second_try_is_named() {
        let first = printed(
            false,
            &[
                "test a ... ok",
                "test b::c   ... FAILED",
                "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            ],
        );
        let mut tried = Vec::new();
        let outcome = conclude(&first, |name| {
            tried.push(name.to_owned());
            Ok(printed(true, &["test result: ok. 1 passed; 0 failed; 0 ignored"]))
        })
        .unwrap();
        assert_eq!(tried, ["b::c"]);
        assert!(outcome.is_fine());
        assert_eq!(outcome.words(), "2 tests, at the second try only: b::c");
    }

    #[test]
    fn tests_that_are_not_run_are_named_with_their_reason() {
        let lines =
            ["test a::b ... ignored, red: it hangs", "test result: ok. 3 passed; 0 failed; 1 ignored"];
        let outcome = conclude(&printed(true, &lines), |_| unreachable!()).unwrap();
        assert_eq!(outcome.words(), "3 tests, 1 ignored, not run: a::b (red: it hangs)");
    }

    #[test]
    fn what_tests_tell_is_in_the_table() {
        let lines =
            ["test a ... ok", "test result: ok. 1 passed; 0 failed; 0 ignored", "for the table: 7 runs"];
        let outcome = conclude(&printed(true, &lines), |_| unreachable!()).unwrap();
        assert_eq!(outcome.words(), "1 test, 7 runs");
    }

    #[test]
    fn a_test_that_fails_twice_or_is_not_found_fails() {
        let lines = ["test b ... FAILED", "test result: FAILED. 1 passed; 1 failed; 0 ignored"];
        for second in
            [printed(false, &lines), printed(true, &["test result: ok. 0 passed; 0 failed; 0 ignored"])]
        {
            let mut second = Some(second);
            let outcome = conclude(&printed(false, &lines), |_| Ok(second.take().unwrap())).unwrap();
            assert!(!outcome.is_fine());
            assert_eq!(outcome.words(), "1 of 2 tests failed");
        }
    }

    #[test]
    fn many_failures_and_ends_before_the_end_are_not_tried_again() {
        let many = ["test a ... FAILED"; 9]
            .into_iter()
            .chain(["test result: FAILED. 0 passed; 9 failed; 0 ignored"]);
        let crashed = ["test a ... FAILED"];
        for (first, words) in [
            (printed(false, &many.collect::<Vec<_>>()), "9 of 9 tests failed"),
            (printed(false, &crashed), "did not get to the end; no tests until then"),
        ] {
            let outcome = conclude(&first, |name| panic!("tried {name} again")).unwrap();
            assert!(!outcome.is_fine());
            assert_eq!(outcome.words(), words);
        }
    }
}
