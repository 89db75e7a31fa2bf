//! `cargo xtask real-parts`: the real Kubernetes programs the lab is compared with.
//!
//! They are built from the Go module `real-parts` into the user's cache, once for each state of that
//! module, so that a fresh clone of the workspace does not compile Kubernetes again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::failure::{Attempt as _, Failure, Result};
use crate::process;
use crate::table;
use crate::workspace::{self, Workspace};

/// The Go module that pins the programs, from the workspace's root.
const MODULE: &str = "real-parts";
/// Names a directory with programs that are used as they are, instead of our own.
pub(crate) const VARIABLE: &str = "TRELLIS_REAL_PARTS";
/// How often a build says how far it is.
const PROGRESS: Duration = Duration::from_secs(15);

/// A program, the Go package it is built from, and how it tells its version.
struct Part {
    name: &'static str,
    /// The folder of its module below ours; the same one for all that is Kubernetes.
    module: &'static str,
    package: &'static str,
    version: &'static [&'static str],
}

/// All programs, the quickest to build first.
const PARTS: &[Part] = &[
    Part { name: "etcd", module: "", package: "./etcd", version: &["--version"] },
    Part::of_kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", &["--version"]),
    Part::of_kubernetes(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        &["--version"],
    ),
    Part::of_kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl", &["version", "--client"]),
    Part::of_kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", &["--version"]),
    Part::of_kubernetes("kubeadm", "k8s.io/kubernetes/cmd/kubeadm", &["version", "--output=short"]),
    Part { name: "coredns", module: "coredns", package: ".", version: &["-version"] },
];

/// Runs `cargo xtask real-parts`: gets the programs, and says where they are and what they are.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    if !arguments.is_empty() {
        return Err(Failure::new("usage: cargo xtask real-parts"));
    }
    let directory = obtain(workspace)?;
    let rows: Vec<_> = PARTS.iter().map(|part| [part.name.to_owned(), part.version_in(&directory)]).collect();
    print!("\n{}\n", table::lay_out(["program", "version"], &rows));
    println!("{}", directory.display());
    Ok(true)
}

/// The directory with all programs: the one the environment names, a cached one, or a new one.
pub(crate) fn obtain(workspace: &Workspace) -> Result<PathBuf> {
    let place = Place::look(workspace)?;
    let missing = missing_in(&place.directory);
    if !missing.is_empty() {
        build(&place.module, &place.version, &place.directory, &missing)?;
    }
    Ok(place.directory)
}

/// Like [`obtain`], but builds nothing.
pub(crate) fn find(workspace: &Workspace) -> Result<PathBuf> {
    let place = Place::look(workspace)?;
    if missing_in(&place.directory).is_empty() {
        return Ok(place.directory);
    }
    Err(Failure::new(format!("Kubernetes {} is not built here: run `cargo xtask real-parts`", place.version)))
}

/// Where the programs are, or would be built.
struct Place {
    module: PathBuf,
    version: String,
    directory: PathBuf,
}

impl Place {
    fn look(workspace: &Workspace) -> Result<Self> {
        let module = workspace.root().join(MODULE);
        let version = kubernetes_version(&module)?;
        if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from) {
            return match missing_in(&named).as_slice() {
                [] => Ok(Self { module, version, directory: named }),
                missing => Err(Failure::new(format!(
                    "{VARIABLE} names {}, which lacks {}",
                    named.display(),
                    missing.join(", ")
                ))),
            };
        }
        let cache = workspace::cache().ok_or_else(|| {
            Failure::new(format!(
                "there is no place to keep the real parts: set XDG_CACHE_HOME or HOME, or {VARIABLE}"
            ))
        })?;
        let directory = cache.join("real-parts").join(format!("{version}-{:016x}", fingerprint(&module)?));
        Ok(Self { module, version, directory })
    }
}

/// Builds the missing programs, each under a name of its own until it is whole.
fn build(module: &Path, version: &str, directory: &Path, missing: &[&str]) -> Result<()> {
    let go = process::capture(Command::new("go").arg("version"));
    if !go.is_ok_and(|said| said.success) {
        return Err(Failure::new(format!(
            "the real parts are not built yet and Go is not installed: install Go ({}), or set {VARIABLE} to a \
             directory that has {}",
            wanted_go(module),
            names().join(", ")
        )));
    }
    fs::create_dir_all(directory).attempt(|| format!("create {}", directory.display()))?;
    println!(
        "building {} into {} (once; some ten minutes if nothing of it was ever built here)",
        missing.join(", "),
        directory.display()
    );
    for part in PARTS.iter().filter(|part| missing.contains(&part.name)) {
        let unfinished = directory.join(format!("{}.building-{}", part.name, std::process::id()));
        let built = part.build(module, version, &unfinished).and_then(|()| {
            fs::rename(&unfinished, directory.join(part.name)).attempt(|| format!("keep {}", part.name))
        });
        if built.is_err() {
            // A leftover is only in the way; what counts is the failure itself.
            let _ = fs::remove_file(&unfinished);
        }
        built?;
    }
    Ok(())
}

impl Part {
    const fn of_kubernetes(
        name: &'static str,
        package: &'static str,
        version: &'static [&'static str],
    ) -> Self {
        Self { name, module: "", package, version }
    }

    /// Compiles the program to `target`, and says from time to time how far it is.
    fn build(&self, module: &Path, version: &str, target: &Path) -> Result<()> {
        let name = self.name;
        let start = Instant::now();
        let mut go = Command::new("go");
        go.current_dir(module.join(self.module)).args([
            "build",
            "-v",
            "-ldflags",
            &linker_flags(version),
            "-o",
        ]);
        go.arg(target).arg(self.package);
        // Pure Go, and nothing of the user's own settings: the cache is shared by all workspaces.
        go.env("CGO_ENABLED", "0").env("GOFLAGS", "-buildvcs=false").env("GOWORK", "off");
        go.env_remove("GOOS").env_remove("GOARCH");

        println!("  {name}: started");
        let mut progress = Progress::default();
        let mut told = start;
        let success = process::watch_errors(&mut go, |line| {
            progress.see(line);
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                println!("  {name}: {} after {}", progress.words(), table::duration(start.elapsed()));
            }
        })?;
        if !success {
            return Err(Failure::new(format!("{name} did not build:\n{}", progress.complaints.join("\n"))));
        }
        println!("  {name}: done after {}", table::duration(start.elapsed()));
        Ok(())
    }

    /// What the program says about its version, in one line.
    fn version_in(&self, directory: &Path) -> String {
        match process::capture(Command::new(directory.join(self.name)).args(self.version)) {
            Ok(said) if said.success => said.stdout.lines().next().unwrap_or_default().trim().to_owned(),
            Ok(said) => format!("does not run here: {}", said.last_complaint()),
            Err(failure) => failure.to_string(),
        }
    }
}

/// How far a build is, as far as `go build -v` tells.
#[derive(Debug, Default)]
struct Progress {
    downloaded: usize,
    compiled: usize,
    /// The last lines that were no news of either kind.
    complaints: Vec<String>,
}

impl Progress {
    /// Takes in one line of what Go says.
    fn see(&mut self, line: &str) {
        const KEPT: usize = 30;
        if line.starts_with("go: downloading ") {
            self.downloaded += 1;
        } else if !line.is_empty() && !line.contains([' ', ':']) && !line.starts_with('#') {
            self.compiled += 1;
        } else if !line.trim().is_empty() {
            if self.complaints.len() == KEPT {
                self.complaints.remove(0);
            }
            self.complaints.push(line.to_owned());
        }
    }

    fn words(&self) -> String {
        match (self.downloaded, self.compiled) {
            (downloaded, 0) => format!("{downloaded} modules downloaded"),
            (0, compiled) => format!("{compiled} packages compiled"),
            (downloaded, compiled) => {
                format!("{downloaded} modules downloaded, {compiled} packages compiled")
            }
        }
    }
}

/// The names of all programs.
fn names() -> Vec<&'static str> {
    PARTS.iter().map(|part| part.name).collect()
}

/// The programs that are not in `directory`.
fn missing_in(directory: &Path) -> Vec<&'static str> {
    names().into_iter().filter(|name| !directory.join(name).is_file()).collect()
}

/// What the linker writes into the programs, so that they know which release they are.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let facts = [
        ("gitVersion", format!("v{version}").as_str()),
        ("gitMajor", major),
        ("gitMinor", minor),
        ("gitTreeState", "clean"),
        ("gitCommit", "0"),
        // The same programs from the same sources, whenever they are built.
        ("buildDate", "1970-01-01T00:00:00Z"),
    ]
    .map(|(name, value)| format!("-X k8s.io/component-base/version.{name}={value}"));
    format!("-s -w {} -X k8s.io/client-go/pkg/version.gitVersion=v{version}", facts.join(" "))
}

/// The version of Kubernetes the module requires, without the `v`.
fn kubernetes_version(module: &Path) -> Result<String> {
    let text = read_module(module)?;
    word_after(&text, "k8s.io/kubernetes")
        .and_then(|version| version.strip_prefix('v'))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("{} requires no k8s.io/kubernetes", module.display())))
}

/// The Go the module asks for, in words.
fn wanted_go(module: &Path) -> String {
    let text = read_module(module).unwrap_or_default();
    match word_after(&text, "go") {
        Some(version) => format!("{version} or newer"),
        None => "a recent version".to_owned(),
    }
}

fn read_module(module: &Path) -> Result<String> {
    let path = module.join("go.mod");
    fs::read_to_string(&path).attempt(|| format!("read {}", path.display()))
}

/// The second word of the line of a `go.mod` that begins with `first`.
fn word_after<'text>(text: &'text str, first: &str) -> Option<&'text str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|&word| word == first).and_then(|_| words.next())
    })
}

/// A number that changes with the module's sources and with the machine they are built for.
fn fingerprint(module: &Path) -> Result<u64> {
    let mut files = Vec::new();
    files_below(module, &mut files)?;
    files.sort();
    let mut sum = Sum::new();
    sum.add(env::consts::OS.as_bytes());
    sum.add(env::consts::ARCH.as_bytes());
    for file in files {
        let content = fs::read(&file).attempt(|| format!("read {}", file.display()))?;
        let name = file.strip_prefix(module).unwrap_or(&file);
        sum.add(name.to_string_lossy().as_bytes());
        sum.add(&content);
    }
    Ok(sum.0)
}

/// All files below `directory`.
fn files_below(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).attempt(|| format!("read {}", directory.display()))? {
        let path = entry.attempt(|| format!("read {}", directory.display()))?.path();
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a: told apart are states of our own files, not attacks, and the sum must never change by itself.
struct Sum(u64);

impl Sum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        // The length first, so that no two lists of pieces run together to the same bytes.
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_version_comes_from_the_module() {
        let module = Workspace::find().unwrap().root().join(MODULE);
        let version = kubernetes_version(&module).unwrap();
        assert!(version.starts_with("1."), "{version}");
        assert!(wanted_go(&module).starts_with("1."), "{}", wanted_go(&module));
        assert_eq!(
            word_after("require (\n\tk8s.io/kubernetes v1.2.3\n)", "k8s.io/kubernetes"),
            Some("v1.2.3")
        );
    }

    #[test]
    fn the_fingerprint_follows_the_sources() {
        let scratch = Scratch::new("test-real-parts").unwrap();
        fs::write(scratch.path().join("go.mod"), "module a").unwrap();
        let before = fingerprint(scratch.path()).unwrap();
        assert_eq!(fingerprint(scratch.path()).unwrap(), before);
        fs::create_dir(scratch.path().join("etcd")).unwrap();
        fs::write(scratch.path().join("etcd/main.go"), "package main").unwrap();
        assert_ne!(fingerprint(scratch.path()).unwrap(), before);
    }

    #[test]
    fn programs_that_are_not_there_are_named() {
        let scratch = Scratch::new("test-real-parts").unwrap();
        for part in PARTS.iter().filter(|part| part.name != "kube-controller-manager") {
            fs::write(scratch.path().join(part.name), "").unwrap();
        }
        assert_eq!(missing_in(scratch.path()), ["kube-controller-manager"]);
    }

    #[test]
    fn progress_tells_downloads_packages_and_complaints_apart() {
        let mut progress = Progress::default();
        for line in
            ["go: downloading k8s.io/api v0.1.0", "k8s.io/api/core/v1", "# k8s.io/x", "a.go:1: no", ""]
        {
            progress.see(line);
        }
        assert_eq!(progress.words(), "1 modules downloaded, 1 packages compiled");
        assert_eq!(progress.complaints, ["# k8s.io/x", "a.go:1: no"]);
    }

    #[test]
    fn the_linker_writes_the_release_into_the_programs() {
        let flags = linker_flags("1.37.1");
        assert!(flags.contains("version.gitMinor=37 "), "{flags}");
        assert!(flags.ends_with("client-go/pkg/version.gitVersion=v1.37.1"), "{flags}");
    }
}
