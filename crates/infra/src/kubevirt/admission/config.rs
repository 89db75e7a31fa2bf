//! What the `KubeVirt` object says of how machines are admitted.

use serde_json::Value;

use crate::client::Identity;
use crate::context::Context;
use crate::kinds::KUBEVIRT;
use crate::object::Object as _;

/// Gates that are open unless they are closed by name: those that are beta in this version.
const BETA: &[&str] = &[
    "DeclarativeHotplugVolumes",
    "DecentralizedLiveMigration",
    "PanicDevices",
    "Snapshot",
    "VMExport",
    "VideoConfig",
];

/// How many vCPUs a machine may come to by adding sockets.
pub const MOST_VCPUS: i64 = 512;

/// The configuration of the installation: `spec.configuration` of the `KubeVirt` object.
#[derive(Debug, Clone, Default)]
pub struct Config(Value);

impl Config {
    /// A configuration as it is written.
    pub fn new(configuration: Value) -> Self {
        Self(configuration)
    }

    /// The configuration of the cluster as it is now; the defaults where nothing is installed yet.
    pub async fn of(context: &Context) -> Self {
        let cache = context.client(Identity::VIRT_API).cache(&KUBEVIRT);
        cache.complete().await;
        Self(cache.list("").first().map(|found| found.at("/spec/configuration").clone()).unwrap_or_default())
    }

    /// Whether a feature is on.
    pub fn gate(&self, name: &str) -> bool {
        let named = |list: &str| {
            self.0.list(&format!("/developerConfiguration/{list}")).iter().any(|one| one == name)
        };
        named("featureGates") || (BETA.contains(&name) && !named("disabledFeatureGates"))
    }

    /// The architecture of machines that name none.
    pub fn architecture(&self) -> &str {
        or(self.0.text("/architectureConfiguration/defaultArchitecture"), "amd64")
    }

    /// The type of machines of an architecture that name none.
    pub fn machine_type(&self, architecture: &str) -> &str {
        let set = self.0.text(&format!("/architectureConfiguration/{architecture}/machineType"));
        let set = or(set, self.0.text("/machineType"));
        match architecture {
            "arm64" => or(set, "virt"),
            "s390x" => or(set, "s390-ccw-virtio"),
            _ => or(set, "q35"),
        }
    }

    /// Patterns of the types machines of an architecture may have; a star at the end stands for anything.
    pub fn machine_types(&self, architecture: &str) -> Vec<String> {
        let pointer = format!("/architectureConfiguration/{architecture}/emulatedMachines");
        let set = self.0.list(&pointer);
        let set = if set.is_empty() { self.0.list("/emulatedMachines") } else { set };
        if !set.is_empty() {
            return set.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
        }
        let known: &[&str] = match architecture {
            "arm64" => &["virt*"],
            "s390x" => &["s390-ccw-virtio*"],
            _ => &["q35*", "pc-q35*"],
        };
        known.iter().map(|&name| name.to_owned()).collect()
    }

    /// The model of processors of machines that name none.
    pub fn cpu_model(&self) -> &str {
        or(self.0.text("/cpuModel"), "host-model")
    }

    /// What becomes of machines that say nothing when their host is drained; empty for nothing.
    pub fn eviction_strategy(&self) -> &str {
        self.0.text("/evictionStrategy")
    }

    /// How the interface of machines without any is bound: `bridge` or `masquerade`.
    pub fn default_binding(&self) -> &str {
        or(self.0.text("/network/defaultNetworkInterface"), "bridge")
    }

    /// Whether interfaces on the pod network may be bridges.
    pub fn bridge_on_pod_network(&self) -> bool {
        self.0.at("/network/permitBridgeInterfaceOnPodNetwork") != false
    }

    /// How often the boot-time amount of processors and memory a machine can grow to, or nothing where machines
    /// only change when they are restarted.
    pub fn growth(&self) -> Option<i64> {
        let live = or(self.0.text("/vmRolloutStrategy"), "LiveUpdate") == "LiveUpdate";
        live.then(|| {
            self.0.number("/liveUpdateConfiguration/maxHotplugRatio").filter(|ratio| *ratio > 0).unwrap_or(4)
        })
    }

    /// The most sockets a machine may grow to, where that is set.
    pub fn most_sockets(&self) -> Option<i64> {
        self.0.number("/liveUpdateConfiguration/maxCpuSockets")
    }

    /// The most memory a machine may grow to, where that is set.
    pub fn most_memory(&self) -> &Value {
        self.0.at("/liveUpdateConfiguration/maxGuest")
    }

    /// Whether a machine keeps the reference to its shape (`reference`) or is rewritten (`expand`, `expandAll`).
    pub fn reference_policy(&self) -> &str {
        or(self.0.text("/instancetype/referencePolicy"), "reference")
    }
}

fn or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beta_gates_are_open_unless_they_are_closed() {
        let plain = Config::default();
        assert!(plain.gate("Snapshot") && !plain.gate("HostDisk"));
        let gates = json!({"developerConfiguration": {"featureGates": ["HostDisk"], "disabledFeatureGates": ["Snapshot"]}});
        let config = Config::new(gates);
        assert!(!config.gate("Snapshot") && config.gate("HostDisk"));
    }

    #[test]
    fn what_is_not_set_has_the_usual_value() {
        let config = Config::default();
        assert_eq!(
            (config.architecture(), config.machine_type("amd64"), config.growth()),
            ("amd64", "q35", Some(4))
        );
        assert_eq!(config.default_binding(), "bridge");
        let config = Config::new(json!({"vmRolloutStrategy": "Stage", "machineType": "pc-q35-9.2"}));
        assert_eq!((config.machine_type("amd64"), config.growth()), ("pc-q35-9.2", None));
    }
}
