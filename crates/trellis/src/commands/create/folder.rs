//! The folder of an installation: what it was made from, what was made, and how it is reached.

use std::path::{Path, PathBuf};

use serde_json::Value;
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_engine::install::assets::{Metadata, terraform, terraform_kubevirt};
use trellis_lab::{Secret, auth};
use trellis_model::{Cluster, Estate, Pool};

use crate::exit::Failure;

/// What the cluster is found again by.
const METADATA: &str = "metadata.json";
/// What the cluster is made from, as a person or the survey wrote it.
pub(crate) const INSTALL_CONFIG: &str = "install-config.yaml";
/// What the cluster is made from, in Trellis's own words.
const MANIFESTS: &str = "manifests";
/// What `create` leaves there beside the manifests, and `destroy` takes away.
const MADE: [&str; 4] =
    [METADATA, "terraform.tfvars.json", "terraform.kubevirt.auto.tfvars.json", "auth/kubeconfig"];

/// The folder of an installation.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A folder that need not be there yet.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the API server is kept that holds the machine objects.
    pub(crate) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    /// Where what happens is logged.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(".trellis_install.log")
    }

    /// Makes it, for its owner alone, if it is not there.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        Ok(auth::create_private_folder(&self.path)?)
    }

    /// Where the kubeconfig of the tenant is written.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path.join("auth/kubeconfig")
    }

    /// The manifests to make a cluster from, where nobody names others.
    pub(crate) fn sources(&self) -> Result<Vec<PathBuf>, Failure> {
        let found = [INSTALL_CONFIG, MANIFESTS].map(|name| self.path.join(name));
        match found.into_iter().find(|path| path.exists()) {
            Some(path) => Ok(vec![path]),
            None => Err(Failure::Read {
                name: self.path.display().to_string(),
                why: format!(
                    "there is no {INSTALL_CONFIG} and no folder {MANIFESTS} in it; make one with `trellis create \
                     install-config`, or name manifests with -f"
                ),
            }),
        }
    }

    /// What the cluster of this folder is found again by; nothing where none was made from it.
    pub(crate) fn metadata(&self) -> Result<Option<Metadata>, Failure> {
        let path = self.path.join(METADATA);
        let unreadable = |why: String| Failure::Read { name: path.display().to_string(), why };
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| unreadable(error.to_string()))?,
        };
        serde_json::from_str(&text).map(Some).map_err(|error| unreadable(error.to_string()))
    }

    /// The same, for those who need it.
    pub(crate) fn needed_metadata(&self) -> Result<Metadata, Failure> {
        let missing = || Failure::Read {
            name: self.path.join(METADATA).display().to_string(),
            why: "no cluster was made from this folder; name one with --cluster-id and --namespace"
                .to_owned(),
        };
        self.metadata()?.ok_or_else(missing)
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        auth::create_private_folder(path.parent().unwrap_or(&self.path))?;
        auth::write_secret_file(&path, &Secret::new(text))
            .map_err(|error| Failure::Read { name: path.display().to_string(), why: error.to_string() })
    }

    /// Writes what the cluster is found again by.
    pub(crate) fn write_metadata(&self, metadata: &Metadata) -> Result<(), Failure> {
        let value = serde_json::to_value(metadata).unwrap_or_default();
        self.write(METADATA, &pretty(&value))
    }

    /// Writes the variables of Terraform.
    pub(crate) fn write_terraform(&self, cluster: &Cluster, pools: &[&Pool]) -> Result<(), Failure> {
        self.write("terraform.tfvars.json", &pretty(&terraform(cluster, pools)))?;
        self.write("terraform.kubevirt.auto.tfvars.json", &pretty(&terraform_kubevirt(cluster, pools)))
    }

    /// Writes what is asked for in Trellis's own words: the record, the cluster and its pools, each in a file.
    pub(crate) fn write_manifests(&self, estate: &Estate) -> Result<Vec<String>, Failure> {
        let mut written = Vec::new();
        for document in trellis_dialects::trellis::write(estate) {
            let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("/kind").to_lowercase(), text("/metadata/name"));
            let order = if kind == "tenantcluster" { "00" } else { "10" };
            let file = format!("{MANIFESTS}/{order}-{kind}-{name}.yaml");
            self.write(&file, &to_yaml_documents(std::slice::from_ref(&document)))?;
            written.push(file);
        }
        Ok(written)
    }

    /// Removes what was made from it, and leaves what it was made from.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        for name in MADE {
            gone(std::fs::remove_file(self.path.join(name)))?;
        }
        // Whoever still has the server of the folder running needs its files.
        if self.control().exists() && trellis_lab::claim_folder(&self.control()).is_ok() {
            gone(std::fs::remove_dir_all(self.control()))?;
        }
        // Others may have put something there.
        let _ = std::fs::remove_dir(self.path.join("auth"));
        Ok(())
    }
}

fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_config_goes_before_manifests_and_one_of_them_must_be_there() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path());
        let missing = folder.sources().unwrap_err().to_string();
        assert!(missing.contains("create install-config"), "{missing}");
        folder.write("manifests/a.yaml", "a").unwrap();
        assert_eq!(folder.sources().unwrap(), [home.path().join("manifests")]);
        folder.write(INSTALL_CONFIG, "b").unwrap();
        assert_eq!(folder.sources().unwrap(), [home.path().join(INSTALL_CONFIG)]);
    }

    #[test]
    fn what_is_written_is_private_and_what_was_made_can_be_cleared_away() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("new"));
        assert!(folder.metadata().unwrap().is_none() && folder.needed_metadata().is_err());
        for name in [INSTALL_CONFIG, METADATA, "auth/kubeconfig", "control/x"] {
            folder.write(name, "{}").unwrap();
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(&folder.kubeconfig())), (0o700, 0o600));
        assert!(folder.metadata().is_err(), "one that says nothing is not one");
        folder.clear().unwrap();
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, [INSTALL_CONFIG]);
    }
}
