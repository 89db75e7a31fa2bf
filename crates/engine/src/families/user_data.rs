//! What a guest reads at first boot, and where each family keeps it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::object::Object;
use super::pool::number_of;
use super::reading::Reading;
use super::table::{Family, KKP, OPENSHIFT};

/// The namespace the operating-system-manager keeps bootstrap configurations in.
const OSM_NAMESPACE: &str = "cloud-init-settings";
/// The key of its Secrets.
const OSM_KEY: &str = "cloud-config";
/// The annotation of its Secrets with the revision of the MachineDeployment they are for.
const OSM_REVISION: &str = "k8c.io/machine-deployment-revision";
/// What stands in it for the name of the machine.
const OSM_MACHINE_NAME: &str = "<MACHINE_NAME>";
/// The key of the Secrets of the other two families.
const KEY: &str = "userData";
/// The file a guest reads its name from.
const HOSTNAME_FILE: &str = "/etc/hostname";

/// Where the user data of a machine is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: it is written out in the pool, or the platform makes it from what the pool says.
    Pool,
    /// In a Secret of the control site.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The revision of the MachineDeployment it must be for.
        revision: Option<String>,
    },
}

/// A Secret, as far as it is looked at. It is never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretSeen {
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What it holds.
    pub data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for SecretSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSeen").finish_non_exhaustive()
    }
}

/// Why a machine has no user data yet. Nothing of a Secret is in the words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoUserData {
    /// The Secret is not there yet.
    #[error("waiting for the Secret {0} with the user data")]
    Missing(String),
    /// It is there for another revision, and will be replaced.
    #[error(
        "the Secret {name} is for revision {found:?} of the MachineDeployment; waiting for revision {wanted:?}"
    )]
    OtherRevision {
        /// The Secret.
        name: String,
        /// The revision it is for.
        found: String,
        /// The revision of the machine's set.
        wanted: String,
    },
    /// It has no such key, or nothing in it.
    #[error("the Secret {0} has nothing under its key {1}")]
    NoKey(String, &'static str),
    /// What it holds is no text.
    #[error("the user data in the Secret {0} is not text")]
    NotText(String),
    /// What it holds is not an Ignition configuration.
    #[error("the user data in the Secret {0} is not an Ignition configuration")]
    NotIgnition(String),
}

/// Where the user data of a machine is kept. `set` is its set; `pool` the name of its MachineDeployment, if it has one.
pub fn source(
    family: &Family,
    machine: &Object,
    set: Option<&Object>,
    pool: Option<&str>,
    reading: &Reading,
) -> Source {
    let wished = &reading.pool.spec.template.user_data;
    let namespace = machine.metadata.namespace().to_string();
    if wished.inline.is_some() {
        return Source::Pool;
    }
    if *family == KKP {
        let Some(pool) = pool else { return Source::Pool };
        let number = set.map(|set| number_of(family, set)).filter(|number| *number > 0);
        return Source::Secret {
            name: format!("{pool}-{namespace}-bootstrap-config"),
            namespace: OSM_NAMESPACE.to_owned(),
            revision: number.map(|number| number.to_string()),
        };
    }
    match &wished.secret {
        Some(name) => Source::Secret { namespace, name: name.to_string(), revision: None },
        None => Source::Pool,
    }
}

/// What the machine reads at first boot, from the Secret its source names. Nothing where there is no Secret to look at.
pub fn user_data(
    family: &Family,
    machine: &str,
    source: &Source,
    secret: Option<&SecretSeen>,
) -> Result<Option<Arc<str>>, NoUserData> {
    let Source::Secret { name, revision, .. } = source else { return Ok(None) };
    let Some(secret) = secret else { return Err(NoUserData::Missing(name.clone())) };
    if let (Some(wanted), Some(found)) = (revision, secret.annotations.get(OSM_REVISION))
        && wanted != found
    {
        let (name, found, wanted) = (name.clone(), found.clone(), wanted.clone());
        return Err(NoUserData::OtherRevision { name, found, wanted });
    }
    let key = if *family == KKP { OSM_KEY } else { KEY };
    let bytes = secret.data.get(key).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or_else(|| NoUserData::NoKey(name.clone(), key))?;
    let text = std::str::from_utf8(bytes).map_err(|_| NoUserData::NotText(name.clone()))?;
    Ok(Some(if *family == KKP {
        text.replace(OSM_MACHINE_NAME, machine).into()
    } else if *family == OPENSHIFT {
        with_hostname(text, machine).ok_or_else(|| NoUserData::NotIgnition(name.clone()))?.into()
    } else {
        text.into()
    }))
}

/// An Ignition configuration with a file that gives the machine its name, beside the files there are. A file of that
/// path gives way: all machines of the set have the same one.
fn with_hostname(text: &str, machine: &str) -> Option<String> {
    let mut config: Map<String, Value> = serde_json::from_str(text).ok()?;
    let version = config.get("ignition")?.get("version")?.as_str()?.to_owned();
    // Names of machines are DNS labels: nothing in them needs escaping.
    let mut file =
        json!({ "path": HOSTNAME_FILE, "mode": 0o644, "contents": { "source": format!("data:,{machine}") } });
    if version.starts_with("2.") {
        file["filesystem"] = "root".into();
    } else {
        file["overwrite"] = true.into();
    }
    let storage = config.entry("storage").or_insert_with(|| Value::Object(Map::new()));
    if storage.is_null() {
        *storage = Value::Object(Map::new());
    }
    let files = storage.as_object_mut()?.entry("files").or_insert_with(|| Value::Array(Vec::new()));
    if files.is_null() {
        *files = Value::Array(Vec::new());
    }
    let files = files.as_array_mut()?;
    files.retain(|file| file.get("path").and_then(Value::as_str) != Some(HOSTNAME_FILE));
    files.push(file);
    serde_json::to_string(&config).ok()
}
