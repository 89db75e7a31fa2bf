//! A CloudProfile as Shoots look things up in it.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use trellis_api::common::Text;
use trellis_api::gardener::profile::{CloudProfileSpec, MachineTypeStorage};
use trellis_api::gardener::{CloudProfile, CloudProfileConfig};
use trellis_model::image::ImageSource;
use trellis_model::machine::Architecture;
use trellis_model::quantity::{Bytes, MilliCpu};

use super::words::{required, suggest};
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId};
use crate::shared::{choose, object_name};

/// The processor architectures, as Kubernetes spells them.
pub(super) const ARCHITECTURES: &[(&str, Architecture)] =
    &[("amd64", Architecture::Amd64), ("arm64", Architecture::Arm64), ("s390x", Architecture::S390x)];

/// A CloudProfile that was read.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) document: DocumentId,
    pub(super) name: Option<String>,
    /// The infrastructure it is for.
    pub(super) provider: Option<String>,
    pub(super) machine_types: BTreeMap<String, MachineType>,
    pub(super) volume_types: BTreeMap<String, VolumeType>,
    pub(super) images: Images,
    /// Regions and their zones.
    pub(super) regions: BTreeMap<String, BTreeSet<String>>,
    /// Whether a Shoot names it.
    pub(super) used: bool,
}

/// Where images are, by name and version, and where that is said.
pub(super) type Images = BTreeMap<(String, String), (ImageSource, FieldPath)>;

/// A machine type with its limits.
#[derive(Debug, Default)]
pub(super) struct MachineType {
    pub(super) at: FieldPath,
    pub(super) cpu: Option<MilliCpu>,
    pub(super) memory: Option<Bytes>,
    pub(super) limits: Limits,
    pub(super) storage: Option<TypeStorage>,
    pub(super) architecture: Option<Architecture>,
    pub(super) usable: bool,
    pub(super) has_gpu: bool,
}

/// What machines of a type may not exceed.
#[derive(Debug, Default, Clone)]
pub(super) struct Limits {
    pub(super) at: FieldPath,
    pub(super) cpu: Option<MilliCpu>,
    pub(super) memory: Option<Bytes>,
}

/// The root disk of a machine type.
#[derive(Debug, Clone)]
pub(super) struct TypeStorage {
    pub(super) size: Bytes,
    pub(super) volume_type: Option<String>,
}

/// A volume type.
#[derive(Debug)]
pub(super) struct VolumeType {
    pub(super) at: FieldPath,
    pub(super) class: Option<String>,
    pub(super) usable: bool,
}

impl Profile {
    /// Says that no Shoot names it.
    pub(super) fn say_unused(&self, cx: &mut Cx<'_>) {
        let name = self.name.as_deref().unwrap_or("without a name");
        let message = format!("CloudProfile {name} describes no machines on its own");
        let help = "read it together with a Shoot that names it in spec.cloudProfileName";
        cx.notice("standalone-document", &FieldPath::root(), message, help);
    }
}

/// Reads a CloudProfile and complains about what is wrong with it.
pub(super) fn read(cx: &mut Cx<'_>, profile: &CloudProfile) -> Profile {
    let root = FieldPath::root();
    let at = root.child("spec");
    let spec = &profile.spec;
    let name = object_name(cx, &profile.metadata);
    let provider = required(cx, &at.child("type"), spec.type_.as_deref(), "write `kubevirt`");
    let config_at = at.child("providerConfig");
    // The configuration of another infrastructure is in another language.
    let config = (provider == Some("kubevirt") && cx.has(&config_at))
        .then(|| cx.embedded::<CloudProfileConfig>(&config_at))
        .flatten();
    if let Some(config) = &config {
        super::alone::check_kind(cx, &config_at, &config.api_version, &config.kind, "CloudProfileConfig");
    }
    // What is wrong inside it was said; its images are not held against it as well.
    let is_whole = provider == Some("kubevirt") && (config.is_some() || !cx.has(&config_at));
    let config = config.unwrap_or_default();
    let limits = limits(cx, &config_at, &config);
    let mut machine_types = machine_types(cx, &at, spec);
    for (name, limits) in limits {
        if let Some(found) = machine_types.get_mut(&name) {
            found.limits = limits;
        } else {
            let names: Vec<&str> = machine_types.keys().map(String::as_str).collect();
            let message =
                format!("these limits are for machine type {name}, which spec.machineTypes does not list");
            cx.warning("unknown-machine-type", &limits.at, message, &suggest(&name, &names));
        }
    }
    let images = images(cx, &config_at, &config);
    if is_whole {
        check_images(cx, &at, spec, &images);
    }
    Profile {
        document: cx.document(),
        name: name.map(|name| name.value),
        provider: provider.map(str::to_owned),
        machine_types,
        volume_types: volume_types(cx, &at, spec),
        images,
        regions: regions(spec),
        used: false,
    }
}

/// Reads an amount of which zero means none.
fn amount<T: FromStr + PartialEq>(cx: &mut Cx<'_>, at: &FieldPath, text: Option<&Text>, zero: &T) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    cx.parse_opt(at, text.map(Text::as_str)).filter(|amount| amount != zero)
}

fn machine_types(
    cx: &mut Cx<'_>,
    spec_at: &FieldPath,
    spec: &CloudProfileSpec,
) -> BTreeMap<String, MachineType> {
    let mut read = BTreeMap::new();
    for (index, text) in spec.machine_types.iter().enumerate() {
        let at = spec_at.child("machineTypes").index(index);
        let Some(name) = required(cx, &at.child("name"), text.name.as_deref(), "pools name it") else {
            continue;
        };
        for (field, value) in [("cpu", &text.cpu), ("memory", &text.memory)] {
            required(
                cx,
                &at.child(field),
                value.as_ref().map(Text::as_str),
                "a machine type has CPUs and memory",
            );
        }
        let architecture = text.architecture.as_deref().filter(|name| !name.is_empty());
        let found = MachineType {
            cpu: amount(cx, &at.child("cpu"), text.cpu.as_ref(), &MilliCpu::new(0)),
            memory: amount(cx, &at.child("memory"), text.memory.as_ref(), &Bytes::new(0)),
            limits: Limits::default(),
            storage: text.storage.as_ref().and_then(|text| type_storage(cx, &at.child("storage"), text)),
            architecture: architecture
                .and_then(|name| choose(cx, &at.child("architecture"), name, ARCHITECTURES)),
            usable: text.usable.unwrap_or(true),
            has_gpu: amount(cx, &at.child("gpu"), text.gpu.as_ref(), &MilliCpu::new(0)).is_some(),
            at: at.clone(),
        };
        insert_once(cx, &mut read, &at, "machine type", name, found);
    }
    read
}

fn type_storage(cx: &mut Cx<'_>, at: &FieldPath, text: &MachineTypeStorage) -> Option<TypeStorage> {
    let size = amount(cx, &at.child("size"), text.size.as_ref(), &Bytes::new(0))?;
    Some(TypeStorage { size, volume_type: text.type_.clone() })
}

/// Takes in something that has a name, unless the name is taken.
fn insert_once<T>(
    cx: &mut Cx<'_>,
    read: &mut BTreeMap<String, T>,
    at: &FieldPath,
    what: &str,
    name: &str,
    found: T,
) {
    if read.contains_key(name) {
        say_duplicate(cx, &at.child("name"), what, name);
    } else {
        read.insert(name.to_owned(), found);
    }
}

fn say_duplicate(cx: &mut Cx<'_>, at: &FieldPath, what: &str, name: &str) {
    cx.error("duplicate-name", at, format!("the {what} {name} is listed twice"), "list it once");
}

fn volume_types(
    cx: &mut Cx<'_>,
    spec_at: &FieldPath,
    spec: &CloudProfileSpec,
) -> BTreeMap<String, VolumeType> {
    let mut read = BTreeMap::new();
    for (index, text) in spec.volume_types.iter().enumerate() {
        let at = spec_at.child("volumeTypes").index(index);
        let Some(name) = required(cx, &at.child("name"), text.name.as_deref(), "volumes name it") else {
            continue;
        };
        let class = text.class.clone().filter(|class| !class.is_empty());
        let found = VolumeType { at: at.clone(), class, usable: text.usable.unwrap_or(true) };
        insert_once(cx, &mut read, &at, "volume type", name, found);
    }
    read
}

fn regions(spec: &CloudProfileSpec) -> BTreeMap<String, BTreeSet<String>> {
    let zones = |region: &trellis_api::gardener::profile::Region| {
        region.zones.iter().filter_map(|zone| zone.name.clone()).collect()
    };
    spec.regions.iter().filter_map(|region| Some((region.name.clone()?, zones(region)))).collect()
}

/// Reads the limits of a CloudProfileConfig that stands at `base`.
pub(super) fn limits(
    cx: &mut Cx<'_>,
    base: &FieldPath,
    config: &CloudProfileConfig,
) -> BTreeMap<String, Limits> {
    let mut read = BTreeMap::new();
    for (index, text) in config.machine_types.iter().enumerate() {
        let at = base.child("machineTypes").index(index);
        let why = "the limits are for the machine type of that name";
        let Some(name) = required(cx, &at.child("name"), text.name.as_deref(), why) else { continue };
        let limits_at = at.child("limits");
        let limits = text.limits.clone().unwrap_or_default();
        let limits = Limits {
            cpu: amount(cx, &limits_at.child("cpu"), limits.cpu.as_ref(), &MilliCpu::new(0)),
            memory: amount(cx, &limits_at.child("memory"), limits.memory.as_ref(), &Bytes::new(0)),
            at: limits_at,
        };
        insert_once(cx, &mut read, &at, "machine type", name, limits);
    }
    read
}

/// Reads the images of a CloudProfileConfig that stands at `base`.
pub(super) fn images(cx: &mut Cx<'_>, base: &FieldPath, config: &CloudProfileConfig) -> Images {
    let mut read = Images::new();
    let mut names = BTreeSet::new();
    for (index, image) in config.machine_images.iter().enumerate() {
        let at = base.child("machineImages").index(index);
        let Some(name) = required(cx, &at.child("name"), image.name.as_deref(), "pools name it") else {
            continue;
        };
        if !names.insert(name) {
            say_duplicate(cx, &at.child("name"), "image", name);
        }
        let mut versions = BTreeSet::new();
        for (index, text) in image.versions.iter().enumerate() {
            let at = at.child("versions").index(index);
            let version = text.version.as_ref().map(Text::as_str);
            let version = required(cx, &at.child("version"), version, "pools name it");
            let why = "nothing else says where the image is";
            let url = required(cx, &at.child("sourceURL"), text.source_url.as_deref(), why);
            let (Some(version), Some(url)) = (version, url) else { continue };
            if !versions.insert(version) {
                say_duplicate(cx, &at.child("version"), "version", version);
            }
            let at = at.child("sourceURL");
            if let Some(source) = super::image::source(cx, &at, url) {
                read.entry((name.to_owned(), version.to_owned())).or_insert((source, at));
            }
        }
    }
    read
}

/// Holds the two lists of images against each other, as Gardener's admission does.
fn check_images(cx: &mut Cx<'_>, spec_at: &FieldPath, spec: &CloudProfileSpec, images: &Images) {
    let mut listed = BTreeSet::new();
    for (index, image) in spec.machine_images.iter().enumerate() {
        let at = spec_at.child("machineImages").index(index);
        let Some(name) = required(cx, &at.child("name"), image.name.as_deref(), "pools name it") else {
            continue;
        };
        for (index, version) in image.versions.iter().enumerate() {
            let at = at.child("versions").index(index).child("version");
            let Some(version) = version.version.as_ref().map(Text::as_str) else { continue };
            let key = (name.to_owned(), version.to_owned());
            if !images.contains_key(&key) {
                let message = format!("nothing says where the image {name} {version} is");
                cx.warning(
                    "image-without-source",
                    &at,
                    message,
                    "add its sourceURL to spec.providerConfig.machineImages",
                );
            }
            listed.insert(key);
        }
    }
    for ((name, version), (_, at)) in images {
        if !listed.contains(&(name.clone(), version.clone())) {
            let message = format!(
                "the image {name} {version} is not listed in spec.machineImages; Gardener would refuse this"
            );
            cx.warning("image-not-listed", at, message, "list it in spec.machineImages as well");
        }
    }
}
