//! The image a machine boots from, and its disks.

use std::collections::BTreeMap;

use trellis_model::image::{
    HttpImage, Image, ImageDelivery, ImageSource, InfraRef, OperatingSystem, PullMethod, RegistryImage,
};
use trellis_model::names::DeviceName;
use trellis_model::quantity::Bytes;
use trellis_model::volume::{AccessMode, DataDisk, DiskDevice, RootDisk, Storage, StorageRequest};

use super::generations::{Disk, Generation, Image as ImageSettings, Settings};
use crate::diagnostic::Severity;
use crate::shared::{ACCESS_MODES, At, Reader, choose};

/// What an image is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Medium {
    Http,
    Registry,
    Pvc,
}

const MEDIA: &[(&str, Medium)] =
    &[("http", Medium::Http), ("registry", Medium::Registry), ("pvc", Medium::Pvc)];
const PULL_METHODS: &[(&str, PullMethod)] = &[("node", PullMethod::Node), ("pod", PullMethod::Pod)];
const TARGETS: &[(&str, StorageRequest)] =
    &[("pvc", StorageRequest::Claim), ("storage", StorageRequest::Profile)];

/// The image.
pub(super) fn image(reader: &mut Reader<'_, '_>, settings: &Settings, os: OperatingSystem) -> Image {
    let image = &settings.image;
    let source = source(reader, image);
    reader.origin(
        "template.image.source",
        image.address.as_ref().map_or(&settings.root.at, |address| &address.at),
    );
    Image { os, version: None, source, virtual_size: None, delivery: ImageDelivery::default() }
}

fn source(reader: &mut Reader<'_, '_>, image: &ImageSettings) -> Option<ImageSource> {
    let address = image.address.as_ref()?;
    let medium = match &image.source {
        Some(word) => choose(reader.cx, &word.at, &word.value, MEDIA)?,
        None => guess(&address.value),
    };
    let pull_method = match &image.pull_method {
        Some(word) => choose(reader.cx, &word.at, &word.value, PULL_METHODS)?,
        None => PullMethod::Node,
    };
    match medium {
        Medium::Http => http(reader, address, image).map(ImageSource::Http),
        Medium::Registry => {
            say_unused(reader, image, "registry");
            let url = registry_url(reader, address)?;
            let secret = reader.parse("template.image.source", image.secret.as_ref());
            Some(ImageSource::Registry(RegistryImage { url, pull_method, secret }))
        }
        Medium::Pvc => {
            say_unused(reader, image, "pvc");
            if let Some(secret) = &image.secret {
                let message = "a volume of the infra cluster needs no credentials, so this is not used";
                reader.cx.warning("not-used", &secret.at, message, "remove `dataVolumeSecretRef`");
            }
            let (namespace, name) = match address.value.split_once('/') {
                Some((namespace, name)) => (Some(reader.cx.parse(&address.at, namespace)?), name),
                None => (None, address.value.as_str()),
            };
            Some(ImageSource::Pvc(InfraRef { namespace, name: reader.cx.parse(&address.at, name)? }))
        }
    }
}

fn guess(address: &str) -> Medium {
    if address.starts_with("http://") || address.starts_with("https://") {
        Medium::Http
    } else if address.contains("://") {
        Medium::Registry
    } else {
        Medium::Pvc
    }
}

fn say_unused(reader: &mut Reader<'_, '_>, image: &ImageSettings, medium: &str) {
    let headers = image.headers.as_ref().map(|headers| &headers.at);
    for at in headers.into_iter().chain(image.headers_secret.as_ref().map(|secret| &secret.at)) {
        let message = format!("request headers are for web servers, and the image is in a {medium}");
        reader.cx.hidden(Severity::Warning, "not-used", at, message, "remove them");
    }
}

fn registry_url(reader: &mut Reader<'_, '_>, address: &At<String>) -> Option<String> {
    let text = &address.value;
    if let Some(rest) = text.strip_prefix("oci://") {
        let url = format!("docker://{rest}");
        let message = format!("CDI knows registries as docker://, so this is read as `{url}`");
        reader.cx.notice("other-spelling", &address.at, message, "");
        return Some(url);
    }
    if text.starts_with("docker://") || text.starts_with("oci-archive://") {
        return Some(text.clone());
    }
    if text.contains("://") {
        let message = format!("`{text}` is not the address of a registry, a web server or a volume");
        let help = "write http://…, https://…, docker://… or [namespace/]volume";
        reader.cx.error("invalid-value", &address.at, message, help);
        return None;
    }
    Some(format!("docker://{text}"))
}

fn http(reader: &mut Reader<'_, '_>, address: &At<String>, image: &ImageSettings) -> Option<HttpImage> {
    if guess(&address.value) != Medium::Http {
        let message = format!("`{}` is not the address of a web server", address.value);
        reader.cx.error("invalid-value", &address.at, message, "write http://… or https://…");
        return None;
    }
    let mut http = HttpImage::at(address.value.clone());
    http.secret = reader.parse("template.image.source", image.secret.as_ref());
    if let (Some(headers), Some(secret)) = (&image.headers, &image.headers_secret) {
        let message = format!("`extraHeaders` stands beside it (`{}`); one of them can be given", headers.at);
        reader.cx.error("choose-one", &secret.at, message, "put all headers into the Secret, or none");
    }
    if let Some(headers) = &image.headers {
        http.headers = read_headers(reader, headers);
    }
    if let Some(secret) = &image.headers_secret {
        http.header_secrets.extend(reader.cx.parse(&secret.at, &secret.value));
    }
    Some(http)
}

fn read_headers(reader: &mut Reader<'_, '_>, headers: &At<Vec<String>>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (index, header) in headers.value.iter().enumerate() {
        let parts = header.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        match parts.filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => {
                out.insert(name.to_owned(), value.to_owned());
            }
            None => {
                let at = headers.at.index(index);
                let message = "a request header has a name, a colon and a value";
                reader.cx.hidden(Severity::Error, "invalid-value", &at, message, "write `Name: value`");
            }
        }
    }
    out
}

/// The disk the operating system is on.
pub(super) fn root_disk(reader: &mut Reader<'_, '_>, settings: &Settings) -> Option<RootDisk> {
    let disk = &settings.root;
    let mut storage = storage(reader, "template.rootDisk", disk);
    if settings.generation == Generation::Flat {
        storage.request = StorageRequest::Claim;
        storage.access_mode = Some(AccessMode::ReadWriteOnce);
    }
    reader.origin("template.rootDisk", &disk.at);
    Some(RootDisk { size: size(reader, "template.rootDisk", disk)?, storage, device: DiskDevice::default() })
}

/// The further disks, named by their number.
pub(super) fn data_disks(reader: &mut Reader<'_, '_>, settings: &Settings) -> Vec<DataDisk> {
    let mut out = Vec::new();
    for (number, disk) in (1_u32..).zip(&settings.further) {
        let path = format!("template.dataDisks[disk-{number}]");
        let storage = storage(reader, &path, disk);
        reader.origin(&path, &disk.at);
        let size = size(reader, &path, disk);
        let name: Option<DeviceName> = reader.cx.parse(&disk.at, &format!("disk-{number}"));
        if let (Some(name), Some(size)) = (name, size) {
            out.push(DataDisk { name, size, storage, device: DiskDevice::default() });
        }
    }
    if let Some(first) = settings.further.first() {
        let message =
            "further disks start blank; the machine-controller writes the operating system on them too";
        reader.cx.notice("blank-disks", &first.at, message, "");
    }
    out
}

fn size(reader: &mut Reader<'_, '_>, path: &str, disk: &Disk) -> Option<Bytes> {
    if disk.size.is_none() {
        let key = if disk.at.last_key() == Some("cloudProviderSpec") { "pvcSize" } else { "size" };
        let message = format!("missing field `{key}`: the size of the disk");
        reader.cx.error(
            "missing-field",
            &disk.at.child(key),
            message,
            &format!("add `{key}`, for example 20Gi"),
        );
    }
    reader.parse(&format!("{path}.size"), disk.size.as_ref())
}

fn storage(reader: &mut Reader<'_, '_>, path: &str, disk: &Disk) -> Storage {
    let mut storage = Storage {
        class: reader.parse(&format!("{path}.storage.class"), disk.class.as_ref()),
        ..Storage::default()
    };
    if let Some(access) = &disk.access {
        reader.origin(&format!("{path}.storage.accessMode"), &access.at);
        storage.access_mode = choose(reader.cx, &access.at, &access.value, ACCESS_MODES);
    }
    if let Some(target) = &disk.target {
        reader.origin(&format!("{path}.storage.request"), &target.at);
        storage.request = choose(reader.cx, &target.at, &target.value, TARGETS).unwrap_or_default();
    }
    storage
}
