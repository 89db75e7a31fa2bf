//! Machine images.

use trellis_api::common::Text;
use trellis_api::gardener::worker::{Machine, MachineImage};
use trellis_model::image::{
    HttpImage, Image, ImageDelivery, ImageSource, OperatingSystem, PullMethod, RegistryImage,
};

use super::words::{required, suggest};
use super::worker::Draft;
use crate::path::FieldPath;
use crate::reading::Cx;

/// Names that images have in Gardener landscapes, and the systems they are or come closest to.
const SYNONYMS: &[(&str, OperatingSystem, bool)] = &[
    ("suse-chost", OperatingSystem::Sles, true),
    ("suse-jeos", OperatingSystem::Sles, true),
    ("memoryone-chost", OperatingSystem::Sles, true),
    ("suse", OperatingSystem::Sles, true),
    ("gardenlinux", OperatingSystem::Debian, false),
    ("coreos", OperatingSystem::Flatcar, false),
    ("flatcar-linux", OperatingSystem::Flatcar, true),
    ("rocky", OperatingSystem::RockyLinux, true),
    ("rocky-linux", OperatingSystem::RockyLinux, true),
    ("redhat", OperatingSystem::Rhel, true),
    ("amazon-linux-2", OperatingSystem::AmazonLinux2, true),
    ("fcos", OperatingSystem::FedoraCoreos, true),
];

/// The system an image of that name holds.
fn operating_system(cx: &mut Cx<'_>, at: &FieldPath, name: &str) -> Option<OperatingSystem> {
    if let Some(system) = OperatingSystem::from_name(name) {
        return Some(system);
    }
    if let Some((_, system, same)) = SYNONYMS.iter().find(|(synonym, ..)| *synonym == name) {
        let system_name = system.as_str();
        if *same {
            cx.notice("image-name", at, format!("`{name}` is read as {system_name}"), "");
        } else {
            let message = format!("`{name}` is set up like {system_name}, which it comes closest to");
            cx.warning("image-name", at, message, "");
        }
        return Some(*system);
    }
    let names: Vec<&str> = OperatingSystem::ALL.iter().map(|system| system.as_str()).collect();
    let message = format!("Trellis does not know how to set up the image `{name}`");
    cx.error("unknown-image", at, message, &suggest(name, &names));
    None
}

/// Where an image is, from its address.
pub(super) fn source(cx: &mut Cx<'_>, at: &FieldPath, url: &str) -> Option<ImageSource> {
    let rest = |scheme: &str| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty());
    if rest("http://") || rest("https://") {
        return Some(ImageSource::Http(HttpImage::at(url)));
    }
    if rest("docker://") || rest("oci-archive://") {
        let image = RegistryImage { url: url.to_owned(), pull_method: PullMethod::default(), secret: None };
        return Some(ImageSource::Registry(image));
    }
    let help = "write an address that begins with `https://`, `http://`, `docker://` or `oci-archive://`";
    cx.error("invalid-value", at, format!("`{url}` is not the address of an image"), help);
    None
}

impl Draft<'_, '_> {
    /// Reads the image of a pool.
    pub(super) fn image(&mut self, machine: &Machine) -> Option<Image> {
        let at = self.at.child("machine").child("image");
        let default = MachineImage::default();
        let text = machine.image.as_ref().unwrap_or(&default);
        let why = "nothing else says which operating system the machines have";
        let name = required(self.cx, &at.child("name"), text.name.as_deref(), why)?;
        let os = operating_system(self.cx, &at.child("name"), name)?;
        let version = text.version.as_ref().map(Text::as_str).filter(|version| !version.is_empty());
        self.origin("template.image", &at);
        self.origin("template.image.os", &at.child("name"));
        let source = version.and_then(|version| self.image_source(&at, name, version));
        let per_machine = self.config.and_then(|config| config.disable_pre_allocated_data_volumes);
        let delivery =
            if per_machine == Some(true) { ImageDelivery::PerMachine } else { ImageDelivery::Golden };
        self.config_origin("template.image.delivery", "disablePreAllocatedDataVolumes");
        Some(Image { os, version: version.map(str::to_owned), source, virtual_size: None, delivery })
    }

    fn image_source(&mut self, at: &FieldPath, name: &str, version: &str) -> Option<ImageSource> {
        let Some(profile) = self.profile else {
            self.needs.push(format!("where the image {name} {version} is"));
            return None;
        };
        if let Some((source, source_at)) = profile.images.get(&(name.to_owned(), version.to_owned())) {
            self.origins.add("template.image.source", profile.document, source_at);
            return Some(source.clone());
        }
        let versions: Vec<&str> = profile
            .images
            .keys()
            .filter(|(other, _)| other == name)
            .map(|(_, version)| version.as_str())
            .collect();
        // That the source is missing is what the model complains about; here is only what there is instead.
        if !versions.is_empty() {
            let message = format!("the CloudProfile has no version {version} of the image {name}");
            self.cx.warning(
                "unknown-image-version",
                &at.child("version"),
                message,
                &suggest(version, &versions),
            );
        }
        None
    }
}
