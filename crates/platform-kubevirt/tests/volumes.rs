//! Images, disks and first-boot data: goldens.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::builders::{
    demo, golden, instance, instance_of, of_kind, pool, rendered, templated, vlan_cluster, with_cluster,
};

/// The golden volumes, and the root volumes of all machines.
fn volumes(objects: &[Value]) -> Value {
    let templates =
        of_kind(objects, "VirtualMachine").into_iter().map(|vm| &vm["spec"]["dataVolumeTemplates"]);
    json!({ "golden": of_kind(objects, "DataVolume"), "templates": templates.collect::<Vec<_>>() })
}

#[test]
fn pools_share_a_golden_volume_if_they_know_the_images_size() {
    let image = json!({ "os": "ubuntu", "virtualSize": "15Gi", "source": { "http": {
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
fn a_golden_volume_is_never_changed_by_another_pool_or_by_new_credentials() {
    let sized = |name: &str, size: &str, secret: &str| {
        let image = json!({ "os": "ubuntu", "source": { "http": { "url": "https://images.example/noble.img", "secret": secret } } });
        pool("demo", name, json!({ "template": { "image": image, "rootDisk": { "size": size } } }))
    };
    let golden = |pools| -> Vec<Value> {
        of_kind(&rendered(&demo(pools)), "DataVolume").into_iter().cloned().collect()
    };
    let alone = golden(vec![sized("a", "20Gi", "s")]);
    let both = golden(vec![sized("a", "20Gi", "s"), sized("b", "12Gi", "s")]);
    assert!(both.contains(&alone[0]) && both.len() == 2);
    let renewed = golden(vec![sized("a", "20Gi", "t")]);
    assert_eq!(renewed[0]["metadata"]["name"], alone[0]["metadata"]["name"]);
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

fn secret_text(objects: &[Value], key: &str) -> String {
    let encoded = of_kind(objects, "Secret")[0]["data"][key].as_str().unwrap().to_owned();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap()).unwrap()
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
fn user_data_kept_elsewhere_is_left_for_others_to_copy_and_network_data_is_kept_beside_it() {
    let objects = with_cluster(
        vlan_cluster(),
        vec![templated(json!({ "nics": static_nics(), "userData": { "secret": "mine" } }))],
    );
    let secrets = of_kind(&objects, "Secret");
    assert_eq!(secrets.len(), 1);
    assert!(secrets[0]["data"]["userdata"].is_null());
    let drive = &instance(&objects)["volumes"][1]["cloudInitConfigDrive"];
    let machine = of_kind(&objects, "VirtualMachine")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(drive["secretRef"]["name"], format!("{machine}-user-data"));
    assert_eq!(drive["networkDataSecretRef"]["name"], secrets[0]["metadata"]["name"]);
    golden("secret_of_the_tenant", drive);
}
