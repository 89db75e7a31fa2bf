//! The command line.

use std::path::PathBuf;

/// How to call the program.
pub(crate) const USAGE: &str =
    "usage: trellis-load --lab PROGRAM [--real DIRECTORY] [--only WORDS,...] [--quick]";

/// What to measure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The program `trellis`.
    pub(crate) lab: PathBuf,
    /// The directory with the real server's programs; it is left out without one.
    pub(crate) real: Option<PathBuf>,
    /// Only what has one of these in its name.
    only: Vec<String>,
    /// Shorter and fewer rounds, and no large store.
    pub(crate) quick: bool,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--lab" => arguments.lab = value()?.into(),
                "--real" => arguments.real = Some(value()?.into()),
                "--only" => arguments.only = value()?.split(',').map(str::to_owned).collect(),
                "--quick" => arguments.quick = true,
                other => return Err(format!("{other} is no option")),
            }
        }
        if arguments.lab.as_os_str().is_empty() {
            return Err("--lab is missing".to_owned());
        }
        Ok(arguments)
    }

    /// True when a measurement of this name is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, String> {
        Arguments::read(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn a_part_of_a_name_picks_it() {
        let arguments = read("--lab trellis --only create,watch --quick").unwrap();
        assert!(arguments.wants("ConfigMap create, 1 client") && arguments.quick);
        assert!(!arguments.wants("ConfigMap get"));
        assert!(read("--lab trellis").unwrap().wants("anything"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(read("--quick").unwrap_err(), "--lab is missing");
        assert_eq!(read("--lab").unwrap_err(), "--lab needs a value");
        assert_eq!(read("--lab x --fast").unwrap_err(), "--fast is no option");
    }
}
