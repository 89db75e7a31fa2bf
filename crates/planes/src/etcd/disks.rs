//! What the members of a cluster have on their disks.
//!
//! Each has a file that says which member it is and what all of them know, written before a change counts. What the API
//! server stores is one file that all disks hold together, as hard links where the disks are folders of this machine: it
//! is there for as long as one of them is, and goes with the last.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use trellis_infra::guests::boot::Boot;
use trellis_infra::guests::{Guest, RootDisk};

use super::cluster::Record;

/// The file in the data directory that says whose it is.
const MEMBER: &str = "member.json";
/// The file that a lab keeps its objects in.
const STORE: &str = "store.redb";

/// What a disk says of the member it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) id: u64,
    pub(super) record: Record,
}

impl Written {
    /// What the disk of a guest says; nothing where it is of no member yet.
    pub(super) fn read(boot: &Boot, data_dir: &str) -> Result<Option<Self>, String> {
        let path = format!("{data_dir}/{MEMBER}");
        let Some(bytes) = boot.files.get(&path) else { return Ok(None) };
        let damaged = |error: serde_json::Error| format!("{path}: not understood at {}", error.column());
        serde_json::from_slice(bytes).map(Some).map_err(damaged)
    }
}

/// The disk of a member.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    root: RootDisk,
    data_dir: String,
}

impl Disk {
    /// The disk of a guest; nothing where all is lost when it is switched off.
    pub(super) fn of(guest: &Guest, data_dir: &str) -> Option<Self> {
        Some(Self { root: guest.root_disk()?, data_dir: data_dir.to_owned() })
    }

    fn write(&self, id: u64, record: &Record) {
        let text = json!(Written { id, record: record.clone() }).to_string();
        self.root.write_file(&format!("{}/{MEMBER}", self.data_dir), text.into_bytes());
    }

    /// The folder of this machine behind its data directory, where there is one.
    fn folder(&self) -> Result<Option<PathBuf>, String> {
        self.root.folder(&self.data_dir).map_err(|error| error.to_string())
    }
}

/// The disks of all members.
#[derive(Debug, Default)]
pub(crate) struct Disks(Mutex<BTreeMap<u64, Disk>>);

impl Disks {
    /// Adds the disk of a member, and puts onto it what the others have.
    pub(super) fn add(&self, member: u64, disk: Disk, record: &Record) -> Result<(), String> {
        disk.write(member, record);
        let mut disks = self.0.lock();
        // A disk is of one member at a time.
        disks.retain(|id, other| *id != member && !other.root.is(&disk.root));
        if let (Some(folder), Some(from)) = (disk.folder()?, stored(&disks)?) {
            link(&from, &folder.join(STORE))?;
        }
        disks.insert(member, disk);
        Ok(())
    }

    /// Writes down what all members know.
    pub(super) fn write(&self, record: &Record) {
        for (id, disk) in self.0.lock().iter() {
            disk.write(*id, record);
        }
    }

    /// The folder for what the API server stores: that of a disk that has it already, or of a member. Nothing where the
    /// disks are in memory.
    pub(crate) fn home(&self, member: u64) -> Result<Option<PathBuf>, String> {
        let disks = self.0.lock();
        if let Some(there) = stored(&disks)? {
            return Ok(there.parent().map(Path::to_owned));
        }
        disks.get(&member).map_or(Ok(None), Disk::folder)
    }

    /// Lets all disks hold what the API server has begun to store in a folder.
    pub(crate) fn share(&self, home: &Path) -> Result<(), String> {
        for disk in self.0.lock().values() {
            if let Some(folder) = disk.folder()?.filter(|folder| folder != home) {
                link(&home.join(STORE), &folder.join(STORE))?;
            }
        }
        Ok(())
    }
}

/// A file of what the API server stores, on whichever disk.
fn stored(disks: &BTreeMap<u64, Disk>) -> Result<Option<PathBuf>, String> {
    for disk in disks.values() {
        if let Some(file) = disk.folder()?.map(|folder| folder.join(STORE)).filter(|file| file.exists()) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Makes one file another one too. What was there before is of a cluster that never was, or the same already.
fn link(from: &Path, to: &Path) -> Result<(), String> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", to.display()));
        }
        _ => {}
    }
    std::fs::hard_link(from, to).map_err(|error| format!("{}: {error}", to.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

    use std::sync::Arc;

    use trellis_infra::world::store::Folder;
    use trellis_infra::world::volumes::Volumes;

    use super::*;

    const DATA: &str = "/var/lib/etcd";

    fn disk(volumes: &Arc<Volumes>, handle: &str) -> Disk {
        if volumes.get(handle).is_none() {
            volumes.make(handle, 1);
            volumes.install(handle, "i", Boot::default());
        }
        Disk { root: RootDisk::new(volumes, handle), data_dir: DATA.to_owned() }
    }

    fn written(volumes: &Volumes, handle: &str) -> Written {
        Written::read(&volumes.installed(handle, "i").unwrap(), DATA).unwrap().unwrap()
    }

    #[test]
    fn every_disk_holds_what_is_stored_until_the_last_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let volumes = Arc::new(Volumes::in_store(Arc::new(Folder::open(folder.path()).unwrap())).unwrap());
        let (disks, record) = (Disks::default(), Record::default());
        for id in [1, 2] {
            disks.add(id, disk(&volumes, &id.to_string()), &record).unwrap();
        }
        let home = disks.home(2).unwrap().unwrap();
        std::fs::write(home.join(STORE), "begun").unwrap();
        disks.share(&home).unwrap();
        // One that comes later has it too, and what one writes all have.
        disks.add(3, disk(&volumes, "3"), &record).unwrap();
        let file = |handle: &str| disk(&volumes, handle).folder().unwrap().unwrap().join(STORE);
        std::fs::write(file("2"), "written").unwrap();
        volumes.remove("2");
        volumes.remove("1");
        assert_eq!(std::fs::read_to_string(file("3")).unwrap(), "written");
        assert_eq!(disks.home(1).unwrap().unwrap().join(STORE), file("3"));
        assert!(!home.exists(), "a disk that is gone has nothing");
        assert_eq!(written(&volumes, "3"), Written { id: 3, record });
    }

    #[test]
    fn disks_in_memory_have_no_folders() {
        let volumes = Arc::new(Volumes::default());
        let disks = Disks::default();
        disks.add(1, disk(&volumes, "1"), &Record::default()).unwrap();
        assert_eq!(disks.home(1).unwrap(), None);
        assert_eq!(written(&volumes, "1").id, 1);
    }

    #[test]
    fn what_cannot_be_read_is_said_without_being_quoted() {
        let mut boot = Boot::default();
        assert_eq!(Written::read(&boot, DATA).unwrap(), None);
        boot.files.insert(format!("{DATA}/{MEMBER}"), b"secret".to_vec());
        let why = Written::read(&boot, DATA).unwrap_err();
        assert!(why.contains(MEMBER) && !why.contains("secret"), "{why}");
    }
}
