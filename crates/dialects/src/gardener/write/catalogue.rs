//! The CloudProfile that a written Shoot refers to, made from what its pools need.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trellis_api::common::{Metadata, Text};
use trellis_api::gardener::config::{ConfigImage, ConfigImageVersion, ConfigMachineType, Limits};
use trellis_api::gardener::profile::{
    CloudProfileSpec, MachineType, ProfileImage, ProfileImageVersion, VolumeType,
};
use trellis_api::gardener::{CORE, CloudProfile, CloudProfileConfig, KUBEVIRT};
use trellis_model::image::{HttpImage, ImageSource, PullMethod, RegistryImage};
use trellis_model::machine::{Compute, Shape};
use trellis_model::names::PoolName;
use trellis_model::quantity::MilliCpu;
use trellis_model::{Cluster, Pool};

use super::super::disks::DEFAULT_CLASS;
use crate::shared::to_json;

/// What the pools of one cluster need from a CloudProfile.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    names: BTreeMap<PoolName, String>,
    spec: CloudProfileSpec,
    config: CloudProfileConfig,
}

/// CPU and memory of a pool, where a machine type can hold them.
pub(super) fn compute<'a>(cluster: &'a Cluster, pool: &'a Pool) -> Option<&'a Compute> {
    match &pool.spec.template.shape {
        Shape::Custom(compute) => Some(compute),
        Shape::Flavor(name) => cluster.spec.flavors.get(name).map(|flavor| &flavor.compute),
        Shape::Instancetype(_) => None,
    }
}

impl Catalogue {
    /// Collects what these pools need.
    pub(super) fn of(cluster: &Cluster, pools: &[&Pool]) -> Self {
        let mut catalogue = Self::default();
        catalogue.add_machine_types(cluster, pools);
        catalogue.add_images(pools);
        catalogue.add_volume_types(pools);
        catalogue
    }

    /// The machine type of a pool, if it has one here.
    pub(super) fn machine_type(&self, pool: &Pool) -> Option<&str> {
        self.names.get(&pool.name).map(String::as_str)
    }

    /// Each pool gets a machine type of its own name, unless that is a flavor's.
    fn add_machine_types(&mut self, cluster: &Cluster, pools: &[&Pool]) {
        let is_flavor = |name: &str| {
            pools.iter().any(
                |pool| matches!(&pool.spec.template.shape, Shape::Flavor(flavor) if flavor.as_str() == name),
            )
        };
        for pool in pools {
            let Some(compute) = compute(cluster, pool) else { continue };
            let mut name = pool.name.to_string();
            while is_flavor(&name) || self.names.values().any(|taken| *taken == name) {
                name.insert_str(0, "custom-");
            }
            let (cpu, memory) = (&compute.cpu, &compute.memory);
            // Gardener schedules and scales by these: where nothing is set aside, what the guest sees stands in.
            let cpus = cpu.request.or_else(|| cpu.guest_cpus().map(MilliCpu::whole));
            let bytes = memory.request.or_else(|| memory.guest_bytes());
            self.spec.machine_types.push(MachineType {
                name: Some(name.clone()),
                cpu: cpus.as_ref().map(Text::from),
                memory: bytes.as_ref().map(Text::from),
                gpu: Some(Text("0".to_owned())),
                usable: Some(true),
                ..MachineType::default()
            });
            if cpu.limit.is_some() || memory.limit.is_some() {
                let limits = Limits {
                    cpu: cpu.limit.as_ref().map(Text::from),
                    memory: memory.limit.as_ref().map(Text::from),
                };
                self.config
                    .machine_types
                    .push(ConfigMachineType { name: Some(name.clone()), limits: Some(limits) });
            }
            self.names.insert(pool.name.clone(), name);
        }
    }

    /// An image is found by system and version. Where pools disagree on where such an image is, none is listed:
    /// any choice would be wrong for one of them.
    fn add_images(&mut self, pools: &[&Pool]) {
        let mut sources: BTreeMap<(&str, &str), Option<&ImageSource>> = BTreeMap::new();
        for pool in pools {
            let image = &pool.spec.template.image;
            let Some(version) = image.version.as_deref() else { continue };
            let source = image.source.as_ref().filter(|source| address(source).is_some());
            let entry = sources.entry((image.os.as_str(), version)).or_insert(source);
            if *entry != source {
                *entry = None;
            }
        }
        for ((name, version), source) in sources {
            let Some(url) = source.and_then(address) else { continue };
            let is_new =
                self.config.machine_images.last().is_none_or(|image| image.name.as_deref() != Some(name));
            if is_new {
                let name = Some(name.to_owned());
                self.config.machine_images.push(ConfigImage { name: name.clone(), ..ConfigImage::default() });
                self.spec.machine_images.push(ProfileImage { name, ..ProfileImage::default() });
            }
            let version = Some(Text(version.to_owned()));
            if let Some(image) = self.config.machine_images.last_mut() {
                let source_url = Some(url.to_owned());
                image.versions.push(ConfigImageVersion { version: version.clone(), source_url });
            }
            if let Some(image) = self.spec.machine_images.last_mut() {
                image.versions.push(ProfileImageVersion { version, ..ProfileImageVersion::default() });
            }
        }
    }

    fn add_volume_types(&mut self, pools: &[&Pool]) {
        let classes: BTreeSet<&str> = pools
            .iter()
            .flat_map(|pool| {
                let template = &pool.spec.template;
                let data = template.data_disks.iter().map(|disk| &disk.storage);
                std::iter::once(&template.root_disk.storage).chain(data)
            })
            .map(|storage| storage.class.as_ref().map_or(DEFAULT_CLASS, |class| class.as_str()))
            .collect();
        self.spec.volume_types = classes
            .into_iter()
            .map(|class| VolumeType {
                name: Some(class.to_owned()),
                class: Some(class.to_owned()),
                usable: Some(true),
                ..VolumeType::default()
            })
            .collect();
    }

    /// The CloudProfile, unless a Shoot says the same without one.
    pub(super) fn document(&self, name: &str) -> Option<Value> {
        let only_default =
            self.spec.volume_types.iter().all(|volume| volume.class.as_deref() == Some(DEFAULT_CLASS));
        if self.spec.machine_types.is_empty() && self.spec.machine_images.is_empty() && only_default {
            return None;
        }
        let profile = CloudProfile {
            api_version: CORE.to_owned(),
            kind: "CloudProfile".to_owned(),
            metadata: Metadata { name: Some(name.to_owned()), ..Metadata::default() },
            spec: CloudProfileSpec { type_: Some("kubevirt".to_owned()), ..self.spec.clone() },
            ..CloudProfile::default()
        };
        let mut document = to_json(&profile);
        if self.config != CloudProfileConfig::default() {
            let config = CloudProfileConfig {
                api_version: KUBEVIRT.to_owned(),
                kind: "CloudProfileConfig".to_owned(),
                ..self.config.clone()
            };
            super::insert(&mut document, "/spec", "providerConfig", Some(to_json(&config)));
        }
        Some(document)
    }
}

/// The address of an image, if an address is all there is to say about it.
fn address(source: &ImageSource) -> Option<&str> {
    match source {
        ImageSource::Http(image) if *image == HttpImage::at(image.url.clone()) => Some(&image.url),
        ImageSource::Registry(RegistryImage { url, pull_method: PullMethod::Pod, secret: None }) => Some(url),
        _ => None,
    }
}
