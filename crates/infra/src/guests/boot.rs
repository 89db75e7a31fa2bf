//! What the user's data makes of a guest: files, units, commands.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{cloud_init, ignition};
use crate::world::machine::Drive;

/// What a guest is once it has read its user data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Boot {
    /// The name of the host.
    pub hostname: String,
    /// The files that were written, by path.
    #[serde(serialize_with = "write_files", deserialize_with = "read_files")]
    pub files: BTreeMap<String, Vec<u8>>,
    /// The units that are started, by name, with their text.
    pub units: BTreeMap<String, String>,
    /// The commands that are run, in order, each as a shell would see it.
    pub commands: Vec<String>,
    /// Who may log in, with their keys.
    pub users: BTreeMap<String, BTreeSet<String>>,
}

impl Boot {
    /// The text of a file, where it is text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Every line of every started unit and every command.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.units
            .values()
            .flat_map(|unit| unit.lines())
            .chain(self.commands.iter().flat_map(|command| command.lines()))
    }
}

/// Files as text, whatever is in them.
fn write_files<S: Serializer>(files: &BTreeMap<String, Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(files.iter().map(|(path, bytes)| (path, STANDARD.encode(bytes))))
}

fn read_files<'d, D: Deserializer<'d>>(deserializer: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    let files = BTreeMap::<String, String>::deserialize(deserializer)?;
    let read = |(path, text): (String, String)| Ok((path, STANDARD.decode(text)?));
    let files: Result<_, base64::DecodeError> = files.into_iter().map(read).collect();
    files.map_err(|_| serde::de::Error::custom("a file is not in base64"))
}

/// What a guest does with the data it was given.
#[derive(Debug, Clone, PartialEq)]
pub enum UserData {
    /// There is none.
    None,
    /// cloud-init.
    CloudInit(cloud_init::Data),
    /// Ignition, still to be carried out: its configuration may lead to others.
    Ignition(Value),
}

/// Why user data keeps a guest from booting. Only Ignition is that strict; cloud-init warns and goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// The data is an Ignition configuration that cannot be read.
    #[error("the Ignition configuration cannot be read: {0}")]
    Ignition(String),
    /// Something the configuration leads to cannot be had.
    #[error("{url} cannot be fetched: {why}")]
    Fetch {
        /// Where it is.
        url: String,
        /// Why it cannot be had.
        why: String,
    },
}

/// Reads the drive of a machine as a guest would: what the firmware hands over first, then the config drive.
pub fn read(drive: &Drive) -> Result<(UserData, String), BootError> {
    if let Some(config) = &drive.firmware_config {
        return Ok((UserData::Ignition(ignition::parse(config)?), String::new()));
    }
    let (data, hostname) = match drive.label.as_str() {
        "cidata" => (drive.files.get("user-data"), field_of(drive.files.get("meta-data"), "local-hostname")),
        "config-2" => (
            drive.files.get("openstack/latest/user_data"),
            field_of(drive.files.get("openstack/latest/meta_data.json"), "hostname"),
        ),
        _ => (None, String::new()),
    };
    let Some(data) = data.filter(|data| !data.is_empty()) else { return Ok((UserData::None, hostname)) };
    let Some(data) = cloud_init::unpacked(data) else {
        return Ok((UserData::CloudInit(cloud_init::Data::unreadable()), hostname));
    };
    if looks_like_ignition(&data) {
        return Ok((UserData::Ignition(ignition::parse(data.as_bytes())?), hostname));
    }
    Ok((UserData::CloudInit(cloud_init::parse(&data)), hostname))
}

/// Which instance a drive says the machine is: another one boots as if for the first time.
pub fn instance(drive: &Drive) -> String {
    match drive.label.as_str() {
        "cidata" => field_of(drive.files.get("meta-data"), "instance-id"),
        "config-2" => field_of(drive.files.get("openstack/latest/meta_data.json"), "instance_id"),
        _ => String::new(),
    }
}

/// A field of the metadata, which is JSON or YAML.
fn field_of(metadata: Option<&Vec<u8>>, field: &str) -> String {
    let text = metadata.map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
    let value: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Images that boot by Ignition recognise it by its one required field.
fn looks_like_ignition(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<Value>(text).is_ok_and(|value| value["ignition"].is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(label: &str, files: &[(&str, &str)]) -> Drive {
        Drive {
            label: label.to_owned(),
            files: files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect(),
            ..Drive::default()
        }
    }

    #[test]
    fn both_kinds_of_drives_are_read() {
        let no_cloud = drive(
            "cidata",
            &[("meta-data", r#"{"local-hostname": "a"}"#), ("user-data", "#cloud-config\nruncmd: [ls]\n")],
        );
        let (data, hostname) = read(&no_cloud).unwrap();
        assert_eq!(hostname, "a");
        assert!(matches!(data, UserData::CloudInit(data) if data.boot.commands == ["ls"]));
        let config_drive = drive(
            "config-2",
            &[
                ("openstack/latest/meta_data.json", r#"{"hostname": "b"}"#),
                ("openstack/latest/user_data", r#"{"ignition": {"version": "3.4.0"}}"#),
            ],
        );
        let (data, hostname) = read(&config_drive).unwrap();
        assert_eq!(hostname, "b");
        assert!(matches!(data, UserData::Ignition(_)));
    }

    #[test]
    fn a_guest_without_data_has_none() {
        assert_eq!(read(&Drive::default()).unwrap().0, UserData::None);
        assert_eq!(read(&drive("cidata", &[("user-data", "")])).unwrap().0, UserData::None);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let bad =
            drive("cidata", &[("meta-data", "local-hostname: a"), ("user-data", "#cloud-config\na: [")]);
        let (data, hostname) = read(&bad).unwrap();
        assert!(
            matches!(data, UserData::CloudInit(data) if data.warnings.len() == 1 && data.boot == Boot::default())
        );
        assert_eq!(hostname, "a");
        let mut bytes = bad;
        bytes.files.insert("user-data".to_owned(), vec![0xff, 0xfe]);
        assert!(matches!(read(&bytes).unwrap().0, UserData::CloudInit(data) if data.warnings.len() == 1));
        let bad = drive("cidata", &[("user-data", r#"{"ignition": {"version": "9.0.0"}}"#)]);
        assert!(matches!(read(&bad), Err(BootError::Ignition(_))));
    }
}
