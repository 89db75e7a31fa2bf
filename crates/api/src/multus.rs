//! `k8s.cni.cncf.io/v1`: networks beside the pod network.

use serde::{Deserialize, Serialize};

use crate::kubevirt::{namespaced_object, parts};

namespaced_object! {
    /// A network pods can be attached to.
    NetworkAttachmentDefinition(NetworkAttachmentDefinitionSpec),
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions"
}

parts! {
    /// How a network is set up.
    struct NetworkAttachmentDefinitionSpec {
        /// The CNI configuration, as JSON text.
        config: String,
    }
}
