//! What is on the volumes: how much, what it is a copy of, and how much still fits into a pool.

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

/// All volumes and snapshots by handle.
#[derive(Debug, Default)]
pub struct Volumes {
    pools: RwLock<Pools>,
    snapshots: RwLock<HashMap<String, Volume>>,
}

impl Volumes {
    /// Makes an empty volume, or enlarges the one that is there, without counting.
    pub fn make(&self, handle: &str, capacity: u64) {
        let mut pools = self.pools.write();
        let volume = pools.volumes.entry(handle.to_owned()).or_default();
        volume.capacity = volume.capacity.max(capacity);
    }

    /// Makes an empty volume, or enlarges the one that is there, out of what a pool still has.
    pub fn make_in(&self, pool: &str, handle: &str, capacity: u64) -> Result<(), NoSpace> {
        let mut pools = self.pools.write();
        let there = pools.volumes.get(handle).map_or(0, |volume| volume.capacity);
        let wanted = capacity.saturating_sub(there);
        if let Some(free) = pools.free(pool)
            && free < wanted
        {
            return Err(NoSpace { pool: pool.to_owned(), wanted, free });
        }
        let volume = pools.volumes.entry(handle.to_owned()).or_default();
        volume.capacity = volume.capacity.max(capacity);
        pool.clone_into(&mut volume.pool);
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

    /// Writes content onto a volume; false where there is no such volume.
    pub fn write(&self, handle: &str, content: Content) -> bool {
        self.pools.write().volumes.get_mut(handle).map(|volume| volume.content = content).is_some()
    }

    /// Copies what is on one volume onto another; false where one of them is not there.
    pub fn copy(&self, from: &str, to: &str) -> bool {
        let Some(from) = self.get(from) else { return false };
        self.write(to, from.content)
    }

    /// Removes a volume.
    pub fn remove(&self, handle: &str) {
        self.pools.write().volumes.remove(handle);
    }

    /// Takes a snapshot of a volume; false where there is no such volume. One that was taken stays as it is.
    pub fn snapshot(&self, handle: &str, snapshot: &str) -> bool {
        let Some(volume) = self.get(handle) else { return false };
        self.snapshots.write().entry(snapshot.to_owned()).or_insert(volume);
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
        self.snapshots.write().remove(snapshot);
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
}
