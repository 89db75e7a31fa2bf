//! What is on the volumes: how much, and what it is a copy of.

use std::collections::HashMap;

use parking_lot::RwLock;

/// What a volume or a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// How large the disk looks to a guest, in bytes; 0 on an empty volume.
    pub virtual_size: u64,
    /// What identifies the bytes, such as `sha256:…`; empty on an empty or blank volume.
    pub digest: String,
    /// Whether a machine can boot from it.
    pub bootable: bool,
}

/// A volume of some storage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// How much fits, in bytes.
    pub capacity: u64,
    /// What is there.
    pub content: Content,
}

/// All volumes and snapshots by handle.
#[derive(Debug, Default)]
pub struct Volumes {
    volumes: RwLock<HashMap<String, Volume>>,
    snapshots: RwLock<HashMap<String, Volume>>,
}

impl Volumes {
    /// Makes an empty volume, or enlarges the one that is there.
    pub fn make(&self, handle: &str, capacity: u64) {
        let mut volumes = self.volumes.write();
        let volume = volumes.entry(handle.to_owned()).or_default();
        volume.capacity = volume.capacity.max(capacity);
    }

    /// A volume.
    pub fn get(&self, handle: &str) -> Option<Volume> {
        self.volumes.read().get(handle).cloned()
    }

    /// Writes content onto a volume; false where there is no such volume.
    pub fn write(&self, handle: &str, content: Content) -> bool {
        self.volumes.write().get_mut(handle).map(|volume| volume.content = content).is_some()
    }

    /// Removes a volume.
    pub fn remove(&self, handle: &str) {
        self.volumes.write().remove(handle);
    }

    /// Takes a snapshot of a volume; false where there is no such volume.
    pub fn snapshot(&self, handle: &str, snapshot: &str) -> bool {
        let Some(volume) = self.get(handle) else { return false };
        self.snapshots.write().insert(snapshot.to_owned(), volume);
        true
    }

    /// What a snapshot holds.
    pub fn snapshot_content(&self, snapshot: &str) -> Option<Volume> {
        self.snapshots.read().get(snapshot).cloned()
    }

    /// Removes a snapshot.
    pub fn remove_snapshot(&self, snapshot: &str) {
        self.snapshots.write().remove(snapshot);
    }
}
