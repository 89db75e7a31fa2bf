//! The folder of `trellis up`: what is where, who uses it, and what may be taken away.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trellis_lab::auth;

use super::demo::DEMO;
use crate::exit::Failure;

/// Says that the folder is ours; the last to go.
const MARK: &str = "up.json";
/// Held by the process that runs.
const LOCK: &str = "up.lock";
/// The number of that process.
const PID: &str = "up.pid";
/// What it said, where it runs in the background.
const LOG: &str = "up.log";
/// The infra cluster.
const INFRA: &str = "infra";
/// The tenant clusters.
const CLUSTERS: &str = "clusters";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    /// The system does not let us.
    #[error("cannot use {path}: {source}")]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something else is in the place of what we would make.
    #[error(
        "{0} is there already, and was not made by `trellis up`: name another folder with --dir, or move it away"
    )]
    Occupied(PathBuf),
    /// There is nothing of ours.
    #[error("{0} is no folder of `trellis up`: name the one that was given to it with --dir")]
    NotOurs(PathBuf),
    /// It runs.
    #[error(
        "`trellis up` runs in {folder} already{}: `trellis down --dir {folder}` stops it, and {kubeconfig} leads to its infra cluster",
        pid.map(|pid| format!(", as process {pid}")).unwrap_or_default()
    )]
    Running {
        /// The folder.
        folder: String,
        /// Who runs it, where that is known.
        pid: Option<i32>,
        /// Where its kubeconfig is.
        kubeconfig: String,
    },
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        match error {
            HomeError::System { .. } => Self::Lab(error.to_string()),
            HomeError::Occupied(_) | HomeError::Running { .. } => Self::Rejected(error.to_string()),
            HomeError::NotOurs(_) => Self::NotFound(error.to_string()),
        }
    }
}

/// The right to use the folder, which one process has at a time; it ends with this.
#[derive(Debug)]
pub(crate) struct Claim {
    _held: File,
}

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The folder of the infra cluster.
    pub(crate) fn infra(&self) -> PathBuf {
        self.0.join(INFRA)
    }

    /// The kubeconfig of the infra cluster.
    pub(crate) fn infra_kubeconfig(&self) -> PathBuf {
        self.infra().join("kubeconfig")
    }

    /// The kubeconfig of the tenant cluster.
    pub(crate) fn tenant_kubeconfig(&self) -> PathBuf {
        self.0.join(CLUSTERS).join(DEMO).join("auth/kubeconfig")
    }

    /// What is said in the background.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    fn system(path: PathBuf) -> impl FnOnce(io::Error) -> HomeError {
        |source| HomeError::System { path, source }
    }

    /// Whether the folder was made by `trellis up`.
    pub(crate) fn is_ours(&self) -> bool {
        let mark = fs::read(self.0.join(MARK)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        mark.is_some_and(|mark: Value| mark["madeBy"] == "trellis up")
    }

    /// Makes the folder ours, unless somebody else's things are in the way.
    pub(crate) fn prepare(&self) -> Result<(), HomeError> {
        if self.is_ours() {
            return Ok(());
        }
        let demo = Path::new(CLUSTERS).join(DEMO);
        for name in
            [Path::new(MARK), Path::new(LOCK), Path::new(PID), Path::new(LOG), Path::new(INFRA), &demo]
        {
            let path = self.0.join(name);
            if path.symlink_metadata().is_ok() {
                return Err(HomeError::Occupied(path));
            }
        }
        auth::create_private_folder(&self.0).map_err(Self::system(self.0.clone()))?;
        let mark = self.0.join(MARK);
        fs::write(&mark, format!("{:#}\n", json!({"madeBy": "trellis up"}))).map_err(Self::system(mark))
    }

    /// Takes the folder for this process.
    pub(crate) fn claim(&self) -> Result<Claim, HomeError> {
        let path = self.0.join(LOCK);
        let lock = auth::open_private_file(&path).map_err(Self::system(path.clone()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Claim { _held: lock }),
            Err(TryLockError::WouldBlock) => Err(HomeError::Running {
                folder: self.0.display().to_string(),
                pid: self.pid(),
                kubeconfig: self.infra_kubeconfig().display().to_string(),
            }),
            Err(TryLockError::Error(source)) => Err(HomeError::System { path, source }),
        }
    }

    /// Takes the folder as soon as nobody else has it.
    pub(crate) fn wait(&self) -> Result<Claim, HomeError> {
        let path = self.0.join(LOCK);
        let lock = auth::open_private_file(&path).map_err(Self::system(path.clone()))?;
        lock.lock().map_err(Self::system(path))?;
        Ok(Claim { _held: lock })
    }

    /// Writes down which process runs; for whoever has the claim.
    pub(crate) fn sign(&self, _claim: &Claim) -> Result<(), HomeError> {
        let path = self.0.join(PID);
        fs::write(&path, format!("{}\n", std::process::id())).map_err(Self::system(path))
    }

    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.0.join(PID)).ok()?.trim().parse().ok()
    }

    /// Removes what `trellis up` made, and nothing else; for whoever has the claim.
    pub(crate) fn purge(&self, _claim: &Claim) -> Result<(), HomeError> {
        if !self.is_ours() {
            return Err(HomeError::NotOurs(self.0.clone()));
        }
        let clusters = self.0.join(CLUSTERS);
        for folder in [clusters.join(DEMO), self.infra()] {
            gone(fs::remove_dir_all(&folder)).map_err(Self::system(folder))?;
        }
        // As long as the mark is there, the same can be asked for again.
        for file in [PID, LOG, LOCK, MARK].map(|name| self.0.join(name)) {
            gone(fs::remove_file(&file)).map_err(Self::system(file))?;
        }
        for folder in [clusters, self.0.clone()] {
            match fs::remove_dir(&folder) {
                // Somebody else's things stay.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                other => gone(other).map_err(Self::system(folder))?,
            }
        }
        Ok(())
    }
}

/// What is not there need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &tempfile::TempDir) -> Home {
        Home::new(&folder.path().join("home"))
    }

    #[test]
    fn one_process_has_it_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        home.prepare().unwrap();
        let claim = home.claim().unwrap();
        home.sign(&claim).unwrap();
        let told = home.claim().unwrap_err().to_string();
        assert!(told.contains(&std::process::id().to_string()) && told.contains("trellis down"), "{told}");
        drop(claim);
        drop(home.wait().unwrap());
    }

    #[test]
    fn what_is_somebody_elses_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        fs::create_dir_all(home.infra()).unwrap();
        assert!(matches!(home.prepare(), Err(HomeError::Occupied(path)) if path == home.infra()));
        fs::remove_dir(home.infra()).unwrap();
        fs::write(home.folder().join("notes"), "mine").unwrap();
        fs::create_dir_all(home.folder().join("clusters/other")).unwrap();
        home.prepare().unwrap();
        let claim = home.claim().unwrap();
        fs::create_dir_all(home.tenant_kubeconfig()).unwrap();
        home.purge(&claim).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(home.folder()).unwrap().map(|one| one.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["clusters", "notes"]);
        assert!(matches!(home.purge(&claim), Err(HomeError::NotOurs(_))));
    }

    #[test]
    fn all_of_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        home.prepare().unwrap();
        let claim = home.claim().unwrap();
        home.sign(&claim).unwrap();
        fs::create_dir_all(home.infra()).unwrap();
        home.purge(&claim).unwrap();
        assert!(!home.folder().exists());
    }
}
