//! What cargo-deny says about the dependency tree.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, fs};

use crate::failure::{Attempt as _, Failure, Result};
use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::workspace::{self, Workspace};
use crate::{process, tools};

/// Where the advisories are published.
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";
/// The directory cargo-deny expects a copy of [`ADVISORIES`] in: the name, and a hash of the address.
const ADVISORIES_DIRECTORY: &str = "advisory-db-3157b0e258782691";
/// Names a local copy of the advisories.
const ADVISORIES_VARIABLE: &str = "TRELLIS_ADVISORY_DB";
/// How long fetching the advisories may take.
const ADVISORIES_LIMIT: Duration = Duration::from_mins(1);
/// How long downloading missing crates may take.
const CRATES_LIMIT: Duration = Duration::from_mins(5);
const DAY: Duration = Duration::from_hours(24);

/// The tier `dependencies`: licences, duplicate versions and sources. Needs no network by itself.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let deny = match prepare(workspace) {
        Ok(deny) => deny,
        Err(why) => return Ok(Outcome::skipped(why)),
    };
    let mut command = cargo_deny(workspace, &deny);
    let success = process::stream(command.args(["check", "licenses", "bans", "sources"]))?;
    Ok(Outcome::of(success, "licences, duplicate versions, sources"))
}

/// The tier `advisories`: known vulnerabilities, against a local copy of the database or a fresh one.
pub(crate) fn check_advisories(workspace: &Workspace) -> Result<Outcome> {
    let deny = match prepare(workspace) {
        Ok(deny) => deny,
        Err(why) => return Ok(Outcome::skipped(why)),
    };
    let Some(database) = local_database()?.or_else(fetched_database) else {
        return Ok(Outcome::skipped(
            "the advisory database cannot be reached from here and no local copy was found",
        ));
    };

    let scratch = Scratch::new("advisories")?;
    let config = stage(workspace, &database, scratch.path())?;
    let mut command = cargo_deny(workspace, &deny);
    let success = process::stream(command.arg("--config").arg(config).args(["check", "advisories"]))?;
    Ok(Outcome::of(success, format!("database of {}", age_of(&database))))
}

/// cargo-deny and every crate of the lock file, so that the check itself can run offline.
fn prepare(workspace: &Workspace) -> std::result::Result<PathBuf, String> {
    let deny = tools::cargo_deny(workspace)?;
    let complete =
        process::capture(&mut workspace.cargo(&["metadata", "--format-version", "1", "--offline"]))
            .is_ok_and(|said| said.success);
    // A build downloads the crates of its own platform only; the check reads all of them.
    if complete || process::succeeds_within(&mut workspace.cargo(&["fetch"]), CRATES_LIMIT) {
        Ok(deny)
    } else {
        Err("some crates of Cargo.lock are not downloaded and the registry cannot be reached".to_owned())
    }
}

/// A call of cargo-deny that stays off the network.
fn cargo_deny(workspace: &Workspace, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace.root()).arg("--offline");
    command
}

/// The copy named by the environment, or one a tool has left in `CARGO_HOME`.
fn local_database() -> Result<Option<PathBuf>> {
    if let Some(named) = env::var_os(ADVISORIES_VARIABLE).filter(|value| !value.is_empty()) {
        return match database_in(Path::new(&named)) {
            Some(database) => Ok(Some(database)),
            None => Err(Failure::new(format!(
                "{ADVISORIES_VARIABLE} names {}, which is no advisory database: it has no directory `crates`",
                Path::new(&named).display()
            ))),
        };
    }
    let Some(home) = workspace::cargo_home() else { return Ok(None) };
    Ok(entries_named(&home, "advisory-db").iter().find_map(|place| database_in(place)))
}

/// The database at `place`, or in a directory `advisory-db…` inside it, as cargo-deny lays them out.
fn database_in(place: &Path) -> Option<PathBuf> {
    let is_database = |path: &PathBuf| path.join("crates").is_dir();
    let inside = || entries_named(place, "advisory-db").into_iter().find(is_database);
    Some(place.to_owned()).filter(is_database).or_else(inside)
}

/// The entries of `directory` whose name begins with `prefix`, sorted; none if it cannot be read.
fn entries_named(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// Our own copy in the user's cache, refreshed once a day. An old copy is better than none.
fn fetched_database() -> Option<PathBuf> {
    let cache = workspace::cache()?;
    let copy = cache.join("advisory-db");
    if database_in(&copy).is_none() || updated(&copy).is_none_or(|age| age > DAY) {
        println!("fetching the advisory database (at most {} s)", ADVISORIES_LIMIT.as_secs());
        let fresh = cache.join(format!("advisory-db.fetching-{}", std::process::id()));
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--depth=1", ADVISORIES]).arg(&fresh).env("GIT_TERMINAL_PROMPT", "0");
        // Each step may fail; what counts is whether a copy is there in the end.
        let _ = fs::create_dir_all(&cache);
        if process::succeeds_within(&mut clone, ADVISORIES_LIMIT) {
            let _ = fs::remove_dir_all(&copy);
            let _ = fs::rename(&fresh, &copy);
        }
        let _ = fs::remove_dir_all(&fresh);
    }
    database_in(&copy)
}

/// Lays out `database` in `scratch` as cargo-deny wants it, and writes a configuration that points there.
fn stage(workspace: &Workspace, database: &Path, scratch: &Path) -> Result<PathBuf> {
    let copy = scratch.join(ADVISORIES_DIRECTORY);
    let marker = copy.join(".git");
    let crates = fs::canonicalize(database.join("crates"));
    // cargo-deny refuses copies that git did not fetch lately; ours may be old, and the table says so.
    fs::create_dir_all(&marker)
        .and_then(|()| fs::write(marker.join("FETCH_HEAD"), ""))
        .and_then(|()| std::os::unix::fs::symlink(crates?, copy.join("crates")))
        .attempt(|| format!("lay out the advisory database {}", database.display()))?;

    let source = workspace.root().join("deny.toml");
    let text = fs::read_to_string(&source).attempt(|| format!("read {}", source.display()))?;
    let config = scratch.join("deny.toml");
    let text = with_database(&text, scratch).ok_or_else(|| {
        Failure::new(format!("cannot find the section [advisories] in {}", source.display()))
    })?;
    fs::write(&config, text).attempt(|| format!("write {}", config.display()))?;
    Ok(config)
}

/// The configuration `text` with its advisories taken from below `root`.
fn with_database(text: &str, root: &Path) -> Option<String> {
    const SECTION: &str = "[advisories]\n";
    let (before, after) = text.split_once(SECTION)?;
    Some(format!("{before}{SECTION}db-path = {:?}\n{after}", root.display().to_string()))
}

/// How long ago the copy was last brought up to date, as far as its files tell.
fn updated(database: &Path) -> Option<Duration> {
    let modified = |name: &str| fs::metadata(database.join(name)).and_then(|data| data.modified()).ok();
    let time = [".git/FETCH_HEAD", ".git/HEAD", "crates"].into_iter().find_map(modified)?;
    SystemTime::now().duration_since(time).ok()
}

/// The age of the copy in words.
fn age_of(database: &Path) -> String {
    match updated(database).map(|age| age.as_secs() / DAY.as_secs()) {
        None => "unknown age".to_owned(),
        Some(0) => "today".to_owned(),
        Some(1) => "yesterday".to_owned(),
        Some(days) => format!("{days} days ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_plain_copy_and_the_layout_of_cargo_deny() {
        let scratch = Scratch::new("test-advisories").unwrap();
        assert_eq!(database_in(scratch.path()), None);
        let nested = scratch.path().join(ADVISORIES_DIRECTORY);
        fs::create_dir_all(nested.join("crates")).unwrap();
        assert_eq!(database_in(scratch.path()), Some(nested.clone()));
        assert_eq!(database_in(&nested), Some(nested));
    }

    #[test]
    fn points_the_configuration_at_the_copy() {
        let text = "[graph]\n[advisories]\nyanked = \"warn\"\n";
        let expected = "[graph]\n[advisories]\ndb-path = \"/tmp/x\"\nyanked = \"warn\"\n";
        assert_eq!(with_database(text, Path::new("/tmp/x")).as_deref(), Some(expected));
        assert_eq!(with_database("[bans]\n", Path::new("/tmp/x")), None);
    }

    #[test]
    fn a_new_copy_is_of_today() {
        let scratch = Scratch::new("test-age").unwrap();
        fs::create_dir(scratch.path().join("crates")).unwrap();
        assert_eq!(age_of(scratch.path()), "today");
    }
}
