//! From what a DataVolume wants to the claim that is made for it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{config, names};
use crate::client::Client;
use crate::kinds::{CDI_CONFIG, STORAGE_CLASS, STORAGE_PROFILE};
use crate::object::{Key, Object as _};
use crate::quantity;

/// Images are aligned to this.
const ALIGNMENT: i128 = 1 << 20;

/// What is known of the storage when a claim is made.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// The classes of storage.
    pub classes: Vec<Arc<Value>>,
    /// What is known of them.
    pub profiles: Vec<Arc<Value>>,
    /// The configuration of CDI.
    pub config: Value,
}

impl Facts {
    /// What is known now.
    pub(super) fn look(client: &Client) -> Self {
        let config = client.cache(&CDI_CONFIG).get(&Key::cluster("config"));
        Self {
            classes: client.cache(&STORAGE_CLASS).list(""),
            profiles: client.cache(&STORAGE_PROFILE).list(""),
            config: config.map(|config| (*config).clone()).unwrap_or_default(),
        }
    }

    /// A class by name; the default one where there is no name, that for machines first.
    pub(super) fn class(&self, name: Option<&str>, for_machines: bool) -> Option<&Arc<Value>> {
        if let Some(name) = name {
            return self.classes.iter().find(|class| class.name() == name);
        }
        let own = for_machines.then(|| config::default_by(&self.classes, names::DEFAULT_VIRT_CLASS));
        own.flatten().or_else(|| config::default_by(&self.classes, names::DEFAULT_CLASS))
    }

    fn profile(&self, class: &str) -> Option<&Arc<Value>> {
        self.profiles.iter().find(|profile| profile.name() == class)
    }

    /// The share of a file system of a class that is not there for files.
    pub(super) fn overhead(&self, class: &str) -> f64 {
        let own = self.config["status"]["filesystemOverhead"]["storageClass"][class].as_str();
        let text = own.unwrap_or_else(|| self.config.text("/status/filesystemOverhead/global"));
        config::overhead_of(text).unwrap_or(0.06)
    }
}

/// Why no claim can be made; the message goes into an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClaimError {
    /// No class to look up what is missing.
    #[error("PVC spec is missing accessMode and no storageClass to choose profile")]
    NoClass,
    /// The class that is named is not there.
    #[error("storageclass.storage.k8s.io \"{0}\" not found")]
    UnknownClass(String),
    /// Nothing is known of the class.
    #[error("PVC spec is missing accessMode and volumeMode, cannot get access mode from StorageProfile {0}")]
    NoProfile(String),
    /// The class is not known to be able to do that.
    #[error("PVC spec is missing accessMode, cannot get access mode from StorageProfile {0}")]
    NoAccessMode(String),
    /// There is no size.
    #[error("PVC spec is missing storage size")]
    NoSize,
}

/// The specification of the claim for a DataVolume. `origin_size` is the size to take where a clone has none of its
/// own, in bytes.
pub(super) fn render(volume: &Value, facts: &Facts, origin_size: Option<i128>) -> Result<Value, ClaimError> {
    let spec = &volume["spec"];
    if spec["pvc"].is_object() {
        return Ok(spec["pvc"].clone());
    }
    let storage = &spec["storage"];
    let is_disk = spec["contentType"] != "archive";
    let mut claim = json!({});
    for field in ["selector", "volumeName", "dataSource", "dataSourceRef"] {
        if let Some(value) = storage.get(field) {
            claim[field] = value.clone();
        }
    }
    let named = storage["storageClassName"].as_str();
    let class = facts.class(named, is_disk);
    match (class, named) {
        (Some(class), _) => claim["storageClassName"] = class.name().into(),
        (None, Some("")) => claim["storageClassName"] = "".into(),
        (None, Some(named)) => return Err(ClaimError::UnknownClass(named.to_owned())),
        (None, None) => {}
    }
    let (access, mode) = modes(storage, class.map(|class| &**class), facts)?;
    claim["accessModes"] = access.into();
    if let Some(mode) = &mode {
        claim["volumeMode"] = mode.as_str().into();
    }
    let asked = storage.at("/resources/requests/storage");
    let size = if asked.is_null() { origin_size.ok_or(ClaimError::NoSize)? } else { quantity::whole(asked) };
    let on_files = mode.as_deref() != Some("Block");
    let size = if on_files && is_disk {
        let overhead = class.map_or(0.0, |class| facts.overhead(class.name()));
        quantity::bytes(with_overhead(size, overhead))
    } else {
        asked.as_str().map_or_else(|| quantity::bytes(size), ToOwned::to_owned)
    };
    claim["resources"] = json!({"requests": {"storage": size}});
    Ok(claim)
}

/// The access modes and the volume mode of a claim.
fn modes(
    storage: &Value,
    class: Option<&Value>,
    facts: &Facts,
) -> Result<(Vec<Value>, Option<String>), ClaimError> {
    let access = storage.list("/accessModes").to_vec();
    let mode = storage["volumeMode"].as_str().map(ToOwned::to_owned);
    let Some(class) = class else {
        return if access.is_empty() { Err(ClaimError::NoClass) } else { Ok((access, mode)) };
    };
    let profile = facts.profile(class.name());
    let sets = profile.map_or(&[][..], |profile| profile.list("/status/claimPropertySets"));
    match (access.is_empty(), mode) {
        (false, Some(mode)) => Ok((access, Some(mode))),
        (false, None) => {
            let set = sets.iter().find(|set| set.list("/accessModes").contains(&access[0]));
            Ok((access, set.map(|set| set.text("/volumeMode").to_owned())))
        }
        (true, Some(mode)) => {
            let set = sets.iter().find(|set| set["volumeMode"] == mode.as_str());
            let set = set.ok_or_else(|| ClaimError::NoAccessMode(class.name().to_owned()))?;
            Ok((set.list("/accessModes").to_vec(), Some(mode)))
        }
        (true, None) => {
            let set = sets.first().ok_or_else(|| ClaimError::NoProfile(class.name().to_owned()))?;
            Ok((set.list("/accessModes").to_vec(), Some(set.text("/volumeMode").to_owned())))
        }
    }
}

/// The size a file system has to have for an image of a size to fit into.
pub(super) fn with_overhead(size: i128, overhead: f64) -> i128 {
    let aligned = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    // Shares are written with a few digits: millionths are exact.
    #[expect(clippy::cast_possible_truncation, reason = "a share of one in millionths")]
    let left = 1_000_000 - (overhead * 1_000_000.0).round() as i128;
    (aligned * 1_000_000 + left - 1) / left.max(1)
}

/// What fits on a claim: all of a block device, and of a file system what the overhead leaves.
pub(super) fn usable(capacity: i128, overhead: f64) -> i128 {
    #[expect(clippy::cast_possible_truncation, reason = "a share of one in millionths")]
    let left = 1_000_000 - (overhead * 1_000_000.0).round() as i128;
    let usable = capacity * left / 1_000_000;
    usable / ALIGNMENT * ALIGNMENT
}

/// Whether volumes of a class are made only when somebody wants to use them.
pub(super) fn waits_for_consumer(facts: &Facts, claim: &Value) -> bool {
    let name = claim.at("/spec/storageClassName").as_str();
    facts.class(name, false).is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// Whether a claim asks to be filled without waiting for a consumer.
pub(super) fn is_immediate(claim: &Value) -> bool {
    claim["metadata"]["annotations"].get(names::IMMEDIATE_BINDING).is_some_and(|value| value != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let class = |name: &str, annotation: &str| {
            Arc::new(json!({"metadata": {"name": name, "annotations": {annotation: "true"}}}))
        };
        let sets = json!([
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        ]);
        Facts {
            classes: vec![class("plain", names::DEFAULT_CLASS), class("virt", names::DEFAULT_VIRT_CLASS)],
            profiles: vec![
                Arc::new(json!({"metadata": {"name": "virt"}, "status": {"claimPropertySets": sets}})),
                Arc::new(json!({"metadata": {"name": "plain"}, "status": {}})),
            ],
            config: json!({"status": {"filesystemOverhead": {"global": "0.06", "storageClass": {}}}}),
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
    fn volume(storage: Value) -> Value {
        json!({"spec": {"storage": storage}})
    }

    #[test]
    fn what_is_missing_comes_from_the_profile() {
        let claim =
            render(&volume(json!({"resources": {"requests": {"storage": "1Gi"}}})), &facts(), None).unwrap();
        assert_eq!(claim["storageClassName"], "virt");
        assert_eq!(claim["accessModes"], json!(["ReadWriteMany"]));
        assert_eq!(claim["volumeMode"], "Block");
        assert_eq!(claim["resources"]["requests"]["storage"], "1Gi");
    }

    #[test]
    fn a_file_system_is_larger_than_what_it_holds() {
        let storage = json!({"volumeMode": "Filesystem", "resources": {"requests": {"storage": "10Gi"}}});
        let claim = render(&volume(storage), &facts(), None).unwrap();
        assert_eq!(claim["resources"]["requests"]["storage"], "11422785362");
        assert_eq!(claim["accessModes"], json!(["ReadWriteOnce"]));
        assert!(usable(11_422_785_362, 0.06) >= 10 << 30);
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        let named = |name: &str| {
            volume(json!({"storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}}))
        };
        assert_eq!(render(&named("plain"), &facts(), None), Err(ClaimError::NoProfile("plain".to_owned())));
        assert_eq!(render(&named("x"), &facts(), None), Err(ClaimError::UnknownClass("x".to_owned())));
        let bare = volume(json!({"resources": {"requests": {"storage": "1Gi"}}}));
        assert_eq!(render(&bare, &Facts::default(), None), Err(ClaimError::NoClass));
        assert_eq!(render(&volume(json!({})), &facts(), None), Err(ClaimError::NoSize));
        assert!(render(&volume(json!({})), &facts(), Some(1 << 30)).is_ok());
    }
}
