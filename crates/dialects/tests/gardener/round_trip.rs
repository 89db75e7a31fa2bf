//! What the language can express is read back as it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use trellis_dialects::gardener::write;
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_model::cluster::{
    CloudController, ClusterSpec, Credentials, CredentialsKind, KubevirtPlatform, Maintenance,
    MaintenanceWindow, Platform,
};
use trellis_model::image::{
    HttpImage, Image, ImageDelivery, ImageSource, OperatingSystem, PullMethod, RegistryImage,
};
use trellis_model::machine::{
    Architecture, Compute, Cpu, CpuFeaturePolicy, DEFAULT_STOP_GRACE_SECONDS, DedicatedCpus, Devices,
    Eviction, Firmware, HugepageSize, MachineTemplate, Memory, Shape, Topology, UserData,
};
use trellis_model::names::{ClusterName, DeviceName, DiskSerial, FlavorName, ObjectName, PoolName};
use trellis_model::network::{
    Address, Binding, Dns, DnsOption, DnsPolicy, MachineNetwork, NetworkPlugin, NetworkSource, Networking,
    NodeTaint, PodRange, SharedNetwork, TenantNetwork,
};
use trellis_model::placement::{Locality, Placement, TaintEffect};
use trellis_model::pool::{Autoscaling, PoolSpec, UpdatePolicy};
use trellis_model::quantity::{Bytes, Count, MilliCpu};
use trellis_model::version::KubernetesVersion;
use trellis_model::volume::{DataDisk, DiskBus, DiskCache, DiskDevice, RootDisk, Storage};
use trellis_model::{Cluster, Estate, Pool};

use super::full::{FULL, PROFILE};
use super::support::read;

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4})?"
}

fn version() -> impl Strategy<Value = KubernetesVersion> {
    (20_u32..40, of(0_u32..20)).prop_map(|(minor, patch)| KubernetesVersion { major: 1, minor, patch })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![(1_u32..512).prop_map(Bytes::gibi), (1_u64..1 << 50).prop_map(Bytes::new)]
}

fn cpu() -> impl Strategy<Value = Cpu> {
    let number = || (1_u32..9).prop_map(|n| NonZeroU32::new(n).unwrap());
    let topology = (number(), number(), number()).prop_map(|(sockets, cores, threads)| Topology {
        sockets,
        cores,
        threads,
    });
    let amount = || (1_u64..64_000).prop_map(MilliCpu::new);
    let policy = select(vec![
        CpuFeaturePolicy::Require,
        CpuFeaturePolicy::Force,
        CpuFeaturePolicy::Optional,
        CpuFeaturePolicy::Disable,
        CpuFeaturePolicy::Forbid,
    ]);
    let dedicated = (any::<bool>(), any::<bool>()).prop_map(|(isolate_emulator_thread, numa_passthrough)| {
        DedicatedCpus { isolate_emulator_thread, numa_passthrough }
    });
    let model = of(select(vec!["host-model".to_owned(), "host-passthrough".to_owned(), "yes".to_owned()]));
    (
        of(topology),
        // A machine type always says what is set aside.
        amount().prop_map(Some),
        of(amount()),
        model,
        btree_map("[a-z0-9_]{1,6}", policy, 0..3),
        of(dedicated),
    )
        .prop_map(|(topology, request, limit, model, features, dedicated)| Cpu {
            topology,
            request,
            limit,
            model,
            features,
            dedicated,
        })
}

fn memory() -> impl Strategy<Value = Memory> {
    let page = select(vec![HugepageSize::Mebi2, HugepageSize::Gibi1]);
    (of(bytes()), bytes().prop_map(Some), of(bytes()), of(page), any::<bool>()).prop_map(
        |(guest, request, limit, hugepages, overcommit_guest_overhead)| Memory {
            guest,
            request,
            limit,
            hugepages,
            overcommit_guest_overhead,
            page_merging: false,
        },
    )
}

fn shape() -> impl Strategy<Value = Shape> {
    let flavors: Vec<FlavorName> = trellis_model::flavor::catalogue().into_keys().collect();
    prop_oneof![
        3 => (cpu(), memory()).prop_map(|(cpu, memory)| Shape::Custom(Box::new(Compute { cpu, memory }))),
        1 => select(flavors).prop_map(Shape::Flavor),
    ]
}

/// Two pools may not have the same image at two places, so the place follows from system and version.
fn image() -> impl Strategy<Value = Image> {
    let delivery = select(vec![ImageDelivery::Golden, ImageDelivery::PerMachine]);
    (select(OperatingSystem::ALL.to_vec()), of(select(vec!["1.0", "24.04", "1e3", "9"])), delivery).prop_map(
        |(os, version, delivery)| {
            let source = match version {
                Some("1.0") => {
                    Some(ImageSource::Http(HttpImage::at(format!("https://images.example/{}", os.as_str()))))
                }
                Some("24.04") => Some(ImageSource::Registry(RegistryImage {
                    url: format!("docker://registry.example/{}", os.as_str()),
                    pull_method: PullMethod::Pod,
                    secret: None,
                })),
                _ => None,
            };
            Image { os, version: version.map(str::to_owned), source, virtual_size: None, delivery }
        },
    )
}

fn storage() -> impl Strategy<Value = Storage> {
    of(select(vec!["fast", "ceph-rbd.v2", "local"])).prop_map(|class| Storage {
        class: class.map(|class| ObjectName::new(class).unwrap()),
        ..Storage::default()
    })
}

fn device() -> impl Strategy<Value = DiskDevice> {
    let bus = select(vec![DiskBus::Virtio, DiskBus::Scsi, DiskBus::Sata, DiskBus::Usb]);
    let cache = of(select(vec![DiskCache::None, DiskCache::Writethrough, DiskCache::Writeback]));
    (bus, cache, any::<bool>(), of("[A-Z0-9]{1,8}")).prop_map(|(bus, cache, dedicated_io_thread, serial)| {
        DiskDevice {
            bus,
            cache,
            dedicated_io_thread,
            serial: serial.map(|serial| DiskSerial::new(serial).unwrap()),
        }
    })
}

fn dns() -> impl Strategy<Value = Dns> {
    let policy = select(vec![
        DnsPolicy::ClusterFirst,
        DnsPolicy::ClusterFirstWithHostNet,
        DnsPolicy::Default,
        DnsPolicy::None,
    ]);
    let server = prop_oneof![
        any::<[u8; 4]>().prop_map(|a| Address(a.into())),
        any::<[u16; 8]>().prop_map(|a| Address(a.into()))
    ];
    let option = ("[a-z]{1,6}", of("[0-9]{1,2}")).prop_map(|(name, value)| DnsOption { name, value });
    (policy, vec(server, 0..3), vec(name(), 0..3), vec(option, 0..2))
        .prop_map(|(policy, nameservers, searches, options)| Dns { policy, nameservers, searches, options })
}

fn template(region: Locality) -> impl Strategy<Value = MachineTemplate> {
    let disk = || (bytes(), storage(), device());
    let data = btree_map(name(), disk(), 0..3);
    let zones = btree_set(select(vec!["default", "a", "b-1"]), 1..3);
    let devices = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(rng, block_multi_queue, network_multi_queue)| Devices {
            rng,
            block_multi_queue,
            network_multi_queue,
            ..Devices::default()
        },
    );
    let architecture = select(vec![Architecture::Amd64, Architecture::Arm64, Architecture::S390x]);
    (shape(), image(), disk(), data, zones, devices, dns(), architecture).prop_map(
        move |(shape, image, (size, storage, device), data, zones, devices, dns, architecture)| {
            MachineTemplate {
                shape,
                preference: None,
                image,
                root_disk: RootDisk { size, storage, device },
                data_disks: data
                    .into_iter()
                    .map(|(name, (size, storage, device))| DataDisk {
                        name: DeviceName::new(name).unwrap(),
                        size,
                        storage,
                        device,
                    })
                    .collect(),
                nics: Vec::new(),
                placement: Placement {
                    region: Some(region.clone()),
                    zones: zones.into_iter().rev().map(|zone| Locality::new(zone.parse().unwrap())).collect(),
                    ..Placement::default()
                },
                devices,
                dns,
                eviction: Eviction::default(),
                firmware: if architecture == Architecture::Arm64 { Firmware::Uefi } else { Firmware::Bios },
                architecture,
                user_data: UserData::default(),
                ssh_keys: BTreeSet::new(),
                stop_grace_seconds: DEFAULT_STOP_GRACE_SECONDS,
                ovirt: None,
            }
        },
    )
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![(0_u32..9).prop_map(Count::Absolute), (0_u32..101).prop_map(Count::Percent)]
}

fn pool_spec(cluster: ClusterName, region: Locality) -> impl Strategy<Value = PoolSpec> {
    let taint = (
        "[a-z]{1,5}",
        of("[a-z]{1,5}"),
        select(vec![TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute]),
    )
        .prop_map(|(key, value, effect)| NodeTaint {
            key: key.parse().unwrap(),
            value: value.map(|v| v.parse().unwrap()),
            effect,
        });
    let labels = btree_map("(example[.]com/)?[a-z]{1,5}", "[a-z0-9]{0,5}", 0..3);
    let annotations = btree_map("[a-z]{1,5}", "[ -~]{0,12}", 0..3);
    (
        0_u32..5,
        0_u32..3,
        count(),
        count(),
        labels,
        annotations,
        btree_set(taint, 0..3),
        of(version()),
        template(region),
    )
        .prop_map(
            move |(
                min,
                more,
                max_surge,
                max_unavailable,
                labels,
                annotations,
                node_taints,
                kubelet_version,
                template,
            )| PoolSpec {
                autoscaling: (more > 0).then_some(Autoscaling { min, max: min + more }),
                update: UpdatePolicy { max_surge, max_unavailable, ..UpdatePolicy::default() },
                node_labels: labels
                    .into_iter()
                    .map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap()))
                    .collect(),
                node_annotations: annotations.into_iter().map(|(k, v)| (k.parse().unwrap(), v)).collect(),
                node_taints,
                kubelet_version,
                ..PoolSpec::new(cluster.clone(), min, template)
            },
        )
}

fn networking() -> impl Strategy<Value = Networking> {
    let plugin = of(select(vec![NetworkPlugin::Calico, NetworkPlugin::Cilium, NetworkPlugin::Flannel]));
    let shared = btree_map("s[a-z]{1,4}", of("[a-z]{1,4}"), 0..3);
    let tenant = btree_map("t[a-z]{1,4}", any::<bool>(), 0..3);
    (plugin, of(of(16_u8..30)), any::<bool>(), shared, tenant).prop_map(
        |(plugin, pods, services, shared, tenant)| {
            let config = r#"{"type":"bridge","ipam":{"subnet":"10.9.0.0/16"}}"#;
            let shared = shared.into_iter().map(|(name, namespace)| MachineNetwork {
                source: NetworkSource::Shared(SharedNetwork {
                    namespace: namespace.map(|namespace| namespace.parse().unwrap()),
                    name: name.parse().unwrap(),
                }),
                name: name.parse().unwrap(),
                default: false,
                binding: Binding::Bridge,
            });
            let tenant = tenant.into_iter().map(|(name, default)| MachineNetwork {
                source: NetworkSource::Tenant(TenantNetwork { config: config.parse().unwrap() }),
                name: name.parse().unwrap(),
                default,
                binding: Binding::Bridge,
            });
            Networking {
                plugin,
                pods: pods
                    .map(|node_prefix| PodRange { cidr: "10.1.0.0/16".parse().unwrap(), node_prefix })
                    .into_iter()
                    .collect(),
                services: services.then(|| "fd00::/108".parse().unwrap()).into_iter().collect(),
                nodes: vec!["10.9.0.0/16".parse().unwrap()],
                machine_networks: shared.chain(tenant).collect(),
                ..Networking::default()
            }
        },
    )
}

fn cluster_spec() -> impl Strategy<Value = ClusterSpec> {
    let credentials = of((name(), of(name()))).prop_map(|credentials| {
        credentials.map(|(name, namespace)| Credentials {
            kind: CredentialsKind::Secret,
            namespace: namespace.map(|namespace| namespace.parse().unwrap()),
            name: name.parse().unwrap(),
            key: Credentials::DEFAULT_KEY.to_owned(),
        })
    });
    let window = MaintenanceWindow { begin: "220000+0100".to_owned(), end: "230000-0000".to_owned() };
    let maintenance = (any::<bool>(), any::<bool>(), of(Just(window))).prop_map(
        |(update_kubernetes, update_images, window)| Maintenance { update_kubernetes, update_images, window },
    );
    let gates = btree_map("[A-Z][a-z]{1,5}", any::<bool>(), 0..3);
    (credentials, of(version()), networking(), gates, maintenance).prop_map(
        |(credentials, version, network, feature_gates, maintenance)| ClusterSpec {
            platform: Platform::Kubevirt(KubevirtPlatform { credentials, ..KubevirtPlatform::default() }),
            version,
            base_domain: None,
            network,
            ssh_keys: BTreeSet::new(),
            flavors: BTreeMap::new(),
            cloud_controller: CloudController { feature_gates },
            maintenance,
        },
    )
}

/// One cluster with its pools.
fn tenancy(name: &str) -> impl Strategy<Value = (Cluster, Vec<Pool>)> + use<> {
    let cluster: ClusterName = name.parse().unwrap();
    let region =
        select(vec!["default", "europe-west1"]).prop_map(|region| Locality::new(region.parse().unwrap()));
    let pools = region.prop_flat_map({
        let cluster = cluster.clone();
        move |region| btree_map(self::name(), pool_spec(cluster.clone(), region), 1..4)
    });
    (cluster_spec(), of(self::name()), pools).prop_map(move |(spec, namespace, pools)| {
        let namespace = namespace.map(|namespace| namespace.parse().unwrap());
        let pool = |(name, spec): (String, PoolSpec)| Pool {
            name: PoolName::new(name).unwrap(),
            namespace: namespace.clone(),
            spec,
        };
        let pools = pools.into_iter().map(pool).collect();
        (Cluster { name: cluster.clone(), namespace, spec }, pools)
    })
}

fn estate() -> impl Strategy<Value = Estate> {
    btree_set(name(), 1..3).prop_flat_map(|names| {
        names.iter().map(|name| tenancy(name)).collect::<Vec<_>>().prop_map(|tenancies| {
            let (clusters, pools): (Vec<Cluster>, Vec<Vec<Pool>>) = tenancies.into_iter().unzip();
            Estate { clusters, pools: pools.concat() }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(estate in estate()) {
        let text = to_yaml_documents(&write(&estate));
        let outcome = read(&[&text]);
        // The model may find fault with what was made up, but the language itself must not stumble.
        let codes = ["unknown-field", "wrong-type", "missing-field", "invalid-value", "unknown-disk", "wrong-kind"];
        for said in &outcome.diagnostics {
            prop_assert!(!codes.contains(&said.code), "{}\n{text}", outcome.text());
        }
        prop_assert_eq!(outcome.estate, estate.sorted(), "{}", text);
    }
}

#[test]
fn a_shoot_that_was_read_is_written_back_the_same() {
    let first = read(&[FULL, PROFILE]);
    let text = to_yaml_documents(&write(&first.estate));
    let second = read(&[&text]);
    assert_eq!(second.errors(), [] as [&str; 0], "{}\n{text}", second.text());
    assert_eq!(second.estate, first.estate, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn what_cannot_be_said_is_left_out_and_nothing_else_changes() {
    let mut estate = read(&[FULL, PROFILE]).estate;
    let plain = to_yaml_documents(&write(&estate));
    let mut control_plane = estate.pools[0].clone();
    control_plane.name = PoolName::new("masters").unwrap();
    control_plane.spec.role = trellis_model::pool::Role::ControlPlane;
    let mut elsewhere = estate.pools[0].clone();
    elsewhere.name = PoolName::new("elsewhere").unwrap();
    elsewhere.spec.template.placement.region = None;
    estate.pools.extend([control_plane, elsewhere]);
    if let Platform::Kubevirt(platform) = &mut estate.clusters[0].spec.platform {
        platform.namespace = Some("my-shoot".parse().unwrap());
    }
    estate.clusters[0].spec.network.machine_networks.push(MachineNetwork {
        name: "sriov".parse().unwrap(),
        source: NetworkSource::Shared(SharedNetwork { namespace: None, name: "sriov".parse().unwrap() }),
        default: false,
        binding: Binding::Sriov,
    });
    estate.pools[0].spec.template.eviction = Eviction::LiveMigrate;
    assert_eq!(to_yaml_documents(&write(&estate)), plain);
}

#[test]
fn one_image_at_two_places_is_written_at_none() {
    let mut estate = read(&[FULL, PROFILE]).estate;
    let mut other = estate.pools.iter().find(|pool| pool.name.as_str() == "small").unwrap().clone();
    other.name = PoolName::new("other").unwrap();
    other.spec.template.image.source = Some(ImageSource::Http(HttpImage::at("https://elsewhere.example/x")));
    estate.pools.push(other);
    let text = to_yaml_documents(&write(&estate));
    assert!(!text.contains("elsewhere.example") && !text.contains("noble"), "{text}");
}
