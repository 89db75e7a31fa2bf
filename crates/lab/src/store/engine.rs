//! The disk: an embedded engine with atomic commits, written by one thread for all.
//!
//! While one batch is on its way to the disk the next one gathers, so the number of commits adapts to the disk
//! and the number of writers: one writer has a commit of its own, a thousand share one.
//!
//! Objects are kept by their version. What is created has the greatest one, so the objects of a batch are written
//! side by side, wherever their names would put them, and a commit is a few pages.

use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, current};

use parking_lot::{Condvar, Mutex};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::news::News;
use super::{Change, EventKind, Key, Told};
use crate::auth::open_private_file;
use crate::names::GroupResource;

/// Objects by version, each after its resource, namespace and name.
const OBJECTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("objects");
/// Numbers of the store itself.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The version of the newest removal. That of any other newest write is there with its object.
const REMOVED: &str = "removed";
/// The pages the engine keeps in memory. Objects are all in memory anyway, so it needs few.
const CACHE_BYTES: usize = 16 << 20;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened.
    #[error("cannot open the store {path}: {source}")]
    Open {
        /// The file.
        path: String,
        /// What the engine says.
        source: Box<redb::Error>,
    },
    /// The engine cannot read its own data.
    #[error("cannot read the store: {0}")]
    Read(Box<redb::Error>),
    /// An object in the store is not JSON.
    #[error("the store is damaged: {what} is not a JSON object ({source})")]
    Damaged {
        /// The object.
        what: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Something in the store has a name we never give.
    #[error("the store is damaged: what has version {0} has no name of an object")]
    Misplaced(u64),
    /// The thread that writes cannot be started.
    #[error("cannot start the thread that writes the store: {0}")]
    Thread(std::io::Error),
    /// A write failed, so nothing can be promised any more.
    #[error("the store cannot be written any more: {0}")]
    Lost(String),
}

/// A write on its way to the disk.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) change: Arc<Change>,
    pub(super) key: Key,
    pub(super) published: Arc<News>,
}

/// The queue in front of the disk.
#[derive(Debug)]
pub(super) struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    entries: Vec<Entry>,
    closed: bool,
}

/// What a store holds when it is opened.
type Stored = Vec<Row>;

/// An object as it was read.
pub(super) struct Row {
    pub(super) version: u64,
    pub(super) of: GroupResource,
    pub(super) key: Key,
    pub(super) body: Vec<u8>,
}

/// A disk, the newest version on it, and all objects.
pub(super) type Opened = (Committer, u64, Stored);

impl Committer {
    /// Opens the file and reads everything in it.
    pub(super) fn open(path: &Path) -> Result<Opened, StoreError> {
        let opening = |source: redb::Error| StoreError::Open {
            path: path.display().to_string(),
            source: Box::new(source),
        };
        // Secrets are in it, so nobody else may read it.
        let file = open_private_file(path).map_err(|error| opening(error.into()))?;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_file(file)
            .map_err(|error| opening(error.into()))?;
        Self::over(database)
    }

    /// Reads everything in a database.
    pub(super) fn over(database: Database) -> Result<Opened, StoreError> {
        let (version, rows) = read_all(&database).map_err(|error| StoreError::Read(Box::new(error)))?;
        let mut stored = Vec::with_capacity(rows.len());
        for (version, row) in rows {
            let (of, key, body) = read_row(&row).ok_or(StoreError::Misplaced(version))?;
            stored.push(Row { version, of, key, body: body.to_vec() });
        }
        let shared = Shared { database, queue: Mutex::default(), filled: Condvar::new() };
        Ok((Self { shared: Arc::new(shared), thread: None }, version, stored))
    }

    /// Starts the thread that writes. It ends when the store is dropped and the queue is empty.
    pub(super) fn start(&mut self, told: Arc<Told>) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("lab-store".to_owned())
            .spawn(move || commit_until_closed(&shared, &told))
            .map_err(StoreError::Thread)?;
        self.thread = Some(thread);
        Ok(())
    }

    pub(super) fn enqueue(&self, entry: Entry) {
        let mut queue = self.shared.queue.lock();
        queue.entries.push(entry);
        if queue.entries.len() == 1 {
            self.shared.filled.notify_one();
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.filled.notify_one();
        // Whoever opens the file next finds it whole and free. The thread cannot wait for itself, should a task it
        // woke have been the last to hold the store.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != current().id()) {
            // Its panic was told by its guard.
            drop(thread.join());
        }
    }
}

/// Tells everybody when the thread that writes ends before its time.
struct Guard<'a>(&'a Told);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lost("the thread that writes the store has panicked");
        }
    }
}

fn commit_until_closed(shared: &Shared, told: &Told) {
    let _guard = Guard(told);
    loop {
        let batch = {
            let mut queue = shared.queue.lock();
            while queue.entries.is_empty() && !queue.closed {
                shared.filled.wait(&mut queue);
            }
            if queue.entries.is_empty() {
                return;
            }
            std::mem::take(&mut queue.entries)
        };
        let written = commit(&shared.database, &batch);
        match written {
            Ok(()) => told.committed(&batch),
            Err(error) => {
                told.lost(&error.to_string());
                shared.queue.lock().entries.clear();
                return;
            }
        }
    }
}

/// Writes a batch in one transaction; when this returns, it is on disk.
fn commit(database: &Database, batch: &[Entry]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut row = Vec::new();
        for Entry { change, key, .. } in batch {
            if let Some(before) = &change.event.before {
                objects.remove(before.version)?;
            }
            if change.event.kind != EventKind::Deleted {
                write_row(&mut row, &change.of, key, &change.event.record.body);
                objects.insert(change.event.record.version, row.as_slice())?;
            }
        }
        if let Some(last) = batch.last().filter(|last| last.change.event.kind == EventKind::Deleted) {
            transaction.open_table(NUMBERS)?.insert(REMOVED, last.change.event.record.version)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// What is written down of all objects, by their versions.
type Rows = Vec<(u64, Vec<u8>)>;

/// The newest version, and all rows.
fn read_all(database: &Database) -> Result<(u64, Rows), redb::Error> {
    // Opening the tables for writing creates them in a new file.
    let transaction = database.begin_write()?;
    let removed = transaction.open_table(NUMBERS)?.get(REMOVED)?.map_or(0, |number| number.value());
    drop(transaction.open_table(OBJECTS)?);
    transaction.commit()?;

    let transaction = database.begin_read()?;
    let objects = transaction.open_table(OBJECTS)?;
    let mut stored = Vec::new();
    for item in objects.iter()? {
        let (version, row) = item?;
        stored.push((version.value(), row.value().to_vec()));
    }
    let newest = stored.last().map_or(removed, |(version, _)| removed.max(*version));
    Ok((newest, stored))
}

/// Makes the row of an object: its names, each ended by a byte that no name contains, and the object.
fn write_row(row: &mut Vec<u8>, of: &GroupResource, key: &Key, body: &[u8]) {
    row.clear();
    for name in [&of.group, &of.resource, &key.namespace, &key.name] {
        row.extend_from_slice(name.as_bytes());
        row.push(0);
    }
    row.extend_from_slice(body);
}

fn read_row(row: &[u8]) -> Option<(GroupResource, Key, &[u8])> {
    let mut parts = row.splitn(5, |byte| *byte == 0);
    let mut name = || std::str::from_utf8(parts.next()?).ok();
    let of = GroupResource::new(name()?, name()?);
    let key = Key::new(name()?, name()?);
    Some((of, key, parts.next()?))
}
