//! The pod a machine runs in.

use serde_json::{Map, Value, json};

use super::networks;
use super::resources;
use super::volumes;
use crate::kinds::VMI;
use crate::kubevirt::names::{
    COMPONENT_LABEL, CREATED_BY_LABEL, DOMAIN_ANNOTATION, LATEST_API_ANNOTATION, MACHINE_TYPE_LABEL,
    PROVISIONING_ANNOTATION, SCHEDULABLE_LABEL, STORAGE_API_ANNOTATION, UNPAUSED_GATE, VERSION,
    VM_NAME_LABEL, VMI_ID_LABEL,
};
use crate::kubevirt::uuid;
use crate::logs::lines::CONSOLE;
use crate::object::{Object as _, owned_by};

/// How long a guest has for shutting down, unless it is said otherwise, in seconds.
pub const GRACE: i64 = 30;
/// How much longer its pod has.
const MORE_GRACE: i64 = 30;
/// Who the processes of a launcher are.
const USER: i64 = 107;

/// The image of launchers.
pub fn image() -> String {
    format!("kubevirt/virt-launcher:{VERSION}")
}

/// How long the guest of an instance has for shutting down, in seconds.
pub fn grace(vmi: &Value) -> i64 {
    vmi.number("/spec/terminationGracePeriodSeconds").unwrap_or(GRACE)
}

/// The host name of the guest.
pub fn hostname(vmi: &Value) -> String {
    let name = match vmi.text("/spec/hostname") {
        "" => vmi.name().split('.').next().unwrap_or_default(),
        given => given,
    };
    name.chars().take(63).collect::<String>().trim_end_matches('-').to_owned()
}

/// The pod that runs an instance. `block` says which claims are block devices.
pub fn launcher(vmi: &Value, block: &dyn Fn(&str) -> bool) -> Value {
    let spec = vmi.at("/spec");
    let mut pod = json!({
        "metadata": {
            "generateName": format!("virt-launcher-{}-", vmi.name()),
            "namespace": vmi.namespace(),
            "labels": labels(vmi),
            "annotations": annotations(vmi),
            "ownerReferences": [owned_by(&VMI, vmi)],
        },
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "hostname": hostname(vmi),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace(vmi).saturating_add(MORE_GRACE),
            "nodeSelector": node_selector(spec),
            "readinessGates": [{"conditionType": UNPAUSED_GATE}],
            "securityContext": {"fsGroup": USER, "runAsGroup": USER, "runAsNonRoot": true, "runAsUser": USER},
        },
    });
    for (from, to) in [
        ("/subdomain", "subdomain"),
        ("/affinity", "affinity"),
        ("/tolerations", "tolerations"),
        ("/topologySpreadConstraints", "topologySpreadConstraints"),
        ("/schedulerName", "schedulerName"),
        ("/priorityClassName", "priorityClassName"),
        ("/dnsPolicy", "dnsPolicy"),
        ("/dnsConfig", "dnsConfig"),
        ("/serviceAccountName", "serviceAccountName"),
        ("/resourceClaims", "resourceClaims"),
    ] {
        if !spec.at(from).is_null() {
            pod["spec"][to] = spec.at(from).clone();
        }
    }
    let account =
        spec.list("/volumes").iter().find_map(|one| one.at("/serviceAccount/serviceAccountName").as_str());
    if let Some(account) = account {
        pod["spec"]["serviceAccountName"] = account.into();
        pod["spec"]["automountServiceAccountToken"] = true.into();
    }
    let secrets = volumes::pull_secrets(spec);
    if !secrets.is_empty() {
        pod["spec"]["imagePullSecrets"] = secrets.into();
    }
    let mounts = volumes::of(vmi, block);
    let mut containers = vec![compute(vmi, &mounts)];
    containers.extend(volumes::disk_containers(spec));
    let mut first = volumes::first_containers(spec);
    if spec.flag("/domain/devices/logSerialConsole") {
        first.push(json!({
            "name": CONSOLE, "image": image(), "restartPolicy": "Always",
            "command": ["/usr/bin/virt-tail", "--logfile", "/var/run/kubevirt-private/virt-serial0-log"],
            "resources": {"requests": {"cpu": "5m", "memory": "35M"}, "limits": {"cpu": "15m", "memory": "60M"}},
        }));
    }
    if !first.is_empty() {
        pod["spec"]["initContainers"] = first.into();
    }
    pod["spec"]["containers"] = containers.into();
    pod["spec"]["volumes"] = mounts.volumes.into();
    pod
}

/// A pod that is scheduled in place of the launcher only to have the claims bound where the instance will run.
pub fn provisioner(vmi: &Value, block: &dyn Fn(&str) -> bool) -> Value {
    let mut pod = launcher(vmi, block);
    pod.set_annotation(PROVISIONING_ANNOTATION, "true");
    if let Some(containers) = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut) {
        containers.truncate(1);
        for container in containers {
            container["command"] = json!(["/bin/bash", "-c", "echo", "bound PVCs"]);
        }
    }
    pod.unset("/spec/initContainers");
    pod
}

fn labels(vmi: &Value) -> Value {
    let mut labels = vmi.at("/metadata/labels").as_object().cloned().unwrap_or_default();
    for (name, value) in [
        (COMPONENT_LABEL, "virt-launcher".to_owned()),
        (CREATED_BY_LABEL, vmi.uid().to_owned()),
        (VM_NAME_LABEL, hostname(vmi)),
        (VMI_ID_LABEL, uuid::label(vmi.name())),
    ] {
        labels.insert(name.to_owned(), value.into());
    }
    labels.into()
}

fn annotations(vmi: &Value) -> Value {
    let mut annotations: Map<String, Value> = vmi
        .at("/metadata/annotations")
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| {
            !name.starts_with("kubectl.kubernetes.io")
                && name.as_str() != LATEST_API_ANNOTATION
                && name.as_str() != STORAGE_API_ANNOTATION
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in [
        (DOMAIN_ANNOTATION, vmi.name()),
        ("kubectl.kubernetes.io/default-container", "compute"),
        ("kubevirt.io/migrationTransportUnix", "true"),
        ("descheduler.alpha.kubernetes.io/request-evict-only", ""),
    ] {
        annotations.insert(name.to_owned(), value.into());
    }
    if let Some(list) = networks::annotation(vmi) {
        annotations.insert(networks::NETWORKS.to_owned(), list.into());
    }
    if let Some(network) = networks::default_network(vmi) {
        annotations.insert(networks::DEFAULT_NETWORK.to_owned(), network.into());
    }
    annotations.into()
}

fn node_selector(spec: &Value) -> Value {
    let mut selector = spec.at("/nodeSelector").as_object().cloned().unwrap_or_default();
    selector.insert(SCHEDULABLE_LABEL.to_owned(), "true".into());
    let architecture = match spec.text("/architecture") {
        "" => "amd64",
        given => given,
    };
    selector.insert("kubernetes.io/arch".to_owned(), architecture.into());
    let machine = spec.text("/domain/machine/type");
    if !machine.is_empty() {
        selector.insert(format!("{MACHINE_TYPE_LABEL}{machine}"), "true".into());
    }
    match spec.text("/domain/cpu/model") {
        "" | "host-model" | "host-passthrough" => {}
        model => {
            selector.insert(format!("cpu-model.node.kubevirt.io/{model}"), "true".into());
        }
    }
    for feature in spec.list("/domain/cpu/features") {
        if matches!(feature.text("/policy"), "" | "require") {
            let name = format!("cpu-feature.node.kubevirt.io/{}", feature.text("/name"));
            selector.insert(name, "true".into());
        }
    }
    if spec.flag("/domain/cpu/dedicatedCpuPlacement") {
        selector.insert("cpumanager".to_owned(), "true".into());
    }
    selector.into()
}

/// The container the machine runs in.
fn compute(vmi: &Value, mounts: &volumes::Mounts) -> Value {
    let grace = grace(vmi).saturating_add(MORE_GRACE / 2).to_string();
    let mut container = json!({
        "name": "compute",
        "image": image(),
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "/usr/bin/virt-launcher-monitor", "--qemu-timeout", "300s", "--name", vmi.name(), "--uid", vmi.uid(),
            "--namespace", vmi.namespace(), "--kubevirt-share-dir", "/var/run/kubevirt",
            "--ephemeral-disk-dir", "/var/run/kubevirt-ephemeral-disks",
            "--container-disk-dir", "/var/run/kubevirt/container-disks",
            "--grace-period-seconds", grace, "--hook-sidecars", "0", "--ovmf-path", "/usr/share/OVMF",
            "--run-as-nonroot",
        ],
        "env": [
            {"name": "XDG_CACHE_HOME", "value": "/var/run/kubevirt-private"},
            {"name": "XDG_CONFIG_HOME", "value": "/var/run/kubevirt-private"},
            {"name": "XDG_RUNTIME_DIR", "value": "/var/run"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ],
        "resources": resources::compute(vmi),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "privileged": false, "runAsGroup": USER, "runAsNonRoot": true, "runAsUser": USER,
        },
        "volumeMounts": mounts.mounts,
    });
    if !mounts.devices.is_empty() {
        container["volumeDevices"] = mounts.devices.clone().into();
    }
    let ports = networks::ports(vmi);
    if !ports.is_empty() {
        container["ports"] = ports.into();
    }
    if let Some(probe) = probe(vmi.at("/spec/readinessProbe")) {
        container["readinessProbe"] = probe;
    }
    if let Some(probe) = probe(vmi.at("/spec/livenessProbe")) {
        container["livenessProbe"] = probe;
    }
    container
}

/// A probe of the guest as one of the container: what has to be asked of the guest is asked by a program.
fn probe(probe: &Value) -> Option<Value> {
    if !probe.is_object() {
        return None;
    }
    let mut own = probe.clone();
    if probe.get("guestAgentPing").is_some() {
        own.unset("/guestAgentPing");
        own["exec"] = json!({"command": ["virt-probe", "--guestAgentPing"]});
    } else if let Some(command) = probe.pointer("/exec/command").and_then(Value::as_array) {
        let mut wrapped = vec![json!("virt-probe"), json!("--command")];
        wrapped.extend(command.iter().cloned());
        own["exec"] = json!({"command": wrapped});
    }
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi() -> Value {
        json!({
            "metadata": {
                "name": "one", "namespace": "a", "uid": "u", "labels": {"app": "web"},
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes",
                    "kubevirt.io/latest-observed-api-version": "v1",
                },
            },
            "spec": {
                "architecture": "amd64",
                "domain": {
                    "cpu": {"sockets": 2, "cores": 1, "threads": 1},
                    "memory": {"guest": "1Gi"}, "machine": {"type": "q35"},
                    "devices": {
                        "interfaces": [
                            {"name": "default", "masquerade": {}, "ports": [{"port": 22, "name": "ssh"}]},
                            {"name": "blue", "bridge": {}, "macAddress": "02:00:00:00:00:01"},
                        ],
                        "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                    },
                },
                "networks": [{"name": "default", "pod": {}}, {"name": "blue", "multus": {"networkName": "nets/blue"}}],
                "volumes": [
                    {"name": "root", "dataVolume": {"name": "root-disk"}},
                    {"name": "init", "cloudInitNoCloud": {"secretRef": {"name": "data"}}},
                ],
                "nodeSelector": {"zone": "z"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "topologySpreadConstraints": [{"maxSkew": 1}],
                "terminationGracePeriodSeconds": 180,
                "hostname": "host", "subdomain": "sub",
            },
        })
    }

    #[test]
    fn the_marks_of_a_launcher() {
        let pod = launcher(&vmi(), &|_| true);
        assert_eq!(pod["metadata"]["generateName"], "virt-launcher-one-");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({
                "app": "web", "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "u",
                "vm.kubevirt.io/name": "host", "vmi.kubevirt.io/id": "one",
            })
        );
        assert_eq!(
            pod["metadata"]["annotations"],
            json!({
                "mine": "yes", "kubevirt.io/domain": "one",
                "kubectl.kubernetes.io/default-container": "compute",
                "kubevirt.io/migrationTransportUnix": "true",
                "descheduler.alpha.kubernetes.io/request-evict-only": "",
                "k8s.v1.cni.cncf.io/networks":
                    "[{\"name\":\"blue\",\"namespace\":\"nets\",\"mac\":\"02:00:00:00:00:01\",\"interface\":\"pod16477688c0e\"}]",
            })
        );
        assert!(pod.is_controlled_by("u"));
    }

    #[test]
    fn the_specification_of_a_launcher() {
        let pod = launcher(&vmi(), &|_| true);
        let spec = &pod["spec"];
        assert_eq!(
            spec["nodeSelector"],
            json!({
                "zone": "z", "kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64",
                "machine-type.node.kubevirt.io/q35": "true",
            })
        );
        assert_eq!(spec["tolerations"], json!([{"key": "k", "operator": "Exists"}]));
        assert_eq!(spec["affinity"], json!({"nodeAffinity": {}}));
        assert_eq!(spec["topologySpreadConstraints"], json!([{"maxSkew": 1}]));
        assert_eq!(spec["terminationGracePeriodSeconds"], 210);
        assert_eq!((&spec["hostname"], &spec["subdomain"]), (&json!("host"), &json!("sub")));
        assert_eq!(
            spec["readinessGates"],
            json!([{"conditionType": "kubevirt.io/virtual-machine-unpaused"}])
        );
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["enableServiceLinks"], false);
        assert_eq!(spec["automountServiceAccountToken"], false);
        let compute = &spec["containers"][0];
        assert_eq!(compute["name"], "compute");
        assert_eq!(compute["volumeDevices"], json!([{"name": "root", "devicePath": "/dev/root"}]));
        assert_eq!(compute["ports"], json!([{"name": "ssh", "containerPort": 22, "protocol": "TCP"}]));
        let volumes = spec["volumes"].as_array().unwrap();
        assert!(
            volumes.contains(&json!({"name": "root", "persistentVolumeClaim": {"claimName": "root-disk"}}))
        );
        assert!(volumes.contains(&json!({"name": "init-udata", "secret": {"secretName": "data"}})));
    }

    #[test]
    fn a_guest_without_a_name_has_that_of_its_instance() {
        let mut vmi = vmi();
        vmi.unset("/spec/hostname");
        vmi.set("/metadata/name", "one.two".into());
        assert_eq!(hostname(&vmi), "one");
    }

    #[test]
    fn a_provisioner_only_binds() {
        let pod = provisioner(&vmi(), &|_| false);
        assert_eq!(pod.annotation("kubevirt.io/ephemeral-provisioning"), "true");
        assert_eq!(pod["spec"]["containers"][0]["command"][0], "/bin/bash");
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
        assert!(
            mounts
                .contains(&json!({"name": "root", "mountPath": "/var/run/kubevirt-private/vmi-disks/root"}))
        );
    }
}
