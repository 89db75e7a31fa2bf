//! What a machine is on its platform, around the part of the platform itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::image::OperatingSystem;

use super::cloud::CloudProviderSpec;
use crate::common::{Embedded, Ignored, IgnoredSecret, Present};

/// What a machine is on its platform.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSpec {
    /// It, written out.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<ProviderConfig>>,
    /// Where else it is described.
    ///
    /// Refused: no machine class was ever read from there.
    #[serde(skip_serializing)]
    pub value_from: Option<Present>,
}

/// What a machine is on its platform, whichever that is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderConfig {
    /// Public keys that may log in over SSH.
    ///
    /// Honoured: a key that was wrapped over several lines is put together again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_public_keys: Vec<String>,
    /// The public key of an SSH certificate authority.
    ///
    /// Warned about: Trellis installs no certificate authority for SSH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_public_key: Option<String>,
    /// The platform the machine is on.
    ///
    /// Honoured: it must be `kubevirt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_provider: Option<String>,
    /// What the machine is on that platform.
    ///
    /// Honoured: see the fields of the KubeVirt provider.
    pub cloud_provider_spec: Embedded<CloudProviderSpec>,
    /// The operating system.
    ///
    /// Honoured: it decides between cloud-init and Ignition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<OperatingSystem>,
    /// Settings of the operating system.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system_spec: Option<OperatingSystemSpec>,
    /// Fixed addresses of the machine.
    ///
    /// Mapped: they become addresses of the interface on the pod network, one machine after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// First-boot data that replaces what would be generated.
    ///
    /// Honoured: the guest gets it as it stands; it is never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-sensitive" = true))]
    pub overwrite_cloud_config: Option<String>,
}

/// Settings of the operating system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatingSystemSpec {
    /// Upgrades all packages at first boot.
    ///
    /// Honoured: as a step of the first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dist_upgrade_on_boot: Option<bool>,
    /// Keeps the operating system from updating itself.
    ///
    /// Ignored: images of Trellis never update themselves; a new image is rolled out instead.
    #[serde(skip_serializing)]
    pub disable_auto_update: Ignored,
    /// Keeps the update engine of Flatcar from running.
    ///
    /// Ignored: images of Trellis never update themselves; a new image is rolled out instead.
    #[serde(skip_serializing)]
    pub disable_update_engine: Ignored,
    /// Keeps the locksmith of Flatcar from running.
    ///
    /// Ignored: Trellis drains and replaces machines itself.
    #[serde(skip_serializing)]
    pub disable_locksmithd: Ignored,
    /// Whether Flatcar is given Ignition or cloud-init.
    ///
    /// Ignored: Trellis gives each operating system what its image reads.
    #[serde(skip_serializing)]
    pub provisioning_utility: Ignored,
    /// Attaches a subscription by itself.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub attach_subscription: Ignored,
    /// The user of a Red Hat subscription.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub rhel_subscription_manager_user: Ignored,
    /// The password of a Red Hat subscription.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub rhel_subscription_manager_password: IgnoredSecret,
    /// The organisation of a Red Hat subscription.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub rhel_organization_name: Ignored,
    /// The activation key of a Red Hat subscription.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub rhel_activation_key: IgnoredSecret,
    /// Uses the satellite server for Red Hat packages.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub rhel_use_satellite_server: Ignored,
    /// The satellite server for Red Hat packages.
    ///
    /// Ignored: subscriptions are part of the image or of the first-boot data.
    #[serde(skip_serializing)]
    pub rhel_satellite_server: Ignored,
}

/// Fixed addresses of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// The address and the prefix length of its network, such as `10.0.0.5/24`.
    ///
    /// Refused: machines of this API are on the pod network, where the infra cluster hands out the addresses; a MachinePool with a machine network can have fixed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// The router for everything outside the network.
    ///
    /// Refused: with `cidr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Name servers.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<NetworkDns>,
    /// The address families of the machine.
    ///
    /// Warned about: the addresses themselves say of which family they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_family: Option<String>,
}

/// Name servers of a machine with fixed addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkDns {
    /// Their addresses.
    ///
    /// Refused: with `cidr`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}
