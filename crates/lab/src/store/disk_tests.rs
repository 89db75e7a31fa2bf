//! Disks that lose what was not flushed, that fail and that are damaged.

use std::io;

use redb::{Database, StorageBackend};
use serde_json::{Value, json};

use super::*;
use crate::clock;

/// A disk with a cache in front of it, which a power loss empties.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<Sides>>);

#[derive(Debug, Default)]
struct Sides {
    cache: Vec<u8>,
    platter: Vec<u8>,
    ill: Option<Illness>,
}

#[derive(Debug, Clone, Copy)]
enum Illness {
    /// Every flush fails.
    Fails,
    /// The next flush panics.
    Panics,
    /// Flushes do nothing, and say they did.
    Lies,
}

impl Disk {
    /// What is left of it after a power loss.
    fn after_power_loss(&self) -> Self {
        let platter = self.0.lock().platter.clone();
        Self(Arc::new(Mutex::new(Sides { cache: platter.clone(), platter, ill: None })))
    }

    fn falls_ill(&self, illness: Illness) {
        self.0.lock().ill = Some(illness);
    }

    fn open(&self) -> Result<Arc<Store>, StoreError> {
        let database = Database::builder().create_with_backend(self.clone()).unwrap();
        Store::over(Committer::over(database)?, clock::system(), Retention::default(), |_, _| Vec::new())
    }
}

fn range(offset: u64, length: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap();
    start..start + length
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(self.0.lock().cache.len()).unwrap())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.0.lock().cache[range(offset, out.len())]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.lock().cache.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut sides = self.0.lock();
        match sides.ill {
            None => sides.platter = sides.cache.clone(),
            Some(Illness::Lies) => {}
            Some(Illness::Fails) => return Err(io::Error::other("the disk is on fire")),
            Some(Illness::Panics) => {
                sides.ill = None;
                drop(sides);
                panic!("the disk is no more");
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().cache[range(offset, data.len())].copy_from_slice(data);
        Ok(())
    }
}

fn maps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn write(store: &Store, name: &str) -> Result<u64, Refusal> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": name}});
    let draft = Draft::new(&object, Vec::new(), 0);
    store.put(&maps(), &Key::new("ns", name), Expect::Absent, draft).map(|record| record.version)
}

fn has(store: &Store, name: &str) -> bool {
    store.get(&maps(), &Key::new("ns", name)).is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_anybody_was_told_survives_a_power_loss() {
    let disk = Disk::default();
    let store = disk.open().unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, disk) = (Arc::clone(&store), disk.clone());
            tokio::spawn(async move {
                for round in 0..12 {
                    let name = format!("{writer}-{round}");
                    let version = write(&store, &name).unwrap();
                    store.settled(version).await.unwrap();
                    // What was told until now, to this writer and to those who watch.
                    let told = store.events_after(&maps(), 0).unwrap();
                    let left = disk.after_power_loss().open().unwrap();
                    assert!(has(&left, &name), "{name} was acknowledged");
                    assert!(told.iter().all(|event| has(&left, &event.key.name)), "a watcher saw more");
                    assert!(left.version() >= version, "a version is never given twice");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn a_flush_that_is_left_out_is_found_by_this_disk() {
    let disk = Disk::default();
    let store = disk.open().unwrap();
    disk.falls_ill(Illness::Lies);
    store.settled(write(&store, "a").unwrap()).await.unwrap();
    assert!(!has(&disk.after_power_loss().open().unwrap(), "a"));
}

#[tokio::test]
async fn a_lost_disk_is_told_and_refuses_writes() {
    for (illness, reason) in [(Illness::Fails, "on fire"), (Illness::Panics, "panicked")] {
        let disk = Disk::default();
        let store = disk.open().unwrap();
        let safe = write(&store, "before").unwrap();
        store.settled(safe).await.unwrap();
        assert!(store.usable().is_ok());

        disk.falls_ill(illness);
        let version = write(&store, "a").unwrap();
        let told = store.settled(version).await.unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
        let told = store.usable().unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
        assert!(matches!(write(&store, "b"), Err(Refusal::Lost(_))));
        let last = Draft::new(&json!({"metadata": {}}), Vec::new(), 0);
        let removed = store.remove(&maps(), &Key::new("ns", "before"), safe, last);
        assert!(matches!(removed, Err(Refusal::Lost(_))));
        assert!(!has(&store, "b") && has(&store, "before"), "nothing is shown that cannot be kept");
        assert_eq!(store.version(), version);
        assert!(store.settled(safe).await.is_ok());
    }
}

#[test]
fn what_is_queued_is_written_before_the_store_is_gone() {
    let disk = Disk::default();
    let store = disk.open().unwrap();
    for place in 0..100 {
        write(&store, &format!("m{place}")).unwrap();
    }
    drop(store);
    assert_eq!(disk.after_power_loss().open().unwrap().count(&maps()), 100);
}

#[test]
fn names_nobody_gave_are_damage() {
    let disk = Disk::default();
    for row in [&b"configmaps"[..], b"\0configmaps\0ns\0a", b"\xff\0a\0b\0c\0{}"] {
        let database = Database::builder().create_with_backend(disk.clone()).unwrap();
        let table = redb::TableDefinition::<u64, &[u8]>::new("objects");
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert(1, row).unwrap();
        transaction.commit().unwrap();
        drop(database);
        assert!(matches!(disk.open(), Err(StoreError::Misplaced(_))));
    }
}

#[test]
fn objects_of_any_depth_are_read_back() {
    let disk = Disk::default();
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }));
    let object = |depth: usize| -> Value {
        let name = format!("d{depth}");
        json!({"apiVersion": "v1", "kind": "Deep", "metadata": {"name": name, "uid": name}, "spec": nested(depth)})
    };
    let depths = [1, 120, 125, 126, 127, 128, 129, 200, 399, 400, 463];
    let store = disk.open().unwrap();
    for depth in depths {
        let draft = Draft::new(&object(depth), Vec::new(), 0);
        store.put(&maps(), &Key::new("ns", format!("d{depth}")), Expect::Absent, draft).unwrap();
    }
    drop(store);
    let store = disk.open().unwrap();
    for depth in depths {
        let found = store.get(&maps(), &Key::new("ns", format!("d{depth}"))).unwrap().parse();
        assert!(found["spec"] == object(depth)["spec"], "{depth} levels");
        assert!(!decode::is_too_deep(&found));
    }
    assert!(decode::is_too_deep(&object(464)));
}
