//! Where the real Kubernetes programs are.

use std::env;
use std::path::{Path, PathBuf};

use super::Result;

/// The programs a real cluster consists of.
const NEEDED: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// The directory `cargo xtask real-parts` put the programs into, or the one the environment names.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(named) = directory("TRELLIS_REAL_PARTS") {
        return match NEEDED.iter().find(|name| !named.join(name).is_file()) {
            None => Ok(named),
            Some(missing) => {
                Err(format!("TRELLIS_REAL_PARTS names {}, which lacks {missing}", named.display()).into())
            }
        };
    }
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real-parts/go.mod");
    let text = std::fs::read_to_string(&module)?;
    let version = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"))
        .ok_or("real-parts/go.mod requires no k8s.io/kubernetes")?;
    cached(version)
        .ok_or_else(|| format!("Kubernetes {version} is not built here: run `cargo xtask real-parts`").into())
}

/// The newest complete set of programs of a version in the user's cache.
fn cached(version: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(cache()?.join("real-parts")).ok()?;
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}-")))
        .filter(|entry| NEEDED.iter().all(|name| entry.path().join(name).is_file()))
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok())
        .map(|entry| entry.path())
}

/// Where the user keeps what we built or installed for tests.
pub(crate) fn cache() -> Option<PathBuf> {
    let cache = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?;
    Some(cache.join("trellis"))
}

fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
