//! Gardener's language: a Shoot, what it refers to, and the configuration of the KubeVirt extension.
//!
//! A Shoot is a cluster and its workers are pools; Gardener hosts the control plane elsewhere, so there is no pool
//! for it. What a Shoot only names is looked up in the documents that are read together with it: machine types,
//! images and volume types in its CloudProfile, the infra namespace in the kubeconfig behind its SecretBinding.
//!
//! Disks are asked for by storage profile, not as the plain `ReadWriteOnce` claims that the extension makes: a
//! Shoot does not say how, and the profile knows better what the storage can do.

mod alone;
mod credentials;
mod disks;
mod image;
mod network;
mod origins;
mod profile;
mod shape;
mod shoot;
mod words;
mod worker;
mod write;

use trellis_api::gardener as api;

use crate::kinds::kinds;
use crate::reading::{DocumentId, Reading};

pub use write::write;

kinds! {
    /// A tenant cluster.
    Shoot(api::Shoot) = "core.gardener.cloud/v1beta1" "Shoot";
    /// What an infrastructure offers.
    CloudProfile(api::CloudProfile) = "core.gardener.cloud/v1beta1" "CloudProfile";
    /// Lets Shoots use a Secret.
    SecretBinding(api::SecretBinding) = "core.gardener.cloud/v1beta1" "SecretBinding";
    /// Lets Shoots use credentials.
    CredentialsBinding(api::CredentialsBinding) = "security.gardener.cloud/v1alpha1" "CredentialsBinding";
    /// The kubeconfig of an infra cluster.
    Secret(api::Secret) = "v1" "Secret";
    /// Networks of a Shoot.
    InfrastructureConfig(api::InfrastructureConfig) =
        "kubevirt.provider.extensions.gardener.cloud/v1alpha1" "InfrastructureConfig";
    /// Settings of a Shoot's control plane.
    ControlPlaneConfig(api::ControlPlaneConfig) =
        "kubevirt.provider.extensions.gardener.cloud/v1alpha1" "ControlPlaneConfig";
    /// Settings of a worker pool's VMs.
    WorkerConfig(api::WorkerConfig) = "kubevirt.provider.extensions.gardener.cloud/v1alpha1" "WorkerConfig";
    /// Where images are, and limits of machine types.
    CloudProfileConfig(api::CloudProfileConfig) =
        "kubevirt.provider.extensions.gardener.cloud/v1alpha1" "CloudProfileConfig";
}

/// Reads Gardener's documents into the estate.
pub fn read(objects: Vec<(DocumentId, Object)>, reading: &mut Reading) {
    let mut keyring = credentials::Keyring::default();
    let mut profiles = Vec::new();
    let mut shoots = Vec::new();
    let mut alone = Vec::new();
    for (document, object) in objects {
        let mut cx = reading.within(document);
        match object {
            Object::Shoot(shoot) => shoots.push((document, shoot)),
            Object::CloudProfile(profile) => profiles.push(profile::read(&mut cx, &profile)),
            Object::SecretBinding(binding) => keyring.add_binding(&mut cx, &binding),
            Object::CredentialsBinding(binding) => keyring.add_credentials_binding(&mut cx, &binding),
            Object::Secret(secret) => keyring.add_secret(&mut cx, &secret),
            other => alone.push((document, other)),
        }
    }
    let has_shoots = !shoots.is_empty();
    for (document, shoot) in shoots {
        shoot::read(reading, document, &shoot, &mut profiles, &mut keyring);
    }
    for profile in profiles.iter().filter(|profile| !profile.used) {
        profile.say_unused(&mut reading.within(profile.document));
    }
    keyring.say_unused(reading);
    for (document, object) in alone {
        alone::read(reading, document, &object, has_shoots);
    }
}
