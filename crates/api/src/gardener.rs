//! Gardener's kinds: the Shoot, what it refers to, and the configuration of its KubeVirt extension.
//!
//! - [`shoot`]: `core.gardener.cloud/v1beta1` Shoot;
//! - [`worker`]: the worker pools of a Shoot;
//! - [`profile`]: CloudProfile, which says what machine types, images and volumes there are;
//! - [`binding`]: SecretBinding, CredentialsBinding and the Secret with the infra cluster's kubeconfig;
//! - [`config`]: `kubevirt.provider.extensions.gardener.cloud/v1alpha1`, the KubeVirt extension's own kinds;
//! - [`device`]: the parts of a VM that a WorkerConfig describes.

pub mod binding;
pub mod config;
pub mod device;
pub mod profile;
pub mod shoot;
pub mod worker;

pub use binding::{CredentialsBinding, Secret, SecretBinding};
pub use config::{CloudProfileConfig, ControlPlaneConfig, InfrastructureConfig, WorkerConfig};
pub use profile::CloudProfile;
pub use shoot::Shoot;

/// The version of Gardener's own kinds.
pub const CORE: &str = "core.gardener.cloud/v1beta1";
/// The version of the KubeVirt extension's kinds.
pub const KUBEVIRT: &str = "kubevirt.provider.extensions.gardener.cloud/v1alpha1";
