//! Everything this crate renders, as one type.

use std::fmt;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde_json::Value;
use trellis_api::cdi::DataVolume;
use trellis_api::instancetype::{VirtualMachineInstancetype, VirtualMachinePreference};
use trellis_api::kubevirt::VirtualMachine;
use trellis_api::multus::NetworkAttachmentDefinition;

/// An object of the infra cluster.
///
/// Its debug text is its name alone: Secrets and request headers must not get into logs.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Object {
    /// Who may talk to the machines and to whom they may talk.
    NetworkPolicy(Box<NetworkPolicy>),
    /// A network of the tenant.
    NetworkAttachmentDefinition(Box<NetworkAttachmentDefinition>),
    /// CPU and memory of a flavor.
    VirtualMachineInstancetype(Box<VirtualMachineInstancetype>),
    /// Device defaults of a flavor.
    VirtualMachinePreference(Box<VirtualMachinePreference>),
    /// A golden volume.
    DataVolume(Box<DataVolume>),
    /// A name for the API or for a machine.
    Service(Box<Service>),
    /// What a machine reads at first boot.
    Secret(Box<Secret>),
    /// A machine.
    VirtualMachine(Box<VirtualMachine>),
}

/// Runs the same expression on whatever object it is.
macro_rules! with_object {
    ($self:expr, $object:ident => $body:expr) => {
        match $self {
            Object::NetworkPolicy($object) => $body,
            Object::NetworkAttachmentDefinition($object) => $body,
            Object::VirtualMachineInstancetype($object) => $body,
            Object::VirtualMachinePreference($object) => $body,
            Object::DataVolume($object) => $body,
            Object::Service($object) => $body,
            Object::Secret($object) => $body,
            Object::VirtualMachine($object) => $body,
        }
    };
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind(), self.namespace(), self.name())
    }
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> &'static str {
        fn kind_of<T: Resource>(_: &T) -> &'static str {
            T::KIND
        }
        with_object!(self, object => kind_of(object.as_ref()))
    }

    /// Its name, namespace, labels and annotations.
    pub fn metadata(&self) -> &ObjectMeta {
        with_object!(self, object => Metadata::metadata(object.as_ref()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// The object as it is sent.
    pub fn to_json(&self) -> Value {
        // Made of strings, numbers, lists and string-keyed maps only, which always serialise.
        with_object!(self, object => serde_json::to_value(object).unwrap_or(Value::Null))
    }
}
