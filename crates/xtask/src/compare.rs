//! Comparing two directories file by file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Attempt as _, Result};

/// How a committed file relates to what was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Both have it, with different contents.
    Differs,
    /// It is generated but not committed.
    Missing,
    /// It is committed but no longer generated.
    Surplus,
}

impl Difference {
    /// The word for the listing.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Missing => "missing",
            Self::Surplus => "surplus",
        }
    }
}

/// Every file in which `committed` is not what it should be by `generated`, sorted by path.
///
/// A `committed` that does not exist is an empty directory.
pub(crate) fn compare(generated: &Path, committed: &Path) -> Result<Vec<(PathBuf, Difference)>> {
    let wanted = files_in(generated)?;
    let present = files_in(committed)?;
    let mut differences = Vec::new();
    for file in wanted.union(&present) {
        let difference = match (wanted.contains(file), present.contains(file)) {
            (true, true) if read(&generated.join(file))? == read(&committed.join(file))? => continue,
            (true, true) => Difference::Differs,
            (true, false) => Difference::Missing,
            (false, _) => Difference::Surplus,
        };
        differences.push((file.clone(), difference));
    }
    Ok(differences)
}

/// Makes the files of `committed` those of `generated`: writes what differs, removes what is surplus.
pub(crate) fn apply(differences: &[(PathBuf, Difference)], generated: &Path, committed: &Path) -> Result<()> {
    for (file, difference) in differences {
        let target = committed.join(file);
        match difference {
            Difference::Surplus => {
                fs::remove_file(&target).attempt(|| format!("remove {}", target.display()))?;
                remove_empty_parents(&target, committed);
            }
            Difference::Differs | Difference::Missing => {
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent).attempt(|| format!("create {}", parent.display()))?;
                }
                fs::copy(generated.join(file), &target).attempt(|| format!("write {}", target.display()))?;
            }
        }
    }
    Ok(())
}

/// Removes the directories between `file` and `top` that its removal left empty.
fn remove_empty_parents(file: &Path, top: &Path) {
    let between = file.ancestors().skip(1).take_while(|parent| *parent != top);
    for parent in between {
        // Fails on the first directory that still holds something, which is where to stop.
        if fs::remove_dir(parent).is_err() {
            break;
        }
    }
}

/// The paths of all files below `top`, relative to it.
fn files_in(top: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut pending = if top.is_dir() { vec![top.to_owned()] } else { Vec::new() };
    while let Some(directory) = pending.pop() {
        let listing = || format!("list {}", directory.display());
        for entry in fs::read_dir(&directory).attempt(listing)? {
            let entry = entry.attempt(listing)?;
            let path = entry.path();
            if entry.file_type().attempt(listing)?.is_dir() {
                pending.push(path);
            } else if let Ok(relative) = path.strip_prefix(top) {
                files.insert(relative.to_owned());
            }
        }
    }
    Ok(files)
}

/// The contents of a file.
fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).attempt(|| format!("read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn tree(files: &[(&str, &str)]) -> Scratch {
        let scratch = Scratch::new("test-compare").unwrap();
        for (name, text) in files {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        scratch
    }

    fn found(generated: &Scratch, committed: &Scratch) -> Vec<(String, Difference)> {
        let differences = compare(generated.path(), committed.path()).unwrap();
        differences.into_iter().map(|(path, what)| (path.display().to_string(), what)).collect()
    }

    #[test]
    fn equal_trees_have_no_differences() {
        let files = [("a.md", "a"), ("deep/er/b.md", "b")];
        assert_eq!(found(&tree(&files), &tree(&files)), []);
    }

    #[test]
    fn finds_what_differs_is_missing_or_surplus() {
        let generated = tree(&[("a.md", "new"), ("same.md", "s"), ("sub/c.md", "c")]);
        let committed = tree(&[("a.md", "old"), ("same.md", "s"), ("sub/d.md", "d")]);
        let expected = [
            ("a.md".to_owned(), Difference::Differs),
            ("sub/c.md".to_owned(), Difference::Missing),
            ("sub/d.md".to_owned(), Difference::Surplus),
        ];
        assert_eq!(found(&generated, &committed), expected);
    }

    #[test]
    fn a_directory_that_is_not_there_is_empty() {
        let generated = tree(&[("a.md", "a")]);
        let differences = compare(generated.path(), Path::new("/no/such/directory")).unwrap();
        assert_eq!(differences, [(PathBuf::from("a.md"), Difference::Missing)]);
    }

    #[test]
    fn applying_the_differences_leaves_none() {
        let generated = tree(&[("a.md", "new"), ("sub/c.md", "c")]);
        let committed = tree(&[("a.md", "old"), ("gone/with/d.md", "d")]);
        let differences = compare(generated.path(), committed.path()).unwrap();
        apply(&differences, generated.path(), committed.path()).unwrap();
        assert_eq!(found(&generated, &committed), []);
        assert!(!committed.path().join("gone").exists());
    }
}
