//! One golden per feature, each with an assertion on the fact that matters, so that a golden cannot be
//! wrong in silence. Everything rendered here also passes the admission oracle.

use base64::Engine as _;
use serde_json::{Value, json};
use trellis_model::Estate;

use crate::builders::{cluster, demo, instance, instance_of, of_kind, pool, rendered, templated};

/// Compares with `tests/golden/<name>.snap`.
fn golden(name: &str, value: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, serde_json::to_string_pretty(value).unwrap()));
}

fn with_cluster(settings: Value, pools: Vec<trellis_model::Pool>) -> Vec<Value> {
    rendered(&Estate { clusters: vec![cluster("demo", settings)], pools })
}

fn control_plane(replicas: u32) -> trellis_model::Pool {
    pool("demo", "masters", json!({ "role": "control-plane", "replicas": replicas }))
}

fn secret_text(objects: &[Value], key: &str) -> String {
    let encoded = of_kind(objects, "Secret")[0]["data"][key].as_str().unwrap().to_owned();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap()).unwrap()
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const TENANT_CONFIG: &str = r#"{"cniVersion":"0.4.0","type":"bridge","bridge":"br100","vlan":100}"#;

#[test]
fn a_whole_cluster() {
    let objects = with_cluster(json!({}), vec![control_plane(1), templated(json!({}))]);
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    let first = |kind: &str| kinds.iter().position(|k| *k == kind).unwrap();
    assert!(first("NetworkPolicy") < first("DataVolume") && first("DataVolume") < first("Service"));
    assert!(first("Service") < first("Secret") && first("Secret") < first("VirtualMachine"));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    for labels in [&vm["metadata"]["labels"], &vm["spec"]["template"]["metadata"]["labels"]] {
        assert_eq!(labels["trellis.dev/role"], "control-plane");
        assert_eq!(labels["cluster.x-k8s.io/cluster-name"], "demo");
    }
    golden("whole_cluster", &Value::Array(objects));
}

#[test]
fn machines_are_dealt_out_over_zones_and_default_is_hosts_without_one() {
    let zones = json!({ "replicas": 3, "template": { "placement": { "zones": ["a", "default"] } } });
    let objects = rendered(&demo(vec![pool("demo", "workers", zones)]));
    let rules: Vec<Value> = of_kind(&objects, "VirtualMachine")
        .iter()
        .map(|vm| vm["spec"]["template"]["spec"]["affinity"]["nodeAffinity"].clone())
        .collect();
    let operator = |i: usize| &rules[i][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"][0]["operator"];
    assert_eq!([operator(0), operator(1), operator(2)], ["In", "DoesNotExist", "In"]);
    golden("zones", &Value::Array(rules));
}

#[test]
fn everything_hosts_must_be_is_one_term() {
    let instance = instance_of(json!({ "placement": {
        "region": "west", "zones": ["a"],
        "wantedHosts": [{ "strength": "Hard", "key": "disk", "values": ["ssd", "nvme"] }],
        "avoidedHosts": [{ "strength": "Hard", "key": "example.com/old" }, { "strength": "Soft", "key": "rack", "values": ["7"] }],
    } }));
    let affinity = &instance["affinity"]["nodeAffinity"];
    let terms = affinity[REQUIRED]["nodeSelectorTerms"].as_array().unwrap();
    assert_eq!(terms.len(), 1, "terms are alternatives; what must hold together is one");
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 4);
    assert_eq!(affinity[PREFERRED][0]["weight"], 1);
    golden("hosts", affinity);
}

#[test]
fn machines_keep_together_or_apart() {
    let instance = instance_of(json!({ "placement": { "together": "Soft", "apart": "Hard" } }));
    let affinity = &instance["affinity"];
    assert_eq!(affinity["podAffinity"][PREFERRED][0]["weight"], 100);
    let term = &affinity["podAntiAffinity"][REQUIRED][0];
    assert_eq!(term["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(term["labelSelector"]["matchLabels"]["trellis.dev/pool"], "workers");
    golden("together_and_apart", affinity);
}

#[test]
fn masters_keep_apart_whatever_pool_they_are_in() {
    let objects = with_cluster(json!({}), vec![control_plane(1)]);
    let term = &instance(&objects)["affinity"]["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"];
    let selected = term["labelSelector"]["matchLabels"].as_object().unwrap();
    assert_eq!(selected["trellis.dev/role"], "control-plane");
    assert!(!selected.contains_key("trellis.dev/pool"));
    // A selector that no pod can match keeps nobody apart.
    let labels = &of_kind(&objects, "VirtualMachine")[0]["spec"]["template"]["metadata"]["labels"];
    assert!(selected.iter().all(|(key, value)| labels[key] == *value));
    golden("masters_apart", term);
}

#[test]
fn machines_of_one_revision_are_spread() {
    let instance = instance_of(json!({ "placement": { "spread": [
        { "over": "topology.kubernetes.io/zone", "strength": "Hard", "maxSkew": 2 }, { "over": "kubernetes.io/hostname" },
    ] } }));
    let spread = &instance["topologySpreadConstraints"];
    assert_eq!(spread[0]["whenUnsatisfiable"], "DoNotSchedule");
    assert_eq!(spread[1]["matchLabelKeys"][0], "trellis.dev/revision");
    golden("spread", spread);
}

#[test]
fn hosts_are_selected_and_their_taints_tolerated() {
    let instance = instance_of(json!({ "placement": {
        "hostSelector": { "example.com/kind": "big" },
        "tolerations": [{}, { "key": "dedicated", "value": "tenants", "effect": "NoSchedule" }],
    } }));
    assert_eq!(instance["tolerations"][0], json!({ "operator": "Exists" }));
    golden("tolerations", &json!([instance["nodeSelector"], instance["tolerations"]]));
}

#[test]
fn a_custom_shape_is_written_out() {
    let instance = instance_of(json!({ "shape": { "custom": {
        "cpu": { "topology": { "sockets": 2, "cores": 2, "threads": 2 }, "request": "1500m", "limit": "8", "model": "host-model",
            "features": { "vmx": "disable", "avx": "require" } },
        "memory": { "guest": "6Gi", "request": "4Gi", "limit": "8Gi" } } } }));
    assert_eq!(instance["domain"]["resources"]["requests"]["memory"], "4Gi");
    assert_eq!(instance["domain"]["memory"]["guest"], "6Gi");
    golden("custom_shape", &domain_without_devices(&instance));
}

fn domain_without_devices(instance: &Value) -> Value {
    let mut domain = instance["domain"].clone();
    let parts = domain.as_object_mut().unwrap();
    parts.remove("devices");
    parts.remove("firmware");
    domain
}

#[test]
fn cpus_asked_for_become_sockets_and_memory_asked_for_is_the_guests() {
    let instance = instance_of(json!({ "shape": { "custom": {
        "cpu": { "request": "500m", "limit": "2500m" }, "memory": { "request": "2Gi" } } } }));
    assert_eq!(instance["domain"]["cpu"]["sockets"], 3);
    assert_eq!(instance["domain"]["memory"]["guest"], "2Gi");
    golden("derived_sockets", &domain_without_devices(&instance));
}

#[test]
fn pinned_cpus_are_counted_by_kubevirt() {
    let instance = instance_of(json!({ "shape": { "custom": {
        "cpu": { "topology": { "cores": 4 }, "request": "4", "limit": "4", "model": "host-passthrough",
            "dedicated": { "isolateEmulatorThread": true, "numaPassthrough": true } },
        "memory": { "guest": "8Gi", "hugepages": "1Gi" } } } }));
    let domain = &instance["domain"];
    assert_eq!(domain["cpu"]["dedicatedCpuPlacement"], true);
    assert!(domain["resources"]["requests"]["cpu"].is_null());
    assert_eq!(domain["resources"]["requests"]["memory"], "8Gi");
    golden("pinned_cpus", &domain_without_devices(&instance));
}

#[test]
fn overcommitted_memory_goes_where_pages_are_merged() {
    let instance = instance_of(json!({ "shape": { "custom": {
        "cpu": { "topology": { "sockets": 1 } },
        "memory": { "guest": "4Gi", "request": "2Gi", "overcommitGuestOverhead": true, "pageMerging": true } } } }));
    assert_eq!(instance["nodeSelector"]["kubevirt.io/ksm-enabled"], "true");
    assert_eq!(instance["domain"]["resources"]["overcommitGuestOverhead"], true);
    golden("overcommitted_memory", &domain_without_devices(&instance));
}

/// The flavor's objects, and of the machine what it refers to and what it sets.
fn flavored(template: Value) -> (Vec<Value>, Value) {
    let objects = rendered(&demo(vec![templated(template)]));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    let instance = instance(&objects);
    let set = json!({
        "instancetype": vm["spec"]["instancetype"], "preference": vm["spec"]["preference"],
        "domain": domain_without_devices(instance), "nodeSelector": instance["nodeSelector"],
        "disks": instance["domain"]["devices"]["disks"],
        "blockMultiQueue": instance["domain"]["devices"]["blockMultiQueue"],
    });
    let shapes = objects.iter().filter(|object| object["apiVersion"] == "instancetype.kubevirt.io/v1beta1");
    (shapes.cloned().collect(), set)
}

#[test]
fn a_flavor_is_an_instance_type_and_a_preference() {
    let (shapes, vm) = flavored(json!({ "shape": { "flavor": "standard-4" } }));
    assert_eq!(shapes.len(), 2);
    assert_eq!(
        vm["instancetype"],
        json!({ "kind": "VirtualMachineInstancetype", "name": "demo-standard-4" })
    );
    assert!(vm["domain"]["cpu"].is_null() && vm["domain"]["memory"].is_null());
    golden("flavor_standard", &json!([shapes, vm]));
}

#[test]
fn a_dense_flavor_overcommits_memory() {
    let (shapes, vm) = flavored(json!({ "shape": { "flavor": "high-density-2" } }));
    assert_eq!(shapes[0]["spec"]["memory"]["overcommitPercent"], 33);
    assert_eq!(vm["nodeSelector"]["kubevirt.io/ksm-enabled"], "true");
    assert_eq!(vm["domain"]["resources"], json!({ "overcommitGuestOverhead": true }));
    golden("flavor_high_density", &json!([shapes, vm]));
}

#[test]
fn a_fast_flavor_pins_cpus_and_backs_memory_with_huge_pages() {
    let (shapes, vm) = flavored(json!({ "shape": { "flavor": "high-performance-4" } }));
    assert_eq!(shapes[0]["spec"]["cpu"]["dedicatedCPUPlacement"], true);
    assert_eq!(shapes[0]["spec"]["memory"]["hugepages"]["pageSize"], "2Mi");
    assert_eq!(vm["domain"]["ioThreadsPolicy"], "shared");
    golden("flavor_high_performance", &json!([shapes, vm]));
}

#[test]
fn a_disks_own_settings_win_over_the_flavors_and_the_config_drive_is_left_out() {
    let (shapes, vm) = flavored(json!({
        "shape": { "flavor": "database-4" },
        "dataDisks": [{ "name": "wal", "size": "10Gi", "device": { "cache": "writeback" } }],
    }));
    assert_eq!(shapes[1]["spec"]["devices"]["preferredDiskDedicatedIoThread"], true);
    assert_eq!(shapes[1]["spec"]["devices"]["preferredDiskCache"], "none");
    let disks = vm["disks"].as_array().unwrap();
    assert!(disks[0]["cache"].is_null(), "the preference fills it in");
    assert_eq!(disks[1]["cache"], "writeback");
    assert_eq!(disks[2]["cache"], "writethrough", "uncached, the config drive would not open");
    assert_eq!(disks[2]["dedicatedIOThread"], false);
    golden("flavor_database", &json!([shapes, vm]));
}

#[test]
fn a_preference_of_ones_own_takes_the_flavors_place_but_not_its_effect() {
    let (_, vm) = flavored(json!({
        "shape": { "flavor": "database-4" }, "preference": { "name": "rhel.9", "scope": "Cluster" },
    }));
    assert_eq!(vm["preference"]["kind"], "VirtualMachineClusterPreference");
    assert_eq!(vm["disks"][0]["dedicatedIOThread"], true);
    assert_eq!(vm["disks"][0]["cache"], "none");
    assert_eq!(vm["blockMultiQueue"], true);
    golden("flavor_with_own_preference", &vm);
}

#[test]
fn a_clusters_own_flavor_keeps_its_topology_and_features() {
    let flavor = json!({ "compute": {
        "cpu": { "topology": { "sockets": 2, "cores": 4, "threads": 2 }, "features": { "aes": "require" } },
        "memory": { "guest": "32Gi" } }, "blockMultiQueue": false });
    let objects = with_cluster(
        json!({ "flavors": { "wide": flavor } }),
        vec![templated(json!({ "shape": { "flavor": "wide" } }))],
    );
    assert_eq!(of_kind(&objects, "VirtualMachineInstancetype")[0]["spec"]["cpu"]["guest"], 16);
    let preference = of_kind(&objects, "VirtualMachinePreference")[0];
    assert_eq!(
        preference["spec"]["cpu"]["spreadOptions"],
        json!({ "across": "SocketsCoresThreads", "ratio": 4 })
    );
    golden("flavor_topology", &preference["spec"]);
}

#[test]
fn an_instance_type_of_the_infra_cluster_is_referred_to() {
    let (shapes, vm) = flavored(json!({
        "shape": { "instancetype": { "name": "u1.medium" } }, "preference": { "name": "fedora", "scope": "Namespace" },
    }));
    assert!(shapes.is_empty());
    assert_eq!(vm["instancetype"]["kind"], "VirtualMachineClusterInstancetype");
    assert_eq!(vm["preference"]["kind"], "VirtualMachinePreference");
    golden("infra_instancetype", &vm);
}

/// The golden volumes, and the root volumes of all machines.
fn volumes(objects: &[Value]) -> Value {
    let templates =
        of_kind(objects, "VirtualMachine").into_iter().map(|vm| &vm["spec"]["dataVolumeTemplates"]);
    json!({ "golden": of_kind(objects, "DataVolume"), "templates": templates.collect::<Vec<_>>() })
}

#[test]
fn pools_share_a_golden_volume_as_large_as_the_smallest_disk() {
    let image = json!({ "os": "ubuntu", "source": { "http": {
        "url": "https://images.example/noble.img", "checksum": "sha256:abcd", "secret": "web", "certConfigMap": "ca",
        "headers": { "X-Token": "t" }, "headerSecrets": ["headers"] } } });
    let sized = |name: &str, size: &str| {
        pool("demo", name, json!({ "template": { "image": image, "rootDisk": { "size": size } } }))
    };
    let objects = rendered(&demo(vec![sized("big", "50Gi"), sized("small", "15Gi")]));
    let golden_volumes = of_kind(&objects, "DataVolume");
    assert_eq!(golden_volumes.len(), 1);
    assert_eq!(golden_volumes[0]["spec"]["storage"]["resources"]["requests"]["storage"], "15Gi");
    assert_eq!(golden_volumes[0]["spec"]["source"]["http"]["checksum"], "sha256:abcd");
    let root = &of_kind(&objects, "VirtualMachine")[0]["spec"]["dataVolumeTemplates"][0]["spec"];
    assert_eq!(root["source"]["pvc"]["name"], golden_volumes[0]["metadata"]["name"]);
    assert_eq!(root["source"]["pvc"]["namespace"], "demo");
    golden("golden_image", &volumes(&objects));
}

#[test]
fn an_image_of_known_size_makes_a_golden_volume_of_that_size() {
    let objects = rendered(&demo(vec![templated(json!({ "image": { "virtualSize": "3Gi" } }))]));
    assert_eq!(
        of_kind(&objects, "DataVolume")[0]["spec"]["storage"]["resources"]["requests"]["storage"],
        "3Gi"
    );
}

#[test]
fn an_image_can_be_imported_by_each_machine() {
    let objects = rendered(&demo(vec![templated(json!({ "image": {
        "delivery": "PerMachine",
        "source": { "registry": { "url": "docker://quay.example/fedora:42", "pullMethod": "node", "secret": "pull" } } } }))]));
    assert!(of_kind(&objects, "DataVolume").is_empty());
    golden("registry_per_machine", &volumes(&objects));
}

#[test]
fn images_of_the_infra_cluster_are_cloned() {
    let from = |source: Value| {
        let objects = rendered(&demo(vec![templated(json!({ "image": { "source": source } }))]));
        assert!(of_kind(&objects, "DataVolume").is_empty());
        of_kind(&objects, "VirtualMachine")[0]["spec"]["dataVolumeTemplates"][0]["spec"].clone()
    };
    let sources = json!([
        from(json!({ "pvc": { "namespace": "images", "name": "noble" } })),
        from(json!({ "snapshot": { "name": "noble" } })),
        from(json!({ "dataSource": { "namespace": "images", "name": "noble" } })),
    ]);
    assert_eq!(sources[1]["source"]["snapshot"]["namespace"], "demo");
    assert!(sources[2]["source"].is_null());
    golden("infra_images", &sources);
}

#[test]
fn a_plain_claim_has_one_access_mode() {
    let objects = with_cluster(
        json!({ "platform": { "kubevirt": { "storage": { "class": "fast", "volumeMode": "Block" } } } }),
        vec![templated(json!({ "rootDisk": { "size": "20Gi", "storage": { "request": "Claim" } },
            "dataDisks": [{ "name": "d", "size": "1Gi", "storage": { "accessMode": "ReadWriteMany" } }] }))],
    );
    let templates = &of_kind(&objects, "VirtualMachine")[0]["spec"]["dataVolumeTemplates"];
    assert_eq!(templates[0]["spec"]["pvc"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(templates[0]["spec"]["pvc"]["storageClassName"], "fast");
    assert_eq!(templates[1]["spec"]["source"], json!({ "blank": {} }));
    golden("claims", &volumes(&objects));
}

#[test]
fn disks_are_what_the_guest_sees() {
    let instance = instance_of(json!({
        "rootDisk": { "size": "20Gi", "device": { "cache": "none", "dedicatedIoThread": true } },
        "dataDisks": [
            { "name": "logs", "size": "5Gi", "device": { "bus": "scsi", "serial": "LOGS-1" } },
            { "name": "old", "size": "5Gi", "device": { "bus": "sata" } }],
        "devices": { "blockMultiQueue": true, "networkMultiQueue": true, "ioThreads": "Auto", "rng": true },
    }));
    let disks = instance["domain"]["devices"]["disks"].as_array().unwrap();
    assert_eq!(disks[0]["bootOrder"], 1);
    assert_eq!(disks.last().unwrap()["name"], "config-drive");
    assert_eq!(instance["domain"]["ioThreadsPolicy"], "auto");
    golden("disks", &json!([instance["domain"]["devices"], instance["volumes"]]));
}

#[test]
fn cloud_init_gets_a_cloud_config() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me@here";
    let objects = with_cluster(
        json!({ "sshKeys": [key], "baseDomain": "example.com" }),
        vec![templated(json!({ "userData": { "upgradePackages": true } }))],
    );
    let text = secret_text(&objects, "userdata");
    let config: Value = serde_json::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap();
    assert_eq!(config["ssh_authorized_keys"], json!([key]));
    assert_eq!(config["hostname"], instance(&objects)["hostname"]);
    golden("cloud_config", &config);
}

#[test]
fn ignition_systems_get_ignition() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me@here";
    let objects =
        with_cluster(json!({ "sshKeys": [key] }), vec![templated(json!({ "image": { "os": "flatcar" } }))]);
    let config: Value = serde_json::from_str(&secret_text(&objects, "userdata")).unwrap();
    assert_eq!(config["ignition"]["version"], "3.4.0");
    assert_eq!(config["passwd"]["users"][0]["name"], "core");
    assert_eq!(config["storage"]["files"][0]["mode"], 420);
    golden("ignition", &config);
}

#[test]
fn user_data_that_is_given_is_passed_on_byte_for_byte() {
    let text = format!("#!/bin/sh\n# {}\necho \"$HOME\" 'ü'\n", "x".repeat(3000));
    let objects = rendered(&demo(vec![templated(json!({ "userData": { "inline": text } }))]));
    assert_eq!(secret_text(&objects, "userdata"), text);
    let drive = &instance(&objects)["volumes"][1]["cloudInitConfigDrive"];
    assert_eq!(drive["secretRef"]["name"], of_kind(&objects, "Secret")[0]["metadata"]["name"]);
}

fn static_nics() -> Value {
    json!([
        { "name": "default", "network": { "pod": {} }, "binding": "Masquerade" },
        { "name": "lan", "network": { "machine": "vlan" }, "addresses": {
            "first": "10.100.0.10/24", "gateway": "10.100.0.1", "nameservers": ["10.100.0.2"] } },
        { "name": "six", "network": { "shared": { "namespace": "nets", "name": "six" } }, "addresses": {
            "first": "fd00::10/64", "gateway": "fd00::1", "nameservers": ["10.100.0.2"] } },
    ])
}

fn vlan_cluster() -> Value {
    json!({ "network": { "machineNetworks": [{ "name": "vlan", "source": { "tenant": { "config": TENANT_CONFIG } } }] } })
}

#[test]
fn fixed_addresses_go_onto_the_config_drive() {
    let pool = pool("demo", "workers", json!({ "replicas": 2, "template": { "nics": static_nics() } }));
    let objects = with_cluster(vlan_cluster(), vec![pool]);
    let secrets = of_kind(&objects, "Secret");
    assert_eq!(secrets.len(), 2);
    let data = |i: usize| -> Value {
        serde_json::from_str(&secret_text(&[secrets[i].clone()], "networkdata")).unwrap()
    };
    assert_eq!(data(0)["networks"][1]["ip_address"], "10.100.0.10");
    assert_eq!(data(1)["networks"][1]["ip_address"], "10.100.0.11");
    let interfaces = instance(&objects)["domain"]["devices"]["interfaces"].as_array().unwrap();
    for (link, interface) in data(0)["links"].as_array().unwrap().iter().zip(interfaces) {
        assert_eq!(link["ethernet_mac_address"], interface["macAddress"]);
    }
    assert_ne!(data(0)["links"][1], data(1)["links"][1], "machines must not share hardware addresses");
    golden("network_data", &data(0));
}

#[test]
fn a_secret_of_the_tenant_is_referred_to_and_network_data_is_kept_beside_it() {
    let objects = with_cluster(
        vlan_cluster(),
        vec![templated(json!({ "nics": static_nics(), "userData": { "secret": "mine" } }))],
    );
    let secrets = of_kind(&objects, "Secret");
    assert_eq!(secrets.len(), 1);
    assert!(secrets[0]["data"]["userdata"].is_null());
    let drive = &instance(&objects)["volumes"][1]["cloudInitConfigDrive"];
    assert_eq!(drive["secretRef"]["name"], "mine");
    assert_eq!(drive["networkDataSecretRef"]["name"], secrets[0]["metadata"]["name"]);
    golden("secret_of_the_tenant", drive);
}

/// The networks of the machine, and the definitions made for them.
fn network_parts(objects: &[Value]) -> Value {
    let instance = instance(objects);
    json!({
        "definitions": of_kind(objects, "NetworkAttachmentDefinition"),
        "networks": instance["networks"], "interfaces": instance["domain"]["devices"]["interfaces"],
    })
}

#[test]
fn a_default_network_takes_the_pod_networks_place() {
    let objects = with_cluster(
        json!({ "network": { "machineNetworks": [
            { "name": "data", "binding": "SRIOV", "source": { "shared": { "namespace": "nets", "name": "fast" } } },
            { "name": "main", "default": true, "source": { "tenant": { "config": TENANT_CONFIG } } }] } }),
        vec![control_plane(1)],
    );
    let parts = network_parts(&objects);
    assert_eq!(parts["networks"][0]["multus"], json!({ "default": true, "networkName": "demo/demo-main" }));
    assert_eq!(parts["networks"][1]["multus"]["networkName"], "nets/fast");
    assert!(of_kind(&objects, "Service").is_empty(), "there is no pod network they could point to");
    golden("default_network", &parts);
}

#[test]
fn machine_networks_stand_beside_the_pod_network() {
    let objects = with_cluster(vlan_cluster(), vec![templated(json!({}))]);
    let parts = network_parts(&objects);
    assert_eq!(parts["networks"][0]["pod"], json!({}));
    assert_eq!(parts["interfaces"][0]["masquerade"], json!({}));
    assert!(parts["networks"][1]["multus"]["default"].is_null());
    golden("mixed_networks", &parts);
}

#[test]
fn a_bridge_on_the_pod_network_may_move() {
    let objects =
        with_cluster(json!({ "network": { "podNetworkBinding": "Bridge" } }), vec![templated(json!({}))]);
    let vm = of_kind(&objects, "VirtualMachine")[0];
    let key = "kubevirt.io/allow-pod-bridge-network-live-migration";
    assert_eq!(vm["spec"]["template"]["metadata"]["annotations"][key], "true");
    golden("pod_bridge", &network_parts(&objects));
}

#[test]
fn secure_boot_needs_system_management_mode() {
    let instance =
        instance_of(json!({ "firmware": "UefiSecureBoot", "devices": { "tpm": { "persistent": true } } }));
    assert_eq!(instance["domain"]["features"]["smm"]["enabled"], true);
    assert_eq!(instance["domain"]["devices"]["tpm"]["persistent"], true);
    golden("secure_boot", &json!([instance["domain"]["firmware"], instance["domain"]["features"]]));
}

#[test]
fn plain_uefi_says_that_it_is_not_secure_boot() {
    let instance =
        instance_of(json!({ "firmware": "Uefi", "architecture": "arm64", "devices": { "tpm": {} } }));
    // KubeVirt takes secure boot for granted where nothing is said.
    assert_eq!(instance["domain"]["firmware"]["bootloader"], json!({ "efi": { "secureBoot": false } }));
    assert_eq!(instance["domain"]["devices"]["tpm"], json!({}));
    assert_eq!(instance["architecture"], "arm64");
}

#[test]
fn ibm_z_machines_have_no_boot_loader_of_these() {
    let instance = instance_of(json!({ "architecture": "s390x" }));
    assert!(instance["domain"]["firmware"]["bootloader"].is_null());
    golden("s390x", &json!([instance["architecture"], instance["domain"]["firmware"]]));
}

#[test]
fn devices_of_the_host_are_handed_over() {
    let instance = instance_of(json!({ "devices": { "hostDevices": [
        { "name": "gpu0", "device": "nvidia.com/GA102GL_A10", "gpu": true },
        { "name": "nvme0", "device": "intel.com/nvme" }] } }));
    let devices = &instance["domain"]["devices"];
    assert_eq!(devices["gpus"][0]["deviceName"], "nvidia.com/GA102GL_A10");
    golden("host_devices", &json!([devices["gpus"], devices["hostDevices"]]));
}

#[test]
fn name_resolution_is_the_pods() {
    let instance = instance_of(json!({ "dns": {
        "policy": "None", "nameservers": ["10.0.0.53"], "searches": ["example.com"], "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }] } }));
    assert_eq!(instance["dnsPolicy"], "None");
    golden("dns", &json!([instance["dnsPolicy"], instance["dnsConfig"]]));
}

#[test]
fn eviction_and_shutdown_are_the_machines_own() {
    let instance = instance_of(json!({ "eviction": "LiveMigrateIfPossible", "stopGraceSeconds": 600 }));
    assert_eq!(instance["evictionStrategy"], "LiveMigrateIfPossible");
    assert_eq!(instance["terminationGracePeriodSeconds"], 600);
}

#[test]
fn services_have_plain_names_in_a_namespace_of_ones_own() {
    let objects = with_cluster(json!({}), vec![control_plane(3)]);
    let services = of_kind(&objects, "Service");
    let names: Vec<&Value> = services.iter().map(|service| &service["metadata"]["name"]).collect();
    assert_eq!((names[0].as_str(), names[1].as_str()), (Some("api"), Some("api-int")));
    assert_eq!(services[0]["spec"]["type"], "LoadBalancer");
    assert_eq!(services[2]["spec"]["clusterIP"], "None");
    assert_eq!(services[2]["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(names[2], &of_kind(&objects, "VirtualMachine")[0]["metadata"]["name"]);
    assert_eq!(services.len(), 5);
    golden("services_external", &json!(services));
}

#[test]
fn services_carry_the_clusters_name_in_a_shared_namespace() {
    let objects = with_cluster(
        json!({ "platform": { "kubevirt": { "namespace": "tenants" } }, "network": { "publish": "Internal" } }),
        vec![control_plane(1)],
    );
    let services = of_kind(&objects, "Service");
    assert_eq!(services[0]["metadata"]["name"], "demo-api");
    assert_eq!(services[0]["metadata"]["namespace"], "tenants");
    assert_eq!(services[0]["spec"]["type"], "ClusterIP");
    golden("services_internal", &json!(services[..2]));
}

#[test]
fn without_a_control_plane_of_its_own_a_cluster_has_no_services() {
    assert!(of_kind(&with_cluster(json!({}), vec![templated(json!({}))]), "Service").is_empty());
}

#[test]
fn isolation_opens_what_the_cluster_needs() {
    let objects = with_cluster(
        json!({ "network": { "publish": "Internal", "allowedEgress": ["10.1.2.0/24", "fd00:1::/64"] } }),
        vec![],
    );
    let policies = of_kind(&objects, "NetworkPolicy");
    assert_eq!(policies[0]["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(policies[0]["spec"]["ingress"].is_null() && policies[0]["spec"]["egress"].is_null());
    let named =
        |name: &str| &policies.iter().find(|policy| policy["metadata"]["name"] == name).unwrap()["spec"];
    let api = &named("demo-allow-api")["ingress"][0];
    assert_eq!(api["from"], json!([{ "namespaceSelector": {} }]));
    assert_eq!(api["ports"][0]["port"], 6443);
    let peers = named("demo-allow-internet")["egress"][0]["to"].as_array().unwrap();
    assert!(peers[0]["ipBlock"]["except"].as_array().unwrap().contains(&json!("169.254.0.0/16")));
    assert_eq!(peers[1]["ipBlock"]["except"], json!(["fc00::/7", "fe80::/10"]));
    assert_eq!(peers[2]["ipBlock"]["cidr"], "10.1.2.0/24");
    golden("isolation", &json!(policies));
}

#[test]
fn a_published_api_is_open_to_everyone_and_nothing_else_is() {
    let objects = with_cluster(json!({}), vec![]);
    for policy in of_kind(&objects, "NetworkPolicy") {
        for rule in policy["spec"]["ingress"].as_array().into_iter().flatten() {
            let open = rule["from"].is_null();
            assert_eq!(open, policy["metadata"]["name"] == "demo-allow-api", "{policy}");
        }
    }
}

#[test]
fn labels_reach_the_pod_and_annotations_for_cdi_reach_the_volumes() {
    let objects = rendered(&demo(vec![pool(
        "demo",
        "workers",
        json!({
            "machineLabels": { "team": "blue" },
            "machineAnnotations": { "example.com/a": "1", "cdi.kubevirt.io/storage.usePopulator": "true" },
        }),
    )]));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    assert_eq!(vm["spec"]["template"]["metadata"]["labels"]["team"], "blue");
    assert_eq!(vm["metadata"]["annotations"], json!({ "example.com/a": "1" }));
    let volume = &vm["spec"]["dataVolumeTemplates"][0]["metadata"];
    assert_eq!(volume["annotations"], json!({ "cdi.kubevirt.io/storage.usePopulator": "true" }));
    golden("labels_and_annotations", &json!([vm["metadata"], vm["spec"]["template"]["metadata"], volume]));
}

#[test]
fn a_named_machine_has_that_name_everywhere() {
    let objects =
        rendered(&demo(vec![pool("demo", "bootstrap", json!({ "machineName": "demo-bootstrap" }))]));
    let vm = of_kind(&objects, "VirtualMachine")[0];
    assert_eq!(vm["metadata"]["name"], "demo-bootstrap");
    assert_eq!(instance(&objects)["hostname"], "demo-bootstrap");
    assert_eq!(vm["spec"]["dataVolumeTemplates"][0]["metadata"]["name"], "demo-bootstrap-root-disk");
    assert_eq!(of_kind(&objects, "Secret")[0]["metadata"]["name"], "demo-bootstrap-user-data");
}

#[test]
fn long_names_are_cut_and_stay_different() {
    let long = "n".repeat(60);
    let estate = Estate {
        clusters: vec![cluster(&long, json!({}))],
        pools: vec![pool(
            &long,
            "a-pool-with-a-long-name",
            json!({ "replicas": 2, "template": {
            "dataDisks": [{ "name": "a-disk-with-quite-a-long-name-too-that-is-cut", "size": "1Gi" }] } }),
        )],
    };
    let objects = rendered(&estate);
    let names: Vec<Value> = objects.iter().map(|object| object["metadata"]["name"].clone()).collect();
    assert!(names.iter().all(|name| name.as_str().unwrap().len() <= 63));
    golden(
        "long_names",
        &json!([names, of_kind(&objects, "VirtualMachine")[0]["spec"]["template"]["spec"]["volumes"]]),
    );
}

#[test]
fn a_dash_in_a_clusters_name_cannot_be_mistaken_for_the_end_of_it() {
    let shared = json!({ "platform": { "kubevirt": { "namespace": "tenants" } } });
    let estate = Estate {
        clusters: vec![cluster("a", shared.clone()), cluster("a-b", shared)],
        pools: vec![pool("a", "b-c", json!({})), pool("a-b", "c", json!({}))],
    };
    assert_eq!(of_kind(&rendered(&estate), "VirtualMachine").len(), 2);
}
