//! Whether the storage can do what machines need of it.

use std::collections::BTreeSet;

use trellis_model::machine::Eviction;
use trellis_model::resolve::{ResolvedPool, resolve};
use trellis_model::volume::{AccessMode, Storage, StorageRequest};
use trellis_model::{Cluster, Pool};

use super::Check;
use super::facts::{Asked, Class, Facts, Profile};

/// The checks of every class of storage that machines ask for.
pub(super) fn checks(cluster: &Cluster, pools: &[&Pool], facts: &Facts) -> Vec<Check> {
    let classes = match &facts.classes {
        Asked::Known(classes) => classes,
        other => {
            let why = other.why_not().unwrap_or_default();
            return vec![Check::unknown("storage", format!("unknown: {why}"))];
        }
    };
    let pools: Vec<ResolvedPool> = pools.iter().map(|pool| resolve(cluster, pool)).collect();
    let mut wishes: Vec<(&Storage, bool)> = Vec::new();
    for pool in &pools {
        let template = &pool.template;
        let moves = matches!(template.eviction, Eviction::LiveMigrate);
        wishes.push((&template.root_disk.storage, moves));
        wishes.extend(template.data_disks.iter().map(|disk| (&disk.storage, moves)));
    }
    let mut checks: Vec<Check> = Vec::new();
    for (storage, moves) in wishes {
        let check = class_of(storage, classes, moves);
        if !checks.contains(&check) {
            checks.push(check);
        }
    }
    checks
}

fn class_of(storage: &Storage, classes: &[Class], moves: bool) -> Check {
    let names = || {
        let names: BTreeSet<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let Some(name) = &storage.class else {
        let default = classes.iter().find(|class| class.default_for_machines);
        return match default.or_else(|| classes.iter().find(|class| class.default)) {
            Some(class) => profile_of(class, storage, moves),
            None if classes.is_empty() => Check::failed("storage", "the infra cluster has no storage class")
                .fix("an admin of the infra cluster must install storage"),
            None => Check::failed("storage", "no class is named, and none is the default")
                .fix(format!("name one of {} as the storage class", names())),
        };
    };
    match classes.iter().find(|class| class.name == name.as_str()) {
        Some(class) => profile_of(class, storage, moves),
        None => Check::failed(format!("storage {name}"), "there is no such storage class")
            .fix(format!("name one of {}", names())),
    }
}

fn profile_of(class: &Class, storage: &Storage, moves: bool) -> Check {
    let about = format!("storage {}", class.name);
    let profile = match &class.profile {
        Asked::Known(profile) => profile,
        other => {
            let why = other.why_not().unwrap_or_default();
            return Check::unknown(about, format!("the class is there; what it can do is unknown: {why}"));
        }
    };
    let wanted = storage.access_mode.map(AccessMode::as_str);
    if profile.modes.is_empty() && storage.request == StorageRequest::Profile && wanted.is_none() {
        return Check::failed(about, "CDI does not know how volumes of this class can be accessed").fix(
            "say accessMode and volumeMode of the storage, or complete the StorageProfile of the class",
        );
    }
    let mode = storage.volume_mode.map(trellis_model::volume::VolumeMode::as_str);
    let fits = |(access, volume): &&(String, String)| {
        wanted.is_none_or(|wanted| wanted == access) && mode.is_none_or(|mode| mode == volume)
    };
    let fitting = profile.modes.iter().find(fits);
    if fitting.is_none() && !profile.modes.is_empty() {
        let wanted = [wanted, mode].into_iter().flatten().collect::<Vec<_>>().join(" ");
        return Check::failed(about, format!("{wanted} is asked for; it can be {}", modes(profile)))
            .fix("ask for a mode the class has, or name another class");
    }
    let shared = fitting.map_or(wanted, |(access, _)| Some(access.as_str())) == Some("ReadWriteMany");
    if moves && !shared {
        return Check::failed(
            about,
            "machines are to move while they run, which takes ReadWriteMany volumes",
        )
        .fix("name a class that has ReadWriteMany, or another eviction than LiveMigrate");
    }
    let binding = if class.waits_for_consumer { ", bound at first use" } else { "" };
    let found = format!("{}; clones by {}{binding}", modes(profile), clones(profile));
    if profile.clones == "copy" {
        return Check::warning(about, found)
            .fix("every machine copies its whole image; a class with snapshots is faster");
    }
    Check::passed(about, found)
}

fn modes(profile: &Profile) -> String {
    let modes: Vec<String> =
        profile.modes.iter().map(|(access, volume)| format!("{access} {volume}")).collect();
    if modes.is_empty() { "its modes are not known".to_owned() } else { modes.join(", ") }
}

fn clones(profile: &Profile) -> &str {
    match profile.clones.as_str() {
        "copy" => "copying every byte",
        "csi-clone" => "the storage itself",
        _ => "snapshot",
    }
}
