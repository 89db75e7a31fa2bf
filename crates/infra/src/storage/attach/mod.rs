//! Attaching volumes to nodes: who decides (the controller manager) and who does it (beside the driver).

mod attacher;
mod controller;
mod rules;

pub(super) use attacher::{Attacher, Detacher};
pub(super) use controller::AttachDetach;
pub use rules::attachment_name;

use serde_json::Value;

use crate::context::Context;
use crate::kinds::{CSI_DRIVER, VOLUME_ATTACHMENT};
use crate::object::{Key, Object as _};

/// Whether a volume is usable on a node: attached there, or of a driver whose volumes need not be.
///
/// This is the kubelet's question before it mounts a volume.
pub fn is_attached(context: &Context, volume: &Value, node: &str) -> bool {
    if !rules::is_attachable(volume, &context.client.cache(&CSI_DRIVER)) {
        return true;
    }
    let attachment =
        context.client.cache(&VOLUME_ATTACHMENT).get(&Key::cluster(&attachment_name(volume, node)));
    attachment.is_some_and(|attachment| attachment.flag("/status/attached") && !attachment.is_deleting())
}
