//! What is seen of a machine on its platform.

use jiff::Timestamp;

/// What is seen of one machine on its platform, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// Whether its user data is stored where the machine will read it. Platforms that take the user data together
    /// with the machine say so until the machine exists, and then only while there is something secret to erase.
    pub user_data_stored: bool,
    /// Whether what was secret in it is erased, so that nobody need ask for it again.
    pub user_data_erased: bool,
    /// The virtual machine.
    pub vm: Option<VmSeen>,
    /// A run whose virtual machine is gone: as long as it is there, the machine may still be alive.
    pub leftover: Option<Instance>,
    /// The volumes it owns, also those whose machine is gone.
    pub volumes: Vec<VolumeSeen>,
    /// The image it is cloned from, where there is one to wait for.
    pub image: Option<ImageSeen>,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmSeen {
    /// What tells it from every other, also from a later one of the same name.
    pub uid: String,
    /// The identifier its firmware shows to the guest.
    pub firmware_uuid: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When somebody asked for its removal.
    pub deleting: Option<Timestamp>,
    /// The cluster id it carries; empty for a machine that others made.
    pub cluster: String,
    /// The name of the Machine it says it belongs to, and that object's uid, if it says so.
    pub machine_uid: Option<String>,
    /// What runs of it, if anything does.
    pub instance: Option<Instance>,
    /// Why nothing runs, in the platform's own words: a missing volume, a quota, a refused start.
    pub trouble: Option<String>,
    /// How often it has failed to start in a row, and when it is tried again.
    pub crash_loop: Option<(u32, Option<Timestamp>)>,
    /// What differs from what it is to be, as far as it can be changed while it exists.
    pub drift: Vec<Drift>,
    /// A change was made that needs a restart to take effect.
    pub restart_required: bool,
}

/// Something of a machine that differs from what is wished and can be changed in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// What differs, for people: `memory`, `sockets`, `labels`.
    pub what: String,
}

/// A virtual machine that runs, or is on its way to or from that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// What tells this run from the one before: it changes when a machine restarts.
    pub uid: String,
    /// When this run began to exist.
    pub created: Timestamp,
    /// Where it is in its life.
    pub state: InstanceState,
    /// When it began to run.
    pub running_since: Option<Timestamp>,
    /// The host it is on.
    pub host: Option<HostSeen>,
    /// Its addresses, the primary interface's first.
    pub addresses: Vec<Address>,
    /// Whether it can move to another host while it runs, and why not; nothing as long as the platform has not said.
    pub migratable: Option<Result<(), String>>,
    /// Somebody wants it off its host.
    pub evacuation: Option<Evacuation>,
    /// Its latest move.
    pub migration: Option<MigrationSeen>,
}

/// Where an instance is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceState {
    /// It waits for what it needs before a host can be looked for.
    Pending,
    /// A host is looked for; why none was found yet, in the scheduler's words.
    Scheduling(Option<String>),
    /// A host was found; it is being started there.
    Starting,
    /// It runs.
    Running,
    /// It is held.
    Paused,
    /// It ended in the way it was asked to.
    Succeeded,
    /// It ended otherwise, and why.
    Failed(String),
    /// Its host does not say.
    Unknown,
}

impl InstanceState {
    /// Whether it has ended for good.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_))
    }
}

/// The host an instance is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSeen {
    /// Its name.
    pub name: String,
    /// What is known of it.
    pub state: HostState,
    /// Its zone.
    pub zone: Option<String>,
    /// Its region.
    pub region: Option<String>,
}

/// What is known of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// It answers.
    Ready,
    /// It does not answer, since then.
    Silent(Timestamp),
    /// Somebody vouches that it is switched off: it carries the out-of-service taint.
    OutOfService,
    /// Its object is gone: the server itself said so when it was asked.
    Gone,
    /// Its object is not known here, and the server was not asked. That proves nothing: it may be too new.
    NotSeen,
    /// We may not look.
    NotAllowedToLook,
}

/// Somebody wants an instance off its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evacuation {
    /// The host it is to leave.
    pub host: String,
    /// Whether that host still refuses new work; when it does not, the wish is void.
    pub host_cordoned: bool,
}

/// A move from host to host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationSeen {
    /// Its name.
    pub name: String,
    /// Whether we asked for it.
    pub ours: bool,
    /// Where it is.
    pub state: MigrationState,
    /// When it was asked for.
    pub created: Timestamp,
}

/// Where a move is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationState {
    /// It goes on; in the platform's word.
    Going(String),
    /// It succeeded.
    Succeeded,
    /// It failed, and why.
    Failed(String),
}

/// An address of an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// What kind of address.
    pub kind: AddressKind,
    /// The address.
    pub address: String,
}

/// What kind of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// One inside the network.
    InternalIp,
    /// A name.
    InternalDns,
    /// The host name.
    Hostname,
}

/// A volume of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSeen {
    /// Its name.
    pub name: String,
    /// What tells it from a later one of the same name.
    pub uid: String,
    /// Where it is in its making.
    pub state: VolumeState,
    /// When somebody asked for its removal.
    pub deleting: Option<Timestamp>,
}

/// Where a volume is in its making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeState {
    /// It waits, and for what.
    Waiting(String),
    /// It is filled, so far in percent if that is known, in the platform's word for the way.
    Filling {
        /// `import`, `clone`, `snapshot`…
        way: String,
        /// In percent.
        progress: Option<u8>,
    },
    /// It can be used.
    Ready,
    /// It failed, and why; it may still be retried by the platform.
    Failed(String),
}

/// An image on the platform that machines are cloned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// The golden volume's name.
    pub name: String,
    /// Where it is in its making.
    pub state: ImageState,
}

/// Where an image is in its making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageState {
    /// Nobody has asked for it yet.
    Missing,
    /// It is brought in, so far in percent if that is known.
    Importing(Option<u8>),
    /// Machines can be cloned from it.
    Ready,
    /// It failed, and why.
    Failed(String),
}

/// What one machine of a kind has, for an autoscaler that starts from none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Processors, in thousandths.
    pub milli_cpus: u64,
    /// Memory.
    pub memory_bytes: u64,
}
