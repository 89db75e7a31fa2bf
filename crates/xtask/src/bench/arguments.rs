//! What to measure, and where the report goes.

use std::path::PathBuf;

use crate::failure::{Failure, Result};

const USAGE: &str = "usage: cargo xtask bench [--only WORDS,...] [--quick] [--json PATH]";

/// The command line of `cargo xtask bench`.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// Only benchmarks with one of these in their name.
    pub(super) only: Vec<String>,
    /// Shorter measurements of the servers, and no large store.
    pub(super) quick: bool,
    /// Where the report is written to.
    pub(super) json: Option<PathBuf>,
}

impl Arguments {
    pub(super) fn read(words: &[String]) -> Result<Self> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, glued) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if flag == "--quick" && glued.is_none() {
                arguments.quick = true;
                continue;
            }
            let value = glued.or_else(|| words.next().cloned()).ok_or_else(|| Failure::new(USAGE))?;
            match flag {
                "--only" => arguments.only = value.split(',').map(str::to_owned).collect(),
                "--json" => arguments.json = Some(value.into()),
                _ => return Err(Failure::new(USAGE)),
            }
        }
        Ok(arguments)
    }

    /// True when a benchmark of this name is asked for.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::read(&words)
    }

    #[test]
    fn values_follow_or_are_glued() {
        for line in ["--json a.json --only create,watch", "--only=create,watch --json=a.json"] {
            let arguments = read(line).unwrap();
            assert_eq!(arguments.json, Some(PathBuf::from("a.json")));
            assert!(arguments.wants("create, 16 clients") && !arguments.wants("render"));
        }
        assert!(read("--quick").unwrap().quick && read("").unwrap().wants("anything"));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["--json", "--fast", "--fast x", "--quick=yes"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
