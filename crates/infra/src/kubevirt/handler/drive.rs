//! The drives that are made for a guest: cloud-init's, Ignition's, and those of Secrets and ConfigMaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::kubevirt::names::IGNITION_ANNOTATION;
use crate::kubevirt::vmi::pod::hostname;
use crate::object::Object as _;
use crate::world::machine::Drive;

/// The label of drives that nobody gave one.
const PLAIN_LABEL: &str = "cfgdata";
/// The label of the drive a Windows installation looks for.
const ANSWERS_LABEL: &str = "unattendCD";

/// The annotations with the name of the shape of an instance, that of the cluster first.
const SHAPE_ANNOTATIONS: &[&str] =
    &["kubevirt.io/cluster-instancetype-name", "kubevirt.io/instancetype-name"];

/// Why a drive cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// A Secret is missing.
    #[error("secret {0} not found")]
    NoSecret(String),
    /// A ConfigMap is missing.
    #[error("configmap {0} not found")]
    NoConfigMap(String),
    /// A Secret has none of the keys it should have.
    #[error("no user-data or network-data found in secret {0}")]
    NoKey(String),
    /// What should be base64 is not.
    #[error("illegal base64 data in volume {0}")]
    NotBase64(String),
    /// An installation without answers.
    #[error("sysprep volume {0} has neither autounattend.xml nor unattend.xml")]
    NoAnswers(String),
}

/// Finds Secrets and ConfigMaps in the namespace of the instance.
pub struct Sources<'a> {
    /// Finds a Secret.
    pub secret: &'a dyn Fn(&str) -> Option<Arc<Value>>,
    /// Finds a ConfigMap.
    pub config_map: &'a dyn Fn(&str) -> Option<Arc<Value>>,
}

type Files = BTreeMap<String, Vec<u8>>;

/// What was said, if anything was.
type Said = Option<Vec<u8>>;

/// The drives of an instance.
pub fn of(vmi: &Value, sources: &Sources<'_>) -> Result<Drive, DriveError> {
    let mut drive = Drive::default();
    for volume in vmi.list("/spec/volumes") {
        // Only the first of these is used.
        if drive.label.is_empty() {
            if volume["cloudInitNoCloud"].is_object() {
                "cidata".clone_into(&mut drive.label);
                drive.files = no_cloud(vmi, volume, sources)?;
            } else if volume["cloudInitConfigDrive"].is_object() {
                "config-2".clone_into(&mut drive.label);
                drive.files = config_drive(vmi, volume, sources)?;
            }
        }
        if let Some((label, files)) = other(vmi, volume, sources)? {
            drive.others.entry(label).or_default().extend(files);
        }
    }
    let ignition = vmi.annotation(IGNITION_ANNOTATION);
    if ignition.contains("ignition") {
        drive.firmware_config = Some(ignition.as_bytes().to_vec());
    }
    Ok(drive)
}

fn no_cloud(vmi: &Value, volume: &Value, sources: &Sources<'_>) -> Result<Files, DriveError> {
    let source = volume.at("/cloudInitNoCloud");
    let mut meta = Map::new();
    if let Some(shape) = shape_of(vmi) {
        meta.insert("instance-type".to_owned(), shape.into());
    }
    meta.insert("instance-id".to_owned(), vmi.at("/spec/domain/firmware/uuid").clone());
    meta.insert("local-hostname".to_owned(), hostname(vmi).into());
    let keys = public_keys(vmi, "noCloud", sources)?;
    if !keys.is_empty() {
        meta.insert("public-keys".to_owned(), keys.into());
    }
    let (user, network) = data(volume.text("/name"), source, sources)?;
    let mut files = Files::new();
    files.insert("meta-data".to_owned(), json!(meta).to_string().into_bytes());
    files.insert("user-data".to_owned(), user.unwrap_or_default());
    if let Some(network) = network {
        files.insert("network-config".to_owned(), network);
    }
    Ok(files)
}

fn config_drive(vmi: &Value, volume: &Value, sources: &Sources<'_>) -> Result<Files, DriveError> {
    let source = volume.at("/cloudInitConfigDrive");
    let mut meta = Map::new();
    if let Some(shape) = shape_of(vmi) {
        meta.insert("instance_type".to_owned(), shape.into());
    }
    meta.insert("instance_id".to_owned(), format!("{}.{}", vmi.name(), vmi.namespace()).into());
    meta.insert("local_hostname".to_owned(), hostname(vmi).into());
    meta.insert("hostname".to_owned(), hostname(vmi).into());
    meta.insert("uuid".to_owned(), vmi.at("/spec/domain/firmware/uuid").clone());
    let devices = devices(vmi);
    if !devices.is_empty() {
        meta.insert("devices".to_owned(), devices.into());
    }
    let keys = public_keys(vmi, "configDrive", sources)?;
    if !keys.is_empty() {
        meta.insert("public_keys".to_owned(), keys.into());
    }
    let (user, network) = data(volume.text("/name"), source, sources)?;
    let mut files = Files::new();
    let path = |name: &str| format!("openstack/latest/{name}");
    files.insert(path("meta_data.json"), json!(meta).to_string().into_bytes());
    files.insert(path("user_data"), user.unwrap_or_default());
    if let Some(network) = network {
        files.insert(path("network_data.json"), network);
    }
    Ok(files)
}

fn shape_of(vmi: &Value) -> Option<&str> {
    SHAPE_ANNOTATIONS.iter().map(|name| vmi.annotation(name)).find(|name| !name.is_empty())
}

/// The interfaces that have a tag, so that the guest can find them.
fn devices(vmi: &Value) -> Vec<Value> {
    let interfaces = vmi.list("/spec/domain/devices/interfaces").iter();
    interfaces
        .filter(|interface| interface["tag"].is_string())
        .map(|interface| {
            let mut device = json!({"type": "nic", "bus": "pci", "tags": [interface["tag"]]});
            if interface["pciAddress"].is_string() {
                device["address"] = interface["pciAddress"].clone();
            }
            if interface["macAddress"].is_string() {
                device["mac"] = interface["macAddress"].clone();
            }
            device
        })
        .collect()
}

/// The keys for logging in that a guest finds on its drive, by number.
fn public_keys(vmi: &Value, way: &str, sources: &Sources<'_>) -> Result<Map<String, Value>, DriveError> {
    let mut keys = Map::new();
    for credential in vmi.list("/spec/accessCredentials") {
        let access = credential.at("/sshPublicKey");
        if !access["propagationMethod"][way].is_object() {
            continue;
        }
        let name = access.text("/source/secret/secretName");
        let secret = (sources.secret)(name).ok_or_else(|| DriveError::NoSecret(name.to_owned()))?;
        for bytes in decoded(&secret).into_values() {
            let key = String::from_utf8_lossy(&bytes).trim().to_owned();
            keys.insert(keys.len().to_string(), key.into());
        }
    }
    Ok(keys)
}

/// The user's data and the network's, from wherever the volume says.
fn data(volume: &str, source: &Value, sources: &Sources<'_>) -> Result<(Said, Said), DriveError> {
    let user = one_of(
        volume,
        source,
        ["userData", "userDataBase64", "secretRef"],
        ["userdata", "userData"],
        sources,
    )?;
    let network = one_of(
        volume,
        source,
        ["networkData", "networkDataBase64", "networkDataSecretRef"],
        ["networkdata", "networkData"],
        sources,
    )?;
    Ok((user, network))
}

/// What is said in place, in base64, or in a Secret under one of some keys.
fn one_of(
    volume: &str,
    source: &Value,
    [plain, coded, reference]: [&str; 3],
    keys: [&str; 2],
    sources: &Sources<'_>,
) -> Result<Option<Vec<u8>>, DriveError> {
    if let Some(name) = source[reference]["name"].as_str() {
        let secret = (sources.secret)(name).ok_or_else(|| DriveError::NoSecret(name.to_owned()))?;
        let mut found = decoded(&secret);
        let value = keys.iter().find_map(|key| found.remove(*key));
        return value.map(Some).ok_or_else(|| DriveError::NoKey(name.to_owned()));
    }
    if let Some(text) = source[plain].as_str().filter(|text| !text.is_empty()) {
        return Ok(Some(text.as_bytes().to_vec()));
    }
    match source[coded].as_str().filter(|text| !text.is_empty()) {
        Some(text) => STANDARD.decode(text).map(Some).map_err(|_| DriveError::NotBase64(volume.to_owned())),
        None => Ok(None),
    }
}

/// The drive of a volume that is none of cloud-init's: its label and files.
fn other(vmi: &Value, volume: &Value, sources: &Sources<'_>) -> Result<Option<(String, Files)>, DriveError> {
    let label = |source: &Value| match source.text("/volumeLabel") {
        "" => PLAIN_LABEL.to_owned(),
        given => given.to_owned(),
    };
    if let Some(source) = volume.get("secret") {
        let files = secret_files(source.text("/secretName"), source.flag("/optional"), sources)?;
        return Ok(Some((label(source), files)));
    }
    if let Some(source) = volume.get("configMap") {
        let files = map_files(source.text("/name"), source.flag("/optional"), sources)?;
        return Ok(Some((label(source), files)));
    }
    if let Some(source) = volume.get("sysprep") {
        let files = match source.at("/secret/name").as_str() {
            Some(secret) => secret_files(secret, false, sources)?,
            None => map_files(source.text("/configMap/name"), false, sources)?,
        };
        let answers =
            |name: &&String| matches!(name.to_lowercase().as_str(), "autounattend.xml" | "unattend.xml");
        if !files.keys().any(|name| answers(&name)) {
            return Err(DriveError::NoAnswers(volume.text("/name").to_owned()));
        }
        return Ok(Some((ANSWERS_LABEL.to_owned(), files)));
    }
    if volume["serviceAccount"].is_object() {
        let files = [("namespace", vmi.namespace()), ("token", "")];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        return Ok(Some((PLAIN_LABEL.to_owned(), files.into_iter().collect())));
    }
    if let Some(source) = volume.get("downwardAPI") {
        let files = source.list("/fields").iter().map(|field| {
            let text = downward(vmi, field.text("/fieldRef/fieldPath"));
            (field.text("/path").to_owned(), text.into_bytes())
        });
        return Ok(Some((label(source), files.collect())));
    }
    Ok(None)
}

/// What a field of the pod says, as far as it is also one of the instance.
fn downward(vmi: &Value, path: &str) -> String {
    let lines = |marks: &Value| {
        let marks = marks.as_object().into_iter().flatten();
        marks.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
    };
    match path {
        "metadata.name" => vmi.name().to_owned(),
        "metadata.namespace" => vmi.namespace().to_owned(),
        "metadata.uid" => vmi.uid().to_owned(),
        "metadata.labels" => lines(vmi.at("/metadata/labels")),
        "metadata.annotations" => lines(vmi.at("/metadata/annotations")),
        _ => String::new(),
    }
}

fn secret_files(name: &str, optional: bool, sources: &Sources<'_>) -> Result<Files, DriveError> {
    match (sources.secret)(name) {
        Some(secret) => Ok(decoded(&secret)),
        None if optional => Ok(Files::new()),
        None => Err(DriveError::NoSecret(name.to_owned())),
    }
}

fn map_files(name: &str, optional: bool, sources: &Sources<'_>) -> Result<Files, DriveError> {
    let map = match (sources.config_map)(name) {
        Some(map) => map,
        None if optional => return Ok(Files::new()),
        None => return Err(DriveError::NoConfigMap(name.to_owned())),
    };
    let plain = map["data"].as_object().into_iter().flatten();
    let mut files: Files = plain
        .map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().as_bytes().to_vec()))
        .collect();
    let coded = map["binaryData"].as_object().into_iter().flatten();
    files
        .extend(coded.filter_map(|(name, text)| Some((name.clone(), STANDARD.decode(text.as_str()?).ok()?))));
    Ok(files)
}

/// What a Secret holds.
fn decoded(secret: &Value) -> Files {
    let data = secret["data"].as_object().into_iter().flatten();
    data.filter_map(|(name, text)| Some((name.clone(), STANDARD.decode(text.as_str()?).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi(volumes: &Value) -> Value {
        json!({
            "metadata": {"name": "one", "namespace": "a", "annotations": {"kubevirt.io/instancetype-name": "small"}},
            "spec": {"domain": {"firmware": {"uuid": "id"}}, "volumes": volumes},
        })
    }

    fn secret(entries: &[(&str, &str)]) -> Arc<Value> {
        let mut secret = json!({"data": {}});
        for (name, text) in entries {
            secret["data"][*name] = STANDARD.encode(text).into();
        }
        Arc::new(secret)
    }

    #[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
    fn made(vmi: &Value, found: Option<Arc<Value>>) -> Result<Drive, DriveError> {
        of(vmi, &Sources { secret: &|_| found.clone(), config_map: &|_| found.clone() })
    }

    fn text(drive: &Drive, path: &str) -> String {
        String::from_utf8(drive.files.get(path).cloned().unwrap_or_default()).unwrap()
    }

    #[test]
    fn no_cloud_is_as_cloud_init_wants_it() {
        let vmi = vmi(&json!([{"name": "i", "cloudInitNoCloud": {
            "userData": "#cloud-config", "networkDataBase64": STANDARD.encode("net"),
        }}]));
        let drive = made(&vmi, None).unwrap();
        assert_eq!(drive.label, "cidata");
        assert_eq!(text(&drive, "user-data"), "#cloud-config");
        assert_eq!(text(&drive, "network-config"), "net");
        let meta: Value = serde_json::from_str(&text(&drive, "meta-data")).unwrap();
        assert_eq!(meta, json!({"instance-type": "small", "instance-id": "id", "local-hostname": "one"}));
    }

    #[test]
    fn a_config_drive_is_as_openstack_makes_it() {
        let mut vmi = vmi(&json!([{"name": "i", "cloudInitConfigDrive": {"secretRef": {"name": "s"}}}]));
        vmi.set(
            "/spec/accessCredentials",
            json!([{"sshPublicKey": {
                "source": {"secret": {"secretName": "s"}}, "propagationMethod": {"configDrive": {}},
            }}]),
        );
        let drive = made(&vmi, Some(secret(&[("userData", "{}")]))).unwrap();
        assert_eq!(drive.label, "config-2");
        assert_eq!(text(&drive, "openstack/latest/user_data"), "{}");
        let meta: Value = serde_json::from_str(&text(&drive, "openstack/latest/meta_data.json")).unwrap();
        assert_eq!(
            meta,
            json!({
                "instance_type": "small", "instance_id": "one.a", "uuid": "id", "hostname": "one",
                "local_hostname": "one", "public_keys": {"0": "{}"},
            })
        );
    }

    #[test]
    fn lower_case_keys_are_tried_first() {
        let vmi = vmi(&json!([{"name": "i", "cloudInitNoCloud": {"secretRef": {"name": "s"}}}]));
        let both = secret(&[("userdata", "lower"), ("userData", "upper")]);
        assert_eq!(text(&made(&vmi, Some(both)).unwrap(), "user-data"), "lower");
        assert_eq!(made(&vmi, None), Err(DriveError::NoSecret("s".to_owned())));
        assert_eq!(made(&vmi, Some(secret(&[("x", "y")]))), Err(DriveError::NoKey("s".to_owned())));
    }

    #[test]
    fn other_drives_are_found_by_their_label() {
        let volumes = json!([
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "w", "sysprep": {"secret": {"name": "s"}}},
            {"name": "d", "downwardAPI": {"volumeLabel": "down", "fields": [
                {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            ]}},
        ]);
        let drive = made(&vmi(&volumes), Some(secret(&[("Autounattend.xml", "<x/>")]))).unwrap();
        let labels: Vec<_> = drive.others.keys().map(String::as_str).collect();
        assert_eq!(labels, ["cfgdata", "down", "unattendCD"]);
        assert_eq!(drive.others["down"]["name"], b"one");
        let none = made(&vmi(&volumes), Some(secret(&[("other", "")])));
        assert_eq!(none, Err(DriveError::NoAnswers("w".to_owned())));
    }

    #[test]
    fn ignition_comes_with_the_firmware() {
        let mut vmi = vmi(&json!([]));
        vmi.set_annotation(IGNITION_ANNOTATION, "{\"ignition\":{}}");
        assert!(made(&vmi, None).unwrap().firmware_config.is_some());
        vmi.set_annotation(IGNITION_ANNOTATION, "nothing of that kind");
        assert!(made(&vmi, None).unwrap().firmware_config.is_none());
    }
}
