//! From a claim to the volume behind it.

use std::sync::Arc;

use serde_json::Value;

use super::super::claim::{self, Facts};
use crate::client::Client;
use crate::kinds::{PV, PVC};
use crate::object::{Key, Object as _};
use crate::quantity;

/// The name storage knows a volume by.
pub(super) fn handle_of(volume: &Value) -> &str {
    let handle = volume.text("/spec/csi/volumeHandle");
    if handle.is_empty() { volume.name() } else { handle }
}

/// A claim with the volume behind it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The claim.
    pub claim: Arc<Value>,
    /// The handle of the volume.
    pub handle: String,
    /// How much of content fits, in bytes.
    pub room: u64,
}

/// The volume behind a claim that is bound.
pub(crate) fn target(client: &Client, key: &Key) -> Option<Target> {
    let claim = client.cache(&PVC).get(key)?;
    let volume = client.cache(&PV).get(&Key::cluster(claim.text("/spec/volumeName")))?;
    let capacity = quantity::whole(volume.at("/spec/capacity/storage"));
    let is_block = claim["spec"]["volumeMode"] == "Block";
    let room = if is_block {
        capacity
    } else {
        let facts = Facts::look(client);
        claim::usable(capacity, facts.overhead(claim.text("/spec/storageClassName")))
    };
    let room = u64::try_from(room).unwrap_or_default();
    Some(Target { handle: handle_of(&volume).to_owned(), claim, room })
}
