//! Where what is on the disks of the world is kept: nowhere but in memory, or in a folder that outlives the process.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

/// What is kept, by kind and handle.
const KEPT: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("kept");
/// The pages the engine keeps in memory. Everything is in memory anyway, so it needs few.
const CACHE_BYTES: usize = 4 << 20;

/// Why what is on the disks cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("cannot use the folder {folder} for what is on the disks: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be opened, read or written.
    #[error("cannot keep what is on the disks: {0}")]
    Engine(Box<redb::Error>),
    /// Something in the file is not what we write.
    #[error("what is kept of the {kind} {handle} is damaged: {why}")]
    Damaged {
        /// What it should be.
        kind: String,
        /// Whose it is.
        handle: String,
        /// What is wrong with it, without quoting it.
        why: String,
    },
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

/// Something that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is, such as `volume`.
    pub kind: String,
    /// Whose it is.
    pub handle: String,
    /// It, as bytes; nothing where it goes.
    pub value: Option<Vec<u8>>,
}

/// A place that outlives whoever uses it.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Everything that is kept.
    fn load(&self) -> Result<Vec<Entry>, StoreError>;

    /// Keeps and forgets, all or nothing. What was written is safe when this returns.
    fn commit(&self, entries: &[Entry]) -> Result<(), StoreError>;

    /// A folder for what a program of a guest keeps at a place of a volume and writes by itself. It is made if it is not
    /// there.
    fn folder(&self, handle: &str, place: &str) -> Result<PathBuf, StoreError>;

    /// Removes all folders of a volume.
    fn remove_folders(&self, handle: &str) -> Result<(), StoreError>;
}

/// A folder of this machine: one file for what is on the disks, and a folder for each disk whose programs write by
/// themselves.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    database: Database,
}

impl Folder {
    /// Opens a folder, which is made if it is not there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Folder { folder: path.to_owned(), source };
        make_private(path).map_err(failed)?;
        // The keys of machines are in it, so nobody else may read it.
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("disks.redb"))
            .map_err(failed)?;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_file(file)
            .map_err(|error| StoreError::from(redb::Error::from(error)))?;
        Ok(Self { path: path.to_owned(), database })
    }

    fn of_volume(&self, handle: &str) -> PathBuf {
        self.path.join("volumes").join(file_name(handle))
    }
}

impl Store for Folder {
    fn load(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(read_all(&self.database)?)
    }

    fn commit(&self, entries: &[Entry]) -> Result<(), StoreError> {
        Ok(write(&self.database, entries)?)
    }

    fn folder(&self, handle: &str, place: &str) -> Result<PathBuf, StoreError> {
        let folder = self.of_volume(handle).join(file_name(place));
        make_private(&folder).map_err(|source| StoreError::Folder { folder: folder.clone(), source })?;
        Ok(folder)
    }

    fn remove_folders(&self, handle: &str) -> Result<(), StoreError> {
        let folder = self.of_volume(handle);
        match std::fs::remove_dir_all(&folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Folder { folder, source })
            }
            _ => Ok(()),
        }
    }
}

fn read_all(database: &Database) -> Result<Vec<Entry>, redb::Error> {
    // Opening the table for writing makes it in a new file.
    let transaction = database.begin_write()?;
    drop(transaction.open_table(KEPT)?);
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let mut entries = Vec::new();
    for item in transaction.open_table(KEPT)?.iter()? {
        let (key, value) = item?;
        let ((kind, handle), value) = (key.value(), Some(value.value().to_vec()));
        entries.push(Entry { kind: kind.to_owned(), handle: handle.to_owned(), value });
    }
    Ok(entries)
}

/// Writes in one transaction; when this returns, it is on disk.
fn write(database: &Database, entries: &[Entry]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut kept = transaction.open_table(KEPT)?;
        for Entry { kind, handle, value } in entries {
            let key = (kind.as_str(), handle.as_str());
            match value {
                Some(value) => drop(kept.insert(key, value.as_slice())?),
                None => drop(kept.remove(key)?),
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

fn make_private(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A name for a file that says what it is of: whatever is no letter, digit, dot or dash is written as its number.
fn file_name(text: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::from("_");
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => name.push(char::from(byte)),
            // Writing to a string does not fail.
            other => drop(write!(name, "_{other:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

    use super::*;

    fn entry(handle: &str, value: Option<&[u8]>) -> Entry {
        Entry { kind: "volume".to_owned(), handle: handle.to_owned(), value: value.map(<[u8]>::to_vec) }
    }

    #[test]
    fn what_was_kept_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("world");
        let store = Folder::open(&home).unwrap();
        store.commit(&[entry("a", Some(b"1")), entry("b", Some(b"2"))]).unwrap();
        store.commit(&[entry("a", None), entry("b", Some(b"3"))]).unwrap();
        let own = store.folder("../b", "/var/lib/etcd").unwrap();
        assert!(own.starts_with(home.join("volumes")) && own.is_dir());
        drop(store);
        let store = Folder::open(&home).unwrap();
        assert_eq!(store.load().unwrap(), [entry("b", Some(b"3"))]);
        store.remove_folders("../b").unwrap();
        store.remove_folders("../b").unwrap();
        assert!(!own.exists() && home.is_dir());
    }

    #[test]
    fn names_of_files_are_told_apart() {
        assert_eq!(file_name("pvc-1"), "_pvc-1");
        assert_ne!(file_name("a/b"), file_name("a_2fb"));
        assert!([".", "..", ""].iter().all(|text| file_name(text).starts_with('_')));
    }
}
