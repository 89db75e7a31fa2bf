//! Pods that a kubelet starts from files: the control plane, and what keeps addresses on the machines' network.

mod control_plane;

use serde_json::{Value, json};

pub(crate) use control_plane::{PKI, advertised, apiserver, controller_manager, etcd, scheduler};

use crate::yaml::to_yaml;

/// Where the kubelet finds them.
pub(crate) const FOLDER: &str = "/etc/kubernetes/manifests";

/// A program in a pod of its own on the host's network.
pub(crate) struct Pod {
    pub(crate) name: &'static str,
    pub(crate) image: String,
    /// The program and its arguments; nothing starts what the image starts.
    pub(crate) command: Vec<String>,
    /// Folders and files of the host.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) cpu: &'static str,
    pub(crate) probes: Vec<Probe>,
    /// Capabilities beyond the usual ones.
    pub(crate) capabilities: &'static [&'static str],
}

/// A folder or file of the host.
pub(crate) struct Mount {
    /// Where it is on the host.
    pub(crate) path: String,
    /// Where it is in the pod.
    pub(crate) target: String,
    pub(crate) kind: &'static str,
    pub(crate) writable: bool,
}

impl Mount {
    /// A folder that is only read.
    pub(crate) fn folder(path: &str) -> Self {
        Self { path: path.to_owned(), target: path.to_owned(), kind: "DirectoryOrCreate", writable: false }
    }

    /// A file that is only read.
    pub(crate) fn file(path: &str) -> Self {
        Self { kind: "File", ..Self::folder(path) }
    }

    /// A folder that is written to.
    pub(crate) fn writable(path: &str) -> Self {
        Self { writable: true, ..Self::folder(path) }
    }
}

/// A question by HTTP that tells how a program is.
pub(crate) struct Probe {
    pub(crate) kind: &'static str,
    pub(crate) path: &'static str,
    pub(crate) port: u16,
    pub(crate) scheme: &'static str,
    pub(crate) failures: u32,
}

impl Probe {
    /// The usual three: a patient one for the start, then whether it lives and whether it is ready.
    pub(crate) fn usual(
        port: u16,
        scheme: &'static str,
        live: &'static str,
        ready: &'static str,
    ) -> Vec<Self> {
        vec![
            Self { kind: "startupProbe", path: live, port, scheme, failures: 24 },
            Self { kind: "livenessProbe", path: live, port, scheme, failures: 8 },
            Self { kind: "readinessProbe", path: ready, port, scheme, failures: 3 },
        ]
    }
}

impl Pod {
    /// The manifest.
    pub(crate) fn manifest(&self) -> String {
        let name = self.name;
        let volume = |place: usize| format!("host-{place}");
        let mut container = json!({
            "name": name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": self.cpu}},
            "volumeMounts": self.mounts.iter().enumerate().map(|(place, mount)| json!({
                "name": volume(place), "mountPath": mount.target, "readOnly": !mount.writable,
            })).collect::<Vec<_>>(),
        });
        if !self.command.is_empty() {
            container["command"] = self.command.clone().into();
        }
        if !self.capabilities.is_empty() {
            container["securityContext"] = json!({"capabilities": {"add": self.capabilities}});
        }
        for probe in &self.probes {
            container[probe.kind] = json!({
                "httpGet": {"host": "127.0.0.1", "path": probe.path, "port": probe.port, "scheme": probe.scheme},
                "periodSeconds": if probe.kind == "readinessProbe" { 1 } else { 10 },
                "timeoutSeconds": 15,
                "failureThreshold": probe.failures,
            });
        }
        let volumes: Vec<Value> = self
            .mounts
            .iter()
            .enumerate()
            .map(|(place, mount)| {
                json!({"name": volume(place), "hostPath": {"path": mount.path, "type": mount.kind}})
            })
            .collect();
        to_yaml(&json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "kube-system",
                "labels": {"component": name, "tier": "control-plane"},
            },
            "spec": {
                "containers": [container],
                "hostNetwork": true,
                // The host's name servers: the tenant's own may depend on this pod.
                "dnsPolicy": "Default",
                "priorityClassName": "system-node-critical",
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "volumes": volumes,
            },
        }))
    }
}

/// The node exporter, for systems without a package of it.
pub(crate) fn node_exporter(image: &str) -> Pod {
    Pod {
        name: "node-exporter",
        image: image.to_owned(),
        command: [
            "/bin/node_exporter",
            "--path.rootfs=/host",
            "--path.procfs=/host/proc",
            "--path.sysfs=/host/sys",
        ]
        .map(ToOwned::to_owned)
        .into(),
        mounts: vec![Mount { target: "/host".to_owned(), kind: "Directory", ..Mount::folder("/") }],
        cpu: "10m",
        probes: Vec::new(),
        capabilities: &[],
    }
}
