//! The instancetypes and preferences that come with every installation.

use serde_json::{Value, json};

use crate::client::{Identity, Result};
use crate::context::Context;
use crate::kinds::{CLUSTER_INSTANCETYPE, CLUSTER_PREFERENCE};
use crate::object::Object as _;

/// A series: its name, the class it is of, and what it gives beyond processors and memory.
struct Series {
    name: &'static str,
    class: &'static str,
    display: &'static str,
    /// Size, vCPUs and memory.
    sizes: &'static [(&'static str, u32, &'static str)],
    more: fn(&mut Value),
}

const SERIES: &[Series] = &[
    Series {
        name: "u1",
        class: "general.purpose",
        display: "General Purpose",
        sizes: &[
            ("nano", 1, "512Mi"),
            ("micro", 1, "1Gi"),
            ("small", 1, "2Gi"),
            ("medium", 1, "4Gi"),
            ("2xmedium", 2, "4Gi"),
            ("large", 2, "8Gi"),
            ("xlarge", 4, "16Gi"),
            ("2xlarge", 8, "32Gi"),
            ("4xlarge", 16, "64Gi"),
            ("8xlarge", 32, "128Gi"),
        ],
        more: |_| {},
    },
    Series {
        name: "o1",
        class: "overcommitted",
        display: "Overcommitted",
        sizes: &[
            ("nano", 1, "512Mi"),
            ("micro", 1, "1Gi"),
            ("small", 1, "2Gi"),
            ("medium", 1, "4Gi"),
            ("large", 2, "8Gi"),
            ("xlarge", 4, "16Gi"),
            ("2xlarge", 8, "32Gi"),
        ],
        more: |spec| spec.set("/memory/overcommitPercent", 50.into()),
    },
    Series {
        name: "cx1",
        class: "compute.exclusive",
        display: "Compute Exclusive",
        sizes: &[
            ("medium", 1, "2Gi"),
            ("large", 2, "4Gi"),
            ("xlarge", 4, "8Gi"),
            ("2xlarge", 8, "16Gi"),
            ("4xlarge", 16, "32Gi"),
            ("8xlarge", 32, "64Gi"),
        ],
        more: |spec| {
            spec.set("/cpu/dedicatedCPUPlacement", true.into());
            spec.set("/cpu/isolateEmulatorThread", true.into());
            spec.set("/cpu/numa", json!({"guestMappingPassthrough": {}}));
            spec.set("/ioThreadsPolicy", "auto".into());
            spec.set("/memory/hugepages", json!({"pageSize": "2Mi"}));
        },
    },
    Series {
        name: "m1",
        class: "memory.intensive",
        display: "Memory Intensive",
        sizes: &[
            ("large", 2, "16Gi"),
            ("xlarge", 4, "32Gi"),
            ("2xlarge", 8, "64Gi"),
            ("4xlarge", 16, "128Gi"),
            ("8xlarge", 32, "256Gi"),
        ],
        more: |spec| spec.set("/memory/hugepages", json!({"pageSize": "2Mi"})),
    },
];

/// Makes the common shapes where they are missing.
pub async fn install(context: &Context) -> Result {
    let client = context.client(Identity::VIRT_OPERATOR);
    for object in instancetypes() {
        client.create_if_absent(&CLUSTER_INSTANCETYPE, object).await?;
    }
    for object in preferences() {
        client.create_if_absent(&CLUSTER_PREFERENCE, object).await?;
    }
    Ok(())
}

fn instancetypes() -> impl Iterator<Item = Value> {
    SERIES.iter().flat_map(|series| series.sizes.iter().map(move |size| instancetype(series, size)))
}

fn instancetype(series: &Series, (size, vcpus, memory): &(&str, u32, &str)) -> Value {
    let mut spec = json!({"cpu": {"guest": vcpus}, "memory": {"guest": memory}});
    (series.more)(&mut spec);
    let series_name = series.name;
    json!({
        "metadata": {
            "name": format!("{series_name}.{size}"),
            "labels": {
                "instancetype.kubevirt.io/class": series.class,
                "instancetype.kubevirt.io/cpu": vcpus.to_string(),
                "instancetype.kubevirt.io/memory": memory,
                "instancetype.kubevirt.io/size": size,
                "instancetype.kubevirt.io/vendor": "kubevirt.io",
                "instancetype.kubevirt.io/version": "1",
                "app.kubernetes.io/component": "kubevirt",
                "app.kubernetes.io/managed-by": "virt-operator",
            },
            "annotations": {
                "instancetype.kubevirt.io/class": series.display,
                "instancetype.kubevirt.io/displayName": series.display,
            },
        },
        "spec": spec,
    })
}

/// What a Linux guest of our days likes.
fn linux() -> Value {
    json!({
        "devices": {
            "preferredDiskBus": "virtio", "preferredInterfaceModel": "virtio", "preferredRng": {},
        },
    })
}

/// What a Windows guest likes.
fn windows() -> Value {
    json!({
        "clock": {
            "preferredClockOffset": {"utc": {}},
            "preferredTimer": {
                "hpet": {"present": false}, "hyperv": {}, "pit": {"tickPolicy": "delay"},
                "rtc": {"tickPolicy": "catchup"},
            },
        },
        "cpu": {"preferredCPUTopology": "sockets"},
        "devices": {
            "preferredAutoattachInputDevice": true, "preferredDiskBus": "sata", "preferredInputBus": "usb",
            "preferredInputType": "tablet", "preferredInterfaceModel": "e1000e",
            "preferredTPM": {"persistent": true},
        },
        "features": {
            "preferredAcpi": {}, "preferredApic": {},
            "preferredHyperv": {
                "frequencies": {}, "ipi": {}, "reenlightenment": {}, "relaxed": {}, "reset": {}, "runtime": {},
                "spinlocks": {"spinlocks": 8191}, "synic": {}, "synictimer": {"direct": {}}, "tlbflush": {},
                "vapic": {}, "vpindex": {},
            },
            "preferredSmm": {},
        },
        "firmware": {"preferredEfi": {"persistent": true, "secureBoot": true}},
        "preferredTerminationGracePeriodSeconds": 3600,
    })
}

fn preferences() -> Vec<Value> {
    /// Name, what it is shown as, least vCPUs and memory.
    const GUESTS: &[(&str, &str, u32, &str)] = &[
        ("alpine", "Alpine", 1, "512Mi"),
        ("centos.stream9", "CentOS Stream 9", 1, "1.5Gi"),
        ("centos.stream10", "CentOS Stream 10", 1, "1.5Gi"),
        ("cirros", "CirrOS", 1, "256Mi"),
        ("debian", "Debian", 1, "1Gi"),
        ("fedora", "Fedora (amd64)", 1, "2Gi"),
        ("rhel.8", "Red Hat Enterprise Linux 8 (amd64)", 1, "1.5Gi"),
        ("rhel.9", "Red Hat Enterprise Linux 9 (amd64)", 1, "1.5Gi"),
        ("ubuntu", "Ubuntu", 1, "2Gi"),
        ("windows.11", "Microsoft Windows 11", 2, "4Gi"),
        ("windows.2k22", "Microsoft Windows Server 2022", 1, "2Gi"),
    ];
    GUESTS.iter().map(preference).collect()
}

fn preference((name, display, vcpus, memory): &(&str, &str, u32, &str)) -> Value {
    let is_windows = name.starts_with("windows");
    let mut spec = if is_windows { windows() } else { linux() };
    if *name == "fedora" {
        spec.set("/firmware", json!({"preferredEfi": {"secureBoot": true}}));
        spec.set("/features", json!({"preferredSmm": {}}));
    }
    spec["requirements"] = json!({"cpu": {"guest": vcpus}, "memory": {"guest": memory}});
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "instancetype.kubevirt.io/os-type": if is_windows { "windows" } else { "linux" },
                "instancetype.kubevirt.io/vendor": "kubevirt.io",
                "app.kubernetes.io/component": "kubevirt",
                "app.kubernetes.io/managed-by": "virt-operator",
            },
            "annotations": {"openshift.io/display-name": display},
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_figures_are_there() {
        let all: Vec<Value> = instancetypes().collect();
        let find = |name: &str| all.iter().find(|one| one.name() == name).unwrap();
        assert_eq!(find("u1.small")["spec"], json!({"cpu": {"guest": 1}, "memory": {"guest": "2Gi"}}));
        assert_eq!(find("u1.large").number("/spec/cpu/guest"), Some(2));
        assert!(find("cx1.large").flag("/spec/cpu/dedicatedCPUPlacement"));
        assert_eq!(find("o1.small").number("/spec/memory/overcommitPercent"), Some(50));
        let names: Vec<String> = preferences().iter().map(|one| one.name().to_owned()).collect();
        for name in ["fedora", "ubuntu", "centos.stream9", "rhel.9", "windows.11"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
