//! What is on the volumes: how much, what it is a copy of, and how much still fits into a pool.
//!
//! Where there is a [`Store`] below, everything here is written to it before anybody is told, as a disk does that is
//! asked to flush; and is there again when the next process begins on it.

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use super::store::{Entry, Store, StoreError};
use crate::guests::boot::Boot;

/// The kinds of what is kept.
const VOLUME: &str = "volume";
const SNAPSHOT: &str = "snapshot";
const INSTALLED: &str = "installed";

/// What a volume or a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Content {
    /// How large the disk looks to a guest, in bytes; 0 on an empty volume.
    pub virtual_size: u64,
    /// What identifies the bytes, such as `sha256:…`; empty on an empty or blank volume.
    pub digest: String,
    /// Whether a machine can boot from it.
    pub bootable: bool,
}

/// A volume of some storage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Volume {
    /// How much fits, in bytes.
    pub capacity: u64,
    /// What is there.
    pub content: Content,
    /// The pool it takes its room from; empty where nobody counts.
    pub pool: String,
}

/// A pool that has no room for what was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not enough free space in pool {pool}: requested {wanted} bytes, {free} bytes available")]
pub struct NoSpace {
    /// The pool.
    pub pool: String,
    /// How much more was asked for, in bytes.
    pub wanted: u64,
    /// How much there is, in bytes.
    pub free: u64,
}

#[derive(Debug, Default)]
struct Pools {
    volumes: HashMap<String, Volume>,
    /// How much fits into a pool; a pool that is not here has no end.
    limits: HashMap<String, u64>,
}

impl Pools {
    fn free(&self, pool: &str) -> Option<u64> {
        let limit = self.limits.get(pool)?;
        let taken: u64 =
            self.volumes.values().filter(|volume| volume.pool == pool).map(|volume| volume.capacity).sum();
        Some(limit.saturating_sub(taken))
    }
}

/// What a program of a guest keeps on a disk while this process runs.
pub type Kept = Arc<dyn Any + Send + Sync>;

/// What an instance installed on a volume it booted from.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Installed {
    instance: String,
    boot: Boot,
}

/// All volumes and snapshots by handle.
#[derive(Debug, Default)]
pub struct Volumes {
    pools: RwLock<Pools>,
    snapshots: RwLock<HashMap<String, Volume>>,
    /// What programs of guests keep there, by volume and place.
    kept: RwLock<HashMap<String, HashMap<String, Kept>>>,
    /// What was installed on volumes that machines booted from, and for which instance.
    installed: RwLock<HashMap<String, Installed>>,
    /// What outlives this process, if anything does.
    store: Option<Arc<dyn Store>>,
    /// Why nothing can be kept any more.
    lost: watch::Sender<Option<String>>,
}

impl Volumes {
    /// The volumes that a store holds; whatever happens to them is kept there.
    pub fn in_store(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut volumes = Self::default();
        for Entry { kind, handle, value } in store.load()? {
            let damaged = |why: &str| StoreError::Damaged {
                kind: kind.clone(),
                handle: handle.clone(),
                why: why.to_owned(),
            };
            let bytes = value.unwrap_or_default();
            // Told by its place only: the text around it may be a key.
            let place = |error: serde_json::Error| damaged(&format!("not understood at {}", error.column()));
            match kind.as_str() {
                VOLUME => {
                    let volume = serde_json::from_slice(&bytes).map_err(place)?;
                    volumes.pools.get_mut().volumes.insert(handle, volume);
                }
                SNAPSHOT => {
                    let volume = serde_json::from_slice(&bytes).map_err(place)?;
                    volumes.snapshots.get_mut().insert(handle, volume);
                }
                INSTALLED => {
                    let installed = serde_json::from_slice(&bytes).map_err(place)?;
                    volumes.installed.get_mut().insert(handle, installed);
                }
                _ => return Err(damaged("nothing of this kind is kept")),
            }
        }
        volumes.store = Some(store);
        Ok(volumes)
    }

    /// Why nothing can be kept any more, once that is so: whoever runs the world has to end it then.
    pub fn lost(&self) -> watch::Receiver<Option<String>> {
        self.lost.subscribe()
    }

    /// Keeps something, or forgets it where it is nothing.
    fn save(&self, kind: &str, handle: &str, value: Option<&impl Serialize>) {
        let Some(store) = &self.store else { return };
        let entry = Entry {
            kind: kind.to_owned(),
            handle: handle.to_owned(),
            value: value.map(|value| json!(value).to_string().into_bytes()),
        };
        self.told(store.commit(&[entry]));
    }

    fn told(&self, done: Result<(), StoreError>) {
        if let Err(error) = done {
            tracing::error!(%error, "what is on the disks is not kept any more");
            self.lost.send_if_modified(|lost| {
                let first = lost.is_none();
                lost.get_or_insert_with(|| error.to_string());
                first
            });
        }
    }

    /// Makes an empty volume, or enlarges the one that is there, without counting.
    pub fn make(&self, handle: &str, capacity: u64) {
        let mut pools = self.pools.write();
        let before = pools.volumes.get(handle).cloned();
        let volume = pools.volumes.entry(handle.to_owned()).or_default();
        volume.capacity = volume.capacity.max(capacity);
        if before.as_ref() != Some(volume) {
            self.save(VOLUME, handle, Some(volume));
        }
    }

    /// Makes an empty volume, or enlarges the one that is there, out of what a pool still has.
    pub fn make_in(&self, pool: &str, handle: &str, capacity: u64) -> Result<(), NoSpace> {
        let mut pools = self.pools.write();
        let before = pools.volumes.get(handle).cloned();
        let there = before.as_ref().map_or(0, |volume| volume.capacity);
        let wanted = capacity.saturating_sub(there);
        if let Some(free) = pools.free(pool)
            && free < wanted
        {
            return Err(NoSpace { pool: pool.to_owned(), wanted, free });
        }
        let volume = pools.volumes.entry(handle.to_owned()).or_default();
        volume.capacity = volume.capacity.max(capacity);
        pool.clone_into(&mut volume.pool);
        if before.as_ref() != Some(volume) {
            self.save(VOLUME, handle, Some(volume));
        }
        Ok(())
    }

    /// Sets how much fits into a pool, in bytes; nothing means that it has no end. What is there stays, even where it
    /// is more.
    pub fn limit(&self, pool: &str, limit: Option<u64>) {
        let mut pools = self.pools.write();
        match limit {
            Some(limit) => pools.limits.insert(pool.to_owned(), limit),
            None => pools.limits.remove(pool),
        };
    }

    /// How much still fits into a pool, in bytes; nothing where it has no end.
    pub fn free(&self, pool: &str) -> Option<u64> {
        self.pools.read().free(pool)
    }

    /// A volume.
    pub fn get(&self, handle: &str) -> Option<Volume> {
        self.pools.read().volumes.get(handle).cloned()
    }

    /// Writes content onto a volume, in place of all that was there; false where there is no such volume.
    pub fn write(&self, handle: &str, content: Content) -> bool {
        self.wipe(handle);
        let mut pools = self.pools.write();
        let Some(volume) = pools.volumes.get_mut(handle) else { return false };
        volume.content = content;
        self.save(VOLUME, handle, Some(volume));
        true
    }

    /// Takes away what machines have put onto a volume.
    fn wipe(&self, handle: &str) {
        {
            let mut installed = self.installed.write();
            if installed.remove(handle).is_some() {
                self.save(INSTALLED, handle, None::<&Installed>);
            }
        }
        // What goes is dropped after the lock: it may have much to end.
        let kept = self.kept.write().remove(handle);
        drop(kept);
        if let Some(store) = &self.store {
            self.told(store.remove_folders(handle));
        }
    }

    /// Copies what is on one volume onto another; false where one of them is not there.
    pub fn copy(&self, from: &str, to: &str) -> bool {
        let Some(from) = self.get(from) else { return false };
        self.write(to, from.content)
    }

    /// What the first boot of an instance installed on a volume; nothing where it has not booted from it.
    pub fn installed(&self, handle: &str, instance: &str) -> Option<Boot> {
        let installed = self.installed.read();
        installed.get(handle).filter(|one| one.instance == instance).map(|one| one.boot.clone())
    }

    /// Remembers what an instance installed on a volume.
    pub fn install(&self, handle: &str, instance: &str, boot: Boot) {
        let now = Installed { instance: instance.to_owned(), boot };
        let mut installed = self.installed.write();
        self.save(INSTALLED, handle, Some(&now));
        installed.insert(handle.to_owned(), now);
    }

    /// Writes a file onto a volume that a machine booted from.
    pub fn write_file(&self, handle: &str, path: &str, bytes: Vec<u8>) {
        if let Some(installed) = self.installed.write().get_mut(handle) {
            installed.boot.files.insert(path.to_owned(), bytes);
            self.save(INSTALLED, handle, Some(installed));
        }
    }

    /// Removes a volume.
    pub fn remove(&self, handle: &str) {
        self.wipe(handle);
        let mut pools = self.pools.write();
        if pools.volumes.remove(handle).is_some() {
            self.save(VOLUME, handle, None::<&Volume>);
        }
    }

    /// Keeps something of a guest's program at a place of a volume, for as long as the volume is there and this process
    /// runs.
    pub fn keep(&self, handle: &str, place: &str, what: Kept) {
        // What goes is dropped after the lock: it may have much to end.
        let before = self.kept.write().entry(handle.to_owned()).or_default().insert(place.to_owned(), what);
        drop(before);
    }

    /// What a guest's program kept at a place of a volume.
    pub fn kept(&self, handle: &str, place: &str) -> Option<Kept> {
        self.kept.read().get(handle)?.get(place).cloned()
    }

    /// A folder of this machine for what a guest's program writes at a place of a volume by itself; it goes with the
    /// volume. Nothing where the disks are in memory.
    pub fn folder(&self, handle: &str, place: &str) -> Result<Option<PathBuf>, StoreError> {
        self.store.as_ref().map(|store| store.folder(handle, place)).transpose()
    }

    /// Takes a snapshot of a volume; false where there is no such volume. One that was taken stays as it is.
    pub fn snapshot(&self, handle: &str, snapshot: &str) -> bool {
        let Some(volume) = self.get(handle) else { return false };
        let mut snapshots = self.snapshots.write();
        if !snapshots.contains_key(snapshot) {
            self.save(SNAPSHOT, snapshot, Some(&volume));
            snapshots.insert(snapshot.to_owned(), volume);
        }
        true
    }

    /// What a snapshot holds.
    pub fn snapshot_content(&self, snapshot: &str) -> Option<Volume> {
        self.snapshots.read().get(snapshot).cloned()
    }

    /// Copies what a snapshot holds onto a volume; false where one of them is not there.
    pub fn restore(&self, snapshot: &str, to: &str) -> bool {
        let Some(snapshot) = self.snapshot_content(snapshot) else { return false };
        self.write(to, snapshot.content)
    }

    /// Removes a snapshot.
    pub fn remove_snapshot(&self, snapshot: &str) {
        let mut snapshots = self.snapshots.write();
        if snapshots.remove(snapshot).is_some() {
            self.save(SNAPSHOT, snapshot, None::<&Volume>);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_what_it_has_and_takes_it_back() {
        let volumes = Volumes::default();
        volumes.limit("p", Some(10));
        assert_eq!(volumes.make_in("p", "a", 6), Ok(()));
        assert_eq!(volumes.make_in("p", "a", 6), Ok(()), "the same again takes nothing");
        let full = NoSpace { pool: "p".to_owned(), wanted: 6, free: 4 };
        assert_eq!(volumes.make_in("p", "b", 6), Err(full));
        assert_eq!(volumes.make_in("q", "c", 1 << 50), Ok(()), "a pool without a limit has no end");
        volumes.remove("a");
        assert_eq!(volumes.make_in("p", "b", 6), Ok(()));
        assert_eq!(volumes.free("p"), Some(4));
    }

    #[test]
    fn what_was_installed_goes_with_the_volume() {
        let volumes = Volumes::default();
        volumes.make("a", 1);
        volumes.install("a", "i", Boot { hostname: "h".to_owned(), ..Boot::default() });
        volumes.make("b", 1);
        assert!(volumes.copy("a", "b") && volumes.installed("b", "i").is_none());
        assert!(volumes.installed("a", "i").is_some() && volumes.installed("a", "j").is_none());
        volumes.remove("a");
        assert!(volumes.installed("a", "i").is_none());
    }

    #[test]
    fn a_snapshot_keeps_what_was_there() {
        let volumes = Volumes::default();
        let (old, new) = (
            Content { digest: "old".to_owned(), ..Content::default() },
            Content { digest: "new".to_owned(), ..Content::default() },
        );
        for handle in ["a", "b", "c"] {
            volumes.make(handle, 1);
        }
        assert!(volumes.write("a", old.clone()) && volumes.snapshot("a", "s"));
        assert!(volumes.write("a", new.clone()) && volumes.snapshot("a", "s"));
        assert!(volumes.restore("s", "b") && volumes.copy("a", "c"));
        assert_eq!(volumes.get("b").unwrap().content, old);
        assert_eq!(volumes.get("c").unwrap().content, new);
        assert!(!volumes.copy("nothing", "c") && !volumes.restore("s", "nothing"));
    }

    #[test]
    fn a_store_has_all_of_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let store = crate::world::store::Folder::open(&folder.path().join("world")).unwrap();
            Volumes::in_store(Arc::new(store)).unwrap()
        };
        let volumes = open();
        volumes.make_in("p", "a", 7).unwrap();
        volumes.make("gone", 1);
        assert!(volumes.write("a", Content { digest: "d".to_owned(), ..Content::default() }));
        volumes.install("a", "i", Boot { hostname: "h".to_owned(), ..Boot::default() });
        volumes.write_file("a", "/etc/key", vec![0, 255, 10]);
        assert!(volumes.snapshot("a", "s") && volumes.snapshot("a", "gone"));
        let own = volumes.folder("a", "/var/lib/etcd").unwrap().unwrap();
        std::fs::write(own.join("db"), "data").unwrap();
        volumes.remove("gone");
        volumes.remove_snapshot("gone");
        let before = (volumes.get("a"), volumes.installed("a", "i"), volumes.snapshot_content("s"));
        drop(volumes);

        let volumes = open();
        assert_eq!(before, (volumes.get("a"), volumes.installed("a", "i"), volumes.snapshot_content("s")));
        assert_eq!(volumes.installed("a", "i").unwrap().files["/etc/key"], [0, 255, 10]);
        assert!(volumes.get("gone").is_none() && volumes.snapshot_content("gone").is_none());
        assert_eq!(std::fs::read_to_string(own.join("db")).unwrap(), "data");
        // What is written over has nothing of before; what is removed leaves nothing.
        assert!(volumes.write("a", Content::default()) && volumes.installed("a", "i").is_none());
        assert!(!own.exists() && volumes.lost().borrow().is_none());
        volumes.remove("a");
        assert!(open_fails_while_in_use(folder.path()));
        drop(volumes);
        assert!(open().get("a").is_none());
    }

    fn open_fails_while_in_use(folder: &std::path::Path) -> bool {
        crate::world::store::Folder::open(&folder.join("world")).is_err()
    }

    #[test]
    fn what_is_damaged_is_told_without_being_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::world::store::Folder::open(folder.path()).unwrap();
        let value = Some(b"{\"secret\": ".to_vec());
        store.commit(&[Entry { kind: INSTALLED.to_owned(), handle: "a".to_owned(), value }]).unwrap();
        let error = Volumes::in_store(Arc::new(store)).unwrap_err().to_string();
        assert!(error.contains("installed a is damaged") && !error.contains("secret"), "{error}");
    }
}
