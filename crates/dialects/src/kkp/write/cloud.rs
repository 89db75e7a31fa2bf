//! The KubeVirt part of a machine.

use trellis_api::common::DnsConfig;
use trellis_api::kkp::cloud::{
    Affinity, Auth, CloudProviderSpec, ConfigVar, EvictionStrategy, Flavor, KeyRef, Location, Matcher,
    NodePreset, PrimaryDisk, SecondaryDisk, SpreadConstraint, Template, Vcpus, VirtualMachine,
};
use trellis_model::cluster::{Credentials, CredentialsKind, Platform};
use trellis_model::flavor::catalogue;
use trellis_model::image::{HttpImage, ImageSource, PullMethod};
use trellis_model::machine::{Compute, Eviction, InfraScope, InfraShape, MachineTemplate, Shape};
use trellis_model::placement::{HostRule, Locality, Placement, Preset, Spread, Strength};
use trellis_model::volume::{Storage, StorageRequest};
use trellis_model::{Cluster, Pool};

use crate::shared::dns_config;

/// The KubeVirt part of a pool's machines.
pub(super) fn cloud_provider_spec(cluster: Option<&Cluster>, pool: &Pool) -> CloudProviderSpec {
    let template = &pool.spec.template;
    let placement = &template.placement;
    CloudProviderSpec {
        cluster_name: Some(ConfigVar::of(&pool.spec.cluster)),
        auth: cluster.and_then(credentials).map(auth),
        virtual_machine: Some(Box::new(virtual_machine(cluster, template))),
        affinity: affinity(placement),
        topology_spread_constraints: placement.spread.iter().flatten().map(spread).collect(),
        ..CloudProviderSpec::default()
    }
}

fn credentials(cluster: &Cluster) -> Option<&Credentials> {
    match &cluster.spec.platform {
        Platform::Kubevirt(platform) => platform.credentials.as_ref(),
        Platform::Ovirt(_) => None,
    }
}

fn auth(credentials: &Credentials) -> Auth {
    let key = Some(KeyRef {
        namespace: credentials.namespace.as_ref().map(ToString::to_string),
        name: credentials.name.to_string(),
        key: credentials.key.clone(),
    });
    let kubeconfig = match credentials.kind {
        CredentialsKind::Secret => ConfigVar { secret_key_ref: key, ..ConfigVar::default() },
        CredentialsKind::ConfigMap => ConfigVar { config_map_key_ref: key, ..ConfigVar::default() },
    };
    Auth { kubeconfig: Some(kubeconfig) }
}

fn virtual_machine(cluster: Option<&Cluster>, template: &MachineTemplate) -> VirtualMachine {
    let mut vm = VirtualMachine {
        preference: template.preference.as_ref().map(|preference| matcher(preference, "Preference")),
        template: Some(Template {
            primary_disk: Some(primary_disk(template)),
            secondary_disks: template
                .data_disks
                .iter()
                .map(|disk| SecondaryDisk {
                    size: Some(ConfigVar::of(disk.size)),
                    storage_class_name: disk.storage.class.as_ref().map(ConfigVar::of),
                    storage_access_type: access(&disk.storage),
                })
                .collect(),
            ..Template::default()
        }),
        dns_policy: (template.dns.policy != trellis_model::network::DnsPolicy::default())
            .then(|| ConfigVar::of(template.dns.policy.as_str())),
        dns_config: Some(dns_config(&template.dns)).filter(|config| *config != DnsConfig::default()),
        location: location(&template.placement),
        enable_network_multi_queue: Some(ConfigVar::of(template.devices.network_multi_queue)),
        eviction_strategy: match template.eviction {
            Eviction::External => Some(EvictionStrategy::External),
            Eviction::LiveMigrate => Some(EvictionStrategy::LiveMigrate),
            Eviction::LiveMigrateIfPossible | Eviction::None => None,
        },
        ..VirtualMachine::default()
    };
    match &template.shape {
        Shape::Instancetype(shape) => vm.instancetype = Some(matcher(shape, "Instancetype")),
        Shape::Flavor(name) if catalogue().contains_key(name) => {
            vm.flavor = Some(Flavor { name: Some(ConfigVar::of(name)), profile: None });
        }
        Shape::Flavor(name) => {
            if let Some(flavor) = cluster.and_then(|cluster| cluster.flavor(name)) {
                compute(&flavor.compute, &mut vm);
            }
        }
        Shape::Custom(custom) => compute(custom, &mut vm),
    }
    vm
}

/// CPU and memory: set aside as a whole, or cores of which nothing is set aside.
fn compute(compute: &Compute, vm: &mut VirtualMachine) {
    let Some(template) = &mut vm.template else { return };
    match &compute.cpu.topology {
        Some(topology) => template.vcpus = Some(Vcpus { cores: Some(topology.total()) }),
        None => template.cpus = compute.cpu.limit.or(compute.cpu.request).map(ConfigVar::of),
    }
    template.memory = compute.memory.guest_bytes().map(ConfigVar::of);
}

fn matcher(shape: &InfraShape, kind: &str) -> Matcher {
    let scope = match shape.scope {
        InfraScope::Cluster => "Cluster",
        InfraScope::Namespace => "",
    };
    Matcher {
        name: shape.name.to_string(),
        kind: Some(format!("VirtualMachine{scope}{kind}")),
        ..Matcher::default()
    }
}

fn access(storage: &Storage) -> Option<ConfigVar> {
    storage.access_mode.map(|mode| ConfigVar::of(mode.as_str()))
}

fn primary_disk(template: &MachineTemplate) -> PrimaryDisk {
    let storage = &template.root_disk.storage;
    let mut disk = PrimaryDisk {
        size: Some(ConfigVar::of(template.root_disk.size)),
        storage_class_name: storage.class.as_ref().map(ConfigVar::of),
        storage_access_type: access(storage),
        storage_target: Some(ConfigVar::of(match storage.request {
            StorageRequest::Claim => "pvc",
            StorageRequest::Profile => "storage",
        })),
        ..PrimaryDisk::default()
    };
    match &template.image.source {
        Some(ImageSource::Http(http)) => http_image(http, &mut disk),
        Some(ImageSource::Registry(registry)) => {
            disk.os_image = Some(ConfigVar::of(&registry.url));
            disk.source = Some(ConfigVar::of("registry"));
            disk.pull_method = Some(ConfigVar::of(match registry.pull_method {
                PullMethod::Node => "node",
                PullMethod::Pod => "pod",
            }));
            disk.data_volume_secret_ref = registry.secret.as_ref().map(ConfigVar::of);
        }
        Some(ImageSource::Pvc(volume)) => {
            let namespace =
                volume.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            disk.os_image = Some(ConfigVar::of(format!("{namespace}{}", volume.name)));
            disk.source = Some(ConfigVar::of("pvc"));
        }
        Some(ImageSource::Snapshot(_) | ImageSource::DataSource(_) | ImageSource::OvirtTemplate(_))
        | None => {}
    }
    disk
}

fn http_image(http: &HttpImage, disk: &mut PrimaryDisk) {
    disk.os_image = Some(ConfigVar::of(&http.url));
    disk.source = Some(ConfigVar::of("http"));
    disk.data_volume_secret_ref = http.secret.as_ref().map(ConfigVar::of);
    disk.extra_headers = http.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    if disk.extra_headers.is_empty() {
        disk.extra_headers_secret_ref = http.header_secrets.first().map(ConfigVar::of);
    }
}

/// A region, and a zone if there is one: this API cannot share machines out over several.
fn location(placement: &Placement) -> Option<Location> {
    let name = |locality: &Locality| locality.as_str().to_owned();
    let zone = match placement.zones.as_slice() {
        [zone] => Some(name(zone)),
        _ => None,
    };
    let location = Location { region: placement.region.as_ref().map(name), zone };
    (location != Location::default()).then_some(location)
}

fn affinity(placement: &Placement) -> Option<Affinity> {
    let preset = |preset: Preset, default: Preset| (preset != default).then(|| ConfigVar::of(word(preset)));
    let defaults = Placement::default();
    let affinity = Affinity {
        pod_affinity_preset: preset(placement.together, defaults.together),
        pod_anti_affinity_preset: preset(placement.apart, defaults.apart),
        node_affinity_preset: placement.wanted_hosts.first().map(hosts),
    };
    (affinity != Affinity::default()).then_some(affinity)
}

fn word(preset: Preset) -> &'static str {
    match preset {
        Preset::None => "",
        Preset::Soft => "soft",
        Preset::Hard => "hard",
    }
}

fn hosts(rule: &HostRule) -> NodePreset {
    NodePreset {
        kind: Some(ConfigVar::of(match rule.strength {
            Strength::Soft => "soft",
            Strength::Hard => "hard",
        })),
        key: Some(ConfigVar::of(&rule.key)),
        values: rule.values.iter().map(ConfigVar::of).collect(),
    }
}

fn spread(spread: &Spread) -> SpreadConstraint {
    SpreadConstraint {
        max_skew: Some(ConfigVar::of(spread.max_skew)),
        topology_key: Some(ConfigVar::of(&spread.over)),
        when_unsatisfiable: Some(ConfigVar::of(match spread.strength {
            Strength::Soft => "ScheduleAnyway",
            Strength::Hard => "DoNotSchedule",
        })),
    }
}
