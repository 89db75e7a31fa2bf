//! `cargo xtask test`: choosing tiers, running all of them, and the closing table.

use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::failure::{Failure, Result};
use crate::outcome::Outcome;
use crate::table;
use crate::tiers::{TIERS, Tier};
use crate::workspace::Workspace;

const USAGE: &str = "usage: cargo xtask test [--only TIER,...] [--skip TIER,...] [--minutes N] [--list]";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Only these tiers, if any are named.
    only: Vec<&'static str>,
    /// Not these tiers.
    skip: Vec<&'static str>,
    /// No tier begins later than this after the first, so that whoever ends us early sees what held until then.
    minutes: Option<u64>,
    /// Only say which tiers there are.
    list: bool,
}

/// A row of the closing table.
struct Row {
    name: &'static str,
    outcome: Outcome,
    time: Duration,
}

/// Runs `cargo xtask test …`; true unless a tier failed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let options = Options::read(arguments)?;
    let chosen = TIERS.iter().filter(|tier| options.only.is_empty() || options.only.contains(&tier.name));
    if options.list {
        let rows: Vec<_> = chosen.map(|tier| [tier.name.to_owned(), tier.about.to_owned()]).collect();
        print!("{}", table::lay_out(["tier", "makes sure of"], &rows));
        return Ok(true);
    }

    let begun = Instant::now();
    let rows: Vec<Row> = chosen.map(|tier| run_tier(workspace, tier, &options, begun.elapsed())).collect();
    print!("\n{}", closing(&rows));
    Ok(rows.iter().all(|row| row.outcome.is_fine()))
}

/// Runs one tier under its heading, and takes its time.
fn run_tier(workspace: &Workspace, tier: &Tier, options: &Options, after: Duration) -> Row {
    let start = Instant::now();
    let outcome = if let Some(why) = options.leaves_out(tier, after) {
        Outcome::skipped(why)
    } else {
        println!("\n==> {}: {}", tier.name, tier.about);
        tier.run(workspace)
    };
    Row { name: tier.name, outcome, time: start.elapsed() }
}

/// The closing table, and below it all tests in one line.
fn closing(rows: &[Row]) -> String {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let time = match row.outcome {
                Outcome::Skipped(_) => String::new(),
                _ => table::duration(row.time),
            };
            [row.name.to_owned(), row.outcome.verdict().to_owned(), time, row.outcome.words().to_owned()]
        })
        .collect();
    let mut total = Counts::default();
    for row in rows {
        total += row.outcome.tests();
    }
    let Counts { passed, failed, ignored } = total;
    let table = table::lay_out(["tier", "result", "time", "detail"], &cells);
    format!("{table}\n{passed} passed, {failed} failed, {ignored} skipped\n")
}

impl Options {
    /// Why a tier whose turn comes after this time does not run, if it does not.
    fn leaves_out(&self, tier: &Tier, after: Duration) -> Option<String> {
        if self.skip.contains(&tier.name) {
            return Some("left out by --skip".to_owned());
        }
        let minutes = self.minutes.filter(|minutes| after >= Duration::from_mins(*minutes))?;
        Some(format!("no time left: its turn came after the {minutes} minutes of --minutes"))
    }

    /// Reads the arguments after `test`.
    fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (flag, glued) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (argument.as_str(), None),
            };
            let list = match flag {
                "--list" if glued.is_none() => {
                    options.list = true;
                    continue;
                }
                "--minutes" => {
                    let value = glued.or_else(|| rest.next().map(String::as_str));
                    let wrong = || Failure::new(format!("`--minutes` needs a whole number\n{USAGE}"));
                    options.minutes = Some(
                        value
                            .and_then(|value| value.parse().ok())
                            .filter(|minutes| *minutes < 100_000)
                            .ok_or_else(wrong)?,
                    );
                    continue;
                }
                "--only" => &mut options.only,
                "--skip" => &mut options.skip,
                _ => return Err(Failure::new(format!("unknown argument `{argument}`\n{USAGE}"))),
            };
            let Some(names) = glued.or_else(|| rest.next().map(String::as_str)) else {
                return Err(Failure::new(format!("`{flag}` needs the names of tiers\n{USAGE}")));
            };
            for name in names.split(',').filter(|name| !name.trim().is_empty()) {
                list.push(tier_called(name)?);
            }
        }
        Ok(options)
    }
}

/// The proper name of the tier a person calls `name`.
fn tier_called(name: &str) -> Result<&'static str> {
    TIERS.iter().find(|tier| tier.is_called(name)).map(|tier| tier.name).ok_or_else(|| {
        let names: Vec<_> = TIERS.iter().map(|tier| tier.name).collect();
        Failure::new(format!("there is no tier `{}`; the tiers are: {}", name.trim(), names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Options> {
        Options::read(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn tiers_whose_turn_comes_late_are_skipped_and_say_so() {
        let options = read(&["--minutes", "65", "--skip=clippy"]).unwrap();
        let [format, clippy, ..] = TIERS else { panic!("there are tiers") };
        let late = Duration::from_mins(65);
        assert_eq!(options.leaves_out(format, Duration::from_mins(64)), None);
        assert!(options.leaves_out(format, late).unwrap().contains("65 minutes"));
        assert_eq!(options.leaves_out(clippy, Duration::ZERO).unwrap(), "left out by --skip");
        assert_eq!(read(&[]).unwrap().leaves_out(format, late), None);
        for wrong in [&["--minutes"][..], &["--minutes", "soon"], &["--minutes=-1"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn reads_lists_of_tiers() {
        let options = read(&["--only", "format,doc-tests", "--skip=clippy", "--only", "docs"]).unwrap();
        assert_eq!(options.only, ["format", "doc tests", "docs"]);
        assert_eq!(options.skip, ["clippy"]);
        assert!(!options.list);
        assert!(read(&["--list"]).unwrap().list);
    }

    #[test]
    fn explains_what_it_does_not_understand() {
        let said = |arguments: &[&str]| read(arguments).unwrap_err().to_string();
        assert!(said(&["--only", "formatt"]).contains("no tier `formatt`; the tiers are: format, clippy"));
        assert!(said(&["--only"]).contains("needs the names of tiers"));
        assert!(said(&["--fast"]).contains("unknown argument `--fast`"));
    }

    #[test]
    fn closes_with_a_table_and_the_total() {
        let row = |name, outcome| Row { name, outcome, time: Duration::from_millis(1500) };
        let rows = [
            row("format", Outcome::of(true, "")),
            row("tests", Outcome::of_tests(false, Counts { passed: 7, failed: 1, ignored: 2 })),
            row("advisories", Outcome::skipped("no network")),
        ];
        let expected = "\
tier        result   time   detail
----------  -------  -----  ------------------------------
format      passed   1.5 s
tests       FAILED   1.5 s  1 of 8 tests failed, 2 ignored
advisories  skipped         no network

8 passed, 1 failed, 3 skipped
";
        assert_eq!(closing(&rows), expected);
    }
}
