//! The volumes of an instance: how its pod gets at them, and whether they are there.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::DATA_VOLUME;
use crate::kubevirt::instance::{claim_of, is_hotplugged};
use crate::object::Object as _;

/// Where claims with a file system are mounted.
const DISKS: &str = "/var/run/kubevirt-private/vmi-disks";

/// How a launcher gets at its volumes.
#[derive(Debug, Clone, Default)]
pub struct Mounts {
    /// The volumes of the pod.
    pub volumes: Vec<Value>,
    /// Where its main container mounts them.
    pub mounts: Vec<Value>,
    /// The block devices of its main container.
    pub devices: Vec<Value>,
}

impl Mounts {
    fn mount(&mut self, name: &str, (kind, source): (&str, Value), path: &str) {
        self.volumes.push(json!({"name": name, kind: source}));
        self.mounts.push(json!({"name": name, "mountPath": path}));
    }
}

/// The volumes of the launcher of an instance. `block` says which claims are block devices.
pub fn of(vmi: &Value, block: &dyn Fn(&str) -> bool) -> Mounts {
    let mut mounts = Mounts::default();
    for (name, path) in [
        ("private", "/var/run/kubevirt-private"),
        ("public", "/var/run/kubevirt"),
        ("ephemeral-disks", "/var/run/kubevirt-ephemeral-disks"),
        ("container-disks", "/var/run/kubevirt/container-disks"),
        ("libvirt-runtime", "/var/run/libvirt"),
        ("sockets", "/var/run/kubevirt/sockets"),
        ("hotplug-disks", "/var/run/kubevirt/hotplug-disks"),
    ] {
        mounts.mount(name, ("emptyDir", json!({})), path);
    }
    for volume in vmi.list("/spec/volumes") {
        if !is_hotplugged(volume) {
            add(&mut mounts, volume, block);
        }
    }
    for credential in vmi.list("/spec/accessCredentials") {
        let place = ["/sshPublicKey/source/secret/secretName", "/userPassword/source/secret/secretName"];
        if let Some(secret) = place.iter().find_map(|place| credential.at(place).as_str()) {
            let name = format!("{secret}-access-cred");
            if !mounts.volumes.iter().any(|volume| volume["name"] == name) {
                let path = format!("/var/run/kubevirt-private/secret/{name}");
                mounts.mount(&name, ("secret", json!({"secretName": secret})), &path);
            }
        }
    }
    mounts
}

fn add(mounts: &mut Mounts, volume: &Value, block: &dyn Fn(&str) -> bool) {
    let name = volume.text("/name");
    if let Some(claim) = claim_of(volume) {
        let mut source = json!({"claimName": claim});
        if volume.flag("/persistentVolumeClaim/readOnly") || volume["ephemeral"].is_object() {
            source["readOnly"] = true.into();
        }
        if block(claim) {
            mounts.volumes.push(json!({"name": name, "persistentVolumeClaim": source}));
            mounts.devices.push(json!({"name": name, "devicePath": format!("/dev/{name}")}));
        } else {
            mounts.mount(name, ("persistentVolumeClaim", source), &format!("{DISKS}/{name}"));
        }
        return;
    }
    for kind in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
        for (place, suffix) in [("secretRef", "udata"), ("networkDataSecretRef", "ndata")] {
            if let Some(secret) = volume.at(&format!("/{kind}/{place}/name")).as_str() {
                let mount = format!("{name}-{suffix}");
                let path = format!("/var/run/kubevirt-private/secret/{mount}");
                mounts.mount(&mount, ("secret", json!({"secretName": secret})), &path);
            }
        }
    }
    let path = |what: &str| format!("/var/run/kubevirt-private/{what}/{name}");
    if let Some(secret) = volume.get("secret") {
        mounts.mount(
            name,
            ("secret", named(secret, "secretName", secret.text("/secretName"))),
            &path("secret"),
        );
    } else if let Some(map) = volume.get("configMap") {
        mounts.mount(name, ("configMap", named(map, "name", map.text("/name"))), &path("config-map"));
    } else if let Some(sysprep) = volume.get("sysprep") {
        let source = match (sysprep.at("/secret/name").as_str(), sysprep.at("/configMap/name").as_str()) {
            (Some(secret), _) => ("secret", json!({"secretName": secret})),
            (None, map) => ("configMap", json!({"name": map.unwrap_or_default()})),
        };
        mounts.mount(name, source, &path("sysprep"));
    } else if let Some(downward) = volume.get("downwardAPI") {
        mounts.mount(name, ("downwardAPI", json!({"items": downward["fields"]})), &path("downwardapi"));
    } else if let Some(disk) = volume.get("hostDisk") {
        let directory =
            disk.text("/path").rsplit_once('/').map_or("/", |(directory, _)| directory).to_owned();
        let source = json!({"path": directory, "type": "DirectoryOrCreate"});
        mounts.mount(name, ("hostPath", source), &path("vmi-disks"));
    }
}

/// The source of a volume that names an object, which may be optional.
fn named(source: &Value, field: &str, name: &str) -> Value {
    let mut own = json!({});
    own[field] = name.into();
    if source.flag("/optional") {
        own["optional"] = true.into();
    }
    own
}

fn container_disks(spec: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let volumes = spec.list("/volumes").iter();
    volumes.filter_map(|volume| volume.get("containerDisk").map(|disk| (volume.text("/name"), disk)))
}

/// One container for each disk that comes as an image.
fn disk_container(name: &str, disk: &Value, command: &Value) -> Value {
    let mut container = json!({
        "name": name, "image": disk["image"], "command": command,
        "resources": {
            "requests": {"cpu": "1m", "memory": "1M", "ephemeral-storage": "50M"},
            "limits": {"cpu": "10m", "memory": "40M"},
        },
        "volumeMounts": [
            {"name": "container-disks", "mountPath": "/var/run/kubevirt-container-disks"},
        ],
    });
    if disk["imagePullPolicy"].is_string() {
        container["imagePullPolicy"] = disk["imagePullPolicy"].clone();
    }
    container
}

/// The containers that hold the disks which come as images.
pub fn disk_containers(spec: &Value) -> Vec<Value> {
    let command = json!(["/usr/bin/container-disk"]);
    container_disks(spec)
        .map(|(name, disk)| disk_container(&format!("volume{name}"), disk, &command))
        .collect()
}

/// What makes sure that the images of disks are there before anything else runs.
pub fn first_containers(spec: &Value) -> Vec<Value> {
    let command = json!(["/usr/bin/container-disk", "--no-op"]);
    container_disks(spec)
        .map(|(name, disk)| disk_container(&format!("volume{name}-init"), disk, &command))
        .collect()
}

/// The secrets for pulling the images of disks.
pub fn pull_secrets(spec: &Value) -> Vec<Value> {
    let mut names: Vec<&str> =
        container_disks(spec).filter_map(|(_, disk)| disk["imagePullSecret"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| json!({"name": name})).collect()
}

/// How the volumes of an instance are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// All can be used.
    Ready,
    /// A pod has to be scheduled before some can be.
    WaitForConsumer,
    /// Some are being filled.
    Waiting,
    /// One was not filled, and never will be.
    Failed,
    /// A claim is missing.
    Missing(String),
}

/// How the volumes of an instance are. `volume` and `claim` find what has a name.
pub fn readiness(
    vmi: &Value,
    volume: &dyn Fn(&str) -> Option<Arc<Value>>,
    claim: &dyn Fn(&str) -> Option<Arc<Value>>,
) -> Readiness {
    let (mut consumer, mut waiting) = (false, false);
    for one in vmi.list("/spec/volumes") {
        let Some(name) = claim_of(one).filter(|_| !is_hotplugged(one)) else { continue };
        let found = claim(name);
        // A claim may be used by its own name while a data volume still fills it.
        let filler = found.as_deref().and_then(filler_of);
        let filled = filler.or_else(|| one["dataVolume"].is_object().then_some(name)).and_then(volume);
        match filled.as_ref().map(|filled| filled.text("/status/phase")) {
            Some("Succeeded") => {}
            Some("WaitForFirstConsumer" | "PendingPopulation") => consumer = true,
            Some("Failed") => return Readiness::Failed,
            Some(_) => waiting = true,
            None if found.is_none() => return Readiness::Missing(name.to_owned()),
            None => {}
        }
    }
    match (waiting, consumer) {
        (true, _) => Readiness::Waiting,
        (false, true) => Readiness::WaitForConsumer,
        (false, false) => Readiness::Ready,
    }
}

/// The name of the data volume that fills a claim.
fn filler_of(claim: &Value) -> Option<&str> {
    claim
        .controller()
        .filter(|owner| owner["kind"] == DATA_VOLUME.kind)
        .and_then(|owner| owner["name"].as_str())
}

/// The share of a file system that is not there for files, as CDI is set up for the class of a claim.
pub fn overhead<'a>(config: &'a Value, claim: &Value) -> &'a str {
    let shares = &config["status"]["filesystemOverhead"];
    let own = shares["storageClass"][claim.text("/spec/storageClassName")].as_str();
    own.or_else(|| shares["global"].as_str()).unwrap_or("0.06")
}

/// What the status of an instance says of a claim, and of the share of a file system that is not there for files.
pub fn claim_info(name: &str, claim: &Value, overhead: &str) -> Value {
    let mode = match claim.text("/spec/volumeMode") {
        "" => "Filesystem",
        given => given,
    };
    let mut info = json!({"claimName": name, "volumeMode": mode});
    if claim.at("/spec/accessModes").is_array() {
        info["accessModes"] = claim["spec"]["accessModes"].clone();
    }
    if claim.at("/status/capacity").is_object() {
        info["capacity"] = claim["status"]["capacity"].clone();
    }
    if claim.at("/spec/resources/requests").is_object() {
        info["requests"] = claim["spec"]["resources"]["requests"].clone();
    }
    if claim.annotation("cdi.kubevirt.io/storage.preallocation") == "true" {
        info["preallocated"] = true.into();
    }
    if mode == "Filesystem" {
        info["filesystemOverhead"] = overhead.into();
    }
    info
}

/// `status.volumeStatus`: an entry for each volume that is not plugged in later, sorted by name; entries of those that
/// are, and what is known of targets and sizes, stay.
pub fn statuses(vmi: &Value, claim: &dyn Fn(&str) -> Option<Arc<Value>>, config: &Value) -> Vec<Value> {
    let old = vmi.list("/status/volumeStatus");
    let known = |name: &str| old.iter().find(|one| one["name"] == name);
    let mut entries: Vec<Value> = old
        .iter()
        .filter(|one| one["hotplugVolume"].is_object() || one["memoryDumpVolume"].is_object())
        .cloned()
        .collect();
    for volume in vmi.list("/spec/volumes") {
        let name = volume.text("/name");
        if is_hotplugged(volume) || entries.iter().any(|one| one["name"] == name) {
            continue;
        }
        let mut entry = known(name).cloned().unwrap_or_else(|| json!({"name": name, "target": ""}));
        if let Some(info) = claim_of(volume)
            .and_then(|name| claim(name).map(|found| claim_info(name, &found, overhead(config, &found))))
        {
            entry["persistentVolumeClaimInfo"] = info;
        }
        entries.push(entry);
    }
    entries.sort_by(|one, other| one.text("/name").cmp(other.text("/name")));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi() -> Value {
        json!({"spec": {"volumes": [
            {"name": "b", "dataVolume": {"name": "filled"}},
            {"name": "a", "persistentVolumeClaim": {"claimName": "plain"}},
            {"name": "h", "persistentVolumeClaim": {"claimName": "later", "hotpluggable": true}},
        ]}})
    }

    fn ready(phase: Option<&str>, claims: &[&str]) -> Readiness {
        let volume = phase.map(|phase| Arc::new(json!({"status": {"phase": phase}})));
        readiness(&vmi(), &|_| volume.clone(), &|name| claims.contains(&name).then(|| Arc::new(json!({}))))
    }

    #[test]
    fn volumes_are_ready_when_all_are() {
        let both = ["filled", "plain"];
        assert_eq!(ready(Some("Succeeded"), &both), Readiness::Ready);
        assert_eq!(ready(None, &both), Readiness::Ready);
        assert_eq!(ready(Some("WaitForFirstConsumer"), &both), Readiness::WaitForConsumer);
        assert_eq!(ready(Some("PendingPopulation"), &both), Readiness::WaitForConsumer);
        assert_eq!(ready(Some("ImportInProgress"), &both), Readiness::Waiting);
        assert_eq!(ready(Some("Failed"), &both), Readiness::Failed);
        assert_eq!(ready(Some("Succeeded"), &["filled"]), Readiness::Missing("plain".to_owned()));
        assert_eq!(ready(None, &["plain"]), Readiness::Missing("filled".to_owned()));
    }

    #[test]
    fn a_claim_that_is_being_filled_is_waited_for_whatever_it_is_called_by() {
        let vmi =
            json!({"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "disk"}}]}});
        let owner = |kind: &str| json!({"metadata": {"ownerReferences": [{"kind": kind, "name": "disk", "controller": true}]}});
        let ready = |kind: &str, phase: &str| {
            let (claim, volume) = (Arc::new(owner(kind)), Arc::new(json!({"status": {"phase": phase}})));
            readiness(&vmi, &|_| Some(Arc::clone(&volume)), &|_| Some(Arc::clone(&claim)))
        };
        assert_eq!(ready("DataVolume", "ImportInProgress"), Readiness::Waiting);
        assert_eq!(ready("DataVolume", "PendingPopulation"), Readiness::WaitForConsumer);
        assert_eq!(ready("DataVolume", "Failed"), Readiness::Failed);
        assert_eq!(ready("DataVolume", "Succeeded"), Readiness::Ready);
        assert_eq!(ready("StatefulSet", "ImportInProgress"), Readiness::Ready);
    }

    #[test]
    fn statuses_are_sorted_and_keep_what_is_known() {
        let mut vmi = vmi();
        vmi.set(
            "/status/volumeStatus",
            json!([
                {"name": "b", "target": "vda"}, {"name": "h", "target": "sda", "hotplugVolume": {}},
            ]),
        );
        let claim = Arc::new(json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}}));
        let config =
            json!({"status": {"filesystemOverhead": {"global": "0.06", "storageClass": {"fast": "0.1"}}}});
        let entries = statuses(&vmi, &|_| Some(Arc::clone(&claim)), &config);
        assert_eq!(entries[0].text("/persistentVolumeClaimInfo/filesystemOverhead"), "0.1");
        assert_eq!(overhead(&config, &json!({})), "0.06");
        let names: Vec<_> = entries.iter().map(|one| (one.text("/name"), one.text("/target"))).collect();
        assert_eq!(names, [("a", ""), ("b", "vda"), ("h", "sda")]);
        assert_eq!(entries[0].text("/persistentVolumeClaimInfo/claimName"), "plain");
    }

    #[test]
    fn disks_in_images_have_containers() {
        let spec = json!({"volumes": [
            {"name": "root", "containerDisk": {"image": "fedora:40", "imagePullPolicy": "Always", "imagePullSecret": "s"}},
        ]});
        assert_eq!(disk_containers(&spec)[0]["name"], "volumeroot");
        assert_eq!(first_containers(&spec)[0]["name"], "volumeroot-init");
        assert_eq!(pull_secrets(&spec), [json!({"name": "s"})]);
    }
}
