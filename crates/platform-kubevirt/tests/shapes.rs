//! CPU, memory and the rest of the hardware: goldens.

use serde_json::{Value, json};

use crate::builders::{demo, golden, instance, instance_of, of_kind, rendered, templated, with_cluster};

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
