//! How a clone is made.

use serde_json::Value;

use crate::object::Object as _;
use crate::quantity;

/// The ways there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// One pod reads, another writes.
    Copy,
    /// A snapshot is taken, and a volume is made of it.
    Snapshot,
    /// The storage does it.
    Csi,
}

impl Strategy {
    /// The word for it in annotations and profiles.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Snapshot => "snapshot",
            Self::Csi => "csi-clone",
        }
    }

    /// The way a word is for.
    pub(super) fn of(word: &str) -> Option<Self> {
        [Self::Copy, Self::Snapshot, Self::Csi].into_iter().find(|strategy| strategy.word() == word)
    }
}

/// Why a clone is made the slow way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fallback {
    /// No snapshot can be taken.
    #[error("No compatible volumesnapshotclass found")]
    NoVolumeSnapshotClass,
    /// The storage of one knows nothing of the other's.
    #[error("Provisioners are incompatible")]
    IncompatibleProvisioners,
    /// The snapshot is of other storage.
    #[error("The storageclass provisioner does not match the volumesnapshotcontent driver")]
    NoProvisionerMatch,
    /// One is a device and the other a file system.
    #[error("The volume modes of source and target are incompatible")]
    IncompatibleVolumeModes,
    /// It would have to grow, and cannot.
    #[error("No volume expansion is possible")]
    NoVolumeExpansion,
}

impl Fallback {
    /// The reason in one word, for events.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NoVolumeSnapshotClass => "NoVolumeSnapshotClass",
            Self::IncompatibleProvisioners => "IncompatibleProvisioners",
            Self::NoProvisionerMatch => "NoProvisionerMatch",
            Self::IncompatibleVolumeModes => "IncompatibleVolumeModes",
            Self::NoVolumeExpansion => "NoVolumeExpansion",
        }
    }
}

/// What is known of a clone before it is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    /// What the installation wants for all clones; empty for nothing.
    pub wanted: &'a str,
    /// What the profile of the target's class says; empty for nothing.
    pub profile: &'a str,
    /// The source: a claim, or a snapshot.
    pub source: &'a Value,
    /// The class of the source, where it is a claim.
    pub source_class: &'a Value,
    /// The driver of the source, where it is a snapshot.
    pub snapshot_driver: Option<&'a str>,
    /// The target.
    pub target: &'a Value,
    /// The class of the target.
    pub class: &'a Value,
    /// Whether there is a class of snapshots for the source's driver.
    pub has_snapshot_class: bool,
}

/// How a clone is made, and why it is not made in a better way.
pub(super) fn choose(question: &Question<'_>) -> (Strategy, Option<Fallback>) {
    let found = match question.snapshot_driver {
        Some(driver) => of_snapshot(question, driver),
        None => of_claim(question),
    };
    match found {
        Ok(strategy) => (strategy, None),
        Err(fallback) => (Strategy::Copy, Some(fallback)),
    }
}

fn of_claim(question: &Question<'_>) -> Result<Strategy, Fallback> {
    let strategy = Strategy::of(question.wanted)
        .or_else(|| Strategy::of(question.profile))
        .unwrap_or(Strategy::Snapshot);
    if strategy == Strategy::Copy {
        return Ok(Strategy::Copy);
    }
    if strategy == Strategy::Snapshot && !question.has_snapshot_class {
        return Err(Fallback::NoVolumeSnapshotClass);
    }
    if question.source_class["provisioner"] != question.class["provisioner"] {
        return Err(Fallback::IncompatibleProvisioners);
    }
    let mode = |claim: &Value| claim["spec"]["volumeMode"] == "Block";
    if mode(question.source) != mode(question.target) {
        return Err(Fallback::IncompatibleVolumeModes);
    }
    grows(question, quantity::whole(question.source.at("/status/capacity/storage")))?;
    Ok(strategy)
}

fn of_snapshot(question: &Question<'_>, driver: &str) -> Result<Strategy, Fallback> {
    if question.class["provisioner"] != driver {
        return Err(Fallback::NoProvisionerMatch);
    }
    grows(question, quantity::whole(question.source.at("/status/restoreSize")))?;
    Ok(Strategy::Snapshot)
}

/// A clone that is to be larger than its source has to be able to grow.
fn grows(question: &Question<'_>, size: i128) -> Result<(), Fallback> {
    let target = quantity::whole(question.target.at("/spec/resources/requests/storage"));
    if target > size && !question.class.flag("/allowVolumeExpansion") {
        return Err(Fallback::NoVolumeExpansion);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(change: impl Fn(&mut Question<'_>)) -> (Strategy, Option<Fallback>) {
        let class = json!({"provisioner": "a", "allowVolumeExpansion": true});
        let source = json!({"spec": {"volumeMode": "Block"}, "status": {"capacity": {"storage": "1Gi"}}});
        let target = json!({"spec": {"volumeMode": "Block", "resources": {"requests": {"storage": "2Gi"}}}});
        let mut question = Question {
            wanted: "",
            profile: "",
            source: &source,
            source_class: &class,
            snapshot_driver: None,
            target: &target,
            class: &class,
            has_snapshot_class: true,
        };
        change(&mut question);
        choose(&question)
    }

    #[test]
    fn the_nearest_wish_decides() {
        assert_eq!(ask(|_| {}), (Strategy::Snapshot, None));
        assert_eq!(ask(|question| question.profile = "csi-clone"), (Strategy::Csi, None));
        let both = |question: &mut Question<'_>| (question.profile, question.wanted) = ("csi-clone", "copy");
        assert_eq!(ask(both), (Strategy::Copy, None));
    }

    #[test]
    fn what_cannot_be_is_made_the_slow_way() {
        let why = |change: &dyn Fn(&mut Question<'_>)| ask(change).1;
        assert_eq!(
            why(&|question| question.has_snapshot_class = false),
            Some(Fallback::NoVolumeSnapshotClass)
        );
        let (other, fixed) = (json!({"provisioner": "b"}), json!({"provisioner": "a"}));
        let file = json!({"spec": {"volumeMode": "Filesystem"}});
        // The references have to outlive the question, hence the leaks of a test.
        let keep = |value: &Value| -> &'static Value { Box::leak(Box::new(value.clone())) };
        let (other, fixed, file) = (keep(&other), keep(&fixed), keep(&file));
        assert_eq!(why(&|question| question.source_class = other), Some(Fallback::IncompatibleProvisioners));
        assert_eq!(why(&|question| question.target = file), Some(Fallback::IncompatibleVolumeModes));
        let no_growth =
            |question: &mut Question<'_>| (question.class, question.source_class) = (fixed, fixed);
        assert_eq!(why(&no_growth), Some(Fallback::NoVolumeExpansion));
        assert_eq!(why(&|question| question.snapshot_driver = Some("b")), Some(Fallback::NoProvisionerMatch));
    }
}
