//! Running machines: the seam between who runs them (virt-handler) and what happens inside (the guests).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::Instant;

use crate::object::Key;

/// What a machine is started with. Everything was looked up by who starts it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `VirtualMachineInstance`, for its name, firmware and shape.
    pub vmi: Value,
    /// The pod it runs in.
    pub pod: Place,
    /// The drive with the user's data, as a guest finds it.
    pub drive: Drive,
    /// The disks, in the order a firmware tries to boot from them.
    pub disks: Vec<Disk>,
    /// The network interfaces, in the guest's order.
    pub interfaces: Vec<Interface>,
}

/// Where a machine runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The pod.
    pub pod: Key,
    /// Its uid.
    pub pod_uid: String,
    /// The host.
    pub node: String,
}

/// What a guest finds on the drive that was made for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drive {
    /// The label of the file system: `cidata`, `config-2`, or nothing where there is no such drive.
    pub label: String,
    /// The files by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the firmware hands to Ignition, if anything.
    pub firmware_config: Option<Vec<u8>>,
    /// The other drives made of Secrets and ConfigMaps: the files by label and path.
    pub others: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

/// A disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Disk {
    /// The name in the machine's specification.
    pub name: String,
    /// The bus it is on, such as `virtio`.
    pub bus: String,
    /// The device in the guest, such as `vda`. Where it is taken when the disk is added, or nothing is asked for, the
    /// machine picks one: only it knows which are free.
    pub target: String,
    /// The serial the guest sees; may be empty.
    pub serial: String,
    /// The handle of the volume behind it; empty for what comes with a container image.
    pub volume: String,
    /// Whether it can be booted from.
    pub bootable: bool,
    /// How large it looks, in bytes.
    pub size: u64,
}

impl Disk {
    /// The device of the `index`-th disk on a bus.
    pub fn device(bus: &str, index: usize) -> String {
        let mut letters = String::new();
        let mut rest = index;
        loop {
            letters.insert(0, char::from(b'a' + u8::try_from(rest % 26).unwrap_or_default()));
            match rest / 26 {
                0 => break,
                more => rest = more - 1,
            }
        }
        format!("{}{letters}", family(bus))
    }

    /// Adds it to others, in place of one of its name, at a device that is free.
    pub fn join(mut self, others: &mut Vec<Self>) {
        others.retain(|other| other.name != self.name);
        let taken = |target: &str| others.iter().any(|other| other.target == target);
        if !self.target.starts_with(family(&self.bus)) || taken(&self.target) {
            // One more than there are disks, one is free.
            let free =
                (0..=others.len()).map(|index| Self::device(&self.bus, index)).find(|target| !taken(target));
            self.target = free.unwrap_or_default();
        }
        others.push(self);
    }
}

/// What the devices of a bus begin with.
fn family(bus: &str) -> &'static str {
    match bus {
        "virtio" => "vd",
        "fdc" => "fd",
        _ => "sd",
    }
}

/// A network interface of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// The name in the machine's specification.
    pub name: String,
    /// The hardware address.
    pub mac: String,
    /// The network: empty for the pod network, else the key of a network attachment.
    pub network: String,
    /// The addresses others reach the machine by.
    pub addresses: Vec<IpAddr>,
}

/// How a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum State {
    /// Being started.
    #[default]
    Starting,
    /// Running, whatever the guest does.
    Running,
    /// Held.
    Paused,
    /// Off, because the guest or its user wanted it so.
    Shutdown,
    /// Off, because something went wrong.
    Crashed(String),
    /// Off, because it was switched off.
    Destroyed,
}

impl State {
    /// Whether the machine is off.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Shutdown | Self::Crashed(_) | Self::Destroyed)
    }
}

/// What can be done to a machine from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Presses the power button: a guest that listens shuts down.
    Shutdown,
    /// Takes away the power.
    Destroy,
    /// Holds it.
    Pause,
    /// Lets it go on.
    Resume,
    /// Presses reset.
    Reset,
    /// Asks the guest to start anew.
    Reboot,
    /// Makes the guest panic.
    Panic(String),
    /// Adds a disk.
    Attach(Disk),
    /// Takes away the disk of a name.
    Detach(String),
    /// Goes on at another place, after a live migration.
    Move(Place, Vec<Interface>),
}

/// What the agent in a guest tells; the fields are those of `guestosinfo`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agent {
    /// The operating system, as in `status.guestOSInfo`.
    pub os: Value,
    /// The name of the host.
    pub hostname: String,
    /// The interfaces as the guest sees them: name in the guest, hardware address and addresses.
    pub interfaces: Vec<(String, String, Vec<IpAddr>)>,
    /// Who is logged in, as in `userlist`.
    pub users: Value,
    /// The file systems, as in `filesystemlist`.
    pub filesystems: Value,
    /// Until when the file systems are frozen, where they are.
    pub frozen: Option<Thaw>,
}

/// When frozen file systems thaw by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thaw {
    /// At a moment.
    At(Instant),
    /// Not before somebody asks for it.
    Asked,
}

impl Agent {
    /// Whether the file systems are frozen now. Nothing has to wake up for them to thaw, so that the end of one freeze
    /// cannot be taken for that of the next.
    pub fn is_frozen(&self) -> bool {
        match self.frozen {
            None => false,
            Some(Thaw::Asked) => true,
            Some(Thaw::At(end)) => Instant::now() < end,
        }
    }
}

/// Something one viewer at a time can hold: a console, a screen. A new viewer takes it from the one before.
#[derive(Debug)]
pub struct Sessions {
    last: watch::Sender<u64>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { last: watch::Sender::new(0) }
    }
}

impl Sessions {
    /// Begins a session, which ends the one before.
    pub fn take(&self) -> Session {
        let mut number = 0;
        self.last.send_modify(|last| {
            *last += 1;
            number = *last;
        });
        Session { number, last: self.last.subscribe() }
    }

    /// Whether somebody holds it.
    pub fn is_taken(&self) -> bool {
        self.last.receiver_count() > 0
    }
}

/// A viewer's hold on something, until it is dropped or another takes it.
#[derive(Debug)]
pub struct Session {
    number: u64,
    last: watch::Receiver<u64>,
}

impl Session {
    /// Waits until another viewer has taken over.
    pub async fn ended(mut self) {
        let number = self.number;
        // Fails when what was viewed is gone, which ends the session just as well.
        let _ = self.last.wait_for(|last| *last != number).await;
    }
}

/// How much of what a console showed is kept.
const SCROLLBACK: usize = 64 * 1024;

/// The serial console of a machine.
#[derive(Debug)]
pub struct Console {
    shown: broadcast::Sender<Bytes>,
    typed: broadcast::Sender<Bytes>,
    scrollback: Mutex<VecDeque<u8>>,
    /// Who looks at it.
    pub sessions: Sessions,
}

impl Default for Console {
    fn default() -> Self {
        Self {
            shown: broadcast::Sender::new(1024),
            typed: broadcast::Sender::new(1024),
            scrollback: Mutex::default(),
            sessions: Sessions::default(),
        }
    }
}

impl Console {
    /// Shows something.
    pub fn show(&self, text: &str) {
        let mut scrollback = self.scrollback.lock();
        scrollback.extend(text.as_bytes());
        let excess = scrollback.len().saturating_sub(SCROLLBACK);
        scrollback.drain(..excess);
        // Nobody may be looking.
        let _ = self.shown.send(Bytes::copy_from_slice(text.as_bytes()));
    }

    /// What was shown so far, and what will be.
    pub fn look(&self) -> (Vec<u8>, broadcast::Receiver<Bytes>) {
        let scrollback = self.scrollback.lock();
        (scrollback.iter().copied().collect(), self.shown.subscribe())
    }

    /// Types something.
    pub fn type_in(&self, bytes: Bytes) {
        // A guest that is off does not listen.
        let _ = self.typed.send(bytes);
    }

    /// What is typed from now on; for the guest.
    pub fn keyboard(&self) -> broadcast::Receiver<Bytes> {
        self.typed.subscribe()
    }
}

/// A running machine.
#[derive(Debug)]
pub struct Machine {
    plan: RwLock<Plan>,
    /// The uids of the pods it ran in before.
    left: RwLock<BTreeSet<String>>,
    state: watch::Sender<State>,
    /// Whether who runs it has let go of it.
    gone: watch::Sender<bool>,
    agent: watch::Sender<Option<Agent>>,
    commands: mpsc::UnboundedSender<Command>,
    /// The serial console.
    pub console: Console,
    /// Who looks at the screen.
    pub display: Sessions,
}

impl Machine {
    /// A machine that is being started, and the commands its guest has to obey.
    pub fn new(plan: Plan) -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let machine = Self {
            plan: RwLock::new(plan),
            left: RwLock::default(),
            state: watch::Sender::default(),
            gone: watch::Sender::default(),
            agent: watch::Sender::default(),
            commands,
            console: Console::default(),
            display: Sessions::default(),
        };
        (Arc::new(machine), receiver)
    }

    /// What it was started with, as it is now.
    pub fn plan(&self) -> Plan {
        self.plan.read().clone()
    }

    /// Changes what it is made of; for the guest that carries out a command. Whoever follows the state is told.
    pub fn change_plan(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.write();
        let before = plan.pod.pod_uid.clone();
        change(&mut plan);
        if plan.pod.pod_uid != before {
            self.left.write().insert(before);
        }
        drop(plan);
        self.state.send_modify(|_| {});
    }

    /// Whether it ran in a pod, by uid, and has gone on elsewhere.
    pub fn has_left(&self, pod: &str) -> bool {
        self.left.read().contains(pod)
    }

    /// How it is, and will be.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Says how it is; for the guest. What is over stays over.
    pub fn set_state(&self, state: State) {
        self.state.send_if_modified(|old| {
            let changes = !old.is_over() && *old != state;
            if changes {
                *old = state;
            }
            changes
        });
    }

    /// Waits until who runs it has let go of it: how it ended is told.
    pub async fn gone(&self) {
        // The sender is the machine's own.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// What its agent tells, if one is connected.
    pub fn agent(&self) -> watch::Receiver<Option<Agent>> {
        self.agent.subscribe()
    }

    /// Says what the agent tells; for the guest.
    pub fn set_agent(&self, agent: Option<Agent>) {
        self.agent.send_if_modified(|old| {
            let changes = *old != agent;
            *old = agent;
            changes
        });
    }

    /// Does something to it.
    pub fn command(&self, command: Command) {
        // A machine that is off obeys nothing.
        let _ = self.commands.send(command);
    }
}

/// The machines that run, by the uid of their `VirtualMachineInstance`.
#[derive(Debug, Default)]
pub struct Machines {
    running: RwLock<HashMap<String, Arc<Machine>>>,
    listeners: Mutex<Vec<mpsc::UnboundedSender<Arc<Machine>>>>,
}

impl Machines {
    /// Remembers a machine.
    pub fn add(&self, uid: &str, machine: Arc<Machine>) {
        self.listeners.lock().retain(|listener| listener.send(Arc::clone(&machine)).is_ok());
        self.running.write().insert(uid.to_owned(), machine);
    }

    /// Each machine that is added from now on.
    pub fn added(&self) -> mpsc::UnboundedReceiver<Arc<Machine>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.lock().push(sender);
        receiver
    }

    /// A machine.
    pub fn get(&self, uid: &str) -> Option<Arc<Machine>> {
        self.running.read().get(uid).cloned()
    }

    /// Forgets a machine.
    pub fn remove(&self, uid: &str) {
        let machine = self.running.write().remove(uid);
        if let Some(machine) = machine {
            machine.gone.send_replace(true);
        }
    }

    /// All machines on a host.
    pub fn on(&self, node: &str) -> Vec<Arc<Machine>> {
        let running = self.running.read();
        running.values().filter(|machine| machine.plan.read().pod.node == node).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_in_letters() {
        assert_eq!(
            [0, 25, 26, 27, 701, 702].map(|index| Disk::device("virtio", index)),
            ["vda", "vdz", "vdaa", "vdab", "vdzz", "vdaaa"]
        );
        assert_eq!((Disk::device("sata", 0), Disk::device("fdc", 1)), ("sda".to_owned(), "fdb".to_owned()));
    }

    #[test]
    fn a_disk_is_added_where_nothing_is() {
        let disk = |name: &str, bus: &str, target: &str| Disk {
            name: name.to_owned(),
            bus: bus.to_owned(),
            target: target.to_owned(),
            ..Disk::default()
        };
        let mut disks = vec![disk("root", "virtio", "vda")];
        for (name, bus, target, got) in [
            ("a", "scsi", "", "sda"),
            ("b", "scsi", "", "sdb"),
            ("c", "virtio", "vda", "vdb"),
            ("d", "scsi", "sdf", "sdf"),
            // The same once more: it is not there twice, and keeps its place.
            ("b", "scsi", "sdb", "sdb"),
        ] {
            disk(name, bus, target).join(&mut disks);
            assert_eq!(disks.last().map(|disk| disk.target.as_str()), Some(got), "{name}");
        }
        assert_eq!(disks.len(), 5);
    }
}
