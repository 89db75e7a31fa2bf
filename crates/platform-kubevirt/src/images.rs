//! Where the contents of disks come from.

use std::collections::BTreeMap;

use trellis_api::cdi::{
    CloneSource, DataVolume, DataVolumeSource, DataVolumeSourceRef, DataVolumeSpec, HttpSource,
    RegistrySource,
};
use trellis_model::Cluster;
use trellis_model::image::{
    HttpImage, Image, ImageDelivery, ImageSource, InfraRef, PullMethod, RegistryImage,
};
use trellis_model::machine::MachineTemplate;
use trellis_model::names::ObjectName;
use trellis_model::quantity::Bytes;

use crate::disks;
use crate::labels::{self, metadata, owned};
use crate::machine::PoolOf;
use crate::names;

/// Fills a root disk: from its golden volume, or from where the image is.
pub(crate) fn fill_root_disk(spec: &mut DataVolumeSpec, cluster: &Cluster, template: &MachineTemplate) {
    if let Some(name) = golden_name(cluster, template) {
        let namespace = cluster.infra_namespace().to_owned();
        spec.source = Some(DataVolumeSource {
            pvc: Some(CloneSource { namespace, name }),
            ..DataVolumeSource::default()
        });
        return;
    }
    let clone = |reference: &InfraRef| CloneSource {
        namespace: reference.namespace.as_ref().map_or(cluster.infra_namespace(), |n| n.as_str()).to_owned(),
        name: reference.name.to_string(),
    };
    let mut source = DataVolumeSource::default();
    match &template.image.source {
        // The volume templates of a machine have no field for the checksum; `check` says so.
        Some(ImageSource::Http(image)) => source.http = Some(HttpSource { checksum: None, ..http(image) }),
        Some(ImageSource::Registry(image)) => source.registry = Some(registry(image)),
        Some(ImageSource::Pvc(volume)) => source.pvc = Some(clone(volume)),
        Some(ImageSource::Snapshot(snapshot)) => source.snapshot = Some(clone(snapshot)),
        Some(ImageSource::DataSource(reference)) => {
            spec.source_ref = Some(DataVolumeSourceRef {
                kind: "DataSource".to_owned(),
                namespace: reference.namespace.as_ref().map(ToString::to_string),
                name: reference.name.to_string(),
            });
            return;
        }
        Some(ImageSource::OvirtTemplate(_)) | None => return,
    }
    spec.source = Some(source);
}

/// The golden volumes of these pools: one for each image, kind of storage and size, by name.
///
/// A volume cannot be changed once it is made, so everything that makes it is in its name. Pools with
/// root disks of different sizes share one if they say how large the image is.
pub(crate) fn golden_volumes(cluster: &Cluster, pools: &[PoolOf<'_>]) -> Vec<DataVolume> {
    let templates = pools.iter().map(|pool| &pool.resolved.template);
    let named = templates.filter_map(|template| Some((golden_name(cluster, template)?, template)));
    let named: BTreeMap<String, &MachineTemplate> = named.collect();
    let volume = |(name, template): (String, &MachineTemplate)| {
        let mut metadata = metadata(cluster, name, labels::of_cluster(cluster));
        metadata.annotations = Some(owned([
            // Nothing mounts it, so that storage that waits for a first consumer would wait for ever.
            ("cdi.kubevirt.io/storage.bind.immediate.requested", "true"),
            // The DataVolume says which image the volume holds; it stays as long as the volume does.
            ("cdi.kubevirt.io/storage.deleteAfterCompletion", "false"),
        ]));
        let mut spec = DataVolumeSpec::default();
        let source = match template.image.source.as_ref()? {
            ImageSource::Http(image) => {
                DataVolumeSource { http: Some(http(image)), ..DataVolumeSource::default() }
            }
            ImageSource::Registry(image) => {
                DataVolumeSource { registry: Some(registry(image)), ..DataVolumeSource::default() }
            }
            _ => return None,
        };
        spec.source = Some(source);
        disks::place(&mut spec, &template.root_disk.storage, golden_size(template));
        Some(DataVolume { metadata, spec })
    };
    named.into_iter().filter_map(volume).collect()
}

/// The unpacked image's size where it is known, else that of the disk cloned from it.
fn golden_size(template: &MachineTemplate) -> Bytes {
    template.image.virtual_size.unwrap_or(template.root_disk.size)
}

/// What an image is, without how it is reached: new credentials do not make it another one.
fn identity(source: &ImageSource) -> Option<(&str, Option<&str>)> {
    match source {
        ImageSource::Http(http) => Some((&http.url, http.checksum.as_deref())),
        ImageSource::Registry(registry) => Some((&registry.url, None)),
        _ => None,
    }
}

/// The golden volume a pool's machines clone, if its image is delivered that way. Pools share one where
/// image and storage are the same.
pub(crate) fn golden_name(cluster: &Cluster, template: &MachineTemplate) -> Option<String> {
    let Image { source: Some(source), delivery: ImageDelivery::Golden, .. } = &template.image else {
        return None;
    };
    let identity = identity(source)?;
    Some(names::golden(cluster, &(identity, &template.root_disk.storage, golden_size(template))))
}

fn http(image: &HttpImage) -> HttpSource {
    HttpSource {
        url: image.url.clone(),
        checksum: image.checksum.clone(),
        secret_ref: image.secret.as_ref().map(ObjectName::to_string),
        cert_config_map: image.cert_config_map.as_ref().map(ObjectName::to_string),
        extra_headers: image.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        secret_extra_headers: image.header_secrets.iter().map(ObjectName::to_string).collect(),
    }
}

fn registry(image: &RegistryImage) -> RegistrySource {
    let pull_method = match image.pull_method {
        PullMethod::Pod => "pod",
        PullMethod::Node => "node",
    };
    RegistrySource {
        url: Some(image.url.clone()),
        pull_method: Some(pull_method.to_owned()),
        secret_ref: image.secret.as_ref().map(ObjectName::to_string),
        cert_config_map: None,
    }
}
