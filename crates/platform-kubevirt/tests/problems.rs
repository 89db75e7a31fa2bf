//! What the platform says about estates that it cannot render, or that would not work as intended.

use serde_json::{Value, json};
use trellis_model::{Estate, Problem, Severity};
use trellis_platform_kubevirt::{check, fresh_identity, missing, render, render_machine};

use crate::builders::{cluster, demo, of_kind, pool, templated};

/// The problem with that code, which must be there.
fn problem(estate: &Estate, code: &str) -> Problem {
    let problems = render(estate).problems;
    let found = problems.iter().find(|problem| problem.code == code).cloned();
    found.unwrap_or_else(|| panic!("no {code} among {problems:#?}"))
}

fn of_template(patch: Value, code: &str) -> Problem {
    problem(&demo(vec![templated(patch)]), code)
}

fn objects(estate: &Estate) -> Vec<Value> {
    render(estate).objects.iter().map(trellis_platform_kubevirt::Object::to_json).collect()
}

#[test]
fn a_plain_estate_has_no_problems() {
    assert_eq!(check(&demo(vec![templated(json!({}))])), []);
}

#[test]
fn what_is_missing_is_no_problem_until_machines_are_made() {
    let estate = demo(vec![templated(json!({ "image": { "source": null } }))]);
    assert_eq!(check(&estate), []);
    assert_eq!(missing(&estate)[0].code, "image-without-source");
}

#[test]
fn clusters_of_other_platforms_are_left_out_with_one_error() {
    let id = "11111111-2222-3333-4444-555555555555";
    let ovirt =
        json!({ "platform": { "kubevirt": null, "ovirt": { "clusterId": id, "storageDomainId": id } } });
    let estate = Estate { clusters: vec![cluster("demo", ovirt)], pools: vec![templated(json!({}))] };
    let rendered = render(&estate);
    assert!(rendered.objects.is_empty());
    assert_eq!(rendered.problems.len(), 1);
    assert_eq!(
        rendered.problems[0].message,
        "oVirt machines are rendered by the oVirt platform, which is not part of this build"
    );
    let (cluster, pool) = (&estate.clusters[0], &estate.pools[0]);
    assert!(render_machine(cluster, pool, &fresh_identity(cluster, pool, 0), None).is_empty());
}

#[test]
fn machines_without_an_image_or_a_known_flavor_are_left_out() {
    let no_image = pool("demo", "no-image", json!({ "template": { "image": { "source": null } } }));
    let no_flavor = pool("demo", "no-flavor", json!({ "template": { "shape": { "flavor": "huge-99" } } }));
    for (bad, code) in [(no_image, "image-without-source"), (no_flavor, "unknown-flavor")] {
        let name = bad.name.to_string();
        let estate = demo(vec![bad, pool("demo", "good", json!({}))]);
        let found = problem(&estate, code);
        assert_eq!(found.severity, Severity::Error);
        assert!(found.message.contains(&name), "{found}");
        let rendered = objects(&estate);
        let vms = of_kind(&rendered, "VirtualMachine");
        assert_eq!(vms.len(), 1);
        assert_eq!(vms[0]["metadata"]["labels"]["trellis.dev/pool"], "good");
    }
}

#[test]
fn what_only_ovirt_has_is_refused() {
    let id = "11111111-2222-3333-4444-555555555555";
    of_template(json!({ "image": { "source": { "ovirtTemplate": "rhcos" } } }), "ovirt-template");
    let nics = json!([{ "name": "a", "network": { "ovirtProfile": id } }]);
    of_template(json!({ "nics": nics }), "ovirt-network");
    of_template(json!({ "nics": [{ "name": "a", "network": { "machine": "nowhere" } }] }), "unknown-network");
}

#[test]
fn labels_that_are_ours_or_kubevirts_are_refused_and_not_rendered() {
    for key in
        ["trellis.dev/cluster", "trellis.dev/anything", "kubevirt.io/nodeName", "kubevirt.io/created-by"]
    {
        let estate = demo(vec![pool("demo", "workers", json!({ "machineLabels": { key: "x" } }))]);
        assert_eq!(problem(&estate, "reserved-label").severity, Severity::Error);
        let rendered = objects(&estate);
        let labels = &of_kind(&rendered, "VirtualMachine")[0]["spec"]["template"]["metadata"]["labels"];
        assert_ne!(labels[key], "x");
        assert_eq!(labels["trellis.dev/cluster"], "demo");
    }
    let replaced = json!({ "machineLabels": { "cluster.x-k8s.io/role": "x" } });
    assert_eq!(
        problem(&demo(vec![pool("demo", "workers", replaced)]), "label-replaced").severity,
        Severity::Warning
    );
}

#[test]
fn user_data_in_an_annotation_is_refused_and_not_rendered() {
    let annotated = json!({ "machineAnnotations": { "kubevirt.io/ignitiondata": "s3cret" } });
    let estate = demo(vec![pool("demo", "workers", annotated)]);
    let found = problem(&estate, "ignition-annotation");
    assert!(!found.to_string().contains("s3cret"));
    assert!(!format!("{:?}", objects(&estate)).contains("s3cret"));
}

#[test]
fn debug_texts_hold_no_user_data() {
    let rendered = render(&demo(vec![templated(json!({ "userData": { "inline": "s3cret" } }))]));
    let text = format!("{:?}", rendered.objects);
    assert!(text.contains("Secret demo/demo-workers-") && !text.contains("userdata"), "{text}");
}

#[test]
fn interrupt_vectors_are_counted() {
    let wide = |cpus: u32, disks: usize| {
        let disks: Vec<Value> =
            (0..disks).map(|i| json!({ "name": format!("d{i}"), "size": "1Gi" })).collect();
        json!({ "shape": { "custom": { "cpu": { "topology": { "sockets": cpus } }, "memory": { "guest": "8Gi" } } },
            "dataDisks": disks, "devices": { "blockMultiQueue": true, "networkMultiQueue": true } })
    };
    // Root disk and config drive: 2 × (16 + 1); interface: 2 × 16 + 2; serial port and balloon: 4.
    assert_eq!(check(&demo(vec![templated(wide(16, 0))])), []);
    let found = of_template(wide(32, 4), "too-many-msi-vectors");
    assert_eq!(found.severity, Severity::Error);
    // 6 × 33 + 66 + 4.
    assert!(found.message.contains("268"), "{found}");
    assert!(found.message.contains("virtio disks 198"), "{found}");
}

#[test]
fn what_keeps_a_machine_from_moving_is_said() {
    let moving = |patch: Value| crate::builders::merged(json!({ "eviction": "LiveMigrate" }), patch);
    let once = json!({ "rootDisk": { "size": "20Gi", "storage": { "accessMode": "ReadWriteOnce" } } });
    assert_eq!(of_template(moving(once), "disk-not-migratable").severity, Severity::Warning);
    let claim = json!({ "dataDisks": [{ "name": "d", "size": "1Gi", "storage": { "request": "Claim" } }] });
    assert!(of_template(moving(claim), "disk-not-migratable").path.contains("dataDisks[d]"));
    let device = json!({ "devices": { "hostDevices": [{ "name": "g", "device": "a/b" }] } });
    of_template(moving(device), "device-not-migratable");
    let bridge = json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "binding": "Bridge" }] });
    of_template(moving(bridge), "pod-bridge-migration");
    of_template(moving(json!({ "shape": { "flavor": "high-performance-4" } })), "host-passthrough-migration");
    let many = json!({ "rootDisk": { "size": "20Gi", "storage": { "accessMode": "ReadWriteMany" } } });
    assert_eq!(check(&demo(vec![templated(moving(many))])), []);
}

#[test]
fn disks_are_checked() {
    let sata = json!({ "dataDisks": [{ "name": "d", "size": "1Gi", "device": { "bus": "sata", "dedicatedIoThread": true } }] });
    assert_eq!(of_template(sata, "io-thread-without-virtio").severity, Severity::Error);
    let serial = json!({ "rootDisk": { "size": "9Gi", "device": { "serial": "A23456789012345678901" } } });
    assert_eq!(of_template(serial, "serial-cut").severity, Severity::Warning);
    let disks: Vec<Value> = (0..255)
        .map(|i| json!({ "name": format!("d{i}"), "size": "1Gi", "device": { "bus": "scsi" } }))
        .collect();
    assert_eq!(of_template(json!({ "dataDisks": disks }), "too-many-volumes").severity, Severity::Error);
}

#[test]
fn hardware_that_does_not_exist_is_refused() {
    of_template(json!({ "architecture": "arm64", "firmware": "UefiSecureBoot" }), "secure-boot-on-arm");
    of_template(json!({ "architecture": "s390x", "firmware": "Uefi" }), "uefi-on-s390x");
    assert_eq!(
        of_template(json!({ "devices": { "tpm": { "persistent": true } } }), "persistent-tpm").severity,
        Severity::Notice
    );
    let twice = json!([{ "name": "g", "device": "a/b" }, { "name": "g", "device": "a/c" }]);
    of_template(json!({ "devices": { "hostDevices": twice } }), "duplicate-host-device");
    of_template(json!({ "placement": { "tolerations": [{ "value": "x" }] } }), "toleration-without-key");
    of_template(json!({ "dns": { "searches": ["example.com."] } }), "bad-search-domain");
    let old_disk = json!([{ "name": "d", "size": "1Gi", "device": { "bus": "usb" } }]);
    of_template(
        json!({ "architecture": "arm64", "firmware": "Uefi", "dataDisks": old_disk }),
        "bus-of-another-architecture",
    );
}

#[test]
fn cpu_and_memory_that_kubevirt_refuses_are_found() {
    let shape =
        |cpu: Value, memory: Value| json!({ "shape": { "custom": { "cpu": cpu, "memory": memory } } });
    let guest = json!({ "guest": "4Gi" });
    let pages = json!({ "guest": "4Gi", "request": "4097Mi", "hugepages": "2Mi" });
    of_template(shape(json!({ "topology": {} }), pages), "hugepages-request");
    let pinned = json!({ "topology": { "sockets": 2 }, "dedicated": {} });
    of_template(shape(pinned, json!({ "request": "2Gi", "limit": "4Gi" })), "pinned-memory");
    let threads = |threads: u32| json!({ "topology": { "threads": threads }, "dedicated": {} });
    of_template(shape(threads(4), guest.clone()), "pinned-threads");
    let on_arm =
        |patch: Value| crate::builders::merged(json!({ "architecture": "arm64", "firmware": "Uefi" }), patch);
    of_template(on_arm(shape(threads(2), guest.clone())), "pinned-threads");
    let model = json!({ "topology": {}, "model": "host-model" });
    of_template(on_arm(shape(model, guest)), "cpu-model-on-arm");
}

#[test]
fn images_and_addresses_are_checked() {
    let summed = json!({ "delivery": "PerMachine", "source": { "http": { "url": "http://x/y", "checksum": "md5:00" } } });
    assert_eq!(of_template(json!({ "image": summed }), "checksum-not-checked").severity, Severity::Warning);
    let other = json!({ "source": { "pvc": { "namespace": "images", "name": "x" } } });
    of_template(json!({ "image": other }), "clone-from-other-namespace");
    let pod_address = json!([{ "name": "a", "network": { "pod": {} }, "binding": "Masquerade", "mac": "02:00:00:00:00:00",
        "addresses": { "first": "10.0.0.5/24" } }]);
    of_template(json!({ "nics": pod_address }), "static-address-on-pod-network");
    of_template(json!({ "nics": pod_address }), "reserved-mac");
    of_template(json!({ "nics": pod_address, "image": { "os": "flatcar" } }), "static-address-with-ignition");
}

#[test]
fn user_data_that_loses_something_is_pointed_out() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA";
    let inline = json!({ "sshKeys": [key], "userData": { "inline": "#!/bin/sh", "upgradePackages": true } });
    of_template(inline.clone(), "ssh-keys-beside-user-data");
    of_template(inline, "packages-not-upgraded");
}

#[test]
fn what_an_instance_type_cannot_hold_is_said() {
    let flavor = |compute: Value, preference: Value, code: &str| {
        let settings = json!({ "flavors": { "own": { "compute": compute } } });
        let mut template = json!({ "shape": { "flavor": "own" } });
        template["preference"] = preference;
        let pools = vec![pool("demo", "workers", json!({ "template": template }))];
        problem(&Estate { clusters: vec![cluster("demo", settings)], pools }, code)
    };
    let memory = json!({ "guest": "4Gi" });
    let asked = json!({ "cpu": { "topology": { "sockets": 2 }, "request": "100m" }, "memory": memory });
    assert_eq!(flavor(asked, Value::Null, "flavor-cpu-request").severity, Severity::Notice);
    flavor(json!({ "cpu": { "limit": "2" }, "memory": memory }), Value::Null, "flavor-limit");
    flavor(json!({ "cpu": { "limit": "2" }, "memory": { "limit": "4Gi" } }), Value::Null, "flavor-limit");
    flavor(
        json!({ "cpu": { "topology": {} }, "memory": { "guest": "4Gi", "request": "5Gi" } }),
        Value::Null,
        "flavor-memory-request",
    );
    flavor(
        json!({ "cpu": { "topology": { "cores": 2, "threads": 4 } }, "memory": memory }),
        Value::Null,
        "flavor-topology",
    );
    flavor(
        json!({ "cpu": { "topology": { "cores": 2 } }, "memory": memory }),
        json!({ "name": "x" }),
        "flavor-topology",
    );
}

#[test]
fn names_that_are_taken_are_refused_and_the_first_stays() {
    let twins = vec![
        pool("demo", "a", json!({ "machineName": "same" })),
        pool("demo", "b", json!({ "machineName": "same" })),
    ];
    let rendered = render(&demo(twins));
    let taken = rendered.problems.iter().filter(|problem| problem.code == "name-taken").count();
    assert_eq!(taken, 2, "the Secret and the virtual machine");
    let named = objects(&demo(vec![pool("demo", "a", json!({ "machineName": "same" }))]));
    assert_eq!(rendered.objects.len(), named.len());
}

#[test]
fn services_must_begin_with_a_letter() {
    let masters = json!({ "role": "control-plane" });
    let estate = Estate {
        clusters: vec![cluster("1st", json!({ "baseDomain": "example.com" }))],
        pools: vec![pool("1st", "m", masters)],
    };
    assert_eq!(problem(&estate, "service-name").severity, Severity::Error);
    let nameless = vec![cluster("1st", json!({}))];
    let workers = Estate { clusters: nameless, pools: vec![pool("1st", "w", json!({}))] };
    assert_eq!(check(&workers), []);
}
