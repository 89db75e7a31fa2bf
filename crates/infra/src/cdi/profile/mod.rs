//! Storage profiles: what CDI knows of each class of storage.

pub(super) mod known;

use serde_json::{Value, json};

use super::names;
use crate::client::{Client, Identity};
use crate::clock::Clock;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{PV, STORAGE_CLASS, STORAGE_PROFILE, VOLUME_SNAPSHOT_CLASS};
use crate::object::{Condition, Key, Object as _};

/// Keeps one profile per class of storage.
#[derive(Debug)]
pub(super) struct Profiles {
    client: Client,
    clock: Clock,
}

impl Profiles {
    /// The controller of profiles.
    pub(super) fn new(context: &Context) -> Self {
        Self { client: context.client(Identity::CDI_CONTROLLER), clock: context.clock }
    }
}

impl Controller for Profiles {
    const NAME: &'static str = "cdi-storage-profile";

    fn watches(&self) -> Vec<Watch> {
        let classes = self.client.cache(&STORAGE_CLASS);
        let all = std::sync::Arc::clone(&classes);
        vec![
            Watch::each(&classes),
            Watch::each(&self.client.cache(&STORAGE_PROFILE)),
            Watch::mapped(&self.client.cache(&VOLUME_SNAPSHOT_CLASS), move |_| {
                all.list("").iter().map(|class| Key::of(class)).collect()
            }),
            // Volumes made by hand tell what their class can do.
            Watch::mapped(&self.client.cache(&PV), |change| {
                let is_new = change.before.is_none() != change.after.is_none();
                let class = change.object().text("/spec/storageClassName");
                if is_new && !class.is_empty() { vec![Key::cluster(class)] } else { Vec::new() }
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let profile = self.client.cache(&STORAGE_PROFILE).get(key);
        let class = self.client.cache(&STORAGE_CLASS).get(key);
        let class = class.filter(|class| !known::UNSUPPORTED.contains(&class.text("/provisioner")));
        let Some(class) = class else {
            if let Some(profile) = profile {
                self.client.delete(&STORAGE_PROFILE, key, profile.uid()).await?;
            }
            return Ok(Next::Done);
        };
        let profile = if let Some(profile) = profile {
            (*profile).clone()
        } else {
            let labels = json!({names::APP: names::APP_VALUE, names::COMPONENT: ""});
            let object = json!({"metadata": {"name": key.name, "labels": labels}, "spec": {}});
            self.client.create(&STORAGE_PROFILE, object).await?
        };
        let snapshot_classes = self.client.cache(&VOLUME_SNAPSHOT_CLASS).list("");
        let by_hand = self.abilities_by_hand(&class);
        let wanted = with_status(&profile, &class, &snapshot_classes, by_hand, &self.clock.seconds());
        if wanted != profile {
            self.client.replace_status(&STORAGE_PROFILE, &wanted).await?;
        }
        Ok(Next::Done)
    }
}

impl Profiles {
    /// What the volumes of a class that were made by hand can do.
    fn abilities_by_hand(&self, class: &Value) -> Vec<Value> {
        if class.text("/provisioner") != known::BY_HAND {
            return Vec::new();
        }
        let mut sets: Vec<Value> = Vec::new();
        for volume in self.client.cache(&PV).list("") {
            if volume.text("/spec/storageClassName") != class.name() {
                continue;
            }
            let mode = volume.text("/spec/volumeMode");
            for access in volume.list("/spec/accessModes") {
                let mode = if mode.is_empty() { "Filesystem" } else { mode };
                let set = json!({"accessModes": [access], "volumeMode": mode});
                if !sets.contains(&set) {
                    sets.push(set);
                }
            }
        }
        sets
    }
}

/// The profile with the status it should have.
fn with_status(
    profile: &Value,
    class: &Value,
    snapshot_classes: &[std::sync::Arc<Value>],
    by_hand: Vec<Value>,
    now: &str,
) -> Value {
    let known = known::abilities(class).map(known::property_sets);
    let recognized = known.is_some() || !by_hand.is_empty();
    let own = profile.list("/spec/claimPropertySets");
    let sets = if own.is_empty() { known.unwrap_or(by_hand) } else { own.to_vec() };
    let snapshot_class = snapshot_class(profile, class, snapshot_classes);
    let strategy = [profile.text("/spec/cloneStrategy"), class.annotation(names::CLASS_CLONE_STRATEGY)]
        .into_iter()
        .find(|strategy| !strategy.is_empty())
        .or_else(|| known::clone_strategy(class))
        .unwrap_or(if snapshot_class.is_some() { "snapshot" } else { "copy" });
    let format = profile.text("/spec/dataImportCronSourceFormat");
    let format = if format.is_empty() { known::cron_format(class) } else { format };
    let mut wanted = profile.clone();
    wanted.set("/status/storageClass", class.name().into());
    wanted.set("/status/provisioner", class["provisioner"].clone());
    if sets.is_empty() {
        wanted.unset("/status/claimPropertySets");
    } else {
        wanted.set("/status/claimPropertySets", sets.into());
    }
    wanted.set("/status/cloneStrategy", strategy.into());
    wanted.set("/status/dataImportCronSourceFormat", format.into());
    match snapshot_class {
        Some(name) => wanted.set("/status/snapshotClass", name.into()),
        None => wanted.unset("/status/snapshotClass"),
    }
    let condition = if recognized {
        Condition::new("Recognized", true, "RecognizedProvisioner", "The provisioner is recognized")
    } else {
        Condition::new("Recognized", false, "UnrecognizedProvisioner", "The provisioner is not recognized")
    };
    condition.put(&mut wanted, now);
    wanted
}

/// The class of snapshots for a class of storage: the profile's own, the default one, or the first by name.
fn snapshot_class(profile: &Value, class: &Value, all: &[std::sync::Arc<Value>]) -> Option<String> {
    const DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";
    let fitting: Vec<_> = all.iter().filter(|one| one["driver"] == class["provisioner"]).collect();
    let named = profile.text("/spec/snapshotClass");
    let chosen = fitting
        .iter()
        .find(|one| one.name() == named)
        .or_else(|| fitting.iter().find(|one| one.annotation(DEFAULT) == "true"))
        .or_else(|| fitting.first());
    chosen.map(|one| one.name().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
    fn profile(spec: Value) -> Value {
        json!({"metadata": {"name": "c"}, "spec": spec})
    }

    #[test]
    fn a_strategy_comes_from_the_nearest_place() {
        let snapshots = [Arc::new(json!({"metadata": {"name": "s"}, "driver": "rbd.csi.ceph.com"}))];
        let mut class = json!({"metadata": {"name": "c"}, "provisioner": "rbd.csi.ceph.com"});
        let strategy = |profile: &Value, class: &Value, snapshots: &[Arc<Value>]| {
            let wanted = with_status(profile, class, snapshots, Vec::new(), "t");
            wanted.text("/status/cloneStrategy").to_owned()
        };
        assert_eq!(strategy(&profile(json!({})), &class, &[]), "copy");
        assert_eq!(strategy(&profile(json!({})), &class, &snapshots), "snapshot");
        class.set_annotation(names::CLASS_CLONE_STRATEGY, "csi-clone");
        assert_eq!(strategy(&profile(json!({})), &class, &snapshots), "csi-clone");
        assert_eq!(strategy(&profile(json!({"cloneStrategy": "copy"})), &class, &snapshots), "copy");
    }

    #[test]
    fn an_unknown_provisioner_has_no_abilities() {
        let class = json!({"metadata": {"name": "c"}, "provisioner": "example.com/x"});
        let wanted = with_status(&profile(json!({})), &class, &[], Vec::new(), "t");
        assert!(wanted.list("/status/claimPropertySets").is_empty());
        assert_eq!(wanted.condition("Recognized")["status"], "False");
    }
}
